/* A relocatable object as a view whose every field was checked, since it comes from outside: the
 * compiler, its cache, or a file that a user names. */
#include "cell/load_internal.h"

#include <string.h>

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) return cadre_error_set(error, CADRE_EFORMAT, __VA_ARGS__);               \
    } while (0)

static bool inside(const struct object *object, uint64_t offset, uint64_t size)
{
    return offset <= object->length && size <= object->length - offset;
}

static bool is_power_of_two(uint64_t value)
{
    return value && (value & (value - 1)) == 0;
}

size_t cadre_relocation_width(uint32_t type)
{
    switch (type) {
    case R_X86_64_64:
    case R_X86_64_PC64:
    case R_X86_64_GOTOFF64:
    case R_X86_64_GOTPC64:
    case R_X86_64_GOT64:
    case R_X86_64_GOTPCREL64:
    case R_X86_64_PLTOFF64:
    case R_X86_64_DTPOFF64:
    case R_X86_64_SIZE64: return 8;
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
    case R_X86_64_GOTPC32:
    case R_X86_64_TLSGD:
    case R_X86_64_TLSLD:
    case R_X86_64_DTPOFF32:
    case R_X86_64_SIZE32: return 4;
    default: return 0;
    }
}

const char *cadre_object_section_name(const struct object *object, size_t section)
{
    uint32_t at = object->sections[section].sh_name;
    return at < object->section_names_size ? object->section_names + at : "";
}

size_t cadre_object_symbol_section(const struct object *object, size_t symbol)
{
    size_t section = object->symbols[symbol].st_shndx;
    if (section == SHN_XINDEX) return object->extended ? object->extended[symbol] : 0;
    return section >= SHN_LORESERVE ? 0 : section;
}

static int check_header(struct object *object, cadre_error *error)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)object->bytes;
    CHECK(object->length >= sizeof *header && !memcmp(header->e_ident, ELFMAG, SELFMAG),
          "not an ELF object");
    CHECK(header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
              header->e_machine == EM_X86_64,
          "the object is not for x86-64");
    CHECK(header->e_type == ET_REL, "not a relocatable object (gcc -c makes one)");
    CHECK(header->e_shentsize == sizeof(Elf64_Shdr) && header->e_shoff % 8 == 0 &&
              header->e_shoff && inside(object, header->e_shoff, sizeof(Elf64_Shdr)),
          "the object's section headers are damaged");
    object->sections = (const Elf64_Shdr *)(object->bytes + header->e_shoff);
    uint64_t count = header->e_shnum ? header->e_shnum : object->sections[0].sh_size;
    CHECK(count > 0 && count < (1u << 28) &&
              inside(object, header->e_shoff, count * sizeof(Elf64_Shdr)),
          "the object's section headers are damaged");
    object->section_count = count;
    size_t names =
        header->e_shstrndx == SHN_XINDEX ? object->sections[0].sh_link : header->e_shstrndx;
    CHECK(names < count, "the object's section names are missing");
    const Elf64_Shdr *section = &object->sections[names];
    CHECK(section->sh_type == SHT_STRTAB && section->sh_size &&
              inside(object, section->sh_offset, section->sh_size) &&
              !object->bytes[section->sh_offset + section->sh_size - 1],
          "the object's section names are damaged");
    object->section_names = (const char *)object->bytes + section->sh_offset;
    object->section_names_size = section->sh_size;
    return 0;
}

static int check_sections(struct object *object, cadre_error *error)
{
    for (size_t i = 1; i < object->section_count; i++) {
        const Elf64_Shdr *section = &object->sections[i];
        if (section->sh_type != SHT_NOBITS && section->sh_type != SHT_NULL) {
            CHECK(inside(object, section->sh_offset, section->sh_size),
                  "section %zu of the object is cut off", i);
        }
        if (section->sh_flags & SHF_ALLOC) {
            CHECK(!(section->sh_flags & SHF_COMPRESSED), "section %zu is compressed", i);
            CHECK(section->sh_addralign == 0 || is_power_of_two(section->sh_addralign),
                  "section %zu has a damaged alignment", i);
            CHECK(section->sh_addralign <= ARENA_ALIGNMENT,
                  "%s wants an alignment of %zu bytes; at most %zu are possible in a cell",
                  cadre_object_section_name(object, i), (size_t)section->sh_addralign,
                  ARENA_ALIGNMENT);
            CHECK(section->sh_size < (uint64_t)1 << 46, "section %zu is too large", i);
        }
        if (section->sh_type == SHT_SYMTAB) {
            CHECK(!object->symbols, "the object has two symbol tables");
            CHECK(section->sh_entsize == sizeof(Elf64_Sym) && section->sh_offset % 8 == 0 &&
                      section->sh_link < object->section_count,
                  "the object's symbol table is damaged");
            const Elf64_Shdr *names = &object->sections[section->sh_link];
            CHECK(names->sh_type == SHT_STRTAB && names->sh_size &&
                      inside(object, names->sh_offset, names->sh_size) &&
                      !object->bytes[names->sh_offset + names->sh_size - 1],
                  "the object's symbol names are damaged");
            object->symbols = (const Elf64_Sym *)(object->bytes + section->sh_offset);
            object->symbol_count = section->sh_size / sizeof(Elf64_Sym);
            object->names = (const char *)object->bytes + names->sh_offset;
            object->names_size = names->sh_size;
        }
    }
    for (size_t i = 1; i < object->section_count; i++) {
        const Elf64_Shdr *section = &object->sections[i];
        if (section->sh_type != SHT_SYMTAB_SHNDX) continue;
        CHECK(section->sh_offset % 4 == 0 && section->sh_size / 4 >= object->symbol_count,
              "the object's section indices are damaged");
        object->extended = (const Elf32_Word *)(object->bytes + section->sh_offset);
    }
    return 0;
}

static int check_symbols(struct object *object, cadre_error *error)
{
    for (size_t i = 0; i < object->symbol_count; i++) {
        const Elf64_Sym *symbol = &object->symbols[i];
        CHECK(symbol->st_name < object->names_size, "symbol %zu of the object has no name", i);
        size_t section = cadre_object_symbol_section(object, i);
        CHECK(section < object->section_count, "symbol %zu is in no section", i);
        CHECK(symbol->st_shndx < SHN_LORESERVE || symbol->st_shndx == SHN_ABS ||
                  symbol->st_shndx == SHN_COMMON || symbol->st_shndx == SHN_XINDEX,
              "symbol %zu is in an unknown section", i);
        if (section) {
            CHECK(symbol->st_value <= object->sections[section].sh_size,
                  "symbol %s lies outside of its section", cadre_object_symbol_name(object, i));
        }
        if (symbol->st_shndx == SHN_COMMON) {
            CHECK(is_power_of_two(symbol->st_value) && symbol->st_value <= ARENA_ALIGNMENT &&
                      symbol->st_size < (uint64_t)1 << 46,
                  "symbol %s has a damaged size", cadre_object_symbol_name(object, i));
        }
    }
    return 0;
}

static int check_relocations(struct object *object, size_t index, cadre_error *error)
{
    const Elf64_Shdr *section = &object->sections[index];
    CHECK(section->sh_info < object->section_count, "relocations of no section");
    const Elf64_Shdr *target = &object->sections[section->sh_info];
    if (!(target->sh_flags & SHF_ALLOC)) return 0;
    CHECK(section->sh_type == SHT_RELA, "the object has relocations without addends");
    CHECK(section->sh_entsize == sizeof(Elf64_Rela) && section->sh_offset % 8 == 0 &&
              target->sh_type != SHT_NOBITS && section->sh_link < object->section_count &&
              object->sections[section->sh_link].sh_type == SHT_SYMTAB,
          "the object's relocations are damaged");
    const Elf64_Rela *relocation = (const Elf64_Rela *)(object->bytes + section->sh_offset);
    for (size_t k = 0; k < section->sh_size / sizeof *relocation; k++) {
        CHECK(ELF64_R_SYM(relocation[k].r_info) < object->symbol_count,
              "a relocation names no symbol");
        size_t width = cadre_relocation_width(ELF64_R_TYPE(relocation[k].r_info));
        CHECK(target->sh_size >= width && relocation[k].r_offset <= target->sh_size - width,
              "a relocation lies outside of its section");
    }
    return 0;
}

int cadre_object_open(struct object *object, const void *bytes, size_t length, cadre_error *error)
{
    *object = (struct object){.bytes = bytes, .length = length};
    CHECK((uintptr_t)bytes % 8 == 0, "the object is not aligned in memory");
    int status = check_header(object, error);
    if (status == 0) status = check_sections(object, error);
    if (status == 0) status = check_symbols(object, error);
    for (size_t i = 1; status == 0 && i < object->section_count; i++) {
        uint32_t type = object->sections[i].sh_type;
        if (type == SHT_RELA || type == SHT_REL) status = check_relocations(object, i, error);
    }
    return status;
}

static uint32_t word(const unsigned char *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

static bool skip_leb(const unsigned char **at, const unsigned char *end)
{
    for (int i = 0; i < 10 && *at < end; i++) {
        if (!(*(*at)++ & 0x80)) return true;
    }
    return false;
}

/* A CIE as compilers write it: version 1 or 3 and an augmentation made of z R P L S B. */
static bool valid_cie(const unsigned char *at, const unsigned char *end)
{
    if (at >= end || (*at != 1 && *at != 3)) return false;
    bool old = *at++ == 1;
    const unsigned char *augmentation = at;
    const unsigned char *stop = memchr(at, 0, (size_t)(end - at));
    if (!stop || strspn((const char *)augmentation, "zRPLSB") != strlen((const char *)augmentation))
        return false;
    if (augmentation != stop && *augmentation != 'z') return false;
    at = stop + 1;
    if (!skip_leb(&at, end) || !skip_leb(&at, end)) return false;
    if (old) {
        if (at++ >= end) return false;
    } else if (!skip_leb(&at, end)) {
        return false;
    }
    if (augmentation == stop) return true;
    const unsigned char *size = at;
    if (!skip_leb(&at, end) || *size >= 0x80 || *size > end - at) return false;
    end = at + *size;
    for (const unsigned char *letter = augmentation + 1; letter < stop; letter++) {
        if (*letter == 'S' || *letter == 'B') continue;
        if (at >= end) return false;
        unsigned char encoding = *at++;
        if (*letter == 'R' && encoding != 0x1b && encoding != 0x10 && encoding != 0x1c &&
            encoding != 0x00 && encoding != 0x03)
            return false;
        if (*letter == 'P') {
            size_t width = (encoding & 0x0f) == 0x0b || (encoding & 0x0f) == 0x03 ? 4 : 8;
            if ((encoding & 0x70) == 0x50 || (size_t)(end - at) < width) return false;
            at += width;
        }
    }
    return true;
}

bool cadre_frames_valid(const unsigned char *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        if (size - at < 4) return false;
        uint32_t length = word(bytes + at);
        if (length == 0) return at + 4 == size;
        if (length < 4 || length >= 0xfffffff0u || length > size - at - 4) return false;
        uint32_t id = word(bytes + at + 4);
        const unsigned char *end = bytes + at + 4 + length;
        if (id == 0) {
            if (!valid_cie(bytes + at + 8, end)) return false;
        } else {
            /* An FDE: id is the distance back to its CIE; two 4 or 8 byte words follow. */
            if (id > at + 4 || length < 12) return false;
            size_t cie = at + 4 - id;
            bool found = false;
            for (size_t other = 0; other <= cie && other + 8 <= size;) {
                if (other == cie) found = word(bytes + other + 4) == 0;
                uint32_t step = word(bytes + other);
                if (step >= 0xfffffff0u || step == 0) break;
                other += 4 + (size_t)step;
            }
            if (!found) return false;
        }
        at += 4 + (size_t)length;
    }
    return true;
}
