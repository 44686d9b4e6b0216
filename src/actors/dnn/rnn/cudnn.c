#include "actors/dnn/rnn/cudnn.h"

#include "base/error.h"

#include <stdlib.h>

#define CHECK(d, call, error) trp__cudnn_check((d)->lib, (d)->lib->call, #call, error)

static int data_type_of(const trp__rnn *n)
{
    switch (n->type) {
    case TRP_F64:
        return TRP__CUDNN_DATA_DOUBLE;
    case TRP_F32:
        return TRP__CUDNN_DATA_FLOAT;
    case TRP_F16:
        return TRP__CUDNN_DATA_HALF;
    default:
        return TRP__CUDNN_DATA_BFLOAT16;
    }
}

trp_status trp__rnn_cudnn_describe(const trp__rnn_cudnn *d, const trp__rnn *n,
                                   trp__cudnn_dropout dropout, trp_error *error)
{
    static const int modes[] = {[TRP_RNN_RELU] = TRP__CUDNN_RNN_RELU,
                                [TRP_RNN_TANH] = TRP__CUDNN_RNN_TANH,
                                [TRP_RNN_LSTM] = TRP__CUDNN_LSTM,
                                [TRP_RNN_GRU] = TRP__CUDNN_GRU};
    const bool narrow = n->type == TRP_F16 || n->type == TRP_BF16;
    /* The default computes f32 as tf32. */
    const int math = narrow                           ? TRP__CUDNN_TENSOR_OP_MATH
                     : n->type == TRP_F32 && !n->tf32 ? TRP__CUDNN_FMA_MATH
                                                      : TRP__CUDNN_DEFAULT_MATH;
    trp__cudnn_status result = d->lib->cudnnSetRNNDescriptor_v8(
        d->rnn, d->algorithm, modes[n->mode],
        n->bias ? TRP__CUDNN_RNN_DOUBLE_BIAS : TRP__CUDNN_RNN_NO_BIAS,
        n->directions == 2 ? TRP__CUDNN_BIDIRECTIONAL : TRP__CUDNN_UNIDIRECTIONAL,
        TRP__CUDNN_LINEAR_INPUT, data_type_of(n), narrow ? TRP__CUDNN_DATA_FLOAT : data_type_of(n),
        math, n->input, n->hidden, n->width, n->layers, dropout, TRP__CUDNN_RNN_PADDED_IO_ENABLED);
    return trp__cudnn_check(d->lib, result, "cudnnSetRNNDescriptor_v8", error);
}

/* Describes x or y as vectors of `elements` elements. Data after the end of a sequence becomes
 * 0. */
static trp_status describe_vectors(const trp__rnn_cudnn *d, const trp__rnn *n, int64_t elements,
                                   const int *lengths, trp__cudnn_rnn_data data, trp_error *error)
{
    double zero = 0; /* zero in any type */
    trp__cudnn_status result = d->lib->cudnnSetRNNDataDescriptor(
        data, data_type_of(n),
        n->batch_first ? TRP__CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED
                       : TRP__CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
        n->steps, n->batch, (int)elements, lengths, &zero);
    return trp__cudnn_check(d->lib, result, "cudnnSetRNNDataDescriptor", error);
}

static trp_status describe_states(const trp__rnn_cudnn *d, const trp__rnn *n, int elements,
                                  trp__cudnn_tensor tensor, trp_error *error)
{
    const int dims[] = {n->layers * n->directions, n->batch, elements};
    const int strides[] = {n->batch * elements, elements, 1};
    return CHECK(d, cudnnSetTensorNdDescriptor(tensor, data_type_of(n), 3, dims, strides), error);
}

static trp_status create_all(trp__rnn_cudnn *d, const trp__rnn *n, trp_error *error)
{
    trp_status status = CHECK(d, cudnnCreateRNNDescriptor(&d->rnn), error);
    if (status == TRP_OK)
        status = CHECK(d, cudnnCreateRNNDataDescriptor(&d->x), error);
    if (status == TRP_OK)
        status = CHECK(d, cudnnCreateRNNDataDescriptor(&d->y), error);
    if (status == TRP_OK)
        status = CHECK(d, cudnnCreateTensorDescriptor(&d->h), error);
    if (status == TRP_OK && n->mode == TRP_RNN_LSTM)
        status = CHECK(d, cudnnCreateTensorDescriptor(&d->c), error);
    return status;
}

/* Chooses the algorithm. A step takes several launches, which for small batches take longer than
 * their work. Persistent kernels run for all steps with the weights in registers, so there must be
 * enough processors. On an H200 they speed up an LSTM's forward pass, but not GRU's and not
 * gradients. The bounds are PyTorch's, excluding 8.6 as there. */
trp__cudnn_rnn_algo trp__rnn_cudnn_algorithm(const trp__rnn *n, int capability, int processors)
{
    enum { WIDTH_MOST = 1024, WIDTH_STEP = 128, BATCH_MOST = 128, BATCH_STEP = 8, PROCESSORS = 98 };
    const bool one = n->layers == 1 && n->directions == 1 && n->width == n->hidden && !n->lengths;
    const bool fits = n->hidden <= WIDTH_MOST && n->hidden % WIDTH_STEP == 0 &&
                      n->input % WIDTH_STEP == 0 && n->batch <= BATCH_MOST &&
                      n->batch % BATCH_STEP == 0;
    const bool device = capability >= 80 && capability != 86 && processors >= PROCESSORS;
    return n->mode == TRP_RNN_LSTM && n->type == TRP_F16 && !n->training && one && fits && device
               ? TRP__CUDNN_RNN_ALGO_PERSIST_STATIC
               : TRP__CUDNN_RNN_ALGO_STANDARD;
}

trp_status trp__rnn_cudnn_make(const trp__cudnn *lib, const trp__rnn *n,
                               trp__cudnn_rnn_algo algorithm, const int32_t *length,
                               trp__cudnn_dropout dropout, trp__rnn_cudnn *out, trp_error *error)
{
    int *lengths = malloc((size_t)n->batch * sizeof *lengths);
    *out = (trp__rnn_cudnn){.lib = lib, .algorithm = algorithm};
    if (!lengths)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for %d lengths", n->batch);
    for (int32_t b = 0; b < n->batch; b++)
        lengths[b] = length ? length[b] : n->steps;
    trp_status status = create_all(out, n, error);
    if (status == TRP_OK)
        status = trp__rnn_cudnn_describe(out, n, dropout, error);
    if (status == TRP_OK)
        status = describe_vectors(out, n, n->input, lengths, out->x, error);
    if (status == TRP_OK)
        status =
            describe_vectors(out, n, (int64_t)n->directions * n->width, lengths, out->y, error);
    if (status == TRP_OK)
        status = describe_states(out, n, n->width, out->h, error);
    if (status == TRP_OK && out->c)
        status = describe_states(out, n, n->hidden, out->c, error);
    free(lengths);
    if (status != TRP_OK)
        trp__rnn_cudnn_drop(out);
    return status;
}

void trp__rnn_cudnn_drop(trp__rnn_cudnn *d)
{
    if (d->rnn)
        d->lib->cudnnDestroyRNNDescriptor(d->rnn);
    if (d->x)
        d->lib->cudnnDestroyRNNDataDescriptor(d->x);
    if (d->y)
        d->lib->cudnnDestroyRNNDataDescriptor(d->y);
    if (d->h)
        d->lib->cudnnDestroyTensorDescriptor(d->h);
    if (d->c)
        d->lib->cudnnDestroyTensorDescriptor(d->c);
    *d = (trp__rnn_cudnn){.lib = d->lib};
}

/* An iteration over all weights in Troupe's order. */
typedef struct walk {
    const trp__rnn_cudnn *d;
    trp__cudnn_handle handle;
    const trp__rnn *n;
    uint64_t bytes; /* size of the library's weights */
    trp__cudnn_tensor matrix, bias;
    trp__rnn_stretch piece; /* the piece not reported yet */
    trp_status (*visit)(void *context, const trp__rnn_stretch *piece, trp_error *error);
    void *context;
    trp_error *error;
} walk;

static trp_status show(walk *w)
{
    trp_status status = w->piece.bytes ? w->visit(w->context, &w->piece, w->error) : TRP_OK;
    w->piece.bytes = 0;
    return status;
}

static trp_status add(walk *w, const trp__rnn_stretch *piece)
{
    trp__rnn_stretch *last = &w->piece;
    if (piece->theirs > w->bytes || piece->bytes > w->bytes - piece->theirs)
        return trp__error_set(w->error, TRP_E_INTERNAL,
                              "cuDNN has weights at %llu of %llu bytes that it asked for",
                              (unsigned long long)piece->theirs, (unsigned long long)w->bytes);
    if (last->bytes && last->ours + last->bytes == piece->ours &&
        last->theirs + last->bytes == piece->theirs) {
        last->bytes += piece->bytes;
        return TRP_OK;
    }
    trp_status status = show(w);
    w->piece = *piece;
    return status;
}

/* Finds a gate's matrix and bias. The library numbers gates: those of W first, then those of R,
 * then a projection. It returns addresses, for which any base is valid. */
static trp_status find(walk *w, int layer, int part, int gate, uint64_t *at)
{
    static char beginning[16];
    const int gates = trp__rnn_gates(w->n);
    const bool recurrent = part == TRP__RNN_W_HH || part == TRP__RNN_B_HH;
    const int which = part == TRP__RNN_W_HR ? 2 * gates : recurrent ? gates + gate : gate;
    void *matrix = NULL, *bias = NULL;
    trp__cudnn_status result =
        w->d->lib->cudnnGetRNNWeightParams(w->handle, w->d->rnn, layer, (size_t)w->bytes, beginning,
                                           which, w->matrix, &matrix, w->bias, &bias);
    trp_status status = trp__cudnn_check(w->d->lib, result, "cudnnGetRNNWeightParams", w->error);
    const bool is_bias = part == TRP__RNN_B_IH || part == TRP__RNN_B_HH;
    const void *found = is_bias ? bias : matrix;
    if (status == TRP_OK && !found)
        status = trp__error_set(w->error, TRP_E_INTERNAL, "cuDNN has no weights %d of layer %d",
                                which, layer);
    *at = (uint64_t)((uintptr_t)found - (uintptr_t)beginning);
    return status;
}

static trp_status add_part(walk *w, int layer, int part, const trp__rnn_part *p)
{
    const uint64_t size = trp_dtype_bits((trp_dtype)w->n->type) / 8;
    const int gates = part == TRP__RNN_W_HR ? 1 : trp__rnn_gates(w->n);
    const uint64_t bytes = (uint64_t)(p->rows / gates * p->columns) * size;
    trp_status status = TRP_OK;
    for (int gate = 0; gate < gates && p->rows > 0 && status == TRP_OK; gate++) {
        trp__rnn_stretch piece = {.ours = p->first * size + (uint64_t)gate * bytes, .bytes = bytes};
        status = find(w, layer, part, gate, &piece.theirs);
        if (status == TRP_OK)
            status = add(w, &piece);
    }
    return status;
}

trp_status trp__rnn_cudnn_pieces(const trp__rnn_cudnn *d, trp__cudnn_handle handle,
                                 const trp__rnn *n, uint64_t bytes,
                                 trp_status (*visit)(void *context, const trp__rnn_stretch *piece,
                                                     trp_error *error),
                                 void *context, trp_error *error)
{
    walk w = {.d = d,
              .handle = handle,
              .n = n,
              .bytes = bytes,
              .visit = visit,
              .context = context,
              .error = error};
    trp_status status = CHECK(d, cudnnCreateTensorDescriptor(&w.matrix), error);
    if (status == TRP_OK)
        status = CHECK(d, cudnnCreateTensorDescriptor(&w.bias), error);
    for (int32_t i = 0; i < n->layers * n->directions && status == TRP_OK; i++) {
        trp__rnn_part parts[TRP__RNN_WEIGHT_PARTS];
        trp__rnn_parts(n, i / n->directions, i % n->directions, parts);
        for (int k = 0; k < TRP__RNN_WEIGHT_PARTS && status == TRP_OK; k++)
            status = add_part(&w, i, k, &parts[k]);
    }
    if (status == TRP_OK)
        status = show(&w);
    if (w.matrix)
        d->lib->cudnnDestroyTensorDescriptor(w.matrix);
    if (w.bias)
        d->lib->cudnnDestroyTensorDescriptor(w.bias);
    return status;
}
