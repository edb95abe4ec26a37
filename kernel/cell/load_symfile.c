/* A small ELF file in memory for the debugger: where a module's functions are, and its debug
 * information as if it had been linked there. gdb reads it through __jit_debug_descriptor. */
#include "cell/load_build.h"

#include <stdlib.h>
#include <string.h>

/* Sections of the file: the first three are made here, the others copied. */
enum { SECTION_NULL, SECTION_TEXT, SECTION_SYMBOLS, SECTION_STRINGS, SECTION_COPIES };
#define SECTION_LIMIT 40

struct symfile {
    cadre_buffer bytes, names;
    Elf64_Shdr sections[SECTION_LIMIT];
    size_t count;
};

static uint32_t add_name(struct symfile *file, const char *name)
{
    uint32_t at = (uint32_t)file->names.length;
    cadre_buffer_append(&file->names, name, strlen(name) + 1);
    return at;
}

static void align(cadre_buffer *bytes)
{
    static const char zeros[8];
    cadre_buffer_append(bytes, zeros, (8 - bytes->length % 8) % 8);
}

/* The relocations that compilers put into debug information, with final addresses. */
static void relocate(const struct build *build, size_t relocations, unsigned char *content,
                     size_t size)
{
    const Elf64_Shdr *header = &build->object.sections[relocations];
    if (header->sh_type != SHT_RELA || header->sh_entsize != sizeof(Elf64_Rela) ||
        header->sh_offset % 8 != 0)
        return;
    const Elf64_Rela *relocation = (const Elf64_Rela *)(build->object.bytes + header->sh_offset);
    for (size_t i = 0; i < header->sh_size / sizeof *relocation; i++) {
        uint32_t type = ELF64_R_TYPE(relocation[i].r_info);
        size_t symbol = ELF64_R_SYM(relocation[i].r_info);
        size_t width = type == R_X86_64_64 ? 8 : type == R_X86_64_32 ? 4 : 0;
        if (!width || symbol >= build->object.symbol_count || size < width ||
            relocation[i].r_offset > size - width)
            continue;
        size_t section = cadre_object_symbol_section(&build->object, symbol);
        uint64_t value = (uint64_t)relocation[i].r_addend;
        if (section && build->sections[section].loaded && !build->sections[section].is_thread_local)
            value += build->sections[section].address;
        if (section) value += build->object.symbols[symbol].st_value;
        memcpy(content + relocation[i].r_offset, &value, width);
    }
}

static void copy_section(const struct build *build, struct symfile *file, size_t index)
{
    const Elf64_Shdr *header = &build->object.sections[index];
    const struct section_state *section = &build->sections[index];
    align(&file->bytes);
    Elf64_Shdr *copy = &file->sections[file->count++];
    *copy =
        (Elf64_Shdr){.sh_name = add_name(file, cadre_object_section_name(&build->object, index)),
                     .sh_type = SHT_PROGBITS,
                     .sh_flags = header->sh_flags & (SHF_ALLOC | SHF_MERGE | SHF_STRINGS),
                     .sh_addr = section->loaded ? section->address : 0,
                     .sh_offset = file->bytes.length,
                     .sh_size = header->sh_size,
                     .sh_addralign = 1,
                     .sh_entsize = header->sh_entsize};
    const unsigned char *content =
        section->loaded ? section->bytes : build->object.bytes + header->sh_offset;
    cadre_buffer_append(&file->bytes, content, header->sh_size);
    if (!file->bytes.failed && !section->loaded && section->relocations)
        relocate(build, section->relocations, (unsigned char *)file->bytes.data + copy->sh_offset,
                 header->sh_size);
}

static void add_symbols(const struct build *build, struct symfile *file)
{
    const cadre_module *module = build->module;
    cadre_buffer strings = {0};
    Elf64_Sym symbol = {0};
    align(&file->bytes);
    size_t start = file->bytes.length;
    cadre_buffer_append(&strings, "", 1);
    cadre_buffer_append(&file->bytes, &symbol, sizeof symbol);
    for (size_t i = 0; i < module->function_count; i++) {
        const struct function *function = &module->functions[i];
        const char *name = module->strings + function->name;
        symbol = (Elf64_Sym){.st_name = (Elf64_Word)strings.length,
                             .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                             .st_shndx = SECTION_TEXT,
                             .st_value = (uint64_t)(uintptr_t)module->blocks[ARENA_CODE].address +
                                         function->offset,
                             .st_size = function->size};
        cadre_buffer_append(&strings, name, strlen(name) + 1);
        cadre_buffer_append(&file->bytes, &symbol, sizeof symbol);
    }
    file->sections[SECTION_SYMBOLS] = (Elf64_Shdr){.sh_name = add_name(file, ".symtab"),
                                                   .sh_type = SHT_SYMTAB,
                                                   .sh_offset = start,
                                                   .sh_size = file->bytes.length - start,
                                                   .sh_link = SECTION_STRINGS,
                                                   .sh_info = 1,
                                                   .sh_addralign = 8,
                                                   .sh_entsize = sizeof symbol};
    /* Section names share the string table of the symbols. */
    size_t shift = strings.length;
    for (size_t i = 0; i < file->count; i++)
        file->sections[i].sh_name += (Elf64_Word)shift;
    uint32_t own = (uint32_t)shift + add_name(file, ".strtab");
    file->sections[SECTION_STRINGS] = (Elf64_Shdr){.sh_name = own,
                                                   .sh_type = SHT_STRTAB,
                                                   .sh_offset = file->bytes.length,
                                                   .sh_size = shift + file->names.length,
                                                   .sh_addralign = 1};
    cadre_buffer_append(&file->bytes, strings.data, strings.length);
    cadre_buffer_append(&file->bytes, file->names.data, file->names.length);
    if (strings.failed || file->names.failed) file->bytes.failed = true;
    cadre_buffer_free(&strings);
}

/* What the debugger needs: it can do without sections that only speed up a search. */
static bool is_wanted(const struct build *build, size_t index)
{
    const Elf64_Shdr *header = &build->object.sections[index];
    const char *name = cadre_object_section_name(&build->object, index);
    if (header->sh_type == SHT_NOBITS || header->sh_type == SHT_NULL || !header->sh_size ||
        (header->sh_flags & SHF_COMPRESSED))
        return false;
    if (build->sections[index].is_frames)
        return build->sections[index].loaded && build->sections[index].bytes;
    return !strncmp(name, ".debug_", 7) && strcmp(name, ".debug_aranges") != 0 &&
           strncmp(name, ".debug_gnu_pub", 14) != 0 && !(header->sh_flags & SHF_ALLOC);
}

void cadre_build_symfile(struct build *build)
{
    struct symfile file = {.count = SECTION_COPIES};
    const struct block *code = &build->module->blocks[ARENA_CODE];
    Elf64_Ehdr header = {.e_type = ET_EXEC,
                         .e_machine = EM_X86_64,
                         .e_version = EV_CURRENT,
                         .e_ehsize = sizeof header,
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shstrndx = SECTION_STRINGS};
    if (!code->address || !build->module->function_count) return;
    memcpy(header.e_ident, build->object.bytes, EI_NIDENT);
    cadre_buffer_append(&file.bytes, &header, sizeof header);
    file.sections[SECTION_TEXT] = (Elf64_Shdr){.sh_name = add_name(&file, ".text"),
                                               .sh_type = SHT_NOBITS,
                                               .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                                               .sh_addr = (uint64_t)(uintptr_t)code->address,
                                               .sh_offset = sizeof header,
                                               .sh_size = code->size,
                                               .sh_addralign = 16};
    for (size_t i = 1; i < build->object.section_count && file.count < SECTION_LIMIT; i++) {
        if (is_wanted(build, i)) copy_section(build, &file, i);
    }
    add_symbols(build, &file);
    align(&file.bytes);
    header.e_shoff = file.bytes.length;
    header.e_shnum = (Elf64_Half)file.count;
    cadre_buffer_append(&file.bytes, file.sections, file.count * sizeof *file.sections);
    cadre_buffer_free(&file.names);
    if (file.bytes.failed) {
        cadre_buffer_free(&file.bytes); /* the debugger will not see this cell */
        return;
    }
    memcpy(file.bytes.data, &header, sizeof header);
    build->module->symfile_size = file.bytes.length;
    build->module->symfile = realloc(file.bytes.data, file.bytes.length);
    if (!build->module->symfile) build->module->symfile = file.bytes.data;
}
