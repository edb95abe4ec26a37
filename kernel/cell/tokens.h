/* The tokens of C text, with their places. Private to kernel/cell.
 *
 * A cell's text is first normalised (byte order mark dropped, CRLF to LF, NUL to a blank), so
 * that lines and columns are those of the user's text. Directives are one token each, from `#`
 * to the end of the logical line; magics (`%cflags -O3`, `//% cflags -O3`, `!ls`) too, where a
 * statement may begin. Comments and white space are no tokens. Nothing is refused: an unclosed
 * string ends at its line's end, an unclosed comment at the end of the text, and a flag says so.
 */
#ifndef CADRE_CELL_TOKENS_H
#define CADRE_CELL_TOKENS_H

#include "cell/arena.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum token_kind {
    TOKEN_END,
    TOKEN_NAME, /* identifiers and keywords; `keyword` tells */
    TOKEN_NUMBER,
    TOKEN_STRING,
    TOKEN_CHARACTER,
    TOKEN_PUNCTUATOR, /* `punctuator` is its spelling: PUNCTUATOR('-', '>') or just '{' */
    TOKEN_DIRECTIVE,
    TOKEN_MAGIC,
    TOKEN_OTHER /* a byte that C has no use for */
} token_kind;

#define PUNCTUATOR(a, b) ((a) | (b) << 8)
#define PUNCTUATOR3(a, b, c) ((a) | (b) << 8 | (c) << 16)

typedef enum keyword {
    KEYWORD_NONE,
    KEYWORD_TYPE,      /* int, unsigned, _Bool, __int128, _Float64 ... */
    KEYWORD_QUALIFIER, /* volatile, restrict, _Noreturn ... */
    KEYWORD_CONST,
    KEYWORD_ATOMIC, /* _Atomic: qualifier or _Atomic(type) */
    KEYWORD_STRUCT, /* struct, union */
    KEYWORD_ENUM,
    KEYWORD_TYPEOF,
    KEYWORD_AUTO_TYPE,
    KEYWORD_ATTRIBUTE, /* __attribute__, __declspec */
    KEYWORD_ALIGNAS,
    KEYWORD_EXTENSION,
    KEYWORD_TYPEDEF,
    KEYWORD_EXTERN,
    KEYWORD_STATIC,
    KEYWORD_INLINE,
    KEYWORD_REGISTER, /* register, auto */
    KEYWORD_THREAD,   /* _Thread_local, __thread */
    KEYWORD_ASSERT,   /* _Static_assert */
    KEYWORD_ASM,
    KEYWORD_IF,
    KEYWORD_ELSE,
    KEYWORD_FOR, /* for, while, switch: a head in parentheses, then a statement */
    KEYWORD_DO,
    KEYWORD_CASE,
    KEYWORD_DEFAULT,
    KEYWORD_GOTO,
    KEYWORD_RETURN,
    KEYWORD_BREAK,  /* break, continue */
    KEYWORD_SIZEOF, /* sizeof, _Alignof */
    KEYWORD_LABEL,  /* __label__ */
    KEYWORD_OTHER   /* _Generic, __func__ ...: only inside expressions */
} keyword;

enum {
    TOKEN_SPACE_BEFORE = 1, /* white space or a comment before it */
    TOKEN_FIRST = 2,        /* first token of its line */
    TOKEN_EXPANDED = 4,     /* comes out of a macro; the place is that of the macro's use */
    TOKEN_PAINTED = 8,      /* a macro's name that must not be expanded again */
    TOKEN_UNCLOSED = 16     /* a string, character, comment or directive that does not end */
};

typedef struct token {
    const char *text; /* its spelling (line continuations removed), not NUL-terminated */
    uint32_t length;
    uint32_t hash;         /* of a name */
    uint32_t line, column; /* counted from 1, columns in bytes */
    uint32_t offset, end;  /* bytes of the source that it stands for */
    uint32_t punctuator;
    uint16_t source; /* which source: 0 the cell, 1.. local headers */
    uint8_t kind, flags;
    uint8_t keyword;
} token;

typedef struct token_list {
    token *items;
    size_t count, capacity;
} token_list;

/* One text that tokens come from. */
typedef struct cell_source {
    const char *name; /* as it stands in #line */
    char *text;       /* normalised, NUL-terminated; regions that #if leaves out are blanked */
    size_t length;
    const char *original; /* the same before anything was blanked; may be NULL */
} cell_source;

/* Normalised copy of `code`, in the arena. */
char *cell_text_normalise(cell_arena *arena, const char *code, size_t length, size_t *out);

/* All tokens of the source, without TOKEN_END. `magics`: see % at a statement's start as one. */
void cell_tokens_read(cell_arena *arena, const cell_source *source, uint16_t source_index,
                      bool magics, token_list *out);
/* Tokens of a directive's or a macro's text: a `#` is a punctuator here. Places are `at`'s. */
void cell_tokens_read_line(cell_arena *arena, const char *text, size_t length, const token *at,
                           token_list *out);
/* Does the text end inside a comment or in a continued line? */
bool cell_tokens_unclosed(const char *text, size_t length);

bool cell_token_is(const token *t, const char *text);
static inline bool cell_token_punctuator(const token *t, uint32_t punctuator)
{
    return t->kind == TOKEN_PUNCTUATOR && t->punctuator == punctuator;
}
bool cell_tokens_equal(const token *a, const token *b);
uint32_t cell_hash(const char *text, size_t length);

/* Index of the bracket that closes the one at `open` in items[0..count), or count. Brackets of
 * all three kinds nest; directives and magics are passed over. */
size_t cell_tokens_match(const token *items, size_t count, size_t open);

/* The tokens as text on one line, single blanks between them where needed; in the arena. */
char *cell_tokens_text(cell_arena *arena, const token *items, size_t count);

#endif
