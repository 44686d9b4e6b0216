/* Shared by the files of the fake cuDNN. */
#ifndef TESTS_SUPPORT_FAKE_CUDA_CUDNN_CUDNN_H
#define TESTS_SUPPORT_FAKE_CUDA_CUDNN_CUDNN_H

#include "support/fake_cuda/hooks.h"

#include "actors/dnn/lower/lower.h"
#include "libs/cudnn/cudnn_abi.h"
#include "libs/cudnn/cudnn_rnn_abi.h"

#include <stdatomic.h>

#define FAKE_DECLARE(result, name, parameters, required) FAKE_API result name parameters;
TRP__CUDNN_FUNCTIONS(FAKE_DECLARE)
#undef FAKE_DECLARE

/* Defined here, so that the library's numbers do not come from the code under test. Source: cuDNN
 * documentation, cudnnStatus_t. */
#define FAKE_CUDNN_STATUSES(X)                                                                     \
    X(SUCCESS, 0)                                                                                  \
    X(NOT_INITIALIZED, 1001)                                                                       \
    X(BAD_PARAM, 2000)                                                                             \
    X(BAD_PARAM_NULL_POINTER, 2002)                                                                \
    X(BAD_PARAM_MISALIGNED_POINTER, 2003)                                                          \
    X(BAD_PARAM_NOT_FINALIZED, 2004)                                                               \
    X(NOT_SUPPORTED, 3000)                                                                         \
    X(INTERNAL_ERROR_HOST_ALLOCATION_FAILED, 4003)                                                 \
    X(EXECUTION_FAILED, 5000)

enum fake_cudnn_status {
#define FAKE_CUDNN_STATUS(name, code) FAKE_CUDNN_##name = code,
    FAKE_CUDNN_STATUSES(FAKE_CUDNN_STATUS)
#undef FAKE_CUDNN_STATUS
};

enum { FAKE_CUDNN_VERSION = 91900, FAKE_CUDNN_ENGINES = 5, FAKE_CUDNN_KNOB = 2 };

struct trp__cudnn_opaque {
    int magic;
    trp__cu_stream stream;
};

/* An operation graph as the engines run it. Tensors are numbered in the order in which operations
 * name them. A tensor that no node writes, or that is not virtual, has an address or a value. */
typedef struct fake_cudnn_graph {
    uint32_t tensors, nodes;
    int64_t uid[TRP__DNN_LOWERED_TENSORS];
    trp__dnn_tensor tensor[TRP__DNN_LOWERED_TENSORS];
    trp__dnn_node node[TRP__DNN_LOWERED_NODES];
} fake_cudnn_graph;

typedef struct fake_attribute {
    int name, type;
    int64_t count;
    void *values;
} fake_attribute;

enum { FAKE_ATTRIBUTES = 24 };

typedef struct fake_descriptor {
    int magic, type;
    bool final;
    atomic_int references; /* by the caller, and by descriptors that hold it as an attribute */
    int attributes;
    fake_attribute attribute[FAKE_ATTRIBUTES];
    /* Set when the descriptor is finalised, or filled in by a query. */
    trp__dnn_tensor tensor; /* TENSOR */
    trp__dnn_node node;     /* of an operation, or of its settings */
    /* own copy of the graph: OPERATIONGRAPH, and descriptors derived from it */
    fake_cudnn_graph *graph;
    int engine;    /* ENGINE, ENGINECFG, KNOB_CHOICE, EXECUTION_PLAN */
    int mode;      /* ENGINEHEUR */
    double *value; /* VARIANT_PACK: value of each tensor at the first use */
} fake_descriptor;

/* Calls. */

/* Returns a status, and sets the text of cudnnGetLastErrorString. */
__attribute__((format(printf, 2, 3))) int fake_cudnn_say(int status, const char *format, ...);
/* Counts a call. Returns the failure that a test has set for it, usually 0. */
int fake_cudnn_called(void);
/* Counts objects that were created and not released. */
void fake_cudnn_count(int more);

bool fake_cudnn_good_handle(trp__cudnn_handle handle);

/* Descriptors. */

/* Returns a descriptor; NULL: it is none, or has another type. */
fake_descriptor *fake_descriptor_at(trp__cudnn_descriptor descriptor, int type);
/* Returns the value that was set; NULL: none was. */
const fake_attribute *fake_attribute_of(const fake_descriptor *d, int name);
/* Returns the only value, or the preset. */
int64_t fake_attribute_int(const fake_descriptor *d, int name, int64_t preset);
int fake_attribute_enum(const fake_descriptor *d, int name, int preset);
double fake_attribute_real(const fake_descriptor *d, int name, double preset);
fake_descriptor *fake_attribute_descriptor(const fake_descriptor *d, int name);
/* Returns the port of the node that an attribute of an operation sets; -1: it is no tensor of an
 * operation. */
int fake_attribute_port(const fake_descriptor *d, const fake_attribute *a);
/* Copies a graph; false: out of memory. */
bool fake_descriptor_take(fake_descriptor *d, const fake_cudnn_graph *graph);

/* Finalise a descriptor of each type; return a status. */
int fake_finalize_tensor(fake_descriptor *d);
int fake_finalize_how(fake_descriptor *d);
int fake_finalize_operation(fake_descriptor *d);
int fake_finalize_graph(fake_descriptor *d);
int fake_finalize_heuristics(fake_descriptor *d);
int fake_finalize_plan(fake_descriptor *d);
int fake_finalize_pack(fake_descriptor *d);

/* Returns whether the tensors of an operation are compatible; tensor[] by port, NULL: absent. */
int fake_cudnn_check(const trp__dnn_node *n, const trp__dnn_tensor *const tensor[]);

/* Engines. */

uint64_t fake_engine_workspace(int engine);

#endif
