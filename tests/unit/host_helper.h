/* For the tests of the host: cells made by hand, run through host.h. */
#ifndef TEST_HOST_HELPER_H
#define TEST_HOST_HELPER_H

#include "host/host.h"

typedef struct test_session {
    cadre_host *host;
    uint64_t generation; /* committed cells, as the engine counts them */
    int cells;
    bool repeat;         /* the same cell as before: not compiled again */
    const char *flags;   /* of the compiler, NULL: none */
    const char *library; /* to load before the cell, NULL: none */
    /* for the next cell only */
    int interrupt_ms; /* when to interrupt; 0: never; -1: at once */
    int limit_ms;     /* 0: 20,000 */
    const char *const *input;
    bool deny_input, no_answer;
    cadre_snapshot_policy policy;
    int pause_ms; /* keep output paused for so long */
} test_session;

typedef struct cell_result {
    cadre_host_event_kind kind; /* of the last event */
    cadre_host_outcome outcome;
    int status;
    char *error_name, *text, *traceback; /* "" when there is none */
    cadre_buffer out, err, both, notes, displays;
    cadre_array_report array;
    uint64_t value, value_size, generation;
    char *bundle;
    double ms, first_output_ms, after_interrupt_ms;
} cell_result;

double test_now_ms(void);
/* Is there such a process, other than as a zombie? */
bool test_is_alive(int pid);
/* Waits up to `ms` for it to be gone. */
bool test_gone(int pid, int ms);
void test_session_start(test_session *session);
void test_session_stop(test_session *session);
/* Runs `globals` and, in the cell's entry, `body`. Aborts the test when the limit passes. */
cell_result test_run(test_session *session, const char *globals, const char *body);
/* The same, checked to end well, result freed. */
void test_run_ok(test_session *session, const char *globals, const char *body);
void cell_result_free(cell_result *result);
/* Waits for the next event of this kind while no cell runs. */
void test_wait_event(test_session *session, cadre_host_event_kind kind, cell_result *result);
/* Value of a `long` expression in the session. */
long test_long(test_session *session, const char *declarations, const char *expression);

#endif
