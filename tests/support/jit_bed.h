/* A device with a jit actor, and the kernels of jit_kernels.h. SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_SUPPORT_JIT_BED_H
#define TESTS_SUPPORT_JIT_BED_H

#include "support/harness.h"

enum { JB_N = 1000 };

typedef struct jb_bench {
    h_world world;
    trp_device *device;
    trp_actor *jit;
} jb_bench;

jb_bench jb_open(const trp_device_options *options);
void jb_close(jb_bench *b);

/* Skips the case if the worker finds no NVRTC, or if kernels can't run. Call before anything is
 * open. */
void jb_need_nvrtc(void);
void jb_need_gpu(void);

/* Returns a compile request for a source, for an architecture that NVRTC 12 and 13 support. */
trp_jit_compile_request jb_compile_of(const char *source);

/* Loads a module with all kernels and variables; requests that use it wait for the load. */
trp_module jb_loaded(const jb_bench *b);
trp_kernel_launch_request jb_launch_of(trp_module m, const char *kernel, const trp_kernel_arg *args,
                                       uint32_t count);
/* Launches out[i] = value + i for JB_N elements. */
trp_status jb_fill(const jb_bench *b, trp_module m, trp_buffer out, uint32_t value,
                   trp_completion *c);
void jb_check_filled(const jb_bench *b, trp_buffer out, uint32_t value);

trp_status jb_set_factor(const jb_bench *b, trp_module m, float value, trp_completion *c);
/* Create y = factor * x for x = 1, and check y. */
trp_buffer jb_ones(const jb_bench *b);
void jb_scale(const jb_bench *b, trp_module m, trp_buffer x, trp_buffer y, trp_completion *c);
float jb_last_of(const jb_bench *b, trp_buffer y);

#endif
