/* Recurrent networks as cuDNN's: the descriptors of every kind of network, and where the library
 * wants its weights, without a GPU. Skipped where cuDNN is missing; where the weights lie is asked
 * for only of a version that is known to look at nothing in a handle for that, and gets one of
 * zeros. */
#include "actors/dnn/rnn/cudnn.h"
#include "dnn_planner.h"
#include "support/label.h"

#include "support/unit.h"

TROUPE_TEST("no tsan", "foreign leaks");

enum { VERSION = 91900, HANDLE_BYTES = 1 << 20, BATCH = 3 };

static trp__dnn_planner planner;
static trp__cudnn_handle handle; /* NULL: there is none to ask with */

/* What the pieces of a network cover. */
typedef struct cover {
    unsigned char *ours, *theirs;
    uint64_t our_bytes, their_bytes, pieces;
} cover;

static trp_status add(void *context, const trp__rnn_stretch *piece, trp_error *error)
{
    cover *c = context;
    (void)error;
    c->pieces++;
    assert_true(piece->bytes > 0);
    assert_true(piece->ours + piece->bytes <= c->our_bytes);
    assert_true(piece->theirs + piece->bytes <= c->their_bytes);
    for (uint64_t i = 0; i < piece->bytes; i++) {
        assert_int_equal(c->ours[piece->ours + i]++, 0);
        assert_int_equal(c->theirs[piece->theirs + i]++, 0);
    }
    return TRP_OK;
}

static void check_weights(const trp__rnn_cudnn *d, const trp__rnn *n)
{
    trp_error error;
    size_t bytes = 0;
    if (!handle)
        return;
    assert_int_equal(planner.lib->cudnnGetRNNWeightSpaceSize(handle, d->rnn, &bytes), 0);
    cover c = {.our_bytes = trp__rnn_weights(n) * (trp_dtype_bits((trp_dtype)n->type) / 8),
               .their_bytes = bytes};
    assert_int_equal(c.our_bytes, c.their_bytes);
    c.ours = calloc(bytes, 1);
    c.theirs = calloc(bytes, 1);
    if (trp__rnn_cudnn_pieces(d, handle, n, bytes, add, &c, &error) != TRP_OK)
        fail_msg("%s", error.message);
    for (size_t i = 0; i < bytes; i++)
        assert_true(c.ours[i] == 1 && c.theirs[i] == 1);
    /* The library has all biases behind all matrices. */
    if (!n->bias || (n->layers == 1 && n->directions == 1 && n->width == n->hidden))
        assert_int_equal(c.pieces, 1);
    free(c.ours);
    free(c.theirs);
}

static void check_net(const trp__rnn *n, trp__cudnn_rnn_algo algorithm, const int32_t *length)
{
    trp__rnn_cudnn d;
    trp_error error;
    if (trp__rnn_cudnn_make(planner.lib, n, algorithm, length, NULL, &d, &error) != TRP_OK)
        fail_msg("mode %d, type %d: %s", n->mode, n->type, error.message);
    assert_int_equal(d.c != NULL, n->mode == TRP_RNN_LSTM);
    check_weights(&d, n);
    trp__rnn_cudnn_drop(&d);
    assert_null(d.rnn);
}

static void networks(void **unused)
{
    static const trp_dtype types[] = {TRP_F32, TRP_F64, TRP_F16, TRP_BF16};
    static const int32_t lengths[BATCH] = {4, 1, 6};
    (void)unused;
    for (unsigned i = 0; i < 512; i++) {
        trp__rnn n = {.mode = (uint8_t)(i % 4),
                      .type = (uint8_t)types[i / 4 % 4],
                      .directions = (uint8_t)(1 + i / 16 % 2),
                      .bias = i / 32 % 2,
                      .batch_first = i / 64 % 2,
                      .tf32 = i / 64 % 2,
                      .training = true,
                      .input = 5,
                      .hidden = 7,
                      .width = 7,
                      .layers = (int32_t)(1 + i / 128 % 2),
                      .steps = 6,
                      .batch = BATCH};
        if (i / 256 && n.mode == TRP_RNN_LSTM)
            n.width = 3;
        check_net(&n, TRP__CUDNN_RNN_ALGO_STANDARD, i / 256 ? lengths : NULL);
    }
}

/* The network of the figures in bench/results, and what is done otherwise for one thing of it. */
static void algorithms(void **unused)
{
    const trp__rnn net = {.mode = TRP_RNN_LSTM,
                          .type = TRP_F16,
                          .directions = 1,
                          .bias = true,
                          .input = 1024,
                          .hidden = 1024,
                          .width = 1024,
                          .layers = 1,
                          .steps = 50,
                          .batch = 64};
    trp__rnn others[12];
    (void)unused;
    assert_int_equal(trp__rnn_cudnn_algorithm(&net, 90, 132), TRP__CUDNN_RNN_ALGO_PERSIST_STATIC);
    assert_int_equal(trp__rnn_cudnn_algorithm(&net, 80, 108), TRP__CUDNN_RNN_ALGO_PERSIST_STATIC);
    assert_int_equal(trp__rnn_cudnn_algorithm(&net, 86, 84), TRP__CUDNN_RNN_ALGO_STANDARD);
    assert_int_equal(trp__rnn_cudnn_algorithm(&net, 90, 72), TRP__CUDNN_RNN_ALGO_STANDARD);
    assert_int_equal(trp__rnn_cudnn_algorithm(&net, 75, 132), TRP__CUDNN_RNN_ALGO_STANDARD);
    for (size_t i = 0; i < 12; i++)
        others[i] = net;
    others[0].mode = TRP_RNN_GRU;
    others[1].type = TRP_F32;
    others[2].type = TRP_BF16;
    others[3].training = true;
    others[4].layers = 2;
    others[5].directions = 2;
    others[6].lengths = true;
    others[7].width = 512;
    others[8].hidden = others[8].width = 1152;
    others[9].input = 1000;
    others[10].batch = 60;
    others[11].batch = 136;
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(trp__rnn_cudnn_algorithm(&others[i], 90, 132),
                         TRP__CUDNN_RNN_ALGO_STANDARD);
    check_net(&net, TRP__CUDNN_RNN_ALGO_PERSIST_STATIC, NULL);
}

/* What the library refuses is told in its words, and leaves nothing. */
static void refusals(void **unused)
{
    trp__rnn n = {.mode = TRP_RNN_LSTM,
                  .type = TRP_F32,
                  .directions = 1,
                  .input = 5,
                  .hidden = 7,
                  .width = 7,
                  .layers = 0,
                  .steps = 6,
                  .batch = BATCH};
    trp__rnn_cudnn d;
    trp_error error;
    (void)unused;
    assert_int_not_equal(
        trp__rnn_cudnn_make(planner.lib, &n, TRP__CUDNN_RNN_ALGO_STANDARD, NULL, NULL, &d, &error),
        TRP_OK);
    assert_non_null(strstr(error.message, "cudnnSetRNNDescriptor_v8"));
    assert_string_equal(error.domain, "cudnn");
    assert_null(d.rnn);
}

static int set_up(void **unused)
{
    (void)unused;
    dnn_planner_open(&planner);
    if (planner.lib->cudnnGetVersion() / 100 == VERSION / 100)
        handle = calloc(1, HANDLE_BYTES);
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    free(handle);
    dnn_planner_close(&planner);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {UNIT(networks), UNIT(algorithms), UNIT(refusals)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
