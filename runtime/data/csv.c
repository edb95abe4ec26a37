#include "data/csv.h"
#include "data/number.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/error_handler.h"
#include "base/text.h"

/* Where the row's line number goes: past its own newlines and the one that ends it. */
static void finish_row(csv_input *input, const char *end, bool quoted)
{
    if (quoted)
        for (const char *at = input->at; (at = memchr(at, '\n', (size_t)(end - at))); at++)
            input->line++;
    else
        input->line++;
    input->at = end;
}

/* A line without anything on it is no row. */
static bool skip_blank(csv_input *input)
{
    const char *at = input->at;
    if (*at == '\r') at++;
    if (*at != '\n') return false;
    input->at = at + 1;
    input->line++;
    return true;
}

/* A plain number or text that continues what its column holds: the case that must be fast. A text
 * that the dictionary has is no missing value. The end of the field; NULL: it needs a closer
 * look. */
static inline const char *store_plain(csv_column *column, size_t row, const char *at,
                                      char delimiter)
{
    if (column->kind == CSV_WHOLE) return number_scan_short(at, &column->values.wholes[row]);
    if (column->kind == CSV_TEXT) {
        const char *end = csv_scan(at, delimiter);
        int32_t level = dictionary_find_short(&column->dictionary, at, (size_t)(end - at));
        column->values.levels[row] = level;
        return level >= 0 ? end : NULL;
    }
    if (column->kind == CSV_REAL) {
        number found;
        const char *end = cadre_number_scan(at, &found);
        if (found.kind != NUMBER_WHOLE && found.kind != NUMBER_REAL) return NULL;
        column->values.reals[row] = found.kind == NUMBER_WHOLE ? (double)found.integer : found.real;
        return end;
    }
    return NULL;
}

static csv_status wrong_count(const csv_reader *reader, const char *where, size_t fields,
                              cadre_error *error)
{
    cadre_csv_fail(&reader->input, CADRE_EFORMAT, where, error,
                   "this row has %zu field%s, the header has %zu", fields, fields == 1 ? "" : "s",
                   reader->column_count);
    return CSV_FAILED;
}

/* How many fields there are from `at` to the end of the row, for the message. */
static csv_status too_many(csv_reader *reader, const char *at, cadre_error *error)
{
    const char *where = at;
    size_t fields = reader->column_count;
    for (;; at++) {
        csv_field field;
        csv_status status = cadre_csv_field(&reader->input, reader->delimiter, &at,
                                            &reader->scratch, &field, error);
        if (status != CSV_OK) return status;
        fields++;
        if (*at != reader->delimiter) return wrong_count(reader, where, fields, error);
    }
}

static csv_status read_row(csv_reader *reader, cadre_error *error)
{
    const char delimiter = reader->delimiter;
    const char *at = reader->input.at;
    const size_t row = reader->rows, count = reader->column_count;
    bool quoted = false;
    csv_column *column = reader->columns;
    for (size_t i = 0; i < count; i++, at++, column++) {
        const char *end = store_plain(column, row, at, delimiter);
        if (!end || (*end != delimiter && *end != '\n')) {
            const char *where = at;
            csv_field field;
            csv_status status =
                cadre_csv_field(&reader->input, delimiter, &at, &reader->scratch, &field, error);
            if (status != CSV_OK) return status;
            quoted = quoted || field.quoted;
            if (cadre_csv_store(reader, column, &field, where, error) < 0) return CSV_FAILED;
        } else {
            at = end;
        }
        bool last = i + 1 == count;
        if (last && *at == delimiter) return too_many(reader, at + 1, error);
        if (!last && *at != delimiter) return wrong_count(reader, at, i + 1, error);
    }
    /* Past the loop's step over the terminator, which may be two characters. */
    if (at[-1] == '\r') at++;
    finish_row(&reader->input, at, quoted);
    return CSV_OK;
}

static int changed(const csv_reader *reader, cadre_error *error)
{
    return cadre_error_set_at(error, CADRE_EFILE, reader->input.path, 0, 0,
                              "changed while it was read");
}

static int read_rows(csv_reader *reader, cadre_error *error)
{
    csv_input *input = &reader->input;
    for (;;) {
        if (input->at == input->end && input->at_end) return 0;
        csv_status status = CSV_MORE;
        if (input->at < input->end) {
            if (skip_blank(input)) continue;
            if (reader->rows >= UINT32_MAX)
                return cadre_csv_fail(input, CADRE_EINPUT, input->at, error, "more than %u rows",
                                      UINT32_MAX);
            if (reader->rows == reader->row_limit) return changed(reader, error);
            status = read_row(reader, error);
        }
        if (status == CSV_FAILED) return error->code;
        if (status == CSV_OK)
            reader->rows++;
        else if (cadre_csv_refill(input, error) < 0)
            return error->code;
    }
}

static csv_status add_column(csv_reader *reader, const csv_field *field, const char *where,
                             size_t *capacity, cadre_error *error)
{
    if (reader->column_count == CSV_COLUMN_LIMIT) {
        cadre_csv_fail(&reader->input, CADRE_EINPUT, where, error, "more than %d columns",
                       CSV_COLUMN_LIMIT);
        return CSV_FAILED;
    }
    if (reader->column_count == *capacity) {
        size_t more = *capacity ? *capacity * 2 : 32;
        void *columns = realloc(reader->columns, more * sizeof *reader->columns);
        if (!columns) goto no_memory;
        reader->columns = columns;
        *capacity = more;
    }
    csv_column *column = &reader->columns[reader->column_count];
    *column = (csv_column){.kind = CSV_EMPTY};
    cadre_buffer name = {0};
    cadre_buffer_append(&name, field->text, field->length);
    if (!field->length) cadre_buffer_printf(&name, "column_%zu", reader->column_count + 1);
    column->name = cadre_buffer_steal(&name);
    if (!column->name) goto no_memory;
    reader->column_count++;
    return CSV_OK;
no_memory:
    cadre_error_set(error, CADRE_EMEMORY, "no memory for the columns of %s", reader->input.path);
    return CSV_FAILED;
}

/* The names of a file with many columns are compared through a dictionary too. */
static csv_status check_name(csv_reader *reader, dictionary *names, const csv_field *field,
                             const char *where, cadre_error *error)
{
    bool is_new;
    if (!field->length) return CSV_OK;
    if (!cadre_text_is_utf8(field->text, field->length)) {
        cadre_csv_fail(&reader->input, CADRE_EFORMAT, where, error,
                       "the name of a column is not UTF-8; convert the file, with iconv for "
                       "example");
        return CSV_FAILED;
    }
    int32_t level = cadre_dictionary_add(names, field->text, field->length, &is_new);
    if (level < 0) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory for the columns of %s",
                        reader->input.path);
        return CSV_FAILED;
    }
    if (is_new) return CSV_OK;
    cadre_csv_fail(&reader->input, CADRE_EFORMAT, where, error, "two columns have the name '%.*s'",
                   field->length > 100 ? 100 : (int)field->length, field->text);
    return CSV_FAILED;
}

static csv_status read_names(csv_reader *reader, size_t *capacity, cadre_error *error)
{
    const char *at = reader->input.at;
    dictionary names = {0};
    bool quoted = false;
    csv_status status;
    for (;; at++) {
        const char *where = at;
        csv_field field;
        status = cadre_csv_field(&reader->input, reader->delimiter, &at, &reader->scratch, &field,
                                 error);
        if (status == CSV_OK) status = check_name(reader, &names, &field, where, error);
        if (status == CSV_OK) status = add_column(reader, &field, where, capacity, error);
        if (status != CSV_OK) break;
        quoted = quoted || field.quoted;
        if (*at == reader->delimiter) continue;
        finish_row(&reader->input, at + (*at == '\r' ? 2 : 1), quoted);
        break;
    }
    cadre_dictionary_free(&names);
    return status;
}

static void free_columns(csv_reader *reader)
{
    for (size_t i = 0; i < reader->column_count; i++) {
        free(reader->columns[i].name);
        cadre_dictionary_free(&reader->columns[i].dictionary);
    }
    free(reader->columns);
    reader->columns = NULL;
    reader->column_count = 0;
}

static int read_header(csv_reader *reader, cadre_error *error)
{
    csv_input *input = &reader->input;
    if (cadre_csv_refill(input, error) < 0) return error->code;
    size_t length = (size_t)(input->end - input->at);
    if (length >= 3 && !memcmp(input->at, "\xEF\xBB\xBF", 3)) input->at += 3;
    if (length >= 2 && (!memcmp(input->at, "\xFF\xFE", 2) || !memcmp(input->at, "\xFE\xFF", 2)))
        return cadre_csv_fail(input, CADRE_EFORMAT, input->at, error,
                              "this file is in UTF-16; CSV must be UTF-8");
    for (;;) {
        if (input->at == input->end && input->at_end)
            return cadre_error_set_at(error, CADRE_EFORMAT, input->path, 1, 1,
                                      "the file is empty; its first line must name the columns");
        csv_status status = CSV_MORE;
        size_t capacity = 0;
        if (input->at < input->end) {
            if (skip_blank(input)) continue;
            status = read_names(reader, &capacity, error);
        }
        if (status == CSV_OK) return 0;
        if (status == CSV_FAILED) return error->code;
        free_columns(reader);
        if (cadre_csv_refill(input, error) < 0) return error->code;
    }
}

static csv_column *find_column(csv_reader *reader, const char *name, cadre_error *error)
{
    for (size_t i = 0; i < reader->column_count; i++)
        if (!strcmp(reader->columns[i].name, name)) return &reader->columns[i];
    cadre_buffer list = {0};
    for (size_t i = 0; i < reader->column_count && list.length < 600; i++)
        cadre_buffer_printf(&list, "%s%s", i ? ", " : "", reader->columns[i].name);
    cadre_error_set_at(error, CADRE_ENOTFOUND, reader->input.path, 0, 0,
                       "there is no column '%s'; the columns are %s", name,
                       list.data ? list.data : "");
    cadre_buffer_free(&list);
    return NULL;
}

static int apply_options(csv_reader *reader, const cadre_csv_options *options, cadre_error *error)
{
    for (size_t i = 0; options->text_columns && options->text_columns[i]; i++) {
        csv_column *column = find_column(reader, options->text_columns[i], error);
        if (!column) return error->code;
        column->keep_text = true;
        column->kind = CSV_TEXT;
    }
    for (size_t i = 0; options->number_columns && options->number_columns[i]; i++) {
        csv_column *column = find_column(reader, options->number_columns[i], error);
        if (!column) return error->code;
        if (column->keep_text)
            return cadre_error_set(error, CADRE_EINPUT,
                                   "column '%s' is among text_columns and number_columns",
                                   column->name);
        column->want_number = true;
    }
    return 0;
}

/* A place for the values of the most rows that the file can have: not more than it has lines, and a
 * row of n fields has n bytes at least. */
static int prepare_columns(csv_reader *reader, cadre_error *error)
{
    size_t columns = reader->column_count, lines;
    if (cadre_csv_count_lines(&reader->input, &lines, error) < 0) return error->code;
    reader->row_limit = (size_t)reader->input.size / columns + 1;
    if (reader->row_limit > lines) reader->row_limit = lines;
    /* One more: where the row behind the last one would begin may be written. */
    if (cadre_storage_reserve(&reader->storage, columns, reader->row_limit + 1, reader->input.path,
                              error) < 0)
        return error->code;
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) < 0) seed = (uintptr_t)reader->storage.start;
    for (size_t i = 0; i < columns; i++) {
        reader->columns[i].values.bytes = cadre_storage_column(&reader->storage, i);
        reader->columns[i].dictionary.seed = seed;
    }
    return 0;
}

/* Columns that turned out to be text after numbers were read from them. */
static int read_again(csv_reader *reader, off_t body, long line, cadre_error *error)
{
    bool any = false;
    size_t rows = reader->rows;
    for (size_t i = 0; i < reader->column_count; i++) {
        csv_column *column = &reader->columns[i];
        column->kind = column->again ? CSV_TEXT : CSV_SKIP;
        any = any || column->again;
    }
    if (!any) return 0;
    reader->rows = 0;
    cadre_csv_seek(&reader->input, body, line);
    if (read_rows(reader, error) < 0) return error->code;
    return reader->rows == rows ? 0 : changed(reader, error);
}

static cadre_column_type final_type(const csv_column *column)
{
    if (column->again || column->kind == CSV_TEXT) return CADRE_TEXT;
    return column->kind == CSV_WHOLE ? CADRE_INT64 : CADRE_DOUBLE;
}

/* Types are settled: seals the values and hands names and dictionaries over. */
static int finish_table(csv_reader *reader, cadre_table *table, cadre_error *error)
{
    table->columns = calloc(reader->column_count, sizeof *table->columns);
    table->source = strdup(reader->input.path);
    if (!table->columns || !table->source)
        return cadre_error_set(error, CADRE_EMEMORY, "no memory to read %s", reader->input.path);
    table->rows = reader->rows;
    for (size_t i = 0; i < reader->column_count; i++) {
        size_t size = reader->columns[i].type == CADRE_TEXT ? sizeof(int32_t) : sizeof(int64_t);
        cadre_storage_trim(&reader->storage, i, reader->rows * size);
    }
    if (cadre_storage_seal(&reader->storage, error) < 0) return error->code;
    table->storage = reader->storage;
    reader->storage = (table_storage){0};
    for (size_t i = 0; i < reader->column_count; i++) {
        csv_column *column = &reader->columns[i];
        cadre_dictionary_finish(&column->dictionary);
        table->columns[i] = (table_column){.name = column->name,
                                           .type = column->type,
                                           .values = column->values.bytes,
                                           .levels = column->dictionary};
        column->name = NULL;
        column->dictionary = (dictionary){0};
    }
    table->column_count = reader->column_count;
    return 0;
}

/* The first pass is over. A column without any value is one of doubles. */
static int settle_types(csv_reader *reader, cadre_error *error)
{
    for (size_t i = 0; i < reader->column_count; i++) {
        csv_column *column = &reader->columns[i];
        if (column->kind == CSV_EMPTY) cadre_csv_promote(reader, column);
        column->type = final_type(column);
        if (column->type == CADRE_DOUBLE && column->too_large_line)
            return cadre_error_set_at(error, CADRE_EFORMAT, reader->input.path,
                                      column->too_large_line, column->too_large_column,
                                      "a number of column '%s' is too large for a double",
                                      column->name);
    }
    return 0;
}

static int check_delimiter(char delimiter, cadre_error *error)
{
    unsigned char c = (unsigned char)delimiter;
    bool fits = c == '\t' || (c >= ' ' && c < 0x7F);
    if (!fits || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
        strchr("\"+-.", c))
        return cadre_error_set(error, CADRE_EINPUT,
                               "the delimiter must be a tab or a printable character that cannot "
                               "be part of a number or a name, such as ',' or ';'");
    return 0;
}

cadre_table *cadre_read_csv_with(const char *path, const cadre_csv_options *options,
                                 cadre_error *error)
{
    static const cadre_csv_options none;
    cadre_error own;
    if (!error) error = &own;
    *error = (cadre_error){0};
    if (!options) options = &none;
    csv_reader reader = {.input.fd = -1,
                         .delimiter = options->delimiter ? options->delimiter : ','};
    cadre_table *table = calloc(1, sizeof *table);
    if (!path) {
        cadre_error_set(error, CADRE_EINPUT, "no path of a CSV file was given");
        goto done;
    }
    if (!table) {
        cadre_error_set(error, CADRE_EMEMORY, "no memory to read %s", path);
        goto done;
    }
    if (check_delimiter(reader.delimiter, error) < 0) goto done;
    if (cadre_csv_missing_init(&reader.missing, options->missing, error) < 0) goto done;
    if (cadre_csv_open(&reader.input, path, error) < 0) goto done;
    if (read_header(&reader, error) < 0) goto done;
    if (apply_options(&reader, options, error) < 0) goto done;
    if (prepare_columns(&reader, error) < 0) goto done;
    off_t body = reader.input.offset - (reader.input.end - reader.input.at);
    long line = reader.input.line;
    if (read_rows(&reader, error) < 0) goto done;
    if (settle_types(&reader, error) < 0) goto done;
    if (read_again(&reader, body, line, error) < 0) goto done;
    finish_table(&reader, table, error);
done:
    cadre_csv_close(&reader.input);
    cadre_storage_release(&reader.storage);
    free_columns(&reader);
    cadre_buffer_free(&reader.scratch);
    if (error->code < 0) {
        cadre_table_free(table);
        table = NULL;
    }
    return table;
}

cadre_table *cadre_read_csv(const char *path)
{
    cadre_error error;
    cadre_table *table = cadre_read_csv_with(path, NULL, &error);
    if (!table) cadre_raise(&error);
    return table;
}
