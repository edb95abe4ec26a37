#include "object_helper.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENT_LIMIT 64

/* Used by programs without Check, too: ends the test, which counts as failed. */
static void require(bool condition, const char *what)
{
    if (condition) return;
    fprintf(stderr, "cannot prepare the test: %s\n", what);
    exit(EXIT_FAILURE);
}

/* Runs compiler ... source, `output` being the product. */
static void compile_file(const char *compiler, const char *source, const char *extra, bool shared,
                         const char *output)
{
    static const char *const common[] = {"-O2",
                                         "-g",
                                         "-fPIC",
                                         "-fno-plt",
                                         "-ffunction-sections",
                                         "-fdata-sections",
                                         "-fno-omit-frame-pointer",
                                         "-fno-optimize-sibling-calls",
                                         "-fno-common",
                                         "-w",
                                         "-D_GNU_SOURCE"};
    char input[] = "/tmp/cadre-test-XXXXXX.c";
    char *options = strdup(extra ? extra : ""), *rest = NULL;
    const char *arguments[ARGUMENT_LIMIT];
    size_t count = 0;
    int fd = mkostemps(input, 2, O_CLOEXEC);
    require(fd >= 0, "no temporary file");
    require(write(fd, source, strlen(source)) == (ssize_t)strlen(source), "disk full");
    close(fd);
    arguments[count++] = compiler;
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        arguments[count++] = common[i];
    arguments[count++] = shared ? "-shared" : "-c";
    arguments[count++] = "-o";
    arguments[count++] = output;
    arguments[count++] = input;
    for (char *word = strtok_r(options, " ", &rest); word && count < ARGUMENT_LIMIT - 1;
         word = strtok_r(NULL, " ", &rest))
        arguments[count++] = word;
    arguments[count] = NULL;
    pid_t pid;
    int status = -1;
    require(posix_spawnp(&pid, compiler, NULL, NULL, (char *const *)arguments, environ) == 0,
            compiler);
    waitpid(pid, &status, 0);
    unlink(input);
    free(options);
    require(status == 0, source);
}

test_object test_compile_with(const char *compiler, const char *source, const char *extra)
{
    char output[] = "/tmp/cadre-test-XXXXXX.o";
    test_object object = {0};
    struct stat info;
    int fd = mkostemps(output, 2, O_CLOEXEC);
    require(fd >= 0, "no temporary file");
    compile_file(compiler, source, extra, false, output);
    close(fd);
    fd = open(output, O_RDONLY | O_CLOEXEC);
    unlink(output);
    require(fd >= 0, "no temporary file");
    require(fstat(fd, &info) == 0, "no object");
    object.length = (size_t)info.st_size;
    object.bytes = malloc(object.length);
    require(object.bytes != NULL, "no memory");
    require(read(fd, object.bytes, object.length) == (ssize_t)object.length, "object cut off");
    close(fd);
    return object;
}

test_object test_compile(const char *source, const char *extra)
{
    return test_compile_with("gcc", source, extra);
}

char *test_link(const char *source, const char *extra)
{
    char output[] = "/tmp/cadre-test-XXXXXX.so";
    int fd = mkostemps(output, 3, O_CLOEXEC);
    require(fd >= 0, "no temporary file");
    compile_file("gcc", source, extra, true, output);
    close(fd);
    return strdup(output);
}

bool test_has_program(const char *program)
{
    char *path = strdup(getenv("PATH") ? getenv("PATH") : ""), *rest = NULL, file[4096];
    bool found = false;
    for (char *folder = strtok_r(path, ":", &rest); folder && !found;
         folder = strtok_r(NULL, ":", &rest)) {
        snprintf(file, sizeof file, "%s/%s", folder, program);
        found = access(file, X_OK) == 0;
    }
    free(path);
    return found;
}
