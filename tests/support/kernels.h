/* Products on the fake CUDA driver, whose kernels fakes of NVRTC and nvJitLink compile: what a test
 * tells those, and what they have done. tests/support/fake_cuda/README.md lists the names.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_KERNELS_H
#define TESTS_SUPPORT_KERNELS_H

#include "support/harness.h"

typedef struct h_kernels {
    h_world world;
    trp_actor *cutlass;
    char folder[256];
} h_kernels;

/* Whether the fakes are what a device of this test has. First call of main(). */
bool h_kernels_are_fake(void);

/* The folder alone, before workers are there: for a test with another actor. */
void h_kernels_make_folder(h_kernels *k);
/* options NULL: h_options() without proofs, for what they compile and run is counted, too. */
h_kernels h_kernels_open(const trp_device_options *options);
void h_kernels_close(h_kernels *k);

/* Makes the file, with a text; takes it away; how many lines the fakes have written into it. */
void h_kernels_set(const h_kernels *k, const char *name, const char *text);
void h_kernels_untell(const h_kernels *k, const char *name);
size_t h_kernels_reported(const h_kernels *k, const char *name);
/* Waits until there are so many lines. */
void h_kernels_await(const h_kernels *k, const char *name, size_t lines);

/* Whether the kernel that has run last was one whose tile and settings begin so ("64x128_s4_r2").
 */
void h_kernels_check_last(const h_kernels *k, const char *begins);

/* Whether what was chosen is the kernel (NULL: any), and whether a search has found it or begins.
 */
void h_kernels_expect(const trp_cutlass_chosen *chosen, bool tuned, bool searching,
                      const char *kernel);

/* The rest of main() of tests that search: a process finds its cache once, and each case wants an
 * empty one, so each is a process of its own, which may be skipped. */
int h_kernels_main(int argc, char **argv, const h_case *cases, size_t count);
/* Skipped but on the fakes. */
#define H_KERNEL_CASES(...)                                                                        \
    H_MAIN(if (!h_kernels_are_fake()) return H_EXIT_SKIPPED, h_kernels_main, __VA_ARGS__)

/* D = A B, bf16 to f32, of small integers: D is known to the bit. */
typedef struct h_product {
    int m, n, k;
    const char *kernel; /* NULL: whichever suits */
    trp_cutlass_first first;
    trp_tune tune;
    uint64_t deadline_ns;
    trp_cutlass_chosen chosen;
    trp_cutlass_ran ran;
    int16_t *a, *b; /* as numbers */
    trp_buffer buffer[3];
    trp_completion done;
} h_product;

/* Makes the operands, with a D that is nothing like the result. */
void h_product_make(const h_kernels *k, h_product *p);
trp_status h_product_send(const h_kernels *k, h_product *p);
/* What D holds must be right. */
void h_product_check(const h_kernels *k, const h_product *p);
void h_product_free(const h_kernels *k, h_product *p);

/* One that is made, sent, awaited, checked if it ends well, and freed; how it ended. */
trp_status h_product_run(const h_kernels *k, h_product p, trp_error *error);

#endif
