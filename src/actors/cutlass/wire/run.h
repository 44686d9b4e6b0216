/* Payload of a request on a GPU: the first access is the kernel's module, and the problem's
 * arguments are in the request's piece of staging memory. With m or n 0 there is no access and
 * nothing to do. */
#ifndef TRP_ACTORS_CUTLASS_WIRE_RUN_H
#define TRP_ACTORS_CUTLASS_WIRE_RUN_H

#include "actors/cutlass/catalogue/catalogue.h"
#include "compile/modules/storage.h"
#include "wire/record.h"

#include <troupe/cutlass.h>

/* The symbols of a module in their order. */
enum { TRP__CUTLASS_KERNEL, TRP__CUTLASS_BUILD, TRP__CUTLASS_INFO, TRP__CUTLASS_NAMES };
/* The symbols of grouped products. */
enum { TRP__CUTLASS_PREPARE = TRP__CUTLASS_NAMES, TRP__CUTLASS_NAMES_MOST };

enum { TRP__RUN_FILLS_MAX = 64 };

enum { TRP__RUN_BYTES = 0x8000 };

/* Special values of args_bytes: instead of arguments the piece has a problem for a library after
 * the run: fallback/cublaslt.h, fallback/cudnn.h. */
#define TRP__RUN_BY_CUBLASLT        UINT32_MAX
#define TRP__RUN_BY_CUDNN           (UINT32_MAX - 1)
#define TRP__RUN_BY_CUBLASLT_GROUPS (UINT32_MAX - 2)
#define TRP__RUN_BY_LIBRARY         TRP__RUN_BY_CUBLASLT_GROUPS /* that and above */

/* The 8 bytes of the arguments at `at` are the address of an access; */
typedef struct trp__run_address {
    uint16_t at;
    uint16_t access;
} trp__run_address;

/* Memory that is set to a reduction's neutral value before the kernel runs. */
typedef struct trp__run_fill {
    uint32_t access;
    uint32_t pattern;
    uint64_t at;    /* bytes, in the access */
    uint64_t count; /* of elements of 4 bytes */
} trp__run_fill;

typedef struct trp__cutlass_run {
    trp__storage storage;
    /* The piece has trp_cutlass_args up to the last used slot, then the arrays counted here, at
     * multiples of 8 bytes, then a trp__run_search with its data. */
    uint32_t args_bytes; /* 0: nothing to do */
    uint32_t addresses, fills;
    /* Grouped products: the access of the table plus 1, or bytes of rows by value after the
     * fills. */
    uint32_t table;
    uint32_t rows_bytes;
    uint32_t search_bytes;  /* 0: no search */
    uint32_t subject_bytes; /* of the subject of a proof, behind the search: plan/subject.h */
    uint32_t result_bytes;  /* of the reply, before all of it; 0: no reply */
} trp__cutlass_run;

/* A search among kernels that previous requests loaded (TRP__OP_CUTLASS_LOAD); missing ones are not
 * tried. It is followed by the candidates, the settings of all, and the key of the record in the
 * kernel cache, each at a multiple of 8 bytes. */
typedef struct trp__run_search {
    uint32_t level; /* TRP_TUNE_QUICK or _FULL */
    uint32_t candidates, settings;
    uint32_t key_bytes;
    /* The access, plus 1, that must not be written while kernels are timed, because C shares the
     * memory of args.d. 0: none. */
    uint32_t in_place;
    uint32_t reserved;
    int64_t budget_ns; /* time limit: afterwards no trial starts */
} trp__run_search;

typedef struct trp__run_candidate {
    uint32_t slot, generation; /* of the candidate's module */
    uint32_t first, count;     /* settings; the first are those used without a search */
    char kernel[TRP_CUTLASS_NAME_SIZE];
} trp__run_candidate;

enum { TRP__RUN_CANDIDATES_MAX = 12, TRP__RUN_SETTINGS_MAX = 192 };

/* Return the offsets of a search's parts from its start. */
static inline uint32_t trp__search_candidates_at(void)
{
    return (uint32_t)sizeof(trp__run_search);
}

static inline uint32_t trp__search_settings_at(const trp__run_search *s)
{
    return trp__search_candidates_at() + s->candidates * (uint32_t)sizeof(trp__run_candidate);
}

static inline uint32_t trp__search_key_at(const trp__run_search *s)
{
    uint32_t bytes = s->settings * (uint32_t)sizeof(trp__cutlass_settings);
    return trp__search_settings_at(s) + (bytes + 7) / 8 * 8;
}

static inline uint32_t trp__search_bytes(const trp__run_search *s)
{
    return trp__search_key_at(s) + s->key_bytes;
}

_Static_assert(sizeof(trp__cutlass_run) <= TRP__PAYLOAD_BYTES, "a run fits into a record");

static inline uint32_t trp__run_addresses_at(const trp__cutlass_run *run)
{
    return run->args_bytes;
}

static inline uint32_t trp__run_fills_at(const trp__cutlass_run *run)
{
    return run->args_bytes + (run->addresses * (uint32_t)sizeof(trp__run_address) + 7) / 8 * 8;
}

static inline uint32_t trp__run_rows_at(const trp__cutlass_run *run)
{
    return trp__run_fills_at(run) + run->fills * (uint32_t)sizeof(trp__run_fill);
}

static inline uint32_t trp__run_search_at(const trp__cutlass_run *run)
{
    return trp__run_rows_at(run) + (run->rows_bytes + 7) / 8 * 8;
}

static inline uint32_t trp__run_subject_at(const trp__cutlass_run *run)
{
    return trp__run_search_at(run) + (run->search_bytes + 7) / 8 * 8;
}

/* But for the result. */
static inline uint32_t trp__run_bytes(const trp__cutlass_run *run)
{
    return trp__run_subject_at(run) + run->subject_bytes;
}

#endif
