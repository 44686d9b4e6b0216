#include "actors/cutlass/request/request.h"

#include "base/error.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

#define FAIL(e, status, ...) trp__error_set((e)->encoder->error, status, __VA_ARGS__)

trp_status trp__check_choices(trp__encoder *encoder, const trp__choice *choices, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (choices[i].value > choices[i].most)
            return trp__operand_wrong(encoder, choices[i].name, choices[i].expected,
                                      (int32_t)choices[i].value);
    }
    return TRP_OK;
}

trp_status trp__check_no_scale(trp__encoder *encoder, const char *name,
                               const trp_matmul_matrix *matrix)
{
    if (!matrix->scale.buffer.id && matrix->scale.mode == TRP_SCALE_TENSOR)
        return TRP_OK;
    return trp__error_set(encoder->error, TRP_E_UNSUPPORTED,
                          "%s.scale: expected none; nodes of an epilogue tree multiply by factors "
                          "of tensors, rows and columns",
                          name);
}

trp_status trp__check_kernel(trp__encoder *encoder, const char *kernel, trp_cutlass_chosen *chosen,
                             trp_cutlass_ran *ran)
{
    if (ran)
        *ran = (trp_cutlass_ran){.kernel = "none"};

    if (chosen)
        *chosen = (trp_cutlass_chosen){.ready = true};
    if (encoder->backend != TRP_BACKEND_HOST)
        return TRP_OK;
    if (chosen)
        trp__copy_string(chosen->kernel, sizeof chosen->kernel, "host");
    if (ran)
        trp__copy_string(ran->kernel, sizeof ran->kernel, "host");
    return kernel
               ? trp__error_set(encoder->error, TRP_E_UNSUPPORTED,
                                "kernel: expected NULL on the host, which has none, got \"%.60s\"",
                                kernel)
               : TRP_OK;
}

static bool is_fp8(trp_dtype type)
{
    return type == TRP_F8E4M3 || type == TRP_F8E5M2;
}

bool trp__is_mixed(trp_dtype a, trp_dtype b)
{
    return (a == TRP_F16 || a == TRP_BF16) && (b == TRP_I8 || b == TRP_I4 || is_fp8(b));
}

static trp_status set_inputs(trp__epilogue_encoding *e)
{
    trp_dtype a = e->a, b = e->b ? e->b : a;
    if (a == TRP_F64)
        e->sums = TRP_F64;
    else if (a == TRP_F32 || a == TRP_F16 || a == TRP_BF16 || is_fp8(a) ||
             (a == TRP_F4E2M1 && e->any_type))
        e->sums = TRP_F32;
    else if (a == TRP_I8 && e->any_type)
        e->sums = TRP_I32;
    else
        return FAIL(e, TRP_E_UNSUPPORTED, "a.type: expected f64, f32, f16, bf16, %s, got %s (%d)",
                    e->any_type ? "f8e4m3, f8e5m2, f4e2m1 or i8" : "f8e4m3 or f8e5m2",
                    trp_dtype_name(a), (int)a);
    bool narrow = e->any_type && trp__is_mixed(a, b);
    if (a != b && !(is_fp8(a) && is_fp8(b)) && !narrow)
        return FAIL(e, TRP_E_UNSUPPORTED, "b.type: expected %s%s where A is %s, got %s (%d)",
                    is_fp8(a) ? "f8e4m3 or f8e5m2" : trp_dtype_name(a),
                    e->any_type && (a == TRP_F16 || a == TRP_BF16) ? ", i8, i4, f8e4m3 or f8e5m2"
                                                                   : "",
                    trp_dtype_name(a), trp_dtype_name(b), (int)b);
    if (e->compute == TRP_COMPUTE_TF32 && a != TRP_F32)
        return FAIL(e, TRP_E_ARGUMENT,
                    "compute: TRP_COMPUTE_TF32 goes with inputs of f32 only, got %s",
                    trp_dtype_name(a));
    e->type[TRP__GEMM_A] = (uint8_t)a;
    e->type[TRP__GEMM_B] = (uint8_t)b;
    return TRP_OK;
}

/* Checks that D and C may have a type; sums of i8 also allow i32. */
static trp_status check_output(trp__epilogue_encoding *e, const char *name, trp_dtype type)
{
    uint8_t compute = e->sums == TRP_F64 ? TRP_F64 : TRP_F32;
    if (e->integers ? type == TRP_I32 : trp__tree_matrix_type(compute, type))
        return TRP_OK;
    if (e->integers)
        return FAIL(e, TRP_E_UNSUPPORTED, "%s.type: expected i32, as D, got %s (%d)", name,
                    trp_dtype_name(type), (int)type);
    return FAIL(e, TRP_E_UNSUPPORTED, "%s.type: expected %s%s, got %s (%d)", name,
                compute == TRP_F64 ? "f64 or f32" : "f32, f16, bf16, f8e4m3, f8e5m2 or i8",
                e->count > 0 ? " with an epilogue tree" : "", trp_dtype_name(type), (int)type);
}

static trp_status set_outputs(trp__epilogue_encoding *e)
{
    trp_dtype a = e->a;
    e->d = e->d ? e->d : is_fp8(a) || a == TRP_F4E2M1 ? TRP_BF16 : a == TRP_I8 ? TRP_I32 : a;
    e->c = e->c ? e->c : e->d;
    e->integers = e->sums == TRP_I32 && e->d == TRP_I32 && e->count == 0;
    trp_status status = check_output(e, "d", e->d);
    if (status == TRP_OK && e->has_c)
        status = check_output(e, "c", e->c);
    e->type[TRP__GEMM_D] = (uint8_t)e->d;
    return status;
}

/* Builds alpha * sums + beta * C as a tree whose sum is rounded once. */
static uint32_t plain_nodes(trp__epilogue_encoding *e, bool beta)
{
    enum { NONE, SUMS, ALPHA, C, BETA, SCALED, ROOT };
    trp_epilogue_node *x = e->plain;
    x[SUMS].kind = TRP_EPILOGUE_ACCUMULATOR;
    x[ALPHA] = (trp_epilogue_node){.kind = TRP_EPILOGUE_SCALAR, .value = e->alpha};
    if (!beta) {
        x[C] = (trp_epilogue_node){
            .kind = TRP_EPILOGUE_BINARY, .binary = TRP_BINARY_MUL, .input = {ALPHA, SUMS}};
        return C + 1;
    }
    x[C].kind = TRP_EPILOGUE_C;
    x[BETA] = (trp_epilogue_node){.kind = TRP_EPILOGUE_SCALAR, .value = e->beta};
    x[SCALED] = (trp_epilogue_node){
        .kind = TRP_EPILOGUE_BINARY, .binary = TRP_BINARY_MUL, .input = {BETA, C}};
    x[ROOT] = (trp_epilogue_node){.kind = TRP_EPILOGUE_FMA, .input = {ALPHA, SUMS, SCALED}};
    return ROOT + 1;
}

static trp_status check_scalars(trp__epilogue_encoding *e)
{
    const struct {
        const char *name;
        trp_scalar scalar;
    } both[] = {{"alpha", e->alpha}, {"beta", e->beta}};
    for (size_t i = 0; i < COUNT_OF(both); i++) {
        const trp_scalar *s = &both[i].scalar;
        if (e->count > 0 && (s->given || s->re != 0 || s->im != 0))
            return FAIL(e, TRP_E_ARGUMENT, "%s: expected none beside an epilogue tree, got %g",
                        both[i].name, s->re);
        trp_status status = trp__check_scalar(e->encoder, both[i].name, *s,
                                              e->integers          ? TRP_I32
                                              : e->sums == TRP_F64 ? TRP_F64
                                                                   : TRP_F32);
        if (status != TRP_OK)
            return status;
    }
    return TRP_OK;
}

static trp_status set_tree(trp__epilogue_encoding *e)
{
    trp_dtype c = e->has_c ? e->c : TRP_DTYPE_NONE;
    const trp__tree_types types = {
        .accumulator = e->sums, .c = c, .d = e->d, .order = e->order, .transpose = e->transpose};
    bool beta = e->beta.given && e->beta.re != 0;
    uint32_t count = e->count;
    if ((count == 0) != (e->epilogue == NULL))
        return FAIL(e, TRP_E_ARGUMENT, "epilogue: expected %s with epilogue_count %u, got %s",
                    count ? "nodes" : "NULL", count, count ? "NULL" : "a pointer");
    trp_status status = check_scalars(e);
    if (status != TRP_OK)
        return status;
    if (count == 0 && beta && !e->has_c)
        return FAIL(e, TRP_E_ARGUMENT, "c.buffer: expected one with a beta other than 0, got none");
    if (count == 0 && e->has_c && !e->beta.given)
        return FAIL(e, TRP_E_ARGUMENT, "beta: expected one with C, such as trp_real(1), got none");
    if (e->integers) {
        e->type[TRP__GEMM_C] = beta ? TRP_I32 : TRP_DTYPE_NONE;
        return TRP_OK;
    }
    e->nodes = count ? e->epilogue : e->plain;
    if (count == 0)
        count = plain_nodes(e, beta);
    status = trp__tree_build(e->nodes, count, &types, &e->tree, e->encoder->error);
    e->type[TRP__GEMM_C] = e->tree.c;
    return status;
}

trp_status trp__epilogue_check(trp__epilogue_encoding *e)
{
    trp_status status = set_inputs(e);
    if (status == TRP_OK)
        status = set_outputs(e);
    return status == TRP_OK ? set_tree(e) : status;
}

trp_status trp__epilogue_check_count(const trp__epilogue_encoding *e, uint32_t matrices)
{
    uint32_t count = matrices;
    for (uint32_t s = TRP__TREE_SLOT_FIRST; s < e->tree.slots; s++)
        count += e->operands.operand[s].mode != 0;
    return count <= TRP_CUTLASS_BUFFERS_MAX
               ? TRP_OK
               : FAIL(e, TRP_E_UNSUPPORTED,
                      "epilogue: expected at most %d operands in memory, matrices included, got %u",
                      TRP_CUTLASS_BUFFERS_MAX, count);
}

trp_status trp__add_operand(trp__encoder *encoder, const trp__operand *x, uint32_t *access)
{
    *access = TRP__GEMM_NO_ACCESS;
    if (!x->mode)
        return TRP_OK;
    *access = encoder->record->access_count;
    return trp__operand_access(encoder, x);
}

trp_status trp__epilogue_reserve(trp__epilogue_encoding *e, void *rest, size_t rest_bytes,
                                 uint32_t extra, void **room)
{
    bool tree = e->tree.count > 0;
    e->tree_bytes = tree ? (uint32_t)trp__tree_encode(&e->tree, e->bytes) : 0;
    e->slots = tree ? (uint32_t)e->tree.slots - TRP__TREE_SLOT_FIRST : 0;
    uint32_t bytes = extra + trp__gemm_rest_bytes(e->slots, e->tree_bytes);
    *room = rest;
    return bytes > rest_bytes ? e->encoder->input(e->encoder, bytes, room) : TRP_OK;
}

trp_status trp__epilogue_put(trp__epilogue_encoding *e, void *room)
{
    trp__gemm_slot slot[TRP__TREE_SLOTS_MAX];
    trp_status status = TRP_OK;
    for (uint32_t i = 0; i < e->slots && status == TRP_OK; i++) {
        const trp__tree_place *place = &e->operands.place[TRP__TREE_SLOT_FIRST + i];
        const trp__operand *x = &e->operands.operand[TRP__TREE_SLOT_FIRST + i];
        slot[i] = (trp__gemm_slot){.stride = place->stride};
        status = trp__add_operand(e->encoder, x, &slot[i].access);
        if (slot[i].access == TRP__GEMM_NO_ACCESS)
            slot[i].value = place->value;
        else
            slot[i].ld = place->ld;
    }
    if (status != TRP_OK)
        return status;
    memcpy(room, slot, e->slots * sizeof *slot);
    memcpy((char *)room + e->slots * sizeof *slot, e->bytes, e->tree_bytes);
    return TRP_OK;
}
