/* Launches of the fft actor's kernels. */
#ifndef TRP_ACTORS_FFT_KERNELS_LAUNCH_H
#define TRP_ACTORS_FFT_KERNELS_LAUNCH_H

#include "actors/fft/kernels/problem.h"
#include "compile/own/module.h"

extern const trp__own_program trp__fft_program;

/* The kernels, loaded. Zero-initialised. */
typedef struct trp__fft_kernels {
    trp__own_module module;
    trp__cu_function copy, sums, before, behind; /* NULL: they are not loaded */
} trp__fft_kernels;

/* Loads them, unless they are loaded; errors as of trp__own_module_load(). One thread at a time,
 * with the context current. */
trp_status trp__fft_kernels_load(trp__fft_kernels *k, const trp__cuda *cu, trp__store *store,
                                 const char *target, const atomic_bool *stop, trp_error *error);
void trp__fft_kernels_unload(trp__fft_kernels *k, const trp__cuda *cu, trp_instance *instance);

/* Joins dimensions that follow each other on both sides, puts those that are far apart in y first,
 * and counts. */
void trp__fft_copy_settle(trp__fft_copy *copy);

/* Enqueue one launch, unless its count is 0. */
trp_status trp__fft_launch_copy(const trp__cuda *cu, trp__cu_function function,
                                const trp__fft_copy *copy, trp__cu_stream stream, trp_error *error);
trp_status trp__fft_launch_sums(const trp__cuda *cu, trp__cu_function function,
                                const trp__fft_sums *sums, trp__cu_stream stream, trp_error *error);
trp_status trp__fft_launch_trig(const trp__cuda *cu, trp__cu_function function,
                                const trp__fft_trig *trig, trp__cu_stream stream, trp_error *error);

#endif
