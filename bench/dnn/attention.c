/* Measures attention in bf16, forward and backward, against the figures of PyTorch's cuDNN backend
 * if given, and forward also against direct calls of cuDNN. */
#include "rows.h"
#include "bench/suite/filled.h"
#include "raw_attention.h"

#include <stdio.h>
#include <stdlib.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* The shapes of bench/peers/torch_dnn.py: long sequences, a language model's in training, and short
 * sequences.
 */
static const attention_shape shapes[] = {{4, 16, 8192, 128, true},
                                         {4, 16, 8192, 128, false},
                                         {8, 32, 2048, 128, true},
                                         {32, 16, 512, 64, false}};

/* For the host backend. */
static const attention_shape small[] = {{2, 2, 32, 16, true}, {2, 2, 32, 16, false}};

enum { Q, K, V, DY, Y, DQ, DK, DV, STATS, TENSORS }; /* inputs up to DY */

typedef struct section {
    dnn_rows rows;
    raw_dnn *library; /* raw side; NULL: PyTorch's figures */
} section;

typedef struct attention {
    suite *suite;
    trp_actor *actor;
    attention_shape what;
    bool backward;
    trp_buffer buffer[TENSORS];
    trp_dnn_ran ran;
} attention;

/* Counts two matrix products forward and five backward. */
static double flop_of(const attention *a)
{
    const attention_shape *x = &a->what;
    double pairs = (double)(x->batch * x->heads) * (double)x->rows * (double)x->rows;
    double forward = 4 * pairs * (double)x->depth / (x->causal ? 2 : 1);
    return a->backward ? 2.5 * forward : forward;
}

static void name_of(const attention *a, char *out, size_t size)
{
    const attention_shape *x = &a->what;
    snprintf(out, size, "attention b%d h%d s%d d%d%s %s", (int)x->batch, (int)x->heads,
             (int)x->rows, (int)x->depth, x->causal ? " causal" : "", a->backward ? "bwd" : "fwd");
}

/* Fills each tensor with different numbers: equal operands would make products and softmax
 * trivial. */
static bool begin(attention *a)
{
    const attention_shape *x = &a->what;
    const uint64_t rows = (uint64_t)(x->batch * x->heads * x->rows);
    unsigned char *piece = malloc(FILLED_PIECE);
    bool good = piece != NULL;
    for (int i = 0; i < TENSORS && good; i++) {
        if (i <= DY)
            filled_piece(TRP_BF16, piece, a->suite->seed + (uint64_t)i);
        good = filled_buffer(a->suite, i <= DY ? piece : NULL,
                             i == STATS ? rows * sizeof(float) : rows * (uint64_t)x->depth * 2,
                             &a->buffer[i]);
    }
    free(piece);
    return good;
}

static void end(attention *a)
{
    suite_free(a->suite, a->buffer, TENSORS);
}

static trp_dnn_tensor tensor_of(const attention *a, int which)
{
    const attention_shape *x = &a->what;
    return (trp_dnn_tensor){.type = which == STATS ? TRP_F32 : TRP_BF16,
                            .rank = 4,
                            .dim = {x->batch, x->heads, x->rows, which == STATS ? 1 : x->depth},
                            .buffer = a->buffer[which]};
}

/* Sends a request. Forward computes no stats, as PyTorch does without gradients. */
static trp_status send(attention *a, bool backward, bool stats, trp_dnn_ran *ran,
                       trp_completion *completion)
{
    trp_attention_request r = {
        .header = {.wait_ns = TRP_FOREVER, .deadline_ns = completion ? DNN_LONGEST_NS : 0},
        .q = tensor_of(a, Q),
        .k = tensor_of(a, K),
        .v = tensor_of(a, V),
        .y = tensor_of(a, Y),
        .mask = a->what.causal ? TRP_DNN_MASK_CAUSAL : TRP_DNN_MASK_NONE,
        .options = {.tune = suite_on_gpu(a->suite) ? a->suite->tune : TRP_TUNE_OFF, .ran = ran}};
    if (stats)
        r.stats = tensor_of(a, STATS);
    if (!backward)
        return trp_attention_forward(a->actor, &r, completion);
    r.dy = tensor_of(a, DY);
    r.dq = tensor_of(a, DQ);
    r.dk = tensor_of(a, DK);
    r.dv = tensor_of(a, DV);
    return trp_attention_backward(a->actor, &r, completion);
}

static bool run(void *context, uint64_t count)
{
    attention *a = context;
    for (uint64_t i = 0; i < count; i++) {
        if (!suite_check(a->suite, send(a, a->backward, a->backward, NULL, NULL), "attention"))
            return false;
    }
    return suite_drain(a->suite, DNN_LONGEST_NS);
}

/* Runs the first request alone; for the gradient it first computes the result and its stats. */
static bool run_first(attention *a)
{
    trp_completion done[2] = {{0}};
    return (!a->backward ||
            suite_await(a->suite, send(a, false, true, NULL, &done[0]), &done[0], "attention")) &&
           suite_await(a->suite, send(a, a->backward, a->backward, &a->ran, &done[1]), &done[1],
                       a->backward ? "the gradient" : "attention");
}

static void measure(const section *c, attention *a, stats_side alone)
{
    char name[sizeof((report_row *)0)->name];
    report_row row;
    const dnn_work work = {.name = name,
                           .type = TRP_BF16,
                           .flop = flop_of(a),
                           .side = {.run = run, .context = a},
                           .raw = alone,
                           .raw_name = "cudnnBackendExecute",
                           .ran = &a->ran};
    name_of(a, name, sizeof name);
    if (run_first(a))
        dnn_rows_measure(&c->rows, &work, &row);
    else
        suite_fail(a->suite, name);
}

/* Compares both sides in turns on the same numbers. */
static void measure_with_library(const section *c, attention *a)
{
    raw_attention alone = {.library = c->library, .what = a->what, .seed = a->suite->seed};
    if (raw_attention_begin(&alone) && raw_attention_run(&alone, 1))
        measure(c, a, (stats_side){.run = raw_attention_run, .context = &alone});
    else
        suite_fail(a->suite, "cudnnBackendExecute");
    raw_attention_end(&alone);
}

static void run_shape(void *context, trp_actor *actor, size_t i)
{
    const section *c = context;
    const attention_shape *all = suite_on_gpu(c->rows.suite) ? shapes : small;
    attention a = {.suite = c->rows.suite, .actor = actor, .what = all[i]};
    bool good = begin(&a);
    if (!good)
        suite_fail(a.suite, "tensors");
    else if (c->library)
        measure_with_library(c, &a);
    for (int pass = 0; good && !c->library && pass < 2 && !dnn_rows_late(&c->rows); pass++) {
        a.backward = pass == 1;
        measure(c, &a, (stats_side){0});
    }
    end(&a);
}

void suite_dnn_attention(suite *s)
{
    const size_t count = suite_on_gpu(s) ? COUNT_OF(shapes) : COUNT_OF(small);
    section c = {.rows = dnn_rows_begin(s)};
    report_section(s->report, "Attention, bf16",
                   "raw: PyTorch's cuDNN backend, of --torch FILE; Troupe: submit all, then drain");
    dnn_rows_run(&c.rows, count, run_shape, &c);
}

void suite_dnn_attention_raw(suite *s)
{
    raw_dnn library = {0};
    section c = {.rows = dnn_rows_begin(s), .library = &library};
    report_section(s->report, "Attention, bf16, by cuDNN alone",
                   suite_on_gpu(s) ? "raw: cudnnBackendExecute in this process, by turns with "
                                     "Troupe, so that both have the GPU's clock in common"
                                   : "needs a GPU");
    if (!suite_on_gpu(s))
        return;
    if (raw_dnn_open(&library, s->raw->error) == TRP_OK)
        dnn_rows_run(&c.rows, COUNT_OF(shapes), run_shape, &c);
    else
        suite_fail(s, "cudnnBackendExecute");
    raw_dnn_close(&library);
}
