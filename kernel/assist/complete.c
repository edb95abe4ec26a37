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

/* Near names come first; names of the implementation (`__builtin_...`) come last. */
static int rank_of(const json_t *entry, const char *text)
{
    const char *type = json_string_value(json_object_get(entry, "type"));
    bool near = !strcmp(type, "param") || !strcmp(type, "property") || !strcmp(type, "instance");
    return near ? -2000 : text[0] == '_' ? 2 : 1;
}

/* Does a global name of this kind fit where the cursor is? Sets its type for the client. */
static bool kind_fits(const char *kind, unsigned long long contexts, const char **type)
{
    static const struct {
        const char *kind, *type;
        unsigned long long contexts;
    } kinds[] = {
        {"variable", "instance", CXCompletionContext_AnyValue},
        {"function", "function", CXCompletionContext_AnyValue},
        {"enumerator", "enum", CXCompletionContext_AnyValue},
        {"type", "class", CXCompletionContext_AnyType},
        {"struct", "class", CXCompletionContext_StructTag},
        {"union", "class", CXCompletionContext_UnionTag},
        {"enum", "class", CXCompletionContext_EnumTag},
        {"macro", "keyword",
         CXCompletionContext_AnyValue | CXCompletionContext_AnyType |
             CXCompletionContext_MacroName},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].kind, kind)) {
            *type = kinds[i].type;
            return (kinds[i].contexts & contexts) != 0;
        }
    return false;
}

/* The session's and the cell's names, except those that libclang has found. */
static size_t add_given(const struct question *question, unsigned long long contexts,
                        const json_t *found, match *matches)
{
    const char *name, *type;
    size_t count = 0, length = strlen(question->prefix);
    json_t *value;
    json_object_foreach((json_t *)question->first, name, value)
    {
        const char *kind = json_string_value(json_array_get(value, 0));
        const char *declaration = json_string_value(json_array_get(value, 1));
        json_int_t uses = json_integer_value(json_array_get(value, 2));
        if (!kind || strncmp(name, question->prefix, length) || json_object_get(found, name) ||
            !kind_fits(kind, contexts, &type))
            continue;
        json_t *entry = json_pack("{s:s, s:s, s:s}", "text", name, "type", type, "signature",
                                  declaration ? declaration : "");
        if (!entry) continue;
        matches[count++] = (match){entry, 0, -1000 - (int)(uses < 900 ? uses : 900),
                                   json_string_value(json_object_get(entry, "text"))};
    }
    return count;
}

static int by_priority(const void *left, const void *right)
{
    const match *a = left, *b = right;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    if (a->priority != b->priority) return a->priority < b->priority ? -1 : 1;
    return strcmp(a->text, b->text);
}

json_t *assistant_complete(struct assistant *assistant, const struct question *question)
{
    struct CXUnsavedFile unsaved = {assistant->path, question->source, strlen(question->source)};
    CXCodeCompleteResults *results =
        clang_codeCompleteAt(assistant->headers, assistant->path, question->line, question->column,
                             &unsaved, 1, CXCodeComplete_IncludeMacros);
    if (!results) return NULL;
    unsigned long long contexts = clang_codeCompleteGetContexts(results);
    match *matches =
        calloc(results->NumResults + json_object_size(question->first) + 1, sizeof *matches);
    json_t *array = json_array(), *found = json_object();
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
        json_object_set_new(found, text, json_true());
    }
    count += add_given(question, contexts, found, matches + count);
    qsort(matches, count, sizeof *matches, by_priority);
    const char *last = "";
    for (size_t i = 0; i < count; i++) {
        if (json_array_size(array) < MOST_MATCHES && strcmp(matches[i].text, last)) {
            last = matches[i].text;
            json_array_append(array, matches[i].entry);
        }
    }
    for (size_t i = 0; i < count; i++)
        json_decref(matches[i].entry);
done:
    json_decref(found);
    free(matches);
    clang_disposeCodeCompleteResults(results);
    return json_pack("{s:o}", "matches", array);
}
