/* Visits every state that a model can reach, and says what is wrong with it.
 *
 * A model is a state, a fixed number of bytes, and a function that offers every step that can be
 * taken from it. Visited are all states, breadth first, so a trace that leads to a broken one is as
 * short as can be. Afterwards every state is looked at again: from each, a final state must be in
 * reach by steps that the program takes itself (no help from the environment, such as a death). So
 * a deadlock, a lost wake-up, and a loop without a way out are all found.
 *
 * States are told apart by 128 bits of hash: for the tens of millions that fit into memory the
 * chance that two share one is below 10^-23. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_MODEL_EXPLORER_H
#define TESTS_MODEL_EXPLORER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct explorer explorer;

/* Who takes a step. */
typedef enum explorer_by {
    EXPLORER_PROGRAM,
    EXPLORER_ENVIRONMENT, /* it may happen, but nothing may rely on it */
} explorer_by;

typedef struct explorer_model {
    size_t state_bytes;
    const void *context; /* of all three */
    /* Offers every step from `state` by explorer_offer(). The same state, the same steps, in the
     * same order. */
    void (*steps)(const void *context, const void *state, explorer *e);
    /* What is wrong with a state; NULL if nothing. */
    const char *(*broken)(const void *context, const void *state);
    bool (*final)(const void *context, const void *state);
} explorer_model;

/* A step to `next`; the label is a format for two integers, kept by pointer. */
void explorer_offer(explorer *e, explorer_by by, const void *next, const char *label, int a, int b);

typedef struct explorer_result {
    const char *broken; /* NULL: nothing is */
    uint64_t states, steps;
    uint64_t final;    /* states */
    uint32_t depth;    /* of the longest shortest path */
    bool out_of_bound; /* there are more than max_states: nothing is proved */
} explorer_result;

/* Explores from `first`. Writes the trace to what is broken to `trace`, unless that is NULL. */
explorer_result explorer_run(const explorer_model *model, const void *first, uint64_t max_states,
                             FILE *trace);

#endif
