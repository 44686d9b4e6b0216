/* Makes npy files for the tests of the command, and checks products: a plain program of its own, so
 * that a mistake in cli/ can't hide in both.
 *
 *   npy_tool array FILE TYPE C|F DIM,... SEED       an array of any shape with random elements
 *   npy_tool shape FROM TO DIM,... C|F              the same elements as they lie, of another shape
 *   npy_tool part FROM TO ROW ROWS COL COLS         a part of a matrix, in C order
 *   npy_tool near A.npy B.npy                       exit 0 if they differ in the order of sums only
 *   npy_tool matmul a=FILE b=FILE d=FILE KEY=VALUE...
 *       exit 0 if D is what `troupe matmul` should have made. Keys, as its options: type, type_b,
 *       type_d, trans_a, trans_b, alpha, beta, add, bias, activation, aux, gradient (d:FILE ...),
 *       scale_a, scale_b (a number or a file), scale_d; loose=1: with inputs of tf32 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { F64, F32, F16, BF16, E4M3, E5M2, I8, I32, U8, C64, C128, TYPES };

/* `descr` of those that a file can have; exponent and fraction bits of those that are rounded. */
static const struct {
    const char *name, *descr;
    int size, exponent, fraction;
    double largest; /* 0: infinities are beyond */
} types[TYPES] = {
    [F64] = {"f64", "<f8", 8, 11, 52, 0},     [F32] = {"f32", "<f4", 4, 8, 23, 0},
    [F16] = {"f16", "<f2", 2, 5, 10, 0},      [BF16] = {"bf16", NULL, 0, 8, 7, 0},
    [E4M3] = {"f8e4m3", NULL, 0, 4, 3, 448},  [E5M2] = {"f8e5m2", NULL, 0, 5, 2, 57344},
    [I8] = {"i8", "|i1", 1, 0, 0, 0},         [I32] = {"i32", "<i4", 4, 0, 0, 0},
    [U8] = {"u8", "|u1", 1, 0, 0, 0},         [C64] = {"c64", "<c8", 8, 8, 23, 0},
    [C128] = {"c128", "<c16", 16, 11, 52, 0},
};

typedef struct number {
    double re, im;
} number;

typedef struct matrix {
    size_t rows, cols;
    bool fortran, vector;
    int type;
    number *data; /* row after row, whatever the file's order */
} matrix;

static void die(const char *what)
{
    fprintf(stderr, "npy_tool: %s\n", what);
    exit(2);
}

static int type_named(const char *name)
{
    for (int i = 0; i < TYPES; i++)
        if (!strcmp(types[i].name, name))
            return i;
    die(name);
    return 0;
}

static bool is_complex(int type)
{
    return type == C64 || type == C128;
}

static bool is_fp8(int type)
{
    return type == E4M3 || type == E5M2;
}

static number *allocate(size_t rows, size_t cols)
{
    number *data = calloc(rows * cols + 1, sizeof *data);
    if (!data)
        die("out of memory");
    return data;
}

/* --- numbers --- */

/* The nearest value of a type, ties to even: x in units of the last place, as an integer. */
static double rounded(double x, int type)
{
    if (x == 0 || !isfinite(x) || type == F64 || type == C128)
        return x;
    if (type == I8)
        return fmax(-128, fmin(127, nearbyint(x)));
    if (type == I32 || type == U8)
        return nearbyint(x);
    int bias = (1 << (types[type].exponent - 1)) - 1, exponent;
    frexp(x, &exponent);
    exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    double unit = ldexp(1, exponent - types[type].fraction), r = nearbyint(x / unit) * unit;
    double largest = types[type].largest;
    if (largest > 0)
        return fmax(-largest, fmin(largest, r));
    return fabs(r) < ldexp(1, bias + 1) ? r : copysign(INFINITY, r);
}

static double f16_value(unsigned bits)
{
    int exponent = (int)(bits >> 10 & 31);
    double fraction = bits & 1023;
    double size = exponent == 31  ? (fraction > 0 ? NAN : INFINITY)
                  : exponent == 0 ? ldexp(fraction, -24)
                                  : ldexp(1024 + fraction, exponent - 25);
    return bits & 0x8000 ? -size : size;
}

/* By bisection. */
static uint16_t f16_bits(double x)
{
    unsigned low = 0, high = 0x7c01;
    double size = fabs(rounded(x, F16));
    while (high - low > 1)
        *(f16_value((low + high) / 2) <= size ? &low : &high) = (low + high) / 2;
    return (uint16_t)(low | (signbit(x) ? 0x8000 : 0));
}

/* --- files --- */

/* Place of element i of the file among data. */
static size_t place(const matrix *m, size_t i)
{
    return m->fortran ? i % m->rows * m->cols + i / m->rows : i;
}

static void put(FILE *f, int type, double x)
{
    float f32 = (float)x;
    uint16_t f16 = type == F16 ? f16_bits(x) : 0;
    int32_t i32 = type == I32 || type == I8 || type == U8 ? (int32_t)x : 0;
    const void *from = type == F64 || type == C128  ? (const void *)&x
                       : type == F32 || type == C64 ? (const void *)&f32
                       : type == F16                ? (const void *)&f16
                                                    : (const void *)&i32;
    fwrite(from, (size_t)types[type].size / (is_complex(type) ? 2 : 1), 1, f);
}

static double get(FILE *f, int type)
{
    double f64 = 0;
    float f32 = 0;
    uint16_t f16 = 0;
    int32_t i32 = 0;
    int8_t i8 = 0;
    uint8_t u8 = 0;
    void *to = type == F64 || type == C128  ? (void *)&f64
               : type == F32 || type == C64 ? (void *)&f32
               : type == F16                ? (void *)&f16
               : type == I32                ? (void *)&i32
               : type == I8                 ? (void *)&i8
                                            : (void *)&u8;
    if (fread(to, (size_t)types[type].size / (is_complex(type) ? 2 : 1), 1, f) != 1)
        die("too short");
    return f64 + (double)f32 + f16_value(f16) + i32 + i8 + u8;
}

static FILE *make_file(const char *path)
{
    FILE *f = fopen(path, "wb");
    if (!f)
        die(path);
    return f;
}

/* The header; returns the number of elements of "2,3,4". */
static size_t put_header(FILE *f, int type, const char *order, const char *dims)
{
    char header[118], shape[64] = "";
    size_t count = 1, used = 0;
    for (const char *at = dims; *at; at += *at == ',') {
        char *end;
        size_t dim = strtoul(at, &end, 10);
        used += (size_t)snprintf(shape + used, sizeof shape - used, "%zu, ", dim);
        if (end == at || used >= sizeof shape)
            die(dims);
        count *= dim;
        at = end;
    }
    shape[strchr(dims, ',') ? used - 2 : used - 1] = '\0'; /* "3," is one dimension */
    const int n =
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }",
                 types[type].descr, strcmp(order, "F") == 0 ? "True" : "False", shape);
    fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, f);
    fprintf(f, "%s%*s\n", header, 117 - n, "");
    return count;
}

static void write_matrix(const char *path, const matrix *m)
{
    char dims[64];
    FILE *f = make_file(path);
    snprintf(dims, sizeof dims, m->vector ? "%zu" : "%zu,%zu", m->rows, m->cols);
    put_header(f, m->type, m->fortran ? "F" : "C", dims);
    for (size_t i = 0; i < m->rows * m->cols; i++) {
        put(f, m->type, m->data[place(m, i)].re);
        if (is_complex(m->type))
            put(f, m->type, m->data[place(m, i)].im);
    }
    if (fclose(f) != 0)
        die(path);
}

static int type_in(const char *header)
{
    for (int i = 0; i < TYPES; i++) {
        char quoted[16];
        snprintf(quoted, sizeof quoted, "'%s'", types[i].descr ? types[i].descr : "none");
        if (strstr(header, quoted))
            return i;
    }
    die("an unknown dtype");
    return 0;
}

enum { HEADER_SIZE = 65536 + 1 };

/* A file at its first element; its header as a string. */
static FILE *open_file(const char *path, char header[HEADER_SIZE])
{
    unsigned char head[10];
    FILE *f = fopen(path, "rb");
    if (!f || fread(head, 1, 10, f) != 10 || memcmp(head, "\x93NUMPY\x01", 7) != 0)
        die(path);
    size_t bytes = (size_t)head[8] + (size_t)head[9] * 256;
    if (fread(header, 1, bytes, f) != bytes || bytes == 0)
        die(path);
    header[bytes] = '\0';
    return f;
}

static bool at_end(FILE *f)
{
    int c = fgetc(f);
    if (c != EOF)
        ungetc(c, f);
    return c == EOF;
}

/* Whether two files have the same header, and elements that differ by no more than sums of another
 * order do: eight units in the last place of the largest. */
static bool are_near(const char *left, const char *right)
{
    char header[2][HEADER_SIZE];
    FILE *f[2] = {open_file(left, header[0]), open_file(right, header[1])};
    int type = type_in(header[0]);
    double largest = 0, difference = 0;
    bool same = strcmp(header[0], header[1]) == 0;
    while (same && !at_end(f[0]) && !at_end(f[1])) {
        double a = get(f[0], type), b = get(f[1], type);
        same = isnan(a) == isnan(b);
        largest = fmax(largest, fabs(b));
        difference = a == b ? difference : fmax(difference, fabs(a - b));
    }
    same = same && at_end(f[0]) && at_end(f[1]);
    fclose(f[0]);
    fclose(f[1]);
    bool whole = type == I8 || type == I32 || type == U8;
    return same && difference <= (whole ? 0 : ldexp(8 * largest, -types[type].fraction - 1));
}

static matrix read_matrix(const char *path)
{
    char header[HEADER_SIZE];
    matrix m = {0};
    FILE *f = open_file(path, header);
    const char *shape = strstr(header, "'shape': (");
    int dims = shape ? sscanf(shape, "'shape': (%zu, %zu)", &m.rows, &m.cols) : 0;
    if (dims < 1)
        die("no shape");
    m.vector = dims == 1;
    m.cols = m.vector ? 1 : m.cols;
    m.fortran = strstr(header, "'fortran_order': True") != NULL;
    m.type = type_in(header);
    m.data = allocate(m.rows, m.cols);
    for (size_t i = 0; i < m.rows * m.cols; i++) {
        number *to = &m.data[place(&m, i)];
        to->re = get(f, m.type);
        to->im = is_complex(m.type) ? get(f, m.type) : 0;
    }
    if (!at_end(f))
        die("too long");
    fclose(f);
    return m;
}

/* --- arrays of any shape: elements are written as they lie --- */

static void make_array(char **argv)
{
    FILE *f = make_file(argv[0]);
    int type = type_named(argv[1]);
    size_t count = put_header(f, type, argv[2], argv[3]);
    double range = type == I8 || type == I32 || type == U8 ? 100 : 1;
    srand48(strtol(argv[4], NULL, 10));
    for (size_t i = 0; i < count * (is_complex(type) ? 2 : 1); i++)
        put(f, type, rounded((drand48() * 2 - (type == U8 ? 0 : 1)) * range, type));
    if (fclose(f) != 0)
        die(argv[0]);
}

static void reshape(char **argv)
{
    char header[HEADER_SIZE];
    FILE *from = open_file(argv[0], header), *to = make_file(argv[1]);
    size_t count =
        put_header(to, type_in(header), argv[3], argv[2]) * (size_t)types[type_in(header)].size;
    for (size_t i = 0; i < count; i++) {
        int c = fgetc(from);
        if (c == EOF)
            die("too short");
        fputc(c, to);
    }
    if (!at_end(from))
        die("too long");
    fclose(from);
    if (fclose(to) != 0)
        die(argv[1]);
}

static void part(char **argv)
{
    matrix from = read_matrix(argv[0]), to = {.type = from.type};
    size_t row = strtoul(argv[2], NULL, 10), col = strtoul(argv[4], NULL, 10);
    to.rows = strtoul(argv[3], NULL, 10);
    to.cols = strtoul(argv[5], NULL, 10);
    if (row + to.rows > from.rows || col + to.cols > from.cols)
        die("no such part");
    to.data = allocate(to.rows, to.cols);
    for (size_t i = 0; i < to.rows * to.cols; i++)
        to.data[i] = from.data[(row + i / to.cols) * from.cols + col + i % to.cols];
    write_matrix(argv[1], &to);
    free(from.data);
    free(to.data);
}

/* --- products --- */

static int keys;
static char **key_values;

static const char *value_of(const char *key)
{
    for (int i = 0; i < keys; i++) {
        size_t n = strlen(key);
        if (!strncmp(key_values[i], key, n) && key_values[i][n] == '=')
            return key_values[i] + n + 1;
    }
    return NULL;
}

static bool is(const char *key, const char *value)
{
    const char *got = value_of(key);
    return got && !strcmp(got, value);
}

static number scalar_of(const char *key, double missing)
{
    number x = {missing, 0};
    const char *text = value_of(key);
    if (text)
        sscanf(text, "%lf,%lf", &x.re, &x.im);
    return x;
}

static number product_of(number x, number y)
{
    return (number){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

/* op(M) of a file, rounded to a type. */
static matrix factor_of(const char *key, const char *trans_key, int type)
{
    matrix m = read_matrix(value_of(key)), t = m;
    bool swap = is(trans_key, "t") || is(trans_key, "c");
    t.data = allocate(m.rows, m.cols);
    t.rows = swap ? m.cols : m.rows;
    t.cols = swap ? m.rows : m.cols;
    for (size_t i = 0; i < t.rows; i++) {
        for (size_t j = 0; j < t.cols; j++) {
            number x = m.data[swap ? j * m.cols + i : i * m.cols + j];
            x = (number){rounded(x.re, type), is(trans_key, "c") ? -x.im : x.im};
            t.data[i * t.cols + j] = x;
        }
    }
    free(m.data);
    return t;
}

/* The factor of line i. */
static double scale_of(const char *key, const matrix *file, size_t i)
{
    return file->data ? file->data[i].re : value_of(key) ? (double)strtof(value_of(key), NULL) : 1;
}

static matrix optional(const char *key)
{
    const char *text = value_of(key);
    char *end = NULL;
    if (text)
        strtod(text, &end);
    return text && (*end || end == text) ? read_matrix(text) : (matrix){0};
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
    double h = 1e-5; /* a difference, unlike the formula that is tested */
    return (gelu(x + h) - gelu(x - h)) / (2 * h);
}

/* The product that is checked. */
static matrix in_a, in_b, c, bias, aux, scales_a, scales_b, d;
static int type, type_d, type_v;
static int failures;

static void expect(const char *what, size_t i, size_t j, double got, double expected, double slack,
                   int rounded_to)
{
    double unit = ldexp(1, -types[rounded_to].fraction - 1);
    if (rounded_to == I8 || rounded_to == I32)
        unit = 0;
    int bias_of = (1 << (types[rounded_to].exponent ? types[rounded_to].exponent - 1 : 0)) - 1;
    double least = rounded_to == I8    ? 0.5
                   : rounded_to == I32 ? 0
                                       : ldexp(1, -bias_of - types[rounded_to].fraction);
    double limit = slack + unit * (fabs(expected) + slack) + least;
    if (types[rounded_to].largest > 0)
        expected = fmax(-types[rounded_to].largest, fmin(types[rounded_to].largest, expected));
    if (rounded_to == I8)
        expected = fmax(-128, fmin(127, expected));
    if (got != rounded(got, rounded_to) || !(fabs(got - expected) <= limit)) {
        if (failures++ < 5)
            fprintf(stderr, "%s[%zu][%zu] is %.9g, expected %.9g within %.2g\n", what, i, j, got,
                    expected, limit);
    }
}

static int aux_bit(size_t i, size_t j)
{
    return (int)aux.data[i * aux.cols + j / 8].re >> j % 8 & 1;
}

/* One element of D before its factor; mistakes on the way are reported. */
static number element(size_t i, size_t j, double *slack)
{
    number sum = {0, 0}, alpha = scalar_of("alpha", 1), beta = scalar_of("beta", 1);
    double terms = 0;
    for (size_t p = 0; p < in_a.cols; p++) {
        number x = product_of(in_a.data[i * in_a.cols + p], in_b.data[p * in_b.cols + j]);
        sum.re += x.re;
        sum.im += x.im;
        terms += hypot(x.re, x.im);
    }
    double s = scale_of("scale_a", &scales_a, i) * scale_of("scale_b", &scales_b, j);
    number x = product_of(alpha, (number){sum.re * s, sum.im * s});
    terms *= fabs(s) * hypot(alpha.re, alpha.im);
    if (c.data) {
        number y = c.data[i * c.cols + j];
        y = product_of(
            beta, (number){rounded(y.re, type_d == E4M3 || type_d == E5M2 ? BF16 : type_d), y.im});
        x.re += y.re;
        x.im += y.im;
        terms += hypot(y.re, y.im);
    }
    if (bias.data)
        x.re += rounded(bias.data[j].re, type_v);
    terms += fabs(x.re);
    *slack = terms * (value_of("loose")             ? 2e-3
                      : type == F64 || type == C128 ? 1e-14
                      : type_d == I32               ? 0
                                                    : 3e-6);
    return x;
}

static double activated(size_t i, size_t j, double x, double slack)
{
    if (aux.data && is("activation", "gelu"))
        expect("aux", i, j, aux.data[i * aux.cols + j].re, x, slack,
               is_fp8(type_d) ? type_v : type_d);
    if (aux.data && is("activation", "relu") && fabs(x) > slack && aux_bit(i, j) != (x > 0))
        expect("aux", i, j, aux_bit(i, j), x > 0, 0, I32);
    if (is("activation", "relu"))
        return x > 0 ? x : 0;
    if (is("activation", "gelu"))
        return gelu(x);
    if (is("activation", "silu"))
        return x / (1 + exp(-x));
    if (is("activation", "drelu"))
        return aux_bit(i, j) ? x : 0;
    if (is("activation", "dgelu"))
        return x *
               gelu_slope(rounded(aux.data[i * aux.cols + j].re, is_fp8(type_d) ? type_v : type_d));
    return x;
}

/* `sizes`: sums of absolute values. */
static void check_gradient(const double *column_sums, double *sizes)
{
    const char *text = value_of("gradient");
    if (!text)
        return;
    matrix g = read_matrix(text + 2);
    size_t count = text[0] == 'a' ? d.rows : d.cols;
    if (!g.vector || g.rows != count)
        die("the gradient has another shape");
    for (size_t i = 0; i < count; i++) {
        double sum = text[0] == 'd' ? column_sums[i] : 0;
        for (size_t p = 0; text[0] != 'd' && p < in_a.cols; p++) {
            double x =
                text[0] == 'a' ? in_a.data[i * in_a.cols + p].re : in_b.data[p * in_b.cols + i].re;
            sum += x;
            sizes[i] = (p == 0 ? 0 : sizes[i]) + fabs(x);
        }
        double slack = sizes[i] * (ldexp(1, -types[type_d].fraction - 1) + 4e-6);
        expect("gradient", i, 0, g.data[i].re, sum, slack, type_v);
    }
    free(g.data);
}

static int check_matmul(void)
{
    matrix file = read_matrix(value_of("a"));
    type = value_of("type") ? type_named(value_of("type")) : file.type;
    free(file.data);
    int type_b = value_of("type_b") ? type_named(value_of("type_b")) : type;
    type_d = value_of("type_d") ? type_named(value_of("type_d")) : type == I8 ? I32 : type;
    type_v = is_fp8(type) ? (type_d == F16 ? F16 : BF16) : type_d == I8 ? F32 : type_d;
    in_a = factor_of("a", "trans_a", type);
    in_b = factor_of("b", "trans_b", type_b);
    c = optional("add");
    bias = optional("bias");
    aux = optional("aux");
    scales_a = optional("scale_a");
    scales_b = optional("scale_b");
    d = read_matrix(value_of("d"));
    int in_file = type_d == BF16 || is_fp8(type_d) ? F32 : type_d;
    if (d.rows != in_a.rows || d.cols != in_b.cols || d.type != in_file || d.fortran)
        die("the result has another shape, type or order");
    double *column_sums = calloc(2 * d.cols + d.rows + 1, sizeof *column_sums);
    if (!column_sums)
        die("out of memory");
    double scale_d = scalar_of("scale_d", 1).re;
    for (size_t i = 0; i < d.rows; i++) {
        for (size_t j = 0; j < d.cols; j++) {
            double slack;
            number x = element(i, j, &slack), got = d.data[i * d.cols + j];
            double y = activated(i, j, x.re, slack);
            column_sums[j] += y;
            column_sums[d.cols + j] += fabs(y);
            expect("d", i, j, got.re, y * scale_d, (1.2 * slack + 1e-9 * fabs(y)) * scale_d,
                   type_d);
            if (is_complex(type))
                expect("d.imag", i, j, got.im, x.im, slack, type_d);
        }
    }
    check_gradient(column_sums, column_sums + d.cols);
    free(column_sums);
    matrix *all[] = {&in_a, &in_b, &c, &bias, &aux, &scales_a, &scales_b, &d};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->data);
    return failures > 0;
}

static int matmul(int count, char **values)
{
    keys = count;
    key_values = values;
    return check_matmul();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int arguments;
        void (*run)(char **arguments);
    } makers[] = {{"array", 5, make_array}, {"shape", 4, reshape}, {"part", 6, part}};
    const char *command = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        if (strcmp(command, makers[i].name) == 0 && argc - 2 == makers[i].arguments) {
            makers[i].run(argv + 2);
            return 0;
        }
    }
    if (argc == 4 && strcmp(command, "near") == 0)
        return !are_near(argv[2], argv[3]);
    if (argc > 4 && strcmp(command, "matmul") == 0)
        return matmul(argc - 2, argv + 2);
    die("wrong usage");
}
