/* Operands of the fake cuBLAS's routines, whatever their place, order and triangle. */
#include "support/fake_cuda/cublas/cublas_levels.h"

#include <stdlib.h>

void fake_view_transpose(view *v, bool conj)
{
    int64_t rows = v->rows;
    v->rows = v->columns;
    v->columns = rows;
    v->trans = !v->trans;
    v->conj = v->conj != conj;
}

static char *element(const view *v, int64_t row, int64_t column)
{
    int64_t n = v->rows; /* a packed triangle has as many columns as rows */
    int64_t begin = v->upper ? column * (column + 1) / 2 : column * (2 * n - column - 1) / 2;
    int64_t index = v->packed ? begin + row : row * v->down + column * v->right;
    return v->at + index * (int64_t)fake_bytes(v->type);
}

bool fake_view_outside(const view *v, int64_t row, int64_t column)
{
    return v->structure >= TRIANGLE && (v->upper ? row > column : row < column);
}

fake_number fake_view_get(const view *v, int64_t i, int64_t j)
{
    int64_t row = v->trans ? j : i, column = v->trans ? i : j;
    bool mirrored = fake_view_outside(v, row, column), conj = v->conj;
    if (v->structure == BAND) {
        if (row - column > v->below || column - row > v->above)
            return 0;
        row += v->above - column;
    } else if (v->structure == TRIANGLE) {
        if (mirrored)
            return 0;
        if (v->unit && row == column)
            return 1;
    } else if (mirrored) {
        int64_t other = row;
        row = column;
        column = other;
        conj = conj != (v->structure == HERMITIAN);
    }
    if (v->banded) {
        if (llabs(row - column) > v->below)
            return 0;
        row += v->upper ? v->below - column : -column;
    }
    bool on_diagonal = i == j;
    fake_number value = fake_load(v->type, element(v, row, column));
    if (v->structure == HERMITIAN && on_diagonal)
        return creal(value);
    return conj ? fake_pair(creal(value), -cimag(value)) : value;
}

void fake_view_put(const view *v, int64_t i, int64_t j, fake_number value)
{
    int64_t row = v->trans ? j : i, column = v->trans ? i : j;
    if (fake_view_outside(v, row, column))
        return;
    if (v->structure == HERMITIAN && row == column)
        value = creal(value);
    fake_store(v->type, element(v, row, column), value);
}

fake_number *fake_numbers(int64_t count)
{
    fake_number *numbers = calloc((size_t)count + 1, sizeof *numbers);
    if (!numbers)
        abort();
    return numbers;
}

fake_number *fake_view_pack(const view *v)
{
    fake_number *packed = fake_numbers(v->rows * v->columns), *to = packed;
    for (int64_t j = 0; j < v->columns; j++) {
        for (int64_t i = 0; i < v->rows; i++)
            *to++ = fake_view_get(v, i, j);
    }
    return packed;
}
