#include "compile/cached.h"

#include "base/bytes.h"
#include "base/os/clock.h"
#include "base/error.h"
#include "cache/inspect.h"
#include "cache/store.h"
#include "libs/nvrtc/nvrtc.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The note of an entry: three numbers (count of names, bytes of names, bytes of the log), then
 * names and log. */

enum { NOTE_HEAD = 20 };

/* Longer than any compile: a process that holds the claim for longer is probably stopped, so this
 * one compiles as well. */
#define PATIENCE_NS (300 * TRP__SECOND)

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

/* Moves a hit into `made`, which owns it from here on. False: the note is damaged. */
static bool take(trp__store_hit *hit, trp__jit_made *made)
{
    unsigned char *note = (unsigned char *)(uintptr_t)hit->note;
    if (hit->bytes == 0 || hit->note_bytes < NOTE_HEAD)
        return false;
    uint64_t names = trp__get64(note + 4), log = trp__get64(note + 12);
    if (names > hit->note_bytes - NOTE_HEAD || log != hit->note_bytes - NOTE_HEAD - names)
        return false;
    made->image = (char *)(uintptr_t)hit->payload;
    made->names = (char *)note + NOTE_HEAD;
    made->log = made->names + names;
    made->image_bytes = hit->bytes;
    made->names_bytes = (size_t)names;
    made->log_bytes = (size_t)log;
    made->name_count = trp__get32(note);
    made->hit = *hit;
    *hit = (trp__store_hit){0};
    return true;
}

static void put(trp__store *store, const trp__store_request *request, const trp__jit_made *made)
{
    trp_error ignored; /* the store has logged what matters */
    trp__store_entry entry = {.payload = made->image, .bytes = made->image_bytes};
    entry.note = make_note(made, &entry.note_bytes);
    if (entry.note)
        (void)trp__store_put(store, request, &entry, &ignored);
    free((void *)(uintptr_t)entry.note);
}

trp_status trp__jit_find_or_make(const trp__key *key, const trp__jit_stop *stop,
                                 trp__jit_make_function make, void *context, trp__jit_made *made,
                                 trp_error *error)
{
    const trp__store_request request = {.key = key};
    const trp__store_wait wait = {.deadline_ns = trp__deadline(PATIENCE_NS),
                                  .is_cancelled = stop->wanted,
                                  .context = stop->argument};
    trp__store_hit hit = {0};
    trp__store_claim *claim = NULL;
    bool keep = false;
    trp__store *store = trp__store_of_process();
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
        put(store, &request, made);
    trp__store_claim_end(claim);
    return status;
}

bool trp__jit_find_cached(const trp__key *key, trp__jit_made *made)
{
    const trp__store_request request = {.key = key};
    trp__store_hit hit = {0};
    trp__store *store = trp__store_of_process();
    bool found = store && trp__store_find(store, &request, &hit) == TRP_OK && take(&hit, made);
    trp__store_hit_end(&hit);
    return found;
}

/* The compilers that made the entries of packs; usually one per pack. */

enum { COMPILERS = 16 };
static char compilers[COMPILERS][TRP__NVRTC_IDENTITY];
static pthread_once_t compilers_once = PTHREAD_ONCE_INIT;

/* Packs are listed first, so the first other entry ends the search. */
static bool see_compiler(void *context, const trp__inspected *one)
{
    char kind[8], compiler[TRP__NVRTC_IDENTITY];
    size_t i = 0;
    (void)context;
    if (!one->pack)
        return false;
    if (one->wrong || one->type != TRP__ENTRY_PAYLOAD)
        return true;
    trp__inspect_field(&one->entry, TRP__KEY_KIND, kind, sizeof kind);
    trp__inspect_field(&one->entry, TRP__KEY_COMPILER, compiler, sizeof compiler);
    if (strcmp(kind, "jit") != 0 || !*compiler)
        return true;
    while (i < COMPILERS && *compilers[i] && strcmp(compilers[i], compiler) != 0)
        i++;
    if (i < COMPILERS)
        memcpy(compilers[i], compiler, sizeof compiler);
    return true;
}

static void list_compilers(void)
{
    trp_error ignored;
    trp__store *store = trp__store_of_process();
    if (store)
        (void)trp__inspect_all(store, false, see_compiler, NULL, &ignored);
}

const char *trp__jit_packed_compiler(size_t i)
{
    pthread_once(&compilers_once, list_compilers);
    return i < COMPILERS && *compilers[i] ? compilers[i] : NULL;
}
