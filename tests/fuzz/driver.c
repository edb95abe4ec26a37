#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MOST_SEEDS = 256, LARGEST = 1 << 16 };

typedef struct input {
    uint8_t *bytes;
    size_t length;
} input;

static input seeds[MOST_SEEDS];
static size_t seed_count;
static uint64_t state;

static uint64_t draw(void) /* xorshift64*, Vigna 2016 */
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545F4914F6CDD1Dull;
}

static size_t below(size_t limit)
{
    return limit ? (size_t)(draw() % limit) : 0;
}

static int read_seed(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    input *seed = &seeds[seed_count];
    ssize_t got = -1;
    seed->bytes = malloc(LARGEST);
    if (fd >= 0 && seed->bytes) got = read(fd, seed->bytes, LARGEST);
    if (fd >= 0) close(fd);
    if (got < 0) {
        free(seed->bytes);
        return -1;
    }
    seed->length = (size_t)got;
    seed_count++;
    return 0;
}

static int read_seeds(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder) return -1;
    for (struct dirent *entry; (entry = readdir(folder)) && seed_count < MOST_SEEDS;)
        if (entry->d_name[0] != '.' && read_seed(dirfd(folder), entry->d_name) < 0)
            fprintf(stderr, "%s/%s cannot be read\n", path, entry->d_name);
    closedir(folder);
    return seed_count > 0 ? 0 : -1;
}

/* Words that parsers treat in a way of their own. */
static const char *const words[] = {"{",
                                    "}",
                                    "[",
                                    "]",
                                    "\"",
                                    "\\u0000",
                                    "\\ud800",
                                    "\\",
                                    ":",
                                    ",",
                                    "null",
                                    "1e999",
                                    "NaN",
                                    "-0",
                                    "\xff",
                                    "\xc3",
                                    "\xed\xa0",
                                    "<IDS|MSG>",
                                    "{}",
                                    "\n",
                                    "0",
                                    "true",
                                    "-1",
                                    "1e-9",
                                    "\\u00e",
                                    "Infinity",
                                    "99999999999999999999",
                                    "\xf4\x90\x80\x80"};

static size_t change(uint8_t *bytes, size_t length)
{
    size_t at = below(length + 1), count, from;
    const input *other;
    const char *word;
    switch (below(7)) {
    case 0: /* a bit */
        if (length) bytes[below(length)] ^= (uint8_t)(1u << below(8));
        return length;
    case 1: /* a byte */
        if (length) bytes[below(length)] = (uint8_t)draw();
        return length;
    case 2: /* cut out */
        count = below(length - at + 1);
        memmove(bytes + at, bytes + at + count, length - at - count);
        return length - count;
    case 3: /* cut off */ return at;
    case 4: /* doubled */
        count = below(length - at + 1);
        if (length + count > LARGEST) return length;
        memmove(bytes + at + count, bytes + at, length - at);
        return length + count;
    case 5: /* a word put in */
        word = words[below(sizeof words / sizeof *words)];
        count = strlen(word);
        if (length + count > LARGEST) return length;
        memmove(bytes + at + count, bytes + at, length - at);
        memcpy(bytes + at, word, count);
        return length + count;
    default: /* the end of another */
        other = &seeds[below(seed_count)];
        from = below(other->length + 1);
        count = other->length - from;
        if (at + count > LARGEST) return length;
        memcpy(bytes + at, other->bytes + from, count);
        return at + count;
    }
}

/* The input under way lies in a file that outlives a crash. In a copy of exactly its length, so
 * that reading behind its end is seen by a sanitizer. */
static void run_once(uint8_t *shown, const uint8_t *bytes, size_t length)
{
    uint64_t size = length;
    memcpy(shown, &size, sizeof size);
    memcpy(shown + sizeof size, bytes, length);
    uint8_t *copy = malloc(length ? length : 1);
    if (!copy) return;
    memcpy(copy, bytes, length);
    LLVMFuzzerTestOneInput(copy, length);
    free(copy);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    static uint8_t bytes[LARGEST];
    static const char last[] = "fuzz-last-input"; /* 8 bytes of length, then the input */
    const size_t room = sizeof(uint64_t) + LARGEST;
    unsigned long runs = 0;
    if (argc < 3 || read_seeds(argv[1]) < 0) {
        fprintf(stderr, "usage: %s FOLDER SECONDS [SEED]; FOLDER has files\n", argv[0]);
        return 2;
    }
    double end = seconds() + strtod(argv[2], NULL);
    state = argc > 3 ? strtoull(argv[3], NULL, 10) : (uint64_t)time(NULL);
    if (state == 0) state = 1;
    printf("%s: %zu files, seed %" PRIu64 "\n", argv[0], seed_count, state);
    fflush(stdout);
    int fd = open(last, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    uint8_t *shown = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, (off_t)room) == 0)
        shown = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shown == MAP_FAILED) {
        fprintf(stderr, "%s: %s\n", last, strerror(errno));
        return 2;
    }
    close(fd);
    for (size_t i = 0; i < seed_count; i++, runs++)
        run_once(shown, seeds[i].bytes, seeds[i].length);
    while (seconds() < end) {
        const input *seed = &seeds[below(seed_count)];
        size_t length = seed->length;
        memcpy(bytes, seed->bytes, length);
        for (size_t i = 1 + below(6); i > 0; i--)
            length = change(bytes, length);
        run_once(shown, bytes, length);
        runs++;
    }
    munmap(shown, room);
    unlink(last);
    for (size_t i = 0; i < seed_count; i++)
        free(seeds[i].bytes);
    printf("%lu inputs, none broke it\n", runs);
    return 0;
}
