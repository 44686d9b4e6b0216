/* Calls that copy and fill.
 *
 * Memory from trp_host_alloc() is copied by the device itself. A small copy of other memory goes
 * through a small piece of staging memory that it holds, a large one through a stream (transfer.c).
 */
#include "base/call.h"
#include "base/error.h"
#include "client/request/copies.h"
#include "client/request/room.h"

#include <string.h>

/* State of a call that sends a request on memory. */
typedef struct call {
    trp_device *device;
    trp__room room;
    trp__slot *slot;
    trp__record *record;
    trp_error error;
    trp__encoder encoder;
} call;

/* Begins a call that sends a request on memory. False: *status says why. */
static bool call_begin(call *c, trp_device *device, const trp_request *header, trp_status *status)
{
    c->device = device;
    c->error.status = TRP_OK;
    *status = trp__wait_check(header->wait_ns);
    if (header->deadline_ns && device->options.isolation == TRP_ISOLATION_THREAD)
        *status = trp__fail(TRP_E_UNSUPPORTED, TRP__NO_DEADLINE);
    if (*status != TRP_OK)
        return false;
    trp__room_begin(&c->room, device, header->wait_ns);
    *status = trp__slot_begin(&c->room, &c->slot, &c->record);
    if (*status != TRP_OK) {
        trp__room_end(&c->room);
        return false;
    }
    if (header->deadline_ns)
        c->slot->deadline_ns = header->deadline_ns;
    if (header->label)
        trp__slot_label(c->slot, c->record, header->label);
    c->encoder = trp__encoder_begin(device, c->slot, &c->error);
    return true;
}

static trp_status call_end(call *c, trp_status status)
{
    status = trp__slot_conclude(c->device, c->slot, status, &c->error);
    trp__room_end(&c->room);
    return status;
}

static void set_box(trp__memory_payload *p, const trp__shape *s, const trp_pitch *other)
{
    p->box.bytes = 0;
    if (s->box.bytes) {
        p->box = s->box;
        p->pitch = s->pitch[0];
        p->other = *other;
    }
}

static void set_host_payload(call *c, const trp__host_copy *copy, uint64_t host_offset,
                             const trp_pitch *host_pitch)
{
    trp__memory_payload *p =
        trp__memory_payload_of(c->record, copy->lane == TRP__LANE_UPLOAD ? TRP__OP_MEMORY_UPLOAD
                                                                         : TRP__OP_MEMORY_DOWNLOAD);
    p->segment = c->slot->segment;
    p->host_offset = host_offset;
    set_box(p, &copy->shape, host_pitch);
}

/* Sends a copy through the slot's piece, where it lies packed. */
static trp_status send_small(call *c, const trp__host_copy *copy, trp_completion *completion)
{
    trp__slot *slot = c->slot;
    uint64_t offset = trp__small_offset(slot->piece);
    char *piece = c->device->staging + offset;
    trp_pitch packed = {0};
    if (copy->shape.box.bytes) {
        slot->boxed = true;
        slot->transfer.box = copy->shape.box;
        slot->transfer.pitch = copy->shape.pitch[1];
        packed.row = copy->shape.box.bytes;
        packed.plane = packed.row * copy->shape.box.rows;
    }
    if (copy->lane == TRP__LANE_DOWNLOAD) {
        slot->read_target = copy->user;
        slot->read_bytes = copy->shape.bytes;
    } else if (copy->shape.box.bytes) {
        trp__transfer_gather(&slot->transfer, copy->user, piece);
    } else if (copy->shape.bytes > 0) {
        memcpy(piece, copy->user, copy->shape.bytes);
    }
    set_host_payload(c, copy, offset, &packed);
    return trp__slot_send(c->device->actor[copy->lane], slot, completion);
}

static trp_status send_direct(call *c, const trp__host_copy *copy, uint64_t offset,
                              trp_completion *completion)
{
    set_host_payload(c, copy, offset, &copy->shape.pitch[1]);
    return trp__slot_send(c->device->actor[copy->lane], c->slot, completion);
}

static trp_status copy_host(trp_device *device, const trp_request *header,
                            const trp__host_copy *copy, trp_buffer buffer, uint64_t offset,
                            const char *user_name, trp_completion *completion)
{
    call c;
    uint64_t bytes = copy->shape.bytes, segment_offset = 0;
    if (!copy->user && bytes > 0)
        return trp__fail_null(user_name);
    trp_status status;
    if (!call_begin(&c, device, header, &status))
        return status;
    status = trp__encode_access(&c.encoder, "buffer", buffer, offset, copy->shape.span[0], 1,
                                copy->lane == TRP__LANE_UPLOAD ? trp__shape_writes(&copy->shape, 0)
                                                               : TRP__READ);
    if (status != TRP_OK)
        return call_end(&c, status);
    if (trp__segment_find(device, copy->user, copy->shape.span[1], &c.slot->segment,
                          &segment_offset))
        status = send_direct(&c, copy, segment_offset, completion);
    else if (bytes <= TRP__SMALL_BYTES && trp__piece_take(device, c.slot, TRP__POOL_COPIES, bytes))
        status = send_small(&c, copy, completion);
    else
        status = trp__stream_send(device, c.slot, copy, completion);
    return call_end(&c, status);
}

/* Header of calls without a request struct. */
static const trp_request plain;

static trp__host_copy upload_of(const void *source)
{
    /* The pointer is only read through when the lane is an upload. */
    union {
        const void *in;
        char *out;
    } user = {.in = source};
    trp__host_copy copy;
    copy.lane = TRP__LANE_UPLOAD;
    copy.user = user.out;
    return copy;
}

static trp_status write_buffer(trp_device *device, const trp_write_request *r,
                               trp_completion *completion)
{
    trp__host_copy copy = upload_of(r->source);
    trp_status status = trp__shape_of(&copy.shape, r->bytes, r->rows, r->planes, &r->pitch, "pitch",
                                      &r->source_pitch, "source_pitch");
    return status == TRP_OK
               ? copy_host(device, &r->header, &copy, r->buffer, r->offset, "source", completion)
               : status;
}

static trp_status read_buffer(trp_device *device, const trp_read_request *r,
                              trp_completion *completion)
{
    trp__host_copy copy = {.lane = TRP__LANE_DOWNLOAD, .user = r->target};
    trp_status status = trp__shape_of(&copy.shape, r->bytes, r->rows, r->planes, &r->pitch, "pitch",
                                      &r->target_pitch, "target_pitch");
    return status == TRP_OK
               ? copy_host(device, &r->header, &copy, r->buffer, r->offset, "target", completion)
               : status;
}

static trp_status encode_copy(trp__encoder *encoder, const trp_copy_request *r, const trp__shape *s)
{
    trp_status status = trp__encode_access(encoder, "source", r->source, r->source_offset,
                                           s->span[0], 1, TRP__READ);
    if (status == TRP_OK)
        status = trp__encode_access(encoder, "target", r->target, r->target_offset, s->span[1], 1,
                                    trp__shape_writes(s, 1));
    if (status == TRP_OK && r->source.id == r->target.id &&
        r->source_offset < r->target_offset + s->span[1] &&
        r->target_offset < r->source_offset + s->span[0])
        status =
            trp__error_set(encoder->error, TRP_E_ARGUMENT,
                           "target_offset: the ranges of one buffer overlap, %llu bytes at "
                           "%llu and %llu at %llu",
                           (unsigned long long)s->span[0], (unsigned long long)r->source_offset,
                           (unsigned long long)s->span[1], (unsigned long long)r->target_offset);
    return status;
}

static trp_status send_copy(trp_device *device, const trp_copy_request *r, const trp__shape *s,
                            trp_completion *completion)
{
    call c;
    trp_status status;
    if (!call_begin(&c, device, &r->header, &status))
        return status;
    set_box(trp__memory_payload_of(c.record, TRP__OP_MEMORY_COPY), s, &s->pitch[1]);
    status = encode_copy(&c.encoder, r, s);
    if (status == TRP_OK)
        status = trp__slot_send(device->actor[TRP__LANE_LOCAL], c.slot, completion);
    return call_end(&c, status);
}

static trp_status copy_buffer(trp_device *device, const trp_copy_request *r,
                              trp_completion *completion)
{
    trp__shape s;
    trp_status status = trp__shape_of(&s, r->bytes, r->rows, r->planes, &r->source_pitch,
                                      "source_pitch", &r->target_pitch, "target_pitch");
    return status == TRP_OK ? send_copy(device, r, &s, completion) : status;
}

static trp_status check_fill(const trp_fill_request *r)
{
    uint32_t width = r->width;
    if (!r->pattern)
        return trp__fail_null("pattern");
    if (width == 0 || width > 16 || (width & (width - 1)) != 0)
        return trp__fail(TRP_E_ARGUMENT, "width: expected 1, 2, 4, 8 or 16, got %u", width);
    if (r->offset % width != 0 || r->bytes % width != 0)
        return trp__fail(TRP_E_ARGUMENT, "%s: expected a multiple of width %u, got %llu",
                         r->offset % width ? "offset" : "bytes", width,
                         (unsigned long long)(r->offset % width ? r->offset : r->bytes));
    return TRP_OK;
}

/* Puts the pattern into the record; a wide one, over and over, into the slot's piece. */
static void set_pattern(call *c, const trp_fill_request *r)
{
    trp__memory_payload *p = trp__memory_payload_of(c->record, TRP__OP_MEMORY_FILL);
    const char *pattern = r->pattern;
    uint32_t width = r->width;
    while (width > 4 && memcmp(pattern, pattern + width / 2, width / 2) == 0)
        width /= 2;
    p->width = width;
    p->pattern = 0;
    if (width <= 4) {
        memcpy(&p->pattern, pattern, width);
    } else {
        char *seed = c->device->staging + trp__small_offset(c->slot->index);
        for (uint32_t at = 0; at < TRP__FILL_SEED; at += width)
            memcpy(seed + at, pattern, width);
        c->slot->piece = c->slot->index;
        c->record->piece = c->slot->piece + 1;
        c->record->piece_bytes = TRP__FILL_SEED;
    }
}

_Static_assert((int)TRP__FILL_SEED <= (int)TRP__OWN_BYTES,
               "a pattern lies in its slot's own piece");

static trp_status fill_buffer(trp_device *device, const trp_fill_request *r,
                              trp_completion *completion)
{
    call c;
    trp_status status = check_fill(r);
    if (status != TRP_OK || !call_begin(&c, device, &r->header, &status))
        return status;
    set_pattern(&c, r);
    status = trp__encode_access(&c.encoder, "buffer", r->buffer, r->offset, r->bytes, 1,
                                TRP__WRITE | TRP__COVER);
    if (status == TRP_OK)
        status = trp__slot_send(device->actor[TRP__LANE_LOCAL], c.slot, completion);
    return call_end(&c, status);
}

/* Sent as a request for its place in the order: the range is good from there on, also for queued
 * requests when a worker dies. */
trp_status trp_buffer_discard(trp_device *device, trp_buffer buffer, uint64_t offset,
                              uint64_t bytes)
{
    TRP__CALL(trp__call_refused());
    call c;
    trp_status status = trp__device_usable(device);
    if (status != TRP_OK || !call_begin(&c, device, &plain, &status))
        return status;
    trp__memory_payload_of(c.record, TRP__OP_MEMORY_DISCARD)->box.bytes = 0;
    status =
        trp__encode_access(&c.encoder, "buffer", buffer, offset, bytes, 1, TRP__WRITE | TRP__COVER);
    if (status == TRP_OK)
        status = trp__slot_send(device->actor[TRP__LANE_LOCAL], c.slot, NULL);
    return call_end(&c, status);
}

trp_status trp_device_submit(trp_device *device, const trp_request *request,
                             trp_completion *completion)
{
    TRP__CALL_QUICK(trp__call_refused());
    static const uint32_t sizes[] = {[TRP_OP_WRITE] = sizeof(trp_write_request),
                                     [TRP_OP_READ] = sizeof(trp_read_request),
                                     [TRP_OP_COPY] = sizeof(trp_copy_request),
                                     [TRP_OP_FILL] = sizeof(trp_fill_request)};
    trp_status status = trp__device_usable(device);
    if (status != TRP_OK)
        return status;
    if (!request)
        return trp__fail_null("request");
    if (request->op >= sizeof sizes / sizeof *sizes || sizes[request->op] == 0)
        return trp__fail(TRP_E_UNSUPPORTED, "op: the memory of a device has no operation %#x",
                         request->op);
    if (request->size != sizes[request->op])
        return trp__fail(TRP_E_VERSION, "size: the request has %u bytes here, got %u",
                         sizes[request->op], request->size);
    switch (request->op) {
    case TRP_OP_WRITE:
        return write_buffer(device, (const trp_write_request *)request, completion);
    case TRP_OP_READ:
        return read_buffer(device, (const trp_read_request *)request, completion);
    case TRP_OP_COPY:
        return copy_buffer(device, (const trp_copy_request *)request, completion);
    default:
        return fill_buffer(device, (const trp_fill_request *)request, completion);
    }
}

trp_status trp_write(trp_device *device, trp_buffer buffer, uint64_t offset, const void *source,
                     uint64_t bytes, trp_completion *completion)
{
    TRP__CALL_QUICK(trp__call_refused());
    trp_status status = trp__device_usable(device);
    trp__host_copy copy = upload_of(source);
    trp__shape_linear(&copy.shape, bytes);
    return status == TRP_OK ? copy_host(device, &plain, &copy, buffer, offset, "source", completion)
                            : status;
}

trp_status trp_read(trp_device *device, trp_buffer buffer, uint64_t offset, void *target,
                    uint64_t bytes, trp_completion *completion)
{
    TRP__CALL_QUICK(trp__call_refused());
    trp_status status = trp__device_usable(device);
    trp__host_copy copy;
    copy.lane = TRP__LANE_DOWNLOAD;
    copy.user = target;
    trp__shape_linear(&copy.shape, bytes);
    return status == TRP_OK ? copy_host(device, &plain, &copy, buffer, offset, "target", completion)
                            : status;
}

trp_status trp_copy(trp_device *device, trp_buffer source, uint64_t source_offset,
                    trp_buffer target, uint64_t target_offset, uint64_t bytes,
                    trp_completion *completion)
{
    TRP__CALL_QUICK(trp__call_refused());
    trp_status status = trp__device_usable(device);
    const trp_copy_request r = {.source = source,
                                .source_offset = source_offset,
                                .target = target,
                                .target_offset = target_offset,
                                .bytes = bytes};
    trp__shape s;
    trp__shape_linear(&s, bytes);
    return status == TRP_OK ? send_copy(device, &r, &s, completion) : status;
}

trp_status trp_fill(trp_device *device, trp_buffer buffer, uint64_t offset, uint64_t bytes,
                    uint32_t pattern, uint32_t width, trp_completion *completion)
{
    TRP__CALL_QUICK(trp__call_refused());
    trp_status status = trp__device_usable(device);
    const trp_fill_request r = {
        .buffer = buffer, .offset = offset, .bytes = bytes, .pattern = &pattern, .width = width};
    if (status == TRP_OK && width > 4)
        return trp__fail(TRP_E_ARGUMENT, "width: expected 1, 2 or 4, got %u", width);
    return status == TRP_OK ? fill_buffer(device, &r, completion) : status;
}
