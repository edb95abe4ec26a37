/* How fast CSV becomes a table, next to how fast the same bytes can be read from memory.
 *
 *     bench_csv FILE.csv [repetitions]
 *
 * One line of JSON: MB/s of the reader (the best run), MB/s of summing the file's words in memory,
 * their ratio, rows and columns. One thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "data/data.h"

/* CPU time: all of it is one thread, and other work on the machine does not count. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t sum_words(const unsigned char *bytes, size_t length)
{
    uint64_t lane[8] = {0};
    for (size_t at = 0; at + sizeof lane <= length; at += sizeof lane) {
        uint64_t words[8];
        memcpy(words, bytes + at, sizeof words);
        for (int i = 0; i < 8; i++)
            lane[i] += words[i];
    }
    for (int i = 1; i < 8; i++)
        lane[0] += lane[i];
    return lane[0];
}

int main(int count, char **arguments)
{
    int repetitions = count > 2 ? (int)strtol(arguments[2], NULL, 10) : 5;
    FILE *file = count > 1 ? fopen(arguments[1], "rbe") : NULL;
    if (!file || repetitions < 1) {
        fprintf(stderr, "usage: bench_csv FILE.csv [repetitions]\n");
        return 2;
    }
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    unsigned char *bytes = malloc(size + 1);
    rewind(file);
    if (!bytes || fread(bytes, 1, size, file) != size) return 2;
    fclose(file);

    double best = 1e30, memory = 1e30;
    size_t rows = 0, columns = 0;
    volatile uint64_t sink = 0;
    for (int i = 0; i < repetitions; i++) {
        double start = now();
        cadre_error error;
        cadre_table *table = cadre_read_csv_with(arguments[1], NULL, &error);
        double seconds = now() - start;
        if (!table) {
            fprintf(stderr, "%s\n", error.message);
            return 1;
        }
        if (seconds < best) best = seconds;
        rows = cadre_table_rows(table);
        columns = cadre_table_columns(table);
        cadre_table_free(table);
        start = now();
        sink += sum_words(bytes, size);
        seconds = now() - start;
        if (seconds < memory) memory = seconds;
    }
    double megabytes = (double)size / 1e6;
    printf("{\"csv_mb_per_s\": %.0f, \"memory_mb_per_s\": %.0f, \"part_of_memory\": %.3f, "
           "\"seconds\": %.4f, \"rows\": %zu, \"columns\": %zu}\n",
           megabytes / best, megabytes / memory, memory / best, best, rows, columns);
    free(bytes);
    return 0;
}
