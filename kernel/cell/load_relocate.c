/* Relocations: what they need, how they are applied, and who refers to whom. */
#include "cell/load_build.h"

#include <stdlib.h>
#include <string.h>

static int refuse_type(const struct build *build, uint32_t type, const char *symbol)
{
    switch (type) {
    case R_X86_64_GOTTPOFF:
    case R_X86_64_TPOFF32:
    case R_X86_64_TPOFF64:
    case R_X86_64_GOTPC32_TLSDESC:
    case R_X86_64_TLSDESC_CALL:
        return cadre_error_set(build->error, CADRE_ENEEDS_DLOPEN,
                               "%s is thread-local in a way that only the system's linker knows "
                               "(-ftls-model, -mtls-dialect): link a shared library",
                               symbol);
    case R_X86_64_32:
    case R_X86_64_32S:
        return cadre_error_set(build->error, CADRE_EFORMAT,
                               "the address of %s is kept in 32 bits: compile with -fPIC "
                               "(without -mcmodel and -fno-pic)",
                               *symbol ? symbol : "a datum");
    default:
        return cadre_error_set(build->error, CADRE_EFORMAT,
                               "relocation type %u (of %s) cannot be loaded; is the object "
                               "compiled with -fPIC?",
                               type, *symbol ? symbol : "a section");
    }
}

bool cadre_build_is_branch(const struct build *build, const struct section_state *section,
                           const Elf64_Rela *relocation, const unsigned char *content)
{
    (void)build;
    uint64_t at = relocation->r_offset;
    switch (ELF64_R_TYPE(relocation->r_info)) {
    case R_X86_64_PLT32: return true;
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
        /* call *slot(%rip), jmp *slot(%rip) */
        return section->arena == ARENA_CODE && at >= 2 && content[at - 2] == 0xff &&
               (content[at - 1] == 0x15 || content[at - 1] == 0x25);
    case R_X86_64_PC32:
        if (section->arena != ARENA_CODE || relocation->r_addend != -4) return false;
        return (at >= 1 && (content[at - 1] == 0xe8 || content[at - 1] == 0xe9)) ||
               (at >= 2 && content[at - 2] == 0x0f && (content[at - 1] & 0xf0) == 0x80);
    default: return false;
    }
}

static bool uses_slot(uint32_t type)
{
    return type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX ||
           type == R_X86_64_REX_GOTPCRELX || type == R_X86_64_GOTPCREL64 || type == R_X86_64_GOT64;
}

int cadre_build_scan(struct build *build)
{
    const struct object *object = &build->object;
    for (size_t i = 1; i < object->symbol_count; i++) {
        if (cadre_symbol_type(&object->symbols[i]) == STT_GNU_IFUNC)
            build->symbols[i].resolver_stub = (uint32_t)build->stub_count++;
    }
    for (size_t i = 1; i < object->section_count; i++) {
        struct section_state *section = &build->sections[i];
        if (!section->loaded || !section->relocations) continue;
        const Elf64_Shdr *header = &object->sections[section->relocations];
        const Elf64_Rela *relocation = (const Elf64_Rela *)(object->bytes + header->sh_offset);
        const unsigned char *content = object->bytes + object->sections[i].sh_offset;
        for (size_t k = 0; k < header->sh_size / sizeof *relocation; k++) {
            uint32_t type = ELF64_R_TYPE(relocation[k].r_info);
            size_t index = ELF64_R_SYM(relocation[k].r_info);
            if (type == R_X86_64_NONE) continue;
            if (!cadre_relocation_width(type)) {
                return refuse_type(build, type, cadre_object_symbol_name(object, index));
            }
            struct symbol_state *symbol = &build->symbols[index];
            symbol->needs |= NEEDS_VERSION;
            if (type == R_X86_64_TLSGD) symbol->needs |= NEEDS_PAIR;
            if (type == R_X86_64_TLSLD) build->needs_base_pair = true;
            if (uses_slot(type)) symbol->needs |= NEEDS_SLOT;
            if ((type == R_X86_64_PLT32 || type == R_X86_64_PC32 || type == R_X86_64_PLTOFF64) &&
                cadre_symbol_is_global(&object->symbols[index]) && !(symbol->needs & NEEDS_STUB) &&
                (type == R_X86_64_PLTOFF64 ||
                 cadre_build_is_branch(build, section, &relocation[k], content))) {
                symbol->needs |= NEEDS_STUB;
                symbol->stub = (uint32_t)build->stub_count++;
            }
        }
    }
    return 0;
}

static int overflow(const struct build *build, size_t symbol)
{
    return cadre_error_set(build->error, CADRE_EFORMAT,
                           "%s is more than 2 GB away from code that refers to it directly; "
                           "compile with -fPIC, and make a huge static variable global",
                           *cadre_object_symbol_name(&build->object, symbol)
                               ? cadre_object_symbol_name(&build->object, symbol)
                               : "a large static variable");
}

static int add_reference(struct build *build, const struct part *part, uint32_t reference)
{
    size_t from = part->first_reference;
    if (build->reference_count > from + 16) from = build->reference_count - 16;
    for (size_t i = from; i < build->reference_count; i++) {
        if (build->references[i] == reference) return 0;
    }
    if (build->reference_count == build->reference_capacity) {
        size_t capacity = build->reference_capacity ? build->reference_capacity * 2 : 32;
        uint32_t *grown = realloc(build->references, capacity * sizeof *grown);
        if (!grown) return cadre_error_set(build->error, CADRE_EMEMORY, "no memory");
        build->references = grown;
        build->reference_capacity = capacity;
    }
    build->references[build->reference_count++] = reference;
    return 0;
}

/* Records the edge from `section` to what the relocation refers to. */
static int record(struct build *build, const struct section_state *section,
                  const Elf64_Rela *relocation, bool branch)
{
    size_t index = ELF64_R_SYM(relocation->r_info);
    const Elf64_Sym *elf = &build->object.symbols[index];
    const struct symbol_state *symbol = &build->symbols[index];
    const struct part *part = &build->module->parts[section->part];
    uint32_t flags = branch ? REFERENCE_CALL : 0;
    if (symbol->version) {
        if (ELF64_ST_BIND(elf->st_info) == STB_WEAK) flags |= REFERENCE_WEAK;
        if (add_reference(build, part, flags | REFERENCE_VERSION | symbol->version_index) < 0)
            return CADRE_EMEMORY;
    }
    /* Its own definition too: a direct reference reaches it whatever the name means later. */
    if (symbol->part != NO_PART && symbol->part != section->part)
        return add_reference(build, part, flags | symbol->part);
    return 0;
}

static int add_fixup(struct build *build, struct version *version, struct section_state *section,
                     uint64_t place, uint64_t addend)
{
    struct fixup *fixup = malloc(sizeof *fixup);
    if (!fixup) return cadre_error_set(build->error, CADRE_EMEMORY, "no memory");
    *fixup = (struct fixup){.next = version->fixups,
                            .module = build->module,
                            .arena = &build->loader->arenas[section->arena],
                            .place = (void *)(uintptr_t)place,
                            .addend = addend};
    version->fixups = fixup;
    return 0;
}

/* The address that a symbol has for direct and stored references. */
static uint64_t address_of(const struct symbol_state *symbol)
{
    if (symbol->version && (symbol->hidden_weak || !symbol->address))
        return (uint64_t)(uintptr_t)symbol->version->address;
    return symbol->address;
}

/* Thread-local code names a variable by its symbol or by section and addend. */
static const struct section_state *thread_section(const struct build *build, size_t symbol)
{
    size_t index = cadre_object_symbol_section(&build->object, symbol);
    return index && build->sections[index].is_thread_local ? &build->sections[index] : NULL;
}

static uint64_t thread_offset(const struct build *build, size_t symbol)
{
    const struct section_state *section = thread_section(build, symbol);
    if (section) return section->thread_offset + build->object.symbols[symbol].st_value;
    return build->symbols[symbol].place ? build->symbols[symbol].place->offset : 0;
}

static int apply(struct build *build, struct section_state *section, const Elf64_Rela *relocation,
                 bool branch)
{
    uint32_t type = ELF64_R_TYPE(relocation->r_info);
    size_t index = ELF64_R_SYM(relocation->r_info);
    const struct symbol_state *symbol = &build->symbols[index];
    uint64_t place = section->address + relocation->r_offset;
    uint64_t addend = (uint64_t)relocation->r_addend;
    uint64_t table = (uint64_t)(uintptr_t)build->loader->slots;
    uint64_t slot = (uint64_t)(uintptr_t)symbol->slot +
                    (branch ? offsetof(struct slot, call) : offsetof(struct slot, address));
    uint64_t stub = build->module->blocks[ARENA_CODE].address
                        ? (uint64_t)(uintptr_t)build->module->blocks[ARENA_CODE].address +
                              build->stub_start + (uint64_t)symbol->stub * 8
                        : 0;
    bool through_stub = branch && (symbol->needs & NEEDS_STUB);
    uint64_t data = (uint64_t)(uintptr_t)build->module->blocks[ARENA_DATA].address;
    uint64_t value;
    switch (type) {
    case R_X86_64_TLSGD: value = data + symbol->pair + addend - place; break;
    case R_X86_64_TLSLD: value = data + build->base_pair + addend - place; break;
    case R_X86_64_DTPOFF32:
    case R_X86_64_DTPOFF64:
        if (!symbol->place && !thread_section(build, index)) {
            return cadre_error_set(build->error, CADRE_EFORMAT, "%s is not thread-local",
                                   cadre_object_symbol_name(&build->object, index));
        }
        value = thread_offset(build, index) + addend;
        break;
    case R_X86_64_64:
        value = address_of(symbol) + addend;
        if (symbol->version && symbol->version->kind == VERSION_UNDEFINED &&
            add_fixup(build, symbol->version, section, place, addend) < 0)
            return CADRE_EMEMORY;
        break;
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
    case R_X86_64_PC64: value = (through_stub ? stub : address_of(symbol)) + addend - place; break;
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
    case R_X86_64_GOTPCREL64: value = slot + addend - place; break;
    case R_X86_64_GOT64: value = slot + addend - table; break;
    case R_X86_64_GOTOFF64: value = address_of(symbol) + addend - table; break;
    case R_X86_64_PLTOFF64: value = stub + addend - table; break;
    case R_X86_64_GOTPC32:
    case R_X86_64_GOTPC64: value = table + addend - place; break;
    default: value = build->object.symbols[index].st_size + addend; break; /* SIZE32, SIZE64 */
    }
    unsigned char *into = section->bytes + relocation->r_offset;
    if (cadre_relocation_width(type) == 8) {
        memcpy(into, &value, 8);
        return 0;
    }
    int32_t narrow = (int32_t)value;
    if ((uint64_t)(int64_t)narrow != value) return overflow(build, index);
    memcpy(into, &narrow, 4);
    return 0;
}

/* Does this reference let the address of code of this module escape? Jump tables do not: they
 * hold differences. */
static bool takes_code_address(const struct build *build, const struct section_state *section,
                               const Elf64_Rela *relocation, bool branch)
{
    const struct symbol_state *symbol = &build->symbols[ELF64_R_SYM(relocation->r_info)];
    size_t target = cadre_object_symbol_section(&build->object, ELF64_R_SYM(relocation->r_info));
    if (branch || !target || symbol->part == NO_PART) return false;
    if (build->sections[target].arena != ARENA_CODE) return false;
    return !(ELF64_R_TYPE(relocation->r_info) == R_X86_64_PC32 && section->arena == ARENA_CONSTANT);
}

static int relocate_section(struct build *build, size_t index)
{
    struct section_state *section = &build->sections[index];
    const struct object *object = &build->object;
    const Elf64_Shdr *header = &object->sections[section->relocations];
    const Elf64_Rela *relocation = (const Elf64_Rela *)(object->bytes + header->sh_offset);
    const unsigned char *content = object->bytes + object->sections[index].sh_offset;
    for (size_t k = 0; k < header->sh_size / sizeof *relocation; k++) {
        if (ELF64_R_TYPE(relocation[k].r_info) == R_X86_64_NONE) continue;
        bool branch = cadre_build_is_branch(build, section, &relocation[k], content);
        int status = apply(build, section, &relocation[k], branch);
        if (status < 0) return status;
        if (section->is_frames) continue;
        status = record(build, section, &relocation[k], branch);
        if (status < 0) return status;
        if (takes_code_address(build, section, &relocation[k], branch))
            build->module->code_taken = true;
    }
    return 0;
}

static void write_stub(struct build *build, uint32_t index, const struct slot *slot)
{
    size_t offset = build->stub_start + (size_t)index * 8;
    unsigned char *code = build->staging[ARENA_CODE] + offset;
    uint64_t next = (uint64_t)(uintptr_t)build->module->blocks[ARENA_CODE].address + offset + 6;
    int32_t distance = (int32_t)((uint64_t)(uintptr_t)&slot->call - next);
    code[0] = 0xff; /* jmp *call(%rip) */
    code[1] = 0x25;
    memcpy(code + 2, &distance, 4);
}

static void write_stubs(struct build *build)
{
    for (size_t i = 1; i < build->object.symbol_count; i++) {
        const struct symbol_state *symbol = &build->symbols[i];
        if (symbol->needs & NEEDS_STUB) write_stub(build, symbol->stub, symbol->slot);
        if (symbol->chosen_slot) write_stub(build, symbol->resolver_stub, symbol->chosen_slot);
    }
}

int cadre_build_relocate(struct build *build)
{
    if (build->stub_count) write_stubs(build);
    for (size_t i = 1; i < build->object.section_count; i++) {
        const struct section_state *section = &build->sections[i];
        if (!section->loaded) continue;
        if (section->part != NO_PART) {
            build->module->parts[section->part].first_reference = (uint32_t)build->reference_count;
        }
        if (!section->relocations) continue;
        int status = relocate_section(build, i);
        if (status < 0) return status;
    }
    build->module->parts[build->module->part_count].first_reference =
        (uint32_t)build->reference_count;
    return 0;
}
