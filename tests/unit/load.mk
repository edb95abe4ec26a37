if HAVE_CHECK
check_PROGRAMS += tests/unit/test_load
TESTS += tests/unit/test_load
tests_unit_test_load_SOURCES = tests/unit/test_load.c tests/unit/object_helper.c \
    tests/unit/object_helper.h
tests_unit_test_load_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_load_LDADD = libload.la libbase.la $(CHECK_LIBS)
endif
