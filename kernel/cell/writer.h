/* The writer of one translation unit, shared by translate.c, write_session.c and
 * write_variables.c. Private to kernel/cell. */
#ifndef CADRE_CELL_WRITER_H
#define CADRE_CELL_WRITER_H

#include "cell/emit.h"
#include "cell/translate.h"

/* A name that is spelled as a macro inside this unit: an array with run-time bounds, or the old
 * meaning of a name that the cell defines anew further down. */
typedef struct alias {
    const char *name, *meaning;
    size_t item; /* from here on */
} alias;

typedef struct writer {
    cell_translator *t;
    size_t segment, first, end; /* items */
    cell_segment_text *out;
    emitter e;
    const token *items;           /* the stream */
    cell_map words;               /* names that the unit may use */
    cell_map before[SPACE_COUNT]; /* what they meant before this segment */
    struct {
        const char **items;
        size_t count, capacity;
    } queue;
    cell_entry_list needed;
    struct {
        alias *items;
        size_t count, capacity;
    } aliases;
    bool in_entry, knows_threads;
} writer;

/* --- write_session.c: names of earlier cells --- */

/* Finds what the unit's names mean before the segment's own are put, and what that stands on. */
void cell_write_collect(writer *w);
/* Of that, drops what the segment's own definitions replace or make stale. */
void cell_write_sift(writer *w);
/* Declares what is left. */
void cell_write_session(writer *w);
/* The entry that held before this segment's own; NULL: none. */
cell_entry *cell_write_earlier(const writer *w, int space, const char *name);
bool cell_write_header_has(const writer *w, const char *name);
void cell_write_alias(writer *w, alias a);
/* The object behind each thread-local name is of a type of ours: declares it once. */
void cell_write_threads(writer *w);

/* --- write_variables.c: declarations taken apart --- */

typedef struct specifier_style {
    bool no_body, no_const, local;
    const char *tag;
} specifier_style;

/* Tokens [first, end) of the stream. */
void cell_write_range(writer *w, size_t first, size_t end);
/* The specifiers, without what file scope or a local must not repeat. */
void cell_write_specifiers(writer *w, const declaration *d, specifier_style style);
/* The declarator up to `end`, with another name (NULL: its own); `no_const`: the object itself is
 * not const. */
void cell_write_declarator(writer *w, const declarator *one, const char *name, bool no_const,
                           size_t end);
/* Does an attribute in [first, after) ask for inlining whatever happens? */
bool cell_write_forces_inlining(const writer *w, size_t first, size_t after);
const char *cell_write_name(const writer *w, const declarator *one);
/* Specifiers and declarator as text with `name` in the name's place. `bounds` NULL: without its
 * brackets, "": as written, else an array that holds the bounds. */
const char *cell_write_type(const writer *w, const declaration *d, const declarator *one,
                            const char *name, const char *bounds);
/* A variable at file scope. */
void cell_write_definition(writer *w, const declaration *d, const planned_variable *v,
                           const planned_item *plan);
/* Where the entry function passes it: storage with run-time bounds, values. */
void cell_write_initialisation(writer *w, const declaration *d, const planned_variable *v,
                               const char *tag);

#endif
