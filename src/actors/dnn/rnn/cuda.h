/* Recurrent networks on NVIDIA GPUs: cuDNN's functions for them. */
#ifndef TRP_ACTORS_DNN_RNN_CUDA_H
#define TRP_ACTORS_DNN_RNN_CUDA_H

#include "driver/scratch.h"
#include "actors/dnn/rnn/rnn.h"
#include "libs/cudnn/cudnn.h"

/* The actor's resources for requests. */
typedef struct trp__rnn_site {
    trp_instance *instance;
    const trp__cuda *cu;
    const trp__cudnn *lib;
    trp__cudnn_handle handle; /* on the actor's stream */
    trp__scratch *scratch;
    int capability, processors; /* of the device */
} trp__rnn_site;

/* Handles a request whose piece of staging memory, if any, is at its host address. */
trp_status trp__rnn_cuda_handle(const trp__rnn_site *site, const trp_job *job, trp_error *error);

#endif
