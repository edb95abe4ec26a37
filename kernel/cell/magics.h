/* Magics: lines of a cell that are not C. Private to kernel/cell.
 *
 *     %time f(x);      %%timeit -n 10      //% cflags -O3      !ls      %who
 *
 * One table (magics.c) has name, help and handler of each; the handlers stand in one file per
 * group. A handler runs while the cell is read, in the order of the text. What takes effect when
 * the cell runs becomes C that is put in the magic's place and calls a function of the host
 * (cadre_hook_..., kernel/host/hooks_magics.c), so it runs in order with the cell's statements;
 * what the compiler must know changes the session's state.
 */
#ifndef CADRE_CELL_MAGICS_H
#define CADRE_CELL_MAGICS_H

#include "cell/engine_internal.h"
#include "cell/read.h"

typedef struct magic_call {
    const token *at;
    const char *name; /* as in the table */
    cell_words words; /* after the name, split as a shell does */
    const char *rest; /* the same as it stands there, blanks around it taken off */
    size_t rest_length;
    size_t rest_offset, rest_end; /* where that is in its source */
    bool here;                    /* %%: for this cell, or with the whole cell */
    const cell_source *source;
    cadre_engine *engine;
    const cadre_cell_request *request;
    cadre_cell *cell;
    cell_reading *reading;
    cell_state *state, *only_here; /* the first is NULL for %% */
    bool *flags_changed;
    bool changes_state;  /* what the magic does lasts */
    cell_insert *insert; /* what stands in its place */
    cadre_error *error;
} magic_call;

/* Finds the magic and calls it: 0, or a negative code with call->error. `call` has everything but
 * name, words, rest and here. */
int cell_magic_apply(magic_call *call);

/* ---- for handlers */
void magic_insert(magic_call *call, const char *text); /* C text, borrowed from the arena */
void magic_insert_source(magic_call *call, size_t first, size_t end);
/* `{ extern DECLARATION; CALL; }` */
void magic_insert_call(magic_call *call, const char *prototype, const char *statement);
/* The text as a C string literal, in the arena. */
char *magic_literal(magic_call *call, const char *text, size_t length);
/* The path as the session's %cd makes it, in the arena. */
const char *magic_path(magic_call *call, const char *name);
int magic_no_memory(const magic_call *call);
/* Only at the beginning of a cell: 0 or an error. */
int magic_must_begin(magic_call *call);

/* ---- the handlers, by file */
int magic_cflags(magic_call *call);
int magic_ldflags(magic_call *call);
int magic_std(magic_call *call);
int magic_include_path(magic_call *call);
int magic_pkg_config(magic_call *call);
bool magic_split_words(const char *text, size_t length, cell_words *out);

int magic_time(magic_call *call);
int magic_timeit(magic_call *call);

int magic_shell(magic_call *call);  /* !command */
int magic_script(magic_call *call); /* %%bash, %%sh */
int magic_writefile(magic_call *call);
int magic_env(magic_call *call);
int magic_cd(magic_call *call);
int magic_load(magic_call *call);
int magic_run(magic_call *call);
int magic_save(magic_call *call);

int magic_store(magic_call *call);

int magic_who(magic_call *call);
int magic_params(magic_call *call);
int magic_reset(magic_call *call);
int magic_snapshot(magic_call *call);
int magic_asm(magic_call *call);

#endif
