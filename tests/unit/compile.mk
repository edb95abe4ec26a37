if HAVE_CHECK
compile_tests = tests/unit/test_compile tests/unit/test_compile_cache
compile_test_flags = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(SODIUM_CFLAGS)
compile_test_helpers = tests/unit/compile_helpers.c tests/unit/compile_helpers.h
check_PROGRAMS += $(compile_tests)
TESTS += $(compile_tests)
tests_unit_test_compile_SOURCES = tests/unit/test_compile.c $(compile_test_helpers)
tests_unit_test_compile_CPPFLAGS = $(compile_test_flags)
tests_unit_test_compile_LDADD = libcompile.la $(CHECK_LIBS)
tests_unit_test_compile_cache_SOURCES = tests/unit/test_compile_cache.c $(compile_test_helpers)
tests_unit_test_compile_cache_CPPFLAGS = $(compile_test_flags)
tests_unit_test_compile_cache_LDADD = libcompile.la $(CHECK_LIBS)
endif
