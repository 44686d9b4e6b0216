/* Payloads of the requests of the jit actor. Large data are in the module's storage
 * (compile/modules/storage.h), in the layout of compile/input.h. */
#ifndef TRP_ACTORS_JIT_WIRE_H
#define TRP_ACTORS_JIT_WIRE_H

#include "compile/input.h"
#include "compile/modules/storage.h"
#include "wire/record.h"

#include <troupe/jit.h>

/* Payload of compile, link and load. */
typedef struct trp__jit_make {
    trp__storage storage;
    uint32_t is_made; /* 1: the storage already contains the output */
    uint32_t reserved;
} trp__jit_make;

/* Head of an argument. `bytes` bytes follow, padded to a multiple of 8, then the next head. */
typedef struct trp__jit_arg {
    uint8_t kind;   /* trp_arg_kind */
    uint8_t access; /* of a buffer or tensor map: index into the request's accesses */
    uint16_t reserved;
    uint32_t bytes; /* of a value, or sizeof(trp__jit_tensor) */
} trp__jit_arg;

/* The parameters of cuTensorMapEncodeTiled() without the address. */
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
    trp__storage storage;
    uint32_t name; /* number of the name in the module */
    uint32_t cooperative;
    uint32_t grid[3], block[3], cluster[3]; /* cluster[0] 0: none */
    uint32_t shared;
    uint32_t arg_count;
    uint32_t args_bytes;
    unsigned char args[TRP__JIT_ARGS_INLINE];
} trp__jit_launch;

_Static_assert(sizeof(trp__jit_launch) <= TRP__PAYLOAD_BYTES, "a launch fits into a record");

/* Payload of a set, which is recorded in entry `set` of the storage's head; the request's piece has
 * the bytes too. */
typedef struct trp__jit_set {
    trp__storage storage;
    uint32_t set;
    uint32_t reserved;
} trp__jit_set;

/* Payload of a query, which writes a trp_kernel_info to the request's piece. */
typedef struct trp__jit_query {
    trp__storage storage;
    uint32_t name;
    uint32_t block;
    uint32_t shared;
    uint32_t reserved;
} trp__jit_query;

#endif
