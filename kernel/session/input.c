/* Standard input of a cell: questions to the client that sent it, and its answers. */
#include "session/execution.h"

#include <stdlib.h>
#include <string.h>

static void send_input_request(front *self, int64_t now)
{
    execution *run = self->current;
    cadre_error error = {0};
    json_t *content = json_pack(
        "{sosb}", "prompt",
        cadre_json_string(run->prompt ? run->prompt : "", run->prompt ? strlen(run->prompt) : 0),
        "password", run->password);
    cadre_outgoing ask = {.type = "input_request",
                          .request = run->request->message,
                          .content = content,
                          .id = run->input_id};
    int status = cadre_wire_server_send(self->server, CADRE_STDIN, &ask, &error);
    json_decref(content);
    run->input_retry = 0;
    if (status == 0) return;
    if (status == CADRE_ENOTFOUND && now < run->input_end) {
        run->input_retry = now + 50; /* its stdin may be connecting still */
        return;
    }
    front_note(self, "The cell reads standard input, and its client takes no input requests: end "
                     "of input.");
    run->asks_input = false;
    cadre_host_input(self->host, NULL);
}

void input_ask(front *self, cadre_host_event *event)
{
    enum { PATIENCE = 2000 };
    execution *run = self->current;
    int64_t now = front_clock();
    streams_finish(&self->streams, now);
    if (!run->allow_stdin) {
        cadre_host_input(self->host, NULL);
        return;
    }
    free(run->prompt);
    run->prompt = event->text ? strdup(event->text) : NULL;
    run->password = event->password;
    run->asks_input = true;
    run->input_end = now + PATIENCE;
    send_input_request(self, now);
}

void execute_input_reply(front *self, cadre_message *message)
{
    execution *run = self->current;
    const cadre_message *asked = run ? run->request->message : NULL;
    const json_t *value = json_object_get(message->content, "value");
    bool fits = run && run->asks_input && strcmp(message->type, "input_reply") == 0 &&
                (!*message->parent_id || strcmp(message->parent_id, run->input_id) == 0 ||
                 strcmp(message->parent_id, asked->id) == 0) &&
                message->identity_count == asked->identity_count;
    for (size_t i = 0; fits && i < asked->identity_count; i++)
        fits = message->identities[i].length == asked->identities[i].length &&
               memcmp(message->identities[i].data, asked->identities[i].data,
                      asked->identities[i].length) == 0;
    if (fits) {
        const char *line = json_string_value(value);
        run->asks_input = false;
        run->input_retry = 0;
        cadre_host_input(self->host, line && strcmp(line, "\x04") != 0 ? line : NULL);
    } else {
        front_log("a message on stdin was dropped: nobody asked for it");
    }
    cadre_message_free(message);
}

void input_end(execution *run)
{
    run->asks_input = false;
    run->input_retry = 0;
}

int input_timeout(const execution *run, int64_t now)
{
    if (!run->input_retry) return -1;
    return run->input_retry > now ? (int)(run->input_retry - now) : 0;
}

void input_tick(front *self, int64_t now)
{
    if (input_timeout(self->current, now) == 0) send_input_request(self, now);
}
