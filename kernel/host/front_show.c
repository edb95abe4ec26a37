/* Values that a running cell shows (cadre_show), formatted with the types of the cell that asks. */
#include "cell/types.h"
#include "host/front.h"

#include <stdlib.h>
#include <string.h>

static char *format_with(cadre_host *host, const unsigned char *object, size_t length,
                         const char *variable, uint64_t address, size_t size)
{
    cadre_types *types = object ? cadre_types_open(object, length, NULL) : NULL;
    if (!types) return NULL;
    char *text = cadre_types_format(types, variable, address, size, cadre_host_read, host, NULL);
    cadre_types_free(types);
    return text;
}

char *cadre_host_format(cadre_host *host, pid_t pid, const char *label, const char *variable,
                        uint64_t address, size_t size)
{
    char *text = NULL;
    if (pid != host->host.pid) return NULL; /* a child of the host: its memory is another one */
    if (host->cell && host->cell->file_name && strcmp(host->cell->file_name, label) == 0)
        for (size_t i = 0; i < host->cell->segment_count && !text; i++)
            text = format_with(host, host->cell->segments[i].object,
                               host->cell->segments[i].object_length, variable, address, size);
    for (size_t i = 0; i < host->kept_count && !text; i++) {
        const struct kept_cell *kept = &host->kept[i];
        if (strcmp(kept->label, label) != 0) continue;
        for (size_t k = 0; k < kept->count && !text; k++)
            text = format_with(host, kept->objects[k], kept->lengths[k], variable, address, size);
    }
    return text;
}
