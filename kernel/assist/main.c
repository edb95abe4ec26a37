/* cadre-assist: answers completions and inspections, one at a time, until its socket closes. */
#include "assist/clang.h"
#include "assist/folder.h"
#include "assist/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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

static size_t list_of(const json_t *arguments, const char **list, size_t size)
{
    size_t count = 0, index;
    json_t *item;
    json_array_foreach((json_t *)arguments, index, item)
    {
        if (json_is_string(item) && count < size) list[count++] = json_string_value(item);
    }
    return count;
}

static CXTranslationUnit parse(struct assistant *assistant, const json_t *arguments,
                               struct CXUnsavedFile *source, unsigned options)
{
    const char *list[64];
    CXTranslationUnit unit = NULL;
    size_t count = list_of(arguments, list, sizeof list / sizeof *list);
    if (clang_parseTranslationUnit2(assistant->index, assistant->path, list, (int)count, source, 1,
                                    options | CXTranslationUnit_PrecompiledPreamble |
                                        CXTranslationUnit_CreatePreambleOnFirstParse |
                                        CXTranslationUnit_KeepGoing,
                                    &unit))
        return NULL;
    return unit;
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
    if (assistant->unit) clang_disposeTranslationUnit(assistant->unit);
    free(assistant->arguments);
    assistant->arguments = arguments;
    assistant->unit = parse(assistant, question->arguments, &unsaved,
                            CXTranslationUnit_DetailedPreprocessingRecord);
    return assistant->unit != NULL;
}

bool assistant_parse_headers(struct assistant *assistant, const struct question *question)
{
    /* libclang caches when it parses again and the names of the file itself are others than
     * before, so there must be one. */
    static const char mark[] = ";\nstruct cadre_assist_mark;\n";
    char *arguments = joined(question->arguments), *key = NULL, *source = NULL;
    bool good = false;
    int head = (int)question->head;
    if (!arguments || asprintf(&key, "%s%.*s", arguments, head, question->source) < 0) goto out;
    if (assistant->headers && !strcmp(key, assistant->head)) {
        good = true;
        goto out;
    }
    if (asprintf(&source, "%.*s%s", head, question->source, mark) < 0) goto out;
    struct CXUnsavedFile unsaved = {assistant->path, source, strlen(source)};
    assistant_forget(assistant);
    if (assistant->headers) clang_disposeTranslationUnit(assistant->headers);
    free(assistant->head);
    assistant->head = key;
    key = NULL;
    assistant->headers =
        parse(assistant, question->arguments, &unsaved, CXTranslationUnit_CacheCompletionResults);
    good = assistant->headers &&
           !clang_reparseTranslationUnit(assistant->headers, 1, &unsaved,
                                         clang_defaultReparseOptions(assistant->headers));
    if (!good && assistant->headers) {
        clang_disposeTranslationUnit(assistant->headers);
        assistant->headers = NULL;
    }
out:
    free(source);
    free(key);
    free(arguments);
    return good;
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
    };
    if (!kind || !question.source || !question.line || !question.column ||
        !json_is_array(question.arguments))
        return NULL;
    if (!question.prefix) question.prefix = "";
    json_int_t head = json_integer_value(json_object_get(request, "head"));
    if (head > 0 && (size_t)head <= strlen(question.source)) question.head = (size_t)head;
    if (!strcmp(kind, "complete")) {
        if (!assistant_parse_headers(assistant, &question)) return NULL;
        return assistant_complete(assistant, &question);
    }
    if (!assistant_parse(assistant, &question)) return NULL;
    return assistant_inspect(assistant, &question);
}

/* A cell that makes libclang's memory grow without end (an array's initialiser of a thousand
 * million elements) ends this process before it takes the machine; the front starts another. */
static void limit_memory(void)
{
    const rlim_t most = (rlim_t)1 << 30;
    struct rlimit limit;
    if (getrlimit(RLIMIT_DATA, &limit) < 0 || limit.rlim_cur <= most) return;
    limit.rlim_cur = most;
    setrlimit(RLIMIT_DATA, &limit);
}

/* --- the end -------------------------------------------------------------------------------- */

/* Waits, beside whatever libclang is at, until the front closes its end or is gone. */
static void *watch(void *folder)
{
    struct pollfd end = {.fd = CADRE_ASSIST_FD, .events = POLLRDHUP};
    while (poll(&end, 1, -1) < 0 && errno == EINTR)
        ;
    cadre_assist_folder_remove(folder);
    _exit(0);
}

int main(void)
{
    static char folder[500];
    char path[520];
    pthread_t thread;
    signal(SIGINT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    limit_memory();
    cadre_assist_folder_name(getpid(), folder, sizeof folder);
    if (!cadre_assist_folder_make(folder)) return 1;
    snprintf(path, sizeof path, "%s/cell.c", folder);
    int file = open(path, O_CREAT | O_EXCL | O_CLOEXEC | O_WRONLY, 0600);
    if (file >= 0) close(file);
    setenv("TMPDIR", folder, 1); /* where libclang puts its precompiled preamble */
    /* No thread of its own for each answer: what it would catch there ends this process, and the
     * front starts another. */
    setenv("LIBCLANG_NOTHREADS", "1", 1);
    if (file >= 0 && pthread_create(&thread, NULL, watch, folder) == 0) {
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
    }
    cadre_assist_folder_remove(folder);
    return 0;
}
