/* What cuBLASLt does of the dnn actor's graphs on GPUs: products, and convolutions with filters of
 * one tap, with biases and activations behind them: against a float64 reference, on all backends.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_problem.h"
#include "support/label.h"

#include <unistd.h>

TROUPE_TEST("one isolation");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");
TROUPE_TEST_FAKE_GPU("no sanitizer", "as fake-cudnn", "dnn", "FAKE_CUDNN_TAKES=all");
TROUPE_TEST_FAKE_GPU("no sanitizer", "as fake-without", "dnn", "TROUPE_CUBLASLT=/nowhere/none");

static h_world world;
static trp_actor *dnn;

/* A test may run without it, to see that all goes on. */
static bool has_cublaslt(void)
{
    const char *path = getenv("TROUPE_CUBLASLT");
    return h_is_cuda() && (!path || access(path, R_OK) == 0);
}

/* `product`: where cuBLASLt is there all of it must be done by that, as one. */
static void check(dp_problem *p, bool product)
{
    trp_dnn_ran ran = {.parts = 99};
    p->options.ran = &ran;
    dp_check(world.device, dnn, p);
    bool is = strncmp(ran.engine, "cublaslt", 8) == 0;
    if (!p->refused && product && has_cublaslt() && (!is || ran.parts != 1))
        h_fail(__FILE__, __LINE__, "%s: by %s, in %u parts", p->kind, ran.engine, ran.parts);
    H_CHECK(!is || has_cublaslt());
}

/* Sizes that the library does not round twice, with 16 bits. */
static int64_t draw_size(trp_dtype type)
{
    return type == TRP_F64 || type == TRP_F32 ? dp_from(1, 19) : 8 * dp_from(1, 4);
}

static const trp_dtype wide[] = {TRP_F64, TRP_F32, TRP_F16, TRP_BF16};

static trp_dtype draw_result(trp_dtype type)
{
    return type != TRP_F64 && dp_below(3) == 0 ? TRP_F32 : type;
}

/* --- epilogues --- */

/* Puts a bias, an activation or both behind what `field` names; the bias is a line along `axis`. */
static void go_on(dp_problem *p, uint32_t *field, uint32_t axis, int what)
{
    const trp_dnn_pointwise modes[] = {0, TRP_DNN_RELU, TRP_DNN_GELU_TANH};
    const uint32_t y = *field;
    const trp_dtype type = p->tensor[y].type;
    const bool bias = what % 2, activation = what / 2 > 0;
    uint32_t current = *field = dp_virtual(p, TRP_DTYPE_NONE);
    if (bias) {
        trp_dnn_node *n = dp_node(p, TRP_DNN_POINTWISE);
        int64_t dim[TRP_DNN_RANK_MAX];
        for (uint32_t i = 0; i < p->tensor[y].rank; i++)
            dim[i] = i == axis ? p->tensor[y].dim[i] : 1;
        const uint32_t line = dp_memory(p, type, p->tensor[y].rank, dim);
        bool first = dp_below(4) == 0;
        n->pointwise = TRP_DNN_ADD;
        n->x = first ? line : current;
        n->b = first ? current : line;
        n->y = activation ? dp_virtual(p, TRP_DTYPE_NONE) : y;
        current = n->y;
    }
    if (activation) {
        trp_dnn_node *n = dp_node(p, TRP_DNN_POINTWISE);
        n->pointwise = modes[what / 2];
        n->x = current;
        n->y = y;
    }
}

/* --- convolutions --- */

static void draw_conv(dp_problem *p, trp_dnn_kind kind, trp_dtype type)
{
    const uint32_t spatial = (uint32_t)dp_from(1, 3), rank = spatial + 2;
    int64_t x[TRP_DNN_RANK_MAX] = {0}, w[TRP_DNN_RANK_MAX], y[TRP_DNN_RANK_MAX];
    trp_dnn_node *n = dp_node(p, kind);
    x[0] = type == TRP_F32 || type == TRP_F64 ? dp_from(1, 3) : 8;
    for (uint32_t i = 2; i < rank; i++) {
        x[i] = dp_from(1, spatial == 3 ? 3 : 6);
        w[i] = 1;
    }
    memcpy(y, x, sizeof y);
    w[1] = x[1] = draw_size(type);
    w[0] = y[1] = draw_size(type);
    uint32_t image =
        dp_memory(p, kind == TRP_DNN_CONV_BACKWARD_DATA ? draw_result(type) : type, rank, x);
    uint32_t filter =
        dp_memory(p, kind == TRP_DNN_CONV_BACKWARD_FILTER ? draw_result(type) : type, rank, w);
    uint32_t result =
        dp_memory(p, kind == TRP_DNN_CONV_FORWARD ? draw_result(type) : type, rank, y);
    *(kind == TRP_DNN_CONV_BACKWARD_DATA ? &n->dx : &n->x) = image;
    *(kind == TRP_DNN_CONV_BACKWARD_FILTER ? &n->dw : &n->w) = filter;
    *(kind == TRP_DNN_CONV_FORWARD ? &n->y : &n->dy) = result;
}

static void channels_last(dp_problem *p)
{
    p->packed = true;
    for (uint32_t t = 1; t <= p->tensors; t++)
        trp_dnn_channels_last(&p->tensor[t]);
}

/* Which of both libraries does these is theirs to say. */
static void convolutions(void)
{
    static const char *const names[] = {"1x1 conv", "1x1 conv, data", "1x1 conv, filter"};
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(24); i++) {
        dp_problem p = {.kind = names[i % 3]};
        draw_conv(&p, (trp_dnn_kind)(TRP_DNN_CONV_FORWARD + i % 3), wide[dp_below(4)]);
        channels_last(&p);
        check(&p, false);
    }
    dp_close(&world);
}

static void fused_convolutions(void)
{
    static const char *const names[] = {"",           "1x1 conv, bias", "1x1 conv, relu",
                                        "... biased", "1x1 conv, gelu", "... biased gelu"};
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(40); i++) {
        const trp_dtype type = wide[dp_below(4)];
        const int what = 1 + i % 5;
        dp_problem p = {.kind = names[what]};
        draw_conv(&p, TRP_DNN_CONV_FORWARD, type);
        go_on(&p, &p.node[0].y, 1, what);
        channels_last(&p);
        p.options.tf32 = type != TRP_F32 && dp_below(2);
        p.options.deterministic = dp_below(2);
        p.options.workspace_bytes = dp_below(2) ? 1 : 0;
        check(&p, type != TRP_F64 || what < 4);
    }
    dp_close(&world);
}

/* --- products --- */

static void draw_product(dp_problem *p, trp_dtype type)
{
    const uint32_t rank = (uint32_t)dp_from(2, 5);
    int64_t a[TRP_DNN_RANK_MAX], b[TRP_DNN_RANK_MAX], y[TRP_DNN_RANK_MAX];
    trp_dnn_node *n = dp_node(p, TRP_DNN_MATMUL);
    for (uint32_t k = 0; k < rank - 2; k++) {
        int64_t which = dp_below(4);
        y[k] = dp_from(1, 3);
        a[k] = which == 1 ? 1 : y[k];
        b[k] = which == 2 ? 1 : y[k];
    }
    y[rank - 2] = a[rank - 2] = draw_size(type);
    y[rank - 1] = b[rank - 1] = draw_size(type);
    a[rank - 1] = b[rank - 2] = draw_size(type);
    n->a = dp_memory(p, type, rank, a);
    n->b = dp_memory(p, type, rank, b);
    n->y = dp_memory(p, draw_result(type), rank, y);
}

/* Packed, those of f32 and f64 always are cuBLASLt's; as they lie otherwise, as far as it goes. */
static void products(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(40); i++) {
        const trp_dtype type = wide[dp_below(4)];
        dp_problem p = {.kind = i % 2 ? "product, packed" : "product", .packed = i % 2};
        draw_product(&p, type);
        check(&p, p.packed && (type == TRP_F32 || type == TRP_F64));
    }
    dp_close(&world);
}

static void fused_products(void)
{
    static const char *const names[] = {"",           "product, bias", "product, relu",
                                        "... biased", "product, gelu", "... biased gelu"};
    world = dp_open(&dnn);
    for (int i = 0; i < dp_rounds(40); i++) {
        const trp_dtype type = wide[dp_below(4)];
        const int what = 1 + i % 5;
        dp_problem p = {.kind = names[what], .packed = true};
        draw_product(&p, type);
        go_on(&p, &p.node[0].y, p.tensor[p.node[0].y].rank - 1, what);
        check(&p, type == TRP_F32 || (type == TRP_F64 && what < 4));
    }
    dp_close(&world);
}

/* With sums that the library may divide. */
static void large_products(void)
{
    world = dp_open(&dnn);
    for (int i = 0; i < (H_SANITIZED ? 2 : 6); i++) {
        const int64_t m = dp_from(90, 130), n = dp_from(60, 90), k = dp_from(100, 200);
        const trp_dtype type = i % 2 ? TRP_F64 : TRP_F32;
        dp_problem p = {.kind = "larger product", .packed = true};
        trp_dnn_node *node = dp_node(&p, TRP_DNN_MATMUL);
        node->a = dp_memory(&p, type, 2, (const int64_t[]){m, k});
        node->b = dp_memory(&p, type, 2, (const int64_t[]){k, n});
        node->y = dp_memory(&p, type, 2, (const int64_t[]){m, n});
        check(&p, true);
    }
    dp_close(&world);
}

H_CASES(H_CASE(convolutions), H_CASE(fused_convolutions), H_CASE(products), H_CASE(fused_products),
        H_CASE(large_products))
