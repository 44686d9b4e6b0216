/* Random epilogue trees on a GPU and on the host: the same bits. On the fake driver, whose kernels
 * evaluate a tree as the host does, this is about everything around that: the transposed problem of
 * a column-major D, where operands lie, what reductions begin with. SPDX-License-Identifier:
 * Apache-2.0
 */
#include "support/elements.h"
#include "support/epilogue_draw.h"
#include "support/kernels.h"
#include "support/random.h"

#include <complex.h>
#include <math.h>

enum { ROUNDS = 300, SIDE = 40, A = TRP_EPILOGUE_NODES_MAX, B, C, D, OPERANDS };

/* One side: its device, and a buffer for each operand. */
typedef struct side {
    trp_device *device;
    trp_actor *cutlass;
    trp_buffer buffer[OPERANDS];
    trp_status status;
} side;

typedef struct problem {
    epilogue_tree tree;
    trp_cutlass_gemm_request r;
    size_t bytes[OPERANDS];
    trp_dtype type[OPERANDS];
    bool written[OPERANDS];
    unsigned char *data[OPERANDS]; /* that operands hold before */
} problem;

static int below(int bound)
{
    return (int)ref_rng_below(h_rng(), (size_t)bound);
}

static void add(problem *p, int which, trp_dtype type, int64_t elements, bool written)
{
    p->type[which] = type;
    p->written[which] = written;
    p->bytes[which] = (size_t)elements * (trp_dtype_bits(type) / 8);
    p->data[which] = h_malloc(p->bytes[which]);
    for (int64_t i = 0; i < elements; i++)
        ref_element_store(type, p->data[which], i, below(9) - 4);
}

static trp_matmul_matrix matrix(problem *p, int which, trp_dtype type, trp_order order,
                                int64_t rows, int64_t columns)
{
    trp_matmul_matrix x = {.type = type, .order = order};
    int64_t lines = order == TRP_ROW_MAJOR ? rows : columns;
    x.ld = (order == TRP_ROW_MAJOR ? columns : rows) + (below(3) ? 0 : 8);
    x.stride = lines * x.ld;
    add(p, which, type, x.stride * p->r.batch, which == D);
    return x;
}

static void place_node(problem *p, uint32_t i)
{
    trp_epilogue_node *x = &p->tree.node[i];
    trp_dtype compute = p->tree.accumulator == TRP_F64 ? TRP_F64 : TRP_F32, type = x->type;
    int64_t count = 1;
    bool shared = below(3) == 0, written = epilogue_is_sink(x->kind);
    x->ld = x->stride = 0;
    x->offset = 0;
    if (x->kind == TRP_EPILOGUE_AUX_LOAD || x->kind == TRP_EPILOGUE_AUX_STORE) {
        x->ld = (x->order == TRP_ROW_MAJOR ? p->r.n : p->r.m) + (below(3) ? 0 : 8);
        count = x->ld * (x->order == TRP_ROW_MAJOR ? p->r.m : p->r.n);
        type = type ? type : p->tree.d;
        shared = shared && !written;
    } else if (x->kind == TRP_EPILOGUE_PER_ROW || x->kind == TRP_EPILOGUE_SCALE_ROWS ||
               x->kind == TRP_EPILOGUE_REDUCE_ROWS) {
        count = p->r.m;
    } else if (x->kind == TRP_EPILOGUE_PER_COLUMN || x->kind == TRP_EPILOGUE_SCALE_COLUMNS ||
               x->kind == TRP_EPILOGUE_REDUCE_COLUMNS) {
        count = p->r.n;
    }
    x->stride = shared ? 0 : count;
    add(p, (int)i, type ? type : compute, count * p->r.batch, written);
}

static problem draw(uint64_t *rng)
{
    problem p = {.r = {.m = 1 + below(SIDE), .n = 1 + below(SIDE), .k = 1 + below(SIDE)}};
    trp_order orders[2] = {TRP_ROW_MAJOR, TRP_COL_MAJOR};
    epilogue_draw(rng, (epilogue_limits){.nodes = 4 + (uint32_t)below(12)}, &p.tree);
    if (below(2)) {
        p.r.m = (p.r.m + 15) / 16 * 16;
        p.r.n = (p.r.n + 15) / 16 * 16;
        p.r.k = (p.r.k + 15) / 16 * 16;
    }
    p.r.batch = below(2) ? 1 : 1 + below(3);
    trp_dtype a = p.tree.accumulator == TRP_F64   ? TRP_F64
                  : p.tree.accumulator == TRP_I32 ? TRP_I8
                                                  : TRP_BF16;
    p.r.a = matrix(&p, A, a, orders[below(2)], p.r.m, p.r.k);
    p.r.b = matrix(&p, B, a, orders[below(2)], p.r.k, p.r.n);
    if (p.tree.c)
        p.r.c = matrix(&p, C, p.tree.c, p.tree.order, p.r.m, p.r.n);
    p.r.d = matrix(&p, D, p.tree.d, p.tree.order, p.r.m, p.r.n);
    for (uint32_t i = 1; i < p.tree.count; i++) {
        if (epilogue_has_memory(p.tree.node[i].kind) && p.tree.node[i].buffer.id)
            place_node(&p, i);
    }
    return p;
}

static void run(side *s, problem *p)
{
    trp_completion done = {0};
    for (int i = 0; i < OPERANDS; i++) {
        s->buffer[i] = (trp_buffer){0};
        if (!p->data[i])
            continue;
        s->buffer[i] = h_buffer(s->device, p->bytes[i]);
        h_write(s->device, s->buffer[i], 0, p->data[i], p->bytes[i]);
        if (i < (int)p->tree.count)
            p->tree.node[i].buffer = s->buffer[i];
    }
    p->r.a.buffer = s->buffer[A];
    p->r.b.buffer = s->buffer[B];
    p->r.c.buffer = s->buffer[C];
    p->r.d.buffer = s->buffer[D];
    p->r.epilogue = p->tree.node;
    p->r.epilogue_count = p->tree.count;
    s->status = trp_cutlass_gemm(s->cutlass, &p->r, &done);
    if (s->status == TRP_OK)
        s->status = h_await_any(done);
}

/* Sums of f64 may be in another order, of what was rounded. */
static void compare(const problem *p, int which, const unsigned char *x, const unsigned char *y)
{
    trp_dtype type = p->type[which];
    int64_t count = (int64_t)(p->bytes[which] / (trp_dtype_bits(type) / 8));
    for (int64_t i = 0; i < count; i++) {
        double one = creal(ref_element_load(type, x, i)),
               other = creal(ref_element_load(type, y, i));
        if (one == other || (isnan(one) && isnan(other)))
            continue;
        if (!(which < A && fabs(one - other) <= 1e-6 * fabs(one)))
            h_fail(__FILE__, __LINE__, "operand %d[%lld] of %s: %.17g, on the host %.17g", which,
                   (long long)i, trp_dtype_name(type), one, other);
    }
}

static void finish(side *gpu, side *host, problem *p)
{
    for (int i = 0; i < OPERANDS; i++) {
        if (!p->data[i])
            continue;
        if (gpu->status == TRP_OK && p->written[i]) {
            unsigned char *x = h_malloc(p->bytes[i]), *y = h_malloc(p->bytes[i]);
            h_read(gpu->device, gpu->buffer[i], 0, x, p->bytes[i]);
            h_read(host->device, host->buffer[i], 0, y, p->bytes[i]);
            compare(p, i, x, y);
            free(x);
            free(y);
        }
        H_OK(trp_buffer_free(gpu->device, gpu->buffer[i]));
        H_OK(trp_buffer_free(host->device, host->buffer[i]));
        free(p->data[i]);
    }
}

static void trees(void)
{
    h_kernels k = h_kernels_open(NULL);
    side gpu = {.device = k.world.device, .cutlass = k.cutlass}, host = {0};
    trp_device_options options = h_options();
    uint64_t rng = ref_rng_below(h_rng(), UINT32_MAX);
    int done = 0, unsupported = 0;
    options.backend = TRP_BACKEND_HOST;
    H_OK(trp_device_open(k.world.system, &options, &host.device));
    host.cutlass = h_actor(host.device, "cutlass");
    for (int i = 0; i < ROUNDS; i++) {
        problem p = draw(&rng);
        run(&gpu, &p);
        char why[sizeof trp_error_last()->message];
        snprintf(why, sizeof why, "%s", trp_error_message());
        run(&host, &p);
        bool lacks = gpu.status == TRP_E_UNSUPPORTED;
        if ((gpu.status != TRP_OK && !lacks) || (host.status != TRP_OK && !lacks))
            h_fail(__FILE__, __LINE__, "round %d: %s, on the host %s: %s", i,
                   trp_status_name(gpu.status), trp_status_name(host.status), why);
        finish(&gpu, &host, &p);
        done += !lacks;
        unsupported += lacks;
    }
    printf("  %d trees, %d that no kernel can have\n", done, unsupported);
    H_CHECK(done > ROUNDS / 4);
    H_EQUAL(h_info(gpu.device).incarnation, 1);
    trp_device_close(host.device);
    h_kernels_close(&k);
}

static const h_case cases[] = {{"trees", trees}};

int main(int argc, char **argv)
{
    if (!h_kernels_are_fake())
        return H_EXIT_SKIPPED;
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
