# Tests of runtime/base, cpu, data, model and store. They reach private functions, and allocations
# of the code under test can be made to fail: it is linked statically.
if HAVE_CHECK
data_tests = tests/unit/test_cpu tests/unit/test_csv tests/unit/test_slices \
    tests/unit/test_ridge tests/unit/test_store
check_PROGRAMS += $(data_tests)
TESTS += $(data_tests)
data_test_helpers = tests/unit/data_helper.c tests/unit/data_helper.h \
    tests/unit/failing_malloc.c tests/unit/failing_malloc.h
data_test_flags = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(JANSSON_CFLAGS) $(OPENBLAS_CFLAGS)
data_test_wraps = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc \
    -Wl,--wrap=strdup,--wrap=asprintf
data_test_libraries = libcadre_whole.la $(CHECK_LIBS)
tests_unit_test_cpu_SOURCES = tests/unit/test_cpu.c
tests_unit_test_cpu_CPPFLAGS = $(data_test_flags)
tests_unit_test_cpu_LDADD = $(data_test_libraries)
tests_unit_test_csv_SOURCES = tests/unit/test_csv.c $(data_test_helpers)
tests_unit_test_csv_CPPFLAGS = $(data_test_flags)
tests_unit_test_csv_LDFLAGS = $(data_test_wraps)
tests_unit_test_csv_LDADD = $(data_test_libraries)
tests_unit_test_slices_SOURCES = tests/unit/test_slices.c $(data_test_helpers)
tests_unit_test_slices_CPPFLAGS = $(data_test_flags)
tests_unit_test_slices_LDFLAGS = $(data_test_wraps)
tests_unit_test_slices_LDADD = $(data_test_libraries)
tests_unit_test_ridge_SOURCES = tests/unit/test_ridge.c $(data_test_helpers)
tests_unit_test_ridge_CPPFLAGS = $(data_test_flags)
tests_unit_test_ridge_LDFLAGS = $(data_test_wraps)
tests_unit_test_ridge_LDADD = $(data_test_libraries)
tests_unit_test_store_SOURCES = tests/unit/test_store.c $(data_test_helpers)
tests_unit_test_store_CPPFLAGS = $(data_test_flags)
tests_unit_test_store_LDFLAGS = $(data_test_wraps)
tests_unit_test_store_LDADD = $(data_test_libraries)
endif
