/* Announcing loaded code to the unwinder. */
#include "cell/load_internal.h"

void __register_frame(void *begin);
void __deregister_frame(void *begin);

void cadre_debug_announce(cadre_module *module)
{
    if (module->announced) return;
    module->announced = true;
    for (size_t i = 0; i < module->frame_count; i++)
        __register_frame(module->frames[i]);
}

void cadre_debug_withdraw(cadre_module *module)
{
    if (!module->announced) return;
    module->announced = false;
    for (size_t i = 0; i < module->frame_count; i++)
        __deregister_frame(module->frames[i]);
}
