/* The sender's side of a product: checks a request and writes its record. */
#include "actors/cutlass/cutlass.h"
#include "actors/cutlass/request_pack.h"
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
    trp__epilogue_pack e;
    bool in_place;                           /* C is read where D is written */
    trp__operand matrix[TRP__GEMM_MATRICES]; /* mode 0: there is none */
} making;

#define FAIL(m, status, ...) trp__error_set((m)->pack->error, status, __VA_ARGS__)

/* Numbers. */

static trp_status check_enums(making *m)
{
    const trp_cutlass_gemm_request *r = m->r;
    const trp__choice choices[] = {
        {"a.order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->a.order, TRP_ROW_MAJOR},
        {"b.order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->b.order, TRP_ROW_MAJOR},
        {"c.order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->c.order, TRP_ROW_MAJOR},
        {"d.order", "TRP_COL_MAJOR or TRP_ROW_MAJOR", r->d.order, TRP_ROW_MAJOR},
        {"compute", "TRP_COMPUTE_DEFAULT, _TF32 or _PEDANTIC", r->compute, TRP_COMPUTE_PEDANTIC},
        {"first", "TRP_CUTLASS_FIRST_WAIT or _FALLBACK", r->first, TRP_CUTLASS_FIRST_FALLBACK},
    };
    return trp__check_choices(m->pack, choices, COUNT_OF(choices));
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

/* Types and epilogue. */

static trp_status check_scales(making *m)
{
    const trp_cutlass_gemm_request *r = m->r;
    trp_status status = trp__check_no_scale(m->pack, "a", &r->a);
    if (status == TRP_OK)
        status = trp__check_no_scale(m->pack, "b", &r->b);
    if (status == TRP_OK)
        status = trp__check_no_scale(m->pack, "c", &r->c);
    return status == TRP_OK ? trp__check_no_scale(m->pack, "d", &r->d) : status;
}

static trp_status set_epilogue(making *m)
{
    const trp_cutlass_gemm_request *r = m->r;
    m->e = (trp__epilogue_pack){.pack = m->pack,
                                .a = r->a.type,
                                .b = r->b.type,
                                .c = r->c.type,
                                .d = r->d.type,
                                .order = r->d.order,
                                .transpose = m->pack->backend == TRP_BACKEND_CUDA &&
                                             r->d.order == TRP_COL_MAJOR,
                                .compute = r->compute,
                                .has_c = r->c.buffer.id != 0,
                                .alpha = r->alpha,
                                .beta = r->beta,
                                .epilogue = r->epilogue,
                                .count = r->epilogue_count};
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

static trp_status add_matrices(making *m)
{
    trp_status status = TRP_OK;
    for (int i = 0; i < TRP__GEMM_MATRICES && status == TRP_OK; i++) {
        uint32_t access;
        status = trp__add_operand(m->pack, &m->matrix[i], &access);
        m->g.access[i] = (uint8_t)access;
    }
    if (m->in_place)
        m->g.access[TRP__GEMM_C] = m->g.access[TRP__GEMM_D];
    return status;
}

/* Adds all operands, and puts slots and tree behind the head. */
static trp_status put_all(making *m)
{
    void *room = NULL;
    trp_status status =
        trp__epilogue_reserve(&m->e, m->g.rest, sizeof m->g.rest, 0, m->r->header.wait_ns, &room);
    if (status == TRP_OK)
        status = add_matrices(m);
    m->g.slots = (uint8_t)m->e.slots;
    m->g.tree_bytes = (uint16_t)m->e.tree_bytes;
    return status == TRP_OK ? trp__epilogue_put(&m->e, room) : status;
}

static trp_status set_places(making *m)
{
    uint32_t matrices = 0;
    trp_status status = set_matrices(m);
    if (status == TRP_OK && m->e.tree.count)
        status =
            trp__tree_place_operands(m->pack, m->e.nodes, &m->e.tree, m->g.m, m->g.n, m->g.batch,
                                     m->matrix, TRP__GEMM_MATRICES, &m->e.operands);
    for (int i = 0; i < TRP__GEMM_MATRICES; i++)
        matrices += m->matrix[i].mode != 0;
    if (status == TRP_OK)
        status = trp__epilogue_check_count(&m->e, matrices);
    if (status != TRP_OK || m->pack->backend == TRP_BACKEND_HOST)
        return status == TRP_OK ? put_all(m) : status;
    const trp__cutlass_product product = {.g = &m->g,
                                          .tree = &m->e.tree,
                                          .matrix = m->matrix,
                                          .operands = &m->e.operands,
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
    return r->kernel
               ? FAIL(m, TRP_E_UNSUPPORTED,
                      "kernel: expected NULL on the host, which has none, got \"%.60s\"", r->kernel)
               : TRP_OK;
}

trp_status trp__cutlass_pack_gemm(trp__pack *pack, const trp_request *request)
{
    making m = {.pack = pack, .r = (const trp_cutlass_gemm_request *)request};
    trp_status status = check_enums(&m);
    if (status == TRP_OK)
        status = check_sizes(&m);
    if (status == TRP_OK)
        status = check_scales(&m);
    if (status == TRP_OK)
        status = check_choice(&m);
    if (status == TRP_OK)
        status = set_epilogue(&m);
    if (status == TRP_OK && m.g.m > 0 && m.g.n > 0)
        status = set_places(&m);
    else if (status == TRP_OK && pack->backend == TRP_BACKEND_CUDA)
        memset(pack->record->payload, 0, sizeof(trp__cutlass_run));
    if (status == TRP_OK && pack->backend == TRP_BACKEND_HOST)
        memcpy(pack->record->payload, &m.g, sizeof m.g);
    return status;
}
