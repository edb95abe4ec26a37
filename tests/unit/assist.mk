if HAVE_CHECK
check_PROGRAMS += tests/unit/test_assist
TESTS += tests/unit/test_assist
tests_unit_test_assist_SOURCES = tests/unit/test_assist.c tests/unit/cell_helper.c \
    tests/unit/cell_helper.h
tests_unit_test_assist_CPPFLAGS = $(cell_test_flags)
tests_unit_test_assist_LDADD = libassist.la libcell.la libload.la libbase.la $(CHECK_LIBS) \
    $(OPENBLAS_LIBS) -ldl
tests_unit_test_assist_LDFLAGS = $(AM_LDFLAGS) -Wl,--no-as-needed
endif
