#include "base/text.h"

#include <string.h>

bool cadre_text_is_utf8(const char *text, size_t length)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + length;
    while (at < end) {
        if (*at < 0x80) {
            at++;
            continue;
        }
        unsigned more = *at >= 0xF0 ? 3 : *at >= 0xE0 ? 2 : 1;
        uint32_t code = *at & (0x3Fu >> more);
        if (*at < 0xC2 || *at > 0xF4 || (size_t)(end - at) <= more) return false;
        for (unsigned i = 1; i <= more; i++) {
            if ((at[i] & 0xC0) != 0x80) return false;
            code = code << 6 | (at[i] & 0x3F);
        }
        static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
        if (code < least[more] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
            return false;
        at += more + 1;
    }
    return true;
}

void cadre_buffer_json_string(cadre_buffer *buffer, const char *text)
{
    cadre_buffer_puts(buffer, "\"");
    while (*text) {
        size_t plain = 0;
        while ((unsigned char)text[plain] >= ' ' && text[plain] != '"' && text[plain] != '\\')
            plain++;
        cadre_buffer_append(buffer, text, plain);
        text += plain;
        if (!*text) break;
        if (*text == '"' || *text == '\\')
            cadre_buffer_printf(buffer, "\\%c", *text);
        else
            cadre_buffer_printf(buffer, "\\u%04x", (unsigned)*text);
        text++;
    }
    cadre_buffer_puts(buffer, "\"");
}
