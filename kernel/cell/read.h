/* From a cell's text to one stream of tokens: magics taken out, #if resolved, local headers put
 * in, macros expanded. Private to kernel/cell.
 *
 * Directives that stay (#define, #undef, #pragma, #error ...) are tokens of the stream. Expanded
 * tokens remember the place of the macro's use, so that text can be handed on as it was written
 * wherever a use is not cut in two. What #if leaves out, magics and hoisted includes are blanked
 * in the source's text.
 */
#ifndef CADRE_CELL_READ_H
#define CADRE_CELL_READ_H

#include "cell/declare.h"
#include "cell/macros.h"
#include "cell/map.h"

/* Something that makes the text no C before any compiler looks at it. */
typedef struct cell_problem {
    bool incomplete;     /* more text could mend it */
    const char *message; /* as gcc would say it; NULL: none */
    uint16_t source;
    uint32_t line, column;
    const char *note; /* a second place, or NULL */
    uint32_t note_line, note_column;
} cell_problem;

/* What is put in the place of a magic: C of ours, and parts of the source it stands in. */
typedef struct cell_piece {
    const char *text; /* in the arena; NULL: the source's bytes first..end */
    size_t first, end;
} cell_piece;

typedef struct cell_insert {
    cell_piece *items;
    size_t count, capacity;
    size_t skip_to;   /* the source's text before this offset is dealt with; 0: only the magic's */
    const char *file; /* a file whose text stands here, as it is shown; NULL: none */
    char *file_text;  /* in the arena */
    size_t file_length;
} cell_insert;

typedef struct cell_reading {
    cell_arena *arena;
    macro_table *macros; /* the cell's own; parent and lookup are the session's */
    struct {
        cell_source *items;
        size_t count, capacity;
    } sources; /* [0] is the cell */
    token_list stream;
    cell_problem problem; /* the first one */

    /* Hooks; any may be NULL (then nothing is known, as for is_complete). `at` is the directive
     * or magic. A system header is hoisted: `before` holds the cell's active #defines so far. */
    void (*magic)(void *context, const token *at, cell_insert *insert);
    void (*include)(void *context, const token *at, const char *name, const token *before,
                    size_t before_count);
    /* Text of a local header, in the arena, and its path as shown; NULL: not found. */
    char *(*open_local)(void *context, const char *name, const char *includer, const char **path,
                        size_t *length);
    /* After includes, before macros are looked up: bring the parent table up to date. */
    /* An #include "file" that stays in the text, for the compiler. */
    void (*nested_include)(void *context);
    void (*refresh)(void *context);
    int (*condition)(void *context, const char *text, size_t length); /* 0, 1 or -1 */
    void *context;
    const cell_oracle *oracle; /* knows typedef names; may be NULL */

    struct cell_map *raw_names; /* gets every name of the active text as written; may be NULL */
    const char *body; /* what follows a first line such as %%bash: no C; NULL: there is none */
    size_t body_length;
    token_list defines; /* active #define directives so far */
    bool stale;         /* refresh is due */
} cell_reading;

/* Is the cell's text after its first line no C (%%bash, %%sh, %%writefile)? Offset of that text,
 * or 0. */
size_t cell_raw_body(const char *code, size_t length);
void cell_read(cell_reading *reading, const char *name, const char *code, size_t length);

/* A directive's name token and the text after it. */
bool cell_directive_split(const token *directive, const char **name, size_t *name_length,
                          const char **rest, size_t *rest_length);
bool cell_directive_is(const token *directive, const char *name);
/* Notes the first problem only. */
void cell_problem_set(cell_problem *problem, const token *at, bool incomplete, const char *message);

#endif
