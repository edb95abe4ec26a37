/* The state of one cadre_loader_add. Private to load_add.c and the files it calls. */
#ifndef CADRE_CELL_LOAD_BUILD_H
#define CADRE_CELL_LOAD_BUILD_H

#include "cell/load_internal.h"

#define NO_PART UINT32_MAX

struct section_state {
    bool loaded, is_frames, may_escape;
    bool is_thread_local;
    size_t thread_offset; /* in the module's thread block */
    uint8_t arena;
    struct block *large; /* a big .bss of its own */
    uint32_t part;
    size_t relocations;   /* index of its SHT_RELA section, 0: none */
    size_t offset;        /* in the block */
    unsigned char *bytes; /* where its content is prepared */
    uint64_t address;     /* where it will be */
};

enum { NEEDS_VERSION = 1, NEEDS_SLOT = 2, NEEDS_STUB = 4, NEEDS_PAIR = 8 };

struct symbol_state {
    uint8_t needs;
    bool hidden_weak; /* defined here, but another cell's strong definition counts */
    uint32_t version_index;
    uint32_t part;
    uint32_t stub;              /* offset in the code block */
    uint64_t address;           /* of its definition in this module */
    uint32_t resolver_stub;     /* ifunc: the stub that stands for the function */
    uint64_t resolver;          /*   the function that chooses */
    struct slot *chosen_slot;   /* and where its choice is kept */
    size_t pair;                /* offset in the data block of its struct thread_pair */
    struct thread_place *place; /* thread-local and defined here */
    struct version *version;
    struct slot *slot;
};

struct build {
    cadre_loader *loader;
    cadre_module *module;
    struct object object;
    struct section_state *sections;
    struct symbol_state *symbols;
    const char *const *fresh;
    size_t fresh_count;
    unsigned char *staging[ARENA_DATA]; /* code and constants; data is prepared in place */
    size_t sizes[ARENA_COUNT], alignments[ARENA_COUNT];
    size_t stub_count, stub_start, escaping_size;
    /* Thread-local variables: image and places in the data block, layout of a thread's copy. */
    size_t image_start, image_size, thread_size, thread_alignment;
    size_t place_start, place_count, places_used, pair_start, pair_count, pairs_used, base_pair;
    bool needs_base_pair;
    uint32_t *references;
    size_t reference_count, reference_capacity;
    cadre_error *error;
};

static inline unsigned cadre_symbol_type(const Elf64_Sym *symbol)
{
    return ELF64_ST_TYPE(symbol->st_info);
}

static inline bool cadre_symbol_is_global(const Elf64_Sym *symbol)
{
    return ELF64_ST_BIND(symbol->st_info) != STB_LOCAL;
}

/* load_layout.c: where everything goes; allocates and copies the contents. */
int cadre_build_classify(struct build *build);
int cadre_build_lay_out(struct build *build);
/* load_bind.c: the definitions and imports of the object meet the names of the session. */
int cadre_build_bind(struct build *build);
/* load_keep.c: what outlives the object: functions, constructors, checks of unwind tables. */
int cadre_build_keep(struct build *build, const char *label);
/* load_symfile.c: the module's symfile; without memory there is none. */
void cadre_build_symfile(struct build *build);
int cadre_build_no_memory(const struct build *build);

/* Is the relocated field the target of a call or jump? */
bool cadre_build_is_branch(const struct build *build, const struct section_state *section,
                           const Elf64_Rela *relocation, const unsigned char *content);
/* Which slots and stubs are needed; refuses what cannot be loaded. */
int cadre_build_scan(struct build *build);
/* Applies all relocations and records the graph of references. */
int cadre_build_relocate(struct build *build);

#endif
