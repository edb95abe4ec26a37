if HAVE_CHECK
check_PROGRAMS += tests/unit/test_load tests/unit/test_types tests/unit/test_load_fuzz
TESTS += tests/unit/test_load tests/unit/test_types tests/unit/test_load_fuzz
tests_unit_test_load_SOURCES = tests/unit/test_load.c tests/unit/object_helper.c \
    tests/unit/object_helper.h
tests_unit_test_load_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_load_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_unit_test_load_LDADD = libload.la libbase.la $(CHECK_LIBS)
tests_unit_test_types_SOURCES = tests/unit/test_types.c tests/unit/object_helper.c \
    tests/unit/object_helper.h
tests_unit_test_types_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_unit_test_types_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_types_LDADD = libtypes.la libload.la libbase.la $(CHECK_LIBS)
tests_unit_test_load_fuzz_SOURCES = tests/unit/test_load_fuzz.c tests/unit/object_helper.c \
    tests/unit/object_helper.h
tests_unit_test_load_fuzz_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_unit_test_load_fuzz_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_load_fuzz_LDFLAGS = $(AM_LDFLAGS) \
    -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
tests_unit_test_load_fuzz_LDADD = libtypes.la libload.la libbase.la $(CHECK_LIBS)
endif
