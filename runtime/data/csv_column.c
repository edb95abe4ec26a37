#include "data/csv.h"
#include "base/text.h"
#include "data/number.h"

#include <math.h>
#include <string.h>

static double real_of(int64_t whole)
{
    return whole == CADRE_INT64_MISSING ? (double)NAN : (double)whole;
}

/* Every int64 was read exactly, so this rounds as reading the text as a double would have. */
void cadre_csv_promote(const csv_reader *reader, csv_column *column)
{
    /* The row that is being read has a value already, or gets one. */
    for (size_t row = 0; row <= reader->rows; row++) {
        double value = real_of(column->values.wholes[row]);
        memcpy(&column->values.reals[row], &value, sizeof value);
    }
    column->kind = CSV_REAL;
}

/* Text in a column without a value so far: only missing values have to be written again. */
static void become_text(const csv_reader *reader, csv_column *column)
{
    memset(column->values.levels, 0xFF, (reader->rows + 1) * sizeof *column->values.levels);
    column->kind = CSV_TEXT;
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
    column->values.levels[reader->rows] = level;
    return 0;
}

static void store_missing(csv_reader *reader, csv_column *column)
{
    size_t row = reader->rows;
    if (column->kind == CSV_TEXT)
        column->values.levels[row] = -1;
    else if (column->kind == CSV_REAL)
        column->values.reals[row] = (double)NAN;
    else
        column->values.wholes[row] = CADRE_INT64_MISSING;
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
        become_text(reader, column);
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
        column->values.wholes[reader->rows] = found.integer;
        return 0;
    }
    if (column->kind == CSV_WHOLE) cadre_csv_promote(reader, column);
    if (found.kind == NUMBER_TOO_LARGE && !column->too_large_line) {
        cadre_error place;
        cadre_csv_fail(&reader->input, CADRE_EFORMAT, where, &place, "too large");
        column->too_large_line = place.line;
        column->too_large_column = place.column;
    }
    column->values.reals[reader->rows] =
        found.kind == NUMBER_WHOLE ? (double)found.integer : found.real;
    return 0;
}
