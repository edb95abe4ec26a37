#include "assist/assist.h"

#include "assist/folder.h"
#include "assist/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { PATIENCE_MS = 1000, FIRST_PATIENCE_MS = 5000, MOST_OPEN = 64 };

typedef struct open_question {
    uint64_t id;
    int64_t deadline; /* CLOCK_MONOTONIC, ms */
} open_question;

struct cadre_assist {
    char *program;
    pid_t pid;
    int fd;
    bool warm;           /* it has answered once: the preamble is parsed */
    cadre_buffer output; /* bytes not yet written */
    cadre_buffer input;  /* bytes read, not yet a whole answer */
    open_question open[MOST_OPEN];
    size_t open_count;
    uint64_t lost[MOST_OPEN]; /* questions of a process that is gone */
    size_t lost_count;
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

cadre_assist *cadre_assist_new(const char *program)
{
    cadre_assist *assist = calloc(1, sizeof *assist);
    if (!assist) return NULL;
    assist->fd = -1;
    assist->program = strdup(program ? program : CADRE_LIBEXECDIR "/cadre-assist");
    if (!assist->program) {
        free(assist);
        return NULL;
    }
    return assist;
}

/* It ends by itself when its socket is closed, and takes its files with it; one that is ill does
 * neither. */
static void wait_for_end(pid_t pid)
{
    const struct timespec moment = {.tv_nsec = 2000000};
    for (int i = 0; i < 50; i++) {
        pid_t ended = waitpid(pid, NULL, WNOHANG);
        if (ended == pid || (ended < 0 && errno != EINTR)) return;
        nanosleep(&moment, NULL);
    }
    kill(-pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* Ends the process; its open questions become lost ones. */
static void stop(cadre_assist *assist)
{
    if (assist->fd >= 0) close(assist->fd);
    assist->fd = -1;
    if (assist->pid > 0) {
        char folder[500];
        wait_for_end(assist->pid);
        cadre_assist_folder_name(assist->pid, folder, sizeof folder);
        cadre_assist_folder_remove(folder);
    }
    assist->pid = 0;
    assist->warm = false;
    cadre_buffer_clear(&assist->output);
    cadre_buffer_clear(&assist->input);
    for (size_t i = 0; i < assist->open_count && assist->lost_count < MOST_OPEN; i++)
        assist->lost[assist->lost_count++] = assist->open[i].id;
    assist->open_count = 0;
}

void cadre_assist_free(cadre_assist *assist)
{
    if (!assist) return;
    stop(assist);
    cadre_buffer_free(&assist->output);
    cadre_buffer_free(&assist->input);
    free(assist->program);
    free(assist);
}

static int start(cadre_assist *assist)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) return -1;
    /* dup2 onto itself would leave close-on-exec set; any other number clears it. */
    int theirs = fcntl(pair[1], F_DUPFD_CLOEXEC, CADRE_ASSIST_FD + 1);
    close(pair[1]);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&actions, 0, 1);
    posix_spawn_file_actions_adddup2(&actions, 0, 2);
    posix_spawn_file_actions_adddup2(&actions, theirs, CADRE_ASSIST_FD);
    sigset_t none, defaults;
    sigemptyset(&none);
    sigfillset(&defaults);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETPGROUP);
    char *const arguments[] = {assist->program, NULL};
    int failed = theirs < 0 ? EMFILE
                            : posix_spawn(&assist->pid, assist->program, &actions, &attributes,
                                          arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (theirs >= 0) close(theirs);
    if (failed) {
        assist->pid = 0;
        close(pair[0]);
        return -1;
    }
    assist->fd = pair[0];
    fcntl(assist->fd, F_SETFL, O_NONBLOCK);
    return 0;
}

/* Writes what the socket takes. A process that went away is noticed when reading. */
static void push(cadre_assist *assist)
{
    while (assist->output.length) {
        ssize_t sent = send(assist->fd, assist->output.data, assist->output.length, MSG_NOSIGNAL);
        if (sent <= 0) return;
        assist->output.length -= (size_t)sent;
        memmove(assist->output.data, assist->output.data + sent, assist->output.length);
    }
}

int cadre_assist_ask(cadre_assist *assist, uint64_t id, cadre_assist_kind kind,
                     const cadre_assist_question *question)
{
    if (assist->open_count + assist->lost_count >= MOST_OPEN) return CADRE_ESYSTEM;
    if (assist->fd < 0 && start(assist) < 0) return CADRE_ESYSTEM;
    json_t *arguments = json_array();
    for (size_t i = 0; question->arguments && question->arguments[i]; i++)
        json_array_append_new(arguments, json_string(question->arguments[i]));
    json_t *message =
        json_pack("{s:I, s:s, s:s, s:i, s:i, s:s, s:o, s:I}", "id", (json_int_t)id, "kind",
                  kind == CADRE_ASSIST_COMPLETE ? "complete" : "inspect", "source",
                  question->source, "line", (int)question->line, "column", (int)question->column,
                  "prefix", question->prefix ? question->prefix : "", "arguments", arguments,
                  "head", (json_int_t)question->head);
    char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
    json_decref(message);
    size_t size = text ? strlen(text) : 0;
    if (!size || size > CADRE_ASSIST_LIMIT) {
        free(text);
        return CADRE_EINPUT;
    }
    uint32_t length = (uint32_t)size;
    cadre_buffer_append(&assist->output, &length, sizeof length);
    cadre_buffer_append(&assist->output, text, size);
    free(text);
    if (assist->output.failed) {
        stop(assist);
        return CADRE_EMEMORY;
    }
    int patience = assist->warm ? PATIENCE_MS : FIRST_PATIENCE_MS;
    assist->open[assist->open_count++] = (open_question){id, now_ms() + patience};
    push(assist);
    return 0;
}

int cadre_assist_fd(const cadre_assist *assist)
{
    return assist->fd;
}

int cadre_assist_timeout(const cadre_assist *assist)
{
    if (assist->lost_count) return 0;
    if (!assist->open_count) return -1;
    /* A long question is written in pieces: look again soon while some of it waits. */
    if (assist->output.length) return 2;
    int64_t left = assist->open[0].deadline - now_ms();
    return left < 0 ? 0 : (int)left;
}

static json_t *lost_answer(cadre_assist *assist)
{
    json_t *answer = json_pack("{s:I}", "id", (json_int_t)assist->lost[0]);
    assist->lost_count--;
    memmove(assist->lost, assist->lost + 1, assist->lost_count * sizeof *assist->lost);
    return answer;
}

/* Takes one whole answer out of the input; NULL: not there yet. *broken: it is not an answer. */
static json_t *take(cadre_assist *assist, bool *broken)
{
    uint32_t length;
    if (assist->input.length < sizeof length) return NULL;
    memcpy(&length, assist->input.data, sizeof length);
    if (length > CADRE_ASSIST_LIMIT) {
        *broken = true;
        return NULL;
    }
    if (assist->input.length - sizeof length < length) return NULL;
    json_t *answer = json_loadb(assist->input.data + sizeof length, length, JSON_ALLOW_NUL, NULL);
    size_t used = sizeof length + length;
    assist->input.length -= used;
    memmove(assist->input.data, assist->input.data + used, assist->input.length);
    *broken = !json_is_object(answer) || !assist->open_count;
    if (*broken) {
        json_decref(answer);
        return NULL;
    }
    /* It answers in order; the id is ours, whatever the answer says. */
    json_object_set_new(answer, "id", json_integer((json_int_t)assist->open[0].id));
    assist->open_count--;
    memmove(assist->open, assist->open + 1, assist->open_count * sizeof *assist->open);
    assist->warm = true;
    return answer;
}

json_t *cadre_assist_next(cadre_assist *assist)
{
    if (assist->lost_count) return lost_answer(assist);
    if (assist->fd < 0) return NULL;
    push(assist);
    bool ended = false, broken = false;
    char chunk[65536];
    for (;;) {
        ssize_t got = recv(assist->fd, chunk, sizeof chunk, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got > 0) cadre_buffer_append(&assist->input, chunk, (size_t)got);
        ended = got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
        if (got <= 0) break;
    }
    json_t *answer = take(assist, &broken);
    if (answer) return answer;
    bool late = assist->open_count && now_ms() >= assist->open[0].deadline;
    if (ended || broken || late || assist->input.failed) {
        stop(assist);
        return assist->lost_count ? lost_answer(assist) : NULL;
    }
    return NULL;
}
