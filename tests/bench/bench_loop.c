/* What several processes cost and gain: cadre_loop in both modes, in turns.
 *
 *     bench_loop FLIGHTS.csv [processes] [repetitions]
 *
 * Three lines of JSON:
 *   speed: the delay models of the demo, one process against `processes` (2): seconds, ratio;
 *   overhead: loops of 2, 35 and 10,000 slices that do nothing: by how many ms the processes are
 *       slower than one process (negative: faster), first call and median;
 *   memory: the largest that a worker holds of its own while it trains the flights, and what all
 *       workers and their parent add to the memory of the table alone (PSS), in MB.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cadre.h"

static int processes = 2, repetitions = 9;
static long day;

static bool held_out(const cadre_table *table, size_t row, void *user)
{
    (void)user;
    return cadre_table_int64s(table, (size_t)day)[row] % 5 == 0;
}

static int train(const cadre_slice *slice, cadre_model *model, void *user, cadre_error *error)
{
    (void)user;
    cadre_ridge_options options = {
        .target = "arr_delay",
        .numeric = (const char *const[]){"dep_delay", "distance", "hour", "month", NULL},
        .categorical = (const char *const[]){"dest", NULL},
        .alpha = 1,
        .holdout = held_out,
    };
    return cadre_ridge_fit(slice, &options, model, error);
}

static int train_nothing(const cadre_slice *slice, cadre_model *model, void *user,
                         cadre_error *error)
{
    (void)user;
    (void)error;
    double rows = (double)slice->row_count;
    return cadre_model_set(model, "rows", &rows, 1);
}

static double seconds_of(const cadre_slices *slices, cadre_train_function function, int count)
{
    cadre_report *report =
        cadre_loop(slices, (cadre_loop_options){.train = function,
                                                .is_multiple_processors = count > 1,
                                                .cpu_count = count,
                                                .quiet = true});
    double seconds = cadre_report_seconds(report);
    cadre_report_free(report);
    return seconds;
}

static int ascending(const void *left, const void *right)
{
    const double *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

static void measure_speed(const cadre_slices *slices)
{
    double one = 1e9, many = 1e9;
    for (int i = 0; i < repetitions; i++) {
        double seconds = seconds_of(slices, train, 1);
        if (seconds < one) one = seconds;
        seconds = seconds_of(slices, train, processes);
        if (seconds < many) many = seconds;
    }
    printf("{\"speed\": {\"one_s\": %.4f, \"processes\": %d, \"many_s\": %.4f, \"ratio\": %.2f}}\n",
           one, processes, many, one / many);
}

static void measure_overhead(const cadre_slices *slices)
{
    double first = 0, late[101];
    int count = repetitions < 101 ? repetitions : 101;
    for (int i = 0; i < count; i++) {
        double one = seconds_of(slices, train_nothing, 1);
        late[i] = 1e3 * (seconds_of(slices, train_nothing, processes) - one);
        if (i == 0) first = late[i];
    }
    qsort(late, (size_t)count, sizeof *late, ascending);
    printf("{\"overhead\": {\"slices\": %zu, \"first_ms\": %.3f, \"median_ms\": %.3f}}\n",
           cadre_slices_count(slices), first, late[count / 2]);
}

typedef struct usage {
    double own, pss; /* MB */
} usage;

static usage usage_of(pid_t pid)
{
    char path[64], line[256];
    usage found = {0};
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        double kilobytes = colon ? strtod(colon + 1, NULL) : 0;
        if (strncmp(line, "Pss:", 4) == 0) found.pss += kilobytes / 1024;
        if (strncmp(line, "Private_", 8) == 0) found.own += kilobytes / 1024;
    }
    if (file) fclose(file);
    return found;
}

/* Looks at the parent and its children until it is killed; writes the largest values to `out`. */
static void watch(pid_t parent, int out)
{
    char path[80];
    double largest = 0, all = 0;
    for (;;) {
        int child;
        double sum = usage_of(parent).pss;
        snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
        FILE *children = fopen(path, "re");
        while (children && fscanf(children, "%d", &child) == 1) {
            if (child == getpid()) continue;
            usage seen = usage_of(child);
            sum += seen.pss;
            if (seen.own > largest) largest = seen.own;
        }
        if (children) fclose(children);
        if (sum > all) all = sum;
        if (pwrite(out, (double[]){largest, all}, 2 * sizeof(double), 0) < 0) _exit(1);
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
}

static void measure_memory(const cadre_slices *slices)
{
    double seen[2] = {0}, before = usage_of(getpid()).pss;
    FILE *file = tmpfile();
    pid_t parent = getpid(), watcher = fork();
    if (watcher == 0) watch(parent, fileno(file));
    for (int i = 0; i < repetitions; i++)
        seconds_of(slices, train, processes);
    kill(watcher, SIGKILL);
    waitpid(watcher, NULL, 0);
    if (pread(fileno(file), seen, sizeof seen, 0) < 0) perror("bench_loop");
    fclose(file);
    printf("{\"memory\": {\"largest_worker_mb\": %.1f, \"all_added_mb\": %.1f}}\n", seen[0],
           seen[1] - before);
}

/* A table of so many slices of one row. */
static void measure_small(size_t count)
{
    char path[] = "/tmp/cadre-bench-XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file) return;
    fprintf(file, "key\n");
    for (size_t i = 0; i < count; i++)
        fprintf(file, "k%zu\n", i);
    fclose(file);
    cadre_table *table = cadre_read_csv(path);
    cadre_slices *slices = cadre_slices_by(table, "key");
    measure_overhead(slices);
    cadre_slices_free(slices);
    cadre_table_free(table);
    unlink(path);
}

int main(int count, char **arguments)
{
    if (count > 2) processes = (int)strtol(arguments[2], NULL, 10);
    if (count > 3) repetitions = (int)strtol(arguments[3], NULL, 10);
    if (count < 2 || processes < 2 || repetitions < 1) {
        fprintf(stderr, "usage: bench_loop FLIGHTS.csv [processes] [repetitions]\n");
        return 2;
    }
    cadre_table *table = cadre_read_csv(arguments[1]);
    cadre_slices *slices = cadre_slices_by(table, "carrier", "origin");
    day = cadre_table_find(table, "day");
    measure_small(2);
    measure_small(35);
    measure_small(10000);
    measure_speed(slices);
    measure_memory(slices);
    cadre_slices_free(slices);
    cadre_table_free(table);
    return 0;
}
