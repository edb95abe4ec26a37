/* kernel/host: who killed a process for want of memory, from files as the system writes them. */
#include "host/front.h"

#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

static void begin(void)
{
    snprintf(root, sizeof root, "/tmp/cadre-memory-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static void put(const char *name, const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s%s", root, name);
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static void end(void)
{
    char command[100];
    snprintf(command, sizeof command, "%s", root);
    char *const arguments[] = {"rm", "-r", command, NULL};
    if (fork() == 0) execv("/bin/rm", arguments);
}

static void machine(const char *kills)
{
    char text[100];
    snprintf(text, sizeof text, "nr_free_pages 1\noom_kill %s\noom_kill_more 9\n", kills);
    put("/proc/vmstat", text);
    put("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n");
}

static void expect(const memory_state *before, const char *wanted)
{
    memory_state now;
    cadre_buffer text = {0};
    front_memory_state(root, &now);
    bool blamed = front_memory_blame(before, &now, &text);
    ck_assert_int_eq(blamed, wanted != NULL);
    if (wanted) ck_assert_str_eq(text.data, wanted);
    cadre_buffer_free(&text);
}

START_TEST(version_2)
{
    memory_state before;
    begin();
    machine("3");
    put("/proc/self/cgroup", "0::/user/cell\n");
    put("/sys/fs/cgroup/user/memory.max", "2147483648\n");
    put("/sys/fs/cgroup/user/memory.peak", "2147483600\n");
    put("/sys/fs/cgroup/user/cell/memory.max", "max\n");
    put("/sys/fs/cgroup/user/cell/memory.peak", "100\n");
    put("/sys/fs/cgroup/user/cell/memory.events", "low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\n");
    front_memory_state(root, &before);
    expect(&before, NULL);
    put("/sys/fs/cgroup/user/cell/memory.events", "low 0\nhigh 0\nmax 9\noom 2\noom_kill 2\n");
    expect(&before, "killed by the memory limit: 2.0 of 2.0 GB were in use");
    end();
}
END_TEST

START_TEST(version_1)
{
    memory_state before;
    begin();
    machine("3");
    put("/proc/self/cgroup", "4:memory:/a\n3:cpuset:/\n0::/\n");
    put("/sys/fs/cgroup/memory/a/memory.oom_control", "oom_kill_disable 0\noom_kill 0\n");
    put("/sys/fs/cgroup/memory/a/memory.stat", "cache 5\nhierarchical_memory_limit 536870912\n");
    put("/sys/fs/cgroup/memory/a/memory.max_usage_in_bytes", "536870912\n");
    front_memory_state(root, &before);
    expect(&before, NULL);
    put("/sys/fs/cgroup/memory/a/memory.oom_control", "oom_kill_disable 0\noom_kill 1\n");
    expect(&before, "killed by the memory limit: 0.5 of 0.5 GB were in use");
    /* No limit at all: it was the machine's memory. */
    put("/sys/fs/cgroup/memory/a/memory.stat", "hierarchical_memory_limit 9223372036854771712\n");
    expect(&before, "killed by the system, which had no memory left (this machine has 16.0 GB)");
    end();
}
END_TEST

static void expect_room(uint64_t own, const char *missing)
{
    memory_state state;
    char why[300] = "";
    front_memory_state(root, &state);
    ck_assert_msg(front_memory_has_room(&state, own, why, sizeof why) == !missing, "%s", why);
    if (missing) ck_assert_msg(strstr(why, missing) != NULL, "%s", why);
}

START_TEST(room_for_a_copy)
{
    const uint64_t gigabyte = 1 << 30;
    begin();
    expect_room(100 * gigabyte, NULL); /* nothing is known */
    put("/proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\nSwapFree: 1048576 kB\n");
    expect_room(9 * gigabyte, NULL);
    expect_room(9 * gigabyte + 1, "of this machine's memory 9.00 GB are left");
    /* Version 2: the closest of two limits, caches counted as free. */
    put("/proc/self/cgroup", "0::/user/cell\n");
    put("/sys/fs/cgroup/user/memory.max", "8589934592\n");
    put("/sys/fs/cgroup/user/memory.current", "7516192768\n");
    put("/sys/fs/cgroup/user/memory.stat", "anon 5\ninactive_file 1073741824\n");
    put("/sys/fs/cgroup/user/cell/memory.max", "4294967296\n");
    put("/sys/fs/cgroup/user/cell/memory.current", "1073741824\n");
    put("/sys/fs/cgroup/user/cell/memory.events", "oom_kill 0\n");
    expect_room(2 * gigabyte, NULL);
    expect_room(2 * gigabyte + 1, "of the memory limit 2.00 GB are left");
    put("/sys/fs/cgroup/user/cell/memory.current", "4294967296\n");
    expect_room(1, "0.00 GB");
    /* Version 1. */
    put("/proc/self/cgroup", "4:memory:/a\n0::/\n");
    put("/sys/fs/cgroup/memory/a/memory.oom_control", "oom_kill 0\n");
    put("/sys/fs/cgroup/memory/a/memory.stat",
        "hierarchical_memory_limit 4294967296\ntotal_inactive_file 1073741824\n");
    put("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "2147483648\n");
    expect_room(3 * gigabyte, NULL);
    expect_room(3 * gigabyte + 1, "of the memory limit 3.00 GB are left");
    end();
}
END_TEST

START_TEST(the_machine)
{
    memory_state before;
    begin();
    machine("3");
    front_memory_state(root, &before);
    expect(&before, NULL);
    machine("4");
    expect(&before, "killed by the system, which had no memory left (this machine has 16.0 GB)");
    end();
}
END_TEST

START_TEST(files_that_say_nothing)
{
    memory_state before;
    begin();
    front_memory_state(root, &before);
    expect(&before, NULL);
    put("/proc/self/cgroup", "\n:\n::\n0::\n5:memory\n5:memory:\n0::/../../../..\n");
    put("/proc/vmstat", "oom_kill\noom_kill x\noom_kill");
    put("/proc/meminfo", "");
    expect(&before, NULL);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory");
    TCase *parts = tcase_create("parts");
    tcase_add_test(parts, version_2);
    tcase_add_test(parts, version_1);
    tcase_add_test(parts, the_machine);
    tcase_add_test(parts, room_for_a_copy);
    tcase_add_test(parts, files_that_say_nothing);
    suite_add_tcase(suite, parts);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
