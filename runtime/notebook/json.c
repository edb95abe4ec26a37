#include "notebook/json.h"

#include "base/error_handler.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

char *cadre_json_pack(const char *format, ...)
{
    json_error_t why;
    va_list arguments;
    va_start(arguments, format);
    json_t *value = json_vpack_ex(&why, JSON_COMPACT, format, arguments);
    va_end(arguments);
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    if (!text) {
        cadre_error error;
        cadre_error_set(
            &error, CADRE_EINPUT, "cadre_json_pack: %s (position %d of the format \"%s\")",
            value ? "the value cannot be written as JSON" : why.text, why.column, format);
        cadre_raise(&error);
    }
    json_decref(value);
    return text;
}

/* One step of a path: the member `key`, or the element at that position. Borrowed. */
static json_t *step(json_t *value, const char *key)
{
    if (!json_is_array(value)) return json_object_get(value, key);
    char *end;
    unsigned long index = strtoul(key, &end, 10);
    return end != key && !*end ? json_array_get(value, index) : NULL;
}

/* The value at `path`, borrowed from *root, which the caller releases. */
static json_t *find(const char *json, const char *path, json_t **root)
{
    *root = json ? json_loads(json, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
    json_t *value = *root;
    char *keys = strdup(path), *rest = keys;
    if (!keys) return NULL;
    for (char *key; value && rest && *rest;) {
        key = strsep(&rest, ".");
        value = step(value, key);
    }
    free(keys);
    return value;
}

double cadre_json_number(const char *json, const char *path)
{
    json_t *root, *value = find(json, path, &root);
    double number = NAN;
    if (json_is_number(value)) number = json_number_value(value);
    if (json_is_boolean(value)) number = json_is_true(value);
    json_decref(root);
    return number;
}

char *cadre_json_text(const char *json, const char *path)
{
    json_t *root, *value = find(json, path, &root);
    char *text = NULL;
    if (json_is_string(value))
        text = strdup(json_string_value(value));
    else if (value)
        text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    json_decref(root);
    return text;
}

size_t cadre_json_count(const char *json, const char *path)
{
    json_t *root, *value = find(json, path, &root);
    size_t count = json_is_array(value) ? json_array_size(value) : json_object_size(value);
    json_decref(root);
    return count;
}
