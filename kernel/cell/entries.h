/* Makes the entries that a declaration adds to the session. Private to kernel/cell. */
#ifndef CADRE_CELL_ENTRIES_H
#define CADRE_CELL_ENTRIES_H

#include "cell/translate.h"

/* Each returns a new entry, registered with the translator's arena list; no memory jumps. */
cell_entry *cell_entry_for_tag(cell_translator *t, const declaration *d, const char *tag);
cell_entry *cell_entry_for_forward(cell_translator *t, const declaration *d);
cell_entry *cell_entry_for_enumerator(cell_translator *t, const token *name, cell_entry *provider);
/* `type`: the entry of the type that the specifiers define, or NULL; `tag`: a tag given to it. */
cell_entry *cell_entry_for_declarator(cell_translator *t, const declaration *d,
                                      const declarator *one, cell_entry *type, const char *tag);
cell_entry *cell_entry_for_macro(cell_translator *t, const token *directive);
cell_entry *cell_entry_for_undef(cell_translator *t, const char *name, size_t length,
                                 const token *at);

/* A label that an earlier declaration gave (int f(int) __asm__("g")) holds for the definition. */
void cell_entry_carry_label(cell_translator *t, cell_entry *entry, const cell_entry *before);

/* Fills in words and needs of an entry from its text; false: no memory. */
bool cell_entry_resolve(cell_names *names, cell_entry *entry, bool all_names);

#endif
