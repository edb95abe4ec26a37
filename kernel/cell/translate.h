/* From a cell's items to C translation units and the names they define. Private to kernel/cell.
 *
 * Declarations and functions stay at file scope, in order; statements and run-time initialisers
 * go, in order, into one function per segment. A cell that uses a name and then gives it another
 * meaning is cut in two segments there.
 */
#ifndef CADRE_CELL_TRANSLATE_H
#define CADRE_CELL_TRANSLATE_H

#include "base/base.h"
#include "cell/headers.h"
#include "cell/names.h"
#include "cell/split.h"

typedef struct cell_entry_list {
    cell_entry **items;
    size_t count, capacity;
} cell_entry_list;

/* What the plan decides about one declarator. */
typedef struct planned_variable {
    const declarator *declarator;
    cell_entry *entry;       /* NULL: nothing new (an identical typedef) */
    bool is_definition;      /* has storage here */
    bool at_run_time;        /* is initialised (again) where the entry function passes */
    bool is_variable_length; /* bounds are known only at run time */
    bool is_thread;          /* every thread has its own */
    const char *override;    /* a parameter's value as C text, instead of the initialiser */
} planned_variable;

typedef struct planned_item {
    const cell_item *item;
    size_t segment;
    cell_entry_list entries; /* new names, in order */
    planned_variable *variables;
    bool drop_type;  /* the type is the session's already: its body is not repeated */
    const char *tag; /* a tag to give to an anonymous type, or NULL */
} planned_item;

/* A parameter given from outside: is there a value for this variable, and which text is it in C?
 * NULL: none. Fills *failed when the value does not fit. */
typedef struct cell_parameter_source {
    const char *(*declared)(void *context, const token *stream, const declaration *d,
                            const declarator *one);
    void *context;
} cell_parameter_source;

typedef struct cell_segment_text {
    cadre_buffer source;
    char *entry; /* NULL: definitions only */
    bool has_value, is_thread;
    cell_entry_list defined; /* variables and functions with storage here */
    cell_entry **session;    /* [k]: what line k of CELL_FILE_SESSION declares, or NULL */
    size_t session_count;
} cell_segment_text;

typedef struct cell_translator {
    cell_arena *arena;
    cell_names *names;
    const cell_headers *headers;
    const cell_reading *reading;
    const cell_items *items;
    const cell_map *raw_names; /* every name in the cell's own text */
    const char *hash;          /* for the entry's name */
    int execution_count;
    bool promote_value; /* the value is a bit-field */
    cell_parameter_source parameters;
    const char *first_statements; /* C text to run first (parameters of earlier names), or NULL */
    cell_map first_names;         /* and the names that it uses */

    uint64_t stamp;
    planned_item *plan;
    cell_segment_text *segments;
    size_t segment_count;
    const char *pack; /* the #pragma pack in force while planning, or NULL */
    bool runs_main, main_is_void;
    size_t value_bounds;     /* the value is an array with so many run-time bounds; 0: it is not */
    cell_entry_list stale;   /* names that were wanted and cannot be used */
    cell_map aliases;        /* names that some unit spells as macros of its own */
    cell_entry_list created; /* all entries made here: one reference each, the caller's to drop */
} cell_translator;

/* Plans and writes all segments. `names` is as before afterwards. Sources are owned by the caller
 * (cadre_buffer_free each). */
void cell_translate(cell_translator *t);
/* Makes the cell's names exist (for commit); false: no memory. */
bool cell_translation_commit(cell_translator *t);

/* Shared by plan.c and translate.c. */
void cell_plan(cell_translator *t);
bool cell_plan_put(cell_translator *t, const planned_item *p);
bool cell_is_statement_pragma(const token *directive);
bool cell_is_constant(const cell_translator *t, const token *items, size_t first, size_t end,
                      bool integer);
void cell_translator_oracle(cell_translator *t, cell_oracle *out);

#endif
