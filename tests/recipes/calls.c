/* Calls of all kinds on the host backend, for tools that look into a process: valgrind, containers.
 * Usage: calls process|thread [overrun]     overrun: with a mistake that memcheck finds
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troupe/troupe.h>
#include <unistd.h>

enum { N = 48, LARGE = 3 << 20 };

static trp_system *sys;
static trp_device *device;
static trp_actor *blas, *matmul, *dnn;
static trp_queue *queue;

static void need(trp_status status, const char *doing)
{
    if (status == TRP_OK)
        return;
    fprintf(stderr, "%s: %s (%s)\n", doing, trp_error_message(), trp_status_name(status));
    exit(1);
}

static trp_buffer buffer(uint64_t bytes)
{
    trp_buffer b;
    need(trp_buffer_create(device, bytes, &b), "buffer");
    return b;
}

static void open_all(trp_isolation isolation)
{
    const trp_device_options options = {.backend = TRP_BACKEND_HOST, .isolation = isolation};
    need(trp_system_create(NULL, &sys), "system");
    need(trp_device_open(sys, &options, &device), "device");
    need(trp_actor_create(device, &(trp_actor_options){.kind = "blas"}, &blas), "blas");
    need(trp_actor_create(device, &(trp_actor_options){.kind = "matmul"}, &matmul), "matmul");
    need(trp_actor_create(device, &(trp_actor_options){.kind = "dnn"}, &dnn), "dnn");
    need(trp_queue_create(sys, &queue), "queue");
}

/* (x x + gelu) x' by three actors; the numbers are checked elsewhere, here that they are there. */
static void products(void)
{
    static float x[N * N], y[N * N];
    const trp_dnn_tensor square = {.type = TRP_F32, .rank = 2, .dim = {N, N}};
    const uint64_t bytes = sizeof x;
    trp_completion done = {0};
    for (int i = 0; i < N * N; i++)
        x[i] = (float)(i % 7) / 16;
    trp_gemm_request g = {.type = TRP_F32, .m = N, .n = N, .k = N, .a = buffer(bytes)};
    trp_matmul_request m = {.m = N, .n = N, .k = N, .activation = TRP_ACTIVATION_GELU};
    trp_linear_request l = {.x = square, .w = square, .y = square};
    g.b = g.a, g.c = buffer(bytes);
    m.a = (trp_matmul_matrix){.buffer = g.c, .type = TRP_F32}, m.b = m.d = m.a;
    m.d.buffer = buffer(bytes);
    l.x.buffer = m.d.buffer, l.w.buffer = g.a, l.y.buffer = buffer(bytes);
    need(trp_write(device, g.a, 0, x, bytes, NULL), "write");
    need(trp_gemm(blas, &g, NULL), "gemm");
    need(trp_matmul(matmul, &m, NULL), "matmul");
    need(trp_linear_forward(dnn, &l, NULL), "linear");
    need(trp_read(device, l.y.buffer, 0, y, bytes, &done), "read");
    need(trp_await(done.future, TRP_FOREVER, NULL), "products");
    for (int i = 0; i < N * N; i++)
        if (!(y[i] > 0))
            exit(1);
}

/* Copies through the copying threads and from registered memory, their ends from a queue. */
static void copies(bool overrun)
{
    trp_buffer b = buffer(LARGE);
    unsigned char *in = malloc(LARGE), *out = malloc(LARGE), *shared;
    trp_completion end = {.queue = queue};
    trp_event event;
    if (!in || !out)
        exit(1);
    memset(in, 7, LARGE);
    need(trp_write(device, b, 0, in, LARGE, &end), "write");
    need(trp_read(device, b, 0, out, LARGE, &end), "read");
    for (int i = 0; i < 2; i++) {
        need(trp_queue_next(queue, TRP_FOREVER, &event), "queue");
        need(event.status, event.error.message);
    }
    need(trp_host_alloc(device, 65536, (void **)&shared), "host memory");
    memset(shared, 9, 65536);
    need(trp_write(device, b, 1, shared, 65536, &end), "write");
    need(trp_queue_next(queue, TRP_FOREVER, &event), "queue");
    need(trp_host_free(device, shared), "host memory");
    if (memcmp(in, out, LARGE) != 0)
        exit(1);
    free(out);
    out = malloc(100);
    if (overrun && out)
        memset(out, 1, 100), need(trp_write(device, b, 0, out, 200, NULL), "write");
    need(trp_device_drain(device, TRP_FOREVER), "drain");
    free(in), free(out);
    need(trp_buffer_free(device, b), "free");
}

/* Files, sealed buffers, errors, figures. */
static void the_rest(void)
{
    static float w[N] = {1}, back[N];
    const trp_io_item item = {.array = {.name = "w", .type = TRP_F32, .rank = 1, .dim = {N}},
                              .data = w};
    char path[64];
    trp_io_file *file;
    trp_buffer sealed;
    uint64_t offset;
    snprintf(path, sizeof path, "calls.%d.safetensors", (int)getpid());
    need(trp_io_save(path, &item, 1, NULL), "save");
    need(trp_io_open(path, &file), "open");
    need(trp_io_load_sealed(file, device, NULL, 1, NULL, &sealed, &offset), "load");
    trp_io_close(file);
    unlink(path);
    trp_completion done = {0};
    need(trp_read(device, sealed, offset, back, sizeof back, &done), "read");
    need(trp_await(done.future, TRP_FOREVER, NULL), "read");
    if (memcmp(w, back, sizeof w) != 0 ||
        trp_write(device, sealed, 0, w, sizeof w, NULL) != TRP_E_ARGUMENT)
        exit(1);
    size_t size = 0;
    trp_system_metrics(sys, NULL, 0, &size);
    char *text = malloc(size + 4096);
    if (!text)
        exit(1);
    need(trp_system_metrics(sys, text, size + 4096, NULL), "metrics");
    free(text);
    need(trp_buffer_free(device, sealed), "free");
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    open_all(strcmp(argv[1], "thread") == 0 ? TRP_ISOLATION_THREAD : TRP_ISOLATION_PROCESS);
    products();
    copies(argc > 2);
    the_rest();
    trp_actor_destroy(blas);
    trp_actor_destroy(matmul);
    trp_actor_destroy(dnn);
    trp_device_close(device);
    need(trp_queue_destroy(queue), "queue");
    need(trp_system_destroy(sys), "system");
    printf("all calls are done\n");
    return 0;
}
