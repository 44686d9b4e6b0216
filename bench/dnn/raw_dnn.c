#include "raw_dnn.h"

#include "bench/suite/filled.h"

#include "actors/dnn/plans/record.h"

#include <stdio.h>

enum { ENGINES = 8 };

bool raw_dnn_fail(raw_dnn *l, const trp_error *error)
{
    snprintf(l->error, 320, "%.300s", error->message);
    return false;
}

bool raw_dnn_check(raw_dnn *l, int result, const char *call)
{
    if (__builtin_expect(result == TRP__CU_SUCCESS, 1))
        return true;
    trp_error error = {0};
    trp__cuda_error(&error, result, call);
    return raw_dnn_fail(l, &error);
}

trp_status raw_dnn_open(raw_dnn *l, char *text)
{
    trp_error error = {0};
    *l = (raw_dnn){.error = text};
    trp_status status = trp__cudnn_load(&l->lib, &error);
    if (status == TRP_OK)
        status = trp__cuda_load(&l->cu, &error);
    if (status == TRP_OK &&
        !raw_dnn_check(l, l->cu->cuStreamCreate(&l->stream, TRP__CU_STREAM_NON_BLOCKING),
                       "cuStreamCreate"))
        return TRP_E_LIBRARY;
    if (status == TRP_OK)
        status = trp__cudnn_check(l->lib, l->lib->cudnnCreate(&l->handle), "cudnnCreate", &error);
    if (status == TRP_OK)
        status = trp__cudnn_check(l->lib, l->lib->cudnnSetStream(l->handle, l->stream),
                                  "cudnnSetStream", &error);
    l->planner = (trp__dnn_planner){.lib = l->lib, .handle = l->handle};
    if (status != TRP_OK)
        raw_dnn_fail(l, &error);
    return status;
}

void raw_dnn_close(raw_dnn *l)
{
    if (l->lib) {
        trp__cudnn_drop(l->lib, &l->planner.device);
        if (l->handle)
            l->lib->cudnnDestroy(l->handle);
    }
    if (l->stream)
        l->cu->cuStreamDestroy_v2(l->stream);
    *l = (raw_dnn){.error = l->error};
}

bool raw_dnn_fill(raw_dnn *l, void *to, const void *piece, uint64_t bytes)
{
    const trp__cu_address at = (trp__cu_address)(uintptr_t)to;
    uint64_t done = bytes < FILLED_PIECE ? bytes : FILLED_PIECE;
    bool good = raw_dnn_check(l, trp__cuda_upload(l->cu, at, piece, (size_t)done), "cuMemcpyHtoD");
    while (good && done < bytes) {
        uint64_t some = bytes - done < done ? bytes - done : done;
        good = raw_dnn_check(l, l->cu->cuMemcpyAsync(at + done, at, (size_t)some, l->stream),
                             "cuMemcpyAsync");
        done += some;
    }
    return good;
}

static uint64_t bytes_of(const trp__dnn_tensor *t)
{
    return (uint64_t)trp__dnn_elements(t) * trp_dtype_bits((trp_dtype)t->type) / 8;
}

static trp__dnn_tensor tensor_of(bool f32, int64_t n, int64_t c, int64_t size)
{
    trp__dnn_tensor t = {
        .type = f32 ? TRP_F32 : TRP_BF16,
        .rank = 4,
        .role = TRP__DNN_BUFFER,
        .alignment = 16,
        .dim = {n, c, size, size, 1, 1, 1, 1},
        .stride = {c * size * size, f32 ? size * size : 1, f32 ? size : c * size, f32 ? 1 : c}};
    return t;
}

static int written_by(dnn_pass pass)
{
    static const int written[DNN_PASSES] = {
        [DNN_FORWARD] = RAW_CONV_Y, [DNN_DATA] = RAW_CONV_X, [DNN_FILTER] = RAW_CONV_W};
    return written[pass];
}

static void describe(raw_conv *c)
{
    static const uint8_t kinds[DNN_PASSES] = {[DNN_FORWARD] = TRP_DNN_CONV_FORWARD,
                                              [DNN_DATA] = TRP_DNN_CONV_BACKWARD_DATA,
                                              [DNN_FILTER] = TRP_DNN_CONV_BACKWARD_FILTER};
    const dnn_shape *x = &c->what;
    const int32_t pad = (int32_t)x->filter / 2, stride = (int32_t)x->stride;
    c->head =
        (trp__dnn_head){.tensors = RAW_CONV_TENSORS, .nodes = 1, .workspace = UINT64_C(256) << 20};
    c->tensor[RAW_CONV_X] = tensor_of(c->f32, x->images, x->channels, x->input);
    c->tensor[RAW_CONV_W] = tensor_of(c->f32, x->filters, x->channels / x->groups, x->filter);
    c->tensor[RAW_CONV_Y] = tensor_of(c->f32, x->images, x->filters, dnn_output(x));
    c->tensor[written_by(c->pass)].written = true;
    c->node = (trp__dnn_node){.kind = kinds[c->pass],
                              .compute = TRP_F32,
                              .spatial = 2,
                              .pre_pad = {pad, pad},
                              .post_pad = {pad, pad},
                              .stride = {stride, stride},
                              .dilation = {1, 1}};
    for (int i = 0; i < TRP__DNN_PORTS; i++)
        c->node.port[i] = TRP__DNN_NO_PORT;
    c->node.port[TRP__DNN_CONV_X] = RAW_CONV_X;
    c->node.port[TRP__DNN_CONV_W] = RAW_CONV_W;
    c->node.port[TRP__DNN_CONV_Y] = RAW_CONV_Y;
}

static bool take_memory(raw_dnn *l, raw_conv *c, uint64_t workspace)
{
    uint64_t place[RAW_CONV_TENSORS + 1] = {0};
    for (int i = 0; i < RAW_CONV_TENSORS; i++)
        place[i + 1] = place[i] + (bytes_of(&c->tensor[i]) + 255) / 256 * 256;
    uint64_t all = place[RAW_CONV_TENSORS] + workspace;
    if (!raw_dnn_check(l, l->cu->cuMemAlloc_v2(&c->memory, (size_t)all), "cuMemAlloc") ||
        !raw_dnn_check(l, l->cu->cuMemsetD8Async(c->memory, 0, (size_t)all, l->stream),
                       "cuMemsetD8Async") ||
        !raw_dnn_check(l, l->cu->cuStreamSynchronize(l->stream), "cuStreamSynchronize"))
        return false;
    c->workspace = (void *)(uintptr_t)(c->memory + place[RAW_CONV_TENSORS]);
    bool good = true;
    for (int i = 0; i < RAW_CONV_TENSORS; i++) {
        c->at[i] = (void *)(uintptr_t)(c->memory + place[i]);
        if (good && c->piece && i != written_by(c->pass))
            good = raw_dnn_fill(l, c->at[i], c->piece, bytes_of(&c->tensor[i]));
    }
    return good;
}

typedef struct conv_side {
    raw_dnn *l;
    raw_conv *c;
} conv_side;

static bool run_conv(void *context, uint64_t count)
{
    const conv_side *x = context;
    return raw_conv_run(x->l, x->c, count);
}

/* Selects the fastest engine. The plan's current engine is one of the candidates and is created
 * again. */
static void take_fastest(raw_dnn *l, raw_conv *c, trp__dnn_engine engine[], uint32_t count)
{
    trp__dnn_step *step = &c->plan->step[0];
    const trp__dnn_engine first = step->engine;
    trp__dnn_engine *best = NULL;
    conv_side side = {l, c};
    double least = -1;
    for (uint32_t i = 0; i < count; i++) {
        step->engine = engine[i];
        double ns = stats_least((stats_side){run_conv, &side});
        if (ns >= 0 && (least < 0 || ns < least)) {
            least = ns;
            best = &engine[i];
        }
    }
    step->engine = first;
    if (best) {
        step->engine = *best;
        *best = first;
        l->error[0] = '\0';
    }
}

/* Allocates the largest workspace that any of the engines needs. */
static bool begin_best(raw_dnn *l, raw_conv *c)
{
    trp__dnn_step *step = &c->plan->step[0];
    const trp__dnn_part part = {&c->plan->lowered.graph, step->first, step->count};
    trp__dnn_engine engine[ENGINES];
    uint64_t workspace = 0;
    uint32_t count = 0;
    trp_error error = {0};
    if (trp__dnn_engines(&l->planner, &part, ENGINES, engine, &count, &error) != TRP_OK)
        return raw_dnn_fail(l, &error);
    for (uint32_t i = 0; i < count; i++)
        workspace = engine[i].workspace > workspace ? engine[i].workspace : workspace;
    bool good = take_memory(l, c, workspace);
    if (good)
        take_fastest(l, c, engine, count);
    for (uint32_t i = 0; i < count; i++)
        trp__dnn_engine_drop(l->lib, &engine[i]);
    return good;
}

bool raw_conv_plan(raw_dnn *l, raw_conv *c)
{
    static const double value[RAW_CONV_TENSORS];
    static const uint8_t access[RAW_CONV_TENSORS];
    trp_error error = {0};
    describe(c);
    const trp__dnn_graph graph = {&c->head, c->tensor, &c->node, value, access};
    trp_status status = c->record ? trp__dnn_record_read(c->record, c->record_bytes, &l->planner,
                                                         &graph, &c->plan, &error)
                                  : trp__dnn_plan_make(&l->planner, &graph, &c->plan, &error);
    if (status != TRP_OK)
        return raw_dnn_fail(l, &error);
    if (c->plan->steps != 1 || !c->plan->step[0].engine.plan) {
        snprintf(l->error, 320, "cuDNN has no engine for it");
        return false;
    }
    return true;
}

bool raw_conv_begin(raw_dnn *l, raw_conv *c)
{
    if (!c->plan && !raw_conv_plan(l, c))
        return false;
    return c->best ? begin_best(l, c) : take_memory(l, c, c->plan->workspace);
}

void raw_conv_end(raw_dnn *l, raw_conv *c)
{
    trp__dnn_plan_drop(c->plan);
    c->plan = NULL;
    if (c->memory)
        l->cu->cuMemFree_v2(c->memory);
    c->memory = 0;
}

bool raw_conv_send(raw_dnn *l, raw_conv *c)
{
    trp_error error;
    if (__builtin_expect(trp__dnn_step_launch(c->plan, &c->plan->step[0], l->handle, c->at,
                                              c->workspace, &error) == TRP_OK,
                         1))
        return true;
    return raw_dnn_fail(l, &error);
}

static bool synchronize(raw_dnn *l)
{
    return raw_dnn_check(l, l->cu->cuStreamSynchronize(l->stream), "cuStreamSynchronize");
}

bool raw_conv_run(raw_dnn *l, raw_conv *c, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        if (!raw_conv_send(l, c))
            return false;
    }
    return synchronize(l);
}

bool raw_conv_result(raw_dnn *l, const raw_conv *c, void *out, size_t bytes)
{
    const trp__cu_address from = (trp__cu_address)(uintptr_t)c->at[written_by(c->pass)];
    return synchronize(l) &&
           raw_dnn_check(l, l->cu->cuMemcpyDtoH_v2(out, from, bytes), "cuMemcpyDtoH");
}
