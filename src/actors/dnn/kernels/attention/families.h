/* Fused attention as families of kernels: one for each type and depth. */
#ifndef TRP_ACTORS_DNN_KERNELS_ATTENTION_FAMILIES_H
#define TRP_ACTORS_DNN_KERNELS_ATTENTION_FAMILIES_H

#include "actors/dnn/kernels/attention/attention.h"
#include "actors/dnn/kernels/launch/launch.h"

#define TRP__ATTENTION_FAMILY(number, name, ...)                                                   \
    extern const trp__kernel_family trp__kernels_attention_##name;
TRP__ATTENTION_VARIANTS(TRP__ATTENTION_FAMILY)
#undef TRP__ATTENTION_FAMILY

#endif
