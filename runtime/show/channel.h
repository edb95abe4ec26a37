/* The display channel as the modules of show/ and notebook/ use it. Private to the runtime. */
#ifndef CADRE_SHOW_CHANNEL_H
#define CADRE_SHOW_CHANNEL_H

#include "base/base.h"

#include <jansson.h>

/* What the display_id of a progress bar begins with. */
#define CADRE_PROGRESS_ID "cadre-progress-"

bool cadre_channel_is_open(void);

/* Sends one packet (borrowed) and waits until it is published, at most 5 s. */
int cadre_channel_send(json_t *packet, cadre_error *error);

/* Sends one packet and waits for the text that the kernel answers with, at most 5 s. New; NULL:
 * *error says why. */
char *cadre_channel_ask(json_t *packet, cadre_error *error);

/* Sends without waiting. *pending: -1, or the answer still expected from the call before; while
 * that is outstanding nothing is sent and CADRE_ETIMEOUT is returned. Close it at the end with
 * cadre_channel_settle, which waits for it. */
int cadre_channel_post(json_t *packet, int *pending, cadre_error *error);
void cadre_channel_settle(int *pending);

/* {"kind": kind, "data": data, "metadata": {}, "display_id": ...}; new; steals data. */
json_t *cadre_channel_packet(const char *kind, json_t *data, const char *display_id);

/* A JSON string of `text`, new, with U+FFFD for each byte that is not UTF-8. */
json_t *cadre_channel_text(const char *text);
/* Appends text with & < > " ' escaped. */
void cadre_html_escape(cadre_buffer *html, const char *text);
/* The length of the well-formed UTF-8 character that begins at text[0], 0: none does. */
size_t cadre_utf8_length(const char *text, size_t length);
/* Columns that the text takes in a terminal, counted as one per character. */
size_t cadre_utf8_columns(const char *text);

#endif
