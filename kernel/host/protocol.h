/* What the front and cadre-host say to each other. Private to kernel/host.
 *
 * One SOCK_SEQPACKET socket carries packets: a header, then a payload of fields, with descriptors
 * beside them. Host and snapshot share their end of the socket: whoever is alive and running
 * reads it. A payload above PACKET_INLINE bytes travels in a memfd, which is then the last
 * descriptor.
 *
 *   front to host   FILES      descriptors of objects, more of them than fit beside a RUN
 *                   RUN        run a cell: see struct run_flags and front.c
 *                   INPUT      answer to ASK: one line, or number 0 set: end of input
 *                   READ       numbers: address, length; for systems that forbid process_vm_readv
 *                   SYMBOL     text: a name; answered as a READ of its address would be
 *   host to front   READY      the host waits for a RUN
 *                   SNAPSHOT   numbers: pid of the copy (0: there is none any more),
 *                              generation, microseconds it took to make
 *                   TAKEOVER   from a copy: numbers: its pid, the generation of its memory
 *                   NOTE       text
 *                   ASK        text: prompt; number 0: a password
 *                   ARRAY      text: name; then the dimensions
 *                   VALUE      numbers: address, size; text: MIME bundle or ""
 *                   LINK_ERROR text
 *                   DONE       numbers: outcome, status; text: error name; text: message
 *                   MEMORY     answer to READ: number 0: it could be read; the bytes
 */
#ifndef CADRE_HOST_PROTOCOL_H
#define CADRE_HOST_PROTOCOL_H

#include "base/base.h"

#include <stdatomic.h>
#include <sys/types.h>

enum message {
    MESSAGE_FILES = 1,
    MESSAGE_RUN,
    MESSAGE_INPUT,
    MESSAGE_READ,
    MESSAGE_SYMBOL,
    MESSAGE_READY = 32,
    MESSAGE_SNAPSHOT,
    MESSAGE_TAKEOVER,
    MESSAGE_NOTE,
    MESSAGE_ASK,
    MESSAGE_ARRAY,
    MESSAGE_VALUE,
    MESSAGE_LINK_ERROR,
    MESSAGE_DONE,
    MESSAGE_MEMORY
};

#define PACKET_INLINE ((size_t)32 << 10)
#define PACKET_LIMIT ((size_t)1 << 30)
#define PACKET_FILES 200

struct packet_header {
    uint32_t magic, message;
    uint64_t run; /* which RUN it belongs to */
    int64_t number[3];
    uint64_t length; /* of the payload */
    uint32_t in_memfd, file_count;
};

struct packet {
    struct packet_header header;
    unsigned char *payload; /* owned, NUL-terminated */
    size_t at;              /* how far the fields were read */
    bool bad;               /* a field did not fit */
    int files[PACKET_FILES];
    size_t file_count;
};

/* 0, or a negative code. Waits when the socket is full, unless `wait` is false. */
int cadre_packet_send(int socket, const struct packet_header *header, const void *payload,
                      size_t length, const int *files, size_t file_count, bool wait);
/* 1: *packet is filled; 0: nothing there (only when !wait); CADRE_EINTERRUPT: a signal came
 * (wait only); CADRE_ESYSTEM: the other end is gone; CADRE_EFORMAT: not a packet, dropped. */
int cadre_packet_receive(int socket, struct packet *packet, bool wait);
void cadre_packet_free(struct packet *packet); /* closes the files that were not taken */
int cadre_packet_take_file(struct packet *packet, size_t index);

/* Fields of a payload. Reading past the end sets packet->bad and gives 0 or "". */
void cadre_field_number(cadre_buffer *payload, uint64_t number);
void cadre_field_text(cadre_buffer *payload, const char *text); /* NULL becomes "" */
void cadre_field_bytes(cadre_buffer *payload, const void *bytes, size_t length);
uint64_t cadre_packet_number(struct packet *packet);
const char *cadre_packet_text(struct packet *packet); /* borrowed */
const char *cadre_packet_bytes(struct packet *packet, size_t *length);

/* Linux has 64 signals; the last is for the death of the front, the one before for interrupts. */
#define INTERRUPT_SIGNAL 63

enum run_flag { RUN_ALLOW_STDIN = 1, RUN_HAS_VALUE = 2 };

/* ---- memory that front, host and copies share -------------------------------------------------
 * Every word has one writer at a time; the front checks all it reads here, because a cell can
 * write anywhere. */

enum crash_stage { CRASH_NONE, CRASH_STARTED, CRASH_FRAMES, CRASH_NAMED };
enum frame_kind { FRAME_UNKNOWN, FRAME_CELL, FRAME_LIBRARY, FRAME_HOST };
enum process_end {
    END_UNKNOWN,
    END_UNDERSCORE_EXIT,
    END_EXEC,
    END_UNCLEAN_EXIT,
    END_PTHREAD_EXIT,
    END_MAIN_THREAD,
    END_LOST_SOCKET
};

#define CRASH_FRAMES_MAX 48

struct crash_frame {
    uint64_t pc;
    uint64_t offset;
    int32_t kind;
    char label[200]; /* the cell's file name, or the library's */
    char function[120];
};

/* Written by the host's signal handler, read by the front when the host is dead. */
struct crash_record {
    _Atomic int32_t stage;
    int32_t signal, code;
    int32_t in_thread, stack_overflow, in_cell;
    uint64_t address, pc;
    uint32_t frame_count;
    char message[1024]; /* what assert or malloc said */
    struct crash_frame frames[CRASH_FRAMES_MAX];
};

#define GROUPS_MAX 64

struct shared {
    /* Front writes, host reads: the run that the user wants to stop; 0: none. */
    _Atomic uint64_t interrupt_run;
    /* Front writes: output is not read for now, so nobody should wait for it to be. */
    _Atomic int32_t paused;
    /* Host writes before it calls what ends the process; front reads when it is dead. */
    _Atomic int32_t process_end, process_status;
    /* Front writes: process groups of dead hosts that may still have members; the host's handler
     * for the death of the front kills them. */
    _Atomic int32_t groups[GROUPS_MAX];
    /* Host writes: threads that the cells started, sockets that were open at the snapshot, files
     * that were locked by fcntl. */
    _Atomic int32_t lost_threads, lost_sockets, lost_locks;
    struct crash_record crash;
};

#endif
