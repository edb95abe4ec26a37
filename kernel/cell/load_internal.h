/* What the files of the loader share. Private to kernel/cell/load*.c. */
#ifndef CADRE_CELL_LOAD_INTERNAL_H
#define CADRE_CELL_LOAD_INTERNAL_H

#include "cell/load.h"

#include <elf.h>

/* ---- load_arena.c: memory ---- */

/* A free piece of an arena; the array is sorted by start and neighbours are always joined. */
struct range {
    size_t start, size;
};

/* One of the three arenas: a part of the reservation that grows by chunks. Code and constants
 * are never mapped writable: see cadre_arena_write. All of it is private anonymous memory, so a
 * fork copies it like any other, and it is a handful of mappings however many cells there are. */
struct arena {
    unsigned char *base;
    size_t limit; /* bytes reserved */
    size_t ready; /* bytes with their protection set */
    size_t top;   /* bytes ever handed out */
    int protection;
    struct range *free_ranges;
    size_t free_count, free_capacity;
};

/* A piece of memory that a module owns. */
struct block {
    struct arena *arena; /* NULL: a mapping of its own */
    unsigned char *address;
    size_t size;
};

enum { ARENA_CODE, ARENA_CONSTANT, ARENA_DATA, ARENA_COUNT };

/* What loaded code reads an address from. Cells call through `call` and read `address`. Both
 * words lie in one table that only the loader writes, plus, in `call`, the diverting signal
 * handler; each is written by one aligned store, so running code sees the old or the new one. */
struct slot {
    void *address;
    void *call;
};

int cadre_arena_reserve(cadre_loader *loader, cadre_error *error);
void cadre_arena_unreserve(cadre_loader *loader);
/* alignment: a power of two up to ARENA_ALIGNMENT. Contents are undefined. */
#define ARENA_ALIGNMENT ((size_t)1 << 21)
int cadre_arena_allocate(struct arena *arena, size_t size, size_t alignment, struct block *block,
                         cadre_error *error);
/* Zeroed memory of at least a megabyte, page by page on first use. */
int cadre_arena_allocate_large(struct arena *arena, size_t size, size_t alignment,
                               struct block *block, cadre_error *error);
void cadre_arena_release(struct block *block);
/* Writes into any arena, whatever its protection. */
int cadre_arena_write(struct arena *arena, void *address, const void *bytes, size_t length,
                      cadre_error *error);
struct slot *cadre_slot_new(cadre_loader *loader, cadre_error *error);
void cadre_slot_free(cadre_loader *loader, struct slot *slot);

/* ---- load_object.c: the object as a checked view ---- */

struct object {
    const unsigned char *bytes;
    size_t length;
    const Elf64_Shdr *sections;
    size_t section_count;
    const char *section_names;
    size_t section_names_size;
    const Elf64_Sym *symbols;
    size_t symbol_count;
    const char *names;
    size_t names_size;
    const Elf32_Word *extended; /* SHT_SYMTAB_SHNDX or NULL */
};

/* Checks every header field that the loader reads later; after it returned 0, section and symbol
 * indices, names, offsets and the places of relocations can be trusted. */
int cadre_object_open(struct object *object, const void *bytes, size_t length, cadre_error *error);
const char *cadre_object_section_name(const struct object *object, size_t section);
static inline const char *cadre_object_symbol_name(const struct object *object, size_t symbol)
{
    return object->names + object->symbols[symbol].st_name;
}
/* Index of the section that defines a symbol; 0 when undefined, absolute or common. */
size_t cadre_object_symbol_section(const struct object *object, size_t symbol);
/* Bytes that a relocation of this type changes; 0: not a type that the loader applies. */
size_t cadre_relocation_width(uint32_t type);
/* Is `.eh_frame` content something the unwinder can walk? */
bool cadre_frames_valid(const unsigned char *bytes, size_t size);

/* ---- load_names.c: names, their versions and slots ---- */

enum version_kind {
    VERSION_UNDEFINED, /* declared by some cell, defined by nobody */
    VERSION_LIBRARY,   /* an override, or what dlsym knows */
    VERSION_CELL,      /* defined by a module */
    VERSION_STORAGE    /* cadre_loader_define */
};

/* A place in data that holds the address of a version that was undefined when it was loaded. */
struct fixup {
    struct fixup *next;
    cadre_module *module;
    struct arena *arena;
    void *place; /* may be unaligned (packed structures) */
    uint64_t addend;
};

/* A name as one generation of callers sees it. Replaced definitions of the same type share it. */
struct version {
    struct name *name;
    struct slot *slot;
    enum version_kind kind;
    bool imported;        /* some code refers to it */
    bool thread_local;    /* then addresses are those of a struct thread_place */
    bool weak;            /* a weak definition: a later strong one replaces it, never the reverse */
    void *address;        /* of the newest definition, committed or not */
    cadre_module *module; /* VERSION_CELL: who defines it */
    uint32_t part;        /*   and in which part, see struct part */
    uint32_t references;  /* modules that import or define it, plus one for VERSION_STORAGE */
    struct fixup *fixups;
};

struct name {
    struct name *next; /* in its bucket */
    struct version *current;
    void *override;
    uint32_t hash;
    uint32_t versions; /* alive */
    char text[];
};

struct name *cadre_name_find(const cadre_loader *loader, const char *text);
struct name *cadre_name_intern(cadre_loader *loader, const char *text);
/* Frees the name when nothing needs it any more. */
void cadre_name_release(cadre_loader *loader, struct name *name);
/* The version that a new import of `text` binds to, with a reference for the caller. */
struct version *cadre_version_import(cadre_loader *loader, const char *text, bool fresh,
                                     cadre_error *error);
struct version *cadre_version_new(cadre_loader *loader, struct name *name, cadre_error *error);
void cadre_version_release(cadre_loader *loader, struct version *version);
/* Looks an undefined version up again among overrides and libraries. */
bool cadre_version_resolve(cadre_loader *loader, struct version *version);
/* Makes the newest definition the one that running code reaches. */
void cadre_version_publish(struct version *version, void *address);
void cadre_names_free(cadre_loader *loader);
/* Helpers of the compiler that no shared library exports, and libraries that are opened when a
 * name of theirs is first needed. NULL: unknown. */
void *cadre_builtin_find(const char *name);

/* ---- load_thread.c: thread-local variables ---- */

/* The thread-local variables of a module: each thread has a copy of the image, zeros after it. */
struct thread_block {
    size_t id; /* counted from 0, never used again */
    size_t size, alignment;
    const unsigned char *image;
    size_t image_size;
};
struct thread_place {
    struct thread_block *block;
    size_t offset;
};
/* What code passes to __tls_get_addr: a name that may be redefined, or (NULL) a fixed place. */
struct thread_pair {
    struct version *version;
    const struct thread_place *place;
};
void *cadre_thread_address(const struct thread_place *place);
void *cadre_thread_get_address(const struct thread_pair *pair);

/* ---- modules ---- */

/* A loaded section: a node of the graph of references that cadre_loader_check follows. */
struct part {
    uint32_t first_reference; /* up to the next part's */
    uint32_t visited;         /* mark of the last walk */
    uint64_t complete;        /* epoch in which all it reaches was defined */
};

/* An edge: from a part to a part of the same module, or to an imported or defined version. */
#define REFERENCE_CALL 0x80000000u
#define REFERENCE_WEAK 0x40000000u
#define REFERENCE_VERSION 0x20000000u
#define REFERENCE_INDEX 0x1fffffffu

struct function {
    uint32_t offset, size; /* from the start of the code block */
    uint32_t part;
    uint32_t name; /* into the module's strings */
};

struct definition {
    struct version *version;
    void *address;
    uint32_t part;
    bool published; /* false: a weak one that a strong one of another cell hides */
};

/* What a definition replaced, for cadre_loader_discard. Kept until the commit. */
struct undo {
    struct name *name;
    struct version *current; /* of the name, before */
    struct version *version; /* that was redefined, or NULL when it was made new */
    enum version_kind kind;
    bool weak;
    void *address;
    cadre_module *module;
    uint32_t part;
};

struct initializer {
    void **place;
    size_t count;
    bool backwards; /* .ctors */
};

/* A function that is chosen when it is loaded (ifunc): its slot gets what `resolver` returns. */
struct chosen {
    struct slot *slot;
    void *(*resolver)(void);
};

struct jit_entry;

struct cadre_module {
    cadre_loader *loader;
    cadre_module *previous, *next; /* all modules, in order of loading */
    cadre_module *next_in_page;    /* modules whose code starts in the same page */
    char *label;
    char *strings;
    struct block blocks[ARENA_COUNT];
    struct block *large;
    size_t large_count;
    struct function *functions; /* sorted by offset */
    size_t function_count;
    struct definition *definitions;
    size_t definition_count;
    struct version **versions; /* one reference each */
    size_t version_count;
    struct slot **private_slots; /* of local symbols */
    size_t private_slot_count;
    struct chosen *chosen;
    size_t chosen_count;
    struct thread_block *thread_block; /* NULL: no thread-local variables */
    struct part *parts;                /* part_count + 1 */
    size_t part_count;
    uint32_t *references;
    struct initializer *initializers; /* in the order to run */
    size_t initializer_count;
    struct initializer *finalizers;
    size_t finalizer_count;
    uint32_t *root_parts; /* constructors */
    size_t root_part_count;
    void **frames; /* registered with the unwinder */
    size_t frame_count;
    struct undo *undo;
    size_t undo_count;
    size_t escaping_size; /* of the constants: what a pointer may have been taken to */
    void *library;        /* of dlopen, or NULL */
    struct jit_entry *jit;
    char *symfile; /* for the debugger, or NULL */
    size_t symfile_size;
    bool constructed, indexed, announced;
    bool code_taken; /* a function's address may have been kept somewhere */
    bool wants_executable_stack;
};

struct code_range {
    const unsigned char *start, *end;
};

struct cadre_loader {
    unsigned char *reservation;
    size_t reservation_size;
    struct arena arenas[ARENA_COUNT];
    struct slot *slots;
    size_t slot_limit, slot_ready, slot_top;
    uint32_t *free_slots;
    size_t free_slot_count, free_slot_capacity;
    struct name **buckets;
    size_t bucket_count, name_count;
    cadre_module *first, *last;
    cadre_module *pending; /* the first that is not committed */
    /* Modules whose code starts in a page of the code arena. Written by the loader with single
     * pointer stores, read by signal handlers. */
    cadre_module **pages;
    size_t page_count;
    struct code_range *library_ranges;
    size_t library_range_count, library_range_capacity;
    uint64_t epoch;      /* counts changes that can make a complete part incomplete again */
    uint32_t visit_mark; /* of the last walk */
    bool stack_is_executable;
    size_t thread_block_count;
};

/* load_module.c */
void cadre_module_free(cadre_module *module); /* memory, slots, frames; not the names */
int cadre_module_index(cadre_module *module, cadre_error *error);
void cadre_module_unindex(cadre_module *module);
void cadre_module_undo(cadre_module *module);

/* load_debug.c: telling the unwinder and the debugger of a committed module. */
void cadre_debug_announce(cadre_module *module);
void cadre_debug_withdraw(cadre_module *module);

#endif
