/* safetensors: eight bytes of header length (little-endian), a JSON header, the tensors' bytes.
 * https://github.com/huggingface/safetensors, README, "Format".
 *
 *     {"__metadata__": {text: text}, "coefficients": {"dtype": "F64", "shape": [9],
 *      "data_offsets": [0, 72]}, ...}
 *
 * Offsets count from the end of the header; tensors neither overlap nor leave holes. In
 * __metadata__ "name" is the model's name and "metrics" a JSON object of its metrics.
 */
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "model/container.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are stored as they are");

#define HEADER_LIMIT 100000000

/* Shortest of 15 to 17 digits that reads back; JSON has no NaN and no infinity. */
static void append_number(cadre_buffer *out, double value)
{
    if (!isfinite(value)) {
        cadre_buffer_puts(out, "null");
        return;
    }
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    for (char *at = text; *at; at++)
        if (*at == ',') *at = '.'; /* the locale's */
    cadre_buffer_puts(out, text);
}

static void append_metrics(cadre_buffer *out, const cadre_model *model)
{
    cadre_buffer text = {0};
    cadre_buffer_puts(&text, "{");
    for (size_t i = 0; i < model->metric_count; i++) {
        if (i) cadre_buffer_puts(&text, ", ");
        cadre_buffer_json_string(&text, model->metrics[i].name);
        cadre_buffer_puts(&text, ": ");
        append_number(&text, model->metrics[i].value);
    }
    cadre_buffer_puts(&text, "}");
    if (text.failed)
        out->failed = true;
    else
        cadre_buffer_json_string(out, text.data);
    cadre_buffer_free(&text);
}

static void append_pair(cadre_buffer *out, const char *name, const char *text)
{
    cadre_buffer_puts(out, ",");
    cadre_buffer_json_string(out, name);
    cadre_buffer_puts(out, ":");
    cadre_buffer_json_string(out, text);
}

/* Everything in a fixed order: name, metrics, texts and tensors by name. */
static void append_header(cadre_buffer *out, const cadre_model *model)
{
    cadre_buffer_puts(out, "{\"__metadata__\":{\"" CADRE_MODEL_KEY_METRICS "\":");
    append_metrics(out, model);
    append_pair(out, CADRE_MODEL_KEY_NAME, model->name);
    for (size_t i = 0; i < model->text_count; i++)
        append_pair(out, model->texts[i].name, model->texts[i].text);
    cadre_buffer_puts(out, "}");
    size_t offset = 0;
    for (size_t i = 0; i < model->tensor_count; i++) {
        const model_tensor *tensor = &model->tensors[i];
        size_t end = offset + tensor->count * sizeof(double);
        cadre_buffer_puts(out, ",");
        cadre_buffer_json_string(out, tensor->name);
        cadre_buffer_printf(out, ":{\"dtype\":\"F64\",\"shape\":[%zu],\"data_offsets\":[%zu,%zu]}",
                            tensor->count, offset, end);
        offset = end;
    }
    cadre_buffer_puts(out, "}");
    while (out->length % 8 && !out->failed)
        cadre_buffer_puts(out, " ");
}

static bool is_utf8(const char *text)
{
    return cadre_text_is_utf8(text, strlen(text));
}

/* Text that is not UTF-8 would make a file that Python cannot read. */
static bool has_bad_text(const cadre_model *model)
{
    bool good = is_utf8(model->name);
    for (size_t i = 0; i < model->text_count; i++)
        good = good && is_utf8(model->texts[i].name) && is_utf8(model->texts[i].text);
    for (size_t i = 0; i < model->tensor_count; i++)
        good = good && is_utf8(model->tensors[i].name);
    for (size_t i = 0; i < model->metric_count; i++)
        good = good && is_utf8(model->metrics[i].name);
    return !good;
}

unsigned char *cadre_model_encode(const cadre_model *model, size_t *length, cadre_error *error)
{
    if (!model || !length) {
        cadre_error_set(error, CADRE_EINPUT, "there is no model to encode");
        return NULL;
    }
    if (has_bad_text(model)) {
        cadre_error_set(error, CADRE_EINPUT, "model '%s' has a name or text that is not UTF-8",
                        model->name);
        return NULL;
    }
    cadre_buffer bytes = {0}, header = {0};
    append_header(&header, model);
    const uint64_t header_length = header.length;
    cadre_buffer_append(&bytes, &header_length, sizeof header_length);
    cadre_buffer_append(&bytes, header.data, header.length);
    for (size_t i = 0; i < model->tensor_count; i++)
        cadre_buffer_append(&bytes, model->tensors[i].values,
                            model->tensors[i].count * sizeof(double));
    if (header.failed || header.length > HEADER_LIMIT) bytes.failed = true;
    cadre_buffer_free(&header);
    *length = bytes.length;
    unsigned char *encoded = (unsigned char *)cadre_buffer_steal(&bytes);
    if (!encoded)
        cadre_error_set(error, CADRE_EMEMORY, "no memory to encode model '%s'", model->name);
    return encoded;
}

static int malformed(cadre_error *error, const char *what, const char *name)
{
    return cadre_error_set(error, CADRE_EFORMAT, "no safetensors file that Cadre can read: %s%s%s",
                           what, *name ? " " : "", name);
}

/* A non-negative whole number of the header. */
static bool get_size(const json_t *value, size_t *out)
{
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0) return false;
    *out = (size_t)number;
    return true;
}

typedef struct extent {
    const char *name;
    size_t begin, end;
} extent;

static int compare_extents(const void *a, const void *b)
{
    const extent *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int read_extent(const char *name, const json_t *entry, size_t data, extent *out,
                       cadre_error *error)
{
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    const json_t *shape = json_object_get(entry, "shape");
    const json_t *offsets = json_object_get(entry, "data_offsets");
    size_t count;
    if (!type || !json_is_array(shape) || json_array_size(offsets) != 2)
        return malformed(error, "dtype, shape or data_offsets are missing in tensor", name);
    if (strcmp(type, "F64")) return malformed(error, "the type is not F64 in tensor", name);
    if (json_array_size(shape) != 1 || !get_size(json_array_get(shape, 0), &count))
        return malformed(error, "there is not one dimension in tensor", name);
    out->name = name;
    if (!get_size(json_array_get(offsets, 0), &out->begin) ||
        !get_size(json_array_get(offsets, 1), &out->end) || out->begin > out->end ||
        out->end > data)
        return malformed(error, "offsets outside of the file in tensor", name);
    if (count > data / sizeof(double) || out->end - out->begin != count * sizeof(double))
        return malformed(error, "shape and offsets differ in tensor", name);
    return CADRE_OK;
}

static int set_tensor(cadre_model *model, const extent *one, const unsigned char *data)
{
    size_t size = one->end - one->begin;
    double *values = malloc(size + sizeof *values);
    if (!values) return CADRE_EMEMORY;
    memcpy(values, data + one->begin, size);
    int status = cadre_model_set(model, one->name, values, size / sizeof *values);
    free(values);
    return status;
}

static int read_tensors(cadre_model *model, json_t *header, const unsigned char *data,
                        size_t length, cadre_error *error)
{
    extent *extents = malloc((json_object_size(header) + 1) * sizeof *extents);
    if (!extents) return cadre_error_set(error, CADRE_EMEMORY, "no memory for a model");
    size_t count = 0, covered = 0;
    int status = CADRE_OK;
    const char *name;
    json_t *entry;
    json_object_foreach(header, name, entry)
    {
        if (!strcmp(name, "__metadata__")) continue;
        status = read_extent(name, entry, length, &extents[count++], error);
        if (status < 0) goto done;
    }
    qsort(extents, count, sizeof *extents, compare_extents);
    for (size_t i = 0; i < count; covered = extents[i++].end) {
        if (extents[i].begin == covered) continue;
        status = malformed(error, "an overlap or a hole before tensor", extents[i].name);
        goto done;
    }
    if (covered != length) {
        status = malformed(error, "bytes that belong to no tensor", "");
        goto done;
    }
    for (size_t i = 0; i < count && status == CADRE_OK; i++) {
        status = set_tensor(model, &extents[i], data);
        if (status == CADRE_EINPUT) malformed(error, "a tensor without a name", "");
        if (status == CADRE_EMEMORY) cadre_error_set(error, status, "no memory for a model");
    }
done:
    free(extents);
    return status;
}

static int read_metrics(cadre_model *model, const char *text, cadre_error *error)
{
    int status = CADRE_OK;
    json_t *metrics = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, NULL);
    const char *name;
    json_t *value;
    if (!json_is_object(metrics)) {
        json_decref(metrics);
        return malformed(error, "metrics are no JSON object", "");
    }
    json_object_foreach(metrics, name, value)
    {
        double number = json_is_null(value) ? (double)NAN : json_real_value(value);
        if (!json_is_null(value) && !json_is_real(value)) {
            status = malformed(error, "no number in metric", name);
            break;
        }
        status = cadre_model_set_metric(model, name, number);
        if (status < 0) {
            cadre_error_set(error, status, "metric '%s' cannot be kept", name);
            break;
        }
    }
    json_decref(metrics);
    return status;
}

static int read_metadata(cadre_model *model, json_t *metadata, cadre_error *error)
{
    int status = CADRE_OK;
    const char *name;
    json_t *value;
    if (!metadata) return CADRE_OK;
    if (!json_is_object(metadata)) return malformed(error, "__metadata__ is no object", "");
    json_object_foreach(metadata, name, value)
    {
        const char *text = json_string_value(value);
        if (!text) return malformed(error, "no text in metadata", name);
        if (!strcmp(name, CADRE_MODEL_KEY_NAME)) {
            char *copy = strdup(text);
            if (!copy) return cadre_error_set(error, CADRE_EMEMORY, "no memory for a model");
            free(model->name);
            model->name = copy;
        } else if (!strcmp(name, CADRE_MODEL_KEY_METRICS)) {
            status = read_metrics(model, text, error);
        } else {
            status = cadre_model_set_text(model, name, text);
            if (status < 0) cadre_error_set(error, status, "metadata '%s' cannot be kept", name);
        }
        if (status < 0) return status;
    }
    return CADRE_OK;
}

cadre_model *cadre_model_decode(const unsigned char *bytes, size_t length, cadre_error *error)
{
    uint64_t header_length = 0;
    if (!bytes || length < 8) {
        malformed(error, "it is shorter than 8 bytes", "");
        return NULL;
    }
    memcpy(&header_length, bytes, 8);
    if (header_length > HEADER_LIMIT || header_length > length - 8) {
        malformed(error, "the header is longer than the file or the limit", "");
        return NULL;
    }
    json_error_t where;
    json_t *header =
        json_loadb((const char *)bytes + 8, header_length, JSON_REJECT_DUPLICATES, &where);
    cadre_model *model = NULL;
    int status = CADRE_OK;
    if (!json_is_object(header)) {
        malformed(error, "the header is no JSON object:", header ? "another value" : where.text);
        goto done;
    }
    model = cadre_model_new("");
    if (!model) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory for a model");
        goto done;
    }
    status =
        read_tensors(model, header, bytes + 8 + header_length, length - 8 - header_length, error);
    if (status == CADRE_OK)
        status = read_metadata(model, json_object_get(header, "__metadata__"), error);
done:
    json_decref(header);
    if (status == CADRE_OK) return model;
    cadre_model_free(model);
    return NULL;
}

int cadre_model_save(const cadre_model *model, const char *path, cadre_error *error)
{
    size_t length;
    cadre_error own;
    if (!error) error = &own;
    unsigned char *bytes = cadre_model_encode(model, &length, error);
    if (!bytes) return error->code;
    int status = cadre_write_file(path, bytes, length, error);
    free(bytes);
    return status;
}

static unsigned char *read_file(const char *path, size_t *length, cadre_error *error)
{
    unsigned char *bytes = NULL;
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY), number = errno;
    bool known = fd >= 0 && fstat(fd, &info) == 0;
    if (fd >= 0 && !known) number = errno;
    if (known && !S_ISREG(info.st_mode)) {
        known = false;
        number = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
    }
    if (known) {
        bytes = malloc((size_t)info.st_size + 1);
        number = ENOMEM;
    }
    *length = 0;
    while (bytes && *length < (size_t)info.st_size) {
        ssize_t got = read(fd, bytes + *length, (size_t)info.st_size - *length);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            number = errno;
            free(bytes);
            bytes = NULL;
            break;
        }
        if (got == 0) break;
        *length += (size_t)got;
    }
    if (!bytes)
        cadre_error_set_at(error, CADRE_EFILE, path, 0, 0, "cannot be read: %s", strerror(number));
    if (fd >= 0) close(fd);
    return bytes;
}

cadre_model *cadre_model_load(const char *path, cadre_error *error)
{
    size_t length;
    if (!path) {
        cadre_error_set(error, CADRE_EINPUT, "no path of a model was given");
        return NULL;
    }
    unsigned char *bytes = read_file(path, &length, error);
    if (!bytes) return NULL;
    cadre_error inner = {0};
    cadre_model *model = cadre_model_decode(bytes, length, &inner);
    if (!model) cadre_error_set_at(error, inner.code, path, 0, 0, "%.900s", inner.message);
    free(bytes);
    return model;
}
