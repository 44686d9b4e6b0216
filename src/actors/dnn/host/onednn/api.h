/* The functions of oneDNN 2. Without its header TRP__ONEDNN is 0 and there are none. */
#ifndef TRP_ACTORS_DNN_HOST_ONEDNN_API_H
#define TRP_ACTORS_DNN_HOST_ONEDNN_API_H

#include "actors/dnn/host/onednn/onednn.h"

/* Version 3 has other names. */
#if __has_include(<oneapi/dnnl/dnnl_version.h>)
#include <oneapi/dnnl/dnnl_version.h>
#endif

#if defined(DNNL_VERSION_MAJOR) && DNNL_VERSION_MAJOR == 2
#define TRP__ONEDNN 1
#include <oneapi/dnnl/dnnl.h>

/* Functions, called by their exported names with the types of the header. */
#define TRP__ONEDNN_FUNCTIONS(X)                                                                   \
    X(dnnl_version)                                                                                \
    X(dnnl_engine_create)                                                                          \
    X(dnnl_engine_destroy)                                                                         \
    X(dnnl_stream_create)                                                                          \
    X(dnnl_stream_wait)                                                                            \
    X(dnnl_stream_destroy)                                                                         \
    X(dnnl_memory_desc_init_by_strides)                                                            \
    X(dnnl_memory_desc_init_by_tag)                                                                \
    X(dnnl_memory_desc_equal)                                                                      \
    X(dnnl_memory_create)                                                                          \
    X(dnnl_memory_destroy)                                                                         \
    X(dnnl_dilated_convolution_forward_desc_init)                                                  \
    X(dnnl_dilated_convolution_backward_data_desc_init)                                            \
    X(dnnl_dilated_convolution_backward_weights_desc_init)                                         \
    X(dnnl_pooling_forward_desc_init)                                                              \
    X(dnnl_pooling_backward_desc_init)                                                             \
    X(dnnl_batch_normalization_forward_desc_init)                                                  \
    X(dnnl_batch_normalization_backward_desc_init)                                                 \
    X(dnnl_layer_normalization_forward_desc_init)                                                  \
    X(dnnl_layer_normalization_backward_desc_init)                                                 \
    X(dnnl_softmax_forward_desc_init)                                                              \
    X(dnnl_primitive_desc_create)                                                                  \
    X(dnnl_primitive_desc_query)                                                                   \
    X(dnnl_primitive_desc_query_md)                                                                \
    X(dnnl_primitive_desc_destroy)                                                                 \
    X(dnnl_reorder_primitive_desc_create)                                                          \
    X(dnnl_primitive_create)                                                                       \
    X(dnnl_primitive_execute)                                                                      \
    X(dnnl_primitive_destroy)

struct trp__onednn {
#define TRP__ONEDNN_MEMBER(name) __typeof__(name) *name;
    TRP__ONEDNN_FUNCTIONS(TRP__ONEDNN_MEMBER)
#undef TRP__ONEDNN_MEMBER
};

struct trp__onednn_engine {
    const trp__onednn *f;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};

/* One call of a primitive: begun with its arguments, and ended by its execution. After the first
 * error nothing is done, and the end returns it. */
enum { TRP__ONEDNN_ARGUMENTS = 10 };

typedef struct trp__onednn_call {
    const trp__onednn_engine *dnn;
    bool good;
    int count;
    dnnl_exec_arg_t argument[TRP__ONEDNN_ARGUMENTS];
    bool lent[TRP__ONEDNN_ARGUMENTS]; /* the memory belongs to another call */
    dnnl_primitive_desc_t what;
} trp__onednn_call;

/* Describes a dense f32 array; refuses one without elements. */
bool trp__onednn_dense(const trp__onednn_engine *dnn, int rank, const int64_t *dims,
                       dnnl_memory_desc_t *out);

/* Creates the primitive. `operation` is a descriptor initialised with that status; `forward` is the
 * call used as a hint for a backward one, or NULL. Refuses reference implementations of oneDNN,
 * since own loops are no slower. */
void trp__onednn_describe(const trp__onednn_engine *dnn, dnnl_status_t status,
                          const void *operation, const trp__onednn_call *forward,
                          trp__onednn_call *out);
/* Passes memory at `at`; DNNL_MEMORY_ALLOCATE: allocated by the call. */
void trp__onednn_give(trp__onednn_call *c, int name, const dnnl_memory_desc_t *md, const void *at);
bool trp__onednn_execute(trp__onednn_call *c);
void trp__onednn_end(trp__onednn_call *c);

/* Tells whether all numbers are finite and their magnitudes at most `most`. */
bool trp__onednn_within(const float *x, int64_t count, float most);

/* Functions by kind of node; each returns false, with undefined outputs, for what it cannot do. */
bool trp__onednn_pool(const trp__onednn_engine *dnn, const trp__dnn_host_node *x);
bool trp__onednn_norm(const trp__onednn_engine *dnn, const trp__dnn_host_node *x);
bool trp__onednn_norm_backward(const trp__onednn_engine *dnn, const trp__dnn_host_node *x);

#else
#define TRP__ONEDNN 0
#endif

#endif
