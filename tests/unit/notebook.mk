if HAVE_CHECK
check_PROGRAMS += tests/unit/test_notebook
TESTS += tests/unit/test_notebook
tests_unit_test_notebook_SOURCES = tests/unit/test_notebook.c
tests_unit_test_notebook_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_notebook_LDADD = libcadre_whole.la $(JANSSON_LIBS) $(CHECK_LIBS)
endif
