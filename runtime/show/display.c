/* Displays: a MIME bundle to the notebook, its plain text to stdout where there is none. */
#include "base/error_handler.h"
#include "show/channel.h"
#include "show/show.h"

#include <stdio.h>
#include <string.h>

static int print_plain(json_t *data)
{
    const char *plain = json_string_value(json_object_get(data, "text/plain"));
    if (!plain) {
        const char *mime = json_object_iter_key(json_object_iter(data));
        printf("<%s>\n", mime ? mime : "nothing to show");
    } else {
        fputs(plain, stdout);
        if (*plain && plain[strlen(plain) - 1] != '\n') putchar('\n');
    }
    return fflush(stdout) == 0 ? CADRE_OK : CADRE_ESYSTEM;
}

/* Steals data. */
static int show(const char *kind, json_t *data, const char *display_id)
{
    cadre_error error = {0};
    if (!data) {
        cadre_error_set(&error, CADRE_EMEMORY, "no memory for a display");
        return cadre_raise(&error);
    }
    int status;
    if (!cadre_channel_is_open()) {
        status = print_plain(data);
        json_decref(data);
        return status;
    }
    json_t *packet = cadre_channel_packet(kind, data, display_id);
    if (!packet) return CADRE_EMEMORY;
    status = cadre_channel_send(packet, &error);
    json_decref(packet);
    return status;
}

static int show_bundle(const char *kind, const char *bundle_json, const char *display_id)
{
    cadre_error error = {0};
    json_error_t where;
    json_t *data = json_loads(bundle_json ? bundle_json : "", 0, &where);
    if (!json_is_object(data) || json_object_size(data) == 0) {
        if (data)
            cadre_error_set(&error, CADRE_EINPUT,
                            "a display needs a JSON object of MIME types and values, such as "
                            "{\"text/plain\": \"done\"}");
        else
            cadre_error_set(&error, CADRE_EINPUT, "a display needs JSON: line %d, column %d: %s",
                            where.line, where.column, where.text);
        json_decref(data);
        return cadre_raise(&error);
    }
    return show(kind, data, display_id);
}

int cadre_display_bundle(const char *bundle_json, const char *display_id)
{
    return show_bundle("display", bundle_json, display_id);
}

int cadre_display_update(const char *bundle_json, const char *display_id)
{
    if (!display_id || !*display_id) {
        cadre_error error = {0};
        cadre_error_set(&error, CADRE_EINPUT,
                        "cadre_display_update needs the display_id of the display to replace");
        return cadre_raise(&error);
    }
    return show_bundle("update", bundle_json, display_id);
}

int cadre_display_html(const char *html, const char *plain)
{
    json_t *data = json_object();
    json_object_set_new(data, "text/html", cadre_channel_text(html ? html : ""));
    json_object_set_new(data, "text/plain", cadre_channel_text(plain ? plain : ""));
    return show("display", data, NULL);
}

int cadre_display_clear(bool wait)
{
    if (!cadre_channel_is_open()) return CADRE_OK;
    json_t *packet = json_pack("{s:s, s:b}", "kind", "clear", "wait", wait);
    if (!packet) return CADRE_EMEMORY;
    int status = cadre_channel_send(packet, NULL);
    json_decref(packet);
    return status;
}
