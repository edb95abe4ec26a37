if HAVE_CHECK
check_PROGRAMS += test_wire
TESTS += test_wire
test_wire_SOURCES = tests/unit/test_wire.c
test_wire_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/kernel
test_wire_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(ZMQ_CFLAGS) $(JANSSON_CFLAGS)
test_wire_LDADD = libwire.la $(CHECK_LIBS)
endif
