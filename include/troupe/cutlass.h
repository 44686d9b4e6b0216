/* The "cutlass" actor: matrix products with a custom epilogue, a tree of operations on the sums
 * before they are stored.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_CUTLASS_H
#define TROUPE_CUTLASS_H

#include <troupe/matmul.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An epilogue tree computes D from the sums of a product, element by element, in one pass. It is an
 * array of nodes, each of which comes after its inputs. nodes[0] stands for "none" and must be all
 * zero. The last node is the root: its value, rounded to D's type, is D.
 *
 *     enum { NONE, SUM, BIAS, SHIFTED, ROOT, COUNT };
 *     const trp_epilogue_node nodes[COUNT] = {
 *         [SUM] = {.kind = TRP_EPILOGUE_ACCUMULATOR},
 *         [BIAS] = {.kind = TRP_EPILOGUE_PER_ROW, .buffer = bias},
 *         [SHIFTED] = {.kind = TRP_EPILOGUE_BINARY, .input = {SUM, BIAS}},
 *         [ROOT] = {.kind = TRP_EPILOGUE_ACTIVATION, .activation = TRP_ACTIVATION_GELU,
 *                   .input = {SHIFTED}},
 *     };
 *
 * Every value is an m x n matrix of the compute type: f64 if the sums are f64, else f32. A node may
 * be the input of several; it is computed once. Values read from memory are widened, which is
 * exact; each operation rounds its result to the compute type (additions, multiplications and
 * divisions exactly, functions such as exp to a few units in the last place) and none is fused with
 * another but in TRP_EPILOGUE_FMA. Storing rounds to nearest, once; f8 and i8 saturate.
 *
 * "Per row" means m values, of which value i belongs to all of row i; "per column" n values. (What
 * CUTLASS calls a column broadcast is per row here, and its row broadcast per column.)
 *
 * Types in memory, where the compute type is f32: matrices f32, f16, bf16, f8e4m3, f8e5m2 or i8;
 * vectors that are read f32, f16 or bf16; scalars and results of reductions f32. Where it is f64:
 * matrices and vectors f64 or f32; scalars and results of reductions f64.
 *
 * Stores and reductions write to memory and pass their input on: their value is their input. They
 * need not be used by another node; all others must be. Memory that they write must not overlap
 * anything else that the request uses.
 *
 * Shapes, types and places may change from request to request; a kernel is compiled once for a
 * tree, whatever its scalars, parameters, buffers and strides are. docs/actors/cutlass.md says when
 * two trees are the same. */
typedef enum trp_epilogue_kind {
    TRP_EPILOGUE_NONE = 0,
    /* The sums of the product. No input. */
    TRP_EPILOGUE_ACCUMULATOR = 1,
    /* The request's C, which must have a buffer then and is always read. No input. */
    TRP_EPILOGUE_C = 2,
    /* One number: `value`, or an element of `buffer` for each of the batch. No input. */
    TRP_EPILOGUE_SCALAR = 3,
    /* A vector of m or n elements in `buffer`. No input. */
    TRP_EPILOGUE_PER_ROW = 4,
    TRP_EPILOGUE_PER_COLUMN = 5,
    /* A matrix of m x n elements in `buffer`. No input. */
    TRP_EPILOGUE_AUX_LOAD = 6,
    /* Writes input 0 to a matrix of m x n elements in `buffer`. */
    TRP_EPILOGUE_AUX_STORE = 7,
    /* Input 0 times a vector of m or n elements in `buffer`: as a multiplication by PER_ROW or
     * PER_COLUMN, and the same kernel. */
    TRP_EPILOGUE_SCALE_ROWS = 8,
    TRP_EPILOGUE_SCALE_COLUMNS = 9,
    /* `activation` of input 0; DRELU and DGELU take what the activation was given as input 1. */
    TRP_EPILOGUE_ACTIVATION = 10,
    /* `unary` of input 0. */
    TRP_EPILOGUE_UNARY = 11,
    /* `binary` of inputs 0 and 1. */
    TRP_EPILOGUE_BINARY = 12,
    /* Input 0 times input 1 plus input 2, rounded once. */
    TRP_EPILOGUE_FMA = 13,
    /* Input 0 rounded to `type`, and widened again: a type of a matrix. */
    TRP_EPILOGUE_CONVERT = 14,
    /* `reduction` of input 0 over each row, to m elements in `buffer`; over each column, to n; over
     * the whole matrix, to one. */
    TRP_EPILOGUE_REDUCE_ROWS = 15,
    TRP_EPILOGUE_REDUCE_COLUMNS = 16,
    TRP_EPILOGUE_REDUCE_ALL = 17,
    /* Input 0, and nothing more: to name D where other nodes use its value too. The last node. */
    TRP_EPILOGUE_D = 18,
} trp_epilogue_kind;

typedef enum trp_unary {
    TRP_UNARY_NEGATE = 0,
    TRP_UNARY_ABS = 1,
    TRP_UNARY_SQUARE = 2,
    TRP_UNARY_SQRT = 3,
    TRP_UNARY_RSQRT = 4,      /* 1 / sqrt(x) */
    TRP_UNARY_RECIPROCAL = 5, /* 1 / x */
    TRP_UNARY_EXP = 6,
    TRP_UNARY_LOG = 7,
} trp_unary;

typedef enum trp_binary {
    TRP_BINARY_ADD = 0,
    TRP_BINARY_SUB = 1,
    TRP_BINARY_MUL = 2,
    TRP_BINARY_DIV = 3,
    TRP_BINARY_MIN = 4, /* NaN if either is; 0 is above -0 */
    TRP_BINARY_MAX = 5,
} trp_binary;

/* Result of a reduction. The order of summation is not fixed on a GPU, so a sum may differ in its
 * last bits from run to run. MAX, MIN and AMAX pass over NaNs; of no elements they are -infinity,
 * infinity and 0. */
typedef enum trp_reduction {
    TRP_REDUCTION_SUM = 0,
    TRP_REDUCTION_MAX = 1,
    TRP_REDUCTION_MIN = 2,
    TRP_REDUCTION_AMAX = 3, /* the largest absolute value */
} trp_reduction;

enum {
    TRP_EPILOGUE_NODES_MAX = 32, /* nodes[0] included */
    TRP_EPILOGUE_INPUTS = 3,
    TRP_EPILOGUE_PARAMETERS = 2,
};

/* One node. A field that its kind does not name must be zero. */
typedef struct trp_epilogue_node {
    trp_epilogue_kind kind;
    uint32_t input[TRP_EPILOGUE_INPUTS]; /* indices of earlier nodes; 0: none */
    trp_activation activation;           /* ACTIVATION: not NONE */
    trp_unary unary;                     /* UNARY */
    trp_binary binary;                   /* BINARY */
    trp_reduction reduction;             /* REDUCE_... */
    trp_scalar value;                    /* SCALAR without a buffer: real; default 1 */
    /* ACTIVATION: real, finite. CLIPPED_RELU: the limit, at least 0, default 6. LEAKY_RELU: the
     * slope, default 0.01. ELU: alpha, default 1. SOFTPLUS: beta, above 0, default 1. CLAMP: the
     * least (default 0) and the most (default 1), not below it. */
    trp_scalar parameter[TRP_EPILOGUE_PARAMETERS];
    /* Operand in memory. The caller keeps the buffer until the request has ended. */
    trp_buffer buffer;
    uint64_t offset; /* bytes; a multiple of the element size */
    trp_dtype type;  /* of its elements. Default of matrices: D's; of all else: the compute type */
    trp_order order; /* AUX_LOAD, AUX_STORE */
    int64_t ld;      /* AUX_LOAD, AUX_STORE: elements between columns (row-major: rows); 0: the
                      * smallest */
    int64_t stride; /* elements between those of a batch; only read if there is one. 0: one for all,
                     * for inputs and for results of reductions, which then run over the batch too
                     */
} trp_epilogue_node;

/* --- Products --- */

#define TRP_OP_CUTLASS_GEMM UINT32_C(0x0601)

typedef enum trp_cutlass_first {
    TRP_CUTLASS_FIRST_WAIT = 0, /* for the best kernel, if it has to be compiled */
    /* While the best kernel is compiled, the best of those that are there already computes, if
     * there is one. If there is none, a library computes what it can, with sums in another order:
     * cuBLASLt products of f64, f32, f16 or bf16 without a tree, to the same type or f32, alpha not
     * being 0, and up to 234 of them in groups by value, no k being 0; cuDNN convolutions of f32,
     * f16 or bf16, see trp_cutlass_conv(). All else waits. */
    TRP_CUTLASS_FIRST_FALLBACK = 1,
} trp_cutlass_first;

enum { TRP_CUTLASS_NAME_SIZE = 64 };

/* The kernel chosen for a request. */
typedef struct trp_cutlass_chosen {
    /* Its name in `troupe cutlass kernels`; "cublaslt" or "cudnn" for libraries, "host" on the
     * host. */
    char kernel[TRP_CUTLASS_NAME_SIZE];
    bool fallback;        /* a better one is being compiled */
    bool ready;           /* it need not be compiled any more */
    bool tuned;           /* a search has found it, and its settings, to be the fastest */
    bool searching;       /* this request searches; it runs what that finds, if not this one */
    uint64_t reserved[4]; /* 0 */
} trp_cutlass_chosen;

/* How a request was computed. */
typedef struct trp_cutlass_ran {
    char
        kernel[TRP_MATMUL_ALGORITHM_SIZE]; /* as `troupe cutlass kernels` has it; "reference": a
                                            * kernel of Troupe's, for the one that was chosen is
                                            * rejected; of libraries an algorithm, as trp_matmul_ran
                                            * has it, of groups "cublaslt", or "cudnn"; on the host
                                            * "host"; "none": there was nothing to compute */
    bool proven; /* the kernel was proven on this device, see trp_proof, or is a kernel of Troupe's.
                  * False: proofs are off; or one could not be made, for lack of device memory or of
                  * NVRTC, or of an epilogue whose results can't be foretold. Always false of groups
                  * by cuBLASLt and of cuDNN, of which nobody is told, and on the host. */
    uint64_t workspace_bytes;
    uint64_t reserved[4]; /* 0 */
} trp_cutlass_ran;

/* Factors of a B that is narrower than A, in A's type, and what is added: of column j and group g
 * of k at element g * n + j. */
typedef struct trp_cutlass_groups {
    int64_t size;          /* of k; 0: all of it, one factor for a column */
    trp_buffer scale;      /* none: no factors */
    uint64_t scale_offset; /* bytes */
    trp_buffer zero;       /* none: nothing is added; only with factors */
    uint64_t zero_offset;
    int64_t stride; /* elements between those of a batch, of both; 0: one set for all. Only looked
                     * at if batch > 1 */
} trp_cutlass_groups;

/* A is m x k, B is k x n, C and D are m x n, each in its order; C's is D's.
 *
 *     D = alpha * A * B + beta * C, or what the epilogue tree makes of A * B
 *
 * Types. A and B: f64, f32, f16, bf16, i8 (both the same), f8e4m3 and f8e5m2 (in any mixture),
 * f4e2m1 with factors; B also i8, i4, f8e4m3 or f8e5m2 where A is f16 or bf16. B's default is A's.
 * Sums are f64 for f64, i32 (wrapping) for i8, else f32. D and C: f64 for f64; else f32, f16, bf16,
 * f8e4m3, f8e5m2 or i8; of i8 without a tree i32 too, of which C is then also. D's default is A's,
 * for fp8 and fp4 bf16, for i8 i32 (so with a tree it must be said); C's is D's. D is rounded to
 * nearest, once; f8 and i8 saturate.
 *
 * alpha and beta are f32 (f64 for f64; 32-bit integers where D is i32). Without a tree a C needs a
 * beta that is given, and a beta other than 0 a C; with beta 0, C is not read. With a tree there
 * are no alpha and beta, and C is what its nodes TRP_EPILOGUE_C read, just then. C may be in D's
 * place (same buffer, offset, leading dimension, stride and type); else D overlaps nothing that is
 * read, or written beside it.
 *
 * Factors. `scale` of A and B holds factors of blocks along k, by which elements are multiplied
 * before they are added up; modes and layouts are those of matmul.h. f4e2m1 must have BLOCK_16; fp8
 * may have BLOCK_32, or BLOCK_128 and BLOCK_128X128 in any mixture. Either both matrices have them
 * or none. (BLOCK_128: those of one block of k lie together; BLOCK_128X128: those of one block of
 * lines, their count rounded up to fours.) In a batch those of each matrix lie `scale.stride`
 * factors behind those of the one before: below 2^31, of BLOCK_16 and BLOCK_32 a multiple of 16; 0:
 * all have the same. On GPUs: blocks of 128 on 9.0, where a matrix with BLOCK_128 has a multiple of
 * 4 lines, and factors begin at 16 bytes; blocks of 16 and 32 on 10.x and 12.x. Factors of tensors,
 * rows and columns are nodes of a tree: SCALAR, SCALE_ROWS, SCALE_COLUMNS.
 *
 * Narrow weights. Elements of a B of 8 or 4 bits are widened to A's type, f16 or bf16. With
 * `groups` they are multiplied by their factor and rounded to A's type; then their `zero` is added,
 * with the same rounding. Lines, leading dimension and stride of i4 are even numbers of elements.
 * On GPUs A is row-major and B column-major, with lines at 16 bytes; a group is all of k, or a
 * multiple of 64 elements on 9.0, where n is a multiple of 8 and factors begin at 16 bytes, or a
 * multiple of 32 on any device of 8.0 and above, where then k is one too. A factor for each column
 * is a node of a tree: SCALE_COLUMNS.
 *
 * Sums of fp8. Tensor cores of 9.0 add up with 14 bits, so that every fourth step their sums are
 * added to others in f32; on 8.9 each step's are. With `fast_accumulation` kernels that don't may
 * be chosen; elsewhere it changes nothing.
 *
 * If m or n is 0 nothing is done and nothing written; k is at least 1.
 *
 * On the host OpenBLAS, and the tree in f32 or f64. On GPUs a kernel of CUTLASS's templates,
 * compiled when it is needed first (docs/actors/cutlass.md): a request whose kernel is not there
 * yet waits for it, seconds for sm_80, half a minute for sm_90a, once for a machine. TRP_E_MISSING
 * names the headers or the library that are not there. m, n, k and the batch are at most 2^31 - 1
 * there.
 *
 * Errors beside those of trp_submit(): TRP_E_ARGUMENT names the argument or node, what was expected
 * and what came; TRP_E_UNSUPPORTED says what there is not: other factors, other types, more than
 * TRP_CUTLASS_BUFFERS_MAX operands in memory, a problem for which the catalogue has no kernel.
 * TRP_E_LIBRARY: the kernel could not be compiled, and why. Requests that were waiting for it then
 * end with TRP_E_DEPENDENCY. */
typedef struct trp_cutlass_gemm_request {
    trp_request header;
    int64_t m, n, k;
    int64_t batch;       /* 0: 1 */
    trp_compute compute; /* f32: DEFAULT and PEDANTIC in f32, TF32 allows inputs rounded to tf32 */
    trp_matmul_matrix a, b, c, d;
    trp_cutlass_groups groups;         /* of B, if it is narrower than A */
    trp_scalar alpha;                  /* default 1 */
    trp_scalar beta;                   /* default 0 */
    const trp_epilogue_node *epilogue; /* copied; NULL: none */
    uint32_t epilogue_count;           /* of nodes, nodes[0] included */
    bool fast_accumulation;            /* fp8: accumulate faster and less exactly */
    /* On a GPU: its name in `troupe cutlass kernels`; NULL: the one that should be fastest. */
    const char *kernel;
    trp_cutlass_first first;
    trp_tune tune;              /* see below */
    trp_cutlass_chosen *chosen; /* out, written by the call if it succeeds; may be NULL */
    trp_cutlass_ran *ran;       /* filled when the request succeeds; NULL: nobody asks */
} trp_cutlass_gemm_request;

/* Searching. With `tune` kernels are timed on the device, on the request's own operands, before it
 * runs, and the fastest runs the request:
 *   TRP_TUNE_OFF    none; what was found before, else the kernel that should be fastest
 *   TRP_TUNE_QUICK  the four that should be fastest (or, of a `kernel` by name, nothing)
 *   TRP_TUNE_FULL   up to twelve, those that should take at most twice as long as the best, and of
 *                   the four fastest (or the `kernel`) all orders of tiles and ways to divide sums
 * All of them are compiled first, side by side. The tuning record holds for the sizes, types,
 * orders, factors, alignments and the tree of the problem, and this GPU model and driver; it is
 * stored in the kernel cache and used by requests of all processes from then on, except that FULL
 * searches again, from where QUICK ended. A request that searches can't be cancelled once it has
 * begun; the time that it takes counts for its deadline, of which it uses a quarter at most. A
 * kernel that can't be compiled, loaded or launched is left out; if the search is not possible the
 * kernel that should be fastest computes. With first = TRP_CUTLASS_FIRST_FALLBACK nothing is
 * searched before all kernels are there. The host has nothing to search.
 *
 * The record of a grouped product counts for others with the same grouping, number of groups and
 * mean sizes. By value that is the mean of the groups; where sizes are on the device it is the mean
 * of the bounds in the request, and kernels are timed on the sizes that the table has when the
 * request runs. The record of a convolution counts for the same sizes, pads, strides and
 * dilations. */

enum { TRP_CUTLASS_BUFFERS_MAX = 14 }; /* A, B, C, D and what nodes of a tree read and write */

/* Sends a product; see trp_submit() for completion and errors. */
TRP__REQUEST(cutlass_gemm, TRP_OP_CUTLASS_GEMM, trp_cutlass_gemm_request)

/* --- Grouped products --- */

#define TRP_OP_CUTLASS_GROUPED_GEMM UINT32_C(0x0602)

/* How the sizes and places of groups are given. */
typedef enum trp_cutlass_grouping {
    /* By value: `group` points to an array, which the call copies. */
    TRP_CUTLASS_GROUPS_BY_VALUE = 0,
    /* The same array lies in `table`, on the device, and is read when the request runs. */
    TRP_CUTLASS_GROUPS_BY_TABLE = 1,
    /* One dimension is cut into pieces that follow each other, one a group; `table` says where each
     * ends. The rows of A and D: tokens that are sorted by expert. */
    TRP_CUTLASS_GROUPS_OF_M = 2,
    /* The columns of B and D. */
    TRP_CUTLASS_GROUPS_OF_N = 3,
    /* The columns of A and rows of B: gradients of the experts' weights. */
    TRP_CUTLASS_GROUPS_OF_K = 4,
} trp_cutlass_grouping;

/* A group by value or in a table: a row of 12 numbers, all int64. */
typedef struct trp_cutlass_group {
    int64_t m, n, k;    /* each 0 or more */
    int64_t a, b, c, d; /* where its matrices begin: elements behind the request's offsets */
    int64_t lda, ldb, ldc, ldd; /* elements; 0: the request's, and if that is 0 the smallest */
    int64_t reserved;           /* 0 */
} trp_cutlass_group;

enum {
    TRP_CUTLASS_GROUPS_MAX = 65536,
    TRP_CUTLASS_GROUPS_BY_VALUE_MAX = 512,
};

/* Many products at once, each with sizes and places of its own: for each group g
 *
 *     Dg = alpha * Ag * Bg + beta * Cg, or what the epilogue tree makes of Ag * Bg
 *
 * where Ag is m x k, Bg is k x n, Cg and Dg are m x n, in orders and types that are those of all
 * groups. A group whose m or n is 0 does nothing; one whose k is 0 has sums of 0, and writes D.
 *
 * GROUPS_OF_M, OF_N, OF_K. m, n and k are the request's; the one that is cut is that of all groups
 * together, the capacity of the buffers. `table` holds an int32 for each group, which does not
 * fall: where its piece ends, in lines of that dimension, and where the next one begins. The first
 * begins at 0. Lines behind the last end are not touched. So the router of a mixture of experts
 * writes the running sums of how many rows go where, and nothing comes back to the host:
 *
 *     const trp_cutlass_grouped_gemm_request r = {
 *         .groups = experts, .grouping = TRP_CUTLASS_GROUPS_OF_M,
 *         .m = rows, .n = n, .k = k,                         rows: at most so many
 *         .a = {.buffer = tokens, .type = TRP_BF16, .order = TRP_ROW_MAJOR},
 *         .b = {.buffer = weights, .stride = n * k},         [experts][n][k]: column-major
 *         .d = {.buffer = out, .order = TRP_ROW_MAJOR},
 *         .table = ends,
 *     };
 *
 * Matrices that have the cut dimension are one for all groups, and their stride is 0; of the others
 * there is one for each group, `stride` elements apart (what is read: 0, the same for all).
 *
 * BY_VALUE, BY_TABLE. Each group has its own m, n, k, places and leading dimensions; strides are 0.
 * By value the request's m, n and k are 0. By table they are the most that any group has; each
 * matrix may lie anywhere from its offset to the end of its buffer, and D's buffer must be no
 * other's (but C's, see below). Groups' parts of D must not overlap each other; by table that is
 * not checked, and the content of such a place is undefined afterwards.
 *
 * C in D's place. If C names D's buffer with the same offset, type, leading dimension and stride it
 * is D's old content, group by group; places and leading dimensions of C in groups count for
 * nothing then. Else D's bytes overlap nothing that is read.
 *
 * A table that is wrong (ends that fall or lie beyond the dimension, sizes above the request's,
 * places outside of a buffer, or not as aligned as was promised) is found by the host backend
 * before anything is written: the request ends with TRP_E_ARGUMENT, which names the group. On a GPU
 * such a group is left out without an error: nothing of it is read or written. The others are
 * computed. A group can only reach the request's matrices, so no other buffer is ever touched.
 *
 * Types: those of trp_cutlass_gemm() but i8 and i32 (D may be i8 with sums in f32). alpha and beta
 * by value are for all groups.
 *
 * Epilogue trees. Nodes are as everywhere, m x n being a group's. SCALAR with a buffer, PER_ROW,
 * PER_COLUMN and the scales by rows and columns have a stride from group to group (0: one for all);
 * along a dimension that is cut (PER_ROW of GROUPS_OF_M, PER_COLUMN of GROUPS_OF_N) there is one
 * vector for all groups, of which each has the piece that its rows or columns have, and no stride.
 * So a factor for each token is PER_ROW, a bias for each expert PER_COLUMN with stride n. By value
 * and by table a vector has as many elements as the largest group has rows or columns. AUX_LOAD,
 * AUX_STORE and reductions: TRP_E_UNSUPPORTED.
 *
 * `groups` 0, or (but by value) m or n 0: nothing is done. On a GPU m, n and k are below 2^31.
 * Errors: as trp_cutlass_gemm(); of groups by value a message names the group,
 * "group[3].lda: expected ..., got ...".
 *
 * Source: torch._grouped_mm (offsets), CUTLASS's GroupProblemShape. */
typedef struct trp_cutlass_grouped_gemm_request {
    trp_request header;
    int64_t groups; /* at most TRP_CUTLASS_GROUPS_MAX; by value TRP_CUTLASS_GROUPS_BY_VALUE_MAX */
    trp_cutlass_grouping grouping;
    trp_compute compute;
    int64_t m, n, k;
    trp_matmul_matrix a, b, c, d;
    trp_scalar alpha; /* default 1 */
    trp_scalar beta;  /* default 0 */
    const trp_epilogue_node *epilogue;
    uint32_t epilogue_count;
    const trp_cutlass_group *group; /* BY_VALUE: `groups` of them */
    trp_buffer table;               /* BY_TABLE: trp_cutlass_group; OF_M, _N, _K: int32 */
    uint64_t table_offset;          /* bytes; a multiple of 8, or of 4 */
    /* A promise: bytes, a power of two up to 16, that divide what the table says. By table: of each
     * matrix of each group where it begins, how far its lines lie apart and how long they are; of
     * matrices whose lines are cut: where the pieces begin, and how long they are. 0: nothing more
     * than that elements are whole. The fast kernels of GPUs want 16. By value 0. */
    uint32_t alignment;
    /* As those of trp_cutlass_gemm_request. */
    const char *kernel;
    trp_cutlass_first first;
    trp_tune tune;
    trp_cutlass_chosen *chosen;
    trp_cutlass_ran *ran;
} trp_cutlass_grouped_gemm_request;

/* Sends grouped products; see trp_submit() for completion and errors. */
TRP__REQUEST(cutlass_grouped_gemm, TRP_OP_CUTLASS_GROUPED_GEMM, trp_cutlass_grouped_gemm_request)

/* --- Convolutions --- */

#define TRP_OP_CUTLASS_CONV UINT32_C(0x0603)

typedef enum trp_conv_operation {
    TRP_CONV_FPROP = 0, /* the convolution */
    TRP_CONV_DGRAD = 1, /* its gradient by the activation */
    TRP_CONV_WGRAD = 2, /* its gradient by the filter */
} trp_conv_operation;

enum { TRP_CONV_DIMS_MAX = 3 };

/* A tensor with its channels last, which follow each other in memory. Its other dimensions,
 * outermost first:
 *
 *     activation    images, input[0], input[1], ...     of `channels` channels
 *     filter        filters, filter[0], filter[1], ...  of channels / groups
 *     output        images, output[0], output[1], ...   of `filters`
 *
 * (in two dimensions NHWC, KRSC and NPQK). `stride` has for each of them, in that order, the
 * elements from one to the next; 0: packed, as many as all of the next inner dimension takes. */
typedef struct trp_conv_tensor {
    trp_buffer buffer;
    uint64_t offset; /* bytes; a multiple of the element size */
    trp_dtype type;
    int64_t stride[1 + TRP_CONV_DIMS_MAX];
} trp_conv_tensor;

/* D = alpha * sums + beta * C, or what the epilogue tree makes of the sums:
 *
 *             A                       B            C and D      rows                   columns
 *     FPROP   activation              filter       output       images * output[...]   filters
 *     DGRAD   gradient of the output  filter       activation   images * input[...]    channels
 *     WGRAD   gradient of the output  activation   filter       filters                all others
 *
 * The sums of FPROP, here in two dimensions and one group: for pixel (p, q) of the output of image
 * n and filter k, over all (r, s) and channels c,
 *
 *     activation[n][h][w][c] * filter[k][r][s][c]
 *     with h = p * stride[0] + r * dilation[0] - pad[0], w likewise; 0 where that is outside
 *
 * (a cross-correlation, as networks have it; with `flip` r and s in h and w count from the other
 * end: a convolution in the strict sense). DGRAD and WGRAD are the gradients of just that.
 *
 * Sizes. There are `dims` dimensions: the first `dims` elements of the arrays count, the others are
 * 0. Each output[i] follows from the rest, and may be left 0:
 *
 *     (input + pad + pad_after - ((filter - 1) * dilation + 1)) / stride + 1, rounded down
 *
 * It must be 1 or more. All sizes are below 2^31. Channels and filters are multiples of `groups`;
 * the filters of one group see the channels of theirs. With images 0 FPROP and DGRAD do nothing,
 * and the sums of WGRAD are 0.
 *
 * C and D are matrices of rows and columns as in the table, row-major. So of their strides only
 * that from row to row is free: the innermost one of an activation or output, the outermost one of
 * a filter; others are 0 or as that makes them, else TRP_E_UNSUPPORTED. C may be in D's place (same
 * buffer, offset, strides and type); else D's bytes overlap nothing that is read. A and B may have
 * any strides that keep their elements apart.
 *
 * Types and scalars: those of trp_cutlass_gemm() but i8 and i32 (D may be i8 with sums in f32).
 * Epilogue trees: all nodes. AUX matrices are rows x columns, in an order of their own, which is
 * column-major by default.
 *
 * On GPUs as products: kernels of CUTLASS whose operands are gathered on the way, nothing is copied
 * before. Rows and columns of D, and the terms of its sums, are below 2^31 - 1023 each there, and
 * so is an input with its padding. Errors: as trp_cutlass_gemm().
 *
 * With first = TRP_CUTLASS_FIRST_FALLBACK and no kernel there, cuDNN computes, as the dnn actor has
 * it compute, what has no tree, f32, f16 or bf16, tensors without gaps at offsets that are
 * multiples of 16 bytes, and at least one image. A C is not in D's place; with `flip` filters are
 * of one pixel; a WGRAD, and a DGRAD of one channel or filter, has as much padding behind as
 * before. For f16 and bf16, D has A's type and there are no alpha, beta and C; but an FPROP without
 * groups, with multiples of 8 channels and filters, may have them, or write f32. For f32, D is f32
 * if there are none. Sums are f32, with TRP_COMPUTE_TF32 of inputs rounded to tf32; alpha times
 * them is rounded before C is added. If cuDNN has no engine for it on a GPU, the dnn actor's own
 * kernels compute it; they are called "cudnn" too.
 *
 * Source: CUTLASS's implicit GEMM (Conv2dProblemSize, Conv3dProblemSize). */
typedef struct trp_cutlass_conv_request {
    trp_request header;
    trp_conv_operation operation;
    uint32_t dims; /* 1 to 3; 0: 2 */
    int64_t images, channels, filters;
    int64_t input[TRP_CONV_DIMS_MAX];
    int64_t filter[TRP_CONV_DIMS_MAX];
    int64_t output[TRP_CONV_DIMS_MAX];
    int64_t pad[TRP_CONV_DIMS_MAX];       /* zeros before the first; 0 or more */
    int64_t pad_after[TRP_CONV_DIMS_MAX]; /* and behind the last; 0 is none, not as before */
    int64_t stride[TRP_CONV_DIMS_MAX];    /* 0: 1 */
    int64_t dilation[TRP_CONV_DIMS_MAX];  /* 0: 1 */
    int64_t groups;                       /* 0: 1 */
    bool flip;                            /* the filter */
    trp_compute compute;
    trp_conv_tensor a, b, c, d;
    trp_scalar alpha; /* default 1 */
    trp_scalar beta;  /* default 0 */
    const trp_epilogue_node *epilogue;
    uint32_t epilogue_count;
    const char *kernel; /* as of trp_cutlass_gemm_request, like the next four */
    trp_cutlass_first first;
    trp_tune tune;
    trp_cutlass_chosen *chosen;
    trp_cutlass_ran *ran;
} trp_cutlass_conv_request;

/* Sends a convolution; see trp_submit() for completion and errors. */
TRP__REQUEST(cutlass_conv, TRP_OP_CUTLASS_CONV, trp_cutlass_conv_request)

#ifdef __cplusplus
}
#endif
#endif
