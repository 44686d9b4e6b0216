/* The fft actor's kernels, as C, for the fake driver. */
#ifndef TESTS_FAKE_CUDA_FFT_KERNELS_H
#define TESTS_FAKE_CUDA_FFT_KERNELS_H

#include <stdint.h>

void fake_fft_copy(const uint64_t *parameter);
void fake_fft_sums(const uint64_t *parameter);
void fake_fft_before(const uint64_t *parameter);
void fake_fft_behind(const uint64_t *parameter);

#endif
