/* A request as it crosses: no pointers, fixed size, so that it can be run again. */
#ifndef TRP_WIRE_RECORD_H
#define TRP_WIRE_RECORD_H

#include <troupe/custom.h>

enum {
    TRP__ACCESS_MAX = 8,
    TRP__PAYLOAD_BYTES = 192,
};

enum {
    TRP__READ = 1,
    TRP__WRITE = 2,
    TRP__COVER = 4, /* with WRITE: every byte of the range is written, none is read */
};

/* One buffer that a request reads or writes. */
typedef struct trp__access {
    uint32_t slot;       /* in the buffer table */
    uint32_t generation; /* that the slot must have */
    uint64_t offset;     /* bytes */
    uint64_t bytes;
    uint32_t mode; /* TRP__READ and so on */
    uint32_t reserved;
} trp__access;

/* 512 bytes: a first line that the scheduler needs, the actor's own payload, and the accesses,
 * which both sides understand without knowing the operation. */
typedef struct trp__record {
    uint64_t ticket; /* place in the total order of the device; written last */
    uint32_t op;
    uint16_t actor; /* index in the actor table */
    uint16_t access_count;
    uint32_t code;          /* of a custom request */
    uint32_t payload_bytes; /* of a custom request; others know theirs */
    uint64_t reserved[5];
    unsigned char payload[TRP__PAYLOAD_BYTES];
    trp__access access[TRP__ACCESS_MAX];
} __attribute__((aligned(64))) trp__record;

_Static_assert(sizeof(trp__access) == 32, "layout of an access");
_Static_assert(sizeof(trp__record) == 512, "layout of a record");

_Static_assert((int)TRP__READ == (int)TRP_ACCESS_READ && (int)TRP__WRITE == (int)TRP_ACCESS_WRITE &&
                   (TRP__READ | TRP__WRITE) == (int)TRP_ACCESS_READ_WRITE &&
                   (TRP__WRITE | TRP__COVER) == (int)TRP_ACCESS_COVER,
               "the public modes are those of a record");
_Static_assert(TRP_CUSTOM_PAYLOAD_MAX <= TRP__PAYLOAD_BYTES &&
                   TRP_CUSTOM_ACCESSES_MAX == TRP__ACCESS_MAX,
               "a custom request fits into a record");

#endif
