/* Shared by the files of the fake cuBLASLt. */
#ifndef TESTS_SUPPORT_FAKE_CUDA_CUBLASLT_CUBLASLT_H
#define TESTS_SUPPORT_FAKE_CUDA_CUBLASLT_CUBLASLT_H

#include "support/fake_cuda/cublas/cublas.h"

#include "libs/cublaslt/cublaslt_abi.h"

/* Declares every function of the table, as in fake.h. */
#define LT_DECLARE(result, name, parameters, required) FAKE_API result name parameters;
TRP__CUBLASLT_FUNCTIONS(LT_DECLARE)
#undef LT_DECLARE

/* The first word of each object. */
enum { LT_HANDLE = 0x17a1, LT_DESC, LT_LAYOUT, LT_PREFERENCE };

/* Descriptors: a row for each attribute with name, field, type, default. Types are those of
 * NVIDIA's header, since a value of another size is refused. */
#define LT_DESC_FIELDS(X)                                                                          \
    X(COMPUTE_TYPE, compute, int32_t, 0)                                                           \
    X(SCALE_TYPE, scale_type, int32_t, 0)                                                          \
    X(POINTER_MODE, pointer_mode, int32_t, 0)                                                      \
    X(TRANSA, trans_a, int32_t, 0)                                                                 \
    X(TRANSB, trans_b, int32_t, 0)                                                                 \
    X(TRANSC, trans_c, int32_t, 0)                                                                 \
    X(FILL_MODE, fill, int32_t, 2)                                                                 \
    X(EPILOGUE, epilogue, uint32_t, 1)                                                             \
    X(BIAS_POINTER, bias, uint64_t, 0)                                                             \
    X(BIAS_BATCH_STRIDE, bias_stride, int64_t, 0)                                                  \
    X(EPILOGUE_AUX_POINTER, aux, uint64_t, 0)                                                      \
    X(EPILOGUE_AUX_LD, aux_ld, int64_t, 0)                                                         \
    X(EPILOGUE_AUX_BATCH_STRIDE, aux_stride, int64_t, 0)                                           \
    X(ALPHA_VECTOR_BATCH_STRIDE, alpha_stride, int64_t, 0)                                         \
    X(SM_COUNT_TARGET, sm_count, int32_t, 0)                                                       \
    X(A_SCALE_POINTER, a_scale, uint64_t, 0)                                                       \
    X(B_SCALE_POINTER, b_scale, uint64_t, 0)                                                       \
    X(C_SCALE_POINTER, c_scale, uint64_t, 0)                                                       \
    X(D_SCALE_POINTER, d_scale, uint64_t, 0)                                                       \
    X(AMAX_D_POINTER, amax_d, uint64_t, 0)                                                         \
    X(EPILOGUE_AUX_DATA_TYPE, aux_type, int32_t, -1)                                               \
    X(EPILOGUE_AUX_SCALE_POINTER, aux_scale, uint64_t, 0)                                          \
    X(EPILOGUE_AUX_AMAX_POINTER, aux_amax, uint64_t, 0)                                            \
    X(FAST_ACCUM, fast_accum, int8_t, 0)                                                           \
    X(BIAS_DATA_TYPE, bias_type, int32_t, -1)                                                      \
    X(A_SCALE_MODE, a_mode, int32_t, 0)                                                            \
    X(B_SCALE_MODE, b_mode, int32_t, 0)                                                            \
    X(C_SCALE_MODE, c_mode, int32_t, 0)                                                            \
    X(D_SCALE_MODE, d_mode, int32_t, 0)                                                            \
    X(EPILOGUE_AUX_SCALE_MODE, aux_mode, int32_t, 0)                                               \
    X(D_OUT_SCALE_POINTER, d_out_scale, uint64_t, 0)                                               \
    X(D_OUT_SCALE_MODE, d_out_mode, int32_t, 0)                                                    \
    X(EMULATION_DESCRIPTOR, emulation, uint64_t, 0)

#define LT_LAYOUT_FIELDS(X)                                                                        \
    X(TYPE, type, uint32_t, 0)                                                                     \
    X(ORDER, order, int32_t, 0)                                                                    \
    X(ROWS, rows, uint64_t, 0)                                                                     \
    X(COLS, columns, uint64_t, 0)                                                                  \
    X(LD, ld, int64_t, 0)                                                                          \
    X(BATCH_COUNT, batch, int32_t, 1)                                                              \
    X(STRIDED_BATCH_OFFSET, stride, int64_t, 0)                                                    \
    X(PLANE_OFFSET, plane, int64_t, 0)                                                             \
    X(BATCH_MODE, batch_mode, uint32_t, 0)

#define LT_PREFERENCE_FIELDS(X)                                                                    \
    X(SEARCH_MODE, search, uint32_t, 0)                                                            \
    X(MAX_WORKSPACE_BYTES, workspace_bytes, uint64_t, 0)                                           \
    X(REDUCTION_SCHEME_MASK, reductions, uint32_t, 7)                                              \
    X(MIN_ALIGNMENT_A_BYTES, align_a, uint32_t, 256)                                               \
    X(MIN_ALIGNMENT_B_BYTES, align_b, uint32_t, 256)                                               \
    X(MIN_ALIGNMENT_C_BYTES, align_c, uint32_t, 256)                                               \
    X(MIN_ALIGNMENT_D_BYTES, align_d, uint32_t, 256)                                               \
    X(MAX_WAVES_COUNT, waves, float, 0)                                                            \
    X(IMPL_MASK, implementations, uint64_t, UINT64_MAX)

#define LT_MEMBER(name, field, type, preset) type field;
typedef struct trp__cublaslt_desc_opaque {
    int magic;
    LT_DESC_FIELDS(LT_MEMBER)
} lt_desc;
typedef struct trp__cublaslt_layout_opaque {
    int magic;
    LT_LAYOUT_FIELDS(LT_MEMBER)
} lt_layout;
typedef struct trp__cublaslt_preference_opaque {
    int magic;
    LT_PREFERENCE_FIELDS(LT_MEMBER)
} lt_preference;
#undef LT_MEMBER

/* A described product, and the sizes and types that follow. */
typedef struct lt_problem {
    lt_desc desc;
    lt_layout a, b, c, d;
    int64_t m, n, k;
    int bias_type, aux_type;
} lt_problem;

/* Parts of an epilogue; both gradients read `aux`. */
enum {
    LT_RELU = 2,
    LT_BIAS = 4,
    LT_DRELU = 8,
    LT_BGRAD = 16,
    LT_GELU = 32,
    LT_DGELU = 64,
    LT_AUX = 128,
    LT_BGRADA = 256,
    LT_BGRADB = 512,
};

/* Checks. */

bool fake_lt_good_handle(trp__cublaslt_handle handle);
/* Describes the product. NOT_INITIALIZED, INVALID_VALUE, or NOT_SUPPORTED if no GPU of compute
 * capability 9.0 can do it. */
trp__cublas_status fake_lt_check(trp__cublaslt_handle handle, const lt_desc *desc,
                                 const lt_layout *a, const lt_layout *b, const lt_layout *c,
                                 const lt_layout *d, lt_problem *problem);
/* Returns whether the product has an algorithm for pointers with these alignments, powers of two.
 */
bool fake_lt_aligned_enough(const lt_problem *problem, const uint32_t alignment[4]);

/* Fields of an algorithm; the rest of its 64 bytes is 0. */
typedef struct lt_algo {
    uint32_t magic, id;
    uint64_t workspace_bytes;
    uint32_t alignment[4]; /* promised alignments of A, B, C and D */
    uint64_t problem;      /* sum of the problem that it was made for */
    uint64_t swizzle;      /* 0 or 1; has no effect */
    uint64_t sum;          /* checksum of the fields before */
} lt_algo;

_Static_assert(sizeof(lt_algo) <= sizeof(trp__cublaslt_algo), "an algorithm fits");

/* Reads an algorithm. INVALID_VALUE: it is none, or one for another problem. */
trp__cublas_status fake_lt_read_algo(const trp__cublaslt_algo *algo, const lt_problem *problem,
                                     lt_algo *out);

/* Counts a call. Returns the result of one that is to fail, otherwise SUCCESS. */
trp__cublas_status fake_lt_called(fake_cublaslt_call call);

/* Elements: f32, f64, c32, c64 and all narrower types. Stores round once, to nearest even; integers
 * and 8-bit formats saturate. */

size_t fake_lt_bytes(int type);
bool fake_lt_complex(int type);
bool fake_lt_is_f8(int type);
fake_number fake_lt_load(int type, const char *at);
void fake_lt_store(int type, char *at, fake_number value);
double fake_lt_load_real(int type, const char *at);
void fake_lt_store_real(int type, char *at, double value);

#endif
