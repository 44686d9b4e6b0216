/* Convolutions in one real type as products: the elements for each filter position are gathered
 * into a matrix, some pixels at a time. Included by nodes_real.h. */

enum { CONV_DIMS = 3 };

/* Elements of a gathered matrix, unless one pixel needs more. */
#define CONV_TILE ((int64_t)1 << 18)

typedef struct NAME(conv) {
    const trp__dnn_host_node *x;
    int64_t images, groups, channels, filters; /* channels and filters per group */
    int64_t in[CONV_DIMS], taps[CONV_DIMS], out[CONV_DIMS];
    int32_t pad[CONV_DIMS], stride[CONV_DIMS], dilation[CONV_DIMS];
    int64_t in_volume, tap_volume, out_volume, depth;
    bool flip;
} NAME(conv);

/* Describes a convolution in three dimensions; missing ones come first. */
static NAME(conv) NAME(describe_conv)(const trp__dnn_host_node *x)
{
    const trp__dnn_tensor *in = x->tensor[TRP__DNN_CONV_X], *w = x->tensor[TRP__DNN_CONV_W];
    const trp__dnn_tensor *out = x->tensor[TRP__DNN_CONV_Y];
    NAME(conv)
    c = {.x = x,
         .images = in->dim[0],
         .groups = w->dim[1] ? in->dim[1] / w->dim[1] : 1,
         .channels = w->dim[1],
         .in_volume = 1,
         .tap_volume = 1,
         .out_volume = 1,
         .flip = x->n->mode != 0};
    c.filters = w->dim[0] / c.groups;
    for (int i = 0; i < CONV_DIMS; i++) {
        int from = i - (CONV_DIMS - x->n->spatial);
        c.in[i] = from < 0 ? 1 : in->dim[2 + from];
        c.taps[i] = from < 0 ? 1 : w->dim[2 + from];
        c.out[i] = from < 0 ? 1 : out->dim[2 + from];
        c.pad[i] = from < 0 ? 0 : x->n->pre_pad[from];
        c.stride[i] = from < 0 ? 1 : x->n->stride[from];
        c.dilation[i] = from < 0 ? 1 : x->n->dilation[from];
        c.in_volume *= c.in[i];
        c.tap_volume *= c.taps[i];
        c.out_volume *= c.out[i];
    }
    c.depth = c.channels * c.tap_volume;
    return c;
}

static int64_t NAME(conv_tile)(int64_t depth, int64_t out_volume)
{
    int64_t pixels = depth ? CONV_TILE / depth : 1;
    pixels = pixels < 1 ? 1 : pixels;
    return pixels < out_volume ? pixels : out_volume;
}

/* Computes C = op(A) op(B) + beta C, row-major. */
static void NAME(multiply)(const trp__openblas *blas, bool transpose_a, bool transpose_b, int64_t m,
                           int64_t n, int64_t k, const T *a, int64_t lda, const T *b, int64_t ldb,
                           T beta, T *c, int64_t ldc)
{
    blas->GEMM(TRP__CBLAS_COLUMN_MAJOR, transpose_b ? TRP__CBLAS_TRANS : TRP__CBLAS_NO_TRANS,
               transpose_a ? TRP__CBLAS_TRANS : TRP__CBLAS_NO_TRANS, (int)n, (int)m, (int)k, 1, b,
               (int)ldb, a, (int)lda, beta, c, (int)ldc);
}

/* Copies between the channels of an image and the matrix of the elements that the output's pixels
 * first to first + count use: a line for each channel and filter position. `scatter` adds the
 * matrix to the image. */
static void NAME(gather)(const NAME(conv) * c, T *image, int64_t first, int64_t count, T *matrix,
                         bool scatter)
{
    for (int64_t line = 0; line < c->depth; line++) {
        int64_t tap = line % c->tap_volume, start[CONV_DIMS], at[CONV_DIMS];
        T *plane = image + line / c->tap_volume * c->in_volume;
        tap = c->flip ? c->tap_volume - 1 - tap : tap;
        for (int i = CONV_DIMS - 1; i >= 0; i--) {
            start[i] = tap % c->taps[i] * c->dilation[i] - c->pad[i];
            tap /= c->taps[i];
        }
        int64_t rest = first;
        for (int i = CONV_DIMS - 1; i >= 0; i--) {
            at[i] = rest % c->out[i];
            rest /= c->out[i];
        }
        for (int64_t p = 0; p < count; p++, matrix++) {
            int64_t d = at[0] * c->stride[0] + start[0], h = at[1] * c->stride[1] + start[1];
            int64_t w = at[2] * c->stride[2] + start[2];
            bool inside =
                d >= 0 && d < c->in[0] && h >= 0 && h < c->in[1] && w >= 0 && w < c->in[2];
            T *pixel = inside ? plane + (d * c->in[1] + h) * c->in[2] + w : NULL;
            if (!scatter)
                *matrix = inside ? *pixel : 0;
            else if (inside)
                *pixel += *matrix;
            for (int i = CONV_DIMS - 1; i >= 0 && ++at[i] == c->out[i]; i--)
                at[i] = 0;
        }
    }
}

/* Computes one image and group in tiles of output pixels. */
static void NAME(conv_part)(const NAME(conv) * c, T *in, T *w, T *out)
{
    const trp__openblas *blas = c->x->libraries->blas;
    const uint8_t kind = c->x->n->kind;
    T *matrix = c->x->rest;
    const int64_t tile = NAME(conv_tile)(c->depth, c->out_volume), ld = c->out_volume;
    for (int64_t first = 0, count; first < c->out_volume; first += count) {
        count = c->out_volume - first < tile ? c->out_volume - first : tile;
        if (kind == TRP_DNN_CONV_BACKWARD_DATA)
            NAME(multiply)
        (blas, true, false, c->depth, count, c->filters, w, c->depth, out + first, ld, 0, matrix,
         count);
        NAME(gather)(c, in, first, count, matrix, kind == TRP_DNN_CONV_BACKWARD_DATA);
        if (kind == TRP_DNN_CONV_FORWARD)
            NAME(multiply)
        (blas, false, false, c->filters, count, c->depth, w, c->depth, matrix, count, 0,
         out + first, ld);
        if (kind == TRP_DNN_CONV_BACKWARD_FILTER)
            NAME(multiply)
        (blas, false, true, c->filters, c->depth, count, out + first, ld, matrix, count, 1, w,
         c->depth);
    }
}

static void NAME(run_conv)(const trp__dnn_host_node *x)
{
    const NAME(conv) c = NAME(describe_conv)(x);
    T *in = x->at[TRP__DNN_CONV_X], *w = x->at[TRP__DNN_CONV_W], *out = x->at[TRP__DNN_CONV_Y];
    if (c.depth == 0) { /* no channels: only the forward sums exist, and they are 0 */
        if (x->n->kind == TRP_DNN_CONV_FORWARD)
            memset(out, 0, (size_t)trp__dnn_elements(x->tensor[TRP__DNN_CONV_Y]) * sizeof *out);
        return;
    }
    if (IS_F32 && x->libraries->onednn && trp__onednn_conv(x->libraries->onednn, x))
        return;
    if (x->n->kind == TRP_DNN_CONV_BACKWARD_DATA)
        memset(in, 0, (size_t)(c.images * c.groups * c.channels * c.in_volume) * sizeof *in);
    if (x->n->kind == TRP_DNN_CONV_BACKWARD_FILTER)
        memset(w, 0, (size_t)(c.groups * c.filters * c.depth) * sizeof *w);
    for (int64_t part = 0; part < c.images * c.groups; part++)
        NAME(conv_part)
    (&c, in + part * c.channels * c.in_volume, w + part % c.groups * c.filters * c.depth,
     out + part * c.filters * c.out_volume);
}

static void NAME(run_matmul)(const trp__dnn_host_node *x)
{
    const trp__dnn_tensor *a = x->tensor[TRP__DNN_MATMUL_A], *b = x->tensor[TRP__DNN_MATMUL_B];
    const trp__dnn_tensor *y = x->tensor[TRP__DNN_MATMUL_Y];
    const int rank = y->rank;
    const int64_t m = y->dim[rank - 2], n = y->dim[rank - 1], k = a->dim[rank - 1];
    const trp__dnn_tensor *all[] = {a, b, y};
    trp__dnn_tensor batch[3];
    trp__walk walk;
    if (m == 0 || n == 0)
        return;
    for (int i = 0; i < 3; i++) { /* the matrices element by element */
        batch[i] = *all[i];
        batch[i].dim[rank - 2] = batch[i].dim[rank - 1] = 1;
    }
    if (!trp__walk_begin(&walk, &batch[2]))
        return;
    for (int i = 0; i < 3; i++)
        trp__walk_add(&walk, &batch[i]);
    do {
        T *to = (T *)x->at[TRP__DNN_MATMUL_Y] + walk.offset[2] * m * n;
        if (k == 0)
            memset(to, 0, (size_t)(m * n) * sizeof *to);
        else
            NAME(multiply)
        (x->libraries->blas, false, false, m, n, k,
         (T *)x->at[TRP__DNN_MATMUL_A] + walk.offset[0] * m * k, k,
         (T *)x->at[TRP__DNN_MATMUL_B] + walk.offset[1] * k * n, n, 0, to, n);
    } while (trp__walk_next(&walk));
}
