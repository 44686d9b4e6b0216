#include "matrix.h"

#include "ui/ui.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

matrix_text matrix_describe(const matrix *m)
{
    matrix_text text;
    const char *type = trp_dtype_name(m->shape.type);
    if (m->shape.vector)
        snprintf(text.s, sizeof text.s, "%" PRIu64 " %s", m->shape.rows, type);
    else
        snprintf(text.s, sizeof text.s, "%" PRIu64 " x %" PRIu64 " %s", m->shape.rows,
                 m->shape.cols, type);
    return text;
}

trp_io_file *matrix_open(const char *path, matrix *m)
{
    memset(m, 0, sizeof *m);
    trp_io_file *file = array_file_open_matrix(path, &m->shape);
    trp_dtype type = m->shape.type;
    if (!file || (!m->shape.vector && (type == TRP_F32 || type == TRP_F64)))
        return file;
    ui_error("%s: expected a matrix of f32 or f64, got %s", path, matrix_describe(m).s);
    trp_io_close(file);
    return NULL;
}

bool matrix_shape(matrix *m, trp_dtype type, uint64_t rows, uint64_t cols)
{
    uint64_t bytes;
    memset(m, 0, sizeof *m);
    m->shape = (file_matrix){.type = type, .rows = rows, .cols = cols};
    if (__builtin_mul_overflow(rows, cols, &bytes) ||
        __builtin_mul_overflow(bytes, trp_dtype_bits(type) / 8, &bytes) || bytes > INT64_MAX) {
        ui_error("a result of %s is too large for any memory", matrix_describe(m).s);
        return false;
    }
    m->shape.data_bytes = bytes;
    return true;
}

bool matrix_place(struct run *run, matrix *m)
{
    uint64_t bytes = m->shape.data_bytes;
    if (bytes == 0)
        return true;
    return run_check(trp_buffer_create(run->device, bytes, &m->buffer), "getting device memory") &&
           run_check(trp_host_alloc(run->device, bytes, &m->data), "getting host memory");
}

bool matrix_read_file(matrix *m, trp_io_file *file)
{
    return m->shape.data_bytes == 0 || array_file_read(file, m->data, m->shape.data_bytes);
}

void matrix_release(struct run *run, matrix *m)
{
    if (m->buffer.id)
        run_check(trp_buffer_free(run->device, m->buffer), "giving device memory back");
    if (m->data)
        run_check(trp_host_free(run->device, m->data), "giving host memory back");
    m->buffer.id = 0;
    m->data = NULL;
}

bool matrix_upload(struct run *run, const matrix *m)
{
    return run_upload(run, m->buffer, m->data, m->shape.data_bytes, "a matrix");
}

bool matrix_download(struct run *run, const matrix *m)
{
    return run_download(run, m->buffer, m->data, m->shape.data_bytes);
}

matrix matrix_transposed(const matrix *m)
{
    matrix t = *m;
    t.shape.rows = m->shape.cols;
    t.shape.cols = m->shape.rows;
    t.shape.fortran_order = !m->shape.fortran_order;
    return t;
}

/* Returns element i of stream `seed`: SplitMix64 (Steele, Lea, Flood 2014), its upper 53 bits as a
 * fraction. */
static double random_element(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-52 - 1.0;
}

void matrix_randomise(const file_matrix *shape, void *data, uint64_t seed)
{
    uint64_t count = shape->rows * shape->cols;
    for (uint64_t i = 0; i < count; i++) {
        if (shape->type == TRP_F64)
            ((double *)data)[i] = random_element(seed, i);
        else
            ((float *)data)[i] = (float)random_element(seed, i);
    }
}

static trp_transpose as_stored(const matrix *m)
{
    return m->shape.fortran_order ? TRP_T : TRP_N;
}

bool matrix_multiply(struct run *run, const matrix *a, const matrix *b, const matrix *c,
                     trp_compute compute)
{
    if (c->shape.data_bytes == 0)
        return true;
    trp_gemm_request request = {
        .type = c->shape.type,
        .compute = compute,
        .order = TRP_ROW_MAJOR,
        .trans_a = as_stored(a),
        .trans_b = as_stored(b),
        .m = (int64_t)c->shape.rows,
        .n = (int64_t)c->shape.cols,
        .k = (int64_t)a->shape.cols,
        .a = a->buffer,
        .b = b->buffer,
        .c = c->buffer,
    };
    trp_completion done = {0};
    return run_await(trp_gemm(run->actor, &request, &done), &done, "the matrix product");
}
