/* Private to runtime/data: decimal text to int64 and double, correctly rounded.
 *
 * Eight digits at a time in a 64-bit word (D. Lemire, "Number parsing at a gigabyte per second",
 * 2021, section 3); doubles by an exact product or quotient where one exists (W. D. Clinger, "How
 * to read floating point numbers accurately", 1990), by one of 128 bits for up to 19 digits and
 * powers of ten up to 27, else by the C library.
 */
#ifndef CADRE_DATA_NUMBER_H
#define CADRE_DATA_NUMBER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Bytes after a text that must be readable. */
#define NUMBER_PADDING 16

typedef enum number_kind {
    NUMBER_NONE,     /* not a number */
    NUMBER_WHOLE,    /* integer holds it; -0 is no whole number */
    NUMBER_REAL,     /* real holds it */
    NUMBER_TOO_LARGE /* beyond the largest double */
} number_kind;

typedef struct number {
    number_kind kind;
    int64_t integer;
    double real;
} number;

/* Parses the number at the start of `text`, which ends at the first character that cannot belong
 * to it. Returns where it ends; kind is NUMBER_NONE when there is none. */
const char *cadre_number_scan(const char *text, number *out);

static inline uint64_t number_load(const char *text)
{
    uint64_t word;
    memcpy(&word, text, sizeof word);
    return word;
}

/* High bit of every byte that is no digit, exact up to the first one; `word` is xored with "0"s. */
static inline uint64_t number_stops(uint64_t word)
{
    return ((word + 0x7676767676767676u) | word) & 0x8080808080808080u;
}

/* The value of eight digits, first one in the lowest byte. */
static inline uint64_t number_eight(uint64_t word)
{
    const uint64_t pairs = 0x000000FF000000FFu;
    word = word * 10 + (word >> 8);
    return ((word & pairs) * 0x000F424000000064u + ((word >> 16) & pairs) * 0x0000271000000001u) >>
           32;
}

/* The common case, one to seven digits with or without a minus; NULL: ask cadre_number_scan. */
static inline const char *number_scan_short(const char *text, int64_t *out)
{
    bool negative = *text == '-';
    text += negative;
    uint64_t word = number_load(text) ^ 0x3030303030303030u, stops = number_stops(word);
    unsigned bits = stops ? (unsigned)__builtin_ctzll(stops) & ~7u : 64;
    if (bits == 0 || bits == 64) return NULL;
    int64_t value = (int64_t)number_eight(word << (64 - bits));
    if (negative && value == 0) return NULL;
    *out = negative ? -value : value;
    return text + bits / 8;
}

#endif
