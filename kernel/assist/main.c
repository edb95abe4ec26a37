/* cadre-assist: answers completions and inspections, one at a time, until its socket closes.
 *
 * Two processes: the one that the front started has no libclang at work; it waits for the other's
 * end, or the front's, and removes the folder of temporary files. */
#include "assist/clang.h"
#include "assist/protocol.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static bool transfer(bool writing, void *bytes, size_t length)
{
    for (char *at = bytes; length;) {
        ssize_t moved =
            writing ? write(CADRE_ASSIST_FD, at, length) : read(CADRE_ASSIST_FD, at, length);
        if (moved < 0 && errno == EINTR) continue;
        if (moved <= 0) return false;
        at += moved;
        length -= (size_t)moved;
    }
    return true;
}

static json_t *receive(void)
{
    uint32_t length;
    if (!transfer(false, &length, sizeof length) || length > CADRE_ASSIST_LIMIT) return NULL;
    char *text = malloc(length + 1);
    json_t *message = NULL;
    if (text && transfer(false, text, length))
        message = json_loadb(text, length, JSON_ALLOW_NUL, NULL);
    free(text);
    return message;
}

static bool reply(json_t *message)
{
    char *text = json_dumps(message, JSON_COMPACT);
    size_t size = text ? strlen(text) : 0;
    uint32_t length = (uint32_t)size;
    bool sent = text && size <= CADRE_ASSIST_LIMIT && transfer(true, &length, sizeof length) &&
                transfer(true, text, size);
    free(text);
    return sent;
}

static char *joined(const json_t *arguments)
{
    return json_dumps(arguments, JSON_COMPACT);
}

bool assistant_parse(struct assistant *assistant, const struct question *question)
{
    struct CXUnsavedFile unsaved = {assistant->path, question->source, strlen(question->source)};
    char *arguments = joined(question->arguments);
    if (!arguments) return false;
    if (assistant->unit && !strcmp(arguments, assistant->arguments)) {
        free(arguments);
        return !clang_reparseTranslationUnit(assistant->unit, 1, &unsaved,
                                             clang_defaultReparseOptions(assistant->unit));
    }
    const char *list[64];
    size_t count = 0, index;
    json_t *item;
    json_array_foreach((json_t *)question->arguments, index, item)
    {
        if (json_is_string(item) && count < 64) list[count++] = json_string_value(item);
    }
    if (assistant->unit) clang_disposeTranslationUnit(assistant->unit);
    free(assistant->arguments);
    assistant->unit = NULL;
    assistant->arguments = arguments;
    return !clang_parseTranslationUnit2(
        assistant->index, assistant->path, list, (int)count, &unsaved, 1,
        CXTranslationUnit_PrecompiledPreamble | CXTranslationUnit_CreatePreambleOnFirstParse |
            CXTranslationUnit_CacheCompletionResults | CXTranslationUnit_KeepGoing |
            CXTranslationUnit_DetailedPreprocessingRecord,
        &assistant->unit);
}

/* The answer to one request; NULL when there is none. */
static json_t *answer(struct assistant *assistant, json_t *request)
{
    const char *kind = json_string_value(json_object_get(request, "kind"));
    struct question question = {
        .source = json_string_value(json_object_get(request, "source")),
        .line = (unsigned)json_integer_value(json_object_get(request, "line")),
        .column = (unsigned)json_integer_value(json_object_get(request, "column")),
        .prefix = json_string_value(json_object_get(request, "prefix")),
        .arguments = json_object_get(request, "arguments"),
        .first = json_object_get(request, "first"),
    };
    if (!kind || !question.source || !question.line || !question.column ||
        !json_is_array(question.arguments))
        return NULL;
    if (!question.prefix) question.prefix = "";
    if (!strcmp(kind, "complete")) {
        /* Completion parses the new text itself; only the first time a unit must exist. */
        if (!assistant->unit || !assistant->arguments) assistant_parse(assistant, &question);
        char *arguments = joined(question.arguments);
        if (arguments && assistant->arguments && strcmp(arguments, assistant->arguments))
            assistant_parse(assistant, &question);
        free(arguments);
        return assistant->unit ? assistant_complete(assistant, &question) : NULL;
    }
    if (!assistant_parse(assistant, &question)) return NULL;
    return assistant_inspect(assistant, &question);
}

/* --- the supervisor ------------------------------------------------------------------------- */

static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));)
        (void)unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
    (void)rmdir(path);
}

static int serve(const char *path)
{
    struct assistant assistant = {.index = clang_createIndex(0, 0), .path = path};
    for (json_t *request; (request = receive());) {
        json_t *message = answer(&assistant, request);
        if (!message) message = json_object();
        json_object_set(message, "id", json_object_get(request, "id"));
        bool sent = reply(message);
        json_decref(message);
        json_decref(request);
        if (!sent) break;
    }
    return 0;
}

/* Waits until the front closes its end or the child is gone: whatever happened to either, no
 * process and no file is left. */
static void watch(pid_t child, int child_end)
{
    struct pollfd fds[2] = {{.fd = CADRE_ASSIST_FD, .events = POLLRDHUP}, {.fd = child_end}};
    while (poll(fds, 2, -1) < 0 && errno == EINTR)
        ;
    kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
}

int main(void)
{
    const char *base = getenv("TMPDIR");
    char folder[400], path[420];
    int end[2];
    signal(SIGINT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    snprintf(folder, sizeof folder, "%.300s/cadre-assist-XXXXXX",
             base && base[0] == '/' ? base : "/tmp");
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/cell.c", folder);
    int file = open(path, O_CREAT | O_EXCL | O_CLOEXEC | O_WRONLY, 0600);
    if (file >= 0) close(file);
    pid_t child = file < 0 || pipe2(end, O_CLOEXEC) < 0 ? -1 : fork();
    if (child == 0) {
        close(end[0]); /* the other end stays open as long as this process lives */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setenv("TMPDIR", folder, 1); /* where libclang puts its precompiled preamble */
        _exit(serve(path));
    }
    if (child > 0) {
        close(end[1]);
        watch(child, end[0]);
    }
    remove_folder(folder);
    return child < 0;
}
