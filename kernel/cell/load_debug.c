/* Announcing loaded code to the unwinder and to debuggers. */
#include "cell/load_internal.h"

#include <stdlib.h>

void __register_frame(void *begin);
void __deregister_frame(void *begin);

/* The interface between just-in-time compilers and gdb (gdb manual, "JIT Compilation Interface"):
 * names, layout and values are fixed. */
enum { JIT_NOACTION, JIT_REGISTER, JIT_UNREGISTER };

struct jit_entry {
    struct jit_entry *next, *previous;
    const char *symfile;
    uint64_t symfile_size;
};

struct jit_descriptor {
    uint32_t version, action;
    struct jit_entry *relevant, *first;
};

CADRE_API struct jit_descriptor __jit_debug_descriptor = {1, JIT_NOACTION, NULL, NULL};
CADRE_API void __jit_debug_register_code(void);

/* Empty: the debugger has a breakpoint here and reads the descriptor. */
__attribute__((noinline)) void __jit_debug_register_code(void)
{
    __asm__ volatile("" ::: "memory");
}

static void notify(struct jit_entry *entry, uint32_t action)
{
    __jit_debug_descriptor.relevant = entry;
    __jit_debug_descriptor.action = action;
    __jit_debug_register_code();
    __jit_debug_descriptor.action = JIT_NOACTION;
    __jit_debug_descriptor.relevant = NULL;
}

void cadre_debug_announce(cadre_module *module)
{
    if (module->announced) return;
    module->announced = true;
    for (size_t i = 0; i < module->frame_count; i++)
        __register_frame(module->frames[i]);
    struct jit_entry *entry = module->symfile ? malloc(sizeof *entry) : NULL;
    if (!entry) return;
    *entry = (struct jit_entry){.next = __jit_debug_descriptor.first,
                                .symfile = module->symfile,
                                .symfile_size = module->symfile_size};
    if (entry->next) entry->next->previous = entry;
    __jit_debug_descriptor.first = entry;
    module->jit = entry;
    notify(entry, JIT_REGISTER);
}

void cadre_debug_withdraw(cadre_module *module)
{
    struct jit_entry *entry = module->jit;
    if (entry) {
        if (entry->previous)
            entry->previous->next = entry->next;
        else
            __jit_debug_descriptor.first = entry->next;
        if (entry->next) entry->next->previous = entry->previous;
        notify(entry, JIT_UNREGISTER);
        free(entry);
        module->jit = NULL;
    }
    free(module->symfile);
    module->symfile = NULL;
    if (!module->announced) return;
    module->announced = false;
    for (size_t i = 0; i < module->frame_count; i++)
        __deregister_frame(module->frames[i]);
}
