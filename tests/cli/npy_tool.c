/* Makes npy files for the tests of the command, and checks products: a plain program of its own, so
 * that a mistake in cli/ can't hide in both.
 *
 *   npy_tool make FILE f32|f64 C|F ROWS COLS SEED    random elements in [-1, 1)
 *   npy_tool product A.npy B.npy C.npy               exit 0 if C is A B and in C order */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct matrix {
    size_t rows, cols;
    bool fortran, f64;
    double *data; /* row after row, whatever the file's order */
} matrix;

static void die(const char *what)
{
    fprintf(stderr, "npy_tool: %s\n", what);
    exit(2);
}

static double *allocate(size_t rows, size_t cols)
{
    double *data = calloc(rows * cols + 1, sizeof *data);
    if (!data)
        die("out of memory");
    return data;
}

/* Place of element i of the file among data. */
static size_t place(const matrix *m, size_t i)
{
    return m->fortran ? i % m->rows * m->cols + i / m->rows : i;
}

static void write_matrix(const char *path, const matrix *m)
{
    char header[128];
    FILE *f = fopen(path, "wb");
    if (!f)
        die(path);
    int n = snprintf(header, sizeof header,
                     "{'descr': '<f%d', 'fortran_order': %s, 'shape': (%zu, %zu), }",
                     m->f64 ? 8 : 4, m->fortran ? "True" : "False", m->rows, m->cols);
    fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, f);
    fprintf(f, "%s%*s\n", header, 117 - n, "");
    for (size_t i = 0; i < m->rows * m->cols; i++) {
        double d = m->data[place(m, i)];
        float s = (float)d;
        fwrite(m->f64 ? (void *)&d : (void *)&s, m->f64 ? 8 : 4, 1, f);
    }
    if (fclose(f) != 0)
        die(path);
}

static matrix read_matrix(const char *path)
{
    unsigned char head[10];
    char header[65536] = "";
    matrix m = {0};
    FILE *f = fopen(path, "rb");
    if (!f || fread(head, 1, 10, f) != 10 || memcmp(head, "\x93NUMPY\x01", 7) != 0)
        die(path);
    if (fread(header, 1, (size_t)head[8] + (size_t)head[9] * 256, f) == 0)
        die(path);
    const char *shape = strstr(header, "'shape': (");
    if (!shape || sscanf(shape, "'shape': (%zu, %zu)", &m.rows, &m.cols) != 2)
        die("no shape");
    m.fortran = strstr(header, "'fortran_order': True") != NULL;
    m.f64 = strstr(header, "'<f8'") != NULL;
    m.data = allocate(m.rows, m.cols);
    for (size_t i = 0; i < m.rows * m.cols; i++) {
        double d = 0;
        float s = 0;
        if (fread(m.f64 ? (void *)&d : (void *)&s, m.f64 ? 8 : 4, 1, f) != 1)
            die("too short");
        m.data[place(&m, i)] = m.f64 ? d : (double)s;
    }
    if (fgetc(f) != EOF)
        die("too long");
    fclose(f);
    return m;
}

static int check_product(const matrix *a, const matrix *b, const matrix *c)
{
    double limit = (a->f64 ? 1e-14 : 1e-5) * sqrt((double)a->cols + 1);
    if (c->rows != a->rows || c->cols != b->cols || c->f64 != a->f64 || c->fortran)
        die("the result has another shape, type or order");
    for (size_t i = 0; i < c->rows; i++) {
        for (size_t j = 0; j < c->cols; j++) {
            double sum = 0, got = c->data[i * c->cols + j];
            for (size_t p = 0; p < a->cols; p++)
                sum += a->data[i * a->cols + p] * b->data[p * b->cols + j];
            if (!(fabs(sum - got) <= limit)) {
                fprintf(stderr, "c[%zu][%zu] is %g, expected %g\n", i, j, got, sum);
                return 1;
            }
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 8 && !strcmp(argv[1], "make")) {
        matrix m = {.rows = strtoul(argv[5], NULL, 10), .cols = strtoul(argv[6], NULL, 10)};
        m.f64 = !strcmp(argv[3], "f64");
        m.fortran = !strcmp(argv[4], "F");
        m.data = allocate(m.rows, m.cols);
        srand48(strtol(argv[7], NULL, 10));
        for (size_t i = 0; i < m.rows * m.cols; i++)
            m.data[i] = drand48() * 2 - 1;
        write_matrix(argv[2], &m);
        free(m.data);
        return 0;
    }
    if (argc == 5 && !strcmp(argv[1], "product")) {
        matrix a = read_matrix(argv[2]), b = read_matrix(argv[3]), c = read_matrix(argv[4]);
        int status = check_product(&a, &b, &c);
        free(a.data);
        free(b.data);
        free(c.data);
        return status;
    }
    die("wrong usage");
}
