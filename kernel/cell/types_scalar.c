/* Numbers, characters and strings as text. */
#include "cell/types_internal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A whole number gets a fraction, so that it reads as what it is. */
static void put_real(cadre_buffer *text, const char *digits)
{
    cadre_buffer_puts(text, digits);
    if (!strpbrk(digits, ".einE")) cadre_buffer_puts(text, ".0");
}

static bool put_special(cadre_buffer *text, bool is_nan, bool is_infinite, bool negative)
{
    if (is_nan)
        cadre_buffer_puts(text, negative ? "-nan" : "nan");
    else if (is_infinite)
        cadre_buffer_puts(text, negative ? "-inf" : "inf");
    return is_nan || is_infinite;
}

/* The fewest digits that read back. 15 digits of a normal double always survive, so that %g
 * has the shortest form whenever 15 are enough; of a subnormal one they may be too many. */
void cadre_double_write(cadre_buffer *text, double value)
{
    char digits[64];
    if (put_special(text, isnan(value), isinf(value), signbit(value))) return;
    int precision = fabs(value) < DBL_MIN ? 1 : DBL_DIG;
    for (; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) break;
    }
    put_real(text, digits);
}

static void float_write(cadre_buffer *text, float value)
{
    char digits[64];
    if (put_special(text, isnan(value), isinf(value), signbit(value))) return;
    int precision = fabsf(value) < FLT_MIN ? 1 : FLT_DIG;
    for (; precision <= 9; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, (double)value);
        if (strtof(digits, NULL) == value) break;
    }
    put_real(text, digits);
}

static void long_double_write(cadre_buffer *text, long double value)
{
    char digits[80];
    if (put_special(text, isnan(value), isinf(value), signbit(value))) return;
    int precision = fabsl(value) < LDBL_MIN ? 1 : LDBL_DIG;
    for (; precision <= 21; precision++) {
        snprintf(digits, sizeof digits, "%.*Lg", precision, value);
        if (strtold(digits, NULL) == value) break;
    }
    put_real(text, digits);
}

static void float128_write(cadre_buffer *text, _Float128 value)
{
    char digits[120], format[16];
    if (put_special(text, value != value, value - value != 0, __builtin_signbit((double)value)))
        return;
    for (int precision = 33; precision <= 36; precision++) {
        snprintf(format, sizeof format, "%%.%dg", precision);
        strfromf128(digits, sizeof digits, format, value);
        if (strtof128(digits, NULL) == value) break;
    }
    put_real(text, digits);
}

/* IEEE half precision, widened by hand: not every compiler that builds this has the type. */
static float half_value(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                      : exponent == 0 ? ldexpf((float)fraction, -24)
                                      : ldexpf((float)(fraction + 1024), exponent - 25);
    return bits >> 15 ? -magnitude : magnitude;
}

/* Few digits, as many as tell neighbours of a short format apart. */
static void short_float_write(cadre_buffer *text, float value, int precision)
{
    char digits[64];
    if (put_special(text, isnan(value), isinf(value), signbit(value))) return;
    snprintf(digits, sizeof digits, "%.*g", precision, (double)value);
    put_real(text, digits);
}

static bool real_write(cadre_buffer *text, const char *name, const unsigned char *bytes,
                       size_t size)
{
    if (size == 2) {
        uint16_t bits;
        memcpy(&bits, bytes, 2);
        if (name && strstr(name, "bf16")) {
            uint32_t wide = (uint32_t)bits << 16;
            float value;
            memcpy(&value, &wide, 4);
            short_float_write(text, value, 4);
        } else {
            short_float_write(text, half_value(bits), 5);
        }
        return true;
    }
    if (size == 4) {
        float value;
        memcpy(&value, bytes, 4);
        float_write(text, value);
        return true;
    }
    if (size == 8) {
        double value;
        memcpy(&value, bytes, 8);
        cadre_double_write(text, value);
        return true;
    }
    if (size == 16 && name && strstr(name, "128")) {
        _Float128 value;
        memcpy(&value, bytes, 16);
        float128_write(text, value);
        return true;
    }
    if (size == 16) {
        long double value = 0;
        memcpy(&value, bytes, 10);
        long_double_write(text, value);
        return true;
    }
    return false;
}

static bool complex_write(cadre_buffer *text, const char *name, const unsigned char *bytes,
                          size_t size)
{
    cadre_buffer imaginary = {0};
    bool known = real_write(text, name, bytes, size / 2) &&
                 real_write(&imaginary, name, bytes + size / 2, size / 2);
    if (known && imaginary.data) {
        if (imaginary.data[0] != '-') cadre_buffer_puts(text, "+");
        cadre_buffer_puts(text, imaginary.data);
        cadre_buffer_puts(text, "i");
    }
    cadre_buffer_free(&imaginary);
    return known;
}

void cadre_integer_write(cadre_buffer *text, const unsigned char *bytes, size_t size,
                         bool is_signed)
{
    unsigned __int128 value = 0;
    memcpy(&value, bytes, size < 16 ? size : 16);
    bool negative = is_signed && size && size <= 16 && bytes[size - 1] & 0x80;
    if (negative) {
        if (size < 16) value |= ~(unsigned __int128)0 << (8 * size);
        value = -value;
    }
    char digits[48];
    size_t at = sizeof digits;
    digits[--at] = 0;
    do {
        digits[--at] = (char)('0' + (int)(value % 10));
        value /= 10;
    } while (value);
    if (negative) digits[--at] = '-';
    cadre_buffer_puts(text, digits + at);
}

/* ---- characters ---- */

static bool put_escape(cadre_buffer *text, uint32_t unit, char quote)
{
    static const char letters[] = "\aa\bb\tt\nn\vv\ff\rr";
    if (unit == (unsigned char)quote || unit == '\\') {
        cadre_buffer_printf(text, "\\%c", (char)unit);
        return true;
    }
    for (size_t i = 0; letters[i]; i += 2) {
        if (unit != (unsigned char)letters[i]) continue;
        cadre_buffer_printf(text, "\\%c", letters[i + 1]);
        return true;
    }
    if (unit >= ' ' && unit != 0x7f) return false;
    if (unit == 0)
        cadre_buffer_puts(text, "\\0");
    else
        cadre_buffer_printf(text, "\\x%02x", unit);
    return true;
}

static void put_utf8(cadre_buffer *text, uint32_t point)
{
    unsigned char bytes[4];
    size_t length = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    if (length == 1) {
        bytes[0] = (unsigned char)point;
    } else {
        for (size_t i = length - 1; i > 0; i--, point >>= 6)
            bytes[i] = (unsigned char)(0x80 | (point & 0x3f));
        bytes[0] = (unsigned char)(0xf00 >> length | point);
    }
    cadre_buffer_append(text, bytes, length);
}

static bool is_scalar_value(uint32_t point)
{
    return point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
}

/* C1 controls would reach a terminal as commands. */
static bool is_printable(uint32_t point)
{
    return point >= 0xa0 && is_scalar_value(point);
}

/* Length of the valid UTF-8 sequence at `bytes`, 0: none. */
static size_t utf8_length(const unsigned char *bytes, size_t left, uint32_t *point)
{
    size_t length = bytes[0] < 0x80   ? 1
                    : bytes[0] < 0xc2 ? 0
                    : bytes[0] < 0xe0 ? 2
                    : bytes[0] < 0xf0 ? 3
                    : bytes[0] < 0xf5 ? 4
                                      : 0;
    if (!length || length > left) return 0;
    uint32_t value = length == 1 ? bytes[0] : bytes[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80) return 0;
        value = value << 6 | (bytes[i] & 0x3f);
    }
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (value < smallest[length] || !is_scalar_value(value)) return 0;
    *point = value;
    return length;
}

static uint32_t unit_at(const unsigned char *units, size_t index, size_t width)
{
    uint32_t unit = 0;
    memcpy(&unit, units + index * width, width);
    return unit;
}

static const char *prefix_of(size_t width)
{
    return width == 4 ? "L" : width == 2 ? "u" : "";
}

void cadre_character_write(cadre_buffer *text, uint32_t unit, size_t width)
{
    cadre_buffer_printf(text, "%s'", prefix_of(width));
    if (!put_escape(text, unit, '\'')) {
        if (unit < 0x80 || (width > 1 && is_printable(unit)))
            put_utf8(text, unit);
        else
            cadre_buffer_printf(text, "\\x%02x", unit);
    }
    cadre_buffer_puts(text, "'");
}

void cadre_string_write(cadre_buffer *text, const unsigned char *units, size_t count, size_t width,
                        bool cut)
{
    cadre_buffer_printf(text, "%s\"", prefix_of(width));
    for (size_t i = 0; i < count;) {
        uint32_t unit = unit_at(units, i, width), point = unit;
        size_t length = 1;
        if (width == 1) {
            length = utf8_length(units + i, count - i, &point);
            /* The cut may have gone through a character: its rest is left out. */
            if (!length && cut && count - i < 4 && unit >= 0xc2) break;
        } else if (width == 2 && unit >= 0xd800 && unit < 0xdc00 && i + 1 < count) {
            uint32_t low = unit_at(units, i + 1, width);
            if (low >= 0xdc00 && low < 0xe000) {
                point = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                length = 2;
            }
        }
        if (length && put_escape(text, point, '"')) {
            i += length;
        } else if (length && (point < 0x80 || is_printable(point))) {
            put_utf8(text, point);
            i += length;
        } else {
            cadre_buffer_printf(text, "\\x%02x", unit);
            i++;
        }
    }
    cadre_buffer_puts(text, "\"");
    if (cut) cadre_buffer_puts(text, "…");
}

bool cadre_scalar_write(cadre_buffer *text, unsigned encoding, const char *name,
                        const unsigned char *bytes, size_t size)
{
    switch (encoding) {
    case DW_ATE_boolean: {
        bool any = false;
        for (size_t i = 0; i < size; i++)
            any |= bytes[i] != 0;
        cadre_buffer_puts(text, any ? "true" : "false");
        return true;
    }
    case DW_ATE_signed_char:
    case DW_ATE_unsigned_char:
        /* `signed char` and `unsigned char` are numbers; plain char may be either. */
        if (size == 1 && name && !strcmp(name, "char")) {
            cadre_character_write(text, bytes[0], 1);
            return true;
        }
        cadre_integer_write(text, bytes, size, encoding == DW_ATE_signed_char);
        return true;
    case DW_ATE_signed: cadre_integer_write(text, bytes, size, true); return true;
    case DW_ATE_unsigned: cadre_integer_write(text, bytes, size, false); return true;
    case DW_ATE_UTF:
        if (size <= 4) cadre_character_write(text, unit_at(bytes, 0, size), size);
        return size <= 4;
    case DW_ATE_float: return real_write(text, name, bytes, size);
    case DW_ATE_complex_float: return complex_write(text, name, bytes, size);
    case DW_ATE_lo_user: { /* gcc's complex integers */
        cadre_integer_write(text, bytes, size / 2, true);
        bool negative = bytes[size - 1] & 0x80;
        if (!negative) cadre_buffer_puts(text, "+");
        cadre_integer_write(text, bytes + size / 2, size / 2, true);
        cadre_buffer_puts(text, "i");
        return true;
    }
    default: return false;
    }
}
