/* Shared by the prover's files. */
#ifndef TRP_TUNING_PROVER_PARTS_H
#define TRP_TUNING_PROVER_PARTS_H

#include "tuning/prover.h"

/* --- numbers.c --- */

/* Returns the bytes of an element. */
size_t trp__proof_width(uint8_t type);

/* Fills `count` elements with numbers of a pass, reproducibly by the seed. False: no memory, or a
 * type without numbers. */
bool trp__proof_numbers(const trp__proof_operand *operand, uint32_t pass, uint32_t special,
                        uint64_t seed, void *out, size_t count);

/* Convert one element, or several, to numbers. */
double trp__proof_number(uint8_t type, const void *element);
void trp__proof_read(uint8_t type, const void *elements, double *out, size_t count);

/* Return the largest finite number of a type, and the smallest normal one. */
double trp__proof_largest(uint8_t type);
double trp__proof_smallest(uint8_t type);

uint64_t trp__proof_random(uint64_t *state);

/* --- sample.c --- */

enum { TRP__PROOF_RUN = 64 /* most elements of a run */ };

/* Elements of a tensor that are consecutive in memory order. */
typedef struct trp__proof_run {
    size_t first, count; /* within the sample */
    int64_t begin, end;  /* offsets: of the first, and one past the last */
    uint64_t at;         /* offset in a snapshot of the tensor, in elements */
    bool whole;          /* copied with the gaps between them */
    bool dense;          /* without gaps */
} trp__proof_run;

typedef struct trp__proof_picks {
    int64_t *number, *offset; /* of each picked element */
    size_t count;
    trp__proof_run *run;
    size_t runs;
} trp__proof_picks;

/* Return the number of elements of an operand, and one more than its largest offset. */
int64_t trp__proof_elements(const trp__proof_operand *operand);
int64_t trp__proof_extent(const trp__proof_operand *operand);

/* Picks the elements of an output to compare. False: no memory. */
bool trp__proof_pick(const trp__proof_operand *operand, uint64_t seed, trp__proof_picks *out);
void trp__proof_drop_picks(trp__proof_picks *picks);

/* --- a proof at work --- */

enum {
    TRP__PROOF_GUARD = 4096, /* bytes between operands that no run may write */
    TRP__PROOF_ROUNDS = 2,   /* of each pass */
    TRP__PROOF_SHIFTS = 2,   /* of the reference, behind one without */
};

/* One piece of the prover's memory. */
typedef struct trp__proof_piece {
    uint64_t begin, end; /* offsets; a guard follows */
} trp__proof_piece;

/* An output and its expected numbers. */
typedef struct trp__proof_target {
    uint32_t operand;
    trp__proof_picks picks;
    double *expected;   /* of each picked element; then how far shifts move each */
    double scale;       /* root mean square of the finite ones */
    uint64_t at, bytes; /* in a snapshot, of the wider type */
    uint64_t elements;  /* in a snapshot */
    bool all;           /* the snapshot has the whole tensor */
} trp__proof_target;

/* A proof in progress. The data to compare is gathered on the device, into `gathered`: snapshots of
 * all outputs, then the guards of each round. One copy reads it at the end of a pass: reading each
 * piece by itself takes longer than running the plan. */
typedef struct trp__proof_bench {
    const trp__proof *proof;
    trp__proof_verdict *verdict;
    trp__cu_stream stream;
    trp__cu_address memory;
    bool waits;              /* allocated by cuMemAlloc, outside of the stream's pool */
    trp__proof_piece *piece; /* of each operand, of the workspace, of each output's reference */
    uint32_t pieces;
    void **at, **reference; /* addresses of operands, for the plan and for the reference */
    trp__proof_target *target;
    trp__proof_sample *sample;
    uint32_t targets;
    int snapshots; /* of outputs: one after each round, and those of the reference */
    trp__cu_address gathered;
    uint64_t snapshot_bytes, gathered_bytes;
    unsigned char *host; /* gathered_bytes */
    int64_t marked_ns;
} trp__proof_bench;

/* The type that the reference writes an output in. */
static inline uint8_t trp__proof_exact(const trp__proof_operand *o)
{
    return o->exact != TRP_DTYPE_NONE ? o->exact : o->type;
}

static inline const trp__proof_operand *trp__proof_operand_of(const trp__proof_bench *b,
                                                              uint32_t number)
{
    return &b->proof->operand[number];
}

/* The byte that fills guards, outputs and workspace before a round. A plan that depends on them
 * differs between the rounds: the first byte makes a NaN in every floating type, which survives a
 * multiplication by 0, the second a finite number. */
static inline unsigned char trp__proof_rubbish(int round)
{
    return round == 0 ? 0xff : 0x35;
}

/* --- prover_ends.c: all but the last return false, for the caller to pass on --- */

bool trp__proof_impossible(trp__proof_bench *b, const char *why);

/* Ends a proof after a failure: `otherwise`, unless the context is broken. */
bool trp__proof_failed(trp__proof_bench *b, trp__proof_result otherwise, const char *why);

/* Tells whether a driver call succeeded; ends the proof if not. */
bool trp__proof_called(trp__proof_bench *b, trp__cu_result result, const char *call);

/* Waits for the stream. A plan that does not end blocks the device, so the worker has to end: it
 * counts as a launch that timed out. */
bool trp__proof_wait(trp__proof_bench *b);

/* Adds the time since the last mark to a phase. */
void trp__proof_mark(trp__proof_bench *b, trp__proof_phase phase);

/* --- prover_results.c --- */

/* Computes the size of a snapshot and each target's place in it. */
void trp__proof_lay_out_snapshot(trp__proof_bench *b);

/* Enqueues the copies of a snapshot; from index TRP__PROOF_ROUNDS on they are the reference's. */
bool trp__proof_take_snapshot(trp__proof_bench *b, int number, void *const at[]);

/* Read b->host: take the reference's numbers, and compare a round with them. */
void trp__proof_take_expected(trp__proof_bench *b, uint32_t pass);
bool trp__proof_compare(trp__proof_bench *b, uint32_t pass, int round);

#endif
