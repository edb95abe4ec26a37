#include "cell/read.h"

#include <string.h>

enum { INCLUDE_DEPTH = 100, CONDITION_DEPTH = 4096 };

bool cell_directive_split(const token *directive, const char **name, size_t *name_length,
                          const char **rest, size_t *rest_length)
{
    const char *text = directive->text + 1, *end = directive->text + directive->length;
    while (text < end && (*text == ' ' || *text == '\t'))
        text++;
    *name = text;
    while (text < end && ((*text | 32) >= 'a' && (*text | 32) <= 'z'))
        text++;
    if (text < end && *text == '_') /* include_next */
        while (text < end && (*text == '_' || ((*text | 32) >= 'a' && (*text | 32) <= 'z')))
            text++;
    *name_length = (size_t)(text - *name);
    while (text < end && (*text == ' ' || *text == '\t'))
        text++;
    *rest = text;
    *rest_length = (size_t)(end - text);
    return *name_length > 0;
}

bool cell_directive_is(const token *directive, const char *name)
{
    const char *found, *rest;
    size_t length, rest_length;
    return cell_directive_split(directive, &found, &length, &rest, &rest_length) &&
           strlen(name) == length && !memcmp(found, name, length);
}

void cell_problem_set(cell_problem *problem, const token *at, bool incomplete, const char *message)
{
    if (problem->message) return;
    problem->message = message;
    problem->incomplete = incomplete;
    problem->source = at->source;
    problem->line = at->line;
    problem->column = at->column;
}

typedef enum directive_kind {
    DIRECTIVE_OTHER,
    DIRECTIVE_IF,
    DIRECTIVE_IFDEF,
    DIRECTIVE_IFNDEF,
    DIRECTIVE_ELIF,
    DIRECTIVE_ELIFDEF,
    DIRECTIVE_ELIFNDEF,
    DIRECTIVE_ELSE,
    DIRECTIVE_ENDIF,
    DIRECTIVE_DEFINE,
    DIRECTIVE_UNDEF,
    DIRECTIVE_INCLUDE,
    DIRECTIVE_LINE,
    DIRECTIVE_NULL
} directive_kind;

static directive_kind kind_of(const char *name, size_t length)
{
    static const struct {
        const char *name;
        directive_kind kind;
    } table[] = {
        {"if", DIRECTIVE_IF},           {"ifdef", DIRECTIVE_IFDEF},
        {"ifndef", DIRECTIVE_IFNDEF},   {"elif", DIRECTIVE_ELIF},
        {"elifdef", DIRECTIVE_ELIFDEF}, {"elifndef", DIRECTIVE_ELIFNDEF},
        {"else", DIRECTIVE_ELSE},       {"endif", DIRECTIVE_ENDIF},
        {"define", DIRECTIVE_DEFINE},   {"undef", DIRECTIVE_UNDEF},
        {"include", DIRECTIVE_INCLUDE}, {"import", DIRECTIVE_INCLUDE},
        {"line", DIRECTIVE_LINE},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strlen(table[i].name) == length && !memcmp(table[i].name, name, length))
            return table[i].kind;
    return length ? DIRECTIVE_OTHER : DIRECTIVE_NULL;
}

/* One #if ... #endif: are we in the branch that counts? */
typedef struct group {
    const token *opened;
    bool outer_active, active, taken, had_else;
    size_t blank_from; /* start of the text that is left out, when !active */
} group;

typedef struct pass {
    cell_reading *reading;
    uint16_t source;
    int depth; /* of local includes */
    struct {
        group *items;
        size_t count, capacity;
    } groups;
    token_list run;         /* tokens waiting for expansion */
    long depth_of_brackets; /* where the run begins */
} pass;

static void blank(cell_source *source, size_t first, size_t end)
{
    for (size_t i = first; i < end && i < source->length; i++)
        if (source->text[i] != '\n') source->text[i] = ' ';
}

static void blank_token(cell_reading *r, const token *t)
{
    blank(&r->sources.items[t->source], t->offset, t->end);
}

static void refresh(cell_reading *r)
{
    if (r->stale && r->refresh) r->refresh(r->context);
    r->stale = false;
}

static void expand_run(pass *p, size_t first, size_t end)
{
    cell_reading *r = p->reading;
    if (end > first)
        cell_macro_expand(r->macros, r->arena, p->run.items + first, end - first, &r->stream);
}

/* --- names that stop being macros ------------------------------------------------------------ */

/* `#define scale 3` in one cell and `int scale = 5;` in a later one: where a declaration puts a
 * macro's name into the place of the declared name and its replacement is none, the name gets its
 * new meaning and the macro goes. */
typedef struct macro_scan {
    size_t start; /* of the item */
    bool in_type; /* only specifiers and stars so far, a type among them */
    bool is_first, is_declaration;
    long depth;
} macro_scan;

static bool is_type_word(const cell_reading *r, const token *t, bool first)
{
    if (t->kind != TOKEN_NAME) return false;
    if (t->keyword == KEYWORD_NONE)
        return first && (cell_token_is(t, "bool") ||
                         (r->oracle && r->oracle->kind(r->oracle->context, t) == NAME_TYPE));
    return t->keyword >= KEYWORD_TYPE && t->keyword <= KEYWORD_THREAD;
}

static bool replaces_declared_name(pass *p, size_t at)
{
    cell_reading *r = p->reading;
    const token *t = &p->run.items[at];
    const token *next = at + 1 < p->run.count ? &p->run.items[at + 1] : NULL;
    if (t->kind != TOKEN_NAME || t->keyword != KEYWORD_NONE || !next ||
        next->kind != TOKEN_PUNCTUATOR)
        return false;
    macro *m = cell_macro_find(r->macros, t);
    if (!m) return false;
    const token_list *body = cell_macro_body(m);
    uint32_t after = next->punctuator;
    if (m->function_like) {
        if (after != '(' || at + 2 >= p->run.count) return false;
        const token *inside = &p->run.items[at + 2];
        return cell_token_punctuator(inside, ')') || is_type_word(r, inside, true);
    }
    if (after != '=' && after != ';' && after != ',' && after != '[' && after != '(') return false;
    return body->count != 1 || body->items[0].kind != TOKEN_NAME;
}

static void drop_macro(pass *p, const token *name, const token *at)
{
    cell_reading *r = p->reading;
    token directive = *at;
    directive.kind = TOKEN_DIRECTIVE;
    directive.flags = TOKEN_FIRST;
    directive.text = cell_arena_printf(r->arena, "#undef %.*s", (int)name->length, name->text);
    directive.length = (uint32_t)strlen(directive.text);
    directive.end = directive.offset;
    cell_macro_undefine(r->macros, name->text, name->length);
    CELL_PUSH(r->arena, &r->stream, directive);
}

static void flush(pass *p)
{
    cell_reading *r = p->reading;
    if (!p->run.count) return;
    refresh(r);
    macro_scan s = {.is_first = true, .depth = p->depth_of_brackets};
    size_t done = 0;
    for (size_t i = 0; i < p->run.count; i++) {
        const token *t = &p->run.items[i];
        uint32_t c = t->kind == TOKEN_PUNCTUATOR ? t->punctuator : 0;
        if (c == '(' || c == '[' || c == '{') s.depth++;
        if (c == ')' || c == ']' || c == '}') s.depth--;
        if (s.depth > 0 || c == ')' || c == ']') {
            if (s.depth == 1 && c == '{' && s.in_type) continue; /* a type's body */
            s.is_first = s.in_type = false;
            continue;
        }
        if (c == ';' || c == '}' || t->kind == TOKEN_DIRECTIVE) {
            s = (macro_scan){.start = i + 1, .is_first = true, .depth = s.depth};
            continue;
        }
        bool after_comma =
            s.is_declaration && i && cell_token_punctuator(&p->run.items[i - 1], ',');
        if ((s.in_type || after_comma) && replaces_declared_name(p, i)) {
            expand_run(p, done, s.start);
            done = s.start;
            drop_macro(p, t, &p->run.items[s.start]);
            s.in_type = false;
            continue;
        }
        if (is_type_word(r, t, s.is_first)) {
            s.in_type |= s.is_first || s.in_type;
            s.is_declaration |= s.in_type;
        } else if (c != '*') {
            s.in_type = false;
        }
        s.is_first = false;
    }
    p->depth_of_brackets = s.depth;
    expand_run(p, done, p->run.count);
    p->run = (token_list){0};
}

static bool is_active(const pass *p)
{
    return !p->groups.count || p->groups.items[p->groups.count - 1].active;
}

static bool evaluate(pass *p, directive_kind kind, const char *text, size_t length)
{
    cell_reading *r = p->reading;
    flush(p);
    refresh(r);
    if (kind == DIRECTIVE_IF || kind == DIRECTIVE_ELIF) {
        int value = cell_macro_condition(r->macros, r->arena, text, length);
        if (value < 0 && r->condition) value = r->condition(r->context, text, length);
        return value > 0;
    }
    token_list name = {0};
    cell_tokens_read_line(r->arena, text, length, NULL, &name);
    bool defined = name.count && name.items[0].kind == TOKEN_NAME &&
                   cell_macro_find(r->macros, &name.items[0]);
    return defined == (kind == DIRECTIVE_IFDEF || kind == DIRECTIVE_ELIFDEF);
}

static void set_active(pass *p, group *g, bool active, const token *t)
{
    cell_source *source = &p->reading->sources.items[p->source];
    if (!g->active) blank(source, g->blank_from, t->offset);
    g->active = active;
    g->blank_from = t->end;
}

static void conditional(pass *p, directive_kind kind, const token *t, const char *rest,
                        size_t rest_length)
{
    cell_reading *r = p->reading;
    group *top = p->groups.count ? &p->groups.items[p->groups.count - 1] : NULL;
    switch (kind) {
    case DIRECTIVE_IF:
    case DIRECTIVE_IFDEF:
    case DIRECTIVE_IFNDEF: {
        group g = {.opened = t, .outer_active = is_active(p), .blank_from = t->end};
        if (p->groups.count >= CONDITION_DEPTH)
            cell_problem_set(&r->problem, t, false, "#if nested too deeply");
        g.active = g.taken = g.outer_active && evaluate(p, kind, rest, rest_length);
        if (!g.outer_active) g.taken = true;
        CELL_PUSH(r->arena, &p->groups, g);
        break;
    }
    case DIRECTIVE_ELIF:
    case DIRECTIVE_ELIFDEF:
    case DIRECTIVE_ELIFNDEF:
    case DIRECTIVE_ELSE: {
        if (!top || top->had_else) {
            cell_problem_set(&r->problem, t, false,
                             top                      ? "#else after #else"
                             : kind == DIRECTIVE_ELSE ? "#else without #if"
                                                      : "#elif without #if");
            break;
        }
        top->had_else = kind == DIRECTIVE_ELSE;
        bool take = !top->taken && (kind == DIRECTIVE_ELSE || evaluate(p, kind, rest, rest_length));
        set_active(p, top, take, t);
        top->taken |= take;
        break;
    }
    default:
        if (!top) {
            cell_problem_set(&r->problem, t, false, "#endif without #if");
            break;
        }
        set_active(p, top, true, t);
        p->groups.count--;
        break;
    }
    blank_token(r, t);
}

/* Macros that choose what the C library declares: all of it is declared already. */
static bool is_feature_macro(const char *text, size_t length)
{
    static const char *const names[] = {
        "_GNU_SOURCE",       "_DEFAULT_SOURCE",   "_BSD_SOURCE",    "_SVID_SOURCE",
        "_POSIX_SOURCE",     "_POSIX_C_SOURCE",   "_XOPEN_SOURCE",  "_XOPEN_SOURCE_EXTENDED",
        "_ISOC99_SOURCE",    "_ISOC11_SOURCE",    "_ATFILE_SOURCE", "_LARGEFILE64_SOURCE",
        "_LARGEFILE_SOURCE", "_FILE_OFFSET_BITS",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (length >= n && !memcmp(text, names[i], n) &&
            (length == n || text[n] == ' ' || text[n] == '\t'))
            return true;
    }
    return false;
}

static void read_source(cell_reading *r, uint16_t source, int depth, bool magics);
static void put_file(pass *p, const token *t, const char *name, const char *text, size_t length,
                     bool magics);

static long bracket_depth(const token_list *list, long depth)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].kind != TOKEN_PUNCTUATOR) continue;
        uint32_t c = list->items[i].punctuator;
        if (c == '(' || c == '[' || c == '{') depth++;
        if (c == ')' || c == ']' || c == '}') depth--;
    }
    return depth;
}

static bool open_local(pass *p, const token *t, const char *name)
{
    cell_reading *r = p->reading;
    const char *path = NULL;
    size_t length = 0;
    if (!r->open_local) return false;
    char *text = r->open_local(r->context, name,
                               p->source ? r->sources.items[p->source].name : NULL, &path, &length);
    if (!text) return false;
    put_file(p, t, path, text, length, false);
    return true;
}

static void include(pass *p, const token *t, const char *rest, size_t length)
{
    cell_reading *r = p->reading;
    flush(p);
    if (length && *rest != '<' && *rest != '"') { /* #include MACRO */
        refresh(r);
        token_list raw = {0}, expanded = {0};
        cell_tokens_read_line(r->arena, rest, length, t, &raw);
        cell_macro_expand(r->macros, r->arena, raw.items, raw.count, &expanded);
        rest = cell_tokens_text(r->arena, expanded.items, expanded.count);
        length = strlen(rest);
    }
    char close = length && *rest == '<' ? '>' : '"';
    const char *end = length ? memchr(rest + 1, close, length - 1) : NULL;
    if (!end || (*rest != '<' && *rest != '"')) {
        cell_problem_set(&r->problem, t, false, "#include expects \"FILENAME\" or <FILENAME>");
        return;
    }
    char *name = cell_arena_copy(r->arena, rest + 1, (size_t)(end - rest - 1));
    bool nested = bracket_depth(&r->stream, 0) > 0;
    if (close == '"' && nested) { /* data in the middle of a list: the compiler includes it */
        if (r->nested_include) r->nested_include(r->context);
        CELL_PUSH(r->arena, &r->stream, *t);
        return;
    }
    blank_token(r, t);
    if (close == '"' && open_local(p, t, name)) return;
    if (r->include) {
        char *spelled = cell_arena_printf(r->arena, close == '>' ? "<%s>" : "\"%s\"", name);
        r->include(r->context, t, spelled, r->defines.items, r->defines.count);
    }
    r->stale = true;
}

static void directive(pass *p, const token *t)
{
    cell_reading *r = p->reading;
    const char *name, *rest;
    size_t name_length, rest_length;
    if (t->flags & TOKEN_UNCLOSED)
        cell_problem_set(&r->problem, t, true, "the directive does not end");
    cell_directive_split(t, &name, &name_length, &rest, &rest_length);
    directive_kind kind = kind_of(name, name_length);
    if (kind >= DIRECTIVE_IF && kind <= DIRECTIVE_ENDIF) {
        conditional(p, kind, t, rest, rest_length);
        return;
    }
    if (!is_active(p)) return;
    switch (kind) {
    case DIRECTIVE_DEFINE:
        if (is_feature_macro(rest, rest_length)) {
            blank_token(r, t);
            return;
        }
        flush(p);
        cell_macro_define(r->macros, rest, rest_length);
        CELL_PUSH(r->arena, &r->defines, *t);
        CELL_PUSH(r->arena, &r->stream, *t);
        break;
    case DIRECTIVE_UNDEF: {
        flush(p);
        size_t n = 0;
        while (n < rest_length && rest[n] != ' ' && rest[n] != '\t' && rest[n] != '/')
            n++;
        cell_macro_undefine(r->macros, rest, n);
        CELL_PUSH(r->arena, &r->stream, *t);
        break;
    }
    case DIRECTIVE_INCLUDE: include(p, t, rest, rest_length); break;
    case DIRECTIVE_LINE:
    case DIRECTIVE_NULL: blank_token(r, t); break; /* the cell's own lines count */
    default:
        if (rest_length == 4 && !memcmp(rest, "once", 4)) {
            blank_token(r, t);
            return;
        }
        CELL_PUSH(r->arena, &p->run, *t);
        break;
    }
}

static void add_name(cell_reading *r, const token *t)
{
    if (r->raw_names && t->kind == TOKEN_NAME && t->keyword == KEYWORD_NONE &&
        !cell_map_get_token(r->raw_names, t))
        cell_map_put(r->arena, r->raw_names, t->text, t->length, (void *)t->text);
}

/* A file's text, which stands in the place of a directive or a magic. */
static void put_file(pass *p, const token *t, const char *name, const char *text, size_t length,
                     bool magics)
{
    cell_reading *r = p->reading;
    if (p->depth >= INCLUDE_DEPTH || r->sources.count >= UINT16_MAX) {
        cell_problem_set(&r->problem, t, false, "#include nested too deeply");
        return;
    }
    cell_source source = {.name = name};
    source.text = cell_text_normalise(r->arena, text, length, &source.length);
    source.original = cell_arena_copy(r->arena, source.text, source.length);
    CELL_PUSH(r->arena, &r->sources, source);
    read_source(r, (uint16_t)(r->sources.count - 1), p->depth + 1, magics);
}

/* Text of ours is a source of its own; a part of the magic's source keeps its place. */
static void put_piece(pass *p, const token *magic, const cell_piece *piece)
{
    cell_reading *r = p->reading;
    token_list list = {0};
    cell_source source = {.name = "cadre-generated"};
    uint16_t index = p->source;
    if (piece->text) {
        if (r->sources.count >= UINT16_MAX) {
            cell_problem_set(&r->problem, magic, false, "too many magics in one cell");
            return;
        }
        source.length = strlen(piece->text);
        source.text = cell_arena_copy(r->arena, piece->text, source.length);
        source.original = source.text;
        CELL_PUSH(r->arena, &r->sources, source);
        index = (uint16_t)(r->sources.count - 1);
    } else {
        const cell_source *own = &r->sources.items[index];
        source.length = piece->end;
        source.text = cell_arena_copy(r->arena, own->original, source.length);
        blank(&source, 0, piece->first);
    }
    cell_tokens_read(r->arena, &source, index, false, &list);
    for (size_t i = 0; i < list.count; i++) {
        if (list.items[i].kind == TOKEN_DIRECTIVE) {
            directive(p, &list.items[i]);
        } else if (is_active(p)) {
            add_name(r, &list.items[i]);
            CELL_PUSH(r->arena, &p->run, list.items[i]);
        }
    }
}

/* Offset in the source from which reading goes on. */
static size_t magic(pass *p, const token *t)
{
    cell_reading *r = p->reading;
    cell_insert insert = {0};
    if (!r->magic) {
        blank_token(r, t);
        return 0;
    }
    flush(p);
    r->magic(r->context, t, &insert);
    blank_token(r, t);
    for (size_t i = 0; i < insert.count; i++)
        if (!insert.items[i].text) { /* that part is C after all */
            cell_source *own = &r->sources.items[p->source];
            memcpy(own->text + insert.items[i].first, own->original + insert.items[i].first,
                   insert.items[i].end - insert.items[i].first);
        }
    for (size_t i = 0; i < insert.count; i++)
        put_piece(p, t, &insert.items[i]);
    if (insert.file) {
        flush(p);
        put_file(p, t, insert.file, insert.file_text, insert.file_length, true);
    }
    return insert.skip_to;
}

static void read_source(cell_reading *r, uint16_t source, int depth, bool magics)
{
    pass p = {.reading = r, .source = source, .depth = depth};
    token_list raw = {0};
    size_t skip_to = 0;
    cell_tokens_read(r->arena, &r->sources.items[source], source, magics, &raw);
    for (size_t i = 0; i < raw.count; i++) {
        const token *t = &raw.items[i];
        if (t->offset < skip_to) continue;
        if (t->kind == TOKEN_DIRECTIVE) {
            directive(&p, t);
        } else if (!is_active(&p)) {
            continue;
        } else if (t->kind == TOKEN_MAGIC) {
            skip_to = magic(&p, t);
        } else {
            add_name(r, t);
            CELL_PUSH(r->arena, &p.run, *t);
        }
    }
    flush(&p);
    if (p.groups.count) {
        const group *g = &p.groups.items[p.groups.count - 1];
        cell_problem_set(&r->problem, g->opened, true, "unterminated #if");
    }
}

/* Brackets must pair; the first that does not is told as gcc tells it. */
static void check_brackets(cell_reading *r)
{
    struct {
        const token **items;
        size_t count, capacity;
    } open = {0};
    for (size_t i = 0; i < r->stream.count; i++) {
        const token *t = &r->stream.items[i];
        if (t->kind != TOKEN_PUNCTUATOR || t->punctuator > 127) continue;
        char c = (char)t->punctuator;
        if (c == '(' || c == '[' || c == '{') {
            CELL_PUSH(r->arena, &open, t);
            continue;
        }
        if (c != ')' && c != ']' && c != '}') continue;
        const token *top = open.count ? open.items[open.count - 1] : NULL;
        char wanted = !top ? 0 : top->punctuator == '(' ? ')' : top->punctuator == '[' ? ']' : '}';
        if (wanted == c) {
            open.count--;
            continue;
        }
        if (!top)
            cell_problem_set(&r->problem, t, false,
                             cell_arena_printf(r->arena,
                                               c == '}' ? "extraneous ‘%c’: no ‘%c’ is open"
                                                        : "expected expression before "
                                                          "‘%c’ token",
                                               c, '{'));
        else if (!r->problem.message) {
            cell_problem_set(
                &r->problem, t, false,
                cell_arena_printf(r->arena, "expected ‘%c’ before ‘%c’ token", wanted, c));
            r->problem.note =
                cell_arena_printf(r->arena, "to match this ‘%c’", (char)top->punctuator);
            r->problem.note_line = top->line;
            r->problem.note_column = top->column;
        }
        return;
    }
    if (!open.count || r->problem.message) return;
    const token *top = open.items[open.count - 1], *last = &r->stream.items[r->stream.count - 1];
    token end = *last;
    if (end.source == 0 && !(end.flags & TOKEN_EXPANDED)) end.column += end.length;
    char c = (char)top->punctuator;
    cell_problem_set(&r->problem, &end, true,
                     cell_arena_printf(r->arena, "expected ‘%c’ at end of input",
                                       c == '('   ? ')'
                                       : c == '[' ? ']'
                                                  : '}'));
    r->problem.note = cell_arena_printf(r->arena, "to match this ‘%c’", c);
    r->problem.note_line = top->line;
    r->problem.note_column = top->column;
}

size_t cell_raw_body(const char *code, size_t length)
{
    static const char *const names[] = {"bash", "sh", "writefile"};
    size_t at = 0;
    if (length > 3 && !memcmp(code, "\xEF\xBB\xBF", 3)) at = 3;
    while (at < length &&
           (code[at] == ' ' || code[at] == '\t' || code[at] == '\n' || code[at] == '\r'))
        at++;
    if (length - at > 2 && !memcmp(code + at, "//", 2)) at += 2;
    if (length - at < 3 || memcmp(code + at, "%%", 2) != 0) return 0;
    for (at += 2; at < length && (code[at] == ' ' || code[at] == '\t');)
        at++;
    size_t word = at;
    while (at < length && code[at] >= 'a' && code[at] <= 'z')
        at++;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i]) != at - word || memcmp(names[i], code + word, at - word) != 0)
            continue;
        if (at < length && !strchr(" \t\r\n", code[at])) return 0;
        const char *end = memchr(code + at, '\n', length - at);
        return end ? (size_t)(end + 1 - code) : length;
    }
    return 0;
}

void cell_read(cell_reading *r, const char *name, const char *code, size_t length)
{
    cell_source cell = {.name = name};
    cell.text = cell_text_normalise(r->arena, code, length, &cell.length);
    cell.original = cell_arena_copy(r->arena, cell.text, cell.length);
    CELL_PUSH(r->arena, &r->sources, cell);
    size_t body = cell_raw_body(cell.text, cell.length);
    if (body) {
        r->body = cell.original + body;
        r->body_length = cell.length - body;
        blank(&r->sources.items[0], body, cell.length);
    }
    bool unclosed = cell_tokens_unclosed(cell.text, cell.length);
    read_source(r, 0, 0, true);
    refresh(r);
    check_brackets(r);
    if (unclosed && !r->problem.message) {
        token at = {.line = 1, .column = 1};
        if (r->stream.count) at = r->stream.items[r->stream.count - 1];
        cell_problem_set(&r->problem, &at, true,
                         "the text ends inside a comment or a continued line");
    }
}
