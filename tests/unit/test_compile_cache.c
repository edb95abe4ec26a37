/* The cache of compiled cells: when it answers, when it must not, and what it survives. */
#include "compile_helpers.h"

#include "kernel/cell/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char *folder, *cache_folder;
static cadre_compiler *compiler;

static void setup(void)
{
    folder = helper_folder();
    cache_folder = malloc(strlen(folder) + 10);
    sprintf(cache_folder, "%s/a/cache", folder);
    compiler = helper_compiler("gcc", cache_folder);
}

static void teardown(void)
{
    cadre_compiler_free(compiler);
    free(cache_folder);
    helper_remove(folder);
}

/* Compiles and says whether the answer came from the cache; the object must be good. */
static bool cached(const cadre_compile_request *request)
{
    cadre_compile_result result;
    helper_compile(compiler, request, &result);
    ck_assert_msg(result.ok, "%s", result.diagnostics);
    ck_assert_mem_eq(result.object, "\177ELF", 4);
    bool answer = result.from_cache;
    cadre_compile_result_free(&result);
    return answer;
}

/* Files that were just written are not trusted; see cadre_file_facts_settled. */
static void settle(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
}

START_TEST(hit_is_the_same)
{
    cadre_compile_request request = helper_request(
        "#include <stdio.h>\n", "#line 1 \"c.c\"\nvoid f(void) { printf(\"%d\", 1.5); }\n");
    cadre_compile_result first, second;
    helper_compile(compiler, &request, &first);
    helper_compile(compiler, &request, &second);
    ck_assert(first.ok && second.ok);
    ck_assert(!first.from_cache);
    ck_assert(second.from_cache);
    ck_assert_uint_eq(first.object_length, second.object_length);
    ck_assert_mem_eq(first.object, second.object, first.object_length);
    helper_contains(first.diagnostics, "warning:");
    ck_assert_str_eq(first.diagnostics, second.diagnostics);
    cadre_compile_result_free(&first);
    cadre_compile_result_free(&second);
    struct stat info;
    ck_assert_int_eq(stat(cache_folder, &info), 0);
    ck_assert_int_eq(info.st_mode & 0777, 0700);
    /* another session */
    cadre_compiler_free(compiler);
    compiler = helper_compiler("gcc", cache_folder);
    ck_assert(cached(&request));
}
END_TEST

START_TEST(everything_counts)
{
    cadre_compile_request request = helper_request("", "int x = 1;\n");
    ck_assert(!cached(&request));
    ck_assert(cached(&request));
    request.headers = "#define Y 1\n";
    ck_assert(!cached(&request));
    const char *flags[] = {"-DX=1"};
    request.flags = flags;
    request.flag_count = 1;
    ck_assert_int_eq(setenv("CPATH", folder, 1), 0);
    request = helper_request("", "int x = 1;\n");
    ck_assert(!cached(&request));
    ck_assert_int_eq(unsetenv("CPATH"), 0);
    ck_assert(cached(&request));
    request.flags = flags;
    request.flag_count = 1;
    request.source = "int X2 = 1;\n";
    request.length = strlen(request.source);
    ck_assert(!cached(&request));
    flags[0] = "-DX=2";
    ck_assert(!cached(&request));
    flags[0] = "-DX=1";
    ck_assert(cached(&request));
    char *here = getcwd(NULL, 0);
    ck_assert_int_eq(chdir(folder), 0);
    ck_assert(!cached(&request)); /* the folder is in the debugging information */
    ck_assert_int_eq(chdir(here), 0);
    free(here);
}
END_TEST

START_TEST(bad_cells_are_not_kept)
{
    cadre_compile_request request = helper_request("", "int x = nope;\n");
    cadre_compile_result result;
    for (int i = 0; i < 2; i++) {
        helper_compile(compiler, &request, &result);
        ck_assert(!result.ok);
        ck_assert(!result.from_cache);
        cadre_compile_result_free(&result);
    }
}
END_TEST

START_TEST(time_of_day_is_not_kept)
{
    const char *const sources[] = {"const char *t = __TIME__;\n", "const char *t = __DATE__;\n",
                                   "const char *t = __TIMESTAMP__;\n"};
    for (int i = 0; i < 3; i++) {
        cadre_compile_request request = helper_request("", sources[i]);
        ck_assert(!cached(&request));
        ck_assert(!cached(&request));
    }
}
END_TEST

START_TEST(changed_header)
{
    char header[300], option[300];
    snprintf(header, sizeof header, "%s/my $#header.h", folder);
    snprintf(option, sizeof option, "-I%s", folder);
    const char *flags[] = {option};
    helper_write(header, "enum { N = 1 };\n");
    settle();
    cadre_compile_request request = helper_request("#include <my $#header.h>\n", "int x[N];\n");
    request.flags = flags;
    request.flag_count = 1;
    ck_assert(!cached(&request));
    ck_assert(cached(&request));
    helper_write(header, "enum { N = 2 };\n");
    ck_assert(!cached(&request));
    settle();
    ck_assert(!cached(&request)); /* the one before was too close to the change to be kept */
    ck_assert(cached(&request));
    /* touched, and with the same size and content */
    helper_write(header, "enum { N = 2 };\n");
    ck_assert(cached(&request));
    helper_write(header, "enum { N = 3 };\n");
    settle();
    ck_assert(!cached(&request));
    /* a header that says what time it is */
    helper_write(header, "enum { N = sizeof __TIME__ };\n");
    settle();
    ck_assert(!cached(&request));
    ck_assert(!cached(&request));
}
END_TEST

START_TEST(header_that_appears_before)
{
    char first[300], second[300], header[400];
    snprintf(first, sizeof first, "%s/one", folder);
    snprintf(second, sizeof second, "%s/two", folder);
    ck_assert_int_eq(mkdir(first, 0700) | mkdir(second, 0700), 0);
    const char *flags[] = {"-I", first, "-I", second};
    snprintf(header, sizeof header, "%s/mine.h", second);
    helper_write(header, "enum { N = 1 };\n");
    settle();
    cadre_compile_request request =
        helper_request("#include <mine.h>\n#include <stddef.h>\n", "int x[N];\n");
    request.flags = flags;
    request.flag_count = 4;
    ck_assert(!cached(&request));
    ck_assert(cached(&request));
    snprintf(header, sizeof header, "%s/mine.h", first);
    helper_write(header, "enum { N = 2 };\n");
    settle();
    ck_assert(!cached(&request));
    ck_assert(cached(&request));
    snprintf(header, sizeof header, "%s/stddef.h", second);
    helper_write(header, "");
    settle();
    ck_assert(!cached(&request));
    ck_assert(cached(&request));
}
END_TEST

START_TEST(preprocessed_text_is_kept)
{
    char header[300];
    snprintf(header, sizeof header, "%s/p.h", folder);
    helper_write(header, "int a;\n");
    settle();
    char headers[400];
    snprintf(headers, sizeof headers, "#include \"%s\"\n#define TWO 2\n", header);
    cadre_compile_request request = helper_request(headers, "int b = TWO;\n");
    cadre_error error = {0};
    char *first = cadre_preprocess(compiler, &request, false, false, &error);
    char *macros = cadre_preprocess(compiler, &request, true, false, &error);
    char *second = cadre_preprocess(compiler, &request, false, false, &error);
    ck_assert(first && second && macros);
    ck_assert_str_eq(first, second);
    helper_contains(macros, "#define TWO 2");
    free(first);
    free(second);
    free(macros);
    helper_write(header, "int c;\n");
    second = cadre_preprocess(compiler, &request, false, false, &error);
    helper_contains(second, "int c;");
    free(second);
}
END_TEST

static int (*change)(const char *path);

static int change_one(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info, (void)place;
    return kind == FTW_F ? change(path) : 0;
}

static void change_entries(int (*how)(const char *path))
{
    change = how;
    ck_assert_int_eq(nftw(cache_folder, change_one, 8, FTW_PHYS), 0);
}

static int flip_last_byte(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    char byte;
    off_t end = lseek(fd, -1, SEEK_END);
    int bad = end < 0 || pread(fd, &byte, 1, end) != 1;
    byte = (char)~byte;
    bad |= pwrite(fd, &byte, 1, end) != 1;
    close(fd);
    return bad;
}

static int cut_short(const char *path)
{
    struct stat info;
    return stat(path, &info) < 0 || truncate(path, info.st_size / 2) < 0;
}

static int make_empty(const char *path)
{
    return truncate(path, 0);
}

static int make_huge(const char *path)
{
    return truncate(path, (off_t)1 << 40);
}

static int make_pipe(const char *path)
{
    return unlink(path) < 0 || mkfifo(path, 0600) < 0;
}

START_TEST(damaged_entry)
{
    cadre_compile_request request = helper_request("", "int x = 1;\n");
    int (*const ways[])(const char *) = {flip_last_byte, cut_short, make_empty, make_huge,
                                         make_pipe};
    ck_assert(!cached(&request));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        ck_assert(cached(&request));
        change_entries(ways[i]);
        ck_assert(!cached(&request));
    }
    ck_assert(cached(&request));
}
END_TEST

START_TEST(unusable_folders)
{
    char other[300];
    cadre_compile_request request = helper_request("", "int x = 1;\n");
    cadre_compiler_free(compiler);
    compiler = helper_compiler("gcc", "/proc/no/such/place");
    ck_assert(!cached(&request));
    ck_assert(!cached(&request));
    cadre_compiler_free(compiler);
    compiler = helper_compiler("gcc", "/dev/null/cache");
    ck_assert(!cached(&request));
    cadre_compiler_free(compiler);
    /* open to others */
    snprintf(other, sizeof other, "%s/open", folder);
    ck_assert_int_eq(mkdir(other, 0700), 0);
    ck_assert_int_eq(chmod(other, 0777), 0);
    compiler = helper_compiler("gcc", other);
    ck_assert(!cached(&request));
    ck_assert(!cached(&request));
    cadre_compiler_free(compiler);
    ck_assert_int_eq(chmod(other, 0755), 0);
    snprintf(other, sizeof other, "%s/open/cells", folder);
    ck_assert_int_eq(mkdir(other, 0700), 0);
    ck_assert_int_eq(chmod(other, 0750), 0);
    snprintf(other, sizeof other, "%s/open", folder);
    compiler = helper_compiler("gcc", other);
    ck_assert(!cached(&request));
    ck_assert(!cached(&request));
    /* of another owner, or where root does not write either */
    if (geteuid() == 0) {
        snprintf(other, sizeof other, "%s/foreign", folder);
        ck_assert_int_eq(mkdir(other, 0700), 0);
        ck_assert_int_eq(chown(other, 65534, 65534), 0);
    } else {
        snprintf(other, sizeof other, "%s/readonly", folder);
        ck_assert_int_eq(mkdir(other, 0500), 0);
    }
    cadre_compiler_free(compiler);
    compiler = helper_compiler("gcc", other);
    ck_assert(!cached(&request));
    ck_assert(!cached(&request));
}
END_TEST

START_TEST(full_disk)
{
    cadre_cache *cache = cadre_cache_open(cache_folder, 0);
    ck_assert_ptr_nonnull(cache);
    unsigned char name[CADRE_CACHE_NAME] = {1};
    char bytes[50000] = {0};
    const cadre_cache_part parts[] = {{bytes, sizeof bytes}};
    size_t length;
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    struct rlimit small = {10000, limit.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    cadre_cache_store(cache, name, parts, 1);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_ptr_null(cadre_cache_load(cache, name, &length));
    cadre_cache_store(cache, name, parts, 1);
    unsigned char *again = cadre_cache_load(cache, name, &length);
    ck_assert_ptr_nonnull(again);
    ck_assert_uint_eq(length, sizeof bytes);
    free(again);
    cadre_cache_close(cache);
}
END_TEST

static int make_old(const char *path)
{
    struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    return utimensat(AT_FDCWD, path, times, 0);
}

START_TEST(least_recently_used_goes)
{
    enum { SIZE = 10000, LIMIT = 16 * 100000 };
    cadre_cache *cache = cadre_cache_open(cache_folder, LIMIT);
    char bytes[SIZE] = {0};
    const cadre_cache_part parts[] = {{bytes, sizeof bytes}};
    size_t length;
    unsigned char name[CADRE_CACHE_NAME] = {0}; /* all in the bucket of digit 0 */
    for (int i = 0; i < 8; i++) {
        name[1] = (unsigned char)i;
        cadre_cache_store(cache, name, parts, 1);
    }
    change_entries(make_old);
    name[1] = 3;
    free(cadre_cache_load(cache, name, &length)); /* used: young again */
    for (int i = 8; i < 13; i++) {
        name[1] = (unsigned char)i;
        cadre_cache_store(cache, name, parts, 1);
    }
    int old = 0;
    for (int i = 0; i < 13; i++) {
        name[1] = (unsigned char)i;
        unsigned char *entry = cadre_cache_load(cache, name, &length);
        if (i == 3 || i >= 8)
            ck_assert_msg(entry != NULL, "entry %d is gone", i);
        else
            old += entry != NULL;
        free(entry);
    }
    ck_assert_int_lt(old, 3);
    cadre_cache_close(cache);
}
END_TEST

START_TEST(several_processes)
{
    enum { PROCESSES = 4, NAMES = 8, ROUNDS = 300 };
    pid_t children[PROCESSES];
    for (int p = 0; p < PROCESSES; p++) {
        children[p] = fork();
        if (children[p]) continue;
        /* small enough that they throw each other's entries out */
        cadre_cache *cache = cadre_cache_open(cache_folder, 16 * 60000);
        int bad = cache == NULL;
        for (int i = 0; i < ROUNDS && !bad; i++) {
            unsigned char name[CADRE_CACHE_NAME] = {0};
            name[1] = (unsigned char)((i * 7 + p) % NAMES);
            char bytes[10000];
            memset(bytes, 'a' + name[1], sizeof bytes);
            const cadre_cache_part parts[] = {{bytes, sizeof bytes}};
            size_t length;
            unsigned char *entry = cadre_cache_load(cache, name, &length);
            if (entry)
                bad = length != sizeof bytes || memcmp(entry, bytes, length) != 0;
            else
                cadre_cache_store(cache, name, parts, 1);
            free(entry);
        }
        cadre_cache_close(cache);
        _exit(bad);
    }
    for (int p = 0; p < PROCESSES; p++) {
        int status;
        ck_assert_int_eq(waitpid(children[p], &status, 0), children[p]);
        ck_assert_int_eq(status, 0);
    }
}
END_TEST

START_TEST(hit_is_fast)
{
    cadre_compile_request request =
        helper_request("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
                       "#include <math.h>\n",
                       "void f(void) { printf(\"%g\\n\", sin(1)); }\n");
    ck_assert(!cached(&request));
    double best = 1e9;
    for (int i = 0; i < 50; i++) {
        double before = helper_now();
        ck_assert(cached(&request));
        double took = helper_now() - before;
        if (took < best) best = took;
    }
    ck_assert_double_lt(best, 2.0); /* 0.1 on a quiet machine, see the bench */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("compile_cache");
    TCase *cases = tcase_create("cache");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, hit_is_the_same);
    tcase_add_test(cases, everything_counts);
    tcase_add_test(cases, bad_cells_are_not_kept);
    tcase_add_test(cases, time_of_day_is_not_kept);
    tcase_add_test(cases, changed_header);
    tcase_add_test(cases, header_that_appears_before);
    tcase_add_test(cases, preprocessed_text_is_kept);
    tcase_add_test(cases, damaged_entry);
    tcase_add_test(cases, unusable_folders);
    tcase_add_test(cases, full_disk);
    tcase_add_test(cases, least_recently_used_goes);
    tcase_add_test(cases, several_processes);
    tcase_add_test(cases, hit_is_fast);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
