/* The session's names: what exists, the text that declares it again, and what is stale. Private
 * to kernel/cell.
 *
 * Three name spaces: ordinary names, tags, macros. An entry is immutable once committed; a
 * redefinition puts another entry in its place, and the log remembers the one before, so that a
 * roll-back can return. Texts have their macros expanded, so they mean the same for ever; they
 * are one line each and are emitted in the order of definition.
 */
#ifndef CADRE_CELL_NAMES_H
#define CADRE_CELL_NAMES_H

#include "cell/declare.h"
#include "cell/map.h"

typedef enum entry_kind {
    ENTRY_VARIABLE,
    ENTRY_FUNCTION,
    ENTRY_TYPEDEF,
    ENTRY_ENUMERATOR, /* its text is its provider's */
    ENTRY_TAG,        /* also enums without a tag, under a name made from their first constant */
    ENTRY_MACRO
} entry_kind;

/* SPACE_SYMBOL: what the storage or code behind a linker symbol was last defined as. */
enum { SPACE_ORDINARY, SPACE_TAG, SPACE_MACRO, SPACE_SYMBOL, SPACE_COUNT };

/* The compiled segment that defines a variable: its types show the value later. */
typedef struct cell_object {
    int references;
    size_t length;
    unsigned char bytes[];
} cell_object;

cell_object *cell_object_new(const unsigned char *bytes, size_t length); /* copied; NULL: none */
cell_object *cell_object_keep(cell_object *object);
void cell_object_release(cell_object *object); /* accepts NULL */

typedef struct cell_entry {
    int references;
    entry_kind kind;
    char *name;
    char *text;                  /* `extern int x;`, `struct p { int x; };`, `#define N 3` */
    size_t label_at;             /* where in the text an asm label may be put; 0: nowhere */
    char *shown;                 /* for people: `int x` */
    char *initial;               /* of a variable: the initialiser as it was written, or NULL */
    char **words;                /* names in the text, NULL-terminated */
    struct cell_entry *provider; /* the entry whose text declares this one, or NULL */
    struct cell_entry **needs;   /* types (as they were) that the text stands on */
    size_t need_count;
    uint64_t order; /* of definition */
    int execution_count;
    uint32_t line, column;
    bool is_forward; /* `struct node;` only */
    bool is_defined; /* has storage or a body */
    char *label;     /* symbol given by an asm label, or NULL */
    char *spelling;  /* C name and symbol when a header has the name (`gamma$`), or NULL */
    bool is_thread;  /* thread-local by the linker's means: only `extern` ones */
    char *place;     /* thread-local by libgcc's: C text that finds the own copy, or NULL */
    bool is_hidden;  /* #undef of a header's macro */
    bool is_runtime; /* an array whose bounds were known only at run time */
    size_t dimension_count, dimensions[8]; /* then: as reported */
    size_t *dimension_at;                  /* offsets in the text where the bounds go */
    size_t bracket_count;
    char *comment;       /* that stood before the definition, as written, or NULL */
    char *source;        /* the definition as written, or NULL */
    cell_object *object; /* of a variable: what defined it, or NULL */
    char *signature;     /* canonical type from DWARF, or NULL */
    uint64_t checked;    /* staleness found in this round */
    uint64_t wanted;     /* by the unit with this stamp */
    bool stale;
} cell_entry;

cell_entry *cell_entry_new(entry_kind kind, const char *name, size_t length);
/* The linker symbol behind the name. The buffer is used when it is not the name itself. */
const char *cell_entry_symbol(const cell_entry *entry, char *buffer, size_t size);
cell_entry *cell_entry_keep(cell_entry *entry);
void cell_entry_release(cell_entry *entry);
int cell_entry_space(const cell_entry *entry);

typedef struct cell_names {
    cell_arena arena; /* keys of the maps */
    cell_map spaces[SPACE_COUNT];
    struct {
        struct undo *items;
        size_t count, capacity;
    } log;
    uint64_t generation, next_order, round, stamp;
} cell_names;

cell_entry *cell_names_find(const cell_names *names, int space, const char *name, size_t length);
/* Puts `entry` (NULL: nothing) under the name; takes a reference of its own. */
bool cell_names_put(cell_names *names, int space, const char *name, cell_entry *entry);
void cell_names_rewind(cell_names *names, uint64_t generation);
void cell_names_free(cell_names *names);

/* Is the entry declared with a type that has changed since? *changed gets that type. */
bool cell_entry_is_stale(cell_names *names, cell_entry *entry, cell_entry **changed);

#endif
