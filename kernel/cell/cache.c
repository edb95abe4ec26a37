#include "kernel/cell/cache.h"
#include "base/user_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Entries lie in 16 folders by the first digit of their name, each with a sixteenth of the limit,
 * so that tidying one looks at a sixteenth of the files. */
enum {
    BUCKETS = 16,
    CHECKSUM = 32,
    MOST_PARTS = 8,
    LARGEST_SHARE = 2,   /* an entry may take half of its folder */
    TIDY_SHARE = 32,     /* a folder is tidied about once per 1/32 of its limit written */
    TOUCH_SECONDS = 10,  /* a later use than that is noted */
    TEMPORARY_HOURS = 1, /* older unfinished files are left from a process that died */
};
static const uint64_t default_limit = (uint64_t)512 << 20;

struct cadre_cache {
    int folder;
    uint64_t limit; /* of one bucket */
    unsigned long stored;
};

typedef struct entry_header {
    char magic[8];
    uint64_t length;
    unsigned char checksum[CHECKSUM];
} entry_header;

static const char magic[8] = "cadre01";

/* A folder that is ours and that nobody else can write into; -1 otherwise. */
static int open_own_folder(int at, const char *path, mode_t forbidden)
{
    if (mkdirat(at, path, 0700) < 0 && errno != EEXIST) return -1;
    int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat info;
    if (fd < 0) return -1;
    if (fstat(fd, &info) < 0 || info.st_uid != geteuid() || info.st_mode & forbidden) {
        close(fd);
        return -1;
    }
    return fd;
}

cadre_cache *cadre_cache_open(const char *folder, uint64_t limit)
{
    if (!folder || !*folder || sodium_init() < 0) return NULL;
    (void)cadre_make_folders_above(folder); /* if this fails, opening does, too */
    int outer = open_own_folder(AT_FDCWD, folder, 022);
    if (outer < 0) return NULL;
    int inner = open_own_folder(outer, "cells", 077);
    close(outer);
    cadre_cache *cache = inner < 0 ? NULL : calloc(1, sizeof *cache);
    if (!cache) {
        if (inner >= 0) close(inner);
        return NULL;
    }
    cache->folder = inner;
    cache->limit = (limit ? limit : default_limit) / BUCKETS;
    return cache;
}

void cadre_cache_close(cadre_cache *cache)
{
    if (!cache) return;
    close(cache->folder);
    free(cache);
}

/* "0/123..." : 1 + 1 + 63 digits. */
static void entry_path(const unsigned char name[CADRE_CACHE_NAME],
                       char path[2 * CADRE_CACHE_NAME + 2])
{
    char digits[2 * CADRE_CACHE_NAME + 1];
    sodium_bin2hex(digits, sizeof digits, name, CADRE_CACHE_NAME);
    path[0] = digits[0];
    path[1] = '/';
    memcpy(path + 2, digits + 1, 2 * CADRE_CACHE_NAME);
}

static bool read_all(int fd, void *into, size_t length)
{
    for (char *at = into; length;) {
        ssize_t count = read(fd, at, length);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        at += count;
        length -= (size_t)count;
    }
    return true;
}

unsigned char *cadre_cache_load(cadre_cache *cache, const unsigned char name[CADRE_CACHE_NAME],
                                size_t *length)
{
    if (!cache) return NULL;
    char path[2 * CADRE_CACHE_NAME + 2];
    entry_path(name, path);
    int fd = openat(cache->folder, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return NULL;

    unsigned char *bytes = NULL;
    struct stat info;
    entry_header header;
    unsigned char checksum[CHECKSUM];
    crypto_generichash_state state;
    if (fstat(fd, &info) < 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid()) goto bad;
    if ((uint64_t)info.st_size < sizeof header || (uint64_t)info.st_size > cache->limit) goto bad;
    if (!read_all(fd, &header, sizeof header) || memcmp(header.magic, magic, sizeof magic) != 0 ||
        header.length != (uint64_t)info.st_size - sizeof header)
        goto bad;
    bytes = malloc(header.length + 1);
    if (!bytes || !read_all(fd, bytes, header.length)) goto bad;
    crypto_generichash_init(&state, NULL, 0, CHECKSUM);
    crypto_generichash_update(&state, name, CADRE_CACHE_NAME);
    crypto_generichash_update(&state, bytes, header.length);
    crypto_generichash_final(&state, checksum, CHECKSUM);
    if (memcmp(checksum, header.checksum, CHECKSUM) != 0) goto bad;

    if (time(NULL) - info.st_mtim.tv_sec > TOUCH_SECONDS) {
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
        futimens(fd, times); /* the time of last use; a read-only disk does without */
    }
    close(fd);
    *length = header.length;
    return bytes;
bad:
    close(fd);
    free(bytes);
    return NULL;
}

typedef struct used_file {
    char name[2 * CADRE_CACHE_NAME + 1];
    struct timespec time;
    uint64_t size;
} used_file;

static int by_age(const void *a, const void *b)
{
    const struct timespec *x = &((const used_file *)a)->time, *y = &((const used_file *)b)->time;
    if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? -1 : 1;
    return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

/* Removes the least recently used entries of one bucket until it is at most 7/8 full. Several
 * processes may do so at once: a file that is gone already is simply gone. */
static void tidy(cadre_cache *cache, const char *bucket)
{
    int fd = openat(cache->folder, bucket, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        if (fd >= 0) close(fd);
        return;
    }
    used_file *files = NULL;
    size_t count = 0, capacity = 0;
    uint64_t total = 0;
    time_t now = time(NULL);
    for (struct dirent *entry; (entry = readdir(folder));) {
        struct stat info;
        if (fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(info.st_mode))
            continue;
        if (entry->d_name[0] == '.') {
            if (now - info.st_mtim.tv_sec > TEMPORARY_HOURS * 3600) unlinkat(fd, entry->d_name, 0);
            continue;
        }
        if (strlen(entry->d_name) >= sizeof files->name) continue;
        if (count == capacity) {
            size_t more = capacity ? capacity * 2 : 256;
            used_file *grown = realloc(files, more * sizeof *files);
            if (!grown) break;
            files = grown;
            capacity = more;
        }
        used_file *file = &files[count++];
        memset(file->name, 0, sizeof file->name);
        memcpy(file->name, entry->d_name, strlen(entry->d_name));
        file->time = info.st_mtim;
        file->size = (uint64_t)info.st_blocks * 512;
        if (file->size < (uint64_t)info.st_size) file->size = (uint64_t)info.st_size;
        total += file->size;
    }
    if (total > cache->limit) {
        qsort(files, count, sizeof *files, by_age);
        for (size_t i = 0; i < count && total > cache->limit - cache->limit / 8; i++)
            if (unlinkat(fd, files[i].name, 0) == 0 || errno == ENOENT) total -= files[i].size;
    }
    free(files);
    closedir(folder);
}

static bool write_parts(int fd, struct iovec *parts, int count)
{
    while (count > 0) {
        ssize_t done = writev(fd, parts, count);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0 || (done == 0 && parts->iov_len > 0)) return false;
        size_t left = (size_t)done;
        while (count > 0 && left >= parts->iov_len) {
            left -= parts->iov_len;
            parts++;
            count--;
        }
        if (count > 0) {
            parts->iov_base = (char *)parts->iov_base + left;
            parts->iov_len -= left;
        }
    }
    return true;
}

void cadre_cache_store(cadre_cache *cache, const unsigned char name[CADRE_CACHE_NAME],
                       const cadre_cache_part *parts, size_t count)
{
    if (!cache || count > MOST_PARTS) return;
    entry_header header = {.length = 0};
    struct iovec pieces[MOST_PARTS + 1] = {{&header, sizeof header}};
    crypto_generichash_state state;
    memcpy(header.magic, magic, sizeof magic);
    crypto_generichash_init(&state, NULL, 0, CHECKSUM);
    crypto_generichash_update(&state, name, CADRE_CACHE_NAME);
    for (size_t i = 0; i < count; i++) {
        if (parts[i].length) crypto_generichash_update(&state, parts[i].bytes, parts[i].length);
        header.length += parts[i].length;
        pieces[i + 1] = (struct iovec){(void *)parts[i].bytes, parts[i].length};
    }
    crypto_generichash_final(&state, header.checksum, CHECKSUM);
    uint64_t size = sizeof header + header.length;
    if (size > cache->limit / LARGEST_SHARE) return;

    char path[2 * CADRE_CACHE_NAME + 2], temporary[64];
    entry_path(name, path);
    char bucket[2] = {path[0], '\0'};
    snprintf(temporary, sizeof temporary, "%s/.%ld-%p-%lu", bucket, (long)getpid(), (void *)cache,
             cache->stored++);
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    int fd = openat(cache->folder, temporary, flags, 0600);
    if (fd < 0 && errno == ENOENT) {
        mkdirat(cache->folder, bucket, 0700); /* or another process did */
        fd = openat(cache->folder, temporary, flags, 0600);
    }
    if (fd < 0) return;
    bool good = write_parts(fd, pieces, (int)count + 1);
    if (close(fd) < 0) good = false;
    if (!good || renameat(cache->folder, temporary, cache->folder, path) < 0) {
        unlinkat(cache->folder, temporary, 0);
        tidy(cache, bucket); /* a full disk: what is old makes room for the next */
        return;
    }
    /* Many short sessions write little each: so by chance and in proportion, not by a count. */
    if (randombytes_uniform(UINT32_MAX) <
        (double)size * TIDY_SHARE / (double)cache->limit * UINT32_MAX)
        tidy(cache, bucket);
}
