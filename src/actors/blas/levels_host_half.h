/* Vectors of f16 and bf16 on the host, computed in f32; each element and each result is rounded
 * once. Included only by levels_host.c. */

/* `index` counts elements in memory. */
static float half_get(const operation *o, const void *vector, int64_t index)
{
    uint16_t bits = ((const uint16_t *)vector)[index];
    return o->l.type == TRP_F16 ? trp__f16_to_f32(bits) : trp__bf16_to_f32(bits);
}

static void half_put(const operation *o, void *vector, int64_t index, float value)
{
    ((uint16_t *)vector)[index] =
        o->l.type == TRP_F16 ? trp__f32_to_f16(value) : trp__f32_to_bf16(value);
}

/* Returns the index of element 0, which is the last in memory if the increment is negative. */
static int64_t half_first(const operation *o, int operand)
{
    int64_t increment = o->l.ld[operand];
    return increment < 0 ? (o->l.n - 1) * -increment : 0;
}

static void axpy_half(const operation *o)
{
    int64_t x = half_first(o, TRP__BLAS_X), y = half_first(o, TRP__BLAS_Y);
    float alpha = real_alpha_f32(o);
    for (int64_t i = 0; alpha != 0 && i < o->l.n; i++) {
        half_put(o, o->y, y, alpha * half_get(o, o->x, x) + half_get(o, o->y, y));
        x += o->l.ld[TRP__BLAS_X];
        y += o->l.ld[TRP__BLAS_Y];
    }
}

static void scal_half(const operation *o)
{
    float alpha = real_alpha_f32(o);
    for (int64_t i = 0; i < o->l.n; i++) {
        int64_t x = i * o->l.ld[TRP__BLAS_X];
        half_put(o, o->x, x, alpha * half_get(o, o->x, x));
    }
}

/* c and s have the type of the vectors, as in cuBLAS. A double is rounded to it in one step, since
 * f32 between the two would round twice. */
static void rot_half(const operation *o)
{
    int64_t x = half_first(o, TRP__BLAS_X), y = half_first(o, TRP__BLAS_Y);
    uint16_t (*const narrow)(double) = o->l.type == TRP_F16 ? trp__f64_to_f16 : trp__f64_to_bf16;
    const uint16_t given[2] = {narrow(o->l.alpha[0]), narrow(o->l.beta[0])};
    const void *scalars = o->scalars ? o->scalars : given;
    float c = half_get(o, scalars, 0), s = half_get(o, scalars, 1);
    for (int64_t i = 0; i < o->l.n; i++) {
        float old_x = half_get(o, o->x, x), old_y = half_get(o, o->y, y);
        half_put(o, o->x, x, c * old_x + s * old_y);
        half_put(o, o->y, y, c * old_y - s * old_x);
        x += o->l.ld[TRP__BLAS_X];
        y += o->l.ld[TRP__BLAS_Y];
    }
}

static void dot_half(const operation *o)
{
    int64_t x = half_first(o, TRP__BLAS_X), y = half_first(o, TRP__BLAS_Y);
    float sum = 0;
    for (int64_t i = 0; i < o->l.n; i++) {
        sum += half_get(o, o->x, x) * half_get(o, o->y, y);
        x += o->l.ld[TRP__BLAS_X];
        y += o->l.ld[TRP__BLAS_Y];
    }
    half_put(o, o->result, 0, sum);
}

/* The sum is a double, since squares of bf16 exceed the range of f32. */
static void nrm2_half(const operation *o)
{
    double sum = 0;
    for (int64_t i = 0; i < o->l.n; i++) {
        double element = half_get(o, o->x, i * o->l.ld[TRP__BLAS_X]);
        sum += element * element;
    }
    half_put(o, o->result, 0, (float)sqrt(sum));
}
