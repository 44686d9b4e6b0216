/* GPT-2's training step in plain C, f32: the reference for the host backend's speed. Not part of
 * `troupe bench`; built by hand with the compiler's fastest options:
 *
 *     cc -Ofast -march=native -fopenmp bench/plain/gpt2.c -o gpt2_plain -lm
 *     gpt2_plain CHECKPOINT TOKENS
 *
 * CHECKPOINT: 256 i32, of which numbers 2 to 6 are the longest sequence, the vocabulary, layers,
 * heads and channels; then all weights as f32, in the order of `weight` below, each tensor with
 * its layers one after the other. TOKENS: i32 batch, sequence, steps; then for each step the inputs
 * and the targets, batch x sequence each. Prints each step's loss and milliseconds. AdamW without
 * weight decay, learning rate 1e-3. Linear layers are y = x w^T + b, with w as outputs x inputs. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum weight {
    WTE,
    WPE,
    LN1W,
    LN1B,
    QKVW,
    QKVB,
    PROJW,
    PROJB,
    LN2W,
    LN2B,
    FCW,
    FCB,
    FPW,
    FPB,
    LNFW,
    LNFB,
    WEIGHTS
};

static int T_MOST, V, L, H, C, B, T, N; /* N: tokens per batch */
static float *at[WEIGHTS], *grad_at[WEIGHTS];
static int64_t size[WEIGHTS]; /* elements of one layer */

static float *array(int64_t count)
{
    float *a = calloc((size_t)count, sizeof *a);
    if (!a)
        exit(1);
    return a;
}

static float *w(int which, int layer)
{
    return at[which] + layer * size[which];
}

static float *g(int which, int layer)
{
    return grad_at[which] + layer * size[which];
}

/* Linear layers. */

enum { ROWS = 8 };

static void linear(const float *x, const float *weight, const float *bias, const float *residual,
                   float *y, int in, int out)
{
#pragma omp parallel for
    for (int r = 0; r < N; r += ROWS) {
        for (int o = 0; o < out; o++) {
            float sum[ROWS] = {0};
            for (int i = 0; i < in; i++)
                for (int k = 0; k < ROWS; k++)
                    sum[k] += x[(int64_t)(r + k) * in + i] * weight[(int64_t)o * in + i];
            for (int k = 0; k < ROWS; k++) {
                const int64_t to = (int64_t)(r + k) * out + o;
                y[to] = sum[k] + (bias ? bias[o] : 0) + (residual ? residual[to] : 0);
            }
        }
    }
}

static void linear_back(const float *dy, const float *x, const float *weight, float *dx,
                        float *dweight, float *dbias, int in, int out)
{
#pragma omp parallel for
    for (int r = 0; r < N; r++) {
        float *to = dx + (int64_t)r * in;
        memset(to, 0, (size_t)in * sizeof *to);
        for (int o = 0; o < out; o++) {
            const float d = dy[(int64_t)r * out + o], *row = weight + (int64_t)o * in;
            for (int i = 0; i < in; i++)
                to[i] += d * row[i];
        }
    }
#pragma omp parallel for
    for (int o = 0; o < out; o++) {
        float *to = dweight + (int64_t)o * in, sum = 0;
        for (int r = 0; r < N; r++) {
            const float d = dy[(int64_t)r * out + o], *row = x + (int64_t)r * in;
            for (int i = 0; i < in; i++)
                to[i] += d * row[i];
            sum += d;
        }
        if (dbias)
            dbias[o] += sum;
    }
}

/* Layer norm. */

static void norm(const float *x, const float *scale, const float *bias, float *y, float *mean,
                 float *inverse)
{
#pragma omp parallel for
    for (int r = 0; r < N; r++) {
        const float *from = x + (int64_t)r * C;
        float m = 0, v = 0;
        for (int i = 0; i < C; i++)
            m += from[i];
        m /= (float)C;
        for (int i = 0; i < C; i++)
            v += (from[i] - m) * (from[i] - m);
        const float s = 1 / sqrtf(v / (float)C + 1e-5f);
        for (int i = 0; i < C; i++)
            y[(int64_t)r * C + i] = (from[i] - m) * s * scale[i] + bias[i];
        mean[r] = m, inverse[r] = s;
    }
}

/* Sets dx = more + the gradient. */
static void norm_back(const float *dy, const float *x, const float *mean, const float *inverse,
                      const float *scale, const float *more, float *dx, float *dscale, float *dbias)
{
    for (int r = 0; r < N; r++) {
        const float *d = dy + (int64_t)r * C, *from = x + (int64_t)r * C;
        float sum = 0, sum_h = 0;
        for (int i = 0; i < C; i++) {
            const float h = (from[i] - mean[r]) * inverse[r], s = d[i] * scale[i];
            sum += s, sum_h += s * h;
            dscale[i] += d[i] * h, dbias[i] += d[i];
        }
        sum /= (float)C, sum_h /= (float)C;
        for (int i = 0; i < C; i++) {
            const float h = (from[i] - mean[r]) * inverse[r];
            dx[(int64_t)r * C + i] = (more ? more[(int64_t)r * C + i] : 0) +
                                     (d[i] * scale[i] - sum - h * sum_h) * inverse[r];
        }
    }
}

/* Computes attention; p receives T x T weights for each head. */

static void attention(const float *qkv, float *p, float *y)
{
    const int D = C / H;
    const float factor = 1 / sqrtf((float)D);
#pragma omp parallel for collapse(2)
    for (int b = 0; b < B; b++) {
        for (int h = 0; h < H; h++) {
            for (int t = 0; t < T; t++) {
                const float *q = qkv + (int64_t)(b * T + t) * 3 * C + h * D;
                float *row = p + ((int64_t)(b * H + h) * T + t) * T, most = -INFINITY, sum = 0;
                for (int u = 0; u <= t; u++) {
                    const float *k = qkv + (int64_t)(b * T + u) * 3 * C + C + h * D;
                    float s = 0;
                    for (int i = 0; i < D; i++)
                        s += q[i] * k[i];
                    row[u] = s * factor;
                    most = row[u] > most ? row[u] : most;
                }
                for (int u = 0; u <= t; u++)
                    sum += row[u] = expf(row[u] - most);
                float *to = y + (int64_t)(b * T + t) * C + h * D;
                memset(to, 0, (size_t)D * sizeof *to);
                for (int u = 0; u <= t; u++) {
                    const float *v = qkv + (int64_t)(b * T + u) * 3 * C + 2 * C + h * D;
                    row[u] /= sum;
                    for (int i = 0; i < D; i++)
                        to[i] += row[u] * v[i];
                }
            }
        }
    }
}

static void attention_back(const float *dy, const float *qkv, const float *p, float *dqkv)
{
    const int D = C / H;
    const float factor = 1 / sqrtf((float)D);
    memset(dqkv, 0, (size_t)N * 3 * (size_t)C * sizeof *dqkv);
#pragma omp parallel for collapse(2)
    for (int b = 0; b < B; b++) {
        for (int h = 0; h < H; h++) {
            float dp[T];
            for (int t = 0; t < T; t++) {
                const int64_t own = (int64_t)(b * T + t) * 3 * C + h * D;
                const float *d = dy + (int64_t)(b * T + t) * C + h * D;
                const float *row = p + ((int64_t)(b * H + h) * T + t) * T;
                float sum = 0;
                for (int u = 0; u <= t; u++) {
                    const int64_t v = (int64_t)(b * T + u) * 3 * C + 2 * C + h * D;
                    float s = 0;
                    for (int i = 0; i < D; i++) {
                        s += d[i] * qkv[v + i];
                        dqkv[v + i] += row[u] * d[i];
                    }
                    dp[u] = s;
                    sum += s * row[u];
                }
                for (int u = 0; u <= t; u++) {
                    const int64_t k = (int64_t)(b * T + u) * 3 * C + C + h * D;
                    const float s = row[u] * (dp[u] - sum) * factor;
                    for (int i = 0; i < D; i++) {
                        dqkv[own + i] += s * qkv[k + i];
                        dqkv[k + i] += s * qkv[own + i];
                    }
                }
            }
        }
    }
}

static const float ROOT = 0.7978845608028654f, CUBE = 0.044715f;

static void gelu(const float *x, float *y, int64_t count)
{
#pragma omp parallel for
    for (int64_t i = 0; i < count; i++)
        y[i] = 0.5f * x[i] * (1 + tanhf(ROOT * (x[i] + CUBE * x[i] * x[i] * x[i])));
}

static void gelu_back(const float *x, float *dy, int64_t count)
{
#pragma omp parallel for
    for (int64_t i = 0; i < count; i++) {
        const float t = tanhf(ROOT * (x[i] + CUBE * x[i] * x[i] * x[i]));
        dy[i] *= 0.5f * (1 + t) + 0.5f * x[i] * (1 - t * t) * ROOT * (1 + 3 * CUBE * x[i] * x[i]);
    }
}

/* Returns the mean loss and replaces the logits by their gradients. */
static float cross_entropy(float *z, const int *target)
{
    float loss = 0;
#pragma omp parallel for reduction(+ : loss)
    for (int r = 0; r < N; r++) {
        float *row = z + (int64_t)r * V, most = -INFINITY, sum = 0;
        for (int i = 0; i < V; i++)
            most = row[i] > most ? row[i] : most;
        const float picked = row[target[r]] - most;
        for (int i = 0; i < V; i++)
            sum += row[i] = expf(row[i] - most);
        loss += logf(sum) - picked;
        const float factor = 1 / (sum * (float)N);
        for (int i = 0; i < V; i++)
            row[i] *= factor;
        row[target[r]] -= 1 / (float)N;
    }
    return loss / (float)N;
}

static void adamw(float *x, const float *d, float *m, float *v, int64_t count, int step)
{
    const float c1 = 1 - powf(0.9f, (float)step), c2 = 1 - powf(0.999f, (float)step);
#pragma omp parallel for
    for (int64_t i = 0; i < count; i++) {
        m[i] = 0.9f * m[i] + 0.1f * d[i];
        v[i] = 0.999f * v[i] + 0.001f * d[i] * d[i];
        x[i] -= 1e-3f * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
    }
}

typedef struct layer {
    float *ln1, *m1, *r1, *qkv, *p, *att, *res2, *ln2, *m2, *r2, *fch, *act, *res3;
} layer;

static layer *ly;
static float *enc, *lnf, *mf, *rf, *logits, *dn, *dfch, *datt, *dqkv, *dres, *dmid;

static void make_arrays(void)
{
    const int64_t nc = (int64_t)N * C;
    ly = calloc((size_t)L, sizeof *ly);
    for (layer *a = ly; a < ly + L; a++)
        *a = (layer){
            array(nc),     array(N),      array(N),  array(3 * nc), array((int64_t)B * H * T * T),
            array(nc),     array(nc),     array(nc), array(N),      array(N),
            array(4 * nc), array(4 * nc), array(nc)};
    enc = array(nc), lnf = array(nc), mf = array(N), rf = array(N), logits = array((int64_t)N * V);
    dn = array(nc), dfch = array(4 * nc), datt = array(nc), dqkv = array(3 * nc), dres = array(nc),
    dmid = array(nc);
}

static float forward(const int *in, const int *target)
{
    for (int r = 0; r < N; r++)
        for (int i = 0; i < C; i++)
            enc[(int64_t)r * C + i] =
                at[WTE][(int64_t)in[r] * C + i] + at[WPE][(int64_t)(r % T) * C + i];
    for (int l = 0; l < L; l++) {
        layer *a = &ly[l];
        const float *x = l ? ly[l - 1].res3 : enc;
        norm(x, w(LN1W, l), w(LN1B, l), a->ln1, a->m1, a->r1);
        linear(a->ln1, w(QKVW, l), w(QKVB, l), NULL, a->qkv, C, 3 * C);
        attention(a->qkv, a->p, a->att);
        linear(a->att, w(PROJW, l), w(PROJB, l), x, a->res2, C, C);
        norm(a->res2, w(LN2W, l), w(LN2B, l), a->ln2, a->m2, a->r2);
        linear(a->ln2, w(FCW, l), w(FCB, l), NULL, a->fch, C, 4 * C);
        gelu(a->fch, a->act, (int64_t)N * 4 * C);
        linear(a->act, w(FPW, l), w(FPB, l), a->res2, a->res3, 4 * C, C);
    }
    norm(ly[L - 1].res3, at[LNFW], at[LNFB], lnf, mf, rf);
    linear(lnf, at[WTE], NULL, NULL, logits, C, V);
    return cross_entropy(logits, target);
}

static void backward(const int *in)
{
    linear_back(logits, lnf, at[WTE], dn, grad_at[WTE], NULL, C, V);
    norm_back(dn, ly[L - 1].res3, mf, rf, at[LNFW], NULL, dres, grad_at[LNFW], grad_at[LNFB]);
    for (int l = L - 1; l >= 0; l--) {
        layer *a = &ly[l];
        const float *x = l ? ly[l - 1].res3 : enc;
        linear_back(dres, a->act, w(FPW, l), dfch, g(FPW, l), g(FPB, l), 4 * C, C);
        gelu_back(a->fch, dfch, (int64_t)N * 4 * C);
        linear_back(dfch, a->ln2, w(FCW, l), dn, g(FCW, l), g(FCB, l), C, 4 * C);
        norm_back(dn, a->res2, a->m2, a->r2, w(LN2W, l), dres, dmid, g(LN2W, l), g(LN2B, l));
        linear_back(dmid, a->att, w(PROJW, l), datt, g(PROJW, l), g(PROJB, l), C, C);
        attention_back(datt, a->qkv, a->p, dqkv);
        linear_back(dqkv, a->ln1, w(QKVW, l), dn, g(QKVW, l), g(QKVB, l), C, 3 * C);
        norm_back(dn, x, a->m1, a->r1, w(LN1W, l), dmid, dres, g(LN1W, l), g(LN1B, l));
    }
    for (int r = 0; r < N; r++)
        for (int i = 0; i < C; i++) {
            grad_at[WTE][(int64_t)in[r] * C + i] += dres[(int64_t)r * C + i];
            grad_at[WPE][(int64_t)(r % T) * C + i] += dres[(int64_t)r * C + i];
        }
}

static bool read_ints(FILE *f, int *to, size_t count)
{
    return fread(to, sizeof *to, count, f) == count;
}

int main(int argc, char **argv)
{
    int head[256], shape[3];
    FILE *f = argc == 3 ? fopen(argv[1], "rb") : NULL,
         *tokens = argc == 3 ? fopen(argv[2], "rb") : NULL;
    if (!f || !tokens || !read_ints(f, head, 256) || !read_ints(tokens, shape, 3)) {
        fprintf(stderr, "use: gpt2_plain CHECKPOINT TOKENS\n");
        return 2;
    }
    T_MOST = head[2], V = head[3], L = head[4], H = head[5], C = head[6];
    B = shape[0], T = shape[1], N = B * T;
    if (N % ROWS != 0 || T > T_MOST) {
        fprintf(stderr, "%s: expected a multiple of %d tokens a step\n", argv[2], ROWS);
        return 2;
    }
    const int64_t c = C, sizes[WEIGHTS] = {V * c,     T_MOST * c, c, c, 3 * c * c, 3 * c,
                                           c * c,     c,          c, c, 4 * c * c, 4 * c,
                                           4 * c * c, c,          c, c};
    int64_t all = 0;
    for (int i = 0; i < WEIGHTS; i++)
        size[i] = sizes[i], all += sizes[i] * (i < LN1W || i > FPB ? 1 : L);
    float *x = array(all), *d = array(all), *m = array(all), *v = array(all);
    int *in = malloc((size_t)N * sizeof *in), *target = malloc((size_t)N * sizeof *target);
    for (int64_t i = 0, done = 0; i < WEIGHTS;
         done += sizes[i] * (i < LN1W || i > FPB ? 1 : L), i++)
        at[i] = x + done, grad_at[i] = d + done;
    if (fread(x, sizeof *x, (size_t)all, f) != (size_t)all)
        return 2;
    make_arrays();
    double total = 0;
    int counted = 0;
    for (int s = 0;
         s < shape[2] && read_ints(tokens, in, (size_t)N) && read_ints(tokens, target, (size_t)N);
         s++) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        const float loss = forward(in, target);
        memset(d, 0, (size_t)all * sizeof *d);
        backward(in);
        adamw(x, d, m, v, all, s + 1);
        clock_gettime(CLOCK_MONOTONIC, &b);
        const double ms =
            (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6;
        if (s > 1)
            total += ms, counted++;
        printf("step %d loss %.9g ms %.2f\n", s, (double)loss, ms);
    }
    printf("mean ms %.2f\n", total / (counted > 0 ? counted : 1));
    fclose(f), fclose(tokens);
    return 0;
}
