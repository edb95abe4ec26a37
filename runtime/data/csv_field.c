#include "data/csv.h"

int cadre_csv_missing_init(csv_missing *missing, const char *const *texts, cadre_error *error)
{
    static const char *const usual[] = {"", "NA", "NaN", "nan", "null", "NULL", NULL};
    *missing = (csv_missing){.texts = texts ? texts : usual};
    const size_t limit = sizeof missing->lengths / sizeof *missing->lengths;
    for (; missing->texts[missing->count]; missing->count++) {
        const char *text = missing->texts[missing->count];
        if (missing->count == limit)
            return cadre_error_set(error, CADRE_EINPUT,
                                   "more than %zu texts for missing values were given", limit);
        size_t length = strlen(text);
        missing->lengths[missing->count] = length;
        if (length > missing->longest) missing->longest = length;
        missing->starts[(unsigned char)*text] = true;
    }
    if (!missing->count) missing->starts[0] = false;
    return 0;
}

bool cadre_csv_is_missing_text(const csv_missing *missing, const char *text, size_t length)
{
    for (size_t i = 0; i < missing->count; i++)
        if (missing->lengths[i] == length && !memcmp(missing->texts[i], text, length)) return true;
    return false;
}

/* What ended a scan at a NUL or a carriage return: the window, or something that may not be. */
static csv_status odd_stop(const csv_input *input, const char *at, cadre_error *error)
{
    if (at == input->end || (*at == '\r' && at + 1 == input->end)) {
        if (!input->at_end) return CSV_MORE;
        cadre_csv_fail(input, CADRE_EFORMAT, at, error, "the file ends inside a row");
    } else if (*at == '\r') {
        cadre_csv_fail(input, CADRE_EFORMAT, at, error,
                       "a carriage return inside a field; lines must end in LF or CRLF, and a "
                       "field that holds one needs quotes");
    } else {
        cadre_csv_fail(input, CADRE_EFORMAT, at, error,
                       "a NUL byte; this is no text file, or one in UTF-16 (CSV must be UTF-8)");
    }
    return CSV_FAILED;
}

static csv_status check_stop(const csv_input *input, const char *at, char delimiter,
                             cadre_error *error)
{
    if (*at == delimiter || *at == '\n' || (*at == '\r' && at[1] == '\n')) return CSV_OK;
    return odd_stop(input, at, error);
}

/* The closing quote of the field whose text begins at `at`; *doubled: it holds quotes. */
static const char *closing_quote(const char *at, const char *end, bool *doubled)
{
    *doubled = false;
    while ((at = memchr(at, '"', (size_t)(end - at)))) {
        if (at[1] != '"') return at;
        *doubled = true;
        at += 2;
    }
    return NULL;
}

static csv_status quoted_field(const csv_input *input, char delimiter, const char **at,
                               cadre_buffer *scratch, csv_field *field, cadre_error *error)
{
    const char *open = *at;
    bool doubled;
    const char *text = open + 1, *close = closing_quote(text, input->end, &doubled);
    /* A quote at the very end of the window may be the first of two. */
    if ((!close || close + 1 == input->end) && !input->at_end) return CSV_MORE;
    if (!close) {
        cadre_csv_fail(input, CADRE_EFORMAT, open, error,
                       "the quoted field that starts here is not closed");
        return CSV_FAILED;
    }
    const char *zero = memchr(text, 0, (size_t)(close - text));
    if (zero) return odd_stop(input, zero, error);
    *field = (csv_field){text, (size_t)(close - text), true};
    if (doubled) {
        cadre_buffer_clear(scratch);
        for (const char *from = text; from < close;) {
            const char *quote = memchr(from, '"', (size_t)(close - from));
            const char *stop = quote ? quote + 1 : close;
            cadre_buffer_append(scratch, from, (size_t)(stop - from));
            from = quote ? quote + 2 : close;
        }
        field->length = scratch->length;
        static const char padding[CSV_PADDING];
        cadre_buffer_append(scratch, padding, sizeof padding);
        if (scratch->failed) {
            cadre_error_set(error, CADRE_EMEMORY, "no memory for a field of %s", input->path);
            return CSV_FAILED;
        }
        field->text = scratch->data;
    }
    *at = close + 1;
    if (**at == delimiter || **at == '\n' || **at == '\r' || **at == 0)
        return check_stop(input, *at, delimiter, error);
    cadre_csv_fail(input, CADRE_EFORMAT, *at, error,
                   "text after a closing quote; a quote inside a quoted field is written twice");
    return CSV_FAILED;
}

csv_status cadre_csv_field(const csv_input *input, char delimiter, const char **at,
                           cadre_buffer *scratch, csv_field *field, cadre_error *error)
{
    if (**at == '"') return quoted_field(input, delimiter, at, scratch, field, error);
    const char *text = *at;
    *at = csv_scan(text, delimiter);
    *field = (csv_field){text, (size_t)(*at - text), false};
    return check_stop(input, *at, delimiter, error);
}
