if HAVE_CHECK
check_PROGRAMS += tests/unit/test_cli
TESTS += tests/unit/test_cli
tests_unit_test_cli_SOURCES = tests/unit/test_cli.c $(cadre_cli_sources)
tests_unit_test_cli_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_cli_LDADD = libcell.la libcadre.la libbase.la $(JANSSON_LIBS) $(CHECK_LIBS)
endif
