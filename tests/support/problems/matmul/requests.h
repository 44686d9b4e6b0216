/* Shared by tests of the matmul actor's sender: right requests, buffers that are just large enough
 * for them, and checks that a request with one change is refused or not. Mistakes are counted, and
 * end the program at the end of the case. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PROBLEMS_MATMUL_REQUESTS_H
#define TESTS_SUPPORT_PROBLEMS_MATMUL_REQUESTS_H

#include "support/harness.h"

enum { M = 5, N = 6, K = 7, SIDE = 16 };

extern h_world world;
extern trp_actor *matmul;
/* M x K, K x N and M x N of f32; aux for gelu and for relu; two scalars; and 64 KiB. */
extern trp_buffer a32, b32, c32, d32, aux32, bits, vector, scalars, large;
/* SIDE x SIDE of f8e4m3 (c16: bf16); single f32. */
extern trp_buffer a8, b8, c16, d8, aux8, factor[4], amax[2];
static const trp_buffer none;

/* Begin and end a case, which is skipped if the backend has no matmul actor. */
void mq_open(void);
void mq_close(void);

/* Checks that the request is refused with a message that begins with a word, and that nothing is
 * queued. */
void mq_refused(int line, const char *what, const trp_matmul_request *r, trp_status status,
                const char *word);
/* Checks that the request succeeds; the library of a GPU may not support it. */
void mq_taken(int line, const char *what, const trp_matmul_request *r);

/* M x N x K in f32, with a C; the same with a bias; with scalars in a buffer. */
trp_matmul_request plain(void);
trp_matmul_request biased(void);
trp_matmul_request in_buffer(void);
/* With bias and aux; with aux and gradient. */
trp_matmul_request relu(void);
trp_matmul_request gelu(void);
trp_matmul_request drelu(void);
trp_matmul_request dgelu(void);
/* With the gradient of A. */
trp_matmul_request of_a(void);
/* With all options of a product of fp8; fp4 to f16 without options. */
trp_matmul_request fp8(void);
trp_matmul_request fp4(void);
/* With factors for blocks of D, and of A and B. */
trp_matmul_request fp8_blocks(void);
/* Small products in `large`; D has the default type. */
trp_matmul_request typed(trp_dtype a);
trp_matmul_request c64(void);
trp_matmul_request i8(void);
trp_matmul_request i8_to_i8(void);

/* Checks that a request with one change is refused with a message that begins with a word. */
#define REFUSED(status, word, make, ...)                                                           \
    do {                                                                                           \
        trp_matmul_request r = make();                                                             \
        __VA_ARGS__;                                                                               \
        mq_refused(__LINE__, #make " with " #__VA_ARGS__, &r, status, word);                       \
    } while (0)
#define BAD(word, ...)    REFUSED(TRP_E_ARGUMENT, word, __VA_ARGS__)
#define CANNOT(word, ...) REFUSED(TRP_E_UNSUPPORTED, word, __VA_ARGS__)
#define TAKEN(make, ...)                                                                           \
    do {                                                                                           \
        trp_matmul_request r = make();                                                             \
        __VA_ARGS__;                                                                               \
        mq_taken(__LINE__, #make " with " #__VA_ARGS__, &r);                                       \
    } while (0)

#endif
