#include "cache/disk.h"

#include "base/os/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/bytes.h"
#include "cache/prune.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A use within this time of the last one does not update the time stamp again. */
#define STAMP_NS (60 * TRP__SECOND)

/* Names. */

static const struct {
    uint32_t type;
    const char *suffix;
} suffixes[] = {{TRP__ENTRY_PAYLOAD, ".entry"}, {TRP__ENTRY_HEADERS, ".headers"}};

void trp__disk_name(char name[TRP__DISK_NAME], const trp__hash *hash, uint32_t type)
{
    char text[TRP__HASH_TEXT];
    trp__hash_text(hash, text);
    snprintf(name, TRP__DISK_NAME, "%s%s", text, suffixes[type == TRP__ENTRY_HEADERS].suffix);
}

bool trp__disk_parse_name(const char *name, trp__hash *hash, uint32_t *type)
{
    size_t digits = TRP__HASH_TEXT - 1;
    if (strnlen(name, digits) < digits || !trp__hash_parse(name, digits, hash))
        return false;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (strcmp(name + digits, suffixes[i].suffix) == 0) {
            *type = suffixes[i].type;
            return true;
        }
    }
    return false;
}

/* The folder. */

/* Logs one line for each kind of trouble in a store's life: repeats add nothing. */
static void warn_once(trp__disk *disk, atomic_bool *warned, const char *message)
{
    if (!atomic_exchange(warned, true))
        trp__log_line(disk->log, TRP__LOG_WARNING, "the kernel cache is not used: %s", message);
}

trp_status trp__disk_folder(trp__disk *disk, bool make, int *folder, trp_error *error)
{
    trp_error why = {0};
    int above = -1;
    if (disk->absent)
        return trp__error_set(error, TRP_E_MISSING, "there is no cache folder");
    trp_status status = trp__cache_place_open(&disk->place, make, &above, &why);
    if (status == TRP_OK) {
        status = trp__cache_folder_open_in(above, "store", make, folder, &why);
        close(above);
    }
    if (status != TRP_OK && (status != TRP_E_MISSING || make))
        warn_once(disk, &disk->warned_folder, why.message);
    if (status != TRP_OK && error)
        *error = why;
    return status;
}

/* Reading. */

/* Allocates at a multiple of 64 bytes, which aligns the payload too. */
static unsigned char *make_memory(size_t bytes)
{
    size_t whole = (bytes + TRP__ENTRY_ALIGN - 1) / TRP__ENTRY_ALIGN * TRP__ENTRY_ALIGN;
    return aligned_alloc(TRP__ENTRY_ALIGN, whole);
}

/* Reads a whole file into memory. A mapping would not do: its content could change after the check,
 * and a file truncated meanwhile would raise SIGBUS. */
static const char *read_file(int fd, uint64_t size, unsigned char **bytes)
{
    if (size < TRP__ENTRY_HEAD)
        return "it is cut off";
    if (size > TRP__ENTRY_BYTES_MAX)
        return "it is longer than it should be";
    *bytes = make_memory((size_t)size);
    if (!*bytes)
        return "there is no memory for it";
    if (trp__cache_read_at(fd, *bytes, (size_t)size, 0))
        return NULL;
    free(*bytes);
    *bytes = NULL;
    return "it can't be read";
}

/* Reads the head, then everything in front of the payload. */
static const char *read_front(int fd, uint64_t size, unsigned char **bytes, trp__entry *entry)
{
    unsigned char head[TRP__ENTRY_HEAD];
    if (size < sizeof head || !trp__cache_read_at(fd, head, sizeof head, 0))
        return "it is cut off";
    const char *wrong = trp__entry_read_head(head, size, entry);
    if (wrong)
        return wrong;
    *bytes = make_memory(entry->payload_at);
    if (!*bytes)
        return "there is no memory for it";
    return trp__cache_read_at(fd, *bytes, entry->payload_at, 0)
               ? trp__entry_read_front(*bytes, entry)
               : "it can't be read";
}

const char *trp__disk_read(int folder, const char *name, bool front_only, unsigned char **bytes,
                           trp__entry *entry)
{
    struct stat s;
    int fd;
    *bytes = NULL;
    *entry = (trp__entry){0};
    if (trp__cache_file_open(folder, name, O_RDONLY, &fd, NULL) != TRP_OK)
        return "it can't be opened, or its owner or mode is not trusted";
    const char *wrong = "it can't be read";
    if (fstat(fd, &s) == 0 && front_only)
        wrong = read_front(fd, (uint64_t)s.st_size, bytes, entry);
    else if (fstat(fd, &s) == 0)
        wrong = read_file(fd, (uint64_t)s.st_size, bytes);
    close(fd);
    if (!wrong && !front_only)
        wrong = trp__entry_read(*bytes, (uint64_t)s.st_size, entry);
    return wrong;
}

int64_t trp__disk_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * TRP__SECOND + t.tv_nsec;
}

int64_t trp__disk_stamp(const struct stat *s)
{
    int64_t seconds = s->st_mtim.tv_sec;
    if (seconds < 0)
        return 0;
    return seconds < INT64_MAX / TRP__SECOND ? seconds * TRP__SECOND + s->st_mtim.tv_nsec
                                             : INT64_MAX;
}

/* Marks an entry as just used. Fails silently on an entry that this user can only read. */
static void stamp(int fd, const struct stat *s)
{
    int64_t age = trp__disk_now() - trp__disk_stamp(s);
    if (age < 0 || age > STAMP_NS) {
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
        (void)!futimens(fd, times);
    }
}

trp_status trp__disk_find(trp__disk *disk, const trp__hash *hash, uint32_t type, const void *key,
                          size_t key_bytes, unsigned char **bytes, trp__entry *entry)
{
    char name[TRP__DISK_NAME];
    struct stat s;
    int folder = -1, fd;
    *bytes = NULL;
    if (trp__disk_folder(disk, false, &folder, NULL) != TRP_OK)
        return TRP_E_MISSING;
    trp__disk_name(name, hash, type);
    trp_status status = trp__cache_file_open(folder, name, O_RDONLY, &fd, NULL);
    close(folder);
    if (status != TRP_OK)
        return TRP_E_MISSING;
    const char *wrong = "it can't be read";
    if (fstat(fd, &s) == 0)
        wrong = read_file(fd, (uint64_t)s.st_size, bytes);
    if (!wrong)
        wrong = trp__entry_read(*bytes, (uint64_t)s.st_size, entry);
    if (!wrong && entry->type == type && entry->key_bytes == key_bytes &&
        memcmp(entry->key, key, key_bytes) == 0)
        stamp(fd, &s);
    else
        status = TRP_E_MISSING;
    close(fd);
    if (status != TRP_OK) {
        free(*bytes);
        *bytes = NULL;
    }
    return status;
}

/* Locks. */

trp_status trp__disk_open_lock(int folder, int *fd, trp_error *error)
{
    return trp__cache_file_open(folder, "lock", O_RDWR | O_CREAT, fd, error);
}

trp__lock_result trp__disk_lock(int fd, int64_t at)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    while (fcntl(fd, F_OFD_SETLK, &lock) != 0) {
        if (errno != EINTR)
            return errno == EAGAIN || errno == EACCES ? TRP__LOCK_BUSY : TRP__LOCK_NONE;
    }
    return TRP__LOCKED;
}

void trp__disk_unlock(int fd, int64_t at)
{
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    (void)fcntl(fd, F_OFD_SETLK, &lock);
}

/* Writing. */

static void make_temporary_name(char name[TRP__DISK_NAME])
{
    static atomic_uint counter;
    uint64_t number;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number)
        number = (uint64_t)trp__disk_now() + atomic_fetch_add(&counter, 1);
    snprintf(name, TRP__DISK_NAME, TRP__TEMPORARY "%d-%016llx", (int)getpid(),
             (unsigned long long)number);
}

/* Renames, replacing whatever has the target name. */
static bool move(int folder, const char *from, const char *to)
{
    if (renameat(folder, from, folder, to) == 0)
        return true;
    if (errno != EISDIR && errno != EEXIST && errno != ENOTEMPTY)
        return false;
    unlinkat(folder, to, AT_REMOVEDIR); /* an empty folder in the way, not made by us */
    return renameat(folder, from, folder, to) == 0;
}

/* Writes a temporary file, syncs it and renames it: a reader sees a whole entry or none. */
static trp_status write_in(trp__disk *disk, int folder, const char *name, const trp__entry *entry,
                           const unsigned char *front, trp_error *error)
{
    char temporary[TRP__DISK_NAME];
    int fd;
    make_temporary_name(temporary);
    trp_status status =
        trp__cache_file_open(folder, temporary, O_WRONLY | O_CREAT | O_EXCL, &fd, error);
    if (status != TRP_OK)
        return status;
    errno = EIO; /* reported by fault points that fail */
    bool good = !TRP__FAULT_POINT_FAILS(CACHE_TEMPORARY_MADE) &&
                trp__cache_write_at(fd, front, entry->payload_at, 0) &&
                !TRP__FAULT_POINT_FAILS(CACHE_HALF_WRITTEN) &&
                trp__cache_write_at(fd, entry->payload, entry->bytes, entry->payload_at) &&
                !TRP__FAULT_POINT_FAILS(CACHE_WRITTEN) && fsync(fd) == 0;
    int code = errno;
    TRP__FAULT_POINT(CACHE_SYNCED);
    if (close(fd) != 0 && good) { /* some file systems report write errors only at close */
        code = errno;
        good = false;
    }
    if (good) {
        trp__disk_count(disk, folder, entry->size);
        good = !TRP__FAULT_POINT_FAILS(CACHE_COUNTED) && move(folder, temporary, name);
        code = errno;
    }
    TRP__FAULT_POINT(CACHE_RENAMED);
    if (good)
        return TRP_OK;
    unlinkat(folder, temporary, 0);
    errno = code;
    return trp__error_set_errno(error, "an entry of the kernel cache can't be written");
}

trp_status trp__disk_write(trp__disk *disk, trp__entry *entry, trp_error *error)
{
    unsigned char *front = NULL;
    char name[TRP__DISK_NAME];
    trp_error why = {0};
    int folder = -1;
    trp_status status = trp__entry_make(entry, &front, &why);
    if (status == TRP_OK && entry->size > disk->max_bytes)
        status = trp__error_set(&why, TRP_E_ARGUMENT,
                                "an entry of %zu bytes is larger than the cache may be: %llu",
                                entry->size, (unsigned long long)disk->max_bytes);
    if (status == TRP_OK)
        status = trp__disk_folder(disk, true, &folder, &why);
    if (status == TRP_OK) {
        trp__disk_name(name, &entry->hash, entry->type);
        status = write_in(disk, folder, name, entry, front, &why);
        if (status != TRP_OK)
            warn_once(disk, &disk->warned_write, why.message);
    }
    if (folder >= 0)
        close(folder);
    free(front);
    if (status == TRP_OK)
        trp__disk_prune_if_due(disk);
    else if (error)
        *error = why;
    return status;
}
