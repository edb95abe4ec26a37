# The loader and the DWARF reader.
if HAVE_CHECK
load_tests = tests/unit/test_load tests/unit/test_load_life \
    tests/unit/test_types tests/unit/test_signatures tests/unit/test_load_fuzz
check_PROGRAMS += $(load_tests)
TESTS += $(load_tests)

tests_unit_test_load_SOURCES = tests/unit/test_load.c tests/unit/object_helper.c \
    tests/unit/object_helper.h tests/unit/load_helper.c tests/unit/load_helper.h
tests_unit_test_load_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_load_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_unit_test_load_LDADD = libload.la libbase.la $(CHECK_LIBS)

tests_unit_test_load_life_SOURCES = tests/unit/test_load_life.c tests/unit/object_helper.c \
    tests/unit/object_helper.h tests/unit/load_helper.c tests/unit/load_helper.h
tests_unit_test_load_life_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_load_life_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_unit_test_load_life_LDADD = libload.la libbase.la $(CHECK_LIBS)

tests_unit_test_types_SOURCES = tests/unit/test_types.c tests/unit/object_helper.c \
    tests/unit/object_helper.h
tests_unit_test_types_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_unit_test_types_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_types_LDADD = libtypes.la libload.la libbase.la $(CHECK_LIBS)

tests_unit_test_signatures_SOURCES = tests/unit/test_signatures.c tests/unit/object_helper.c \
    tests/unit/object_helper.h
tests_unit_test_signatures_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_unit_test_signatures_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_signatures_LDADD = libtypes.la libload.la libbase.la $(CHECK_LIBS)

tests_unit_test_load_fuzz_SOURCES = tests/unit/test_load_fuzz.c tests/unit/object_helper.c \
    tests/unit/object_helper.h
tests_unit_test_load_fuzz_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_unit_test_load_fuzz_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_load_fuzz_LDFLAGS = $(AM_LDFLAGS) \
    -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
tests_unit_test_load_fuzz_LDADD = libtypes.la libload.la libbase.la $(CHECK_LIBS)
endif
