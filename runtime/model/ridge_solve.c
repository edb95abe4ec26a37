/* The normal equations of ridge regression with a free intercept, centred and with one block of
 * one-hot columns eliminated.
 *
 * The one-hot columns of a categorical meet in a diagonal block, n_l + alpha for level l, whose
 * elimination leaves, for the intercept and every other pair of columns x and y,
 *
 *     sum over rows of (x - x_l)(y - y_l)  +  sum over levels of n_l f_l x_l y_l
 *
 * with x_l the mean of x in the level and f_l = alpha / (n_l + alpha). Written so, nothing cancels:
 * a column that is constant in each level (the distance to an airport) is left with its second
 * sum only. The categorical with the most levels is eliminated; those of others are dense columns,
 * whose sums are counts of rows that two levels share. Without a categorical there is one level
 * and f is 1.
 */
#include "model/ridge.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_ROWS 1024
#define COUNT_LIMIT ((size_t)1 << 27) /* of shared counts: 1 GB */
#define SMALLEST_PIVOT 1e-13          /* of the diagonal: below, the solution is noise */

/* LAPACK, which OpenBLAS brings: Cholesky factor and solution, column-major, lower triangle. */
extern void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info);
extern void dpotrs_(const char *uplo, const int *n, const int *nrhs, const double *a,
                    const int *lda, double *b, const int *ldb, int *info);

typedef struct equations {
    const ridge_rows *rows;
    double alpha;
    const ridge_levels *eliminated; /* NULL: none */
    size_t levels;                  /* of it, at least 1 */
    size_t active;                  /* numeric columns with a deviation */
    size_t *column;                 /* which */
    size_t width;                   /* active + 1: those and the target, side by side */
    size_t dense;                   /* levels of the other categoricals */
    size_t size;                    /* 1 + active + dense */
    double *count, *free_part;      /* n_l and f_l */
    double *mean;                   /* levels * width */
    double *shared;                 /* levels * dense: rows in both */
    double *dense_sum;              /* dense * width: of what deviates from the level's mean */
    double *block, *gram;           /* BLOCK_ROWS * width, width * width */
    double *matrix, *right;         /* size * size, size */
    double *diagonal;               /* size: that of the matrix before it is factored */
} equations;

static void choose_columns(equations *e)
{
    const ridge_rows *rows = e->rows;
    for (size_t i = 0; i < rows->categorical; i++)
        if (!e->eliminated || rows->levels[i].count > e->eliminated->count)
            e->eliminated = &rows->levels[i];
    e->levels = e->eliminated ? e->eliminated->count : 1;
    e->dense = rows->level_count - (e->eliminated ? e->levels : 0);
    for (size_t j = 0; j < rows->numeric; j++)
        if (rows->deviation[j] > 0) e->column[e->active++] = j;
    e->width = e->active + 1;
    e->size = 1 + e->active + e->dense;
}

/* One piece of memory for all of it; the first array owns it. */
static int allocate(equations *e, cadre_error *error)
{
    if (e->size > RIDGE_FEATURE_LIMIT)
        return cadre_error_set(error, CADRE_EINPUT,
                               "%zu columns in the dense part of the system; the limit is %d",
                               e->size, RIDGE_FEATURE_LIMIT);
    if (e->dense && e->levels > COUNT_LIMIT / e->dense)
        return cadre_error_set(error, CADRE_EINPUT,
                               "two categorical features have %zu and %zu levels; that is too many",
                               e->levels, e->dense);
    double **const arrays[] = {&e->count, &e->free_part, &e->mean,   &e->shared, &e->dense_sum,
                               &e->block, &e->gram,      &e->matrix, &e->right,  &e->diagonal};
    const size_t sizes[] = {e->levels,
                            e->levels,
                            e->levels * e->width,
                            e->levels * e->dense,
                            e->dense * e->width,
                            BLOCK_ROWS * e->width,
                            e->width * e->width,
                            e->size * e->size,
                            e->size,
                            e->size};
    const size_t array_count = sizeof sizes / sizeof *sizes;
    size_t total = 0;
    for (size_t i = 0; i < array_count; i++)
        total += (sizes[i] + 7) / 8 * 8;
    double *memory = calloc(total, sizeof *memory);
    if (!memory)
        return cadre_error_set(error, CADRE_EMEMORY, "no memory for a system of %zu equations",
                               e->size);
    for (size_t i = 0; i < array_count; i++) {
        *arrays[i] = memory;
        memory += (sizes[i] + 7) / 8 * 8;
    }
    return CADRE_OK;
}

static inline size_t level_of(const equations *e, size_t row)
{
    return e->eliminated ? (size_t)e->eliminated->codes[row] : 0;
}

/* The active features of a row and its target, centred. */
static inline void load_row(const equations *e, size_t row, double *out)
{
    const double *features = e->rows->features + row * e->rows->numeric;
    for (size_t j = 0; j < e->active; j++)
        out[j] = features[e->column[j]];
    out[e->active] = e->rows->targets[row] - e->rows->target_mean;
}

static void sum_levels(equations *e)
{
    double *values = e->block;
    for (size_t row = 0; row < e->rows->train; row++) {
        size_t level = level_of(e, row);
        double *sum = e->mean + level * e->width;
        load_row(e, row, values);
        e->count[level] += 1;
        for (size_t j = 0; j < e->width; j++)
            sum[j] += values[j];
    }
    for (size_t l = 0; l < e->levels; l++) {
        for (size_t j = 0; j < e->width; j++)
            e->mean[l * e->width + j] /= e->count[l];
        e->free_part[l] = e->eliminated ? e->alpha / (e->count[l] + e->alpha) : 1;
    }
}

static double *matrix_at(const equations *e, size_t row, size_t column)
{
    return row >= column ? &e->matrix[column * e->size + row] : &e->matrix[row * e->size + column];
}

/* What a row adds to the columns of the other categoricals. */
static void add_dense(equations *e, size_t row, const double *deviation)
{
    const size_t first = 1 + e->active;
    size_t offset = 0;
    for (size_t c = 0; c < e->rows->categorical; c++) {
        const ridge_levels *one = &e->rows->levels[c];
        if (one == e->eliminated) continue;
        size_t mine = offset + (size_t)one->codes[row], other_offset = 0;
        e->shared[level_of(e, row) * e->dense + mine] += 1;
        for (size_t j = 0; j < e->width; j++)
            e->dense_sum[mine * e->width + j] += deviation[j];
        for (size_t d = 0; d <= c; d++) {
            const ridge_levels *other = &e->rows->levels[d];
            if (other == e->eliminated) continue;
            *matrix_at(e, first + mine, first + other_offset + (size_t)other->codes[row]) += 1;
            other_offset += other->count;
        }
        offset += one->count;
    }
}

/* gram: sums of products of deviations from the means of the levels, in blocks of fixed size, so
 * that the order of the sums depends on nothing but the rows. */
static void sum_products(equations *e)
{
    const int width = (int)e->width;
    for (size_t start = 0; start < e->rows->train; start += BLOCK_ROWS) {
        size_t count = e->rows->train - start < BLOCK_ROWS ? e->rows->train - start : BLOCK_ROWS;
        for (size_t i = 0; i < count; i++) {
            double *values = e->block + i * e->width;
            const double *mean = e->mean + level_of(e, start + i) * e->width;
            load_row(e, start + i, values);
            for (size_t j = 0; j < e->width; j++)
                values[j] -= mean[j];
            if (e->dense) add_dense(e, start + i, values);
        }
        cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, width, (int)count, 1, e->block, width,
                    1, e->gram, width);
    }
}

/* The part of the intercept (0) and the numeric columns, and their right sides. */
static void fill_numeric(equations *e)
{
    const size_t width = e->width, target = e->active;
    for (size_t j = 0; j < e->active; j++) {
        for (size_t k = j; k < e->active; k++)
            *matrix_at(e, 1 + k, 1 + j) = e->gram[j * width + k];
        *matrix_at(e, 1 + j, 1 + j) += e->alpha;
        e->right[1 + j] = e->gram[j * width + target];
    }
    for (size_t l = 0; l < e->levels; l++) {
        const double *mean = e->mean + l * width;
        double weight = e->count[l] * e->free_part[l];
        *matrix_at(e, 0, 0) += weight;
        e->right[0] += weight * mean[target];
        for (size_t j = 0; j < e->active; j++) {
            *matrix_at(e, 1 + j, 0) += weight * mean[j];
            e->right[1 + j] += weight * mean[j] * mean[target];
            for (size_t k = j; k < e->active; k++)
                *matrix_at(e, 1 + k, 1 + j) += weight * mean[j] * mean[k];
        }
    }
}

static void fill_dense(equations *e)
{
    const size_t first = 1 + e->active, width = e->width, dense = e->dense;
    for (size_t u = 0; u < dense; u++) {
        double *sum = e->dense_sum + u * width;
        for (size_t l = 0; l < e->levels; l++) {
            double part = e->shared[l * dense + u] * e->free_part[l];
            *matrix_at(e, first + u, 0) += part;
            for (size_t j = 0; j < width; j++)
                sum[j] += part * e->mean[l * width + j];
        }
        for (size_t j = 0; j < e->active; j++)
            *matrix_at(e, first + u, 1 + j) = sum[j];
        e->right[first + u] = sum[e->active];
        *matrix_at(e, first + u, first + u) += e->alpha;
    }
    /* Minus shared' diag(1 / (n_l + alpha)) shared, in place: the roots scale the rows. */
    for (size_t l = 0; l < e->levels; l++) {
        double root = sqrt(1 / (e->count[l] + e->alpha));
        for (size_t u = 0; u < dense; u++)
            e->shared[l * dense + u] *= root;
    }
    cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, (int)dense, (int)e->levels, -1, e->shared,
                (int)dense, 1, matrix_at(e, first, first), (int)e->size);
    for (size_t l = 0; l < e->levels; l++) {
        double root = sqrt(1 / (e->count[l] + e->alpha));
        for (size_t u = 0; u < dense; u++)
            e->shared[l * dense + u] /= root;
    }
}

static int factor(equations *e, cadre_error *error)
{
    const int size = (int)e->size, one = 1;
    int info = 0;
    for (size_t i = 0; i < e->size; i++)
        e->diagonal[i] = *matrix_at(e, i, i);
    dpotrf_("L", &size, e->matrix, &size, &info);
    bool sound = info == 0;
    for (size_t i = 0; sound && i < e->size; i++) {
        double pivot = *matrix_at(e, i, i);
        sound = pivot * pivot > SMALLEST_PIVOT * e->diagonal[i];
    }
    if (!sound)
        return cadre_error_set(error, CADRE_ENUMERIC,
                               "the features determine each other, so the coefficients are not "
                               "determined with alpha %g; take a larger alpha",
                               e->alpha);
    dpotrs_("L", &size, &one, e->matrix, &size, e->right, &size, &info);
    return info == 0 ? CADRE_OK : cadre_error_set(error, CADRE_ENUMERIC, "dpotrs: %d", info);
}

/* right holds the solution; the eliminated coefficients follow from it. */
static void spread(const equations *e, double *coefficients, double *intercept)
{
    const ridge_rows *rows = e->rows;
    const double *solution = e->right, *dense = e->right + 1 + e->active;
    *intercept = rows->target_mean + solution[0];
    for (size_t j = 0; j < rows->numeric; j++)
        coefficients[j] = 0;
    for (size_t j = 0; j < e->active; j++)
        coefficients[e->column[j]] = solution[1 + j];
    double *out = coefficients + rows->numeric;
    for (size_t c = 0; c < rows->categorical; c++) {
        const ridge_levels *one = &rows->levels[c];
        if (one != e->eliminated) {
            memcpy(out, dense, one->count * sizeof *out);
            dense += one->count;
            out += one->count;
            continue;
        }
        for (size_t l = 0; l < e->levels; l++) {
            const double *mean = e->mean + l * e->width;
            double rest = mean[e->active] - solution[0];
            for (size_t j = 0; j < e->active; j++)
                rest -= mean[j] * solution[1 + j];
            for (size_t u = 0; u < e->dense; u++)
                rest -= e->shared[l * e->dense + u] / e->count[l] * e->right[1 + e->active + u];
            *out++ = e->count[l] / (e->count[l] + e->alpha) * rest;
        }
    }
}

int cadre_ridge_solve(const ridge_rows *rows, double alpha, double *coefficients, double *intercept,
                      cadre_error *error)
{
    equations e = {.rows = rows, .alpha = alpha};
    e.column = malloc((rows->numeric + 1) * sizeof *e.column);
    if (!e.column) return cadre_error_set(error, CADRE_EMEMORY, "no memory to solve the system");
    choose_columns(&e);
    int status = allocate(&e, error);
    if (status == CADRE_OK) {
        /* Threads of BLAS cost more than they give at these sizes, and change the sums. */
        int threads = openblas_get_num_threads();
        if (threads != 1) openblas_set_num_threads(1);
        sum_levels(&e);
        sum_products(&e);
        fill_numeric(&e);
        if (e.dense) fill_dense(&e);
        status = factor(&e, error);
        if (threads != 1) openblas_set_num_threads(threads);
    }
    if (status == CADRE_OK) spread(&e, coefficients, intercept);
    free(e.count);
    free(e.column);
    return status;
}
