/* W lines of a tensor, as pairs in a buffer, and back. */

/* Element j of line l is at[l][j * step], its imaginary part `im` numbers further. */
typedef struct NAME(lines) {
    T *at[W]; /* NULL: a line of zeros; those beyond the last line are any other one */
    int count;
    int64_t step, im;
    int64_t have_re, have_im; /* how many parts there are */
    bool swapped;             /* real and imaginary parts change places */
    bool halves;              /* `re` and `im` are elements of a real line beside each other */
    int64_t turn, n;          /* elements lie `turn` further around the line, which has n */
    uint8_t format;           /* trp__fft_format; if not the same, `at` are addresses of 16 bits */
} NAME(lines);

/* Numbers in another format. */

INLINE T *NAME(offset)(uint8_t format, const void *base, int64_t at)
{
    const int64_t size = format == TRP__FFT_SAME ? (int64_t)sizeof(T) : 2;
    return (T *)(void *)((char *)(uintptr_t)base + at * size);
}

INLINE T NAME(number)(uint8_t format, const T *base, int64_t at)
{
#if IS_F32
    const uint16_t *half = (const uint16_t *)(const void *)base;
    if (format == TRP__FFT_F16)
        return trp__f16_to_f32(half[at]);
    if (format == TRP__FFT_BF16)
        return trp__bf16_to_f32(half[at]);
#endif
    (void)format;
    return base[at];
}

INLINE void NAME(put_number)(uint8_t format, T *base, int64_t at, T value)
{
#if IS_F32
    uint16_t *half = (uint16_t *)(void *)base;
    if (format == TRP__FFT_F16) {
        half[at] = trp__f32_to_f16(value);
        return;
    }
    if (format == TRP__FFT_BF16) {
        half[at] = trp__f32_to_bf16(value);
        return;
    }
#endif
    (void)format;
    base[at] = value;
}

typedef enum NAME(order) {
    NAME(SCATTERED),
    NAME(BESIDE), /* elements of one number of all lines lie side by side: complex numbers */
    NAME(PLANES), /* the same of real ones */
    NAME(ALONG),  /* each line lies side by side */
} NAME(order);

static NAME(order) NAME(order_of)(const NAME(lines) * l)
{
    bool pairs = l->im == 1, singles = l->im != 1, all = l->format == TRP__FFT_SAME && !l->turn;
    for (int i = 0; i < W; i++) {
        all = all && l->at[i];
        if (!all)
            return NAME(SCATTERED);
        pairs = pairs && l->at[i] == l->at[0] + 2 * i;
        singles = singles && l->at[i] == l->at[0] + i;
    }
    return pairs                        ? NAME(BESIDE)
           : singles                    ? NAME(PLANES)
           : l->step == 2 && l->im == 1 ? NAME(ALONG)
                                        : NAME(SCATTERED);
}

/* One part of an element, as a vector that can be indexed. */
INLINE VECTOR *NAME(part_of)(PAIR *x, bool imaginary)
{
    return imaginary ? &x->im : &x->re;
}

/* Whole elements from the first one on; returns how many were done. */
static int64_t NAME(gather_whole)(const NAME(lines) * l, PAIR *to, int64_t count)
{
    const bool s = l->swapped;
    int64_t j = 0;
    switch (NAME(order_of)(l)) {
    case NAME(BESIDE):
        for (; j < count; j++) {
            const T *from = l->at[0] + j * l->step;
            const PAIR x = NAME(part)(NAME(load)(from), NAME(load)(from + W));
            *NAME(part_of)(&to[j], s) = x.re;
            *NAME(part_of)(&to[j], !s) = x.im;
        }
        return j;
    case NAME(PLANES):
        for (; j < count; j++) {
            const T *from = l->at[0] + j * l->step;
            *NAME(part_of)(&to[j], s) = NAME(load)(from);
            *NAME(part_of)(&to[j], !s) = NAME(load)(from + l->im);
        }
        return j;
    case NAME(ALONG):
        for (; j + W / 2 <= count; j += W / 2) {
            VECTOR r[W];
            for (int i = 0; i < W; i++)
                r[i] = NAME(load)(l->at[i] + 2 * j);
            NAME(transpose)(r);
            for (int i = 0; i < W / 2; i++) {
                *NAME(part_of)(&to[j + i], s) = r[2 * i];
                *NAME(part_of)(&to[j + i], !s) = r[2 * i + 1];
            }
        }
        return j;
    default:
        return 0;
    }
}

/* The number that is a part of element j. */
INLINE int64_t NAME(place)(const NAME(lines) * l, int64_t j, int part)
{
    if (!l->turn)
        return j * l->step + part * l->im;
    const int64_t element = 2 * j + part + l->turn; /* of real lines */
    return (element >= l->n ? element - l->n : element) * l->im;
}

/* The lines from element `begin` on, `count` of them, without a turn. */
static NAME(lines) NAME(piece)(const NAME(lines) * l, int64_t begin, int64_t count)
{
    NAME(lines) piece = *l;
    for (int i = 0; i < W; i++)
        piece.at[i] = l->at[i] ? NAME(offset)(l->format, l->at[i], begin * l->step) : NULL;
    piece.turn = 0;
    piece.have_re = count;
    piece.have_im = l->have_im ? count : 0;
    return piece;
}

/* Fills `count` pairs; parts that there are not are zero. */
static void NAME(gather)(const NAME(lines) * l, PAIR *to, int64_t count)
{
    if (l->turn && !l->halves) {
        const int64_t first = l->n - l->turn;
        const NAME(lines) a = NAME(piece)(l, l->turn, first), b = NAME(piece)(l, 0, l->turn);
        NAME(gather)(&a, to, first);
        NAME(gather)(&b, to + first, l->turn);
        return;
    }
    const int64_t re = l->have_re < count ? l->have_re : count;
    const int64_t im = l->have_im < re ? l->have_im : re;
    int64_t j = NAME(gather_whole)(l, to, im);
    for (; j < re; j++) {
        VECTOR a = {0}, b = {0};
        for (int i = 0; i < W; i++) {
            a[i] = l->at[i] ? NAME(number)(l->format, l->at[i], NAME(place)(l, j, 0)) : 0;
            b[i] = l->at[i] && j < im ? NAME(number)(l->format, l->at[i], NAME(place)(l, j, 1)) : 0;
        }
        *NAME(part_of)(&to[j], l->swapped) = a;
        *NAME(part_of)(&to[j], !l->swapped) = b;
    }
    if (re < count)
        memset(to + re, 0, (size_t)(count - re) * sizeof *to);
}

/* Whole elements from the first one on; returns how many were done. */
static int64_t NAME(scatter_whole)(const NAME(lines) * l, PAIR *from, int64_t count, T re, T im)
{
    const bool s = l->swapped;
    int64_t j = 0;
    if (l->count < W)
        return 0;
    switch (NAME(order_of)(l)) {
    case NAME(BESIDE):
        for (; j < count; j++) {
            T *to = l->at[0] + j * l->step;
            VECTOR a, b;
            NAME(join)
            ((PAIR){*NAME(part_of)(&from[j], s) * re, *NAME(part_of)(&from[j], !s) * im}, &a, &b);
            NAME(store)(to, a);
            NAME(store)(to + W, b);
        }
        return j;
    case NAME(PLANES):
        for (; j < count; j++) {
            T *to = l->at[0] + j * l->step;
            NAME(store)(to, *NAME(part_of)(&from[j], s) * re);
            NAME(store)(to + l->im, *NAME(part_of)(&from[j], !s) * im);
        }
        return j;
    case NAME(ALONG):
        for (; j + W / 2 <= count; j += W / 2) {
            VECTOR r[W];
            for (int i = 0; i < W / 2; i++) {
                r[2 * i] = *NAME(part_of)(&from[j + i], s) * re;
                r[2 * i + 1] = *NAME(part_of)(&from[j + i], !s) * im;
            }
            NAME(transpose)(r);
            for (int i = 0; i < W; i++)
                NAME(store)(l->at[i] + 2 * j, r[i]);
        }
        return j;
    default:
        return 0;
    }
}

/* Writes have_re real and have_im imaginary parts, times `re` and `im`. */
static void NAME(scatter)(const NAME(lines) * l, PAIR *from, T re, T im)
{
    if (l->turn && !l->halves) {
        const int64_t first = l->n - l->turn;
        const NAME(lines) a = NAME(piece)(l, l->turn, first), b = NAME(piece)(l, 0, l->turn);
        NAME(scatter)(&a, from, re, im);
        NAME(scatter)(&b, from + first, re, im);
        return;
    }
    int64_t j = NAME(scatter_whole)(l, from, l->have_im, re, im);
    for (; j < l->have_re; j++) {
        const VECTOR a = *NAME(part_of)(&from[j], l->swapped) * re;
        const VECTOR b = *NAME(part_of)(&from[j], !l->swapped) * im;
        for (int i = 0; i < l->count; i++) {
            NAME(put_number)(l->format, l->at[i], NAME(place)(l, j, 0), a[i]);
            if (j < l->have_im)
                NAME(put_number)(l->format, l->at[i], NAME(place)(l, j, 1), b[i]);
        }
    }
}
