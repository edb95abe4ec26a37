noinst_LTLIBRARIES += libsession.la
libsession_la_SOURCES = kernel/session/session.h kernel/session/front.h kernel/session/front.c \
    kernel/session/requests.c kernel/session/execution.h kernel/session/queue.c \
    kernel/session/execute.c kernel/session/input.c kernel/session/outcome.c kernel/session/hosting.c \
    kernel/session/engine.c kernel/session/assist.h kernel/session/assist.c \
    kernel/session/complete.c kernel/session/inspect.c kernel/session/usage.c \
    kernel/session/streams.h kernel/session/streams.c kernel/session/history.h \
    kernel/session/history.c kernel/session/recorder.c kernel/session/journal.c kernel/session/parameters.h \
    kernel/session/parameters.c kernel/session/inline.c \
    kernel/session/comms.h kernel/session/comms.c kernel/session/lifeline.h kernel/session/lifeline.c kernel/session/manual.h kernel/session/manual.c kernel/session/rest.h kernel/session/rest.c \
    kernel/session/worker.h kernel/session/worker.c \
    runtime/cpu/cpu.c runtime/cpu/quota.c
libsession_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/kernel
libsession_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(SQLITE_CFLAGS) $(ZLIB_CFLAGS) -pthread
libsession_la_LIBADD = libwire.la $(SQLITE_LIBS) $(ZLIB_LIBS)

bin_PROGRAMS += cadre-kernel
cadre_kernel_SOURCES = kernel/session/main.c
cadre_kernel_LDADD = libsession.la libcell.la libhost.la libassist.la
