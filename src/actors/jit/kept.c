#include "actors/jit/kept.h"

#include "base/bytes.h"
#include "base/error.h"
#include "cache/store.h"

#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One for the process: actors come and go. */
static trp__store *store;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_store(void)
{
    trp_error ignored;
    if (trp__store_open(NULL, &store, &ignored) != TRP_OK)
        store = NULL;
}

/* The note of an entry: three numbers (names, bytes of names, bytes of the log), then these. */

enum { NOTE_HEAD = 20 };

static char *make_note(const trp__jit_made *made, size_t *bytes)
{
    *bytes = NOTE_HEAD + made->names_bytes + made->log_bytes;
    unsigned char *note = malloc(*bytes);
    if (!note)
        return NULL;
    trp__put32(note, made->name_count);
    trp__put64(note + 4, made->names_bytes);
    trp__put64(note + 12, made->log_bytes);
    if (made->names_bytes > 0)
        memcpy(note + NOTE_HEAD, made->names, made->names_bytes);
    if (made->log_bytes > 0)
        memcpy(note + NOTE_HEAD + made->names_bytes, made->log, made->log_bytes);
    return (char *)note;
}

static char *copied(const void *from, size_t bytes)
{
    char *copy = malloc(bytes + 1);
    if (copy && bytes > 0)
        memcpy(copy, from, bytes);
    if (copy)
        copy[bytes] = '\0';
    return copy;
}

/* False: it is no note of ours, or there is no memory. */
static bool take(const trp__store_hit *hit, trp__jit_made *made)
{
    const unsigned char *note = hit->note;
    if (hit->bytes == 0 || hit->note_bytes < NOTE_HEAD)
        return false;
    uint64_t names = trp__get64(note + 4), log = trp__get64(note + 12);
    if (names > hit->note_bytes - NOTE_HEAD || log != hit->note_bytes - NOTE_HEAD - names)
        return false;
    made->image = copied(hit->payload, hit->bytes);
    made->names = copied(note + NOTE_HEAD, (size_t)names);
    made->log = copied(note + NOTE_HEAD + names, (size_t)log);
    if (!made->image || !made->names || !made->log) {
        trp__jit_made_free(made);
        return false;
    }
    made->image_bytes = hit->bytes;
    made->names_bytes = (size_t)names;
    made->log_bytes = (size_t)log;
    made->name_count = trp__get32(note);
    return true;
}

static void put(const trp__store_request *request, const trp__jit_made *made)
{
    trp_error ignored; /* the store has told of what others need to know */
    trp__store_entry entry = {.payload = made->image, .bytes = made->image_bytes};
    entry.note = make_note(made, &entry.note_bytes);
    if (entry.note)
        (void)trp__store_put(store, request, &entry, &ignored);
    free((void *)(uintptr_t)entry.note);
}

trp_status trp__jit_keep(const trp__key *key, const trp__jit_stop *stop,
                         trp__jit_maker_function make, void *context, trp__jit_made *made,
                         trp_error *error)
{
    const trp__store_request request = {.key = key};
    const trp__store_wait wait = {
        .deadline_ns = INT64_MAX, .is_cancelled = stop->wanted, .context = stop->argument};
    trp__store_hit hit = {0};
    trp__store_claim *claim = NULL;
    bool keep = false;
    pthread_once(&once, open_store);
    trp_status status = store
                            ? trp__store_claim_or_find(store, &request, &wait, &hit, &claim, error)
                            : TRP_E_MISSING;
    if (status == TRP_E_CANCELLED)
        return status;
    bool taken = status == TRP_OK && take(&hit, made);
    trp__store_hit_end(&hit);
    if (taken)
        return TRP_OK;
    status = make(context, made, &keep, error);
    if (store && status == TRP_OK && keep)
        put(&request, made);
    trp__store_claim_end(claim);
    return status;
}

/* Build IDs. */

typedef struct search {
    const char *path;
    char *out;
    size_t size;
} search;

static int look_at_library(struct dl_phdr_info *info, size_t size, void *context)
{
    const search *s = context;
    (void)size;
    if (!info->dlpi_name || strcmp(info->dlpi_name, s->path) != 0)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_NOTE)
            continue;
        const char *at = (const char *)(uintptr_t)(info->dlpi_addr + part->p_vaddr);
        const char *end = at + part->p_memsz;
        while ((size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
            ElfW(Nhdr) note;
            memcpy(&note, at, sizeof note);
            const char *name = at + sizeof note, *id = name + (note.n_namesz + 3) / 4 * 4;
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
                memcmp(name, "GNU", 4) == 0) {
                for (uint32_t k = 0; k < note.n_descsz && 2 * k + 2 < s->size; k++)
                    snprintf(s->out + 2 * k, 3, "%02x", (unsigned char)id[k]);
                return 1;
            }
            at = id + (note.n_descsz + 3) / 4 * 4;
        }
    }
    return 1;
}

void trp__jit_build_of(const char *path, char *out, size_t size)
{
    out[0] = '\0';
    dl_iterate_phdr(look_at_library, &(search){path, out, size});
}
