/* What both kinds of routes have. */
#ifndef TRP_ACTORS_FFT_ROUTE_PARTS_H
#define TRP_ACTORS_FFT_ROUTE_PARTS_H

#include "actors/fft/route.h"

/* The longest line of plain sums, whose work grows by the square of it. */
#define TRP__FFT_PLAIN_MAX (INT64_C(1) << 20)

/* The error of a longer one. */
trp_status trp__fft_no_way(trp_error *error, int64_t length);

/* trp__fft_route_find() of cosine and sine transforms. */
trp_status trp__fft_route_trig(trp__fft_route *route, trp__fft_way way, const trp__fft *g,
                               const trp__fft_dim *dim, trp_error *error);

#endif
