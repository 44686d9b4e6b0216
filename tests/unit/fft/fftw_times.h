/* Times of the host's own FFT beside those of FFTW, planned with FFTW_ESTIMATE.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_FFT_FFTW_TIMES_H
#define TESTS_UNIT_FFT_FFTW_TIMES_H

/* Prints a line for each length, and the geometric means. Both sides have so many threads. */
void fftw_times(int threads);

#endif
