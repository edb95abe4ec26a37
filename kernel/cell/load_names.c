/* Names, the versions they had, and the slots through which loaded code reaches them. */
#include "cell/load_internal.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static uint32_t hash_text(const char *text)
{
    uint32_t hash = 2166136261u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

struct name *cadre_name_find(const cadre_loader *loader, const char *text)
{
    if (!loader->bucket_count) return NULL;
    uint32_t hash = hash_text(text);
    struct name *name = loader->buckets[hash & (loader->bucket_count - 1)];
    while (name && (name->hash != hash || strcmp(name->text, text) != 0))
        name = name->next;
    return name;
}

static bool grow_table(cadre_loader *loader)
{
    size_t count = loader->bucket_count ? loader->bucket_count * 2 : 256;
    struct name **buckets = calloc(count, sizeof *buckets);
    if (!buckets) return false;
    for (size_t i = 0; i < loader->bucket_count; i++) {
        for (struct name *name = loader->buckets[i], *next; name; name = next) {
            next = name->next;
            name->next = buckets[name->hash & (count - 1)];
            buckets[name->hash & (count - 1)] = name;
        }
    }
    free(loader->buckets);
    loader->buckets = buckets;
    loader->bucket_count = count;
    return true;
}

struct name *cadre_name_intern(cadre_loader *loader, const char *text)
{
    struct name *name = cadre_name_find(loader, text);
    if (name) return name;
    if (loader->name_count >= loader->bucket_count && !grow_table(loader)) return NULL;
    size_t length = strlen(text) + 1;
    name = calloc(1, sizeof *name + length);
    if (!name) return NULL;
    memcpy(name->text, text, length);
    name->hash = hash_text(text);
    name->next = loader->buckets[name->hash & (loader->bucket_count - 1)];
    loader->buckets[name->hash & (loader->bucket_count - 1)] = name;
    loader->name_count++;
    return name;
}

void cadre_name_release(cadre_loader *loader, struct name *name)
{
    if (name->versions || name->override) return;
    struct name **link = &loader->buckets[name->hash & (loader->bucket_count - 1)];
    while (*link != name)
        link = &(*link)->next;
    *link = name->next;
    loader->name_count--;
    free(name);
}

struct version *cadre_version_new(cadre_loader *loader, struct name *name, cadre_error *error)
{
    struct version *version = calloc(1, sizeof *version);
    struct slot *slot = version ? cadre_slot_new(loader, error) : NULL;
    if (!slot) {
        free(version);
        cadre_error_set(error, CADRE_EMEMORY, "no memory for the name %s", name->text);
        return NULL;
    }
    version->name = name;
    version->slot = slot;
    name->versions++;
    return version;
}

void cadre_version_release(cadre_loader *loader, struct version *version)
{
    if (--version->references) return;
    struct name *name = version->name;
    if (name->current == version) name->current = NULL;
    cadre_slot_free(loader, version->slot);
    free(version);
    name->versions--;
    cadre_name_release(loader, name);
}

static void *find_outside(const struct name *name)
{
    /* The system's knows only libraries. */
    if (!strcmp(name->text, "__tls_get_addr")) return (void *)cadre_thread_get_address;
    if (name->override) return name->override;
    void *address = dlsym(RTLD_DEFAULT, name->text);
    return address ? address : cadre_builtin_find(name->text);
}

bool cadre_version_resolve(cadre_loader *loader, struct version *version)
{
    (void)loader;
    if (version->kind != VERSION_UNDEFINED) return true;
    void *address = find_outside(version->name);
    if (!address) return false;
    version->kind = VERSION_LIBRARY;
    version->address = address;
    cadre_version_publish(version, address);
    return true;
}

void cadre_version_publish(struct version *version, void *address)
{
    __atomic_store_n(&version->slot->address, address, __ATOMIC_RELEASE);
    __atomic_store_n(&version->slot->call, address, __ATOMIC_RELEASE);
    while (version->fixups) {
        struct fixup *fixup = version->fixups;
        version->fixups = fixup->next;
        uint64_t value = (uint64_t)(uintptr_t)address + fixup->addend, now;
        memcpy(&now, fixup->place, sizeof now);
        /* A cell may have stored something else there in the meantime. */
        if (now == fixup->addend) {
            cadre_arena_write(fixup->arena, fixup->place, &value, sizeof value, NULL);
        }
        free(fixup);
    }
}

struct version *cadre_version_import(cadre_loader *loader, const char *text, bool fresh,
                                     cadre_error *error)
{
    struct name *name = cadre_name_intern(loader, text);
    if (!name) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory for the name %s", text);
        return NULL;
    }
    if (!name->current || fresh) {
        struct version *version = cadre_version_new(loader, name, error);
        if (!version) {
            cadre_name_release(loader, name);
            return NULL;
        }
        name->current = version;
        if (!fresh) cadre_version_resolve(loader, version);
    } else if (name->current->kind == VERSION_UNDEFINED) {
        cadre_version_resolve(loader, name->current);
    }
    name->current->references++;
    return name->current;
}

int cadre_loader_override(cadre_loader *loader, const char *text, void *address)
{
    struct name *name = cadre_name_intern(loader, text);
    if (!name) return CADRE_EMEMORY;
    name->override = address;
    struct version *version = name->current;
    if (version && (version->kind == VERSION_LIBRARY || version->kind == VERSION_UNDEFINED)) {
        version->kind = VERSION_LIBRARY;
        version->address = address;
        cadre_version_publish(version, address);
    }
    return 0;
}

void *cadre_loader_symbol(cadre_loader *loader, const char *text)
{
    struct name *name = cadre_name_find(loader, text);
    struct version *version = name ? name->current : NULL;
    if (!version || (version->kind != VERSION_CELL && version->kind != VERSION_STORAGE))
        return NULL;
    return version->thread_local ? cadre_thread_address(version->address) : version->address;
}

int cadre_loader_define(cadre_loader *loader, const char *text, void *address, bool fresh)
{
    struct name *name = cadre_name_intern(loader, text);
    if (!name) return CADRE_EMEMORY;
    struct version *version = name->current, *replaced = NULL;
    if (!version || version->thread_local || (fresh && version->kind != VERSION_UNDEFINED)) {
        replaced = version && version->kind == VERSION_STORAGE ? version : NULL;
        version = cadre_version_new(loader, name, NULL);
        if (!version) {
            cadre_name_release(loader, name);
            return CADRE_EMEMORY;
        }
        name->current = version;
    }
    if (version->kind == VERSION_CELL) loader->epoch++;
    if (version->kind != VERSION_STORAGE) version->references++;
    version->kind = VERSION_STORAGE;
    version->weak = false;
    version->address = address;
    version->module = NULL;
    cadre_version_publish(version, address);
    if (replaced) cadre_version_release(loader, replaced);
    return 0;
}

void cadre_names_free(cadre_loader *loader)
{
    for (size_t i = 0; i < loader->bucket_count; i++) {
        for (struct name *name = loader->buckets[i], *next; name; name = next) {
            next = name->next;
            /* Modules are gone: what is left are versions made by cadre_loader_define. */
            free(name->current);
            free(name);
        }
    }
    free(loader->buckets);
    loader->buckets = NULL;
    loader->bucket_count = 0;
}
