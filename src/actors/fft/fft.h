/* The fft actor. */
#ifndef TRP_ACTORS_FFT_FFT_H
#define TRP_ACTORS_FFT_FFT_H

#include "wire/actor_class.h"

#include <troupe/worker.h>

extern const trp__actor_class trp__fft_class;

/* The sender's side. */
trp_status trp__fft_encode(trp__encoder *encoder, const trp_request *request);

/* The worker's side. */
extern const trp_actor_impl trp__fft_cuda;
extern const trp_actor_impl trp__fft_host;

#endif
