#include "actors/random/kernels/launch.h"

#include "base/error.h"

/* A thread makes some chunks of numbers, so that what follows from the seed is computed once. */
enum { BLOCKS_OF_PROCESSOR = 32, CHUNK_BYTES = 16 };

const trp__own_program trp__random_program = {
    .actor = "random", .name = "random", .file = "actors/random/kernels/random.cuh"};

trp_status trp__random_kernels_load(trp__random_kernels *k, const trp__cuda *cu, trp__store *store,
                                    const char *target, trp_error *error)
{
    static const char *const names[] = {
#define NAME(name, ...) "trp_philox_" #name,
        TRP__RANDOM_KERNELS(NAME, )
#undef NAME
    };
    const trp_status status = trp__own_module_load(
        &k->module, cu, store, target, &trp__random_program, "trp_philox_advance", NULL, error);
    if (status != TRP_OK)
        return status;
    for (int i = 0; i < TRP__RANDOM_KERNEL_COUNT; i++) {
        const trp__cu_result result =
            cu->cuModuleGetFunction(&k->fill[i], k->module.module, names[i]);
        if (result != TRP__CU_SUCCESS)
            return trp__cuda_error(error, result, "cuModuleGetFunction");
    }
    return TRP_OK;
}

void trp__random_kernels_unload(trp__random_kernels *k, const trp__cuda *cu, trp_instance *instance)
{
    trp__own_module_unload(&k->module, cu, instance);
    *k = (trp__random_kernels){0};
}

/* Launches. */

static trp__random_kernel of_type(uint8_t type, trp__random_kernel f32, trp__random_kernel f16,
                                  trp__random_kernel bf16, trp__random_kernel f64)
{
    return type == TRP_F32 ? f32 : type == TRP_F16 ? f16 : type == TRP_BF16 ? bf16 : f64;
}

static trp__random_kernel kernel_for(const trp__random *g)
{
    const uint32_t bits = trp_dtype_bits(g->type);
    switch (g->distribution) {
    case TRP_RANDOM_BITS:
        return TRP__RANDOM_bits;
    case TRP_RANDOM_INTEGERS:
        return bits == 8    ? TRP__RANDOM_integers_8
               : bits == 32 ? TRP__RANDOM_integers_32
                            : TRP__RANDOM_integers_64;
    case TRP_RANDOM_UNIFORM:
        return of_type(g->type, TRP__RANDOM_uniform_f32, TRP__RANDOM_uniform_f16,
                       TRP__RANDOM_uniform_bf16, TRP__RANDOM_uniform_f64);
    case TRP_RANDOM_NORMAL:
        return of_type(g->type, TRP__RANDOM_normal_f32, TRP__RANDOM_normal_f16,
                       TRP__RANDOM_normal_bf16, TRP__RANDOM_normal_f64);
    case TRP_RANDOM_BERNOULLI:
    case TRP_RANDOM_DROPOUT:
        return bits == 8    ? TRP__RANDOM_two_values_8
               : bits == 16 ? TRP__RANDOM_two_values_16
               : bits == 32 ? TRP__RANDOM_two_values_32
                            : TRP__RANDOM_two_values_64;
    default:
        return of_type(g->type, TRP__RANDOM_others_f32, TRP__RANDOM_others_f16,
                       TRP__RANDOM_others_bf16, TRP__RANDOM_others_f64);
    }
}

/* Two parts of an element along a last dimension. */
static void split(trp__random_launch *l, uint8_t type)
{
    trp__random_dim *last = &l->dim[l->rank - 1];
    l->pairs = 1;
    l->g.type = type;
    l->g.words /= 2;
    for (int i = 0; i < l->rank; i++)
        l->dim[i].stride *= 2;
    if (last->stride == 2)
        *last = (trp__random_dim){.n = 2 * last->n, .stride = 1};
    else
        l->dim[l->rank++] = (trp__random_dim){.n = 2, .stride = 1};
}

trp__random_kernel trp__random_launch_of(const trp__random *g, trp__random_launch *out)
{
    *out = (trp__random_launch){.g = *g, .count = 1, .rank = g->rank};
    for (int i = 0; i < g->rank; i++)
        out->dim[i] = g->dim[i];
    if (g->type == TRP_C64)
        split(out, TRP_F32);
    else if (g->type == TRP_C128)
        split(out, TRP_F64);
    else if (g->distribution == TRP_RANDOM_BITS && g->type == TRP_I64)
        split(out, TRP_I32);
    for (int i = 0; i < out->rank; i++)
        out->count *= out->dim[i].n;
    out->packed = out->rank == 1 && out->dim[0].stride == 1;
    return kernel_for(&out->g);
}

static trp__cu_result launch(const trp__cuda *cu, trp__cu_function function, void *parameter,
                             int64_t blocks, unsigned threads, trp__cu_stream stream)
{
    void *parameters[] = {parameter};
    return cu->cuLaunchKernel(function, (unsigned)blocks, 1, 1, threads, 1, 1, 0, stream,
                              parameters, NULL);
}

trp__cu_result trp__random_launch_fill(const trp__random_kernels *k, const trp__cuda *cu,
                                       trp__random_kernel kernel, const trp__random_launch *l,
                                       trp__cu_stream stream)
{
    /* Words in units of 16 bytes are chunks, or more where an element is wider than its words. */
    const int64_t chunks = l->count * (trp_dtype_bits(l->g.type) / 8) / CHUNK_BYTES + 2;
    const int64_t most = (int64_t)k->processors * BLOCKS_OF_PROCESSOR;
    const int64_t blocks = (chunks + TRP__RANDOM_KERNEL_THREADS - 1) / TRP__RANDOM_KERNEL_THREADS;
    trp__random_launch parameter = *l;
    return launch(cu, k->fill[kernel], &parameter, blocks < most ? blocks : most,
                  TRP__RANDOM_KERNEL_THREADS, stream);
}

trp__cu_result trp__random_launch_advance(const trp__random_kernels *k, const trp__cuda *cu,
                                          const trp__random_advance_launch *l,
                                          trp__cu_stream stream)
{
    trp__random_advance_launch parameter = *l;
    return launch(cu, k->module.kernel, &parameter, 1, 32, stream);
}
