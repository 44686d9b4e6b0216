/* What the fakes of NVRTC, nvJitLink and the driver agree on about kernels of the cutlass actor:
 * what is told by a rendered source goes as text to the linker, which makes PTX of it with its
 * entries and a variable that says what the kernel computes. */
#ifndef TESTS_SUPPORT_FAKE_CUDA_CUTLASS_CUTLASS_H
#define TESTS_SUPPORT_FAKE_CUDA_CUTLASS_CUTLASS_H

#include "actors/cutlass/templates/abi.h"
#include "actors/cutlass/epilogue/tree.h"
#include "driver/cuda_abi.h"

/* The variable: a fake_cutlass_kernel. */
#define FAKE_CUTLASS_KERNEL "fake_cutlass_kernel"

/* How what stands for LTO-IR begins. */
#define FAKE_CUTLASS_LTO "fake LTO-IR of CUTLASS\n"

typedef struct fake_cutlass_kernel {
    uint8_t a, b, d, accumulator; /* trp_dtype; of C the tree says it, i32 without a tree */
    uint8_t a_row, b_row;
    uint8_t sm90, stream_k, grouped; /* sm90: by TMA */
    uint8_t swap;                    /* the tree is that of the transpose of D */
    uint8_t groups, zeros;    /* factors of groups of the narrower matrix, and what is added */
    uint8_t scale_a, scale_b; /* trp_scale_mode; TRP_SCALE_TENSOR: no factors */
    uint8_t convolves, conv, dims, unit_stride; /* conv: trp_conv_operation */
    uint16_t tile[2], cluster[2];
    uint16_t a_align, b_align, d_align; /* elements */
    uint16_t tree_bytes;                /* 0: alpha and beta in integers */
    uint8_t tree[TRP__TREE_BYTES_MAX];
} fake_cutlass_kernel;

/* The kernel's parameter. */
typedef struct fake_cutlass_parameter {
    union {
        trp_cutlass_map description;
        trp__cu_tensor_map encoded;
    } map[2]; /* of A and B, for sm_90 */
    trp_cutlass_args args;
    uint64_t workspace_bytes, zero_at, zero_bytes;
} fake_cutlass_parameter;

/* Of a convolution: the rows of A, or columns of B, of group l as lines of k numbers each. The
 * caller frees them. */
double *fake_cutlass_gather(const fake_cutlass_kernel *k, const trp_cutlass_args *a, bool right,
                            const void *tensor, int64_t l);

/* Elements that A or B spans. */
uint64_t fake_cutlass_conv_span(const fake_cutlass_kernel *k, const trp_cutlass_args *a,
                                bool right);

/* The maps of A and B, for sm_90. */
void fake_cutlass_conv_maps(const fake_cutlass_kernel *k, const trp_cutlass_args *a,
                            trp_cutlass_map *of_a, trp_cutlass_map *of_b);

bool fake_cutlass_can_convolve(const fake_cutlass_kernel *k, const trp_cutlass_args *a);

_Static_assert(sizeof(fake_cutlass_parameter) <= TRP_CUTLASS_PARAMS_MAX, "a kernel's parameter");

#endif
