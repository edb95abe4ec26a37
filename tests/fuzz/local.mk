# tests/fuzz: what strangers can send, with any bytes; `make check` gives each target two seconds.
fuzz_targets = tests/fuzz/fuzz_message tests/fuzz/fuzz_json tests/fuzz/fuzz_connection \
    tests/fuzz/fuzz_cell
check_PROGRAMS += $(fuzz_targets)
TESTS += tests/fuzz/run.sh
tests_fuzz_fuzz_message_SOURCES = tests/fuzz/fuzz_message.c tests/fuzz/driver.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_json_SOURCES = tests/fuzz/fuzz_json.c tests/fuzz/driver.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_connection_SOURCES = tests/fuzz/fuzz_connection.c tests/fuzz/driver.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_message_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_fuzz_fuzz_json_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_fuzz_fuzz_connection_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_fuzz_fuzz_message_LDADD = libwire.la
tests_fuzz_fuzz_json_LDADD = libwire.la
tests_fuzz_fuzz_connection_LDADD = libwire.la
tests_fuzz_fuzz_cell_SOURCES = tests/fuzz/fuzz_cell.c tests/fuzz/driver.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_cell_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_fuzz_fuzz_cell_LDADD = libcell.la
