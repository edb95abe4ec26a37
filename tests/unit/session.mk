if HAVE_CHECK
check_PROGRAMS += test_session
TESTS += test_session
test_session_SOURCES = tests/unit/test_session.c kernel/session/streams.c kernel/session/history.c \
    kernel/session/parameters.c kernel/session/inline.c kernel/session/worker.c
test_session_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(JANSSON_CFLAGS) $(SQLITE_CFLAGS) -pthread
test_session_LDADD = libcell.la libwire.la $(SQLITE_LIBS) $(CHECK_LIBS)
endif
