/* Types, values and lines of a compiled cell, read from its DWARF with libdw. Private to
 * kernel/cell; used in the front, which never runs user code.
 *
 * One formatter shows every value: results, %who, inspection, the debugger.
 */
#ifndef CADRE_CELL_TYPES_H
#define CADRE_CELL_TYPES_H

#include "base/base.h"
#include "cell/cell.h"

typedef struct cadre_types cadre_types;

/* Applies the object's debug relocations to a copy. New, or NULL with *error. */
cadre_types *cadre_types_open(const unsigned char *object, size_t length, cadre_error *error);
void cadre_types_free(cadre_types *types);

/* Canonical text of the type of a file-scope variable or function (struct members included), so
 * that equal types of different cells compare equal; new; NULL: no such name. */
char *cadre_types_signature(cadre_types *types, const char *name);
/* Names of the non-static file-scope variables and functions that the object defines. */
char **cadre_types_defined(cadre_types *types); /* new, NULL-terminated; free each and the array */

/* Text of the value at `address` in the host, whose type is the target of the static variable
 * `pointer_variable` (declared as `static __typeof__(E) *pointer_variable`): scalars as C prints
 * them best (doubles in the shortest form that reads back, `20.0` not `20`), char and char *
 * quoted and escaped, bool as true/false, arrays `{1, 2, 3}` (long ones cut), 2-D arrays as
 * rows, enums by name, structs `{.mode = MULTI, .cpus = 3}`, unions, bit-fields, complex,
 * __int128, long double, function pointers by name when `symbol` knows them, other pointers
 * as `(type *) 0x...`, void: NULL. For an array or function type the stored value is its
 * address (it decayed). New; NULL when there is nothing to show. */
typedef const char *(*cadre_symbolizer)(void *context, uint64_t address);
char *cadre_types_format(cadre_types *types, const char *pointer_variable, uint64_t address,
                         size_t size, cadre_memory_reader read, void *context,
                         cadre_symbolizer symbol);

/* The same for an array at `address` whose elements have that type and whose bounds only the host
 * knows (`double grid[n];`). At most 8 dimensions. */
char *cadre_types_format_array(cadre_types *types, const char *pointer_variable, uint64_t address,
                               const size_t *dimensions, size_t dimension_count,
                               cadre_memory_reader read, void *context, cadre_symbolizer symbol);

/* The same for a file-scope variable of the object, whose storage is at `address`: for %who and
 * inspection. NULL: no such variable. */
char *cadre_types_format_variable(cadre_types *types, const char *name, uint64_t address,
                                  cadre_memory_reader read, void *context, cadre_symbolizer symbol);
/* The type of a file-scope variable or function as C writes it: `double [3]`; new; NULL: none. */
char *cadre_types_name(cadre_types *types, const char *name);

/* File and line of `offset` bytes into function `function`. 0, or CADRE_ENOTFOUND. */
int cadre_types_line(cadre_types *types, const char *function, uint64_t offset, char *file,
                     size_t file_size, int *line);

#endif
