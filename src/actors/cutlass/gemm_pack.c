/* The sender's side of a product: checks a request and writes its record. */
#include "actors/cutlass/cutlass.h"
#include "actors/cutlass/gemm_wire.h"
#include "actors/cutlass/run_pack.h"
#include "actors/cutlass/run_wire.h"
#include "base/error.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* A request in the making. */
typedef struct making {
    trp__pack *pack;
    const trp_cutlass_gemm_request *r;
    trp__cutlass_gemm g;
    trp_dtype sums, c; /* c: of the request's C; TRP_DTYPE_NONE if it has none */
    bool in_place;     /* C is read where D is written */
    const trp_epilogue_node *nodes;
    trp_epilogue_node plain[7]; /* those of alpha and beta */
    trp__tree tree;
    trp__operand matrix[TRP__GEMM_MATRICES]; /* mode 0: there is none */
    trp__tree_operands operands;
} making;

#define FAIL(m, status, ...) trp__error_set((m)->pack->error, status, __VA_ARGS__)

/* Numbers. */

static trp_status check_enums(making *m)
{
    const trp_cutlass_gemm_request *r = m->r;
    const struct {
        const char *name, *expected;
        uint32_t value, most;
    } enums[] = {
        {"a.order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->a.order, TRP_ROW_MAJOR},
        {"b.order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->b.order, TRP_ROW_MAJOR},
        {"c.order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->c.order, TRP_ROW_MAJOR},
        {"d.order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->d.order, TRP_ROW_MAJOR},
        {"compute", "TRP_COMPUTE_DEFAULT, _TF32 or _PEDANTIC", r->compute, TRP_COMPUTE_PEDANTIC},
        {"first", "TRP_CUTLASS_FIRST_WAIT or _FALLBACK", r->first, TRP_CUTLASS_FIRST_FALLBACK},
    };
    for (size_t i = 0; i < COUNT_OF(enums); i++) {
        if (enums[i].value > enums[i].most)
            return trp__operand_wrong(m->pack, enums[i].name, enums[i].expected,
                                      (int32_t)enums[i].value);
    }
    return TRP_OK;
}

static trp_status check_sizes(making *m)
{
    const trp_cutlass_gemm_request *r = m->r;
    if (r->m < 0 || r->n < 0)
        return trp__operand_wrong(m->pack, r->m < 0 ? "m" : "n", "0 or more",
                                  r->m < 0 ? r->m : r->n);
    if (r->k < 1)
        return trp__operand_wrong(m->pack, "k", "1 or more", r->k);
    if (r->batch < 0)
        return trp__operand_wrong(m->pack, "batch", "0 or more", r->batch);
    m->g.m = r->m;
    m->g.n = r->n;
    m->g.k = r->k;
    m->g.batch = r->batch ? r->batch : 1;
    return TRP_OK;
}

/* Types. */

static bool is_fp8(trp_dtype type)
{
    return type == TRP_F8E4M3 || type == TRP_F8E5M2;
}

static trp_status set_inputs(making *m)
{
    const trp_cutlass_gemm_request *r = m->r;
    trp_dtype a = r->a.type, b = r->b.type ? r->b.type : a;
    if (a == TRP_F64)
        m->sums = TRP_F64;
    else if (a == TRP_F32 || a == TRP_F16 || a == TRP_BF16 || is_fp8(a))
        m->sums = TRP_F32;
    else if (a == TRP_I8)
        m->sums = TRP_I32;
    else
        return FAIL(m, TRP_E_UNSUPPORTED,
                    "a.type: expected f64, f32, f16, bf16, f8e4m3, f8e5m2 or i8, got %s (%d)",
                    trp_dtype_name(a), (int)a);
    if (a != b && !(is_fp8(a) && is_fp8(b)))
        return FAIL(m, TRP_E_UNSUPPORTED, "b.type: expected %s where A is %s, got %s (%d)",
                    is_fp8(a) ? "f8e4m3 or f8e5m2" : trp_dtype_name(a), trp_dtype_name(a),
                    trp_dtype_name(b), (int)b);
    if (r->compute == TRP_COMPUTE_TF32 && a != TRP_F32)
        return FAIL(m, TRP_E_ARGUMENT,
                    "compute: TRP_COMPUTE_TF32 goes with inputs of f32 only, got %s",
                    trp_dtype_name(a));
    m->g.type[TRP__GEMM_A] = (uint8_t)a;
    m->g.type[TRP__GEMM_B] = (uint8_t)b;
    m->g.compute = (uint8_t)r->compute;
    return TRP_OK;
}

/* Whether D and C can have a type; sums of i8 also i32. */
static trp_status check_output(making *m, const char *name, trp_dtype type, bool integers)
{
    uint8_t compute = m->sums == TRP_F64 ? TRP_F64 : TRP_F32;
    if (integers ? type == TRP_I32 : trp__tree_matrix_type(compute, type))
        return TRP_OK;
    if (integers)
        return FAIL(m, TRP_E_UNSUPPORTED, "%s.type: expected i32, as D, got %s (%d)", name,
                    trp_dtype_name(type), (int)type);
    return FAIL(m, TRP_E_UNSUPPORTED, "%s.type: expected %s%s, got %s (%d)", name,
                compute == TRP_F64 ? "f64 or f32" : "f32, f16, bf16, f8e4m3, f8e5m2 or i8",
                m->r->epilogue_count > 0 ? " with an epilogue tree" : "", trp_dtype_name(type),
                (int)type);
}

static trp_status set_outputs(making *m, bool *integers)
{
    const trp_cutlass_gemm_request *r = m->r;
    trp_dtype a = r->a.type;
    trp_dtype d = r->d.type ? r->d.type : is_fp8(a) ? TRP_BF16 : a == TRP_I8 ? TRP_I32 : a;
    trp_dtype c = r->c.type ? r->c.type : d;
    *integers = m->sums == TRP_I32 && d == TRP_I32 && r->epilogue_count == 0;
    trp_status status = check_output(m, "d", d, *integers);
    if (status == TRP_OK && r->c.buffer.id)
        status = check_output(m, "c", c, *integers);
    m->c = r->c.buffer.id ? c : TRP_DTYPE_NONE;
    m->g.type[TRP__GEMM_D] = (uint8_t)d;
    return status;
}

static trp_status check_scales(making *m)
{
    const struct {
        const char *name;
        const trp_matmul_matrix *matrix;
    } all[] = {{"a", &m->r->a}, {"b", &m->r->b}, {"c", &m->r->c}, {"d", &m->r->d}};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        if (all[i].matrix->scale.buffer.id || all[i].matrix->scale.mode != TRP_SCALE_TENSOR)
            return FAIL(m, TRP_E_UNSUPPORTED,
                        "%s.scale: expected none; nodes of an epilogue tree multiply by factors of "
                        "tensors, rows and columns",
                        all[i].name);
    }
    return TRP_OK;
}

/* The epilogue. */

/* alpha * sums + beta * C as a tree: the sum is rounded once. */
static uint32_t plain_nodes(making *m, bool beta)
{
    enum { NONE, SUMS, ALPHA, C, BETA, SCALED, ROOT };
    trp_epilogue_node *x = m->plain;
    x[SUMS].kind = TRP_EPILOGUE_ACCUMULATOR;
    x[ALPHA] = (trp_epilogue_node){.kind = TRP_EPILOGUE_SCALAR, .value = m->r->alpha};
    if (!beta) {
        x[C] = (trp_epilogue_node){
            .kind = TRP_EPILOGUE_BINARY, .binary = TRP_BINARY_MUL, .input = {ALPHA, SUMS}};
        return C + 1;
    }
    x[C].kind = TRP_EPILOGUE_C;
    x[BETA] = (trp_epilogue_node){.kind = TRP_EPILOGUE_SCALAR, .value = m->r->beta};
    x[SCALED] = (trp_epilogue_node){
        .kind = TRP_EPILOGUE_BINARY, .binary = TRP_BINARY_MUL, .input = {BETA, C}};
    x[ROOT] = (trp_epilogue_node){.kind = TRP_EPILOGUE_FMA, .input = {ALPHA, SUMS, SCALED}};
    return ROOT + 1;
}

static trp_status check_scalars(making *m, bool integers)
{
    const trp_cutlass_gemm_request *r = m->r;
    const struct {
        const char *name;
        trp_scalar scalar;
    } both[] = {{"alpha", r->alpha}, {"beta", r->beta}};
    for (size_t i = 0; i < COUNT_OF(both); i++) {
        const trp_scalar *s = &both[i].scalar;
        if (r->epilogue_count > 0 && (s->given || s->re != 0 || s->im != 0))
            return FAIL(m, TRP_E_ARGUMENT, "%s: expected none beside an epilogue tree, got %g",
                        both[i].name, s->re);
        trp_status status = trp__check_scalar(m->pack, both[i].name, *s,
                                              integers             ? TRP_I32
                                              : m->sums == TRP_F64 ? TRP_F64
                                                                   : TRP_F32);
        if (status != TRP_OK)
            return status;
    }
    return TRP_OK;
}

static trp_status set_tree(making *m, bool integers)
{
    const trp_cutlass_gemm_request *r = m->r;
    const trp__tree_types types = {.accumulator = m->sums,
                                   .c = m->c,
                                   .d = (trp_dtype)m->g.type[TRP__GEMM_D],
                                   .order = r->d.order,
                                   .transpose = m->pack->backend == TRP_BACKEND_CUDA &&
                                                r->d.order == TRP_COL_MAJOR};
    bool beta = r->beta.given && r->beta.re != 0;
    uint32_t count = r->epilogue_count;
    if ((count == 0) != (r->epilogue == NULL))
        return FAIL(m, TRP_E_ARGUMENT, "epilogue: expected %s with epilogue_count %u, got %s",
                    count ? "nodes" : "NULL", count, count ? "NULL" : "a pointer");
    trp_status status = check_scalars(m, integers);
    if (status != TRP_OK)
        return status;
    if (count == 0 && beta && m->c == TRP_DTYPE_NONE)
        return FAIL(m, TRP_E_ARGUMENT, "c.buffer: expected one with a beta other than 0, got none");
    if (integers) {
        m->g.alpha = r->alpha.given ? (int32_t)r->alpha.re : 1;
        m->g.beta = r->beta.given ? (int32_t)r->beta.re : 0;
        m->g.type[TRP__GEMM_C] = m->g.beta != 0 ? TRP_I32 : TRP_DTYPE_NONE;
        return TRP_OK;
    }
    m->nodes = count ? r->epilogue : m->plain;
    if (count == 0)
        count = plain_nodes(m, beta);
    status = trp__tree_build(m->nodes, count, &types, &m->tree, m->pack->error);
    m->g.type[TRP__GEMM_C] = m->tree.c;
    return status;
}

/* Places. */

/* Matrix `which`, rows x columns as the request has it. */
static trp_status set_matrix(making *m, int which, const char *name, const trp_matmul_matrix *from,
                             int64_t rows, int64_t columns, uint32_t mode)
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
    trp_status status = trp__operand_check_ld(m->pack, x, from->order);
    if (status == TRP_OK)
        status = trp__operand_measure(m->pack, x, m->g.batch);
    if (status == TRP_OK && (mode & TRP__WRITE))
        status = trp__operand_check_stride(m->pack, x, m->g.batch);
    if (status == TRP_OK && mode == TRP__WRITE && trp__operand_dense(x, m->g.batch))
        x->mode |= TRP__COVER;
    m->g.ld[which] = x->ld;
    m->g.stride[which] = x->stride;
    m->g.order[which] = (uint8_t)from->order;
    return status;
}

static bool same_place(const making *m)
{
    const trp_matmul_matrix *c = &m->r->c, *d = &m->r->d;
    int64_t smallest = d->order == TRP_ROW_MAJOR ? m->g.n : m->g.m;
    return c->buffer.id == d->buffer.id && c->offset == d->offset &&
           (c->ld ? c->ld : smallest) == (d->ld ? d->ld : smallest) &&
           (m->g.batch <= 1 || c->stride == d->stride) &&
           m->g.type[TRP__GEMM_C] == m->g.type[TRP__GEMM_D];
}

static trp_status set_matrices(making *m)
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
    for (int i = TRP__GEMM_A; i <= TRP__GEMM_C && status == TRP_OK; i++) {
        if (m->matrix[i].mode)
            status = trp__operand_check_apart(m->pack, &m->matrix[TRP__GEMM_D], &m->matrix[i],
                                              m->g.batch);
    }
    return status;
}

static trp_status check_count(making *m)
{
    uint32_t count = 0;
    for (int i = 0; i < TRP__GEMM_MATRICES; i++)
        count += m->matrix[i].mode != 0;
    for (uint32_t s = TRP__TREE_SLOT_FIRST; s < m->tree.slots; s++)
        count += m->operands.operand[s].mode != 0;
    return count <= TRP_CUTLASS_BUFFERS_MAX
               ? TRP_OK
               : FAIL(m, TRP_E_UNSUPPORTED,
                      "epilogue: expected at most %d operands in memory, matrices included, got %u",
                      TRP_CUTLASS_BUFFERS_MAX, count);
}

static trp_status add_access(making *m, const trp__operand *x, uint32_t *access)
{
    *access = TRP__GEMM_NO_ACCESS;
    if (!x->mode)
        return TRP_OK;
    *access = m->pack->record->access_count;
    return trp__operand_access(m->pack, x);
}

static trp_status add_accesses(making *m, trp__gemm_slot *slot)
{
    trp_status status = TRP_OK;
    uint32_t access = 0;
    for (int i = 0; i < TRP__GEMM_MATRICES && status == TRP_OK; i++) {
        status = add_access(m, &m->matrix[i], &access);
        m->g.access[i] = (uint8_t)access;
    }
    if (m->in_place)
        m->g.access[TRP__GEMM_C] = m->g.access[TRP__GEMM_D];
    for (uint32_t s = TRP__TREE_SLOT_FIRST; s < m->tree.slots && status == TRP_OK; s++, slot++) {
        const trp__tree_place *place = &m->operands.place[s];
        *slot = (trp__gemm_slot){.stride = place->stride};
        status = add_access(m, &m->operands.operand[s], &slot->access);
        if (slot->access == TRP__GEMM_NO_ACCESS)
            slot->value = place->value;
        else
            slot->ld = place->ld;
    }
    return status;
}

/* Puts slots and tree behind the head, or into a piece of staging memory. */
static trp_status set_rest(making *m)
{
    trp__gemm_slot slot[TRP__TREE_SLOTS_MAX];
    uint8_t bytes[TRP__TREE_BYTES_MAX];
    size_t length = m->tree.count ? trp__tree_encode(&m->tree, bytes) : 0;
    void *room = m->g.rest;
    m->g.tree_bytes = (uint16_t)length;
    m->g.slots = m->tree.count ? (uint8_t)(m->tree.slots - TRP__TREE_SLOT_FIRST) : 0;
    trp_status status = TRP_OK;
    if (trp__gemm_rest_bytes(&m->g) > sizeof m->g.rest)
        status = m->pack->input(m->pack, trp__gemm_rest_bytes(&m->g), m->r->header.wait_ns, &room);
    if (status == TRP_OK)
        status = add_accesses(m, slot);
    if (status != TRP_OK)
        return status;
    memcpy(room, slot, m->g.slots * sizeof *slot);
    memcpy((char *)room + m->g.slots * sizeof *slot, bytes, length);
    return TRP_OK;
}

static trp_status set_places(making *m)
{
    trp_status status = set_matrices(m);
    if (status == TRP_OK && m->tree.count)
        status = trp__tree_place_operands(m->pack, m->nodes, &m->tree, m->g.m, m->g.n, m->g.batch,
                                          m->matrix, TRP__GEMM_MATRICES, &m->operands);
    if (status == TRP_OK)
        status = check_count(m);
    if (status != TRP_OK || m->pack->backend == TRP_BACKEND_HOST)
        return status == TRP_OK ? set_rest(m) : status;
    const trp__cutlass_product product = {.g = &m->g,
                                          .tree = &m->tree,
                                          .matrix = m->matrix,
                                          .operands = &m->operands,
                                          .in_place = m->in_place,
                                          .request = m->r};
    return trp__cutlass_pack_product(m->pack, &product);
}

/* The host has no kernels to choose from. */
static trp_status check_choice(making *m)
{
    const trp_cutlass_gemm_request *r = m->r;
    if (r->chosen)
        *r->chosen = (trp_cutlass_chosen){.ready = true};
    if (m->pack->backend != TRP_BACKEND_HOST)
        return TRP_OK;
    if (r->chosen)
        trp__copy_string(r->chosen->kernel, sizeof r->chosen->kernel, "host");
    return r->kernel ? FAIL(m, TRP_E_UNSUPPORTED,
                            "kernel: expected NULL on the host, which has none, got \"%.60s\"",
                            r->kernel)
                     : TRP_OK;
}

trp_status trp__cutlass_pack_gemm(trp__pack *pack, const trp_request *request)
{
    making m = {.pack = pack, .r = (const trp_cutlass_gemm_request *)request};
    bool integers = false;
    trp_status status = check_enums(&m);
    if (status == TRP_OK)
        status = check_sizes(&m);
    if (status == TRP_OK)
        status = set_inputs(&m);
    if (status == TRP_OK)
        status = set_outputs(&m, &integers);
    if (status == TRP_OK)
        status = check_scales(&m);
    if (status == TRP_OK)
        status = check_choice(&m);
    if (status == TRP_OK)
        status = set_tree(&m, integers);
    if (status == TRP_OK && m.g.m > 0 && m.g.n > 0)
        status = set_places(&m);
    else if (status == TRP_OK && pack->backend == TRP_BACKEND_CUDA)
        memset(pack->record->payload, 0, sizeof(trp__cutlass_run));
    if (status == TRP_OK && pack->backend == TRP_BACKEND_HOST)
        memcpy(pack->record->payload, &m.g, sizeof m.g);
    return status;
}
