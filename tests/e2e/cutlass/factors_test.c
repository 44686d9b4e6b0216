/* What the cutlass actor's sender refuses of factors for blocks and of weights, beside
 * tests/conformance.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/harness.h"

TROUPE_TEST("computes");
TROUPE_TEST_FAKE_GPU("no tsan", "cutlass");

static h_world world;
static trp_actor *cutlass;

static trp_cutlass_gemm_request right(trp_buffer any)
{
    return (trp_cutlass_gemm_request){
        .m = 16,
        .n = 16,
        .k = 128,
        .a = {.buffer = any,
              .type = TRP_F8E4M3,
              .order = TRP_ROW_MAJOR,
              .scale = {.buffer = any, .mode = TRP_SCALE_BLOCK_128}},
        .b = {.buffer = any, .scale = {.buffer = any, .mode = TRP_SCALE_BLOCK_128X128}}};
}

static trp_cutlass_gemm_request weights(trp_buffer any, trp_buffer out)
{
    return (trp_cutlass_gemm_request){
        .m = 16,
        .n = 16,
        .k = 128,
        .a = {.buffer = any, .type = TRP_BF16, .order = TRP_ROW_MAJOR},
        .b = {.buffer = any, .type = TRP_I8},
        .d = {.buffer = out, .stride = 256},
        .groups = {.size = 64, .scale = any}};
}

static void refuse(const trp_cutlass_gemm_request *r, trp_status status, const char *word)
{
    trp_completion done = {0};
    H_IS(trp_cutlass_gemm(cutlass, r, &done), status);
    H_SAYS(word);
}

#define REFUSE(change, status, word)                                                               \
    do {                                                                                           \
        trp_cutlass_gemm_request r = right(any);                                                   \
        r.d.buffer = out;                                                                          \
        change;                                                                                    \
        refuse(&r, status, word);                                                                  \
    } while (0)

static void refused(void)
{
    trp_completion done = {0};
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
    trp_buffer any = h_buffer(world.device, 4096), out = h_buffer(world.device, 4096);
    trp_cutlass_gemm_request first = right(any);
    first.d.buffer = out;
    H_OK(trp_cutlass_gemm(cutlass, &first, &done));
    H_OK(h_await_any(done));
    REFUSE(r.a.scale.mode = TRP_SCALE_VECTOR, TRP_E_UNSUPPORTED, "a.scale: expected none, or");
    REFUSE(r.a.scale.mode = (trp_scale_mode)6, TRP_E_ARGUMENT, "a.scale.mode: expected a trp_sc");
    REFUSE(r.b.scale.mode = (trp_scale_mode)-1, TRP_E_ARGUMENT, "b.scale.mode: expected");
    REFUSE(r.b.scale.buffer.id = 0, TRP_E_ARGUMENT, "b.scale.buffer: expected one with mode 5");
    REFUSE(r.a.scale = (trp_scale){0}, TRP_E_UNSUPPORTED, "a.scale: expected factors of as many");
    REFUSE(r.b.scale = (trp_scale){0}, TRP_E_UNSUPPORTED, "b.scale: expected factors of as many");
    REFUSE(r.b.scale.mode = TRP_SCALE_BLOCK_32, TRP_E_UNSUPPORTED, "got mode 4 and 3");
    REFUSE(r.b.scale.mode = TRP_SCALE_BLOCK_16, TRP_E_UNSUPPORTED,
           "b.scale: factors of mode 2 for a matrix of type f8e4m3");
    REFUSE(r.a.type = TRP_BF16, TRP_E_UNSUPPORTED, "a.scale: factors of mode 4 for a matrix of");
    REFUSE(r.a.type = TRP_I8, TRP_E_UNSUPPORTED, "a.scale: factors of mode 4 for a matrix of");
    REFUSE(r.a.scale.offset = 2, TRP_E_ARGUMENT, "a.scale.offset: expected a multiple of 4, got 2");
    REFUSE(r.a.scale.offset = 4080, TRP_E_ARGUMENT, "a.scale");
    REFUSE((r.batch = 2, r.d.stride = 256, r.a.scale.stride = -4), TRP_E_ARGUMENT,
           "a.scale.stride: expected 0 to 2^31 - 1, got -4");
    REFUSE((r.batch = 2, r.d.stride = 256, r.b.scale.stride = INT64_C(1) << 31), TRP_E_ARGUMENT,
           "b.scale.stride: expected 0 to 2^31 - 1, got 2147483648");
    REFUSE((r.batch = 2, r.d.stride = 256, r.a.scale.mode = TRP_SCALE_BLOCK_32,
            r.a.scale.stride = 520),
           TRP_E_ARGUMENT, "a.scale.stride: expected 0 to 2^31 - 1, a multiple of 16, got 520");
    REFUSE((r.batch = 2, r.d.stride = 256, r.a.scale.stride = 1020), TRP_E_ARGUMENT, "a.scale");
    REFUSE((r.batch = 3, r.d.stride = 256, r.a.scale.stride = INT64_C(1) << 30),
           h_backend() == TRP_BACKEND_CUDA ? TRP_E_UNSUPPORTED : TRP_E_ARGUMENT, "a.scale");
    REFUSE(r.b.scale.buffer = out, TRP_E_ARGUMENT, "overlap");
    REFUSE(r.d.scale.buffer = any, TRP_E_UNSUPPORTED, "d.scale: expected none");
    REFUSE((r.a.type = TRP_F4E2M1, r.a.scale = r.b.scale = (trp_scale){0}), TRP_E_UNSUPPORTED,
           "expected factors of as many elements along k as f4e2m1 must have");
    REFUSE((r.a.type = TRP_F4E2M1, r.k = 127), TRP_E_ARGUMENT, "of even numbers of elements");
    REFUSE((r.groups.scale = any), TRP_E_UNSUPPORTED,
           "groups: expected none but for a B of 8 or 4 bits");
    H_EQUAL(h_info(world.device).incarnation, 1);
    h_close(&world);
}

#define REFUSE_WEIGHTS(change, status, word) REFUSE((r = weights(any, out), change), status, word)

static void refused_weights(void)
{
    world = h_open(NULL);
    cutlass = h_actor(world.device, "cutlass");
    trp_buffer any = h_buffer(world.device, 4096), out = h_buffer(world.device, 4096);
    REFUSE_WEIGHTS((r.groups.scale.id = 0, r.groups.zero = any), TRP_E_ARGUMENT, "groups.scale");
    REFUSE_WEIGHTS((r.batch = 2, r.groups.stride = 2040), TRP_E_ARGUMENT, "groups.scale");
    REFUSE_WEIGHTS((r.batch = 2, r.groups.stride = INT64_MAX / 2), TRP_E_ARGUMENT, "groups.scale");
    REFUSE_WEIGHTS(r.b.type = TRP_F16, TRP_E_UNSUPPORTED,
                   "b.type: expected bf16, i8, i4, f8e4m3 or f8e5m2 where A is bf16, got f16");
    REFUSE_WEIGHTS(r.b.scale = ((trp_scale){.buffer = any, .mode = TRP_SCALE_BLOCK_128}),
                   TRP_E_UNSUPPORTED, "b.scale: factors of mode 4 for a matrix of type i8");
    REFUSE_WEIGHTS((r.a.type = TRP_I8, r.b.type = TRP_BF16), TRP_E_UNSUPPORTED,
                   "b.type: expected i8 where A is i8");
    REFUSE_WEIGHTS(
        (r.b.type = TRP_I4, r.k = 127), TRP_E_ARGUMENT,
        "b: expected lines, b.ld and b.stride of even numbers of elements, got 127, 127");
    REFUSE_WEIGHTS((r.b.type = TRP_I4, r.b.ld = 129), TRP_E_ARGUMENT, "got 128, 129 and 0");
    REFUSE_WEIGHTS((r.b.type = TRP_I4, r.b.ld = 126), TRP_E_ARGUMENT, "b.ld: expected");
    REFUSE_WEIGHTS((r.b.type = TRP_I4, r.b.offset = 3088), TRP_E_ARGUMENT, "b");
    REFUSE_WEIGHTS((r.b.type = TRP_I4, r.b.order = TRP_ROW_MAJOR, r.n = 15), TRP_E_ARGUMENT,
                   "of even numbers of elements, got 15, 15");
    REFUSE_WEIGHTS(r.a.type = TRP_I4, TRP_E_UNSUPPORTED, "a.type: expected f64");
    REFUSE_WEIGHTS(r.d.type = TRP_I4, TRP_E_UNSUPPORTED, "d.type: expected f32");
    H_EQUAL(h_info(world.device).incarnation, 1);
    h_close(&world);
}

static const h_case cases[] = {H_CASE(refused), H_CASE(refused_weights)};

int main(int argc, char **argv)
{
    if (h_is_gpu())
        return H_EXIT_SKIPPED; /* gpu/cutlass_rows has some */
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
