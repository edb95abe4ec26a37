/* Decides for every item of a cell what it defines, in which segment it goes, and what has to
 * happen at run time. */
#include "cell/entries.h"
#include "cell/translate.h"

#include <string.h>

/* What the segment under construction has done with a name. */
enum {
    USED_NOW = 1,   /* by a statement or an initialiser */
    USED_LATER = 2, /* by a function's body or a type */
    DECLARED = 4,   /* by a prototype or extern */
    DEFINED = 8,
    INITIALISED = 16 /* defined with an initialiser or a body */
};

typedef struct planner {
    cell_translator *t;
    size_t segment;
    cell_map state[2]; /* by name: flags above; [1]: tags */
    bool labelled;     /* a label has been passed: declarations may be passed again */
    struct {
        const char **items;
        size_t count, capacity;
    } packs; /* #pragma pack(push) */
} planner;

static name_kind kind_of(void *context, const token *name)
{
    cell_translator *t = context;
    cell_entry *entry = cell_names_find(t->names, SPACE_ORDINARY, name->text, name->length);
    if (entry) {
        switch (entry->kind) {
        case ENTRY_TYPEDEF: return NAME_TYPE;
        case ENTRY_FUNCTION: return NAME_FUNCTION;
        case ENTRY_ENUMERATOR: return NAME_ENUMERATOR;
        default: return NAME_VARIABLE;
        }
    }
    const header_name *known = cell_headers_find(t->headers, name);
    return known ? known->kind : NAME_UNKNOWN;
}

void cell_translator_oracle(cell_translator *t, cell_oracle *out)
{
    *out = (cell_oracle){.kind = kind_of, .context = t};
}

static uintptr_t state_of(const planner *p, bool tag, const char *name)
{
    return (uintptr_t)cell_map_get(&p->state[tag], name, strlen(name));
}

static void add_state(planner *p, bool tag, const char *name, size_t length, uintptr_t flags)
{
    uintptr_t old = (uintptr_t)cell_map_get(&p->state[tag], name, length);
    if ((old | flags) != old)
        cell_map_put(p->t->arena, &p->state[tag], name, length, (void *)(old | flags));
}

static cell_entry *current(const planner *p, const cell_entry *entry)
{
    return cell_names_find(p->t->names, cell_entry_space(entry), entry->name, strlen(entry->name));
}

/* Is the type there already, exactly so? Then its definition changes nothing. */
static bool is_identical(planner *p, const cell_entry *entry)
{
    cell_entry *before = current(p, entry);
    p->t->names->round++;
    return before && before->kind == entry->kind && !before->is_forward &&
           !strcmp(before->text, entry->text) && !cell_entry_is_stale(p->t->names, before, NULL);
}

typedef struct enumerator_context {
    planner *p;
    planned_item *plan;
    cell_entry *provider;
} enumerator_context;

static void plan_enumerator(void *context, const token *name)
{
    enumerator_context *c = context;
    CELL_PUSH(c->p->t->arena, &c->plan->entries,
              cell_entry_for_enumerator(c->p->t, name, c->provider));
}

/* The type that the specifiers define: its entry and its constants'. Returns the entry that later
 * declarators refer to. */
static cell_entry *plan_type(planner *p, planned_item *plan, const declaration *d)
{
    cell_translator *t = p->t;
    const type_definition *type = &d->type;
    const token *items = t->reading->stream.items;
    if (type->keyword == CELL_NOWHERE) return NULL;
    bool is_enum = items[type->keyword].keyword == KEYWORD_ENUM;
    if (type->open == CELL_NOWHERE) {
        if (d->declarator_count || type->tag == CELL_NOWHERE || is_enum) return NULL;
        cell_entry *forward = cell_entry_for_forward(t, d);
        if (!current(p, forward)) CELL_PUSH(t->arena, &plan->entries, forward);
        return NULL;
    }
    const char *tag = NULL;
    if (type->tag == CELL_NOWHERE) {
        /* One declarator can repeat an anonymous struct; several need a name for it. */
        if (!is_enum && d->declarator_count < 2) return NULL;
        const token *name = !is_enum                       ? &items[d->declarators[0].name]
                            : type->close > type->open + 1 ? &items[type->open + 1]
                                                           : NULL;
        if (!name) return NULL;
        tag = plan->tag = cell_arena_printf(t->arena, "%.*s$type", (int)name->length, name->text);
    }
    cell_entry *entry = cell_entry_for_tag(t, d, tag);
    if (is_identical(p, entry)) {
        plan->drop_type = true;
        return current(p, entry);
    }
    CELL_PUSH(t->arena, &plan->entries, entry);
    if (is_enum) {
        enumerator_context c = {p, plan, entry};
        cell_enumerators(items, type->open, type->close, plan_enumerator, &c);
    }
    return entry;
}

static bool has_runtime_bound(const planner *p, const declarator *one)
{
    for (size_t i = 0; i < one->bracket_count; i++)
        if (!cell_is_constant(p->t, p->t->reading->stream.items, one->brackets[i].first,
                              one->brackets[i].end, true))
            return true;
    return false;
}

static void plan_declarator(planner *p, planned_item *plan, const declaration *d, size_t index,
                            cell_entry *type)
{
    cell_translator *t = p->t;
    const declarator *one = &d->declarators[index];
    planned_variable *v = &plan->variables[index];
    v->declarator = one;
    cell_entry *entry = cell_entry_for_declarator(t, d, one, type, plan->tag);
    if (d->is_typedef && is_identical(p, entry)) return;
    cell_entry_carry_label(t, entry, current(p, entry));
    if (!d->is_typedef && !d->is_definition && (one->is_function || d->is_extern) &&
        one->initialiser.end <= one->initialiser.first) {
        /* A prototype of what is there already adds nothing; the compiler compares the two. */
        cell_entry *before = current(p, entry);
        add_state(p, false, entry->name, strlen(entry->name), DECLARED);
        if (before && before->kind == entry->kind && before->is_defined) return;
    }
    v->entry = entry;
    CELL_PUSH(t->arena, &plan->entries, entry);
    if (d->is_typedef) return;
    if (one->is_function) {
        v->is_definition = d->is_definition;
        entry->is_defined = d->is_definition;
        return;
    }
    bool has_initialiser = one->initialiser.end > one->initialiser.first;
    v->is_definition = !d->is_extern || has_initialiser;
    entry->is_defined = v->is_definition;
    if (!v->is_definition) return;
    if (d->is_thread) {
        v->is_thread = true;
        entry->place = strdup("");
        if (!entry->place) longjmp(t->arena->recover, 1);
    }
    v->is_variable_length = has_runtime_bound(p, one);
    if (t->parameters.declared)
        v->override =
            t->parameters.declared(t->parameters.context, t->reading->stream.items, d, one);
    if (v->is_variable_length || p->labelled)
        v->at_run_time = true;
    else if (d->is_auto_type)
        v->at_run_time = true;
    else if (has_initialiser && !v->override)
        v->at_run_time = !cell_is_constant(t, t->reading->stream.items, one->initialiser.first,
                                           one->initialiser.end, false);
}

/* A name of this item has another meaning in the segment already: must a new one begin? */
static bool must_cut(planner *p, const planned_item *plan, const cell_entry *entry,
                     const planned_variable *v)
{
    if (entry->kind == ENTRY_MACRO || entry->is_forward) return false;
    bool tag = cell_entry_space(entry) == SPACE_TAG;
    uintptr_t state = state_of(p, tag, entry->name);
    if (!state) return false;
    cell_entry *before = current(p, entry);
    bool same_text = before && before->kind == entry->kind && !strcmp(before->text, entry->text);
    if (before && before->is_forward) return (state & DEFINED) != 0;
    (void)plan;
    if (!entry->is_defined && (entry->kind == ENTRY_FUNCTION || entry->kind == ENTRY_VARIABLE))
        return (state & (DEFINED | USED_NOW | USED_LATER)) && before && !same_text;
    if (state & DEFINED) {
        bool initialised = (state & INITIALISED) != 0;
        bool again = !v || v->declarator->initialiser.end > v->declarator->initialiser.first ||
                     entry->kind == ENTRY_FUNCTION;
        if (entry->kind != ENTRY_VARIABLE && entry->kind != ENTRY_FUNCTION) return true;
        /* C's tentative definitions: int n; ... int n = 3; unless a statement came between. */
        return !same_text || (initialised && again) || (state & USED_NOW) ||
               (v && (v->at_run_time || v->is_variable_length));
    }
    if (state & DECLARED) return before && before->kind != entry->kind; /* the compiler compares */
    if (state & USED_NOW) return before || entry->kind == ENTRY_VARIABLE;
    return before && !same_text; /* used by a body: it binds late, if the type is the same */
}

static void begin_segment(planner *p)
{
    p->state[0] = p->state[1] = (cell_map){0};
    p->labelled = false;
}

static void note_uses(planner *p, const cell_item *item)
{
    bool now = item->kind != ITEM_DECLARATION;
    if (item->kind == ITEM_DECLARATION && !item->declaration.is_typedef)
        for (size_t i = 0; i < item->declaration.declarator_count; i++)
            now |= !item->declaration.declarators[i].is_function;
    for (size_t i = 0; i < item->uses.count; i++) {
        const cell_use *use = &item->uses.items[i];
        add_state(p, use->is_tag, use->name->text, use->name->length, now ? USED_NOW : USED_LATER);
    }
}

bool cell_plan_put(cell_translator *t, const planned_item *plan)
{
    for (size_t i = 0; i < plan->entries.count; i++) {
        cell_entry *entry = plan->entries.items[i];
        bool vanishes = entry->is_hidden && entry->order == UINT64_MAX;
        if (!vanishes && !entry->order) entry->order = ++t->names->next_order;
        if (!cell_names_put(t->names, cell_entry_space(entry), entry->name,
                            vanishes ? NULL : entry))
            return false;
    }
    return true;
}

static void put(planner *p, const planned_item *plan)
{
    if (!cell_plan_put(p->t, plan)) longjmp(p->t->arena->recover, 1);
    for (size_t i = 0; i < plan->entries.count; i++) {
        const cell_entry *entry = plan->entries.items[i];
        if (entry->kind == ENTRY_MACRO) continue;
        bool is_object = entry->kind == ENTRY_VARIABLE || entry->kind == ENTRY_FUNCTION;
        uintptr_t flags = is_object && !entry->is_defined ? DECLARED : DEFINED;
        if (entry->kind == ENTRY_FUNCTION && entry->is_defined) flags |= INITIALISED;
        for (size_t k = 0; plan->variables && k < plan->item->declaration.declarator_count; k++)
            if (plan->variables[k].entry == entry &&
                plan->variables[k].declarator->initialiser.end >
                    plan->variables[k].declarator->initialiser.first)
                flags |= INITIALISED;
        add_state(p, cell_entry_space(entry) == SPACE_TAG, entry->name, strlen(entry->name), flags);
    }
}

static void plan_declaration(planner *p, planned_item *plan)
{
    cell_translator *t = p->t;
    const declaration *d = &plan->item->declaration;
    const token *items = t->reading->stream.items;
    if (d->is_assert || d->is_asm) return;
    for (int attempt = 0; attempt < 2; attempt++) {
        plan->entries.count = 0;
        plan->drop_type = false;
        plan->tag = NULL;
        plan->variables =
            cell_arena_take(t->arena, (d->declarator_count + 1) * sizeof *plan->variables);
        cell_entry *type = plan_type(p, plan, d);
        /* The type's own name must be known to what is declared with it. */
        size_t types = plan->entries.count;
        uint64_t generation = t->names->generation;
        t->names->generation++;
        if (types && !cell_plan_put(t, plan)) longjmp(t->arena->recover, 1);
        for (size_t i = 0; i < d->declarator_count; i++)
            plan_declarator(p, plan, d, i, type);
        cell_names_rewind(t->names, generation);
        bool cut = false;
        for (size_t i = 0; i < plan->entries.count; i++) {
            const planned_variable *v = NULL;
            for (size_t k = 0; k < d->declarator_count; k++)
                if (plan->variables[k].entry == plan->entries.items[i]) v = &plan->variables[k];
            cut |= must_cut(p, plan, plan->entries.items[i], v);
        }
        if (!cut || attempt) break;
        p->segment++;
        begin_segment(p);
    }
    for (size_t i = 0; i < d->declarator_count; i++)
        if (d->is_definition && cell_token_is(&items[d->declarators[i].name], "main")) {
            t->runs_main = true;
            t->main_is_void = cell_token_is(&items[d->specifiers.first], "void");
        }
}

/* #pragma pack(push, 1), pack(2), pack(pop), pack(): later declarations of a type need it too. */
static void plan_pack(planner *p, const char *rest, size_t length, const token *at)
{
    cell_translator *t = p->t;
    token_list tokens = {0};
    cell_tokens_read_line(t->arena, rest, length, at, &tokens);
    if (tokens.count < 3 || !cell_token_is(&tokens.items[0], "pack")) return;
    const char *number = NULL;
    bool push = false, pop = false;
    for (size_t i = 2; i < tokens.count; i++) {
        push |= cell_token_is(&tokens.items[i], "push");
        pop |= cell_token_is(&tokens.items[i], "pop");
        if (tokens.items[i].kind == TOKEN_NUMBER)
            number = cell_tokens_text(t->arena, &tokens.items[i], 1);
    }
    if (push) CELL_PUSH(t->arena, &p->packs, t->pack);
    if (pop)
        t->pack = p->packs.count ? p->packs.items[--p->packs.count] : NULL;
    else if (number || !push)
        t->pack = number;
}

static void plan_directive(planner *p, planned_item *plan)
{
    cell_translator *t = p->t;
    const token *directive = &t->reading->stream.items[plan->item->tokens.first];
    const char *name, *rest;
    size_t name_length, rest_length;
    cell_directive_split(directive, &name, &name_length, &rest, &rest_length);
    if (name_length == 6 && !memcmp(name, "pragma", 6)) {
        plan_pack(p, rest, rest_length, directive);
    } else if (name_length == 6 && !memcmp(name, "define", 6)) {
        cell_entry *entry = cell_entry_for_macro(t, directive);
        if (entry) CELL_PUSH(t->arena, &plan->entries, entry);
    } else if (name_length == 5 && !memcmp(name, "undef", 5)) {
        token_list tokens = {0};
        cell_tokens_read_line(t->arena, rest, rest_length, directive, &tokens);
        if (!tokens.count || tokens.items[0].kind != TOKEN_NAME) return;
        cell_entry *entry =
            cell_entry_for_undef(t, tokens.items[0].text, tokens.items[0].length, directive);
        /* A header's macro stays hidden; one of the session is simply gone. */
        if (!t->headers || !cell_macro_find(&t->headers->macros, &tokens.items[0]))
            entry->order = UINT64_MAX;
        CELL_PUSH(t->arena, &plan->entries, entry);
    }
}

/* An initialiser that takes the address of a name which the cell defines anew in a later segment
 * means the old one, whose address is known only when the cell is loaded. */
static void find_old_addresses(cell_translator *t)
{
    cell_map later = {0};
    for (size_t i = t->items->count; i-- > 0;) {
        planned_item *plan = &t->plan[i];
        if (i + 1 < t->items->count && t->plan[i + 1].segment != plan->segment)
            for (size_t k = i + 1;
                 k < t->items->count && t->plan[k].segment == t->plan[i + 1].segment; k++)
                for (size_t n = 0; n < t->plan[k].entries.count; n++) {
                    const char *name = t->plan[k].entries.items[n]->name;
                    cell_map_put(t->arena, &later, name, strlen(name), (void *)name);
                }
        if (!later.count || plan->item->kind != ITEM_DECLARATION || !plan->variables) continue;
        bool uses = false;
        for (size_t k = 0; k < plan->item->uses.count; k++)
            uses |= cell_map_get_token(&later, plan->item->uses.items[k].name) != NULL;
        for (size_t k = 0; uses && k < plan->item->declaration.declarator_count; k++) {
            planned_variable *v = &plan->variables[k];
            bool initialised =
                v->declarator && v->declarator->initialiser.end > v->declarator->initialiser.first;
            if (v->is_definition && initialised && !v->override) v->at_run_time = true;
        }
    }
}

void cell_plan(cell_translator *t)
{
    planner p = {.t = t};
    uint64_t generation = t->names->generation, order = t->names->next_order;
    t->plan = cell_arena_take(t->arena, (t->items->count + 1) * sizeof *t->plan);
    t->names->generation++;
    t->pack = NULL;
    begin_segment(&p);
    for (size_t i = 0; i < t->items->count; i++) {
        planned_item *plan = &t->plan[i];
        plan->item = &t->items->items[i];
        if (plan->item->kind == ITEM_DECLARATION) plan_declaration(&p, plan);
        if (plan->item->kind == ITEM_DIRECTIVE) plan_directive(&p, plan);
        plan->segment = p.segment;
        note_uses(&p, plan->item);
        put(&p, plan);
        p.labelled |= plan->item->has_label;
    }
    find_old_addresses(t);
    cell_names_rewind(t->names, generation);
    t->names->next_order = order;
    t->segment_count = p.segment + 1;
}

bool cell_translation_commit(cell_translator *t)
{
    for (size_t i = 0; i < t->items->count; i++) {
        if (!cell_plan_put(t, &t->plan[i])) return false;
        for (size_t k = 0; k < t->plan[i].entries.count; k++) {
            uint64_t order = t->plan[i].entries.items[k]->order;
            if (order != UINT64_MAX && order > t->names->next_order) t->names->next_order = order;
        }
    }
    return true;
}
