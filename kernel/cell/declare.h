/* Declarations: which tokens are specifiers, which names are declared, where initialisers and
 * bodies are. Works on tokens whose macros are expanded. Private to kernel/cell.
 *
 * All positions are indices into the token array that was parsed. Parsing never fails: a text
 * that is no C gives a declaration that the compiler will refuse at the same place.
 */
#ifndef CADRE_CELL_DECLARE_H
#define CADRE_CELL_DECLARE_H

#include "cell/tokens.h"

typedef enum name_kind {
    NAME_UNKNOWN,
    NAME_TYPE, /* a typedef name */
    NAME_VARIABLE,
    NAME_FUNCTION,
    NAME_ENUMERATOR
} name_kind;

/* Who knows what an ordinary identifier means at this place of the text. */
typedef struct cell_oracle {
    name_kind (*kind)(void *context, const token *name);
    void *context;
} cell_oracle;

#define CELL_NOWHERE ((size_t)-1)

typedef struct range {
    size_t first, end; /* [first, end) */
} range;

typedef struct declarator {
    range whole;       /* pointers, name, suffixes, asm label and attributes; no initialiser */
    size_t name;       /* CELL_NOWHERE: none */
    range initialiser; /* after `=`; empty: none */
    bool is_function;  /* the name is a function's, not a pointer to one */
    bool is_array, unsized;
    bool is_pointer;    /* the name's own type, array bounds taken off, is a pointer */
    size_t object_star; /* that pointer's `*`, or CELL_NOWHERE */
    range parameters;   /* is_function: between the parentheses */
    range *brackets;    /* inside of each [ ], in order of writing, parameters' left out */
    size_t bracket_count;
} declarator;

typedef struct type_definition {
    size_t keyword, tag; /* struct, union or enum; its tag or CELL_NOWHERE */
    size_t open, close;  /* its braces; open == CELL_NOWHERE: only named */
} type_definition;

typedef struct declaration {
    range specifiers;
    bool is_typedef, is_extern, is_static, is_inline, is_thread, is_auto_type, is_assert, is_asm;
    bool has_typeof;
    type_definition type; /* keyword == CELL_NOWHERE: none in the specifiers */
    declarator *declarators;
    size_t declarator_count;
    bool is_definition; /* of a function: body is its braces */
    range body;         /* [open, close] -> first = open brace, end = after the closing one */
    size_t end;         /* after the `;` or the `}` */
    bool complete;      /* the `;` or `}` was there */
} declaration;

/* Does a declaration begin at items[at]? (A label or an expression does not.) */
bool cell_declaration_begins(const cell_oracle *oracle, const token *items, size_t count,
                             size_t at);
void cell_declaration_parse(cell_arena *arena, const cell_oracle *oracle, const token *items,
                            size_t count, size_t at, declaration *out);

/* Index after an attribute, _Alignas or [[...]] at `at`, or `at` itself. */
size_t cell_skip_attributes(const token *items, size_t count, size_t at);

/* One name that a parameter list, a struct body or an enum body declares. */
typedef void (*cell_name_sink)(void *context, const token *name);
void cell_enumerators(const token *items, size_t open, size_t close, cell_name_sink sink,
                      void *context);
/* Splits a parameter list at its commas: array of ranges in the arena. */
range *cell_parameters_split(cell_arena *arena, const token *items, range list, size_t *count);

#endif
