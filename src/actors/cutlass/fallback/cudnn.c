/* A convolution as a graph of the dnn actor: the convolution, and what alpha, beta and C make of
 * its sums, which are f32 until D is written. */
#include "actors/cutlass/fallback/cudnn.h"

#include "actors/dnn/dnn.h"
#include "libs/cudnn/cudnn.h"

#include <string.h>

enum { DIMS = TRP__CONV_DIMS };
enum { TENSORS = 10, NODES = 4 };

typedef enum role { ACTIVATION, FILTER, OUTPUT } role;

/* A graph in the making; tensor 0 is none. */
typedef struct graph {
    const trp__cutlass_convolving *x;
    uint32_t tensors, nodes;
    trp_dnn_tensor tensor[TENSORS];
    const char *name[TENSORS];
    trp_dnn_node node[NODES];
} graph;

static role role_of(const trp__cutlass_conv *g, int which)
{
    static const role roles[][TRP__GEMM_MATRICES] = {
        [TRP_CONV_FPROP] = {ACTIVATION, FILTER, OUTPUT, OUTPUT},
        [TRP_CONV_DGRAD] = {OUTPUT, FILTER, ACTIVATION, ACTIVATION},
        [TRP_CONV_WGRAD] = {OUTPUT, ACTIVATION, FILTER, FILTER},
    };
    return roles[g->operation][which];
}

/* Engines have two dimensions or three; what a request with fewer has not is of size 1. */
static int dims_of(const trp__cutlass_convolving *x)
{
    const trp__cutlass_conv *g = x->g;
    const bool flat = g->input[0] == 1 && g->filter[0] == 1 && g->output[0] == 1 &&
                      g->pad[0] == 0 && x->pad_after[0] == 0;
    return flat ? 2 : 3;
}

/* A tensor with its channels last and without gaps. */
static trp_dnn_tensor tensor_of(const trp__cutlass_convolving *x, int which)
{
    const trp__cutlass_conv *g = x->g;
    const trp_conv_tensor *const given[] = {&x->request->a, &x->request->b, &x->request->c,
                                            &x->request->d};
    const role what = role_of(g, which);
    const int32_t *sizes = what == ACTIVATION ? g->input : what == FILTER ? g->filter : g->output;
    const int dims = dims_of(x);
    trp_dnn_tensor t = {
        .type = (trp_dtype)g->type[which],
        .rank = (uint32_t)(2 + dims),
        .dim = {what == FILTER ? g->filters : g->images, what == ACTIVATION ? g->channels
                                                         : what == FILTER ? g->channels / g->groups
                                                                          : g->filters},
        .buffer = given[which]->buffer,
        .offset = given[which]->offset};
    for (int i = 0; i < dims; i++)
        t.dim[2 + i] = sizes[DIMS - dims + i];
    trp_dnn_channels_last(&t);
    return t;
}

/* Whether A or B lies like that; a dimension of 1 has any stride. */
static bool has_no_gaps(const trp__cutlass_convolving *x, int which)
{
    const int64_t *stride = which == TRP__GEMM_A ? x->g->a_stride : x->g->b_stride;
    const trp_dnn_tensor t = tensor_of(x, which);
    const int before = DIMS - dims_of(x);
    for (uint32_t i = 0; i < t.rank; i++) {
        const uint32_t at = i > 1 ? i - 1 + (uint32_t)before : 0;
        if (i != 1 && t.dim[i] > 1 && t.stride[i] != stride[at])
            return false;
    }
    return true;
}

static uint32_t add(graph *t, const char *name, trp_dnn_tensor tensor)
{
    t->name[++t->tensors] = name;
    t->tensor[t->tensors] = tensor;
    return t->tensors;
}

static uint32_t add_number(graph *t, const char *name, double value)
{
    return add(t, name, (trp_dnn_tensor){.type = TRP_F32, .value = trp_real(value)});
}

/* An intermediate result, laid out like D. */
static uint32_t add_between(graph *t)
{
    trp_dnn_tensor tensor = tensor_of(t->x, TRP__GEMM_D);
    tensor.type = TRP_F32;
    tensor.buffer = (trp_buffer){0};
    tensor.offset = 0;
    return add(t, "sums", tensor);
}

/* The convolution or gradient, from A and B to `to`. */
static void add_convolution(graph *t, uint32_t to)
{
    const trp__cutlass_conv *g = t->x->g;
    const int dims = dims_of(t->x), before = DIMS - dims;
    const uint32_t a = add(t, "a", tensor_of(t->x, TRP__GEMM_A));
    const uint32_t b = add(t, "b", tensor_of(t->x, TRP__GEMM_B));
    trp_dnn_node *n = &t->node[t->nodes++];
    *n = g->operation == TRP_CONV_FPROP
             ? (trp_dnn_node){.kind = TRP_DNN_CONV_FORWARD, .x = a, .w = b, .y = to}
         : g->operation == TRP_CONV_DGRAD
             ? (trp_dnn_node){.kind = TRP_DNN_CONV_BACKWARD_DATA, .dy = a, .w = b, .dx = to}
             : (trp_dnn_node){.kind = TRP_DNN_CONV_BACKWARD_FILTER, .dy = a, .x = b, .dw = to};
    n->flip = g->flip;
    for (int i = 0; i < dims; i++) {
        n->pre_pad[i] = g->pad[before + i];
        n->post_pad[i] = t->x->pad_after[before + i];
        n->stride[i] = g->stride[before + i];
        n->dilation[i] = g->dilation[before + i];
    }
}

static void add_function(graph *t, trp_dnn_pointwise function, uint32_t x, uint32_t b, uint32_t y)
{
    t->node[t->nodes++] =
        (trp_dnn_node){.kind = TRP_DNN_POINTWISE, .pointwise = function, .x = x, .b = b, .y = y};
}

static double alpha_of(const trp__cutlass_convolving *x)
{
    return x->request->alpha.given ? x->request->alpha.re : 1;
}

static bool reads_c_of(const trp__cutlass_convolving *x)
{
    return x->g->type[TRP__GEMM_C] != TRP_DTYPE_NONE;
}

/* alpha * sums + beta * C, without what would change nothing. */
static void make_graph(const trp__cutlass_convolving *x, graph *t)
{
    const double alpha = alpha_of(x), beta = x->request->beta.re;
    const bool reads_c = reads_c_of(x);
    memset(t, 0, sizeof *t);
    t->x = x;
    const uint32_t d = add(t, "d", tensor_of(x, TRP__GEMM_D));
    uint32_t sums = alpha != 1 || reads_c ? add_between(t) : d, c = 0;
    add_convolution(t, sums);
    if (alpha != 1) {
        const uint32_t scaled = reads_c ? add_between(t) : d;
        add_function(t, TRP_DNN_MUL, sums, add_number(t, "alpha", alpha), scaled);
        sums = scaled;
    }
    if (reads_c)
        c = add(t, "c", tensor_of(x, TRP__GEMM_C));
    if (reads_c && beta != 1) {
        const uint32_t scaled = add_between(t);
        add_function(t, TRP_DNN_MUL, c, add_number(t, "beta", beta), scaled);
        c = scaled;
    }
    if (reads_c)
        add_function(t, TRP_DNN_ADD, sums, c, d);
}

static trp_dnn_graph_request request_of(const graph *t)
{
    const trp_cutlass_conv_request *r = t->x->request;
    return (trp_dnn_graph_request){.header = r->header,
                                   .tensors = t->tensor,
                                   .tensor_count = t->tensors + 1,
                                   .nodes = t->node,
                                   .node_count = t->nodes,
                                   .options = {.tf32 = r->compute == TRP_COMPUTE_TF32},
                                   .names = t->name};
}

/* Types that are summed up in f32 by any engine. */
static bool has_types(const trp__cutlass_conv *g)
{
    for (int i = 0; i < TRP__GEMM_MATRICES; i++) {
        const uint8_t type = g->type[i];
        const bool none = i == TRP__GEMM_C && type == TRP_DTYPE_NONE;
        if (!none && type != TRP_F32 && type != TRP_F16 && type != TRP_BF16)
            return false;
    }
    return true;
}

/* Engines write sums in the type of what they read (planned with 9.19 for an H200); from 16 bits to
 * f32 they do for the convolution itself, without groups, of channels in eights. */
static bool has_engine(const trp__cutlass_convolving *x)
{
    const trp__cutlass_conv *g = x->g;
    const uint8_t a = g->type[TRP__GEMM_A];
    const uint8_t sums = alpha_of(x) != 1 || reads_c_of(x) ? TRP_F32 : g->type[TRP__GEMM_D];
    return sums == a || (sums == TRP_F32 && g->operation == TRP_CONV_FPROP && g->groups == 1 &&
                         g->channels % 8 == 0 && g->filters % 8 == 0);
}

static bool takes(const void *problem)
{
    const trp__cutlass_convolving *x = problem;
    const trp__cutlass_conv *g = x->g;
    const int64_t columns = trp__conv_columns(g);
    graph t;
    if (x->request->epilogue_count > 0 || x->in_place || g->images == 0 || !has_types(g) ||
        g->d_ld != columns || (reads_c_of(x) && g->c_ld != columns) || !has_engine(x) ||
        !has_no_gaps(x, TRP__GEMM_A) || !has_no_gaps(x, TRP__GEMM_B))
        return false;
    make_graph(x, &t);
    const trp_dnn_graph_request r = request_of(&t);
    return trp__dnn_is_asked(&r);
}

static atomic_bool found;

const trp__run_library trp__by_cudnn = {
    .name = "cudnn", .takes = takes, .find = trp__cudnn_find, .found = &found};

trp_status trp__by_cudnn_encode(trp__encoder *encoder, const trp__cutlass_convolving *x)
{
    trp__by_cudnn_run run = {.run = {.args_bytes = TRP__RUN_BY_CUDNN}};
    graph t;
    make_graph(x, &t);
    const trp_dnn_graph_request r = request_of(&t);
    trp_status status = trp__dnn_encode(encoder, &r.header);
    memcpy(&run.problem, encoder->record->payload, sizeof run.problem);
    memcpy(encoder->record->payload, &run, sizeof run);
    return status;
}
