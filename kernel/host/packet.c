#include "host/protocol.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PACKET_MAGIC 0x43414452u

static int write_all(int file, const unsigned char *bytes, size_t length)
{
    while (length) {
        ssize_t written = write(file, bytes, length);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return CADRE_ESYSTEM;
        bytes += written;
        length -= (size_t)written;
    }
    return 0;
}

int cadre_packet_send(int socket, const struct packet_header *header, const void *payload,
                      size_t length, const int *files, size_t file_count, bool wait)
{
    struct packet_header copy = *header;
    int all[PACKET_FILES], memory = -1, status = 0;
    bool outside = length > PACKET_INLINE;
    if (length > PACKET_LIMIT || file_count > PACKET_FILES - 1) return CADRE_EINPUT;
    if (file_count) memcpy(all, files, file_count * sizeof *all);
    if (outside) {
        memory = memfd_create("cadre-packet", MFD_CLOEXEC);
        if (memory < 0) return CADRE_ESYSTEM;
        status = write_all(memory, payload, length);
        all[file_count++] = memory;
    }
    copy.magic = PACKET_MAGIC;
    copy.length = length;
    copy.in_memfd = outside;
    copy.file_count = (uint32_t)file_count;

    struct iovec parts[2] = {{&copy, sizeof copy}, {(void *)payload, outside ? 0 : length}};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof all)];
    } control;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (file_count) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(file_count * sizeof *all);
        struct cmsghdr *part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(file_count * sizeof *all);
        memcpy(CMSG_DATA(part), all, file_count * sizeof *all);
    }
    while (status == 0) {
        if (sendmsg(socket, &message, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT)) >= 0) break;
        if (errno != EINTR) status = CADRE_ESYSTEM;
    }
    if (memory >= 0) close(memory);
    return status;
}

static void take_files(struct packet *packet, struct msghdr *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int file;
            memcpy(&file, CMSG_DATA(part) + i * sizeof file, sizeof file);
            if (packet->file_count < PACKET_FILES)
                packet->files[packet->file_count++] = file;
            else
                close(file);
        }
    }
}

static int read_memfd(struct packet *packet)
{
    if (packet->file_count == 0) return CADRE_EFORMAT;
    int file = packet->files[--packet->file_count];
    struct stat about;
    size_t length = packet->header.length, have = 0;
    int status = CADRE_EFORMAT;
    if (fstat(file, &about) == 0 && (uint64_t)about.st_size == length &&
        (packet->payload = malloc(length + 1))) {
        while (have < length) {
            ssize_t got = pread(file, packet->payload + have, length - have, (off_t)have);
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) break;
            have += (size_t)got;
        }
        packet->payload[have] = 0;
        if (have == length) status = 0;
    }
    close(file);
    return status;
}

int cadre_packet_receive(int socket, struct packet *packet, bool wait)
{
    unsigned char bytes[PACKET_INLINE + 1];
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(PACKET_FILES * sizeof(int))];
    } control;
    *packet = (struct packet){0};
    struct iovec parts[2] = {{&packet->header, sizeof packet->header}, {bytes, PACKET_INLINE}};
    struct msghdr message = {.msg_iov = parts,
                             .msg_iovlen = 2,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
    if (got < 0) {
        if (errno == EINTR) return wait ? CADRE_EINTERRUPT : 0;
        return errno == EAGAIN && !wait ? 0 : CADRE_ESYSTEM;
    }
    if (got == 0) return CADRE_ESYSTEM;
    take_files(packet, &message);
    struct packet_header *header = &packet->header;
    int status = CADRE_EFORMAT;
    if ((size_t)got >= sizeof *header && header->magic == PACKET_MAGIC &&
        !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && header->length <= PACKET_LIMIT &&
        header->file_count == packet->file_count) {
        size_t length = (size_t)got - sizeof *header;
        if (header->in_memfd) {
            status = length == 0 ? read_memfd(packet) : CADRE_EFORMAT;
        } else if (length == header->length && (packet->payload = malloc(length + 1))) {
            memcpy(packet->payload, bytes, length);
            packet->payload[length] = 0;
            status = 0;
        }
    }
    if (status == 0) return 1;
    struct packet_header lost = packet->header;
    cadre_packet_free(packet);
    if (got >= (ssize_t)sizeof lost && lost.magic == PACKET_MAGIC &&
        (message.msg_flags & MSG_CTRUNC)) {
        packet->header.message = lost.message;
        packet->header.run = lost.run;
        return CADRE_EMEMORY;
    }
    return status;
}

void cadre_packet_free(struct packet *packet)
{
    for (size_t i = 0; i < packet->file_count; i++)
        if (packet->files[i] >= 0) close(packet->files[i]);
    free(packet->payload);
    *packet = (struct packet){0};
}

int cadre_packet_take_file(struct packet *packet, size_t index)
{
    if (index >= packet->file_count) return -1;
    int file = packet->files[index];
    packet->files[index] = -1;
    return file;
}

void cadre_field_number(cadre_buffer *payload, uint64_t number)
{
    cadre_buffer_append(payload, &number, sizeof number);
}

/* Every run of bytes is followed by a NUL, so that texts can be used where they lie. */
void cadre_field_bytes(cadre_buffer *payload, const void *bytes, size_t length)
{
    cadre_field_number(payload, length);
    cadre_buffer_append(payload, bytes, length);
    cadre_buffer_append(payload, "", 1);
}

void cadre_field_text(cadre_buffer *payload, const char *text)
{
    cadre_field_bytes(payload, text ? text : "", text ? strlen(text) : 0);
}

uint64_t cadre_packet_number(struct packet *packet)
{
    uint64_t number = 0;
    if (packet->bad || packet->header.length - packet->at < sizeof number) {
        packet->bad = true;
        return 0;
    }
    memcpy(&number, packet->payload + packet->at, sizeof number);
    packet->at += sizeof number;
    return number;
}

const char *cadre_packet_bytes(struct packet *packet, size_t *length)
{
    uint64_t count = cadre_packet_number(packet);
    size_t left = packet->header.length - packet->at;
    *length = 0;
    if (packet->bad || count >= left || packet->payload[packet->at + count] != 0) {
        packet->bad = true;
        return "";
    }
    const char *bytes = (const char *)packet->payload + packet->at;
    packet->at += count + 1;
    *length = count;
    return bytes;
}

const char *cadre_packet_text(struct packet *packet)
{
    size_t length;
    return cadre_packet_bytes(packet, &length);
}
