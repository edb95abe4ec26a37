if HAVE_CHECK
check_PROGRAMS += tests/unit/test_compile
TESTS += tests/unit/test_compile
tests_unit_test_compile_SOURCES = tests/unit/test_compile.c tests/unit/compile_helpers.c \
    tests/unit/compile_helpers.h
tests_unit_test_compile_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(SODIUM_CFLAGS)
tests_unit_test_compile_LDADD = libcompile.la $(CHECK_LIBS)
endif
