if HAVE_CHECK
host_tests = tests/unit/test_host tests/unit/test_host_interrupt \
    tests/unit/test_host_streams tests/unit/test_host_snapshot tests/unit/test_memory
host_test_helpers = tests/unit/host_helper.c tests/unit/host_helper.h \
    tests/unit/object_helper.c tests/unit/object_helper.h
host_test_flags = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) \
    -DTEST_HOST_PROGRAM='"$(abs_top_builddir)/cadre-host"' \
    -DTEST_RUNTIME='"-I$(abs_top_srcdir)/runtime"'
host_test_c_flags = $(AM_CFLAGS) $(CHECK_CFLAGS)
host_test_libraries = libhost.la libtypes.la libbase.la $(JANSSON_LIBS) $(CHECK_LIBS)
check_PROGRAMS += $(host_tests)
TESTS += $(host_tests)
tests_unit_test_host_SOURCES = tests/unit/test_host.c $(host_test_helpers)
tests_unit_test_host_CPPFLAGS = $(host_test_flags)
tests_unit_test_host_CFLAGS = $(host_test_c_flags)
tests_unit_test_host_LDADD = $(host_test_libraries)
tests_unit_test_host_interrupt_SOURCES = tests/unit/test_host_interrupt.c $(host_test_helpers)
tests_unit_test_host_interrupt_CPPFLAGS = $(host_test_flags)
tests_unit_test_host_interrupt_CFLAGS = $(host_test_c_flags)
tests_unit_test_host_interrupt_LDADD = $(host_test_libraries)
tests_unit_test_host_streams_SOURCES = tests/unit/test_host_streams.c $(host_test_helpers)
tests_unit_test_host_streams_CPPFLAGS = $(host_test_flags)
tests_unit_test_host_streams_CFLAGS = $(host_test_c_flags)
tests_unit_test_host_streams_LDADD = $(host_test_libraries)
tests_unit_test_host_snapshot_SOURCES = tests/unit/test_host_snapshot.c $(host_test_helpers)
tests_unit_test_host_snapshot_CPPFLAGS = $(host_test_flags)
tests_unit_test_host_snapshot_CFLAGS = $(host_test_c_flags)
tests_unit_test_host_snapshot_LDADD = $(host_test_libraries)
tests_unit_test_memory_SOURCES = tests/unit/test_memory.c
tests_unit_test_memory_CPPFLAGS = $(host_test_flags)
tests_unit_test_memory_CFLAGS = $(host_test_c_flags)
tests_unit_test_memory_LDADD = $(host_test_libraries)
endif
