#include "data/csv.h"
#include "base/text.h"
#include "data/number.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static size_t width(const csv_column *column)
{
    return column->kind == CSV_TEXT ? sizeof(int32_t) : sizeof(int64_t);
}

static int write_all(int fd, const void *bytes, size_t length, off_t offset, cadre_error *error)
{
    const char *from = bytes;
    while (length) {
        ssize_t put = pwrite(fd, from, length, offset);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0)
            return cadre_error_set(error, CADRE_EMEMORY, "no memory for the table: %s",
                                   strerror(put < 0 ? errno : ENOSPC));
        from += put;
        offset += put;
        length -= (size_t)put;
    }
    return 0;
}

static int read_all(int fd, void *bytes, size_t length, off_t offset, cadre_error *error)
{
    char *to = bytes;
    while (length) {
        ssize_t got = pread(fd, to, length, offset);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return cadre_error_set(error, CADRE_ESYSTEM, "the table cannot be read back");
        to += got;
        offset += got;
        length -= (size_t)got;
    }
    return 0;
}

int cadre_csv_flush(csv_reader *reader, cadre_error *error)
{
    for (size_t i = 0; i < reader->column_count && reader->staged; i++) {
        csv_column *column = &reader->columns[i];
        if (column->kind == CSV_SKIP) continue;
        size_t size = width(column);
        off_t offset = column->base + (off_t)(reader->flushed * size);
        if (write_all(reader->shared, column->staged.bytes, reader->staged * size, offset, error) <
            0)
            return error->code;
    }
    reader->flushed += reader->staged;
    reader->staged = 0;
    return 0;
}

static double real_of(int64_t whole)
{
    return whole == CADRE_INT64_MISSING ? (double)NAN : (double)whole;
}

/* Every int64 was read exactly, so this rounds as reading the text as a double would have. */
int cadre_csv_promote(csv_reader *reader, csv_column *column, cadre_error *error)
{
    enum { AT_ONCE = 512 };
    int64_t from[AT_ONCE] = {0};
    double to[AT_ONCE];
    for (size_t row = 0; row < reader->flushed; row += AT_ONCE) {
        size_t count = reader->flushed - row < AT_ONCE ? reader->flushed - row : AT_ONCE;
        off_t offset = column->base + (off_t)(row * sizeof *from);
        int status = read_all(reader->shared, from, count * sizeof *from, offset, error);
        if (status < 0) return status;
        for (size_t i = 0; i < count; i++)
            to[i] = real_of(from[i]);
        status = write_all(reader->shared, to, count * sizeof *to, offset, error);
        if (status < 0) return status;
    }
    for (size_t i = 0; i < reader->staged; i++) {
        double value = real_of(column->staged.wholes[i]);
        memcpy(&column->staged.reals[i], &value, sizeof value);
    }
    column->kind = CSV_REAL;
    return 0;
}

/* Text in a column without a value so far: only missing values have to be written again. */
static int become_text(csv_reader *reader, csv_column *column, cadre_error *error)
{
    int32_t none[1024];
    memset(none, 0xFF, sizeof none);
    const size_t at_once = sizeof none / sizeof *none;
    for (size_t row = 0; row < reader->flushed; row += at_once) {
        size_t count = reader->flushed - row < at_once ? reader->flushed - row : at_once;
        if (write_all(reader->shared, none, count * sizeof *none,
                      column->base + (off_t)(row * sizeof *none), error) < 0)
            return error->code;
    }
    memset(column->staged.levels, 0xFF, reader->block_rows * sizeof *none);
    column->kind = CSV_TEXT;
    return 0;
}

static int store_text(csv_reader *reader, csv_column *column, const csv_field *field,
                      const char *where, cadre_error *error)
{
    bool is_new;
    int32_t level = cadre_dictionary_add(&column->dictionary, field->text, field->length, &is_new);
    if (level == DICTIONARY_NO_MEMORY)
        return cadre_error_set(error, CADRE_EMEMORY, "no memory for the texts of column '%s'",
                               column->name);
    if (level == DICTIONARY_FULL)
        return cadre_csv_fail(&reader->input, CADRE_EINPUT, where, error,
                              "column '%s' has more than %d different texts", column->name,
                              INT32_MAX);
    if (is_new && !cadre_text_is_utf8(field->text, field->length))
        return cadre_csv_fail(&reader->input, CADRE_EFORMAT, where, error,
                              "the text of column '%s' is not UTF-8; convert the file, with iconv "
                              "for example",
                              column->name);
    column->staged.levels[reader->staged] = level;
    return 0;
}

static void store_missing(csv_reader *reader, csv_column *column)
{
    size_t row = reader->staged;
    if (column->kind == CSV_TEXT)
        column->staged.levels[row] = -1;
    else if (column->kind == CSV_REAL)
        column->staged.reals[row] = (double)NAN;
    else
        column->staged.wholes[row] = CADRE_INT64_MISSING;
}

static csv_field trim(csv_field field)
{
    while (field.length && (*field.text == ' ' || *field.text == '\t'))
        field.text++, field.length--;
    while (field.length &&
           (field.text[field.length - 1] == ' ' || field.text[field.length - 1] == '\t'))
        field.length--;
    return field;
}

static int not_a_number(csv_reader *reader, csv_column *column, const csv_field *field,
                        const char *where, cadre_error *error)
{
    if (column->want_number)
        return cadre_csv_fail(&reader->input, CADRE_EFORMAT, where, error,
                              "column '%s' must hold numbers; '%.*s' is none", column->name,
                              field->length > 60 ? 60 : (int)field->length, field->text);
    if (column->kind == CSV_EMPTY) {
        if (become_text(reader, column, error) < 0) return error->code;
        return store_text(reader, column, field, where, error);
    }
    /* The numbers before it have lost their text ("007"): a second pass reads them again. */
    column->again = true;
    column->kind = CSV_SKIP;
    return 0;
}

int cadre_csv_store(csv_reader *reader, csv_column *column, const csv_field *field,
                    const char *where, cadre_error *error)
{
    if (column->kind == CSV_SKIP) return 0;
    if (csv_is_missing(&reader->missing, field->text, field->length)) {
        store_missing(reader, column);
        return 0;
    }
    if (column->kind == CSV_TEXT) return store_text(reader, column, field, where, error);
    csv_field plain = trim(*field);
    if (csv_is_missing(&reader->missing, plain.text, plain.length)) {
        store_missing(reader, column);
        return 0;
    }
    number found;
    const char *end = cadre_number_scan(plain.text, &found);
    if (found.kind == NUMBER_NONE || end != plain.text + plain.length)
        return not_a_number(reader, column, field, where, error);
    if (column->kind == CSV_EMPTY) column->kind = CSV_WHOLE;
    if (found.kind == NUMBER_WHOLE && column->kind == CSV_WHOLE) {
        column->staged.wholes[reader->staged] = found.integer;
        return 0;
    }
    if (column->kind == CSV_WHOLE && cadre_csv_promote(reader, column, error) < 0)
        return error->code;
    if (found.kind == NUMBER_TOO_LARGE && !column->too_large_line) {
        cadre_error place;
        cadre_csv_fail(&reader->input, CADRE_EFORMAT, where, &place, "too large");
        column->too_large_line = place.line;
        column->too_large_column = place.column;
    }
    column->staged.reals[reader->staged] =
        found.kind == NUMBER_WHOLE ? (double)found.integer : found.real;
    return 0;
}
