/* runtime/cli: sizes, names, kernelspecs on disk, limits that a process gets. */
#include "cli/cli.h"
#include "cli/limits.h"
#include "cli/specs.h"

#include <check.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/cadre-test-cli-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    setenv("JUPYTER_DATA_DIR", folder, 1);
    unsetenv("VIRTUAL_ENV");
    unsetenv("CONDA_PREFIX");
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    waitpid(child, NULL, 0);
}

START_TEST(names)
{
    char longest[CADRE_LIMITS_NAME + 2];
    ck_assert(cadre_limits_name_is_good("six"));
    ck_assert(cadre_limits_name_is_good("6-cpu_big"));
    static const char *const bad[] = {"", "a b", "../x", "a/b", ".hidden", "-x", "a\n", "\xc3\xa9"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!cadre_limits_name_is_good(bad[i]), "\"%s\" was taken", bad[i]);
    memset(longest, 'a', sizeof longest);
    longest[CADRE_LIMITS_NAME + 1] = 0;
    ck_assert(!cadre_limits_name_is_good(longest));
    longest[CADRE_LIMITS_NAME] = 0;
    ck_assert(cadre_limits_name_is_good(longest));
}
END_TEST

START_TEST(vcpus)
{
    int value = 7;
    cadre_error error = {0};
    ck_assert_int_eq(cadre_limits_parse_vcpus("6", &value, &error), 0);
    ck_assert_int_eq(value, 6);
    static const char *const bad[] = {"", "0", "-1", "1.5", "2x", " 2", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_int_eq(cadre_limits_parse_vcpus(bad[i], &value, &error), CADRE_EINPUT);
    ck_assert_int_eq(value, 6);
    ck_assert_ptr_nonnull(strstr(error.message, "99999999999999999999"));
}
END_TEST

START_TEST(memory)
{
    uint64_t bytes = 1;
    cadre_error error = {0};
    ck_assert_int_eq(cadre_limits_parse_memory("512M", &bytes, &error), 0);
    ck_assert_uint_eq(bytes, 512ull << 20);
    ck_assert_int_eq(cadre_limits_parse_memory("8GiB", &bytes, &error), 0);
    ck_assert_uint_eq(bytes, 8ull << 30);
    ck_assert_int_eq(cadre_limits_parse_memory("100000000", &bytes, &error), 0);
    ck_assert_uint_eq(bytes, 100000000);
    static const char *const bad[] = {"",
                                      "G",
                                      "-1G",
                                      "1.5G",
                                      "8X",
                                      "8GG",
                                      "8 G",
                                      "63M",
                                      "99999999999999999999",
                                      "18014398509481984G"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(cadre_limits_parse_memory(bad[i], &bytes, &error) == CADRE_EINPUT,
                      "%s was taken", bad[i]);
    ck_assert_uint_eq(bytes, 100000000);
}
END_TEST

START_TEST(places)
{
    cadre_error error = {0};
    cadre_spec_place place = {0};
    char expected[256];
    char *user[] = {(char *)"--user"}, *prefix[] = {(char *)"--prefix", (char *)"/opt/x"},
         *joined[] = {(char *)"--prefix=/opt/y"}, *environment[] = {(char *)"--sys-prefix"},
         *other[] = {(char *)"--vcpus"};
    ck_assert_int_eq(cadre_spec_place_parse(&place, 1, user, &error), 1);
    snprintf(expected, sizeof expected, "%s/kernels", folder);
    ck_assert_str_eq(place.folder, expected);
    ck_assert_int_eq(cadre_spec_place_parse(&place, 2, prefix, &error), 2);
    ck_assert_str_eq(place.folder, "/opt/x/share/jupyter/kernels");
    ck_assert_int_eq(cadre_spec_place_parse(&place, 1, joined, &error), 1);
    ck_assert_str_eq(place.folder, "/opt/y/share/jupyter/kernels");
    ck_assert_int_lt(cadre_spec_place_parse(&place, 1, prefix, &error), 0);
    ck_assert_int_lt(cadre_spec_place_parse(&place, 1, environment, &error), 0);
    ck_assert_int_eq(cadre_spec_place_parse(&place, 1, other, &error), 0);
    setenv("VIRTUAL_ENV", "/opt/env", 1);
    ck_assert_int_eq(cadre_spec_place_parse(&place, 1, environment, &error), 1);
    ck_assert_str_eq(place.folder, "/opt/env/share/jupyter/kernels");
}
END_TEST

START_TEST(write_read_remove)
{
    cadre_error error = {0};
    cadre_spec_place place = {0};
    char path[CADRE_SPEC_PATH + 64];
    ck_assert_int_eq(cadre_spec_place_user(&place, &error), 0);
    json_t *spec = json_pack("{s:[s,s]}", "argv", "/x/cadre-kernel", "{connection_file}");
    ck_assert_int_eq(cadre_spec_write(&place, "cadre-t", spec, &error), 0);
    /* A second time over the first one: no left-over of the writing may stay. */
    ck_assert_int_eq(cadre_spec_write(&place, "cadre-t", spec, &error), 0);
    json_t *back = cadre_spec_read(place.folder, "cadre-t");
    ck_assert(json_equal(spec, back));
    ck_assert(cadre_spec_is_ours(back));
    json_decref(back);
    json_decref(spec);
    ck_assert_int_eq(cadre_spec_remove(place.folder, "cadre-t", &error), 0);
    snprintf(path, sizeof path, "%s/cadre-t", place.folder);
    ck_assert_int_ne(access(path, F_OK), 0);
    ck_assert_int_eq(cadre_spec_remove(place.folder, "cadre-t", &error), CADRE_ENOTFOUND);
}
END_TEST

START_TEST(only_ours_is_removed)
{
    cadre_error error = {0};
    cadre_spec_place place = {0};
    char path[CADRE_SPEC_PATH + 64];
    ck_assert_int_eq(cadre_spec_place_user(&place, &error), 0);
    json_t *spec = json_pack("{s:[s,s]}", "argv", "/usr/bin/python3", "cadre-kernel.py");
    ck_assert(!cadre_spec_is_ours(spec));
    ck_assert_int_eq(cadre_spec_write(&place, "cadre-other", spec, &error), 0);
    json_decref(spec);
    ck_assert_int_eq(cadre_spec_remove(place.folder, "cadre-other", &error), CADRE_ENOTFOUND);
    snprintf(path, sizeof path, "%s/cadre-other/kernel.json", place.folder);
    ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

START_TEST(a_folder_that_cannot_be_written)
{
    cadre_error error = {0};
    cadre_spec_place place = {0};
    char path[CADRE_SPEC_PATH + 64];
    ck_assert_int_eq(cadre_spec_place_user(&place, &error), 0);
    /* A file where a folder should be stops root too. */
    snprintf(path, sizeof path, "%s/kernels", folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    close(fd);
    json_t *spec = json_pack("{s:[s]}", "argv", "/x/cadre-kernel");
    ck_assert_int_eq(cadre_spec_write(&place, "cadre-t", spec, &error), CADRE_EFILE);
    ck_assert_ptr_nonnull(strstr(error.message, "kernels"));
    json_decref(spec);
}
END_TEST

static int count_folders(const char *place, void *context)
{
    (void)place;
    ++*(int *)context;
    return 0;
}

START_TEST(no_place_comes_twice)
{
    char kernels[128], list[512];
    int once = 0, again = 0;
    snprintf(kernels, sizeof kernels, "%s/kernels", folder);
    ck_assert_int_eq(mkdir(kernels, 0700), 0);
    unsetenv("JUPYTER_PATH");
    cadre_spec_places(count_folders, &once);
    snprintf(list, sizeof list, "%s:%s/./:%s/nowhere", folder, folder, folder);
    setenv("JUPYTER_PATH", list, 1);
    cadre_spec_places(count_folders, &again);
    ck_assert_int_ge(once, 1);
    ck_assert_int_eq(once, again);
}
END_TEST

/* What a process with these limits really has; each runs in a child, since they cannot be undone.
 */
static int in_child(void (*body)(void))
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        body();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void larger_than_the_machine(void)
{
    cadre_limits limits = {.name = "big", .vcpus = CADRE_LIMITS_VCPUS};
    cadre_limits_result result;
    cadre_limits_apply(&limits, &result);
    cpu_set_t mine;
    sched_getaffinity(0, sizeof mine, &mine);
    if (result.cpus != CPU_COUNT(&mine)) _exit(2);
    if (!strstr(result.note, "big") || !strstr(result.note, "4096")) _exit(3);
    if (strcmp(result.cpu_means, "machine") != 0) _exit(4);
}

static void memory_without_a_cgroup(void)
{
    cadre_limits limits = {.name = "m", .vcpus = 1, .memory = 256ull << 20};
    cadre_limits_result result;
    cadre_limits_apply(&limits, &result);
    if (result.cpus != 1) _exit(2);
    if (!strcmp(result.memory_means, "rlimit")) {
        struct rlimit limit;
        getrlimit(RLIMIT_DATA, &limit);
        if (limit.rlim_cur != limits.memory) _exit(3);
        void *much = malloc(512ull << 20);
        if (much) _exit(4);
    } else if (strcmp(result.memory_means, "cgroup") != 0) {
        _exit(5);
    }
}

START_TEST(limits)
{
    ck_assert_int_eq(in_child(larger_than_the_machine), 0);
    ck_assert_int_eq(in_child(memory_without_a_cgroup), 0);
}
END_TEST

START_TEST(left_over_cgroups_are_swept)
{
    char dead[256], mine[256], other[256];
    pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
    snprintf(dead, sizeof dead, "%s/cadre-env-%ld", folder, (long)child);
    snprintf(mine, sizeof mine, "%s/cadre-env-%ld", folder, (long)getpid());
    snprintf(other, sizeof other, "%s/else-%ld", folder, (long)child);
    ck_assert_int_eq(mkdir(dead, 0700) + mkdir(mine, 0700) + mkdir(other, 0700), 0);
    cadre_cgroup_sweep(folder);
    ck_assert_int_ne(access(dead, F_OK), 0);
    ck_assert_int_eq(access(mine, F_OK), 0);
    ck_assert_int_eq(access(other, F_OK), 0);
}
END_TEST

START_TEST(called_wrongly)
{
    char *add[] = {(char *)"env", (char *)"add", (char *)"x", NULL};
    char *exec[] = {(char *)"env", (char *)"exec", (char *)"--name", (char *)"x", NULL};
    char *nothing[] = {(char *)"env", NULL};
    char *what[] = {(char *)"kernelspec", (char *)"install", (char *)"--nonsense", NULL};
    ck_assert_int_eq(freopen("/dev/null", "w", stderr) != NULL, 1);
    ck_assert_int_eq(cadre_cli_env(3, add), 2);
    ck_assert_int_eq(cadre_cli_env(4, exec), 2);
    ck_assert_int_eq(cadre_cli_env(1, nothing), 2);
    ck_assert_int_eq(cadre_cli_kernelspec(3, what), 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cli");
    TCase *tests = tcase_create("cli");
    tcase_add_checked_fixture(tests, make_folder, remove_folder);
    tcase_add_test(tests, names);
    tcase_add_test(tests, vcpus);
    tcase_add_test(tests, memory);
    tcase_add_test(tests, places);
    tcase_add_test(tests, write_read_remove);
    tcase_add_test(tests, only_ours_is_removed);
    tcase_add_test(tests, a_folder_that_cannot_be_written);
    tcase_add_test(tests, no_place_comes_twice);
    tcase_add_test(tests, limits);
    tcase_add_test(tests, left_over_cgroups_are_swept);
    tcase_add_test(tests, called_wrongly);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
