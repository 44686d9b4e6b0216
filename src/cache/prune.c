#include "cache/prune.h"

#include "base/os/descriptor.h"
#include "base/os/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/bytes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes of the file `lock` above those for keys. */
#define LOCK_ACCOUNT (TRP__LOCK_KEYS + 1)
#define LOCK_PRUNE   (TRP__LOCK_KEYS + 2)

/* Temporary files older than this are removed. Writing takes milliseconds; a writer stopped for
 * longer fails to rename and reports an error. */
#define TEMPORARY_NS (600 * TRP__SECOND)

/* Interval between two listings of all files, whatever the account says. */
#define LOOK_NS (86400 * TRP__SECOND)

/* Without an account: entries of one process between two listings. */
enum { LOOK_COUNT = 256 };

/* The account: magic, version, bytes, time of the last listing, checksum. */

enum { ACCOUNT_BYTES = 40, AT_VERSION = 8, AT_SUM = 16, AT_LOOKED = 24, AT_CHECK = 32 };

static const unsigned char account_magic[8] = {0x7f, 'T', 'R', 'P', 'A', '\r', '\n', 0x1a};

typedef struct account {
    uint64_t bytes;
    int64_t looked_ns; /* CLOCK_REALTIME */
} account;

static bool read_account(int fd, account *out)
{
    unsigned char bytes[ACCOUNT_BYTES];
    if (!trp__cache_read_at(fd, bytes, sizeof bytes, 0) ||
        memcmp(bytes, account_magic, sizeof account_magic) != 0 ||
        trp__get64(bytes + AT_VERSION) != 1 ||
        trp__get64(bytes + AT_CHECK) != trp__checksum(bytes, AT_CHECK))
        return false;
    out->bytes = trp__get64(bytes + AT_SUM);
    out->looked_ns = (int64_t)trp__get64(bytes + AT_LOOKED);
    return true;
}

static bool write_account(int fd, const account *a)
{
    unsigned char bytes[ACCOUNT_BYTES];
    memcpy(bytes, account_magic, sizeof account_magic);
    trp__put64(bytes + AT_VERSION, 1);
    trp__put64(bytes + AT_SUM, a->bytes);
    trp__put64(bytes + AT_LOOKED, (uint64_t)a->looked_ns);
    trp__put64(bytes + AT_CHECK, trp__checksum(bytes, AT_CHECK));
    return trp__cache_write_at(fd, bytes, sizeof bytes, 0);
}

/* Unlocks explicitly: a forked child may still hold the descriptor. */
static void end_lock(int lock, int64_t at)
{
    trp__disk_unlock(lock, at);
    close(lock);
}

/* Opens and locks the account until close_account(). Other processes hold it for microseconds; if
 * one was stopped meanwhile, gives up after a tenth of a second. */
static bool open_account(int folder, int *fd, int *lock)
{
    enum { TRIES = 100 };
    if (trp__disk_open_lock(folder, lock, NULL) != TRP_OK)
        return false;
    trp__lock_result result = TRP__LOCK_BUSY;
    for (int i = 0; i < TRIES && result == TRP__LOCK_BUSY; i++) {
        result = trp__disk_lock(*lock, LOCK_ACCOUNT);
        if (result == TRP__LOCK_BUSY)
            trp__sleep_ns(TRP__MS);
    }
    if (result == TRP__LOCKED &&
        trp__cache_file_open(folder, "account", O_RDWR | O_CREAT, fd, NULL) == TRP_OK)
        return true;
    end_lock(*lock, LOCK_ACCOUNT);
    return false;
}

static void close_account(int fd, int lock)
{
    close(fd);
    end_lock(lock, LOCK_ACCOUNT);
}

void trp__disk_count(trp__disk *disk, int folder, uint64_t bytes)
{
    int fd, lock;
    account a;
    bool counted = false;
    if (open_account(folder, &fd, &lock)) {
        if (read_account(fd, &a)) {
            a.bytes += bytes;
            counted = write_account(fd, &a);
        } else {
            atomic_store(&disk->look_due, true); /* the listing rewrites the account */
        }
        close_account(fd, lock);
    }
    if (!counted && atomic_fetch_add(&disk->uncounted, 1) % LOOK_COUNT == 0)
        atomic_store(&disk->look_due, true);
}

/* Reads the account without its lock: one that is being written fails its checksum and counts as
 * not due. */
static bool is_due(trp__disk *disk, int folder)
{
    int fd;
    account a;
    bool known = false;
    if (atomic_exchange(&disk->look_due, false))
        return true;
    if (trp__cache_file_open(folder, "account", O_RDONLY, &fd, NULL) == TRP_OK) {
        known = read_account(fd, &a);
        close(fd);
    }
    int64_t age = known ? trp__disk_now() - a.looked_ns : 0;
    return known && (a.bytes > disk->max_bytes || age < 0 || age > LOOK_NS);
}

void trp__disk_prune_if_due(trp__disk *disk)
{
    int folder;
    if (trp__disk_folder(disk, false, &folder, NULL) != TRP_OK)
        return;
    bool due = is_due(disk, folder);
    close(folder);
    if (!due)
        return;
    trp__disk_pruned ignored;
    trp__disk_prune(disk, disk->max_bytes, &ignored, NULL);
}

/* Listing. */

static bool add_file(trp__disk_list *list, size_t *room, const trp__disk_file *file)
{
    if (list->count == *room) {
        size_t larger = *room ? 2 * *room : 256;
        trp__disk_file *files = realloc(list->file, larger * sizeof *files);
        if (!files)
            return false;
        list->file = files;
        *room = larger;
    }
    list->file[list->count++] = *file;
    list->bytes += file->bytes;
    return true;
}

static int by_age(const void *left, const void *right)
{
    const trp__disk_file *a = left, *b = right;
    if (a->used_ns != b->used_ns)
        return a->used_ns < b->used_ns ? -1 : 1;
    return memcmp(a->hash.byte, b->hash.byte, sizeof a->hash.byte);
}

/* Opens a stream of names; the caller keeps the folder. */
static DIR *open_names(int folder)
{
    int fd = trp__descriptor_apart(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *names = fd >= 0 ? fdopendir(fd) : NULL;
    if (!names && fd >= 0)
        close(fd);
    return names;
}

static bool is_temporary(const char *name)
{
    return strncmp(name, TRP__TEMPORARY, strlen(TRP__TEMPORARY)) == 0;
}

trp_status trp__disk_list_all(int folder, trp__disk_list *out, trp_error *error)
{
    *out = (trp__disk_list){0};
    size_t room = 0;
    bool good = true;
    int64_t now = trp__disk_now();
    DIR *names = open_names(folder);
    if (!names)
        return trp__error_set_errno(error, "the folder of the kernel cache");
    for (struct dirent *e; good && (e = readdir(names));) {
        struct stat s;
        trp__disk_file file = {0};
        bool temporary = is_temporary(e->d_name);
        if ((!temporary && !trp__disk_parse_name(e->d_name, &file.hash, &file.type)) ||
            fstatat(folder, e->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        file.bytes = (uint64_t)s.st_size;
        file.stamp_ns = trp__disk_stamp(&s);
        file.used_ns = file.stamp_ns < now ? file.stamp_ns : now;
        if (temporary) {
            out->temporaries++;
            out->temporary_bytes += file.bytes;
        } else {
            good = add_file(out, &room, &file);
        }
    }
    closedir(names);
    if (!good) {
        trp__disk_list_end(out);
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a list of entries");
    }
    if (out->count > 0)
        qsort(out->file, out->count, sizeof *out->file, by_age);
    return TRP_OK;
}

void trp__disk_list_end(trp__disk_list *list)
{
    free(list->file);
    *list = (trp__disk_list){0};
}

/* Pruning. */

/* Removes temporary files of processes that died while writing. */
static uint64_t reap(int folder)
{
    uint64_t reaped = 0;
    int64_t now = trp__disk_now();
    DIR *names = open_names(folder);
    for (struct dirent *e; names && (e = readdir(names));) {
        struct stat s;
        if (!is_temporary(e->d_name) || fstatat(folder, e->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        int64_t age = now - trp__disk_stamp(&s);
        if (age > TEMPORARY_NS || age < -TEMPORARY_NS)
            reaped += unlinkat(folder, e->d_name, 0) == 0;
    }
    if (names)
        closedir(names);
    return reaped;
}

/* Removes an entry unless it was used meanwhile. Readers have it open and are not affected. */
static bool evict(int folder, const trp__disk_file *file)
{
    char name[TRP__DISK_NAME];
    struct stat s;
    trp__disk_name(name, &file->hash, file->type);
    TRP__FAULT_POINT(CACHE_EVICTING);
    if (fstatat(folder, name, &s, AT_SYMLINK_NOFOLLOW) != 0 ||
        trp__disk_stamp(&s) != file->stamp_ns)
        return false;
    bool removed = unlinkat(folder, name, S_ISDIR(s.st_mode) ? AT_REMOVEDIR : 0) == 0;
    TRP__FAULT_POINT(CACHE_EVICTED);
    return removed;
}

/* Sets the account to the bytes left, plus what others have added since `before`. */
static void settle(int folder, bool known, const account *before, uint64_t left, int64_t looked)
{
    int fd, lock;
    account now, settled = {.bytes = left, .looked_ns = looked};
    if (!open_account(folder, &fd, &lock))
        return;
    if (known && read_account(fd, &now) && now.bytes > before->bytes)
        settled.bytes += now.bytes - before->bytes;
    (void)write_account(fd, &settled);
    close_account(fd, lock);
}

static trp_status prune_in(int folder, uint64_t limit, uint64_t goal, trp__disk_pruned *out,
                           trp_error *error)
{
    trp__disk_list list;
    account before = {0};
    int fd;
    bool known = false;
    int64_t looked = trp__disk_now();
    if (trp__cache_file_open(folder, "account", O_RDONLY, &fd, NULL) == TRP_OK) {
        known = read_account(fd, &before);
        close(fd);
    }
    out->reaped = reap(folder);
    trp_status status = trp__disk_list_all(folder, &list, error);
    if (status != TRP_OK)
        return status;
    uint64_t left = list.bytes + list.temporary_bytes;
    out->left = list.count;
    goal = left > limit ? goal : left;
    for (size_t i = 0; i < list.count && left > goal; i++) {
        if (!evict(folder, &list.file[i]))
            continue;
        left -= list.file[i].bytes;
        out->removed++;
        out->removed_bytes += list.file[i].bytes;
        out->left--;
    }
    out->left_bytes = left;
    trp__disk_list_end(&list);
    settle(folder, known, &before, left, looked);
    return TRP_OK;
}

trp_status trp__disk_prune(trp__disk *disk, uint64_t limit, trp__disk_pruned *out, trp_error *error)
{
    int folder, lock = -1;
    *out = (trp__disk_pruned){0};
    trp_status status = trp__disk_folder(disk, false, &folder, error);
    if (status != TRP_OK)
        return status;
    /* Without a lock two processes may prune at once; both remove the same entries. */
    if (trp__disk_open_lock(folder, &lock, NULL) == TRP_OK &&
        trp__disk_lock(lock, LOCK_PRUNE) == TRP__LOCK_BUSY)
        status = trp__error_set(error, TRP_E_BUSY, "another process prunes the cache just now");
    else
        status = prune_in(folder, limit, limit / 10 * 9, out, error);
    if (lock >= 0)
        end_lock(lock, LOCK_PRUNE);
    close(folder);
    return status;
}
