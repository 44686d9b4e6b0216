/* Shared by the files of proofs. */
#ifndef TRP_ACTORS_DNN_ENGINES_PROOF_PARTS_H
#define TRP_ACTORS_DNN_ENGINES_PROOF_PARTS_H

#include "actors/dnn/engines/proof.h"

enum { TRP__DNN_PROOF_NO_OPERAND = 0xffff };

/* A part as operands of a proof. */
typedef struct trp__dnn_problem {
    const trp__dnn_planner *planner;
    const trp__dnn_part *part;
    const trp__dnn_engine *engine;
    trp__kernel_modules *reference;
    trp__proof_operand operand[TRP__DNN_LOWERED_TENSORS + 1]; /* the last is memory for numbers */
    uint32_t operands;
    trp__dnn_graph exact; /* as the reference computes it: results of 16 bits are not rounded */
    trp__dnn_tensor exact_tensor[TRP__DNN_LOWERED_TENSORS];
    uint32_t passes, special;
    double tolerance; /* of sums */
    uint8_t sums;     /* the tensor whose errors outputs that are `shifted` follow */
    uint8_t shift;    /* a number of the exact graph: what is added to those sums */
    uint16_t operand_of[TRP__DNN_LOWERED_TENSORS];
    uint8_t tensor_of[TRP__DNN_LOWERED_TENSORS + 1];
    uint8_t place[TRP__DNN_LOWERED_TENSORS];
    unsigned char value[TRP__DNN_LOWERED_TENSORS][8]; /* in the library's format */
    double number[TRP__DNN_LOWERED_TENSORS];          /* for own kernels */
} trp__dnn_problem;

/* Describes the operands and chooses the numbers. */
void trp__dnn_problem_describe(trp__dnn_problem *p);

/* Returns how far a sum may be off in a pass. */
double trp__dnn_problem_shift(const trp__dnn_problem *p, uint32_t pass);

/* Runs the reference of a proof: the nodes of the part, each of which computes only what the
 * samples need. */
trp_status trp__dnn_problem_reference(void *problem, const trp__proof_place *place,
                                      const trp__proof_sample samples[], uint32_t count,
                                      trp_error *error);

/* Builds the key of a verdict, which the caller ends. Parts of different graphs that compute the
 * same have the same key. */
void trp__dnn_verdict_key(const trp__verdicts *v, const trp__dnn_part *part, const char *engine,
                          trp__key *key);

/* Most elements of a tensor that the reference computes selectively; beyond them it computes
 * all. */
enum { TRP__DNN_PROOF_NUMBERS = 1 << 16 };

#endif
