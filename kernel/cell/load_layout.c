/* Sections of an object: which are loaded, and where to. */
#include "cell/load_build.h"

#include <stdlib.h>
#include <string.h>

#define LARGE ((size_t)1 << 20)

static bool has_prefix(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
}

static size_t round_up(size_t value, size_t to)
{
    return (value + to - 1) & ~(to - 1);
}

int cadre_build_classify(struct build *build)
{
    const struct object *object = &build->object;
    for (size_t i = 1; i < object->section_count; i++) {
        const Elf64_Shdr *header = &object->sections[i];
        struct section_state *section = &build->sections[i];
        section->part = NO_PART;
        if (header->sh_type == SHT_RELA || header->sh_type == SHT_REL) {
            struct section_state *target = &build->sections[header->sh_info];
            if (target->relocations && (object->sections[header->sh_info].sh_flags & SHF_ALLOC)) {
                return cadre_error_set(build->error, CADRE_EFORMAT,
                                       "the object relocates a section twice");
            }
            target->relocations = i;
        }
        if (!(header->sh_flags & SHF_ALLOC) || header->sh_type == SHT_NOTE ||
            header->sh_type == SHT_NULL)
            continue;
        const char *name = cadre_object_section_name(object, i);
        section->loaded = true;
        section->is_thread_local = header->sh_flags & SHF_TLS;
        section->is_frames = !strcmp(name, ".eh_frame");
        section->arena = section->is_thread_local           ? ARENA_DATA
                         : header->sh_flags & SHF_EXECINSTR ? ARENA_CODE
                         : (header->sh_flags & SHF_WRITE) && !has_prefix(name, ".data.rel.ro")
                             ? ARENA_DATA
                             : ARENA_CONSTANT;
        /* Numbers that code loads, as opposed to what it may take the address of. */
        section->may_escape =
            section->arena == ARENA_CONSTANT && !section->is_frames &&
            !((header->sh_flags & SHF_MERGE) && !(header->sh_flags & SHF_STRINGS));
        if (!section->is_frames) section->part = (uint32_t)build->module->part_count++;
        if ((header->sh_flags & SHF_EXECINSTR) && (header->sh_flags & (SHF_WRITE | SHF_TLS))) {
            return cadre_error_set(build->error, CADRE_EFORMAT,
                                   "section %s is writable and executable", name);
        }
        if (header->sh_type == SHT_NOBITS && section->arena != ARENA_DATA && header->sh_size) {
            return cadre_error_set(build->error, CADRE_EFORMAT, "section %s has no content", name);
        }
    }
    return 0;
}

/* Reserves room in the block of an arena. */
static size_t place(struct build *build, int arena, size_t size, size_t alignment)
{
    if (alignment < 1) alignment = 1;
    if (alignment > build->alignments[arena]) build->alignments[arena] = alignment;
    size_t offset = round_up(build->sizes[arena], alignment);
    build->sizes[arena] = offset + size;
    return offset;
}

static int place_sections(struct build *build, bool escaping)
{
    const struct object *object = &build->object;
    for (size_t i = 1; i < object->section_count; i++) {
        const Elf64_Shdr *header = &object->sections[i];
        struct section_state *section = &build->sections[i];
        if (!section->loaded || section->is_thread_local || section->may_escape != escaping)
            continue;
        if (header->sh_type == SHT_NOBITS && header->sh_size >= LARGE) {
            struct block *block = &build->module->large[build->module->large_count];
            if (cadre_arena_allocate_large(&build->loader->arenas[ARENA_DATA], header->sh_size,
                                           header->sh_addralign, block, build->error) < 0)
                return CADRE_EMEMORY;
            build->module->large_count++;
            section->large = block;
            continue;
        }
        /* The unwinder's table ends with a zero word. */
        size_t size = header->sh_size + (section->is_frames ? 4 : 0);
        section->offset = place(build, section->arena, size, header->sh_addralign);
    }
    return 0;
}

/* A thread's copy holds the initialised variables, then the zeroed ones; the former are kept as
 * an image in the data block. */
static int place_thread_local(struct build *build)
{
    const struct object *object = &build->object;
    bool any = false;
    for (int zeroed = 0; zeroed < 2; zeroed++) {
        for (size_t i = 1; i < object->section_count; i++) {
            const Elf64_Shdr *header = &object->sections[i];
            struct section_state *section = &build->sections[i];
            if (!section->loaded || !section->is_thread_local ||
                (header->sh_type == SHT_NOBITS) != zeroed)
                continue;
            any = true;
            size_t alignment = header->sh_addralign ? header->sh_addralign : 1;
            if (alignment > build->thread_alignment) build->thread_alignment = alignment;
            section->thread_offset = round_up(build->thread_size, alignment);
            build->thread_size = section->thread_offset + header->sh_size;
            if (build->thread_size > (size_t)1 << 30) {
                return cadre_error_set(build->error, CADRE_EMEMORY,
                                       "thread-local variables of more than 1 GB");
            }
        }
        if (!zeroed) build->image_size = build->thread_size;
    }
    if (any || build->needs_base_pair) {
        struct thread_block *block = calloc(1, sizeof *block);
        build->module->thread_block = block;
        if (!block) return cadre_build_no_memory(build);
        block->size = build->thread_size;
        block->alignment = build->thread_alignment;
        block->image_size = build->image_size;
        block->id = build->loader->thread_block_count++;
        build->image_start = place(build, ARENA_DATA, build->image_size, build->thread_alignment);
        for (size_t i = 1; i < object->section_count; i++) {
            struct section_state *section = &build->sections[i];
            if (section->is_thread_local) {
                section->offset = build->image_start;
                if (object->sections[i].sh_type != SHT_NOBITS)
                    section->offset += section->thread_offset;
            }
        }
    }
    for (size_t i = 1; i < object->symbol_count; i++) {
        if (cadre_symbol_type(&object->symbols[i]) == STT_TLS) build->place_count++;
        if (build->symbols[i].needs & NEEDS_PAIR) build->pair_count++;
    }
    if (build->needs_base_pair) {
        build->place_count++;
        build->pair_count++;
    }
    build->place_start =
        place(build, ARENA_DATA, build->place_count * sizeof(struct thread_place), 8);
    build->pair_start = place(build, ARENA_DATA, build->pair_count * sizeof(struct thread_pair), 8);
    return 0;
}

static void fill_sections(struct build *build)
{
    const struct object *object = &build->object;
    cadre_module *module = build->module;
    if (module->thread_block)
        module->thread_block->image = module->blocks[ARENA_DATA].address + build->image_start;
    for (size_t i = 1; i < object->section_count; i++) {
        struct section_state *section = &build->sections[i];
        if (!section->loaded) continue;
        unsigned char *start =
            section->large ? section->large->address : module->blocks[section->arena].address;
        /* An empty section may come before anything that takes room. */
        if (!start) start = build->loader->arenas[section->arena].base;
        section->address = (uint64_t)(uintptr_t)start + section->offset;
        section->bytes = section->arena == ARENA_DATA ? start + section->offset
                         : build->staging[section->arena]
                             ? build->staging[section->arena] + section->offset
                             : NULL;
        const Elf64_Shdr *header = &object->sections[i];
        if (header->sh_type != SHT_NOBITS && header->sh_size)
            memcpy(section->bytes, object->bytes + header->sh_offset, header->sh_size);
        if (section->is_frames && header->sh_size)
            module->frames[module->frame_count++] = (void *)(uintptr_t)section->address;
    }
}

int cadre_build_lay_out(struct build *build)
{
    cadre_module *module = build->module;
    const struct object *object = &build->object;
    size_t large = 0, frames = 0;
    for (size_t i = 1; i < object->section_count; i++) {
        const Elf64_Shdr *header = &object->sections[i];
        if (!build->sections[i].loaded) continue;
        if (header->sh_type == SHT_NOBITS && header->sh_size >= LARGE) large++;
        if (build->sections[i].is_frames) frames++;
    }
    if (large && !(module->large = calloc(large, sizeof *module->large)))
        return cadre_build_no_memory(build);
    if (frames && !(module->frames = calloc(frames, sizeof *module->frames)))
        return cadre_build_no_memory(build);
    int status = place_sections(build, true);
    build->escaping_size = build->sizes[ARENA_CONSTANT];
    if (status == 0) status = place_sections(build, false);
    if (status == 0) status = place_thread_local(build);
    if (status < 0) return status;
    for (size_t i = 1; i < object->symbol_count; i++) {
        const Elf64_Sym *symbol = &object->symbols[i];
        if (symbol->st_shndx != SHN_COMMON) continue;
        build->symbols[i].address = place(build, ARENA_DATA, symbol->st_size, symbol->st_value);
    }
    if (build->stub_count) build->stub_start = place(build, ARENA_CODE, build->stub_count * 8, 8);
    for (int i = 0; i < ARENA_COUNT; i++) {
        if (!build->sizes[i]) continue;
        /* Parts that are trimmed later are whole allocation units. */
        if (cadre_arena_allocate(&build->loader->arenas[i], build->sizes[i], build->alignments[i],
                                 &module->blocks[i], build->error) < 0)
            return CADRE_EMEMORY;
        if (i == ARENA_DATA) {
            memset(module->blocks[i].address, 0, module->blocks[i].size);
            continue;
        }
        build->staging[i] = malloc(module->blocks[i].size);
        if (!build->staging[i]) return cadre_build_no_memory(build);
        memset(build->staging[i], i == ARENA_CODE ? 0xcc : 0, module->blocks[i].size);
    }
    fill_sections(build);
    return 0;
}
