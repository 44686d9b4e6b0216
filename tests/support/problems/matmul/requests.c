/* See requests.h. SPDX-License-Identifier: Apache-2.0 */
#include "support/problems/matmul/requests.h"

h_world world;
trp_actor *matmul;
static trp_completion done;
static int mistakes;

trp_buffer a32, b32, c32, d32, aux32, bits, vector, scalars, large;
trp_buffer a8, b8, c16, d8, aux8, factor[4], amax[2];

static void expect(int line, const char *what, trp_status got, trp_status wanted, const char *word)
{
    if (got == TRP_OK && wanted != TRP_OK) {
        trp_future_drop(done.future);
        done.future.id = 9;
        fprintf(stderr, "line %d: %s was taken, expected %s, \"%s\"\n", line, what,
                trp_status_name(wanted), word);
    } else if (got != wanted) {
        fprintf(stderr, "line %d: %s gave %s (%s), expected %s, \"%s\"\n", line, what,
                trp_status_name(got), trp_error_message(), trp_status_name(wanted), word);
    } else if (got != TRP_OK && strncmp(trp_error_message(), word, strlen(word)) != 0) {
        fprintf(stderr, "line %d: %s: the message \"%s\" does not begin with \"%s\"\n", line, what,
                trp_error_message(), word);
    } else if (got != TRP_OK && done.future.id != 9) {
        fprintf(stderr, "line %d: %s: a refused request has a future\n", line, what);
    } else {
        return;
    }
    mistakes++;
}

static trp_status send(const trp_matmul_request *r)
{
    done.future.id = 9;
    return trp_matmul(matmul, r, &done);
}

void mq_refused(int line, const char *what, const trp_matmul_request *r, trp_status status,
                const char *word)
{
    uint64_t before = h_info(world.device).requests_submitted;
    expect(line, what, send(r), status, word);
    H_EQUAL(h_info(world.device).requests_submitted, before);
}

void mq_taken(int line, const char *what, const trp_matmul_request *r)
{
    trp_status status = send(r);
    if (status == TRP_OK)
        status = h_await_any(done);
    if (status == TRP_E_UNSUPPORTED && h_is_cuda())
        return;
    expect(line, what, status, TRP_OK, "");
}

void mq_open(void)
{
    world = h_open(NULL);
    trp_actor_options options = {.kind = "matmul"};
    trp_status status = trp_actor_create(world.device, &options, &matmul);
    if (status == TRP_E_UNSUPPORTED) {
        h_close(&world);
        h_skip("this backend has no matmul actor");
    }
    H_OK(status);
    mistakes = 0;
    done = (trp_completion){0};
    const struct {
        trp_buffer *buffer;
        uint64_t bytes;
    } all[] = {
        {&a32, M * K * 4},
        {&b32, K * N * 4},
        {&c32, M * N * 4},
        {&d32, M * N * 4},
        {&aux32, (8 * N - 3) * 4},
        {&bits, N * 16},
        {&vector, M * 4},
        {&scalars, 8},
        {&large, 1 << 16},
        {&a8, SIDE * SIDE},
        {&b8, SIDE * SIDE},
        {&c16, SIDE * SIDE * 2},
        {&d8, SIDE * SIDE},
        {&aux8, SIDE * SIDE},
        {&factor[0], 4},
        {&factor[1], 4},
        {&factor[2], 4},
        {&factor[3], 4},
        {&amax[0], 4},
        {&amax[1], 4},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *all[i].buffer = h_buffer(world.device, all[i].bytes);
        h_fill(world.device, *all[i].buffer, 0);
    }
}

void mq_close(void)
{
    if (mistakes)
        h_fail(__FILE__, __LINE__, "%d requests were not answered as they should be", mistakes);
    h_close(&world);
}

/* ---- requests that are right ---- */

trp_matmul_request plain(void)
{
    return (trp_matmul_request){.m = M,
                                .n = N,
                                .k = K,
                                .a = {.buffer = a32, .type = TRP_F32},
                                .b = {.buffer = b32},
                                .c = {.buffer = c32},
                                .d = {.buffer = d32},
                                .beta = trp_real(1)};
}

trp_matmul_request biased(void)
{
    trp_matmul_request r = plain();
    r.bias = (trp_matmul_vector){.buffer = vector};
    return r;
}

trp_matmul_request in_buffer(void)
{
    trp_matmul_request r = plain();
    r.beta = (trp_scalar){0};
    r.scalars = scalars;
    return r;
}

trp_matmul_request relu(void)
{
    trp_matmul_request r = biased();
    r.activation = TRP_ACTIVATION_RELU;
    r.aux.buffer = bits;
    return r;
}

trp_matmul_request gelu(void)
{
    trp_matmul_request r = biased();
    r.activation = TRP_ACTIVATION_GELU;
    r.aux.buffer = aux32;
    return r;
}

trp_matmul_request dgelu(void)
{
    trp_matmul_request r = plain();
    r.activation = TRP_ACTIVATION_DGELU;
    r.aux.buffer = aux32;
    r.gradient_of = TRP_BIAS_GRADIENT_D;
    r.gradient.buffer = vector;
    return r;
}

trp_matmul_request drelu(void)
{
    trp_matmul_request r = dgelu();
    r.activation = TRP_ACTIVATION_DRELU;
    r.aux.buffer = bits;
    return r;
}

trp_matmul_request of_a(void)
{
    trp_matmul_request r = plain();
    r.gradient_of = TRP_BIAS_GRADIENT_A;
    r.gradient.buffer = vector;
    return r;
}

trp_matmul_request fp8(void)
{
    return (trp_matmul_request){.m = SIDE,
                                .n = SIDE,
                                .k = SIDE,
                                .trans_a = TRP_T,
                                .a = {.buffer = a8, .type = TRP_F8E4M3, .scale.buffer = factor[0]},
                                .b = {.buffer = b8, .scale.buffer = factor[1]},
                                .c = {.buffer = c16},
                                .d = {.buffer = d8, .scale.buffer = factor[2]},
                                .aux = {.buffer = aux8, .scale.buffer = factor[3]},
                                .beta = trp_real(1),
                                .activation = TRP_ACTIVATION_GELU,
                                .amax_d = amax[0],
                                .amax_aux = amax[1]};
}

trp_matmul_request fp4(void)
{
    return (trp_matmul_request){.m = SIDE,
                                .n = SIDE,
                                .k = 2 * SIDE,
                                .trans_a = TRP_T,
                                .a = {.buffer = a8, .type = TRP_F4E2M1},
                                .b = {.buffer = b8},
                                .d = {.buffer = c16, .type = TRP_F16}};
}

trp_matmul_request fp8_blocks(void)
{
    const trp_scale blocks = {.buffer = large, .mode = TRP_SCALE_BLOCK_32};
    return (trp_matmul_request){.m = SIDE,
                                .n = SIDE,
                                .k = SIDE,
                                .trans_a = TRP_T,
                                .a = {.buffer = a8, .type = TRP_F8E4M3, .scale = blocks},
                                .b = {.buffer = b8, .scale = blocks},
                                .d = {.buffer = d8},
                                .d_out_scale = {large, 4096, TRP_SCALE_BLOCK_32, 0}};
}

trp_matmul_request typed(trp_dtype a)
{
    return (trp_matmul_request){.m = 2,
                                .n = 2,
                                .k = 2,
                                .a = {.buffer = large, .type = a},
                                .b = {.buffer = large},
                                .d = {.buffer = large, .offset = 4096}};
}

trp_matmul_request c64(void)
{
    return typed(TRP_C64);
}

trp_matmul_request i8(void)
{
    return typed(TRP_I8);
}

trp_matmul_request i8_to_i8(void)
{
    trp_matmul_request r = typed(TRP_I8);
    r.d.type = TRP_I8;
    return r;
}
