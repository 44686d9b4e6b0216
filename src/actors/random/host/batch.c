#define NAME(x) x##_plain
#include "actors/random/host/batch_text.h"
