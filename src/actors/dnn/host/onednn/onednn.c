#include "actors/dnn/host/onednn/api.h"
#include "base/os/dynlib.h"
#include "base/error.h"

#include <stdio.h>

#if TRP__ONEDNN
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef trp__onednn functions;

/* One library per process; never closed because it has threads. */
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static trp__dynlib library;
static functions loaded;

trp_status trp__onednn_load(const trp__onednn **out, trp_error *error)
{
    static const trp__dynlib_symbol symbols[] = {
#define SYMBOL(name) {#name, offsetof(functions, name), true},
        TRP__ONEDNN_FUNCTIONS(SYMBOL)
#undef SYMBOL
    };
    static const char *const sonames[] = {"libdnnl.so.2", NULL};
    static const trp__dynlib_spec spec = {.name = "oneDNN",
                                          .sonames = sonames,
                                          .env = "TROUPE_ONEDNN",
                                          .package_hint = "apt install libdnnl2"};
    char message[sizeof error->message];
    pthread_mutex_lock(&load_lock);
    bool good = library.handle ||
                trp__dynlib_open(&library, &spec, symbols, sizeof symbols / sizeof *symbols,
                                 &loaded, message, sizeof message);
    pthread_mutex_unlock(&load_lock);
    *out = &loaded;
    return good ? TRP_OK : trp__error_set(error, TRP_E_MISSING, "%s", message);
}

const char *trp__onednn_path(void)
{
    return library.path;
}

void trp__onednn_version(const trp__onednn *dnn, char *out, size_t size)
{
    const dnnl_version_t *v = dnn->dnnl_version();
    snprintf(out, size, "%d.%d.%d", v->major, v->minor, v->patch);
}

trp_status trp__onednn_open(trp__onednn_engine **out, trp_error *error)
{
    const functions *f = NULL;
    *out = NULL;
    trp_status status = trp__onednn_load(&f, error);
    if (status != TRP_OK)
        return status;
    trp__onednn_engine *dnn = calloc(1, sizeof *dnn);
    if (!dnn)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for oneDNN");
    dnn->f = f;
    if (f->dnnl_engine_create(&dnn->engine, dnnl_cpu, 0) != dnnl_success ||
        f->dnnl_stream_create(&dnn->stream, dnn->engine, dnnl_stream_default_flags) !=
            dnnl_success) {
        trp__onednn_close(dnn);
        return trp__error_set(error, TRP_E_LIBRARY, "oneDNN has no engine for this processor");
    }
    *out = dnn;
    return TRP_OK;
}

void trp__onednn_close(trp__onednn_engine *dnn)
{
    if (!dnn)
        return;
    if (dnn->stream)
        dnn->f->dnnl_stream_destroy(dnn->stream);
    if (dnn->engine)
        dnn->f->dnnl_engine_destroy(dnn->engine);
    free(dnn);
}

/* A convolution. Its three tensors have the numbers of trp__dnn_node's ports. */

enum { OPERANDS = 3 };

typedef struct conv {
    const trp__onednn_engine *dnn;
    const trp__dnn_host_node *x;
    int written; /* index of the output */
    dnnl_memory_desc_t dense[OPERANDS], any[OPERANDS];
    dnnl_primitive_desc_t description;
    dnnl_memory_t at[OPERANDS];    /* in the request's layout */
    dnnl_memory_t there[OPERANDS]; /* in oneDNN's layout; the same if it accepts the request's */
} conv;

/* Sets the dimensions; those of filters begin with the groups. */
static int dims_of(const conv *c, int which, dnnl_dims_t dims)
{
    const trp__dnn_tensor *t = c->x->tensor[which];
    const int more = which == TRP__DNN_CONV_W;
    int64_t groups = c->x->tensor[TRP__DNN_CONV_X]->dim[1] / c->x->tensor[TRP__DNN_CONV_W]->dim[1];
    for (int i = 0; i < t->rank; i++)
        dims[i + more] = t->dim[i];
    if (more) {
        dims[0] = groups;
        dims[1] = t->dim[0] / groups;
    }
    return t->rank + more;
}

static bool describe_tensors(conv *c)
{
    const functions *f = c->dnn->f;
    for (int i = 0; i < OPERANDS; i++) {
        dnnl_dims_t dims, strides;
        int rank = dims_of(c, i, dims);
        int64_t next = 1;
        for (int d = rank - 1; d >= 0; d--) {
            strides[d] = next;
            next *= dims[d];
        }
        if (next == 0 ||
            f->dnnl_memory_desc_init_by_strides(&c->dense[i], rank, dims, dnnl_f32, strides) !=
                dnnl_success ||
            f->dnnl_memory_desc_init_by_tag(&c->any[i], rank, dims, dnnl_f32,
                                            dnnl_format_tag_any) != dnnl_success)
            return false;
    }
    return true;
}

static bool describe(conv *c)
{
    const functions *f = c->dnn->f;
    const trp__dnn_node *n = c->x->n;
    const dnnl_memory_desc_t *x = &c->any[TRP__DNN_CONV_X], *w = &c->any[TRP__DNN_CONV_W];
    const dnnl_memory_desc_t *y = &c->any[TRP__DNN_CONV_Y];
    dnnl_convolution_desc_t what;
    dnnl_dims_t stride, dilate, left, right;
    dnnl_status_t status;
    dnnl_primitive_desc_t forward = NULL;
    for (int i = 0; i < n->spatial; i++) {
        stride[i] = n->stride[i];
        dilate[i] = n->dilation[i] - 1;
        left[i] = n->pre_pad[i];
        right[i] = n->post_pad[i];
    }
    status = f->dnnl_dilated_convolution_forward_desc_init(&what, dnnl_forward_training,
                                                           dnnl_convolution_direct, x, w, NULL, y,
                                                           stride, dilate, left, right);
    if (status == dnnl_success)
        status = f->dnnl_primitive_desc_create(&forward, &what, NULL, c->dnn->engine, NULL);
    if (n->kind == TRP_DNN_CONV_FORWARD) {
        c->description = forward;
        return status == dnnl_success;
    }
    if (status == dnnl_success && n->kind == TRP_DNN_CONV_BACKWARD_DATA)
        status = f->dnnl_dilated_convolution_backward_data_desc_init(
            &what, dnnl_convolution_direct, x, w, y, stride, dilate, left, right);
    else if (status == dnnl_success)
        status = f->dnnl_dilated_convolution_backward_weights_desc_init(
            &what, dnnl_convolution_direct, x, w, NULL, y, stride, dilate, left, right);
    if (status == dnnl_success)
        status =
            f->dnnl_primitive_desc_create(&c->description, &what, NULL, c->dnn->engine, forward);
    if (forward)
        f->dnnl_primitive_desc_destroy(forward);
    return status == dnnl_success;
}

/* The names of the three tensors as arguments and in queries, for each pass. */
static const struct {
    int argument[OPERANDS];
    dnnl_query_t query[OPERANDS];
} names[] = {
    [TRP_DNN_CONV_FORWARD] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                              {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md}},
    [TRP_DNN_CONV_BACKWARD_DATA] = {{DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                                    {dnnl_query_diff_src_md, dnnl_query_weights_md,
                                     dnnl_query_diff_dst_md}},
    [TRP_DNN_CONV_BACKWARD_FILTER] = {{DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST},
                                      {dnnl_query_src_md, dnnl_query_diff_weights_md,
                                       dnnl_query_diff_dst_md}},
};

static bool reorder(const conv *c, dnnl_memory_t from, const dnnl_memory_desc_t *from_md,
                    dnnl_memory_t to, const dnnl_memory_desc_t *to_md)
{
    const functions *f = c->dnn->f;
    dnnl_primitive_desc_t description = NULL;
    dnnl_primitive_t primitive = NULL;
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    bool good = f->dnnl_reorder_primitive_desc_create(&description, from_md, c->dnn->engine, to_md,
                                                      c->dnn->engine, NULL) == dnnl_success &&
                f->dnnl_primitive_create(&primitive, description) == dnnl_success &&
                f->dnnl_primitive_execute(primitive, c->dnn->stream, 2, arguments) == dnnl_success;
    if (primitive)
        f->dnnl_primitive_destroy(primitive);
    if (description)
        f->dnnl_primitive_desc_destroy(description);
    return good;
}

static const dnnl_memory_desc_t *wanted(const conv *c, int which)
{
    return c->dnn->f->dnnl_primitive_desc_query_md(c->description,
                                                   names[c->x->n->kind].query[which], 0);
}

/* Creates memory for the three tensors and reorders the inputs. */
static bool place(conv *c)
{
    const functions *f = c->dnn->f;
    for (int i = 0; i < OPERANDS; i++) {
        const dnnl_memory_desc_t *md = wanted(c, i);
        if (!md || f->dnnl_memory_create(&c->at[i], &c->dense[i], c->dnn->engine, c->x->at[i]) !=
                       dnnl_success)
            return false;
        if (f->dnnl_memory_desc_equal(md, &c->dense[i])) {
            c->there[i] = c->at[i];
            continue;
        }
        if (f->dnnl_memory_create(&c->there[i], md, c->dnn->engine, DNNL_MEMORY_ALLOCATE) !=
            dnnl_success)
            return false;
        if (i != c->written && !reorder(c, c->at[i], &c->dense[i], c->there[i], md))
            return false;
    }
    return true;
}

static bool execute(conv *c)
{
    const functions *f = c->dnn->f;
    const int *name = names[c->x->n->kind].argument, w = c->written;
    dnnl_primitive_t primitive = NULL;
    const dnnl_exec_arg_t arguments[] = {
        {name[0], c->there[0]}, {name[1], c->there[1]}, {name[2], c->there[2]}};
    bool good =
        f->dnnl_primitive_create(&primitive, c->description) == dnnl_success &&
        f->dnnl_primitive_execute(primitive, c->dnn->stream, OPERANDS, arguments) == dnnl_success &&
        (c->there[w] == c->at[w] ||
         reorder(c, c->there[w], wanted(c, w), c->at[w], &c->dense[w])) &&
        f->dnnl_stream_wait(c->dnn->stream) == dnnl_success;
    if (primitive)
        f->dnnl_primitive_destroy(primitive);
    return good;
}

/* Multiplications below which its threads and reorders cost more than they save. */
#define WORTH 4e6

static double multiplications(const trp__dnn_host_node *x)
{
    const trp__dnn_tensor *w = x->tensor[TRP__DNN_CONV_W];
    int64_t each = trp__dnn_elements(w) / w->dim[0];
    return (double)trp__dnn_elements(x->tensor[TRP__DNN_CONV_Y]) * (double)each;
}

bool trp__onednn_conv(const trp__onednn_engine *dnn, const trp__dnn_host_node *x)
{
    static const int written[] = {[TRP_DNN_CONV_FORWARD] = TRP__DNN_CONV_Y,
                                  [TRP_DNN_CONV_BACKWARD_DATA] = TRP__DNN_CONV_X,
                                  [TRP_DNN_CONV_BACKWARD_FILTER] = TRP__DNN_CONV_W};
    conv c = {.dnn = dnn, .x = x, .written = written[x->n->kind]};
    const bool flipped = x->n->mode != 0; /* oneDNN only has cross-correlations */
    bool good = !flipped && multiplications(x) >= WORTH && describe_tensors(&c) && describe(&c) &&
                place(&c) && execute(&c);
    for (int i = 0; i < OPERANDS; i++) {
        if (c.there[i] && c.there[i] != c.at[i])
            dnn->f->dnnl_memory_destroy(c.there[i]);
        if (c.at[i])
            dnn->f->dnnl_memory_destroy(c.at[i]);
    }
    if (c.description)
        dnn->f->dnnl_primitive_desc_destroy(c.description);
    return good;
}

#else

static const char unsupported[] = "built without the header of oneDNN 2";

trp_status trp__onednn_load(const trp__onednn **out, trp_error *error)
{
    *out = NULL;
    return trp__error_set(error, TRP_E_UNSUPPORTED, "%s", unsupported);
}

const char *trp__onednn_path(void)
{
    return "";
}

void trp__onednn_version(const trp__onednn *dnn, char *out, size_t size)
{
    (void)dnn;
    snprintf(out, size, "none");
}

trp_status trp__onednn_open(trp__onednn_engine **out, trp_error *error)
{
    *out = NULL;
    return trp__error_set(error, TRP_E_UNSUPPORTED, "%s", unsupported);
}

void trp__onednn_close(trp__onednn_engine *dnn)
{
    (void)dnn;
}

bool trp__onednn_conv(const trp__onednn_engine *dnn, const trp__dnn_host_node *x)
{
    (void)dnn;
    (void)x;
    return false;
}

bool trp__onednn_node(const trp__onednn_engine *dnn, const trp__dnn_host_node *x)
{
    (void)dnn;
    (void)x;
    return false;
}

int trp__onednn_softmax_axis(const trp__dnn_graph *g, int first)
{
    (void)g;
    (void)first;
    return -1;
}

bool trp__onednn_softmax(const trp__onednn_engine *dnn, const trp__dnn_host_node *x, int axis)
{
    (void)dnn;
    (void)x;
    (void)axis;
    return false;
}

#endif
