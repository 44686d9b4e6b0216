/* The blas operations of levels 1 to 3 on random problems, against their definitions in float64:
 * every option, layouts with gaps, increments, operands apart or in one buffer, scalars by value or
 * on the device. Whatever an operation may not look at is NaN, and whatever it may not write must
 * be the same afterwards. Bad input is in blas_input_test.c. */
#include "support/reference/blas_reference.h"
#include "support/harness.h"

#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>

TROUPE_TEST("long", "one isolation", "no tsan");
TROUPE_TEST_FAKE_GPU("no sanitizer");

static h_world world;
static trp_actor *blas;

/* ---- the operations ---- */

/* What an operation does with an operand. BY_BETA: reads it unless beta is 0, and writes it. */
enum { UNUSED, IN, OUT, INOUT, BY_BETA };
/* The number of rows or columns. SIDED: m with TRP_LEFT, n with TRP_RIGHT. */
enum { ONE, THREE, M, N, K, SIDED };
/* Which transpose exchanges the two. */
enum { PLAIN, BY_TRANS, BY_TRANS_B };

typedef struct rule {
    uint8_t use, rows, columns, flip, shape;
    bool vector;
} rule;

#define VECTOR(use, rows)                                                                          \
    {                                                                                              \
        use, rows, ONE, PLAIN, REF_GENERAL, true                                                   \
    }
#define FLIPPED_VECTOR(use, rows, flipped)                                                         \
    {                                                                                              \
        use, rows, flipped, BY_TRANS, REF_GENERAL, true                                            \
    }
#define MATRIX(use, rows, columns)                                                                 \
    {                                                                                              \
        use, rows, columns, PLAIN, REF_GENERAL, false                                              \
    }
#define FLIPPED_MATRIX(use, rows, columns, how)                                                    \
    {                                                                                              \
        use, rows, columns, how, REF_GENERAL, false                                                \
    }
#define SHAPED(use, rows, columns, shape)                                                          \
    {                                                                                              \
        use, rows, columns, PLAIN, shape, false                                                    \
    }
#define NOTHING                                                                                    \
    {                                                                                              \
        UNUSED, ONE, ONE, PLAIN, REF_GENERAL, false                                                \
    }

enum {
    /* Which options and scalars there are. */
    ORDER = 1 << 0,
    SIDE = 1 << 1,
    UPLO = 1 << 2,
    TRANS = 1 << 3,
    TRANS_B = 1 << 4,
    DIAG = 1 << 5,
    ALPHA = 1 << 6,
    BETA = 1 << 7,
    ROTATION = 1 << 8, /* c and s */
    REAL_ALPHA = 1 << 9,
    REAL_BETA = 1 << 10,
    /* What is allowed. */
    COMPLEX_ONLY = 1 << 11,
    POSITIVE = 1 << 12, /* increments */
    NOT_T = 1 << 13,
    NOT_COMPLEX_C = 1 << 14,
    BATCHES = 1 << 15,
    SOLVES = 1 << 16,
    IN_PLACE = 1 << 17, /* C may be B */
    BANDED = 1 << 18,   /* A: kl diagonals of a triangle */
    PACKED = 1 << 19,   /* A: a triangle without gaps */
    REAL_ONLY = 1 << 20,
    MODIFIED = 1 << 21, /* the five numbers of a modified rotation */
    HALF = 1 << 22      /* f16 and bf16 too; alpha is f32 */
};

/* Of the result. */
enum { NO_RESULT, ELEMENT, REAL, INDEX, PAIR, FIVE };

typedef struct operation {
    const char *name;
    uint32_t op;
    int level;
    trp_status (*send_1)(trp_actor *, const trp_blas1_request *, trp_completion *);
    trp_status (*send_2)(trp_actor *, const trp_blas2_request *, trp_completion *);
    trp_status (*send_3)(trp_actor *, const trp_blas3_request *, trp_completion *);
    unsigned options;
    rule rules[3]; /* A, x or B, y or C */
    int result;
} operation;

#define OP(level, name, NAME) #name, TRP_OP_##NAME, level
#define OP1(name, NAME)       OP(1, name, NAME), trp_##name, NULL, NULL
#define OP2(name, NAME)       OP(2, name, NAME), NULL, trp_##name, NULL
#define OP3(name, NAME)       OP(3, name, NAME), NULL, NULL, trp_##name

static const operation operations[] = {
#define CASE(level, name, NAME, options, result, ...)                                              \
    {OP##level(name, NAME), options, {__VA_ARGS__}, result},
#include "support/blas_routines.def"
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static const trp_dtype types[] = {TRP_F32, TRP_F64, TRP_C64, TRP_C128, TRP_F16, TRP_BF16};
enum { TYPES = sizeof types / sizeof *types };

/* ---- a problem ---- */

enum { SCALARS = REF_RESULT + 1, PLACES };

typedef struct operand {
    int use;
    ref_operand view;      /* of the first of a batch */
    int64_t ld;            /* as asked for: leading dimension or increment, 0 for the smallest */
    int64_t extent;        /* elements from the first to the last of one of the batch */
    int64_t stride, batch; /* elements */
    int64_t start;         /* elements before it in its buffer */
    size_t align;          /* bytes */
    int block;
} operand;

/* What is in one buffer: before, afterwards, and which bytes may have changed. */
typedef struct block {
    size_t bytes;
    char *before, *after;
    bool *writable;
    trp_buffer buffer;
} block;

typedef struct problem {
    const operation *op;
    trp_dtype type;
    bool row_major, gaps, one_block, on_device, in_place, same_place, interleaved;
    bool killed; /* the worker, when the request is sent */
    bool ended;  /* with a fault, since what it writes it reads too */
    trp_side side;
    trp_uplo uplo;
    trp_transpose trans, trans_b;
    trp_diag diag;
    int64_t m, n, k, kl, ku, batch;
    trp_scalar alpha, beta, c, s;
    double modified[5];
    operand operands[PLACES];
    block blocks[PLACES];
} problem;

typedef struct tally {
    int problems;
    double worst;
    bool types[TYPES], failed;
} tally;

static size_t below(size_t bound)
{
    return ref_rng_below(h_rng(), bound);
}

static double uniform(void)
{
    return ref_rng_uniform(h_rng(), -1, 1);
}

static bool has(const problem *p, unsigned option)
{
    return p->op->options & option;
}

static bool is_half(trp_dtype type)
{
    return type == TRP_F16 || type == TRP_BF16;
}

/* Of alpha and beta, c and s. */
static trp_dtype scalar_type(const problem *p)
{
    return is_half(p->type) && has(p, ALPHA) ? TRP_F32 : p->type;
}

static ref_complex value_of(const problem *p, trp_scalar x, double standard)
{
    return ref_blas_rounded(scalar_type(p), x.given ? x.re + x.im * I : standard);
}

static ref_complex alpha_of(const problem *p)
{
    return value_of(p, p->alpha, 1);
}

static ref_complex beta_of(const problem *p)
{
    return value_of(p, p->beta, 0);
}

static bool reads(const problem *p, ref_place place)
{
    int use = p->operands[place].use;
    if (p->op->op == TRP_OP_GEAM && place == REF_X)
        return beta_of(p) != 0;
    return use == IN || use == INOUT || (use == BY_BETA && beta_of(p) != 0);
}

static bool writes(const problem *p, ref_place place)
{
    int use = p->operands[place].use;
    return use == OUT || use == INOUT || use == BY_BETA;
}

/* A wrong result ends the problems of its operation, and the test when all are through. */
static bool wrong(const problem *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool wrong(const problem *p, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s %s: ", p->op->name, trp_dtype_name(p->type));
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr,
            "\n  order %d side %d uplo %d trans %d %d diag %d, m n k %lld %lld %lld, kl ku %lld "
            "%lld, batch %lld, alpha %g%+gi beta %g%+gi%s%s%s%s\n",
            p->row_major, (int)p->side, (int)p->uplo, (int)p->trans, (int)p->trans_b, (int)p->diag,
            (long long)p->m, (long long)p->n, (long long)p->k, (long long)p->kl, (long long)p->ku,
            (long long)p->batch, creal(alpha_of(p)), cimag(alpha_of(p)), creal(beta_of(p)),
            cimag(beta_of(p)), p->on_device ? ", scalars on the device" : "",
            p->one_block ? ", in one buffer" : "", p->in_place ? ", in place" : "",
            p->interleaved ? ", interleaved" : "");
    for (int i = 0; i < PLACES; i++) {
        const operand *x = &p->operands[i];
        if (x->use != UNUSED)
            fprintf(stderr,
                    "  operand %d: %lld x %lld, ld or inc %lld, stride %lld, %lld elements before "
                    "it in buffer %d\n",
                    i, (long long)x->view.rows, (long long)x->view.columns, (long long)x->ld,
                    (long long)x->stride, (long long)x->start, x->block);
    }
    return false;
}

/* ---- where operands lie ---- */

static int64_t count_of(const problem *p, int dimension)
{
    const int64_t counts[] = {
        [ONE] = 1,  [THREE] = 3, [M] = p->m,
        [N] = p->n, [K] = p->k,  [SIDED] = p->side == TRP_LEFT ? p->m : p->n,
    };
    return counts[dimension];
}

static bool flipped(const problem *p, const rule *r)
{
    return (r->flip == BY_TRANS && p->trans != TRP_N) ||
           (r->flip == BY_TRANS_B && p->trans_b != TRP_N);
}

static void lay_out_vector(const problem *p, operand *x)
{
    int64_t step = (int64_t)below(4);
    bool backward = step > 0 && !has(p, POSITIVE) && below(3) == 0;
    x->ld = backward ? -step : step;
    if (p->interleaved)
        x->ld = p->op->options & POSITIVE ? 3 : backward ? -3 : 3;
    x->view.down = x->ld == 0 ? 1 : x->ld;
    if (x->view.rows == 0)
        return;
    int64_t length = (x->view.rows - 1) * llabs(x->view.down);
    x->view.base = x->view.down < 0 ? length : 0;
    x->extent = length + 1;
}

static void lay_out_matrix(const problem *p, operand *x)
{
    bool band = x->view.shape == REF_BAND;
    int64_t lines = p->row_major ? x->view.rows : x->view.columns;
    bool half = x->view.banded;
    int64_t run = half           ? p->kl + 1
                  : band         ? p->kl + p->ku + 1
                  : p->row_major ? x->view.columns
                                 : x->view.rows;
    int64_t smallest = run > 0 ? run : 1;
    int64_t ld = smallest + (p->gaps ? (int64_t)below(6) : 0);
    x->ld = ld == smallest && below(2) ? 0 : ld;
    if (x->view.rows > 0 && x->view.columns > 0)
        x->extent = (lines - 1) * ld + run;
    /* One step along the diagonal of a band is one from line to line. */
    int64_t across = band || half ? ld - 1 : ld;
    x->view.base = half   ? (x->view.lower == p->row_major ? p->kl : 0)
                   : band ? (p->row_major ? p->kl : p->ku)
                          : 0;
    x->view.down = p->row_major ? across : 1;
    x->view.right = p->row_major ? 1 : across;
}

static void lay_out_packed(const problem *p, operand *x)
{
    x->extent = x->view.rows * (x->view.rows + 1) / 2;
    x->view.packed = true;
    x->view.by_rows = p->row_major;
}

static void lay_out(problem *p, ref_place place)
{
    const rule *r = &p->op->rules[place];
    operand *x = &p->operands[place];
    bool flip = flipped(p, r);
    x->use = r->use;
    if (p->in_place && place == REF_X)
        x->use = INOUT;
    if (p->in_place && place == REF_Y)
        x->use = UNUSED;
    if (x->use == UNUSED)
        return;
    x->view = (ref_operand){
        .type = p->type,
        .rows = count_of(p, flip ? r->columns : r->rows),
        .columns = r->vector ? 1 : count_of(p, flip ? r->rows : r->columns),
        .shape = r->shape,
        .lower = p->uplo == TRP_LOWER,
        .unit = p->diag == TRP_UNIT,
        .kl = p->kl,
        .ku = p->ku,
        .banded = has(p, BANDED) && place == REF_A,
    };
    x->align = ref_blas_size(p->type);
    if (r->vector)
        lay_out_vector(p, x);
    else if (place == REF_A && has(p, PACKED))
        lay_out_packed(p, x);
    else
        lay_out_matrix(p, x);
    x->batch = p->batch;
    x->stride = x->use == IN && below(3) == 0 ? 0 : x->extent + (int64_t)below(7);
}

/* The result, and the scalars as so many real numbers. */
static void lay_out_rest(problem *p)
{
    trp_dtype real = ref_blas_real(p->type);
    static const int64_t elements[] = {
        [ELEMENT] = 1, [REAL] = 1, [INDEX] = 1, [PAIR] = 2, [FIVE] = 5};
    if (p->op->result != NO_RESULT) {
        operand *x = &p->operands[REF_RESULT];
        trp_dtype type = p->op->result == REAL ? real : p->op->result == INDEX ? TRP_I64 : p->type;
        int64_t n = elements[p->op->result];
        *x = (operand){.use = OUT, .batch = 1, .extent = n, .align = ref_blas_size(type)};
        x->view = (ref_operand){.type = type, .rows = n, .columns = 1, .down = 1};
    }
    if (p->on_device) {
        int64_t one = ref_blas_complex(p->type) ? 2 : 1;
        int64_t alpha = has(p, REAL_ALPHA) ? 1 : one, beta = has(p, REAL_BETA) ? 1 : one;
        trp_dtype scalars = ref_blas_real(scalar_type(p));
        operand *x = &p->operands[SCALARS];
        *x = (operand){.use = IN, .batch = 1, .extent = alpha};
        if (has(p, BETA | ROTATION))
            x->extent += beta;
        if (has(p, MODIFIED))
            x->extent = 5;
        x->align = ref_blas_size(has(p, REAL_ALPHA) ? real : scalar_type(p));
        x->view = (ref_operand){.type = scalars, .rows = x->extent, .columns = 1, .down = 1};
    }
}

static size_t bytes_of(const operand *x)
{
    return (size_t)(x->extent + (x->batch - 1) * x->stride) * ref_blas_size(x->view.type);
}

/* Puts an operand behind what its block holds already. */
static void append(problem *p, int place, int into)
{
    operand *x = &p->operands[place];
    block *b = &p->blocks[into];
    size_t gap = p->gaps ? below(9) * x->align : 0;
    size_t start = (b->bytes + x->align - 1) / x->align * x->align + gap;
    x->start = (int64_t)(start / ref_blas_size(x->view.type));
    x->view.base += x->start;
    x->block = into;
    b->bytes = start + bytes_of(x);
    if (p->interleaved && place == REF_X) {
        operand *y = &p->operands[REF_Y];
        int64_t shift = 1 + (int64_t)below(2);
        y->start = x->start + shift;
        y->view.base += y->start;
        y->block = into;
        b->bytes += (size_t)shift * x->align;
    }
}

static void make_block(problem *p, int number)
{
    block *b = &p->blocks[number];
    bool used = false;
    for (int i = 0; i < PLACES; i++)
        used = used || (p->operands[i].use != UNUSED && p->operands[i].block == number);
    if (!used)
        return;
    b->bytes += p->gaps || b->bytes == 0 ? 1 + below(64) : 0;
    b->before = h_malloc(b->bytes);
    b->after = h_malloc(b->bytes);
    b->writable = h_malloc(b->bytes);
    memset(b->writable, 0, b->bytes);
    ref_poison(b->before, b->bytes);
    for (int i = 0; i < PLACES; i++) {
        if (p->operands[i].block == number)
            p->operands[i].view.data = b->before;
    }
}

static void place_all(problem *p)
{
    int order[PLACES] = {0, 1, 2, 3, 4};
    for (int i = PLACES - 1; i > 0; i--) {
        size_t j = below((size_t)i + 1);
        int other = order[j];
        order[j] = order[i];
        order[i] = other;
    }
    for (int i = 0; i < PLACES; i++) {
        if (p->operands[order[i]].use != UNUSED && !(p->interleaved && order[i] == REF_Y))
            append(p, order[i], p->one_block ? 0 : order[i]);
    }
    for (int i = 0; i < PLACES; i++)
        make_block(p, i);
}

/* One of a batch; before or after. */
static ref_operand view_of(const problem *p, ref_place place, int64_t number, bool after)
{
    const operand *x = &p->operands[place];
    ref_operand view = x->view;
    view.base += number * x->stride;
    if (after && x->use != UNUSED)
        view.data = p->blocks[x->block].after;
    return view;
}

/* ---- what is in them ---- */

/* BLAS does nothing at all then, not even to imaginary parts that don't belong there. */
static bool leaves_c(const problem *p)
{
    if (!has(p, BETA)) /* rank 1 and 2 */
        return alpha_of(p) == 0;
    return beta_of(p) == 1 && (p->k == 0 || alpha_of(p) == 0);
}

static ref_complex random_element(const problem *p, ref_place place, int64_t i, int64_t j)
{
    const ref_operand *x = &p->operands[place].view;
    double re = uniform(), im = ref_blas_complex(p->type) ? uniform() : 0;
    if (p->op->result == INDEX) { /* exact sums, many of them equal */
        re = round(re * 8) / 8;
        im = round(im * 8) / 8;
    }
    if (place == REF_A && has(p, SOLVES)) { /* dominated by the diagonal */
        double scale = 1 / (double)x->rows;
        re = i == j ? copysign(1 + fabs(re), re) : re * scale;
        im *= scale;
    }
    if (p->op->op == TRP_OP_ROTMG) /* all of its cases, and scales that it has to bring back */
        re = below(8) == 0 ? 0 : ldexp(re + (i == 0 ? 0.5 : 0), (int)below(60) - 30);
    if (x->shape == REF_HERMITIAN && i == j) {
        if (place == REF_A && !writes(p, place))
            im = NAN;
        else if (leaves_c(p))
            im = 0;
    }
    ref_complex value = re;
    ((double *)&value)[1] = im;
    return value;
}

static void fill(problem *p, ref_place place)
{
    const operand *x = &p->operands[place];
    for (int64_t b = 0; b < (x->stride == 0 ? 1 : x->batch); b++) {
        ref_operand v = view_of(p, place, b, false);
        for (int64_t i = 0; i < v.rows; i++) {
            for (int64_t j = 0; j < v.columns; j++) {
                if (ref_operand_holds(&v, i, j))
                    ref_blas_store(v.type, p->blocks[x->block].before, ref_operand_index(&v, i, j),
                                   random_element(p, place, i, j));
            }
        }
    }
}

static void fill_scalars(problem *p)
{
    const operand *x = &p->operands[SCALARS];
    trp_scalar first = has(p, ROTATION) ? p->c : p->alpha;
    trp_scalar second = has(p, ROTATION) ? p->s : p->beta;
    bool complex_first = ref_blas_complex(p->type) && !has(p, REAL_ALPHA);
    double numbers[] = {first.given ? first.re : 1, first.im, second.re, second.im};
    for (int64_t i = 0; has(p, MODIFIED) && i < x->extent; i++)
        ref_blas_store(x->view.type, p->blocks[x->block].before, x->start + i, p->modified[i]);
    for (int64_t i = 0; !has(p, MODIFIED) && i < x->extent; i++) {
        int64_t from = !ref_blas_complex(p->type) ? 2 * i : complex_first ? i : 2 * i;
        ref_blas_store(x->view.type, p->blocks[x->block].before, x->start + i, numbers[from]);
    }
}

static void fill_all(problem *p)
{
    for (ref_place place = REF_A; place <= REF_Y; place++) {
        if (reads(p, place))
            fill(p, place);
    }
    if (p->on_device)
        fill_scalars(p);
}

/* ---- sending it ---- */

static trp_buffer buffer_of(const problem *p, int place)
{
    const operand *x = &p->operands[place];
    return x->use == UNUSED ? (trp_buffer){0} : p->blocks[x->block].buffer;
}

static uint64_t offset_of(const problem *p, int place)
{
    const operand *x = &p->operands[place];
    return x->use == UNUSED ? 0 : (uint64_t)x->start * ref_blas_size(x->view.type);
}

/* The fields that the requests have in common. */
#define OPERAND(name, place) .name = buffer_of(p, place), .name##_offset = offset_of(p, place)
#define SCALAR(name)         .name = p->on_device ? (trp_scalar){0} : p->name

static trp_status send_1(const problem *p, trp_completion *done)
{
    trp_blas1_request r = {
        .type = p->type,
        .n = p->n,
        SCALAR(alpha),
        SCALAR(c),
        SCALAR(s),
        OPERAND(x, REF_X),
        OPERAND(y, REF_Y),
        OPERAND(scalars, SCALARS),
        OPERAND(result, REF_RESULT),
        .incx = p->operands[REF_X].ld,
        .incy = p->operands[REF_Y].ld,
    };
    return p->op->send_1(blas, &r, done);
}

static trp_status send_2(const problem *p, trp_completion *done)
{
    trp_blas2_request r = {
        .type = p->type,
        .order = p->row_major ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
        .trans = p->trans,
        .uplo = p->uplo,
        .diag = p->diag,
        .m = p->m,
        .n = p->n,
        .kl = p->kl,
        .ku = p->ku,
        SCALAR(alpha),
        SCALAR(beta),
        OPERAND(a, REF_A),
        OPERAND(x, REF_X),
        OPERAND(y, REF_Y),
        OPERAND(scalars, SCALARS),
        .lda = p->operands[REF_A].ld,
        .incx = p->operands[REF_X].ld,
        .incy = p->operands[REF_Y].ld,
        .a_stride = p->operands[REF_A].stride,
        .x_stride = p->operands[REF_X].stride,
        .y_stride = p->operands[REF_Y].stride,
        .batch = p->batch == 1 ? (int64_t)below(2) : p->batch,
    };
    return p->op->send_2(blas, &r, done);
}

static trp_status send_3(const problem *p, trp_completion *done)
{
    trp_blas3_request r = {
        .type = p->type,
        .order = p->row_major ? TRP_ROW_MAJOR : TRP_COL_MAJOR,
        .side = p->side,
        .uplo = p->uplo,
        .trans = p->trans,
        .trans_b = p->trans_b,
        .diag = p->diag,
        .m = p->m,
        .n = p->n,
        .k = p->k,
        SCALAR(alpha),
        SCALAR(beta),
        OPERAND(a, REF_A),
        OPERAND(b, REF_X),
        OPERAND(c, REF_Y),
        OPERAND(scalars, SCALARS),
        .lda = p->operands[REF_A].ld,
        .ldb = p->operands[REF_X].ld,
        .ldc = p->operands[REF_Y].ld,
        .a_stride = p->operands[REF_A].stride,
        .b_stride = p->operands[REF_X].stride,
        .batch = p->batch == 1 ? (int64_t)below(2) : p->batch,
    };
    if (p->same_place) {
        r.c = r.b;
        r.c_offset = r.b_offset;
        r.ldc = r.ldb;
    }
    if (p->op->rules[REF_X].vector) {
        r.incx = r.ldb;
        r.ldb = 0;
    }
    return p->op->send_3(blas, &r, done);
}

static trp_status send_problem(const problem *p, trp_completion *done)
{
    static trp_status (*const send[])(const problem *, trp_completion *) = {
        [1] = send_1, [2] = send_2, [3] = send_3};
    return send[p->op->level](p, done);
}

/* ---- checking it ---- */

static ref_blas reference_of(const problem *p, int64_t number)
{
    return (ref_blas){
        .op = p->op->op,
        .side = p->side,
        .trans = p->trans,
        .trans_b = p->trans_b,
        .alpha = has(p, ALPHA) ? alpha_of(p) : 1,
        .beta = has(p, BETA) ? beta_of(p) : 0,
        .c = value_of(p, p->c, 0),
        .s = value_of(p, p->s, 0),
        .modified = {p->modified[0], p->modified[1], p->modified[2], p->modified[3],
                     p->modified[4]},
        .a = view_of(p, REF_A, number, false),
        .x = view_of(p, REF_X, number, false),
        .y = view_of(p, REF_Y, number, false),
        .solved = view_of(p, REF_X, number, true),
    };
}

static void allow(problem *p, ref_place place, const ref_operand *v, int64_t i, int64_t j)
{
    size_t size = ref_blas_size(v->type);
    memset(p->blocks[p->operands[place].block].writable + (size_t)ref_operand_index(v, i, j) * size,
           1, size);
}

static bool check_element(const problem *p, ref_place place, const ref_number *number,
                          ref_complex got, tally *t)
{
    double bound = ref_blas_bound(number, p->type);
    double error = has(p, SOLVES) ? cabs(number->value) : cabs(got - number->value);
    if (bound > 0 && error / bound > t->worst)
        t->worst = error / bound;
    if (!(error <= bound))
        return wrong(p, "operand %d has %.17g%+.17gi, expected %.17g%+.17gi%s within %g",
                     (int)place, creal(got), cimag(got), creal(number->value), cimag(number->value),
                     has(p, SOLVES) ? " as residual, which is to be 0" : "", bound);
    return true;
}

static bool check_output(problem *p, ref_place place, tally *t)
{
    const operand *x = &p->operands[place];
    for (int64_t b = 0; b < x->batch; b++) {
        ref_operand v = view_of(p, place, b, true);
        ref_blas r = reference_of(p, b);
        for (int64_t i = 0; i < v.rows; i++) {
            for (int64_t j = 0; j < v.columns; j++) {
                if (!ref_operand_holds(&v, i, j))
                    continue;
                ref_complex got = ref_blas_load(v.type, v.data, ref_operand_index(&v, i, j));
                ref_number number = ref_blas_element(&r, place, i, j);
                allow(p, place, &v, i, j);
                if (!check_element(p, place, &number, got, t))
                    return wrong(p, "that was element (%lld, %lld) of %lld", (long long)i,
                                 (long long)j, (long long)b);
                if (v.shape == REF_HERMITIAN && i == j && cimag(got) != 0)
                    return wrong(p, "element (%lld, %lld) of the diagonal is not real",
                                 (long long)i, (long long)i);
            }
        }
    }
    return true;
}

/* What z says of c and s, see BLAS's rotg. */
static double z_of(double a, double b, double c, double s)
{
    if (a == 0 && b == 0)
        return 0;
    if (fabs(a) > fabs(b))
        return s;
    return c != 0 ? 1 / c : 1;
}

/* By what a rotation is, since BLAS leaves its signs open. */
static bool check_rotation(problem *p, tally *t)
{
    ref_complex values[6]; /* a, b, r, z, c, s */
    for (int i = 0; i < 6; i++) {
        ref_place place = i >= 4 ? REF_RESULT : i % 2 == 0 ? REF_X : REF_Y;
        ref_operand v = view_of(p, place, 0, i >= 2);
        int64_t row = i == 5;
        values[i] = ref_blas_load(v.type, v.data, ref_operand_index(&v, row, 0));
        if (i >= 2)
            allow(p, place, &v, row, 0);
    }
    ref_complex a = values[0], b = values[1], r = values[2], z = values[3], s = values[5];
    double c = creal(values[4]); /* what is beside it means nothing */
    double unit = 16 * ref_blas_unit(p->type), size = cabs(a) + cabs(b);
    double wanted_z = z_of(creal(a), creal(b), c, creal(s));
    double errors[] = {
        cabs(c * a + s * b - r) / (unit * size + DBL_MIN),
        cabs(c * b - conj(s) * a) / (unit * size + DBL_MIN),
        fabs(c * c + creal(s * conj(s)) - 1) / unit,
        ref_blas_complex(p->type) ? 0 : cabs(z - wanted_z) / (unit * fabs(wanted_z) + DBL_MIN),
    };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (!(errors[i] <= 1))
            return wrong(p,
                         "condition %zu is off by %g: a %g%+gi b %g%+gi gave r %g%+gi z %g%+gi c "
                         "%g s %g%+gi",
                         i, errors[i], creal(a), cimag(a), creal(b), cimag(b), creal(r), cimag(r),
                         creal(z), cimag(z), c, creal(s), cimag(s));
        t->worst = fmax(t->worst, errors[i]);
    }
    return true;
}

/* Elements of an operand, before or after, as real numbers. */
static void load_all(problem *p, ref_place place, bool after, double *out)
{
    ref_operand v = view_of(p, place, 0, after);
    for (int64_t i = 0; i < v.rows; i++) {
        out[i] = creal(ref_blas_load(v.type, v.data, ref_operand_index(&v, i, 0)));
        if (after)
            allow(p, place, &v, i, 0);
    }
}

/* H of a modified rotation as rows; false: the flag is none of four. */
static bool modified_matrix(const double param[5], double h[2][2])
{
    const double flag = param[0];
    h[0][0] = flag == 0 || flag == -2 ? 1 : param[1];
    h[1][1] = flag == 0 || flag == -2 ? 1 : param[4];
    h[1][0] = flag == 1 ? -1 : flag == -2 ? 0 : param[2];
    h[0][1] = flag == 1 ? 1 : flag == -2 ? 0 : param[3];
    return flag == -2 || flag == -1 || flag == 0 || flag == 1;
}

/* By what a modified rotation is: H (x1, y1) is (x1', 0), and H^T D' H is D. */
static bool check_modified(problem *p, tally *t)
{
    double old[3], now[3], y, param[5], h[2][2], worst = 0;
    load_all(p, REF_X, false, old);
    load_all(p, REF_X, true, now);
    load_all(p, REF_Y, false, &y);
    load_all(p, REF_RESULT, true, param);
    double q1 = old[0] * old[2] * old[2], q2 = old[1] * y * y;
    bool none = old[0] >= 0 && old[1] * y == 0;
    bool impossible = !none && (old[0] < 0 || (fabs(q1) <= fabs(q2) && q2 < 0));
    bool right = modified_matrix(param, h) && (param[0] == -2) == none;
    for (int i = 0; i < 3 && none; i++)
        right = right && now[i] == old[i];
    for (int i = 0; i < 4 && impossible; i++)
        right = right && param[0] == -1 && h[i / 2][i % 2] == 0 && now[i % 3] == 0;
    for (int i = 0; i < 2 && !none && !impossible; i++)
        right = right && (now[i] == 0 || (fabs(now[i]) > 0x1p-24 && fabs(now[i]) < 0x1p24));
    for (int i = 0; i < 5 && !none && !impossible; i++) {
        double terms[3];
        if (i < 2) {
            terms[0] = h[i][0] * old[2], terms[1] = h[i][1] * y, terms[2] = i == 0 ? -now[2] : 0;
        } else {
            const int row = i == 3, column = i == 4 ? 1 : row;
            terms[0] = h[0][row] * now[0] * h[0][column];
            terms[1] = h[1][row] * now[1] * h[1][column];
            terms[2] = row == column ? -old[row] : 0;
        }
        double size = fabs(terms[0]) + fabs(terms[1]) + fabs(terms[2]);
        double condition = (fabs(q1) + fabs(q2)) / fabs(q1 + q2);
        double error = fabs(terms[0] + terms[1] + terms[2]) /
                       (32 * ref_blas_unit(p->type) * condition * size + DBL_MIN);
        worst = fmax(worst, error);
        right = right && error <= 1;
    }
    t->worst = fmax(t->worst, worst);
    return right ||
           wrong(p,
                 "d1 %g d2 %g x1 %g y1 %g became d1 %g d2 %g x1 %g with flag %g h11 %g h21 "
                 "%g h12 %g h22 %g, off by %g",
                 old[0], old[1], old[2], y, now[0], now[1], now[2], param[0], param[1], param[2],
                 param[3], param[4], worst);
}

static bool check_outputs(problem *p, tally *t)
{
    if (p->op->op == TRP_OP_ROTMG)
        return check_modified(p, t);
    if (p->op->op == TRP_OP_ROTG)
        return check_rotation(p, t);
    if (p->op->level == 2 && (p->n == 0 || (p->m == 0 && p->op->rules[REF_A].rows == M)))
        return true; /* nothing is done, whatever beta is */
    for (ref_place place = REF_A; place <= REF_RESULT; place++) {
        if (writes(p, place) && !check_output(p, place, t))
            return false;
    }
    return true;
}

static bool check_rest(const problem *p)
{
    for (int i = 0; i < PLACES; i++) {
        const block *b = &p->blocks[i];
        for (size_t k = 0; b->before && k < b->bytes; k++) {
            if (!b->writable[k] && b->after[k] != b->before[k])
                return wrong(p, "byte %zu of buffer %d was written", k, i);
        }
    }
    return true;
}

/* ---- running it ---- */

/* Whether it must, after its worker was killed: it reads nothing from where it writes. */
static bool runs_again(const problem *p)
{
    if (p->interleaved)
        return false;
    for (int i = 0; i < PLACES; i++) {
        const int use = p->operands[i].use;
        if (use == INOUT || (use == BY_BETA && (p->on_device || beta_of(p) != 0)))
            return false;
    }
    return true;
}

static bool send_and_wait(problem *p)
{
    trp_completion done = {0};
    trp_status status = send_problem(p, &done);
    if (status != TRP_OK)
        return wrong(p, "was not taken: %s: %s", trp_status_name(status), trp_error_message());
    if (p->killed)
        kill((pid_t)h_info(world.device).worker_pid, SIGKILL);
    status = h_await_any(done);
    p->ended = p->killed && status == TRP_E_FAULT && !runs_again(p);
    if (!p->ended && status != TRP_OK)
        return wrong(p, "failed: %s: %s", trp_status_name(status), trp_error_message());
    return true;
}

static bool solve(problem *p, tally *t)
{
    for (ref_place place = REF_A; place <= REF_Y; place++)
        lay_out(p, place);
    lay_out_rest(p);
    if (p->interleaved) { /* one way through memory for both */
        int64_t length = p->operands[REF_X].extent;
        p->operands[REF_Y] = p->operands[REF_X];
        p->operands[REF_Y].use = p->op->rules[REF_Y].use;
        p->interleaved = length > 0;
    }
    place_all(p);
    fill_all(p);
    for (int i = 0; i < PLACES; i++) {
        block *b = &p->blocks[i];
        if (!b->before)
            continue;
        b->buffer = h_buffer(world.device, b->bytes);
        h_write(world.device, b->buffer, 0, b->before, b->bytes);
    }
    bool right = send_and_wait(p);
    for (int i = 0; i < PLACES; i++) {
        block *b = &p->blocks[i];
        if (b->before && right && !p->ended)
            h_read(world.device, b->buffer, 0, b->after, b->bytes);
        if (b->before)
            H_OK(trp_buffer_free(world.device, b->buffer));
    }
    if (right && !p->ended)
        right = check_outputs(p, t) && check_rest(p);
    for (int i = 0; i < PLACES; i++) {
        free(p->blocks[i].before);
        free(p->blocks[i].after);
        free(p->blocks[i].writable);
    }
    t->problems++;
    return right;
}

/* ---- random problems ---- */

/* At level 2, whose reference is quick enough, some hundreds too. */
static int64_t random_count(const problem *p)
{
    size_t i = below(16);
    if (p->op->level == 2 && below(24) == 0)
        return 100 + (int64_t)below(200);
    return i < 2 ? (int64_t)i : 1 + (int64_t)below(40);
}

static trp_scalar random_scalar(const problem *p, bool real)
{
    double re = uniform() * 2, im = uniform();
    switch (below(5)) {
    case 0:
        return (trp_scalar){0};
    case 1:
        return trp_real(0);
    case 2:
        return trp_real(1);
    case 3:
        return trp_real(re);
    default:
        return ref_blas_complex(p->type) && !real ? trp_complex(re, im) : trp_real(re);
    }
}

static unsigned digit(unsigned *number, const operation *op, unsigned option, unsigned radix)
{
    if (!(op->options & option))
        return 0;
    unsigned d = *number % radix;
    *number /= radix;
    return d;
}

static bool allowed(const problem *p)
{
    if (p->trans == TRP_T && has(p, NOT_T))
        return false;
    return !(p->trans == TRP_C && has(p, NOT_COMPLEX_C) && ref_blas_complex(p->type));
}

/* The options that have a number; false past the last. */
static bool options_of(problem *p, unsigned number)
{
    const operation *op = p->op;
    p->row_major = digit(&number, op, ORDER, 2);
    p->side = (trp_side)digit(&number, op, SIDE, 2);
    p->uplo = (trp_uplo)digit(&number, op, UPLO, 2);
    p->diag = (trp_diag)digit(&number, op, DIAG, 2);
    p->trans = (trp_transpose)digit(&number, op, TRANS, 3);
    p->trans_b = (trp_transpose)digit(&number, op, TRANS_B, 3);
    return number == 0;
}

static void randomise(problem *p)
{
    unsigned all = p->op->options;
    p->m = random_count(p);
    p->n = random_count(p);
    p->k = random_count(p);
    if (p->op->op == TRP_OP_ROTG || p->op->op == TRP_OP_ROTMG ||
        (p->op->level == 2 && p->op->rules[REF_A].rows != M))
        *(p->op->level == 1 ? &p->n : &p->m) -= 5; /* not looked at */
    if (p->op->rules[REF_A].shape == REF_BAND) {
        p->kl = (int64_t)below(6);
        p->ku = (int64_t)below(6);
    }
    if (all & BANDED)
        p->kl = (int64_t)below(6);
    p->batch = all & BATCHES && below(2) ? 1 + (int64_t)below(4) : 1;
    p->gaps = below(4) > 0;
    p->one_block = below(2);
    p->in_place = all & IN_PLACE && below(2);
    p->same_place = p->in_place && below(2);
    p->interleaved = p->op->level == 1 && p->op->rules[REF_X].rows == N &&
                     p->op->rules[REF_Y].use != UNUSED && below(4) == 0;
    p->on_device = all & MODIFIED || (all & (ALPHA | ROTATION) && below(3) == 0);
    p->modified[0] = (double)below(4) - 2;
    for (int i = 1; i < 5; i++)
        p->modified[i] = creal(ref_blas_rounded(p->type, uniform()));
    if (all & ALPHA)
        p->alpha = random_scalar(p, all & REAL_ALPHA);
    if (all & BETA)
        p->beta = random_scalar(p, all & REAL_BETA);
    if (all & ROTATION) {
        p->c = trp_real(uniform());
        p->s = ref_blas_complex(p->type) ? trp_complex(uniform(), uniform()) : trp_real(uniform());
    }
}

/* One problem of random sizes for every combination of options. */
static void check_combinations(const operation *op, int type, tally *t)
{
    problem options = {.op = op, .type = types[type]};
    for (unsigned number = 0; !t->failed && options_of(&options, number); number++) {
        problem p = options;
        if (!allowed(&p))
            continue;
        randomise(&p);
        t->failed = !solve(&p, t);
        t->types[type] = true;
    }
}

/* One problem with any options, whose worker is killed. */
static void check_killed(const operation *op, int type, tally *t)
{
    problem p = {.op = op, .type = types[type], .killed = true};
    while (!options_of(&p, (unsigned)below(144)) || !allowed(&p))
        ;
    randomise(&p);
    t->failed = !solve(&p, t);
    t->types[type] = true;
}

static tally check_operation(const operation *op, bool killed)
{
    tally t = {0};
    for (int type = 0; type < TYPES; type++) {
        if (op->options & (ref_blas_complex(types[type]) ? REAL_ONLY : COMPLEX_ONLY))
            continue;
        if (is_half(types[type]) && !(op->options & HALF))
            continue;
        int enough = t.problems + (killed ? 3 : H_SANITIZED ? 20 : 120);
        do
            (killed ? check_killed : check_combinations)(op, type, &t);
        while (!t.failed && t.problems < enough);
    }
    printf("    %-5s", op->name);
    for (int type = 0; type < TYPES; type++)
        printf(" %4s", t.types[type] ? trp_dtype_name(types[type]) : "");
    printf(" %4d problems, largest error %.3f of the bound%s\n", t.problems, t.worst,
           t.failed ? ", FAILED" : "");
    return t;
}

enum { ALL_LEVELS = 0 };

static void check_level(int level, bool killed)
{
    char failed[256] = "";
    world = h_open(&(trp_device_options){.restart_budget = 100000});
    blas = h_actor(world.device, "blas");
    for (int i = 0; i < OPERATIONS; i++) {
        bool chosen = level == ALL_LEVELS || operations[i].level == level;
        if (chosen && check_operation(&operations[i], killed).failed)
            snprintf(failed + strlen(failed), sizeof failed - strlen(failed), " %s",
                     operations[i].name);
    }
    if (*failed)
        h_fail(__FILE__, __LINE__, "wrong:%s", failed);
    H_EQUAL(h_info(world.device).buffers, 0);
    h_close(&world);
}

static void level_1(void)
{
    check_level(1, false);
}

static void level_2(void)
{
    check_level(2, false);
}

static void level_3(void)
{
    check_level(3, false);
}

/* Whatever an operation had done when its worker died: in the end it is done, or, if it writes what
 * it reads, has failed. */
static void killed_workers(void)
{
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        h_skip("a worker that is a thread can't be killed");
    check_level(ALL_LEVELS, true);
}

/* More systems than there are addresses to write down at a time, some of them in one request: each
 * is a x = b with a matrix of one element, or with one for all of two. */
static void many_systems(void)
{
    enum { MOST = 70000, REQUESTS = 6 };
    static float a[MOST], x[MOST], got[MOST];
    world = h_open(NULL);
    blas = h_actor(world.device, "blas");
    for (int i = 0; i < MOST; i++) {
        a[i] = (float)(1 << below(5));
        x[i] = (float)below(1000);
    }
    trp_buffer at_a = h_buffer(world.device, sizeof a), at_x = h_buffer(world.device, sizeof x);
    h_write(world.device, at_a, 0, a, sizeof a);
    h_write(world.device, at_x, 0, x, sizeof x);
    trp_blas3_request r = {.header = {.wait_ns = H_LONG}, .type = TRP_F32, .a = at_a, .b = at_x};
    for (int i = 0; i < REQUESTS; i++) {
        bool shared = below(2);
        int64_t batch = i == 0 ? MOST : 1 + (int64_t)below(MOST);
        r.m = 1;
        r.n = 1;
        r.a_stride = shared ? 0 : 1;
        r.b_stride = 1;
        r.batch = batch;
        r.alpha = trp_real(i % 2 ? 0.5 : 4);
        H_OK(trp_trsm(blas, &r, NULL));
        for (int64_t k = 0; k < batch; k++)
            x[k] = x[k] * (i % 2 ? 0.5f : 4) / a[shared ? 0 : k];
    }
    h_read(world.device, at_x, 0, got, sizeof got);
    H_SAME(got, x, sizeof got);
    h_close(&world);
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {
        {"level_1", level_1},           {"level_2", level_2},
        {"level_3", level_3},           {"killed_workers", killed_workers},
        {"many_systems", many_systems},
    };
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
