/* What inspection shows: declaration, value, documentation, place, and the source if asked for. */
#include "session/assist.h"
#include "session/manual.h"

#include <stdlib.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text && *text ? text : NULL;
}

/* The address behind a name. A host that runs a cell cannot be asked: what it said while this
 * generation was idle still holds. */
static uint64_t address_of(front *self, const char *symbol, bool is_page)
{
    if (!self->addresses || self->addresses_generation != self->generation) {
        json_decref(self->addresses);
        self->addresses = json_object();
        self->addresses_generation = self->generation;
    }
    const json_t *known = json_object_get(self->addresses, symbol);
    if (known) return (uint64_t)json_integer_value(known);
    /* The cell that asks (`name?`) does not run. */
    if (!self->host || (self->current && !is_page)) return 0;
    uint64_t address = cadre_host_symbol(self->host, symbol);
    if (address) json_object_set_new(self->addresses, symbol, json_integer((json_int_t)address));
    return address;
}

static char *value_of(front *self, const question *asked, const json_t *answer)
{
    enum { SHOWN = 2000 };
    const char *file = text_of(answer, "file"), *kind = text_of(answer, "kind");
    const cadre_name_facts *facts = &asked->facts;
    /* A local of the cell may have a variable's name. */
    bool is_other = answer && (!file || strncmp(file, "In[", 3) != 0 || file[3] == ' ' || !kind ||
                               strcmp(kind, "variable") != 0);
    if (!asked->is_known || !facts->symbol || is_other) return NULL;
    uint64_t address = address_of(self, facts->symbol, !asked->message);
    char *value = address ? cadre_name_value(facts, address, cadre_host_read, self->host) : NULL;
    if (value && strlen(value) > SHOWN) {
        size_t end = SHOWN;
        while (end && ((unsigned char)value[end] & 0xc0) == 0x80)
            end--;
        memcpy(value + end, "", 1);
    }
    return value;
}

/* A comment without its marks, a line each. */
static void add_comment(cadre_buffer *out, const char *comment)
{
    bool is_first = true;
    while (*comment) {
        size_t length = strcspn(comment, "\n");
        const char *line = comment, *end = comment + length;
        comment = end + (*end == '\n');
        while (line < end && (*line == ' ' || *line == '\t'))
            line++;
        while (line < end && (*line == '/' || *line == '*' || *line == '!'))
            line++;
        if (line < end && *line == '<') line++;
        if (line < end && *line == ' ') line++;
        while (end > line && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
            end--;
        if (end - line >= 2 && end[-1] == '/' && end[-2] == '*') end -= 2;
        while (end > line && (end[-1] == ' ' || end[-1] == '*'))
            end--;
        if (end == line && (is_first || !*comment)) continue;
        cadre_buffer_append(out, line, (size_t)(end - line));
        cadre_buffer_puts(out, "\n");
        is_first = false;
    }
}

typedef struct description {
    const char *declaration, *members, *value, *comment, *source;
    json_int_t size;
    char place[400], manual[400];
} description;

static void describe_place(description *d, const question *asked, const json_t *answer)
{
    const char *file = text_of(answer, "file");
    json_int_t line = json_integer_value(json_object_get(answer, "line"));
    if (file && strcmp(file, "In[ ]") == 0)
        snprintf(d->place, sizeof d->place, "Defined in this cell");
    else if (file && strncmp(file, "In[", 3) == 0)
        snprintf(d->place, sizeof d->place, "Defined in %.40s, line %lld", file, (long long)line);
    else if (file && file[0] == '/')
        snprintf(d->place, sizeof d->place, "Declared in %.300s, line %lld", file, (long long)line);
    else if (!answer && asked->is_known && asked->facts.execution_count > 0)
        snprintf(d->place, sizeof d->place, "Defined in In[%d]", asked->facts.execution_count);
}

/* Of a function that a header declares. */
static void describe_manual(description *d, const json_t *answer)
{
    const char *file = text_of(answer, "file"), *kind = text_of(answer, "kind");
    const char *name = text_of(answer, "name");
    int section;
    if (!file || file[0] != '/' || !name || !kind || strcmp(kind, "function") != 0) return;
    char *summary = manual_summary(name, &section);
    if (summary)
        snprintf(d->manual, sizeof d->manual, "Manual: %.300s (man %d %.60s)", summary, section,
                 name);
    free(summary);
}

static char *as_text(const description *d, bool markdown)
{
    cadre_buffer out = {0};
    const char *open = markdown ? "```c\n" : "", *close = markdown ? "```\n" : "";
    cadre_buffer_printf(&out, "%s%s\n", open, d->declaration);
    if (d->members) cadre_buffer_printf(&out, "%s\n", d->members);
    cadre_buffer_puts(&out, close);
    if (d->value)
        cadre_buffer_printf(&out, markdown ? "\nValue:\n```c\n%s\n```\n" : "\nValue: %s\n",
                            d->value);
    if (d->size > 0)
        cadre_buffer_printf(&out, "%sSize: %lld byte%s\n", d->value && !markdown ? "" : "\n",
                            (long long)d->size, d->size == 1 ? "" : "s");
    if (d->comment) {
        cadre_buffer_puts(&out, "\n");
        add_comment(&out, d->comment);
    }
    if (d->manual[0]) cadre_buffer_printf(&out, "\n%s\n", d->manual);
    if (d->place[0]) cadre_buffer_printf(&out, "\n%s\n", d->place);
    if (d->source) cadre_buffer_printf(&out, "\n%s%s\n%s", open, d->source, close);
    while (out.length && out.data[out.length - 1] == '\n')
        out.data[--out.length] = 0;
    return cadre_buffer_steal(&out);
}

static void add_text(json_t *data, const char *type, char *text)
{
    if (text) json_object_set_new(data, type, cadre_json_string(text, strlen(text)));
    free(text);
}

json_t *assist_inspection(front *self, const question *asked, const json_t *answer)
{
    bool found = json_is_true(json_object_get(answer, "found"));
    const cadre_name_facts *facts = &asked->facts;
    json_t *data = json_object();
    description d = {0};
    if (!found) answer = NULL;
    if (found) {
        d.declaration = text_of(answer, "declaration");
        d.members = text_of(answer, "members");
        d.comment = text_of(answer, "comment");
        d.source = text_of(answer, "source");
        d.size = json_integer_value(json_object_get(answer, "size"));
    } else if (asked->is_known) {
        d.declaration = facts->declaration;
        d.comment = facts->comment;
    }
    const char *file = text_of(answer, "file");
    if (d.declaration && strncmp(d.declaration, "extern ", 7) == 0) d.declaration += 7;
    bool is_session =
        asked->is_known && (!found || (file && strncmp(file, "In[", 3) == 0 && file[3] != ' '));
    if (is_session && facts->source) d.source = facts->source;
    if (json_integer_value(json_object_get(asked->content, "detail_level")) < 1) d.source = NULL;
    char *value = value_of(self, asked, answer);
    d.value = value;
    describe_place(&d, asked, answer);
    describe_manual(&d, answer);
    if (d.declaration) {
        add_text(data, "text/plain", as_text(&d, false));
        add_text(data, "text/markdown", as_text(&d, true));
    }
    free(value);
    bool is_found = json_object_size(data) > 0;
    return json_pack("{ss sb so s{}}", "status", "ok", "found", is_found, "data", data, "metadata");
}
