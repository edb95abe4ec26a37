# The command line `cadre`: one file per subcommand, main.c has their table.
bin_PROGRAMS += cadre
cadre_cli_sources = runtime/cli/cli.h \
    runtime/cli/specs.h runtime/cli/specs.c \
    runtime/cli/limits.h runtime/cli/limits.c runtime/cli/cgroup.c \
    runtime/cli/run.c runtime/cli/env.c runtime/cli/kernelspec.c runtime/cli/doctor.c
cadre_SOURCES = runtime/cli/main.c $(cadre_cli_sources)
cadre_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
# libcell.la: only its pure functions, for the names that a notebook declares.
cadre_LDADD = libcell.la libcadre.la libbase.la $(JANSSON_LIBS)
