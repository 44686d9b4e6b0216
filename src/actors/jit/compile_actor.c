/* The companion of the jit actor in the worker. It compiles and links one module at a time in a
 * side thread. It needs no device, so it is the same on all backends.
 *
 * A cancelled request releases its memory at once, and perhaps the module's storage. So the storage
 * is only accessed while the request can't be cancelled: in handle(), and while `progress` is not
 * 0. The input is copied from the storage first, and the result is copied to it at the end. In
 * between, which takes long, the request can be cancelled at any time, and the compiler gets a
 * request to stop. */
#include "actors/jit/jit.h"
#include "actors/jit/jit_wire.h"
#include "base/checksum.h"
#include "base/error.h"
#include "compile/blobs.h"
#include "compile/make.h"
#include "worker/actor.h"
#include "worker/side.h"
#include "worker/worker.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Up to this number of bytes is copied by the scheduler itself, which takes less time than starting
 * the side thread. */
enum { COPY_AT_ONCE = 16 << 10 };

typedef enum phase {
    IDLE = 0,
    COPYING_IN,
    MAKING,
    COPYING_OUT,
} phase;

typedef struct state {
    trp__side *side;
    phase phase;
    uint64_t ticket; /* of the request in work */
    bool linking;
    trp__storage storage;
    const char *input; /* in the storage */
    char *output;
    /* Data of the side thread. */
    char *copy;
    const char *source[TRP_JIT_LINK_MODULES_MAX]; /* outputs of the modules to link */
    uint64_t source_room[TRP_JIT_LINK_MODULES_MAX];
    trp__jit_image image[TRP_JIT_LINK_MODULES_MAX];
    char *image_copy[TRP_JIT_LINK_MODULES_MAX];
    uint32_t images;
    trp__jit_made made;
    trp_status status;
    trp_error error;
    const trp__record *record; /* its `cancelled` is polled */
    atomic_bool ending;        /* the work must stop */
} state;

static void clear(state *s)
{
    free(s->copy);
    for (uint32_t i = 0; i < s->images; i++)
        free(s->image_copy[i]);
    trp__jit_made_free(&s->made);
    s->copy = NULL;
    s->images = 0;
    s->phase = IDLE;
    atomic_store(&s->ending, false);
}

/* In the side thread. */

static bool stop_wanted(void *argument)
{
    state *s = argument;
    return atomic_load(&s->ending) || atomic_load(&s->record->cancelled) >= s->ticket;
}

/* Copies the output of a module, and checks that it is complete. */
static trp_status copy_image(state *s, uint32_t i)
{
    trp__storage_output head;
    memcpy(&head, s->source[i], sizeof head);
    uint64_t size = trp__storage_output_size(&head, s->source_room[i]);
    if (head.magic != TRP__STORAGE_OUTPUT || size == UINT64_MAX)
        return trp__error_set(&s->error, TRP_E_LIBRARY, "module %u to link has no image", i);
    uint64_t body = size - sizeof head;
    s->image_copy[i] = malloc(body + 1);
    if (!s->image_copy[i])
        return trp__error_set(&s->error, TRP_E_MEMORY, "no memory for an image to link");
    memcpy(s->image_copy[i], s->source[i] + sizeof head, body);
    if (trp__checksum(s->image_copy[i], body) != head.checksum)
        return trp__error_set(&s->error, TRP_E_INTERNAL, "the image of module %u is damaged", i);
    s->image[i] = (trp__jit_image){.data = s->image_copy[i] + head.log_bytes + head.names_bytes +
                                           head.headers_bytes,
                                   .bytes = head.image_bytes,
                                   .names = s->image_copy[i] + head.log_bytes,
                                   .names_bytes = head.names_bytes};
    return TRP_OK;
}

static void copy_in(void *argument)
{
    state *s = argument;
    s->status = TRP_OK;
    s->copy = malloc(s->storage.input_bytes + 1);
    if (s->copy)
        memcpy(s->copy, s->input, s->storage.input_bytes);
    else
        s->status = trp__error_set(&s->error, TRP_E_MEMORY, "no memory for a source");
    for (uint32_t i = 0; i < s->images && s->status == TRP_OK; i++)
        s->status = copy_image(s, i);
}

static void make(void *argument)
{
    state *s = argument;
    const trp__jit_stop stop = {.wanted = stop_wanted, .argument = s};
    s->status = s->linking
                    ? trp__jit_link(s->copy, s->storage.input_bytes, s->image, s->images, &s->made,
                                    &s->error)
                    : trp__jit_compile(s->copy, s->storage.input_bytes, &stop, &s->made, &s->error);
}

static char *put(char *at, const char *data, size_t bytes)
{
    if (bytes > 0)
        memcpy(at, data, bytes);
    return at + bytes;
}

static size_t made_bytes(const trp__jit_made *m)
{
    return m->log_bytes + m->names_bytes + m->headers_bytes + m->image_bytes + m->stamps_bytes;
}

/* Writes the result, or after a failure the log, to the storage. */
static void copy_out(void *argument)
{
    state *s = argument;
    trp__jit_made *m = &s->made;
    size_t rest = s->status == TRP_OK ? made_bytes(m) - m->log_bytes : 0;
    size_t room = s->storage.output_bytes;
    trp__storage_output head = {.names = m->name_count, .headers = m->header_count};
    if (room < sizeof head)
        return;
    room -= sizeof head;
    if (s->status == TRP_OK && m->log_bytes + rest > room) {
        s->status =
            trp__error_set(&s->error, TRP_E_ARGUMENT,
                           "output_bytes_max: expected at least %zu for the result, got %zu",
                           sizeof head + m->log_bytes + rest, room + sizeof head);
        rest = 0;
    }
    head.log_bytes = m->log_bytes < room - rest ? m->log_bytes : room - rest;
    if (rest > 0) {
        head.names_bytes = m->names_bytes;
        head.headers_bytes = m->headers_bytes;
        head.image_bytes = m->image_bytes;
        head.stamps_bytes = m->stamps_bytes;
        head.keepable = m->keepable;
    }
    memcpy(s->output, &head, sizeof head); /* `magic` is still 0: incomplete */
    char *first = s->output + sizeof head;
    char *at = put(first, m->log, head.log_bytes);
    at = put(at, m->names, head.names_bytes);
    at = put(at, m->headers, head.headers_bytes);
    at = put(at, m->image, head.image_bytes);
    at = put(at, m->stamps, head.stamps_bytes);
    head.checksum = trp__checksum(first, (size_t)(at - first));
    head.magic = TRP__STORAGE_OUTPUT;
    memcpy(s->output, &head, sizeof head);
}

/* Does once in a process what the first compile would have to do. */
static void prepare(void *ignored)
{
    (void)ignored;
    trp__jit_prepare();
}

/* In the scheduler. */

static trp_status address(trp_instance *instance, const trp__storage *storage, uint64_t offset,
                          uint64_t bytes, const char **out, trp_error *error)
{
    void *at = NULL;
    trp_status status = trp__worker_host_address(((trp__instance *)instance)->worker,
                                                 storage->segment, offset, bytes, &at, error);
    *out = at;
    return status;
}

/* Finds the storage of the modules that a link reads. */
static trp_status find_images(trp_instance *instance, state *s, trp_error *error)
{
    trp__jit_link_head head = {0};
    trp__jit_blobs b = trp__jit_blobs_begin(s->input, s->storage.input_bytes);
    const void *first = trp__jit_blobs_head(&b, sizeof head);
    uint64_t bytes;
    if (first)
        memcpy(&head, first, sizeof head);
    for (uint64_t i = 0; !b.bad && i < (uint64_t)1 + head.options + head.names; i++)
        trp__jit_blob(&b, &bytes);
    for (uint32_t i = 0; !b.bad && i < head.inputs; i++) {
        trp__jit_link_input entry = {0};
        const char *at = trp__jit_blob(&b, &bytes);
        if (at && bytes == sizeof entry)
            memcpy(&entry, at, sizeof entry);
        trp__jit_blob(&b, &bytes);
        trp__jit_blob(&b, &bytes);
        for (uint32_t k = 0; k < entry.names && !b.bad; k++)
            trp__jit_blob(&b, &bytes);
        if (!entry.module || b.bad)
            continue;
        if (s->images == TRP_JIT_LINK_MODULES_MAX ||
            entry.storage.output_bytes < sizeof(trp__storage_output))
            return trp__error_set(error, TRP_E_INTERNAL, "the input of a link is damaged");
        trp_status status =
            address(instance, &entry.storage, trp__storage_output_at(&entry.storage),
                    entry.storage.output_bytes, &s->source[s->images], error);
        if (status != TRP_OK)
            return status;
        s->source_room[s->images] = entry.storage.output_bytes;
        s->image_copy[s->images++] = NULL;
    }
    return b.bad ? trp__error_set(error, TRP_E_INTERNAL, "the input of a link is damaged") : TRP_OK;
}

static trp_status go_on(trp_job *job, state *s, phase next, void (*work)(void *))
{
    s->phase = next;
    job->progress = next == MAKING ? 0 : 1;
    trp__side_run(s->side, work, s);
    return TRP_AGAIN;
}

/* A program that waits for a module usually launches it next, so the threads that load it are woken
 * early. */
static void announce(trp_instance *instance)
{
    trp__worker *w = ((trp__instance *)instance)->worker;
    for (uint32_t i = 0; i < TRP__ACTORS; i++) {
        trp__worker_actor *a = &w->actor[i];
        if (atomic_load_explicit(&a->state, memory_order_acquire) == TRP__READY &&
            a->instance.impl == &trp__jit_cuda)
            trp__jit_cuda_expect(&a->instance.api);
    }
}

static trp_status copied_in(trp_instance *instance, trp_job *job, state *s)
{
    if (s->status != TRP_OK)
        return go_on(job, s, COPYING_OUT, copy_out);
    go_on(job, s, MAKING, make);
    announce(instance); /* the result may come from the cache, and so soon */
    return TRP_AGAIN;
}

static trp_status begin(trp_instance *instance, trp_job *job, trp_error *error)
{
    state *s = instance->state;
    const trp__record *record = ((trp__job *)job)->record;
    const char *output = NULL;
    trp__jit_make payload;
    memcpy(&payload, job->payload, sizeof payload);
    if (payload.is_made)
        return TRP_OK;
    if (s->side && trp__side_busy(s->side)) /* with prepare(), or with a cancelled request */
        return TRP_AGAIN;
    s->storage = payload.storage;
    s->linking = job->op == TRP_OP_JIT_LINK;
    trp_status status = s->side ? TRP_OK : trp__side_start(&s->side, NULL, NULL, error);
    if (status == TRP_OK)
        status = address(instance, &s->storage, trp__storage_input_at(&s->storage),
                         s->storage.input_bytes, &s->input, error);
    if (status == TRP_OK)
        status = address(instance, &s->storage, trp__storage_output_at(&s->storage),
                         s->storage.output_bytes, &output, error);
    if (status == TRP_OK && s->linking)
        status = find_images(instance, s, error);
    if (status != TRP_OK) {
        s->images = 0; /* nothing was copied */
        return status;
    }
    s->output = (char *)(uintptr_t)output;
    s->record = record;
    s->ticket = record->ticket;
    if (s->storage.input_bytes > COPY_AT_ONCE || s->images > 0)
        return go_on(job, s, COPYING_IN, copy_in);
    copy_in(s);
    return copied_in(instance, job, s);
}

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    state *s = instance->state;
    uint64_t ticket = ((trp__job *)job)->record->ticket;
    bool ours = ticket == s->ticket;
    if (job->op != TRP_OP_JIT_COMPILE && job->op != TRP_OP_JIT_LINK)
        return trp__error_set(error, TRP_E_UNSUPPORTED, "operation %#x", job->op);
    if (s->phase != IDLE && trp__side_busy(s->side)) {
        if (!ours)
            atomic_store(&s->ending, true);
        return TRP_AGAIN;
    }
    if (s->phase != IDLE && !ours)
        clear(s); /* of a cancelled request */
    switch (s->phase) {
    case IDLE:
        /* The scheduler repeats a request that lacked memory. Compiling again would take as long
         * and fail again. */
        if (ours && s->status != TRP_OK) {
            *error = s->error;
            return s->status;
        }
        return begin(instance, job, error);
    case COPYING_IN:
        return copied_in(instance, job, s);
    case MAKING:
        if (made_bytes(&s->made) > COPY_AT_ONCE)
            return go_on(job, s, COPYING_OUT, copy_out);
        copy_out(s);
        break;
    default:
        break;
    }
    job->progress = 0;
    clear(s);
    if (s->status == TRP_OK)
        announce(instance);
    else
        *error = s->error;
    return s->status;
}

/* The first companion of a process starts its thread at once and prepares the first compile. The
 * others start a thread when they need one, since most programs compile one module at a time. */
static trp_status init(trp_instance *instance, trp_error *error)
{
    ((trp__instance *)instance)->makes = true;
    static atomic_bool prepared;
    state *s = instance->state;
    if (!atomic_exchange(&prepared, true) && trp__side_start(&s->side, NULL, NULL, error) == TRP_OK)
        trp__side_run(s->side, prepare, NULL);
    return TRP_OK; /* if the thread did not start, the first compile tries again and reports the
                      error */
}

static void stop(trp_instance *instance)
{
    state *s = instance->state;
    atomic_store(&s->ending, true);
    trp__side_stop(s->side);
    s->side = NULL;
    clear(s);
}

const trp_actor_impl trp__jit_compile_actor = {
    .abi = TRP_ACTOR_ABI,
    .state_bytes = sizeof(state),
    .init = init,
    .handle = handle,
    .stop = stop,
};
