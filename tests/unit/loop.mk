if HAVE_CHECK
check_PROGRAMS += tests/unit/test_loop
TESTS += tests/unit/test_loop
tests_unit_test_loop_SOURCES = tests/unit/test_loop.c
tests_unit_test_loop_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_loop_LDADD = libcadre_whole.la $(JANSSON_LIBS) $(CHECK_LIBS)
tests_unit_test_loop_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=cadre_cpu_count
endif
