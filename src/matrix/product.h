/* A product: checked, with all defaults filled in, and always column-major; also the payload of
 * TRP_OP_MATMUL. A row-major product D = A B becomes the column-major D' = B' A', so A and B may be
 * the sender's b and a. If m or n is 0, there is no access and no work. */
#ifndef TRP_MATRIX_PRODUCT_H
#define TRP_MATRIX_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

/* The operands of a product. The first five are matrices. */
enum {
    TRP__MATMUL_A,
    TRP__MATMUL_B,
    TRP__MATMUL_C, /* if C is D, both have the same access */
    TRP__MATMUL_D,
    TRP__MATMUL_AUX,
    TRP__MATMUL_MATRICES,
    TRP__MATMUL_VECTOR = TRP__MATMUL_MATRICES, /* the bias or the gradient */
    TRP__MATMUL_SCALARS,
    TRP__MATMUL_ALPHAS, /* one for each row of D */
    TRP__MATMUL_SCALE_A,
    TRP__MATMUL_SCALE_B,
    TRP__MATMUL_SCALE_D,
    TRP__MATMUL_SCALE_AUX,
    TRP__MATMUL_OUT_SCALE, /* factors of D's blocks, which are written */
    TRP__MATMUL_AMAX_D,
    TRP__MATMUL_AMAX_AUX,
    TRP__MATMUL_OPERANDS
};
enum { TRP__MATMUL_NO_ACCESS = 0xff };

typedef struct trp__matmul {
    uint16_t sm_count; /* multiprocessors for which an algorithm is chosen; 0: all */
    uint8_t type[TRP__MATMUL_MATRICES]; /* trp_dtype; TRP_DTYPE_NONE for aux bits */
    uint8_t vector_type;
    uint8_t scalar_type;      /* trp_dtype of alpha and beta */
    uint8_t trans_a, trans_b; /* trp_transpose; TRP_T and not TRP_C for real types */
    uint8_t scale_a,
        scale_b;         /* trp_scale_mode; C, D and aux have one factor for the whole matrix */
    uint8_t compute : 4; /* trp_compute */
    bool fast_accumulation : 1;
    bool deterministic : 1;               /* the result must always have the same bits */
    uint8_t activation;                   /* trp_activation */
    uint8_t gradient;                     /* trp_bias_gradient; A and B are those of this struct */
    uint8_t access[TRP__MATMUL_OPERANDS]; /* index into the request's accesses */
    uint8_t tune;                         /* trp_tune */
    int64_t m, n, k, batch;
    int64_t ld[TRP__MATMUL_MATRICES];     /* elements (aux bits: bits); without C, that of D */
    int64_t stride[TRP__MATMUL_MATRICES]; /* likewise */
    int64_t vector_stride;                /* elements */
    uint64_t workspace;                   /* bytes */
    union {
        double alpha[2];       /* real, imaginary */
        int64_t alphas_stride; /* elements; with ALPHAS, which replace alpha */
    };
    double beta[2];
} trp__matmul;

_Static_assert(sizeof(trp__matmul) == 32 + 32 + 80 + 8 + 8 + 32, "no padding");

#endif
