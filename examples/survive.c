/* A fault between two products: its own sender is told, everybody else goes on. */
#include <stdio.h>
#include <stdlib.h>
#include <troupe/troupe.h>

#define N 512

static void need(trp_status status, const char *doing)
{
    if (status == TRP_OK)
        return;
    fprintf(stderr, "%s: %s (%s)\n", doing, trp_error_message(), trp_status_name(status));
    exit(1);
}

/* c = a b; returns the sum of c's elements. */
static double product(trp_actor *blas, const trp_gemm_request *request)
{
    static float c[N * N];
    trp_completion done = {0};
    need(trp_gemm(blas, request, NULL), "product");
    need(trp_read(trp_actor_device(blas), request->c, 0, c, sizeof c, &done), "read");
    need(trp_await(done.future, TRP_FOREVER, NULL), "read");
    double sum = 0;
    for (int i = 0; i < N * N; i++)
        sum += (double)c[i];
    return sum;
}

/* A kernel of ours goes wrong: on a GPU it writes to an illegal address, on the host backend the
 * worker gets SIGSEGV. */
static void go_wrong(trp_actor *probe)
{
    trp_probe_request request = {.action = TRP_PROBE_ILLEGAL_ADDRESS};
    trp_completion done = {0};
    trp_error error;
    need(trp_probe(probe, &request, &done), "probe");
    trp_status status = trp_await(done.future, TRP_FOREVER, &error);
    printf("%s in worker %u: %s\n", trp_status_name(status), error.incarnation, error.message);
}

int main(void)
{
    trp_system *system;
    trp_device *device;
    trp_actor *blas, *probe;
    trp_device_info info;
    static float ones[N * N];
    trp_gemm_request request = {.type = TRP_F32, .m = N, .n = N, .k = N};

    for (int i = 0; i < N * N; i++)
        ones[i] = 1;
    need(trp_system_create(NULL, &system), "system");
    need(trp_device_open(system, NULL, &device), "device");
    need(trp_actor_create(device, &(trp_actor_options){.kind = "blas"}, &blas), "blas");
    need(trp_actor_create(device, &(trp_actor_options){.kind = "probe"}, &probe), "probe");
    need(trp_buffer_create(device, sizeof ones, &request.a), "buffer");
    need(trp_buffer_create(device, sizeof ones, &request.c), "buffer");
    need(trp_write(device, request.a, 0, ones, sizeof ones, NULL), "write");
    request.b = request.a;

    double before = product(blas, &request);
    go_wrong(probe);
    double after = product(blas, &request); /* same actor, same buffers, another worker */
    need(trp_device_get_info(device, &info), "info");
    printf("sum before %.0f, after %.0f, expected %.0f; worker %u\n", before, after,
           (double)N * N * N, info.incarnation);

    trp_actor_destroy(probe);
    trp_actor_destroy(blas);
    trp_device_close(device);
    need(trp_system_destroy(system), "system");
    return before != after;
}
