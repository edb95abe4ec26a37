#include "notebook/document.h"
#include "kernel/wire/wire.h"
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const size_t LARGEST_NOTEBOOK = (size_t)1 << 30;

static char *read_whole(const char *path, size_t *length, cadre_error *error)
{
    struct stat info;
    char *text = NULL;
    FILE *file = fopen(path, "rbe");
    if (!file || fstat(fileno(file), &info) < 0) {
        cadre_error_set_at(error, CADRE_EFILE, path, 0, 0, "%s", strerror(errno));
        goto done;
    }
    if (!S_ISREG(info.st_mode) || (size_t)info.st_size > LARGEST_NOTEBOOK) {
        cadre_error_set_at(error, CADRE_EFILE, path, 0, 0, "%s",
                           S_ISREG(info.st_mode) ? "too large for a notebook" : "not a file");
        goto done;
    }
    *length = (size_t)info.st_size;
    text = malloc(*length + 1);
    if (!text) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory for %s", path);
        goto done;
    }
    *length = fread(text, 1, *length, file);
    text[*length] = 0;
done:
    if (file) fclose(file);
    return text;
}

static json_t *parse(const char *path, cadre_error *error)
{
    size_t length = 0;
    char *text = read_whole(path, &length, error);
    if (!text) return NULL;
    json_error_t where;
    json_t *root = json_loadb(text, length, 0, &where);
    /* Numbers that jansson cannot hold are legal JSON; somebody's metadata must not cost a run. */
    if (!root && json_error_code(&where) == json_error_numeric_overflow)
        root = cadre_json_parse(text, length, NULL);
    if (!root)
        cadre_error_set_at(error, CADRE_EFORMAT, path, where.line > 0 ? where.line : 1,
                           where.column > 0 ? where.column : 1, "not JSON: %s", where.text);
    free(text);
    return root;
}

static bool id_is_good(const char *id)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    size_t length = id ? strlen(id) : 0;
    return length >= 1 && length <= 64 && strspn(id, allowed) == length;
}

/* Ids are kept when they are good and not used before; nbformat 4.5 wants them unique. */
static void give_id(json_t *cell, json_t *seen)
{
    const char *id = json_string_value(json_object_get(cell, "id"));
    if (!id_is_good(id) || json_object_get(seen, id)) {
        char uuid[CADRE_UUID_SIZE];
        cadre_uuid(uuid);
        json_object_set_new(cell, "id", json_string(uuid));
        id = json_string_value(json_object_get(cell, "id"));
    }
    if (id) json_object_set_new(seen, id, json_true());
}

static int check_cell(json_t *cell, size_t number, const char *path, cadre_error *error)
{
    const char *type = json_string_value(json_object_get(cell, "cell_type"));
    if (!type || (strcmp(type, "code") && strcmp(type, "markdown") && strcmp(type, "raw")))
        return cadre_error_set_at(error, CADRE_EFORMAT, path, 0, 0,
                                  "cell %zu is no code, markdown or raw cell", number);
    const json_t *source = json_object_get(cell, "source");
    bool good = json_is_string(source) || json_is_array(source);
    for (size_t i = 0; good && i < json_array_size(source); i++)
        good = json_is_string(json_array_get(source, i));
    if (!good)
        return cadre_error_set_at(error, CADRE_EFORMAT, path, 0, 0, "cell %zu has no source",
                                  number);
    if (!json_is_object(json_object_get(cell, "metadata")))
        json_object_set_new(cell, "metadata", json_object());
    if (strcmp(type, "code") == 0) {
        json_object_set_new(cell, "outputs", json_array());
        json_object_set_new(cell, "execution_count", json_null());
        json_object_del(json_object_get(cell, "metadata"), "execution");
    }
    return CADRE_OK;
}

static int check_document(json_t *document, const char *path, cadre_error *error)
{
    enum { MINOR = 5 };
    const json_t *major = json_object_get(document, "nbformat");
    json_t *cells = json_object_get(document, "cells");
    if (!json_is_integer(major))
        return cadre_error_set_at(error, CADRE_EFORMAT, path, 0, 0,
                                  "not a notebook: it has no number nbformat");
    if (json_integer_value(major) != 4)
        return cadre_error_set_at(error, CADRE_EFORMAT, path, 0, 0,
                                  "nbformat %lld; only nbformat 4 can be run (jupyter nbconvert "
                                  "--to notebook converts older ones)",
                                  (long long)json_integer_value(major));
    if (!json_is_array(cells))
        return cadre_error_set_at(error, CADRE_EFORMAT, path, 0, 0, "the notebook has no cells");
    if (!json_is_object(json_object_get(document, "metadata")))
        json_object_set_new(document, "metadata", json_object());
    if (json_integer_value(json_object_get(document, "nbformat_minor")) < MINOR)
        json_object_set_new(document, "nbformat_minor", json_integer(MINOR));

    json_t *seen = json_object();
    int status = CADRE_OK;
    for (size_t i = 0; i < json_array_size(cells) && status == CADRE_OK; i++) {
        json_t *cell = json_array_get(cells, i);
        status = check_cell(cell, i + 1, path, error);
        if (status == CADRE_OK) give_id(cell, seen);
    }
    json_decref(seen);
    return status;
}

json_t *cadre_document_read(const char *path, cadre_error *error)
{
    json_t *document = parse(path, error);
    if (document && check_document(document, path, error) < 0) {
        json_decref(document);
        document = NULL;
    }
    return document;
}

int cadre_document_write(const json_t *document, const char *path, cadre_error *error)
{
    char *text = json_dumps(document, JSON_INDENT(1) | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    if (!text) return cadre_error_set(error, CADRE_EMEMORY, "no memory to write %s", path);
    size_t length = strlen(text);
    text[length] = '\n'; /* in place of the NUL: the length is given */
    int status = cadre_write_file(path, text, length + 1, error);
    free(text);
    return status;
}

bool cadre_document_is_code(const json_t *cell)
{
    const char *type = json_string_value(json_object_get(cell, "cell_type"));
    return type && strcmp(type, "code") == 0;
}

bool cadre_document_has_tag(const json_t *cell, const char *tag)
{
    const json_t *tags = json_object_get(json_object_get(cell, "metadata"), "tags");
    for (size_t i = 0; i < json_array_size(tags); i++) {
        const char *text = json_string_value(json_array_get(tags, i));
        if (text && strcmp(text, tag) == 0) return true;
    }
    return false;
}

char *cadre_document_source(const json_t *cell)
{
    const json_t *source = json_object_get(cell, "source");
    cadre_buffer text = {0};
    if (json_is_string(source))
        cadre_buffer_append(&text, json_string_value(source), json_string_length(source));
    for (size_t i = 0; i < json_array_size(source); i++) {
        const json_t *line = json_array_get(source, i);
        cadre_buffer_append(&text, json_string_value(line), json_string_length(line));
    }
    return cadre_buffer_steal(&text);
}

const json_t *cadre_document_parameters(const json_t *notebook_or_cell)
{
    const json_t *metadata = json_object_get(notebook_or_cell, "metadata");
    const json_t *parameters = json_object_get(json_object_get(metadata, "cadre"), "parameters");
    return json_is_object(parameters) ? parameters : NULL;
}

const char *cadre_document_kernel(const json_t *document)
{
    const json_t *metadata = json_object_get(document, "metadata");
    return json_string_value(json_object_get(json_object_get(metadata, "kernelspec"), "name"));
}
