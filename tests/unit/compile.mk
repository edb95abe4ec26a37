if HAVE_CHECK
compile_tests = tests/unit/test_compile tests/unit/test_compile_cache tests/unit/test_compile_warm
compile_test_flags = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(SODIUM_CFLAGS) \
    -DPLUGIN_DIR='"$(abs_top_builddir)/.libs"'
compile_test_helpers = tests/unit/compile_helpers.c tests/unit/compile_helpers.h
check_PROGRAMS += $(compile_tests)
TESTS += $(compile_tests)
tests_unit_test_compile_SOURCES = tests/unit/test_compile.c $(compile_test_helpers)
tests_unit_test_compile_CPPFLAGS = $(compile_test_flags)
tests_unit_test_compile_LDADD = libcompile.la $(CHECK_LIBS)
tests_unit_test_compile_cache_SOURCES = tests/unit/test_compile_cache.c $(compile_test_helpers)
tests_unit_test_compile_cache_CPPFLAGS = $(compile_test_flags)
tests_unit_test_compile_cache_LDADD = libcompile.la $(CHECK_LIBS)
tests_unit_test_compile_warm_SOURCES = tests/unit/test_compile_warm.c $(compile_test_helpers)
tests_unit_test_compile_warm_CPPFLAGS = $(compile_test_flags)
tests_unit_test_compile_warm_LDADD = libcompile.la $(CHECK_LIBS)
endif
