/* cadre_show: values in the middle of a cell, and as text where nobody knows their types. */
#include "show/channel.h"
#include "show/show.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static void put_float(cadre_buffer *text, const void *value, size_t size)
{
    char shown[64] = "";
    if (size == sizeof(float)) {
        float number;
        memcpy(&number, value, sizeof number);
        for (int digits = 1; digits <= 9; digits++) {
            snprintf(shown, sizeof shown, "%.*g", digits, (double)number);
            if (strtof(shown, NULL) == number) break;
        }
    } else if (size == sizeof(double)) {
        double number;
        memcpy(&number, value, sizeof number);
        for (int digits = 1; digits <= 17; digits++) {
            snprintf(shown, sizeof shown, "%.*g", digits, number);
            if (strtod(shown, NULL) == number) break;
        }
    } else {
        long double number;
        memcpy(&number, value, sizeof number);
        for (int digits = 1; digits <= 21; digits++) {
            snprintf(shown, sizeof shown, "%.*Lg", digits, number);
            if (strtold(shown, NULL) == number) break;
        }
    }
    cadre_buffer_puts(text, shown);
    if (!shown[strcspn(shown, ".en")]) cadre_buffer_puts(text, ".0");
}

static void put_quoted(cadre_buffer *text, char quote, const char *bytes, size_t length)
{
    cadre_buffer_append(text, &quote, 1);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c == (unsigned char)quote || c == '\\')
            cadre_buffer_printf(text, "\\%c", c);
        else if (c == '\n')
            cadre_buffer_puts(text, "\\n");
        else if (c == '\t')
            cadre_buffer_puts(text, "\\t");
        else if (c < 32 || c == 127)
            cadre_buffer_printf(text, "\\%03o", c);
        else
            cadre_buffer_append(text, &bytes[i], 1);
    }
    cadre_buffer_append(text, &quote, 1);
}

/* An integer of any size, widened. */
static unsigned long long widen(const void *value, size_t size, bool is_signed)
{
    unsigned long long number = 0;
    memcpy(&number, value, size < sizeof number ? size : sizeof number);
    unsigned shift = size < sizeof number ? (unsigned)(64 - 8 * size) : 0;
    return is_signed && shift ? (unsigned long long)((long long)(number << shift) >> shift)
                              : number;
}

char *cadre_value_text(const void *value, size_t size, int kind)
{
    cadre_buffer text = {0};
    const char *string;
    switch (kind) {
    case CADRE_KIND_BOOL:
        cadre_buffer_puts(&text, widen(value, size, false) ? "true" : "false");
        break;
    case CADRE_KIND_CHAR: put_quoted(&text, '\'', value, 1); break;
    case CADRE_KIND_SIGNED:
        cadre_buffer_printf(&text, "%lld", (long long)widen(value, size, true));
        break;
    case CADRE_KIND_UNSIGNED: cadre_buffer_printf(&text, "%llu", widen(value, size, false)); break;
    case CADRE_KIND_FLOAT: put_float(&text, value, size); break;
    case CADRE_KIND_STRING:
        memcpy(&string, value, sizeof string);
        if (string)
            put_quoted(&text, '"', string, strlen(string));
        else
            cadre_buffer_puts(&text, "NULL");
        break;
    default: cadre_buffer_printf(&text, "{%zu bytes}", size);
    }
    return cadre_buffer_steal(&text);
}

/* The object's own bundle: of a table, a report. */
static json_t *bundle_of(const void *value, size_t size, cadre_bundle_function bundle)
{
    const void *object = NULL;
    if (!bundle || size != sizeof object) return NULL;
    memcpy(&object, value, sizeof object);
    char *json = object ? bundle(object) : NULL;
    json_t *data = json ? json_loads(json, 0, NULL) : NULL;
    free(json);
    return data;
}

void cadre_show_value_of(const char *label, const void *value, size_t size, int kind,
                         cadre_bundle_function bundle, const char *variable)
{
    json_t *data = bundle_of(value, size, bundle);
    bool is_plain = !data;
    if (!data) {
        char *text = cadre_value_text(value, size, kind);
        data = json_pack("{s:o}", "text/plain", cadre_channel_text(text ? text : ""));
        free(text);
    }
    if (!cadre_channel_is_open()) {
        const char *plain = json_string_value(json_object_get(data, "text/plain"));
        printf("%s\n", plain ? plain : "");
        fflush(stdout);
        json_decref(data);
        return;
    }
    json_t *packet = cadre_channel_packet("display", data, NULL);
    if (packet && is_plain && label) {
        char address[32];
        snprintf(address, sizeof address, "%llx", (unsigned long long)(uintptr_t)value);
        json_object_set_new(packet, "kind", json_string("value"));
        json_object_set_new(packet, "label", cadre_channel_text(label));
        json_object_set_new(packet, "variable", cadre_channel_text(variable));
        json_object_set_new(packet, "address", json_string(address));
        json_object_set_new(packet, "size", json_integer((json_int_t)size));
        json_object_set_new(packet, "pid", json_integer(getpid()));
    }
    if (packet) (void)cadre_channel_send(packet, NULL);
    json_decref(packet);
}

void cadre_show_value(const void *value, size_t size, int kind, cadre_bundle_function bundle,
                      const char *variable)
{
    cadre_show_value_of(NULL, value, size, kind, bundle, variable);
}

/* In a kernel the host has a function of its own in this one's place. */
char *cadre_read_password(const char *prompt)
{
    struct termios before, quiet;
    bool is_terminal = tcgetattr(STDIN_FILENO, &before) == 0;
    char *line = NULL;
    size_t room = 0;
    if (is_terminal) {
        quiet = before;
        quiet.c_lflag &= ~(tcflag_t)ECHO;
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
        fprintf(stderr, "%s", prompt ? prompt : "");
    }
    ssize_t length = getline(&line, &room, stdin);
    if (is_terminal) {
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
        fputs("\n", stderr);
    }
    if (length < 0) {
        free(line);
        return NULL;
    }
    line[strcspn(line, "\r\n")] = 0;
    return line;
}
