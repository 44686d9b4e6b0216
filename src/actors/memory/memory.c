#include "actors/memory/memory.h"

#include "base/error.h"
#include "wire/layout.h"
#include "wire/memory.h"
#include "worker/actor.h"

#include <string.h>

/* Parts of a box that are enqueued in one turn, so that other actors get turns in between. */
enum { PARTS_A_TURN = 64 };

/* The memory actors alone reach memory of the application beside buffers. */
static trp__instance *of(trp_instance *instance)
{
    return (trp__instance *)instance;
}

/* Copies a chunk of the packed box between a staging piece and the buffer. */
static trp_status copy_packed(trp__instance *instance, char *device, char *piece, uint64_t at,
                              uint64_t length, const trp__memory_payload *p, trp_error *error)
{
    trp__box_part part;
    trp_status status = TRP_OK;
    for (uint64_t next = at;
         status == TRP_OK && trp__box_next(&p->box, &p->pitch, &next, at + length, &part);) {
        char *there = device + part.strided, *here = piece + (part.packed - at);
        status =
            p->stream == TRP__LANE_UPLOAD
                ? instance->backend->stream_copy_rows(instance->stream, there, p->pitch.row, here,
                                                      part.bytes, part.bytes, part.rows, error)
                : instance->backend->stream_copy_rows(instance->stream, here, part.bytes, there,
                                                      p->pitch.row, part.bytes, part.rows, error);
    }
    return status;
}

static trp_status copy_chunk(trp__instance *instance, const trp_job *job, uint64_t chunk,
                             const trp__memory_payload *p, trp_error *error)
{
    const trp__backend *backend = instance->backend;
    uint64_t bytes = p->box.bytes ? trp__box_bytes(&p->box) : job->access[0].bytes;
    uint64_t at = job->progress * p->chunk_bytes;
    uint64_t length = bytes - at < p->chunk_bytes ? bytes - at : p->chunk_bytes;
    char *device = job->access[0].address;
    void *piece = NULL;
    trp_status status = trp__worker_host_address(
        instance->worker, 0, trp__piece_offset(p->stream, chunk), length, &piece, error);
    if (status != TRP_OK)
        return status;
    if (p->box.bytes)
        return copy_packed(instance, device, piece, at, length, p, error);
    return p->stream == TRP__LANE_UPLOAD
               ? backend->stream_copy(instance->stream, device + at, piece, length, error)
               : backend->stream_copy(instance->stream, piece, device + at, length, error);
}

/* Copies chunks between the buffer and the ring of staging pieces, as far as the application has
 * made pieces ready. */
static trp_status stream(trp__instance *instance, trp_job *job, const trp__memory_payload *p,
                         trp_error *error)
{
    for (; job->progress < p->chunks; job->progress++) {
        uint64_t chunk = p->first_chunk + job->progress;
        if (!trp__worker_piece_ready(instance->worker, p->stream, chunk))
            return TRP__AGAIN;
        trp_status status = copy_chunk(instance, job, chunk, p, error);
        if (status == TRP_OK)
            status = instance->backend->stream_signal_beside(
                instance->stream, trp__worker_stream_done(instance->worker, p->stream), chunk + 1,
                error);
        if (status != TRP_OK)
            return status;
    }
    return TRP_OK;
}

/* Copies a box plane by plane, or as many rows of all planes, whichever are fewer. */
static trp_status copy_box(trp__instance *instance, trp_job *job, char *to,
                           const trp_pitch *to_pitch, const char *from, const trp_pitch *from_pitch,
                           const trp__box *box, trp_error *error)
{
    bool by_plane = box->planes <= box->rows;
    uint64_t parts = by_plane ? box->planes : box->rows;
    uint64_t rows = by_plane ? box->rows : box->planes;
    uint64_t to_row = by_plane ? to_pitch->row : to_pitch->plane;
    uint64_t from_row = by_plane ? from_pitch->row : from_pitch->plane;
    uint64_t to_part = by_plane ? to_pitch->plane : to_pitch->row;
    uint64_t from_part = by_plane ? from_pitch->plane : from_pitch->row;
    for (int turn = 0; job->progress < parts; job->progress++, turn++) {
        if (turn == PARTS_A_TURN)
            return TRP__AGAIN;
        trp_status status = instance->backend->stream_copy_rows(
            instance->stream, to + job->progress * to_part, to_row,
            from + job->progress * from_part, from_row, box->bytes, rows, error);
        if (status != TRP_OK)
            return status;
    }
    return TRP_OK;
}

/* Copies between the buffer and host memory that the device reaches. */
static trp_status copy_host(trp__instance *instance, trp_job *job, const trp__memory_payload *p,
                            trp_error *error)
{
    const trp__backend *backend = instance->backend;
    uint64_t bytes = p->box.bytes ? trp__box_span(&p->box, &p->other) : job->access[0].bytes;
    char *device = job->access[0].address;
    void *host = NULL;
    bool upload = job->op == TRP__OP_MEMORY_UPLOAD;
    trp_status status =
        trp__worker_host_address(instance->worker, p->segment, p->host_offset, bytes, &host, error);
    if (status != TRP_OK)
        return status;
    if (p->box.bytes)
        return upload ? copy_box(instance, job, device, &p->pitch, host, &p->other, &p->box, error)
                      : copy_box(instance, job, host, &p->other, device, &p->pitch, &p->box, error);
    return upload ? backend->stream_copy(instance->stream, device, host, bytes, error)
                  : backend->stream_copy(instance->stream, host, device, bytes, error);
}

static trp_status copy_buffers(trp__instance *instance, trp_job *job, const trp__memory_payload *p,
                               trp_error *error)
{
    if (p->box.bytes)
        return copy_box(instance, job, job->access[1].address, &p->other, job->access[0].address,
                        &p->pitch, &p->box, error);
    return instance->backend->stream_copy(instance->stream, job->access[1].address,
                                          job->access[0].address, job->access[0].bytes, error);
}

/* Fills with a pattern. A wide one is copied from staging memory once, and then doubled from the
 * buffer itself. */
static trp_status fill(trp__instance *instance, const trp_job *job, const trp__memory_payload *p,
                       trp_error *error)
{
    const trp__backend *backend = instance->backend;
    char *to = job->access[0].address;
    uint64_t bytes = job->access[0].bytes;
    if (p->width <= 4)
        return backend->stream_fill(instance->stream, to, p->pattern, p->width, bytes / p->width,
                                    error);
    if (job->access_count < 2)
        return trp__error_set(error, TRP_E_INTERNAL, "a fill of width %u without its pattern",
                              p->width);
    uint64_t done = bytes < TRP__FILL_SEED ? bytes : TRP__FILL_SEED;
    trp_status status =
        backend->stream_copy(instance->stream, to, job->access[1].address, done, error);
    while (status == TRP_OK && done < bytes) {
        uint64_t more = bytes - done < done ? bytes - done : done;
        status = backend->stream_copy(instance->stream, to + done, to, more, error);
        done += more;
    }
    return status;
}

static trp_status handle(trp_instance *api, trp_job *job, trp_error *error)
{
    trp__instance *instance = of(api);
    trp__memory_payload p;
    memcpy(&p, job->payload, sizeof p);
    switch (job->op) {
    case TRP__OP_MEMORY_UPLOAD:
    case TRP__OP_MEMORY_DOWNLOAD:
        return copy_host(instance, job, &p, error);
    case TRP__OP_MEMORY_STREAM:
        return stream(instance, job, &p, error);
    case TRP__OP_MEMORY_COPY:
        return copy_buffers(instance, job, &p, error);
    case TRP__OP_MEMORY_FILL:
        return fill(instance, job, &p, error);
    case TRP__OP_MEMORY_DISCARD:
        return TRP_OK;
    default:
        return trp__error_set(error, TRP_E_INTERNAL, "operation %#x is not one of memory", job->op);
    }
}

static const trp_actor_impl impl = {.abi = TRP_ACTOR_ABI, .handle = handle};

/* The client writes these records itself (client/request/transfer.c), so there are no pack
 * functions. */
#define ROW(number, label)                                                                         \
    {                                                                                              \
        .op = number, .name = label                                                                \
    }

static const trp__op_class ops[] = {
    ROW(TRP__OP_MEMORY_UPLOAD, "upload"), ROW(TRP__OP_MEMORY_DOWNLOAD, "download"),
    ROW(TRP__OP_MEMORY_STREAM, "stream"), ROW(TRP__OP_MEMORY_COPY, "copy"),
    ROW(TRP__OP_MEMORY_FILL, "fill"),     ROW(TRP__OP_MEMORY_DISCARD, "discard"),
};
#undef ROW

const trp__actor_class trp__memory_class = {
    .kind = "memory",
    .internal = true,
    .op_count = sizeof ops / sizeof *ops,
    .ops = ops,
    .cuda = &impl,
    .host = &impl,
};
