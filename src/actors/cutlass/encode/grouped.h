/* The steps of a grouped product on the sender's side. */
#ifndef TRP_ACTORS_CUTLASS_ENCODE_GROUPED_H
#define TRP_ACTORS_CUTLASS_ENCODE_GROUPED_H

#include "actors/cutlass/request/grouped.h"

/* The rest on a GPU: chooses a kernel, adds it and all operands as accesses, and writes the record.
 * There is a D. */
trp_status trp__cutlass_encode_groups(trp__grouped_encoding *m);

/* Finds out where all matrices and the table lie, and whether they are apart. */
trp_status trp__grouped_place(trp__grouped_encoding *m);

#endif
