/* Measures the memory-bound calls of <troupe/training.h> and random numbers. */
#include "elements.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

typedef elements_work work;

static trp_dnn_tensor reads(work *w, trp_dtype type, uint32_t rank, const int64_t *dim)
{
    return elements_memory(w, type, rank, dim, w->piece);
}

static trp_dnn_tensor writes(work *w, trp_dtype type, uint32_t rank, const int64_t *dim)
{
    return elements_memory(w, type, rank, dim, NULL);
}

static trp_dnn_tensor one(work *w)
{
    return writes(w, TRP_F32, 1, (const int64_t[]){1});
}

/* --- calls --- */

ELEMENTS_SEND(optimizer, trp_optimizer_request, optimizer, trp_optimizer)
ELEMENTS_SEND(entropy, trp_cross_entropy_request, entropy, trp_cross_entropy)
ELEMENTS_SEND(embedding, trp_embedding_request, embedding,
              (w->backward ? trp_embedding_backward : trp_embedding_forward))
ELEMENTS_SEND(rotary, trp_rotary_request, rotary, trp_rotary_forward)
ELEMENTS_SEND(glu, trp_glu_request, glu, (w->backward ? trp_glu_backward : trp_glu_forward))
ELEMENTS_SEND(loss, trp_loss_request, loss, trp_loss)
ELEMENTS_SEND(arg, trp_top_k_request, pick, trp_arg)
ELEMENTS_SEND(top_k, trp_top_k_request, pick, trp_top_k)
ELEMENTS_SEND(sample, trp_sample_request, sample, trp_sample)

/* --- rows --- */

enum { CLIPS = 16 }; /* the norm of the gradients is clipped */

/* Updates in place: reads and writes w and the moments. */
static void build_optimizer(work *w, int what)
{
    const trp_dnn_optimizer mode = (trp_dnn_optimizer)(what & ~CLIPS);
    trp_optimizer_request *r = &w->optimizer;
    const int moments = mode == TRP_DNN_SGD || mode == TRP_DNN_LION ? 1 : 2;
    r->optimizer = mode;
    r->w = reads(w, TRP_F32, 1, w->dim);
    for (int i = 0; i < moments; i++)
        r->moment[i] = elements_memory(w, TRP_F32, 1, w->dim, w->positive);
    w->bytes *= 2;
    r->dw = reads(w, w->type, 1, w->dim);
    if (w->type == TRP_BF16)
        r->narrow = writes(w, TRP_BF16, 1, w->dim);
    r->rate = trp_real(1e-9);
    r->step = mode == TRP_DNN_LION ? 0 : 10;
    if (mode == TRP_DNN_SGD)
        r->momentum = trp_real(0.9);
    if (what & CLIPS) { /* clipping reads the gradients a second time */
        r->max_norm = trp_real(1);
        w->bytes += (double)w->dim[0] * trp_dtype_bits(w->type) / 8;
    }
    w->send = send_optimizer;
}

static void build_entropy(work *w, int gradient)
{
    const int64_t row_dim[] = {w->dim[0], 1};
    w->entropy.logits = reads(w, w->type, 2, w->dim);
    w->entropy.labels = elements_memory(w, TRP_I32, 2, row_dim, w->indices);
    w->entropy.loss = one(w);
    if (gradient)
        w->entropy.dlogits = writes(w, w->type, 2, w->dim);
    w->send = send_entropy;
}

/* dim: rows of the table, width, indices. Forward counts only the rows of the table that indices
 * select. */
static void build_embedding(work *w, int backward)
{
    const int64_t slices[] = {w->dim[2], w->dim[1]};
    w->backward = backward;
    w->embedding.index = elements_memory(w, TRP_I32, 1, &w->dim[2], w->indices);
    if (backward) {
        w->embedding.dy = reads(w, w->type, 2, slices);
        w->embedding.dtable = writes(w, TRP_F32, 2, w->dim);
    } else {
        const double before = w->bytes;
        w->embedding.table = reads(w, w->type, 2, w->dim);
        w->bytes = before;
        w->embedding.y = writes(w, w->type, 2, slices);
        w->bytes += w->bytes - before;
    }
    w->send = send_embedding;
}

static void build_rotary(work *w, int mode)
{
    w->rotary.mode = (trp_dnn_rotary)mode;
    w->rotary.x = reads(w, w->type, 4, w->dim);
    w->rotary.y = writes(w, w->type, 4, w->dim);
    w->send = send_rotary;
}

static void build_glu(work *w, int what)
{
    w->backward = what & 1;
    w->glu.activation.mode = what & 2 ? TRP_DNN_GELU_TANH : TRP_DNN_SWISH;
    w->glu.gate = reads(w, w->type, 2, w->dim);
    w->glu.up = reads(w, w->type, 2, w->dim);
    if (w->backward) {
        w->glu.dy = reads(w, w->type, 2, w->dim);
        w->glu.dgate = writes(w, w->type, 2, w->dim);
        w->glu.dup = writes(w, w->type, 2, w->dim);
    } else {
        w->glu.y = writes(w, w->type, 2, w->dim);
    }
    w->send = send_glu;
}

static void build_loss(work *w, int mode)
{
    w->loss.mode = (trp_dnn_loss)mode;
    w->loss.x = reads(w, w->type, 1, w->dim);
    w->loss.target = elements_memory(w, w->type, 1, w->dim, w->positive);
    w->loss.loss = one(w);
    w->loss.dx = writes(w, w->type, 1, w->dim);
    w->send = send_loss;
}

static void build_random(work *w, int random)
{
    w->tensors[w->tensor_count++] = trp_dnn_integer(42);
    w->tensors[w->tensor_count++] = writes(w, w->type, 1, w->dim);
    w->nodes[w->node_count++] =
        (trp_dnn_node){.kind = TRP_DNN_RANDOM, .random = (trp_dnn_random)random, .seed = 1, .y = 2};
}

/* dim: rows, classes, picked elements. */
static void build_pick(work *w, int what)
{
    const int64_t picked[] = {w->dim[0], what == 1 ? w->dim[2] : 1};
    w->pick.x = w->sample.logits = reads(w, w->type, 2, w->dim);
    w->pick.axis = 1;
    w->pick.index = w->sample.index = writes(w, TRP_I32, 2, picked);
    if (what == 1)
        w->pick.values = writes(w, w->type, 2, picked);
    w->sample.seed = trp_dnn_integer(42);
    w->send = what == 0 ? send_arg : what == 1 ? send_top_k : send_sample;
}

/* The kinds of request, measured for each type and shape. */
static const elements_row rows[] = {
    {"uniform", build_random, TRP_DNN_UNIFORM, UPDATES, 0},
    {"normal", build_random, TRP_DNN_NORMAL, UPDATES, 0},
    {"bernoulli", build_random, TRP_DNN_BERNOULLI, UPDATES, 0},
    {"sgd", build_optimizer, TRP_DNN_SGD, UPDATES, 0},
    {"adam", build_optimizer, TRP_DNN_ADAM, UPDATES, 0},
    {"adamw", build_optimizer, TRP_DNN_ADAMW, UPDATES, 0},
    {"adamw clipped", build_optimizer, TRP_DNN_ADAMW + CLIPS, UPDATES, 0},
    {"lion", build_optimizer, TRP_DNN_LION, UPDATES, 0},
    {"cross entropy", build_entropy, 0, LOGITS, 0},
    {"cross entropy grad", build_entropy, 1, LOGITS, 0},
    {"embedding", build_embedding, 0, TABLES, 0},
    {"embedding grad", build_embedding, 1, TABLES, 0},
    {"rotary halves", build_rotary, TRP_DNN_ROTARY_HALVES, HEADS, 0},
    {"rotary pairs", build_rotary, TRP_DNN_ROTARY_PAIRS, HEADS, 0},
    {"swiglu", build_glu, 0, WIDE, 0},
    {"swiglu grad", build_glu, 1, WIDE, 0},
    {"geglu", build_glu, 2, WIDE, 0},
    {"geglu grad", build_glu, 3, WIDE, 0},
    {"mse", build_loss, TRP_DNN_MSE, UPDATES, 0},
    {"bce", build_loss, TRP_DNN_BCE_LOGITS, UPDATES, 0},
    {"arg max", build_pick, 0, LOGITS, 0},
    {"top k", build_pick, 1, DRAWS, 0},
    {"sample", build_pick, 2, DRAWS, 0},
};

void suite_dnn_training(suite *s)
{
    report_section(s->report, "What a training step needs: bytes that must move by time",
                   "raw: a device copy of as many bytes, by turns; Troupe: submit all, then drain");
    elements_measure(s, rows, COUNT_OF(rows));
}
