/* A plugin for gcc's C compiler, in plain C and without gcc's headers, that makes it a server.
 *
 * cc1 reads from its standard input
 *
 *     #include <stdio.h>                     the headers of the session
 *     #pragma cadre_compile_server wait      here it becomes a server (warm.h)
 *     #include "/proc/self/fd/5"             the unit of a request
 *
 * Used of gcc, the same in 11 to 14: register_callback, the names of its events, and
 * c_register_pragma, initialize_rtl, seen_error under their C++ names. */
#include "warm.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* gcc loads only what says so; the licence of this file is compatible. */
__attribute__((visibility("default"))) int plugin_is_GPL_compatible;

struct plugin_name_args;
struct plugin_gcc_version;
typedef void callback(void *event, void *data);

extern void register_callback(const char *plugin, int event, callback *function, void *data);
extern const char **plugin_event_name;
extern void
c_register_pragma(const char *space, const char *name,
                  void (*handler)(void *)) __asm__("_Z17c_register_pragmaPKcS0_PFvP10cpp_readerE");
extern void initialize_rtl(void) __asm__("_Z14initialize_rtlv");
extern _Bool seen_error(void) __asm__("_Z10seen_errorv");

__attribute__((visibility("default"))) int plugin_init(struct plugin_name_args *arguments,
                                                       struct plugin_gcc_version *version);

static int waited;

/* Before the wait: a header that the server will hold. */
static void note_header(void *event, void *data)
{
    (void)data;
    const char *name = event;
    if (waited || !name) return;
    size_t length = strlen(name) + 1;
    if (write(WARM_LIST, name, length) != (ssize_t)length) _exit(1);
}

static void wait_for_unit(void *reader)
{
    (void)reader;
    if (waited) return; /* a unit that says so itself */
    waited = 1;
    if (seen_error()) _exit(1); /* the plain route reports it */
    initialize_rtl();
    static const int targets[] = {WARM_SOURCE, STDOUT_FILENO, STDERR_FILENO, WARM_DEPENDENCIES};
    warm_serve(targets, 4);
}

/* When cc1 exits: assembly and dependencies are written and closed, the last word is said (also
 * after a fatal error). Taking cc1 down as it would is work for nobody. */
static void answer(int status, void *data)
{
    (void)data;
    if (!warm_is_child()) return;
    warm_answer((status & 255) << 8);
    _exit(status);
}

static void add_pragma(void *event, void *data)
{
    (void)event, (void)data;
    c_register_pragma("cadre_compile_server", "wait", wait_for_unit);
}

static int find_event(const char *name)
{
    for (int i = 0; i < 64 && plugin_event_name[i]; i++)
        if (strcmp(plugin_event_name[i], name) == 0) return i;
    return -1;
}

int plugin_init(struct plugin_name_args *arguments, struct plugin_gcc_version *version)
{
    (void)arguments, (void)version;
    int pragmas = find_event("PLUGIN_PRAGMAS"), include = find_event("PLUGIN_INCLUDE_FILE");
    if (pragmas < 0 || include < 0 || on_exit(answer, NULL) != 0) return 1;
    /* One heap with room at its top, so that the copy that is made present ahead holds what the
     * compiler will ask for. */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 2 << 20);
    register_callback("cadre", pragmas, add_pragma, NULL);
    register_callback("cadre", include, note_header, NULL);
    return 0;
}
