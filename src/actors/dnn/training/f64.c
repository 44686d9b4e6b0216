/* Training nodes that compute in f64. */
#define T       double
#define NAME(x) x##_f64
#define VIEW    trp__train_view_f64
#define PUT     trp__train_put_f64
#define IS_F32  0
#include "actors/dnn/training/all_real.h"
