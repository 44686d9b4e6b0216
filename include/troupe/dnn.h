/* The "dnn" actor: convolutions and the operations around them, as graphs that run as one request.
 * cuDNN's graph API on GPUs; oneDNN and own loops on the host.
 *
 * A graph is two arrays: tensors, and nodes that read and write them. tensors[0] stands for "none"
 * and must be all zero. A node comes after the nodes whose results it reads.
 *
 *     enum { NONE, X, W, CONV, BIAS, SUM, Y, COUNT };
 *     const trp_dnn_tensor tensors[COUNT] = {
 *         [X] = {.type = TRP_BF16, .rank = 4, .dim = {n, c, h, w}, .buffer = x},
 *         [W] = {.type = TRP_BF16, .rank = 4, .dim = {k, c, 3, 3}, .buffer = filters},
 *         [BIAS] = {.type = TRP_BF16, .rank = 4, .dim = {1, k, 1, 1}, .buffer = bias},
 *         [Y] = {.type = TRP_BF16, .rank = 4, .dim = {n, k, h, w}, .buffer = y},
 *     };
 *     const trp_dnn_node nodes[] = {
 *         {.kind = TRP_DNN_CONV_FORWARD, .x = X, .w = W, .y = CONV, .pre_pad = {1, 1},
 *          .post_pad = {1, 1}},
 *         {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_ADD, .x = CONV, .b = BIAS, .y = SUM},
 *         {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_RELU, .x = SUM, .y = Y},
 *     };
 *
 * CONV and SUM are left all zero here: results that only later nodes read.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_DNN_H
#define TROUPE_DNN_H

#include <troupe/matmul.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRP_OP_DNN_GRAPH UINT32_C(0x0701)

enum {
    TRP_DNN_RANK_MAX = 8,
    TRP_DNN_SPATIAL_MAX = 3,
    TRP_DNN_TENSORS_MAX = 64, /* tensors[0] included */
    TRP_DNN_NODES_MAX = 32,
    TRP_DNN_BUFFERS_MAX = 15, /* tensors with a buffer */
    TRP_DNN_PARAMETERS = 3,
    TRP_DNN_PARTS_MAX = 8,
};

/* One of four: something in memory, if it has a buffer; a number, if it has a value; an array of
 * the sender's, if it has data; else virtual, an intermediate result that lies nowhere the sender
 * can see, written by one node and read by later ones.
 *
 * Dimensions are in cuDNN's order: n, c, then spatial ones; of filters k, c / groups, then spatial
 * ones; of matrices any number of batches, then rows and columns. Strides may be any that put no
 * two elements of an output into one place; what is only read may have strides of 0. */
typedef struct trp_dnn_tensor {
    trp_dtype type; /* f64, f32, f16, bf16, f8e4m3, f8e5m2, i8, u8, i32 or bool; seeds, their
                     * offsets and indices i64, scales of blocks f8e8m0 too. Default of virtual
                     * tensors and of values: what the node computes in */
    uint32_t rank;  /* 1 to TRP_DNN_RANK_MAX; of convolutions and resampling 2 + the number of
                     * spatial dimensions. Virtual tensors: 0, and no dimensions: those that follow
                     * from the node that writes it, if they do; values: 0, one element */
    int64_t dim[TRP_DNN_RANK_MAX];
    int64_t stride[TRP_DNN_RANK_MAX]; /* elements. All 0: packed, the last dimension fastest; see
                                       * also trp_dnn_channels_last() */
    trp_buffer buffer;                /* the caller keeps it until the request has ended */
    uint64_t offset;                  /* bytes; a multiple of the element size */
    trp_scalar value; /* real; travels with the request, so that another one is the same graph. i64:
                       * re + 2^32 im, both whole numbers: see trp_dnn_integer() */
    /* Packed f64 elements in the sender's memory, copied into the request as a value is: other
     * contents are the same graph. Up to 48 KiB in all tensors of a request; nodes that take it say
     * so (`segments` of OPTIMIZER). */
    const void *data;
} trp_dnn_tensor;

/* A number of 64 bits by value, for a seed or an offset. */
TRP_INLINE trp_dnn_tensor trp_dnn_integer(uint64_t value)
{
    trp_dnn_tensor t = {TRP_I64, 0, {0}, {0}, {0}, 0, {0, 0, false}, NULL};
    t.value = trp_complex((double)(uint32_t)value, (double)(uint32_t)(value >> 32));
    return t;
}

/* Makes a tensor packed in memory with its channels, dimension 1, fastest: n, spatial ones, c. */
TRP_INLINE void trp_dnn_channels_last(trp_dnn_tensor *t)
{
    int64_t next = t->rank > 1 ? t->dim[1] : 1;
    if (t->rank > 1)
        t->stride[1] = 1;
    for (uint32_t i = t->rank; i-- > 0;) {
        if (i == 1)
            continue;
        t->stride[i] = next;
        next *= t->dim[i];
    }
}

/* The operations of nodes: inputs, arrow, outputs. In brackets: optional. */
typedef enum trp_dnn_kind {
    TRP_DNN_NONE = 0,
    /* x, w -> y. A NaN or an infinity is in each sum that it is a term of, also times 0; padding is
     * no term, but some engines of cuDNN count it as 0, likewise the outside of y in a gradient:
     * there a filter with infinities or NaN gives NaN. Convolutions have 1 to 3 spatial dimensions;
     * the number of groups is x's channels divided by w's dimension 1. Sizes of y, rounded down:
     *     (x + pre_pad + post_pad - (w - 1) * dilation - 1) / stride + 1
     * Where neither x nor w has channels there is one group, and y is 0. */
    TRP_DNN_CONV_FORWARD = 1,
    /* dy, w -> dx */
    TRP_DNN_CONV_BACKWARD_DATA = 2,
    /* dy, x -> dw */
    TRP_DNN_CONV_BACKWARD_FILTER = 3,
    /* a, b -> y: products of matrices, the last two dimensions; a batch of 1 goes with any. NaN and
     * infinities as in convolutions; a product over nothing is 0. */
    TRP_DNN_MATMUL = 4,
    /* x, [b], [t] -> y: element by element; dimensions of 1 go with any. */
    TRP_DNN_POINTWISE = 5,
    /* x, dy -> dx: the gradient of an activation, dy times its derivative at x. x is what it was
     * given. At NaN the derivative is NaN, at infinities its limit (of gelu and swish 0 and 1);
     * where RELU is flat dx is 0, whatever dy is. */
    TRP_DNN_POINTWISE_BACKWARD = 6,
    /* x -> y: over those dimensions that are 1 in y. See trp_dnn_reduce. */
    TRP_DNN_REDUCTION = 7,
    /* x -> y, [index]: pooling, and its gradient: dy, [x], [y], [index] -> dx. Sizes as of
     * convolutions, with a window for a filter, without dilation. `round_up`: the size of y is
     * rounded up, so that the last window may go beyond the padding (the ceil mode of frameworks);
     * one that would begin behind the image is left out. `index` (MAX only) says which element of
     * each window was the largest, in the library's own format. It is i8 for windows of at most 128
     * elements, or i32; a virtual one is the smaller that will do. */
    TRP_DNN_RESAMPLE_FORWARD = 8,
    TRP_DNN_RESAMPLE_BACKWARD = 9,
    /* x, scale, [bias], epsilon, [running_mean, running_variance, average_factor]
     *     -> y, mean, inv_variance, [new_running_mean, new_running_variance]
     *     y = (x - mean) * inv_variance * scale + bias, inv_variance = 1 / sqrt(variance + epsilon)
     * Numbers of any size are right: nothing overflows or vanishes on the way, and the variance is
     * that of differences from the mean. A group with NaN or an infinity is NaN. A group of one
     * value, or of equal ones, has the variance 0, so y is the bias; with an epsilon of 0 it is
     * NaN, 0 times infinity. Statistics are taken over what is 1 in mean's dimensions: over c and
     * spatial ones (LAYER), n and spatial ones (BATCH), spatial ones (INSTANCE). RMS has no mean
     * and no bias, and its "variance" is the mean of squares. Running ones: (1 - average_factor) *
     * the old one + average_factor * this one, the variance with n - 1, which of one value is 0. */
    TRP_DNN_NORM_TRAINING = 10,
    /* x, scale, [bias], and mean and inv_variance (BATCH) or epsilon (all others) -> y */
    TRP_DNN_NORM_INFERENCE = 11,
    /* dy, x, scale, [mean], inv_variance -> dx, dscale, [dbias] */
    TRP_DNN_NORM_BACKWARD = 12,
    /* x -> sum, square_sum: over all but the channels, both added up in f64. */
    TRP_DNN_STATISTICS = 13,
    /* q, k, v, [bias], [slopes], [seq_q, seq_kv], [seed, [offset]] -> y, [stats]: scaled
     * dot-product attention.
     *     score = scale * q k^T + bias + slope * (column - row);  y = softmax(score) v
     * q is b x h x s_q x d, k is b x h_kv x s_kv x d, v is b x h_kv x s_kv x d_v, y is
     * b x h x s_q x d_v. h is a multiple of h_kv: head i of q goes with i / (h / h_kv) of k and v.
     * Each dimension of bias is that of the scores, b x h x s_q x s_kv, or 1; slopes (ALiBi) has
     * one for each of the h heads, 1 x h x 1 x 1. seq_q and seq_kv (i32, b x 1 x 1 x 1, both or
     * none) say how many rows and columns each batch has; what lies behind them is not used. See
     * also `mask`, `window` and `parameter`. stats, f32 or f64, b x h x s_q x 1, is the logarithm
     * of the sum that a row was divided by. A row that sees no column, or that is behind its
     * batch's last, is 0 in y and minus infinity in stats.
     *
     * A column whose bias is minus infinity is not seen either. A column that is not seen adds
     * nothing to the row, whatever q k^T, k and v hold there, nor to gradients, whatever q and dy
     * hold; the same is true of weights that are 0 otherwise. Weights are exp(score - the row's
     * largest) over their sum, so that they add up to 1 however far all scores are shifted; scores
     * are as exact as what is computed in, which of a shift by 1e9 leaves f32 steps of 64. A NaN
     * that is seen makes its row NaN, and so does a score of infinity.
     *
     * With dropout, y = dropped(softmax(score)) v: a weight is 0 if what was drawn for it is less
     * than the probability p, and divided by 1 - p if it is not; stats are those of the softmax.
     * The draws are the elements of a UNIFORM RANDOM of f32, b x h x s_q x s_kv, with this seed and
     * offset. */
    TRP_DNN_ATTENTION = 14,
    /* dy, q, k, v, y, stats, [bias], [slopes], [seq_q, seq_kv], [seed, [offset]] -> dq, dk, dv,
     * [dbias]. dbias has the dimensions of bias. With the probability, seed and offset of the
     * forward pass the same weights are dropped. stats must be what the forward pass wrote; weights
     * are not taken from it where it is too large to hold the logarithm of a sum, but from scores
     * again, as forward. */
    TRP_DNN_ATTENTION_BACKWARD = 15,
    /* Data that moves: elements are what they were, as far as the type of y holds them. A virtual y
     * without a type has that of what is read.
     *
     * part[0], [part[1] to part[7]] -> y: one behind the other along `axis`. */
    TRP_DNN_CONCATENATE = 16,
    /* x -> y: of each dimension the elements from `start` on, every `step`th, as many as y has; as
     * many as there are, if y has no dimensions. */
    TRP_DNN_SLICE = 17,
    /* x -> y: y's dimension i is x's dimension order[i]. */
    TRP_DNN_TRANSPOSE = 18,
    /* x -> y: the same elements in the same order, the last dimension fastest, in y's dimensions.
     */
    TRP_DNN_RESHAPE = 19,
    /* seed, [offset] -> y: random numbers, see trp_dnn_random. They follow from the seed, the
     * offset and the place of each element in the order of y's dimensions, the last one fastest,
     * and from nothing else: not from strides, the device, or how often the request ran. With
     * another seed or another offset they are other numbers. seed and offset are i64, one element
     * each, in memory or by value; without an offset it is 0.
     *
     * Element i has word i % 4 of what Philox4x32-10 makes of the key `seed` and the counter
     * i / 4 + 2^64 offset; where the node computes in f64, the default if y is f64, the words
     * 2 (i % 2) and 2 (i % 2) + 1 of counter i / 2 + 2^64 offset. */
    TRP_DNN_RANDOM = 20,
    /* x -> y, scale: numbers of few bits in blocks with a scale of their own, as in the OCP
     * Microscaling formats. `block` elements that follow each other along `axis` share one, the
     * last block of a line may be shorter: scale has the dimensions of x, but along the axis as
     * many as there are blocks. x is f32, f16 or bf16, y f8e4m3 (the default if it is virtual) or
     * f8e5m2, scale f8e8m0 (likewise), f8e4m3 or f32.
     *     scale = the smallest number of its type that is not below amax / most, or its largest
     *     y = x / scale, rounded to nearest, ties to even; what is too large, infinities too,
     *         becomes the largest number of its sign
     * amax is the largest magnitude in the block, where infinities count and NaN do not; most is
     * the largest finite number of y's type, 448 or 57344. A NaN stays one. A block of zeros has
     * the scale 0, of f8e8m0 2^-127. */
    TRP_DNN_BLOCK_SCALE_QUANTIZE = 21,
    /* x, scale -> y: back, y = x * scale. Types of x and scale as of y and scale there; y is f32
     * (the default if it is virtual), f16 or bf16. */
    TRP_DNN_BLOCK_SCALE_DEQUANTIZE = 22,
    /* x, table, seq_kv -> y: keys or values that are stored in pages, as attention takes them. x is
     * pages x h_kv x rows of a page x d; table (i32, b x 1 x pages of a batch x 1) says which pages
     * a batch has, and seq_kv (i32, b x 1 x 1 x 1) how many rows. y, of x's type, is b x h_kv x
     * s_kv x d, of as many rows as the pages of a batch hold, or as many as its dimensions say: row
     * i of a batch is row i % rows of page table[i / rows]. Rows after seq_kv are 0, and entries of
     * the table that only they would need are not read. An entry out of range reads nothing: on the
     * host the request ends with TRP_E_ARGUMENT, unless a node of the same graph writes the table;
     * else, and on GPUs, rows of such a page are NaN. */
    TRP_DNN_PAGED_LOAD = 23,
    /* Operations of a training step; <troupe/training.h> has calls that make graphs of these.
     *
     * They compute in f64 if x (OPTIMIZER: w) is f64, else in f32. Tensors called real below are
     * f64, f32, f16 or bf16, each of its own type. An index is i32 or i64, in memory or from an
     * earlier node. One that is out of range reads and writes nothing: on the host the request ends
     * with TRP_E_ARGUMENT, unless a node of the same graph writes the index; else, and on GPUs, the
     * element read is NaN (0 in an integer type or bool), and an element to add is not added.
     *
     * x, index -> y: parts of x by their numbers along `axis`. With TRP_DNN_GATHER_SLICES, an
     * embedding's lookup, the dimensions of index, of any rank, stand in y for that axis:
     *     y[a, i, b] = x[a, index[i], b]
     * where a and b are positions of any rank. With TRP_DNN_GATHER_ELEMENTS all three have one
     * rank, y has the dimensions of index, and those are at most x's but along the axis:
     *     y[a, i, b] = x[a, index[a, i, b], b]
     * x and y are real, or both of one type of i8, u8, i32 and bool. */
    TRP_DNN_GATHER = 24,
    /* dy, index, [x] -> y: the gradient of GATHER for what was gathered from, whose dimensions y
     * has: each element of dy is added to that of y which GATHER would read for it. y starts as x,
     * which may be y's own place, or as 0. Elements that go to one place are added in the order of
     * index, so the same request gives the same bits. Where index is `ignore` (by default none)
     * nothing is added. All are real. */
    TRP_DNN_SCATTER_ADD = 25,
    /* x, index or t, [dy] -> [y], [rows], [stats], [dx], at least one of them. Logits x, with the C
     * classes along the last dimension (strides may be any); a row is what is left of x without it.
     * index has the number of the right class of each row and t the probabilities, real, of x's
     * dimensions. With s = parameter[0], label smoothing, 0 to 1 (0), z = parameter[1] (0), and q =
     * (1 - s) * (1 at index, 0 elsewhere; or t) + s / C:
     *     L = log(sum over j of exp(x[j]));  loss = sum over j of q[j] * (L - x[j]) + z * L * L
     * Where q[j] is 0 the term is 0, whatever x[j] is. Rows whose index is `ignore` (-100) have the
     * loss 0. y is the mean over all other rows (NaN without any), the sum, or the loss of each
     * row, as `reduction` says: one element, or one a row. rows has the loss of each row in any
     * case, stats its L (0 of ignored ones); both real, one element a row. dx, real, of x's
     * dimensions, is the gradient of y times dy, which is one element, with TRP_DNN_REDUCE_NONE
     * one a row (by default 1):
     *     dx[j] = dy * ((sum of q + 2 z L) * exp(x[j] - L) - q[j]) / (the number of rows in a mean)
     * 0 for ignored rows. dx may be x's own place. Tensors of one element a row have x's dimensions
     * but 1 for the last, or are without that. Nothing of x's size is held beside x and dx. */
    TRP_DNN_CROSS_ENTROPY = 26,
    /* x, t, [w], [b], [dy] -> [y], [rows], [dx], at least one of them: losses element by element,
     * see trp_dnn_loss. t, the target, is real and has x's dimensions; w, weights, and b, of
     * BCE_LOGITS only, real, have x's or 1. y and dx as of CROSS_ENTROPY, with elements for rows:
     * rows has the loss of each element, with its weight; a mean divides by the number of all
     * elements, TRP_DNN_REDUCE_BATCH by dimension 0 of x. */
    TRP_DNN_LOSS = 27,
    /* x, [a, b], [index], [offset] -> y: rotary position embedding along the last dimension, of n
     * elements, of which the first r turn in pairs (u, v) = (x[i], x[i + r / 2]), or with
     * TRP_DNN_ROTARY_PAIRS (x[2 i], x[2 i + 1]), i = 0 to r / 2 - 1; others are copied:
     *     u' = u cos - v sin;  v' = u sin + v cos
     * cos and sin are row p of a and b, real, positions x r / 2; without them those of the angle
     * p * base^(-2 i / r), base = parameter[0] (10000), r = parameter[1] (n), in f64. p is the
     * position: index, of x's dimensions or 1, but 1 for the last; without one the number along the
     * last but one dimension, plus offset (i64, one element; 0). y may be x's own place.
     * ROTARY_BACKWARD, dy instead of x and dx instead of y, turns back. */
    TRP_DNN_ROTARY = 28,
    TRP_DNN_ROTARY_BACKWARD = 29,
    /* x -> index: the number along `axis` of the largest or smallest element, see `extreme`; the
     * first of equal ones; that of a NaN, if there is one. index is i32 or i64 and has x's
     * dimensions, but 1 along the axis. x is real, i8, u8, i32 or bool. The axis is not empty. */
    TRP_DNN_ARG = 30,
    /* x -> [y], index: of each line along `axis` the largest, or smallest, elements, as many as
     * index is long there, in order; of equal ones the first comes first. A NaN is larger than any
     * number. x and y are real, index i32 or i64. */
    TRP_DNN_TOP_K = 31,
    /* x, seed, [offset], [scale], [count], [limit] -> index: a class drawn of the probabilities
     * softmax(x / temperature) of each row of logits x, the classes along the last dimension; scale
     * is the temperature (1; 0: the largest, as ARG). Only the first `count` (i64; 0: all) classes
     * in TOP_K's order, and of those only as many as it takes for their share to reach `limit` (1)
     * of the sum, can be drawn, at least one. u is element `row` of a UNIFORM RANDOM of f32 with
     * this seed and offset: the class is the first of which the sum of the shares up to its own
     * exceeds u; the order is that of TOP_K if count or limit were given, else that of their
     * numbers. Each of the three is one element, a value or in memory. A row that has a NaN, or
     * plus infinity, gives the class that ARG does. index is i32 or i64, one a row. */
    TRP_DNN_SAMPLE = 32,
    /* w, dw, [moment[0], moment[1]], rate, [decay], [count], [scale], [limit], [found], [segments]
     *     -> new_w, [new_moment[0], new_moment[1]], [narrow], [grad_norm], [skipped]
     * One step of an optimizer, see trp_dnn_optimizer, over parameters w with the gradients dw.
     * All but the following are real, packed and of the same dimensions; narrow is new_w once more,
     * of its own type, for what computes with it. new_w may be w's own place and each new_moment
     * that of its moment: then a step that has begun can't run again after a
     * fault. One element each, a value or in memory: rate, the learning rate; decay (0), that
     * of the weights; count, i64, the number of this step, the first is 1; scale (1), what
     * gradients are multiplied by first; limit: they are multiplied by limit / (norm + 1e-6) next,
     * where that is less than 1, and norm is that of all gradients, times scale. It is written to
     * grad_norm, real, one element. The step is skipped, new_w being w and new_moment moment, if
     * found is not 0 (i32, bool or real), or if skipped is there and any gradient is infinite or
     * NaN; skipped, i32, is 1 then, else 0. All of that is one request, whatever comes out.
     *
     * segments (f64, n x 4, as `data` or in memory) limits the step to ranges of elements, in
     * order, that do not overlap: offset, count, a factor of rate, and the decay of that range.
     * Elements of no range are copied, and do not count for the norm and skipped. */
    TRP_DNN_OPTIMIZER = 33,
} trp_dnn_kind;

/* Functions of x, b and t where they are named, else of x alone. Comparisons give 1 or 0; with a
 * NaN only NOT_EQUAL is 1. Logical ones and SELECT take what is not 0 for true, so a NaN too, and
 * so does every result that is stored as bool. Functions have the values that IEEE 754 and C give
 * them at NaN, infinities and signed zeros, and keep a NaN; the sign of a zero that MIN, MAX and
 * RELU give is not said. */
typedef enum trp_dnn_pointwise {
    TRP_DNN_IDENTITY = 0,
    TRP_DNN_ADD = 1, /* x + b */
    TRP_DNN_SUB = 2,
    TRP_DNN_MUL = 3,
    TRP_DNN_DIV = 4,
    TRP_DNN_MIN = 5, /* NaN if either is */
    TRP_DNN_MAX = 6, /* likewise */
    TRP_DNN_MOD = 7, /* of x / b, with x's sign, as fmod() */
    TRP_DNN_POW = 8,
    TRP_DNN_ADD_SQUARE = 9, /* x + b * b */
    TRP_DNN_ATAN2 = 10,     /* atan2(x, b) */
    TRP_DNN_ABS = 11,
    TRP_DNN_CEIL = 12,
    TRP_DNN_FLOOR = 13,
    TRP_DNN_COS = 14,
    TRP_DNN_SIN = 15,
    TRP_DNN_TAN = 16,
    TRP_DNN_EXP = 17,
    TRP_DNN_LOG = 18,
    TRP_DNN_NEGATE = 19,
    TRP_DNN_SQRT = 20,
    TRP_DNN_RSQRT = 21,
    TRP_DNN_RECIPROCAL = 22,
    TRP_DNN_ERF = 23,
    TRP_DNN_EQUAL = 24, /* x == b */
    TRP_DNN_NOT_EQUAL = 25,
    TRP_DNN_GREATER = 26,
    TRP_DNN_GREATER_EQUAL = 27,
    TRP_DNN_LESS = 28,
    TRP_DNN_LESS_EQUAL = 29,
    TRP_DNN_AND = 30,
    TRP_DNN_OR = 31,
    TRP_DNN_NOT = 32,
    TRP_DNN_SELECT = 33, /* t ? x : b */
    /* Activations, also of POINTWISE_BACKWARD. parameter[]: */
    TRP_DNN_RELU = 34, /* lower clip (0), upper clip (none), slope below the lower one (0):
                        * leaky and clipped ones too */
    TRP_DNN_TANH = 35,
    TRP_DNN_SIGMOID = 36,
    TRP_DNN_ELU = 37,       /* alpha (1) */
    TRP_DNN_GELU = 38,      /* exact, by erf; of minus infinity -0, as GELU_TANH and SWISH */
    TRP_DNN_GELU_TANH = 39, /* by tanh; behind a product on a GPU within 2^-17 |x| in f32 */
    TRP_DNN_SOFTPLUS = 40,  /* beta (1) */
    TRP_DNN_SWISH = 41,     /* x * sigmoid(beta x), beta (1): silu */
} trp_dnn_pointwise;

/* Sums are taken in f64, or so that results are as exact: sums of any length are good
 * to 1e-6 of the sum of magnitudes, and no MEAN or NORM2 overflows or vanishes that its type holds
 * (f64 too). A NaN makes the result NaN, LEAST and MOST too. Over nothing: SUM, MEAN, AMAX and
 * norms 0, PRODUCT 1, LEAST infinity and MOST minus infinity. */
typedef enum trp_dnn_reduce {
    TRP_DNN_SUM = 0,
    TRP_DNN_MEAN = 1,
    TRP_DNN_LEAST = 2,
    TRP_DNN_MOST = 3,
    TRP_DNN_AMAX = 4,  /* the largest absolute value */
    TRP_DNN_NORM1 = 5, /* the sum of absolute values */
    TRP_DNN_NORM2 = 6, /* the root of the sum of squares */
    TRP_DNN_PRODUCT = 7,
} trp_dnn_reduce;

/* A mean is of the sum in f64, and finite if its type holds it. */
typedef enum trp_dnn_resample {
    TRP_DNN_POOL_MAX = 0,            /* padding never wins, not even against minus infinity; the
                                      * first of several that are the largest has the gradient; a
                                      * NaN is the largest, the first of several */
    TRP_DNN_POOL_AVERAGE = 1,        /* padding does not count */
    TRP_DNN_POOL_AVERAGE_PADDED = 2, /* pre_pad and post_pad count as zeros; what a window goes
                                      * beyond them, with round_up, does not count */
} trp_dnn_resample;

typedef enum trp_dnn_norm {
    TRP_DNN_LAYER = 0,
    TRP_DNN_BATCH = 1,
    TRP_DNN_INSTANCE = 2,
    TRP_DNN_RMS = 3,
} trp_dnn_norm;

/* Distributions of RANDOM. u is the first 24 bits of an element's word as a fraction, 0 <= u < 1;
 * in f64 the first 53 of both words. Results are rounded to f32, if the node computes in that, and
 * then to the type of y. */
typedef enum trp_dnn_random {
    /* low + (high - low) * u: parameter[0] is low (0), parameter[1] high (1), as y's type holds
     * them, or f32 where that is computed in and narrower. Never high: where rounding leads there
     * it is the number of that type below it. y is of a floating type. The same bits everywhere. */
    TRP_DNN_UNIFORM = 0,
    /* mean + deviation * z: parameter[0] is the mean (0), parameter[1] the standard deviation (1).
     * z is sqrt(-2 log(1 - u)) times the cosine of 2 pi u' for an element of even number, with u'
     * of the next one; times the sine for that one (Box and Muller): at most 5.8 in size, 8.6 in
     * f64. y is of a floating type. A node that computes in f32 does so from z on, z off by less
     * than 2^-19 and mean and deviation rounded to f32: the same bits everywhere. In f64 what
     * backends make of it differs by less than 2^-46 deviations before it is rounded. */
    TRP_DNN_NORMAL = 1,
    /* 1 where u < parameter[0] (0.5), else 0. y is of any type. The same bits everywhere. */
    TRP_DNN_BERNOULLI = 2,
} trp_dnn_random;

typedef enum trp_dnn_gather {
    TRP_DNN_GATHER_SLICES = 0,
    TRP_DNN_GATHER_ELEMENTS = 1,
} trp_dnn_gather;

/* How the losses of rows or elements are reduced. */
typedef enum trp_dnn_reduction {
    TRP_DNN_REDUCE_MEAN = 0,
    TRP_DNN_REDUCE_SUM = 1,
    TRP_DNN_REDUCE_NONE = 2,
    TRP_DNN_REDUCE_BATCH = 3, /* LOSS: the sum divided by dimension 0 */
} trp_dnn_reduction;

/* The loss of an element x and its target t; all times its weight w. */
typedef enum trp_dnn_loss {
    TRP_DNN_MSE = 0, /* (x - t)^2 */
    TRP_DNN_L1 = 1,  /* |x - t|; the gradient at 0 is 0 */
    /* (x - t)^2 / (2 beta) where |x - t| < beta, else |x - t| - beta / 2; beta = parameter[0] (1),
     * at least 0 */
    TRP_DNN_SMOOTH_L1 = 2,
    /* x is a logit, t a probability, b the weight of the positive class (1): (1 - t) * x + (1 + (b
     * - 1) * t) * log(1 + exp(-x)), without overflow */
    TRP_DNN_BCE_LOGITS = 3,
    TRP_DNN_KL = 4,     /* t * (log(t) - x), x a logarithm; 0 where t is 0 */
    TRP_DNN_KL_LOG = 5, /* exp(t) * (t - x): both are logarithms */
} trp_dnn_loss;

typedef enum trp_dnn_rotary {
    TRP_DNN_ROTARY_HALVES = 0, /* GPT-NeoX, Llama as of Hugging Face */
    TRP_DNN_ROTARY_PAIRS = 1,  /* GPT-J, Llama as of Meta */
} trp_dnn_rotary;

typedef enum trp_dnn_extreme {
    TRP_DNN_LARGEST = 0,
    TRP_DNN_SMALLEST = 1,
} trp_dnn_extreme;

/* g is the gradient, scaled and limited; m, v the moments; t the number of the step; all begin as 0
 * before the first. As in PyTorch. */
typedef enum trp_dnn_optimizer {
    /* g += decay * w;  m = momentum * m + (1 - dampening) * g, in step 1, if count is there, m = g;
     * w -= rate * m, with nesterov rate * (g + momentum * m). parameter[]: momentum (0), dampening
     * (0), nesterov (0; else 1, without dampening). moment[0] exactly if momentum is not 0. */
    TRP_DNN_SGD = 0,
    /* g += decay * w;  m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g^2;
     * w -= rate / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + epsilon). parameter[]: beta1
     * (0.9), beta2 (0.999), epsilon (1e-8). moment[0] is m, moment[1] v; count is needed. */
    TRP_DNN_ADAM = 1,
    /* The same, but instead of g, decay changes w first: w -= rate * decay * w. */
    TRP_DNN_ADAMW = 2,
    /* w -= rate * decay * w;  w -= rate * sign(beta1 * m + (1 - beta1) * g);
     * m = beta2 * m + (1 - beta2) * g. parameter[]: beta1 (0.9), beta2 (0.99). moment[0]. */
    TRP_DNN_LION = 3,
} trp_dnn_optimizer;

/* Which columns a row of ATTENTION sees: those up to its place on the diagonal. */
typedef enum trp_dnn_mask {
    TRP_DNN_MASK_NONE = 0,   /* all; the diagonal that `window` counts from is CAUSAL's */
    TRP_DNN_MASK_CAUSAL = 1, /* the diagonal begins top left: row i sees columns 0 to i */
    /* It ends bottom right, so that the last row sees all: row i sees columns 0 to
     * i + s_kv - s_q, with the lengths of the batch if seq_q and seq_kv are there. */
    TRP_DNN_MASK_CAUSAL_BOTTOM_RIGHT = 2,
} trp_dnn_mask;

/* One node. Indices of tensors; 0: none. A field that its kind does not name must be zero. */
typedef struct trp_dnn_node {
    trp_dnn_kind kind;
    uint32_t x, w, y, dx, dw, dy, a, b, t, index;
    uint32_t scale, bias, epsilon, mean, inv_variance, dscale, dbias;
    uint32_t running_mean, running_variance, average_factor;
    uint32_t new_running_mean, new_running_variance;
    uint32_t sum, square_sum;
    trp_dnn_pointwise pointwise; /* POINTWISE, POINTWISE_BACKWARD: from RELU on */
    trp_dnn_reduce reduce;       /* REDUCTION */
    trp_dnn_resample resample;   /* RESAMPLE_... */
    trp_dnn_norm norm;           /* NORM_... */
    /* CONV_..., RESAMPLE_...: of each spatial dimension. */
    int64_t pre_pad[TRP_DNN_SPATIAL_MAX], post_pad[TRP_DNN_SPATIAL_MAX];
    int64_t stride[TRP_DNN_SPATIAL_MAX];   /* 0: 1 */
    int64_t dilation[TRP_DNN_SPATIAL_MAX]; /* CONV_...; 0: 1 */
    /* RESAMPLE_... ATTENTION...: the first only, a sliding window: of the columns up to the
     * diagonal, a row sees this number of the last ones; 0: all. */
    int64_t window[TRP_DNN_SPATIAL_MAX];
    bool flip; /* CONV_...: a convolution in the mathematical sense, not a cross-correlation */
    /* Compute type: f64, f32, or i32 for CONV_FORWARD and MATMUL of i8. Default: f64 if an input is
     * f64 or i32, for which f32 is refused since it can't hold them, else f32. (Lengths of
     * attention, tables of pages and an index of pooling do not count, as long as f32 holds
     * them.) */
    trp_dtype compute;
    /* Real. POINTWISE..., RANDOM: see there. ATTENTION...: scale, default 1 / sqrt(d); the
     * probability of dropout, 0 to less than 1, default 0. */
    trp_scalar parameter[TRP_DNN_PARAMETERS];
    uint32_t q, k, v, dq, dk, dv, stats, slopes, seq_q, seq_kv; /* of ATTENTION... */
    trp_dnn_mask mask;                                          /* ATTENTION... */
    uint32_t part[TRP_DNN_PARTS_MAX];                           /* CONCATENATE: tensors */
    uint32_t axis; /* CONCATENATE, BLOCK_SCALE_..., GATHER, SCATTER_ADD, ARG, TOP_K: a dimension */
    int64_t start[TRP_DNN_RANK_MAX];  /* SLICE: of each dimension */
    int64_t step[TRP_DNN_RANK_MAX];   /* SLICE; 0: 1 */
    uint32_t order[TRP_DNN_RANK_MAX]; /* TRANSPOSE: each dimension once */
    uint32_t seed, offset;            /* RANDOM, ATTENTION...: tensors */
    trp_dnn_random random;            /* RANDOM */
    uint32_t block;                   /* BLOCK_SCALE_...: 16 or 32; 0: 32 */
    uint32_t table;                   /* PAGED_LOAD */
    bool round_up;                    /* RESAMPLE_...: the number of windows */
    /* Training steps. Tensors: */
    uint32_t rows;                                    /* CROSS_ENTROPY, LOSS */
    uint32_t new_w, moment[2], new_moment[2], narrow; /* OPTIMIZER, like those of the next line */
    uint32_t rate, decay, found, segments, grad_norm, skipped;
    uint32_t count, limit; /* OPTIMIZER, SAMPLE */
    /* Options of training steps: */
    trp_dnn_gather gather;       /* GATHER, SCATTER_ADD */
    trp_dnn_reduction reduction; /* CROSS_ENTROPY, LOSS */
    trp_dnn_loss loss;           /* LOSS */
    trp_dnn_rotary rotary;       /* ROTARY... */
    trp_dnn_extreme extreme;     /* ARG, TOP_K */
    trp_dnn_optimizer optimizer; /* OPTIMIZER */
    trp_scalar ignore;           /* SCATTER_ADD, CROSS_ENTROPY: a whole number, up to 2^53 */
} trp_dnn_node;

/* Where the library's engines for a graph come from. */
typedef enum trp_dnn_heuristic {
    TRP_DNN_HEURISTIC_A = 0,        /* fast */
    TRP_DNN_HEURISTIC_B = 1,        /* slower, and for convolutions more exact */
    TRP_DNN_HEURISTIC_FALLBACK = 2, /* engines that take most graphs, without optimisation */
} trp_dnn_heuristic;

enum { TRP_DNN_ENGINE_SIZE = 48 };

/* How a graph was run. */
typedef struct trp_dnn_ran {
    char engine[TRP_DNN_ENGINE_SIZE]; /* the library's name for it, "cublaslt_...", "direct"; on
                                       * the host "host" */
    uint32_t parts;                   /* the number of pieces in which the library took it */
    bool found;  /* in the kernel cache, made by an earlier request or process */
    bool tuned;  /* measured to be the fastest */
    bool proven; /* every part of it was proven on this device, see trp_proof, or is a kernel of
                  * Troupe's. False: proofs are off; or one could not be made, for lack of device
                  * memory or of NVRTC. Always false on the host. */
    uint64_t workspace_bytes;
    uint64_t reserved[4]; /* 0 */
} trp_dnn_ran;

/* How a graph is to be run. */
typedef struct trp_dnn_options {
    bool tf32;          /* f32: inputs may be rounded to tf32 (10 bits of mantissa). False: products
                         * have f32's accuracy, be it by multiply-adds or as three products of tf32
                         * parts; infinities, NaN and denormal numbers are those of multiply-adds */
    bool deterministic; /* only engines that give the same bits each time */
    trp_dnn_heuristic heuristic;
    trp_tune tune;
    uint64_t workspace_bytes; /* the most that an engine may use; 0: 256 MiB, and for a gradient of
                               * attention whose heads share keys as much more as dk and dv would
                               * take without sharing */
    trp_dnn_ran *ran;         /* filled when the request succeeds; may be NULL */
} trp_dnn_options;

/* A tensor is written by one node at most, and read by later ones only. A result shares no element
 * with another tensor; views of one buffer may interleave. But where all nodes are POINTWISE and
 * POINTWISE_BACKWARD, a result may be written in the place of a tensor that is read, if both have
 * the same type, dimensions and strides, the nodes that read it have results of as many elements,
 * and none of them comes behind the one that writes; and where a kind says that a result may be
 * another tensor's own place, if no other node reads that one. Such a request is not run again
 * after a fault: it fails, and its outputs are lost. Results are rounded to the type of their
 * tensor, to nearest; integers and f8 saturate, and a NaN is 0 in an integer; bool is what is not
 * 0. The order of sums is the library's. An output without elements makes the node do nothing; sums
 * over nothing are 0.
 *
 * A graph is compared by its structure, types, dimensions, strides, alignment and options, not by
 * its buffers and values: those that are the same share a plan, which is made once (some
 * milliseconds; with a search longer) and kept, also in the kernel cache.
 *
 * A graph that the library refuses as a whole runs in pieces, one node after the other, with
 * intermediate results rounded to the types of the virtual tensors between them; `ran` says so. A
 * piece that it refuses too ends the request with TRP_E_UNSUPPORTED.
 *
 * Source: cudnnBackendExecute and the descriptors of the backend API. */
typedef struct trp_dnn_graph_request {
    trp_request header;
    const trp_dnn_tensor *tensors; /* copied */
    uint32_t tensor_count;         /* tensors[0] included */
    const trp_dnn_node *nodes;     /* copied */
    uint32_t node_count;
    trp_dnn_options options;
    /* Names of the tensors for errors, one for each; NULL: "tensors[1]", and nodes by their fields.
     */
    const char *const *names;
} trp_dnn_graph_request;

/* Sends a graph; see trp_submit() for completion and errors. */
TRP__REQUEST(dnn_graph, TRP_OP_DNN_GRAPH, trp_dnn_graph_request)

#ifdef __cplusplus
}
#endif
#endif
