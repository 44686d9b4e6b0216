/* Payload of the requests to a device's three memory actors, see wire/layout.h. access[0] is the
 * buffer; of a copy access[0] is the source and access[1] the target. A fill with a pattern of 8 or
 * 16 bytes has TRP__FILL_SEED bytes of repeated pattern in staging memory. */
#ifndef TRP_WIRE_MEMORY_H
#define TRP_WIRE_MEMORY_H

#include "wire/box.h"

#include <stdint.h>

enum {
    TRP__OP_MEMORY_UPLOAD = 0x0001,   /* from host memory: segment, host_offset */
    TRP__OP_MEMORY_DOWNLOAD = 0x0002, /* to host memory: segment, host_offset */
    TRP__OP_MEMORY_STREAM = 0x0003,   /* through staging pieces: stream, first_chunk, chunks */
    TRP__OP_MEMORY_COPY = 0x0004,
    TRP__OP_MEMORY_FILL = 0x0005,    /* pattern, width */
    TRP__OP_MEMORY_DISCARD = 0x0006, /* ordered as a fill; writes nothing */
};

typedef struct trp__memory_payload {
    uint32_t segment;
    uint32_t stream; /* TRP__LANE_UPLOAD or TRP__LANE_DOWNLOAD */
    uint64_t host_offset;
    uint64_t first_chunk; /* chunks of a stream are numbered through all its requests */
    uint64_t chunks;
    uint64_t chunk_bytes; /* at most TRP__PIECE_BYTES; the last one may be shorter */
    uint32_t pattern;
    uint32_t width;
    trp__box box;    /* of a pitched copy; a stream carries its packed bytes */
    trp_pitch pitch; /* of access[0] */
    trp_pitch other; /* of host memory that the device reaches, or of access[1] */
} trp__memory_payload;

enum { TRP__FILL_SEED = 1024 };

#endif
