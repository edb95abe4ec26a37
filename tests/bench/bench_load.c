/* What loading costs: time and memory per cell, and calls from cell to cell.
 *
 *     tests/bench/bench_load [cells]
 *
 * Objects are compiled once with gcc as cells are; times are of this process alone. */
#include "cell/load.h"
#include "../unit/object_helper.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static long resident(void)
{
    long size = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%ld %ld", &size, &pages) != 2) pages = 0;
    if (file) fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return values[count / 2];
}

static cadre_loader *loader;
static cadre_error error;

static cadre_module *load(test_object object, const char *entry)
{
    cadre_module *module =
        cadre_loader_add(loader, "cell.c", object.bytes, object.length, NULL, 0, &error);
    if (!module || cadre_loader_check(loader, module, entry, &error) < 0) {
        fprintf(stderr, "%s\n", error.message);
        exit(EXIT_FAILURE);
    }
    cadre_loader_commit(loader);
    cadre_loader_construct(module);
    return module;
}

/* Every cell has names of its own: the object's text is patched, not compiled again. */
static void rename_cell(test_object object, char *current, long number)
{
    char next[32];
    snprintf(next, sizeof next, "%08ld", number);
    for (size_t i = 0; i + 8 <= object.length; i++) {
        if (!memcmp(object.bytes + i, current, 8)) memcpy(object.bytes + i, next, 8);
    }
    memcpy(current, next, 9);
}

static void many_cells(const char *what, test_object object, long cells, bool statements)
{
    double *times = calloc((size_t)cells, sizeof *times);
    char current[9] = "NUMBER00";
    long before = 0;
    loader = cadre_loader_new(&error);
    if (!loader || !times) exit(EXIT_FAILURE);
    for (long i = 0; i < cells; i++) {
        char entry[64];
        rename_cell(object, current, i);
        snprintf(entry, sizeof entry, "entry_%08ld", i);
        if (i == cells / 10) before = resident();
        double start = now();
        cadre_module *module = load(object, entry);
        times[i] = now() - start;
        if (statements) cadre_loader_release_statements(loader, module);
    }
    double grown = (double)(resident() - before) / (double)(cells - cells / 10);
    double start = now();
    pid_t child = fork();
    if (child == 0) _exit(0);
    double forked = now() - start;
    double first = median(times, (size_t)cells / 10);
    double last = median(times + cells - cells / 10, (size_t)cells / 10);
    printf("%-34s %6.1f us (first tenth %.1f, last %.1f), %6.0f bytes a cell, fork %.2f ms\n", what,
           median(times, (size_t)cells) * 1e6, first * 1e6, last * 1e6, grown, forked * 1e3);
    cadre_loader_free(loader);
    free(times);
}

static double per_call(const char *name)
{
    double best = 1;
    long (*run)(long) = (long (*)(long))cadre_loader_symbol(loader, name);
    for (int i = 0; i < 7; i++) {
        double start = now();
        run(20000000);
        double time = (now() - start) / 20000000;
        if (time < best) best = time;
    }
    return best * 1e9;
}

int main(int argc, char **argv)
{
    long cells = argc > 1 ? strtol(argv[1], NULL, 10) : 10000;
    if (!dlopen("libm.so.6", RTLD_NOW | RTLD_GLOBAL)) return EXIT_FAILURE;
    test_object statements = test_compile(
        "#include <stdio.h>\n#include <math.h>\nextern int printf(const char *, ...);"
        "void entry_NUMBER00(void) { double s = 0; for (int i = 1; i < 9; i++) s += sqrt(i);"
        "printf(\"%g %g\\n\", s, pow(s, 2)); }",
        NULL);
    test_object definitions =
        test_compile("#include <stdio.h>\n#include <math.h>\ndouble scale_NUMBER00 = 2;"
                     "double value_NUMBER00(double x) { return sqrt(x) * scale_NUMBER00; }"
                     "void entry_NUMBER00(void) { printf(\"%g\\n\", value_NUMBER00(3)); }",
                     NULL);
    many_cells("cell of statements, released", statements, cells, true);
    many_cells("cell that defines", definitions, cells, false);

    loader = cadre_loader_new(&error);
    test_object caller = test_compile(
        "long f(long x); static __attribute__((noinline, noipa)) long d(long x) { return x + 3; }"
        "long across(long n) { long s = 0; for (long i = 0; i < n; i++) s = f(s); return s; }"
        "long direct(long n) { long s = 0; for (long i = 0; i < n; i++) s = d(s); return s; }",
        NULL);
    test_object callee = test_compile("long f(long x) { return x + 3; }", NULL);
    load(callee, NULL);
    load(caller, NULL);
    double direct = per_call("direct"), across = per_call("across");
    printf("call: direct %.2f ns, from cell to cell %.2f ns\n", direct, across);
    free(statements.bytes);
    free(definitions.bytes);
    free(caller.bytes);
    free(callee.bytes);
    cadre_loader_free(loader);
    return 0;
}
