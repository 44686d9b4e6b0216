/* Which words of a kernel's parameter follow from which arguments, so that the same problem with
 * other addresses or numbers needs no builder: their words are put where the builder would put
 * them. That is not read out of the builder's text but found out, from what it makes of arguments
 * in which these words are marks; and what it made of the arguments themselves has to be the same.
 * Where it does more with a word than copy it, a problem is built anew each time. */
#ifndef TRP_ACTORS_CUTLASS_RUN_REFIT_H
#define TRP_ACTORS_CUTLASS_RUN_REFIT_H

#include "actors/cutlass/templates/abi.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    TRP__REFIT_WORDS = sizeof(trp_cutlass_args) / 8, /* of arguments */
    TRP__REFIT_BUILDS = 3, /* of the arguments, and of both kinds of marks */
};

/* Some words of arguments. */
typedef struct trp__refit_set {
    uint64_t bits[(TRP__REFIT_WORDS + 63) / 64];
} trp__refit_set;

static inline void trp__refit_add(trp__refit_set *s, uint32_t word)
{
    s->bits[word / 64] |= UINT64_C(1) << word % 64;
}

static inline bool trp__refit_has(const trp__refit_set *s, uint32_t word)
{
    return s->bits[word / 64] >> word % 64 & 1;
}

/* Adds to the words that hold addresses those that hold numbers: of a tree's arguments those that
 * are where an address could be, and alpha and beta. */
void trp__refit_add_numbers(const trp_cutlass_args *args, trp__refit_set *words);

/* Arguments without what these words hold, but for whether they are 0, which a builder may ask. */
trp_cutlass_args trp__refit_shape(const trp_cutlass_args *args, const trp__refit_set *words);

/* Arguments with marks for those words that are not 0. `kind`: 0 or 1. */
trp_cutlass_args trp__refit_marked(const trp_cutlass_args *args, const trp__refit_set *words,
                                   uint32_t kind);

typedef struct trp__refit_place {
    uint16_t at;     /* byte of the parameter */
    uint8_t word;    /* of the arguments */
    uint8_t rounded; /* as f32, in four bytes; else the word itself */
} trp__refit_place;

enum { TRP__REFIT_PLACES = 192 };

typedef struct trp__refit {
    uint32_t bytes, count;
    trp__refit_place place[TRP__REFIT_PLACES];
    unsigned char data[TRP_CUTLASS_PARAMS_MAX]; /* of the parameter, tensor maps not encoded */
} trp__refit;

/* From the parameters that were built of the arguments and of both kinds of marks. False: they say
 * more than which words are copied where. */
bool trp__refit_learn(const trp_cutlass_args *args, const trp__refit_set *words,
                      const void *const built[TRP__REFIT_BUILDS], uint32_t bytes, trp__refit *out);

/* The parameter of arguments of the same shape. */
void trp__refit_apply(const trp__refit *r, const trp_cutlass_args *args, unsigned char *data);

#endif
