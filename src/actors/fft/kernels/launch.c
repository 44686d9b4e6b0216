#include "actors/fft/kernels/launch.h"

#include "base/error.h"

#include <string.h>

const trp__own_program trp__fft_program = {
    .actor = "fft", .name = "fft", .file = "actors/fft/kernels/module.cuh"};

trp_status trp__fft_kernels_load(trp__fft_kernels *k, const trp__cuda *cu, trp__store *store,
                                 const char *target, const atomic_bool *stop, trp_error *error)
{
    const struct {
        const char *name;
        trp__cu_function *out;
    } rest[] = {
        {"trp_fft_before", &k->before}, {"trp_fft_behind", &k->behind}, {"trp_fft_sums", &k->sums}};
    if (k->sums)
        return TRP_OK;
    const trp_status status = trp__own_module_load(&k->module, cu, store, target, &trp__fft_program,
                                                   "trp_fft_copy", stop, error);
    if (status != TRP_OK)
        return status;
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        const trp__cu_result result =
            cu->cuModuleGetFunction(rest[i].out, k->module.module, rest[i].name);
        if (result != TRP__CU_SUCCESS) {
            k->sums = NULL;
            return trp__cuda_error(error, result, "cuModuleGetFunction");
        }
    }
    k->copy = k->module.kernel;
    return TRP_OK;
}

void trp__fft_kernels_unload(trp__fft_kernels *k, const trp__cuda *cu, trp_instance *instance)
{
    trp__own_module_unload(&k->module, cu, instance);
    k->copy = k->sums = k->before = k->behind = NULL;
}

/* The copy. */

static void swap_dims(trp__fft_copy *c, int a, int b)
{
#define SWAP(member)                                                                               \
    do {                                                                                           \
        const int64_t was = c->member[a];                                                          \
        c->member[a] = c->member[b];                                                               \
        c->member[b] = was;                                                                        \
    } while (0)
    SWAP(dim);
    SWAP(have);
    SWAP(x_stride);
    SWAP(y_stride);
    SWAP(x_turn);
    SWAP(y_turn);
#undef SWAP
    const unsigned both = 1u << a | 1u << b, set = c->axes & both;
    if (set && set != both)
        c->axes ^= (uint8_t)both;
    c->last = (uint8_t)(c->last == a ? b : c->last == b ? a : c->last);
}

static void remove_dim(trp__fft_copy *c, int at)
{
    for (int i = at; i + 1 < c->rank; i++)
        swap_dims(c, i, i + 1);
    c->rank--;
    c->axes &= (uint8_t)((1u << c->rank) - 1);
}

static int64_t distance(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

/* Whether dimension `at` goes on where the next one ends. */
static bool joins(const trp__fft_copy *c, int at)
{
    const int next = at + 1;
    const bool special = c->symmetric && (c->last == at || c->last == next || (c->axes >> at & 1) ||
                                          (c->axes >> next & 1));
    const bool turned = c->x_turn[at] || c->x_turn[next] || c->y_turn[at] || c->y_turn[next];
    return !special && !turned && c->have[at] == c->dim[at] && c->have[next] == c->dim[next] &&
           c->x_stride[at] == c->x_stride[next] * c->dim[next] &&
           c->y_stride[at] == c->y_stride[next] * c->dim[next];
}

void trp__fft_copy_settle(trp__fft_copy *c)
{
    for (int i = c->rank - 1; i >= 0; i--) {
        if (c->dim[i] == 1 && c->have[i] == 1 && !(c->symmetric && c->last == i))
            remove_dim(c, i);
    }
    for (int i = 1; i < c->rank; i++) {
        for (int k = i; k > 0 && distance(c->y_stride[k - 1]) < distance(c->y_stride[k]); k--)
            swap_dims(c, k - 1, k);
    }
    for (int i = c->rank - 2; i >= 0; i--) {
        if (!joins(c, i))
            continue;
        c->dim[i] = c->have[i] = c->dim[i] * c->dim[i + 1];
        c->x_stride[i] = c->x_stride[i + 1];
        c->y_stride[i] = c->y_stride[i + 1];
        remove_dim(c, i + 1);
    }
    if (c->rank == 0) {
        c->rank = 1;
        c->dim[0] = c->have[0] = 1;
    }
    c->count = 1;
    for (int i = 0; i < c->rank; i++) {
        c->count *= c->dim[i];
        c->turned = c->turned || c->x_turn[i] || c->y_turn[i];
    }
}

/* Launches. */

static trp_status launch(const trp__cuda *cu, trp__cu_function function, void *parameter,
                         int64_t blocks, trp__cu_stream stream, trp_error *error)
{
    const int64_t most = 1 << 20;
    void *parameters[] = {parameter};
    if (blocks == 0)
        return TRP_OK;
    const trp__cu_result result =
        cu->cuLaunchKernel(function, (unsigned)(blocks < most ? blocks : most), 1, 1,
                           TRP__FFT_KERNEL_THREADS, 1, 1, 0, stream, parameters, NULL);
    return result == TRP__CU_SUCCESS ? TRP_OK : trp__cuda_error(error, result, "cuLaunchKernel");
}

trp_status trp__fft_launch_copy(const trp__cuda *cu, trp__cu_function function,
                                const trp__fft_copy *copy, trp__cu_stream stream, trp_error *error)
{
    trp__fft_copy parameter = *copy;
    const int64_t threads = TRP__FFT_KERNEL_THREADS;
    return launch(cu, function, &parameter, (copy->count + threads - 1) / threads, stream, error);
}

trp_status trp__fft_launch_sums(const trp__cuda *cu, trp__cu_function function,
                                const trp__fft_sums *sums, trp__cu_stream stream, trp_error *error)
{
    trp__fft_sums parameter = *sums;
    return launch(cu, function, &parameter, sums->count, stream, error);
}

trp_status trp__fft_launch_trig(const trp__cuda *cu, trp__cu_function function,
                                const trp__fft_trig *trig, trp__cu_stream stream, trp_error *error)
{
    trp__fft_trig parameter = *trig;
    const int64_t threads = TRP__FFT_KERNEL_THREADS;
    return launch(cu, function, &parameter, (trig->count + threads - 1) / threads, stream, error);
}
