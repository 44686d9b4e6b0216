/* What the files of the fake cuDNN share. */
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

/* By themselves: the library's numbers must not come from the code under test. Source: cuDNN
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
 * name them; what is not written by a node, and what is not virtual, has an address or a value. */
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
    atomic_int references; /* the caller's, and those of descriptors that it was set in */
    int attributes;
    fake_attribute attribute[FAKE_ATTRIBUTES];
    /* Made by finalising it, or filled in when it was asked for. */
    trp__dnn_tensor tensor;  /* TENSOR */
    trp__dnn_node node;      /* of an operation, or what says how it works */
    fake_cudnn_graph *graph; /* its own copy: OPERATIONGRAPH, and all that is made of it */
    int engine;              /* ENGINE, ENGINECFG, KNOB_CHOICE, EXECUTION_PLAN */
    int mode;                /* ENGINEHEUR */
    double *value;           /* VARIANT_PACK, of each tensor of the graph: as they were when it was
                              * used first */
} fake_descriptor;

/* Calls. */

/* What a call returns, with a text for cudnnGetLastErrorString. */
__attribute__((format(printf, 2, 3))) int fake_cudnn_say(int status, const char *format, ...);
/* Counts a call; what it must return for no fault of the caller, most often 0. */
int fake_cudnn_called(void);
/* Objects that were made and not given back. */
void fake_cudnn_count(int more);

bool fake_cudnn_good_handle(trp__cudnn_handle handle);

/* Descriptors. */

/* NULL: it is none, or none of this type. */
fake_descriptor *fake_descriptor_at(trp__cudnn_descriptor descriptor, int type);
/* What was set: NULL if it was not. */
const fake_attribute *fake_attribute_of(const fake_descriptor *d, int name);
/* The only one, or the preset. */
int64_t fake_attribute_int(const fake_descriptor *d, int name, int64_t preset);
int fake_attribute_enum(const fake_descriptor *d, int name, int preset);
double fake_attribute_real(const fake_descriptor *d, int name, double preset);
fake_descriptor *fake_attribute_descriptor(const fake_descriptor *d, int name);
/* The port of the node that a tensor is set for; -1: the attribute is none of an operation's. */
int fake_attribute_port(const fake_descriptor *d, const fake_attribute *a);
/* Makes a copy of a graph; false: there is no memory. */
bool fake_descriptor_take(fake_descriptor *d, const fake_cudnn_graph *graph);

/* What finalising a descriptor does, by its type: a status. */
int fake_finalize_tensor(fake_descriptor *d);
int fake_finalize_how(fake_descriptor *d);
int fake_finalize_operation(fake_descriptor *d);
int fake_finalize_graph(fake_descriptor *d);
int fake_finalize_heuristics(fake_descriptor *d);
int fake_finalize_plan(fake_descriptor *d);
int fake_finalize_pack(fake_descriptor *d);

/* Whether an operation's tensors go together; tensor[] by port, NULL: none. */
int fake_cudnn_check(const trp__dnn_node *n, const trp__dnn_tensor *const tensor[]);

/* Engines. */

uint64_t fake_engine_workspace(int engine);

#endif
