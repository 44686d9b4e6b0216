/* Products on the fake CUDA driver, whose kernels the fake NVRTC and nvJitLink compile: settings of
 * a test for the fakes, and their reports. tests/support/fake_cuda/README.md lists the names.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_KERNELS_H
#define TESTS_SUPPORT_KERNELS_H

#include "support/harness.h"

typedef struct h_kernels {
    h_world world;
    trp_actor *cutlass;
    char folder[256];
} h_kernels;

/* Returns whether the devices of this test use the fakes. First call of main(). */
bool h_kernels_are_fake(void);

/* Creates the folder only, before there are workers: for tests of another actor. */
void h_kernels_make_folder(h_kernels *k);
/* options NULL: h_options() without proofs, since compiles and launches are counted. */
h_kernels h_kernels_open(const trp_device_options *options);
void h_kernels_close(h_kernels *k);

/* Write a file of settings, remove it, and count the lines that the fakes have written to it. */
void h_kernels_set(const h_kernels *k, const char *name, const char *text);
void h_kernels_unset(const h_kernels *k, const char *name);
size_t h_kernels_reported(const h_kernels *k, const char *name);
/* Waits until a file has so many lines. */
void h_kernels_await(const h_kernels *k, const char *name, size_t lines);

/* Checks that the tile and settings of the kernel that ran last begin with a text ("64x128_s4_r2").
 */
void h_kernels_check_last(const h_kernels *k, const char *begins);

/* Checks that the chosen kernel has a name (NULL: any), and whether a search found it or starts. */
void h_kernels_expect(const trp_cutlass_chosen *chosen, bool tuned, bool searching,
                      const char *kernel);

/* Runs the cases of a test of searches, each in a process of its own, since a process finds its
 * cache once, and each case needs an empty one. A case may be skipped. */
int h_kernels_main(int argc, char **argv, const h_case *cases, size_t count);
/* Skipped unless the fakes are in use. */
#define H_KERNEL_CASES(...)                                                                        \
    H_MAIN(if (!h_kernels_are_fake()) return H_EXIT_SKIPPED, h_kernels_main, __VA_ARGS__)

/* D = A B, bf16 to f32, of small integers, so that D is exact. */
typedef struct h_product {
    int m, n, k;
    const char *kernel; /* NULL: any that suits */
    trp_cutlass_first first;
    trp_tune tune;
    uint64_t deadline_ns;
    trp_cutlass_chosen chosen;
    trp_cutlass_ran ran;
    int16_t *a, *b; /* as integers */
    trp_buffer buffer[3];
    trp_completion done;
} h_product;

/* Creates the operands, and a D unlike the result. */
void h_product_make(const h_kernels *k, h_product *p);
trp_status h_product_send(const h_kernels *k, h_product *p);
/* Checks D. */
void h_product_check(const h_kernels *k, const h_product *p);
void h_product_free(const h_kernels *k, h_product *p);

/* Creates a product, sends it, awaits it, checks D if it succeeded, and frees it; returns its
 * status. */
trp_status h_product_run(const h_kernels *k, h_product p, trp_error *error);

#endif
