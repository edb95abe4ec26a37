#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int set_at(cadre_error *error, int code, const char *file, long line, long column,
                  const char *format, va_list arguments)
{
    if (!error) return code;
    size_t used = 0, size = sizeof error->message;
    error->code = code;
    error->line = line;
    error->column = column;
    snprintf(error->file, sizeof error->file, "%s", file ? file : "");
    error->message[0] = 0;
    if (file && line > 0 && column > 0)
        used = (size_t)snprintf(error->message, size, "%s:%ld:%ld: ", file, line, column);
    else if (file && line > 0)
        used = (size_t)snprintf(error->message, size, "%s:%ld: ", file, line);
    else if (file)
        used = (size_t)snprintf(error->message, size, "%s: ", file);
    if (used < size) vsnprintf(error->message + used, size - used, format, arguments);
    return code;
}

int cadre_error_set(cadre_error *error, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    set_at(error, code, NULL, 0, 0, format, arguments);
    va_end(arguments);
    return code;
}

int cadre_error_set_at(cadre_error *error, int code, const char *file, long line, long column,
                       const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    set_at(error, code, file, line, column, format, arguments);
    va_end(arguments);
    return code;
}

static bool reserve(cadre_buffer *buffer, size_t more)
{
    if (buffer->failed) return false;
    if (more > SIZE_MAX / 2 - buffer->length - 1) {
        buffer->failed = true;
        return false;
    }
    size_t need = buffer->length + more + 1;
    if (need <= buffer->capacity) return true;
    size_t capacity = buffer->capacity ? buffer->capacity : 64;
    while (capacity < need)
        capacity *= 2;
    char *data = realloc(buffer->data, capacity);
    if (!data) {
        buffer->failed = true;
        return false;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void cadre_buffer_append(cadre_buffer *buffer, const void *bytes, size_t length)
{
    if (!reserve(buffer, length)) return;
    if (length) memcpy(buffer->data + buffer->length, bytes, length);
    buffer->length += length;
    buffer->data[buffer->length] = 0;
}

void cadre_buffer_puts(cadre_buffer *buffer, const char *text)
{
    cadre_buffer_append(buffer, text, strlen(text));
}

void cadre_buffer_vprintf(cadre_buffer *buffer, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0) {
        buffer->failed = true;
        return;
    }
    if (!reserve(buffer, (size_t)length)) return;
    vsnprintf(buffer->data + buffer->length, (size_t)length + 1, format, arguments);
    buffer->length += (size_t)length;
}

void cadre_buffer_printf(cadre_buffer *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    cadre_buffer_vprintf(buffer, format, arguments);
    va_end(arguments);
}

void cadre_buffer_clear(cadre_buffer *buffer)
{
    buffer->length = 0;
    buffer->failed = false;
    if (buffer->data) buffer->data[0] = 0;
}

void cadre_buffer_free(cadre_buffer *buffer)
{
    free(buffer->data);
    *buffer = (cadre_buffer){0};
}

char *cadre_buffer_steal(cadre_buffer *buffer)
{
    if (!buffer->failed) cadre_buffer_append(buffer, "", 0);
    char *data = buffer->failed ? NULL : buffer->data;
    if (!data) free(buffer->data);
    *buffer = (cadre_buffer){0};
    return data;
}
