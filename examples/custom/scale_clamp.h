/* What the program and the actor agree on: out[i] = min(max(scale * x[i] + shift, low), high), in
 * f32, with one rounding of scale * x[i] + shift. */
#ifndef SCALE_CLAMP_H
#define SCALE_CLAMP_H

#include <stdint.h>

enum { SCALE_CLAMP = 1 }; /* trp_custom_request.code */

/* access[0] is x, read; access[1] is out, covered: both `count` floats long. */
typedef struct scale_clamp {
    uint64_t count;
    float scale, shift, low, high;
} scale_clamp;

#endif
