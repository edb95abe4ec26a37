/* A worker's value for its controller. */
#include "base/error_handler.h"
#include "notebook/document.h"
#include "notebook/notebook.h"
#include "show/channel.h"

#include <stdio.h>
#include <stdlib.h>

int cadre_notebook_return(const char *json)
{
    cadre_error error = {0};
    json_error_t where;
    json_t *value = json_loads(json ? json : "", JSON_DECODE_ANY, &where);
    if (!value) {
        cadre_error_set(&error, CADRE_EINPUT,
                        "cadre_notebook_return needs JSON: line %d, column %d: %s", where.line,
                        where.column, where.text);
        return cadre_raise(&error);
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    int status = CADRE_EMEMORY;
    if (text && !cadre_channel_is_open()) {
        status = printf("%s\n", text) < 0 ? CADRE_ESYSTEM : CADRE_OK;
    } else if (text) {
        json_t *data = json_pack("{s:O, s:s}", CADRE_RETURN_MIME, value, "text/plain", text);
        json_t *packet = cadre_channel_packet("return", data, NULL);
        if (packet) status = cadre_channel_send(packet, &error);
        json_decref(packet);
        /* Unlike a picture, a value that does not arrive is missed by somebody. */
        if (status < 0) cadre_raise(&error);
    }
    free(text);
    json_decref(value);
    return status;
}
