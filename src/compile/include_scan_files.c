/* Scans of files, cached as long as the file is unchanged. */
#include "compile/include_scan.h"

#include "base/os/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_MOST ((off_t)64 << 20) /* larger files are no headers */

/* Reads an open file into terminated memory. NULL: *result says why. */
static char *read_whole(int fd, const struct stat *s, size_t *bytes, trp__jit_file *result)
{
    size_t got = 0;
    *result = TRP__JIT_FILE_NO_MEMORY;
    char *text = malloc((size_t)s->st_size + 1);
    while (text && got < (size_t)s->st_size) {
        ssize_t n = read(fd, text + got, (size_t)s->st_size - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    if (text)
        text[got] = '\0';
    *bytes = got;
    return text;
}

static int64_t in_ns(const struct timespec *t)
{
    return (int64_t)t->tv_sec * INT64_C(1000000000) + t->tv_nsec;
}

static trp__jit_stamp stamp_of(const struct stat *s)
{
    return (trp__jit_stamp){.device = s->st_dev,
                            .inode = s->st_ino,
                            .bytes = (uint64_t)s->st_size,
                            .modified_ns = in_ns(&s->st_mtim),
                            .changed_ns = in_ns(&s->st_ctim)};
}

static bool same_stamp(const trp__jit_stamp *a, const trp__jit_stamp *b)
{
    return a->device == b->device && a->inode == b->inode && a->bytes == b->bytes &&
           a->modified_ns == b->modified_ns && a->changed_ns == b->changed_ns;
}

/* Resolution of file times: a clock tick here, two seconds at the worst (FAT). Two changes within
 * one step leave the same times. */
#define STEP_NS INT64_C(2000000000)

static bool is_settled(const trp__jit_stamp *stamp, int64_t now_ns)
{
    return stamp->modified_ns < now_ns - STEP_NS && stamp->changed_ns < now_ns - STEP_NS;
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return in_ns(&t);
}

/* The cache: a table by device and inode. When it is full, entries not used since it was last full
 * are dropped. */

enum { BUCKETS = 1024, KNOWN_MOST = 8192 };

typedef struct known {
    struct known *next;
    trp__jit_stamp stamp;
    const trp__include_scan *scan;
    bool used;
} known;

static struct {
    pthread_mutex_t lock;
    known *bucket[BUCKETS];
    size_t count;
    uint64_t reads, hits;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static known **bucket_of(const trp__jit_stamp *stamp)
{
    const uint64_t file[2] = {stamp->device, stamp->inode};
    return &table.bucket[trp__checksum(file, sizeof file) % BUCKETS];
}

static const trp__include_scan *hold(const trp__include_scan *scan)
{
    atomic_fetch_add(&((trp__include_scan *)(uintptr_t)scan)->holders, 1);
    return scan;
}

static const trp__include_scan *find_known(const trp__jit_stamp *stamp)
{
    const trp__include_scan *scan = NULL;
    pthread_mutex_lock(&table.lock);
    for (known *k = *bucket_of(stamp); k && !scan; k = k->next) {
        if (same_stamp(&k->stamp, stamp)) {
            k->used = true;
            scan = hold(k->scan);
            table.hits++;
        }
    }
    pthread_mutex_unlock(&table.lock);
    return scan;
}

static void drop(known **at)
{
    known *k = *at;
    *at = k->next;
    table.count--;
    trp__include_scan_release(k->scan);
    free(k);
}

static void drop_unused(void)
{
    bool all = true;
    for (size_t i = 0; i < BUCKETS; i++) {
        for (const known *k = table.bucket[i]; k && all; k = k->next)
            all = k->used;
    }
    for (size_t i = 0; i < BUCKETS; i++) {
        for (known **at = &table.bucket[i]; *at;) {
            if (all || !(*at)->used) {
                drop(at);
            } else {
                (*at)->used = false;
                at = &(*at)->next;
            }
        }
    }
}

/* Adds a result, replacing that of an older version of the file. */
static void note_known(const trp__jit_stamp *stamp, const trp__include_scan *scan)
{
    known *k = malloc(sizeof *k);
    if (!k)
        return;
    pthread_mutex_lock(&table.lock);
    if (table.count >= KNOWN_MOST)
        drop_unused();
    known **head = bucket_of(stamp);
    for (known **at = head; *at;) {
        if ((*at)->stamp.device == stamp->device && (*at)->stamp.inode == stamp->inode)
            drop(at);
        else
            at = &(*at)->next;
    }
    *k = (known){.next = *head, .stamp = *stamp, .scan = hold(scan), .used = true};
    *head = k;
    table.count++;
    pthread_mutex_unlock(&table.lock);
}

void trp__include_scan_counts(uint64_t *read, uint64_t *known_files)
{
    pthread_mutex_lock(&table.lock);
    *read = table.reads;
    *known_files = table.hits;
    pthread_mutex_unlock(&table.lock);
}

static trp__jit_file read_file(const char *path, const trp__include_scan **out,
                               trp__jit_stamp *stamp, bool *settled)
{
    struct stat before = {0}, after;
    size_t bytes = 0;
    trp__jit_file result = TRP__JIT_FILE_UNREADABLE;
    /* O_NONBLOCK: opening a pipe must not block. */
    int fd = trp__descriptor_apart(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? TRP__JIT_FILE_NONE : TRP__JIT_FILE_UNREADABLE;
    int64_t now = now_ns(); /* taken before reading: any later change has a later time */
    bool good = fstat(fd, &before) == 0 && S_ISREG(before.st_mode) && before.st_size <= FILE_MOST;
    char *text = good ? read_whole(fd, &before, &bytes, &result) : NULL;
    if (text) {
        *out = trp__include_scan_text(text, bytes);
        result = *out ? TRP__JIT_FILE_READ : TRP__JIT_FILE_NO_MEMORY;
    } else if (!good && S_ISDIR(before.st_mode)) {
        result = TRP__JIT_FILE_NONE;
    }
    if (result == TRP__JIT_FILE_READ) {
        *stamp = stamp_of(&before);
        trp__jit_stamp later = *stamp;
        if (fstat(fd, &after) == 0)
            later = stamp_of(&after);
        *settled = same_stamp(stamp, &later) && bytes == stamp->bytes && is_settled(stamp, now);
    }
    free(text);
    close(fd);
    return result;
}

trp__jit_file trp__include_scan_file(const char *path, const trp__include_scan **out,
                                     trp__jit_stamp *stamp, bool *settled)
{
    struct stat s;
    *out = NULL;
    *settled = false;
    if (stat(path, &s) != 0)
        return errno == ENOENT || errno == ENOTDIR ? TRP__JIT_FILE_NONE : TRP__JIT_FILE_UNREADABLE;
    *stamp = stamp_of(&s);
    *out = S_ISREG(s.st_mode) ? find_known(stamp) : NULL;
    if (*out) {
        *settled = true;
        return TRP__JIT_FILE_READ;
    }
    trp__jit_file result = read_file(path, out, stamp, settled);
    pthread_mutex_lock(&table.lock);
    table.reads += result == TRP__JIT_FILE_READ;
    pthread_mutex_unlock(&table.lock);
    if (result == TRP__JIT_FILE_READ && *settled)
        note_known(stamp, *out);
    return result;
}
