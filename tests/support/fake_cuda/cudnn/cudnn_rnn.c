/* The fake cuDNN has no recurrent networks: every call returns NOT_SUPPORTED. */
#include "support/fake_cuda/cudnn/cudnn.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define REFUSE(result, name, parameters, required)                                                 \
    FAKE_API result name parameters;                                                               \
    result name parameters                                                                         \
    {                                                                                              \
        return fake_cudnn_say(FAKE_CUDNN_NOT_SUPPORTED, "the fake cuDNN has no " #name);           \
    }
TRP__CUDNN_RNN_FUNCTIONS(REFUSE)
