#include "actors/fft/proofs.h"

#include "base/error.h"
#include "cache/key.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { X, Y, NUMBERS, PLACE, OPERANDS };

/* Larger tensors are proven with fewer batches; such as are larger without batches than this last
 * number serve unproven. */
#define PROVEN_BYTES  (INT64_C(256) << 20)
#define LARGEST_BYTES (INT64_C(4) << 30)

/* The prover repeats inputs after this number of elements: of longer lines, spectra are so uneven
 * that only sums of ordinary numbers have a size to compare with. */
enum { PERIOD = 65521 };

typedef struct subject {
    trp__fft_proofs *p;
    trp__fft_problem problem; /* with the batches that are proven */
    trp__fft_cuda_plan *plan;
    trp__proof_operand operand[OPERANDS];
    int64_t total; /* elements of one transform */
} subject;

/* Sizes. */

static bool is_real(const trp__fft_problem *p, int side)
{
    return p->kind == (side == X ? TRP_FFT_R2C : TRP_FFT_C2R);
}

static const trp__fft_layout *layout_of(const trp__fft_problem *p, int side)
{
    return side == X ? &p->x : &p->y;
}

static int64_t length(const trp__fft_problem *p, int side, int axis)
{
    const bool half = p->kind != TRP_FFT_C2C && axis == p->rank - 1 && !is_real(p, side);
    return half ? p->n[axis] / 2 + 1 : p->n[axis];
}

/* Strides of the axes of a side. */
static void strides(const trp__fft_problem *p, int side, int64_t out[])
{
    const trp__fft_layout *l = layout_of(p, side);
    out[p->rank - 1] = l->stride;
    for (int i = p->rank - 1; i > 0; i--)
        out[i - 1] = out[i] * l->embed[i];
}

static int64_t part_bytes(const trp__fft_problem *p)
{
    return p->wide ? 8 : 4;
}

static int64_t element_bytes(const trp__fft_problem *p, int side)
{
    return part_bytes(p) * (is_real(p, side) ? 1 : 2);
}

/* Bytes of one transform. */
static int64_t own_bytes(const trp__fft_problem *p, int side)
{
    int64_t stride[TRP__FFT_AXES], last = 0;
    strides(p, side, stride);
    for (int i = 0; i < p->rank; i++)
        last += (length(p, side, i) - 1) * stride[i];
    return (last + 1) * element_bytes(p, side);
}

/* The same problem with as many batches as are proven; false: it is too large. */
static bool reduce(const trp__fft_problem *from, trp__fft_problem *to)
{
    int64_t bytes = 0;
    *to = *from;
    for (int side = X; side <= Y; side++) {
        const int64_t own = own_bytes(from, side);
        const int64_t each = layout_of(from, side)->distance * element_bytes(from, side);
        const int64_t most = own < PROVEN_BYTES ? (PROVEN_BYTES - own) / each + 1 : 1;
        to->batch = to->batch < most ? to->batch : most;
        bytes += own;
    }
    for (int i = 0; i < from->rank; i++) {
        if (from->n[i] > INT32_MAX)
            return false;
    }
    return bytes <= LARGEST_BYTES;
}

/* Operands. */

static void set_shape(const subject *s, int side, trp__proof_operand *o)
{
    const trp__fft_problem *p = &s->problem;
    int64_t stride[TRP__FFT_AXES];
    const int pair = is_real(p, side) ? 1 : 2;
    strides(p, side, stride);
    o->type = p->wide ? TRP_F64 : TRP_F32;
    o->alignment = (uint32_t)part_bytes(p) * 2;
    o->dim[0] = p->batch;
    o->stride[0] = p->batch > 1 ? layout_of(p, side)->distance * pair : 0;
    for (int i = 0; i < p->rank; i++) {
        o->dim[i + 1] = length(p, side, i);
        o->stride[i + 1] = stride[i] * pair;
    }
    o->rank = (uint8_t)(p->rank + 1);
    if (pair == 2) {
        o->dim[o->rank] = 2;
        o->stride[o->rank++] = 1;
    }
}

/* The error of a transform grows with the logarithm of its length. */
static void set_tolerance(const subject *s, trp__proof_operand *o)
{
    const double unit = s->problem.wide ? 0x1p-52 : 0x1p-23, n = (double)s->total;
    o->of_scale = 4 * unit * (log2(n) + 2);
    o->relative = o->of_scale;
    o->typical = sqrt(s->problem.kind == TRP_FFT_C2C   ? n / 3
                      : s->problem.kind == TRP_FFT_R2C ? n / 6
                                                       : n * 2 / 3);
}

/* A plan in place works in an operand of its own, that of C2R on a copy too. */
static bool has_place(const trp__fft_problem *p)
{
    return p->in_place || p->kind == TRP_FFT_C2R;
}

static void set_operands(subject *s)
{
    s->operand[X] =
        (trp__proof_operand){.name = "x", .role = TRP__PROOF_INPUT, .low = -1, .high = 1};
    s->operand[Y] = (trp__proof_operand){.name = "y", .role = TRP__PROOF_OUTPUT};
    s->operand[NUMBERS] = (trp__proof_operand){.name = "numbers",
                                               .role = TRP__PROOF_SCRATCH,
                                               .type = TRP_I64,
                                               .rank = 1,
                                               .dim = {TRP__PROOF_SAMPLE},
                                               .stride = {1}};
    s->operand[PLACE] = (trp__proof_operand){.name = "the copy of x", .role = TRP__PROOF_SCRATCH};
    set_shape(s, X, &s->operand[X]);
    set_shape(s, Y, &s->operand[Y]);
    set_shape(s, s->problem.kind == TRP_FFT_R2C ? Y : X, &s->operand[PLACE]);
    set_tolerance(s, &s->operand[Y]);
}

/* Runs. */

/* Copies a side of the plan to or from the operand that it works in. */
static trp_status copy_side(const subject *s, int side, void *from, void *to, trp__cu_stream stream,
                            trp_error *error)
{
    const trp__fft_problem *p = &s->problem;
    trp__fft_copy c = {.x = from,
                       .y = to,
                       .scale = 1,
                       .rank = (uint8_t)(p->rank + 1),
                       .wide = p->wide,
                       .pairs = !is_real(p, side),
                       .symmetric = side == X && p->kind == TRP_FFT_C2R,
                       .last = p->rank,
                       .axes = (uint8_t)((1u << p->rank) - 2),
                       .even = p->n[p->rank - 1] % 2 == 0};
    c.dim[0] = p->batch;
    c.x_stride[0] = layout_of(p, side)->distance;
    strides(p, side, c.x_stride + 1);
    for (int i = 0; i < p->rank; i++)
        c.dim[i + 1] = length(p, side, i);
    memcpy(c.have, c.dim, sizeof c.have);
    memcpy(c.y_stride, c.x_stride, sizeof c.y_stride);
    trp__fft_copy_settle(&c);
    return trp__fft_launch_copy(s->p->cu, s->p->kernels->copy, &c, stream, error);
}

static trp_status run_plan(void *context, const trp__proof_place *place, trp_error *error)
{
    const subject *s = context;
    const trp__fft_problem *p = &s->problem;
    const bool copied = has_place(p);
    void *x = place->at[copied ? PLACE : X], *y = place->at[p->in_place ? PLACE : Y];
    trp_status status = TRP_OK;
    if (copied)
        status = copy_side(s, X, place->at[X], x, place->stream, error);
    if (status == TRP_OK)
        status = trp__fft_cuda_plan_run(s->p->fft, p, s->plan, x, y, place->workspace,
                                        place->stream, error);
    if (status == TRP_OK && p->in_place)
        status = copy_side(s, Y, y, place->at[Y], place->stream, error);
    return status;
}

static trp_status run_reference(void *context, const trp__proof_place *place,
                                const trp__proof_sample samples[], uint32_t count, trp_error *error)
{
    const subject *s = context;
    const trp__fft_problem *p = &s->problem;
    const int pair = is_real(p, Y) ? 1 : 2;
    int64_t numbers[TRP__PROOF_SAMPLE];
    trp__fft_sums sums = {.x = place->at[X],
                          .y = place->at[Y],
                          .sample = place->at[NUMBERS],
                          .other = {p->batch},
                          .other_x = {p->x.distance},
                          .other_y = {p->y.distance},
                          .axes = p->rank,
                          .others = 1,
                          .half = p->kind == TRP_FFT_R2C   ? TRP__FFT_HALF_Y
                                  : p->kind == TRP_FFT_C2R ? TRP__FFT_HALF_X
                                                           : TRP__FFT_HALF_NONE,
                          .inverse = p->kind == TRP_FFT_C2R || p->inverse,
                          .wide = p->wide};
    (void)count;
    memcpy(sums.n, p->n, sizeof sums.n);
    strides(p, X, sums.x_stride);
    strides(p, Y, sums.y_stride);
    for (size_t i = 0; i < samples[0].count; i++) {
        const int64_t number = samples[0].number[i] / pair;
        if (sums.count == 0 || numbers[sums.count - 1] != number)
            numbers[sums.count++] = number;
    }
    const trp__cu_result result = trp__cuda_upload(s->p->cu, (uintptr_t)place->at[NUMBERS], numbers,
                                                   (size_t)sums.count * sizeof *numbers);
    if (result != TRP__CU_SUCCESS)
        return trp__cuda_error(error, result, "cuMemcpyHtoD");
    return trp__fft_launch_sums(s->p->cu, s->p->kernels->sums, &sums, place->stream, error);
}

/* The proof. */

trp_status trp__fft_proofs_kernels(trp__fft_proofs *p, trp_error *error)
{
    const trp__verdicts *verdicts = &p->proofs.verdicts;
    return trp__fft_kernels_load(p->kernels, p->cu, verdicts->store, verdicts->site->target,
                                 p->proofs.unwanted, error);
}

static bool is_ready(void *context)
{
    const subject *s = context;
    trp__fft_proofs *p = s->p;
    trp_error error;
    if (s->total == 0)
        return false;
    p->skipped = p->skipped || p->ahead;
    if (p->ahead)
        return false;
    if (p->kernels->sums || p->proofs.no_reference)
        return p->kernels->sums != NULL;
    const trp_status status = trp__fft_proofs_kernels(p, &error);
    return trp__proofs_have_reference(&p->proofs, status, &error);
}

/* Runs the plan, or one for fewer batches. */
static void prove(void *context, trp__proof_verdict *out)
{
    subject *s = context;
    trp__fft_cuda_plan *given = s->plan, fewer;
    trp__proof proof = {.cu = s->p->cu,
                        .operand = s->operand,
                        .operands = has_place(&s->problem) ? OPERANDS : PLACE,
                        .passes = TRP__PROOF_ORDINARY |
                                  (s->total < PERIOD ? (uint32_t)TRP__PROOF_SATURATING : 0),
                        .run = run_plan,
                        .reference = run_reference,
                        .context = s};
    if (!given) {
        *out = (trp__proof_verdict){.result = TRP__PROOF_IMPOSSIBLE};
        if (trp__fft_cuda_plan_make(s->p->fft, &s->problem, &fewer, &out->error) != TRP_OK) {
            trp__copy_string(out->reason, sizeof out->reason, out->error.message);
            return;
        }
        s->plan = &fewer;
    }
    proof.workspace = s->plan->work_bytes;
    trp__prove(&proof, out);
    if (!given && out->result != TRP__PROOF_BROKE)
        s->p->fft->cufftDestroy(fewer.handle);
    s->plan = given;
}

bool trp__fft_proofs_accept(trp__fft_proofs *p, const trp__fft_problem *problem,
                            trp__fft_cuda_plan *plan)
{
    char text[160];
    trp__key key;
    subject s = {.p = p, .plan = plan};
    if (reduce(problem, &s.problem)) {
        s.total = 1;
        for (int i = 0; i < problem->rank; i++)
            s.total *= problem->n[i];
    }
    if (s.problem.batch < problem->batch)
        s.plan = NULL;
    set_operands(&s);
    trp__fft_describe(&s.problem, text, sizeof text);
    trp__verdict_key_begin(&p->proofs.verdicts, TRP__KIND_FFT_PROOF, text, "cufft", &key);
    trp__key_add(&key, TRP__KEY_INPUT, &s.problem, sizeof s.problem);
    const trp__proof_subject of = {.key = &key,
                                   .plan = "cufft",
                                   .problem = text,
                                   .is_ready = is_ready,
                                   .prove = prove,
                                   .context = &s};
    const bool accepted = trp__proofs_accept(&p->proofs, &of);
    trp__key_end(&key);
    return accepted;
}
