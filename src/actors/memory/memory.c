#include "actors/memory/memory.h"

#include "base/error.h"
#include "wire/layout.h"
#include "wire/memory.h"
#include "worker/actor.h"

#include <string.h>

/* Copies chunk after chunk between the buffer and the ring of staging pieces, as far as the
 * application has made pieces ready. */
static trp_status stream(trp__instance *instance, trp_job *job, const trp__memory_payload *p,
                         trp_error *error)
{
    const trp__backend *backend = instance->backend;
    uint64_t bytes = job->access[0].bytes;
    for (; job->progress < p->chunks; job->progress++) {
        uint64_t chunk = p->first_chunk + job->progress;
        if (!trp__worker_piece_ready(instance->worker, p->stream, chunk))
            return TRP__AGAIN;
        uint64_t at = job->progress * p->chunk_bytes;
        uint64_t length = bytes - at < p->chunk_bytes ? bytes - at : p->chunk_bytes;
        char *device = (char *)job->access[0].address + at;
        void *piece = NULL;
        trp_status status = trp__worker_host_address(
            instance->worker, 0, trp__piece_offset(p->stream, chunk), length, &piece, error);
        if (status == TRP_OK)
            status = p->stream == TRP__LANE_UPLOAD
                         ? backend->stream_copy(instance->stream, device, piece, length, error)
                         : backend->stream_copy(instance->stream, piece, device, length, error);
        if (status == TRP_OK)
            status = backend->stream_signal(instance->stream,
                                            trp__worker_stream_done(instance->worker, p->stream),
                                            chunk + 1, error);
        if (status != TRP_OK)
            return status;
    }
    return TRP_OK;
}

/* What the application shares beside buffers is no actor's but these ones'. */
static trp__instance *of(trp_instance *instance)
{
    return (trp__instance *)instance;
}

static trp_status handle(trp_instance *api, trp_job *job, trp_error *error)
{
    trp__instance *instance = of(api);
    const trp__backend *backend = instance->backend;
    uint64_t bytes = job->access[0].bytes;
    void *address = job->access[0].address;
    trp__memory_payload p;
    void *host = NULL;
    trp_status status;
    memcpy(&p, job->payload, sizeof p);

    switch (job->op) {
    case TRP__OP_MEMORY_UPLOAD:
        status = trp__worker_host_address(instance->worker, p.segment, p.host_offset, bytes, &host,
                                          error);
        return status != TRP_OK
                   ? status
                   : backend->stream_copy(instance->stream, address, host, bytes, error);
    case TRP__OP_MEMORY_DOWNLOAD:
        status = trp__worker_host_address(instance->worker, p.segment, p.host_offset, bytes, &host,
                                          error);
        return status != TRP_OK
                   ? status
                   : backend->stream_copy(instance->stream, host, address, bytes, error);
    case TRP__OP_MEMORY_STREAM:
        return stream(instance, job, &p, error);
    case TRP__OP_MEMORY_COPY:
        return backend->stream_copy(instance->stream, job->access[1].address, address, bytes,
                                    error);
    case TRP__OP_MEMORY_FILL:
        return backend->stream_fill(instance->stream, address, p.pattern, p.width, bytes / p.width,
                                    error);
    default:
        return trp__error_set(error, TRP_E_INTERNAL, "operation %#x is not one of memory", job->op);
    }
}

static const trp_actor_impl impl = {.abi = TRP_ACTOR_ABI, .handle = handle};

/* The application writes these records itself (client/transfer.c), so there is nothing to pack. */
const trp__actor_class trp__memory_class = {
    .kind = "memory",
    .internal = true,
    .cuda = &impl,
    .host = &impl,
};
