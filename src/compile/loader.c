#include "compile/loader.h"

#include "base/error.h"
#include "wire/object.h"
#include "worker/actor.h"
#include "worker/worker.h"

#include <string.h>

/* Life of an actor. */

static void enter(void *argument)
{
    const trp__jit_loader *l = argument;
    l->cu->cuCtxSetCurrent(l->context);
}

static void unload_list(trp__jit_loader *l)
{
    while (l->going) {
        trp__jit_loaded *m = l->going;
        l->going = m->next;
        trp__jit_module_unload(l->instance, l->cu, m);
    }
}

void trp__jit_loader_stop(trp__jit_loader *l)
{
    trp__side_stop(l->side);
    if (l->found)
        trp__jit_module_unload(l->instance, l->cu, l->found);
    unload_list(l);
    for (uint32_t i = 0; i < l->count; i++)
        trp__jit_module_unload(l->instance, l->cu, l->module[i]);
    if (l->context)
        l->cu->cuDevicePrimaryCtxRelease_v2(l->device);
    memset(l, 0, sizeof *l);
}

/* Checks for functions that later drivers added. */
static trp_status check_driver(const trp__cuda *cu, trp_error *error)
{
    const char *lacking = NULL;
#define CHECK(result, name, parameters)                                                            \
    if (!cu->name)                                                                                 \
        lacking = #name;
    TRP__CUDA_OPTIONAL_FUNCTIONS(CHECK)
#undef CHECK
    return lacking
               ? trp__error_set(error, TRP_E_UNSUPPORTED,
                                "the driver lacks %s; loading kernels needs one for CUDA 12.4 or "
                                "later",
                                lacking)
               : TRP_OK;
}

trp_status trp__jit_loader_start(trp__jit_loader *l, trp_instance *instance, trp_error *error)
{
    l->instance = instance;
    trp_status status = trp__cuda_load(&l->cu, error);
    if (status != TRP_OK)
        return status;
    status = check_driver(l->cu, error);
    if (status == TRP_OK)
        status = trp_cuda_check(instance, l->cu->cuDeviceGet(&l->device, (int)instance->ordinal),
                                "cuDeviceGet", error);
    if (status == TRP_OK)
        status = trp_cuda_check(instance, l->cu->cuDevicePrimaryCtxRetain(&l->context, l->device),
                                "cuDevicePrimaryCtxRetain", error);
    if (status == TRP_OK)
        status = trp__side_start(&l->side, enter, l, error);
    if (status != TRP_OK)
        trp__jit_loader_stop(l);
    return status;
}

/* Modules. */

static trp__worker *worker_of(trp_instance *instance)
{
    return ((trp__instance *)instance)->worker;
}

/* Removes a module from the table and queues it for unloading. */
static void let_go(trp__jit_loader *l, uint32_t i)
{
    trp__jit_loaded *m = l->module[i];
    l->bytes -= m->bytes;
    l->module[i] = l->module[--l->count];
    m->next = l->going;
    l->going = m;
}

/* Unloads queued modules once the stream is idle: kernels in it may use them. Runs in the side
 * thread. */
static void tidy(void *argument)
{
    trp__jit_loader *l = argument;
    if (l->going && l->cu->cuStreamSynchronize(l->instance->stream) == TRP__CU_SUCCESS)
        unload_list(l);
}

static void load(void *argument)
{
    trp__jit_loader *l = argument;
    tidy(l);
    l->status = trp__jit_module_load(l->instance, l->cu, &l->source, &l->found, &l->error);
    if (l->status != TRP_OK || !l->examine)
        return;
    l->status = l->examine(l, l->found, &l->error);
    if (l->status != TRP_OK) {
        trp__jit_module_unload(l->instance, l->cu, l->found);
        l->found = NULL;
    }
}

/* Removes freed modules from the table. Looks at a few each time, so that all are found soon. The
 * side thread must not be busy. */
static void look_for_freed(trp__jit_loader *l, uint32_t most)
{
    for (uint32_t n = 0; n < most && n < l->count; n++) {
        l->looked = l->looked + 1 < l->count ? l->looked + 1 : 0;
        const trp__jit_loaded *m = l->module[l->looked];
        if (!trp__worker_buffer_live(worker_of(l->instance), m->slot, m->generation))
            let_go(l, l->looked);
    }
}

static void make_room(trp__jit_loader *l, uint64_t bytes)
{
    while (l->count > 0 &&
           (l->count == TRP__JIT_LOADED_MOST || l->bytes + bytes > TRP__JIT_LOADED_BYTES)) {
        uint32_t oldest = 0;
        for (uint32_t i = 1; i < l->count; i++) {
            if (l->module[i]->used < l->module[oldest]->used)
                oldest = i;
        }
        let_go(l, oldest);
    }
}

trp_status trp__jit_loader_source(const trp__jit_loader *l, const trp__storage *storage,
                                  uint64_t ticket, trp__jit_source *source, trp_error *error)
{
    trp__worker *w = worker_of(l->instance);
    void *heap = NULL, *head = NULL, *output = NULL;
    trp_status status =
        trp__worker_host_address(w, storage->segment, 0, TRP__HEAP_BYTES, &heap, error);
    if (status == TRP_OK)
        status = trp__worker_host_address(w, storage->segment, storage->offset,
                                          sizeof(trp__storage_head), &head, error);
    if (status == TRP_OK)
        status = trp__worker_host_address(w, storage->segment, trp__storage_output_at(storage),
                                          storage->output_bytes, &output, error);
    if (status == TRP_OK && storage->output_bytes < sizeof(trp__storage_output))
        status = trp__error_set(error, TRP_E_INTERNAL, "a module without a storage");
    *source = (trp__jit_source){.head = head,
                                .output = output,
                                .room = storage->output_bytes,
                                .heap = heap,
                                .heap_bytes = TRP__HEAP_BYTES,
                                .before = ticket};
    return status;
}

/* Takes over a module that was just loaded, for this request or for one that is gone. */
static trp_status take_found(trp__jit_loader *l, trp_job *job, bool ours, trp_error *error)
{
    trp__jit_loaded *m = l->found;
    l->loading = false;
    l->found = NULL;
    if (ours)
        job->progress = 0;
    if (m && (!ours || l->status != TRP_OK)) {
        m->next = l->going;
        l->going = m;
    } else if (m) {
        const trp__access *token = &((trp__job *)job)->record->access[0];
        m->slot = token->slot;
        m->generation = token->generation;
        make_room(l, m->bytes);
        l->module[l->count++] = m;
        l->bytes += m->bytes;
    }
    if (!ours || l->status == TRP_OK)
        return TRP_OK;
    l->failures++;
    *error = l->error;
    return l->status;
}

trp__jit_loaded *trp__jit_loader_loaded(trp__jit_loader *l, uint32_t slot, uint32_t generation)
{
    for (uint32_t i = 0; i < l->count; i++) {
        trp__jit_loaded *m = l->module[i];
        if (m->slot == slot && m->generation == generation) {
            m->used = ++l->stamp;
            return m;
        }
    }
    return NULL;
}

trp_status trp__jit_loader_find(trp__jit_loader *l, trp_job *job, const trp__storage *storage,
                                trp__jit_loaded **out, trp_error *error)
{
    const trp__record *record = ((trp__job *)job)->record;
    const trp__access *token = &record->access[0];
    bool ours = record->ticket == l->ticket;
    trp_status status = TRP_OK;
    bool busy = trp__side_busy(l->side);
    if (!busy && l->loading)
        status = take_found(l, job, ours, error);
    if (status != TRP_OK)
        return status;
    if (!busy) {
        look_for_freed(l, 4);
        if (l->going) {
            trp__side_run(l->side, tidy, l);
            busy = true;
        }
    }
    *out = trp__jit_loader_loaded(l, token->slot, token->generation);
    if (*out)
        return TRP_OK;
    if (busy) /* busy when asked first: it may have loaded a module since */
        return TRP_AGAIN;
    /* Memory was short, and loading was retried already: give up. */
    if (ours && job->progress == 0 && l->failures >= 2) {
        *error = l->error;
        return l->status;
    }
    status = trp__jit_loader_source(l, storage, record->ticket, &l->source, error);
    if (status != TRP_OK)
        return status;
    l->failures = ours ? l->failures : 0;
    l->ticket = record->ticket;
    l->loading = true;
    job->progress = 1;
    trp__side_run(l->side, load, l);
    return TRP_AGAIN;
}

void trp__jit_loader_trim(trp__jit_loader *l)
{
    if (!l->side || trp__side_busy(l->side) || !l->instance->services->idle(l->instance))
        return;
    look_for_freed(l, TRP__JIT_LOADED_MOST);
    unload_list(l);
}
