/* The combinations of options that every test of products runs. See problem.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/matmul/problem.h"

static size_t below(size_t n)
{
    return ref_rng_below(h_rng(), n);
}

static trp_order order_of(unsigned bit)
{
    return bit ? TRP_ROW_MAJOR : TRP_COL_MAJOR;
}

/* Sizes, layout and scalars at random; no epilogue and no scales. */
static mm_problem plain(const mm_types *types, size_t size_limit, size_t k_limit)
{
    mm_problem p = mm_draw(types, size_limit, k_limit);
    p.activation = TRP_ACTIVATION_NONE;
    p.gradient = TRP_BIAS_GRADIENT_NONE;
    p.bias = p.aux = p.scale_d = p.scale_aux = p.amax_d = p.amax_aux = p.scalars = p.alphas =
        p.out_scale = false;
    p.scale_a = p.scale_b = MM_UNSCALED;
    return p;
}

static bool layout(const mm_types *types, unsigned way, mm_problem *out)
{
    mm_problem p = plain(types, 12, 24);
    unsigned rest = way / 32;
    p.trans_a = way & 1 ? TRP_T : TRP_N;
    p.trans_b = way & 2 ? TRP_T : TRP_N;
    if (way & 1 && below(3) == 0)
        p.trans_a = TRP_C;
    if (way & 2 && below(3) == 0)
        p.trans_b = TRP_C;
    p.order_a = order_of(way & 4);
    p.order_b = order_of(way & 8);
    p.order_d = order_of(way & 16);
    p.c = (mm_c)(rest % 3);
    p.batch = rest / 3 ? 3 : 1;
    *out = p;
    return true;
}

/* Returns false if mm_settle() would change it. */
static bool epilogue(const mm_types *types, unsigned way, mm_problem *out)
{
    mm_problem p = plain(types, 24, 20);
    p.bias = way & 1;
    p.aux = way & 2;
    p.order_d = order_of(way & 4);
    p.batch = below(2) ? 3 : 1;
    p.gradient = (trp_bias_gradient)(way / 8 % 4);
    p.activation = (trp_activation)(way / 32);
    p.scale_d = below(2);
    p.amax_d = below(2);
    p.scale_aux = below(2);
    p.amax_aux = below(2);
    mm_problem settled = *out = p;
    mm_settle(&settled);
    return settled.activation == p.activation && settled.bias == p.bias && settled.aux == p.aux &&
           settled.gradient == p.gradient;
}

/* Blocks of 128, and tiles of 128 lines by 4 blocks, whole and partial ones. */
static bool scales(const mm_types *types, unsigned way, mm_problem *out)
{
    bool large = below(10) == 0;
    if (trp_dtype_bits(types->a) > 8 || types->a == TRP_I8)
        return false;
    mm_problem p = plain(types, large ? 260 : 20, large ? 600 : 300);
    p.scale_a = (int)way % 7 - 1;
    p.scale_b = (int)way / 7 - 1;
    p.batch = p.scale_a > 0 || p.scale_b > 0 ? 1 : p.batch;
    p.scale_d = below(2);
    p.amax_d = below(2);
    p.out_scale = below(2);
    if (below(4) == 0)
        p.activation = TRP_ACTIVATION_GELU;
    p.aux = p.scale_aux = p.amax_aux = below(2);
    mm_problem settled = *out = p;
    mm_settle(&settled);
    return settled.scale_a == p.scale_a && settled.scale_b == p.scale_b;
}

static bool in_buffer(const mm_types *types, unsigned way, mm_problem *out)
{
    *out = plain(types, 20, 20);
    out->scalars = true;
    out->c = way % 2 ? MM_C_IN_PLACE : MM_C_APART;
    return true;
}

static bool vectors_of_alpha(const mm_types *types, unsigned way, mm_problem *out)
{
    if (ref_blas_complex(types->scalar))
        return false;
    *out = plain(types, 24, 20);
    out->alphas = true;
    out->order_d = order_of(way & 1);
    out->batch = way & 2 ? 3 : 1;
    out->c = (mm_c)(way / 4);
    out->fit = h_is_cuda();
    out->bias = below(2);
    out->activation = below(2) ? TRP_ACTIVATION_GELU : TRP_ACTIVATION_NONE;
    return true;
}

/* Sizes that the host computes in several tiles, for some types. */
static bool larger(const mm_types *types, unsigned way, mm_problem *out)
{
    static const int64_t sizes[][3] = {{523, 7, 20}, {9, 1027, 16}, {13, 11, 1033}};
    static const trp_activation with_aux[] = {TRP_ACTIVATION_RELU, TRP_ACTIVATION_DRELU,
                                              TRP_ACTIVATION_DGELU};
    const size_t row = (size_t)(types - mm_rows);
    if (row > 10 && row != 13 && row != 20 && row != 32 && row != 34)
        return false;
    *out = mm_draw(types, 2, 2);
    out->m = sizes[way % 3][0];
    out->n = sizes[way % 3][1];
    out->k = sizes[way % 3][2];
    out->batch = 1;
    if (way / 3 == 1) {
        out->activation = with_aux[below(3)];
        out->aux = true;
        out->gradient = TRP_BIAS_GRADIENT_D;
    } else if (way / 3 == 2) {
        out->activation = TRP_ACTIVATION_NONE;
        out->gradient = below(2) ? TRP_BIAS_GRADIENT_B : TRP_BIAS_GRADIENT_A;
    } else if (way / 3 == 3) {
        if (way % 3 > 0 || (row != 1 && row != 7) || H_SANITIZED)
            return false;
        out->m = 514;
        out->n = 515;
        out->k = 513;
    }
    return true;
}

/* A power within an activation overflows, but the activation does not. A GPU's library may return
 * anything there. */
static bool huge(const mm_types *types, unsigned way, mm_problem *out)
{
    if (h_is_cuda() || (types->a != TRP_F64 && types->a != TRP_F32 && types->a != TRP_BF16))
        return false;
    *out = mm_draw(types, 20, 20);
    out->activation = (trp_activation)way;
    out->alpha = trp_real(1e25);
    out->huge_aux = true;
    return true;
}

static bool smallest(const mm_types *types, unsigned way, mm_problem *out)
{
    *out = mm_draw(types, 3, 3);
    out->m = way & 1 ? 1 : out->m;
    out->n = way & 2 ? 1 : out->n;
    out->k = way & 4 ? 1 : out->k;
    out->fit = false;
    return true;
}

static bool anything(const mm_types *types, unsigned way, mm_problem *out)
{
    (void)way;
    *out = mm_draw(types, 60, 150);
    return true;
}

bool mm_draw_way(const mm_types *types, unsigned way, mm_problem *out)
{
    static const struct {
        unsigned count;
        bool (*draw)(const mm_types *, unsigned, mm_problem *);
    } kinds[] = {{192, layout},  {192, epilogue},        {49, scales},
                 {8, in_buffer}, {12, vectors_of_alpha}, {12, larger},
                 {6, huge},      {16, smallest},         {20, anything}};
    size_t i = 0;
    while (way >= kinds[i].count)
        way -= kinds[i++].count;
    return kinds[i].draw(types, way, out);
}

mm_problem mm_draw_tight(const mm_types *types)
{
    mm_problem p = mm_draw(types, 12, 12);
    p.m += 2;
    p.n += 2;
    p.k += 2;
    p.batch = 1;
    p.alpha = trp_real(1);
    p.beta = trp_real(2);
    p.tight = true;
    p.gaps = p.one_pool = p.two_pools = p.side_by_side = false;
    return p;
}
