#include "actors/cutlass/run/builder.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* A shape: a problem without addresses and numbers. */
typedef struct shape {
    trp__refit *refit;           /* on its own; NULL: its parameters are built each time */
    uint32_t maps;               /* tensor maps */
    trp__cutlass_parameter like; /* but for what it is */
} shape;

static void drop(void *context, void *value)
{
    trp__cutlass_parameter *p = value;
    (void)context;
    free(p->data);
}

static void drop_shape(void *context, void *value)
{
    shape *x = value;
    (void)context;
    free(x->refit);
}

void trp__cutlass_builder_close(trp__cutlass_builder *b)
{
    if (!b->cu)
        return;
    if (b->stream) {
        trp_cuda_check(b->instance, b->cu->cuStreamSynchronize(b->stream), "cuStreamSynchronize",
                       NULL);
        b->cu->cuStreamDestroy_v2(b->stream);
    }
    if (b->done)
        b->cu->cuEventDestroy_v2(b->done);
    if (b->room)
        b->cu->cuMemFreeHost(b->room);
    trp__lru_destroy(b->known);
    trp__lru_destroy(b->shapes);
    memset(b, 0, sizeof *b);
}

trp_status trp__cutlass_builder_open(trp__cutlass_builder *b, trp_instance *instance,
                                     const trp__cuda *cu, trp_error *error)
{
    b->cu = cu;
    b->instance = instance;
    trp_status status =
        trp__lru_create(sizeof(trp__cutlass_problem_key), sizeof(trp__cutlass_parameter),
                        TRP__CUTLASS_PARAMETERS, drop, NULL, &b->known, error);
    if (status == TRP_OK)
        status = trp__lru_create(sizeof(trp__cutlass_problem_key), sizeof(shape),
                                 TRP__CUTLASS_SHAPES, drop_shape, NULL, &b->shapes, error);
    if (status == TRP_OK)
        status = trp_cuda_check(instance, cu->cuDriverGetVersion(&b->driver), "cuDriverGetVersion",
                                error);
    if (status == TRP_OK)
        status =
            trp_cuda_check(instance, cu->cuStreamCreate(&b->stream, TRP__CU_STREAM_NON_BLOCKING),
                           "cuStreamCreate", error);
    if (status == TRP_OK)
        status = trp_cuda_check(instance, cu->cuEventCreate(&b->done, TRP__CU_EVENT_DISABLE_TIMING),
                                "cuEventCreate", error);
    if (status == TRP_OK)
        status =
            trp_cuda_check(instance,
                           cu->cuMemHostAlloc(&b->room, TRP__REFIT_BUILDS * TRP_CUTLASS_RESULT_SIZE,
                                              TRP__CU_MEMHOSTALLOC_DEVICEMAP),
                           "cuMemHostAlloc", error);
    if (status == TRP_OK)
        status =
            trp_cuda_check(instance, cu->cuMemHostGetDevicePointer_v2(&b->room_address, b->room, 0),
                           "cuMemHostGetDevicePointer", error);
    return status;
}

/* Tensor maps. */

/* CUTLASS's own correction, for drivers that encode small tensors in a way its kernels do not want.
 */
static void correct(const trp__cutlass_builder *b, const trp_cutlass_map *from,
                    trp__cu_tensor_map *map)
{
    uint64_t bytes = from->rank > 1
                         ? from->stride[from->rank - 2] * ((uint64_t)from->size[from->rank - 1] + 1)
                         : 0;
    uint64_t word;
    if (b->driver > 13010 || bytes >= 128 << 10)
        return;
    memcpy(&word, (char *)map + sizeof word, sizeof word);
    word &= ~(UINT64_C(1) << 21);
    memcpy((char *)map + sizeof word, &word, sizeof word);
}

static trp_status encode_gathered(const trp__cutlass_builder *b, const trp_cutlass_map *from,
                                  const uint64_t *size, const unsigned int *step,
                                  trp__cu_tensor_map *map, trp_error *error)
{
    int lower[3], upper[3];
    for (int i = 0; i < 3; i++) {
        lower[i] = (int)from->lower[i];
        upper[i] = (int)from->upper[i];
    }
    if (from->rank < 3)
        return trp__error_set(error, TRP_E_INTERNAL, "a tensor map of images in %u dimensions",
                              from->rank);
    return trp_cuda_check(b->instance,
                          b->cu->cuTensorMapEncodeIm2col(
                              map, from->type, from->rank, (void *)(uintptr_t)from->address, size,
                              from->stride, lower, upper, from->box[1], from->box[0], step,
                              from->interleave, from->swizzle, from->l2, from->fill),
                          "cuTensorMapEncodeIm2col", error);
}

static trp_status encode_map(const trp__cutlass_builder *b, unsigned char *at, trp_error *error)
{
    trp_cutlass_map from;
    trp__cu_tensor_map map;
    uint64_t size[5];
    unsigned int box[5], step[5];
    memcpy(&from, at, sizeof from);
    if (from.rank < 1 || from.rank > 5)
        return trp__error_set(error, TRP_E_INTERNAL, "a tensor map of %u dimensions", from.rank);
    for (int i = 0; i < 5; i++) {
        size[i] = (uint64_t)from.size[i] + 1;
        box[i] = from.box[i];
        step[i] = from.step[i];
    }
    bool gathered = from.tag == TRP_CUTLASS_IM2COL;
    trp_status status =
        gathered
            ? encode_gathered(b, &from, size, step, &map, error)
            : trp_cuda_check(b->instance,
                             b->cu->cuTensorMapEncodeTiled(&map, from.type, from.rank,
                                                           (void *)(uintptr_t)from.address, size,
                                                           from.stride, box, step, from.interleave,
                                                           from.swizzle, from.l2, from.fill),
                             "cuTensorMapEncodeTiled", error);
    if (status == TRP_OK && !gathered)
        correct(b, &from, &map);
    if (status == TRP_OK)
        memcpy(at, &map, sizeof map);
    return status;
}

/* Each map that the builder has left takes the place of its description. */
static trp_status encode_maps(const trp__cutlass_builder *b, unsigned char *data, uint32_t bytes,
                              uint32_t expected, trp_error *error)
{
    uint32_t count = 0;
    trp_status status = TRP_OK;
    for (uint32_t at = 0; at + sizeof(trp_cutlass_map) <= bytes && status == TRP_OK; at += 64) {
        uint64_t tag;
        memcpy(&tag, data + at, sizeof tag);
        if (tag != TRP_CUTLASS_TILED && tag != TRP_CUTLASS_IM2COL)
            continue;
        status = encode_map(b, data + at, error);
        count++;
        at += 64; /* it is 128 bytes */
    }
    if (status == TRP_OK && count != expected)
        status = trp__error_set(error, TRP_E_INTERNAL, "%u tensor maps in a parameter, not %u",
                                count, expected);
    return status;
}

/* Shapes. */

/* The problem but for what can be changed in its parameter. */
static trp__cutlass_problem_key shape_of(const trp__cutlass_problem_key *key)
{
    trp__cutlass_problem_key out = *key;
    trp__refit_add_numbers(&key->args, &out.addresses);
    out.args = trp__refit_shape(&key->args, &out.addresses);
    return out;
}

static bool are_same(const trp_cutlass_built *x, const trp_cutlass_built *y)
{
    return memcmp((const char *)x, (const char *)y, sizeof *x) == 0;
}

/* From what was built of the key and of marks. */
static void learn(trp__cutlass_builder *b, const trp_cutlass_built *built,
                  const trp__cutlass_parameter *parameter)
{
    const trp__cutlass_problem_key key = shape_of(&b->key);
    const void *data[TRP__REFIT_BUILDS];
    trp__refit *refit = malloc(sizeof *refit);
    bool learned = refit != NULL;
    for (uint32_t i = 0; i < TRP__REFIT_BUILDS; i++) {
        const char *room = (const char *)b->room + (size_t)i * TRP_CUTLASS_RESULT_SIZE;
        trp_cutlass_built one;
        memcpy(&one, room, sizeof one);
        learned = learned && are_same(&one, built);
        data[i] = room + TRP_CUTLASS_ALIGN;
    }
    learned =
        learned && trp__refit_learn(&b->key.args, &key.addresses, data, parameter->bytes, refit);
    if (!learned) {
        free(refit);
        refit = NULL;
    }
    shape *x = trp__lru_add(b->shapes, &key);
    *x = (shape){.refit = refit, .maps = built->tensor_maps, .like = *parameter};
    x->like.data = NULL;
}

/* The parameter of a problem whose shape is known; *out NULL: it has to be built. */
static trp_status refit(trp__cutlass_builder *b, const trp__cutlass_problem_key *key,
                        trp__cutlass_parameter **out, trp_error *error)
{
    const trp__cutlass_problem_key all = shape_of(key);
    const shape *x = trp__lru_find(b->shapes, &all);
    if (!x || !x->refit)
        return TRP_OK;
    unsigned char *data = malloc(x->refit->bytes);
    if (!data)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a parameter");
    trp__refit_apply(x->refit, &key->args, data);
    trp_status status = encode_maps(b, data, x->refit->bytes, x->maps, error);
    if (status != TRP_OK) {
        free(data);
        return status;
    }
    trp__cutlass_parameter *p = trp__lru_add(b->known, key);
    *p = x->like;
    p->data = data;
    *out = p;
    return TRP_OK;
}

/* Building. */

/* Takes the builder's output, and validates it, since kernels could have overwritten it. */
static trp_status take(trp__cutlass_builder *b, trp_error *error)
{
    trp_cutlass_built built;
    memcpy(&built, b->room, sizeof built);
    b->busy = false;
    bool known = built.status == TRP_CUTLASS_BUILT || built.status == TRP_CUTLASS_WORKSPACE ||
                 built.status == TRP_CUTLASS_REFUSED;
    if (!known || built.abi != TRP_CUTLASS_ABI || built.params_bytes != b->expected ||
        built.zero_bytes > built.workspace_bytes ||
        built.zero_at > built.workspace_bytes - built.zero_bytes)
        return trp__error_set(error, TRP_E_INTERNAL,
                              "the builder of a kernel left no parameter (ABI %u, status %u, %u "
                              "bytes, not %u)",
                              built.abi, built.status, built.params_bytes, b->expected);
    unsigned char *data = NULL;
    if (built.status == TRP_CUTLASS_BUILT) {
        data = malloc(built.params_bytes);
        if (!data)
            return trp__error_set(error, TRP_E_MEMORY, "no memory for a parameter");
        memcpy(data, (char *)b->room + TRP_CUTLASS_ALIGN, built.params_bytes);
        trp_status status = encode_maps(b, data, built.params_bytes, built.tensor_maps, error);
        if (status != TRP_OK) {
            free(data);
            return status;
        }
    }
    trp__cutlass_parameter *p = trp__lru_add(b->known, &b->key);
    *p = (trp__cutlass_parameter){.status = built.status,
                                  .bytes = built.params_bytes,
                                  .grid = {built.grid[0], built.grid[1], built.grid[2]},
                                  .workspace = built.workspace_bytes,
                                  .zero_at = built.zero_at,
                                  .zero_bytes = built.zero_bytes,
                                  .data = data};
    if (data && b->builds > 1)
        learn(b, &built, p);
    return TRP_OK;
}

/* The builder is a kernel of the request's own: what waits for it has begun, and a deadline ends
 * one that does not end. */
static trp_status wait_for_it(trp__cutlass_builder *b)
{
    *b->makes = true;
    return TRP_AGAIN;
}

static trp_status start(trp__cutlass_builder *b, const trp__cutlass_properties *properties,
                        const trp__cutlass_problem_key *key, trp_error *error)
{
    const trp__cutlass_problem_key all = shape_of(key);
    trp_status status = TRP_OK;
    b->key = *key;
    b->builds = trp__lru_find(b->shapes, &all) ? 1 : TRP__REFIT_BUILDS;
    b->expected = properties->info[TRP_CUTLASS_INFO_PARAMS];
    memset(b->room, 0, TRP__REFIT_BUILDS * TRP_CUTLASS_RESULT_SIZE);
    for (uint32_t i = 0; i < b->builds && status == TRP_OK; i++) {
        trp_cutlass_args args =
            i ? trp__refit_marked(&key->args, &all.addresses, i - 1) : key->args;
        trp__cu_address room = b->room_address + (uint64_t)i * TRP_CUTLASS_RESULT_SIZE;
        void *parameters[] = {&args, &room};
        status = trp_cuda_check(b->instance,
                                b->cu->cuLaunchKernel(properties->builder, 1, 1, 1, 1, 1, 1, 0,
                                                      b->stream, parameters, NULL),
                                "cuLaunchKernel", error);
    }
    if (status == TRP_OK)
        status = trp_cuda_check(b->instance, b->cu->cuEventRecord(b->done, b->stream),
                                "cuEventRecord", error);
    b->busy = status == TRP_OK;
    return status == TRP_OK ? wait_for_it(b) : status;
}

trp_status trp__cutlass_builder_find(trp__cutlass_builder *b,
                                     const trp__cutlass_properties *properties,
                                     const trp__cutlass_problem_key *key,
                                     trp__cutlass_parameter **out, trp_error *error)
{
    *b->makes = false;
    *out = trp__lru_find(b->known, key);
    if (*out)
        return TRP_OK;
    trp_status status = refit(b, key, out, error);
    if (*out || status != TRP_OK)
        return status;
    if (b->busy) {
        bool ours = memcmp((const char *)&b->key, (const char *)key, sizeof *key) == 0;
        trp__cu_result result = b->cu->cuEventQuery(b->done);
        if (result == TRP__CU_NOT_READY)
            return wait_for_it(b);
        trp_error of_another;
        status = trp_cuda_check(b->instance, result, "cuEventQuery", error);
        if (status == TRP_OK)
            status = take(b, ours ? error : &of_another);
        b->busy = false;
        *out = trp__lru_find(b->known, key);
        if (*out || (ours && status != TRP_OK))
            return status;
    }
    return start(b, properties, key, error);
}
