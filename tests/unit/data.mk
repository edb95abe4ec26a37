# Tests of runtime/cpu, data, model and store. They reach private functions, and allocations of
# the code under test can be made to fail: it is linked statically.
if HAVE_CHECK
data_tests = tests/unit/test_csv
check_PROGRAMS += $(data_tests)
TESTS += $(data_tests)
data_test_helpers = tests/unit/data_helper.c tests/unit/data_helper.h \
    tests/unit/failing_malloc.c tests/unit/failing_malloc.h
data_test_flags = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(JANSSON_CFLAGS) $(OPENBLAS_CFLAGS)
data_test_wraps = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc \
    -Wl,--wrap=strdup,--wrap=asprintf
data_test_libraries = libcadre_whole.la $(CHECK_LIBS)
tests_unit_test_csv_SOURCES = tests/unit/test_csv.c $(data_test_helpers)
tests_unit_test_csv_CPPFLAGS = $(data_test_flags)
tests_unit_test_csv_LDFLAGS = $(data_test_wraps)
tests_unit_test_csv_LDADD = $(data_test_libraries)
endif
