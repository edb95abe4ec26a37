#include "data/number.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>

static const double exact_powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                      1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                      1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static const uint64_t whole_powers[] = {1,      10,      100,      1000,     10000,
                                        100000, 1000000, 10000000, 100000000};

/* 5^27 is the largest power of five below 2^63. */
static const uint64_t fives[] = {1u,
                                 5u,
                                 25u,
                                 125u,
                                 625u,
                                 3125u,
                                 15625u,
                                 78125u,
                                 390625u,
                                 1953125u,
                                 9765625u,
                                 48828125u,
                                 244140625u,
                                 1220703125u,
                                 6103515625u,
                                 30517578125u,
                                 152587890625u,
                                 762939453125u,
                                 3814697265625u,
                                 19073486328125u,
                                 95367431640625u,
                                 476837158203125u,
                                 2384185791015625u,
                                 11920928955078125u,
                                 59604644775390625u,
                                 298023223876953125u,
                                 1490116119384765625u,
                                 7450580596923828125u};

/* top * 2^exponent, a little more when `more`, to the nearest double, ties to even. top has its
 * high bit set; the result must be a normal number. */
static double round_to_double(uint64_t top, bool more, int exponent)
{
    uint64_t mantissa = top >> 11, dropped = top & 0x7FF;
    mantissa += dropped > 0x400 || (dropped == 0x400 && (more || (mantissa & 1)));
    uint64_t bits = (uint64_t)(exponent + 11 + 1023) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return (double)mantissa * scale;
}

/* mantissa * 10^exponent, rounded once, for any mantissa and |exponent| <= 27: the product with a
 * power of five fits 128 bits, a quotient by one is known with its remainder. */
static double compose_wide(uint64_t mantissa, int exponent)
{
    int zeros = __builtin_clzll(mantissa);
    if (exponent >= 0) {
        __uint128_t product = (__uint128_t)(mantissa << zeros) * fives[exponent];
        uint64_t top = (uint64_t)(product >> 64);
        int shift = top ? __builtin_clzll(top) : 64;
        product <<= shift;
        return round_to_double((uint64_t)(product >> 64), (uint64_t)product != 0,
                               exponent - zeros + 64 - shift);
    }
    uint64_t divisor = fives[-exponent];
    int divisor_zeros = __builtin_clzll(divisor);
    divisor <<= divisor_zeros;
    __uint128_t dividend = (__uint128_t)(mantissa << zeros) << 63;
    uint64_t quotient = (uint64_t)(dividend / divisor);
    bool more = (__uint128_t)quotient * divisor != dividend;
    int shift = __builtin_clzll(quotient);
    return round_to_double(quotient << shift, more, exponent - zeros - 63 + divisor_zeros - shift);
}

static bool compose(uint64_t mantissa, int exponent, double *out)
{
    if (mantissa >> 53 == 0 && exponent >= -22 && exponent <= 22) {
        double value = (double)mantissa;
        *out = exponent < 0 ? value / exact_powers[-exponent] : value * exact_powers[exponent];
        return true;
    }
    if (!mantissa || exponent < -27 || exponent > 27) return false;
    *out = compose_wide(mantissa, exponent);
    return true;
}

/* Digits from `text` on into *value; at most 19 in all fit, `*digits` counts those that are not
 * leading zeros. */
static const char *scan_digits(const char *text, uint64_t *value, unsigned *digits)
{
    for (;;) {
        uint64_t word = number_load(text) ^ 0x3030303030303030u, stops = number_stops(word);
        unsigned count = stops ? (unsigned)__builtin_ctzll(stops) / 8 : 8;
        if (count) {
            unsigned zeros = !word ? 8 : (unsigned)__builtin_ctzll(word) / 8;
            *digits += *value ? count : count - (zeros < count ? zeros : count);
            *value = *value * whole_powers[count] + number_eight(word << (64 - 8 * count));
            text += count;
        }
        if (count < 8) return text;
    }
}

/* The C library's strtod reads the decimal point of the program's locale; ours is always a dot. */
static double slow_real(const char *text)
{
    static locale_t plain; /* made once, kept; a lost race makes a second that is freed */
    locale_t locale = __atomic_load_n(&plain, __ATOMIC_ACQUIRE);
    if (!locale) {
        locale_t fresh = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        if (!fresh) return strtod(text, NULL);
        if (__atomic_compare_exchange_n(&plain, &locale, fresh, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            locale = fresh;
        else
            freelocale(fresh);
    }
    return strtod_l(text, NULL, locale);
}

/* "e+12" behind a mantissa; anything else is left alone. */
static const char *scan_exponent(const char *text, int *exponent)
{
    if ((*text | 32) != 'e') return text;
    const char *at = text + 1;
    bool negative = *at == '-';
    if (*at == '-' || *at == '+') at++;
    if (*at < '0' || *at > '9') return text;
    int value = 0;
    for (; *at >= '0' && *at <= '9'; at++)
        if (value < 100000) value = 10 * value + (*at - '0');
    *exponent += negative ? -value : value;
    return at;
}

/* inf and infinity, in any case. */
static const char *scan_infinity(const char *text, bool negative, number *out)
{
    static const char word[] = "infinity";
    unsigned length = 0;
    while (length < 8 && (text[length] | 32) == word[length])
        length++;
    if (length < 3) return text;
    out->kind = NUMBER_REAL;
    out->real = negative ? -HUGE_VAL : HUGE_VAL;
    return text + (length < 8 ? 3 : 8);
}

const char *cadre_number_scan(const char *text, number *out)
{
    const char *start = text;
    bool negative = *text == '-';
    uint64_t mantissa = 0;
    unsigned digits = 0;
    int exponent = 0;
    out->kind = NUMBER_NONE;
    if (*text == '-' || *text == '+') text++;
    if ((*text | 32) == 'i') return scan_infinity(text, negative, out);
    const char *whole = text;
    text = scan_digits(text, &mantissa, &digits);
    long count = text - whole;
    bool real = false;
    if (*text == '.') {
        const char *fraction = text + 1;
        text = scan_digits(fraction, &mantissa, &digits);
        long places = text - fraction;
        count += places;
        exponent = places > 100000 ? -100000 : -(int)places;
        real = true;
    }
    if (!count) return start;
    const char *end = scan_exponent(text, &exponent);
    real = real || end != text;
    if (!real && digits <= 19 && mantissa <= INT64_MAX && !(negative && !mantissa)) {
        out->kind = NUMBER_WHOLE;
        out->integer = negative ? -(int64_t)mantissa : (int64_t)mantissa;
        return end;
    }
    out->kind = NUMBER_REAL;
    if (digits <= 19 && compose(mantissa, exponent, &out->real)) {
        if (negative) out->real = -out->real;
        return end;
    }
    out->real = slow_real(start);
    if (isinf(out->real)) out->kind = NUMBER_TOO_LARGE;
    return end;
}
