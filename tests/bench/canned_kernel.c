/* A kernel that answers with fixed messages and executes nothing: what a client and the protocol
 * alone cost. canned_kernel CONNECTION_FILE
 *
 * A cell gets busy, execute_input, a result, its reply and idle, as a cell of one expression
 * does; a completion gets twenty matches; everything else an empty reply.
 */
#include "wire/wire.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

static void send_text(cadre_wire_server *server, cadre_channel channel, const cadre_message *to,
                      const char *type, const char *content)
{
    cadre_outgoing message = {
        .type = type, .request = to, .content_text = content, .content_length = strlen(content)};
    cadre_wire_server_send(server, channel, &message, NULL);
}

static const struct canned {
    const char *request, *reply, *content;
} answers[] = {
    {"execute_request", "execute_reply",
     "{\"status\":\"ok\",\"execution_count\":1,\"user_expressions\":{},\"payload\":[]}"},
    {"complete_request", "complete_reply",
     "{\"status\":\"ok\",\"matches\":[\"printf\",\"puts\",\"putchar\",\"perror\",\"pow\",\"powf\","
     "\"powl\",\"pread\",\"pwrite\",\"pipe\",\"poll\",\"pause\",\"popen\",\"pclose\",\"putc\","
     "\"putenv\",\"psignal\",\"ptsname\",\"posix_memalign\",\"pthread_create\"],"
     "\"cursor_start\":0,\"cursor_end\":1,\"metadata\":{}}"},
    {"inspect_request", "inspect_reply",
     "{\"status\":\"ok\",\"found\":true,\"data\":{\"text/plain\":\"int x\"},\"metadata\":{}}"},
    {"kernel_info_request", "kernel_info_reply",
     "{\"status\":\"ok\",\"protocol_version\":\"5.5\",\"implementation\":\"canned\","
     "\"implementation_version\":\"1\",\"language_info\":{\"name\":\"c\",\"version\":\"17\","
     "\"mimetype\":\"text/x-csrc\",\"file_extension\":\".c\"},\"banner\":\"canned\"}"},
    {"shutdown_request", "shutdown_reply", "{\"status\":\"ok\",\"restart\":false}"},
};

/* False when it was the last message. */
static bool answer(cadre_wire_server *server, cadre_channel channel, const cadre_message *message)
{
    send_text(server, CADRE_IOPUB, message, "status", "{\"execution_state\":\"busy\"}");
    bool executes = strcmp(message->type, "execute_request") == 0;
    if (executes) {
        send_text(server, CADRE_IOPUB, message, "execute_input",
                  "{\"code\":\"1\",\"execution_count\":1}");
        send_text(server, CADRE_IOPUB, message, "execute_result",
                  "{\"data\":{\"text/plain\":\"1\"},\"metadata\":{},\"execution_count\":1}");
    }
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        if (strcmp(answers[i].request, message->type) == 0)
            send_text(server, channel, message, answers[i].reply, answers[i].content);
    send_text(server, CADRE_IOPUB, message, "status", "{\"execution_state\":\"idle\"}");
    return strcmp(message->type, "shutdown_request") != 0;
}

int main(int argc, char **argv)
{
    cadre_connection connection;
    cadre_error error = {0};
    cadre_wire_server *server;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN); /* a client that shuts a kernel down interrupts it first */
    if (argc != 2 || cadre_connection_read(&connection, argv[1], &error) < 0 ||
        !(server = cadre_wire_server_bind(&connection, &error))) {
        fprintf(stderr, "canned_kernel: %s\n", argc == 2 ? error.message : "CONNECTION_FILE");
        return 1;
    }
    for (bool going = true; going && cadre_wire_server_wait(server, NULL, 0, 0, -1) >= 0;) {
        static const cadre_channel channels[] = {CADRE_CONTROL, CADRE_SHELL};
        cadre_wire_server_welcome(server);
        for (int i = 0; i < 2; i++) {
            cadre_message *message;
            while (going && (message = cadre_wire_server_receive(server, channels[i], NULL))) {
                going = answer(server, channels[i], message);
                cadre_message_free(message);
            }
        }
    }
    cadre_wire_server_close(server, 1000);
    return 0;
}
