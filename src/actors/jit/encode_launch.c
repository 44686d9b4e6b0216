/* The sender's side of launch, set and query. */
#include "actors/jit/jit.h"
#include "actors/jit/encode.h"
#include "base/error.h"
#include "wire/layout.h"

#include <stdio.h>
#include <string.h>

/* Dimensions. */

typedef struct axis_limits {
    const char *name;
    uint64_t most[3];
    uint64_t most_in_all; /* 0: none */
} axis_limits;

/* From the CUDA C++ Programming Guide, technical specifications; the same for every compute
 * capability since 5.0. A cluster has up to 8 blocks, or 16 if the kernel allows it. */
static const axis_limits grid_limits = {"grid", {INT32_MAX, 65535, 65535}, 0};
static const axis_limits block_limits = {"block", {1024, 1024, 64}, 1024};
static const axis_limits cluster_limits = {"cluster", {16, 16, 16}, 16};

static trp_status set_axes(trp__encoder *encoder, const axis_limits *limits, const uint32_t in[3],
                           uint32_t out[3])
{
    uint64_t all = 1;
    for (int i = 0; i < 3; i++) {
        out[i] = in[i] == 0 && i > 0 ? 1 : in[i];
        if (out[i] == 0 || out[i] > limits->most[i])
            return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                                  "%s[%d]: expected 1 to %llu, got %u", limits->name, i,
                                  (unsigned long long)limits->most[i], out[i]);
        all *= out[i];
    }
    if (limits->most_in_all && all > limits->most_in_all)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "%s: expected at most %llu in all, got %u x %u x %u", limits->name,
                              (unsigned long long)limits->most_in_all, out[0], out[1], out[2]);
    return TRP_OK;
}

static trp_status set_dimensions(trp__encoder *encoder, const trp_kernel_launch_request *r,
                                 trp__jit_launch *l)
{
    trp_status status = set_axes(encoder, &grid_limits, r->grid, l->grid);
    if (status == TRP_OK)
        status = set_axes(encoder, &block_limits, r->block, l->block);
    if (status != TRP_OK)
        return status;
    if (r->cluster[0] == 0)
        return r->cluster[1] == 0 && r->cluster[2] == 0
                   ? TRP_OK
                   : trp__error_set(encoder->error, TRP_E_ARGUMENT,
                                    "cluster[0]: expected 1 to 16, got 0 followed by %u and %u",
                                    r->cluster[1], r->cluster[2]);
    if (encoder->compute < 90)
        return trp__error_set(encoder->error, TRP_E_UNSUPPORTED,
                              "cluster: needs compute capability 9.0, the GPU has %u.%u",
                              encoder->compute / 10, encoder->compute % 10);
    status = set_axes(encoder, &cluster_limits, r->cluster, l->cluster);
    for (int i = 0; i < 3 && status == TRP_OK; i++) {
        if (l->cluster[i] != 0 && l->grid[i] % l->cluster[i] != 0)
            status = trp__error_set(encoder->error, TRP_E_ARGUMENT,
                                    "grid[%d]: expected a multiple of cluster[%d], %u, got %u", i,
                                    i, l->cluster[i], l->grid[i]);
    }
    return status;
}

/* Arguments. */

/* Returns the CUtensorMapDataType of a type; -1: there is none. */
static int tensor_type(trp_dtype type)
{
    switch (type) {
    case TRP_I8:
    case TRP_U8:
    case TRP_BOOL:
    case TRP_F8E4M3:
    case TRP_F8E5M2:
    case TRP_F8E8M0:
        return 0;
    case TRP_I32:
        return 3;
    case TRP_I64:
    case TRP_C64:
        return 5;
    case TRP_F16:
        return 6;
    case TRP_F32:
        return 7;
    case TRP_F64:
        return 8;
    case TRP_BF16:
        return 9;
    case TRP_F4E2M1:
        return 13;
    default:
        return -1;
    }
}

static trp_status wrong_map(trp__encoder *encoder, uint32_t index, const char *field,
                            const char *wanted, uint64_t got)
{
    return trp__error_set(encoder->error, TRP_E_ARGUMENT, "args[%u].map.%s: expected %s, got %llu",
                          index, field, wanted, (unsigned long long)got);
}

/* Fills the parameters for the driver; *bytes gets the extent of the tensor in the buffer. */
static trp_status set_tensor(trp__encoder *encoder, uint32_t index, const trp_tensor_map *map,
                             trp__jit_tensor *out, uint64_t *bytes)
{
    int type = tensor_type(map->type);
    uint64_t bits = trp_dtype_bits(map->type), span = 0;
    bool packed = true;
    if (type < 0)
        return trp__error_set(
            encoder->error, TRP_E_ARGUMENT,
            "args[%u].map.type: expected an element type that tensor maps support, "
            "got %s (%d)",
            index, trp_dtype_name(map->type), (int)map->type);
    if (map->rank < 1 || map->rank > 5)
        return wrong_map(encoder, index, "rank", "1 to 5", map->rank);
    if (map->interleave > 2)
        return wrong_map(encoder, index, "interleave", "0 to 2", map->interleave);
    if (map->swizzle > 6)
        return wrong_map(encoder, index, "swizzle", "0 to 6", map->swizzle);
    if (map->l2 > 3)
        return wrong_map(encoder, index, "l2", "0 to 3", map->l2);
    *out = (trp__jit_tensor){.type = (uint32_t)type,
                             .rank = map->rank,
                             .interleave = map->interleave,
                             .swizzle = map->swizzle,
                             .l2 = map->l2,
                             .fill = map->nan_fill};
    for (uint32_t i = 0; i + 1 < map->rank; i++)
        packed = packed && map->stride[i] == 0;
    for (uint32_t i = 0; i < map->rank; i++) {
        if (map->size[i] < 1 || map->size[i] > UINT64_C(1) << 32)
            return wrong_map(encoder, index, "size", "1 to 2^32 on each axis", map->size[i]);
        if (map->box[i] < 1 || map->box[i] > 256)
            return wrong_map(encoder, index, "box", "1 to 256 on each axis", map->box[i]);
        if (map->step[i] > 8)
            return wrong_map(encoder, index, "step", "at most 8", map->step[i]);
        out->size[i] = map->size[i];
        out->box[i] = map->box[i];
        out->step[i] = map->step[i] ? map->step[i] : 1;
        if (i == 0) {
            span = (map->size[0] * bits + 7) / 8;
            continue;
        }
        uint64_t stride = packed ? span : map->stride[i - 1];
        if (stride < 1 || stride >= UINT64_C(1) << 40 || stride % 16 != 0)
            return wrong_map(encoder, index, "stride", "a multiple of 16 bytes, below 2^40",
                             stride);
        out->stride[i - 1] = stride;
        if (map->size[i] > 1 && stride > (UINT64_MAX - span) / (map->size[i] - 1))
            return wrong_map(encoder, index, "size", "a tensor that fits a buffer", map->size[i]);
        span = packed ? stride * map->size[i] : span + stride * (map->size[i] - 1);
    }
    *bytes = span;
    return TRP_OK;
}

/* Adds the access of a buffer argument, which must have at least `least` bytes. */
static trp_status add_buffer(trp__encoder *encoder, uint32_t index, const trp_kernel_arg *a,
                             uint64_t least, uint8_t *access)
{
    trp__record *record = encoder->record;
    char name[24];
    snprintf(name, sizeof name, "args[%u]", index);
    *access = (uint8_t)record->access_count;
    trp_status status = trp__encode_access_described(encoder, name, a->buffer, a->mode, a->offset,
                                                     "buffer_bytes", a->buffer_bytes);
    const uint64_t bytes = record->access[*access].bytes;
    if (status != TRP_OK || bytes >= least)
        return status;
    return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                          "%s.map: expected at most %llu bytes, got %llu", name,
                          (unsigned long long)bytes, (unsigned long long)least);
}

/* The memory that arguments are written to. */
typedef struct arg_room {
    unsigned char *at;
    uint32_t bytes;
} arg_room;

static void put_arg(arg_room *room, const trp__jit_arg *arg, const void *data)
{
    memcpy(room->at + room->bytes, arg, sizeof *arg);
    memcpy(room->at + room->bytes + sizeof *arg, data, arg->bytes);
    room->bytes += (uint32_t)(sizeof *arg + trp__jit_padded(arg->bytes));
}

static trp_status set_arg(trp__encoder *encoder, uint32_t index, const trp_kernel_arg *a,
                          arg_room *room)
{
    trp__jit_arg arg = {.kind = (uint8_t)a->kind};
    trp__jit_tensor tensor;
    uint64_t least = 0;
    trp_status status = TRP_OK;
    switch (a->kind) {
    case TRP_ARG_VALUE:
        arg.bytes = a->bytes;
        put_arg(room, &arg, a->data ? a->data : &a->bits);
        return TRP_OK;
    case TRP_ARG_BUFFER:
        status = add_buffer(encoder, index, a, 0, &arg.access);
        if (status == TRP_OK)
            put_arg(room, &arg, "");
        return status;
    default:
        status = set_tensor(encoder, index, a->map, &tensor, &least);
        if (status == TRP_OK)
            status = add_buffer(encoder, index, a, least, &arg.access);
        arg.bytes = sizeof tensor;
        if (status == TRP_OK)
            put_arg(room, &arg, &tensor);
        return status;
    }
}

/* Checks the arguments and counts their bytes. */
static trp_status count_args(trp__encoder *encoder, const trp_kernel_launch_request *r,
                             uint32_t *bytes)
{
    uint64_t all = 0, values = 0;
    uint32_t buffers = 0;
    if (r->arg_count > TRP_KERNEL_ARGS_MAX)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "arg_count: expected at most %d, got %u", TRP_KERNEL_ARGS_MAX,
                              r->arg_count);
    if (r->arg_count > 0 && !r->args)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "args: expected a pointer to %u, got NULL", r->arg_count);
    for (uint32_t i = 0; i < r->arg_count; i++) {
        const trp_kernel_arg *a = &r->args[i];
        uint64_t most = a->data ? TRP_KERNEL_VALUES_MAX : sizeof a->bits;
        all += sizeof(trp__jit_arg);
        if ((uint32_t)a->kind > TRP_ARG_TENSOR_MAP)
            return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                                  "args[%u].kind: expected a trp_arg_kind, got %d", i,
                                  (int)a->kind);
        if (a->kind == TRP_ARG_VALUE && (a->bytes == 0 || a->bytes > most))
            return trp__error_set(
                encoder->error, TRP_E_ARGUMENT, "args[%u].bytes: expected 1 to %llu%s, got %u", i,
                (unsigned long long)most, a->data ? "" : " without `data`", a->bytes);
        if (a->kind == TRP_ARG_TENSOR_MAP && !a->map)
            return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                                  "args[%u].map: expected a pointer, got NULL", i);
        if (a->kind != TRP_ARG_VALUE && ++buffers > TRP_KERNEL_BUFFERS_MAX)
            return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                                  "args[%u]: expected at most %d arguments that name a buffer", i,
                                  TRP_KERNEL_BUFFERS_MAX);
        values += a->kind == TRP_ARG_VALUE ? a->bytes : a->kind == TRP_ARG_BUFFER ? 8 : 128;
        all += a->kind == TRP_ARG_VALUE        ? trp__jit_padded(a->bytes)
               : a->kind == TRP_ARG_TENSOR_MAP ? sizeof(trp__jit_tensor)
                                               : 0;
    }
    if (values > TRP_KERNEL_VALUES_MAX)
        return trp__error_set(encoder->error, TRP_E_ARGUMENT,
                              "args: expected at most %d bytes of parameters, got %llu",
                              TRP_KERNEL_VALUES_MAX, (unsigned long long)values);
    *bytes = (uint32_t)all;
    return TRP_OK;
}

static trp_status set_args(trp__encoder *encoder, const trp_kernel_launch_request *r,
                           trp__jit_launch *l)
{
    arg_room room = {.at = l->args};
    trp_status status = TRP_OK;
    if (l->args_bytes > sizeof l->args) {
        void *piece = NULL;
        status = encoder->input(encoder, l->args_bytes, &piece);
        room.at = piece;
    }
    for (uint32_t i = 0; i < r->arg_count && status == TRP_OK; i++)
        status = set_arg(encoder, i, &r->args[i], &room);
    return status;
}

trp_status trp__jit_encode_launch(trp__encoder *encoder, const trp_request *request)
{
    const trp_kernel_launch_request *r = (const trp_kernel_launch_request *)request;
    trp__jit_launch l = {
        .shared = r->shared_bytes, .cooperative = r->cooperative, .arg_count = r->arg_count};
    trp__module_layout layout;
    trp_status status = trp__jit_need_gpu(encoder, "launching a kernel");
    if (status == TRP_OK)
        status = set_dimensions(encoder, r, &l);
    if (status == TRP_OK)
        status = count_args(encoder, r, &l.args_bytes);
    if (status == TRP_OK)
        status = trp__module_use(encoder, "module", r->module, TRP__READ, &layout);
    if (status == TRP_OK)
        status = trp__jit_find_kernel(encoder, &layout, r->kernel, &l.name);
    if (status == TRP_OK)
        status = set_args(encoder, r, &l);
    if (status != TRP_OK)
        return status;
    l.storage = layout.storage;
    memcpy(encoder->record->payload, &l, sizeof l);
    return TRP_OK;
}

_Static_assert(TRP_KERNEL_VALUES_MAX + TRP_KERNEL_ARGS_MAX * 16 +
                       TRP_KERNEL_BUFFERS_MAX * sizeof(trp__jit_tensor) <=
                   TRP__SMALL_BYTES,
               "all arguments fit into a piece of staging memory");

/* Set. */

/* Writes the number of a variable to `out` if it is among the names of the module. */
static void number_variable(const trp__module_layout *layout, const char *variable, char out[16])
{
    const char *plain = variable[0] == '&' ? variable + 1 : variable;
    for (uint32_t i = 0; i < layout->name_count; i++) {
        if (layout->names[i][0] == '&' && strcmp(layout->names[i] + 1, plain) == 0)
            snprintf(out, 16, "%c%u", TRP__JIT_NUMBERED, i);
    }
}

trp_status trp__jit_encode_set(trp__encoder *encoder, const trp_request *request)
{
    const trp_module_set_request *r = (const trp_module_set_request *)request;
    trp__jit_set s = {0};
    trp__module_layout layout;
    void *room = NULL;
    char number[16] = "";
    trp_status status = trp__jit_need_gpu(encoder, "setting a variable");
    if (status == TRP_OK && (!r->variable || !r->variable[0] || strlen(r->variable) > 1023))
        status = trp__error_set(encoder->error, TRP_E_ARGUMENT,
                                "variable: expected a name of 1 to 1023 bytes, got %s",
                                !r->variable     ? "NULL"
                                : r->variable[0] ? "a longer one"
                                                 : "an empty one");
    if (status == TRP_OK && (r->bytes == 0 || r->bytes > TRP_MODULE_SET_MAX))
        status = trp__error_set(encoder->error, TRP_E_ARGUMENT, "bytes: expected 1 to %d, got %u",
                                TRP_MODULE_SET_MAX, r->bytes);
    if (status == TRP_OK && !r->data)
        status =
            trp__error_set(encoder->error, TRP_E_ARGUMENT, "data: expected a pointer, got NULL");
    if (status == TRP_OK && r->offset > UINT64_MAX / 2)
        status = trp__error_set(encoder->error, TRP_E_ARGUMENT,
                                "offset: expected one in the variable, got %llu",
                                (unsigned long long)r->offset);
    if (status == TRP_OK)
        status = trp__module_use(encoder, "module", r->module, TRP__WRITE, &layout);
    if (status == TRP_OK)
        status = encoder->input(encoder, r->bytes, &room);
    if (status != TRP_OK || !room || !r->data)
        return status;
    memcpy(room, r->data, r->bytes);
    number_variable(&layout, r->variable, number);
    status = trp__module_add_set(encoder, &layout, number[0] ? number : r->variable, r->offset,
                                 r->data, r->bytes, &s.set);
    s.storage = layout.storage;
    memcpy(encoder->record->payload, &s, sizeof s);
    return status;
}

/* Query. */

trp_status trp__jit_encode_query(trp__encoder *encoder, const trp_request *request)
{
    const trp_kernel_query_request *r = (const trp_kernel_query_request *)request;
    trp__jit_query q = {.block = r->block_threads, .shared = r->shared_bytes};
    trp__module_layout layout;
    trp_status status = trp__jit_need_gpu(encoder, "asking about a kernel");
    if (status == TRP_OK && !r->out)
        status =
            trp__error_set(encoder->error, TRP_E_ARGUMENT, "out: expected a pointer, got NULL");
    if (status == TRP_OK && r->block_threads > 1024)
        status = trp__error_set(encoder->error, TRP_E_ARGUMENT,
                                "block_threads: expected at most 1024, got %u", r->block_threads);
    if (status == TRP_OK)
        status = trp__module_use(encoder, "module", r->module, TRP__READ, &layout);
    if (status == TRP_OK)
        status = trp__jit_find_kernel(encoder, &layout, r->kernel, &q.name);
    if (status == TRP_OK)
        status = encoder->result(encoder, r->out, sizeof *r->out);
    q.storage = layout.storage;
    if (status == TRP_OK)
        memcpy(encoder->record->payload, &q, sizeof q);
    return status;
}
