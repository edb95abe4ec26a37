# libcadre, its headers and cadre.pc.
#
# Each module's local.mk adds its sources to libcadre_la_SOURCES and its installed headers to a
# list of its own, so that they land beside each other as in the source tree:
# $(includedir)/cadre/cadre.h, .../cadre/data/data.h and so on. cadre.pc adds
# -I$(includedir)/cadre, so that programs write #include <cadre.h>.
# Only what is marked CADRE_API is exported: everything is compiled with hidden visibility.
cadreincludedir = $(includedir)/cadre
cadreinclude_HEADERS = runtime/cadre.h

pkgconfig_DATA = runtime/cadre.pc

lib_LTLIBRARIES += libcadre.la
libcadre_la_SOURCES =
libcadre_la_CPPFLAGS = $(AM_CPPFLAGS) $(OPENBLAS_CFLAGS) $(SODIUM_CFLAGS) $(JANSSON_CFLAGS) \
    $(ZMQ_CFLAGS)
libcadre_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -Wl,-z,defs
# libwire.la has libbase.la in it.
libcadre_la_LIBADD = libwire.la $(OPENBLAS_LIBS) $(SODIUM_LIBS) $(JANSSON_LIBS) -lm

# The same sources with every symbol within reach, for the unit tests.
check_LTLIBRARIES += libcadre_whole.la
libcadre_whole_la_SOURCES = $(libcadre_la_SOURCES)
libcadre_whole_la_CPPFLAGS = $(libcadre_la_CPPFLAGS)
libcadre_whole_la_LIBADD = $(libcadre_la_LIBADD)

libcadre_la_SOURCES += runtime/base/error_handler.c runtime/base/interrupt.c
cadrebaseincludedir = $(cadreincludedir)/base
cadrebaseinclude_HEADERS = runtime/base/base.h runtime/base/error_handler.h \
    runtime/base/interrupt.h

include runtime/cpu/local.mk
include runtime/data/local.mk
include runtime/loop/local.mk
include runtime/model/local.mk
include runtime/notebook/local.mk
include runtime/show/local.mk
include runtime/store/local.mk
