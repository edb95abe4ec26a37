# The compile service.
noinst_LTLIBRARIES += libcompile.la
libcompile_la_SOURCES = kernel/cell/compile.h kernel/cell/compile_internal.h \
    kernel/cell/compile.c kernel/cell/compile_child.c kernel/cell/compile_options.c \
    kernel/cell/compile_plain.c kernel/cell/compile_link.c kernel/cell/compile_key.c \
    kernel/cell/cache.c kernel/cell/cache.h
libcompile_la_CPPFLAGS = $(AM_CPPFLAGS) $(SODIUM_CFLAGS) -DCADRE_PKGLIBDIR='"$(pkglibdir)"'
libcompile_la_LIBADD = libbase.la $(SODIUM_LIBS)
