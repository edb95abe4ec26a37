/* What compiling a small new cell costs, beside what cc1 needs to start and compile nothing.
 *
 *     bench_compile [rounds] [folder of the plugins]
 *
 * The ways take turns, so that whatever else the machine does falls on all of them; medians and
 * quartiles in ms, and the ratio of the medians to the bare start of cc1. */
#include "kernel/cell/compile.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HEADERS "#include <stdio.h>\n#include <math.h>\n"

enum { MOST_ROUNDS = 1000, CC1 = 0, WARM, CACHED_NEW, HIT, AHEAD, PLAIN, WAYS };

static const char *const names[WAYS] = {"cc1 -quiet /dev/null",     "warm, no cache",
                                        "warm, kept in the cache",  "the same cell again (hit)",
                                        "cc1 and as started ahead", "plain cc1 | as"};

static double times[WAYS][MOST_ROUNDS];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Path of cc1 as gcc names it. */
static bool find_cc1(char *path, size_t size)
{
    FILE *pipe = popen("gcc -print-prog-name=cc1", "re");
    bool good = pipe && fgets(path, (int)size, pipe);
    if (pipe) pclose(pipe);
    if (good) path[strcspn(path, "\n")] = '\0';
    return good;
}

static double start_cc1(const char *path)
{
    char *arguments[] = {(char *)path, (char *)"-quiet",    (char *)"/dev/null",
                         (char *)"-o", (char *)"/dev/null", NULL};
    char *environment[] = {NULL};
    pid_t pid;
    double before = now();
    if (posix_spawn(&pid, path, NULL, NULL, arguments, environment) != 0) return -1;
    waitpid(pid, NULL, 0);
    return now() - before;
}

static double compile(cadre_compiler *compiler, int round, bool expect_hit)
{
    char source[400];
    snprintf(source, sizeof source,
             "#line 1 \"cell.c\"\nvoid cadre_cell(void)\n{\n    double x = sqrt(%d.5);\n"
             "    printf(\"%%g\\n\", sin(x) + cos(x));\n}\n",
             round);
    const char *flags[] = {"-D_GNU_SOURCE"};
    cadre_compile_request request = {.headers = HEADERS,
                                     .source = source,
                                     .length = strlen(source),
                                     .flags = flags,
                                     .flag_count = 1,
                                     .cancel_fd = -1};
    cadre_compile_result result;
    cadre_error error = {0};
    double before = now();
    if (cadre_compile(compiler, &request, &result, &error) < 0) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    double took = now() - before;
    if (!result.ok || result.from_cache != expect_hit) {
        fprintf(stderr, "not what was asked for: %s\n", result.diagnostics);
        exit(1);
    }
    cadre_compile_result_free(&result);
    return took;
}

static cadre_compiler *make_compiler(const char *cache)
{
    cadre_error error = {0};
    cadre_compiler *compiler = cadre_compiler_new("gcc", cache, &error);
    if (!compiler) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    return compiler;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 60;
    if (rounds < 4 || rounds > MOST_ROUNDS) rounds = 60;
    const char *plugins = argc > 2 ? argv[2] : PLUGIN_DIR;
    char cache[] = "/tmp/cadre-bench-XXXXXX", cc1[4096], remove[100];
    if (!find_cc1(cc1, sizeof cc1) || !mkdtemp(cache)) return 1;

    cadre_compiler *compilers[3] = {make_compiler(""), make_compiler(cache), make_compiler("")};
    /* The first two find the plugins, the third does not; a server is started by the first cell. */
    for (int i = 0; i < 3; i++) {
        setenv("CADRE_PLUGIN_DIR", i < 2 ? plugins : "/nowhere", 1);
        compile(compilers[i], MOST_ROUNDS + i, false);
    }
    setenv("CADRE_PLUGIN_DIR", "/nowhere", 1);
    for (int i = 0; i < rounds; i++) {
        pause_ms(30);
        times[CC1][i] = start_cc1(cc1);
        pause_ms(30);
        times[WARM][i] = compile(compilers[0], i, false);
        pause_ms(30);
        times[CACHED_NEW][i] = compile(compilers[1], i, false);
        pause_ms(30);
        compile(compilers[1], i, true); /* writes it */
        times[HIT][i] = compile(compilers[1], i, true);
        pause_ms(30);
        times[AHEAD][i] = compile(compilers[2], i, false);
        pause_ms(30);
        cadre_compiler *plain = make_compiler("");
        times[PLAIN][i] = compile(plain, i, false);
        cadre_compiler_free(plain);
    }
    for (int way = 0; way < WAYS; way++)
        qsort(times[way], (size_t)rounds, sizeof(double), ascending);
    for (int way = 0; way < WAYS; way++) {
        const double *t = times[way];
        printf("%-28s min %7.3f  quartile %7.3f  median %7.3f ms  %5.2f x cc1\n", names[way], t[0],
               t[rounds / 4], t[rounds / 2], t[rounds / 2] / times[CC1][rounds / 2]);
    }
    for (int i = 0; i < 3; i++)
        cadre_compiler_free(compilers[i]);
    snprintf(remove, sizeof remove, "exec rm -r %s", cache);
    FILE *done = popen(remove, "re");
    return done ? pclose(done) : 1;
}
