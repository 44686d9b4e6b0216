/* See dnn_problem.h. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/dnn_problem.h"

#include "support/problems/engines.h"

#include <math.h>
#include <stdarg.h>

static trp_device *device; /* the device of the current problem */

int64_t dp_below(int64_t bound)
{
    return (int64_t)ref_rng_below(h_rng(), (size_t)bound);
}

int64_t dp_from(int64_t least, int64_t most)
{
    return least + dp_below(most - least + 1);
}

int dp_rounds(int count)
{
    const char *times = getenv("TROUPE_TEST_TIMES");
    const bool slow = H_SANITIZED || (h_is_cuda() && !h_is_gpu()); /* threads of the fake device */
    return count * (times && atoi(times) > 0 ? atoi(times) : slow ? 1 : 4);
}

/* --- graphs --- */

static trp_dnn_tensor *add(dp_problem *p)
{
    H_CHECK(p->tensors + 1 < DP_TENSORS);
    return &p->tensor[++p->tensors];
}

uint32_t dp_memory(dp_problem *p, trp_dtype type, uint32_t rank, const int64_t *dim)
{
    trp_dnn_tensor *t = add(p);
    t->type = type;
    t->rank = rank;
    memcpy(t->dim, dim, rank * sizeof *dim);
    p->memory[p->tensors] = true;
    return p->tensors;
}

uint32_t dp_span(dp_problem *p, trp_dtype type, uint32_t rank, const int64_t *dim, int64_t least,
                 int64_t most)
{
    const uint32_t number = dp_memory(p, type, rank, dim);
    p->fill[number] = DP_SPAN;
    p->span[number][0] = least;
    p->span[number][1] = most;
    return number;
}

uint32_t dp_shape(dp_problem *p, uint32_t number, uint32_t rank, const int64_t *dim)
{
    p->tensor[number].rank = rank;
    memcpy(p->tensor[number].dim, dim, rank * sizeof *dim);
    return number;
}

uint32_t dp_virtual(dp_problem *p, trp_dtype type)
{
    add(p)->type = type;
    return p->tensors;
}

uint32_t dp_value(dp_problem *p, double value)
{
    add(p)->value = trp_real(value);
    return p->tensors;
}

trp_dnn_node *dp_node(dp_problem *p, trp_dnn_kind kind)
{
    H_CHECK(p->nodes < DP_NODES);
    p->node[p->nodes].kind = kind;
    return &p->node[p->nodes++];
}

/* --- layouts --- */

static size_t size_of(const trp_dnn_tensor *t)
{
    return trp_dtype_bits(t->type) / 8;
}

/* Draws the order of the dimensions, and gaps between them. */
static void spread(trp_dnn_tensor *t, int64_t gap)
{
    int64_t next = 1 + dp_below(gap);
    uint32_t order[TRP_DNN_RANK_MAX];
    for (uint32_t i = 0; i < t->rank; i++) {
        uint32_t at = (uint32_t)dp_below((int64_t)i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (uint32_t i = 0; i < t->rank; i++) {
        t->stride[order[i]] = next;
        next = next * t->dim[order[i]] + dp_below(gap);
        next += next == 0;
    }
}

/* With TROUPE_TEST_REGULAR all tensors of most problems have one layout, as libraries need it. */
enum { ANYHOW, ROWS, CHANNELS_LAST, WAYS };

static int choose_way(const dp_problem *p)
{
    bool regular = getenv("TROUPE_TEST_REGULAR");
    return p->packed ? ROWS : regular ? (int)dp_below(WAYS) : ANYHOW;
}

static void lay_out(dp_problem *p, uint32_t number, int way)
{
    trp_dnn_tensor *t = &p->tensor[number];
    int64_t next = 1, how = way == ANYHOW ? dp_below(10) : 0;
    if (way == CHANNELS_LAST)
        trp_dnn_channels_last(t);
    if (how >= 3) {
        t->offset = (uint64_t)dp_below(5) * size_of(t);
        if (how >= 7)
            spread(t, how == 7 ? 1 : 4);
        else if (how >= 5)
            trp_dnn_channels_last(t);
        for (uint32_t i = t->rank; how < 5 && i-- > 0; next *= t->dim[i] ? t->dim[i] : 1)
            t->stride[i] = next;
    }
    if (how == 9 && dp_below(3) == 0 && !p->written[number] && p->fill[number] != DP_DISTINCT)
        t->stride[dp_below(t->rank)] = 0;
    for (uint32_t i = 0; p->repeated[number] && !p->packed && i < t->rank; i++)
        /* any stride for a dimension of 1: the tensor is not packed */
        t->stride[i] = t->dim[i] > 1 ? 0 : 1;
    for (uint32_t i = 0; i < t->rank; i++) /* a stride of 0 would mean the default */
        t->stride[i] += how >= 3 && t->stride[i] == 0 && p->written[number];
}

/* Sets the strides of a tensor that gives none. */
static void strides_of(const trp_dnn_tensor *t, int64_t *stride)
{
    bool packed = true;
    int64_t next = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        packed = packed && t->stride[i] == 0;
    for (uint32_t i = t->rank; i-- > 0; next *= t->dim[i])
        stride[i] = packed ? next : t->stride[i];
}

/* Returns the index of an element, counted from the start of the buffer. */
static int64_t place(const trp_dnn_tensor *t, const int64_t *position)
{
    int64_t stride[TRP_DNN_RANK_MAX], at = (int64_t)(t->offset / size_of(t));
    strides_of(t, stride);
    for (uint32_t i = 0; i < t->rank; i++)
        at += position[i] * stride[i];
    return at;
}

/* --- contents --- */

static double draw(const dp_problem *p, uint32_t number, size_t index)
{
    trp_dtype type = p->tensor[number].type;
    bool integer = type == TRP_I8 || type == TRP_U8 || type == TRP_I32;
    if (type == TRP_I64) /* a seed */
        return floor(ref_rng_uniform(h_rng(), -0x1p52, 0x1p52));
    if (type == TRP_F8E8M0)
        return ldexp(1, (int)dp_from(-20, 13));
    double size = ref_rng_uniform(h_rng(), 0.25, 2), sign = dp_below(2) ? 1 : -1;
    switch (p->fill[number]) {
    case DP_POSITIVE:
        return integer ? (double)dp_from(1, 9) : size;
    case DP_AWAY:
        return integer ? sign * (double)dp_from(1, 9) : sign * size;
    case DP_DISTINCT: /* f16 holds all of them */
        H_CHECK(type == TRP_F64 || type == TRP_F32 || type == TRP_F16);
        return ((double)index - (double)p->value[number].count / 2) / 16;
    case DP_FEW:
        return (double)dp_from(-1, 2);
    case DP_STEEP:
        return integer ? sign * (double)dp_from(1, 99) : sign * ldexp(size, (int)dp_from(-6, 6));
    case DP_WIDE:
        return dp_below(8) ? sign * ldexp(size, (int)dp_from(-9, 6) * (int)dp_from(0, 3)) : 0;
    case DP_SPAN:
        return (double)dp_from(p->span[number][0], p->span[number][1]);
    case DP_ANY:
        break;
    }
    return integer ? (double)dp_from(-9, 9) : ref_rng_uniform(h_rng(), -2, 2);
}

void dp_set(dp_problem *p, uint32_t number, const double *v)
{
    const trp_dnn_tensor *t = &p->tensor[number];
    dr_tensor *value = &p->value[number];
    int64_t at[TRP_DNN_RANK_MAX] = {0};
    bool any = value->count > 0;
    for (bool more = any; more; more = dr_next(value, at))
        dr_store(t->type, p->data[number], place(t, at), v[dr_at(value, at)]);
    for (bool more = any; more; more = dr_next(value, at)) /* some elements may share memory */
        value->v[dr_at(value, at)] = dr_load(t->type, p->data[number], place(t, at));
}

void dp_put(dp_problem *p, uint32_t number, const double *v)
{
    dp_set(p, number, v);
    h_write(device, p->tensor[number].buffer, 0, p->data[number], p->bytes[number]);
}

static void fill(dp_problem *p, uint32_t number)
{
    const size_t count = p->value[number].count;
    double *v = h_malloc((count + 1) * sizeof *v);
    for (size_t i = 0; i < count; i++)
        v[i] = draw(p, number, i);
    for (size_t i = count; p->fill[number] == DP_DISTINCT && i > 1; i--) {
        size_t other = ref_rng_below(h_rng(), i);
        double kept = v[i - 1];
        v[i - 1] = v[other];
        v[other] = kept;
    }
    memset(p->data[number], 0xff, p->bytes[number]); /* gaps hold NaN */
    dp_set(p, number, v);
    free(v);
}

/* Fills elements with NaN, if the type has one, and gaps with random bytes. */
static void poison(dp_problem *p, uint32_t number)
{
    const trp_dnn_tensor *t = &p->tensor[number];
    int64_t at[TRP_DNN_RANK_MAX] = {0};
    h_random_bytes(h_rng(), p->data[number], p->bytes[number]);
    for (bool more = p->value[number].count > 0; more; more = dr_next(&p->value[number], at))
        memset(p->data[number] + (size_t)place(t, at) * size_of(t), 0xff, size_of(t));
}

h_world dp_open(trp_actor **dnn)
{
    const h_world world = h_open(NULL);
    *dnn = h_actor(world.device, "dnn");
    return world;
}

void dp_close(h_world *world)
{
    dp_print_table();
    h_close(world);
}

void dp_prepare(dp_problem *p)
{
    const int way = choose_way(p);
    for (uint32_t i = 0; i < p->nodes; i++) {
        uint32_t out[DR_OUTPUTS_MAX], count = dr_outputs(&p->node[i], out);
        for (uint32_t k = 0; k < count; k++)
            p->written[out[k]] = true;
    }
    for (uint32_t i = 1; i <= p->tensors; i++) {
        trp_dnn_tensor *t = &p->tensor[i];
        if (!p->memory[i])
            continue;
        int64_t last[TRP_DNN_RANK_MAX] = {0};
        lay_out(p, i, way);
        dr_make(&p->value[i], t->type, t->rank, t->dim);
        for (uint32_t k = 0; k < t->rank; k++)
            last[k] = t->dim[k] ? t->dim[k] - 1 : 0;
        p->bytes[i] = (size_t)(place(t, last) + 1 + dp_below(5)) * size_of(t) + 16;
        p->data[i] = h_malloc(p->bytes[i]);
        if (p->written[i])
            poison(p, i);
        else
            fill(p, i);
    }
    if (p->settle)
        p->settle(p);
}

void dp_make(trp_device *on, dp_problem *p)
{
    device = on;
    dp_prepare(p);
    for (uint32_t i = 1; i <= p->tensors; i++) {
        if (!p->memory[i])
            continue;
        p->tensor[i].buffer = h_buffer(device, p->bytes[i]);
        h_write(device, p->tensor[i].buffer, 0, p->data[i], p->bytes[i]);
    }
}

trp_status dp_send(trp_actor *dnn, dp_problem *p, trp_completion *done)
{
    if (!p->options.ran)
        p->options.ran = &p->ran;
    const trp_dnn_graph_request r = {.tensors = p->tensor,
                                     .tensor_count = p->tensors + 1,
                                     .nodes = p->node,
                                     .node_count = p->nodes,
                                     .options = p->options};
    return trp_dnn_graph(dnn, &r, done);
}

/* --- the table --- */

enum { LINES = 128, DESCRIBED = 3 /* of each kind, on a GPU */ };

static struct {
    const char *kind;
    int problems, refused, wrong, plain, unproven;
    double worst;
} lines[LINES];
static int line_count;

static int line_of(const char *kind)
{
    int i = 0;
    while (i < line_count && strcmp(lines[i].kind, kind) != 0)
        i++;
    H_CHECK(i < LINES);
    lines[i].kind = kind;
    line_count += i == line_count;
    return i;
}

void dp_print_table(void)
{
    int wrong = 0, refused = 0, plain = 0, unproven = 0;
    for (int i = 0; i < line_count; i++) {
        printf("  %-24s %5d problems, largest error %4.2f of its bound", lines[i].kind,
               lines[i].problems, lines[i].worst);
        if (lines[i].refused + lines[i].wrong + lines[i].plain > 0)
            printf(", %d refused, %d wrong, %d by plain kernels", lines[i].refused, lines[i].wrong,
                   lines[i].plain);
        printf("\n");
        wrong += lines[i].wrong;
        refused += lines[i].refused;
        plain += lines[i].plain;
        unproven += lines[i].unproven;
    }
    line_count = 0;
    memset(lines, 0, sizeof lines);
    if (wrong > 0)
        h_fail(__FILE__, __LINE__, "%d problems were wrong", wrong);
    if (unproven > 0)
        h_fail(__FILE__, __LINE__, "%d problems ran by engines that were not proven", unproven);
    if (plain > 0 && getenv("TROUPE_TEST_ENGINES"))
        h_fail(__FILE__, __LINE__, "%d problems ran by the plain kernels, which may not", plain);
    if (refused > 0 && !h_is_gpu()) /* the actor's kernels run what the fake library refuses */
        h_fail(__FILE__, __LINE__, "%d problems were refused", refused);
}

/* --- comparison --- */

static void describe(const dp_problem *p)
{
    for (uint32_t i = 0; i < p->nodes; i++) {
        const trp_dnn_node *n = &p->node[i];
        fprintf(stderr,
                "  node %u: kind %d, pointwise %d, reduce %d, resample %d, norm %d, compute %s, "
                "flip %d;",
                i, (int)n->kind, (int)n->pointwise, (int)n->reduce, (int)n->resample, (int)n->norm,
                trp_dtype_name(n->compute), n->flip);
        for (int k = 0; k < TRP_DNN_SPATIAL_MAX; k++)
            fprintf(stderr, " pad %d+%d stride %d dilation %d window %d,", (int)n->pre_pad[k],
                    (int)n->post_pad[k], (int)n->stride[k], (int)n->dilation[k], (int)n->window[k]);
        fprintf(stderr, " parameters %g %g %g\n", n->parameter[0].re, n->parameter[1].re,
                n->parameter[2].re);
    }
    for (uint32_t i = 1; i <= p->tensors; i++) {
        const trp_dnn_tensor *t = &p->tensor[i];
        fprintf(stderr, "  tensor %u: %s, value %g:", i, trp_dtype_name(t->type), t->value.re);
        for (uint32_t k = 0; k < t->rank; k++)
            fprintf(stderr, " %d (%d)", (int)t->dim[k], (int)t->stride[k]);
        fprintf(stderr, "\n");
    }
}

/* Prints the problem and fails the test: on a GPU at the end of the case. */
__attribute__((format(printf, 2, 3))) static void wrong(dp_problem *p, const char *format, ...)
{
    const int line = line_of(p->kind);
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (lines[line].wrong < DESCRIBED)
        describe(p);
    if (!h_is_cuda())
        h_fail(__FILE__, __LINE__, "%s: %s", p->kind, text);
    if (lines[line].wrong < DESCRIBED)
        fprintf(stderr, "WRONG: %s: %s%s%s%s\n", p->kind, text, p->options.ran ? ", by " : "",
                p->options.ran ? p->options.ran->engine : "",
                p->options.ran && !p->options.ran->proven ? ", not proven" : "");
    lines[line].wrong++;
    p->refused = true; /* its other outputs prove nothing more */
}

static void refused(dp_problem *p, const char *why)
{
    const int line = line_of(p->kind);
    if (lines[line].refused++ < DESCRIBED) {
        describe(p);
        fprintf(stderr, "REFUSED: %s: %s\n", p->kind, why);
    }
    p->refused = true;
}

/* Fails if the plain kernels ran a graph on a GPU, where a faster engine should. */
void dp_check_engine(dp_problem *p)
{
    const trp_dnn_ran *ran = p->options.ran;
    const int line = line_of(p->kind);
    if (h_is_gpu() && ran && ran->parts > 0 && !ran->proven && lines[line].unproven++ < DESCRIBED) {
        describe(p);
        fprintf(stderr, "UNPROVEN: %s: %s in %u parts\n", p->kind, ran->engine, ran->parts);
    }
    if (!h_is_gpu() || !ran || strcmp(ran->engine, "direct") != 0 ||
        engines_allow_plain(p->tensor, p->node, p->nodes))
        return;
    if (lines[line].plain++ < DESCRIBED) {
        describe(p);
        fprintf(stderr, "PLAIN: %s: tests/peer/engines.def has no row for it\n", p->kind);
    }
}

void dp_expect_engine(const dp_problem *p, const char *engine)
{
    const trp_dnn_ran *ran = p->options.ran;
    if (h_is_cuda() && !p->refused && strcmp(ran->engine, engine) != 0)
        h_fail(__FILE__, __LINE__, "%s: ran by %s in %u parts, expected %s", p->kind, ran->engine,
               ran->parts, engine);
}

/* A bound that is hardly more than a step of the type is exceeded when a rounding goes the other
 * way, which says nothing of the computation. Returns the size that the bound needs at a value. */
static double step_of(trp_dtype type)
{
    return type == TRP_F64 ? 0x1p-50 : type == TRP_F32 ? 0x1p-21 : HUGE_VAL;
}

static void compare_one(dp_problem *p, uint32_t number, char *after, double *worst)
{
    const trp_dnn_tensor *t = &p->tensor[number];
    const dr_tensor *want = &p->value[number];
    const size_t size = size_of(t);
    int64_t at[TRP_DNN_RANK_MAX] = {0};
    for (bool more = want->count > 0; more; more = dr_next(want, at)) {
        const size_t i = dr_at(want, at);
        const int64_t where = place(t, at);
        double got = dr_load(t->type, after, where),
               off = got == want->v[i] ? 0 : fabs(got - want->v[i]);
        const bool same = got == want->v[i] || (isnan(got) && isnan(want->v[i]));
        memcpy(after + (size_t)where * size, p->data[number] + (size_t)where * size, size);
        if (p->unknown[number])
            continue;
        if (!same && !(off <= want->e[i]) && !p->refused)
            wrong(p, "tensor %u, element %zu of %zu: got %.17g, expected %.17g +- %.3g", number, i,
                  want->count, got, want->v[i], want->e[i]);
        if (want->e[i] > fabs(want->v[i]) * step_of(t->type))
            *worst = fmax(*worst, off / want->e[i]);
    }
    if (memcmp(after, p->data[number], p->bytes[number]) != 0)
        wrong(p, "tensor %u: bytes beside its elements were written", number);
}

double dp_compare_in(dp_problem *p, char *const after[DP_TENSORS])
{
    const int line = line_of(p->kind);
    double worst = 0;
    for (uint32_t i = 1; i <= p->tensors; i++) {
        if (p->written[i])
            dr_free(&p->value[i]);
    }
    dr_graph g = {.tensor = p->tensor,
                  .tensors = p->tensors + 1,
                  .node = p->node,
                  .nodes = p->nodes,
                  .value = p->value,
                  .fused = h_is_cuda()};
    dr_run(&g);
    for (uint32_t i = 1; i <= p->tensors; i++) {
        if (p->written[i] && p->memory[i])
            compare_one(p, i, after[i], &worst);
    }
    lines[line].worst = fmax(lines[line].worst, worst);
    lines[line].problems++;
    return worst;
}

void dp_compare(dp_problem *p)
{
    char *after[DP_TENSORS] = {NULL};
    if (p->refused)
        return;
    for (uint32_t i = 1; i <= p->tensors; i++) {
        if (!p->written[i] || !p->memory[i])
            continue;
        after[i] = h_malloc(p->bytes[i]);
        h_read(device, p->tensor[i].buffer, 0, after[i], p->bytes[i]);
    }
    dp_compare_in(p, after);
    for (uint32_t i = 1; i <= p->tensors; i++)
        free(after[i]);
}

void dp_drop(dp_problem *p)
{
    for (uint32_t i = 1; i <= p->tensors; i++) {
        if (p->memory[i])
            H_OK(trp_buffer_free(device, p->tensor[i].buffer));
        free(p->data[i]);
        dr_free(&p->value[i]);
    }
}

void dp_await(dp_problem *p, trp_status status, trp_completion done)
{
    trp_error error = {0};
    if (status == TRP_OK)
        status = h_await(done.future, &error);
    else
        error = *trp_error_last();
    if (status == TRP_E_UNSUPPORTED && h_is_cuda())
        refused(p, error.message);
    else if (status != TRP_OK)
        wrong(p, "%s", error.message);
    else
        dp_check_engine(p);
}

double *dp_read(const dp_problem *p, uint32_t number)
{
    const dr_tensor *value = &p->value[number];
    double *v = h_malloc((value->count + 1) * sizeof *v);
    unsigned char *data = h_malloc(p->bytes[number]);
    int64_t at[TRP_DNN_RANK_MAX] = {0};
    h_read(device, p->tensor[number].buffer, 0, data, p->bytes[number]);
    for (bool more = value->count > 0; more; more = dr_next(value, at))
        v[dr_at(value, at)] = dr_load(p->tensor[number].type, data, place(&p->tensor[number], at));
    free(data);
    return v;
}

void dp_compute(trp_actor *dnn, dp_problem *p)
{
    trp_completion done = {0};
    const trp_status status = dp_send(dnn, p, &done);
    dp_await(p, status, done);
}

void dp_check(trp_device *on, trp_actor *dnn, dp_problem *p)
{
    dp_make(on, p);
    dp_compute(dnn, p);
    dp_compare(p);
    dp_drop(p);
}
