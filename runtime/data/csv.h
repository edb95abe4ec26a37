/* Private to runtime/data: reading CSV in one pass over a window of the file.
 *
 * csv_input.c   bytes: the file, a window of it, positions for messages
 * csv_field.c   one field: quotes, missing values
 * csv_column.c  values of one column: stored, promoted
 * csv.c         rows, header, options, the finished table
 */
#ifndef CADRE_DATA_CSV_H
#define CADRE_DATA_CSV_H

#include <emmintrin.h>
#include <sys/types.h>

#include "data/table.h"

#define CSV_WINDOW ((size_t)1 << 20)    /* bytes read at once */
#define CSV_ROW_LIMIT ((size_t)1 << 26) /* bytes of one row */
#define CSV_COLUMN_LIMIT 65536
#define CSV_PADDING 64 /* NULs behind the window: scanners read ahead and stop there */

typedef struct csv_input {
    const char *path;
    int fd;
    off_t size, offset; /* of the file; of the next byte to read */
    char *window;
    size_t capacity;
    const char *at, *end; /* the unread part of the window; *end is NUL */
    bool at_end;          /* the window holds the rest of the file */
    long line;            /* of *at, from 1 */
} csv_input;

/* Opens a file for reading; what is not a regular file (a pipe) is copied to memory first. */
int cadre_csv_open(csv_input *input, const char *path, cadre_error *error);
/* Goes to a position, the start of `line`. */
void cadre_csv_seek(csv_input *input, off_t offset, long line);
/* Moves the unread part to the front and reads on; ends the last line if the file does not. */
int cadre_csv_refill(csv_input *input, cadre_error *error);
/* At least as many as the file has rows: its newlines, those inside of quotes too, and one. */
int cadre_csv_count_lines(const csv_input *input, size_t *lines, cadre_error *error);
/* Error at a byte of the row that starts at input->at. */
int cadre_csv_fail(const csv_input *input, int code, const char *where, cadre_error *error,
                   const char *format, ...) __attribute__((format(printf, 5, 6)));
void cadre_csv_close(csv_input *input);

/* What the texts for a missing value are. */
typedef struct csv_missing {
    const char *const *texts;
    size_t lengths[64], count, longest;
    bool starts[256]; /* first characters; [0] for the empty text */
} csv_missing;

int cadre_csv_missing_init(csv_missing *missing, const char *const *texts, cadre_error *error);
bool cadre_csv_is_missing_text(const csv_missing *missing, const char *text, size_t length);

static inline bool csv_is_missing(const csv_missing *missing, const char *text, size_t length)
{
    return length <= missing->longest && missing->starts[length ? (unsigned char)*text : 0] &&
           cadre_csv_is_missing_text(missing, text, length);
}

typedef struct csv_field {
    const char *text; /* NUMBER_PADDING bytes behind it are readable */
    size_t length;
    bool quoted;
} csv_field;

typedef enum csv_status {
    CSV_OK,
    CSV_MORE,  /* the window ends inside the row */
    CSV_FAILED /* *error says why */
} csv_status;

/* The field at *at; *at is then at the character that ends it: delimiter, newline or "\r\n". */
csv_status cadre_csv_field(const csv_input *input, char delimiter, const char **at,
                           cadre_buffer *scratch, csv_field *field, cadre_error *error);

/* The first delimiter, newline, carriage return or NUL from `at` on. */
static inline const char *csv_scan(const char *at, char delimiter)
{
    const __m128i stop = _mm_set1_epi8(delimiter), control = _mm_set1_epi8('\r');
    for (;;) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)at);
        __m128i hits = _mm_or_si128(_mm_cmpeq_epi8(bytes, stop),
                                    _mm_cmpeq_epi8(bytes, _mm_min_epu8(bytes, control)));
        unsigned mask = (unsigned)_mm_movemask_epi8(hits);
        if (!mask) {
            at += 16;
            continue;
        }
        at += __builtin_ctz(mask);
        if (*at == delimiter || *at == '\n' || *at == '\r' || !*at) return at;
        at++; /* another control character, a tab for example */
    }
}

typedef enum csv_kind {
    CSV_EMPTY, /* nothing but missing values so far, stored as whole numbers */
    CSV_WHOLE,
    CSV_REAL,
    CSV_TEXT,
    CSV_SKIP /* text after all: read in a second pass; or done in the first */
} csv_kind;

typedef struct csv_column {
    char *name;
    csv_kind kind;
    bool keep_text, want_number;
    bool again;                            /* to be read as text in a second pass */
    cadre_column_type type;                /* settled after the first pass */
    long too_large_line, too_large_column; /* of the first number beyond double; 0: none */
    union {
        int64_t *wholes;
        double *reals;
        int32_t *levels;
        void *bytes;
    } values; /* in the storage */
    dictionary dictionary;
} csv_column;

typedef struct csv_reader {
    csv_input input;
    char delimiter;
    csv_missing missing;
    csv_column *columns;
    size_t column_count;
    table_storage storage;  /* becomes the table's */
    size_t rows, row_limit; /* those read; those there is room for */
    cadre_buffer scratch;
} csv_reader;

/* Stores a field that is not the plain case; `where` is its first byte in the file. */
int cadre_csv_store(csv_reader *reader, csv_column *column, const csv_field *field,
                    const char *where, cadre_error *error);
/* From whole numbers to doubles, those already stored too. */
void cadre_csv_promote(const csv_reader *reader, csv_column *column);

#endif
