/* Comms: which exist, and the messages between them and C (runtime/show/comm.h).
 *
 * A message of the front-end to a comm of C waits in the queue like an execute_request and runs
 * like a cell whose text is `cadre_comm_deliver();`. Everything else is answered at once: targets
 * that nobody registered, comms that are gone, and ipywidgets' control comm, which asks for the
 * states of all widgets; they are kept here as they go by.
 *
 * A comm that a cell opened goes with the cell when it is rolled back.
 */
#ifndef CADRE_SESSION_COMMS_H
#define CADRE_SESSION_COMMS_H

#include "wire/wire.h"

struct front;

typedef struct comms {
    struct comm *first;
    struct comm_target *targets;
} comms;

/* Content of a comm_info_reply, new. */
json_t *comms_info(const struct front *self, const cadre_message *message);
/* A comm_open, comm_msg or comm_close of the front-end. True: C has to be asked, so it belongs into
 * the queue; false: it is dealt with. */
bool comms_take(struct front *self, const cadre_message *message);
/* The text of the cell that hands a waiting message over. */
const char *comms_cell(void);
/* The message has been handed over, or could not be. */
void comms_handed_over(struct front *self, const cadre_message *message);
/* Kind "comm" of the display channel. */
void comms_packet(struct front *self, const json_t *packet);
/* Forgets what cells after this generation made, and says so to the front-end. */
void comms_rewind(struct front *self, uint64_t generation);
void comms_free(struct front *self);

#endif
