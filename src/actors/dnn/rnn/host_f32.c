/* Recurrent networks in f32. */
#define T       float
#define NAME(x) x##_f32
#define GEMM    cblas_sgemm
#define EXP     expf
#define TANH    tanhf
#include "actors/dnn/rnn/host_real.h"
#include "actors/dnn/rnn/host_back.h"
