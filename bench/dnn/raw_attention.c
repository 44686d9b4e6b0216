#include "raw_attention.h"

#include "bench/suite/filled.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ALIGNMENT = 256 };

static void describe(raw_attention *a)
{
    const attention_shape *x = &a->what;
    a->head = (trp__dnn_head){
        .tensors = RAW_ATTENTION_TENSORS, .nodes = 1, .workspace = UINT64_C(256) << 20};
    a->node = (trp__dnn_node){.kind = TRP_DNN_ATTENTION,
                              .mode = x->causal ? TRP_DNN_MASK_CAUSAL : TRP_DNN_MASK_NONE,
                              .compute = TRP_F32,
                              .spatial = 1,
                              .parameter = {1 / sqrt((double)x->depth)}};
    for (int i = 0; i < TRP__DNN_PORTS; i++)
        a->node.port[i] = i < RAW_ATTENTION_TENSORS ? (uint8_t)i : TRP__DNN_NO_PORT;
    for (int i = 0; i < RAW_ATTENTION_TENSORS; i++)
        a->tensor[i] = (trp__dnn_tensor){
            .type = TRP_BF16,
            .rank = 4,
            .role = TRP__DNN_BUFFER,
            .alignment = 16,
            .written = i == RAW_ATTENTION_Y,
            .dim = {x->batch, x->heads, x->rows, x->depth, 1, 1, 1, 1},
            .stride = {x->heads * x->rows * x->depth, x->rows * x->depth, x->depth, 1}};
}

static bool make_plan(raw_attention *a)
{
    static const double value[RAW_ATTENTION_TENSORS];
    static const uint8_t access[RAW_ATTENTION_TENSORS];
    raw_dnn *l = a->library;
    const trp__dnn_graph graph = {&a->head, a->tensor, &a->node, value, access};
    trp_error error = {0};
    describe(a);
    if (trp__dnn_plan_make(&l->planner, &graph, &a->plan, &error) != TRP_OK)
        return raw_dnn_fail(l, &error);
    if (a->plan->steps == 1 && a->plan->step[0].engine.plan && a->plan->between == 0)
        return true;
    snprintf(l->error, 320, "cuDNN has no engine for it");
    return false;
}

static bool take_memory(raw_attention *a, unsigned char *piece)
{
    const attention_shape *x = &a->what;
    const uint64_t bytes = (uint64_t)(x->batch * x->heads * x->rows * x->depth) * 2;
    const uint64_t apart = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    raw_dnn *l = a->library;
    bool good =
        raw_dnn_check(l,
                      l->cu->cuMemAlloc_v2(
                          &a->memory, (size_t)(apart * RAW_ATTENTION_TENSORS + a->plan->workspace)),
                      "cuMemAlloc");
    for (int i = 0; i < RAW_ATTENTION_TENSORS; i++)
        a->at[i] = (void *)(uintptr_t)(a->memory + (uint64_t)i * apart);
    a->workspace = (void *)(uintptr_t)(a->memory + RAW_ATTENTION_TENSORS * apart);
    for (int i = 0; i < RAW_ATTENTION_Y && good; i++) {
        filled_piece(TRP_BF16, piece, a->seed + (uint64_t)i);
        good = raw_dnn_fill(l, a->at[i], piece, bytes) &&
               raw_dnn_check(l, l->cu->cuStreamSynchronize(l->stream), "cuStreamSynchronize");
    }
    return good;
}

bool raw_attention_begin(raw_attention *a)
{
    unsigned char *piece = malloc(FILLED_PIECE);
    bool good = piece != NULL;
    if (!good)
        snprintf(a->library->error, 320, "no memory");
    good = good && make_plan(a) && take_memory(a, piece);
    free(piece);
    return good;
}

void raw_attention_end(raw_attention *a)
{
    trp__dnn_plan_drop(a->plan);
    a->plan = NULL;
    if (a->memory)
        a->library->cu->cuMemFree_v2(a->memory);
    a->memory = 0;
}

bool raw_attention_run(void *context, uint64_t count)
{
    raw_attention *a = context;
    raw_dnn *l = a->library;
    trp_error error = {0};
    for (uint64_t i = 0; i < count; i++) {
        if (trp__dnn_step_launch(a->plan, &a->plan->step[0], l->handle, a->at, a->workspace,
                                 &error) != TRP_OK)
            return raw_dnn_fail(l, &error);
    }
    return raw_dnn_check(l, l->cu->cuStreamSynchronize(l->stream), "cuStreamSynchronize");
}
