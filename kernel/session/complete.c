/* Completions: what libclang found together with the names of the session, or those alone. */
#include "session/assist.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_MATCHES = 500 };

static const char *const keywords[] = {
    "_Alignas",      "_Alignof", "_Atomic",   "_Bool",
    "_Complex",      "_Generic", "_Noreturn", "_Static_assert",
    "_Thread_local", "auto",     "bool",      "break",
    "case",          "char",     "const",     "continue",
    "default",       "do",       "double",    "else",
    "enum",          "extern",   "false",     "float",
    "for",           "goto",     "if",        "inline",
    "int",           "long",     "register",  "restrict",
    "return",        "short",    "signed",    "sizeof",
    "static",        "struct",   "switch",    "true",
    "typedef",       "union",    "unsigned",  "void",
    "volatile",      "while",
};

static long long code_points(const char *code, size_t bytes)
{
    long long count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += ((unsigned char)code[i] & 0xc0) != 0x80;
    return count;
}

bool assist_include_start(const char *code, size_t cursor, size_t *start)
{
    size_t line = cursor, at;
    while (line > 0 && code[line - 1] != '\n')
        line--;
    at = line + strspn(code + line, " \t");
    if (at >= cursor || code[at] != '#') return false;
    at += 1 + strspn(code + at + 1, " \t");
    if (strncmp(code + at, "include", 7) != 0) return false;
    at += 7;
    if (strncmp(code + at, "_next", 5) == 0) at += 5;
    at += strspn(code + at, " \t");
    if (at >= cursor || (code[at] != '<' && code[at] != '"')) return false;
    *start = at + 1;
    for (size_t i = at + 1; i < cursor; i++)
        if (code[i] == '/') *start = i + 1;
    return true;
}

static void offer(json_t *matches, json_t *types, const char *name, const char *kind,
                  const char *prefix, size_t prefix_length, long long start, long long end)
{
    const json_t *known;
    size_t i;
    if (strncmp(name, prefix, prefix_length) != 0) return;
    json_array_foreach(matches, i, known) if (!strcmp(json_string_value(known), name)) return;
    json_array_append_new(matches, json_string(name));
    json_array_append_new(types, json_pack("{sssssIsI}", "text", name, "type", kind, "start",
                                           (json_int_t)start, "end", (json_int_t)end));
}

static json_t *completion(const char *code, size_t start, size_t end, json_t *matches,
                          json_t *types)
{
    return json_pack("{ss so sI sI s{so}}", "status", "ok", "matches", matches, "cursor_start",
                     (json_int_t)code_points(code, start), "cursor_end",
                     (json_int_t)code_points(code, end), "metadata", "_jupyter_types_experimental",
                     types);
}

json_t *assist_complete_magic(const char *code, size_t cursor)
{
    size_t line = cursor, index = 0;
    while (line > 0 && code[line - 1] != '\n')
        line--;
    size_t mark = line + strspn(code + line, " \t"), name = mark;
    bool is_comment = strncmp(code + mark, "//%", 3) == 0;
    if (is_comment) name += 2;
    if (mark >= cursor || code[name] != '%') return NULL;
    name += code[name + 1] == '%' ? 2 : 1;
    if (is_comment) name += strspn(code + name, " \t");
    if (name > cursor) return NULL;
    size_t start = is_comment ? name : mark;
    json_t *matches = json_array(), *types = json_array();
    const char *help;
    for (const char *magic; (magic = cadre_magic_name(index, &help)); index++) {
        if (strncmp(magic, code + name, cursor - name) != 0) continue;
        char text[100];
        snprintf(text, sizeof text, "%.*s%s", (int)(name - start), code + start, magic);
        json_array_append_new(matches, json_string(text));
        json_array_append_new(types, json_pack("{ss ss ss sI sI}", "text", text, "type", "magic",
                                               "signature", help, "start",
                                               (json_int_t)code_points(code, start), "end",
                                               (json_int_t)code_points(code, cursor)));
    }
    if (json_array_size(matches)) return completion(code, start, cursor, matches, types);
    json_decref(matches);
    json_decref(types);
    return NULL;
}

/* Without libclang: names and keywords. */
static json_t *complete_by_name(const front *self, const question *asked)
{
    const char *code = json_string_value(json_object_get(asked->content, "code"));
    size_t begin = asked->start, cursor = asked->end, index;
    /* Members need types, which are not known here. */
    bool is_member = begin > 0 && (code[begin - 1] == '.' ||
                                   (begin > 1 && code[begin - 1] == '>' && code[begin - 2] == '-'));
    bool is_header = assist_include_start(code, cursor, &index);
    long long end = code_points(code, cursor), start = code_points(code, begin);
    json_t *matches = json_array(), *types = json_array(), *name;
    if (!is_member && !is_header && begin < cursor) {
        json_array_foreach(self->names, index, name)
        {
            offer(matches, types, json_string_value(json_array_get(name, 0)),
                  json_string_value(json_array_get(name, 1)), code + begin, cursor - begin, start,
                  end);
        }
        for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
            offer(matches, types, keywords[i], "keyword", code + begin, cursor - begin, start, end);
    }
    return completion(code, begin, cursor, matches, types);
}

/* ---- with libclang */

/* A name of the session before it is JSON: all borrowed. */
typedef struct given_name {
    const char *name, *type, *signature;
    json_int_t uses; /* in the cell's text */
} given_name;

/* Is a name of this kind among those that libclang says fit here? Its type for the client. */
static const char *type_of(const char *kind, const json_t *fitting)
{
    static const char *const types[][2] = {
        {"variable", "instance"}, {"function", "function"}, {"enumerator", "enum"},
        {"type", "class"},        {"struct", "class"},      {"union", "class"},
        {"enum", "class"},        {"macro", "keyword"},
    };
    const json_t *one;
    size_t index;
    json_array_foreach(fitting, index, one)
    {
        if (!json_is_string(one) || strcmp(json_string_value(one), kind) != 0) continue;
        for (size_t i = 0; i < sizeof types / sizeof *types; i++)
            if (!strcmp(types[i][0], kind)) return types[i][1];
    }
    return NULL;
}

static json_int_t count_uses(const char *code, const char *name)
{
    json_int_t uses = 0;
    for (const char *at = code; (at = strstr(at, name)); at++)
        uses++;
    return uses;
}

static int most_used_first(const void *left, const void *right)
{
    const given_name *a = left, *b = right;
    if (a->uses != b->uses) return a->uses > b->uses ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* The session's and the cell's names that fit, except those that libclang has found. */
static size_t choose_given(const question *asked, const char *code, const json_t *answer,
                           given_name *chosen)
{
    enum { COUNTED = 500 };
    const json_t *fitting = json_object_get(answer, "kinds"), *entry;
    const char *prefix = code + asked->start;
    size_t length = asked->end - asked->start;
    json_t *found = json_object(), *value;
    const char *name;
    size_t count = 0, index;
    json_array_foreach(json_object_get(answer, "types"), index, entry)
    {
        const char *text = json_string_value(json_object_get(entry, "text"));
        if (text) json_object_set_new(found, text, json_true());
    }
    json_object_foreach(asked->given, name, value)
    {
        const char *kind = json_string_value(json_array_get(value, 0));
        const char *type = kind ? type_of(kind, fitting) : NULL;
        if (!type || strncmp(name, prefix, length) != 0 || json_object_get(found, name)) continue;
        const char *shown = json_string_value(json_array_get(value, 1));
        chosen[count] = (given_name){name, type, shown ? shown : "", 0};
        if (count < COUNTED) chosen[count].uses = count_uses(code, name);
        count++;
    }
    json_decref(found);
    qsort(chosen, count, sizeof *chosen, most_used_first);
    return count;
}

/* The reply as it grows: written out at once, because hundreds of matches as objects of JSON cost
 * more than finding them. */
typedef struct match_list {
    cadre_buffer matches, types;
    char place[80]; /* where the name starts and ends is the same in all matches */
    size_t count;
} match_list;

static void add_text(cadre_buffer *out, const char *before, const char *text)
{
    cadre_buffer_puts(out, before);
    cadre_json_escape(out, text, strlen(text), true);
}

static void add_match(match_list *list, const char *text, const char *type, const char *signature)
{
    if (!text || list->count >= MOST_MATCHES) return;
    add_text(&list->matches, list->count ? ",\"" : "\"", text);
    cadre_buffer_puts(&list->matches, "\"");
    add_text(&list->types, list->count ? ",{\"text\":\"" : "{\"text\":\"", text);
    add_text(&list->types, "\",\"type\":\"", type ? type : "");
    add_text(&list->types, "\",\"signature\":\"", signature ? signature : "");
    cadre_buffer_puts(&list->types, list->place);
    list->count++;
}

static void add_found(match_list *list, const json_t *found, size_t from, size_t to)
{
    for (size_t i = from; i < to && i < json_array_size(found); i++) {
        const json_t *entry = json_array_get(found, i);
        add_match(list, json_string_value(json_object_get(entry, "text")),
                  json_string_value(json_object_get(entry, "type")),
                  json_string_value(json_object_get(entry, "signature")));
    }
}

/* Near names first, then the session's, then what headers declare. */
static char *complete_by_clang(const question *asked, const char *code, const json_t *answer)
{
    const json_t *found = json_object_get(answer, "types");
    long long start = code_points(code, asked->start), end = code_points(code, asked->end);
    json_int_t told = json_integer_value(json_object_get(answer, "near"));
    size_t near = told > 0 ? (size_t)told : 0;
    match_list list = {0};
    cadre_buffer reply = {0};
    given_name *given = calloc(json_object_size(asked->given) + 1, sizeof *given);
    size_t count = given ? choose_given(asked, code, answer, given) : 0;
    snprintf(list.place, sizeof list.place, "\",\"start\":%lld,\"end\":%lld}", start, end);
    add_found(&list, found, 0, near);
    for (size_t i = 0; i < count; i++)
        add_match(&list, given[i].name, given[i].type, given[i].signature);
    add_found(&list, found, near, json_array_size(found));
    cadre_buffer_puts(&reply, "{\"status\":\"ok\",\"matches\":[");
    cadre_buffer_append(&reply, list.matches.data, list.matches.length);
    cadre_buffer_printf(&reply,
                        "],\"cursor_start\":%lld,\"cursor_end\":%lld,"
                        "\"metadata\":{\"_jupyter_types_experimental\":[",
                        start, end);
    cadre_buffer_append(&reply, list.types.data, list.types.length);
    cadre_buffer_puts(&reply, "]}}");
    if (list.matches.failed || list.types.failed) reply.failed = true;
    free(given);
    cadre_buffer_free(&list.matches);
    cadre_buffer_free(&list.types);
    return cadre_buffer_steal(&reply);
}

char *assist_completion(const front *self, const question *asked, const json_t *answer)
{
    const char *code = json_string_value(json_object_get(asked->content, "code"));
    if (json_is_array(json_object_get(answer, "types")))
        return complete_by_clang(asked, code, answer);
    json_t *content = complete_by_name(self, asked);
    char *text = content ? json_dumps(content, JSON_COMPACT) : NULL;
    json_decref(content);
    return text;
}
