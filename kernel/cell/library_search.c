#include "cell/library_search.h"

#include "base/base.h"

#include <dirent.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const folders[] = {"/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64",
                                      "/usr/lib"};
#define LIMIT_SECONDS 0.5

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static bool section_defines(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, const char *symbol)
{
    Elf_Data *data = elf_getdata(section, NULL);
    size_t count = data && header->sh_entsize ? data->d_size / header->sh_entsize : 0;
    for (size_t i = 0; i < count && i < INT_MAX; i++) {
        GElf_Sym entry;
        if (!gelf_getsym(data, (int)i, &entry) || entry.st_shndx == SHN_UNDEF) continue;
        if (GELF_ST_BIND(entry.st_info) == STB_LOCAL) continue;
        const char *name = elf_strptr(elf, header->sh_link, entry.st_name);
        if (name && strcmp(name, symbol) == 0) return true;
    }
    return false;
}

/* Does the file, a shared library of this machine, define the symbol for others? */
static bool file_defines(const char *path, const char *symbol)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    Elf *elf = file >= 0 ? elf_begin(file, ELF_C_READ_MMAP, NULL) : NULL;
    bool found = false;
    GElf_Ehdr header;
    if (elf && elf_kind(elf) == ELF_K_ELF && gelf_getehdr(elf, &header) &&
        header.e_machine == EM_X86_64 && header.e_type == ET_DYN) {
        GElf_Shdr one;
        for (Elf_Scn *section = NULL; !found && (section = elf_nextscn(elf, section));)
            if (gelf_getshdr(section, &one) && one.sh_type == SHT_DYNSYM)
                found = section_defines(elf, section, &one, symbol);
    }
    if (elf) elf_end(elf);
    if (file >= 0) close(file);
    return found;
}

/* libz.so: linked by its name; libz.so.1: there for programs, by its path. */
static bool is_wanted(const char *name, bool for_linking)
{
    size_t length = strlen(name);
    if (strncmp(name, "lib", 3) != 0 || length < 7) return false;
    if (for_linking) return strcmp(name + length - 3, ".so") == 0;
    return strstr(name, ".so.") != NULL;
}

static char *search(const char *folder, const char *symbol, bool for_linking, double until)
{
    char path[PATH_MAX], *found = NULL;
    DIR *open_ = opendir(folder);
    for (const struct dirent *entry;
         open_ && !found && now() < until && (entry = readdir(open_));) {
        if (!is_wanted(entry->d_name, for_linking) ||
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path ||
            !file_defines(path, symbol))
            continue;
        if (!for_linking)
            found = strdup(path);
        else if (asprintf(&found, "-l%.*s", (int)(strlen(entry->d_name) - 6), entry->d_name + 3) <
                 0)
            found = NULL;
    }
    if (open_) closedir(open_);
    return found;
}

char *cadre_library_with(const char *symbol)
{
    double until = now() + LIMIT_SECONDS;
    char *found = NULL;
    if (elf_version(EV_CURRENT) == EV_NONE) return NULL;
    for (int for_linking = 1; for_linking >= 0 && !found; for_linking--)
        for (size_t i = 0; i < sizeof folders / sizeof *folders && !found; i++)
            found = search(folders[i], symbol, for_linking, until);
    return found;
}
