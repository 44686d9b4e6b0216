/* The parameters of distributions, as the sender checks them. */
#ifndef TRP_ACTORS_RANDOM_PARAMETERS_H
#define TRP_ACTORS_RANDOM_PARAMETERS_H

#include "actors/random/law/random_wire.h"

/* Checks what of a request concerns its distribution, and the type of y, and writes it to `g`. */
trp_status trp__random_parameters(const trp_random_request *r, trp__random *g, trp_error *error);

#endif
