/* %save: the session as one C file that compiles and runs outside of any kernel.
 *
 * The cells are read once more, as one cell of a new session. A cell of which every name was
 * defined anew later is left out: it was edited and run again. Where that does not give one C file
 * with the same meaning, nothing is written and the magic says why. */
#include "cell/magics.h"

#include <stdlib.h>
#include <string.h>

/* What the kernel does for cells, as far as a program needs it. */
static const char support[] =
    "static inline void cadre_hook_value(const void *v, unsigned long n, char *(*b)(const void "
    "*))\n"
    "{ (void)v, (void)n, (void)b; }\n"
    "static inline void *cadre_hook_array(const char *name, int fresh, unsigned long size,\n"
    "    unsigned long count, const unsigned long *bounds)\n"
    "{ (void)name, (void)fresh; for (unsigned long i = 0; i < count; i++) size *= bounds[i];\n"
    "  void *at = calloc(1, size ? size : 1); if (!at) abort(); return at; }\n"
    "static int cadre_status;\n"
    "static inline void cadre_hook_main(int status) { cadre_status = status; }\n"
    "static inline void cadre_hook_time(int which) { (void)which; }\n"
    "static inline unsigned long cadre_hook_timeit(unsigned long n, unsigned long r)\n"
    "{ static int done; (void)n, (void)r; return (unsigned long)(done = !done); }\n"
    "static inline int cadre_hook_system(const char *command) { return system(command); }\n"
    "static inline void cadre_hook_status(int status) { (void)status; }\n"
    "static inline void cadre_hook_env(const char *name, const char *value)\n"
    "{ if (name && value) setenv(name, value, 1); }\n"
    "static inline void cadre_hook_cd(const char *folder) { if (chdir(folder)) perror(folder); }\n"
    "static inline void cadre_hook_write(const char *name, int append, const char *text,\n"
    "    unsigned long length)\n"
    "{ FILE *f = fopen(name, append ? \"a\" : \"w\"); if (!f) { perror(name); return; }\n"
    "  fwrite(text, 1, length, f); fclose(f); }\n"
    "static inline void cadre_hook_asm(const char *name, const void *f) { (void)name, (void)f; }\n";

enum { NONE_LEFT, SOME_LEFT, ALL_LEFT };

/* How many of the cell's names still are what it defined. */
static int standing(magic_call *call, const struct engine_cell *cell, const char **gone)
{
    size_t left = 0, count = 0;
    for (size_t i = 0; i < cell->entry_count; i++) {
        const cell_entry *entry = cell->entries[i];
        if (entry->is_hidden) continue;
        const cell_entry *now = cell_names_find(&call->engine->names, cell_entry_space(entry),
                                                entry->name, strlen(entry->name));
        bool same = now == entry || (now && !entry->is_defined && entry->kind <= ENTRY_FUNCTION);
        count++;
        left += same;
        if (!same) *gone = entry->name;
    }
    return left == count ? ALL_LEFT : left ? SOME_LEFT : NONE_LEFT;
}

static int gather(magic_call *call, cadre_buffer *code)
{
    for (size_t i = 0; i < call->engine->cells.count; i++) {
        const struct engine_cell *cell = &call->engine->cells.items[i];
        const char *gone = "";
        int left = standing(call, cell, &gone);
        if (left == SOME_LEFT)
            return cadre_error_set(call->error, CADRE_EINPUT,
                                   "%%save: %s was defined anew, and other names of its cell were "
                                   "not; run that cell again without it",
                                   gone);
        if (left == NONE_LEFT || cadre_cell_is_raw(cell->code, strlen(cell->code))) continue;
        cadre_buffer_puts(code, cell->code);
        cadre_buffer_puts(code, "\n;\n");
    }
    return code->failed ? magic_no_memory(call) : 0;
}

static void add_headers(magic_call *call, cadre_buffer *file, bool uses_runtime)
{
    for (const char *line = call->engine->state->header_text; *line;) {
        size_t length = strcspn(line, "\n");
        if (uses_runtime || length != 18 || memcmp(line, "#include <cadre.h>", 18) != 0)
            cadre_buffer_append(file, line, length);
        cadre_buffer_puts(file, "\n");
        line += length + (line[length] == '\n');
    }
    if (!uses_runtime) cadre_buffer_puts(file, "#define CADRE_BUNDLE_OF(value) 0\n");
}

static void add_unit(cadre_buffer *file, const char *unit)
{
    for (const char *line = unit; *line;) {
        size_t length = strcspn(line, "\n"), blanks = strspn(line, " \t");
        if (strncmp(line, "#line ", 6) != 0 && blanks < length) {
            cadre_buffer_append(file, line, length);
            cadre_buffer_puts(file, "\n");
        }
        line += length + (line[length] == '\n');
    }
}

int magic_save(magic_call *call)
{
    cadre_buffer code = {0}, file = {0};
    char *unit = NULL, *entry = NULL;
    bool has_main = false;
    int failed;
    if (call->words.count != 1)
        return cadre_error_set(call->error, CADRE_EINPUT, "it is %%save FILE.c");
    failed = gather(call, &code);
    if (failed) goto out;
    unit =
        cell_prepare_unit(call->engine, code.data ? code.data : "", &entry, &has_main, call->error);
    if (!unit) {
        failed = call->error->code;
        goto out;
    }
    bool uses_runtime = code.data && strstr(code.data, "cadre_");
    cadre_buffer_printf(&file, "/* A session of Cadre as one program: cc FILE.c%s -lm */\n%s",
                        uses_runtime ? " $(pkg-config --cflags --libs cadre)" : "",
                        "#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n");
    add_headers(call, &file, uses_runtime);
    cadre_buffer_puts(&file, "#include <unistd.h>\n");
    cadre_buffer_puts(&file, support);
    if (has_main) cadre_buffer_puts(&file, "#define main cadre_main_of_the_session\n");
    add_unit(&file, unit);
    if (has_main) cadre_buffer_puts(&file, "#undef main\n");
    cadre_buffer_printf(&file, "int main(void)\n{\n    %s%s\n    return cadre_status;\n}\n",
                        entry ? entry : "", entry ? "();" : "");
    if (file.failed) {
        failed = magic_no_memory(call);
        goto out;
    }
    magic_insert_call(
        call, "void cadre_hook_write(const char *, int, const char *, unsigned long)",
        cell_arena_printf(call->reading->arena, "cadre_hook_write(%s, 0, %s, %zuul)",
                          magic_literal(call, call->words.items[0], strlen(call->words.items[0])),
                          magic_literal(call, file.data, file.length), file.length));
out:
    cadre_buffer_free(&code);
    cadre_buffer_free(&file);
    free(unit);
    free(entry);
    return failed;
}
