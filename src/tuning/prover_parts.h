/* What the prover's files share. */
#ifndef TRP_TUNING_PROVER_PARTS_H
#define TRP_TUNING_PROVER_PARTS_H

#include "tuning/prover.h"

/* --- numbers.c --- */

/* Bytes of an element. */
size_t trp__proof_width(uint8_t type);

/* Fills `count` elements with numbers of a pass; the same for the same seed. False: no memory, or a
 * type that has no numbers. */
bool trp__proof_numbers(const trp__proof_operand *operand, uint32_t pass, uint32_t special,
                        uint64_t seed, void *out, size_t count);

/* An element, or several, as numbers. */
double trp__proof_number(uint8_t type, const void *element);
void trp__proof_read(uint8_t type, const void *elements, double *out, size_t count);

/* The largest finite number of a type, and the smallest normal one. */
double trp__proof_largest(uint8_t type);
double trp__proof_smallest(uint8_t type);

uint64_t trp__proof_random(uint64_t *state);

/* --- sample.c --- */

enum { TRP__PROOF_RUN = 64 /* elements of a run, at most */ };

/* Elements of a tensor that follow each other in memory order. */
typedef struct trp__proof_run {
    size_t first, count; /* of the sample */
    int64_t begin, end;  /* offsets: of the first, and one past the last */
    uint64_t at;         /* where they lie in a snapshot of the tensor, in bytes */
    bool whole;          /* with what lies between them */
    bool dense;          /* nothing does */
} trp__proof_run;

typedef struct trp__proof_picks {
    int64_t *number, *offset; /* of each element */
    size_t count;
    trp__proof_run *run;
    size_t runs;
} trp__proof_picks;

/* Elements of an operand, and one more than its largest offset. */
int64_t trp__proof_elements(const trp__proof_operand *operand);
int64_t trp__proof_extent(const trp__proof_operand *operand);

/* Chooses what is compared of an output. False: no memory. */
bool trp__proof_pick(const trp__proof_operand *operand, uint64_t seed, trp__proof_picks *out);
void trp__proof_drop_picks(trp__proof_picks *picks);

/* --- a proof at work --- */

enum {
    TRP__PROOF_GUARD = 4096, /* bytes between operands that no run may write */
    TRP__PROOF_ROUNDS = 2,   /* of each pass */
    TRP__PROOF_SNAPSHOTS,    /* of outputs: after each round, and of the reference */
};

/* One piece of the prover's memory. */
typedef struct trp__proof_piece {
    uint64_t begin, end; /* offsets; a guard follows */
} trp__proof_piece;

/* An output, as it should be. */
typedef struct trp__proof_target {
    uint32_t operand;
    trp__proof_picks picks;
    double *expected;   /* of each pick */
    double scale;       /* root mean square of the finite ones */
    uint64_t at, bytes; /* in a snapshot */
    bool all;           /* of the tensor is in it */
} trp__proof_target;

/* What is compared is gathered on the device, into `gathered`: snapshots of all outputs, then the
 * guards of each round. It is read at once, when a pass is over: to read each piece of each output
 * by itself takes longer than to run the plan. */
typedef struct trp__proof_bench {
    const trp__proof *proof;
    trp__proof_verdict *verdict;
    trp__cu_stream stream;
    trp__cu_address memory;
    trp__proof_piece *piece; /* of each operand, of the workspace, of each output's reference */
    uint32_t pieces;
    void **at, **reference; /* addresses of operands, for the plan and for the reference */
    trp__proof_target *target;
    trp__proof_sample *sample;
    uint32_t targets;
    trp__cu_address gathered;
    uint64_t snapshot_bytes, gathered_bytes;
    unsigned char *host; /* gathered_bytes */
    int64_t marked_ns;
} trp__proof_bench;

static inline const trp__proof_operand *trp__proof_operand_of(const trp__proof_bench *b,
                                                              uint32_t number)
{
    return &b->proof->operand[number];
}

/* The bytes of guards, outputs and workspace before a round. A plan must not depend on them: it
 * would differ between the rounds, for the first is NaN in every type of float, which 0 times what
 * was read keeps, and the other is a finite number. */
static inline unsigned char trp__proof_rubbish(int round)
{
    return round == 0 ? 0xff : 0x35;
}

/* --- prover_ends.c: all but the last return false, for the caller to pass on --- */

bool trp__proof_impossible(trp__proof_bench *b, const char *why);

/* Something failed: whether it has broken the context decides. */
bool trp__proof_failed(trp__proof_bench *b, trp__proof_result otherwise, const char *why);

/* Whether a call of the driver succeeded. */
bool trp__proof_called(trp__proof_bench *b, trp__cu_result result, const char *call);

/* Waits for the stream. A plan that does not end leaves the device to nobody, so that the worker
 * has to end: it counts as a launch that timed out. */
bool trp__proof_wait(trp__proof_bench *b);

/* What was done since the last mark was this. */
void trp__proof_mark(trp__proof_bench *b, trp__proof_phase phase);

/* --- prover_results.c --- */

/* Lays out a snapshot: its bytes, and where in it each target is. */
void trp__proof_lay_out_snapshot(trp__proof_bench *b);

/* Enqueues the copies of a snapshot; number TRP__PROOF_ROUNDS is the reference's. */
bool trp__proof_take_snapshot(trp__proof_bench *b, int number, void *const at[]);

/* What was gathered is in b->host. */
void trp__proof_take_expected(trp__proof_bench *b, uint32_t pass);
bool trp__proof_compare(trp__proof_bench *b, uint32_t pass, int round);

#endif
