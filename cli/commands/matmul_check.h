/* Compares results of the matmul actor (D, aux, a bias gradient, the largest value) with
 * float64. */
#ifndef TRP_CLI_COMMANDS_MATMUL_CHECK_H
#define TRP_CLI_COMMANDS_MATMUL_CHECK_H

#include "check/sums.h"
#include "data/matrix.h"

#include <troupe/matmul.h>

/* Multiplications in one check of a command, which take seconds. */
#define CHECK_MAX_STEPS 4e9

/* A product and its results, in host memory. Views without data are absent. */
typedef struct check_matmul {
    check_view a, b; /* op(A), op(B) */
    uint64_t m, n, k;
    trp_compute compute;
    bool fast_accumulation;
    bool on_gpu; /* tensor cores and fast approximations: wider bounds */
    trp_scalar alpha, beta;
    check_view c, bias; /* the bias is a row */
    trp_activation activation;
    double scale_d;
    check_view d;
    check_view aux; /* bits: type u8, one byte an element of the view, see below */
    trp_bias_gradient gradient_of;
    check_view gradient; /* a row */
    const float *amax;   /* NULL: none */
} check_matmul;
/* A view of bits has type TRP_U8 and row_step in bytes; element j of a row is bit j % 8 of byte j /
 * 8. */

typedef struct check_matmul_result {
    uint64_t rows;        /* compared: all, or a sample of them */
    uint64_t wrong;       /* values beyond their bound */
    double error;         /* |D - R| / |R|, Frobenius norms over those rows */
    double of_bound;      /* largest error relative to its bound */
    const char *what;     /* of the worst value, if any is wrong: "D", "aux", ... */
    uint64_t row, col;    /* its position (in a vector: */
    double got, expected; /* values there; real parts of complex ones */
    double bound;         /* allowed |got - expected| */
    uint64_t ns;          /* duration */
} check_matmul_result;

/* Describes C = A B of matrices of f32 or f64. */
check_matmul check_matmul_of(const matrix *a, const matrix *b, const matrix *c);

/* Checks D, aux, gradient and amax. Each value's bound follows from its types and the order of the
 * steps:
 *
 *   the sum     (16 + 4 sqrt(k)) units of the type that is summed in, times the norms of row and
 *               column (Higham, Accuracy and Stability, section 3.5, with sqrt(k) for k); for tf32
 *               2^-9 of the norms more. On GPUs tensor cores cut off what they add: for inputs of
 *               16 bits k/16 units; for fp8 2^-10 of the norms, and with fast accumulation
 *               k/32 2^-13 more.
 *   alpha, beta, bias   four units of each term
 *   activation  its slope is at most 1.2; GELU on GPUs has a tanh of 11 bits, so 2^-10 of its value
 *   D           half a unit of its type, or of its smallest number
 *
 * i32 results are exact. Values that can't be predicted (NaN inside an activation, an overflow) are
 * not judged; only where an infinity is expected, a finite value is wrong. Sums over lines are
 * compared only if all rows are. Where more than max_steps multiplications were needed, a sample of
 * the rows is compared. False: no memory. */
bool check_matmul_run(const check_matmul *check, double max_steps, check_matmul_result *out);

/* Runs the check and shows it as a step of a report; true if all is right. */
bool check_matmul_and_show(const char *label, const check_matmul *check);

/* Checks that elements were converted to the nearest value of another type: returns the number that
 * were not, and the position of the first. */
uint64_t check_conversion(const check_view *from, const check_view *to, uint64_t rows,
                          uint64_t cols, uint64_t *row, uint64_t *col);

#endif
