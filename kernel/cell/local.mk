# kernel/cell: the engine. Compiling (compile.mk) and loading (load.mk) are libraries of their own.
noinst_LTLIBRARIES += libcell.la
libcell_la_SOURCES = \
    kernel/cell/cell.h \
    kernel/cell/arena.c kernel/cell/arena.h \
    kernel/cell/assist_unit.c \
    kernel/cell/complete.c \
    kernel/cell/conditions.c \
    kernel/cell/constant.c \
    kernel/cell/declare.c kernel/cell/declare.h \
    kernel/cell/diagnostics.c kernel/cell/diagnostics.h \
    kernel/cell/emit.c kernel/cell/emit.h \
    kernel/cell/engine.c kernel/cell/engine_internal.h \
    kernel/cell/entries.c kernel/cell/entries.h \
    kernel/cell/headers.c kernel/cell/headers.h \
    kernel/cell/macros.c kernel/cell/macros.h \
    kernel/cell/magics.c kernel/cell/magics.h \
    kernel/cell/magics_files.c \
    kernel/cell/magics_flags.c \
    kernel/cell/magics_names.c \
    kernel/cell/magics_save.c \
    kernel/cell/magics_shell.c \
    kernel/cell/magics_store.c \
    kernel/cell/magics_time.c \
    kernel/cell/map.c kernel/cell/map.h \
    kernel/cell/names.c kernel/cell/names.h \
    kernel/cell/parameters.c kernel/cell/parameters.h \
    kernel/cell/plan.c \
    kernel/cell/prepare.c kernel/cell/prepare_compile.c kernel/cell/preparation.h \
    kernel/cell/read.c kernel/cell/read.h \
    kernel/cell/session.c kernel/cell/session.h \
    kernel/cell/split.c kernel/cell/split.h \
    kernel/cell/stored.c kernel/cell/stored.h \
    kernel/cell/tokens.c kernel/cell/tokens.h \
    kernel/cell/translate.c kernel/cell/translate.h \
    kernel/cell/uses.c kernel/cell/uses.h \
    kernel/cell/write_session.c kernel/cell/write_variables.c kernel/cell/writer.h
libcell_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(SODIUM_CFLAGS)
libcell_la_LIBADD = libcompile.la libtypes.la libbase.la $(JANSSON_LIBS) -lm
