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

#include "model/container.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are stored as they are");

#define HEADER_LIMIT 100000000

/* Text that goes into the header must be UTF-8, or Python cannot read the file. */
static bool add_string(json_t *object, const char *name, const char *text)
{
    return json_object_set_new(object, name, json_string(text)) == 0;
}

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

static bool add_metrics(json_t *metadata, const cadre_model *model)
{
    cadre_buffer text = {0};
    cadre_buffer_puts(&text, "{");
    bool fits = true;
    for (size_t i = 0; i < model->metric_count; i++) {
        json_t *name = json_string(model->metrics[i].name);
        char *quoted = name ? json_dumps(name, JSON_ENCODE_ANY) : NULL;
        fits = fits && quoted;
        cadre_buffer_printf(&text, "%s%s: ", i ? ", " : "", quoted ? quoted : "\"\"");
        append_number(&text, model->metrics[i].value);
        free(quoted);
        json_decref(name);
    }
    cadre_buffer_puts(&text, "}");
    fits = fits && !text.failed && add_string(metadata, CADRE_MODEL_KEY_METRICS, text.data);
    cadre_buffer_free(&text);
    return fits;
}

/* Names and texts in the order of their bytes: jansson sorts when it dumps. */
static json_t *build_header(const cadre_model *model)
{
    json_t *header = json_object(), *metadata = json_object();
    bool fits = header && metadata && add_string(metadata, CADRE_MODEL_KEY_NAME, model->name) &&
                add_metrics(metadata, model);
    for (size_t i = 0; fits && i < model->text_count; i++)
        fits = add_string(metadata, model->texts[i].name, model->texts[i].text);
    size_t offset = 0;
    for (size_t i = 0; fits && i < model->tensor_count; i++) {
        const model_tensor *tensor = &model->tensors[i];
        size_t end = offset + tensor->count * sizeof(double);
        json_t *entry =
            json_pack("{s:s, s:[I], s:[I, I]}", "dtype", "F64", "shape", (json_int_t)tensor->count,
                      "data_offsets", (json_int_t)offset, (json_int_t)end);
        fits = json_object_set_new(header, tensor->name, entry) == 0;
        offset = end;
    }
    fits = fits && json_object_set(header, "__metadata__", metadata) == 0;
    json_decref(metadata);
    if (fits) return header;
    json_decref(header);
    return NULL;
}

unsigned char *cadre_model_encode(const cadre_model *model, size_t *length, cadre_error *error)
{
    unsigned char *bytes = NULL;
    char *text = NULL;
    if (!model || !length) {
        cadre_error_set(error, CADRE_EINPUT, "there is no model to encode");
        return NULL;
    }
    json_t *header = build_header(model);
    if (header) text = json_dumps(header, JSON_SORT_KEYS | JSON_COMPACT);
    json_decref(header);
    if (!text) {
        cadre_error_set(error, CADRE_EINPUT,
                        "model '%s' cannot be encoded: a name or text that is not UTF-8, or no "
                        "memory",
                        model->name);
        return NULL;
    }
    size_t header_length = strlen(text), padded = (header_length + 7) / 8 * 8, data = 0;
    for (size_t i = 0; i < model->tensor_count; i++)
        data += model->tensors[i].count * sizeof(double);
    if (padded <= HEADER_LIMIT) bytes = malloc(8 + padded + data + 1);
    if (!bytes) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory to encode model '%s'", model->name);
        goto done;
    }
    uint64_t stored = padded;
    memcpy(bytes, &stored, 8);
    memcpy(bytes + 8, text, header_length);
    memset(bytes + 8 + header_length, ' ', padded - header_length);
    unsigned char *at = bytes + 8 + padded;
    for (size_t i = 0; i < model->tensor_count; i++) {
        size_t size = model->tensors[i].count * sizeof(double);
        memcpy(at, model->tensors[i].values, size);
        at += size;
    }
    *length = 8 + padded + data;
done:
    free(text);
    return bytes;
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
        if (!json_is_null(value) && !json_is_real(value))
            status = malformed(error, "no number in metric", name);
        if (status == CADRE_OK) status = cadre_model_set_metric(model, name, number);
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
