/* Causes of failed requests.
 *
 * A request that can't run because another one has failed names the *root*: the first request of
 * the chain, and why it failed. The root's failure may never have been delivered; it may have
 * failed long ago, and many others since.
 *
 * Each failed request with outputs has a *link* to its root: its own, or that of its cause. Links
 * are found by the ticket of the failed request, in a table of the last ones; and each buffer keeps
 * the link of the last request that failed to write it, so it stays as long as the poison does. A
 * link says of the root its number, operation, status and fault. The message, the actor and the
 * label are in a record of the root: there are ROOTS of them, and those that links of poisoned
 * buffers lead to stay while others are replaced. So none is lost unless more than ROOTS roots
 * poison buffers at a time.
 *
 * All of it is of fixed size, in pages that are not touched before something fails, and under one
 * lock that only failures take. */
#include "client/memory/failures.h"

#include "base/error.h"
#include "base/text.h"
#include "base/os/zeroed.h"
#include "client/memory/memory.h"
#include "wire/rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINKS = TRP__SLOTS,
    ROOTS = 1024,
    YOUNG = ROOTS / 2,      /* the number of the last roots that are kept too */
    LEAST_FREE = ROOTS / 4, /* after a clearing, which looks at all poisoned buffers */
};

typedef struct origin {
    uint64_t request; /* the root's number; 0: unknown */
    uint32_t op;
    uint16_t root; /* its record, if that is of this request */
    uint8_t status, fault;
} origin;

typedef struct link {
    uint64_t ticket; /* of the failed request; 0: none */
    origin origin;
} link;

typedef struct root {
    uint64_t request; /* 0: free */
    bool needed;
    char kind[32], actor[32];
    char label[TRP_LABEL_MAX + 1];
    char message[256];
} root;

typedef struct trp__failures {
    trp__lock lock;
    uint32_t buffers; /* links of buffers from here on were never used */
    uint32_t used;    /* records */
    uint32_t next;    /* where to look for a free one */
    link recent[LINKS];
    root root[ROOTS];
    link buffer[TRP__BUFFERS];
} trp__failures;

bool trp__failures_create(trp_device *device)
{
    device->memory.failures = trp__zeroed(sizeof *device->memory.failures);
    if (device->memory.failures)
        trp__lock_init(&device->memory.failures->lock, TRP__RANK_FAILURES);
    return device->memory.failures != NULL;
}

void trp__failures_destroy(trp_device *device)
{
    if (device->memory.failures)
        trp__lock_destroy(&device->memory.failures->lock);
    trp__zeroed_free(device->memory.failures, sizeof *device->memory.failures);
    device->memory.failures = NULL;
}

/* Texts. */

/* Writes a request for messages: "4 (gemm)", `7 (gemm of "second", "layer 3")`. */
static void request_text(char *out, size_t size, uint64_t request, const char *operation,
                         const char *kind, const char *actor, const char *label)
{
    bool named = actor[0] && strcmp(actor, kind) != 0;
    snprintf(out, size, "%llu (%s%s%s%s%s%s%s)", (unsigned long long)request, operation,
             named ? " of \"" : "", named ? actor : "", named ? "\"" : "", label[0] ? ", \"" : "",
             label, label[0] ? "\"" : "");
}

static const root *record_of(const trp__failures *f, const origin *o)
{
    const root *r = &f->root[o->root % ROOTS];
    return r->request == o->request ? r : NULL;
}

/* Adds "request 2 (probe) failed: the worker was killed by SIGSEGV". */
static void put_origin(const trp__failures *f, const origin *o, char *out, size_t size)
{
    char operation[24], request[160];
    const root *r = record_of(f, o);
    trp__op_find_name(o->op, operation, sizeof operation);
    request_text(request, sizeof request, o->request, operation, r ? r->kind : "",
                 r ? r->actor : "", r ? r->label : "");
    trp__text_add(&(trp__text){.out = out, .size = size}, "request %s failed: %s", request,
                  r ? r->message : trp_status_text(o->status));
}

static void set_cause(trp_error *error, uint64_t cause, const origin *o)
{
    error->cause_request = o ? o->request : cause;
    error->cause_status = o ? o->status : TRP_OK;
    error->cause_fault = o ? (trp_fault)o->fault : TRP_FAULT_NONE;
}

/* Records; the lock is held. */

/* Returns whether readers of a buffer may still be refused because of the link's request. */
static bool is_standing(trp_device *device, uint32_t buffer, const link *l)
{
    return l->ticket != 0 && !trp__buffer_gone(&device->memory.meta[buffer]) &&
           trp__poison_stands(device, buffer, l->ticket);
}

static void mark_needed(trp_device *device)
{
    trp__failures *f = device->memory.failures;
    for (uint32_t i = 0; i < ROOTS; i++)
        f->root[i].needed = false;
    for (uint32_t i = 0; i < f->buffers; i++) {
        const link *l = &f->buffer[i];
        root *r = &f->root[l->origin.root % ROOTS];
        if (is_standing(device, i, l) && r->request == l->origin.request)
            r->needed = true;
    }
}

/* Frees records: first all unneeded ones but the youngest; then, until enough are free, the other
 * unneeded ones, oldest first; then needed ones. */
static void clear_roots(trp_device *device)
{
    trp__failures *f = device->memory.failures;
    uint64_t by_age[ROOTS]; /* numbers with places, as cells */
    mark_needed(device);
    for (uint32_t i = 0; i < ROOTS; i++)
        by_age[i] = f->root[i].request << TRP__SLOT_BITS | i;
    qsort(by_age, ROOTS, sizeof *by_age, trp__by_ticket);
    for (int pass = 0; pass < 3; pass++) {
        for (uint32_t i = 0; i < ROOTS; i++) {
            root *r = &f->root[by_age[i] & (ROOTS - 1)];
            bool enough = ROOTS - f->used >= LEAST_FREE;
            if (r->request == 0 || (pass == 0 && (r->needed || i >= ROOTS - YOUNG)) ||
                (pass == 1 && (r->needed || enough)) || (pass == 2 && enough))
                continue;
            r->request = 0;
            f->used--;
        }
    }
}

static uint16_t add_root(trp_device *device, const trp__slot *slot, const trp_error *error)
{
    trp__failures *f = device->memory.failures;
    const trp__client_actor *actor = device->actor[atomic_load(&slot->actor) % TRP__ACTORS];
    if (f->used == ROOTS)
        clear_roots(device);
    while (f->root[f->next % ROOTS].request != 0)
        f->next++;
    uint16_t place = (uint16_t)(f->next++ % ROOTS);
    root *r = &f->root[place];
    f->used++;
    r->request = error->request;
    trp__copy_string(r->kind, sizeof r->kind, actor ? actor->class->kind : "");
    trp__copy_string(r->actor, sizeof r->actor, error->actor);
    trp__copy_string(r->label, sizeof r->label, error->label);
    trp__copy_string(r->message, sizeof r->message, error->message);
    return place;
}

/* Links; the lock is held. */

static const link *find_recent(const trp__failures *f, uint64_t ticket)
{
    const link *l = &f->recent[ticket % LINKS];
    return ticket != 0 && l->ticket == ticket ? l : NULL;
}

/* Returns the link of the failed request that keeps one with these accesses from running. */
static const link *find_cause(const trp__failures *f, uint64_t cause, const trp__record *record)
{
    const link *l = find_recent(f, cause);
    for (uint32_t i = 0; !l && cause != 0 && i < record->access_count; i++) {
        if (f->buffer[record->access[i].slot].ticket == cause)
            l = &f->buffer[record->access[i].slot];
    }
    return l;
}

static bool has_outputs(const trp__record *record)
{
    uint32_t modes = 0;
    for (uint32_t i = 0; i < record->access_count; i++)
        modes |= record->access[i].mode;
    return modes & TRP__WRITE;
}

static origin new_origin(trp_device *device, const trp__slot *slot, const trp_error *error)
{
    return (origin){.request = error->request,
                    .op = device->control->record[slot->index].op,
                    .root = add_root(device, slot, error),
                    .status = (uint8_t)error->status,
                    .fault = (uint8_t)error->fault};
}

/* Completes the error of a request that could not run with its root. */
static void name_root(const trp_device *device, const trp__slot *slot, const link *l,
                      trp_error *error)
{
    const trp__client_actor *actor = device->actor[atomic_load(&slot->actor) % TRP__ACTORS];
    char request[160], text[sizeof error->message];
    uint64_t cause = error->cause_request;
    request_text(request, sizeof request, error->request, error->operation,
                 actor ? actor->class->kind : "", error->actor, error->label);
    if (l)
        put_origin(device->memory.failures, &l->origin, text, sizeof text);
    else
        snprintf(text, sizeof text, "request %llu failed", (unsigned long long)cause);
    set_cause(error, cause, l ? &l->origin : NULL);
    trp__text_add(&(trp__text){.out = error->message, .size = sizeof error->message},
                  "request %s did not run: %s%s", request,
                  error->status == TRP_E_LOST ? "an input is half-written, for " : "", text);
}

void trp__failures_note(trp_device *device, const trp__slot *slot, trp_error *error)
{
    trp__failures *f = device->memory.failures;
    const trp__record *record = &device->control->record[slot->index];
    bool dependent = trp__is_refusal(error->status) && error->cause_request != 0;
    bool writes = has_outputs(record);
    if (!dependent && !writes)
        return;
    trp__lock_take(&f->lock);
    const link *cause = dependent ? find_cause(f, error->cause_request, record) : NULL;
    link own = {.ticket = error->request};
    if (cause)
        own.origin = cause->origin;
    if (dependent)
        name_root(device, slot, cause, error);
    if (!cause && writes)
        own.origin = new_origin(device, slot, error);
    if (writes)
        f->recent[own.ticket % LINKS] = own;
    trp__lock_drop(&f->lock);
}

void trp__failures_poison(trp_device *device, const trp__slot *slot)
{
    trp__failures *f = device->memory.failures;
    const trp__record *record = &device->control->record[slot->index];
    uint64_t ticket = atomic_load_explicit(&slot->ticket, memory_order_relaxed);
    if (!has_outputs(record))
        return;
    trp__lock_take(&f->lock);
    const link *l = find_recent(f, ticket);
    /* A request that was retired early may be passed after very many others. */
    link own = l ? *l : (link){.ticket = ticket};
    if (!l)
        own.origin = new_origin(device, slot, &device->slot_error[slot->index]);
    for (uint32_t i = 0; i < record->access_count; i++) {
        uint32_t buffer = record->access[i].slot;
        if (!(record->access[i].mode & TRP__WRITE) || f->buffer[buffer].ticket > ticket)
            continue;
        f->buffer[buffer] = own;
        if (f->buffers <= buffer)
            f->buffers = buffer + 1;
    }
    trp__lock_drop(&f->lock);
}

void trp__failures_explain(trp_device *device, uint64_t cause, uint32_t buffer, trp_error *error,
                           char *text, size_t size)
{
    trp__failures *f = device->memory.failures;
    trp__lock_take(&f->lock);
    const link *l = find_recent(f, cause);
    if (!l && f->buffer[buffer].ticket == cause)
        l = &f->buffer[buffer];
    if (l)
        put_origin(f, &l->origin, text, size);
    else
        snprintf(text, size, "request %llu failed", (unsigned long long)cause);
    set_cause(error, cause, l ? &l->origin : NULL);
    trp__lock_drop(&f->lock);
}

bool trp__failures_known(trp_device *device, uint64_t ticket)
{
    trp__lock_take(&device->memory.failures->lock);
    bool known = find_recent(device->memory.failures, ticket) != NULL;
    trp__lock_drop(&device->memory.failures->lock);
    return known;
}
