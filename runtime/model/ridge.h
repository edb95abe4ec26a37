/* Private to runtime/model: the steps of a ridge fit.
 *
 * ridge.c       checks, the order of the steps, what goes into the model
 * ridge_rows.c  from table rows to a dense block: complete rows, levels, standardised columns
 * ridge_solve.c the normal equations
 */
#ifndef CADRE_MODEL_RIDGE_H
#define CADRE_MODEL_RIDGE_H

#include "data/table.h"
#include "model/model.h"

#define RIDGE_FEATURE_LIMIT 20000 /* of the dense part of the system: 3.2 GB */
#define RIDGE_COLUMN_LIMIT 10000

/* The levels of a categorical that occur in training, in order, and where each row is. */
typedef struct ridge_levels {
    const table_column *column;
    size_t count;
    int64_t *values; /* of each level: index into the dictionary, or the whole number */
    int32_t *codes;  /* of each row of the block: level, -1: not seen in training */
} ridge_levels;

/* Training rows first, then held-out ones, each in the order of the slice. */
typedef struct ridge_rows {
    size_t train, test;
    size_t numeric, categorical;
    const table_column *target;
    const table_column **columns; /* of the numeric ones */
    uint32_t *row;                /* in the table */
    double *features;             /* rows * numeric, row-major; standardised */
    double *targets;
    double *mean, *deviation; /* per numeric column, of the training rows */
    double target_mean;       /* of the training rows */
    ridge_levels *levels;     /* per categorical */
    size_t level_count;       /* of all categoricals together */
} ridge_rows;

/* Fills everything; *rows can be freed whatever is returned. */
int cadre_ridge_gather(const cadre_slice *slice, const cadre_ridge_options *options,
                       ridge_rows *rows, cadre_error *error);
/* Numbers of features against rows; then mean, deviation, standardised features. */
int cadre_ridge_standardise(ridge_rows *rows, cadre_error *error);
void cadre_ridge_rows_free(ridge_rows *rows);

/* coefficients: numeric, then the levels of each categorical. */
int cadre_ridge_solve(const ridge_rows *rows, double alpha, double *coefficients, double *intercept,
                      cadre_error *error);

#endif
