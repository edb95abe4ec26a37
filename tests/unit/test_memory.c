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
    tcase_add_test(parts, files_that_say_nothing);
    suite_add_tcase(suite, parts);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
