#include "product.h"

#include "filled.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copies of the operands exceed twice the largest cache of a GPU, up to COPIES copies. */
enum { COLD = 128 << 20, COPIES = 16 };

/* Allocates a buffer of `bytes` bytes, filled with copies of the piece or with NaNs. */
static bool product_buffer(product *p, uint64_t bytes, bool filled, trp_buffer *out)
{
    return filled_buffer(p->suite, filled ? p->piece : NULL, bytes, out);
}

static uint64_t product_bytes(trp_dtype type, int64_t rows, int64_t columns)
{
    return (uint64_t)rows * (uint64_t)columns * trp_dtype_bits(type) / 8;
}

/* Sets all factors to 0.5. */
static bool make_factors(product *p)
{
    suite *s = p->suite;
    trp_completion done = {0};
    uint64_t bytes = product_bytes(TRP_F32, p->what.n, 1);
    return suite_check(s, trp_buffer_create(s->device, bytes, &p->factors), "trp_buffer_create") &&
           suite_await(s, trp_fill(s->device, p->factors, 0, bytes, 0x3f000000, 4, &done), &done,
                       "trp_fill");
}

bool product_begin(product *p)
{
    const raw_product *w = &p->what;
    const suite *s = p->suite;
    uint64_t copies = w->copies;
    p->piece = malloc(FILLED_PIECE);
    if (!p->piece)
        return false;
    /* Pairs of bf16 form f32 of similar magnitude. */
    filled_piece(w->type == TRP_F32 ? TRP_BF16 : w->type, p->piece, s->seed);
    bool good = product_buffer(p, copies * product_bytes(w->type, w->k, w->m), true, &p->a) &&
                product_buffer(p, copies * product_bytes(w->type, w->k, w->n), true, &p->b) &&
                product_buffer(p, copies * product_bytes(w->type_d, w->m, w->n), false, &p->d);
    if (good && p->fused)
        good = product_buffer(p, product_bytes(w->type_d, w->m, 1), true, &p->bias) &&
               product_buffer(p, copies * product_bytes(w->type_d, w->m, w->n), true, &p->aux) &&
               make_factors(p);
    if (good && p->epilogue)
        good = product_buffer(p, product_bytes(w->type_d, w->m, 1), true, &p->bias) &&
               product_buffer(p, copies * product_bytes(w->type_d, w->m, w->n), false, &p->aux);
    return good && (!p->raw || s->raw->api->matmul_begin(s->raw, w, p->piece, FILLED_PIECE));
}

void product_end(product *p)
{
    suite *s = p->suite;
    trp_buffer all[] = {p->a, p->b, p->d, p->bias, p->aux, p->factors};
    suite_free(s, all, sizeof all / sizeof *all);
    if (p->raw)
        s->raw->api->matmul_end(s->raw);
    free(p->piece);
}

bool product_run_raw(void *context, uint64_t count)
{
    const product *p = context;
    return p->suite->raw->api->matmul(p->suite->raw, count);
}

trp_matmul_request product_request(const product *p, uint32_t copy)
{
    const raw_product *w = &p->what;
    uint64_t d_offset = copy * product_bytes(w->type_d, w->m, w->n);
    trp_matmul_request r = {
        .header = {.wait_ns = TRP_FOREVER},
        .m = w->m,
        .n = w->n,
        .k = w->k,
        .trans_a = TRP_T,
        .a = {.buffer = p->a, .type = w->type, .offset = copy * product_bytes(w->type, w->k, w->m)},
        .b = {.buffer = p->b, .offset = copy * product_bytes(w->type, w->k, w->n)},
        .d = {.buffer = p->d, .type = w->type_d, .offset = d_offset},
        .compute = p->compute,
        .workspace_bytes = p->workspace,
        .tune = p->tune,
    };
    if (p->epilogue) {
        r.activation = TRP_ACTIVATION_GELU;
        r.bias.buffer = p->bias;
        r.aux.buffer = p->aux;
        r.aux.offset = d_offset;
    }
    return r;
}

/* The lines of D are its columns: the bias has one element per position in a line, the factors one
 * per line. */
static void set_tree(product *p, trp_cutlass_gemm_request *r)
{
    enum { NONE, SUM, BIAS, SHIFTED, GELU, SCALED, SECOND, ROOT, COUNT };
    const trp_epilogue_node node[COUNT] = {
        [SUM] = {.kind = TRP_EPILOGUE_ACCUMULATOR},
        [BIAS] = {.kind = TRP_EPILOGUE_PER_ROW, .buffer = p->bias, .type = p->what.type_d},
        [SHIFTED] = {.kind = TRP_EPILOGUE_BINARY, .input = {SUM, BIAS}},
        [GELU] = {.kind = TRP_EPILOGUE_ACTIVATION,
                  .activation = TRP_ACTIVATION_GELU,
                  .input = {SHIFTED}},
        [SCALED] = {.kind = TRP_EPILOGUE_SCALE_COLUMNS, .input = {GELU}, .buffer = p->factors},
        [SECOND] = {.kind = TRP_EPILOGUE_C},
        [ROOT] = {.kind = TRP_EPILOGUE_BINARY, .input = {SCALED, SECOND}},
    };
    memcpy(p->node, node, sizeof node);
    r->epilogue = p->node;
    r->epilogue_count = COUNT;
    r->c = r->d;
    r->c.buffer = p->aux;
}

trp_cutlass_gemm_request product_kernel_request(product *p, const trp_matmul_request *m)
{
    trp_cutlass_gemm_request r = {
        .header = m->header, .m = m->m, .n = m->n, .k = m->k, .a = m->a, .b = m->b, .d = m->d};
    r.a.order = TRP_ROW_MAJOR;
    r.kernel = p->suite->kernel;
    r.tune = p->tune;
    r.chosen = &p->chosen;
    if (p->fused)
        set_tree(p, &r);
    return r;
}

bool product_run_troupe(void *context, uint64_t count)
{
    product *p = context;
    trp_matmul_request of_copy[COPIES];
    trp_cutlass_gemm_request kernel_of_copy[COPIES];
    for (uint32_t i = 0; i < p->what.copies; i++) {
        of_copy[i] = product_request(p, i);
        kernel_of_copy[i] = product_kernel_request(p, &of_copy[i]);
    }
    for (uint64_t i = 0; i < count; i++, p->next = p->next + 1 < p->what.copies ? p->next + 1 : 0) {
        trp_status status = p->cutlass ? trp_cutlass_gemm(p->actor, &kernel_of_copy[p->next], NULL)
                                       : trp_matmul(p->actor, &of_copy[p->next], NULL);
        if (!suite_check(p->suite, status, "a product"))
            return false;
    }
    return suite_drain(p->suite, TRP_FOREVER);
}

/* Creates the plan, with a search if requested, and reports products that the library cannot
 * compute. */
bool product_run_first(product *p)
{
    trp_completion done = {0};
    trp_matmul_request request = product_request(p, 0);
    trp_cutlass_gemm_request kernel = product_kernel_request(p, &request);
    trp_status status = p->cutlass ? trp_cutlass_gemm(p->actor, &kernel, &done)
                                   : trp_matmul(p->actor, &request, &done);
    return suite_await(p->suite, status, &done, "a product");
}

static bool product_compare(product *p, char note[40])
{
    uint64_t bytes = product_bytes(p->what.type_d, p->what.m, p->what.n);
    return product_run_raw(p, 1) && filled_compare(p->suite, p->d, bytes, note);
}

product product_of(suite *s, trp_actor *actor, trp_dtype type, shape x)
{
    uint64_t bytes = product_bytes(type, x.k, x.m) + product_bytes(type, x.k, x.n) +
                     product_bytes(TRP_BF16, x.m, x.n);
    uint64_t copies = COLD / bytes + 1;
    return (product){.suite = s,
                     .actor = actor,
                     .what = {.type = type,
                              .type_d = TRP_BF16,
                              .m = x.m,
                              .n = x.n,
                              .k = x.k,
                              .copies = copies < COPIES ? (uint32_t)copies : COPIES},
                     .raw = s->raw->api->matmul_begin != NULL};
}

/* Returns false after it has reported the failure. */
bool product_measure(product *p, report_row *row)
{
    suite *s = p->suite;
    stats_side raw_side = {.run = p->raw ? product_run_raw : NULL, .context = p};
    stats_side troupe_side = {.run = product_run_troupe, .context = p};
    stats_plan plan = {.blocks = s->quick ? 3 : 7};
    row->raw = p->raw ? s->raw->api->matmul_label : NULL;
    bool good = product_begin(p) && product_run_first(p) &&
                (!p->raw || p->epilogue || product_compare(p, row->note));
    if (good) {
        suite_plan_blocks(s, p->raw ? raw_side : troupe_side, &plan);
        good = plan.count > 0 && suite_measure_placed(s, false, plan, raw_side, troupe_side, row);
    } else {
        suite_fail(s, row->name);
    }
    product_end(p);
    return good;
}

report_row product_row(const suite *s, const product *p)
{
    const raw_product *w = &p->what;
    double flop = 2.0 * (double)w->m * (double)w->n * (double)w->k;
    report_row row = {.type = trp_dtype_name(w->type)};
    suite_set_flop(s, &row, flop);
    snprintf(row.name, sizeof row.name, "%s %lld x %lld x %lld", row.type, (long long)w->m,
             (long long)w->n, (long long)w->k);
    return row;
}

void mean_add(mean *sum, const report_row *row)
{
    double speed = row->raw_ns.p50 / row->troupe_ns.p50;
    sum->least = sum->count == 0 || speed < sum->least ? speed : sum->least;
    sum->logarithms += log(speed);
    sum->count++;
}

void mean_show(suite *s, const mean *sum, double limit)
{
    if (sum->count == 0)
        return;
    double speed = exp(sum->logarithms / sum->count);
    report_row row = {.raw = "1",
                      .unit = "of raw",
                      .rate = true,
                      .scale = 1,
                      .raw_ns = {.samples = 1, .operations = 1, .p50 = 1},
                      .troupe_ns = {.samples = 1, .operations = 1, .p50 = 1 / speed}};
    snprintf(row.name, sizeof row.name, "geometric mean of %d", sum->count);
    snprintf(row.note, sizeof row.note, "least %.3f", sum->least);
    suite_bound(s, &row, REPORT_RATIO_AT_LEAST, limit);
    report_add(s->report, &row);
}
