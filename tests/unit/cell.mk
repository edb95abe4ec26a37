if HAVE_CHECK
cell_tests = tests/unit/test_cell tests/unit/test_engine
check_PROGRAMS += $(cell_tests)
TESTS += $(cell_tests)
cell_test_flags = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(JANSSON_CFLAGS) \
    -DCADRE_TEST_INCLUDE='"$(abs_top_srcdir)/runtime"' \
    -DCADRE_TEST_CASES='"$(abs_top_srcdir)/tests/cases"'
tests_unit_test_cell_SOURCES = tests/unit/test_cell.c
tests_unit_test_cell_CPPFLAGS = $(cell_test_flags)
tests_unit_test_cell_LDADD = libcell.la $(CHECK_LIBS)
tests_unit_test_engine_SOURCES = tests/unit/test_engine.c tests/unit/cell_helper.c \
    tests/unit/cell_helper.h
tests_unit_test_engine_CPPFLAGS = $(cell_test_flags)
tests_unit_test_engine_LDADD = libcell.la libload.la libbase.la $(CHECK_LIBS) $(OPENBLAS_LIBS) -ldl
tests_unit_test_engine_LDFLAGS = $(AM_LDFLAGS) -Wl,--no-as-needed
endif
