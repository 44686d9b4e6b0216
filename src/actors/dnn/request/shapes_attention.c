#include "actors/dnn/request/shapes.h"

#include <math.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

#define FAIL(c, at, ...) trp__dnn_shape_fail(c, at, __VA_ARGS__)

enum { RANK = 4, BATCH = 0, HEADS = 1, ROWS = 2, DEPTH = 3 };

typedef trp__dnn_checked checked;

static trp__dnn_tensor *tensor(const checked *c, int at)
{
    uint8_t number = c->n->port[at];
    return number == TRP__DNN_NO_PORT ? NULL : &c->m->tensor[number];
}

static trp_status expect_matrices(const checked *c, int at)
{
    const trp__dnn_tensor *t = tensor(c, at);
    if (t->rank == RANK)
        return TRP_OK;
    return FAIL(c, at, "expected 4 dimensions, batch, heads, rows and depth, got %d", t->rank);
}

/* Checks the inputs: q determines the batch and the depth of keys, k their number. */
static trp_status check_inputs(const checked *c)
{
    trp_status status = expect_matrices(c, TRP__DNN_ATTENTION_Q);
    if (status == TRP_OK)
        status = expect_matrices(c, TRP__DNN_ATTENTION_K);
    if (status == TRP_OK)
        status = expect_matrices(c, TRP__DNN_ATTENTION_V);
    if (status != TRP_OK)
        return status;
    const trp__dnn_tensor *q = tensor(c, TRP__DNN_ATTENTION_Q);
    const trp__dnn_tensor *k = tensor(c, TRP__DNN_ATTENTION_K);
    const int64_t keys[RANK] = {q->dim[BATCH], k->dim[HEADS], k->dim[ROWS], q->dim[DEPTH]};
    status = trp__dnn_expect_dims(c, TRP__DNN_ATTENTION_K, RANK, keys);
    if (status == TRP_OK && (k->dim[HEADS] < 1 || q->dim[HEADS] % k->dim[HEADS] != 0))
        return FAIL(c, TRP__DNN_ATTENTION_K, "expected heads that divide the %lld of q, got %lld",
                    (long long)q->dim[HEADS], (long long)k->dim[HEADS]);
    const int64_t values[RANK] = {keys[BATCH], keys[HEADS], keys[ROWS],
                                  tensor(c, TRP__DNN_ATTENTION_V)->dim[DEPTH]};
    return status == TRP_OK ? trp__dnn_expect_dims(c, TRP__DNN_ATTENTION_V, RANK, values) : status;
}

/* Computes the dimensions of the scores, and of q, k, v and y, which all others are checked
 * against. */
static void shapes_of(const checked *c, int64_t scores[RANK], int64_t y[RANK])
{
    const trp__dnn_tensor *q = tensor(c, TRP__DNN_ATTENTION_Q);
    memcpy(scores, q->dim, RANK * sizeof *scores);
    memcpy(y, q->dim, RANK * sizeof *y);
    scores[DEPTH] = tensor(c, TRP__DNN_ATTENTION_K)->dim[ROWS];
    y[DEPTH] = tensor(c, TRP__DNN_ATTENTION_V)->dim[DEPTH];
}

/* Checks those of the tensors with derived dimensions that are present. */
static trp_status check_rest(const checked *c)
{
    int64_t scores[RANK], y[RANK];
    shapes_of(c, scores, y);
    const int64_t rows[RANK] = {scores[BATCH], scores[HEADS], scores[ROWS], 1};
    const int64_t heads[RANK] = {1, scores[HEADS], 1, 1};
    const int64_t batches[RANK] = {scores[BATCH], 1, 1, 1};
    const struct {
        int at;
        const int64_t *dim;
    } rules[] = {
        {TRP__DNN_ATTENTION_Y, y},
        {TRP__DNN_ATTENTION_STATS, rows},
        {TRP__DNN_ATTENTION_SLOPES, heads},
        {TRP__DNN_ATTENTION_SEQ_Q, batches},
        {TRP__DNN_ATTENTION_SEQ_KV, batches},
        {TRP__DNN_ATTENTION_DY, y},
        {TRP__DNN_ATTENTION_DQ, tensor(c, TRP__DNN_ATTENTION_Q)->dim},
        {TRP__DNN_ATTENTION_DK, tensor(c, TRP__DNN_ATTENTION_K)->dim},
        {TRP__DNN_ATTENTION_DV, tensor(c, TRP__DNN_ATTENTION_V)->dim},
    };
    trp_status status = TRP_OK;
    for (size_t i = 0; i < COUNT_OF(rules) && status == TRP_OK; i++) {
        if (tensor(c, rules[i].at))
            status = trp__dnn_expect_dims(c, rules[i].at, RANK, rules[i].dim);
    }
    return status;
}

static trp_status check_bias(const checked *c)
{
    const trp__dnn_tensor *bias = tensor(c, TRP__DNN_ATTENTION_BIAS);
    bool gradient = tensor(c, TRP__DNN_ATTENTION_DBIAS) != NULL;
    int64_t scores[RANK], y[RANK];
    if (!bias)
        return gradient ? FAIL(c, TRP__DNN_ATTENTION_DBIAS, "expected none, for there is no bias")
                        : TRP_OK;
    trp_status status = expect_matrices(c, TRP__DNN_ATTENTION_BIAS);
    if (status != TRP_OK)
        return status;
    shapes_of(c, scores, y);
    for (int i = 0; i < RANK; i++) {
        if (bias->dim[i] != scores[i] && bias->dim[i] != 1)
            return FAIL(c, TRP__DNN_ATTENTION_BIAS, "dimension %d: expected %lld or 1, got %lld", i,
                        (long long)scores[i], (long long)bias->dim[i]);
    }
    return gradient ? trp__dnn_expect_dims(c, TRP__DNN_ATTENTION_DBIAS, RANK, bias->dim) : TRP_OK;
}

static bool is_real(uint8_t type)
{
    return type == TRP_F64 || type == TRP_F32 || type == TRP_F16 || type == TRP_BF16;
}

/* Checks types; virtual tensors and values may have none yet. */
static trp_status check_types(const checked *c)
{
    for (int at = 0; at < TRP__DNN_ATTENTION_SEED; at++) {
        trp__dnn_tensor *t = tensor(c, at);
        bool whole = at == TRP__DNN_ATTENTION_SEQ_Q || at == TRP__DNN_ATTENTION_SEQ_KV;
        bool wide = at == TRP__DNN_ATTENTION_STATS || at == TRP__DNN_ATTENTION_SLOPES;
        if (!t)
            continue;
        if (t->type == TRP_DTYPE_NONE && whole)
            t->type = TRP_I32;
        bool good = whole  ? t->type == TRP_I32
                    : wide ? t->type == TRP_F64 || t->type == TRP_F32
                           : is_real(t->type);
        if (t->type != TRP_DTYPE_NONE && !good)
            return FAIL(c, at, "expected %s, got %s",
                        whole  ? "i32"
                        : wide ? "f64 or f32"
                               : "f64, f32, f16 or bf16",
                        trp_dtype_name((trp_dtype)t->type));
    }
    return TRP_OK;
}

/* Checks that dropout has a seed. */
static trp_status check_dropout(const checked *c)
{
    const bool seed = tensor(c, TRP__DNN_ATTENTION_SEED) != NULL;
    if (!seed && c->n->parameter[1] > 0)
        return FAIL(c, TRP__DNN_ATTENTION_SEED, "expected a tensor, for there is dropout");
    if (!seed && tensor(c, TRP__DNN_ATTENTION_OFFSET))
        return FAIL(c, TRP__DNN_ATTENTION_OFFSET, "expected none, for there is no seed");
    trp_status status = trp__dnn_check_integer(c, TRP__DNN_ATTENTION_SEED);
    return status == TRP_OK ? trp__dnn_check_integer(c, TRP__DNN_ATTENTION_OFFSET) : status;
}

trp_status trp__dnn_check_attention(const checked *c)
{
    trp_status status = check_inputs(c);
    if (status == TRP_OK)
        status = check_rest(c);
    if (status == TRP_OK)
        status = check_bias(c);
    if (status == TRP_OK)
        status = check_types(c);
    if (status == TRP_OK)
        status = check_dropout(c);
    if (status != TRP_OK)
        return status;
    bool rows = tensor(c, TRP__DNN_ATTENTION_SEQ_Q) != NULL;
    if (rows != (tensor(c, TRP__DNN_ATTENTION_SEQ_KV) != NULL))
        return FAIL(c, rows ? TRP__DNN_ATTENTION_SEQ_KV : TRP__DNN_ATTENTION_SEQ_Q,
                    "expected a tensor, for seq_%s is one", rows ? "q" : "kv");
    int64_t depth = tensor(c, TRP__DNN_ATTENTION_Q)->dim[DEPTH];
    if (!c->m->nodes[c->index].parameter[0].given)
        c->n->parameter[0] = depth > 0 ? 1 / sqrt((double)depth) : 1;
    c->n->spatial = 1; /* one window */
    return TRP_OK;
}
