/* cadre-assist: answers completions and inspections, one at a time, until its socket closes. */
#include "assist/clang.h"
#include "assist/protocol.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
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

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN);
    struct assistant assistant = {.index = clang_createIndex(0, 0), .path = argv[1]};
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
