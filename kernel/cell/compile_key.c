/* The name of a cached result, and the manifest of the files it was made from.
 *
 * The name covers what is known before compiling: text, options as the driver expands them (what
 * -march=native means on this CPU is in them), compiler and assembler on disk, environment,
 * folder. Which files were included is known only afterwards: the entry lists them with size,
 * times and hash, and the places searched before them where a file could appear. */
#include "kernel/cell/compile_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* File times are as coarse as the kernel's tick. */
static const int64_t settle_time = 30 * 1000 * 1000;

/* What can be seen of a file without reading it. */
typedef struct file_facts {
    int64_t size, modified, changed; /* nanoseconds since 1970 */
} file_facts;
static bool get_facts(const char *path, file_facts *facts)
{
    struct stat info;
    if (stat(path, &info) < 0 || !S_ISREG(info.st_mode)) return false;
    facts->size = (int64_t)info.st_size;
    facts->modified = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
    facts->changed = (int64_t)info.st_ctim.tv_sec * 1000000000 + info.st_ctim.tv_nsec;
    return true;
}

int64_t cadre_file_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A file changed that shortly before `start`, or after it, may have been read half old. (The time
 * of change is the one that nobody can set.) */
static bool is_settled(const file_facts *facts, int64_t start)
{
    return facts->changed < start - settle_time;
}

static bool same_facts(const file_facts *a, const file_facts *b)
{
    return a->size == b->size && a->modified == b->modified && a->changed == b->changed;
}

/* ---- hashes of files ---- */

typedef struct memo_entry {
    char *path;
    file_facts facts;
    bool stable; /* no __DATE__ and the like in it */
    unsigned char hash[CADRE_HASH_SIZE];
} memo_entry;

struct cadre_file_memo {
    memo_entry *entries; /* open addressing; capacity a power of two */
    size_t count, capacity;
};

void cadre_file_memo_free(cadre_file_memo *memo)
{
    for (size_t i = 0; memo && i < memo->capacity; i++)
        free(memo->entries[i].path);
    if (memo) free(memo->entries);
    free(memo);
}

static memo_entry *memo_place(memo_entry *entries, size_t capacity, const char *path)
{
    size_t hash = 14695981039346656037u; /* FNV-1a */
    for (const char *at = path; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 1099511628211u;
    size_t i = hash & (capacity - 1);
    while (entries[i].path && strcmp(entries[i].path, path) != 0)
        i = (i + 1) & (capacity - 1);
    return &entries[i];
}

static memo_entry *memo_find(cadre_compiler *compiler, const char *path)
{
    if (!compiler->memo) compiler->memo = calloc(1, sizeof *compiler->memo);
    cadre_file_memo *memo = compiler->memo;
    if (!memo) return NULL;
    if (memo->count * 2 >= memo->capacity) {
        size_t capacity = memo->capacity ? memo->capacity * 2 : 256;
        memo_entry *entries = calloc(capacity, sizeof *entries);
        if (!entries) return NULL;
        for (size_t i = 0; i < memo->capacity; i++)
            if (memo->entries[i].path)
                *memo_place(entries, capacity, memo->entries[i].path) = memo->entries[i];
        free(memo->entries);
        memo->entries = entries;
        memo->capacity = capacity;
    }
    memo_entry *entry = memo_place(memo->entries, memo->capacity, path);
    if (!entry->path) {
        entry->path = strdup(path);
        if (!entry->path) return NULL;
        entry->facts.size = -1;
        memo->count++;
    }
    return entry;
}

static bool is_stable_text(const char *text, size_t length)
{
    /* Also in a comment or a string: not caching is only slower. */
    return !memmem(text, length, "__DATE__", 8) && !memmem(text, length, "__TIME__", 8) &&
           !memmem(text, length, "__TIMESTAMP__", 13);
}

static bool hash_content(const char *path, memo_entry *entry)
{
    bool good = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    size_t length;
    cadre_error ignored;
    char *text = cadre_memory_read(fd, &length, &ignored);
    if (text && length == (size_t)entry->facts.size) {
        entry->stable = is_stable_text(text, length);
        crypto_generichash(entry->hash, sizeof entry->hash, (const unsigned char *)text, length,
                           NULL, 0);
        good = true;
    }
    free(text);
    close(fd);
    return good;
}

/* The hash of a file whose facts are known; NULL when it cannot be read. */
static const memo_entry *file_hash(cadre_compiler *compiler, const char *path,
                                   const file_facts *facts)
{
    memo_entry *entry = memo_find(compiler, path);
    if (!entry) return NULL;
    if (same_facts(&entry->facts, facts)) return entry;
    entry->facts = *facts;
    if (hash_content(path, entry)) return entry;
    entry->facts.size = -1;
    return NULL;
}

/* ---- what is never cached ---- */

bool cadre_flags_are_common(const char *const *flags, size_t flag_count)
{
    static const char *const odd[] = {"@",
                                      "-specs",
                                      "--specs",
                                      "-wrapper",
                                      "-fplugin",
                                      "-fprofile",
                                      "-fauto-prof",
                                      "-fbranch-prob",
                                      "-fdump",
                                      "-save-temps",
                                      "--save-temps",
                                      "-fstack-usage",
                                      "--coverage",
                                      "-ftest-coverage",
                                      "-coverage",
                                      "-gsplit",
                                      "-fcallgraph",
                                      "-ftime-report",
                                      "-fmem-rep",
                                      "-fopt-info",
                                      "-M",
                                      "-fsanitize-blacklist",
                                      "-fsanitize-ignorelist",
                                      "-frandomize",
                                      "-Wp,",
                                      "-Wa,"};
    for (size_t i = 0; i < flag_count; i++)
        for (size_t k = 0; k < sizeof odd / sizeof *odd; k++)
            if (strncmp(flags[i], odd[k], strlen(odd[k])) == 0) return false;
    return true;
}

bool cadre_request_is_stable(const cadre_compile_request *request)
{
    const char *texts[] = {request->headers ? request->headers : "", request->source};
    size_t lengths[] = {strlen(texts[0]), request->length};
    for (size_t i = 0; i < 2; i++)
        if (lengths[i] &&
            (!is_stable_text(texts[i], lengths[i]) || memmem(texts[i], lengths[i], ".incbin", 7) ||
             memmem(texts[i], lengths[i], "__has_include", 13)))
            return false;
    return true;
}

/* ---- the name ---- */

int cadre_key_make(const cadre_options *options, const cadre_compile_request *request,
                   const char *what, unsigned char name[CADRE_HASH_SIZE])
{
    static const char *const variables[] = {"CPATH", "C_INCLUDE_PATH", "GCC_EXEC_PREFIX",
                                            "COMPILER_PATH", "SOURCE_DATE_EPOCH"};
    char folder[PATH_MAX];
    if (!getcwd(folder, sizeof folder)) return -1;
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, CADRE_HASH_SIZE);
    const char *headers = request->headers ? request->headers : "";
    const struct {
        const void *bytes;
        size_t length;
    } pieces[] = {{"cadre compile 1", 16},
                  {what, strlen(what) + 1},
                  {options->identity, CADRE_HASH_SIZE},
                  {folder, strlen(folder) + 1},
                  {headers, strlen(headers) + 1}};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        crypto_generichash_update(&state, pieces[i].bytes, pieces[i].length);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        crypto_generichash_update(&state, (const unsigned char *)(value ? "=" : "-"), 1);
        if (value)
            crypto_generichash_update(&state, (const unsigned char *)value, strlen(value) + 1);
    }
    if (request->length)
        crypto_generichash_update(&state, (const unsigned char *)request->source, request->length);
    crypto_generichash_final(&state, name, CADRE_HASH_SIZE);
    return 0;
}

/* ---- dependency lists ---- */

static bool visit_dependencies(const char *text, bool (*visit)(void *context, const char *path),
                               void *context)
{
    const char *at = strchr(text, ':');
    if (!at) return false;
    at++;
    char path[PATH_MAX];
    while (*at) {
        size_t length = 0;
        if (*at == ' ' || *at == '\n' || *at == '\t') {
            at++;
            continue;
        }
        if (at[0] == '\\' && at[1] == '\n') {
            at += 2;
            continue;
        }
        for (; *at && *at != ' ' && *at != '\n' && *at != '\t'; at++) {
            if (at[0] == '\\' && at[1] == '\n') break;
            if (at[0] == '\\' && (at[1] == ' ' || at[1] == '\t' || at[1] == '#'))
                at++;
            else if (at[0] == '\\' && at[1] == '\\' && at[strspn(at, "\\")] == ' ')
                at++;
            else if (at[0] == '$' && at[1] == '$')
                at++;
            if (length + 1 >= sizeof path) return false;
            path[length++] = *at;
        }
        path[length] = '\0';
        if (strcmp(path, "-") == 0 || strcmp(path, "<stdin>") == 0) continue;
        if (strncmp(path, "/proc/self/fd/", 14) == 0) continue; /* the unit itself */
        if (!visit(context, path)) return false;
    }
    return true;
}

/* ---- the manifest ---- */

/* In memory order: kind, then for a FILE its record, then the path with its NUL. */
enum { KIND_FILE = 'F', KIND_ABSENT = 'A' };

typedef struct file_record {
    file_facts facts;
    unsigned char hash[CADRE_HASH_SIZE];
} file_record;

typedef struct maker {
    cadre_compiler *compiler;
    cadre_buffer *manifest;
    int64_t start;
    const cadre_folders *folders;
} maker;

/* The name by which a file of the system may have been asked for: what follows "/include/". */
static const char *name_in_system(const char *path)
{
    const char *name = NULL;
    for (const char *at = strstr(path, "/include"); at; at = strstr(at + 1, "/include")) {
        const char *slash = strchr(at + 1, '/');
        if (slash) name = slash + 1;
    }
    if (!name) return strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    const char *slash = strchr(name, '/');
    if (slash && memmem(name, (size_t)(slash - name), "-linux-", 7)) name = slash + 1;
    return name;
}

/* Notes that no file of this name lies in the folders searched before the one where it was. */
static bool add_absent(maker *m, const char *path)
{
    const char *name = NULL;
    size_t before = m->folders->count;
    for (size_t i = 0; i < m->folders->count && !name; i++) {
        const char *folder = m->folders->names[i];
        size_t length = strlen(folder);
        if (length && strncmp(path, folder, length) == 0 && path[length] == '/') {
            name = path + length + 1;
            before = i;
        }
    }
    if (!name && *path != '/') return true; /* found in the current folder, the first */
    if (!name) name = name_in_system(path);
    for (size_t i = 0; i < before; i++) {
        char candidate[PATH_MAX];
        int length = snprintf(candidate, sizeof candidate, "%s/%s", m->folders->names[i], name);
        if (length < 0 || (size_t)length >= sizeof candidate) return false;
        if (access(candidate, F_OK) == 0) {
            /* There, and it was not taken: no matter, unless it was not there yet. */
            file_facts facts;
            if (get_facts(candidate, &facts) && !is_settled(&facts, m->start)) return false;
            continue;
        }
        char kind = KIND_ABSENT;
        cadre_buffer_append(m->manifest, &kind, 1);
        cadre_buffer_append(m->manifest, candidate, (size_t)length + 1);
    }
    return true;
}

static bool add_file(void *context, const char *path)
{
    maker *m = context;
    file_record record;
    memset(&record, 0, sizeof record);
    if (!get_facts(path, &record.facts)) return false;
    if (!is_settled(&record.facts, m->start)) return false;
    const memo_entry *entry = file_hash(m->compiler, path, &record.facts);
    if (!entry || !entry->stable) return false;
    memcpy(record.hash, entry->hash, sizeof record.hash);
    char kind = KIND_FILE;
    cadre_buffer_append(m->manifest, &kind, 1);
    cadre_buffer_append(m->manifest, &record, sizeof record);
    cadre_buffer_append(m->manifest, path, strlen(path) + 1);
    return add_absent(m, path);
}

static bool includes_by_quotes(const char *text, size_t length)
{
    const char *end = text + length;
    while (text && (text = memmem(text, (size_t)(end - text), "include", 7))) {
        text += 7;
        while (text < end && (*text == ' ' || *text == '\t' || *text == '_'))
            text++;
        if (text < end && *text != '<') return true; /* a macro may say anything */
    }
    return false;
}

static void add_folder(cadre_folders *folders, const char *name, size_t length)
{
    const size_t most = sizeof folders->names / sizeof *folders->names;
    char *copy = folders->count < most ? strndup(name, length) : NULL;
    if (copy)
        folders->names[folders->count++] = copy;
    else
        folders->failed = true;
}

/* The folders of -I and the like, as the driver spells them for cc1 ("-I" "x" or "-Ix"). */
static void add_option_folders(cadre_folders *folders, const cadre_options *options,
                               const char *option)
{
    size_t length = strlen(option);
    for (char **word = options->compile; *word; word++) {
        if (strncmp(*word, option, length) != 0) continue;
        const char *name = *word + length;
        if (!*name && word[1]) name = *++word;
        add_folder(folders, name, strlen(name));
    }
}

static void add_variable_folders(cadre_folders *folders, const char *variable)
{
    for (const char *at = getenv(variable); at && *at;) {
        size_t length = strcspn(at, ":");
        if (length) add_folder(folders, at, length);
        at += length + (at[length] == ':');
    }
}

void cadre_folders_find(cadre_folders *folders, const cadre_options *options,
                        const cadre_compile_request *request)
{
    *folders = (cadre_folders){.count = 0};
    const char *headers = request->headers ? request->headers : "";
    if (includes_by_quotes(headers, strlen(headers)) ||
        includes_by_quotes(request->source, request->length)) {
        add_folder(folders, ".", 1);
        add_option_folders(folders, options, "-iquote");
    }
    add_option_folders(folders, options, "-I");
    add_variable_folders(folders, "CPATH");
    add_option_folders(folders, options, "-isystem");
    add_variable_folders(folders, "C_INCLUDE_PATH");
}

void cadre_folders_free(cadre_folders *folders)
{
    for (size_t i = 0; i < folders->count; i++)
        free(folders->names[i]);
    *folders = (cadre_folders){.count = 0};
}

/* What a list of files comes as: dependencies, or names with a NUL after each. */
typedef struct file_list {
    const char *dependencies;
    const char *names;
    size_t length;
} file_list;

static bool visit_names(const file_list *files, maker *m)
{
    if (files->dependencies) return visit_dependencies(files->dependencies, add_file, m);
    for (size_t at = 0; at < files->length;) {
        const char *name = files->names + at;
        size_t length = strnlen(name, files->length - at);
        if (length == files->length - at) return false;
        at += length + 1;
        if (*name == '<' || !*name) continue; /* <built-in> and the like */
        if (!add_file(m, name)) return false;
    }
    return true;
}

static bool make_manifest(cadre_compiler *compiler, const cadre_folders *folders,
                          const file_list *files, int64_t start, cadre_buffer *manifest)
{
    maker m = {.compiler = compiler, .manifest = manifest, .start = start, .folders = folders};
    return !folders->failed && visit_names(files, &m) && !manifest->failed;
}

bool cadre_manifest_make(cadre_compiler *compiler, const cadre_folders *folders,
                         const char *dependencies, int64_t start, cadre_buffer *manifest)
{
    const file_list files = {.dependencies = dependencies};
    return make_manifest(compiler, folders, &files, start, manifest);
}

bool cadre_manifest_make_list(cadre_compiler *compiler, const cadre_folders *folders,
                              const char *list, size_t length, int64_t start,
                              cadre_buffer *manifest)
{
    const file_list files = {.names = list, .length = length};
    return make_manifest(compiler, folders, &files, start, manifest);
}

bool cadre_manifest_check(cadre_compiler *compiler, const unsigned char *manifest, size_t length)
{
    for (size_t at = 0; at < length;) {
        unsigned char kind = manifest[at++];
        file_record record;
        if (kind == KIND_FILE) {
            if (length - at < sizeof record) return false;
            memcpy(&record, manifest + at, sizeof record);
            at += sizeof record;
        }
        const char *path = (const char *)manifest + at;
        size_t size = strnlen(path, length - at);
        if (size == length - at) return false;
        at += size + 1;
        if (kind == KIND_ABSENT) {
            if (access(path, F_OK) == 0) return false;
            continue;
        }
        file_facts facts;
        if (kind != KIND_FILE || !get_facts(path, &facts) || facts.size != record.facts.size)
            return false;
        if (same_facts(&facts, &record.facts)) continue;
        /* Touched or installed again: the content decides. */
        const memo_entry *entry = file_hash(compiler, path, &facts);
        if (!entry || memcmp(entry->hash, record.hash, sizeof record.hash) != 0) return false;
    }
    return true;
}
