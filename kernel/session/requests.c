/* What each request gets for an answer. execute, completion and usage come later than at once and
 * have files of their own. */
#include "session/front.h"

#include "config.h"

#include <stdlib.h>
#include <string.h>

json_t *front_error_content(const char *name, const char *value)
{
    char line[600];
    snprintf(line, sizeof line, "%s: %s", name, value);
    return json_pack("{sssssss[o]}", "status", "error", "ename", name, "evalue", value, "traceback",
                     cadre_json_string(line, strlen(line)));
}

static json_t *kernel_info(front *self, const cadre_message *message)
{
    (void)self;
    (void)message;
    return json_pack(
        "{ss ss ss ss s{ss ss ss ss ss ss} ss s[{ss ss}{ss ss}] s[]}", "status", "ok",
        "protocol_version", "5.5", "implementation", "cadre", "implementation_version",
        PACKAGE_VERSION, "language_info", "name", "c", "version", "gnu17", "mimetype",
        "text/x-csrc", "file_extension", ".c", "pygments_lexer", "c", "codemirror_mode",
        "text/x-csrc", "banner",
        "Cadre " PACKAGE_VERSION ": C in notebooks\n"
        "State lives across cells, crashes cost nothing, the last expression is shown.",
        "help_links", "text", "C reference", "url", "https://en.cppreference.com/w/c", "text",
        "GNU C library", "url", "https://www.gnu.org/software/libc/manual/", "supported_features");
}

static json_t *is_complete(front *self, const cadre_message *message)
{
    (void)self;
    return assist_is_complete(message);
}

static json_t *connect_info(front *self, const cadre_message *message)
{
    (void)message;
    const int *ports = self->connection.ports;
    return json_pack("{ss si si si si si}", "status", "ok", "shell_port", ports[CADRE_SHELL],
                     "iopub_port", ports[CADRE_IOPUB], "stdin_port", ports[CADRE_STDIN],
                     "control_port", ports[CADRE_CONTROL], "hb_port", ports[CADRE_HEARTBEAT]);
}

static json_t *comm_info(front *self, const cadre_message *message)
{
    return comms_info(self, message);
}

static json_t *interrupt(front *self, const cadre_message *message)
{
    (void)message;
    front_interrupt(self);
    return json_pack("{ss}", "status", "ok");
}

static json_t *shut_down(front *self, const cadre_message *message)
{
    bool restart = json_is_true(json_object_get(message->content, "restart"));
    self->ending = true;
    self->restarting = restart;
    json_t *content = json_pack("{sssb}", "status", "ok", "restart", restart);
    front_publish(self, message, "shutdown_reply", json_incref(content));
    return content;
}

static const struct answer {
    const char *request, *reply;
    json_t *(*make)(front *self, const cadre_message *message); /* content, new, or NULL */
} answers[] = {
    {"kernel_info_request", "kernel_info_reply", kernel_info},
    {"is_complete_request", "is_complete_reply", is_complete},
    {"connect_request", "connect_reply", connect_info},
    {"comm_info_request", "comm_info_reply", comm_info},
    {"interrupt_request", "interrupt_reply", interrupt},
    {"shutdown_request", "shutdown_reply", shut_down},
};

/* Asked often (every start, every heartbeat of some clients) and always the same. */
static bool answer_info(front *self, cadre_channel channel, const cadre_message *message)
{
    if (strcmp(message->type, "kernel_info_request") != 0 || message->damage) return false;
    if (!self->info) {
        json_t *content = kernel_info(self, message);
        self->info = content ? json_dumps(content, JSON_COMPACT) : NULL;
        json_decref(content);
    }
    if (!self->info) return false;
    front_reply_text(self, channel, message, "kernel_info_reply", self->info);
    return true;
}

static void answer(front *self, cadre_channel channel, const cadre_message *message)
{
    const struct answer *found = NULL;
    if (answer_info(self, channel, message)) return;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        if (strcmp(answers[i].request, message->type) == 0) found = &answers[i];
    if (!found) {
        front_log("a request of a type that is not known was ignored: %.60s", message->type);
        return;
    }
    json_t *content = message->damage && found->reply
                          ? front_error_content("MessageError", message->damage)
                          : found->make(self, message);
    if (found->reply && content)
        front_reply(self, channel, message, found->reply, content, NULL);
    else
        json_decref(content);
}

static bool is_of_comm(const cadre_message *message)
{
    return strcmp(message->type, "comm_open") == 0 || strcmp(message->type, "comm_msg") == 0 ||
           strcmp(message->type, "comm_close") == 0;
}

void front_handle(front *self, cadre_channel channel, cadre_message *message)
{
    bool is_comm = is_of_comm(message);
    if (strcmp(message->type, "execute_request") == 0) {
        execute_queue(self, channel, message);
        return;
    }
    front_status(self, message, "busy");
    if (is_comm && comms_take(self, message)) {
        execute_queue(self, channel, message); /* C is asked in its turn; idle follows */
        return;
    }
    if (strcmp(message->type, "complete_request") == 0 ||
        strcmp(message->type, "inspect_request") == 0) {
        assist_ask(self, channel, message); /* idle follows with the reply */
        return;
    }
    if (strcmp(message->type, "usage_request") == 0) {
        usage_ask(self, channel, message);
        return;
    }
    if (strcmp(message->type, "history_request") == 0) {
        recorder_ask(self, channel, message);
        return;
    }
    if (!is_comm) answer(self, channel, message);
    front_status(self, message, "idle");
    cadre_message_free(message);
}
