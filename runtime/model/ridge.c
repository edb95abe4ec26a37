#include "model/ridge.h"

#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_options(const cadre_slice *slice, const cadre_ridge_options *options,
                         const cadre_model *model, cadre_error *error)
{
    if (!slice || !slice->table || !options || !model)
        return cadre_error_set(error, CADRE_EINPUT, "ridge needs a slice, options and a model");
    if (!options->target)
        return cadre_error_set(error, CADRE_EINPUT, "ridge needs the name of a target column");
    if (!(options->alpha >= 0) || isinf(options->alpha))
        return cadre_error_set(error, CADRE_EINPUT,
                               "alpha is %g; it must be 0 or a positive number", options->alpha);
    return CADRE_OK;
}

static int check_size(const cadre_slice *slice, const cadre_ridge_options *options,
                      const ridge_rows *rows, cadre_error *error)
{
    size_t features = rows->numeric + rows->level_count;
    if (rows->train < features + 1)
        return cadre_error_set(error, CADRE_EINPUT,
                               "slice '%s' is too small: %zu complete training row%s for %zu "
                               "feature%s; it needs %zu at least",
                               slice->name, rows->train, rows->train == 1 ? "" : "s", features,
                               features == 1 ? "" : "s", features + 1);
    if (options->holdout && !rows->test)
        return cadre_error_set(error, CADRE_EINPUT,
                               "slice '%s' is too small: 0 complete held-out rows beside %zu "
                               "training rows; it needs 1 at least",
                               slice->name, rows->train);
    return CADRE_OK;
}

/* Root mean square error on the held-out rows, and that of the training mean. */
static void measure(const ridge_rows *rows, const double *coefficients, double intercept,
                    double *error, double *error_mean)
{
    double sum = 0, sum_mean = 0;
    for (size_t row = rows->train; row < rows->train + rows->test; row++) {
        const double *features = rows->features + row * rows->numeric;
        const double *levels = coefficients + rows->numeric;
        double value = intercept;
        for (size_t j = 0; j < rows->numeric; j++)
            value += coefficients[j] * features[j];
        for (size_t c = 0; c < rows->categorical; c++) {
            int32_t code = rows->levels[c].codes[row];
            if (code >= 0) value += levels[code];
            levels += rows->levels[c].count;
        }
        double off = rows->targets[row] - value, off_mean = rows->targets[row] - rows->target_mean;
        sum += off * off;
        sum_mean += off_mean * off_mean;
    }
    *error = sqrt(sum / (double)rows->test);
    *error_mean = sqrt(sum_mean / (double)rows->test);
}

/* JSON array of names: "distance", "dest=ORD". */
static char *feature_names(const ridge_rows *rows)
{
    cadre_buffer names = {0}, name = {0};
    cadre_buffer_puts(&names, "[");
    for (size_t j = 0; j < rows->numeric; j++) {
        if (j) cadre_buffer_puts(&names, ",");
        cadre_buffer_json_string(&names, rows->columns[j]->name);
    }
    for (size_t c = 0; c < rows->categorical; c++) {
        const ridge_levels *levels = &rows->levels[c];
        const table_column *column = levels->column;
        for (size_t l = 0; l < levels->count; l++) {
            cadre_buffer_clear(&name);
            cadre_buffer_printf(&name, "%s=", column->name);
            if (column->type == CADRE_TEXT)
                cadre_buffer_puts(&name,
                                  dictionary_text(&column->levels, (int32_t)levels->values[l]));
            else
                cadre_buffer_printf(&name, "%" PRId64, levels->values[l]);
            if (name.failed) goto done;
            if (names.length > 1) cadre_buffer_puts(&names, ",");
            cadre_buffer_json_string(&names, name.data);
        }
    }
    cadre_buffer_puts(&names, "]");
done:
    if (name.failed) names.failed = true;
    cadre_buffer_free(&name);
    return cadre_buffer_steal(&names);
}

static int set_model(const cadre_ridge_options *options, const ridge_rows *rows,
                     const double *coefficients, double intercept, cadre_model *model)
{
    char alpha[32];
    snprintf(alpha, sizeof alpha, "%.17g", options->alpha);
    char *features = feature_names(rows);
    if (!features) return CADRE_EMEMORY;
    double error = (double)NAN, error_mean = (double)NAN;
    if (rows->test) measure(rows, coefficients, intercept, &error, &error_mean);
    int status =
        cadre_model_set(model, "coefficients", coefficients, rows->numeric + rows->level_count);
    if (status == 0) status = cadre_model_set(model, "intercept", &intercept, 1);
    if (status == 0) status = cadre_model_set(model, "mean", rows->mean, rows->numeric);
    if (status == 0) status = cadre_model_set(model, "deviation", rows->deviation, rows->numeric);
    if (status == 0) status = cadre_model_set_text(model, "estimator", "ridge");
    if (status == 0) status = cadre_model_set_text(model, "alpha", alpha);
    if (status == 0) status = cadre_model_set_text(model, "target", options->target);
    if (status == 0) status = cadre_model_set_text(model, "features", features);
    if (status == 0) status = cadre_model_set_metric(model, "rows_train", (double)rows->train);
    if (status == 0) status = cadre_model_set_metric(model, "rows_test", (double)rows->test);
    if (status == 0) status = cadre_model_set_metric(model, "error", error);
    if (status == 0) status = cadre_model_set_metric(model, "error_mean", error_mean);
    free(features);
    return status;
}

int cadre_ridge_fit(const cadre_slice *slice, const cadre_ridge_options *options,
                    cadre_model *model, cadre_error *error)
{
    cadre_error own;
    if (!error) error = &own;
    ridge_rows rows = {0};
    double *coefficients = NULL, intercept = 0;
    int status = check_options(slice, options, model, error);
    if (status < 0) return status;
    status = cadre_ridge_gather(slice, options, &rows, error);
    if (status == CADRE_OK) status = check_size(slice, options, &rows, error);
    if (status == CADRE_OK) status = cadre_ridge_standardise(&rows, error);
    if (status == CADRE_OK) {
        coefficients = malloc((rows.numeric + rows.level_count + 1) * sizeof *coefficients);
        status = CADRE_EMEMORY;
        if (coefficients)
            status = cadre_ridge_solve(&rows, options->alpha, coefficients, &intercept, error);
        if (status == CADRE_OK) status = set_model(options, &rows, coefficients, intercept, model);
        if (status == CADRE_EMEMORY)
            cadre_error_set(error, status, "no memory to fit slice '%s'", slice->name);
    }
    free(coefficients);
    cadre_ridge_rows_free(&rows);
    return status;
}
