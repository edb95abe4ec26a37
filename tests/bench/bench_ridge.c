/* How fast the delay models of the flights are fitted, in one process.
 *
 *     bench_ridge FLIGHTS.csv [MODELS]
 *
 * One line of JSON: milliseconds of all fits together (the best of five runs), models, rows. With
 * MODELS the models are also written there by cadre_loop, for tests/client/check_models.py.
 */
#include <cadre.h>

#include <stdio.h>
#include <time.h>

/* CPU time: all of it is one thread, and other work on the machine does not count. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Days of the month divisible by 5. */
static bool is_held_out(const cadre_table *table, size_t row, void *day)
{
    (void)table;
    return ((const int64_t *)day)[row] % 5 == 0;
}

static int train(const cadre_slice *slice, cadre_model *model, void *options, cadre_error *error)
{
    return cadre_ridge_fit(slice, options, model, error);
}

static double fit_all(const cadre_slices *slices, const cadre_ridge_options *options,
                      size_t *models)
{
    double start = now();
    *models = 0;
    for (size_t i = 0; i < cadre_slices_count(slices); i++) {
        const cadre_slice *slice = cadre_slices_get(slices, i);
        cadre_model *model = cadre_model_new(slice->name);
        *models += cadre_ridge_fit(slice, options, model, NULL) == CADRE_OK;
        cadre_model_free(model);
    }
    return now() - start;
}

int main(int count, char **arguments)
{
    if (count < 2) {
        fprintf(stderr, "usage: bench_ridge FLIGHTS.csv [MODELS]\n");
        return 2;
    }
    cadre_table *flights = cadre_read_csv(arguments[1]);
    cadre_slices *slices = cadre_slices_by(flights, "carrier", "origin");
    long day = cadre_table_find(flights, "day");
    cadre_ridge_options options = {
        .target = "arr_delay",
        .numeric = (const char *const[]){"dep_delay", "distance", "hour", "month", NULL},
        .categorical = (const char *const[]){"dest", NULL},
        .alpha = 1,
        .holdout = is_held_out,
        .user = day < 0 ? NULL : (void *)cadre_table_int64s(flights, (size_t)day)};
    if (!options.user) return 2;
    double best = 1e30;
    size_t models = 0;
    for (int i = 0; i < 5; i++) {
        double seconds = fit_all(slices, &options, &models);
        if (seconds < best) best = seconds;
    }
    printf("{\"fit_ms\": %.2f, \"models\": %zu, \"slices\": %zu, \"rows\": %zu}\n", 1e3 * best,
           models, cadre_slices_count(slices), cadre_table_rows(flights));
    if (count > 2) {
        cadre_report *report = cadre_loop(
            slices, (cadre_loop_options){
                        .train = train, .user = &options, .models = arguments[2], .quiet = true});
        cadre_report_free(report);
    }
    cadre_slices_free(slices);
    cadre_table_free(flights);
    return 0;
}
