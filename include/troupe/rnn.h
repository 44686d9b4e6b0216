/* Recurrent networks: requests of the "dnn" actor for the network over all steps and layers,
 * forward and backward. cuDNN on GPUs; OpenBLAS and own loops on the host.
 *
 *     trp_rnn_request r = {
 *         .net = {.mode = TRP_RNN_LSTM, .type = TRP_F32, .input = 64, .hidden = 128},
 *         .steps = 50, .batch = 8, .x = {x}, .w = {w}, .y = {y},
 *     };
 *     trp_rnn_forward(dnn, &r, &done);
 *
 * Training stores intermediate results for the gradients in a buffer, the reserve, whose size
 * trp_rnn_reserve() gives.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_RNN_H
#define TROUPE_RNN_H

#include <troupe/submit.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRP_OP_RNN_FORWARD  UINT32_C(0x0702)
#define TRP_OP_RNN_BACKWARD UINT32_C(0x0703)
#define TRP_OP_RNN_RESERVE  UINT32_C(0x0704)

/* The cell: its input x, and h and c, the state after the step before. Matrices W are of x, R of h;
 * b and d are the biases of each. s() is 1 / (1 + exp(-)), * between vectors element by element. */
typedef enum trp_rnn_mode {
    TRP_RNN_RELU = 0, /* h' = max(0, W x + b + R h + d) */
    TRP_RNN_TANH = 1, /* h' = tanh(W x + b + R h + d) */
    /* i, f, o = s(W x + b + R h + d), g = tanh(W x + b + R h + d), each with matrices of its own;
     * c' = f * c + i * g, h' = o * tanh(c'); with a projection P of that: h' = P (o * tanh(c')). */
    TRP_RNN_LSTM = 2,
    /* r, z = s(W x + b + R h + d), n = tanh(W x + b + r * (R h + d)), h' = (1 - z) * n + z * h */
    TRP_RNN_GRU = 3,
} trp_rnn_mode;

/* A network. Its width is projection if that is not 0, else hidden; directions are 1, or 2 if it is
 * bidirectional.
 *
 * The weights are one array of `type`, the same on all backends: for each layer, for each direction
 * (forward, then backward)
 *
 *     w_ih  gates x hidden rows, with a column for each input of the layer: `input` in the first
 *           one, directions x width in the others
 *     w_hh  gates x hidden rows of `width` columns
 *     b_ih  gates x hidden   } unless no_bias
 *     b_hh  gates x hidden   }
 *     w_hr  width rows of `hidden` columns, with a projection
 *
 * row by row, one after the other without gaps. The order of gates is i, f, g, o in an LSTM, r, z,
 * n in a GRU. These are the parameters of PyTorch's nn.RNN, nn.LSTM and nn.GRU in their order:
 * torch.cat([p.flatten() for p in net.parameters()]). */
typedef struct trp_rnn {
    trp_rnn_mode mode;
    trp_dtype type;     /* f64, f32, f16 or bf16: of everything; the latter two compute in f32 */
    int64_t input;      /* elements of an input vector */
    int64_t hidden;     /* elements of a cell's state */
    int64_t projection; /* LSTM: elements of h', less than hidden; 0: no projection */
    int64_t layers;     /* 0: 1. From the second on, a layer reads what the one before it wrote */
    bool bidirectional; /* each layer twice, the second time from the last step to the first; y has
                         * both results side by side */
    bool no_bias;
    /* Training: an input of one layer from another is 0 with this probability, and else divided by
     * 1 - dropout; 0 to less than 1. The choice follows from the seed and the sizes: the same in
     * every run and in the backward pass, but another one on another backend. */
    double dropout;
    uint64_t seed;
} trp_rnn;

/* Where an array begins: a place in a buffer, in bytes, a multiple of 16. All zero: none. */
typedef struct trp_rnn_place {
    trp_buffer buffer;
    uint64_t offset;
} trp_rnn_place;

/* Arrays are packed, the last dimension fastest:
 *
 *     x, dx               steps x batch x input, or batch x steps x input if batch_first
 *     y, dy               likewise, with directions x width
 *     h0, h1, dh0, dh1    layers x directions x batch x width
 *     c0, c1, dc0, dc1    layers x directions x batch x hidden; LSTM only
 *     w, dw               the weights
 *     reserve             as many bytes as trp_rnn_reserve() returns; the offset is a multiple of
 *                         256. The rest of the buffer from there on belongs to it
 *
 * A sequence that is shorter than `steps` is in the first of them. The rest of x and dy is not
 * read, and the rest of y and dx is set to 0; h1 and c1 are the state after its last step, and the
 * backward direction begins there.
 *
 * Outputs overlap nothing else. */
typedef struct trp_rnn_request {
    trp_request header;
    trp_rnn net;
    int64_t steps, batch;
    bool batch_first;
    const int32_t *lengths; /* of each sequence, 1 to steps, at most 16384 of them; copied. NULL:
                             * all have all steps */
    bool tf32;              /* f32: inputs of products may be rounded to tf32 */
    bool training;          /* forward: writes the reserve, and drops out */
    /* Forward reads x, w, h0 and c0, and writes y, h1, c1 and, in training, the reserve. Without h0
     * or c0 the state is 0 before the first step; h1 and c1 may be left out. */
    trp_rnn_place x, w, h0, c0;
    trp_rnn_place y, h1, c1;
    trp_rnn_place reserve;
    /* Backward reads x, w, h0, c0, y and the reserve of a forward pass in training with the same
     * net, sizes and lengths, and the gradients dy, dh1 and dc1 of its results, of which those that
     * are left out are 0. It writes those of dx, dh0, dc0 and dw that are there; none is added to.
     */
    trp_rnn_place dy, dh1, dc1;
    trp_rnn_place dx, dh0, dc0, dw;
    uint64_t *reserve_bytes; /* trp_rnn_reserve() alone: filled when the request succeeds */
} trp_rnn_request;

/* Sets *count to the number of elements of a network's weights. TRP_E_ARGUMENT: not a valid
 * network. */
TRP_API trp_status trp_rnn_weight_count(const trp_rnn *net, uint64_t *count);

TRP_INLINE trp_status trp_rnn_submit(trp_actor *dnn, const trp_rnn_request *request, uint32_t op,
                                     trp_completion *completion)
{
    trp_rnn_request r = *request;
    r.header.op = op;
    r.header.size = (uint32_t)sizeof r;
    return trp_submit(dnn, &r.header, completion);
}

/* The network over all steps. TRP_E_ARGUMENT also when the request has ended: a reserve that is too
 * small.
 * Source: cudnnRNNForward. */
TRP_INLINE trp_status trp_rnn_forward(trp_actor *dnn, const trp_rnn_request *request,
                                      trp_completion *completion)
{
    return trp_rnn_submit(dnn, request, TRP_OP_RNN_FORWARD, completion);
}

/* All gradients that are asked for. The reserve is unchanged, so the pass may run again. Source:
 * cudnnRNNBackwardData_v8, cudnnRNNBackwardWeights_v8. */
TRP_INLINE trp_status trp_rnn_backward(trp_actor *dnn, const trp_rnn_request *request,
                                       trp_completion *completion)
{
    return trp_rnn_submit(dnn, request, TRP_OP_RNN_BACKWARD, completion);
}

/* How many bytes of reserve a forward pass of this net and these sizes needs, of this actor: it is
 * the library's own. Reads no buffer, and needs none.
 * Source: cudnnGetRNNTempSpaceSizes. */
TRP_INLINE trp_status trp_rnn_reserve(trp_actor *dnn, const trp_rnn_request *request,
                                      trp_completion *completion)
{
    return trp_rnn_submit(dnn, request, TRP_OP_RNN_RESERVE, completion);
}

#ifdef __cplusplus
}
#endif
#endif
