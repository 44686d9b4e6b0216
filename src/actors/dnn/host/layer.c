#include "actors/dnn/host/layer.h"

#include "actors/dnn/math/functions.h"
#include "base/os/team.h"

#include <math.h>
#include <string.h>

enum {
    LANES = 16,      /* partial sums of a row */
    BLOCK = 64,      /* least rows per piece of a thread */
    BLOCKS = 64,     /* most blocks: sums over rows are added block by block */
    ALONE = 1 << 14, /* elements up to which one thread is used */
};

/* x as rows; scale and bias have one element per element of a row. */
typedef struct layer {
    const trp__dnn_host_node *x;
    int64_t rows, width, block; /* block: rows of a block */
    bool centred;
    double *partial; /* backward: sums of dy h and of dy, for each block and element of a row */
} layer;

static bool is_layer(const trp__dnn_node *n, const trp__dnn_tensor *const tensor[], layer *l)
{
    const trp__dnn_tensor *in = tensor[TRP__DNN_NORM_X], *scale = tensor[TRP__DNN_NORM_SCALE];
    if (n->kind < TRP_DNN_NORM_TRAINING || n->kind > TRP_DNN_NORM_BACKWARD ||
        n->compute != TRP_F32 || (n->mode != TRP_DNN_LAYER && n->mode != TRP_DNN_RMS) ||
        (n->kind == TRP_DNN_NORM_TRAINING && tensor[TRP__DNN_NORM_RUNNING_MEAN]) ||
        trp__dnn_elements(in) == 0)
        return false;
    const trp__dnn_tensor statistics = trp__dnn_statistics_shape(n, tensor);
    int first = 0; /* first dimension of a row */
    *l = (layer){.rows = 1, .width = 1, .centred = n->mode != TRP_DNN_RMS};
    while (first < in->rank && statistics.dim[first] == in->dim[first])
        l->rows *= in->dim[first++];
    for (int i = 0; i < in->rank; i++) {
        if (i >= first)
            l->width *= in->dim[i];
        if ((i >= first && statistics.dim[i] != 1) || scale->dim[i] != (i < first ? 1 : in->dim[i]))
            return false;
    }
    l->block = (l->rows + BLOCKS - 1) / BLOCKS;
    l->block = l->block > BLOCK ? l->block : BLOCK;
    return l->width > 1;
}

static int64_t blocks_of(const layer *l)
{
    return (l->rows + l->block - 1) / l->block;
}

int64_t trp__dnn_host_layer_rest(const trp__dnn_node *n, const trp__dnn_tensor *const tensor[])
{
    const int doubled = sizeof(double) / sizeof(float);
    layer l;
    if (n->kind != TRP_DNN_NORM_BACKWARD || !is_layer(n, tensor, &l))
        return 0;
    return doubled * 2 * l.width * blocks_of(&l);
}

static double fold(double part[LANES])
{
    for (int half = LANES / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; i++)
            part[i] += part[i + half];
    }
    return part[0];
}

/* Sums an expression of x[i] over a row. */
#define SUM_ROW(out, ...)                                                                          \
    do {                                                                                           \
        double part[LANES] = {0};                                                                  \
        int64_t next = 0;                                                                          \
        for (; next + LANES <= width; next += LANES) {                                             \
            for (int lane = 0; lane < LANES; lane++) {                                             \
                const int64_t i = next + lane;                                                     \
                part[lane] += (__VA_ARGS__);                                                       \
            }                                                                                      \
        }                                                                                          \
        for (int64_t i = next; i < width; i++)                                                     \
            part[i - next] += (__VA_ARGS__);                                                       \
        *(out) = fold(part);                                                                       \
    } while (0)

static void take_statistics(const layer *l, const float *x, double epsilon, double *mean,
                            double *inverse)
{
    const int64_t width = l->width;
    double sum = 0, squares;
    if (l->centred)
        SUM_ROW(&sum, (double)x[i]);
    *mean = sum / (double)width;
    const double m = *mean;
    SUM_ROW(&squares, ((double)x[i] - m) * ((double)x[i] - m));
    *inverse = 1 / sqrt(squares / (double)width + epsilon);
}

static void read_statistics(const layer *l, int64_t row, double *mean, double *inverse)
{
    const float *means = l->x->at[TRP__DNN_NORM_MEAN];
    const float *inverses = l->x->at[TRP__DNN_NORM_INV_VARIANCE];
    *mean = means ? (double)means[row] : 0;
    *inverse = (double)inverses[row];
}

static void forward_row(const layer *l, int64_t row)
{
    void *const *at = l->x->at;
    const float *x = (const float *)at[TRP__DNN_NORM_X] + row * l->width;
    const float *scale = at[TRP__DNN_NORM_SCALE], *bias = at[TRP__DNN_NORM_BIAS];
    const float *epsilon = at[TRP__DNN_NORM_EPSILON];
    float *y = (float *)at[TRP__DNN_NORM_Y] + row * l->width;
    double mean, inverse;
    if (epsilon)
        take_statistics(l, x, (double)*epsilon, &mean, &inverse);
    else
        read_statistics(l, row, &mean, &inverse);
    if (l->x->n->kind == TRP_DNN_NORM_TRAINING) {
        if (at[TRP__DNN_NORM_MEAN])
            ((float *)at[TRP__DNN_NORM_MEAN])[row] = (float)mean;
        ((float *)at[TRP__DNN_NORM_INV_VARIANCE])[row] = (float)inverse;
    }
    if (bias)
        for (int64_t i = 0; i < l->width; i++)
            y[i] = (float)(((double)x[i] - mean) * inverse * (double)scale[i] + (double)bias[i]);
    else
        for (int64_t i = 0; i < l->width; i++)
            y[i] = (float)(((double)x[i] - mean) * inverse * (double)scale[i]);
}

/* See run_norm_backward in norm_real.h. */
static void backward_row(const layer *l, int64_t row, double *restrict sum_h, double *restrict sum)
{
    void *const *at = l->x->at;
    const int64_t width = l->width;
    const float *x = (const float *)at[TRP__DNN_NORM_X] + row * width;
    const float *dy = (const float *)at[TRP__DNN_NORM_Y] + row * width;
    const float *scale = at[TRP__DNN_NORM_SCALE];
    float *dx = (float *)at[TRP__DNN_NORM_DX] + row * width;
    double mean, inverse, g = 0, gh;
    read_statistics(l, row, &mean, &inverse);
    if (l->centred)
        SUM_ROW(&g, (double)dy[i] * (double)scale[i]);
    SUM_ROW(&gh, (double)dy[i] * (double)scale[i] * (((double)x[i] - mean) * inverse));
    g /= (double)width;
    gh /= (double)width;
    for (int64_t i = 0; i < width; i++) {
        const double h = ((double)x[i] - mean) * inverse, d = (double)dy[i];
        sum_h[i] += d * h;
        sum[i] += d;
        dx[i] = (float)(inverse * (d * (double)scale[i] - g - h * gh));
    }
}

static void run_block(void *context, int64_t block, int worker)
{
    const layer *l = context;
    const int64_t first = block * l->block;
    const int64_t end = first + l->block < l->rows ? first + l->block : l->rows;
    double *sum_h = l->partial + 2 * block * l->width;
    const bool backward = l->x->n->kind == TRP_DNN_NORM_BACKWARD;
    (void)worker;
    if (backward)
        memset(sum_h, 0, (size_t)(2 * l->width) * sizeof *sum_h);
    for (int64_t row = first; row < end; row++) {
        if (backward)
            backward_row(l, row, sum_h, sum_h + l->width);
        else
            forward_row(l, row);
    }
}

static void add_blocks(const layer *l)
{
    float *dscale = l->x->at[TRP__DNN_NORM_DSCALE], *dbias = l->x->at[TRP__DNN_NORM_BIAS];
    double *all = l->partial;
    for (int64_t block = 1; block < blocks_of(l); block++) {
        const double *part = l->partial + 2 * block * l->width;
        for (int64_t i = 0; i < 2 * l->width; i++)
            all[i] += part[i];
    }
    for (int64_t i = 0; i < l->width; i++)
        dscale[i] = (float)all[i];
    for (int64_t i = 0; dbias && i < l->width; i++)
        dbias[i] = (float)all[l->width + i];
}

bool trp__dnn_host_layer(const trp__dnn_host_node *x)
{
    layer l;
    if (!is_layer(x->n, x->tensor, &l))
        return false;
    l.x = x;
    l.partial = x->rest;
    if (l.rows * l.width <= ALONE)
        for (int64_t i = 0; i < blocks_of(&l); i++)
            run_block(&l, i, 0);
    else
        trp__team_run(run_block, &l, blocks_of(&l));
    if (x->n->kind == TRP_DNN_NORM_BACKWARD)
        add_blocks(&l);
    return true;
}
