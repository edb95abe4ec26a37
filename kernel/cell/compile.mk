# The compile service.
noinst_LTLIBRARIES += libcompile.la
libcompile_la_SOURCES = kernel/cell/compile.h kernel/cell/compile_internal.h \
    kernel/cell/compile.c kernel/cell/compile_child.c kernel/cell/compile_options.c \
    kernel/cell/compile_plain.c kernel/cell/compile_link.c kernel/cell/compile_key.c \
    kernel/cell/compile_server.c kernel/cell/compile_warm.c kernel/cell/compile_ahead.c \
    kernel/cell/compile_keep.c \
    kernel/cell/cache.c kernel/cell/cache.h kernel/cell/plugin/warm.h
libcompile_la_CPPFLAGS = $(AM_CPPFLAGS) $(SODIUM_CFLAGS) -DCADRE_PKGLIBDIR='"$(pkglibdir)"'
libcompile_la_LIBADD = libbase.la $(SODIUM_LIBS)

# What turns gcc's cc1 and as into servers. They are loaded into programs that are not ours, so
# never with a sanitizer.
pkglib_LTLIBRARIES = cadre_warm_cc1.la cadre_warm_as.la
warm_cflags = -std=gnu17 -g $(WARN_CFLAGS) -fvisibility=hidden
warm_ldflags = -module -avoid-version -shared
cadre_warm_cc1_la_SOURCES = kernel/cell/plugin/warm.c kernel/cell/plugin/warm_cc1.c \
    kernel/cell/plugin/warm.h
cadre_warm_cc1_la_CFLAGS = $(warm_cflags)
cadre_warm_cc1_la_LDFLAGS = $(warm_ldflags)
cadre_warm_as_la_SOURCES = kernel/cell/plugin/warm.c kernel/cell/plugin/warm_as.c \
    kernel/cell/plugin/warm.h
cadre_warm_as_la_CFLAGS = $(warm_cflags)
cadre_warm_as_la_LDFLAGS = $(warm_ldflags)
