# The front's side, and cadre-assist, the process that holds libclang.
noinst_LTLIBRARIES += libassist.la
libassist_la_SOURCES = kernel/assist/assist.h kernel/assist/assist.c kernel/assist/protocol.h \
    kernel/assist/folder.h kernel/assist/folder.c
libassist_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
libassist_la_LIBADD = libbase.la $(JANSSON_LIBS)

if HAVE_LIBCLANG
pkglibexec_PROGRAMS += cadre-assist
cadre_assist_SOURCES = kernel/assist/clang.h kernel/assist/protocol.h kernel/assist/main.c \
    kernel/assist/complete.c kernel/assist/inspect.c kernel/assist/folder.h kernel/assist/folder.c
cadre_assist_CPPFLAGS = $(AM_CPPFLAGS) $(CLANG_CFLAGS) $(JANSSON_CFLAGS)
cadre_assist_LDADD = libbase.la $(CLANG_LIBS) $(JANSSON_LIBS) -lpthread
endif
