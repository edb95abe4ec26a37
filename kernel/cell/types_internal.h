/* What the files of the DWARF reader share. Private to kernel/cell/types*.c. */
#ifndef CADRE_CELL_TYPES_INTERNAL_H
#define CADRE_CELL_TYPES_INTERNAL_H

#include "cell/types.h"

#include <dwarf.h>
#include <elfutils/libdw.h>

struct cadre_types {
    unsigned char *image; /* copy of the object with its debug relocations applied */
    size_t length;
    Elf *elf;
    Dwarf *dwarf;             /* NULL: no debug information */
    const Elf64_Sym *symbols; /* inside image, checked */
    size_t symbol_count;
    const char *names;
    size_t names_size;
};

/* Code of section i is taken to be at this address, so that places of different sections differ. */
#define CADRE_TYPES_SECTION_ADDRESS(index) (((uint64_t)(index) + 1) << 32)

/* The file-scope variable or function of that name; a definition rather than a declaration. */
bool cadre_types_find(cadre_types *types, const char *name, Dwarf_Die *die);
/* The type of a variable, member, pointer ...; false: void. Typedefs and qualifiers stay. */
bool cadre_type_of(Dwarf_Die *die, Dwarf_Die *type);
/* The same with typedefs, const, volatile, restrict and _Atomic taken away; false: void. */
bool cadre_type_strip(Dwarf_Die *type, Dwarf_Die *plain);
/* Elements of one dimension of an array type, -1: unknown. `subrange` is a child of the array. */
int64_t cadre_type_bound(Dwarf_Die *subrange);
/* Bytes of a value of the type; -1: unknown. */
int64_t cadre_type_size(Dwarf_Die *type);
/* An unsigned or signed attribute, `otherwise` when it is absent. */
int64_t cadre_die_number(Dwarf_Die *die, unsigned attribute, int64_t otherwise);
bool cadre_die_flag(Dwarf_Die *die, unsigned attribute);
/* The type as C writes it: `const char *`, `double (*)(int)`, `int [3]`. */
void cadre_type_write(Dwarf_Die *type, cadre_buffer *text);

/* ---- types_scalar.c: values without structure ---- */

/* Base types and enumerations; false when the kind is unknown. `bytes` holds `size` bytes, `name`
 * is the base type's own. */
bool cadre_scalar_write(cadre_buffer *text, unsigned encoding, const char *name,
                        const unsigned char *bytes, size_t size);
void cadre_double_write(cadre_buffer *text, double value);
void cadre_integer_write(cadre_buffer *text, const unsigned char *bytes, size_t size,
                         bool is_signed);
/* A quoted character or string of 1, 2 or 4 byte units; stops at `count` units. */
void cadre_character_write(cadre_buffer *text, uint32_t unit, size_t width);
void cadre_string_write(cadre_buffer *text, const unsigned char *units, size_t count, size_t width,
                        bool cut);

#endif
