/* runtime/cpu: limits below faked roots; runtime/base: the error handler. */
#include <cblas.h>
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error_handler.h"
#include "cpu/cpu.h"
#include "cpu/cpu_limits.h"

static char root[64];

static void make_root(void)
{
    snprintf(root, sizeof root, "/tmp/cadre-root-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
}

/* A file below the root, with the folders above it. */
static void put(const char *path, const char *text)
{
    char name[512];
    snprintf(name, sizeof name, "%s%s", root, path);
    for (char *at = name + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = 0;
        ck_assert(mkdir(name, 0700) == 0 || errno == EEXIST);
    }
    FILE *file = fopen(name, "we");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static void remove_root(void)
{
    pid_t child = fork();
    if (child == 0) {
        execlp("rm", "rm", "-rf", root, NULL);
        _exit(1);
    }
    waitpid(child, NULL, 0);
}

#define MOUNT_V2 "24 1 0:21 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define MOUNT_V1 "33 1 0:30 %s /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"

START_TEST(no_cgroups)
{
    make_root();
    ck_assert(cadre_cpu_quota(root) == 0);
    put("/proc/self/cgroup", "garbage\n::\n0\n");
    put("/proc/self/mountinfo", "- \n - cgroup2\n1 2 3 - cgroup2 x\n");
    ck_assert(cadre_cpu_quota(root) == 0);
    remove_root();
}
END_TEST

START_TEST(version_2)
{
    make_root();
    put("/proc/self/cgroup", "0::/user.slice/job\n");
    put("/proc/self/mountinfo", "22 1 0:20 / /proc rw - proc proc rw\n" MOUNT_V2);
    put("/sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n");
    ck_assert(cadre_cpu_quota(root) == 0);
    put("/sys/fs/cgroup/user.slice/job/cpu.max", "350000 100000\n");
    ck_assert(cadre_cpu_quota(root) == 3.5);
    put("/sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n"); /* the one above is smaller */
    ck_assert(cadre_cpu_quota(root) == 1.5);
    put("/sys/fs/cgroup/user.slice/cpu.max", "0 0\n");
    ck_assert(cadre_cpu_quota(root) == 3.5);
    put("/sys/fs/cgroup/user.slice/job/cpu.max", "nonsense");
    ck_assert(cadre_cpu_quota(root) == 0);
    remove_root();
}
END_TEST

START_TEST(inside_containers)
{
    make_root();
    /* A namespace: the own cgroup is the root of what is mounted. */
    put("/proc/self/cgroup", "0::/\n");
    put("/proc/self/mountinfo", MOUNT_V2);
    put("/sys/fs/cgroup/cpu.max", "200000 100000\n");
    ck_assert(cadre_cpu_quota(root) == 2);
    /* The path leads out of the namespace. */
    put("/proc/self/cgroup", "0::/../../other\n");
    ck_assert(cadre_cpu_quota(root) == 2);
    remove_root();

    make_root();
    char mount[256];
    snprintf(mount, sizeof mount, MOUNT_V1, "/docker/abc");
    put("/proc/self/mountinfo", mount);
    put("/proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    ck_assert(cadre_cpu_quota(root) == 2.5);
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    ck_assert(cadre_cpu_quota(root) == 0);
    remove_root();
}
END_TEST

START_TEST(version_1)
{
    make_root();
    char mount[256];
    snprintf(mount, sizeof mount, MOUNT_V1, "/");
    put("/proc/self/mountinfo", mount);
    put("/proc/self/cgroup", "2:cpuset:/elsewhere\n4:cpu,cpuacct:/slurm/job_7\n");
    put("/sys/fs/cgroup/cpu,cpuacct/slurm/job_7/cpu.cfs_quota_us", "400000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/slurm/job_7/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_quota_us", "90000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_period_us", "100000\n");
    ck_assert(cadre_cpu_quota(root) == 0.9);
    remove_root();
}
END_TEST

START_TEST(the_smallest_limit_counts)
{
    static const struct {
        cpu_limits limits;
        int count;
        const char *says;
    } cases[] = {
        {{0, 0, 0}, 1, "1 vCPU ("},
        {{0, 8, 0}, 8, "8 vCPUs (affinity: 8 CPUs; no cgroup quota; CADRE_VCPUS is not set)"},
        {{2.5, 8, 0}, 3, "3 vCPUs (cgroup quota: 2.5 CPUs; affinity: 8 CPUs; "},
        {{0.1, 8, 4}, 1, "1 vCPU (cgroup quota: 0.1 CPUs; affinity: 8 CPUs; CADRE_VCPUS: 4)"},
        {{0, 2, 6}, 2, "2 vCPUs (affinity: 2 CPUs; no cgroup quota; CADRE_VCPUS: 6)"},
        {{4, 8, 1.5}, 2, "2 vCPUs (CADRE_VCPUS: 1.5; affinity: 8 CPUs; cgroup quota: 4 CPUs)"},
        {{3.0000000001, 8, 0}, 3, "3 vCPUs"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        ck_assert_int_eq(cadre_cpu_smallest(&cases[i].limits), cases[i].count);
        cadre_cpu_describe_limits(&cases[i].limits, text, sizeof text);
        ck_assert_msg(!strncmp(text, cases[i].says, strlen(cases[i].says)), "%s", text);
    }
}
END_TEST

START_TEST(the_environment)
{
    ck_assert(cadre_cpu_parse_request("6") == 6 && cadre_cpu_parse_request("1.5") == 1.5);
    static const char *const bad[] = {"", "0", "-2", "six", "6x", "nan", "inf", "1e999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert(cadre_cpu_parse_request(bad[i]) == 0);
    ck_assert(cadre_cpu_parse_request(NULL) == 0);
    unsetenv("CADRE_VCPUS");
    int count = cadre_cpu_count();
    ck_assert_int_ge(count, 1);
    setenv("CADRE_VCPUS", "1", 1);
    ck_assert_int_eq(cadre_cpu_count(), 1);
    setenv("CADRE_VCPUS", "100000", 1);
    ck_assert_int_eq(cadre_cpu_count(), count);
    ck_assert_ptr_nonnull(strstr(cadre_cpu_describe(), "CADRE_VCPUS: 100000"));
}
END_TEST

START_TEST(thread_pools)
{
    openblas_set_num_threads(1);
    ck_assert_int_eq(cadre_cpu_size_thread_pools(2), 1);
    ck_assert_int_eq(openblas_get_num_threads(), 2);
    ck_assert_int_eq(cadre_cpu_size_thread_pools(0), 2);
    ck_assert_int_eq(cadre_cpu_size_thread_pools(1), 1);
}
END_TEST

static int calls;

static void count_call(const cadre_error *error)
{
    calls += error->code == CADRE_EINPUT;
}

START_TEST(error_handlers)
{
    cadre_error error = {0};
    ck_assert_int_eq(cadre_last_error()->code, 0);
    cadre_error_set_at(&error, CADRE_EINPUT, "a.csv", 3, 4, "wrong");
    ck_assert_ptr_null(cadre_set_error_handler(count_call));
    ck_assert_int_eq(cadre_raise(&error), CADRE_EINPUT);
    ck_assert_int_eq(calls, 1);
    ck_assert_str_eq(cadre_last_error()->message, "a.csv:3:4: wrong");
    ck_assert(cadre_set_error_handler(cadre_error_ignore) == count_call);
    cadre_raise(cadre_last_error());
    ck_assert_int_eq(calls, 1);
    cadre_set_error_handler(NULL);
    int pipes[2], status;
    char text[256] = "";
    ck_assert_int_eq(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], 2);
        cadre_raise(&error);
        _exit(0);
    }
    close(pipes[1]);
    ck_assert_int_gt(read(pipes[0], text, sizeof text - 1), 0);
    ck_assert_str_eq(text, "cadre: a.csv:3:4: wrong\n");
    waitpid(child, &status, 0);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    close(pipes[0]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cpu");
    TCase *tests = tcase_create("cpu");
    tcase_add_test(tests, no_cgroups);
    tcase_add_test(tests, version_2);
    tcase_add_test(tests, inside_containers);
    tcase_add_test(tests, version_1);
    tcase_add_test(tests, the_smallest_limit_counts);
    tcase_add_test(tests, the_environment);
    tcase_add_test(tests, thread_pools);
    tcase_add_test(tests, error_handlers);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
