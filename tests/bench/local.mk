# Benches in C, built on request: make tests/bench/bench_loop
EXTRA_PROGRAMS = tests/bench/bench_csv tests/bench/bench_loop tests/bench/bench_ridge
tests_bench_bench_csv_SOURCES = tests/bench/bench_csv.c
tests_bench_bench_csv_LDADD = libcadre.la
tests_bench_bench_ridge_SOURCES = tests/bench/bench_ridge.c
tests_bench_bench_ridge_LDADD = libcadre.la
tests_bench_bench_loop_SOURCES = tests/bench/bench_loop.c
tests_bench_bench_loop_LDADD = libcadre.la
EXTRA_PROGRAMS += tests/bench/bench_load
tests_bench_bench_load_SOURCES = tests/bench/bench_load.c tests/unit/object_helper.c \
    tests/unit/object_helper.h
tests_bench_bench_load_CFLAGS = $(AM_CFLAGS) -O2
tests_bench_bench_load_LDADD = libload.la libbase.la
# Built by make check, not run by it.
check_PROGRAMS += tests/bench/bench_compile
tests_bench_bench_compile_SOURCES = tests/bench/bench_compile.c
tests_bench_bench_compile_CPPFLAGS = $(AM_CPPFLAGS) -DPLUGIN_DIR='"$(abs_top_builddir)/.libs"'
tests_bench_bench_compile_LDADD = libcompile.la
check_PROGRAMS += tests/bench/bench_wire
tests_bench_bench_wire_SOURCES = tests/bench/bench_wire.c
tests_bench_bench_wire_CFLAGS = $(AM_CFLAGS) $(ZMQ_CFLAGS) $(JANSSON_CFLAGS) -O2
tests_bench_bench_wire_LDADD = libwire.la
check_PROGRAMS += tests/bench/canned_kernel
tests_bench_canned_kernel_SOURCES = tests/bench/canned_kernel.c
tests_bench_canned_kernel_CFLAGS = $(AM_CFLAGS) $(ZMQ_CFLAGS) $(JANSSON_CFLAGS) -O2
tests_bench_canned_kernel_LDADD = libwire.la
