#include "matrix/proof.h"

#include "base/error.h"
#include "base/numbers/types.h"
#include "matrix/proving.h"
#include "matrix/record.h"
#include "matrix/reference/launch.h"
#include "tuning/prover.h"

#include <troupe/matmul.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Results over all of D (a bias gradient, the largest magnitude) are compared only if the product
 * has at most this number of multiplications. */
#define WHOLE_MOST INT64_C(100000000)

/* A bias gradient over longer lines is not compared, since one block sums each line. */
#define LINE_MOST 4096

/* The number of outputs that are compared by samples: D, aux and the gradient. */
enum { SAMPLED = 3, OPERANDS = TRP__MATMUL_OPERANDS + SAMPLED };

typedef struct subject {
    const trp__matmul_planner *planner;
    const trp__cuda *cu;
    const trp__matmul_plan *plan;
    trp__cu_function reference;
    trp__matmul g; /* with scalars */
    trp__proof_operand operand[OPERANDS];
    uint32_t operands;
    uint8_t what[OPERANDS];                   /* operand of the product; OPERANDS: none */
    uint8_t operand_of[TRP__MATMUL_OPERANDS]; /* OPERANDS: not there */
    uint8_t numbers[SAMPLED];                 /* operand with the numbers of a sample */
    bool whole;                               /* results over all of D are compared */
    bool in_place;                            /* C is copied to D before each run */
} subject;

static bool has(const trp__matmul *g, int operand)
{
    return operand <= TRP__MATMUL_B || /* they may be zeros in the workspace, without an access */
           trp__matmul_has(g, operand);
}

static bool is_f8(uint8_t type)
{
    return type == TRP_F8E4M3 || type == TRP_F8E5M2;
}

static bool has_bits(const trp__matmul *g)
{
    return g->type[TRP__MATMUL_AUX] == TRP_DTYPE_NONE;
}

/* Names. */

void trp__matmul_algo_name(const trp__matmul_planner *planner, const trp__matmul_plan *plan,
                           char name[TRP__MATMUL_ALGO_NAME])
{
    trp__cublaslt_algo_name(planner->lt, &plan->algo, name, TRP__MATMUL_ALGO_NAME);
}

void trp__matmul_verdict_key(const trp__verdicts *verdicts, const trp__matmul_planner *planner,
                             const trp__matmul_key *key, const trp__matmul_plan *plan,
                             trp__key *out)
{
    char text[256], name[TRP__MATMUL_ALGO_NAME];
    uint32_t numbers[TRP__CUBLASLT_ALGO_NUMBERS];
    trp__matmul_key whole = *key;
    whole.problem.tune = TRP_TUNE_OFF;
    whole.problem.workspace = 0;
    trp__matmul_problem_text(&whole.problem, text, sizeof text);
    trp__matmul_algo_name(planner, plan, name);
    trp__cublaslt_algo_numbers(planner->lt, &plan->algo, numbers);
    trp__verdict_key_begin(verdicts, TRP__KIND_MATMUL_PROOF, text, name, out);
    trp__key_add(out, TRP__KEY_INPUT, &whole, sizeof whole);
    trp__key_add(out, TRP__KEY_INPUT, numbers, sizeof numbers);
}

bool trp__matmul_provable(const trp__matmul *g)
{
    return trp__product_takes(g) && g->type[TRP__MATMUL_A] != TRP_F4E2M1 && g->k > 0;
}

/* Tolerances. */

static double of_sums(const trp__matmul *g)
{
    return trp__proving_of_sums(g->type[TRP__MATMUL_A], g->k, g->compute == TRP_COMPUTE_TF32);
}

/* Returns the allowed error of an activation. The tanh of the hardware has 11 correct bits. */
static double of_functions(const trp__matmul *g)
{
    return g->activation == TRP_ACTIVATION_GELU    ? 5e-3
           : g->activation == TRP_ACTIVATION_DGELU ? 1e-2
                                                   : 0;
}

/* Returns the allowed absolute error. GELU of x is x (1 + tanh u) / 2, and the tanh of the hardware
 * has an error of 2^-11 even if the result is almost 0; this is so for x down to -8. */
static double absolute_of(const trp__matmul *g, int operand)
{
    return g->activation == TRP_ACTIVATION_GELU && operand != TRP__MATMUL_AUX ? 3e-3 : 0;
}

/* Returns the allowed error of a second pass: for small sizes, the library may apply the epilogue
 * to a narrow D that is already rounded. */
static double of_two_passes(const trp__matmul *g)
{
    const uint8_t type = g->type[TRP__MATMUL_D];
    const bool second =
        has(g, TRP__MATMUL_C) || has(g, TRP__MATMUL_VECTOR) || g->activation != TRP_ACTIVATION_NONE;
    return !second ? 0 : type == TRP_F16 ? 4e-3 : type == TRP_BF16 ? 2.5e-2 : 0;
}

/* Returns half the root mean square of the sums before the activation for ordinary numbers; half,
 * since scale factors may be small. */
static double typical_of(const trp__matmul *g)
{
    const double product = 0.75 / 3, c = 0.5 * 0.58, vector = 0.58;
    double sum = product * product * (double)g->k;
    sum += has(g, TRP__MATMUL_C) ? c * c : 0;
    sum +=
        has(g, TRP__MATMUL_VECTOR) && g->gradient == TRP_BIAS_GRADIENT_NONE ? vector * vector : 0;
    return sqrt(sum) / 2;
}

static void set_tolerance(const subject *s, int operand, trp__proof_operand *o)
{
    const trp__matmul *g = &s->g;
    if (o->type == TRP_I32 || o->type == TRP_I8) { /* must be equal, but for a product's rounding */
        o->absolute = o->type == TRP_I8 && has(g, TRP__MATMUL_ALPHAS) ? 1 : 0;
        return;
    }
    o->of_scale =
        of_sums(g) + of_two_passes(g) + (operand == TRP__MATMUL_AUX ? 0 : of_functions(g));
    if (operand == TRP__MATMUL_VECTOR && o->of_scale < 1e-2 && o->type != TRP_F64)
        o->of_scale = 1e-2; /* the summands may be rounded before */
    o->relative = o->of_scale + trp__proving_unit(o->type);
    o->absolute = absolute_of(g, operand);
    o->typical = operand == TRP__MATMUL_VECTOR ? 0 : typical_of(g);
    if (operand >=
        TRP__MATMUL_AMAX_D) /* the largest of rounded values or of those before rounding */
        o->relative += trp__proving_unit(g->type[TRP__MATMUL_D]) / 2;
}

/* Operands. */

/* Sets the shape of a matrix, or of a vector as a matrix of one line. For a complex type, real and
 * imaginary part are the last dimension. */
static void set_shape(trp__proof_operand *o, uint8_t type, const int64_t dim[3],
                      const int64_t stride[3])
{
    const bool pairs = trp__is_complex(type);
    o->type = type == TRP_C64 ? TRP_F32 : type == TRP_C128 ? TRP_F64 : type;
    o->rank = pairs ? 4 : 3;
    for (int i = 0; i < 3; i++) {
        o->dim[i] = dim[i];
        o->stride[i] = (pairs ? 2 : 1) * (dim[i] > 1 ? stride[i] : 0);
    }
    if (pairs) {
        o->dim[3] = 2;
        o->stride[3] = 1;
    }
}

static void set_matrix(const subject *s, int operand, trp__proof_operand *o)
{
    const trp__matmul *g = &s->g;
    const bool is = operand == TRP__MATMUL_A ? g->trans_a == TRP_N : g->trans_b == TRP_N;
    const int64_t rows = operand == TRP__MATMUL_A   ? (is ? g->m : g->k)
                         : operand == TRP__MATMUL_B ? (is ? g->k : g->n)
                                                    : g->m;
    const int64_t columns = operand == TRP__MATMUL_A   ? (is ? g->k : g->m)
                            : operand == TRP__MATMUL_B ? (is ? g->n : g->k)
                                                       : g->n;
    const bool bits = operand == TRP__MATMUL_AUX && has_bits(g);
    const int64_t part = bits ? 8 : 1;
    const int64_t line =
        bits ? (rows + 127) / 128 * 16 : rows; /* the library may write groups of 128 bits */
    set_shape(o, bits ? TRP_U8 : g->type[operand], (int64_t[]){g->batch, columns, line},
              (int64_t[]){g->stride[operand] / part, g->ld[operand] / part, 1});
}

static void set_vector(const subject *s, trp__proof_operand *o)
{
    const trp__matmul *g = &s->g;
    const int64_t count = g->gradient == TRP_BIAS_GRADIENT_B ? g->n : g->m;
    set_shape(o, g->vector_type, (int64_t[]){g->batch, 1, count},
              (int64_t[]){g->vector_stride, 0, 1});
}

/* Returns the number of factors of f32. */
static int64_t factors_of(const trp__matmul *g, int operand)
{
    const bool a = operand == TRP__MATMUL_SCALE_A;
    const int64_t lines = a ? g->m : g->n, blocks = (g->k + 127) / 128;
    if (operand != TRP__MATMUL_SCALE_A && operand != TRP__MATMUL_SCALE_B)
        return 1;
    switch (a ? g->scale_a : g->scale_b) {
    case TRP_SCALE_VECTOR:
        return lines;
    case TRP_SCALE_BLOCK_128:
        return lines * blocks;
    case TRP_SCALE_BLOCK_128X128:
        return (blocks + 3) / 4 * 4 * ((lines + 127) / 128);
    default:
        return 1;
    }
}

static void set_small(const subject *s, int operand, trp__proof_operand *o)
{
    const trp__matmul *g = &s->g;
    const bool scalars = operand == TRP__MATMUL_SCALARS;
    const bool alphas = operand == TRP__MATMUL_ALPHAS;
    const uint8_t type = scalars || alphas ? g->scalar_type : TRP_F32;
    const int64_t count = scalars ? 2 : alphas ? g->m : factors_of(g, operand);
    set_shape(o, type, (int64_t[]){alphas ? g->batch : 1, 1, count},
              (int64_t[]){alphas ? g->alphas_stride : 0, 0, 1});
    o->low = type == TRP_I32 ? 1 : 0.5;
    o->high = type == TRP_I32 ? 3 : 1.5;
    o->ordinary_only = true;
}

static trp__proof_role role_of(const subject *s, int operand)
{
    const trp__matmul *g = &s->g;
    const bool gradient = g->gradient != TRP_BIAS_GRADIENT_NONE;
    switch (operand) {
    case TRP__MATMUL_D:
        return TRP__PROOF_OUTPUT;
    case TRP__MATMUL_AUX: /* bits for values near 0 may differ */
        return trp__matmul_is_derivative(g) ? TRP__PROOF_INPUT
               : has_bits(g)                ? TRP__PROOF_SCRATCH
                                            : TRP__PROOF_OUTPUT;
    case TRP__MATMUL_VECTOR:
        return !gradient ? TRP__PROOF_INPUT
               : g->gradient == TRP_BIAS_GRADIENT_D && (!s->whole || g->n > LINE_MOST)
                   ? TRP__PROOF_SCRATCH
                   : TRP__PROOF_OUTPUT;
    case TRP__MATMUL_AMAX_D:
    case TRP__MATMUL_AMAX_AUX:
        return s->whole ? TRP__PROOF_OUTPUT : TRP__PROOF_SCRATCH;
    default:
        return TRP__PROOF_INPUT;
    }
}

static void set_range(trp__proof_operand *o)
{
    const bool whole = o->type == TRP_I8 || o->type == TRP_I32;
    o->low = o->type == TRP_U8 ? 0 : whole ? -3 : -1;
    o->high = o->type == TRP_U8 ? 255 : whole ? 3 : 1;
}

static void add_operand(subject *s, const trp__matmul_key *key, int operand)
{
    static const char *const names[TRP__MATMUL_OPERANDS] = {
        "a",       "b",       "c",       "d",         "aux",         "vector", "scalars", "alphas",
        "a.scale", "b.scale", "d.scale", "aux.scale", "d_out_scale", "amax_d", "amax_aux"};
    trp__proof_operand *o = &s->operand[s->operands];
    *o = (trp__proof_operand){.name = names[operand],
                              .role = role_of(s, operand),
                              .alignment = trp__matmul_skew(key, operand)};
    if (operand < TRP__MATMUL_MATRICES)
        set_matrix(s, operand, o);
    else if (operand == TRP__MATMUL_VECTOR)
        set_vector(s, o);
    else
        set_small(s, operand, o);
    if (operand < TRP__MATMUL_SCALARS)
        set_range(o);
    if (o->role == TRP__PROOF_OUTPUT)
        set_tolerance(s, operand, o);
    s->what[s->operands] = (uint8_t)operand;
    s->operand_of[operand] = (uint8_t)s->operands++;
}

static bool is_sampled(uint8_t what)
{
    return what == TRP__MATMUL_D || what == TRP__MATMUL_AUX || what == TRP__MATMUL_VECTOR;
}

/* Adds the operands of the product, then those for the numbers of samples. */
static void add_operands(subject *s, const trp__matmul_key *key)
{
    memset(s->operand_of, OPERANDS, sizeof s->operand_of);
    for (int i = 0; i < TRP__MATMUL_OPERANDS; i++) {
        if (has(&s->g, i))
            add_operand(s, key, i);
    }
    const uint32_t some = s->operands;
    uint32_t outputs = 0;
    for (uint32_t i = 0; i < some; i++)
        outputs += is_sampled(s->what[i]) && s->operand[i].role == TRP__PROOF_OUTPUT;
    for (uint32_t i = 0; i < outputs; i++) {
        s->numbers[i] = (uint8_t)s->operands;
        s->what[s->operands] = OPERANDS;
        s->operand[s->operands++] = (trp__proof_operand){.name = "numbers",
                                                         .role = TRP__PROOF_SCRATCH,
                                                         .type = TRP_I64,
                                                         .rank = 1,
                                                         .dim = {TRP__PROOF_SAMPLE},
                                                         .stride = {1}};
    }
}

/* Sets alpha and beta to values that affect the result, without a fraction if results are integers.
 */
static void set_scalars(trp__matmul *g, bool blind)
{
    const bool complex = trp__is_complex(g->scalar_type);
    const bool whole = g->type[TRP__MATMUL_A] == TRP_I8 && g->type[TRP__MATMUL_D] == TRP_I8;
    const bool c = has(g, TRP__MATMUL_C);
    if (!has(g, TRP__MATMUL_ALPHAS)) {
        g->alpha[0] = blind ? 0 : g->scalar_type == TRP_I32 ? 2 : whole ? 1 : 0.75;
        g->alpha[1] = complex && !blind ? -0.5 : 0;
    }
    g->beta[0] = !c ? 0 : blind || whole ? 1 : g->scalar_type == TRP_I32 ? 3 : 0.5;
    g->beta[1] = c && complex && !blind ? 0.25 : 0;
}

static bool is_in_place(const trp__matmul *g)
{
    return has(g, TRP__MATMUL_C) && g->access[TRP__MATMUL_C] == g->access[TRP__MATMUL_D];
}

static uint32_t passes_of(const trp__matmul *g)
{
    const bool narrow = is_f8(g->type[TRP__MATMUL_A]) || is_f8(g->type[TRP__MATMUL_D]) ||
                        g->type[TRP__MATMUL_A] == TRP_I8;
    /* Infinite sums can't be compared. */
    const bool plain =
        !narrow && g->gradient == TRP_BIAS_GRADIENT_NONE && !trp__matmul_is_derivative(g);
    return TRP__PROOF_ORDINARY | (plain ? TRP__PROOF_SATURATING : 0);
}

/* Runs. */

static void *place_of(const subject *s, const trp__proof_place *place, int operand)
{
    return s->operand_of[operand] == OPERANDS ? NULL : place->at[s->operand_of[operand]];
}

static void places_of(const subject *s, const trp__proof_place *place,
                      void *at[TRP__MATMUL_OPERANDS])
{
    for (int i = 0; i < TRP__MATMUL_OPERANDS; i++)
        at[i] = place_of(s, place, i);
}

/* Copies C to D without the gaps between the lines of D, which are checked later. */
static trp_status copy_c(const subject *s, const trp__proof_place *place, void *const at[],
                         trp_error *error)
{
    const trp__matmul *g = &s->g;
    const trp__proving_lines lines = {.length = g->m,
                                      .count = g->n,
                                      .batch = g->batch,
                                      .ld = g->ld[TRP__MATMUL_D],
                                      .stride = g->stride[TRP__MATMUL_D],
                                      .width =
                                          trp_dtype_bits((trp_dtype)g->type[TRP__MATMUL_D]) / 8};
    return trp__proving_copy(s->cu, &lines, (uintptr_t)at[TRP__MATMUL_C],
                             (uintptr_t)at[TRP__MATMUL_D], place->stream, error);
}

static trp_status run_plan(void *context, const trp__proof_place *place, trp_error *error)
{
    const subject *s = context;
    void *at[TRP__MATMUL_OPERANDS];
    places_of(s, place, at);
    const trp_status status = s->in_place ? copy_c(s, place, at, error) : TRP_OK;
    if (status != TRP_OK)
        return status;
    if (s->in_place)
        at[TRP__MATMUL_C] = at[TRP__MATMUL_D];
    return trp__matmul_plan_launch(s->planner, s->plan, &s->g, at, place->workspace,
                                   s->plan->workspace, place->stream, error);
}

/* Converts a sample to numbers of elements, of which a complex one has two parts. Returns their
 * count. */
static size_t numbers_of(const subject *s, const trp__proof_sample *sample, int64_t *out)
{
    const bool pairs = s->operand[sample->operand].rank == 4;
    size_t count = 0;
    for (size_t i = 0; i < sample->count; i++) {
        const int64_t number = pairs ? sample->number[i] / 2 : sample->number[i];
        if (count == 0 || out[count - 1] != number)
            out[count++] = number;
    }
    return count;
}

/* Computes one output at its sample; or all of it, if all elements are sampled or a largest
 * magnitude is needed. */
static trp_status run_sample(const subject *s, const trp__proof_place *place, uint32_t output,
                             const trp__proof_sample *sample, trp_error *error)
{
    const uint32_t what = s->what[sample->operand];
    trp__product_launch launch = {.g = s->g, .what = what};
    int64_t numbers[TRP__PROOF_SAMPLE];
    places_of(s, place, launch.at);
    launch.count = trp__product_elements(&s->g, what);
    const bool whole = (what == TRP__MATMUL_D && launch.at[TRP__MATMUL_AMAX_D] && s->whole) ||
                       (what == TRP__MATMUL_AUX && launch.at[TRP__MATMUL_AMAX_AUX] && s->whole);
    const size_t count = numbers_of(s, sample, numbers);
    if (!s->whole) /* the largest magnitudes are not compared */
        launch.at[TRP__MATMUL_AMAX_D] = launch.at[TRP__MATMUL_AMAX_AUX] = NULL;
    if (!whole && (int64_t)count < launch.count) {
        void *room = place->at[s->numbers[output]];
        const trp__cu_result result =
            trp__cuda_upload(s->cu, (uintptr_t)room, numbers, count * sizeof *numbers);
        if (result != TRP__CU_SUCCESS)
            return trp__cuda_error(error, result, "cuMemcpyHtoD");
        launch.sample = room;
        launch.count = (int64_t)count;
    }
    return launch.count == 0
               ? TRP_OK
               : trp__product_launch_one(s->cu, s->reference, &launch, place->stream, error);
}

static trp_status clear_largest(const subject *s, const trp__proof_place *place, trp_error *error)
{
    for (int i = TRP__MATMUL_AMAX_D; i <= TRP__MATMUL_AMAX_AUX; i++) {
        void *at = s->whole ? place_of(s, place, i) : NULL;
        const trp__cu_result result =
            at ? s->cu->cuMemsetD32Async((uintptr_t)at, 0, 1, place->stream) : TRP__CU_SUCCESS;
        if (result != TRP__CU_SUCCESS)
            return trp__cuda_error(error, result, "cuMemsetD32Async");
    }
    return TRP_OK;
}

static trp_status run_reference(void *context, const trp__proof_place *place,
                                const trp__proof_sample samples[], uint32_t count, trp_error *error)
{
    const subject *s = context;
    uint32_t outputs = 0;
    trp_status status = clear_largest(s, place, error);
    for (uint32_t i = 0; i < count && status == TRP_OK; i++) {
        if (is_sampled(s->what[samples[i].operand]))
            status = run_sample(s, place, outputs++, &samples[i], error);
    }
    return status;
}

void trp__matmul_prove(const trp__matmul_planner *planner, const trp__cuda *cu,
                       const trp__matmul_key *key, const trp__matmul_plan *plan,
                       trp__cu_function reference, trp__proof_verdict *out)
{
    subject *s = calloc(1, sizeof *s);
    *out = (trp__proof_verdict){.result = TRP__PROOF_IMPOSSIBLE};
    if (!s)
        return;
    *s = (subject){.planner = planner,
                   .cu = cu,
                   .plan = plan,
                   .reference = reference,
                   .g = key->problem,
                   .in_place = is_in_place(&key->problem)};
    const double work = (double)s->g.m * (double)s->g.n * (double)s->g.k * (double)s->g.batch;
    s->whole = work <= (double)WHOLE_MOST;
    set_scalars(&s->g, plan->blind);
    add_operands(s, key);
    const trp__proof proof = {.cu = cu,
                              .operand = s->operand,
                              .operands = s->operands,
                              .workspace = plan->workspace,
                              .passes = passes_of(&s->g),
                              .run = run_plan,
                              .reference = run_reference,
                              .context = s};
    trp__prove(&proof, out);
    free(s);
}
