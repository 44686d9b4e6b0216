/* Training nodes that compute in f32. */
#define T       float
#define NAME(x) x##_f32
#define VIEW    trp__train_view_f32
#define PUT     trp__train_put_f32
#define IS_F32  1
#include "actors/dnn/training/all_real.h"
