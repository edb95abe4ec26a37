/* What the translator makes compiled cells call. */
#include "host/inside.h"

#include <stdlib.h>
#include <string.h>

static void hook_value(const void *value, unsigned long size, char *(*bundle)(const void *))
{
    if (cell_host.is_child || !on_main_thread()) return;
    /* calloc: a reader that trusts the type more than the size meets zeros. */
    void *copy = calloc(1, size + 16);
    if (!copy) return;
    memcpy(copy, value, size);
    free(cell_host.value);
    cell_host.value = copy;

    char *json = NULL;
    if (bundle && size == sizeof(void *)) {
        const void *object;
        memcpy(&object, value, sizeof object);
        if (object) json = bundle(object);
    }
    cadre_buffer payload = {0};
    cadre_field_text(&payload, json);
    int64_t numbers[2] = {(int64_t)(uintptr_t)copy, (int64_t)size};
    host_send(MESSAGE_VALUE, numbers, 2, &payload);
    cadre_buffer_free(&payload);
    free(json);
}

static void *hook_array(const char *name, int fresh, unsigned long element_size,
                        unsigned long dimension_count, const unsigned long *dimensions)
{
    enum { DIMENSIONS_MAX = 8 };
    char text[200];
    size_t bytes = element_size;
    bool fits = dimension_count <= DIMENSIONS_MAX;
    for (size_t i = 0; fits && i < dimension_count; i++)
        fits = !__builtin_mul_overflow(bytes, dimensions[i], &bytes) && bytes <= PTRDIFF_MAX;
    void *storage = fits ? calloc(1, bytes ? bytes : 1) : NULL;
    if (!storage || cadre_loader_define(cell_host.loader, name, storage, fresh) < 0) {
        free(storage);
        if (fits)
            snprintf(text, sizeof text, "array %.100s: no memory for %zu bytes", name, bytes);
        else
            snprintf(text, sizeof text,
                     "array %.100s: its bounds are negative, too large or more than %d", name,
                     DIMENSIONS_MAX);
        run_end_from_anywhere(LEAVE_ERROR, 0, text);
    }
    cadre_buffer payload = {0};
    cadre_field_text(&payload, name);
    cadre_field_number(&payload, dimension_count);
    for (size_t i = 0; i < dimension_count; i++)
        cadre_field_number(&payload, dimensions[i]);
    host_send(MESSAGE_ARRAY, NULL, 0, &payload);
    cadre_buffer_free(&payload);
    return storage;
}

static void hook_main(int status)
{
    cell_host.main_returned = true;
    cell_host.main_status = status;
}

void hooks_install(void)
{
    host_override("cadre_hook_value", (void *)hook_value);
    host_override("cadre_hook_array", (void *)hook_array);
    host_override("cadre_hook_main", (void *)hook_main);
    hooks_magics_install();
    hooks_store_install();
}

void hooks_start_cell(void)
{
    free(cell_host.value);
    cell_host.value = NULL;
    hooks_magics_start_cell();
}
