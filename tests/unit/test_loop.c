/* runtime/loop: both modes, and whatever may happen to a worker. */
#include "base/error_handler.h"
#include "base/interrupt.h"
#include "cpu/cpu.h"
#include "loop/loop.h"
#include "loop/run.h"
#include "show/show.h"
#include "store/store.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[64];
static cadre_table *table;
static cadre_slices *slices;

/* Stands for cadre_cpu_count (ld --wrap), so that the tests may use more processes than there are
 * CPUs. */
static int vcpus = 64;
int __wrap_cadre_cpu_count(void);
int __wrap_cadre_cpu_count(void)
{
    return vcpus;
}

/* `count` slices named S/000, S/001 ..., the later ones with more rows. */
static void make_slices(size_t count)
{
    char path[128];
    snprintf(folder, sizeof folder, "/tmp/cadre-loop-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/data.csv", folder);
    FILE *file = fopen(path, "w");
    fprintf(file, "letter,key,x\n");
    for (size_t i = 0; i < count; i++)
        for (size_t row = 0; row <= i % 50; row++)
            fprintf(file, "S,%03zu,%zu\n", i, i * 10 + row);
    fclose(file);
    const char *text[] = {"key", NULL};
    cadre_error error = {0};
    table = cadre_read_csv_with(path, &(cadre_csv_options){.text_columns = text}, &error);
    ck_assert_msg(table != NULL, "%s", error.message);
    slices = cadre_slices_by(table, "letter", "key");
    ck_assert_uint_eq(cadre_slices_count(slices), count);
    cadre_set_error_handler(cadre_error_ignore);
}

static void remove_all(void)
{
    cadre_slices_free(slices);
    cadre_table_free(table);
    char command[128];
    DIR *directory = opendir(folder);
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        snprintf(command, sizeof command, "%s/%.60s", folder, entry->d_name);
        if (entry->d_name[0] != '.') unlink(command);
    }
    if (directory) closedir(directory);
    rmdir(folder);
}

static void fill_model(const cadre_slice *slice, cadre_model *model, size_t count)
{
    double *values = calloc(count, sizeof *values);
    size_t column = (size_t)cadre_table_find(slice->table, "x");
    for (size_t i = 0; i < count; i++)
        values[i] =
            cadre_table_number(slice->table, column, slice->rows[i % slice->row_count]) + 0.1;
    cadre_model_set(model, "values", values, count);
    cadre_model_set_metric(model, "error", (double)slice->index);
    cadre_model_set_metric(model, "error_mean", 2.0 * (double)slice->index);
    cadre_model_set_metric(model, "rows_test", 1);
    free(values);
}

static int train_small(const cadre_slice *slice, cadre_model *model, void *user, cadre_error *error)
{
    (void)user;
    if (slice->index == 3)
        return cadre_error_set(error, CADRE_EINPUT, "only %zu rows", slice->row_count);
    fill_model(slice, model, 5);
    return 0;
}

static cadre_report *run(cadre_train_function train, void *user, int processes, const char *models)
{
    return cadre_loop(slices, (cadre_loop_options){.train = train,
                                                   .user = user,
                                                   .is_multiple_processors = processes > 0,
                                                   .cpu_count = processes,
                                                   .models = models,
                                                   .quiet = true});
}

static void expect_no_children(void)
{
    int status;
    ck_assert_int_eq(waitpid(-1, &status, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
}

START_TEST(both_modes_give_equal_models)
{
    make_slices(40);
    cadre_report *one = run(train_small, NULL, 0, NULL);
    ck_assert_uint_eq(cadre_report_slices(one), 40);
    ck_assert_uint_eq(cadre_report_models(one), 39);
    ck_assert_int_eq(cadre_report_processes(one), 1);
    ck_assert_int_eq(cadre_report_state(one, 3), CADRE_SLICE_REFUSED);
    ck_assert_str_eq(cadre_report_message(one, 3), "only 4 rows");
    ck_assert_str_eq(cadre_report_name(one, 3), "S/003");
    ck_assert_ptr_null(cadre_report_model(one, 3));
    for (int processes = 1; processes <= 5; processes++) {
        cadre_report *many = run(train_small, NULL, processes, NULL);
        ck_assert_int_eq(cadre_report_processes(many), processes);
        ck_assert_str_eq(cadre_report_digest(many), cadre_report_digest(one));
        ck_assert_str_eq(cadre_report_message(many, 3), "only 4 rows");
        ck_assert_double_eq(cadre_report_error(many), cadre_report_error(one));
        size_t a, b;
        const double *left = cadre_model_get(cadre_report_model(one, 7), "values", &a);
        const double *right = cadre_model_get(cadre_report_model(many, 7), "values", &b);
        ck_assert_uint_eq(a, b);
        ck_assert_mem_eq(left, right, a * sizeof *left);
        cadre_report_free(many);
        expect_no_children();
    }
    cadre_report_free(one);
    remove_all();
}
END_TEST

static int train_big(const cadre_slice *slice, cadre_model *model, void *user, cadre_error *error)
{
    (void)user;
    (void)error;
    fill_model(slice, model, slice->index % 2 ? 700000 : 10000); /* 5.6 MB and 80 KB */
    return 0;
}

START_TEST(models_of_any_size_come_back)
{
    make_slices(12);
    cadre_report *one = run(train_big, NULL, 0, NULL), *two = run(train_big, NULL, 2, NULL);
    ck_assert_uint_eq(cadre_report_models(two), 12);
    ck_assert_str_eq(cadre_report_digest(one), cadre_report_digest(two));
    cadre_report_free(one);
    cadre_report_free(two);
    remove_all();
}
END_TEST

static int train_medium(const cadre_slice *slice, cadre_model *model, void *user,
                        cadre_error *error)
{
    (void)user;
    (void)error;
    fill_model(slice, model, 7000); /* 56 KB: 2000 of them do not fit two arenas */
    return 0;
}

START_TEST(more_models_than_an_arena_holds)
{
    make_slices(900);
    cadre_report *one = run(train_medium, NULL, 0, NULL), *two = run(train_medium, NULL, 1, NULL);
    ck_assert_uint_ge(900 * 56000 * 2, 64 << 20);
    ck_assert_uint_eq(cadre_report_models(two), 900);
    ck_assert_str_eq(cadre_report_digest(one), cadre_report_digest(two));
    cadre_report_free(one);
    cadre_report_free(two);
    remove_all();
}
END_TEST

static int train_dying(const cadre_slice *slice, cadre_model *model, void *user, cadre_error *error)
{
    (void)user;
    switch (slice->index) {
    case 5: raise(SIGSEGV); break;
    case 6: _exit(0);
    case 7: kill(getpid(), SIGKILL); break;
    case 8: abort();
    case 9: exit(7);
    case 10:
        if (fork() == 0) return 0; /* a child that falls off the end */
        wait(NULL);
        break;
    case 11: {
        cadre_error raised = {0};
        cadre_error_set(&raised, CADRE_EFILE, "raised in train");
        return cadre_raise(&raised);
    }
    case 12: return cadre_error_set(error, CADRE_ENUMERIC, "singular");
    case 13: return 5;
    }
    fill_model(slice, model, 3);
    return 0;
}

START_TEST(a_death_costs_its_own_slice_only)
{
    make_slices(30);
    cadre_report *report = run(train_dying, NULL, 3, NULL);
    ck_assert_ptr_nonnull(report);
    for (size_t i = 0; i < 30; i++) {
        const char *message = cadre_report_message(report, i);
        cadre_slice_state state = cadre_report_state(report, i);
        if (i >= 5 && i <= 9)
            ck_assert_int_eq(state, CADRE_SLICE_CRASHED);
        else if (i >= 11 && i <= 13)
            ck_assert_int_eq(state, CADRE_SLICE_REFUSED);
        else
            ck_assert_msg(state == CADRE_SLICE_TRAINED, "slice %zu: %s", i, message);
    }
    ck_assert_ptr_nonnull(strstr(cadre_report_message(report, 5), "SIGSEGV"));
    ck_assert_ptr_nonnull(strstr(cadre_report_message(report, 6), "exit status 0"));
    ck_assert_ptr_nonnull(strstr(cadre_report_message(report, 7), "SIGKILL"));
    ck_assert_ptr_nonnull(strstr(cadre_report_message(report, 8), "SIGABRT"));
    ck_assert_ptr_nonnull(strstr(cadre_report_message(report, 9), "exit status 7"));
    ck_assert_str_eq(cadre_report_message(report, 11), "raised in train");
    ck_assert_str_eq(cadre_report_message(report, 12), "singular");
    ck_assert_ptr_nonnull(strstr(cadre_report_message(report, 13), "returned 5"));
    cadre_report_free(report);
    expect_no_children();
    remove_all();
}
END_TEST

/* Dies once per slice: a file says that it did. */
static int train_once(const cadre_slice *slice, cadre_model *model, void *user, cadre_error *error)
{
    (void)user;
    (void)error;
    char path[128];
    snprintf(path, sizeof path, "%s/died-%zu", folder, slice->index);
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (fd >= 0) {
        close(fd);
        kill(getpid(), slice->index % 2 ? SIGKILL : SIGBUS);
    }
    fill_model(slice, model, 3);
    return 0;
}

START_TEST(a_killed_slice_is_done_again)
{
    make_slices(25);
    cadre_report *report = run(train_once, NULL, 2, NULL); /* every slice loses its worker */
    ck_assert_uint_eq(cadre_report_models(report), 25);
    cadre_report *one = run(train_once, NULL, 0, NULL);
    ck_assert_str_eq(cadre_report_digest(report), cadre_report_digest(one));
    cadre_report_free(report);
    cadre_report_free(one);
    remove_all();
}
END_TEST

static void *kill_workers(void *argument)
{
    volatile bool *end = argument;
    char path[80];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    for (unsigned seed = 1; !*end;) {
        struct timespec wait = {0, 1000000L + (long)(rand_r(&seed) % 9000000)};
        nanosleep(&wait, NULL);
        FILE *file = fopen(path, "r");
        int pid;
        if (!file) continue;
        if (fscanf(file, "%d", &pid) == 1 && pid > 0) kill(pid, SIGKILL);
        fclose(file);
    }
    return NULL;
}

static int train_slow(const cadre_slice *slice, cadre_model *model, void *user, cadre_error *error)
{
    (void)user;
    (void)error;
    struct timespec wait = {0, 500000};
    nanosleep(&wait, NULL);
    fill_model(slice, model, slice->index % 7 ? 10 : 20000);
    return 0;
}

START_TEST(kills_at_any_instant_lose_nothing)
{
    make_slices(200);
    cadre_report *one = run(train_slow, NULL, 0, NULL);
    volatile bool end = false;
    pthread_t killer;
    pthread_create(&killer, NULL, kill_workers, (void *)&end);
    cadre_report *many = cadre_loop(slices, (cadre_loop_options){.train = train_slow,
                                                                 .is_multiple_processors = true,
                                                                 .cpu_count = 4,
                                                                 .retries = 100,
                                                                 .quiet = true});
    end = true;
    pthread_join(killer, NULL);
    ck_assert_uint_eq(cadre_report_models(many), 200);
    ck_assert_str_eq(cadre_report_digest(one), cadre_report_digest(many));
    cadre_report_free(one);
    cadre_report_free(many);
    expect_no_children();
    remove_all();
}
END_TEST

START_TEST(children_of_the_user_are_left_alone)
{
    make_slices(20);
    pid_t mine = fork();
    if (mine == 0) _exit(42);
    cadre_report *report = run(train_dying, NULL, 2, NULL);
    ck_assert_ptr_nonnull(report);
    int status = 0;
    ck_assert_int_eq(waitpid(mine, &status, 0), mine);
    ck_assert_int_eq(WEXITSTATUS(status), 42);
    cadre_report_free(report);
    expect_no_children();
    remove_all();
}
END_TEST

START_TEST(works_when_sigchld_is_ignored)
{
    make_slices(20);
    signal(SIGCHLD, SIG_IGN);
    cadre_report *report = run(train_small, NULL, 2, NULL);
    ck_assert_uint_eq(cadre_report_models(report), 19);
    cadre_report_free(report);
    remove_all();
}
END_TEST

START_TEST(options_that_cannot_be_used)
{
    make_slices(3);
    int limit = vcpus = 2;
    char both[120];
    ck_assert_ptr_null(run(NULL, NULL, 1, NULL));
    cadre_loop_options options = {
        .train = train_small, .is_multiple_processors = true, .cpu_count = 0, .quiet = true};
    ck_assert_ptr_null(cadre_loop(slices, options));
    snprintf(both, sizeof both, "from 1 to %d", limit);
    ck_assert_ptr_nonnull(strstr(cadre_last_error()->message, "cpu_count is 0"));
    ck_assert_ptr_nonnull(strstr(cadre_last_error()->message, both));
    options.cpu_count = -4;
    ck_assert_ptr_null(cadre_loop(slices, options));
    ck_assert_ptr_nonnull(strstr(cadre_last_error()->message, "-4"));
    options.cpu_count = limit + 1;
    ck_assert_ptr_null(cadre_loop(slices, options));
    snprintf(both, sizeof both, "cpu_count is %d, but this environment has %d vCPU", limit + 1,
             limit);
    ck_assert_ptr_nonnull(strstr(cadre_last_error()->message, both));
    options.is_multiple_processors = false; /* then cpu_count says nothing */
    cadre_report *report = cadre_loop(slices, options);
    ck_assert_uint_eq(cadre_report_models(report), 3);
    cadre_report_free(report);
    ck_assert_ptr_null(cadre_loop(NULL, options));
    remove_all();
}
END_TEST

START_TEST(a_refused_fork_runs_in_the_calling_process)
{
    make_slices(10);
    /* Root is not bound by RLIMIT_NPROC; no descriptors stops the workers' sockets instead. */
    struct rlimit before, none;
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    int next = dup(0);
    none.rlim_cur = (rlim_t)next;
    close(next);
    setrlimit(RLIMIT_NOFILE, &none);
    cadre_report *report = run(train_small, NULL, 2, NULL);
    setrlimit(RLIMIT_NOFILE, &before);
    ck_assert_uint_eq(cadre_report_models(report), 9);
    ck_assert_int_eq(cadre_report_processes(report), 1);
    ck_assert_ptr_nonnull(strstr(cadre_report_remark(report), "no process could be started"));
    cadre_report_free(report);
    remove_all();
}
END_TEST

static pid_t loop_process;

static void die_in_a_worker(void)
{
    if (getpid() != loop_process) raise(SIGPIPE);
}

/* No slice's tries count such deaths: the loop itself must give up. */
START_TEST(workers_that_die_before_a_slice_end_the_loop)
{
    make_slices(10);
    loop_process = getpid();
    signal(SIGPIPE, SIG_DFL);
    pthread_atfork(NULL, NULL, die_in_a_worker);
    for (int ignored = 0; ignored < 2; ignored++) {
        if (ignored) signal(SIGCHLD, SIG_IGN); /* then nobody knows how they ended */
        ck_assert_ptr_null(run(train_small, NULL, 2, NULL));
        const char *message = cadre_last_error()->message;
        ck_assert_msg(strstr(message, ignored ? "its process ended" : "SIGPIPE") != NULL, "%s",
                      message);
        ck_assert_ptr_nonnull(strstr(message, "before they began a slice"));
        ck_assert_ptr_nonnull(strstr(message, "0 of 10"));
    }
    expect_no_children();
    remove_all();
}
END_TEST

START_TEST(a_folder_of_models)
{
    char models[100], path[200];
    make_slices(6);
    snprintf(models, sizeof models, "%s/new/models", folder);
    cadre_report *report = run(train_small, NULL, 2, models);
    ck_assert_msg(report != NULL, "%s", cadre_last_error()->message);
    snprintf(path, sizeof path, "%s/manifest.json", models);
    json_t *manifest = json_load_file(path, 0, NULL);
    ck_assert_ptr_nonnull(manifest);
    const json_t *list = json_object_get(manifest, "models");
    ck_assert_uint_eq(json_array_size(list), 5);
    ck_assert(json_is_true(json_object_get(manifest, "complete")));
    ck_assert_str_eq(json_string_value(json_object_get(manifest, "digest")),
                     cadre_report_digest(report));
    const json_t *refused = json_array_get(json_object_get(manifest, "refused"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(refused, "name")), "S/003");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *file = json_string_value(json_object_get(json_array_get(list, i), "file"));
        snprintf(path, sizeof path, "%s/%s", models, file);
        cadre_error error = {0};
        cadre_model *model = cadre_model_load(path, &error);
        ck_assert_msg(model != NULL, "%s", error.message);
        cadre_model_free(model);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/manifest.json", models);
    unlink(path);
    ck_assert_int_eq(rmdir(models), 0); /* nothing else was left there */
    snprintf(path, sizeof path, "%s/new", folder);
    rmdir(path);
    json_decref(manifest);
    cadre_report_free(report);

    ck_assert_ptr_null(run(train_small, NULL, 2, "/proc/nobody/models"));
    ck_assert_int_eq(cadre_last_error()->code, CADRE_EFILE);
    remove_all();
}
END_TEST

START_TEST(names_of_files)
{
    static const char *const cases[][2] = {{"UA/EWR", "UA%2FEWR.safetensors"},
                                           {"..", "%2E..safetensors"},
                                           {"", "%00.safetensors"},
                                           {"a b%", "a%20b%25.safetensors"},
                                           {"B\xc3\xa9", "B%C3%A9.safetensors"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *name = cadre_folder_file_name(cases[i][0]);
        ck_assert_str_eq(name, cases[i][1]);
        free(name);
    }
    char longest[600];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    char *first = cadre_folder_file_name(longest);
    longest[sizeof longest - 2] = 'y';
    char *second = cadre_folder_file_name(longest);
    ck_assert_uint_le(strlen(first), 255);
    ck_assert_str_ne(first, second);
    free(first);
    free(second);
}
END_TEST

static void *interrupt_soon(void *argument)
{
    (void)argument;
    struct timespec wait = {0, 200000000};
    nanosleep(&wait, NULL);
    cadre_interrupt_request();
    return NULL;
}

static int train_long(const cadre_slice *slice, cadre_model *model, void *user, cadre_error *error)
{
    (void)error;
    struct timespec wait = {*(const int *)user, 20000000};
    nanosleep(&wait, NULL);
    fill_model(slice, model, 3);
    return 0;
}

START_TEST(an_interrupt_ends_the_loop_and_its_workers)
{
    make_slices(100);
    for (int processes = 0; processes <= 2; processes += 2) {
        pthread_t thread;
        int seconds = processes ? 60 : 0; /* in one process a slice is ended by the handler only */
        pthread_create(&thread, NULL, interrupt_soon, NULL);
        double start = cadre_loop_now();
        ck_assert_ptr_null(run(train_long, &seconds, processes, NULL));
        ck_assert_double_lt(cadre_loop_now() - start, 0.6);
        ck_assert_int_eq(cadre_last_error()->code, CADRE_EINTERRUPT);
        pthread_join(thread, NULL);
        cadre_interrupt_clear();
        expect_no_children();
    }
    remove_all();
}
END_TEST

static void leave_by_boundary(int number)
{
    (void)number;
    cadre_interrupt_request();
    cadre_interrupt_boundary *boundary = cadre_interrupt_innermost();
    if (boundary) siglongjmp(boundary->jump, CADRE_EINTERRUPT);
}

START_TEST(a_handler_leaves_train_by_the_boundary)
{
    make_slices(100);
    int seconds = 60;
    signal(SIGALRM, leave_by_boundary);
    alarm(1);
    double start = cadre_loop_now();
    ck_assert_ptr_null(run(train_long, &seconds, 0, NULL));
    ck_assert_double_lt(cadre_loop_now() - start, 2);
    ck_assert_int_eq(cadre_last_error()->code, CADRE_EINTERRUPT);
    ck_assert_ptr_null(cadre_interrupt_innermost());
    remove_all();
}
END_TEST

/* A process that runs a loop and is killed takes its workers with it. */
START_TEST(workers_end_with_their_parent)
{
    make_slices(10);
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t parent = fork();
    if (parent == 0) {
        int seconds = 60; /* the workers inherit the writing end */
        close(ends[0]);
        run(train_long, &seconds, 2, NULL);
        _exit(0);
    }
    close(ends[1]);
    struct timespec wait = {0, 300000000};
    nanosleep(&wait, NULL);
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    char byte;
    double start = cadre_loop_now();
    ck_assert_int_eq(read(ends[0], &byte, 1), 0); /* end of file: all of them are gone */
    ck_assert_double_lt(cadre_loop_now() - start, 5);
    close(ends[0]);
    remove_all();
}
END_TEST

static int train_printing(const cadre_slice *slice, cadre_model *model, void *user,
                          cadre_error *error)
{
    (void)user;
    (void)error;
    printf("slice %zu\n", slice->index);
    fill_model(slice, model, 3);
    return 0;
}

START_TEST(what_train_prints_comes_once)
{
    char path[128], line[64];
    make_slices(50);
    snprintf(path, sizeof path, "%s/printed", folder);
    fflush(stdout);
    int before = dup(STDOUT_FILENO), file = open(path, O_CREAT | O_RDWR | O_APPEND, 0600);
    dup2(file, STDOUT_FILENO);
    printf("before\n"); /* still in the buffer when the workers are forked */
    cadre_report_free(run(train_printing, NULL, 3, NULL));
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    close(file);
    int lines = 0;
    FILE *printed = fopen(path, "r");
    while (fgets(line, sizeof line, printed))
        lines++;
    fclose(printed);
    ck_assert_int_eq(lines, 51);
    remove_all();
}
END_TEST

START_TEST(an_empty_loop_and_its_report)
{
    make_slices(5);
    cadre_report *report = run(train_small, NULL, 0, NULL);
    char *json = cadre_report_json(report), *bundle = cadre_report_bundle(report);
    json_t *figures = json_loads(json, 0, NULL), *shown = json_loads(bundle, 0, NULL);
    ck_assert_int_eq(json_integer_value(json_object_get(figures, "slices")), 5);
    ck_assert_int_eq(json_integer_value(json_object_get(figures, "models")), 4);
    /* root of (0 + 1 + 4 + 16) / 4 */
    ck_assert_double_eq_tol(json_real_value(json_object_get(figures, "error")), 2.29128784747792,
                            1e-12);
    const char *text = json_string_value(json_object_get(shown, "text/plain"));
    const char *html = json_string_value(json_object_get(shown, "text/html"));
    ck_assert_ptr_nonnull(strstr(text, "5 slices, 4 models"));
    ck_assert_ptr_nonnull(strstr(text, "S/003 (4 rows) refused: only 4 rows"));
    ck_assert_ptr_nonnull(strstr(html, "<table>"));
    json_decref(figures);
    json_decref(shown);
    free(json);
    free(bundle);
    cadre_report_free(report);
    cadre_report_free(NULL);
    remove_all();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("loop");
    TCase *modes = tcase_create("modes");
    tcase_set_timeout(modes, 60);
    tcase_add_test(modes, both_modes_give_equal_models);
    tcase_add_test(modes, models_of_any_size_come_back);
    tcase_add_test(modes, more_models_than_an_arena_holds);
    tcase_add_test(modes, options_that_cannot_be_used);
    tcase_add_test(modes, an_empty_loop_and_its_report);
    tcase_add_test(modes, a_folder_of_models);
    tcase_add_test(modes, names_of_files);
    tcase_add_test(modes, what_train_prints_comes_once);
    suite_add_tcase(suite, modes);
    TCase *faults = tcase_create("faults");
    tcase_set_timeout(faults, 60);
    tcase_add_test(faults, a_death_costs_its_own_slice_only);
    tcase_add_test(faults, a_killed_slice_is_done_again);
    tcase_add_test(faults, kills_at_any_instant_lose_nothing);
    tcase_add_test(faults, children_of_the_user_are_left_alone);
    tcase_add_test(faults, works_when_sigchld_is_ignored);
    tcase_add_test(faults, a_refused_fork_runs_in_the_calling_process);
    tcase_add_test(faults, workers_that_die_before_a_slice_end_the_loop);
    tcase_add_test(faults, an_interrupt_ends_the_loop_and_its_workers);
    tcase_add_test(faults, a_handler_leaves_train_by_the_boundary);
    tcase_add_test(faults, workers_end_with_their_parent);
    suite_add_tcase(suite, faults);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
