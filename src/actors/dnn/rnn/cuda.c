#include "actors/dnn/rnn/cuda.h"

#include "actors/dnn/rnn/cudnn.h"
#include "base/error.h"

#include <string.h>

#define CHECK(site, call, error) trp__cudnn_check((site)->lib, (site)->lib->call, #call, error)

enum { ALIGNMENT = 256 };

/* The areas of a request's scratch memory. */
enum { STATES, WEIGHTS, GRADIENTS, WORKSPACE, RESERVE, DY, DX, AREAS };

typedef struct request {
    const trp__rnn_site *site;
    trp__rnn n;
    bool backward;
    const int32_t *length; /* NULL: all sequences have all steps */
    void *at[TRP__RNN_PLACE_COUNT];
    uint64_t reserve_room;
    trp__cudnn_dropout dropout;
    trp__rnn_cudnn d;
    size_t states, weights, workspace, reserve; /* bytes */
    bool same;                                  /* weights have the library's layout */
    char *area[AREAS];
    uint64_t size[AREAS];
} request;

/* Creates the dropout descriptor. Without `begin` its states are not initialised: the library only
 * validates their size before they are used. */
static trp_status make_dropout(request *r, void *states, bool begin, trp_error *error)
{
    const trp__rnn_site *site = r->site;
    trp_status status = TRP_OK;
    if (!r->dropout)
        status = CHECK(site, cudnnCreateDropoutDescriptor(&r->dropout), error);
    if (status == TRP_OK && r->n.dropout > 0)
        status = CHECK(site, cudnnDropoutGetStatesSize(site->handle, &r->states), error);
    if (status != TRP_OK)
        return status;
    const float probability = (float)r->n.dropout;
    if (begin || probability <= 0)
        return CHECK(site,
                     cudnnSetDropoutDescriptor(r->dropout, site->handle, probability, states,
                                               r->states, r->n.seed),
                     error);
    return CHECK(site,
                 cudnnRestoreDropoutDescriptor(r->dropout, site->handle, probability, states,
                                               r->states, r->n.seed),
                 error);
}

static trp_status see_piece(void *context, const trp__rnn_stretch *piece, trp_error *error)
{
    request *r = context;
    (void)error;
    r->same = r->same && piece->ours == piece->theirs;
    return TRP_OK;
}

static trp_status find_sizes(request *r, trp_error *error)
{
    const trp__rnn_site *site = r->site;
    const int mode = r->n.training ? TRP__CUDNN_FWD_MODE_TRAINING : TRP__CUDNN_FWD_MODE_INFERENCE;
    trp_status status =
        CHECK(site, cudnnGetRNNWeightSpaceSize(site->handle, r->d.rnn, &r->weights), error);
    if (status == TRP_OK)
        status = CHECK(site,
                       cudnnGetRNNTempSpaceSizes(site->handle, r->d.rnn, mode, r->d.x,
                                                 &r->workspace, &r->reserve),
                       error);
    if (!r->n.training)
        r->reserve = 0;
    r->same = r->weights == trp__rnn_weights(&r->n) * (trp_dtype_bits((trp_dtype)r->n.type) / 8);
    if (status == TRP_OK)
        status = trp__rnn_cudnn_pieces(&r->d, site->handle, &r->n, r->weights, see_piece, r, error);
    return status;
}

static uint64_t place_bytes(const request *r, int place)
{
    return trp__rnn_place_elements(&r->n, place) * (trp_dtype_bits((trp_dtype)r->n.type) / 8);
}

/* Assigns the areas. The backward pass works on a copy of the reserve, which it may change, and
 * unwanted gradients are written to scratch memory. */
static trp_status find_areas(request *r, trp_error *error)
{
    const bool back = r->backward;
    const uint64_t size[AREAS] = {
        [STATES] = r->states,
        [WEIGHTS] = r->same ? 0 : r->weights,
        [GRADIENTS] = back && !r->same && r->at[TRP__RNN_dw] ? r->weights : 0,
        [WORKSPACE] = r->workspace,
        [RESERVE] = back ? r->reserve : 0,
        [DY] = back && !r->at[TRP__RNN_dy] ? place_bytes(r, TRP__RNN_dy) : 0,
        [DX] = back && !r->at[TRP__RNN_dx] ? place_bytes(r, TRP__RNN_dx) : 0};
    uint64_t total = 0;
    char *next;
    for (int i = 0; i < AREAS; i++)
        total += (size[i] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    trp_status status =
        trp__scratch_have(r->site->instance, r->site->cu, r->site->scratch, total, &next, error);
    for (int i = 0; i < AREAS && status == TRP_OK; i++) {
        r->area[i] = size[i] ? next : NULL;
        next += (size[i] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    memcpy(r->size, size, sizeof size);
    return status;
}

static trp_status copy(const request *r, void *to, const void *from, uint64_t bytes,
                       trp_error *error)
{
    return r->site->instance->services->copy(r->site->instance, to, from, bytes, error);
}

static trp_status zero(const request *r, void *to, uint64_t bytes, trp_error *error)
{
    return r->site->instance->services->fill(r->site->instance, to, 0, 1, bytes, error);
}

static trp_status copy_in(void *context, const trp__rnn_stretch *piece, trp_error *error)
{
    const request *r = context;
    return copy(r, r->area[WEIGHTS] + piece->theirs, (char *)r->at[TRP__RNN_w] + piece->ours,
                piece->bytes, error);
}

static trp_status copy_out(void *context, const trp__rnn_stretch *piece, trp_error *error)
{
    const request *r = context;
    return copy(r, (char *)r->at[TRP__RNN_dw] + piece->ours, r->area[GRADIENTS] + piece->theirs,
                piece->bytes, error);
}

static trp_status move_weights(request *r,
                               trp_status (*visit)(void *, const trp__rnn_stretch *, trp_error *),
                               trp_error *error)
{
    if (r->same)
        return TRP_OK;
    return trp__rnn_cudnn_pieces(&r->d, r->site->handle, &r->n, r->weights, visit, r, error);
}

static const void *weights_of(const request *r)
{
    return r->same ? r->at[TRP__RNN_w] : r->area[WEIGHTS];
}

/* Starts the work. Dropout is initialised in each pass, so that equal requests have equal
 * results. */
static trp_status begin_work(request *r, trp_error *error)
{
    trp_status status = TRP_OK;
    if (r->n.dropout > 0) {
        status = make_dropout(r, r->area[STATES], true, error);
        if (status == TRP_OK)
            status = trp__rnn_cudnn_describe(&r->d, &r->n, r->dropout, error);
    }
    return status == TRP_OK ? move_weights(r, copy_in, error) : status;
}

static trp_status run_forward(request *r, trp_error *error)
{
    const trp__rnn_site *site = r->site;
    const trp__rnn_cudnn *d = &r->d;
    void *const *at = r->at;
    trp__cudnn_status result = site->lib->cudnnRNNForward(
        site->handle, d->rnn,
        r->n.training ? TRP__CUDNN_FWD_MODE_TRAINING : TRP__CUDNN_FWD_MODE_INFERENCE, NULL, d->x,
        at[TRP__RNN_x], d->y, at[TRP__RNN_y], d->h, at[TRP__RNN_h0], at[TRP__RNN_h1], d->c,
        at[TRP__RNN_c0], at[TRP__RNN_c1], r->weights, weights_of(r), r->workspace,
        r->area[WORKSPACE], r->reserve, at[TRP__RNN_reserve]);
    return trp__cudnn_check(site->lib, result, "cudnnRNNForward", error);
}

/* Zeroes dx after the ends of sequences, in pieces without gaps. */
static trp_status zero_ends(const request *r, trp_error *error)
{
    const trp__rnn *n = &r->n;
    const uint64_t vector = place_bytes(r, TRP__RNN_dx) / ((uint64_t)n->steps * (uint64_t)n->batch);
    const int64_t vectors = (int64_t)n->steps * n->batch;
    trp_status status = TRP_OK;
    int64_t first = 0;
    if (!r->length || !r->at[TRP__RNN_dx])
        return TRP_OK;
    for (int64_t i = 0; i <= vectors && status == TRP_OK; i++) {
        const int64_t b = n->batch_first ? i / n->steps : i % n->batch;
        const int64_t step = n->batch_first ? i % n->steps : i / n->batch;
        if (i < vectors && step >= r->length[b])
            continue;
        if (i > first)
            status = zero(r, (char *)r->at[TRP__RNN_dx] + (uint64_t)first * vector,
                          (uint64_t)(i - first) * vector, error);
        first = i + 1;
    }
    return status;
}

static trp_status run_data(request *r, trp_error *error)
{
    const trp__rnn_site *site = r->site;
    const trp__rnn_cudnn *d = &r->d;
    void *const *at = r->at;
    trp__cudnn_status result = site->lib->cudnnRNNBackwardData_v8(
        site->handle, d->rnn, NULL, d->y, at[TRP__RNN_y],
        at[TRP__RNN_dy] ? at[TRP__RNN_dy] : r->area[DY], d->x,
        at[TRP__RNN_dx] ? at[TRP__RNN_dx] : r->area[DX], d->h, at[TRP__RNN_h0], at[TRP__RNN_dh1],
        at[TRP__RNN_dh0], d->c, at[TRP__RNN_c0], at[TRP__RNN_dc1], at[TRP__RNN_dc0], r->weights,
        weights_of(r), r->workspace, r->area[WORKSPACE], r->reserve, r->area[RESERVE]);
    trp_status status = trp__cudnn_check(site->lib, result, "cudnnRNNBackwardData_v8", error);
    return status == TRP_OK ? zero_ends(r, error) : status;
}

/* Runs the gradients of weights, to which the library adds. It needs what the pass for the data
 * leaves in the reserve and the workspace. */
static trp_status run_weights(request *r, trp_error *error)
{
    const trp__rnn_site *site = r->site;
    const trp__rnn_cudnn *d = &r->d;
    void *const *at = r->at;
    void *dw = r->same ? at[TRP__RNN_dw] : r->area[GRADIENTS];
    trp_status status = zero(r, dw, r->weights, error);
    if (status != TRP_OK)
        return status;
    trp__cudnn_status result = site->lib->cudnnRNNBackwardWeights_v8(
        site->handle, d->rnn, TRP__CUDNN_WGRAD_MODE_ADD, NULL, d->x, at[TRP__RNN_x], d->h,
        at[TRP__RNN_h0], d->y, at[TRP__RNN_y], r->weights, dw, r->workspace, r->area[WORKSPACE],
        r->reserve, r->area[RESERVE]);
    status = trp__cudnn_check(site->lib, result, "cudnnRNNBackwardWeights_v8", error);
    return status == TRP_OK ? move_weights(r, copy_out, error) : status;
}

static trp_status run_backward(request *r, trp_error *error)
{
    trp_status status = copy(r, r->area[RESERVE], r->at[TRP__RNN_reserve], r->reserve, error);
    if (status == TRP_OK && r->area[DY])
        status = zero(r, r->area[DY], r->size[DY], error);
    if (status == TRP_OK)
        status = run_data(r, error);
    if (status == TRP_OK && r->at[TRP__RNN_dw])
        status = run_weights(r, error);
    return status;
}

static trp_status answer(const request *r, const trp_job *job, trp_error *error)
{
    const uint64_t bytes = r->reserve;
    void *at;
    trp_status status = trp__rnn_piece(job, sizeof bytes, &at, error);
    if (status == TRP_OK)
        memcpy(at, &bytes, sizeof bytes);
    return status;
}

static trp_status find_places(request *r, const trp_job *job, trp_error *error)
{
    trp_status status = TRP_OK;
    uint64_t bytes;
    if (r->n.lengths) {
        void *at;
        status = trp__rnn_piece(job, (uint64_t)r->n.batch * sizeof *r->length, &at, error);
        r->length = status == TRP_OK ? at : NULL;
    }
    for (int i = 0; i < TRP__RNN_PLACE_COUNT && status == TRP_OK; i++) {
        status = trp__rnn_place(&r->n, job, i, &r->at[i], &bytes, error);
        if (i == TRP__RNN_reserve)
            r->reserve_room = bytes;
    }
    return status;
}

static trp_status work(request *r, trp_error *error)
{
    if (r->n.training && r->reserve_room < r->reserve)
        return trp__error_set(error, TRP_E_ARGUMENT,
                              "reserve: expected %zu bytes or more, got %llu", r->reserve,
                              (unsigned long long)r->reserve_room);
    trp_status status = find_areas(r, error);
    if (status == TRP_OK)
        status = begin_work(r, error);
    if (status == TRP_OK)
        status = r->backward ? run_backward(r, error) : run_forward(r, error);
    return status;
}

static trp_status handle_by(request *r, trp__cudnn_rnn_algo algorithm, const trp_job *job,
                            trp_error *error)
{
    trp_status status =
        trp__rnn_cudnn_make(r->site->lib, &r->n, algorithm, r->length, r->dropout, &r->d, error);
    if (status == TRP_OK)
        status = find_sizes(r, error);
    if (status == TRP_OK)
        status = job->op == TRP_OP_RNN_RESERVE ? answer(r, job, error) : work(r, error);
    if (r->d.lib)
        trp__rnn_cudnn_drop(&r->d);
    return status;
}

trp_status trp__rnn_cuda_handle(const trp__rnn_site *site, const trp_job *job, trp_error *error)
{
    static char somewhere[ALIGNMENT]; /* unused states */
    request r = {.site = site, .backward = job->op == TRP_OP_RNN_BACKWARD};
    memcpy(&r.n, job->payload, sizeof r.n);
    trp_status status = find_places(&r, job, error);
    if (status == TRP_OK)
        status = make_dropout(&r, r.n.dropout > 0 ? somewhere : NULL, false, error);
    const trp__cudnn_rnn_algo first =
        trp__rnn_cudnn_algorithm(&r.n, site->capability, site->processors);
    if (status == TRP_OK)
        status = handle_by(&r, first, job, error);
    if (status == TRP_E_UNSUPPORTED && first != TRP__CUDNN_RNN_ALGO_STANDARD)
        status = handle_by(&r, TRP__CUDNN_RNN_ALGO_STANDARD, job, error);
    if (r.dropout)
        site->lib->cudnnDestroyDropoutDescriptor(r.dropout);
    return status;
}
