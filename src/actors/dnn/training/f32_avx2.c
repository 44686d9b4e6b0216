/* Training nodes that compute in f32, for processors with AVX2: the text of f32.c compiled without
 * fused multiply-adds, so that both give equal bits. */
#include "actors/dnn/training/real.h"

#if TRP__TRAIN_AVX2
#define T       float
#define NAME(x) x##_f32_avx2
#define VIEW    trp__train_view_f32
#define PUT     trp__train_put_f32
#define IS_F32  1
#include "actors/dnn/training/all_real.h"
#endif
