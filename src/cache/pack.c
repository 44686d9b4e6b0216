#include "cache/pack.h"

#include "base/os/descriptor.h"
#include "base/error.h"
#include "base/bytes.h"
#include "cache/folder.h"
#include "cache/headers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* The head, at both ends of the file. */
enum {
    HEAD = 64,
    AT_VERSION = 8,
    AT_COUNT = 16,
    AT_SIZE = 24,
    AT_HEAD_SUM = 56,
};

/* A row of the index, sorted by hash, then type. */
enum {
    ROW = 64,
    AT_TYPE = 32,
    AT_OFFSET = 40,
    AT_BYTES = 48,
    AT_ROW_SUM = 56,
};

#define PACK_VERSION 1u
#define ALIGN        ((uint64_t)TRP__ENTRY_ALIGN)

static const unsigned char magic[8] = {0x7f, 'T', 'R', 'P', 'P', '\r', '\n', 0x1a};

static int compare(const unsigned char *row, const trp__hash *hash, uint32_t type)
{
    int order = memcmp(row, hash->byte, sizeof hash->byte);
    uint32_t other = trp__get32(row + AT_TYPE);
    return order ? order : (other > type) - (other < type);
}

/* Writing. */

/* Entries go to a file of their own until their number, and so the size of the index, is known. The
 * index comes first: a truncated pack still has it. */
struct trp__cache_pack_writer {
    char path[PATH_MAX], temporary[PATH_MAX], entries[PATH_MAX];
    int fd, entries_fd;
    uint64_t size; /* entries so far, a multiple of 64 */
    unsigned char *rows;
    size_t count, room;
};

static int make_file(const char *path)
{
    return trp__descriptor_apart(open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
}

trp_status trp__cache_pack_begin(const char *path, trp__cache_pack_writer **out, trp_error *error)
{
    uint64_t number = 0;
    trp__cache_pack_writer *w = calloc(1, sizeof *w);
    if (!w)
        return trp__error_set(error, TRP_E_MEMORY, "no memory to write a pack");
    (void)!getrandom(&number, sizeof number, GRND_NONBLOCK);
    w->fd = w->entries_fd = -1;
    if ((size_t)snprintf(w->path, sizeof w->path, "%s", path) >= sizeof w->path - 64) {
        free(w);
        return trp__error_set(error, TRP_E_ARGUMENT, "the path of the pack is too long");
    }
    int length = (int)strlen(path);
    snprintf(w->temporary, sizeof w->temporary, "%.*s.%d-%08x.tmp", length, w->path, (int)getpid(),
             (unsigned)number);
    snprintf(w->entries, sizeof w->entries, "%.*s.%d-%08x.entries.tmp", length, w->path,
             (int)getpid(), (unsigned)number);
    w->fd = make_file(w->temporary);
    if (w->fd >= 0)
        w->entries_fd = make_file(w->entries);
    if (w->entries_fd < 0) {
        trp_status status = trp__error_set_errno(error, path);
        trp__cache_pack_abandon(w);
        return status;
    }
    unlink(w->entries); /* exists until the descriptor is closed */
    *out = w;
    return TRP_OK;
}

static unsigned char *new_row(trp__cache_pack_writer *w)
{
    if (w->count == w->room) {
        size_t room = w->room ? 2 * w->room : 64;
        unsigned char *rows = realloc(w->rows, room * ROW);
        if (!rows)
            return NULL;
        w->rows = rows;
        w->room = room;
    }
    return memset(w->rows + w->count * ROW, 0, ROW);
}

static bool has_row(const trp__cache_pack_writer *w, const trp__hash *hash, uint32_t type)
{
    for (size_t i = 0; i < w->count; i++) {
        if (compare(w->rows + i * ROW, hash, type) == 0)
            return true;
    }
    return false;
}

static trp_status add(trp__cache_pack_writer *w, trp__entry *entry, trp_error *error)
{
    unsigned char *front = NULL;
    trp_status status = trp__entry_make(entry, &front, error);
    if (status != TRP_OK)
        return status;
    unsigned char *row = new_row(w);
    if (!row) {
        status = trp__error_set(error, TRP_E_MEMORY, "no memory for the index of a pack");
    } else if (has_row(w, &entry->hash, entry->type)) {
        status = trp__error_set(error, TRP_E_ARGUMENT, "the pack has an entry of this key already");
    } else if (!trp__cache_write_at(w->entries_fd, front, entry->payload_at, w->size) ||
               !trp__cache_write_at(w->entries_fd, entry->payload, entry->bytes,
                                    w->size + entry->payload_at)) {
        status = trp__error_set_errno(error, w->path);
    } else {
        memcpy(row, entry->hash.byte, sizeof entry->hash.byte);
        trp__put32(row + AT_TYPE, entry->type);
        trp__put64(row + AT_OFFSET, w->size); /* relative to the first entry until write_all() */
        trp__put64(row + AT_BYTES, entry->size);
        w->size += (entry->size + ALIGN - 1) / ALIGN * ALIGN;
        w->count++;
    }
    free(front);
    return status;
}

static trp_status add_headers(trp__cache_pack_writer *w, const trp__store_request *request,
                              const trp__store_entry *entry, trp_error *error)
{
    unsigned char *list = NULL;
    size_t size = 0;
    trp_status status =
        trp__headers_make(entry->headers, entry->header_count, NULL, &list, &size, error);
    if (status == TRP_OK)
        status = add(w,
                     &(trp__entry){.type = TRP__ENTRY_HEADERS,
                                   .key = request->key->bytes,
                                   .key_bytes = request->key->length,
                                   .payload = list,
                                   .bytes = size},
                     error);
    free(list);
    return status;
}

trp_status trp__cache_pack_add(trp__cache_pack_writer *writer, const trp__store_request *request,
                               const trp__store_entry *entry, trp_error *error)
{
    trp__key full;
    trp_status status = trp__headers_full_key(request, entry, &full, error);
    if (status == TRP_OK)
        status = add(writer,
                     &(trp__entry){.type = TRP__ENTRY_PAYLOAD,
                                   .key = full.bytes,
                                   .key_bytes = full.length,
                                   .note = entry->note,
                                   .note_bytes = entry->note_bytes,
                                   .payload = entry->payload,
                                   .bytes = entry->bytes},
                     error);
    if (status == TRP_OK && request->resolve) {
        status = add_headers(writer, request, entry, error);
        if (status != TRP_OK)
            writer->count--; /* its bytes stay, unreferenced */
    }
    trp__key_end(&full);
    return status;
}

static int by_hash(const void *left, const void *right)
{
    trp__hash hash;
    memcpy(hash.byte, right, sizeof hash.byte);
    return compare(left, &hash, trp__get32((const unsigned char *)right + AT_TYPE));
}

/* Copies the entries behind head and index. */
static bool copy_entries(trp__cache_pack_writer *w, uint64_t to)
{
    unsigned char piece[65536];
    for (uint64_t at = 0; at < w->size;) {
        size_t bytes = w->size - at < sizeof piece ? (size_t)(w->size - at) : sizeof piece;
        ssize_t some = pread(w->entries_fd, piece, bytes, (off_t)at);
        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            return false;
        if (some == 0) { /* padding behind the last entry */
            memset(piece, 0, bytes);
            some = (ssize_t)bytes;
        }
        if (!trp__cache_write_at(w->fd, piece, (size_t)some, to + at))
            return false;
        at += (uint64_t)some;
    }
    return true;
}

static bool write_all(trp__cache_pack_writer *w)
{
    unsigned char head[HEAD] = {0};
    uint64_t entries = HEAD + w->count * ROW;
    for (size_t i = 0; i < w->count; i++) {
        unsigned char *row = w->rows + i * ROW;
        trp__put64(row + AT_OFFSET, trp__get64(row + AT_OFFSET) + entries);
        trp__put64(row + AT_ROW_SUM, trp__checksum(row, AT_ROW_SUM));
    }
    if (w->count > 0)
        qsort(w->rows, w->count, ROW, by_hash);
    memcpy(head, magic, sizeof magic);
    trp__put32(head + AT_VERSION, PACK_VERSION);
    trp__put64(head + AT_COUNT, w->count);
    trp__put64(head + AT_SIZE, entries + w->size + HEAD);
    trp__put64(head + AT_HEAD_SUM, trp__checksum(head, AT_HEAD_SUM));
    return trp__cache_write_at(w->fd, head, HEAD, 0) &&
           trp__cache_write_at(w->fd, w->rows, w->count * ROW, HEAD) && copy_entries(w, entries) &&
           trp__cache_write_at(w->fd, head, HEAD, entries + w->size) && fchmod(w->fd, 0644) == 0 &&
           fsync(w->fd) == 0;
}

trp_status trp__cache_pack_finish(trp__cache_pack_writer *writer, trp_error *error)
{
    trp_status status = TRP_OK;
    if (!write_all(writer) || rename(writer->temporary, writer->path) != 0) {
        status = trp__error_set_errno(error, writer->path);
    } else {
        close(writer->fd);
        writer->fd = -1;
    }
    trp__cache_pack_abandon(writer);
    return status;
}

void trp__cache_pack_abandon(trp__cache_pack_writer *writer)
{
    if (!writer)
        return;
    if (writer->entries_fd >= 0)
        close(writer->entries_fd);
    if (writer->fd >= 0) {
        close(writer->fd);
        unlink(writer->temporary);
    }
    free(writer->rows);
    free(writer);
}

/* Reading. */

/* Opening a file reads its index; each entry is read when it is asked for. A mapping would raise
 * SIGBUS where another process truncates the file. */
struct trp__cache_pack {
    char path[PATH_MAX];
    int fd;                     /* -1: the pack is in the caller's memory */
    const unsigned char *bytes; /* here */
    uint64_t size;              /* actual size, which truncation may have changed */
    const unsigned char *rows;
    unsigned char *own_rows; /* rows, where they were read from the file */
    uint64_t count;
};

/* Checks a head and takes the number of rows that are present from it. */
static trp_status read_head(trp__cache_pack *p, const unsigned char *head)
{
    if (memcmp(head, magic, sizeof magic) != 0)
        return TRP_E_SYSTEM;
    if (trp__get32(head + AT_VERSION) != PACK_VERSION)
        return TRP_E_VERSION;
    if (trp__get64(head + AT_HEAD_SUM) != trp__checksum(head, AT_HEAD_SUM))
        return TRP_E_SYSTEM;
    uint64_t count = trp__get64(head + AT_COUNT), there = (p->size - HEAD) / ROW;
    p->count = count < there ? count : there;
    return TRP_OK;
}

static bool get(const trp__cache_pack *p, void *to, size_t bytes, uint64_t at)
{
    if (p->fd >= 0)
        return trp__cache_read_at(p->fd, to, bytes, at);
    memcpy(to, p->bytes + at, bytes);
    return true;
}

/* Reads the head at either end, then the index. */
static trp_status read_index(trp__cache_pack *p, trp_error *error)
{
    unsigned char head[HEAD];
    trp_status status = TRP_E_SYSTEM;
    if (p->size >= HEAD && get(p, head, HEAD, 0))
        status = read_head(p, head);
    if (status != TRP_OK && p->size >= 2 * HEAD && get(p, head, HEAD, p->size - HEAD)) {
        trp_status last = read_head(p, head);
        status = last == TRP_OK ? last : status;
    }
    if (status == TRP_E_VERSION)
        return trp__error_set(error, status, "%s: a pack of another version", p->path);
    if (status != TRP_OK)
        return trp__error_set(error, status, "%s: no pack, or damaged at both ends", p->path);
    if (p->fd < 0) {
        p->rows = p->bytes + HEAD;
        return TRP_OK;
    }
    p->rows = p->own_rows = malloc(p->count * ROW + 1);
    if (!p->own_rows)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for the index of a pack");
    if (!trp__cache_read_at(p->fd, p->own_rows, p->count * ROW, HEAD))
        return trp__error_set(error, TRP_E_SYSTEM, "%s: its index can't be read", p->path);
    return TRP_OK;
}

/* Opens a pack; owns the descriptor from here on. */
static trp_status open_pack(int fd, const void *bytes, uint64_t size, const char *path,
                            trp__cache_pack **out, trp_error *error)
{
    trp__cache_pack *p = calloc(1, sizeof *p);
    if (!p) {
        if (fd >= 0)
            close(fd);
        return trp__error_set(error, TRP_E_MEMORY, "no memory to open a pack");
    }
    p->fd = fd;
    p->bytes = bytes;
    p->size = size;
    snprintf(p->path, sizeof p->path, "%s", path);
    trp_status status = read_index(p, error);
    if (status == TRP_OK)
        *out = p;
    else
        trp__cache_pack_close(p);
    return status;
}

trp_status trp__cache_pack_open_memory(const void *bytes, size_t size, const char *path,
                                       trp__cache_pack **out, trp_error *error)
{
    return open_pack(-1, bytes, size, path, out, error);
}

trp_status trp__cache_pack_open(const char *path, trp__cache_pack **out, trp_error *error)
{
    struct stat s;
    int fd;
    trp_status status = trp__cache_open_path(path, &fd, error);
    if (status != TRP_OK)
        return status;
    if (fstat(fd, &s) != 0) {
        status = trp__error_set_errno(error, path);
        close(fd);
        return status;
    }
    return open_pack(fd, NULL, s.st_size > 0 ? (uint64_t)s.st_size : 0, path, out, error);
}

void trp__cache_pack_close(trp__cache_pack *pack)
{
    if (!pack)
        return;
    if (pack->fd >= 0)
        close(pack->fd);
    free(pack->own_rows);
    free(pack);
}

const char *trp__cache_pack_path(const trp__cache_pack *pack)
{
    return pack->path;
}

uint64_t trp__cache_pack_count(const trp__cache_pack *pack)
{
    return pack->count;
}

static bool row_is_good(const unsigned char *row)
{
    return trp__get64(row + AT_ROW_SUM) == trp__checksum(row, AT_ROW_SUM);
}

/* Returns the bytes of the entry that a row refers to, in *memory if they had to be read; NULL if
 * the file lacks some of them. */
static const unsigned char *entry_bytes(const trp__cache_pack *p, const unsigned char *row,
                                        unsigned char **memory, uint64_t *bytes)
{
    uint64_t offset = trp__get64(row + AT_OFFSET);
    *bytes = trp__get64(row + AT_BYTES);
    if (offset % ALIGN != 0 || offset > p->size || *bytes > p->size - offset)
        return NULL;
    if (p->fd < 0)
        return p->bytes + offset;
    *memory = aligned_alloc(ALIGN, (*bytes + ALIGN) / ALIGN * ALIGN);
    if (*memory && trp__cache_read_at(p->fd, *memory, *bytes, offset))
        return *memory;
    free(*memory);
    return *memory = NULL;
}

const char *trp__cache_pack_entry(const trp__cache_pack *pack, uint64_t i, unsigned char **memory,
                                  trp__entry *entry)
{
    const unsigned char *row = pack->rows + i * ROW;
    uint64_t bytes;
    *entry = (trp__entry){0};
    *memory = NULL;
    if (!row_is_good(row))
        return "its row in the index is damaged";
    const unsigned char *from = entry_bytes(pack, row, memory, &bytes);
    if (!from)
        return "the file is cut off";
    const char *wrong = trp__entry_read(from, bytes, entry);
    if (!wrong && compare(row, &entry->hash, entry->type) != 0)
        wrong = "its row in the index is another's";
    return wrong;
}

/* Finds the row of a key by bisection. A damaged row can't be compared, so the next intact one is
 * used. */
static const unsigned char *find_row(const trp__cache_pack *p, const trp__hash *hash, uint32_t type)
{
    uint64_t from = 0, to = p->count;
    while (from < to) {
        uint64_t middle = from + (to - from) / 2, at = middle;
        while (at < to && !row_is_good(p->rows + at * ROW))
            at++;
        if (at == to) {
            to = middle;
            continue;
        }
        const unsigned char *row = p->rows + at * ROW;
        int order = compare(row, hash, type);
        if (order == 0)
            return row;
        if (order < 0)
            from = at + 1;
        else
            to = middle;
    }
    return NULL;
}

bool trp__cache_pack_find(const trp__cache_pack *pack, const trp__hash *hash, uint32_t type,
                          const void *key, size_t key_bytes, unsigned char **memory,
                          trp__entry *entry)
{
    uint64_t bytes;
    const unsigned char *row = find_row(pack, hash, type);
    *memory = NULL;
    const unsigned char *from = row ? entry_bytes(pack, row, memory, &bytes) : NULL;
    if (from && !trp__entry_read(from, bytes, entry) && entry->type == type &&
        entry->key_bytes == key_bytes && memcmp(entry->key, key, key_bytes) == 0)
        return true;
    free(*memory);
    *memory = NULL;
    return false;
}
