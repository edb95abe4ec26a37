# Loading: libload.la for the host program (no libdw), libtypes.la for the front.
noinst_LTLIBRARIES += libload.la
libload_la_SOURCES = \
    kernel/cell/load.h \
    kernel/cell/load_internal.h \
    kernel/cell/load_build.h \
    kernel/cell/load_add.c \
    kernel/cell/load_arena.c \
    kernel/cell/load_bind.c \
    kernel/cell/load_builtins.c \
    kernel/cell/load_check.c \
    kernel/cell/load_debug.c \
    kernel/cell/load_keep.c \
    kernel/cell/load_layout.c \
    kernel/cell/load_library.c \
    kernel/cell/load_module.c \
    kernel/cell/load_names.c \
    kernel/cell/load_needs.c \
    kernel/cell/load_object.c \
    kernel/cell/load_relocate.c \
    kernel/cell/load_symfile.c \
    kernel/cell/load_thread.c
# The unwinder must be the one of libgcc_s, which backtrace() uses too.
libload_la_LIBADD = -lgcc_s

noinst_LTLIBRARIES += libtypes.la
libtypes_la_SOURCES = \
    kernel/cell/types.h \
    kernel/cell/types_internal.h \
    kernel/cell/types.c \
    kernel/cell/types_format.c \
    kernel/cell/types_scalar.c \
    kernel/cell/types_signature.c \
    kernel/cell/library_search.h kernel/cell/library_search.c \
    kernel/cell/load_needs.c
libtypes_la_CPPFLAGS = $(AM_CPPFLAGS) $(DW_CFLAGS) $(JANSSON_CFLAGS)
libtypes_la_LIBADD = $(DW_LIBS)
