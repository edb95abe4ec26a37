/* What a running cell asks while it shows something: values formatted with the types of the cell
 * that asks (cadre_show), messages of its comms. */
#include "cell/types.h"
#include "host/front.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

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

void cadre_host_answer(cadre_host *host, const char *text, size_t length)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {"", 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    int file = host->acknowledge >= 0 ? memfd_create("cadre-answer", MFD_CLOEXEC) : -1;
    if (file < 0) return; /* the byte alone, which follows, says that there is no answer */
    for (size_t done = 0; done < length;) {
        ssize_t put = write(file, text + done, length - done);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) {
            close(file);
            return;
        }
        done += (size_t)put;
    }
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof file);
    memcpy(CMSG_DATA(rights), &file, sizeof file);
    (void)sendmsg(host->acknowledge, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(file);
    close(host->acknowledge);
    host->acknowledge = -1;
}
