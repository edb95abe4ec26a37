#include "notebook/outputs.h"
#include "notebook/document.h"
#include "show/channel.h"

#include <stdlib.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* Notebooks keep long text as lines, so that a change shows as changed lines. */
static json_t *lines(const char *text, size_t length)
{
    json_t *array = json_array();
    while (length > 0) {
        const char *end = memchr(text, '\n', length);
        size_t line = end ? (size_t)(end - text) + 1 : length;
        json_array_append_new(array, cadre_json_string(text, line));
        text += line;
        length -= line;
    }
    return array;
}

void cadre_outputs_flush(cadre_outputs *outputs)
{
    if (outputs->stream.length == 0) return;
    const char *name = outputs->is_stderr ? "stderr" : "stdout";
    json_t *text = lines(outputs->stream.data, outputs->stream.length);
    /* After a flush in the middle of a cell the same stream may go on. */
    size_t count = json_array_size(outputs->list);
    json_t *last = count ? json_array_get(outputs->list, count - 1) : NULL;
    if (last && strcmp(text_of(last, "output_type"), "stream") == 0 &&
        strcmp(text_of(last, "name"), name) == 0) {
        json_t *old = json_object_get(last, "text");
        size_t lines_before = json_array_size(old);
        json_t *end = lines_before ? json_array_get(old, lines_before - 1) : NULL;
        size_t length = end ? json_string_length(end) : 0;
        if (length > 0 && json_string_value(end)[length - 1] != '\n') {
            cadre_buffer whole = {0};
            cadre_buffer_append(&whole, json_string_value(end), length);
            cadre_buffer_append(&whole, outputs->stream.data, outputs->stream.length);
            json_array_remove(old, lines_before - 1);
            json_decref(text);
            text = lines(whole.failed ? "" : whole.data, whole.length);
            cadre_buffer_free(&whole);
        }
        json_array_extend(old, text);
        json_decref(text);
    } else {
        json_array_append_new(outputs->list, json_pack("{s:s, s:s, s:o}", "output_type", "stream",
                                                       "name", name, "text", text));
    }
    cadre_buffer_clear(&outputs->stream);
}

static void clear_list(cadre_outputs *outputs)
{
    cadre_buffer_clear(&outputs->stream);
    json_array_clear(outputs->list);
    outputs->clear_next = false;
}

void cadre_outputs_begin(cadre_outputs *outputs, json_t *list)
{
    if (outputs->list) cadre_outputs_flush(outputs);
    outputs->list = list;
    outputs->clear_next = false;
    free(outputs->error_name);
    free(outputs->error_value);
    outputs->error_name = outputs->error_value = NULL;
}

static void tell(cadre_outputs *outputs, const char *kind, const char *text)
{
    if (outputs->on_output && *text) outputs->on_output(outputs->user, kind, text);
}

static void take_stream(cadre_outputs *outputs, const json_t *content)
{
    const json_t *text = json_object_get(content, "text");
    bool is_stderr = strcmp(text_of(content, "name"), "stderr") == 0;
    if (!json_is_string(text)) return;
    if (is_stderr != outputs->is_stderr) cadre_outputs_flush(outputs);
    outputs->is_stderr = is_stderr;
    cadre_buffer_append(&outputs->stream, json_string_value(text), json_string_length(text));
    tell(outputs, is_stderr ? "stderr" : "stdout", json_string_value(text));
}

static bool is_json_mime(const char *mime)
{
    size_t length = strlen(mime);
    return strcmp(mime, "application/json") == 0 ||
           (length > 5 && strcmp(mime + length - 5, "+json") == 0);
}

/* What a kernel sends as data, in the form that nbformat allows: text for all but JSON types. */
static json_t *bundle_of(const json_t *content)
{
    json_t *data = json_deep_copy(json_object_get(content, "data"));
    if (!json_is_object(data)) {
        json_decref(data);
        return json_object();
    }
    const char *mime;
    json_t *value;
    void *next;
    json_object_foreach_safe(data, next, mime, value)
    {
        bool list = json_is_array(value);
        for (size_t i = 0; list && i < json_array_size(value); i++)
            list = json_is_string(json_array_get(value, i));
        if (is_json_mime(mime) || json_is_string(value) || list) continue;
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        if (text) json_object_set_new(data, mime, json_string(text));
        free(text);
    }
    return data;
}

static json_t *metadata_of(const json_t *content)
{
    json_t *metadata = json_deep_copy(json_object_get(content, "metadata"));
    if (json_is_object(metadata)) return metadata;
    json_decref(metadata);
    return json_object();
}

static void remember(cadre_outputs *outputs, const json_t *content, json_t *output)
{
    const json_t *transient = json_object_get(content, "transient");
    const char *id = json_string_value(json_object_get(transient, "display_id"));
    if (!id) return;
    if (!outputs->displays) outputs->displays = json_object();
    json_t *shown = json_object_get(outputs->displays, id);
    if (!shown) {
        shown = json_array();
        json_object_set_new(outputs->displays, id, shown);
    }
    json_array_append(shown, output);
}

static void take_display(cadre_outputs *outputs, const cadre_message *message, const char *type)
{
    cadre_outputs_flush(outputs);
    json_t *data = bundle_of(message->content);
    json_t *value = json_object_get(data, CADRE_RETURN_MIME);
    if (value) {
        json_decref(outputs->returned);
        outputs->returned = json_incref(value);
    }
    /* A progress bar that is never redrawn says nothing in a log or a terminal. */
    const char *id = text_of(json_object_get(message->content, "transient"), "display_id");
    bool is_progress = strstr(id, CADRE_PROGRESS_ID) == id;
    if (!value && !is_progress) tell(outputs, "display", text_of(data, "text/plain"));
    json_t *output = json_pack("{s:s, s:o, s:o}", "output_type", type, "data", data, "metadata",
                               metadata_of(message->content));
    if (!output) return;
    if (strcmp(type, "execute_result") == 0) {
        json_t *count = json_object_get(message->content, "execution_count");
        json_object_set_new(output, "execution_count",
                            json_is_integer(count) ? json_incref(count) : json_null());
    }
    remember(outputs, message->content, output);
    json_array_append_new(outputs->list, output);
}

static void take_update(cadre_outputs *outputs, const json_t *content)
{
    const json_t *transient = json_object_get(content, "transient");
    const char *id = json_string_value(json_object_get(transient, "display_id"));
    const json_t *shown = id ? json_object_get(outputs->displays, id) : NULL;
    for (size_t i = 0; i < json_array_size(shown); i++) {
        json_t *output = json_array_get(shown, i);
        json_object_set_new(output, "data", bundle_of(content));
        json_object_set_new(output, "metadata", metadata_of(content));
    }
}

static void take_error(cadre_outputs *outputs, const json_t *content)
{
    cadre_outputs_flush(outputs);
    json_t *traceback = json_array();
    const json_t *given = json_object_get(content, "traceback");
    cadre_buffer whole = {0};
    for (size_t i = 0; i < json_array_size(given); i++) {
        json_t *line = json_array_get(given, i);
        if (!json_is_string(line)) continue;
        json_array_append(traceback, line);
        cadre_buffer_puts(&whole, json_string_value(line));
        cadre_buffer_puts(&whole, "\n");
    }
    if (!whole.failed && whole.data) tell(outputs, "error", whole.data);
    cadre_buffer_free(&whole);
    json_array_append_new(outputs->list,
                          json_pack("{s:s, s:s, s:s, s:o}", "output_type", "error", "ename",
                                    text_of(content, "ename"), "evalue", text_of(content, "evalue"),
                                    "traceback", traceback));
    free(outputs->error_name);
    free(outputs->error_value);
    outputs->error_name = strdup(text_of(content, "ename"));
    outputs->error_value = strdup(text_of(content, "evalue"));
}

void cadre_outputs_take(cadre_outputs *outputs, const cadre_message *message)
{
    const char *type = message->type;
    const json_t *content = message->content;
    if (strcmp(type, "update_display_data") == 0) {
        take_update(outputs, content);
        return;
    }
    if (strcmp(type, "clear_output") == 0) {
        outputs->clear_next = true;
        if (!json_is_true(json_object_get(content, "wait"))) clear_list(outputs);
        return;
    }
    bool is_display = strcmp(type, "display_data") == 0 || strcmp(type, "execute_result") == 0;
    bool is_stream = strcmp(type, "stream") == 0, is_error = strcmp(type, "error") == 0;
    if (!is_display && !is_stream && !is_error) return;
    if (outputs->clear_next) clear_list(outputs);
    if (is_stream) take_stream(outputs, content);
    if (is_display) take_display(outputs, message, type);
    if (is_error) take_error(outputs, content);
}

void cadre_outputs_clear(cadre_outputs *outputs)
{
    json_decref(outputs->displays);
    json_decref(outputs->returned);
    cadre_buffer_free(&outputs->stream);
    free(outputs->error_name);
    free(outputs->error_value);
    *outputs = (cadre_outputs){0};
}
