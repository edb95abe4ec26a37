#include "wire/wire.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum step { STEP_VALID, STEP_BROKEN, STEP_BEGUN } step;

/* Looks at the sequence at the start of bytes: *taken is its length, or that of the longest
 * broken start of one, which counts as one U+FFFD (Unicode 3.9, best practice). */
static step utf8_step(const unsigned char *p, size_t length, size_t *taken)
{
    unsigned char low = 0x80, high = 0xbf;
    size_t need;
    *taken = 1;
    if (p[0] < 0x80) return STEP_VALID;
    if (p[0] < 0xc2 || p[0] > 0xf4) return STEP_BROKEN;
    need = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (p[0] == 0xe0) low = 0xa0;
    if (p[0] == 0xed) high = 0x9f;
    if (p[0] == 0xf0) low = 0x90;
    if (p[0] == 0xf4) high = 0x8f;
    for (; *taken < need; ++*taken) {
        if (*taken == length) return STEP_BEGUN;
        if (p[*taken] < low || p[*taken] > high) return STEP_BROKEN;
        low = 0x80;
        high = 0xbf;
    }
    return STEP_VALID;
}

static void escape_ascii(cadre_buffer *buffer, unsigned char c)
{
    static const char letters[32] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    static const char hex[] = "0123456789abcdef";
    char out[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    if (c == '"' || c == '\\')
        out[1] = (char)c;
    else if (letters[c])
        out[1] = letters[c];
    cadre_buffer_append(buffer, out, out[1] == 'u' ? 6 : 2);
}

static size_t append(cadre_buffer *buffer, const char *bytes, size_t length, bool final,
                     bool escaped)
{
    const unsigned char *p = (const unsigned char *)bytes;
    size_t at = 0, plain = 0; /* [plain, at) is valid and not appended yet */
    while (at < length) {
        if (p[at] >= 0x20 && p[at] < 0x80 && p[at] != '"' && p[at] != '\\') {
            at++;
            continue;
        }
        if (p[at] < 0x80) {
            if (escaped) {
                cadre_buffer_append(buffer, bytes + plain, at - plain);
                escape_ascii(buffer, p[at]);
                plain = at + 1;
            }
            at++;
            continue;
        }
        size_t taken;
        step result = utf8_step(p + at, length - at, &taken);
        if (result == STEP_BEGUN && !final) break;
        if (result != STEP_VALID) {
            cadre_buffer_append(buffer, bytes + plain, at - plain);
            cadre_buffer_append(buffer, "\xef\xbf\xbd", 3);
            plain = at + taken;
        }
        at += taken;
    }
    cadre_buffer_append(buffer, bytes + plain, at - plain);
    return at;
}

size_t cadre_utf8_append(cadre_buffer *buffer, const char *bytes, size_t length, bool final)
{
    return append(buffer, bytes, length, final, false);
}

size_t cadre_json_escape(cadre_buffer *buffer, const char *bytes, size_t length, bool final)
{
    return append(buffer, bytes, length, final, true);
}

json_t *cadre_json_string(const char *bytes, size_t length)
{
    cadre_buffer clean = {0};
    json_t *text = json_stringn(bytes, length);
    if (text) return text;
    cadre_utf8_append(&clean, bytes, length, true);
    if (!clean.failed) text = json_stringn_nocheck(clean.data ? clean.data : "", clean.length);
    cadre_buffer_free(&clean);
    return text;
}

static int hex4(const char *p, const char *end)
{
    int value = 0;
    if (end - p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* A string's inside up to its closing quote; returns where it stopped. */
static const char *repair_string(cadre_buffer *out, const char *p, const char *end)
{
    while (p < end && *p != '"') {
        if (*p != '\\') {
            const char *run = p;
            while (p < end && *p != '"' && *p != '\\')
                p++;
            cadre_json_escape(out, run, (size_t)(p - run), true);
        } else if (end - p >= 2 && p[1] == 'u') {
            int unit = hex4(p + 2, end);
            int next = end - p >= 8 && p[6] == '\\' && p[7] == 'u' ? hex4(p + 8, end) : -1;
            if (unit >= 0xd800 && unit < 0xdc00 && next >= 0xdc00 && next < 0xe000) {
                cadre_buffer_append(out, p, 12);
                p += 12;
            } else if (unit >= 0xd800 && unit < 0xe000) {
                cadre_buffer_puts(out, "\\ufffd");
                p += 6;
            } else {
                cadre_buffer_append(out, p, 2);
                p += 2;
            }
        } else {
            size_t taken = end - p >= 2 && p[1] >= 0x20 && p[1] < 0x7f ? 2 : 1;
            cadre_buffer_append(out, p, taken);
            p += taken;
        }
    }
    return p;
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '+' || c == '-';
}

/* Is this word a number that jansson cannot hold, or one of Python's names for none? */
static bool must_be_text(const char *word, size_t length)
{
    char copy[512];
    if (memchr("0123456789", word[0], 10) || (word[0] == '-' && length > 1 && word[1] != 'I')) {
        if (length >= sizeof copy) return true;
        memcpy(copy, word, length);
        copy[length] = 0;
        errno = 0;
        if (strpbrk(copy, ".eE")) return !isfinite(strtod(copy, NULL));
        strtoll(copy, NULL, 10);
        return errno == ERANGE;
    }
    return (length == 3 && memcmp(word, "NaN", 3) == 0) ||
           (length == 8 && memcmp(word, "Infinity", 8) == 0) ||
           (length == 9 && memcmp(word, "-Infinity", 9) == 0);
}

static void repair(cadre_buffer *out, const char *text, size_t length)
{
    const char *p = text, *end = text + length;
    while (p < end) {
        if (*p == '"') {
            cadre_buffer_puts(out, "\"");
            p = repair_string(out, p + 1, end);
            if (p < end) {
                cadre_buffer_puts(out, "\"");
                p++;
            }
        } else if (is_word(*p)) {
            const char *word = p;
            while (p < end && is_word(*p))
                p++;
            bool quoted = must_be_text(word, (size_t)(p - word));
            if (quoted) cadre_buffer_puts(out, "\"");
            cadre_buffer_append(out, word, (size_t)(p - word));
            if (quoted) cadre_buffer_puts(out, "\"");
        } else {
            cadre_buffer_append(out, p++, 1);
        }
    }
}

json_t *cadre_json_parse(const char *text, size_t length, cadre_error *error)
{
    json_error_t problem;
    cadre_buffer repaired = {0};
    json_t *value = json_loadb(text, length, JSON_ALLOW_NUL, &problem);
    if (value) return value;
    repair(&repaired, text, length);
    if (!repaired.failed && repaired.length)
        value = json_loadb(repaired.data, repaired.length, JSON_ALLOW_NUL, &problem);
    cadre_buffer_free(&repaired);
    if (!value)
        cadre_error_set(error, CADRE_EFORMAT, "not JSON (line %d, column %d)", problem.line,
                        problem.column);
    return value;
}
