/* The report of a loop. */
#include "loop/run.h"
#include "show/channel.h"
#include "store/store.h"

#include <jansson.h>
#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

struct cadre_report {
    size_t count;
    char **names;
    size_t *rows;
    slice_result *results;
    cadre_model **models; /* decoded at the first request */
    double seconds;
    int processes;
    char digest[65];
    char remark[400];
};

void cadre_loop_digest(const slice_result *results, size_t count, char *digest)
{
    crypto_hash_sha256_state state;
    unsigned char hash[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_init(&state);
    for (size_t i = 0; i < count; i++)
        if (results[i].bytes)
            crypto_hash_sha256_update(&state, results[i].bytes, results[i].length);
    crypto_hash_sha256_final(&state, hash);
    sodium_bin2hex(digest, 65, hash, sizeof hash);
}

cadre_report *cadre_report_new(loop_run *run, double seconds, const char *digest)
{
    cadre_report *report = calloc(1, sizeof *report);
    if (!report) return NULL;
    size_t count = run->count;
    report->names = calloc(count + 1, sizeof *report->names);
    report->rows = calloc(count + 1, sizeof *report->rows);
    report->models = calloc(count + 1, sizeof *report->models);
    if (!report->names || !report->rows || !report->models) goto failed;
    report->count = count;
    for (size_t i = 0; i < count; i++) {
        const cadre_slice *slice = cadre_slices_get(run->slices, i);
        report->rows[i] = slice->row_count;
        report->names[i] = strdup(slice->name);
        if (!report->names[i]) goto failed;
    }
    report->results = run->results;
    run->results = NULL;
    report->seconds = seconds;
    report->processes = run->processes;
    memcpy(report->digest, digest, sizeof report->digest);
    memcpy(report->remark, run->remark, sizeof report->remark);
    return report;
failed:
    cadre_report_free(report);
    return NULL;
}

void cadre_report_free(cadre_report *report)
{
    if (!report) return;
    for (size_t i = 0; i < report->count; i++) {
        free(report->names[i]);
        cadre_model_free(report->models[i]);
        if (report->results) cadre_loop_result_clear(&report->results[i]);
    }
    free(report->names);
    free(report->rows);
    free(report->models);
    free(report->results);
    free(report);
}

size_t cadre_report_slices(const cadre_report *report)
{
    return report->count;
}

size_t cadre_report_models(const cadre_report *report)
{
    size_t models = 0;
    for (size_t i = 0; i < report->count; i++)
        models += report->results[i].state == CADRE_SLICE_TRAINED;
    return models;
}

double cadre_report_seconds(const cadre_report *report)
{
    return report->seconds;
}

int cadre_report_processes(const cadre_report *report)
{
    return report->processes;
}

const char *cadre_report_remark(const cadre_report *report)
{
    return report->remark;
}

const char *cadre_report_name(const cadre_report *report, size_t index)
{
    return index < report->count ? report->names[index] : "";
}

cadre_slice_state cadre_report_state(const cadre_report *report, size_t index)
{
    return index < report->count ? report->results[index].state : CADRE_SLICE_REFUSED;
}

const char *cadre_report_message(const cadre_report *report, size_t index)
{
    if (index >= report->count) return "there is no such slice";
    const char *message = report->results[index].message;
    return message ? message : "";
}

size_t cadre_report_rows(const cadre_report *report, size_t index)
{
    return index < report->count ? report->rows[index] : 0;
}

double cadre_report_slice_seconds(const cadre_report *report, size_t index)
{
    return index < report->count ? report->results[index].seconds : NAN;
}

double cadre_report_metric(const cadre_report *report, size_t index, const char *name)
{
    if (index >= report->count || report->results[index].state != CADRE_SLICE_TRAINED) return NAN;
    for (size_t i = 0; i < METRIC_COUNT; i++)
        if (strcmp(name, cadre_loop_metrics[i]) == 0) return report->results[index].metrics[i];
    const cadre_model *model = cadre_report_model(report, index);
    return model ? cadre_model_metric(model, name) : NAN;
}

const cadre_model *cadre_report_model(const cadre_report *report, size_t index)
{
    if (index >= report->count || report->results[index].state != CADRE_SLICE_TRAINED) return NULL;
    const slice_result *result = &report->results[index];
    if (!report->models[index])
        report->models[index] = cadre_model_decode(result->bytes, result->length, NULL);
    return report->models[index];
}

const char *cadre_report_digest(const cadre_report *report)
{
    return report->digest;
}

static double pooled(const cadre_report *report, const char *name)
{
    double sum = 0, rows = 0;
    for (size_t i = 0; i < report->count; i++) {
        double error = cadre_report_metric(report, i, name);
        double weight = cadre_report_metric(report, i, "rows_test");
        if (!isfinite(error) || !(weight > 0)) continue;
        sum += error * error * weight;
        rows += weight;
    }
    return rows > 0 ? sqrt(sum / rows) : NAN;
}

double cadre_report_error(const cadre_report *report)
{
    return pooled(report, "error");
}

double cadre_report_error_mean(const cadre_report *report)
{
    return pooled(report, "error_mean");
}

static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

char *cadre_report_json(const cadre_report *report)
{
    json_t *refused = json_array();
    for (size_t i = 0; i < report->count; i++) {
        const slice_result *result = &report->results[i];
        if (result->state == CADRE_SLICE_TRAINED) continue;
        bool crashed = result->state == CADRE_SLICE_CRASHED;
        json_array_append_new(
            refused, json_pack("{s:o, s:s, s:o}", "name", cadre_channel_text(report->names[i]),
                               "state", crashed ? "crashed" : "refused", "message",
                               cadre_channel_text(cadre_report_message(report, i))));
    }
    json_t *all = json_pack(
        "{s:I, s:I, s:i, s:f, s:o, s:o, s:s, s:o, s:o}", "slices", (json_int_t)report->count,
        "models", (json_int_t)cadre_report_models(report), "processes", report->processes,
        "seconds", report->seconds, "error", number_or_null(cadre_report_error(report)),
        "error_mean", number_or_null(cadre_report_error_mean(report)), "digest", report->digest,
        "remark", cadre_channel_text(report->remark), "refused", refused);
    char *text = all ? json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(all);
    return text;
}
