/* What a cell came to: its value, or its error. */
#include "session/execution.h"

#include <stdlib.h>
#include <string.h>

/* What belongs to the cell under way, not to the request. */
void outcome_forget(execution *run)
{
    cadre_cell_free(run->cell);
    json_decref(run->merged);
    json_decref(run->used);
    free(run->arrays);
    free(run->bundle);
    free(run->error_name);
    free(run->error_value);
    free(run->traceback);
    run->cell = NULL;
    run->merged = run->used = NULL;
    run->arrays = NULL;
    run->array_count = 0;
    run->bundle = run->error_name = run->error_value = run->traceback = NULL;
    run->has_value = run->runs_main = false;
}

void outcome_fail(execution *run, const char *name, const char *value, const char *traceback)
{
    free(run->error_name);
    free(run->error_value);
    free(run->traceback);
    run->error_name = strdup(name ? name : "Error");
    run->error_value = strdup(value ? value : "");
    run->traceback = traceback ? strdup(traceback) : NULL;
}

void outcome_interrupted(execution *run)
{
    outcome_fail(run, "KeyboardInterrupt", "the cell was interrupted", NULL);
}

/* A traceback's lines as the protocol wants them: at least one, each a string. */
static json_t *traceback_lines(const execution *run)
{
    json_t *lines = json_array();
    const char *text = run->traceback;
    if (!text || !*text) {
        cadre_buffer line = {0};
        cadre_buffer_printf(&line, "\033[0;31m%s\033[0m: %s", run->error_name, run->error_value);
        json_array_append_new(lines, cadre_json_string(line.data ? line.data : "", line.length));
        cadre_buffer_free(&line);
        return lines;
    }
    for (;;) {
        size_t length = strcspn(text, "\n");
        if (text[length] || length > 0)
            json_array_append_new(lines, cadre_json_string(text, length));
        if (!text[length]) return lines;
        text += length + 1;
    }
}

json_t *outcome_error(const execution *run)
{
    const char *value = run->error_value ? run->error_value : "";
    return json_pack("{sososo}", "ename",
                     cadre_json_string(run->error_name, strlen(run->error_name)), "evalue",
                     cadre_json_string(value, strlen(value)), "traceback", traceback_lines(run));
}

/* {"data": {...}, "metadata": {}} of the value, new; NULL: nothing to show. */
json_t *outcome_result(const execution *run, const char *text)
{
    json_t *data = NULL;
    if (run->bundle) data = cadre_json_parse(run->bundle, strlen(run->bundle), NULL);
    if (!json_is_object(data)) {
        json_decref(data);
        data = text ? json_pack("{so}", "text/plain", cadre_json_string(text, strlen(text))) : NULL;
    }
    return data ? json_pack("{sos{}}", "data", data, "metadata") : NULL;
}
