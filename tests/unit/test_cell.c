/* Tokens, macros, conditions, splitting, completeness: text in, structure out. */
#include "cell/cell.h"
#include "cell/session.h"
#include "cell/split.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

typedef struct text {
    cell_arena arena;
    macro_table macros;
    cell_reading reading;
    cell_items items;
    cell_problem problem;
} text;

static name_kind known(void *context, const token *name)
{
    (void)context;
    if (cell_token_is(name, "number") || cell_token_is(name, "size_t")) return NAME_TYPE;
    return cell_token_is(name, "three") ? NAME_VARIABLE : NAME_UNKNOWN;
}

static const cell_oracle oracle = {.kind = known};

static void read_text(text *t, const char *code)
{
    memset(t, 0, sizeof *t);
    t->macros.arena = t->reading.arena = &t->arena;
    t->reading.macros = &t->macros;
    t->reading.oracle = &oracle;
    if (setjmp(t->arena.recover)) ck_abort_msg("no memory");
    cell_read(&t->reading, "cell", code, strlen(code));
    t->problem = t->reading.problem;
    cell_split(&t->arena, &oracle, &t->reading.stream, true, &t->items, &t->problem);
}

/* --- tokens --------------------------------------------------------------------------------- */

static void check_tokens(const char *code, const char *wanted)
{
    cell_arena arena = {0};
    if (setjmp(arena.recover)) ck_abort_msg("no memory");
    cell_source source = {.name = "cell"};
    source.text = cell_text_normalise(&arena, code, strlen(code), &source.length);
    token_list list = {0};
    cell_tokens_read(&arena, &source, 0, true, &list);
    cadre_buffer got = {0};
    for (size_t k = 0; k < list.count; k++)
        cadre_buffer_printf(&got, "%s%.*s@%u:%u", k ? " " : "", (int)list.items[k].length,
                            list.items[k].text, list.items[k].line, list.items[k].column);
    ck_assert_str_eq(got.data, wanted);
    cadre_buffer_free(&got);
    cell_arena_free(&arena);
}

START_TEST(tokens_have_places)
{
    static const struct {
        const char *code;
        const char *tokens; /* text@line:column */
    } table[] = {
        {"int x;", "int@1:1 x@1:5 ;@1:6"},
        {"\xef\xbb\xbf\r\nint\r\n\tx", "int@2:1 x@3:2"},
        {"a/*b\nc*/d // e\nf", "a@1:1 d@2:4 f@3:1"},
        {"\"a\\\"b\" 'c' L\"w\" u8\"x\"", "\"a\\\"b\"@1:1 'c'@1:8 L\"w\"@1:12 u8\"x\"@1:17"},
        {"\"a\\\nb\" c", "\"ab\"@1:1 c@2:4"},
        {"1.5e-3f .5 0x1p+3 ...", "1.5e-3f@1:1 .5@1:9 0x1p+3@1:12 ...@1:19"},
        {"a->b<<=c", "a@1:1 ->@1:2 b@1:4 <<=@1:5 c@1:8"},
        {"#define A \\\n  b\nc", "#define A   b@1:1 c@3:1"},
        {"%cflags -O3\nx % y", "%cflags -O3@1:1 x@2:1 %@2:3 y@2:5"},
        {"x\n% y", "x@1:1 %@2:1 y@2:3"},
        {"int ab\\\nc;", "int@1:1 abc@1:5 ;@2:2"},
        {"<% %>", "<%@1:1 %>@1:4"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check_tokens(table[i].code, table[i].tokens);
}
END_TEST

START_TEST(every_prefix_of_hostile_text_is_read)
{
    static const char code[] =
        "#define F(a,...) #a ## __VA_ARGS__ \\\n x\nF(1,(2),\"\\\"'\")\n"
        "int f(a,b)int a;{for(;;)if(x)else;do{}while(0);}/*c*/'\\''\"s\"\n"
        "#if (1?2:3)/0\n#elif x\n#else\n#endif\nstruct{int:3;}[1]={[0]={.x=1}};";
    for (size_t n = 0; n < sizeof code; n++) {
        char part[sizeof code] = "", indent[32];
        memcpy(part, code, n);
        cadre_cell_is_complete(part, n, indent);
        char **names = cadre_cell_declared_names(part, n);
        for (char **name = names; name && *name; name++)
            free(*name);
        free(names);
    }
}
END_TEST

/* --- macros --------------------------------------------------------------------------------- */

START_TEST(macros_expand)
{
    static const struct {
        const char *code, *expanded;
    } table[] = {
        {"#define A 1\nA", "1"},
        {"#define F(x) ((x)*(x))\nF(a+1)", "((a+1)*(a+1))"},
        {"#define S(x) #x\nS(a \"b\\n\")", "\"a \\\"b\\\\n\\\"\""},
        {"#define C(a, b) a ## b\nC(x, 1)", "x1"},
        {"#define P(f, ...) printf(f, ## __VA_ARGS__)\nP(\"a\")", "printf(\"a\")"},
        {"#define P(f, ...) printf(f, ## __VA_ARGS__)\nP(\"a\", 1, 2)", "printf(\"a\", 1, 2)"},
        {"#define f(x) f(x + 1)\nf(f(2))", "f(f(2 + 1) + 1)"},
        {"#define X Y\n#define Y X\nX", "X"},
        {"#define E()\nE() a", "a"},
        {"#define G H\n#define H(x) x\nG(3)", "3"},
        {"#define N 1\n#undef N\nN", "N"},
        {"#define V(x, ...) x __VA_OPT__(+ __VA_ARGS__)\nV(1) V(1, 2)", "1 1 + 2"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        text t;
        read_text(&t, table[i].code);
        token_list plain = {0};
        for (size_t k = 0; k < t.reading.stream.count; k++)
            if (t.reading.stream.items[k].kind != TOKEN_DIRECTIVE)
                CELL_PUSH(&t.arena, &plain, t.reading.stream.items[k]);
        ck_assert_str_eq(cell_tokens_text(&t.arena, plain.items, plain.count), table[i].expanded);
        cell_arena_free(&t.arena);
    }
}
END_TEST

START_TEST(conditions_are_evaluated)
{
    static const struct {
        const char *condition;
        int value;
    } table[] = {
        {"1", 1},
        {"0", 0},
        {"1 + 2 * 3 == 7", 1},
        {"(1 ? 2 : 3) == 2", 1},
        {"defined A && !defined(B)", 1},
        {"A >= 3", 1},
        {"UNKNOWN", 0},
        {"-1 < 0u", 0},
        {"'a' == 97", 1},
        {"0x10 >> 2 == 4 && 1 << 3 == 8", 1},
        {"F(2) == 4", 1},
        {"1 / 0", 0},
        {"__has_include(<stdio.h>)", -1},
        {"1 +", -1},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        text t;
        read_text(&t, "#define A 3\n#define F(x) (x * x)\n");
        ck_assert_msg(cell_macro_condition(&t.macros, &t.arena, table[i].condition,
                                           strlen(table[i].condition)) == table[i].value,
                      "%s", table[i].condition);
        cell_arena_free(&t.arena);
    }
}
END_TEST

/* --- items ---------------------------------------------------------------------------------- */

START_TEST(cells_are_split)
{
    static const struct {
        const char *code, *items; /* D declaration, S statement, V value, # directive, A asm */
    } table[] = {
        {"", ""},
        {";", "S"},
        {"int x = 1;", "D"},
        {"int x = 1, *p = &x; x", "DV"},
        {"x + 1;", "S"},
        {"x + 1", "V"},
        {"int f(int a) { return a; } f(1)", "DV"},
        {"#define N 3\nN", "#V"},
        {"struct p { int x; }; struct p a = {1}; a.x = 2;", "DDS"},
        {"three * four;", "S"},
        {"number * four;", "D"},
        {"number x;", "D"},
        {"unknown_type x = 1;", "D"},
        {"main() { return 0; }", "D"},
        {"f(a, b) int a; double b; { return a; }", "D"},
        {"f(a);", "S"},
        {"int f(a);\n{ int b; }", "DS"},
        {"if (a) b; else if (c) d; else e; f;", "SS"},
        {"if (a) for (;;) while (b) do c; while (d); else e;", "S"},
        {"do x++; while (x < 3); y", "SV"},
        {"switch (x) { case 1: break; default: ; } z;", "SS"},
        {"again: x++; if (x < 3) goto again;", "SS"},
        {"case_: ;", "S"},
        {"for (int i = 0; i < 3; i++) { int inner = i; }", "S"},
        {"{ int a; } { int b; }", "SS"},
        {"#pragma omp parallel for\nfor (;;) ;", "#S"},
        {"_Static_assert(1, \"x\"); typedef int t; t y;", "DDD"},
        {"(void)x", "V"},
        {"((int[]){7, 8})[1]", "V"},
        {"({ int z = 1; z; })", "V"},
        {"int (*table[])(int) = {f, g}, n;", "D"},
        {"void f(void) __attribute__((noreturn)); __attribute__((unused)) int x;", "DD"},
        {"asm(\"nop\");", "S"},
        {"asm(\".globl f\\nf: ret\");", "A"},
        {"__extension__ int x; __extension__ ({ 1; });", "DS"},
        {"#define EACH(i, n) for (int i = 0; i < n; i++)\nEACH(k, 3) { k; } x", "#SV"},
        {"#define SAY(x) puts(x);\nSAY(\"a\")\nSAY(\"b\")", "#SS"},
        {"#define PAIR(n) struct n { int a; }; int n##_f(void) { return 1; }\nPAIR(q)", "#DD"},
        {"typedef struct { int a; } pair; pair x = {1}; pair * y;", "DDD"},
        {"x\n#undef N", "V#"},
        {"int a = 3 int b;", "D"},
        {"label: int_value = 3;", "S"},
        {"sizeof(int)", "V"},
        {"*p = 3; ++x; -x", "SSV"},
        {"goto *p; return; break;", "SSS"},
        {"enum { A, B }; enum c { C } d;", "DD"},
        {"int x[3] = {1, 2, [0] = 5}, y;", "D"},
        {"struct q f(void) { struct q r = {0}; return r; } 1", "DV"},
        {"if (x) { } else { } y", "SV"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        text t;
        read_text(&t, table[i].code);
        char got[64] = "";
        for (size_t k = 0; k < t.items.count && k < 60; k++)
            got[k] = "#DSVA"[t.items.items[k].kind];
        ck_assert_msg(!strcmp(got, table[i].items), "%s: wanted %s, got %s", table[i].code,
                      table[i].items, got);
        cell_arena_free(&t.arena);
    }
}
END_TEST

START_TEST(free_names_are_found)
{
    static const struct {
        const char *code, *names; /* of the last item */
    } table[] = {
        {"x + y.z + p->q;", "x y p "},
        {"int f(int a, int *b) { int c = a; return c + d + b[0]; }", "d "},
        {"for (int i = 0; i < n; i++) { int k = i; s += k; }", "n s "},
        {"{ int x = 1; } x;", "x "},
        {"struct p { struct q *next; number n; };", "struct:q number "},
        {"int a[n] = {[0] = b, [1].c = d};", "n b d "},
        {"int g(n, m) int n; number m; { return n + m + o; }", "number o "},
        {"({ int z = w; goto l; l: z; })", "w "},
        {"int h(void) { int k(int a) { return a + b; } return k(c); }", "b c "},
        {"enum e { A, B = C };", "C "},
        {"int f(void) { enum { L } x = L; struct t { int u; } v; return x + v.u; }", ""},
        {"{ number local; { double number = 1; number * local; } }", "number "},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        text t;
        read_text(&t, table[i].code);
        cadre_buffer got = {0};
        cadre_buffer_puts(&got, "");
        const cell_item *last = &t.items.items[t.items.count - 1];
        for (size_t k = 0; k < last->uses.count; k++)
            cadre_buffer_printf(&got, "%s%.*s ", last->uses.items[k].is_tag ? "struct:" : "",
                                (int)last->uses.items[k].name->length,
                                last->uses.items[k].name->text);
        ck_assert_msg(!strcmp(got.data, table[i].names), "%s: wanted %s, got %s", table[i].code,
                      table[i].names, got.data);
        cadre_buffer_free(&got);
        cell_arena_free(&t.arena);
    }
}
END_TEST

/* --- questions ------------------------------------------------------------------------------ */

START_TEST(completeness)
{
    static const struct {
        const char *code, *answer, *indent;
    } table[] = {
        {"int x = 1;", "complete", ""},
        {"for (int i = 0; i < 3; i++) {", "incomplete", "    "},
        {"int f(int a,", "incomplete", ""},
        {"/* open comment", "incomplete", ""},
        {"#define A \\", "incomplete", ""},
        {"printf(\"}{\"); // {", "complete", ""},
        {"int x = );", "invalid", ""},
        {"x + 1", "complete", ""},
        {"if (x)", "incomplete", "    "},
        {"if (x) y; else", "incomplete", ""},
        {"do x;", "incomplete", ""},
        {"int x", "incomplete", ""},
        {"struct p { int x; }", "incomplete", ""},
        {"int f(void) { return 1; }", "complete", ""},
        {"#if 1", "incomplete", ""},
        {"#endif", "invalid", ""},
        {"}", "invalid", ""},
        {"", "complete", ""},
        {"  if (x) {", "incomplete", "      "},
        {"again:", "incomplete", ""},
        {"%cflags -O3", "complete", ""},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char indent[32];
        const char *answer = cadre_cell_is_complete(table[i].code, strlen(table[i].code), indent);
        ck_assert_msg(!strcmp(answer, table[i].answer), "%s: %s", table[i].code, answer);
        ck_assert_msg(!strcmp(indent, table[i].indent), "%s: indent '%s'", table[i].code, indent);
    }
}
END_TEST

START_TEST(declared_names)
{
    static const char code[] =
        "#include <stdio.h>\n%cflags -O3\nint cpu_count = 1, *p; const char *data_slice = \"a\";\n"
        "double f(double x) { int local; return x; }\ntypedef int number;\nextern int elsewhere;\n"
        "bool is_multiple_processors = false;\nsize_t n[3];\nfor (int i = 0;;) break;\nnumber k;";
    static const char *const wanted[] = {"cpu_count", "p", "data_slice", "is_multiple_processors",
                                         "n",         "k"};
    char **names = cadre_cell_declared_names(code, strlen(code));
    size_t count = 0;
    for (; names[count]; count++) {
        ck_assert_uint_lt(count, sizeof wanted / sizeof *wanted);
        ck_assert_str_eq(names[count], wanted[count]);
        free(names[count]);
    }
    ck_assert_uint_eq(count, sizeof wanted / sizeof *wanted);
    free(names);
}
END_TEST

START_TEST(murmur)
{
    /* Values from jupyter's own implementation (ipykernel.compiler.murmur2_x86). */
    ck_assert_uint_eq(cell_murmur2("", 0, 0xc70f6907), 3990065800u);
    ck_assert_uint_eq(cell_murmur2("a", 1, 0xc70f6907), 2167009006u);
    ck_assert_uint_eq(cell_murmur2("int x = 41;", 11, 0xc70f6907), 2387254414u);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cell");
    TCase *all = tcase_create("text");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, tokens_have_places);
    tcase_add_test(all, every_prefix_of_hostile_text_is_read);
    tcase_add_test(all, macros_expand);
    tcase_add_test(all, conditions_are_evaluated);
    tcase_add_test(all, cells_are_split);
    tcase_add_test(all, free_names_are_found);
    tcase_add_test(all, completeness);
    tcase_add_test(all, declared_names);
    tcase_add_test(all, murmur);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
