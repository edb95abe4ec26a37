#include "assist/clang.h"

#include "base/base.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char *kind_name(enum CXCursorKind kind)
{
    switch (kind) {
    case CXCursor_FunctionDecl: return "function";
    case CXCursor_VarDecl: return "variable";
    case CXCursor_ParmDecl: return "parameter";
    case CXCursor_FieldDecl: return "member";
    case CXCursor_EnumConstantDecl: return "enumerator";
    case CXCursor_MacroDefinition: return "macro";
    case CXCursor_TypedefDecl: return "type";
    case CXCursor_StructDecl: return "struct";
    case CXCursor_UnionDecl: return "union";
    case CXCursor_EnumDecl: return "enum";
    default: return "name";
    }
}

static void set_string(json_t *object, const char *key, CXString string)
{
    const char *text = clang_getCString(string);
    json_object_set_new(object, key, json_string(text ? text : ""));
    clang_disposeString(string);
}

/* The text of an extent in its file, continued lines joined; false: it is in no file. */
static bool written_text(cadre_buffer *text, CXTranslationUnit unit, CXSourceRange range)
{
    CXFile file;
    unsigned from, to;
    size_t size = 0;
    clang_getFileLocation(clang_getRangeStart(range), &file, NULL, NULL, &from);
    clang_getFileLocation(clang_getRangeEnd(range), NULL, NULL, NULL, &to);
    const char *whole = file ? clang_getFileContents(unit, file, &size) : NULL;
    if (!whole || from >= to || to > size) return false;
    for (const char *c = whole + from, *end = whole + to; c < end; c++) {
        bool joined = *c == '\\' && c + 1 < end && c[1] == '\n';
        if (joined) c += 1 + strspn(c + 2, " \t");
        bool blank = joined || *c == '\n' || *c == '\t';
        if (!blank)
            cadre_buffer_append(text, c, 1);
        else if (text->length && text->data[text->length - 1] != ' ')
            cadre_buffer_puts(text, " ");
    }
    return true;
}

/* A macro as it was written; one of the compiler's own by its tokens. */
static void set_macro(json_t *object, CXTranslationUnit unit, CXCursor cursor)
{
    CXSourceRange range = clang_getCursorExtent(cursor);
    cadre_buffer text = {0};
    cadre_buffer_puts(&text, "#define ");
    if (!written_text(&text, unit, range)) {
        CXToken *tokens = NULL;
        unsigned count = 0;
        clang_tokenize(unit, range, &tokens, &count);
        for (unsigned i = 0; i < count; i++) {
            CXString token = clang_getTokenSpelling(unit, tokens[i]);
            cadre_buffer_printf(&text, i ? " %s" : "%s", clang_getCString(token));
            clang_disposeString(token);
        }
        clang_disposeTokens(unit, tokens, count);
    }
    /* Not every header is UTF-8. */
    json_t *declaration = text.failed ? NULL : json_stringn(text.data, text.length);
    if (declaration)
        json_object_set_new(object, "declaration", declaration);
    else
        set_string(object, "declaration", clang_getCursorSpelling(cursor));
    cadre_buffer_free(&text);
}

/* The bytes of the definition as they stand in the source, for detail level 1. */
static void set_source(json_t *object, const char *key, const struct assistant *assistant,
                       const struct question *question, CXCursor cursor)
{
    CXSourceRange range = clang_getCursorExtent(cursor);
    CXFile file, mine = clang_getFile(assistant->unit, assistant->path);
    unsigned from, to;
    clang_getSpellingLocation(clang_getRangeStart(range), &file, NULL, NULL, &from);
    clang_getSpellingLocation(clang_getRangeEnd(range), NULL, NULL, NULL, &to);
    if (!file || !clang_File_isEqual(file, mine) || to <= from || to > strlen(question->source))
        return;
    json_object_set_new(object, key, json_stringn(question->source + from, to - from));
}

static void set_place(json_t *object, CXCursor cursor)
{
    CXString file;
    unsigned line;
    clang_getPresumedLocation(clang_getCursorLocation(cursor), &file, &line, NULL);
    set_string(object, "file", file);
    json_object_set_new(object, "line", json_integer(line));
}

/* struct and union types are shown with their members. */
static void set_declaration(json_t *object, CXCursor cursor)
{
    CXPrintingPolicy policy = clang_getCursorPrintingPolicy(cursor);
    bool whole = clang_getCursorKind(cursor) != CXCursor_FunctionDecl;
    clang_PrintingPolicy_setProperty(policy, CXPrintingPolicy_TerseOutput, !whole);
    clang_PrintingPolicy_setProperty(policy, CXPrintingPolicy_PolishForDeclaration, 1);
    clang_PrintingPolicy_setProperty(policy, CXPrintingPolicy_IncludeTagDefinition, 0);
    set_string(object, "declaration", clang_getCursorPrettyPrinted(cursor, policy));
    clang_PrintingPolicy_dispose(policy);
}

/* Writes a token after `text` with the blanks a person would write. */
static void append_token(char *text, size_t size, const char *token)
{
    size_t length = strlen(text);
    bool tight = !length || strchr("(*[", text[length - 1]) || strchr(",;)]", token[0]) ||
                 (token[0] == '(' && text[length - 1] != ',');
    if (!tight) strncat(text, " ", size - length - 1);
    strncat(text, token, size - strlen(text) - 1);
}

/* A function as its header declares it: libclang's own printing turns the size_t of a function
 * that the compiler knows (strlen) into unsigned long. False when the tokens end too early. */
static bool set_prototype(json_t *object, CXTranslationUnit unit, CXCursor cursor)
{
    CXToken *tokens = NULL;
    unsigned count = 0;
    int depth = 0;
    bool named = false, complete = false;
    char text[2048] = "";
    CXString name = clang_getCursorSpelling(cursor);
    clang_tokenize(unit, clang_getCursorExtent(cursor), &tokens, &count);
    for (unsigned i = 0; i < count && !complete; i++) {
        CXString spelling = clang_getTokenSpelling(unit, tokens[i]);
        const char *token = clang_getCString(spelling);
        bool comment = clang_getTokenKind(tokens[i]) == CXToken_Comment;
        if (!comment && strcmp(token, "extern")) append_token(text, sizeof text, token);
        if (depth == 0 && !strcmp(token, clang_getCString(name))) named = true;
        if (!comment && token[0] == '(') depth++;
        if (!comment && token[0] == ')') complete = --depth == 0 && named;
        clang_disposeString(spelling);
    }
    clang_disposeTokens(unit, tokens, count);
    clang_disposeString(name);
    if (complete) json_object_set_new(object, "declaration", json_string(text));
    return complete;
}

/* Of a name declared again and again, the one with a comment or a body is the best to show. */
static CXCursor best_declaration(CXCursor cursor)
{
    CXCursor definition = clang_getCursorDefinition(cursor);
    if (!clang_Cursor_isNull(definition)) return definition;
    return cursor;
}

json_t *assistant_inspect(struct assistant *assistant, const struct question *question)
{
    CXFile file = clang_getFile(assistant->unit, assistant->path);
    CXSourceLocation location =
        clang_getLocation(assistant->unit, file, question->line, question->column);
    CXCursor cursor = clang_getCursor(assistant->unit, location);
    if (clang_getCursorKind(cursor) == CXCursor_MacroExpansion)
        cursor = clang_getCursorReferenced(cursor);
    CXCursor referenced = clang_getCursorReferenced(cursor);
    if (!clang_Cursor_isNull(referenced)) cursor = best_declaration(referenced);
    enum CXCursorKind kind = clang_getCursorKind(cursor);
    if (!clang_isDeclaration(kind) && kind != CXCursor_MacroDefinition) return NULL;

    json_t *object = json_pack("{s:b, s:s}", "found", 1, "kind", kind_name(kind));
    if (!object) return NULL;
    set_string(object, "name", clang_getCursorSpelling(cursor));
    if (kind == CXCursor_MacroDefinition) {
        set_macro(object, assistant->unit, cursor);
    } else {
        if (kind != CXCursor_FunctionDecl || !set_prototype(object, assistant->unit, cursor))
            set_declaration(object, cursor);
        CXString comment = clang_Cursor_getRawCommentText(cursor);
        if (!clang_getCString(comment)) {
            clang_disposeString(comment);
            comment = clang_Cursor_getRawCommentText(referenced);
        }
        set_string(object, "comment", comment);
        set_string(object, "type", clang_getTypeSpelling(clang_getCursorType(cursor)));
        long long size = clang_Type_getSizeOf(clang_getCursorType(cursor));
        if (size > 0 && kind != CXCursor_FunctionDecl)
            json_object_set_new(object, "size", json_integer(size));
        CXType target = clang_getCanonicalType(clang_getPointeeType(clang_getCursorType(cursor)));
        if (target.kind == CXType_Invalid)
            target = clang_getCanonicalType(clang_getCursorType(cursor));
        CXCursor type = clang_getTypeDeclaration(target);
        if (kind == CXCursor_VarDecl && clang_getCursorKind(type) == CXCursor_StructDecl)
            set_source(object, "members", assistant, question, type);
    }
    set_source(object, "source", assistant, question, cursor);
    set_place(object, cursor);
    return object;
}
