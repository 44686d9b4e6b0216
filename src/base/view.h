/* A strided tensor in a buffer, as a sender checks it. */
#ifndef TRP_BASE_VIEW_H
#define TRP_BASE_VIEW_H

#include "base/overlap.h"

#include <troupe/status.h>

#include <stdbool.h>

enum { TRP__VIEW_RANK = TRP__OVERLAP_RANK };

/* Elements of a tensor, and those from its first to its last one, are less than this. */
#define TRP__VIEW_ELEMENTS (INT64_C(1) << 48)

typedef struct trp__view {
    const char *name; /* of the argument, for messages */
    int rank;
    int64_t size;    /* bytes of an element */
    uint64_t offset; /* bytes in the buffer, of the element with all indices 0 */
    int64_t dim[TRP__VIEW_RANK], stride[TRP__VIEW_RANK]; /* stride: elements */
    int64_t elements;
    int64_t before, span; /* bytes: ahead of the element of index 0, and of all of it */
} trp__view;

/* All return TRP_OK or TRP_E_ARGUMENT with a message that begins with the field's name. */

/* Sets `dim` from a request's; those behind the rank must be 0. */
trp_status trp__view_set_dims(trp__view *view, const int64_t dim[TRP__VIEW_RANK], trp_error *error);

/* Sets what follows `dim` from a request's strides, whose default, all 0, is packed with the last
 * dimension fastest; checks the offset. */
trp_status trp__view_set_strides(trp__view *view, const int64_t stride[TRP__VIEW_RANK],
                                 trp_error *error);

/* Refuses strides that put two elements at one place. */
trp_status trp__view_check_apart(const trp__view *view, trp_error *error);

/* Without direction: strides are bytes, 0 or more, and the first element is that of the lowest
 * address. */
trp__strided trp__view_strided(const trp__view *view);

#endif
