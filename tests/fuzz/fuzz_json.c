/* What becomes of any text that should be JSON: a value that can be written again, or an error. */
#include "fuzz.h"

#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cadre_error error = {0};
    cadre_buffer escaped = {0};
    json_t *value = cadre_json_parse((const char *)data, size, &error);
    if (!value && error.code == 0) abort();
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    if (value && !text) abort();
    json_t *again = text ? cadre_json_parse(text, strlen(text), &error) : NULL;
    if (text && !again) abort();
    json_decref(again);
    json_decref(value);
    free(text);
    /* Any bytes as a string. */
    value = cadre_json_string((const char *)data, size);
    if (!json_is_string(value)) abort();
    json_decref(value);
    cadre_buffer_puts(&escaped, "\"");
    if (cadre_json_escape(&escaped, (const char *)data, size, true) != size) abort();
    cadre_buffer_puts(&escaped, "\"");
    value = json_loadb(escaped.data, escaped.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!json_is_string(value)) abort();
    json_decref(value);
    cadre_buffer_free(&escaped);
    return 0;
}
