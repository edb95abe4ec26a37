#include "cell/tokens.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text;
    keyword keyword;
} keywords[] = {
    {"_Accum", KEYWORD_TYPE},
    {"_Alignas", KEYWORD_ALIGNAS},
    {"_Alignof", KEYWORD_SIZEOF},
    {"_Atomic", KEYWORD_ATOMIC},
    {"_Bool", KEYWORD_TYPE},
    {"_Complex", KEYWORD_TYPE},
    {"_Decimal128", KEYWORD_TYPE},
    {"_Decimal32", KEYWORD_TYPE},
    {"_Decimal64", KEYWORD_TYPE},
    {"_Float128", KEYWORD_TYPE},
    {"_Float128x", KEYWORD_TYPE},
    {"_Float16", KEYWORD_TYPE},
    {"_Float32", KEYWORD_TYPE},
    {"_Float32x", KEYWORD_TYPE},
    {"_Float64", KEYWORD_TYPE},
    {"_Float64x", KEYWORD_TYPE},
    {"_Generic", KEYWORD_OTHER},
    {"_Imaginary", KEYWORD_TYPE},
    {"_Noreturn", KEYWORD_QUALIFIER},
    {"_Sat", KEYWORD_TYPE},
    {"_Static_assert", KEYWORD_ASSERT},
    {"_Thread_local", KEYWORD_THREAD},
    {"__FUNCTION__", KEYWORD_OTHER},
    {"__PRETTY_FUNCTION__", KEYWORD_OTHER},
    {"__alignof", KEYWORD_SIZEOF},
    {"__alignof__", KEYWORD_SIZEOF},
    {"__asm", KEYWORD_ASM},
    {"__asm__", KEYWORD_ASM},
    {"__attribute", KEYWORD_ATTRIBUTE},
    {"__attribute__", KEYWORD_ATTRIBUTE},
    {"__auto_type", KEYWORD_AUTO_TYPE},
    {"__complex", KEYWORD_TYPE},
    {"__complex__", KEYWORD_TYPE},
    {"__const", KEYWORD_CONST},
    {"__const__", KEYWORD_CONST},
    {"__extension__", KEYWORD_EXTENSION},
    {"__float128", KEYWORD_TYPE},
    {"__float80", KEYWORD_TYPE},
    {"__func__", KEYWORD_OTHER},
    {"__imag__", KEYWORD_OTHER},
    {"__inline", KEYWORD_INLINE},
    {"__inline__", KEYWORD_INLINE},
    {"__int128", KEYWORD_TYPE},
    {"__int128_t", KEYWORD_TYPE},
    {"__label__", KEYWORD_LABEL},
    {"__real__", KEYWORD_OTHER},
    {"__restrict", KEYWORD_QUALIFIER},
    {"__restrict__", KEYWORD_QUALIFIER},
    {"__signed", KEYWORD_TYPE},
    {"__signed__", KEYWORD_TYPE},
    {"__thread", KEYWORD_THREAD},
    {"__typeof", KEYWORD_TYPEOF},
    {"__typeof__", KEYWORD_TYPEOF},
    {"__uint128_t", KEYWORD_TYPE},
    {"__volatile", KEYWORD_QUALIFIER},
    {"__volatile__", KEYWORD_QUALIFIER},
    {"asm", KEYWORD_ASM},
    {"auto", KEYWORD_REGISTER},
    {"break", KEYWORD_BREAK},
    {"case", KEYWORD_CASE},
    {"char", KEYWORD_TYPE},
    {"const", KEYWORD_CONST},
    {"continue", KEYWORD_BREAK},
    {"default", KEYWORD_DEFAULT},
    {"do", KEYWORD_DO},
    {"double", KEYWORD_TYPE},
    {"else", KEYWORD_ELSE},
    {"enum", KEYWORD_ENUM},
    {"extern", KEYWORD_EXTERN},
    {"float", KEYWORD_TYPE},
    {"for", KEYWORD_FOR},
    {"goto", KEYWORD_GOTO},
    {"if", KEYWORD_IF},
    {"inline", KEYWORD_INLINE},
    {"int", KEYWORD_TYPE},
    {"long", KEYWORD_TYPE},
    {"register", KEYWORD_REGISTER},
    {"restrict", KEYWORD_QUALIFIER},
    {"return", KEYWORD_RETURN},
    {"short", KEYWORD_TYPE},
    {"signed", KEYWORD_TYPE},
    {"sizeof", KEYWORD_SIZEOF},
    {"static", KEYWORD_STATIC},
    {"struct", KEYWORD_STRUCT},
    {"switch", KEYWORD_FOR},
    {"typedef", KEYWORD_TYPEDEF},
    {"typeof", KEYWORD_TYPEOF},
    {"union", KEYWORD_STRUCT},
    {"unsigned", KEYWORD_TYPE},
    {"void", KEYWORD_TYPE},
    {"volatile", KEYWORD_QUALIFIER},
    {"while", KEYWORD_FOR},
};

static int compare_keyword(const void *key, const void *element)
{
    const token *name = key;
    const char *text = ((const typeof(*keywords) *)element)->text;
    int order = strncmp(name->text, text, name->length);
    return order ? order : -(text[name->length] != 0);
}

static keyword find_keyword(const token *name)
{
    if (name->length < 2 || name->length > 19) return KEYWORD_NONE;
    const typeof(*keywords) *found = bsearch(name, keywords, sizeof keywords / sizeof *keywords,
                                             sizeof *keywords, compare_keyword);
    return found ? found->keyword : KEYWORD_NONE;
}

uint32_t cell_hash(const char *text, size_t length)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return hash;
}

char *cell_text_normalise(cell_arena *arena, const char *code, size_t length, size_t *out)
{
    if (length >= 3 && !memcmp(code, "\xef\xbb\xbf", 3)) code += 3, length -= 3;
    char *text = cell_arena_take(arena, length + 1);
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        if (code[i] == '\r' && i + 1 < length && code[i + 1] == '\n') continue;
        text[used++] = code[i] ? code[i] : ' ';
    }
    *out = used;
    return text;
}

/* Where the reader stands. All reads stay inside the text: it ends with a NUL. */
typedef struct reader {
    cell_arena *arena;
    const char *text;
    size_t length, at, line_start;
    uint32_t line;
    bool in_line; /* text of one directive: '#' is a punctuator, places are fixed */
} reader;

static bool is_name_start(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c >= 0x80;
}

static bool is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

/* Length of a line continuation at `at`: backslash, blanks (as gcc allows), newline; else 0. */
static size_t continuation(const reader *r, size_t at)
{
    if (at >= r->length || r->text[at] != '\\') return 0;
    size_t i = at + 1;
    while (i < r->length && (r->text[i] == ' ' || r->text[i] == '\t' || r->text[i] == '\r'))
        i++;
    return i < r->length && r->text[i] == '\n' ? i + 1 - at : 0;
}

static void new_line(reader *r, size_t after)
{
    r->line++;
    r->line_start = after;
}

static void skip_continuations(reader *r)
{
    for (size_t n; (n = continuation(r, r->at)); new_line(r, r->at))
        r->at += n;
}

/* Passes a comment at `at`; false when it never ends. */
static bool skip_comment(reader *r)
{
    if (r->text[r->at + 1] == '/') {
        while (r->at < r->length && r->text[r->at] != '\n') {
            skip_continuations(r);
            if (r->at < r->length && r->text[r->at] != '\n') r->at++;
        }
        return true;
    }
    r->at += 2;
    for (; r->at < r->length; r->at++) {
        if (r->text[r->at] == '\n') new_line(r, r->at + 1);
        if (r->text[r->at] == '*' && r->text[r->at + 1] == '/') {
            r->at += 2;
            return true;
        }
    }
    return false;
}

static bool at_comment(const reader *r)
{
    return r->text[r->at] == '/' && (r->text[r->at + 1] == '/' || r->text[r->at + 1] == '*');
}

/* The rest of the logical line, comments included: for directives and magics. A string holds no
 * comment. */
static bool skip_logical_line(reader *r, bool comments)
{
    char quote = 0;
    bool closed = true;
    while (r->at < r->length && r->text[r->at] != '\n') {
        char c = r->text[r->at];
        if (continuation(r, r->at)) {
            skip_continuations(r);
            if (r->at >= r->length) closed = false;
        } else if (quote) {
            r->at += c == '\\' && r->at + 1 < r->length && r->text[r->at + 1] != '\n' ? 2 : 1;
            if (c == quote) quote = 0;
        } else if (comments && at_comment(r)) {
            closed = skip_comment(r);
        } else {
            if (comments && (c == '"' || c == '\'')) quote = c;
            r->at++;
        }
    }
    return closed && !(r->at >= r->length && r->at && r->text[r->at - 1] == '\\');
}

static bool read_quoted(reader *r, char quote)
{
    r->at++;
    while (r->at < r->length && r->text[r->at] != '\n') {
        if (continuation(r, r->at)) {
            skip_continuations(r);
            continue;
        }
        char c = r->text[r->at++];
        if (c == quote) return true;
        if (c == '\\' && r->at < r->length && r->text[r->at] != '\n' && !continuation(r, r->at))
            r->at++;
    }
    return false;
}

static const char *const long_punctuators[] = {
    "...", "<<=", ">>=", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=",
    "&&",  "||",  "*=",  "/=", "%=", "+=", "-=", "&=", "^=", "|=", "##",
};
static const char digraphs[][3] = {"<%{", "%>}", "<:[", ":>]"};

static void read_punctuator(reader *r, token *t)
{
    const char *text = r->text + r->at;
    for (size_t i = 0; i < sizeof digraphs / sizeof *digraphs; i++)
        if (!strncmp(text, digraphs[i], 2)) {
            t->punctuator = (unsigned char)digraphs[i][2];
            r->at += 2;
            return;
        }
    for (size_t i = 0; i < sizeof long_punctuators / sizeof *long_punctuators; i++) {
        size_t length = strlen(long_punctuators[i]);
        if (strncmp(text, long_punctuators[i], length)) continue;
        t->punctuator = length == 3 ? (uint32_t)PUNCTUATOR3(text[0], text[1], text[2])
                                    : (uint32_t)PUNCTUATOR(text[0], text[1]);
        r->at += length;
        return;
    }
    t->punctuator = (unsigned char)*text;
    if (!strchr("{}[]()<>;:,.?~!+-*/%^&|=#", *text)) t->kind = TOKEN_OTHER;
    r->at++;
}

/* Spelling with line continuations taken out; most tokens hold none and are not copied. */
static void set_text(reader *r, token *t, size_t start)
{
    t->text = r->text + start;
    t->length = (uint32_t)(r->at - start);
    if (!memchr(t->text, '\\', t->length) || !memchr(t->text, '\n', t->length)) return;
    char *copy = cell_arena_take(r->arena, t->length + 1);
    size_t used = 0;
    for (size_t i = start; i < r->at;) {
        size_t n = continuation(r, i);
        if (n)
            i += n;
        else
            copy[used++] = r->text[i++];
    }
    t->text = copy;
    t->length = (uint32_t)used;
}

static void read_name_or_number(reader *r, bool number)
{
    for (;;) {
        skip_continuations(r);
        unsigned char c = (unsigned char)r->text[r->at];
        if (r->at >= r->length) return;
        if (is_name_start(c) || is_digit(c) || (number && c == '.')) {
            r->at++;
            if (number && (c == 'e' || c == 'E' || c == 'p' || c == 'P') &&
                (r->text[r->at] == '+' || r->text[r->at] == '-'))
                r->at++;
        } else {
            return;
        }
    }
}

static bool string_prefix(const char *text, size_t length)
{
    return (length == 1 && strchr("LuU", *text)) ||
           (length == 2 && text[0] == 'u' && text[1] == '8');
}

static void read_token(reader *r, token *t)
{
    size_t start = r->at;
    unsigned char c = (unsigned char)r->text[start];
    bool closed = true;
    if (is_name_start(c)) {
        t->kind = TOKEN_NAME;
        read_name_or_number(r, false);
        char quote = r->text[r->at];
        if ((quote == '"' || quote == '\'') && string_prefix(r->text + start, r->at - start)) {
            t->kind = quote == '"' ? TOKEN_STRING : TOKEN_CHARACTER;
            closed = read_quoted(r, quote);
        }
    } else if (is_digit(c) || (c == '.' && is_digit((unsigned char)r->text[start + 1]))) {
        t->kind = TOKEN_NUMBER;
        read_name_or_number(r, true);
    } else if (c == '"' || c == '\'') {
        t->kind = c == '"' ? TOKEN_STRING : TOKEN_CHARACTER;
        closed = read_quoted(r, (char)c);
    } else {
        t->kind = TOKEN_PUNCTUATOR;
        read_punctuator(r, t);
    }
    if (!closed) t->flags |= TOKEN_UNCLOSED;
    set_text(r, t, start);
    if (t->kind == TOKEN_NAME) {
        t->hash = cell_hash(t->text, t->length);
        t->keyword = (uint8_t)find_keyword(t);
    }
}

/* May a statement begin after this token? Then % at a line's start is a magic. */
static bool ends_statement(const token *t)
{
    return t->kind == TOKEN_DIRECTIVE || t->kind == TOKEN_MAGIC ||
           (t->kind == TOKEN_PUNCTUATOR && (t->punctuator == ';' || t->punctuator == '}'));
}

static bool at_magic(const reader *r)
{
    const char *text = r->text + r->at;
    if (!strncmp(text, "//%", 3)) return true;
    if (*text == '!') return true; /* the shell wins there; (!ready) is C */
    if (*text != '%') return false;
    text += text[1] == '%' ? 2 : 1;
    return is_name_start((unsigned char)*text);
}

static void read_all(reader *r, const token *at, uint16_t source, bool magics, token_list *out)
{
    bool first = true, space = false;
    long depth = 0;
    while (r->at < r->length) {
        char c = r->text[r->at];
        if (c == '\n') {
            new_line(r, ++r->at);
            first = space = true;
            continue;
        }
        if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            r->at++;
            space = true;
            continue;
        }
        if (continuation(r, r->at)) {
            skip_continuations(r);
            continue;
        }
        token t = {.line = r->line,
                   .column = (uint32_t)(r->at - r->line_start) + 1,
                   .offset = (uint32_t)r->at,
                   .source = source};
        t.flags = (uint8_t)((space ? TOKEN_SPACE_BEFORE : 0) | (first ? TOKEN_FIRST : 0));
        bool boundary = depth <= 0 && (!out->count || ends_statement(&out->items[out->count - 1]));
        if (magics && first && boundary && at_magic(r)) {
            size_t start = r->at;
            t.kind = TOKEN_MAGIC;
            skip_logical_line(r, false);
            set_text(r, &t, start);
        } else if (at_comment(r)) {
            space = true;
            skip_comment(r);
            continue;
        } else if (c == '#' && first && !r->in_line) {
            size_t start = r->at;
            t.kind = TOKEN_DIRECTIVE;
            if (!skip_logical_line(r, true)) t.flags |= TOKEN_UNCLOSED;
            set_text(r, &t, start);
        } else {
            read_token(r, &t);
            if (t.kind == TOKEN_PUNCTUATOR && t.punctuator < 128) {
                if (strchr("([{", (int)t.punctuator)) depth++;
                if (strchr(")]}", (int)t.punctuator)) depth--;
            }
        }
        t.end = (uint32_t)r->at;
        if (at) {
            t.line = at->line, t.column = at->column, t.source = at->source;
            t.offset = at->offset, t.end = at->end;
        }
        first = space = false;
        CELL_PUSH(r->arena, out, t);
    }
}

void cell_tokens_read(cell_arena *arena, const cell_source *source, uint16_t source_index,
                      bool magics, token_list *out)
{
    reader r = {.arena = arena, .text = source->text, .length = source->length, .line = 1};
    token_list all = {0};
    read_all(&r, NULL, source_index, magics, &all);
    for (size_t i = 0; i < all.count && out->count; i++)
        CELL_PUSH(arena, out, all.items[i]);
    if (!out->count) *out = all;
}

void cell_tokens_read_line(cell_arena *arena, const char *text, size_t length, const token *at,
                           token_list *out)
{
    static const token nowhere;
    reader r = {.arena = arena,
                .text = cell_arena_copy(arena, text, length),
                .length = length,
                .line = 1,
                .in_line = true};
    read_all(&r, at ? at : &nowhere, 0, false, out);
}

bool cell_tokens_unclosed(const char *text, size_t length)
{
    reader r = {.text = text, .length = length, .line = 1};
    while (r.at < length) {
        char c = text[r.at];
        if (at_comment(&r)) {
            if (!skip_comment(&r)) return true;
        } else if (c == '"' || c == '\'') {
            read_quoted(&r, c);
        } else {
            r.at++;
        }
    }
    return length && text[length - 1] == '\\';
}

bool cell_token_is(const token *t, const char *text)
{
    return strlen(text) == t->length && !memcmp(t->text, text, t->length);
}

bool cell_tokens_equal(const token *a, const token *b)
{
    return a->kind == b->kind && a->length == b->length && !memcmp(a->text, b->text, a->length);
}

size_t cell_tokens_match(const token *items, size_t count, size_t open)
{
    size_t depth = 0;
    for (size_t i = open; i < count; i++) {
        if (items[i].kind != TOKEN_PUNCTUATOR) continue;
        switch (items[i].punctuator) {
        case '(':
        case '[':
        case '{': depth++; break;
        case ')':
        case ']':
        case '}':
            if (--depth == 0) return i;
            break;
        default: break;
        }
    }
    return count;
}

/* Would the two run together into one token without a blank? */
static bool needs_blank(const token *a, const token *b)
{
    if (b->flags & (TOKEN_SPACE_BEFORE | TOKEN_FIRST)) return true;
    bool word_a = a->kind == TOKEN_NAME || a->kind == TOKEN_NUMBER;
    bool word_b = b->kind == TOKEN_NAME || b->kind == TOKEN_NUMBER || b->kind == TOKEN_STRING ||
                  b->kind == TOKEN_CHARACTER;
    if (word_a && word_b) return true;
    if (a->kind == TOKEN_NUMBER) return b->kind == TOKEN_PUNCTUATOR && strchr(".+-", b->text[0]);
    if (a->kind == TOKEN_PUNCTUATOR && b->kind == TOKEN_PUNCTUATOR)
        return !strchr("()[]{};,", a->text[0]) && !strchr("()[]{};,", b->text[0]);
    return a->kind == TOKEN_PUNCTUATOR && a->punctuator == '.' && b->kind == TOKEN_NUMBER;
}

char *cell_tokens_text(cell_arena *arena, const token *items, size_t count)
{
    size_t length = 1;
    for (size_t i = 0; i < count; i++)
        length += items[i].length + 1;
    char *text = cell_arena_take(arena, length);
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (i && needs_blank(&items[i - 1], &items[i])) text[used++] = ' ';
        memcpy(text + used, items[i].text, items[i].length);
        used += items[i].length;
    }
    return text;
}
