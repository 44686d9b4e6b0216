/* The sender's side of matmul: matrices, vectors, scalars and scale factors in buffers. */
#include "actors/matmul/encode.h"

/* Returns the number of elements in a byte; aux bits have no type. */
static int64_t elements_per_byte(uint8_t type)
{
    return type == TRP_DTYPE_NONE ? 8 : type == TRP_F4E2M1 ? 2 : 1;
}

/* Converts numbers of elements to bytes, if a byte has several elements. */
static trp_status convert_to_bytes(trp__matmul_encoding *m, trp__operand *x, int64_t per)
{
    if (x->rows % per != 0 || x->ld % per != 0 || x->stride % per != 0)
        return trp__error_set(m->encoder->error, TRP_E_ARGUMENT,
                              "%s: expected lines, %s.ld and %s.stride that are multiples of %lld "
                              "elements, which make a byte, got %lld, %lld and %lld",
                              x->name, x->name, x->name, (long long)per, (long long)x->rows,
                              (long long)x->ld, (long long)x->stride);
    x->rows /= per;
    x->ld /= per;
    x->stride /= per;
    return TRP_OK;
}

/* Describes matrix `which`, which is rows x columns for the library; its mode has been set. */
static trp_status set_matrix(trp__matmul_encoding *m, int which, const char *name,
                             const trp_matmul_matrix *from, int64_t rows, int64_t columns)
{
    uint8_t type = m->g.type[which];
    trp__operand *x = &m->operand[which];
    int64_t per = elements_per_byte(type);
    *x = (trp__operand){.name = name,
                        .fields = true,
                        .buffer = from->buffer,
                        .offset = from->offset,
                        .rows = rows,
                        .columns = columns,
                        .ld = from->ld,
                        .stride = m->g.batch > 1 ? from->stride : 0,
                        .element = per > 1 ? 1 : trp_dtype_bits((trp_dtype)type) / 8,
                        .mode = x->mode};
    trp_status status = trp__operand_check_ld(m->encoder, x, from->order);
    m->g.ld[which] = x->ld;
    m->g.stride[which] = x->stride;
    if (status == TRP_OK && per > 1)
        status = convert_to_bytes(m, x, per);
    if (status == TRP_OK)
        status = trp__operand_check_extent(m->encoder, x, m->g.batch);
    return status;
}

static bool same_place(const trp__matmul_encoding *m)
{
    const trp_matmul_matrix *c = &m->r->c, *d = &m->r->d;
    int64_t smallest = m->g.m;
    return c->buffer.id == d->buffer.id && c->offset == d->offset &&
           (c->ld ? c->ld : smallest) == (d->ld ? d->ld : smallest) &&
           (m->g.batch <= 1 || c->stride == d->stride) &&
           m->g.type[TRP__MATMUL_C] == m->g.type[TRP__MATMUL_D];
}

static trp_status set_c_and_d(trp__matmul_encoding *m)
{
    trp_status status = TRP_OK;
    m->in_place = m->reads_c && same_place(m);
    if (m->reads_c && m->r->c.order != m->r->d.order)
        return TRP__UNSUPPORTED(m, "c.order: an order other than d.order");
    m->operand[TRP__MATMUL_C].mode = m->reads_c && !m->in_place ? TRP__READ : 0;
    m->operand[TRP__MATMUL_D].mode = m->in_place ? TRP__READ | TRP__WRITE : TRP__WRITE;
    if (m->reads_c && !m->in_place)
        status = set_matrix(m, TRP__MATMUL_C, "c", &m->r->c, m->g.m, m->g.n);
    if (status == TRP_OK)
        status = set_matrix(m, TRP__MATMUL_D, "d", &m->r->d, m->g.m, m->g.n);
    if (!m->operand[TRP__MATMUL_C].mode) { /* the layout of a missing C */
        m->g.ld[TRP__MATMUL_C] = m->g.ld[TRP__MATMUL_D];
        m->g.stride[TRP__MATMUL_C] = m->g.stride[TRP__MATMUL_D];
    }
    return status;
}

/* The library may write the bits of a line in groups of 128, so a line of bits is rounded up. */
static trp_status set_aux(trp__matmul_encoding *m)
{
    const trp_matmul_matrix *aux = &m->r->aux;
    bool bits = trp__aux_is_bits(m->r->activation);
    int64_t unit = bits ? 128 : 8;
    if (!aux->buffer.id)
        return TRP_OK;
    if (m->g.m > INT64_MAX - unit)
        return trp__matmul_wrong(m, m->swap ? "n" : "m", "less than 2^63 - 128", m->g.m);
    int64_t whole = (m->g.m + unit - 1) / unit * unit, rows = bits ? whole : m->g.m;
    trp_matmul_matrix from = *aux;
    if (from.ld == 0)
        from.ld = whole;
    if (from.ld % unit != 0)
        return trp__matmul_wrong(m, "aux.ld", bits ? "a multiple of 128 bits" : "a multiple of 8",
                                 from.ld);
    if (m->g.batch > 1 && from.stride % unit != 0)
        return trp__matmul_wrong(m, "aux.stride",
                                 bits ? "a multiple of 128 bits" : "a multiple of 8", from.stride);
    if (aux->order != m->r->d.order)
        return TRP__UNSUPPORTED(m, "aux.order: an order other than d.order");
    m->operand[TRP__MATMUL_AUX].mode = trp__is_gradient(m->r->activation) ? TRP__READ : TRP__WRITE;
    trp_status status = set_matrix(m, TRP__MATMUL_AUX, "aux", &from, rows, m->g.n);
    if (rows != m->g.m) /* whether the bits after a line are written is unknown */
        m->operand[TRP__MATMUL_AUX].mode &= ~(uint32_t)TRP__COVER;
    return status;
}

/* Describes an array of `count` elements of `bytes` each. */
static void set_small(trp__matmul_encoding *m, int which, const char *name, trp_buffer buffer,
                      uint64_t offset, uint32_t bytes, int64_t count, uint32_t mode)
{
    trp__operand *x = &m->operand[which];
    *x = trp__operand_of_scalars(buffer, offset, bytes, (uint64_t)count);
    x->name = name;
    x->fields = which != TRP__MATMUL_SCALARS && which < TRP__MATMUL_AMAX_D;
    x->mode = mode;
}

/* Describes a vector of `count` elements for each member of the batch; *stride gets its stride. */
static trp_status set_vector(trp__matmul_encoding *m, int which, const char *name,
                             const trp_matmul_vector *v, uint8_t type, int64_t count, uint32_t mode,
                             int64_t *stride)
{
    if (!v->buffer.id)
        return TRP_OK;
    trp__operand *x = &m->operand[which];
    set_small(m, which, name, v->buffer, v->offset, trp_dtype_bits((trp_dtype)type) / 8, count,
              mode);
    *stride = x->stride = m->g.batch > 1 ? v->stride : 0;
    return trp__operand_check_extent(m->encoder, x, m->g.batch);
}

static trp_status set_alphas(trp__matmul_encoding *m)
{
    int64_t stride = 0;
    trp_status status = set_vector(m, TRP__MATMUL_ALPHAS, "alphas", &m->r->alphas, m->g.scalar_type,
                                   m->g.m, TRP__READ, &stride);
    if (m->r->alphas.buffer.id)
        m->g.alphas_stride = stride;
    return status;
}

static trp_status set_bias_or_gradient(trp__matmul_encoding *m)
{
    const trp_matmul_request *r = m->r;
    bool gradient = r->gradient_of != TRP_BIAS_GRADIENT_NONE;
    const trp_matmul_vector *v = gradient ? &r->gradient : &r->bias;
    int64_t count = m->g.gradient == TRP_BIAS_GRADIENT_B ? m->g.n : m->g.m;
    return set_vector(m, TRP__MATMUL_VECTOR, gradient ? "gradient" : "bias", v, m->g.vector_type,
                      count, gradient ? TRP__WRITE : TRP__READ, &m->g.vector_stride);
}

static int64_t units_of(int64_t value, int64_t unit)
{
    return value / unit + (value % unit != 0);
}

/* Returns the number of scale factors of a matrix of `lines` x k. It does not overflow, since the
 * matrix is in a buffer. */
static int64_t scale_count(trp_scale_mode mode, int64_t lines, int64_t k)
{
    int64_t width = mode == TRP_SCALE_BLOCK_16 ? 16 : mode == TRP_SCALE_BLOCK_32 ? 32 : 128;
    int64_t blocks = units_of(k, width);
    switch (mode) {
    case TRP_SCALE_VECTOR:
        return lines;
    case TRP_SCALE_BLOCK_16:
    case TRP_SCALE_BLOCK_32:
        return units_of(lines, 128) * units_of(blocks, 4) * 512;
    case TRP_SCALE_BLOCK_128:
        return lines * blocks;
    case TRP_SCALE_BLOCK_128X128:
        return units_of(blocks, 4) * 4 * units_of(lines, 128);
    default:
        return 1;
    }
}

static bool mode_fits(trp_scale_mode mode, uint8_t type)
{
    return mode == TRP_SCALE_BLOCK_16 ? type == TRP_F4E2M1 : trp__is_fp8(type);
}

/* Sets the scale factors of A or B of the record; `name` is that of the request. */
static trp_status set_input_scale(trp__matmul_encoding *m, int which, const char *name,
                                  const trp_scale *scale, uint8_t *mode)
{
    uint8_t type = m->g.type[which];
    if (!scale->buffer.id && scale->mode == TRP_SCALE_TENSOR)
        return TRP_OK;
    if (!scale->buffer.id)
        return trp__error_set(m->encoder->error, TRP_E_ARGUMENT,
                              "%s: expected a buffer with mode %d, got none", name,
                              (int)scale->mode);
    if (!mode_fits(scale->mode, type))
        return TRP__UNSUPPORTED(m, "%s: factors of mode %d for a matrix of type %s", name,
                                (int)scale->mode, trp_dtype_name((trp_dtype)type));
    if (scale->mode != TRP_SCALE_TENSOR && m->g.batch > 1)
        return TRP__UNSUPPORTED(m, "%s: factors of mode %d with a batch", name, (int)scale->mode);
    bool bytes = scale->mode == TRP_SCALE_BLOCK_16 || scale->mode == TRP_SCALE_BLOCK_32;
    if (bytes && scale->offset % 16 != 0)
        return trp__error_set(m->encoder->error, TRP_E_ARGUMENT,
                              "%s.offset: expected a multiple of 16, got %llu", name,
                              (unsigned long long)scale->offset);
    int64_t lines = which == TRP__MATMUL_A ? m->g.m : m->g.n;
    *mode = (uint8_t)scale->mode;
    set_small(m, which == TRP__MATMUL_A ? TRP__MATMUL_SCALE_A : TRP__MATMUL_SCALE_B, name,
              scale->buffer, scale->offset, bytes ? 1 : 4, scale_count(scale->mode, lines, m->g.k),
              TRP__READ);
    return TRP_OK;
}

/* Sets the scale factor of an output, or the destination of its largest value: one f32 for an
 * output of fp8. */
static trp_status set_output_scale(trp__matmul_encoding *m, int which, const char *name,
                                   trp_buffer buffer, uint64_t offset, int mode, uint8_t type,
                                   uint32_t access)
{
    if (!buffer.id && mode == TRP_SCALE_TENSOR)
        return TRP_OK;
    if (mode != TRP_SCALE_TENSOR)
        return TRP__UNSUPPORTED(m, "%s: scale mode %d for an output", name, mode);
    if (!trp__is_fp8(type) && !(which == TRP__MATMUL_SCALE_D && type == TRP_F4E2M1))
        return TRP__UNSUPPORTED(m, "%s: for a matrix that is not fp8, but %s", name,
                                type == TRP_DTYPE_NONE ? "bits or missing"
                                                       : trp_dtype_name((trp_dtype)type));
    set_small(m, which, name, buffer, offset, 4, 1, access);
    return TRP_OK;
}

/* Sets the factors of D's blocks, which the product writes. Tiles that are not full may be written
 * in part. */
static trp_status set_block_scales(trp__matmul_encoding *m)
{
    const trp_matmul_request *r = m->r;
    const trp_scale *scale = &r->d_out_scale;
    const trp_dtype type = (trp_dtype)m->g.type[TRP__MATMUL_D];
    const bool fp4 = type == TRP_F4E2M1;
    if (!fp4 && !scale->buffer.id && scale->mode == TRP_SCALE_TENSOR)
        return TRP_OK;
    if (!fp4 && !trp__is_fp8(type))
        return TRP__UNSUPPORTED(m, "d_out_scale: where D is %s", trp_dtype_name(type));
    if (!scale->buffer.id)
        return trp__error_set(m->encoder->error, TRP_E_ARGUMENT,
                              "d_out_scale.buffer: expected one %s, got none",
                              fp4 ? "where D is f4e2m1" : "with a mode");
    if (scale->mode != (fp4 ? TRP_SCALE_BLOCK_16 : TRP_SCALE_BLOCK_32))
        return trp__matmul_wrong(m, "d_out_scale.mode",
                                 fp4 ? "TRP_SCALE_BLOCK_16 where D is f4e2m1"
                                     : "TRP_SCALE_BLOCK_32 where D is fp8",
                                 (int64_t)scale->mode);
    if (m->g.batch > 1 || r->amax_d.id || (r->d.scale.buffer.id && !fp4))
        return TRP__UNSUPPORTED(m, "d_out_scale: together with %s",
                                m->g.batch > 1 ? "a batch"
                                : r->amax_d.id ? "amax_d"
                                               : "d.scale of an fp8 matrix");
    if (scale->offset % 16 != 0)
        return trp__error_set(m->encoder->error, TRP_E_ARGUMENT,
                              "d_out_scale.offset: expected a multiple of 16, got %llu",
                              (unsigned long long)scale->offset);
    const bool full = m->g.n % 128 == 0 && m->g.m % (fp4 ? 64 : 128) == 0;
    set_small(m, TRP__MATMUL_OUT_SCALE, "d_out_scale", scale->buffer, scale->offset, 1,
              scale_count(scale->mode, m->g.n, m->g.m), TRP__WRITE | (full ? TRP__COVER : 0));
    return TRP_OK;
}

/* Refuses strides of scale factors, since one factor for a matrix applies to the whole batch. */
static trp_status check_no_strides(const trp__matmul_encoding *m)
{
    const trp_matmul_request *r = m->r;
    const struct {
        const char *name;
        const trp_scale *scale;
    } all[] = {{"a", &r->a.scale}, {"b", &r->b.scale}, {"d", &r->d.scale}, {"aux", &r->aux.scale}};
    for (size_t i = 0; i < sizeof all / sizeof *all && m->g.batch > 1; i++) {
        if (all[i].scale->buffer.id && all[i].scale->stride != 0)
            return TRP__UNSUPPORTED(
                m, "%s.scale.stride: expected 0, one factor for all of the batch, got %lld",
                all[i].name, (long long)all[i].scale->stride);
    }
    return TRP_OK;
}

static trp_status set_scales(trp__matmul_encoding *m)
{
    const trp_matmul_request *r = m->r;
    const trp__matmul *g = &m->g;
    const trp_scale *a = m->swap ? &r->b.scale : &r->a.scale;
    const trp_scale *b = m->swap ? &r->a.scale : &r->b.scale;
    uint8_t d_type = g->type[TRP__MATMUL_D];
    uint8_t aux_type = r->aux.buffer.id ? g->type[TRP__MATMUL_AUX] : TRP_DTYPE_NONE;
    uint32_t written = TRP__WRITE | TRP__COVER;
    if (r->c.scale.buffer.id || r->c.scale.mode != TRP_SCALE_TENSOR)
        return TRP__UNSUPPORTED(m, "c.scale: for a matrix that is not fp8, but %s",
                                trp_dtype_name((trp_dtype)g->type[TRP__MATMUL_C]));
    trp_status status = check_no_strides(m);
    if (status == TRP_OK && g->k > 0)
        status =
            set_input_scale(m, TRP__MATMUL_A, m->swap ? "b.scale" : "a.scale", a, &m->g.scale_a);
    if (status == TRP_OK && g->k > 0)
        status =
            set_input_scale(m, TRP__MATMUL_B, m->swap ? "a.scale" : "b.scale", b, &m->g.scale_b);
    if (status == TRP_OK)
        status = set_output_scale(m, TRP__MATMUL_SCALE_D, "d.scale", r->d.scale.buffer,
                                  r->d.scale.offset, (int)r->d.scale.mode, d_type, TRP__READ);
    if (status == TRP_OK)
        status = set_block_scales(m);
    if (status == TRP_OK)
        status = set_output_scale(m, TRP__MATMUL_SCALE_AUX, "aux.scale", r->aux.scale.buffer,
                                  r->aux.scale.offset, (int)r->aux.scale.mode, aux_type, TRP__READ);
    if (status == TRP_OK)
        status = set_output_scale(m, TRP__MATMUL_AMAX_D, "amax_d", r->amax_d, r->amax_d_offset,
                                  TRP_SCALE_TENSOR, d_type, written);
    if (status == TRP_OK)
        status = set_output_scale(
            m, TRP__MATMUL_AMAX_AUX, "amax_aux", r->amax_aux, r->amax_aux_offset, TRP_SCALE_TENSOR,
            trp__is_gradient(r->activation) ? TRP_DTYPE_NONE : aux_type, written);
    return status;
}

static void set_scalars(trp__matmul_encoding *m)
{
    trp_dtype type = (trp_dtype)m->g.scalar_type;
    if (m->r->scalars.id)
        set_small(m, TRP__MATMUL_SCALARS, "scalars", m->r->scalars, m->r->scalars_offset,
                  trp_dtype_bits(type) / 8, 2, TRP__READ);
}

/* The record. */

static trp_status add_accesses(trp__matmul_encoding *m, int from, int to)
{
    for (int i = from; i < to; i++) {
        if (!m->operand[i].mode)
            continue;
        m->g.access[i] = (uint8_t)m->encoder->record->access_count;
        trp_status status = trp__operand_access(m->encoder, &m->operand[i]);
        if (status != TRP_OK)
            return status;
    }
    return TRP_OK;
}

/* Sets A and B, which are not read if k is 0. */
static trp_status set_inputs(trp__matmul_encoding *m)
{
    const trp_matmul_request *r = m->r;
    const trp_matmul_matrix *a = m->swap ? &r->b : &r->a, *b = m->swap ? &r->a : &r->b;
    trp__matmul *g = &m->g;
    bool a_is = g->trans_a == TRP_N, b_is = g->trans_b == TRP_N;
    if (g->k == 0) {
        g->ld[TRP__MATMUL_A] = a_is ? g->m : 1;
        g->ld[TRP__MATMUL_B] = b_is ? 1 : g->n;
        return TRP_OK;
    }
    m->operand[TRP__MATMUL_A].mode = m->operand[TRP__MATMUL_B].mode = TRP__READ;
    trp_status status = set_matrix(m, TRP__MATMUL_A, m->swap ? "b" : "a", a, a_is ? g->m : g->k,
                                   a_is ? g->k : g->m);
    if (status == TRP_OK)
        status = set_matrix(m, TRP__MATMUL_B, m->swap ? "a" : "b", b, b_is ? g->k : g->n,
                            b_is ? g->n : g->k);
    return status;
}

trp_status trp__matmul_set_operands(trp__matmul_encoding *m)
{
    trp_status status = set_inputs(m);
    if (status == TRP_OK)
        status = set_c_and_d(m);
    if (status == TRP_OK)
        status = set_aux(m);
    if (status == TRP_OK)
        status = set_bias_or_gradient(m);
    if (status == TRP_OK)
        status = set_alphas(m);
    if (status == TRP_OK)
        status = add_accesses(m, 0, TRP__MATMUL_SCALARS);
    /* The matrices fit in their buffers, so nothing below overflows. */
    set_scalars(m);
    if (status == TRP_OK)
        status = set_scales(m);
    if (status == TRP_OK)
        status = add_accesses(m, TRP__MATMUL_SCALARS, TRP__MATMUL_OPERANDS);
    if (status == TRP_OK && m->in_place)
        m->g.access[TRP__MATMUL_C] = m->g.access[TRP__MATMUL_D];
    return status == TRP_OK
               ? trp__operands_check_apart(m->encoder, m->operand, TRP__MATMUL_OPERANDS, m->g.batch)
               : status;
}
