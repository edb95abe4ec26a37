/* Names that cells may use and dlsym does not find: what the linker usually takes from static
 * parts of libc and libgcc, and libraries that a compiler option implies. */
#include "cell/load_internal.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* clang calls this for a checked 128-bit multiplication; gcc has no such helper. */
static __int128 multiply_checked(__int128 a, __int128 b, int *overflow)
{
    __int128 product;
    *overflow = __builtin_mul_overflow(a, b, &product);
    return product;
}

/* Helpers of the compiler live in libgcc_s, which the program is linked to for the unwinder, and
 * dlsym finds them there (__divti3, __popcountdi2, __mulvti3, _Float128 and _Float16 arithmetic).
 * These are in libgcc.a only: decimal floating point, and what __builtin_cpu_supports reads. */
// clang-format off
#define DECIMAL(X) \
    X(adddd3) X(addsd3) X(addtd3) X(divdd3) X(divsd3) X(divtd3) X(eqdd2) X(eqsd2) X(eqtd2) \
    X(extendddtd2) X(extendddtf) X(extendddxf) X(extenddfdd) X(extenddftd) X(extendsddd2) \
    X(extendsddf) X(extendsdtd2) X(extendsdtf) X(extendsdxf) X(extendsfdd) X(extendsfsd) \
    X(extendsftd) X(extendtftd) X(extendxftd) X(fixdddi) X(fixddsi) X(fixsddi) X(fixsdsi) \
    X(fixtddi) X(fixtdsi) X(fixunsdddi) X(fixunsddsi) X(fixunssddi) X(fixunssdsi) X(fixunstddi) \
    X(fixunstdsi) X(floatdidd) X(floatdisd) X(floatditd) X(floatsidd) X(floatsisd) X(floatsitd) \
    X(floatunsdidd) X(floatunsdisd) X(floatunsditd) X(floatunssidd) X(floatunssisd) \
    X(floatunssitd) X(gedd2) X(gesd2) X(getd2) X(gtdd2) X(gtsd2) X(gttd2) X(ledd2) X(lesd2) \
    X(letd2) X(ltdd2) X(ltsd2) X(lttd2) X(muldd3) X(mulsd3) X(multd3) X(nedd2) X(nesd2) \
    X(netd2) X(subdd3) X(subsd3) X(subtd3) X(truncdddf) X(truncddsd2) X(truncddsf) X(truncdfsd) \
    X(truncsdsf) X(trunctddd2) X(trunctddf) X(trunctdsd2) X(trunctdsf) X(trunctdtf) \
    X(trunctdxf) X(trunctfdd) X(trunctfsd) X(truncxfdd) X(truncxfsd) X(unorddd2) X(unordsd2) \
    X(unordtd2)
// clang-format on

#define DECLARE(symbol) extern char __bid_##symbol[];
DECIMAL(DECLARE)
extern char __cpu_model[], __cpu_features2[];
int __cpu_indicator_init(void);

struct builtin {
    const char *name;
    void *address;
};

void *cadre_builtin_find(const char *text)
{
#define ENTRY(symbol) {"__bid_" #symbol, __bid_##symbol},
    static const struct builtin builtins[] = {
        DECIMAL(ENTRY){"__cpu_model", __cpu_model},
        {"__cpu_features2", __cpu_features2},
        {"__cpu_indicator_init", (void *)__cpu_indicator_init},
        {"__muloti4", (void *)multiply_checked},
        {"atexit", (void *)atexit},
        {"at_quick_exit", (void *)at_quick_exit},
        {"pthread_atfork", (void *)pthread_atfork},
    };
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++) {
        if (!strcmp(builtins[i].name, text)) return builtins[i].address;
    }
    /* %cflags -fopenmp and the like imply a library that the driver would have linked. */
    static const struct builtin_library {
        const char *prefix, *library;
    } libraries[] = {
        {"GOMP_", "libgomp.so.1"},  {"omp_", "libgomp.so.1"},        {"GOACC_", "libgomp.so.1"},
        {"__kmpc_", "libomp.so.5"}, {"__atomic_", "libatomic.so.1"}, {"__ubsan_", "libubsan.so.1"},
        {"__gcov_", NULL},
    };
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        if (strncmp(libraries[i].prefix, text, strlen(libraries[i].prefix)) != 0) continue;
        if (!libraries[i].library || !dlopen(libraries[i].library, RTLD_NOW | RTLD_GLOBAL)) break;
        return dlsym(RTLD_DEFAULT, text);
    }
    return NULL;
}
