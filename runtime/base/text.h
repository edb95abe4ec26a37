/* Text in UTF-8 and as JSON. For Cadre's own modules. */
#ifndef CADRE_TEXT_H
#define CADRE_TEXT_H

#include "base.h"

/* Whether all of it is well-formed UTF-8 (RFC 3629: no surrogates, no overlong forms). */
bool cadre_text_is_utf8(const char *text, size_t length);
/* Appends a JSON string of `text`, which is UTF-8, quotes included. jansson's dump loses a key
 * without a word when there is no memory for it; here the buffer's `failed` tells. */
void cadre_buffer_json_string(cadre_buffer *buffer, const char *text);

#endif
