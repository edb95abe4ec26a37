/* Connection files: read, or refused with a message that names the file. */
#include "fuzz.h"

#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cadre_connection connection;
    cadre_error error = {0};
    char url[512];
    if (cadre_connection_parse(&connection, (const char *)data, size, "the file", &error) < 0) {
        if (error.code == 0 || !strstr(error.message, "the file")) abort();
        return 0;
    }
    for (int i = 0; i < CADRE_CHANNEL_COUNT; i++) {
        if (connection.ports[i] < 0 || connection.ports[i] > 65535) abort();
        cadre_connection_url(&connection, (cadre_channel)i, url, sizeof url, &error);
    }
    return 0;
}
