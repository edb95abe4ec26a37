/* Damaged objects and missing memory: the loader and the DWARF reader refuse them or load them, and
 * never crash. Code of a damaged object is not run. Seeded; the count is the first argument or
 * CADRE_FUZZ_COUNT, another seed the second. */
#include "cell/load.h"
#include "cell/types.h"
#include "object_helper.h"

#include <check.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_COUNT 2000

static uint64_t state = 20240229;
static long fuzz_count = DEFAULT_COUNT;

static uint64_t random_number(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static const char source[] =
    "#include <stdio.h>\n#include <math.h>\n"
    "struct node { struct node *next; double w[3]; const char *name; unsigned a : 3, b : 5; };"
    "extern int missing(int); int counter = 3; static int hidden[100]; double table[4] = {1, 2};"
    "struct node first = { &first, {1, 2, 3}, \"first\", 1, 2 };"
    "int (*const calls[])(int) = { missing, missing }; const char *words[] = { \"x\", \"y\" };"
    "_Thread_local int mine = 3; static _Thread_local long other; static int one(void) { return 1; "
    "}"
    "static void *choose(void) { return one; } int chosen(void) __attribute__((ifunc(\"choose\")));"
    "int threads(void) { return mine++ + other++ + chosen(); }"
    "__attribute__((weak)) int soft(int a) { return a; }"
    "__attribute__((constructor)) static void start(void) { counter++; }"
    "static struct node *cadre_value_type __attribute__((used));"
    "int pick(int n) { switch (n) { case 0: return 3; case 1: return hidden[1]; case 2: return 9;"
    "case 3: return 11; case 4: return counter; case 5: return (int)sqrt(table[n & 3]); }"
    "return missing(n); }"
    "void cell_entry(void) { printf(\"%d\\n\", pick(counter) + soft(2)); hidden[3] = 4; }";

/* Most damage goes where the structure is: headers, symbols, relocations, unwind tables. */
static size_t interesting_offset(const unsigned char *object, size_t length)
{
    Elf64_Ehdr header;
    memcpy(&header, object, sizeof header);
    Elf64_Shdr section;
    size_t index = random_number() % header.e_shnum;
    switch (random_number() % 4) {
    case 0: return random_number() % sizeof header;
    case 1: return header.e_shoff + index * sizeof section + random_number() % sizeof section;
    case 2:
        memcpy(&section, object + header.e_shoff + index * sizeof section, sizeof section);
        if (section.sh_type != SHT_NOBITS && section.sh_size)
            return section.sh_offset + random_number() % section.sh_size;
        return random_number() % length;
    default: return random_number() % length;
    }
}

static void damage(unsigned char *object, size_t length)
{
    static const uint64_t extremes[] = {0,          1,          7,          0x7f,
                                        0x80,       0xff,       0x7fff,     0xffff,
                                        0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff,
                                        UINT64_MAX};
    unsigned char original[sizeof(Elf64_Ehdr)];
    memcpy(original, object, sizeof original);
    size_t places[8], count = 1 + random_number() % 8;
    for (size_t i = 0; i < count; i++)
        places[i] = interesting_offset(object, length);
    for (size_t i = 0; i < count; i++) {
        size_t width = (size_t)1 << random_number() % 4, at = places[i] & ~(width - 1);
        uint64_t value =
            random_number() % 3 ? extremes[random_number() % 13] : random_number() % (2 * length);
        if (at + width <= length) memcpy(object + at, &value, width);
    }
    /* Otherwise most of them would stop at the first line of the header. */
    if (random_number() % 8) memcpy(object, original, EI_NIDENT + 4);
}

static bool read_noise(void *context, uint64_t address, void *into, size_t length)
{
    (void)context;
    (void)address;
    memset(into, (int)random_number(), length);
    return random_number() % 8 != 0;
}

static void try_types(const unsigned char *object, size_t length)
{
    cadre_error error;
    cadre_types *types = cadre_types_open(object, length, &error);
    if (!types) return;
    char file[256];
    int line;
    char **names = cadre_types_defined(types);
    for (size_t i = 0; names && names[i]; i++) {
        free(cadre_types_signature(types, names[i]));
        free(cadre_types_name(types, names[i]));
        free(names[i]);
    }
    free(names);
    free(cadre_types_format(types, "cadre_value_type", random_number(), 8, read_noise, NULL, NULL));
    free(cadre_types_format_variable(types, "first", random_number(), read_noise, NULL, NULL));
    cadre_types_line(types, "cell_entry", 12, file, sizeof file, &line);
    cadre_types_free(types);
}

static void try_loader(cadre_loader *loader, const unsigned char *object, size_t length)
{
    cadre_error error = {0};
    const char *fresh[] = {"counter"};
    cadre_module *module =
        cadre_loader_add(loader, "cell.c", object, length, fresh, random_number() % 2, &error);
    if (!module) {
        ck_assert_int_ne(error.code, 0);
        ck_assert_int_ne(error.message[0], 0);
        return;
    }
    (void)cadre_loader_check(loader, module, "cell_entry", &error);
    void *entry = cadre_module_symbol(module, "cell_entry");
    cadre_loader_describe(loader, entry, NULL, NULL, NULL);
    if (random_number() % 2) {
        cadre_loader_discard(loader);
    } else {
        cadre_loader_commit(loader);
        cadre_loader_release_statements(loader, module);
    }
}

START_TEST(damaged_objects_never_crash)
{
    cadre_error error = {0};
    test_object object = test_compile(source, NULL);
    cadre_loader *loader = cadre_loader_new(&error);
    ck_assert_ptr_nonnull(loader);
    unsigned char *copy = malloc(object.length);
    for (long i = 0; i < fuzz_count; i++) {
        if (i % 200 == 199) {
            cadre_loader_free(loader);
            loader = cadre_loader_new(&error);
            ck_assert_msg(loader != NULL, "%s", error.message);
        }
        memcpy(copy, object.bytes, object.length);
        damage(copy, object.length);
        size_t length =
            random_number() % 16 ? object.length : random_number() % (object.length + 1);
        /* Exactly as long as it says, so that a checker sees reads past the end. */
        unsigned char *exact = malloc(length ? length : 1);
        memcpy(exact, copy, length);
        (void)cadre_object_needs_dlopen(exact, length);
        try_loader(loader, exact, length);
        try_types(exact, length);
        free(exact);
    }
    free(copy);
    free(object.bytes);
    cadre_loader_free(loader);
}
END_TEST

/* ---- the k-th allocation fails ---- */

/* Calls of the loader and the reader come here (-Wl,--wrap); 0: none fails any more. */
static long allocations_left;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *pointer, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *pointer, size_t size);

static bool fails(void)
{
    return allocations_left > 0 && --allocations_left == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *pointer, size_t size)
{
    return fails() ? NULL : __real_realloc(pointer, size);
}

START_TEST(every_allocation_may_fail)
{
    cadre_error error = {0};
    test_object object = test_compile(source, NULL);
    test_object base = test_compile("int counter = 1; double elsewhere;", NULL);
    cadre_loader *loader = cadre_loader_new(&error);
    ck_assert_ptr_nonnull(
        cadre_loader_add(loader, "base.c", base.bytes, base.length, NULL, 0, &error));
    cadre_loader_commit(loader);
    int *counter = cadre_loader_symbol(loader, "counter");
    bool whole = false;
    long k = 1;
    for (; !whole && k < 5000; k++) {
        const char *fresh[] = {"counter", "missing"};
        allocations_left = k;
        cadre_module *module = cadre_loader_add(loader, "cell.c", object.bytes, object.length,
                                                fresh, (size_t)k % 3, &error);
        if (module)
            (void)cadre_loader_check(loader, module, "cell_entry", &error);
        else
            ck_assert_int_ne(error.message[0], 0);
        whole = allocations_left > 0;
        allocations_left = 0;
        cadre_loader_discard(loader);
        ck_assert_ptr_eq(cadre_loader_symbol(loader, "counter"), counter);
        ck_assert_ptr_null(cadre_loader_symbol(loader, "first"));
    }
    ck_assert(whole);
    ck_assert_int_gt(k, 20);
    whole = false;
    for (k = 1; !whole && k < 5000; k++) {
        allocations_left = k;
        try_types(object.bytes, object.length);
        whole = allocations_left > 0;
        allocations_left = 0;
    }
    ck_assert(whole);
    whole = false;
    for (k = 1; !whole && k < 100; k++) {
        allocations_left = k;
        cadre_loader *second = cadre_loader_new(&error);
        if (second) cadre_loader_define(second, "storage", &k, false);
        whole = allocations_left > 0;
        allocations_left = 0;
        cadre_loader_free(second);
    }
    cadre_loader_free(loader);
    free(object.bytes);
    free(base.bytes);
}
END_TEST

Suite *fuzz_suite(void);
Suite *fuzz_suite(void)
{
    Suite *suite = suite_create("load_fuzz");
    TCase *objects = tcase_create("objects");
    tcase_set_timeout(objects, 600);
    tcase_add_test(objects, damaged_objects_never_crash);
    tcase_add_test(objects, every_allocation_may_fail);
    suite_add_tcase(suite, objects);
    return suite;
}

int main(int argc, char **argv)
{
    const char *count = argc > 1 ? argv[1] : getenv("CADRE_FUZZ_COUNT");
    if (count) fuzz_count = strtol(count, NULL, 10);
    if (argc > 2) state ^= strtoull(argv[2], NULL, 10) << 32;
    SRunner *runner = srunner_create(fuzz_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
