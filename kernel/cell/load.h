/* Loading compiled cells into this process: our own linker for x86-64 relocatable objects.
 * Used by the host, which is single-threaded with respect to it. Private to kernel/cell and host.
 *
 * Every imported or defined global symbol has one slot, a pointer in a table that loaded code
 * goes through (-fPIC -fno-plt): redefining a name of the same type writes one pointer and old
 * callers reach the new definition; a name in `fresh` gets a new slot and old callers keep the
 * old storage. Direct calls (`call *f@GOTPCREL`) have a second slot beside the data slot, so
 * that an interrupt can divert calls without touching pointers that cells read.
 *
 * Lookup order: names defined by cells, then overrides, then dlsym(RTLD_DEFAULT).
 * Loaded modules live in three arenas (code, read-only, data) near each other; they are announced
 * to the unwinder (__register_frame) and to gdb (__jit_debug_register_code).
 */
#ifndef CADRE_CELL_LOAD_H
#define CADRE_CELL_LOAD_H

#include "base/base.h"

/* error->code when an object can only be loaded as a shared library (cadre_loader_add_library).
 * Thread-local variables and ifuncs as compilers make them for cells are loaded here; it takes
 * `-ftls-model=initial-exec` or `-mtls-dialect=gnu2` to need the system's linker. */
#define CADRE_ENEEDS_DLOPEN (-100)

/* Would cadre_loader_add refuse this object with CADRE_ENEEDS_DLOPEN? 1 or 0; 0 for bytes that
 * are no object at all (cadre_loader_add says what is wrong with them). Pure: links without the
 * loader too. */
int cadre_object_needs_dlopen(const void *object, size_t length);

typedef struct cadre_loader cadre_loader;
typedef struct cadre_module cadre_module;

cadre_loader *cadre_loader_new(cadre_error *error);
/* Unloads everything: no code of a cell may run any more. Accepts NULL. */
void cadre_loader_free(cadre_loader *loader);

/* Imports of `name` by cells reach `function` (exit, fork, signal, read ...), unless a cell
 * defines the name itself. Also what dlsym does not know, such as the cell's result hooks. */
int cadre_loader_override(cadre_loader *loader, const char *name, void *address);

/* Loads one object whole or not at all. Undefined symbols are allowed here; see _check. The
 * module's definitions are visible to later adds at once but reach callers that were loaded
 * before only at cadre_loader_commit. `label` is the cell's file name, copied. */
cadre_module *cadre_loader_add(cadre_loader *loader, const char *label, const void *object,
                               size_t length, const char *const *fresh, size_t fresh_count,
                               cadre_error *error);
/* A shared library that a cell was linked to (CADRE_ENEEDS_DLOPEN): dlopen, its globals become
 * names. It can use names of libraries, not those of other cells. */
cadre_module *cadre_loader_add_library(cadre_loader *loader, const char *label, const char *path,
                                       cadre_error *error);
/* Could a call of `entry` in `module` reach a symbol that nothing defines? Follows references
 * function by function (-ffunction-sections). 0, or CADRE_ENOTFOUND with a message such as
 * "odd_ is declared and not defined (even_ calls it)". */
int cadre_loader_check(cadre_loader *loader, cadre_module *module, const char *entry,
                       cadre_error *error);
/* All modules added since the last commit take effect: slots of redefined names are written,
 * constructors are NOT run (see _construct). */
void cadre_loader_commit(cadre_loader *loader);
/* The same for the adds up to and including `module` only. A cell in two segments is added whole
 * and checked; then each segment is committed just before its entry runs, since the first still
 * means the old definition of a name that the second defines anew. */
void cadre_loader_commit_until(cadre_loader *loader, cadre_module *module);
/* Undoes the adds since the last commit, memory included. */
void cadre_loader_discard(cadre_loader *loader);
/* Runs the constructors (.init_array) of a committed module, and before them the resolvers that
 * choose its ifuncs: needed once for every module before its code runs. */
void cadre_loader_construct(cadre_module *module);
/* The same, each constructor called by `call`, which may leave by a jump: the rest is not run
 * then, neither now nor later. */
typedef void cadre_constructor(int count, char **arguments, char **environment);
typedef void cadre_constructor_caller(cadre_constructor *function, int count, char **arguments,
                                      char **environment);
void cadre_loader_construct_by(cadre_module *module, cadre_constructor_caller *call);
/* At the orderly end of the process: destructors of all constructed modules, newest first. */
void cadre_loader_destruct(cadre_loader *loader);
/* A committed module of statements only, which has run (and whose value has been read), gives its
 * memory back: code, tables and book-keeping. Its literals and static variables stay, since a
 * pointer to them may have been kept; a module whose functions may still be called (their address
 * was taken, or another module imports a name of it) stays whole. `module` is invalid after. */
void cadre_loader_release_statements(cadre_loader *loader, cadre_module *module);

/* Address of a name defined in `module` / of a name as cells see it now; NULL: none. */
void *cadre_module_symbol(const cadre_module *module, const char *name);
void *cadre_loader_symbol(cadre_loader *loader, const char *name);
/* Makes `name` mean the storage at `address` (arrays with run-time bounds). New slot if fresh. */
int cadre_loader_define(cadre_loader *loader, const char *name, void *address, bool fresh);

/* Async-signal-safe: */
bool cadre_loader_is_cell_code(const cadre_loader *loader, const void *pc);
/* Every call slot of a library function leads to `stub` (until restored). */
void cadre_loader_divert_calls(cadre_loader *loader, void *stub);
void cadre_loader_restore_calls(cadre_loader *loader);

/* Start and size in memory of the cell function at pc; false: there is none. */
bool cadre_loader_extent(const cadre_loader *loader, const void *pc, const void **start,
                         size_t *size);
/* Is this the address of a slot? Then a pointer can be read there. */
bool cadre_loader_is_slot(const cadre_loader *loader, const void *address);
/* Where is pc? label (borrowed), name of the function (borrowed) and offset inside the section
 * of the object, for lines in the front. False when pc is not in cell code. */
bool cadre_loader_describe(const cadre_loader *loader, const void *pc, const char **label,
                           const char **function, uint64_t *offset_in_function);

#endif
