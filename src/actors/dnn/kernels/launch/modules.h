/* The kernels of actors/dnn/kernels as modules: one image for each file of kernels and kind of
 * device, compiled by NVRTC ahead of time into a pack or, where no pack has it, when it is first
 * needed, and stored in the kernel cache. */
#ifndef TRP_ACTORS_DNN_KERNELS_LAUNCH_MODULES_H
#define TRP_ACTORS_DNN_KERNELS_LAUNCH_MODULES_H

#include "compile/own/own.h"

/* One row per module: name, the file that defines its kernels. */
#define TRP__KERNEL_MODULES(X)                                                                     \
    X(DIRECT, "direct", "actors/dnn/reference/module.cuh")                                         \
    X(MAP, "map", "actors/dnn/kernels/map/map.cuh")                                                \
    X(READY_UNITS, "ready_units", "actors/dnn/kernels/map/ready_units.cuh")                        \
    X(READY_DRAWS, "ready_draws", "actors/dnn/kernels/map/ready_draws.cuh")                        \
    X(REDUCE, "reduce", "actors/dnn/kernels/reduce/reduce_packs.cuh")                              \
    X(MOVE, "move", "actors/dnn/kernels/move/move.cuh")                                            \
    X(ATTENTION_F16_64, "attention_f16_64", "actors/dnn/kernels/attention/f16_64.cuh")             \
    X(ATTENTION_F16_128, "attention_f16_128", "actors/dnn/kernels/attention/f16_128.cuh")          \
    X(ATTENTION_BF16_64, "attention_bf16_64", "actors/dnn/kernels/attention/bf16_64.cuh")          \
    X(ATTENTION_BF16_128, "attention_bf16_128", "actors/dnn/kernels/attention/bf16_128.cuh")       \
    X(ATTENTION_F32_64, "attention_f32_64", "actors/dnn/kernels/attention/f32_64.cuh")             \
    X(ATTENTION_F32_128, "attention_f32_128", "actors/dnn/kernels/attention/f32_128.cuh")          \
    X(ATTENTION_F32_256, "attention_f32_256", "actors/dnn/kernels/attention/f32_256.cuh")          \
    X(ATTENTION_F64_64, "attention_f64_64", "actors/dnn/kernels/attention/f64_64.cuh")             \
    X(ATTENTION_F64_128, "attention_f64_128", "actors/dnn/kernels/attention/f64_128.cuh")          \
    X(ATTENTION_F64_256, "attention_f64_256", "actors/dnn/kernels/attention/f64_256.cuh")          \
    X(BATCH, "batch", "actors/dnn/kernels/norm/batch_slices.cuh")                                  \
    X(NORM, "norm", "actors/dnn/kernels/norm/norm.cuh")                                            \
    X(POOL, "pool", "actors/dnn/kernels/pool/pool.cuh")                                            \
    X(SOFTMAX, "softmax", "actors/dnn/kernels/softmax/softmax.cuh")                                \
    X(ENTROPY, "entropy", "actors/dnn/kernels/losses/entropy.cuh")                                 \
    X(MULTIPLY, "multiply", "actors/dnn/kernels/multiply/multiply.cuh")                            \
    X(SELECT, "select", "actors/dnn/kernels/select/select.cuh")                                    \
    X(GATHER, "gather", "actors/dnn/kernels/move/gather.cuh")                                      \
    X(ROTARY, "rotary", "actors/dnn/kernels/rotary/rotary.cuh")                                    \
    X(LOSSES, "losses", "actors/dnn/kernels/losses/losses.cuh")                                    \
    X(OPTIMIZER, "optimizer", "actors/dnn/kernels/optimizer/optimizer.cuh")

typedef enum trp__kernel_module {
#define TRP__KERNEL_MODULE(symbol, name, file) TRP__MODULE_##symbol,
    TRP__KERNEL_MODULES(TRP__KERNEL_MODULE)
#undef TRP__KERNEL_MODULE
        TRP__KERNEL_MODULE_COUNT,
} trp__kernel_module;

/* The modules of one actor. The caller sets the first four fields, and zeroes the others. */
typedef struct trp__kernel_modules {
    const trp__cuda *cu;
    trp__store *store;        /* NULL: there is none */
    const char *target;       /* "sm_90" */
    int processors;           /* multiprocessors of the device */
    struct trp__fused *fused; /* kernels compiled for one program each; NULL: none */
    struct {
        void *image; /* NULL: not there yet */
        size_t bytes;
        trp__cu_module loaded;
    } module[TRP__KERNEL_MODULE_COUNT];
} trp__kernel_modules;

trp__own_program trp__kernels_program(trp__kernel_module module);

/* Finds the image, or compiles it, which takes seconds. Needs no device. One thread at a time.
 * TRP_E_MISSING: no NVRTC, and no pack has it; TRP_E_CANCELLED: `stop`, which may be NULL, has
 * become true; TRP_E_LIBRARY; TRP_E_MEMORY. */
trp_status trp__kernels_make(trp__kernel_modules *m, trp__kernel_module module,
                             const atomic_bool *stop, trp_error *error);

/* Finds the image of a caller's source in the cache, or compiles it and stores it there. The source
 * may include the files of these kernels. `name` is for messages. *image is the caller's to free.
 * Any thread. */
trp_status trp__kernels_image(const trp__kernel_modules *m, const char *name, const char *source,
                              void **image, size_t *bytes, trp_error *error);

/* Tells whether the image is there, or the cache has it; compiles nothing. One thread at a time. */
bool trp__kernels_ready(trp__kernel_modules *m, trp__kernel_module module);

/* Gives `to`, the modules of another thread, the image that `from` has. TRP_E_MEMORY. */
trp_status trp__kernels_share(const trp__kernel_modules *from, trp__kernel_modules *to,
                              trp__kernel_module module, trp_error *error);

/* Returns TRP_OK for a CUresult of 0, else an error. Without an instance the worker does not learn
 * of the error. */
trp_status trp__kernel_check(trp_instance *instance, int result, const char *call,
                             trp_error *error);

/* Looks up a kernel. Makes and loads its module if need be. The context must be current. instance
 * NULL: as with trp__kernel_check(). */
trp_status trp__kernels_function(trp__kernel_modules *m, trp_instance *instance,
                                 trp__kernel_module module, const char *name, trp__cu_function *out,
                                 trp_error *error);

/* Unloads and frees all modules. The context must be current. */
void trp__kernels_end(trp__kernel_modules *m, trp_instance *instance);

#endif
