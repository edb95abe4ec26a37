/* Thread pools of numerical libraries, as far as they are loaded. */
#include "loop/pool.h"

#include <dlfcn.h>

enum { OMP_PAUSE_HARD = 2 };

static int call_get(const char *name)
{
    int (*get)(void);
    *(void **)&get = dlsym(RTLD_DEFAULT, name);
    return get ? get() : 0;
}

static void call_set(const char *name, int count)
{
    void (*set)(int);
    *(void **)&set = dlsym(RTLD_DEFAULT, name);
    if (set) set(count);
}

thread_counts cadre_threads_set_one(void)
{
    thread_counts before = {call_get("openblas_get_num_threads"), call_get("omp_get_max_threads")};
    if (before.blas > 1) call_set("openblas_set_num_threads", 1);
    if (before.openmp > 1) call_set("omp_set_num_threads", 1);
    return before;
}

void cadre_threads_restore(thread_counts counts)
{
    if (counts.blas > 1) call_set("openblas_set_num_threads", counts.blas);
    if (counts.openmp > 1) call_set("omp_set_num_threads", counts.openmp);
}

void cadre_threads_before_fork(void)
{
    int (*pause)(int);
    *(void **)&pause = dlsym(RTLD_DEFAULT, "omp_pause_resource_all");
    if (pause) pause(OMP_PAUSE_HARD);
}
