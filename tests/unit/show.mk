if HAVE_CHECK
check_PROGRAMS += tests/unit/test_show
TESTS += tests/unit/test_show
tests_unit_test_show_SOURCES = tests/unit/test_show.c
tests_unit_test_show_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_show_LDADD = libcadre_whole.la $(JANSSON_LIBS) $(CHECK_LIBS)
endif
