/* What %store makes cells call (kernel/cell/magics_store.c): values to files and back. */
#include "cell/stored.h"
#include "host/inside.h"

#include <stdlib.h>
#include <string.h>

static void leave(const cadre_error *error)
{
    run_end_from_anywhere(LEAVE_ERROR, 0, error->message);
}

static void hook_store(const char *name, const char *declaration, const char *layout,
                       const volatile void *at, unsigned long size)
{
    cadre_error error = {0};
    const cell_stored value = {.name = (char *)name,
                               .declaration = (char *)declaration,
                               .layout = (char *)layout,
                               .bytes = (unsigned char *)(uintptr_t)at,
                               .size = size};
    if (cell_stored_write(&value, &error) < 0)
        leave(&error);
    else
        fprintf(stdout, "Stored %s (%lu bytes)\n", declaration, size);
}

static void hook_restore(const char *name, const char *layout, volatile void *at,
                         unsigned long size)
{
    cadre_error error = {0};
    cell_stored value;
    /* The file may be another one than the magic saw. */
    if (cell_stored_read(name, &value, &error) == CADRE_OK &&
        (value.size != size || strcmp(value.layout, layout) != 0))
        cadre_error_set(&error, CADRE_EINPUT, "%%store: %s was stored as `%s`, of another size",
                        name, value.declaration);
    if (error.code == 0) memcpy((void *)(uintptr_t)at, value.bytes, size);
    cell_stored_free(&value);
    if (error.code) leave(&error);
}

static void hook_unstore(const char *name)
{
    cadre_error error = {0};
    if (cell_stored_remove(name, &error) < 0) leave(&error);
}

static void hook_stored(void)
{
    char **names = cell_stored_names();
    if (!names || !names[0]) fputs("nothing is stored\n", stdout);
    for (size_t i = 0; names && names[i]; i++) {
        cadre_error error = {0};
        cell_stored value;
        if (cell_stored_read(names[i], &value, &error) == CADRE_OK)
            fprintf(stdout, "%-40s %10zu bytes   %s\n", value.declaration, value.size, value.date);
        else
            fprintf(stdout, "%s\n", error.message);
        cell_stored_free(&value);
        free(names[i]);
    }
    free(names);
}

void hooks_store_install(void)
{
    host_override("cadre_hook_store", (void *)hook_store);
    host_override("cadre_hook_restore", (void *)hook_restore);
    host_override("cadre_hook_unstore", (void *)hook_unstore);
    host_override("cadre_hook_stored", (void *)hook_stored);
}
