/* Direct calls of cuFFT on a stream of their own, in the context of the raw side. */
#ifndef TRP_BENCH_RAW_FFT_H
#define TRP_BENCH_RAW_FFT_H

#include "driver/cuda.h"
#include "libs/cufft/cufft.h"

#include <troupe/fft.h>

/* Packed transforms out of place, one after the other in memory: forward, C2R inverse. */
typedef struct raw_fft_problem {
    trp_fft_kind kind;
    bool wide; /* f64 */
    int rank;
    int64_t n[3], batch;
} raw_fft_problem;

typedef struct raw_fft {
    char *error; /* room for 320 bytes */
    const trp__cuda *cu;
    const trp__cufft *lib;
    trp__cu_stream stream;
    raw_fft_problem what;
    trp__cufft_handle plan;
    bool planned;
    trp__cu_address x, y, area;
} raw_fft;

/* Opens the library; writes errors to `text`. TRP_E_MISSING without it. Call raw_fft_close() also
 * after a failure. */
trp_status raw_fft_open(raw_fft *f, char *text);
void raw_fft_close(raw_fft *f);

/* Bytes of all transforms of a side. */
uint64_t raw_fft_bytes(const raw_fft_problem *p, bool of_y);

/* Makes a plan, and fills x with copies of the piece. Call raw_fft_end() also after a failure. */
bool raw_fft_begin(raw_fft *f, const raw_fft_problem *what, const void *piece, size_t bytes);
/* Executes the plan `count` times, then waits; or waits after each. C2R overwrites x. */
bool raw_fft_run(raw_fft *f, uint64_t count);
bool raw_fft_run_each(raw_fft *f, uint64_t count);
bool raw_fft_result(raw_fft *f, void *y, size_t bytes);
void raw_fft_end(raw_fft *f);

#endif
