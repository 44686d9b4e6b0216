#include "cache/records.h"

#include "base/error.h"
#include "cache/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC   UINT64_C(0x736472636572707f)
#define VERSION 1u

/* A file that is larger is not read on: somebody adds without end. */
#define RECORDS_MAX 65536u

/* The file: a head, then entries of the same size: key, value, checksum of both. */
typedef struct head {
    uint64_t magic;
    uint32_t version;
    uint32_t key_bytes, value_bytes;
    uint32_t reserved;
    char identity[TRP__RECORDS_IDENTITY];
    uint64_t checksum; /* of what is before it */
} head;

struct trp__records {
    char name[96]; /* the file's */
    head head;
    size_t entry_bytes;
    uint32_t count, room;
    unsigned char *entries;
    uint64_t read; /* bytes of the file that were looked at */
};

/* FNV-1a (Fowler, Noll, Vo): against damage, not against people; those the folder keeps out. */
static uint64_t checksum_of(const void *data, size_t bytes)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static size_t pair_bytes(const trp__records *r)
{
    return (size_t)r->head.key_bytes + r->head.value_bytes;
}

static bool is_whole(const trp__records *r, const unsigned char *entry)
{
    uint64_t checksum;
    memcpy(&checksum, entry + pair_bytes(r), sizeof checksum);
    return checksum == checksum_of(entry, pair_bytes(r));
}

static unsigned char *find_entry(const trp__records *r, const void *key)
{
    for (uint32_t i = 0; i < r->count; i++) {
        unsigned char *entry = r->entries + i * r->entry_bytes;
        if (memcmp(entry, key, r->head.key_bytes) == 0)
            return entry;
    }
    return NULL;
}

/* In place of an older one of the same key. False: no memory, or too many. */
static bool keep(trp__records *r, const unsigned char *entry)
{
    unsigned char *old = find_entry(r, entry);
    if (old) {
        memcpy(old, entry, r->entry_bytes);
        return true;
    }
    if (r->count == r->room) {
        uint32_t room = r->room ? 2 * r->room : 64;
        unsigned char *larger =
            r->room < RECORDS_MAX ? realloc(r->entries, room * r->entry_bytes) : NULL;
        if (!larger)
            return false;
        r->entries = larger;
        r->room = room;
    }
    memcpy(r->entries + r->count++ * r->entry_bytes, entry, r->entry_bytes);
    return true;
}

/* Reading. */

static bool read_at(int fd, void *out, size_t bytes, uint64_t at)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t some = pread(fd, (char *)out + done, bytes - done, (off_t)(at + done));
        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0)
            return false;
        done += (size_t)some;
    }
    return true;
}

static bool head_fits(const trp__records *r, int fd)
{
    head found;
    return read_at(fd, &found, sizeof found, 0) && memcmp(&found, &r->head, sizeof found) == 0;
}

/* Reads what was added since the last time. */
static void read_new(trp__records *r)
{
    trp_error ignored;
    struct stat s;
    int folder, fd;
    if (trp__cache_folder_open(false, &folder, &ignored) != TRP_OK)
        return;
    trp_status status = trp__cache_file_open(folder, r->name, O_RDONLY, &fd, &ignored);
    close(folder);
    if (status != TRP_OK)
        return;
    unsigned char *entry = malloc(r->entry_bytes);
    bool good = entry && fstat(fd, &s) == 0 && s.st_size > 0;
    uint64_t size = good ? (uint64_t)s.st_size : 0;
    if (size < r->read) /* it was begun anew */
        r->read = 0;
    if (good && r->read == 0) {
        good = head_fits(r, fd);
        r->read = good ? sizeof(head) : 0;
    }
    while (good && r->read + r->entry_bytes <= size &&
           read_at(fd, entry, r->entry_bytes, r->read)) {
        bool whole = is_whole(r, entry), last = r->read + 2 * r->entry_bytes > size;
        if (!whole && last) /* it may be being written: looked at again next time */
            break;
        r->read += r->entry_bytes;
        good = !whole || keep(r, entry);
    }
    free(entry);
    close(fd);
}

/* Writing. */

/* Makes the file end with a whole entry; of another version or damaged, begins it anew. */
static trp_status make_even(trp__records *r, int fd, trp_error *error)
{
    struct stat s;
    if (fstat(fd, &s) != 0)
        return trp__error_set_errno(error, r->name);
    uint64_t size = (uint64_t)s.st_size, even = 0;
    if (size >= sizeof(head) && head_fits(r, fd))
        even = size - (size - sizeof(head)) % r->entry_bytes;
    if (even != size && ftruncate(fd, (off_t)even) != 0)
        return trp__error_set_errno(error, r->name);
    if (even == 0 && write(fd, &r->head, sizeof r->head) != (ssize_t)sizeof r->head)
        return trp__error_set_errno(error, r->name);
    return TRP_OK;
}

static trp_status append(trp__records *r, const unsigned char *entry, trp_error *error)
{
    int folder, fd;
    trp_status status = trp__cache_folder_open(true, &folder, error);
    if (status != TRP_OK)
        return status;
    status = trp__cache_file_open(folder, r->name, O_RDWR | O_CREAT | O_APPEND, &fd, error);
    close(folder);
    if (status != TRP_OK)
        return status;
    /* Whoever holds the lock writes one entry; if it dies meanwhile the next one cuts that off. */
    if (flock(fd, LOCK_EX) != 0)
        status = trp__error_set_errno(error, r->name);
    if (status == TRP_OK)
        status = make_even(r, fd, error);
    if (status == TRP_OK && write(fd, entry, r->entry_bytes) != (ssize_t)r->entry_bytes)
        status = trp__error_set_errno(error, r->name);
    close(fd);
    return status;
}

/* The table. */

trp_status trp__records_open(const char *kind, const char *identity, size_t key_bytes,
                             size_t value_bytes, trp__records **out, trp_error *error)
{
    trp__records *r = calloc(1, sizeof *r);
    if (!r)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a table of records");
    r->head = (head){.magic = MAGIC,
                     .version = VERSION,
                     .key_bytes = (uint32_t)key_bytes,
                     .value_bytes = (uint32_t)value_bytes};
    snprintf(r->head.identity, sizeof r->head.identity, "%s", identity);
    r->head.checksum = checksum_of(&r->head, offsetof(head, checksum));
    r->entry_bytes = key_bytes + value_bytes + sizeof(uint64_t);
    snprintf(r->name, sizeof r->name, "%s-%016llx.records", kind,
             (unsigned long long)r->head.checksum);
    read_new(r);
    *out = r;
    return TRP_OK;
}

void trp__records_close(trp__records *records)
{
    if (!records)
        return;
    free(records->entries);
    free(records);
}

const void *trp__records_find(trp__records *records, const void *key)
{
    read_new(records);
    const unsigned char *entry = find_entry(records, key);
    return entry ? entry + records->head.key_bytes : NULL;
}

trp_status trp__records_add(trp__records *records, const void *key, const void *value,
                            trp_error *error)
{
    trp__records *r = records;
    unsigned char *entry = malloc(r->entry_bytes);
    if (!entry)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a record");
    memcpy(entry, key, r->head.key_bytes);
    memcpy(entry + r->head.key_bytes, value, r->head.value_bytes);
    uint64_t checksum = checksum_of(entry, pair_bytes(r));
    memcpy(entry + pair_bytes(r), &checksum, sizeof checksum);
    trp_status status = keep(r, entry)
                            ? append(r, entry, error)
                            : trp__error_set(error, TRP_E_MEMORY, "no room for another record");
    free(entry);
    return status;
}

uint32_t trp__records_count(const trp__records *records)
{
    return records->count;
}
