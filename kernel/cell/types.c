/* Opening an object's debug information, finding names and lines. */
#include "cell/types_internal.h"

#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

static bool inside(const cadre_types *types, uint64_t offset, uint64_t size)
{
    return offset <= types->length && size <= types->length - offset;
}

static uint64_t symbol_address(const cadre_types *types, const Elf64_Shdr *sections, size_t count,
                               size_t index)
{
    const Elf64_Sym *symbol = &types->symbols[index];
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= count) return symbol->st_value;
    bool loaded = sections[symbol->st_shndx].sh_flags & SHF_ALLOC;
    return symbol->st_value + (loaded ? CADRE_TYPES_SECTION_ADDRESS(symbol->st_shndx) : 0);
}

/* libdw reads sections as they stand; in a relocatable object their addresses and references to
 * strings still wait for a linker. */
static void relocate(cadre_types *types, const Elf64_Shdr *sections, size_t count, size_t index)
{
    const Elf64_Shdr *section = &sections[index], *target = &sections[section->sh_info];
    const Elf64_Rela *relocation = (const Elf64_Rela *)(types->image + section->sh_offset);
    for (size_t i = 0; i < section->sh_size / sizeof *relocation; i++) {
        size_t symbol = ELF64_R_SYM(relocation[i].r_info);
        uint64_t at = relocation[i].r_offset;
        uint32_t type = ELF64_R_TYPE(relocation[i].r_info);
        size_t width = type == R_X86_64_64 || type == R_X86_64_DTPOFF64   ? 8
                       : type == R_X86_64_32 || type == R_X86_64_DTPOFF32 ? 4
                                                                          : 0;
        if (!width || symbol >= types->symbol_count || target->sh_size < width ||
            at > target->sh_size - width)
            continue;
        uint64_t value =
            symbol_address(types, sections, count, symbol) + (uint64_t)relocation[i].r_addend;
        memcpy(types->image + target->sh_offset + at, &value, width);
    }
}

static bool overlaps(uint64_t offset, uint64_t size, const void *start, const void *base,
                     uint64_t length)
{
    uint64_t other = (uint64_t)((const unsigned char *)start - (const unsigned char *)base);
    return offset < other + length && other < offset + size;
}

/* A damaged object must not have its headers or symbols changed after they were checked. */
static bool may_relocate(const cadre_types *types, const Elf64_Shdr *sections, size_t count,
                         const Elf64_Shdr *target)
{
    uint64_t offset = target->sh_offset, size = target->sh_size;
    return !(target->sh_flags & (SHF_ALLOC | SHF_COMPRESSED)) && target->sh_type != SHT_NOBITS &&
           offset >= sizeof(Elf64_Ehdr) &&
           !overlaps(offset, size, sections, types->image, count * sizeof *sections) &&
           !overlaps(offset, size, types->symbols, types->image,
                     types->symbol_count * sizeof *types->symbols) &&
           !overlaps(offset, size, types->names, types->image, types->names_size);
}

static bool read_headers(cadre_types *types, const Elf64_Shdr **sections, size_t *count)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)types->image;
    if (types->length < sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != EM_X86_64 ||
        header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shoff % 8 != 0 || !header->e_shoff ||
        !inside(types, header->e_shoff, sizeof(Elf64_Shdr)))
        return false;
    *sections = (const Elf64_Shdr *)(types->image + header->e_shoff);
    *count = header->e_shnum ? header->e_shnum : (*sections)[0].sh_size;
    if (*count > types->length / sizeof(Elf64_Shdr) ||
        !inside(types, header->e_shoff, *count * sizeof(Elf64_Shdr)))
        return false;
    for (size_t i = 1; i < *count; i++) {
        const Elf64_Shdr *section = &(*sections)[i];
        if (section->sh_type != SHT_NOBITS && !inside(types, section->sh_offset, section->sh_size))
            return false;
        if (section->sh_type != SHT_SYMTAB) continue;
        if (section->sh_offset % 8 != 0 || section->sh_link >= *count) return false;
        const Elf64_Shdr *names = &(*sections)[section->sh_link];
        if (names->sh_type != SHT_STRTAB || !names->sh_size ||
            !inside(types, names->sh_offset, names->sh_size) ||
            types->image[names->sh_offset + names->sh_size - 1])
            return false;
        types->symbols = (const Elf64_Sym *)(types->image + section->sh_offset);
        types->symbol_count = section->sh_size / sizeof(Elf64_Sym);
        types->names = (const char *)types->image + names->sh_offset;
        types->names_size = names->sh_size;
        for (size_t k = 0; k < types->symbol_count; k++) {
            if (types->symbols[k].st_name >= names->sh_size) return false;
        }
    }
    return true;
}

cadre_types *cadre_types_open(const unsigned char *object, size_t length, cadre_error *error)
{
    const Elf64_Shdr *sections = NULL;
    size_t count = 0;
    cadre_types *types = calloc(1, sizeof *types);
    if (types) types->image = malloc(length ? length : 1);
    if (!types || !types->image) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory for the cell's debug information");
        goto fail;
    }
    memcpy(types->image, object, length);
    types->length = length;
    if (!read_headers(types, &sections, &count)) {
        cadre_error_set(error, CADRE_EFORMAT, "the cell's object is damaged");
        goto fail;
    }
    for (size_t i = 1; i < count; i++) {
        const Elf64_Shdr *section = &sections[i];
        if (section->sh_type == SHT_RELA && section->sh_info < count && types->symbols &&
            section->sh_offset % 8 == 0 &&
            may_relocate(types, sections, count, &sections[section->sh_info]))
            relocate(types, sections, count, i);
    }
    elf_version(EV_CURRENT);
    types->elf = elf_memory((char *)types->image, types->length);
    if (!types->elf) {
        cadre_error_set(error, CADRE_EFORMAT, "the cell's object cannot be read: %s",
                        elf_errmsg(-1));
        goto fail;
    }
    types->dwarf = dwarf_begin_elf(types->elf, DWARF_C_READ, NULL);
    return types;
fail:
    cadre_types_free(types);
    return NULL;
}

void cadre_types_free(cadre_types *types)
{
    if (!types) return;
    if (types->dwarf) dwarf_end(types->dwarf);
    if (types->elf) elf_end(types->elf);
    free(types->image);
    free(types);
}

/* ---- dies ---- */

int64_t cadre_die_number(Dwarf_Die *die, unsigned attribute, int64_t otherwise)
{
    Dwarf_Attribute found;
    if (!dwarf_attr_integrate(die, attribute, &found)) return otherwise;
    Dwarf_Sword number;
    Dwarf_Word word;
    unsigned form = dwarf_whatform(&found);
    /* Fixed-size forms carry no sign; sdata and implicit_const do. */
    if (form == DW_FORM_sdata || form == DW_FORM_implicit_const)
        return dwarf_formsdata(&found, &number) == 0 ? number : otherwise;
    if (form == DW_FORM_exprloc || form == DW_FORM_block1 || form == DW_FORM_block)
        return otherwise;
    return dwarf_formudata(&found, &word) == 0 ? (int64_t)word : otherwise;
}

bool cadre_die_flag(Dwarf_Die *die, unsigned attribute)
{
    Dwarf_Attribute found;
    bool flag = false;
    return dwarf_attr(die, attribute, &found) && dwarf_formflag(&found, &flag) == 0 && flag;
}

bool cadre_type_of(Dwarf_Die *die, Dwarf_Die *type)
{
    Dwarf_Attribute found;
    return dwarf_attr_integrate(die, DW_AT_type, &found) && dwarf_formref_die(&found, type);
}

#define CHAIN_LIMIT 200 /* of typedefs and qualifiers: a damaged object may hold a circle */

bool cadre_type_strip(Dwarf_Die *type, Dwarf_Die *plain)
{
    *plain = *type;
    for (int i = 0; i < CHAIN_LIMIT; i++) {
        Dwarf_Die next;
        switch (dwarf_tag(plain)) {
        case DW_TAG_typedef:
        case DW_TAG_const_type:
        case DW_TAG_volatile_type:
        case DW_TAG_restrict_type:
        case DW_TAG_atomic_type:
            if (!cadre_type_of(plain, &next)) return false;
            *plain = next;
            break;
        case DW_TAG_unspecified_type: return false;
        default: return true;
        }
    }
    return false;
}

int64_t cadre_type_bound(Dwarf_Die *subrange)
{
    int64_t count = cadre_die_number(subrange, DW_AT_count, -1);
    if (count >= 0) return count;
    int64_t upper = cadre_die_number(subrange, DW_AT_upper_bound, -2);
    /* gcc writes the upper bound of a zero-length array as -1. */
    if (upper == -2 || upper == INT64_MAX) return -1;
    return upper < -1 ? -1 : upper + 1;
}

int64_t cadre_type_size(Dwarf_Die *type)
{
    Dwarf_Die plain = *type;
    int64_t factor = 1;
    for (int i = 0; i < CHAIN_LIMIT; i++) {
        Dwarf_Die stripped, child;
        if (!cadre_type_strip(&plain, &stripped)) return -1;
        int64_t size = cadre_die_number(&stripped, DW_AT_byte_size, -1);
        int tag = dwarf_tag(&stripped);
        if (size < 0 && tag == DW_TAG_pointer_type) size = 8;
        if (size >= 0) return __builtin_mul_overflow(size, factor, &size) ? -1 : size;
        if (tag != DW_TAG_array_type) return -1;
        if (dwarf_child(&stripped, &child) == 0) {
            do {
                if (dwarf_tag(&child) != DW_TAG_subrange_type) continue;
                int64_t bound = cadre_type_bound(&child);
                if (bound < 0 || __builtin_mul_overflow(factor, bound, &factor)) return -1;
            } while (dwarf_siblingof(&child, &child) == 0);
        }
        if (!cadre_type_of(&stripped, &plain)) return -1;
    }
    return -1;
}

static bool has_name(Dwarf_Die *die, const char *name)
{
    Dwarf_Attribute found;
    const char *text =
        dwarf_attr_integrate(die, DW_AT_linkage_name, &found) ? dwarf_formstring(&found) : NULL;
    if (text && !strcmp(text, name)) return true;
    text = dwarf_attr_integrate(die, DW_AT_name, &found) ? dwarf_formstring(&found) : NULL;
    return text && !strcmp(text, name);
}

/* A variable inside of a function: static locals such as the one that carries a value's type. */
static bool find_local(Dwarf_Die *parent, const char *name, Dwarf_Die *die, int depth)
{
    Dwarf_Die child;
    if (depth > 64 || dwarf_child(parent, &child) != 0) return false;
    do {
        int tag = dwarf_tag(&child);
        if (tag == DW_TAG_variable && has_name(&child, name)) {
            *die = child;
            return true;
        }
        if ((tag == DW_TAG_subprogram || tag == DW_TAG_lexical_block) &&
            find_local(&child, name, die, depth + 1))
            return true;
    } while (dwarf_siblingof(&child, &child) == 0);
    return false;
}

bool cadre_types_find(cadre_types *types, const char *name, Dwarf_Die *die)
{
    bool found = false;
    Dwarf_CU *unit = NULL;
    Dwarf_Die top, child;
    if (!types->dwarf) return false;
    while (dwarf_get_units(types->dwarf, unit, &unit, NULL, NULL, &top, NULL) == 0) {
        if (dwarf_child(&top, &child) != 0) continue;
        do {
            int tag = dwarf_tag(&child);
            if ((tag != DW_TAG_variable && tag != DW_TAG_subprogram) || !has_name(&child, name))
                continue;
            bool declaration = cadre_die_flag(&child, DW_AT_declaration);
            if (found && declaration) continue;
            *die = child;
            found = true;
            if (!declaration) return true;
        } while (dwarf_siblingof(&child, &child) == 0);
    }
    unit = NULL;
    while (!found && dwarf_get_units(types->dwarf, unit, &unit, NULL, NULL, &top, NULL) == 0)
        found = find_local(&top, name, die, 0);
    return found;
}

char **cadre_types_defined(cadre_types *types)
{
    size_t count = 0;
    char **names = calloc(types->symbol_count + 1, sizeof *names);
    if (!names) return NULL;
    for (size_t i = 1; i < types->symbol_count; i++) {
        const Elf64_Sym *symbol = &types->symbols[i];
        unsigned type = ELF64_ST_TYPE(symbol->st_info);
        const char *name = types->names + symbol->st_name;
        if (ELF64_ST_BIND(symbol->st_info) == STB_LOCAL || symbol->st_shndx == SHN_UNDEF ||
            !*name || type == STT_SECTION || type == STT_FILE)
            continue;
        names[count] = strdup(name);
        if (names[count]) count++;
    }
    return names;
}

/* ---- lines ---- */

static bool line_in_unit(Dwarf_Die *unit, uint64_t address, char *file, size_t file_size,
                         int *number)
{
    Dwarf_Lines *lines;
    size_t count;
    Dwarf_Line *best = NULL;
    if (dwarf_getsrclines(unit, &lines, &count) != 0) return false;
    for (size_t i = 0; i < count; i++) {
        Dwarf_Line *line = dwarf_onesrcline(lines, i);
        Dwarf_Addr at;
        bool end = false;
        int n = 0;
        if (dwarf_lineaddr(line, &at) != 0 || at >> 32 != address >> 32) continue;
        if (at > address) break; /* sorted by address */
        dwarf_lineendsequence(line, &end);
        dwarf_lineno(line, &n);
        if (end)
            best = NULL;
        else if (n > 0)
            best = line;
    }
    if (!best || dwarf_lineno(best, number) != 0) return false;
    const char *source = dwarf_linesrc(best, NULL, NULL);
    const char *folder = NULL;
    Dwarf_Attribute found;
    if (dwarf_attr(unit, DW_AT_comp_dir, &found)) folder = dwarf_formstring(&found);
    if (!source) source = "";
    /* A relative name comes back with the compiler's folder before it. */
    if (folder && !strncmp(source, folder, strlen(folder)) && source[strlen(folder)] == '/')
        source += strlen(folder) + 1;
    snprintf(file, file_size, "%s", source);
    return true;
}

int cadre_types_line(cadre_types *types, const char *function, uint64_t offset, char *file,
                     size_t file_size, int *line)
{
    if (!types->dwarf) return CADRE_ENOTFOUND;
    for (size_t i = 1; i < types->symbol_count; i++) {
        const Elf64_Sym *symbol = &types->symbols[i];
        if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx == SHN_UNDEF ||
            symbol->st_shndx >= SHN_LORESERVE ||
            strcmp(types->names + symbol->st_name, function) != 0)
            continue;
        uint64_t address =
            CADRE_TYPES_SECTION_ADDRESS(symbol->st_shndx) + symbol->st_value + offset;
        Dwarf_CU *unit = NULL;
        Dwarf_Die top;
        while (dwarf_get_units(types->dwarf, unit, &unit, NULL, NULL, &top, NULL) == 0) {
            if (line_in_unit(&top, address, file, file_size, line)) return 0;
        }
    }
    return CADRE_ENOTFOUND;
}
