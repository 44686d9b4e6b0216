/* The fft actor's kernels, as C: all blocks of a launch are one, of one thread. */
#include "support/fake_cuda/fft_kernels.h"
#include "support/fake_cuda/hooks.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define TRP__KERNEL  static
#define TRP__SHARED  /* a thread of its own */
#define TRP__SYNC()  ((void)0)
#define TRP__THREAD  0
#define TRP__THREADS 1
#define TRP__BLOCK   0
#define TRP__BLOCKS  1
#define TRP__TURN    fake_turn
/* As exact as sincospi() of GPUs: of the nearest quarter the rest is at most an eighth. */
static void fake_turn(double part, double *re, double *im)
{
    const double quarter = rint(4 * part), rest = 6.283185307179586 * (part - quarter / 4);
    const double c = cos(rest), s = sin(rest);
    const int q = (int)quarter & 3;
    *re = q == 0 ? c : q == 1 ? -s : q == 2 ? -c : s;
    *im = q == 0 ? s : q == 1 ? c : q == 2 ? -s : -c;
}
#include "actors/fft/kernels/kernels.h"

/* The elements of one side, from the lowest to the highest address; at[0] is that of index 0. */
typedef struct side {
    int64_t below, above; /* elements */
    bool none;
} side;

static void stretch(side *s, int64_t n, int64_t stride)
{
    s->none = s->none || n == 0;
    if (stride < 0)
        s->below -= (n - 1) * stride;
    else
        s->above += (n - 1) * stride;
}

/* Replaces an address by the processor's; false: the stream has faulted. */
static bool reach(const side *s, const void **at, size_t bytes, bool write, fake_pin *pin)
{
    if (s->none)
        return true;
    const uint64_t first = (uintptr_t)*at - (uint64_t)s->below * bytes;
    const char *got = fake_cuda_reach(pin, first, (size_t)(s->below + s->above + 1) * bytes, write);
    if (got)
        *at = got + (size_t)s->below * bytes;
    return got != NULL;
}

void fake_fft_copy(const uint64_t *parameter)
{
    fake_pin pin[2] = {{0}};
    trp__fft_copy r;
    side x = {0}, y = {0};
    memcpy(&r, parameter, sizeof r);
    const size_t bytes = (size_t)(r.wide ? 8 : 4) * (r.pairs ? 2 : 1);
    for (int i = 0; i < r.rank; i++) {
        stretch(&x, r.have[i], r.x_stride[i]);
        stretch(&y, r.dim[i], r.y_stride[i]);
    }
    const void *to = r.y;
    if (reach(&x, &r.x, r.x_format ? 2 : bytes, false, &pin[0]) &&
        reach(&y, &to, r.y_format ? 2 : bytes, true, &pin[1])) {
        r.y = (void *)(uintptr_t)to;
        trp_fft_copy(r);
    }
    for (int i = 0; i < 2; i++) {
        if (pin[i].at)
            fake_cuda_let_go(&pin[i]);
    }
}

void fake_fft_sums(const uint64_t *parameter)
{
    fake_pin pin[3] = {{0}};
    trp__fft_sums r;
    side x = {0}, y = {0}, numbers = {0};
    memcpy(&r, parameter, sizeof r);
    const size_t part = r.wide ? 8 : 4;
    for (int i = 0; i < r.axes; i++) {
        stretch(&x, fft_length(&r, i, TRP__FFT_HALF_X), r.x_stride[i]);
        stretch(&y, fft_length(&r, i, TRP__FFT_HALF_Y), r.y_stride[i]);
    }
    for (int i = 0; i < r.others; i++) {
        stretch(&x, r.other[i], r.other_x[i]);
        stretch(&y, r.other[i], r.other_y[i]);
    }
    stretch(&numbers, r.sample ? r.count : 0, 1);
    const void *to = r.y, *sample = r.sample;
    if (reach(&x, &r.x, r.half == TRP__FFT_HALF_Y ? part : 2 * part, false, &pin[0]) &&
        reach(&y, &to, r.half == TRP__FFT_HALF_X ? part : 2 * part, true, &pin[1]) &&
        reach(&numbers, &sample, sizeof *r.sample, false, &pin[2])) {
        r.y = (void *)(uintptr_t)to;
        r.sample = sample;
        trp_fft_sums(r);
    }
    for (int i = 0; i < 3; i++) {
        if (pin[i].at)
            fake_cuda_let_go(&pin[i]);
    }
}

static void run_trig(const uint64_t *parameter, bool before)
{
    fake_pin pin[2] = {{0}};
    trp__fft_trig r;
    side x = {0}, y = {0};
    memcpy(&r, parameter, sizeof r);
    const trp__fft_core core = trp__fft_form_core(&r.form);
    const size_t part = r.wide ? 8 : 4;
    const bool pairs = core != (before ? TRP__FFT_CORE_R2C : TRP__FFT_CORE_C2R);
    const size_t inside = pairs ? 2 * part : part;
    const int64_t inner = core == TRP__FFT_CORE_C2R ? r.form.n : trp__fft_form_room(&r.form);
    stretch(&x, before ? r.have : inner, r.x_stride);
    stretch(&y, r.per_line, r.y_stride);
    for (int i = 0; i < r.others; i++) {
        stretch(&x, r.other_have[i], r.other_x[i]);
        stretch(&y, r.other[i], r.other_y[i]);
    }
    const void *to = r.y;
    const size_t x_bytes = r.x_format ? 2
                           : before   ? part
                                      : inside,
                 y_bytes = r.y_format ? 2
                           : before   ? inside
                                      : part;
    if (reach(&x, &r.x, x_bytes, false, &pin[0]) && reach(&y, &to, y_bytes, true, &pin[1])) {
        r.y = (void *)(uintptr_t)to;
        (before ? trp_fft_before : trp_fft_behind)(r);
    }
    for (int i = 0; i < 2; i++) {
        if (pin[i].at)
            fake_cuda_let_go(&pin[i]);
    }
}

void fake_fft_before(const uint64_t *parameter)
{
    run_trig(parameter, true);
}

void fake_fft_behind(const uint64_t *parameter)
{
    run_trig(parameter, false);
}
