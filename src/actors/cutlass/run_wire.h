/* Payload of a request on a GPU: a kernel of the module that is its first access, and the arguments
 * of the problem, which lie in the request's piece of staging memory. With m or n 0 there is no
 * access and nothing to do. */
#ifndef TRP_ACTORS_CUTLASS_RUN_WIRE_H
#define TRP_ACTORS_CUTLASS_RUN_WIRE_H

#include "actors/cutlass/abi.h"
#include "wire/module.h"
#include "wire/record.h"

/* The names of a module, in their order. */
enum { TRP__CUTLASS_KERNEL, TRP__CUTLASS_BUILD, TRP__CUTLASS_INFO, TRP__CUTLASS_NAMES };

enum { TRP__RUN_FILLS_MAX = 64 };

/* Of the arguments: the 8 bytes at `at` are the address of an access. */
typedef struct trp__run_address {
    uint16_t at;
    uint16_t access;
} trp__run_address;

/* Memory that is set before the kernel runs, to what a reduction begins with. */
typedef struct trp__run_fill {
    uint32_t access;
    uint32_t pattern;
    uint64_t at;    /* bytes, in the access */
    uint64_t count; /* of elements of 4 bytes */
} trp__run_fill;

typedef struct trp__cutlass_run {
    trp__home home;
    /* In the piece: trp_cutlass_args up to the last slot that is used, then so many of each, at
     * multiples of 8 bytes. */
    uint32_t args_bytes; /* 0: nothing to do */
    uint32_t addresses, fills;
    uint32_t reserved;
} trp__cutlass_run;

_Static_assert(sizeof(trp__cutlass_run) <= TRP__PAYLOAD_BYTES, "a run fits into a record");

static inline uint32_t trp__run_addresses_at(const trp__cutlass_run *run)
{
    return run->args_bytes;
}

static inline uint32_t trp__run_fills_at(const trp__cutlass_run *run)
{
    return run->args_bytes + (run->addresses * (uint32_t)sizeof(trp__run_address) + 7) / 8 * 8;
}

static inline uint32_t trp__run_bytes(const trp__cutlass_run *run)
{
    return trp__run_fills_at(run) + run->fills * (uint32_t)sizeof(trp__run_fill);
}

#endif
