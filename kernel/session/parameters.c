#include "session/parameters.h"

#include "wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SPEC_LIMIT = 1 << 20 };

/* The file's JSON, new; NULL: none, with *problem when it is there and cannot be used. */
static json_t *read_file(const char *path, char **problem)
{
    struct stat info;
    cadre_buffer text = {0};
    cadre_error error = {0};
    json_t *value = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return NULL;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size <= SPEC_LIMIT) {
        char piece[8192];
        ssize_t got;
        while ((got = read(fd, piece, sizeof piece)) > 0 && text.length <= SPEC_LIMIT)
            cadre_buffer_append(&text, piece, (size_t)got);
        if (!text.failed && text.length) value = cadre_json_parse(text.data, text.length, &error);
        if (!value && asprintf(problem, "%s: %s", path, error.message) < 0) *problem = NULL;
    }
    close(fd);
    cadre_buffer_free(&text);
    return value;
}

static void read_kernelspec(parameters *self, const char *folder)
{
    cadre_buffer path = {0};
    cadre_buffer_printf(&path, "%s/kernel.json", folder);
    json_t *file = path.failed ? NULL : read_file(path.data, &self->problem);
    json_t *values = json_object_get(json_object_get(file, "metadata"), "parameters");
    /* A JSON schema (JEP 87) under the same key describes parameters and gives no values. */
    if (json_is_object(values) && !json_is_object(json_object_get(values, "properties")))
        json_object_update(self->fixed, values);
    json_decref(file);
    cadre_buffer_free(&path);
}

int parameters_init(parameters *self, const char *kernelspec_dir, const char *environment)
{
    *self = (parameters){.fixed = json_object(),
                         .requested = json_object(),
                         .before = json_object(),
                         .inlined = json_object(),
                         .inlined_before = json_object(),
                         .applied = json_object()};
    if (!self->fixed || !self->requested || !self->before || !self->inlined ||
        !self->inlined_before || !self->applied)
        return CADRE_EMEMORY;
    if (kernelspec_dir) read_kernelspec(self, kernelspec_dir);
    if (environment && *environment) {
        cadre_error error = {0};
        json_t *values = cadre_json_parse(environment, strlen(environment), &error);
        if (json_is_object(values))
            json_object_update(self->fixed, values);
        else if (asprintf(&self->problem,
                          "CADRE_PARAMETERS in the environment is %s; it must be a JSON object "
                          "such as {\"cpu_count\": 2}",
                          values ? "not a JSON object" : error.message) < 0)
            self->problem = NULL;
        json_decref(values);
    }
    return 0;
}

void parameters_free(parameters *self)
{
    json_decref(self->fixed);
    json_decref(self->requested);
    json_decref(self->before);
    json_decref(self->inlined);
    json_decref(self->inlined_before);
    json_decref(self->applied);
    free(self->problem);
    *self = (parameters){0};
}

int parameters_request(parameters *self, const json_t *metadata, cadre_error *error)
{
    json_t *values = json_object_get(json_object_get(metadata, "cadre"), "parameters");
    json_object_clear(self->before);
    json_object_update(self->before, self->requested);
    if (!values) return 0;
    if (!json_is_object(values))
        return cadre_error_set(error, CADRE_EINPUT,
                               "metadata.cadre.parameters must be an object of names and values, "
                               "such as {\"cpu_count\": 2}");
    json_object_update(self->requested, values);
    return 0;
}

void parameters_refuse(parameters *self)
{
    json_object_clear(self->requested);
    json_object_update(self->requested, self->before);
    json_object_clear(self->inlined);
    json_object_update(self->inlined, self->inlined_before);
}

json_t *parameters_merged(const parameters *self)
{
    json_t *merged = json_copy(self->fixed);
    if (merged) json_object_update(merged, self->requested);
    if (merged) json_object_update(merged, self->inlined);
    return merged;
}

json_t *parameters_channels(const parameters *self)
{
    const json_t *channels[] = {self->fixed, self->requested, self->inlined};
    static const char *const texts[] = {"kernelspec or CADRE_PARAMETERS", "metadata",
                                        "%parameters"};
    json_t *all = json_object(), *value;
    const char *name;
    for (size_t i = 0; i < 3; i++)
        json_object_foreach((json_t *)channels[i], name, value)
            json_object_set_new(all, name, json_string(texts[i]));
    return all;
}

json_t *parameters_unchanged(const parameters *self, const json_t *merged)
{
    json_t *unchanged = json_object(), *value;
    const char *name;
    json_object_foreach((json_t *)merged, name, value)
    {
        const json_t *applied = json_array_get(json_object_get(self->applied, name), 0);
        if (applied && json_equal(applied, value))
            json_object_set_new(unchanged, name, json_true());
    }
    return unchanged;
}

void parameters_used(parameters *self, const json_t *merged, const json_t *used,
                     uint64_t generation)
{
    const char *name;
    json_t *flag;
    json_object_foreach((json_t *)used, name, flag)
    {
        json_t *value = json_object_get(merged, name);
        if (value)
            json_object_set_new(self->applied, name,
                                json_pack("[OI]", value, (json_int_t)generation));
    }
}

void parameters_rewind(parameters *self, uint64_t generation)
{
    const char *name;
    json_t *applied;
    void *next;
    json_object_foreach_safe(self->applied, next, name, applied)
    {
        if ((uint64_t)json_integer_value(json_array_get(applied, 1)) > generation)
            json_object_del(self->applied, name);
    }
}

int parameters_check_cpus(const json_t *merged, const json_t *used, int vcpus, cadre_error *error)
{
    const json_t *count = json_object_get(merged, "cpu_count");
    if (!json_object_get(used, "cpu_count") || !json_is_integer(count)) return 0;
    long long wanted = json_integer_value(count);
    if (wanted > vcpus)
        return cadre_error_set(error, CADRE_EINPUT,
                               "cpu_count is %lld and this kernel has %d vCPU%s", wanted, vcpus,
                               vcpus == 1 ? "" : "s");
    if (wanted < 1)
        return cadre_error_set(error, CADRE_EINPUT,
                               "cpu_count is %lld and must be at least 1 (this kernel has %d "
                               "vCPU%s)",
                               wanted, vcpus, vcpus == 1 ? "" : "s");
    return 0;
}
