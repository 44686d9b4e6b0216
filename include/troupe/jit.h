/* The "jit" actor: kernels of your own, as CUDA C++ source or as images, compiled, linked and
 * launched as requests.
 *
 *     trp_jit_compile_request c = {.source = text, .names = (const char *[]){"axpy"},
 *                                  .name_count = 1};
 *     trp_jit_compile(jit, &c, &module, NULL);
 *     trp_kernel_arg args[] = {trp_arg_buffer(x, TRP_ACCESS_READ),
 *                              trp_arg_buffer(y, TRP_ACCESS_READ_WRITE), trp_arg_f32(2.0f)};
 *     trp_kernel_launch_request l = {.module = module, .kernel = "axpy", .grid = {n / 256},
 *                                    .block = {256}, .args = args, .arg_count = 3};
 *     trp_kernel_launch(jit, &l, &done);
 *
 * A *module* is the result of a compile, link or load. The call returns its handle at once, long
 * before the compile has ended: requests that use the module wait for it, and no others do. If the
 * module can't be made, they end with TRP_E_DEPENDENCY, naming the request that failed.
 *
 * The images of modules, and values that trp_module_set() wrote to their variables, lie in memory
 * of this process. So a handle outlives workers: the next one loads the image again at its first
 * use, without a compile. Values that kernels write to variables of a module are lost with the
 * worker, or when the module is unloaded to make room (see docs/actors/jit.md): lasting data
 * belongs into buffers.
 *
 * A module belongs to the actor that made it; requests on it go there. Compiling and linking work
 * on both backends and need NVRTC and nvJitLink, opened by the worker when first needed; on the
 * host everything else gives TRP_E_UNSUPPORTED. SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_JIT_H
#define TROUPE_JIT_H

#include <troupe/custom.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRP_OP_JIT_COMPILE   UINT32_C(0x0501)
#define TRP_OP_JIT_LINK      UINT32_C(0x0502)
#define TRP_OP_JIT_LOAD      UINT32_C(0x0503)
#define TRP_OP_KERNEL_LAUNCH UINT32_C(0x0504)
#define TRP_OP_MODULE_SET    UINT32_C(0x0505)
#define TRP_OP_KERNEL_QUERY  UINT32_C(0x0506)

#define TRP_JIT_OPTIONS_MAX      256 /* options, include paths, headers, names: of each */
#define TRP_JIT_SOURCE_MAX       (UINT64_C(256) << 20) /* bytes of all that a request brings */
#define TRP_JIT_LINK_INPUTS_MAX  64
#define TRP_JIT_LINK_MODULES_MAX 15 /* of these inputs, modules */
#define TRP_KERNEL_ARGS_MAX      256
#define TRP_KERNEL_BUFFERS_MAX   14    /* arguments that name a buffer */
#define TRP_KERNEL_VALUES_MAX    32764 /* bytes of all arguments together */
#define TRP_MODULE_SET_MAX       65536 /* bytes of one trp_module_set() */
#define TRP_MODULE_SETS_MAX      32    /* ranges of a module that are set, see there */

/* A module. Generation-checked as buffers are: a handle that was freed, was never given out or is
 * another device's gives TRP_E_STALE. All zero names none. */
typedef struct trp_module {
    uint64_t id;
} trp_module;

/* Result of a compile or link. */
typedef enum trp_jit_output {
    TRP_JIT_CUBIN = 0, /* machine code for one architecture */
    TRP_JIT_PTX = 1,   /* assembly text, that the driver compiles for its GPU when it loads it */
    TRP_JIT_LTOIR = 2, /* for a link with `lto`; can't be launched. Not of a link */
    /* Machine code too, of a whole program: compiled to LTO-IR, which nvJitLink links alone.
     * Kernels and variables that `names` lacks are removed, if it has any. Much faster and smaller
     * for sources with much code that no kernel uses. Not of a link */
    TRP_JIT_CUBIN_LTO = 3,
} trp_jit_output;

/* A header in memory: what #include "name" or <name> finds. */
typedef struct trp_jit_header {
    const char *name;
    const char *text; /* terminated */
} trp_jit_header;

/* CUDA C++ source to a module: nvrtcCreateProgram, nvrtcAddNameExpression, nvrtcCompileProgram.
 * Everything is copied by the call. A source that this process or another compiled before is not
 * compiled again as long as its headers are the same; see docs/actors/jit.md. */
typedef struct trp_jit_compile_request {
    trp_request header; /* a deadline counts from when the compile begins */
    const char *source; /* terminated */
    const char *name; /* of the source, in messages; if it has a slash, headers are searched in its
                         folder too. NULL: "kernel.cu" */
    const trp_jit_header *headers;
    uint32_t header_count;
    /* Folders with headers, searched in this order after `headers`. Relative ones are made absolute
     * here. NVIDIA's own headers (cuda_fp16.h, ...) are not found by themselves. */
    const char *const *include_paths;
    uint32_t include_count;
    /* Further options, as NVRTC documents them ("--use_fast_math", "-DN=4", "-std=c++20"), in
     * order. Refused: options with a field of their own here (architecture, include path, -dlto),
     * options that make or read files of NVRTC's own (--time, --pch and their kind), and options
     * with blanks around them, which NVRTC would drop. */
    const char *const *options;
    uint32_t option_count;
    /* Kernels, and variables with an ampersand before them, that requests will name, as C++
     * expressions: "scale", "scale<float, 4>", "&table". Naming a template here instantiates it. */
    const char *const *names;
    uint32_t name_count;
    /* "sm_90", "sm_90a", "sm_100f", "compute_90" (PTX and LTO-IR only); "a" or "f" alone is the
     * device's with that suffix. NULL: the device's; on the host, which has none, it must be
     * given. */
    const char *architecture;
    trp_jit_output output;
    /* A promise: the result does not depend on where the folders of include_paths lie, although
     * headers could see it (__FILE__ in an assert(), without -DNDEBUG). Then the kernel cache finds
     * it wherever they lie. A result that contains one of their paths is not cached. No effect on
     * PTX and LTO-IR, which can't be searched for paths. */
    bool portable;
    uint64_t output_bytes_max; /* room for image, log and names; 0: 16 MiB. At most 1 GiB. A larger
                                * result fails with TRP_E_ARGUMENT */
    trp_module *module;        /* out: set by trp_jit_compile() */
} trp_jit_compile_request;

/* Kind of an input of a link. */
typedef enum trp_jit_input_kind {
    TRP_JIT_INPUT_ANY = 0, /* found out by its first bytes: cubin, fatbin, PTX, LTO-IR */
    TRP_JIT_INPUT_CUBIN = 1,
    TRP_JIT_INPUT_PTX = 2,
    TRP_JIT_INPUT_LTOIR = 3,
    TRP_JIT_INPUT_FATBIN = 4,
    TRP_JIT_INPUT_OBJECT = 5,
    TRP_JIT_INPUT_LIBRARY = 6,
} trp_jit_input_kind;

typedef struct trp_jit_input {
    trp_module module; /* of this actor, or: */
    const void *data;
    uint64_t bytes;
    trp_jit_input_kind kind; /* of `data` */
    const char *name;        /* in messages; NULL: "input 0" and so on */
} trp_jit_input;

/* Several inputs to one module: nvJitLinkCreate, nvJitLinkAddData, nvJitLinkComplete. */
typedef struct trp_jit_link_request {
    trp_request header;
    const trp_jit_input *inputs;
    uint32_t input_count;
    bool lto;                   /* link-time optimisation; inputs of LTO-IR need it */
    const char *const *options; /* as nvJitLink documents them, but for -arch, -lto, -ptx */
    uint32_t option_count;
    const char *const *names; /* as in a compile. Expressions of the linked modules; other names are
                                 those in the images */
    uint32_t name_count;
    const char *architecture; /* "sm_90"; else as in a compile */
    trp_jit_output output;    /* cubin, or PTX (only with lto) */
    uint64_t output_bytes_max;
    trp_module *module; /* out */
} trp_jit_link_request;

/* An image to a module: cuModuleLoadDataEx. It is loaded in its turn, so an image that does not fit
 * the GPU fails this request. */
typedef struct trp_jit_load_request {
    trp_request header;
    const void *image;        /* cubin, fatbin, or PTX text; copied */
    uint64_t bytes;           /* of PTX with or without its terminating zero */
    const char *const *names; /* of kernels and, with an ampersand, variables; as in the image,
                               * and so without line ends */
    uint32_t name_count;
    trp_module *module; /* out */
} trp_jit_load_request;

/* One axis has size[i] elements; axis 0 is the one that is contiguous. As cuTensorMapEncodeTiled
 * wants it, whose rules (alignments, the limits of a box) the driver checks. */
typedef struct trp_tensor_map {
    trp_dtype type;   /* not f64-complex; i8, u8, bool, fp8 as bytes, f4e2m1 as 16 packed values */
    uint32_t rank;    /* 1 to 5 */
    uint64_t size[5]; /* elements */
    uint64_t stride[4];  /* bytes between neighbours of axis i + 1; all 0: densely packed */
    uint32_t box[5];     /* elements that one copy moves */
    uint32_t step[5];    /* between elements of an axis that are moved; 0: 1 */
    uint32_t interleave; /* CUtensorMapInterleave: 0 none, 1 16 bytes, 2 32 bytes */
    uint32_t swizzle; /* CUtensorMapSwizzle: 0 none, 1 32, 2 64, 3 128 bytes, 4 to 6 the others */
    uint32_t l2;      /* CUtensorMapL2promotion: 0 none, 1 64, 2 128, 3 256 bytes */
    bool nan_fill;    /* elements outside read as NaN, not 0 */
} trp_tensor_map;

typedef enum trp_arg_kind {
    TRP_ARG_VALUE = 0,      /* `bytes` bytes, at `data` if that is not NULL, else in `bits` */
    TRP_ARG_BUFFER = 1,     /* the address of `buffer` at `offset`; the parameter is a pointer */
    TRP_ARG_TENSOR_MAP = 2, /* `map` of `buffer` at `offset`; the parameter is a __grid_constant__
                             * CUtensorMap */
} trp_arg_kind;

/* One argument of a kernel. `mode` must be true of the kernel's accesses; see trp_access_mode. */
typedef struct trp_kernel_arg {
    trp_arg_kind kind;
    uint32_t bytes;   /* VALUE; at most 8 without `data` */
    uint64_t bits;    /* VALUE without `data` */
    const void *data; /* VALUE: a struct, for example; copied by the call */
    trp_buffer buffer;
    uint64_t offset;       /* bytes */
    uint64_t buffer_bytes; /* of it that the kernel uses; 0: all from the offset to its end */
    trp_access_mode mode;  /* 0: READ_WRITE */
    const trp_tensor_map *map;
} trp_kernel_arg;

TRP_INLINE trp_kernel_arg trp_arg_bytes(const void *data, uint32_t bytes)
{
    trp_kernel_arg a = {TRP_ARG_VALUE, bytes, 0, data, {0}, 0, 0, TRP_ACCESS_DEFAULT, NULL};
    return a;
}

TRP_INLINE trp_kernel_arg trp_arg_u64(uint64_t value)
{
    trp_kernel_arg a = {TRP_ARG_VALUE, 8, value, NULL, {0}, 0, 0, TRP_ACCESS_DEFAULT, NULL};
    return a;
}

TRP_INLINE trp_kernel_arg trp_arg_i64(int64_t value)
{
    return trp_arg_u64((uint64_t)value);
}

TRP_INLINE trp_kernel_arg trp_arg_u32(uint32_t value)
{
    trp_kernel_arg a = {TRP_ARG_VALUE, 4, value, NULL, {0}, 0, 0, TRP_ACCESS_DEFAULT, NULL};
    return a;
}

TRP_INLINE trp_kernel_arg trp_arg_i32(int32_t value)
{
    return trp_arg_u32((uint32_t)value);
}

TRP_INLINE trp_kernel_arg trp_arg_f32(float value)
{
    union {
        float f;
        uint32_t u;
    } bits;
    bits.f = value;
    return trp_arg_u32(bits.u);
}

TRP_INLINE trp_kernel_arg trp_arg_f64(double value)
{
    union {
        double f;
        uint64_t u;
    } bits;
    bits.f = value;
    return trp_arg_u64(bits.u);
}

TRP_INLINE trp_kernel_arg trp_arg_buffer(trp_buffer buffer, trp_access_mode mode)
{
    trp_kernel_arg a = {TRP_ARG_BUFFER, 0, 0, NULL, buffer, 0, 0, mode, NULL};
    return a;
}

TRP_INLINE trp_kernel_arg trp_arg_tensor_map(trp_buffer buffer, const trp_tensor_map *map,
                                             trp_access_mode mode)
{
    trp_kernel_arg a = {TRP_ARG_TENSOR_MAP, 0, 0, NULL, buffer, 0, 0, mode, map};
    return a;
}

/* A kernel on the actor's stream: cuLaunchKernelEx. The arguments are compared with the kernel's
 * own parameters, their number and the size of each, before anything runs. After another request's
 * fault it runs again if it reads no buffer that it writes. */
typedef struct trp_kernel_launch_request {
    trp_request header;
    trp_module module;
    const char *kernel;  /* as in the `names` of the module; NULL: the first of them */
    uint32_t grid[3];    /* blocks: x at least 1; y and z 0: 1. At most 2^31 - 1, 65535, 65535 */
    uint32_t block[3];   /* threads: x at least 1; y and z 0: 1. At most 1024, 1024, 64, and 1024 in
                          * all */
    uint32_t cluster[3]; /* blocks of a cluster; x 0: none. At most 16 in all; of which the grid is
                          * a multiple */
    uint32_t shared_bytes; /* dynamic shared memory of each block; above 48 KiB the kernel is
                            * allowed it first */
    bool cooperative;      /* all blocks run at a time, and can wait for each other */
    const trp_kernel_arg *args;
    uint32_t arg_count;
} trp_kernel_launch_request;

/* Writes to a variable of a module, __device__ or __constant__, in the order of the actor's
 * requests: cuModuleGetGlobal and a copy. The data is copied by the call and belongs to the module
 * from then on: it is written again wherever the module is loaded again. A module keeps up to
 * TRP_MODULE_SETS_MAX such ranges; what a later one covers is dropped once that has run.
 * TRP_E_BUSY: there is no room for one more. */
typedef struct trp_module_set_request {
    trp_request header;
    trp_module module;
    const char *variable; /* as in the `names`, with or without its ampersand; or the plain name of
                           * an extern "C" one */
    uint64_t offset;      /* bytes, in the variable */
    const void *data;
    uint32_t bytes; /* 1 to TRP_MODULE_SET_MAX */
} trp_module_set_request;

/* Attributes of a kernel: cuFuncGetAttribute and the occupancy functions. */
typedef struct trp_kernel_info {
    uint32_t registers;    /* of a thread */
    uint32_t shared_bytes; /* static, of a block */
    uint32_t constant_bytes;
    uint32_t local_bytes;        /* of a thread: what is spilled, and arrays */
    uint32_t threads_max;        /* of a block */
    uint32_t shared_dynamic_max; /* bytes that a launch may ask for now */
    uint32_t ptx_version;        /* 90 for compute_90 */
    uint32_t binary_version;     /* 90 for sm_90 */
    uint32_t parameters;
    uint32_t parameter_bytes;      /* up to the end of the last one */
    uint32_t blocks_per_processor; /* that fit, of `block_threads` threads */
    uint32_t block_best;           /* threads of a block for the highest occupancy */
    uint32_t grid_best;            /* blocks that fill the GPU then */
    uint64_t reserved[4];          /* 0 */
} trp_kernel_info;

typedef struct trp_kernel_query_request {
    trp_request header;
    trp_module module;
    const char *kernel;     /* NULL: the first of its names */
    uint32_t block_threads; /* for blocks_per_processor; 0: what threads_max says */
    uint32_t shared_bytes;  /* dynamic, of a block, for the occupancy */
    trp_kernel_info *out;   /* written if the request succeeds, before its end is delivered */
} trp_kernel_query_request;

/* Each of these sends a request; see trp_submit() for the completion and errors. Errors of the
 * call: TRP_E_ARGUMENT (names what and why), TRP_E_STALE, TRP_E_DEPENDENCY, TRP_E_UNSUPPORTED (what
 * this backend lacks), TRP_E_BUSY (as in submit.h, or no room for more images), TRP_E_MEMORY.
 * Errors of the completion: TRP_E_LIBRARY with domain "nvrtc", "nvjitlink" or "cuda" and the
 * library's code; the message of a failed compile begins with the first lines that say "error", and
 * trp_module_read() has the whole log. TRP_E_MISSING: the library was not found, and what to
 * install.
 *
 * Calls that make a module set *module to its handle when they return TRP_OK, and to zero
 * otherwise. A module is freed by trp_module_free(), also one that could not be made. */
#define TRP__JIT_REQUEST(name, number, request_type)                                               \
    TRP_INLINE trp_status trp_##name(trp_actor *jit, const request_type *request,                  \
                                     trp_module *module, trp_completion *completion)               \
    {                                                                                              \
        request_type r = *request;                                                                 \
        r.header.op = number;                                                                      \
        r.header.size = (uint32_t)sizeof r;                                                        \
        r.module = module;                                                                         \
        if (module)                                                                                \
            module->id = 0;                                                                        \
        return trp_submit(jit, &r.header, completion);                                             \
    }
TRP__JIT_REQUEST(jit_compile, TRP_OP_JIT_COMPILE, trp_jit_compile_request)
TRP__JIT_REQUEST(jit_link, TRP_OP_JIT_LINK, trp_jit_link_request)
TRP__JIT_REQUEST(jit_load, TRP_OP_JIT_LOAD, trp_jit_load_request)
#undef TRP__JIT_REQUEST
TRP__REQUEST(kernel_launch, TRP_OP_KERNEL_LAUNCH, trp_kernel_launch_request)
TRP__REQUEST(module_set, TRP_OP_MODULE_SET, trp_module_set_request)
TRP__REQUEST(kernel_query, TRP_OP_KERNEL_QUERY, trp_kernel_query_request)

/* Frees a module. The handle is stale from now on; requests that were sent before run to their end.
 * Its image goes after the last of them; the worker unloads it with the actor's next requests.
 * Never blocks. TRP_E_STALE. */
TRP_API trp_status trp_module_free(trp_device *device, trp_module module);

typedef enum trp_module_state {
    TRP_MODULE_PENDING = 1, /* its request has not ended; for a while also after a cancel */
    TRP_MODULE_READY = 2,
    TRP_MODULE_FAILED = 3, /* could not be made; may have a log */
} trp_module_state;

typedef struct trp_module_info {
    trp_module_state state;
    trp_jit_output output; /* of a loaded one CUBIN */
    uint64_t image_bytes;  /* 0 unless READY */
    uint64_t log_bytes;    /* without a terminating zero */
    uint32_t names;
    uint32_t headers;     /* that the compile may have read, see TRP_MODULE_HEADERS */
    uint64_t reserved[4]; /* 0 */
} trp_module_info;

/* Says how far a module is, without waiting. TRP_E_STALE, TRP_E_ARGUMENT. */
TRP_API trp_status trp_module_get_info(trp_device *device, trp_module module, trp_module_info *out);

/* Parts of a module to read. */
typedef enum trp_module_part {
    TRP_MODULE_IMAGE = 0, /* cubin, PTX (with its terminating zero) or LTO-IR */
    TRP_MODULE_LOG = 1,   /* all output of the compiler or linker; text */
    TRP_MODULE_NAMES = 2, /* the name in the image of each of its names, a line each; text */
    /* The headers that the compile has read, a line each: "memory NAME", "file PATH", and "none
     * PATH" for a place that was searched before; a last line "unsure" if the list may be
     * incomplete (an #include of a macro that is not simply a name). See docs/actors/jit.md.
     * Text. */
    TRP_MODULE_HEADERS = 3,
} trp_module_part;

/* Copies a part of a module to `out`, and its size to *bytes: at most `size` bytes are copied, so a
 * call with size 0 asks how large it is. Text ends with a zero if there is room, not counted. From
 * memory of this process: no message is sent. TRP_E_BUSY: the module is not made yet.
 * TRP_E_DEPENDENCY: it has no image, because it could not be made. TRP_E_INTERNAL: the worker has
 * left an invalid result. TRP_E_STALE, TRP_E_ARGUMENT. */
TRP_API trp_status trp_module_read(trp_device *device, trp_module module, trp_module_part part,
                                   void *out, uint64_t size, uint64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
