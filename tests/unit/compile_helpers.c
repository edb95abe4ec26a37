#include "compile_helpers.h"

#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

cadre_compiler *helper_compiler(const char *program, const char *cache_dir)
{
    cadre_error error = {0};
    const char *other = getenv("CADRE_TEST_CC"); /* another gcc to test with */
    if (other && strcmp(program, "gcc") == 0) program = other;
    cadre_compiler *compiler = cadre_compiler_new(program, cache_dir, &error);
    ck_assert_msg(compiler != NULL, "%s", error.message);
    return compiler;
}

cadre_compile_request helper_request(const char *headers, const char *source)
{
    return (cadre_compile_request){
        .headers = headers, .source = source, .length = strlen(source), .cancel_fd = -1};
}

void helper_compile(cadre_compiler *compiler, const cadre_compile_request *request,
                    cadre_compile_result *result)
{
    cadre_error error = {0};
    int code = cadre_compile(compiler, request, result, &error);
    ck_assert_msg(code == 0, "%d: %s", code, error.message);
    ck_assert_ptr_nonnull(result->diagnostics);
}

bool helper_has_symbol(const cadre_compile_result *result, const char *name)
{
    Elf64_Ehdr header;
    ck_assert_uint_ge(result->object_length, sizeof header);
    memcpy(&header, result->object, sizeof header);
    for (unsigned i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr section, strings;
        memcpy(&section, result->object + header.e_shoff + i * sizeof section, sizeof section);
        if (section.sh_type != SHT_SYMTAB) continue;
        memcpy(&strings, result->object + header.e_shoff + section.sh_link * sizeof strings,
               sizeof strings);
        for (size_t at = 0; at < section.sh_size; at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            memcpy(&symbol, result->object + section.sh_offset + at, sizeof symbol);
            const char *text = (const char *)result->object + strings.sh_offset + symbol.st_name;
            if (strcmp(text, name) == 0) return true;
        }
    }
    return false;
}

int helper_call(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(handle != NULL, "%s", dlerror());
    int (*function)(void);
    *(void **)&function = dlsym(handle, name);
    ck_assert_ptr_nonnull(function);
    int value = function();
    dlclose(handle);
    return value;
}

void helper_contains(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "no '%s' in: %.2000s", part, text);
}

char *helper_folder(void)
{
    char *path = strdup("/tmp/cadre-test-XXXXXX");
    ck_assert_ptr_nonnull(path);
    ck_assert_ptr_nonnull(mkdtemp(path));
    return path;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info, (void)kind, (void)place;
    return remove(path);
}

void helper_remove(char *folder)
{
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(folder);
}

void helper_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

void helper_script(const char *path, const char *body)
{
    char text[2000];
    snprintf(text, sizeof text, "#!/bin/sh\n%s", body);
    helper_write(path, text);
    ck_assert_int_eq(chmod(path, 0700), 0);
}

int helper_count_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(folder);
    int count = 0;
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

double helper_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}
