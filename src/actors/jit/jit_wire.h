/* What the jit actor's sender tells its worker. Large things lie in the module's home (see
 * compile/modules/home.h), as compile/input.h describes. */
#ifndef TRP_ACTORS_JIT_WIRE_H
#define TRP_ACTORS_JIT_WIRE_H

#include "compile/input.h"
#include "compile/modules/home.h"
#include "wire/record.h"

#include <troupe/jit.h>

/* Payload of compile, link and load. */
typedef struct trp__jit_make {
    trp__home home;
    uint32_t is_made; /* 1: the output is there, for it was made before */
    uint32_t reserved;
} trp__jit_make;

/* Arguments follow each other: this, then `bytes` bytes, filled up to a multiple of 8. */
typedef struct trp__jit_arg {
    uint8_t kind;   /* trp_arg_kind */
    uint8_t access; /* index into the request's accesses, of a buffer or tensor map */
    uint16_t reserved;
    uint32_t bytes; /* of a value, or sizeof(trp__jit_tensor) */
} trp__jit_arg;

/* CUtensorMap's parameters but for the address. */
typedef struct trp__jit_tensor {
    uint32_t type; /* CUtensorMapDataType */
    uint32_t rank;
    uint64_t size[5];
    uint64_t stride[4];
    uint32_t box[5], step[5];
    uint32_t interleave, swizzle, l2, fill;
} trp__jit_tensor;

enum { TRP__JIT_ARGS_INLINE = 168 };

/* Payload of a launch. access[0] is the module. Arguments lie in `args` if they fit, else in the
 * request's piece of staging memory. */
typedef struct trp__jit_launch {
    trp__home home;
    uint32_t name; /* of the module's, by number */
    uint32_t cooperative;
    uint32_t grid[3], block[3], cluster[3]; /* cluster[0] 0: none */
    uint32_t shared;
    uint32_t arg_count;
    uint32_t args_bytes;
    unsigned char args[TRP__JIT_ARGS_INLINE];
} trp__jit_launch;

_Static_assert(sizeof(trp__jit_launch) <= TRP__PAYLOAD_BYTES, "a launch fits into a record");

/* Payload of a set: entry `set` of the home's head; the bytes are also in the request's piece. */
typedef struct trp__jit_set {
    trp__home home;
    uint32_t set;
    uint32_t reserved;
} trp__jit_set;

/* Payload of a query. A trp_kernel_info goes to the request's piece. */
typedef struct trp__jit_query {
    trp__home home;
    uint32_t name;
    uint32_t block;
    uint32_t shared;
    uint32_t reserved;
} trp__jit_query;

#endif
