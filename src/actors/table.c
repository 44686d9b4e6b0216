/* All kinds of actors. */
#include "actors/blas/blas.h"
#include "actors/custom/custom.h"
#include "actors/cutlass/cutlass.h"
#include "actors/dnn/dnn.h"
#include "actors/fft/fft.h"
#include "actors/jit/jit.h"
#include "actors/matmul/matmul.h"
#include "actors/memory/memory.h"
#include "actors/probe/probe.h"
#include "actors/random/random.h"

const trp__actor_class *const trp__actor_classes[] = {
    &trp__memory_class,      &trp__blas_class,   &trp__matmul_class, &trp__cutlass_class,
    &trp__probe_class,       &trp__custom_class, &trp__dnn_class,    &trp__jit_class,
    &trp__jit_compile_class, &trp__fft_class,    &trp__random_class, NULL,
};
