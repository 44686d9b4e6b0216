/* Copies between memory of the program and buffers, and among buffers. copies.c sends them, shape.c
 * describes them, pieces.c lends them staging memory, transfer.c moves the large ones. */
#ifndef TRP_CLIENT_REQUEST_COPIES_H
#define TRP_CLIENT_REQUEST_COPIES_H

#include "client/request/request.h"
#include "wire/memory.h"

/* Sets the operation of a record; returns its payload, for the caller to fill in. */
static inline trp__memory_payload *trp__memory_payload_of(trp__record *record, uint32_t op)
{
    record->op = op;
    return (trp__memory_payload *)(void *)record->payload;
}

/* The shape of a copy, with as few rows as possible. */
typedef struct trp__shape {
    uint64_t bytes; /* in all */
    trp__box box;   /* its bytes are 0 if neither side has gaps; then `pitch` is unused */
    trp_pitch pitch[2];
    uint64_t span[2]; /* bytes from the first to behind the last, on each side */
} trp__shape;

/* Describes `bytes` consecutive bytes. */
void trp__shape_linear(trp__shape *s, uint64_t bytes);

/* Describes `planes` planes of `rows` rows of `bytes` bytes each (0: 1). Raises an error that names
 * the pitch that does not fit. */
trp_status trp__shape_of(trp__shape *s, uint64_t bytes, uint64_t rows, uint64_t planes,
                         const trp_pitch *first, const char *first_name, const trp_pitch *second,
                         const char *second_name);

/* Returns the access mode of a copy for that side: with TRP__COVER if it has no gaps. */
uint32_t trp__shape_writes(const trp__shape *s, int side);

typedef struct trp__host_copy {
    uint32_t lane; /* TRP__LANE_UPLOAD or _DOWNLOAD */
    char *user;
    trp__shape shape; /* of the buffer, and of `user` */
} trp__host_copy;

/* Sends a copy of a filled slot through the ring of pieces of its direction. */
trp_status trp__stream_send(trp_device *device, trp__slot *slot, const trp__host_copy *copy,
                            trp_completion *completion);

/* Gives a slot a small piece of at least `bytes`: its own, or one of a pool. False: none is
 * free. */
bool trp__piece_take(trp_device *device, trp__slot *slot, uint32_t pool, uint64_t bytes);

#endif
