/* Models: named arrays with metadata, and the estimators that fill them. */
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
/* Copies `count` doubles of a one-dimensional tensor into the model under `name`. */
CADRE_API int cadre_model_set(cadre_model *model, const char *name, const double *values,
                              size_t count);
/* Borrowed; NULL: no such tensor. */
CADRE_API const double *cadre_model_get(const cadre_model *model, const char *name, size_t *count);
CADRE_API int cadre_model_set_text(cadre_model *model, const char *name, const char *text);
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
                                       unseen level is all zeros */
    double alpha;                   /* on all coefficients; the intercept is free */
    /* Held-out rows: those where `holdout` returns true; NULL: none. */
    bool (*holdout)(const cadre_table *table, size_t row, void *user);
    void *user;
} cadre_ridge_options;

/* Ridge regression by the normal equations (Hoerl and Kennard 1970), Cholesky (OpenBLAS).
 * Rows with a missing target or feature are left out. Fills tensors "coefficients" (numeric in
 * order given, then the levels of each categorical in text order), "intercept", "mean",
 * "deviation"; texts "features" (JSON array of names such as "dep_delay", "dest=ORD"); metrics
 * "rows_train", "rows_test", "error" (root mean square on held-out rows), "error_mean" (that of
 * always predicting the training mean of the target). A slice with too few rows (training rows
 * less than features + 1, or no held-out row) is CADRE_EINPUT with both numbers. */
CADRE_API int cadre_ridge_fit(const cadre_slice *slice, const cadre_ridge_options *options,
                              cadre_model *model, cadre_error *error);

#ifdef __cplusplus
}
#endif
#endif
