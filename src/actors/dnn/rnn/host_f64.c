/* Recurrent networks in f64. */
#define T       double
#define NAME(x) x##_f64
#define GEMM    cblas_dgemm
#define EXP     exp
#define TANH    tanh
#include "actors/dnn/rnn/host_real.h"
#include "actors/dnn/rnn/host_back.h"
