/* Text on its way into JSON and HTML: what users print may be anything. */
#include "show/channel.h"

#include <string.h>

size_t cadre_utf8_length(const char *text, size_t length)
{
    const unsigned char *byte = (const unsigned char *)text;
    if (length == 0) return 0;
    if (byte[0] < 0x80) return 1;
    size_t need = byte[0] >= 0xf0 ? 4 : byte[0] >= 0xe0 ? 3 : 2;
    if (byte[0] < 0xc2 || byte[0] > 0xf4 || length < need) return 0;
    for (size_t i = 1; i < need; i++)
        if ((byte[i] & 0xc0) != 0x80) return 0;
    /* Too long a form, surrogates, beyond U+10FFFF. */
    if (byte[0] == 0xe0 && byte[1] < 0xa0) return 0;
    if (byte[0] == 0xed && byte[1] > 0x9f) return 0;
    if (byte[0] == 0xf0 && byte[1] < 0x90) return 0;
    if (byte[0] == 0xf4 && byte[1] > 0x8f) return 0;
    return need;
}

size_t cadre_utf8_columns(const char *text)
{
    size_t columns = 0;
    for (; *text; text++)
        columns += ((unsigned char)*text & 0xc0) != 0x80;
    return columns;
}

static void append_clean(cadre_buffer *buffer, const char *text, size_t length)
{
    size_t start = 0, at = 0;
    while (at < length) {
        size_t step = cadre_utf8_length(text + at, length - at);
        if (step) {
            at += step;
            continue;
        }
        cadre_buffer_append(buffer, text + start, at - start);
        cadre_buffer_puts(buffer, "\xef\xbf\xbd");
        start = ++at;
    }
    cadre_buffer_append(buffer, text + start, at - start);
}

json_t *cadre_channel_text(const char *text)
{
    json_t *string = json_string(text);
    if (string) return string;
    cadre_buffer clean = {0};
    append_clean(&clean, text, strlen(text));
    if (!clean.failed && clean.data) string = json_string(clean.data);
    cadre_buffer_free(&clean);
    return string;
}

void cadre_html_escape(cadre_buffer *html, const char *text)
{
    for (;;) {
        size_t plain = strcspn(text, "&<>\"'");
        cadre_buffer_append(html, text, plain);
        text += plain;
        switch (*text++) {
        case 0: return;
        case '&': cadre_buffer_puts(html, "&amp;"); break;
        case '<': cadre_buffer_puts(html, "&lt;"); break;
        case '>': cadre_buffer_puts(html, "&gt;"); break;
        case '"': cadre_buffer_puts(html, "&quot;"); break;
        default: cadre_buffer_puts(html, "&#39;"); break;
        }
    }
}
