/* Models: named arrays with metadata, and the estimators that fill them.
 *
 *     static bool fifth_days(const cadre_table *table, size_t row, void *user);
 *     cadre_ridge_options options = {
 *         .target = "arr_delay",
 *         .numeric = (const char *const[]){"dep_delay", "distance", NULL},
 *         .categorical = (const char *const[]){"dest", NULL},
 *         .alpha = 1, .holdout = fifth_days};
 *     cadre_model *model = cadre_model_new(slice->name);
 *     cadre_error error = {0};
 *     if (cadre_ridge_fit(slice, &options, model, &error) < 0) puts(error.message);
 *     else printf("%g minutes\n", cadre_model_metric(model, "error"));
 *
 * A model belongs to one thread at a time. Statuses: CADRE_OK, CADRE_EMEMORY, CADRE_EINPUT (an
 * empty name; "__metadata__", and "name" and "metrics" for texts, belong to the stored form).
 */
#ifndef CADRE_MODEL_H
#define CADRE_MODEL_H

#include "../base/base.h"
#include "../data/data.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cadre_model cadre_model;

CADRE_API cadre_model *cadre_model_new(const char *name);
CADRE_API void cadre_model_free(cadre_model *model);
CADRE_API const char *cadre_model_name(const cadre_model *model); /* borrowed */
/* Copies `count` doubles of a one-dimensional tensor into the model under `name`. */
CADRE_API int cadre_model_set(cadre_model *model, const char *name, const double *values,
                              size_t count);
/* Borrowed; NULL: no such tensor. */
CADRE_API const double *cadre_model_get(const cadre_model *model, const char *name, size_t *count);
/* Texts that go with the model: names of features, units, where the data came from. UTF-8. */
CADRE_API int cadre_model_set_text(cadre_model *model, const char *name, const char *text);
/* Borrowed; NULL: no such text. */
CADRE_API const char *cadre_model_get_text(const cadre_model *model, const char *name);
/* Metrics are doubles that the report shows a column for: "error", "rows", ... */
CADRE_API int cadre_model_set_metric(cadre_model *model, const char *name, double value);
CADRE_API double cadre_model_metric(const cadre_model *model, const char *name); /* NaN: none */
CADRE_API size_t cadre_model_metric_count(const cadre_model *model);
CADRE_API const char *cadre_model_metric_name(const cadre_model *model, size_t index);

typedef struct cadre_ridge_options {
    const char *target;
    const char *const *numeric;     /* NULL-terminated; standardised by the slice's training mean
                                       and population deviation (0 deviation: coefficient 0) */
    const char *const *categorical; /* NULL-terminated; one-hot over the levels in training, an
                                       unseen level is all zeros. Text or whole numbers */
    double alpha;                   /* on all coefficients; the intercept is free */
    /* Held-out rows: those where `holdout` returns true; NULL: none. */
    bool (*holdout)(const cadre_table *table, size_t row, void *user);
    void *user;
} cadre_ridge_options;

/* Ridge regression (Hoerl and Kennard 1970) by the normal equations, Cholesky (OpenBLAS, one
 * thread). Rows with a missing target or feature are left out. Fills tensors "coefficients"
 * (numeric in order given, then the levels of each categorical: texts in byte order, whole numbers
 * by size), "intercept", "mean", "deviation" (of the numeric ones; prediction = intercept +
 * coefficients . [(x - mean) / deviation, one-hot]); texts "estimator", "alpha", "target",
 * "features" (JSON array of names such as "dep_delay", "dest=ORD"); metrics "rows_train",
 * "rows_test", "error" (root mean square on held-out rows), "error_mean" (that of always predicting
 * the training mean of the target), both NaN when there is no `holdout`. The same slice gives the
 * same bits, whatever the number of threads or processes.
 * CADRE_EINPUT: a slice with too few rows (training rows less than features + 1, or no held-out
 * row), with both numbers; a column of the wrong type. CADRE_ENOTFOUND: no such column.
 * CADRE_ENUMERIC: infinite values; alpha 0 with features that determine each other. */
CADRE_API int cadre_ridge_fit(const cadre_slice *slice, const cadre_ridge_options *options,
                              cadre_model *model, cadre_error *error);

#ifdef __cplusplus
}
#endif
#endif
