/* The sender's side of random numbers: checks a request and writes its record. */
#include "actors/random/law/counters.h"
#include "actors/random/parameters.h"
#include "actors/random/random.h"
#include "base/error.h"
#include "base/view.h"

#include <math.h>
#include <string.h>

_Static_assert(sizeof(trp__random) <= TRP__PAYLOAD_BYTES, "the payload fits into a record");
_Static_assert((int)TRP_RANDOM_RANK_MAX == (int)TRP__VIEW_RANK, "views have the ranks of requests");

enum { RANK = TRP_RANDOM_RANK_MAX, STATE_BYTES = 16 };

#define FAIL(...) trp__error_set(error, TRP_E_ARGUMENT, __VA_ARGS__)

/* y. */

static trp_status set_view(const trp_random_request *r, trp__view *y, trp_error *error)
{
    if (r->rank < 1 || r->rank > RANK)
        return FAIL("rank: expected 1 to %d, got %u", RANK, r->rank);
    *y = (trp__view){.name = "y",
                     .rank = (int)r->rank,
                     .size = trp_dtype_bits(r->y.type) / 8,
                     .offset = r->y.offset};
    trp_status status = trp__view_set_dims(y, r->y.dim, error);
    if (status == TRP_OK)
        status = trp__view_set_strides(y, r->y.stride, error);
    return status == TRP_OK ? trp__view_check_apart(y, error) : status;
}

/* Dimensions for the payload: places stay in their order. At least one. */
static void set_dims(const trp__view *y, trp__random *g)
{
    int rank = 0;
    for (int i = 0; i < y->rank; i++) {
        trp__random_dim *outer = &g->dim[rank - (rank > 0)];
        const trp__random_dim d = {.n = y->dim[i], .stride = y->stride[i]};
        if (d.n == 1)
            continue;
        if (rank > 0 && outer->stride == d.stride * d.n)
            *outer = (trp__random_dim){.n = outer->n * d.n, .stride = d.stride};
        else
            g->dim[rank++] = d;
    }
    if (rank == 0)
        g->dim[rank++] = (trp__random_dim){.n = 1, .stride = 1};
    g->rank = (uint8_t)rank;
}

/* Where numbers come from. */

static trp_status check_position(const trp_random_request *r, const trp__view *y,
                                 const trp__random *g, trp_error *error)
{
    const uint64_t begin = r->y.offset - (uint64_t)y->before;
    if (r->state.id == 0) {
        const uint64_t most = UINT64_MAX / g->words; /* the number of the last element */
        const uint64_t first = trp__random_first_element(r->offset, g->words);
        const uint64_t count = (uint64_t)y->elements;
        if (r->state_offset != 0)
            return FAIL("state_offset: expected 0 without a state, got %llu",
                        (unsigned long long)r->state_offset);
        if (count > 0 && (first > most || count - 1 > most - first))
            return FAIL("offset: expected at most 2^64 less %u words for each of %lld elements, "
                        "got %llu",
                        g->words, (long long)y->elements, (unsigned long long)r->offset);
        return TRP_OK;
    }
    if (r->seed != 0)
        return FAIL("seed: expected 0 with a state, got %llu", (unsigned long long)r->seed);
    if (r->state.id == r->y.buffer.id && r->state_offset < begin + (uint64_t)y->span &&
        begin < r->state_offset + STATE_BYTES)
        return FAIL("state: it overlaps y");
    return TRP_OK;
}

static trp_status add_accesses(const trp_random_request *r, const trp__view *y, trp__random *g,
                               trp__encoder *encoder)
{
    const bool covers = y->elements * y->size == y->span;
    trp_status status = TRP_OK;
    g->access_y = g->access_state = TRP__RANDOM_NO_ACCESS;
    g->y_first = y->before;
    if (y->elements == 0)
        return TRP_OK;
    if (r->state.id != 0) {
        g->access_state = (uint8_t)encoder->record->access_count;
        status = trp__encode_access(encoder, "state", r->state, r->state_offset, STATE_BYTES, 8,
                                    TRP__READ);
    }
    if (status != TRP_OK)
        return status;
    g->access_y = (uint8_t)encoder->record->access_count;
    return trp__encode_access(encoder, "y", r->y.buffer, r->y.offset - (uint64_t)y->before,
                              (uint64_t)y->span, 1, TRP__WRITE | (covers ? TRP__COVER : 0));
}

trp_status trp__random_encode(trp__encoder *encoder, const trp_request *request)
{
    const trp_random_request *r = (const trp_random_request *)request;
    trp__random g = {.seed = r->seed, .stream = r->stream, .offset = r->offset};
    trp__view y = {.name = "y"};
    trp_status status = trp__random_parameters(r, &g, encoder->error);
    if (status == TRP_OK)
        status = set_view(r, &y, encoder->error);
    if (status == TRP_OK)
        status = check_position(r, &y, &g, encoder->error);
    if (status != TRP_OK)
        return status;
    set_dims(&y, &g);
    status = add_accesses(r, &y, &g, encoder);
    memcpy(encoder->record->payload, &g, sizeof g);
    return status;
}

trp_status trp__random_encode_advance(trp__encoder *encoder, const trp_request *request)
{
    const trp_random_advance_request *r = (const trp_random_advance_request *)request;
    const trp__random_advance payload = {.words = r->words};
    const uint64_t from = r->from_offset, to = r->to_offset;
    const uint64_t apart = from < to ? to - from : from - to;
    const bool same = r->from.id == r->to.id;
    trp_error *error = encoder->error;
    if (same && apart > 0 && apart < STATE_BYTES)
        return FAIL("to: it overlaps from, and is not at its place");
    trp_status status = trp__encode_access(encoder, "from", r->from, from, STATE_BYTES, 8,
                                           same && apart == 0 ? TRP__READ | TRP__WRITE : TRP__READ);
    if (status == TRP_OK && (!same || apart > 0))
        status =
            trp__encode_access(encoder, "to", r->to, to, STATE_BYTES, 8, TRP__WRITE | TRP__COVER);
    memcpy(encoder->record->payload, &payload, sizeof payload);
    return status;
}
