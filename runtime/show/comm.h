/* Comms: messages both ways between C and a front-end, as widgets use them.
 *
 *     static void moved(cadre_comm *comm, const cadre_comm_message *message, void *user)
 *     {
 *         printf("the slider says %s\n", message->data);
 *         cadre_comm_send(comm, &(cadre_comm_message){.data = "{\"seen\": true}"});
 *     }
 *     cadre_comm *comm = cadre_comm_open("my.target", &(cadre_comm_message){.data = "{}"});
 *     cadre_comm_on_message(comm, moved, NULL);
 *
 * A front-end may open one too, to a target that C has registered:
 *
 *     cadre_comm_register("my.target", opened, NULL);
 *
 * Functions called for a message run like a cell, between cells: what they print belongs to the
 * message, an error or a crash ends them and leaves the state as it was before. What a crash rolls
 * back is closed at the front-end too. Comms work only in a kernel; in a plain program opening one
 * is an error (CADRE_ESYSTEM).
 */
#ifndef CADRE_SHOW_COMM_H
#define CADRE_SHOW_COMM_H

#include "../base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cadre_comm cadre_comm;

/* What is sent or came. All borrowed; what came is valid until the function returns. */
typedef struct cadre_comm_message {
    const char *data;     /* JSON text of an object; NULL: {} */
    const char *metadata; /* the same */
    size_t buffer_count;  /* binary data beside them */
    const void *const *buffers;
    const size_t *buffer_sizes; /* bytes */
} cadre_comm_message;

typedef void (*cadre_comm_function)(cadre_comm *comm, const cadre_comm_message *message,
                                    void *user);

/* Opens a comm to a target that the front-end knows; message NULL: without data. The comm lives
 * until cadre_comm_close or until the front-end closes it (then after its close function). NULL
 * with an error raised: no kernel, no JSON. */
CADRE_API cadre_comm *cadre_comm_open(const char *target_name, const cadre_comm_message *message);
/* 0 once it is published, or a negative status. */
CADRE_API int cadre_comm_send(cadre_comm *comm, const cadre_comm_message *message);
/* Tells the front-end and frees the comm, whatever is returned. NULL is fine. */
CADRE_API int cadre_comm_close(cadre_comm *comm, const cadre_comm_message *message);

/* What to call for a message, and when the front-end closes the comm; NULL: nothing. */
CADRE_API void cadre_comm_on_message(cadre_comm *comm, cadre_comm_function function, void *user);
CADRE_API void cadre_comm_on_close(cadre_comm *comm, cadre_comm_function function, void *user);
/* What to call when a front-end opens a comm to this target; NULL: the target is no more. */
CADRE_API int cadre_comm_register(const char *target_name, cadre_comm_function function,
                                  void *user);

/* Both are valid as long as the comm. */
CADRE_API const char *cadre_comm_id(const cadre_comm *comm);
CADRE_API const char *cadre_comm_target(const cadre_comm *comm);

/* For the kernel: hands the message that it holds to its function. */
CADRE_API void cadre_comm_deliver(void);

#ifdef __cplusplus
}
#endif

#endif
