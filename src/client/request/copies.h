/* Copies between memory of the program and buffers, and among buffers: what copies.c sends, shape.c
 * describes, pieces.c lends staging memory to, and transfer.c moves where it is large. */
#ifndef TRP_CLIENT_REQUEST_COPIES_H
#define TRP_CLIENT_REQUEST_COPIES_H

#include "client/request/request.h"
#include "wire/memory.h"

/* The payload of a record, of which the caller writes what the operation looks at. */
static inline trp__memory_payload *trp__memory_payload_of(trp__record *record, uint32_t op)
{
    record->op = op;
    return (trp__memory_payload *)(void *)record->payload;
}

/* A copy as it is asked for, and as it is done: with as few rows as can be. */
typedef struct trp__shape {
    uint64_t bytes; /* in all */
    trp__box box; /* its bytes are 0 if what is copied has no gaps on both sides; then no more of */
    trp_pitch pitch[2]; /* this is looked at */
    uint64_t span[2];   /* bytes from the first to behind the last, on each side */
} trp__shape;

/* A copy of so many bytes in a row. */
void trp__shape_linear(trp__shape *s, uint64_t bytes);

/* Of `planes` planes of `rows` rows of `bytes` bytes each (0: 1). Raises an error that names the
 * pitch that does not fit. */
trp_status trp__shape_of(trp__shape *s, uint64_t bytes, uint64_t rows, uint64_t planes,
                         const trp_pitch *first, const char *first_name, const trp_pitch *second,
                         const char *second_name);

/* How a copy writes that side: all that it spans, or with gaps. */
uint32_t trp__shape_writes(const trp__shape *s, int side);

typedef struct trp__host_copy {
    uint32_t lane; /* TRP__LANE_UPLOAD or _DOWNLOAD */
    char *user;
    trp__shape shape; /* of the buffer, and of `user` */
} trp__host_copy;

/* Sends a copy of a filled slot through the ring of pieces of its direction. */
trp_status trp__stream_send(trp_device *device, trp__slot *slot, const trp__host_copy *copy,
                            trp_completion *completion);

/* Gives a slot a small piece that holds so much: its own, or one of a pool. False: none is free. */
bool trp__piece_take(trp_device *device, trp__slot *slot, uint32_t pool, uint64_t bytes);

#endif
