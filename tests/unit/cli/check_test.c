/* The check of products of f32 and f64, for the demo and `troupe doctor`: it must find what is
 * wrong, and nothing else. */
#include "cli/commands/matmul_check.h"
#include "support/label.h"

#include <math.h>
#include "support/unit.h"

TROUPE_TEST("no tsan");

/* The operands of one case and their product, which each test then spoils in its way. */
typedef struct product {
    matrix a, b, c;
} product;

static matrix make(trp_dtype type, uint64_t rows, uint64_t cols, bool fortran, uint64_t seed)
{
    matrix m;
    assert_true(matrix_shape(&m, type, rows, cols));
    m.shape.fortran_order = fortran;
    m.data = malloc(m.shape.data_bytes + 1);
    assert_non_null(m.data);
    matrix_randomise(&m.shape, m.data, seed);
    return m;
}

static double get(const matrix *m, uint64_t row, uint64_t col)
{
    uint64_t i = m->shape.fortran_order ? col * m->shape.rows + row : row * m->shape.cols + col;
    return m->shape.type == TRP_F64 ? ((double *)m->data)[i] : (double)((float *)m->data)[i];
}

static void set(const matrix *m, uint64_t row, uint64_t col, double value)
{
    uint64_t i = m->shape.fortran_order ? col * m->shape.rows + row : row * m->shape.cols + col;
    if (m->shape.type == TRP_F64)
        ((double *)m->data)[i] = value;
    else
        ((float *)m->data)[i] = (float)value;
}

/* Rounds after each step, as a library that accumulates in the matrices' type does. */
static void multiply(const product *p)
{
    for (uint64_t i = 0; i < p->c.shape.rows; i++) {
        for (uint64_t j = 0; j < p->c.shape.cols; j++) {
            double sum64 = 0;
            float sum32 = 0;
            for (uint64_t k = 0; k < p->a.shape.cols; k++) {
                sum64 += get(&p->a, i, k) * get(&p->b, k, j);
                sum32 += (float)get(&p->a, i, k) * (float)get(&p->b, k, j);
            }
            set(&p->c, i, j, p->c.shape.type == TRP_F64 ? sum64 : (double)sum32);
        }
    }
}

static product make_product(trp_dtype type, uint64_t m, uint64_t n, uint64_t k, bool fortran)
{
    product p = {
        .a = make(type, m, k, fortran, 1),
        .b = make(type, k, n, !fortran, 2),
        .c = make(type, m, n, false, 3),
    };
    multiply(&p);
    return p;
}

static void drop(product *p)
{
    free(p->a.data);
    free(p->b.data);
    free(p->c.data);
}

static check_matmul_result check_within(const product *p, double max_steps)
{
    check_matmul_result result;
    const check_matmul x = check_matmul_of(&p->a, &p->b, &p->c);
    assert_true(check_matmul_run(&x, max_steps, &result));
    return result;
}

static check_matmul_result check(const product *p)
{
    return check_within(p, CHECK_MAX_STEPS);
}

static void right_products_pass(void **state)
{
    (void)state;
    static const uint64_t shapes[][3] = {
        {1, 1, 1}, {37, 29, 53}, {3, 300, 2}, {5, 4, 0}, {0, 4, 5}, {5, 0, 4}, {2, 3, 100000},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int variant = 0; variant < 4; variant++) {
            product p = make_product(variant & 1 ? TRP_F64 : TRP_F32, shapes[i][0], shapes[i][1],
                                     shapes[i][2], variant & 2);
            check_matmul_result result = check(&p);
            assert_int_equal(result.wrong, 0);
            assert_int_equal(result.rows, shapes[i][0]);
            assert_true(result.of_bound <= 1);
            drop(&p);
        }
    }
}

static void one_wrong_element_is_found(void **state)
{
    (void)state;
    for (trp_dtype type = TRP_F64; type <= TRP_F32; type++) {
        product p = make_product(type, 40, 150, 60, true);
        for (uint64_t i = 0; i < 40; i += 13) {
            uint64_t j = 149 - 3 * i;
            double right = get(&p.c, i, j);
            set(&p.c, i, j, right + (type == TRP_F64 ? 1e-12 : 1e-3));
            check_matmul_result result = check(&p);
            assert_int_equal(result.wrong, 1);
            assert_int_equal(result.row, i);
            assert_int_equal(result.col, j);
            assert_true(fabs(result.expected - right) < 1e-4);
            set(&p.c, i, j, NAN);
            assert_int_equal(check(&p).wrong, 1);
            set(&p.c, i, j, INFINITY);
            assert_int_equal(check(&p).wrong, 1);
            set(&p.c, i, j, right);
        }
        assert_int_equal(check(&p).wrong, 0);
        memset(p.c.data, 0, p.c.shape.data_bytes); /* a result that was never written */
        assert_true(check(&p).wrong > 5000);
        drop(&p);
    }
}

static void the_other_order_is_found(void **state)
{
    (void)state;
    product p = make_product(TRP_F32, 30, 30, 30, false);
    p.b.shape.fortran_order = !p.b.shape.fortran_order;
    assert_true(check(&p).wrong > 100);
    drop(&p);
}

static void what_is_not_finite_is_compared_too(void **state)
{
    (void)state;
    product p = make_product(TRP_F32, 4, 5, 6, false);
    set(&p.a, 1, 2, NAN);
    set(&p.a, 2, 3, INFINITY);
    multiply(&p);
    assert_int_equal(check(&p).wrong, 0);
    set(&p.c, 1, 0, 1); /* must be NaN */
    set(&p.c, 2, 0, 1); /* must not be finite */
    assert_int_equal(check(&p).wrong, 2);
    drop(&p);
}

static void overflow_and_underflow_pass(void **state)
{
    (void)state;
    product p = make_product(TRP_F32, 2, 2, 2, false);
    set(&p.a, 0, 0, 3e38);
    set(&p.b, 0, 0, 3e38);
    set(&p.a, 1, 0, 1e-30);
    set(&p.a, 1, 1, 0);
    set(&p.b, 0, 1, 1e-30);
    multiply(&p);
    assert_true(isinf(get(&p.c, 0, 0)));
    assert_true(get(&p.c, 1, 1) == 0);
    assert_int_equal(check(&p).wrong, 0);
    drop(&p);
}

/* More rows than the steps allow: a sample that holds the first and the last one. */
static void large_products_are_sampled(void **state)
{
    (void)state;
    product p = make_product(TRP_F32, 1000, 20, 10, false);
    check_matmul_result result = check_within(&p, 20 * 10 * 101);
    assert_int_equal(result.rows, 101);
    assert_int_equal(result.wrong, 0);
    set(&p.c, 0, 7, 100);
    set(&p.c, 999, 7, 100);
    assert_int_equal(check_within(&p, 20 * 10 * 101).wrong, 2);
    assert_int_equal(check_within(&p, 1).rows, 1);
    drop(&p);
}

UNIT_MAIN(UNIT(right_products_pass), UNIT(one_wrong_element_is_found),
          UNIT(the_other_order_is_found), UNIT(what_is_not_finite_is_compared_too),
          UNIT(overflow_and_underflow_pass), UNIT(large_products_are_sampled))
