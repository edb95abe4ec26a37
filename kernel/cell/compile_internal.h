/* What the files of the compile service share; nobody else includes this.
 *
 * compile.c          the service: options, cache, warm, plain, link, in that order
 * compile_child.c    starting, waiting for and killing processes; memory files
 * compile_options.c  what the driver says cc1 and as must be called with
 * compile_plain.c    one cc1 and one as per unit, or the driver
 * compile_server.c   one process kept as a fork server (plugin/warm.h)
 * compile_warm.c     cc1 and as kept as servers, one pair for each set of headers and flags
 * compile_ahead.c    cc1 and as started ahead, for one unit, where no server can be had
 * compile_link.c     shared libraries, through the driver
 * compile_key.c      the name and the manifest of a cached result
 * compile_keep.c     verdicts to and from the cache
 * cache.c            the folder of cached results
 */
#ifndef CADRE_CELL_COMPILE_INTERNAL_H
#define CADRE_CELL_COMPILE_INTERNAL_H

#include "base/base.h"
#include "kernel/cell/cache.h"
#include "kernel/cell/compile.h"

#include <sys/types.h>

/* ---- compile_child.c ---- */

typedef struct cadre_child {
    pid_t pid; /* 0: none; also the id of its process group */
    int pidfd; /* readable when it ended; -1: the system has none */
    int status;
} cadre_child;

#define CADRE_CHILD_NONE ((cadre_child){.pid = 0, .pidfd = -1})

typedef struct cadre_child_file {
    int target, source;
} cadre_child_file;

/* Starts `path` with exactly the files given (0, 1 and 2 are /dev/null when not among them), every
 * signal at its default, in a process group of its own; it dies with the calling thread. The
 * caller's memory is not copied (vfork). `environment` NULL: cadre_child_environment(NULL, NULL).
 */
int cadre_child_start(cadre_child *child, const char *path, char *const *arguments,
                      char *const *environment, const cadre_child_file *files, size_t file_count,
                      cadre_error *error);
/* Kills the whole process group, reaps, closes. Does nothing for CADRE_CHILD_NONE. */
void cadre_child_stop(cadre_child *child);
/* Waits until all of them ended (status in ->status, pid 0 afterwards). On cancel_fd readable or
 * deadline reached stops them all: CADRE_EINTERRUPT or CADRE_ETIMEOUT. */
int cadre_child_wait(cadre_child **children, size_t count, int cancel_fd, int64_t deadline,
                     cadre_error *error);
/* Waits until `fd` is readable: 0; CADRE_EINTERRUPT and CADRE_ETIMEOUT as above. */
int cadre_child_poll(int fd, int cancel_fd, int64_t deadline, cadre_error *error);

/* The environment of every compiler: ours, with messages in English and UTF-8 and without the
 * variables that make gcc write files. The array is new (free()), its strings are borrowed, as are
 * the two more ("NAME=value" or NULL), which replace variables of their names. */
char **cadre_child_environment(const char *first, const char *second);

/* A memory file with this content, at offset 0, close-on-exec; -1 with *error. */
int cadre_memory_file(const char *name, const void *bytes, size_t length, const void *more_bytes,
                      size_t more, cadre_error *error);
/* Whole content of a file, new, with a NUL after it; NULL with *error. */
char *cadre_memory_read(int fd, size_t *length, cadre_error *error);

/* Milliseconds of the monotonic clock; deadlines are in it. */
int64_t cadre_clock_ms(void);
/* Full path of a program (PATH is searched for a name without '/'), new; NULL: not found. */
char *cadre_program_find(const char *name, const char *path_list);

/* ---- compile_options.c ---- */

enum { CADRE_HASH_SIZE = 32 };

typedef enum cadre_mode { CADRE_MODE_OBJECT, CADRE_MODE_PREPROCESS } cadre_mode;

typedef struct cadre_options {
    struct cadre_options *next;
    char *name; /* mode, folder and flags that this is the answer for */
    size_t name_length;
    bool direct;            /* cc1 (and as) are called directly; false: the driver does it */
    bool gcc;               /* the compiler is gcc (no clang), whatever is called directly */
    char **compile;         /* cc1's or the driver's arguments, compile[0] a full path */
    char **assemble;        /* as's arguments, NULL when not direct */
    size_t assemble_output; /* index in `assemble` of the output's name, replaced per run */
    char *refused;          /* the driver's own refusal of the flags, else NULL */
    unsigned char identity[CADRE_HASH_SIZE]; /* compiler, version, CPU, flags */
    unsigned char programs[CADRE_HASH_SIZE]; /* driver, cc1 and as on disk when asked */
    uint64_t last_use;
} cadre_options;

/* Borrowed until the next call; NULL with *error when there is no usable compiler. */
const cadre_options *cadre_options_get(cadre_compiler *compiler, cadre_mode mode,
                                       const char *const *flags, size_t flag_count,
                                       cadre_error *error);
void cadre_options_free(cadre_options *list);

extern const char *const cadre_default_flags[]; /* NULL-terminated */

/* ---- compile_plain.c ---- */

/* What became of one run of the compiler. */
typedef struct cadre_verdict {
    bool ok;
    unsigned char *object;
    size_t object_length;
    char *diagnostics;
    char *dependencies; /* the text of -MD */
} cadre_verdict;

void cadre_verdict_free(cadre_verdict *verdict);

/* 0 with *verdict, or negative with *error; CADRE_ECHILD: a process was killed, try again. */
int cadre_plain_compile(const cadre_options *options, const cadre_compile_request *request,
                        int64_t deadline, cadre_verdict *verdict, cadre_error *error);
/* The same for -E: the text is in verdict->object. `more` is NULL-terminated. */
int cadre_plain_preprocess(const cadre_options *options, const cadre_compile_request *request,
                           const char *const *more, int64_t deadline, cadre_verdict *verdict,
                           cadre_error *error);

/* Turns a wait status into ok, or an error when the process was killed. */
int cadre_verdict_from_status(const char *program, int status, bool *ok, cadre_error *error);

/* One run of cc1 and as, however they were started. -1: a file that is not open. */
typedef struct cadre_run {
    int source, object, compiler_text, assembler_text, dependencies;
    int pipe_read, pipe_write;
    cadre_child compiler, assembler;
    char **compile, **assemble;
} cadre_run;

/* The memory files of a run, and the pipe between cc1 and as. `first` is text before `source`. */
int cadre_run_open(cadre_run *run, const char *first, const char *source, size_t length,
                   cadre_error *error);
void cadre_run_free(cadre_run *run); /* kills what still runs */
void cadre_run_close_pipe(cadre_run *run);
int cadre_run_start_assembler(cadre_run *run, const cadre_options *options, cadre_error *error);
/* The verdict, once all ended with these statuses. `before`: messages to put first, or NULL. */
int cadre_run_collect(cadre_run *run, const cadre_options *options, const char *before,
                      cadre_verdict *verdict, cadre_error *error);
/* base's words and then `more`; the strings are borrowed, the array is new. */
char **cadre_arguments_with(char *const *base, const char *const *more);

/* ---- compile_link.c ---- */

int cadre_link_shared(cadre_compiler *compiler, const cadre_compile_request *request,
                      const cadre_verdict *object, int64_t deadline, cadre_compile_result *result,
                      cadre_error *error);

/* ---- compile_key.c ---- */

/* Contents of included files, hashed once per file and change. */
typedef struct cadre_file_memo cadre_file_memo;
void cadre_file_memo_free(cadre_file_memo *memo);

/* Now, on the clock of file times. */
int64_t cadre_file_clock(void);

/* False for flags that read or write files that no dependency list names, or whose answer differs
 * from call to call: neither kept warm nor cached. */
bool cadre_flags_are_common(const char *const *flags, size_t flag_count);
/* False for a unit whose result depends on more than its key and manifest (__DATE__, ...). */
bool cadre_request_is_stable(const cadre_compile_request *request);

/* The name of the result: `what` (one word: object, -E ...), options, environment, folder, text. */
int cadre_key_make(const cadre_options *options, const cadre_compile_request *request,
                   const char *what, unsigned char name[CADRE_HASH_SIZE]);
/* The folders searched before the system's, in order. */
typedef struct cadre_folders {
    char *names[64];
    size_t count;
    bool failed; /* too many, or no memory: nothing is sure */
} cadre_folders;

void cadre_folders_find(cadre_folders *folders, const cadre_options *options,
                        const cadre_compile_request *request);
void cadre_folders_free(cadre_folders *folders);

/* The manifest of the files that the result was made from (`dependencies` as of -MD), by a
 * compiler that began to read them at `start`. False: they cannot be relied on, do not cache. */
bool cadre_manifest_make(cadre_compiler *compiler, const cadre_folders *folders,
                         const char *dependencies, int64_t start, cadre_buffer *manifest);
/* The same for the headers that a server holds: names with a NUL after each. */
bool cadre_manifest_make_list(cadre_compiler *compiler, const cadre_folders *folders,
                              const char *list, size_t length, int64_t start,
                              cadre_buffer *manifest);
/* Whether all of them are still what they were. */
bool cadre_manifest_check(cadre_compiler *compiler, const unsigned char *manifest, size_t length);

/* ---- compile_keep.c ---- */

/* A verdict from the cache, when everything it was made from is still the same. */
bool cadre_keep_recall(cadre_compiler *compiler, const unsigned char *name, cadre_verdict *verdict);
/* Remembers a verdict for the cache. It is written by cadre_keep_write, when there is time: while
 * the compiler works on the next unit, or when this one is asked for again. */
void cadre_keep(cadre_compiler *compiler, const cadre_options *options,
                const cadre_compile_request *request, const unsigned char *name,
                const cadre_verdict *verdict, int64_t start);
void cadre_keep_write(cadre_compiler *compiler);

/* ---- compile_server.c ---- */

typedef struct cadre_server {
    cadre_child child;
    int socket;   /* -1: not running */
    int messages; /* memory file: what it said before it was ready */
    bool ready;
} cadre_server;

#define CADRE_SERVER_NONE ((cadre_server){.child = CADRE_CHILD_NONE, .socket = -1, .messages = -1})

/* Starts a server with `files` besides its socket and messages. */
int cadre_server_start(cadre_server *server, char *const *arguments, char *const *environment,
                       const cadre_child_file *files, size_t file_count, cadre_error *error);
void cadre_server_stop(cadre_server *server);
/* Gives it a job; CADRE_ECHILD when the server is gone. */
int cadre_server_send(cadre_server *server, uint32_t number, const int *files, size_t count,
                      cadre_error *error);
/* Waits until the job is done (0, *status) or, for number 0, until the server is ready.
 * CADRE_ECHILD: the server is gone. CADRE_EINTERRUPT, CADRE_ETIMEOUT: the job goes on. */
int cadre_server_wait(cadre_server *server, uint32_t number, int cancel_fd, int64_t deadline,
                      int *status, cadre_error *error);
/* Ends the job, whatever it does. */
void cadre_server_cancel(cadre_server *server, uint32_t number);

/* ---- compile_warm.c ---- */

enum { CADRE_WARM_SETS = 2 };

typedef struct cadre_warm cadre_warm;

/* Starts servers for these headers and options, if there are none. False: there are none now. */
bool cadre_warm_start(cadre_compiler *compiler, const cadre_options *options,
                      const cadre_compile_request *request);
/* 0 with *verdict, CADRE_EINTERRUPT, CADRE_ETIMEOUT, or CADRE_ECHILD: go another way. */
int cadre_warm_compile(cadre_compiler *compiler, const cadre_options *options,
                       const cadre_compile_request *request, int64_t deadline,
                       cadre_verdict *verdict, cadre_error *error);
void cadre_warm_free(cadre_compiler *compiler);

/* The text that a warm cc1 reads before it waits, and the first line of what follows: it leaves
 * the included file again, so that no message says "In file included from". */
int cadre_warm_texts(const char *headers, const char *wait_line, cadre_buffer *before,
                     cadre_buffer *first_line);

/* ---- compile_ahead.c ---- */

typedef struct cadre_ahead cadre_ahead;

/* Takes the pair started for these headers and options, if there is one, and lets it compile.
 * CADRE_ECHILD: there is none. */
int cadre_ahead_compile(cadre_compiler *compiler, const cadre_options *options,
                        const cadre_compile_request *request, int64_t deadline,
                        cadre_verdict *verdict, cadre_error *error);
/* Starts a pair for the next unit with these headers and options. */
void cadre_ahead_start(cadre_compiler *compiler, const cadre_options *options,
                       const cadre_compile_request *request);
void cadre_ahead_free(cadre_compiler *compiler);

/* ---- compile.c ---- */

struct cadre_compiler {
    char *program; /* as given */
    char *path;    /* found, NULL when not found yet */
    cadre_options *options;
    uint64_t clock;       /* counts uses, for least recently used */
    char *private_folder; /* made on first need */
    cadre_cache *cache;   /* NULL: none */
    cadre_file_memo *memo;
    struct cadre_kept *kept; /* to be written */
    cadre_warm *warm[CADRE_WARM_SETS];
    cadre_ahead *ahead;
    uint32_t job_number;
    unsigned long library_count;
};

#endif
