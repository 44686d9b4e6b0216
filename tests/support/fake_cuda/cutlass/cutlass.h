/* Descriptions of kernels of the cutlass actor, shared by the fake NVRTC, nvJitLink and driver.
 * NVRTC passes lines of the rendered source to the linker as text. The linker makes PTX with the
 * entries, and with a variable that describes what the kernel computes. */
#ifndef TESTS_SUPPORT_FAKE_CUDA_CUTLASS_CUTLASS_H
#define TESTS_SUPPORT_FAKE_CUDA_CUTLASS_CUTLASS_H

#include "actors/cutlass/templates/abi.h"
#include "actors/cutlass/epilogue/tree.h"
#include "driver/cuda_abi.h"

/* The variable, a fake_cutlass_kernel. */
#define FAKE_CUTLASS_KERNEL "fake_cutlass_kernel"

/* Beginning of the text that stands for LTO-IR. */
#define FAKE_CUTLASS_LTO "fake LTO-IR of CUTLASS\n"

typedef struct fake_cutlass_kernel {
    /* trp_dtype; the tree has the type of C, which is i32 without a tree */
    uint8_t a, b, d, accumulator;
    uint8_t a_row, b_row;
    uint8_t sm90, stream_k, grouped; /* sm90: loads by TMA */
    uint8_t swap;                    /* the tree is for the transpose of D */
    /* whether groups of the narrower matrix have factors, and zero points */
    uint8_t groups, zeros;
    uint8_t scale_a, scale_b;                   /* trp_scale_mode; TRP_SCALE_TENSOR: no factors */
    uint8_t convolves, conv, dims, unit_stride; /* conv: trp_conv_operation */
    uint16_t tile[2], cluster[2];
    uint16_t a_align, b_align, d_align; /* in elements */
    uint16_t tree_bytes;                /* 0: alpha and beta in integers */
    uint8_t tree[TRP__TREE_BYTES_MAX];
} fake_cutlass_kernel;

/* The kernel's parameter. */
typedef struct fake_cutlass_parameter {
    union {
        trp_cutlass_map description;
        trp__cu_tensor_map encoded;
    } map[2]; /* for A and B, with sm90 */
    trp_cutlass_args args;
    uint64_t workspace_bytes, zero_at, zero_bytes;
} fake_cutlass_parameter;

/* Returns the rows of A, or the columns of B, of group l of a convolution as lines of k numbers.
 * The caller frees them. */
double *fake_cutlass_gather(const fake_cutlass_kernel *k, const trp_cutlass_args *a, bool right,
                            const void *tensor, int64_t l);

/* Returns the elements that A or B spans. */
uint64_t fake_cutlass_conv_span(const fake_cutlass_kernel *k, const trp_cutlass_args *a,
                                bool right);

/* Describes the maps of A and B for sm_90. */
void fake_cutlass_conv_maps(const fake_cutlass_kernel *k, const trp_cutlass_args *a,
                            trp_cutlass_map *of_a, trp_cutlass_map *of_b);

bool fake_cutlass_can_convolve(const fake_cutlass_kernel *k, const trp_cutlass_args *a);

_Static_assert(sizeof(fake_cutlass_parameter) <= TRP_CUTLASS_PARAMS_MAX, "a kernel's parameter");

#endif
