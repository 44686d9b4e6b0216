/* Shared by the files of the fake NVRTC. */
#ifndef TESTS_SUPPORT_FAKE_CUDA_COMPILERS_NVRTC_H
#define TESTS_SUPPORT_FAKE_CUDA_COMPILERS_NVRTC_H

#include <stdbool.h>
#include <stddef.h>

/* Beginnings of the names of programs with own kernels of an actor. */
#define FAKE_DNN_PROGRAM     "trp_dnn_"
#define FAKE_MATMUL_PROGRAM  "trp_matmul_"
#define FAKE_FFT_PROGRAM     "trp_fft_"
#define FAKE_CUTLASS_PROGRAM "trp_cutlass_"
#define FAKE_RANDOM_PROGRAM  "trp_random_"

enum { FAKE_NVRTC_HEADERS = 64 };

typedef struct fake_nvrtc_texts {
    char *source;
    int count; /* number of headers */
    char *name[FAKE_NVRTC_HEADERS], *text[FAKE_NVRTC_HEADERS];
} fake_nvrtc_texts;

/* Returns the terminated image of that program; NULL: `log` says why, or memory is missing. */
char *fake_nvrtc_direct(const fake_nvrtc_texts *t, int count, const char *const *options, char *log,
                        size_t size);

#endif
