#include "assist/clang.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MATCHES = 500 };

typedef struct match {
    json_t *entry;
    unsigned priority;
    int rank;         /* the smaller, the sooner: see rank_of */
    const char *text; /* borrowed from entry */
} match;

/* Names that JupyterLab has icons for. */
static const char *type_of(enum CXCursorKind kind)
{
    switch (kind) {
    case CXCursor_FunctionDecl: return "function";
    case CXCursor_VarDecl: return "instance";
    case CXCursor_ParmDecl: return "param";
    case CXCursor_FieldDecl: return "property";
    case CXCursor_EnumConstantDecl: return "enum";
    case CXCursor_MacroDefinition: return "keyword";
    case CXCursor_TypedefDecl:
    case CXCursor_StructDecl:
    case CXCursor_UnionDecl:
    case CXCursor_EnumDecl: return "class";
    case CXCursor_NotImplemented: return "keyword";
    default: return "statement";
    }
}

/* Of thousands of results few begin as they must: the rest costs one look. */
static bool begins_with(CXCompletionString string, const char *prefix, size_t length)
{
    unsigned chunks = clang_getNumCompletionChunks(string);
    for (unsigned i = 0; i < chunks; i++) {
        if (clang_getCompletionChunkKind(string, i) != CXCompletionChunk_TypedText) continue;
        CXString text = clang_getCompletionChunkText(string, i);
        const char *typed = clang_getCString(text);
        bool fits = typed && !strncmp(typed, prefix, length);
        clang_disposeString(text);
        return fits;
    }
    return false;
}

/* Joins a completion's chunks: what is typed, and the whole as a signature to show. */
static json_t *entry_of(const CXCompletionResult *result, const char *prefix)
{
    char typed[512] = "", signature[1024] = "", returns[256] = "";
    CXCompletionString string = result->CompletionString;
    unsigned chunks = clang_getNumCompletionChunks(string);
    for (unsigned i = 0; i < chunks; i++) {
        CXString text = clang_getCompletionChunkText(string, i);
        const char *chunk = clang_getCString(text);
        if (chunk) {
            switch (clang_getCompletionChunkKind(string, i)) {
            case CXCompletionChunk_TypedText:
                strncat(typed, chunk, sizeof typed - strlen(typed) - 1);
                strncat(signature, chunk, sizeof signature - strlen(signature) - 1);
                break;
            case CXCompletionChunk_ResultType:
                strncat(returns, chunk, sizeof returns - strlen(returns) - 1);
                break;
            case CXCompletionChunk_VerticalSpace: break;
            default: strncat(signature, chunk, sizeof signature - strlen(signature) - 1); break;
            }
        }
        clang_disposeString(text);
    }
    /* Headers are offered as `stdio.h>`: the closing bracket belongs to the directive. */
    size_t length = strlen(typed);
    if (length && (typed[length - 1] == '>' || typed[length - 1] == '"')) typed[length - 1] = 0;
    /* Names that the session made up for its own use. */
    if (strchr(typed, '$')) return NULL;
    if (!typed[0] || strncmp(typed, prefix, strlen(prefix))) return NULL;
    if (returns[0]) {
        char whole[1300];
        snprintf(whole, sizeof whole, "%s %s", returns, signature);
        return json_pack("{s:s, s:s, s:s}", "text", typed, "type", type_of(result->CursorKind),
                         "signature", whole);
    }
    return json_pack("{s:s, s:s, s:s}", "text", typed, "type", type_of(result->CursorKind),
                     "signature", signature);
}

/* Near names (0) come first; names of the implementation (`__builtin_...`) come last. */
static int rank_of(const json_t *entry, const char *text)
{
    const char *type = json_string_value(json_object_get(entry, "type"));
    bool near = !strcmp(type, "param") || !strcmp(type, "property") || !strcmp(type, "instance");
    return near ? 0 : text[0] == '_' ? 2 : 1;
}

/* The kinds of global names that fit where the cursor is. */
static json_t *kinds_that_fit(unsigned long long contexts)
{
    static const struct {
        const char *kind;
        unsigned long long contexts;
    } kinds[] = {
        {"variable", CXCompletionContext_AnyValue},
        {"function", CXCompletionContext_AnyValue},
        {"enumerator", CXCompletionContext_AnyValue},
        {"type", CXCompletionContext_AnyType},
        {"struct", CXCompletionContext_StructTag},
        {"union", CXCompletionContext_UnionTag},
        {"enum", CXCompletionContext_EnumTag},
        {"macro", CXCompletionContext_AnyValue | CXCompletionContext_AnyType |
                      CXCompletionContext_MacroName},
    };
    json_t *fitting = json_array();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].contexts & contexts)
            json_array_append_new(fitting, json_string(kinds[i].kind));
    return fitting;
}

static int by_priority(const void *left, const void *right)
{
    const match *a = left, *b = right;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    if (a->priority != b->priority) return a->priority < b->priority ? -1 : 1;
    return strcmp(a->text, b->text);
}

void assistant_forget(struct assistant *assistant)
{
    if (assistant->last.results) clang_disposeCodeCompleteResults(assistant->last.results);
    free(assistant->last.source);
    assistant->last.results = NULL;
    assistant->last.source = NULL;
}

/* What libclang offers at the place, whatever the name begins with; kept for the next question. */
static CXCodeCompleteResults *results_at(struct assistant *assistant,
                                         const struct question *question)
{
    enum { FRESH_SECONDS = 10 }; /* headers may be edited meanwhile */
    struct CXUnsavedFile unsaved = {assistant->path, question->source, strlen(question->source)};
    time_t now = time(NULL);
    if (assistant->last.results && assistant->last.line == question->line &&
        assistant->last.column == question->column && now - assistant->last.time < FRESH_SECONDS &&
        strcmp(assistant->last.source, question->source) == 0)
        return assistant->last.results;
    assistant_forget(assistant);
    assistant->last.results =
        clang_codeCompleteAt(assistant->headers, assistant->path, question->line, question->column,
                             &unsaved, 1, CXCodeComplete_IncludeMacros);
    assistant->last.source = strdup(question->source);
    assistant->last.line = question->line;
    assistant->last.column = question->column;
    assistant->last.time = now;
    if (!assistant->last.source) assistant_forget(assistant);
    return assistant->last.results;
}

json_t *assistant_complete(struct assistant *assistant, const struct question *question)
{
    CXCodeCompleteResults *results = results_at(assistant, question);
    if (!results) return NULL;
    match *matches = calloc(results->NumResults + 1, sizeof *matches);
    json_t *array = json_array();
    json_int_t near = 0;
    size_t count = 0, length = strlen(question->prefix);
    if (!matches || !array) goto done;
    for (unsigned i = 0; i < results->NumResults; i++) {
        CXCompletionString string = results->Results[i].CompletionString;
        if (!begins_with(string, question->prefix, length)) continue;
        if (clang_getCompletionAvailability(string) == CXAvailability_NotAvailable) continue;
        json_t *entry = entry_of(&results->Results[i], question->prefix);
        if (!entry) continue;
        const char *text = json_string_value(json_object_get(entry, "text"));
        matches[count++] =
            (match){entry, clang_getCompletionPriority(string), rank_of(entry, text), text};
    }
    qsort(matches, count, sizeof *matches, by_priority);
    const char *last = "";
    for (size_t i = 0; i < count; i++) {
        if (json_array_size(array) < MOST_MATCHES && strcmp(matches[i].text, last)) {
            last = matches[i].text;
            json_array_append(array, matches[i].entry);
            near += matches[i].rank == 0;
        }
    }
    for (size_t i = 0; i < count; i++)
        json_decref(matches[i].entry);
done:
    free(matches);
    json_t *kinds = kinds_that_fit(clang_codeCompleteGetContexts(results));
    return json_pack("{s:o, s:I, s:o}", "types", array, "near", near, "kinds", kinds);
}
