/* Convolutions on the fake driver, as products: their operands. */
#include "support/fake_cuda/cutlass/cutlass.h"

#include "support/reference/elements.h"

#include <troupe/cutlass.h>

#include <complex.h>
#include <stdlib.h>
#include <string.h>

enum { DIMS = 3 };

/* The element of a tensor that an operand has: image or filter, pixel, channel. */
typedef struct place {
    int64_t outer, at[DIMS], inner;
} place;

static int64_t split(int64_t index, const int32_t size[DIMS], int64_t at[DIMS])
{
    for (int i = DIMS - 1; i >= 0; i--) {
        at[i] = index % size[i];
        index /= size[i];
    }
    return index;
}

static int64_t volume(const int32_t size[DIMS])
{
    return (int64_t)size[0] * size[1] * size[2];
}

/* Returns how far a filter extends beyond a pixel. */
static int64_t reach_of(const trp_cutlass_args *a, const int64_t tap[DIMS], int i)
{
    int64_t from = a->conv_flip ? a->conv_filter[i] - 1 - tap[i] : tap[i];
    return from * a->conv_dilation[i] - a->conv_pad[i];
}

/* Finds the pixel of the activation that meets one of the output. */
static bool forward(const trp_cutlass_args *a, const int64_t out[DIMS], const int64_t tap[DIMS],
                    int64_t in[DIMS])
{
    bool inside = true;
    for (int i = 0; i < DIMS; i++) {
        in[i] = out[i] * a->conv_stride[i] + reach_of(a, tap, i);
        inside = inside && in[i] >= 0 && in[i] < a->conv_input[i];
    }
    return inside;
}

/* Finds the pixel of the output that meets one of the activation. */
static bool backward(const fake_cutlass_kernel *k, const trp_cutlass_args *a,
                     const int64_t in[DIMS], const int64_t tap[DIMS], int64_t out[DIMS])
{
    for (int i = 0; i < DIMS; i++) {
        int64_t from = in[i] - reach_of(a, tap, i);
        int64_t stride = k->unit_stride ? 1 : a->conv_stride[i];
        out[i] = from / stride;
        if (from < 0 || from % stride != 0 || out[i] >= a->conv_output[i])
            return false;
    }
    return true;
}

/* Finds the element in row i of A, or column i of B, at term p of the sums; false: it is outside,
 * and 0. */
static bool find(const fake_cutlass_kernel *k, const trp_cutlass_args *a, bool right, int64_t i,
                 int64_t p, place *x)
{
    int64_t inner = k->conv == TRP_CONV_DGRAD ? a->conv_filters : a->conv_channels;
    int64_t tap[DIMS], pixel[DIMS];
    if (k->conv == TRP_CONV_WGRAD) {
        x->outer = split(p, a->conv_output, x->at);
        x->inner = right ? i % inner : i;
        if (!right)
            return true;
        split(i / inner, a->conv_filter, tap);
        split(p, a->conv_output, pixel);
        return forward(a, pixel, tap, x->at);
    }
    split(p / inner, a->conv_filter, tap);
    if (right) {
        split(p / inner, a->conv_filter, x->at);
        x->outer = k->conv == TRP_CONV_DGRAD ? p % inner : i;
        x->inner = k->conv == TRP_CONV_DGRAD ? i : p % inner;
        return true;
    }
    x->inner = p % inner;
    x->outer = split(i, k->conv == TRP_CONV_DGRAD ? a->conv_input : a->conv_output, pixel);
    return k->conv == TRP_CONV_DGRAD ? backward(k, a, pixel, tap, x->at)
                                     : forward(a, pixel, tap, x->at);
}

static int64_t offset_of(const place *x, const int64_t stride[1 + DIMS])
{
    return x->outer * stride[0] + x->at[0] * stride[1] + x->at[1] * stride[2] +
           x->at[2] * stride[3] + x->inner;
}

double *fake_cutlass_gather(const fake_cutlass_kernel *k, const trp_cutlass_args *a, bool right,
                            const void *tensor, int64_t l)
{
    int64_t lines = right ? a->n : a->m, first = l * (right ? a->batch_b : a->batch_a);
    double *out = calloc((size_t)(lines * a->k), sizeof *out);
    for (int64_t i = 0; out && i < lines * a->k; i++) {
        place x;
        if (a->conv_images > 0 && find(k, a, right, i / a->k, i % a->k, &x))
            out[i] = creal(ref_element_load((trp_dtype)(right ? k->b : k->a), tensor,
                                            first + offset_of(&x, right ? a->conv_b : a->conv_a)));
    }
    return out;
}

/* Elements that the tensor of A or B spans. */
uint64_t fake_cutlass_conv_span(const fake_cutlass_kernel *k, const trp_cutlass_args *a, bool right)
{
    const int64_t *stride = right ? a->conv_b : a->conv_a;
    bool filter = right && k->conv != TRP_CONV_WGRAD;
    bool activation = k->conv == TRP_CONV_FPROP ? !right : k->conv == TRP_CONV_WGRAD && right;
    const int32_t *size = filter ? a->conv_filter : activation ? a->conv_input : a->conv_output;
    int64_t channels = filter || activation ? a->conv_channels : a->conv_filters;
    int64_t outer = filter ? a->conv_filters : a->conv_images;
    if (a->conv_images == 0)
        return 0;
    int64_t last =
        (outer - 1) * stride[0] + channels - 1 + (a->l - 1) * (right ? a->batch_b : a->batch_a);
    for (int i = 0; i < DIMS; i++)
        last += (size[i] - 1) * stride[1 + i];
    return (uint64_t)last + 1;
}

/* Returns whether the sizes of the product are those of the convolution, and the kernel can run it.
 */
bool fake_cutlass_can_convolve(const fake_cutlass_kernel *k, const trp_cutlass_args *a)
{
    bool data = k->conv == TRP_CONV_DGRAD, by_filter = k->conv == TRP_CONV_WGRAD;
    int64_t taps = volume(a->conv_filter), inner = data ? a->conv_filters : a->conv_channels;
    int64_t pixels = a->conv_images * volume(data ? a->conv_input : a->conv_output);
    for (int i = 0; i < DIMS; i++) {
        if (a->conv_input[i] < 1 || a->conv_filter[i] < 1 || a->conv_output[i] < 1 ||
            a->conv_pad[i] < 0 || a->conv_stride[i] < 1 || a->conv_dilation[i] < 1 ||
            (data && k->unit_stride && a->conv_stride[i] != 1))
            return false;
    }
    if (k->dims == 2 && (a->conv_input[0] != 1 || a->conv_filter[0] != 1 ||
                         a->conv_output[0] != 1 || a->conv_pad[0] != 0))
        return false;
    return by_filter
               ? a->m == a->conv_filters && a->n == taps * inner && a->k == (pixels ? pixels : 1)
               : a->m == pixels && a->k == taps * inner &&
                     a->n == (data ? a->conv_channels : a->conv_filters);
}

/* Tensor maps: innermost dimension first. */

static void add_tensor(trp_cutlass_map *map, const fake_cutlass_kernel *k, int64_t channels,
                       const int32_t size[DIMS], int64_t outer, const int64_t stride[1 + DIMS])
{
    uint64_t element = trp_dtype_bits((trp_dtype)k->a) / 8;
    map->rank = (uint8_t)(k->dims + 2);
    map->size[0] = (uint32_t)channels - 1;
    map->size[k->dims + 1] = (uint32_t)outer - 1;
    map->stride[k->dims] = (uint64_t)stride[0] * element;
    for (int i = 0; i < k->dims; i++) {
        map->size[1 + i] = (uint32_t)size[DIMS - 1 - i] - 1;
        map->stride[i] = (uint64_t)stride[DIMS - i] * element;
    }
    memset(map->step, 1, sizeof map->step);
}

/* Describes the windows of a gathered operand; `plain`: each pixel of the output once. */
static void gather_map(trp_cutlass_map *map, const fake_cutlass_kernel *k,
                       const trp_cutlass_args *a, bool plain)
{
    bool data = k->conv == TRP_CONV_DGRAD;
    for (int i = 0; i < k->dims; i++) {
        int d = DIMS - 1 - i, wide = (a->conv_filter[d] - 1) * a->conv_dilation[d];
        int count = data ? a->conv_input[d] : a->conv_output[d];
        int size = data || plain ? a->conv_output[d] : a->conv_input[d];
        int step = data || plain ? 1 : a->conv_stride[d];
        int lower = plain ? 0 : data ? a->conv_pad[d] - wide : -a->conv_pad[d];
        map->lower[i] = (int8_t)lower;
        map->upper[i] = (int8_t)(lower + (count - 1) * step + 1 - size);
        map->step[1 + i] = (uint8_t)step;
    }
    map->tag = TRP_CUTLASS_IM2COL;
    map->box[0] = 64;
    map->box[1] = 64;
}

void fake_cutlass_conv_maps(const fake_cutlass_kernel *k, const trp_cutlass_args *a,
                            trp_cutlass_map *of_a, trp_cutlass_map *of_b)
{
    bool forward = k->conv == TRP_CONV_FPROP, by_filter = k->conv == TRP_CONV_WGRAD;
    *of_a = (trp_cutlass_map){.address = a->a, .swizzle = 3};
    *of_b = (trp_cutlass_map){.address = a->b, .swizzle = 3, .tag = TRP_CUTLASS_TILED};
    add_tensor(of_a, k, (int64_t)a->l * (forward ? a->conv_channels : a->conv_filters),
               forward ? a->conv_input : a->conv_output, a->conv_images, a->conv_a);
    gather_map(of_a, k, a, by_filter);
    if (by_filter) {
        add_tensor(of_b, k, (int64_t)a->l * a->conv_channels, a->conv_input, a->conv_images,
                   a->conv_b);
        gather_map(of_b, k, a, false);
        return;
    }
    add_tensor(of_b, k, a->conv_channels, a->conv_filter, (int64_t)a->l * a->conv_filters,
               a->conv_b);
    for (int i = 0; i < 5; i++)
        of_b->box[i] = 1;
    of_b->box[0] = 64;
}
