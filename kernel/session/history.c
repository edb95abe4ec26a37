#include "session/history.h"

#include "base/user_folder.h"

#include "wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SESSION_LIMIT = 64 << 20, ANSWER_LIMIT = 32 << 20, WAIT_MS = 5000, HURRY_MS = 300 };

struct history {
    char *path; /* "": in memory */
    sqlite3 *base;
    ino_t inode;           /* of the file that `base` has open */
    sqlite3_int64 session; /* 0: not begun, nothing was written yet */
    int lines;
    size_t bytes;
    atomic_bool hurry; /* written by any thread, read while waiting for another kernel's lock */
};

static const char tables[] =
    "CREATE TABLE IF NOT EXISTS sessions (session integer primary key autoincrement,"
    " start timestamp, end timestamp, num_cmds integer, remark text);"
    "CREATE TABLE IF NOT EXISTS history (session integer, line integer, source text,"
    " source_raw text, PRIMARY KEY (session, line));"
    "CREATE TABLE IF NOT EXISTS output_history (session integer, line integer, output text,"
    " PRIMARY KEY (session, line));";

#define NOW "strftime('%Y-%m-%d %H:%M:%f', 'now', 'localtime')"

/* ---- the file */

char *history_default_path(void)
{
    const char *chosen = getenv("CADRE_HISTORY");
    cadre_buffer path = {0};
    if (chosen)
        cadre_buffer_puts(&path, chosen);
    else
        (void)cadre_user_path(&path, "XDG_DATA_HOME", ".local/share", "cadre/history.sqlite");
    if (path.length == 0) cadre_buffer_puts(&path, "");
    return cadre_buffer_steal(&path);
}

history *history_new(const char *path)
{
    history *self = calloc(1, sizeof *self);
    if (self && !(self->path = strdup(path))) {
        free(self);
        return NULL;
    }
    return self;
}

void history_hurry(history *self)
{
    atomic_store(&self->hurry, true);
}

/* Called again and again while another kernel holds the file; 0 gives up. */
static int wait_for_others(void *context, int tries)
{
    enum { STEP_MS = 10 };
    const history *self = context;
    const struct timespec step = {.tv_nsec = STEP_MS * 1000000L};
    if (tries * STEP_MS >= (atomic_load(&self->hurry) ? HURRY_MS : WAIT_MS)) return 0;
    nanosleep(&step, NULL);
    return 1;
}

static void matches_function(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    const char *pattern = (const char *)sqlite3_value_text(values[0]);
    const char *text = (const char *)sqlite3_value_text(values[1]);
    sqlite3_result_int(context, pattern && text && history_matches(pattern, text));
}

static void shut(history *self)
{
    sqlite3_close(self->base);
    self->base = NULL;
    self->session = 0;
    self->lines = 0;
    self->bytes = 0;
}

static int open_base(history *self)
{
    const char *name = *self->path ? self->path : ":memory:";
    int code =
        sqlite3_open_v2(name, &self->base,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, NULL);
    if (code == SQLITE_OK) code = sqlite3_busy_handler(self->base, wait_for_others, self);
    if (code == SQLITE_OK)
        code = sqlite3_create_function(self->base, "cadre_matches", 2,
                                       SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL, matches_function,
                                       NULL, NULL);
    if (code == SQLITE_OK) code = sqlite3_exec(self->base, tables, NULL, NULL, NULL);
    return code;
}

/* From now on in memory; what the file was is told. */
static int keep_in_memory(history *self, const char *problem, cadre_error *error)
{
    cadre_error_set(error, CADRE_EFILE,
                    "the history is kept in memory only: %s: %s (another file: CADRE_HISTORY)",
                    self->path, problem);
    shut(self);
    *self->path = 0;
    return open_base(self) == SQLITE_OK ? 0 : CADRE_EMEMORY;
}

static bool is_damage(int code)
{
    code &= 0xff;
    /* SQLITE_ERROR: the tables are not those that they should be. */
    return code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_ERROR;
}

/* Renames the damaged file, unless another kernel has done it before: then a file of another inode
 * is there, or none. The folder's lock lets one kernel at a time look and rename. */
static int set_aside(history *self, cadre_error *error)
{
    struct stat found;
    char date[32];
    time_t now = time(NULL);
    struct tm parts;
    cadre_buffer folder = {0}, aside = {0}, from = {0}, to = {0};
    int status = 0, lock = -1;
    localtime_r(&now, &parts);
    strftime(date, sizeof date, "%Y-%m-%d-%H%M%S", &parts);
    cadre_buffer_append(&folder, self->path, (size_t)(strrchr(self->path, '/') - self->path) + 1);
    cadre_buffer_printf(&aside, "%s.damaged-%s-%ld", self->path, date, (long)getpid());
    if (folder.failed || aside.failed) {
        status = CADRE_EMEMORY;
        goto done;
    }
    lock = open(folder.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0 || flock(lock, LOCK_EX) < 0) {
        status = CADRE_EFILE;
        goto done;
    }
    if (stat(self->path, &found) < 0 || found.st_ino != self->inode) goto done;
    static const char *const parts_of_it[] = {"", "-journal", "-wal", "-shm"};
    for (size_t i = 0; i < sizeof parts_of_it / sizeof *parts_of_it; i++) {
        cadre_buffer_clear(&from);
        cadre_buffer_clear(&to);
        cadre_buffer_printf(&from, "%s%s", self->path, parts_of_it[i]);
        cadre_buffer_printf(&to, "%s%s", aside.data, parts_of_it[i]);
        if (from.failed || to.failed || (rename(from.data, to.data) < 0 && i == 0))
            status = CADRE_EFILE;
    }
    if (status == 0)
        cadre_error_set(error, CADRE_EFORMAT,
                        "the history %s was damaged: it is now %s, a new one is begun", self->path,
                        aside.data);
done:
    if (lock >= 0) close(lock);
    cadre_buffer_free(&folder);
    cadre_buffer_free(&aside);
    cadre_buffer_free(&from);
    cadre_buffer_free(&to);
    return status;
}

/* After an operation failed with `code`: true when it is worth another try. */
static bool recover(history *self, int code, cadre_error *error)
{
    cadre_buffer problem = {0};
    bool again = false;
    cadre_buffer_puts(&problem, self->base ? sqlite3_errmsg(self->base) : sqlite3_errstr(code));
    sqlite3_exec(self->base, "ROLLBACK", NULL, NULL, NULL);
    if (!*self->path || (code & 0xff) == SQLITE_BUSY || (code & 0xff) == SQLITE_NOMEM) {
        /* Nothing is wrong with the file. */
        cadre_error_set(error, CADRE_EFILE, "not kept in the history: %s",
                        problem.data ? problem.data : "no memory");
    } else if (is_damage(code)) {
        shut(self);
        again = set_aside(self, error) == 0;
        if (!again) again = keep_in_memory(self, "it is damaged and cannot be renamed", error) == 0;
    } else {
        again = keep_in_memory(self, problem.data ? problem.data : "", error) == 0;
    }
    cadre_buffer_free(&problem);
    return again;
}

/* Opens what is not open yet. An SQLite code. */
static int ensure_open(history *self, cadre_error *error)
{
    struct stat found;
    if (self->base) return SQLITE_OK;
    if (*self->path) {
        /* Made here, so that it is never readable for others. */
        int fd = *self->path == '/' && cadre_make_folders_above(self->path) == 0
                     ? open(self->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)
                     : -1;
        if (fd < 0 || fstat(fd, &found) < 0 || !S_ISREG(found.st_mode)) {
            const char *why = *self->path != '/' ? "not an absolute path"
                              : fd < 0           ? strerror(errno)
                                                 : "not a file";
            if (fd >= 0) close(fd);
            return keep_in_memory(self, why, error) == 0 ? SQLITE_OK : SQLITE_NOMEM;
        }
        if (found.st_uid == geteuid() && (found.st_mode & 077)) fchmod(fd, 0600);
        self->inode = found.st_ino;
        close(fd);
    }
    return open_base(self);
}

/* ---- writing */

static int run_statement(sqlite3 *base, const char *sql, sqlite3_int64 a, sqlite3_int64 b,
                         const history_item *text)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(base, sql, -1, &statement, NULL);
    if (code != SQLITE_OK) return code;
    sqlite3_bind_int64(statement, 1, a);
    sqlite3_bind_int64(statement, 2, b);
    if (text)
        code =
            sqlite3_bind_text64(statement, 3, text->text, text->length, SQLITE_STATIC, SQLITE_UTF8);
    if (code == SQLITE_OK) code = sqlite3_step(statement);
    sqlite3_finalize(statement);
    return code == SQLITE_DONE || code == SQLITE_ROW ? SQLITE_OK : code;
}

/* The oldest half of this session's lines, as often as it takes. */
static int drop_oldest(history *self)
{
    int code = SQLITE_OK;
    while (code == SQLITE_OK && self->bytes > SESSION_LIMIT) {
        sqlite3_stmt *statement = NULL;
        code = run_statement(self->base,
                             "DELETE FROM history WHERE session = ?1 AND line <= (SELECT"
                             " (min(line) + max(line)) / 2 FROM history WHERE session = ?1)",
                             self->session, 0, NULL);
        if (code == SQLITE_OK)
            code = sqlite3_prepare_v2(self->base,
                                      "SELECT total(length(CAST(source_raw AS BLOB))), count(*)"
                                      " FROM history WHERE session = ?1",
                                      -1, &statement, NULL);
        if (code != SQLITE_OK) break;
        sqlite3_bind_int64(statement, 1, self->session);
        if (sqlite3_step(statement) == SQLITE_ROW) {
            self->bytes = (size_t)sqlite3_column_int64(statement, 0);
            /* One line alone is always kept: it is no longer than a message. */
            if (sqlite3_column_int64(statement, 1) <= 1) self->bytes = 0;
        }
        sqlite3_finalize(statement);
    }
    return code;
}

static int write_items(history *self, const history_item *items)
{
    int code = sqlite3_exec(self->base, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (code == SQLITE_OK && self->session == 0) {
        code =
            sqlite3_exec(self->base, "INSERT INTO sessions VALUES (NULL, " NOW ", NULL, NULL, '')",
                         NULL, NULL, NULL);
        if (code == SQLITE_OK) self->session = sqlite3_last_insert_rowid(self->base);
    }
    for (const history_item *item = items; item && code == SQLITE_OK; item = item->next) {
        code = run_statement(self->base,
                             item->is_output
                                 ? "INSERT OR REPLACE INTO output_history VALUES (?1, ?2, ?3)"
                                 : "INSERT OR REPLACE INTO history VALUES (?1, ?2, ?3, ?3)",
                             self->session, item->line, item);
        if (item->is_output) continue;
        self->bytes += item->length;
        self->lines++;
    }
    if (code == SQLITE_OK) code = drop_oldest(self);
    if (code == SQLITE_OK) code = sqlite3_exec(self->base, "COMMIT", NULL, NULL, NULL);
    return code;
}

int history_write(history *self, const history_item *items, cadre_error *error)
{
    cadre_error ignored, *told = error ? error : &ignored;
    told->code = 0;
    /* A damaged file, then one that cannot be written, then memory. */
    for (int attempt = 0; attempt < 3; attempt++) {
        sqlite3_int64 session = self->session;
        int lines = self->lines, code = ensure_open(self, told);
        if (code == SQLITE_OK) code = write_items(self, items);
        if (code == SQLITE_OK) break;
        self->session = session; /* rolled back */
        self->lines = lines;
        if (!recover(self, code, told)) break;
    }
    return told->code;
}

void history_free(history *self)
{
    if (!self) return;
    if (self->base && self->session)
        run_statement(self->base,
                      "UPDATE sessions SET end = " NOW ", num_cmds = ?2 WHERE session = ?1",
                      self->session, self->lines, NULL);
    sqlite3_close(self->base);
    free(self->path);
    free(self);
}

/* ---- asking */

bool history_matches(const char *pattern, const char *text)
{
    const char *star = NULL, *resume = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            resume = text;
        } else if (*pattern == '?' || (*pattern == *text && *pattern)) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == 0;
}

static json_t *column_text(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    if (!text) return json_null();
    return cadre_json_string(text, (size_t)sqlite3_column_bytes(statement, column));
}

/* An integer of the request, or `missing`. */
static long long number(const json_t *request, const char *key, long long missing)
{
    const json_t *value = json_object_get(request, key);
    return json_is_integer(value) ? json_integer_value(value) : missing;
}

/* A session as the client counts: from 1, or 0 for this one, -1 for the one before. */
static sqlite3_int64 session_number(history *self, long long asked)
{
    sqlite3_int64 current = self->session;
    sqlite3_stmt *statement = NULL;
    if (asked > 0) return asked;
    if (current == 0 && sqlite3_prepare_v2(self->base, "SELECT max(session) FROM sessions", -1,
                                           &statement, NULL) == SQLITE_OK) {
        if (sqlite3_step(statement) == SQLITE_ROW) current = sqlite3_column_int64(statement, 0) + 1;
        sqlite3_finalize(statement);
    }
    return asked > -current ? current + asked : 0;
}

#define COLUMNS                                                                                    \
    "SELECT session, line, source_raw, (SELECT output FROM output_history o"                       \
    " WHERE o.session = h.session AND o.line = h.line)"

/* The newest come first, and stay when there are too many. */
static const struct access {
    const char *name, *sql;
    long long missing_n;
} accesses[] = {
    {"tail", COLUMNS " FROM history h ORDER BY session DESC, line DESC LIMIT ?1", 10},
    {"range",
     COLUMNS " FROM history h WHERE session = ?2 AND line >= ?3 AND line < ?4"
             " ORDER BY line DESC LIMIT ?1",
     LLONG_MAX},
    {"search",
     COLUMNS " FROM history h WHERE cadre_matches(?5, source_raw)"
             " ORDER BY session DESC, line DESC LIMIT ?1",
     LLONG_MAX},
    /* Of equal inputs the newest: the other columns of a group with max() are those of its row. */
    {"unique",
     COLUMNS ", max((session << 32) | line) AS place FROM history h"
             " WHERE cadre_matches(?5, source_raw) GROUP BY source_raw"
             " ORDER BY place DESC LIMIT ?1",
     LLONG_MAX},
};

static void reverse(json_t *list)
{
    for (size_t i = 0, k = json_array_size(list); i + 1 < k; i++) {
        json_t *first = json_incref(json_array_get(list, i));
        k--;
        json_array_set(list, i, json_array_get(list, k));
        json_array_set_new(list, k, first);
    }
}

static int collect(history *self, const json_t *request, json_t *list)
{
    const char *type = json_string_value(json_object_get(request, "hist_access_type"));
    const char *pattern = json_string_value(json_object_get(request, "pattern"));
    bool with_output = json_is_true(json_object_get(request, "output"));
    const struct access *access = NULL;
    sqlite3_stmt *statement = NULL;
    size_t bytes = 0;
    if (type && strcmp(type, "search") == 0 && json_is_true(json_object_get(request, "unique")))
        type = "unique";
    for (size_t i = 0; i < sizeof accesses / sizeof *accesses; i++)
        if (type && strcmp(type, accesses[i].name) == 0) access = &accesses[i];
    if (!access) return SQLITE_OK;
    long long n = number(request, "n", access->missing_n);
    int code = sqlite3_prepare_v2(self->base, access->sql, -1, &statement, NULL);
    if (code != SQLITE_OK) return code;
    sqlite3_bind_int64(statement, 1, n > 0 ? n : 0);
    sqlite3_bind_int64(statement, 2, session_number(self, number(request, "session", 0)));
    sqlite3_bind_int64(statement, 3, number(request, "start", 1));
    sqlite3_bind_int64(statement, 4, number(request, "stop", LLONG_MAX));
    sqlite3_bind_text(statement, 5, pattern ? pattern : "*", -1, SQLITE_STATIC);
    while (bytes <= ANSWER_LIMIT && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        json_t *text = column_text(statement, 2);
        bytes += (size_t)sqlite3_column_bytes(statement, 2);
        if (with_output) text = json_pack("[oo]", text, column_text(statement, 3));
        json_array_append_new(list,
                              json_pack("[IIo]", (json_int_t)sqlite3_column_int64(statement, 0),
                                        (json_int_t)sqlite3_column_int64(statement, 1), text));
    }
    sqlite3_finalize(statement);
    reverse(list);
    return code == SQLITE_DONE || code == SQLITE_ROW ? SQLITE_OK : code;
}

json_t *history_answer(history *self, const json_t *request, cadre_error *error)
{
    cadre_error ignored, *told = error ? error : &ignored;
    json_t *list = json_array();
    told->code = 0;
    for (int attempt = 0; attempt < 3; attempt++) {
        int code = ensure_open(self, told);
        json_array_clear(list);
        if (code == SQLITE_OK) code = collect(self, request, list);
        if (code == SQLITE_OK || !recover(self, code, told)) break;
    }
    return json_pack("{ssso}", "status", "ok", "history", list);
}
