/* kernel/cell: from a cell's text to objects that the host can load.
 *
 * The engine is the session's memory of names: which headers, macros, types, variables and
 * functions exist, with the text that declares them again. Preparing a cell splits its text,
 * translates it into one or more C translation units (segments) and compiles them; nothing runs,
 * nothing is remembered. When the host has run the cell, the cell is committed: its names exist
 * from now on; a cell that failed to compile, to link or was rolled back is simply freed.
 *
 *     cadre_engine *engine = cadre_engine_new(&options, &error);
 *     cadre_cell *cell = cadre_engine_prepare(engine, &request);
 *     if (cell->failed) show(cell->error_name, cell->error_value, cell->traceback);
 *     else if (run_in_host(cell)) cadre_engine_commit(engine, cell, arrays, array_count);
 *     cadre_cell_free(cell);
 *
 * cell/ knows nothing of messages, sockets to clients, or how the host runs code. One thread uses
 * an engine at a time; only cadre_engine_cancel may be called from any thread.
 */
#ifndef CADRE_CELL_H
#define CADRE_CELL_H

#include "base/base.h"

#include <jansson.h>
#include <sys/types.h>

typedef struct cadre_engine cadre_engine;

typedef struct cadre_engine_options {
    const char *cache_dir;   /* where compiled cells are kept; NULL or "": nowhere */
    const char *include_dir; /* where <cadre.h> is; NULL: the installed one */
    const char *compiler;    /* NULL: "gcc" on PATH */
} cadre_engine_options;

/* One declared name whose storage size was known only at run time (`double grid[n];`): the host
 * reports what its bounds were, so that later cells can declare it whole. */
typedef struct cadre_array_report {
    char name[256];
    size_t dimension_count;
    size_t dimensions[8];
} cadre_array_report;

/* One translation unit of a cell, compiled. Segments are loaded together before any of them runs
 * and their entries are called in order. */
typedef struct cadre_segment {
    int object_fd;         /* sealed memfd with the ELF relocatable; -1 when use_dlopen */
    bool use_dlopen;       /* our loader must refuse it (TLS, IFUNC): library_path is a .so */
    char *library_path;    /* owned; NULL unless use_dlopen */
    char *entry;           /* symbol `void entry(void)` to call; NULL: definitions only */
    char **fresh_names;    /* names defined here whose type differs from the earlier definition: */
    size_t fresh_count;    /*   old callers keep the old storage, the loader makes a new slot */
    unsigned char *object; /* the same bytes, for types and lines in the front; owned */
    size_t object_length;
} cadre_segment;

typedef struct cadre_cell {
    int execution_count;
    char *file_name; /* as in DWARF and __FILE__: prefix + Murmur2(text) + ".c" */

    bool failed;       /* then the next three say why and there are no segments */
    char *error_name;  /* CompileError, ParameterError, MagicError, Interrupted ... */
    char *error_value; /* one line */
    char *traceback;   /* lines with ANSI colours, in the cell's own coordinates In[n]:l:c */

    char *warnings; /* compiler warnings in cell coordinates, "" when none (to stderr) */
    char *notes;    /* remarks such as which parameters a channel overrode, "" when none */

    cadre_segment *segments;
    size_t segment_count;
    char **libraries; /* to dlopen(RTLD_GLOBAL) before loading: "libz.so.1" or a path */
    size_t library_count;

    bool has_value;   /* the last entry stores a value (see host protocol, VALUE) */
    char *value_text; /* shown as it stands instead of the stored value ('A'), or NULL */
    int snapshot;     /* what %snapshot says: 0 auto, 1 always, 2 never */
    bool resets;      /* %reset: nothing to run; all names go, and so does the host */
    json_t *payload;  /* for the reply: array, or NULL */
    bool runs_main;   /* the cell defines main: its status other than 0 is an error */
    struct cadre_cell_private *private_data; /* declarations to commit */
} cadre_cell;

typedef struct cadre_cell_request {
    const char *code; /* UTF-8, borrowed, may hold CRLF and a byte order mark */
    size_t length;
    int execution_count; /* the n of In[n] */
    /* Parameters as merged by the session (channels 2 to 5): object of name -> value to apply
     * now; borrowed, may be NULL. A name declared by this cell gets the value as initialiser; a
     * name declared before is set at the start of the cell; an unknown name is left alone.
     * `used` (may be NULL) receives the names that were applied, each with `true`. */
    const json_t *parameters;
    /* Names of `parameters` (each with `true`) whose present value was applied before: a
     * declaration in this cell gets the value all the same, a variable declared before is left
     * as the program made it. Borrowed, may be NULL: none. */
    const json_t *applied;
    json_t *used;
    /* Where the values of `parameters` come from, for %params: name -> text; may be NULL. */
    const json_t *channels;
    /* The folder that the host is in, for #include "..."; borrowed, NULL: this process's own. */
    const char *folder;
} cadre_cell_request;

/* New engine, or NULL. Starts nothing slow: the compiler is warmed up by the first call of
 * cadre_engine_warm or _prepare. */
cadre_engine *cadre_engine_new(const cadre_engine_options *options, cadre_error *error);
void cadre_engine_free(cadre_engine *engine);
/* Parses the prelude and starts the warm compiler, so that the first cell is fast. */
void cadre_engine_warm(cadre_engine *engine);
/* Ends the warm compiler, which holds some 40 MB; the next prepare or cadre_engine_warm starts it
 * again. Names and cache stay. */
void cadre_engine_rest(cadre_engine *engine);

/* Never NULL unless memory is gone; look at ->failed. Blocks while the compiler works (a limit of
 * 120 s by default ends it with an error). The caller owns the result. */
cadre_cell *cadre_engine_prepare(cadre_engine *engine, const cadre_cell_request *request);
void cadre_cell_free(cadre_cell *cell);

/* From any thread: the prepare under way returns soon with error_name "KeyboardInterrupt". */
void cadre_engine_cancel(cadre_engine *engine);

/* The cell ran (to its end, to an exit, an error or an interrupt that kept memory): its names
 * exist now. `arrays` are the run-time bounds that the host reported. Returns the new generation
 * number, counted from 1. */
uint64_t cadre_engine_commit(cadre_engine *engine, cadre_cell *cell,
                             const cadre_array_report *arrays, size_t array_count);
/* A roll-back to an older snapshot: forgets every name committed after `generation`. */
void cadre_engine_rewind(cadre_engine *engine, uint64_t generation);

/* The cell's last value as text for text/plain, new; NULL when there is nothing to show. `read`
 * copies memory of the host (process_vm_readv) and returns false for an unreadable address;
 * `address` is where the entry stored the value. */
typedef bool (*cadre_memory_reader)(void *context, uint64_t address, void *into, size_t length);
char *cadre_cell_value(const cadre_cell *cell, uint64_t address, size_t size,
                       cadre_memory_reader read, void *context);

/* Names declared now, for %params and completion: calls `visit` once each. kind is "variable",
 * "function", "type", "macro" or "enumerator"; declaration is C text such as `int cpu_count`. */
typedef void (*cadre_name_visitor)(void *context, const char *name, const char *kind,
                                   const char *declaration, int execution_count);
void cadre_engine_names(cadre_engine *engine, cadre_name_visitor visit, void *context);

/* For completion and inspection by a C front end such as libclang: one translation unit with the
 * headers, what is declared now and the text names, and the text itself, in which `cursor` (bytes
 * of `code`) is at line and column (from 1, bytes). Takes any half-typed text and changes nothing.
 * A text that ends at the cursor is left open there; whatever stands open later is closed. */
typedef struct cadre_assist_unit {
    char *source; /* of session names the presumed file is `In[n]`, of the cell `In[ ]` */
    unsigned line, column;
    char **arguments; /* as for clang, NULL-terminated */
    size_t head;      /* bytes of the source that are #include lines */
    json_t *names; /* the session's and the cell's own that begin with `prefix` (NULL: none): name
                      -> [kind, declaration]; kind: "variable", "function", "type", "struct",
                      "union", "enum", "enumerator", "macro" */
} cadre_assist_unit;
/* 0, or CADRE_EMEMORY: then *unit is empty. */
int cadre_engine_assist_unit(cadre_engine *engine, const char *code, size_t length, size_t cursor,
                             const char *prefix, cadre_assist_unit *unit);
void cadre_assist_unit_free(cadre_assist_unit *unit);

/* What the session knows of one name that it declares. All owned; strings may be NULL. */
typedef struct cadre_name_facts {
    int execution_count;
    char *kind, *declaration;
    char *comment, *source; /* as written in the cell */
    char *symbol;           /* behind a variable; NULL: its value cannot be shown */
    unsigned char *object;  /* that has the variable's type */
    size_t object_length;
} cadre_name_facts;
/* False: the session declares no such name. */
bool cadre_engine_describe(cadre_engine *engine, const char *name, size_t length,
                           cadre_name_facts *facts);
/* The value of the variable at `address`, new, or NULL. Any thread. */
char *cadre_name_value(const cadre_name_facts *facts, uint64_t address, cadre_memory_reader read,
                       void *context);
void cadre_name_facts_free(cadre_name_facts *facts);

/* The index-th magic's name without `%`, and a line of help; NULL: there are no more. */
const char *cadre_magic_name(size_t index, const char **help);

/* is_complete of the protocol: "complete", "incomplete" or "invalid"; *indent (may be NULL, size
 * at least 32) gets the white space to continue with. Pure: any thread. */
const char *cadre_cell_is_complete(const char *code, size_t length, char *indent);

/* Is all of the text a question about one name, as IPython has it: `name?`, `?name`, `name??`,
 * `%magic?`? Then where the name is (with its %) and 0 or, for ??, 1: with the source; else -1. */
int cadre_cell_question(const char *code, size_t length, size_t *start, size_t *end);

/* Does the text begin with %%bash, %%sh or %%writefile? Then all after its first line is no C. */
bool cadre_cell_is_raw(const char *code, size_t length);

/* Which top-level variable names does this text declare, in order? For `cadre run`, which
 * refuses unknown parameters before it starts. Array of new strings, NULL-terminated; pure. */
char **cadre_cell_declared_names(const char *code, size_t length);

#endif
