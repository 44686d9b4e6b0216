/* The sender's side of a product: checks a request and writes its record. */
#include "actors/cutlass/encode/encode.h"
#include "actors/cutlass/encode/gemm_run.h"
#include "actors/cutlass/request/request.h"
#include "actors/cutlass/wire/run.h"
#include "base/error.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* A request that is being encoded. */
typedef struct encoding {
    trp__encoder *encoder;
    const trp_cutlass_gemm_request *r;
    trp__cutlass_gemm g;
    trp__epilogue_encoding e;
    bool in_place;                           /* C is read where D is written */
    trp__operand matrix[TRP__GEMM_OPERANDS]; /* mode 0: there is none */
} encoding;

#define FAIL(m, status, ...) trp__error_set((m)->encoder->error, status, __VA_ARGS__)

/* Numbers. */

static trp_status check_enums(encoding *m)
{
    const trp_cutlass_gemm_request *r = m->r;
    const trp__choice choices[] = {
        {"a.order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->a.order, TRP_ROW_MAJOR},
        {"b.order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->b.order, TRP_ROW_MAJOR},
        {"c.order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->c.order, TRP_ROW_MAJOR},
        {"d.order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->d.order, TRP_ROW_MAJOR},
        {"compute", "TRP_COMPUTE_DEFAULT, _TF32 or _PEDANTIC", r->compute, TRP_COMPUTE_PEDANTIC},
        {"a.scale.mode", "a trp_scale_mode", r->a.scale.mode, TRP_SCALE_BLOCK_128X128},
        {"b.scale.mode", "a trp_scale_mode", r->b.scale.mode, TRP_SCALE_BLOCK_128X128},
        {"first", "TRP_CUTLASS_FIRST_WAIT or _FALLBACK", r->first, TRP_CUTLASS_FIRST_FALLBACK},
        {"tune", "TRP_TUNE_OFF, _QUICK or _FULL", r->tune, TRP_TUNE_FULL},
    };
    return trp__check_choices(m->encoder, choices, COUNT_OF(choices));
}

static trp_status check_sizes(encoding *m)
{
    const trp_cutlass_gemm_request *r = m->r;
    if (r->m < 0 || r->n < 0)
        return trp__operand_wrong(m->encoder, r->m < 0 ? "m" : "n", "0 or more",
                                  r->m < 0 ? r->m : r->n);
    if (r->k < 1)
        return trp__operand_wrong(m->encoder, "k", "1 or more", r->k);
    if (r->batch < 0)
        return trp__operand_wrong(m->encoder, "batch", "0 or more", r->batch);
    m->g.m = r->m;
    m->g.n = r->n;
    m->g.k = r->k;
    m->g.batch = r->batch ? r->batch : 1;
    return TRP_OK;
}

/* Types and epilogue. */

static trp_status set_epilogue(encoding *m)
{
    const trp_cutlass_gemm_request *r = m->r;
    m->e = (trp__epilogue_encoding){.encoder = m->encoder,
                                    TRP__EPILOGUE_OF(r),
                                    .order = r->d.order,
                                    .transpose = m->encoder->backend == TRP_BACKEND_CUDA &&
                                                 r->d.order == TRP_COL_MAJOR,
                                    .any_type = true};
    trp_status status = trp__epilogue_check(&m->e);
    memcpy(m->g.type, m->e.type, sizeof m->g.type);
    m->g.compute = (uint8_t)r->compute;
    if (m->e.integers) {
        m->g.alpha = r->alpha.given ? (int32_t)r->alpha.re : 1;
        m->g.beta = r->beta.given ? (int32_t)r->beta.re : 0;
    }
    return status;
}

/* Places. */

/* Two elements of 4 bits make a byte: what they are counted by becomes bytes. */
static trp_status make_bytes(encoding *m, trp__operand *x)
{
    if (x->rows % 2 != 0 || x->ld % 2 != 0 || x->stride % 2 != 0)
        return FAIL(m, TRP_E_ARGUMENT,
                    "%s: expected lines, %s.ld and %s.stride of even numbers of elements, got "
                    "%lld, %lld and %lld",
                    x->name, x->name, x->name, (long long)x->rows, (long long)x->ld,
                    (long long)x->stride);
    x->element = 1;
    x->rows /= 2;
    x->ld /= 2;
    x->stride /= 2;
    return TRP_OK;
}

/* Matrix `which`, rows x columns as the request has it. */
static trp_status set_matrix(encoding *m, int which, const char *name,
                             const trp_matmul_matrix *from, int64_t rows, int64_t columns,
                             uint32_t mode)
{
    bool by_row = from->order == TRP_ROW_MAJOR;
    trp__operand *x = &m->matrix[which];
    *x = (trp__operand){.name = name,
                        .fields = true,
                        .buffer = from->buffer,
                        .offset = from->offset,
                        .rows = by_row ? columns : rows,
                        .columns = by_row ? rows : columns,
                        .ld = from->ld,
                        .stride = m->g.batch > 1 ? from->stride : 0,
                        .element = trp_dtype_bits((trp_dtype)m->g.type[which]) / 8,
                        .mode = mode};
    trp_status status = trp__operand_check_ld(m->encoder, x, from->order);
    m->g.ld[which] = x->ld;
    m->g.stride[which] = x->stride;
    m->g.order[which] = (uint8_t)from->order;
    if (status == TRP_OK && trp_dtype_bits((trp_dtype)m->g.type[which]) == 4)
        status = make_bytes(m, x);
    if (status == TRP_OK)
        status = trp__operand_check_extent(m->encoder, x, m->g.batch);
    return status;
}

/* Factors. */

static bool has_factors(const trp_scale *scale)
{
    return scale->buffer.id || scale->mode != TRP_SCALE_TENSOR;
}

static const int64_t factors_most = INT64_C(1) << 48;

/* How many factors a matrix of `lines` x k has, of which there are not more than can be counted. */
static int64_t count_factors(trp_scale_mode mode, int64_t lines, int64_t k)
{
    int64_t width = mode == TRP_SCALE_BLOCK_16 ? 16 : mode == TRP_SCALE_BLOCK_32 ? 32 : 128;
    int64_t blocks = (k - 1) / width + 1, fours = (blocks - 1) / 4 + 1;
    int64_t squares = (lines - 1) / 128 + 1;
    return mode == TRP_SCALE_BLOCK_128       ? lines * blocks
           : mode == TRP_SCALE_BLOCK_128X128 ? squares * fours * 4
                                             : squares * fours * 512;
}

/* Factors of A (`which` 0) or B. */
static trp_status set_factors(encoding *m, int which, const char *name, const trp_scale *scale)
{
    trp_dtype type = (trp_dtype)m->g.type[which];
    bool bytes = scale->mode == TRP_SCALE_BLOCK_16 || scale->mode == TRP_SCALE_BLOCK_32;
    uint64_t unit = bytes ? 16 : 4;
    if (scale->mode == TRP_SCALE_TENSOR || scale->mode == TRP_SCALE_VECTOR)
        return FAIL(
            m, TRP_E_UNSUPPORTED,
            "%s: expected none, or factors of blocks; nodes of an epilogue tree multiply by "
            "factors of tensors, rows and columns",
            name);
    if (!scale->buffer.id)
        return FAIL(m, TRP_E_ARGUMENT, "%s.buffer: expected one with mode %d, got none", name,
                    (int)scale->mode);
    if ((scale->mode == TRP_SCALE_BLOCK_16) != (type == TRP_F4E2M1) || trp_dtype_bits(type) > 8 ||
        type == TRP_I8 || trp_dtype_bits((trp_dtype)m->g.type[TRP__GEMM_A]) > 8)
        return FAIL(m, TRP_E_UNSUPPORTED, "%s: factors of mode %d for a matrix of type %s", name,
                    (int)scale->mode, trp_dtype_name(type));
    if (scale->offset % unit != 0)
        return FAIL(m, TRP_E_ARGUMENT, "%s.offset: expected a multiple of %llu, got %llu", name,
                    (unsigned long long)unit, (unsigned long long)scale->offset);
    int64_t stride = m->g.batch > 1 ? scale->stride : 0;
    if (stride < 0 || stride > INT32_MAX || (bytes && stride % 16 != 0))
        return FAIL(m, TRP_E_ARGUMENT, "%s.stride: expected 0 to 2^31 - 1%s, got %lld", name,
                    bytes ? ", a multiple of 16" : "", (long long)stride);
    int64_t lines = which == TRP__GEMM_A ? m->g.m : m->g.n;
    if (lines > factors_most / ((m->g.k - 1) / 16 + 128)) /* tiles of factors may be mostly empty */
        return trp__operand_wrong(m->encoder, which == TRP__GEMM_A ? "m" : "n",
                                  "fewer lines with factors of blocks", lines);
    int64_t count = count_factors(scale->mode, lines, m->g.k);
    /* CUTLASS counts them in 32 bits. */
    if (m->encoder->backend == TRP_BACKEND_CUDA && m->g.batch > 1 &&
        (count > INT32_MAX || stride > (INT32_MAX - count) / (m->g.batch - 1)))
        return FAIL(m, TRP_E_UNSUPPORTED,
                    "%s.stride: on a GPU expected less than 2^31 factors in all of a batch, got "
                    "%lld matrices, %lld apart",
                    name, (long long)m->g.batch, (long long)stride);
    trp__operand *x = &m->matrix[TRP__GEMM_SCALE_A + which];
    *x = trp__operand_of_scalars(scale->buffer, scale->offset, bytes ? 1 : 4, (uint64_t)count);
    x->name = name;
    x->fields = true;
    x->mode = TRP__READ;
    x->stride = stride;
    m->g.scale[which] = (uint8_t)scale->mode;
    m->g.scale_stride[which] = stride;
    return trp__operand_measure(m->encoder, x, m->g.batch);
}

/* Both have factors of the same width along k, or none has. */
static trp_status set_scales(encoding *m)
{
    const trp_cutlass_gemm_request *r = m->r;
    const trp_scale *a = &r->a.scale, *b = &r->b.scale;
    bool fp4 = m->g.type[TRP__GEMM_A] == TRP_F4E2M1;
    trp_status status = trp__check_no_scale(m->encoder, "c", &r->c);
    if (status == TRP_OK)
        status = trp__check_no_scale(m->encoder, "d", &r->d);
    if (status != TRP_OK || (!fp4 && !has_factors(a) && !has_factors(b)))
        return status;
    if (has_factors(a))
        status = set_factors(m, TRP__GEMM_A, "a.scale", a);
    if (status == TRP_OK && has_factors(b))
        status = set_factors(m, TRP__GEMM_B, "b.scale", b);
    if (status != TRP_OK)
        return status;
    bool wide = a->mode >= TRP_SCALE_BLOCK_128 && b->mode >= TRP_SCALE_BLOCK_128;
    if (has_factors(a) && has_factors(b) && (wide || a->mode == b->mode))
        return TRP_OK;
    return FAIL(m, TRP_E_UNSUPPORTED,
                "%s: expected factors of as many elements along k as %s has, got mode %d and %d",
                has_factors(a) ? "b.scale" : "a.scale",
                fp4              ? "f4e2m1 must have"
                : has_factors(a) ? "a.scale"
                                 : "b.scale",
                (int)a->mode, (int)b->mode);
}

/* Factors, or what is added, of groups of B. */
static trp_status set_group_operand(encoding *m, int which, const char *name, trp_buffer buffer,
                                    uint64_t offset)
{
    trp__operand *x = &m->matrix[which];
    int64_t groups = (m->g.k - 1) / m->g.group + 1;
    if (groups > INT64_MAX / m->g.n / 2)
        return trp__operand_wrong(m->encoder, "groups.size", "a larger one", m->r->groups.size);
    if (offset % 2 != 0)
        return FAIL(m, TRP_E_ARGUMENT, "%s_offset: expected a multiple of 2, got %llu", name,
                    (unsigned long long)offset);
    *x = trp__operand_of_scalars(buffer, offset, 2, (uint64_t)(groups * m->g.n));
    x->name = name;
    x->mode = TRP__READ;
    x->stride = m->g.scale_stride[TRP__GEMM_B];
    return trp__operand_measure(m->encoder, x, m->g.batch);
}

static trp_status set_groups(encoding *m)
{
    const trp_cutlass_groups *g = &m->r->groups;
    trp_dtype a = (trp_dtype)m->g.type[TRP__GEMM_A], b = (trp_dtype)m->g.type[TRP__GEMM_B];
    if (!g->size && !g->scale.id && !g->zero.id)
        return TRP_OK;
    if (!trp__is_mixed(a, b))
        return FAIL(
            m, TRP_E_UNSUPPORTED,
            "groups: expected none but for a B of 8 or 4 bits where A is f16 or bf16, got %s and "
            "%s",
            trp_dtype_name(b), trp_dtype_name(a));
    if (g->size < 0)
        return trp__operand_wrong(m->encoder, "groups.size", "0 or more", g->size);
    if (!g->scale.id)
        return FAIL(m, TRP_E_ARGUMENT, "groups.scale: expected a buffer, got none");
    if (m->g.batch > 1 && g->stride < 0)
        return trp__operand_wrong(m->encoder, "groups.stride", "0 or more", g->stride);
    m->g.scale_stride[TRP__GEMM_B] = m->g.batch > 1 ? g->stride : 0;
    m->g.group = g->size && g->size < m->g.k ? g->size : m->g.k;
    trp_status status =
        set_group_operand(m, TRP__GEMM_SCALE_B, "groups.scale", g->scale, g->scale_offset);
    return status == TRP_OK && g->zero.id
               ? set_group_operand(m, TRP__GEMM_ZERO_B, "groups.zero", g->zero, g->zero_offset)
               : status;
}

static bool same_place(const encoding *m)
{
    const trp_matmul_matrix *c = &m->r->c, *d = &m->r->d;
    int64_t smallest = d->order == TRP_ROW_MAJOR ? m->g.n : m->g.m;
    return c->buffer.id == d->buffer.id && c->offset == d->offset &&
           (c->ld ? c->ld : smallest) == (d->ld ? d->ld : smallest) &&
           (m->g.batch <= 1 || c->stride == d->stride) &&
           m->g.type[TRP__GEMM_C] == m->g.type[TRP__GEMM_D];
}

static trp_status set_matrices(encoding *m)
{
    const trp_cutlass_gemm_request *r = m->r;
    bool reads_c = m->g.type[TRP__GEMM_C] != TRP_DTYPE_NONE;
    m->in_place = reads_c && same_place(m);
    if (reads_c && r->c.order != r->d.order)
        return FAIL(m, TRP_E_UNSUPPORTED, "c.order: another one than d.order");
    trp_status status = set_matrix(m, TRP__GEMM_A, "a", &r->a, m->g.m, m->g.k, TRP__READ);
    if (status == TRP_OK)
        status = set_matrix(m, TRP__GEMM_B, "b", &r->b, m->g.k, m->g.n, TRP__READ);
    if (status == TRP_OK && reads_c && !m->in_place)
        status = set_matrix(m, TRP__GEMM_C, "c", &r->c, m->g.m, m->g.n, TRP__READ);
    if (status == TRP_OK)
        status = set_matrix(m, TRP__GEMM_D, "d", &r->d, m->g.m, m->g.n,
                            m->in_place ? TRP__READ | TRP__WRITE : TRP__WRITE);
    if (!m->matrix[TRP__GEMM_C].mode) { /* in D's place, or not there */
        m->g.ld[TRP__GEMM_C] = m->g.ld[TRP__GEMM_D];
        m->g.stride[TRP__GEMM_C] = m->g.stride[TRP__GEMM_D];
        m->g.order[TRP__GEMM_C] = m->g.order[TRP__GEMM_D];
    }
    if (status == TRP_OK)
        status = set_scales(m);
    if (status == TRP_OK)
        status = set_groups(m);
    for (int i = TRP__GEMM_A; i < TRP__GEMM_OPERANDS && status == TRP_OK; i++) {
        if (m->matrix[i].mode && i != TRP__GEMM_D)
            status = trp__operand_check_apart(m->encoder, &m->matrix[TRP__GEMM_D], &m->matrix[i],
                                              m->g.batch);
    }
    return status;
}

static trp_status add_matrices(encoding *m)
{
    trp_status status = TRP_OK;
    for (int i = 0; i < TRP__GEMM_OPERANDS && status == TRP_OK; i++) {
        uint32_t access;
        status = trp__add_operand(m->encoder, &m->matrix[i], &access);
        m->g.access[i] = (uint8_t)access;
    }
    if (m->in_place)
        m->g.access[TRP__GEMM_C] = m->g.access[TRP__GEMM_D];
    return status;
}

/* Adds all operands, and puts slots and tree behind the head. */
static trp_status put_all(encoding *m)
{
    void *room = NULL;
    trp_status status = trp__epilogue_reserve(&m->e, m->g.rest, sizeof m->g.rest, 0, &room);
    if (status == TRP_OK)
        status = add_matrices(m);
    m->g.slots = (uint8_t)m->e.slots;
    m->g.tree_bytes = (uint16_t)m->e.tree_bytes;
    return status == TRP_OK ? trp__epilogue_put(&m->e, room) : status;
}

static trp_status set_places(encoding *m)
{
    uint32_t matrices = 0;
    trp_status status = set_matrices(m);
    if (status == TRP_OK && m->e.tree.count)
        status =
            trp__tree_place_operands(m->encoder, m->e.nodes, &m->e.tree, m->g.m, m->g.n, m->g.batch,
                                     m->matrix, TRP__GEMM_OPERANDS, &m->e.operands);
    for (int i = 0; i < TRP__GEMM_OPERANDS; i++)
        matrices += m->matrix[i].mode != 0;
    if (status == TRP_OK)
        status = trp__epilogue_check_count(&m->e, matrices);
    if (status != TRP_OK || m->encoder->backend == TRP_BACKEND_HOST)
        return status == TRP_OK ? put_all(m) : status;
    const trp__cutlass_product product = {.g = &m->g,
                                          .tree = &m->e.tree,
                                          .matrix = m->matrix,
                                          .operands = &m->e.operands,
                                          .in_place = m->in_place,
                                          .request = m->r};
    return trp__cutlass_encode_product(m->encoder, &product);
}

trp_status trp__cutlass_encode_gemm(trp__encoder *encoder, const trp_request *request)
{
    encoding m = {.encoder = encoder, .r = (const trp_cutlass_gemm_request *)request};
    trp_status status = check_enums(&m);
    if (status == TRP_OK)
        status = check_sizes(&m);
    if (status == TRP_OK)
        status = trp__check_kernel(encoder, m.r->kernel, m.r->chosen, m.r->ran);
    if (status == TRP_OK)
        status = set_epilogue(&m);
    if (status == TRP_OK && m.g.m > 0 && m.g.n > 0)
        status = set_places(&m);
    else if (status == TRP_OK && encoder->backend == TRP_BACKEND_CUDA)
        memset(encoder->record->payload, 0, sizeof(trp__cutlass_run));
    if (status == TRP_OK && encoder->backend == TRP_BACKEND_HOST)
        memcpy(encoder->record->payload, &m.g, sizeof m.g);
    return status;
}
