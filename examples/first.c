/* A matrix product through the blas actor, on a GPU if there is one. */
#include <stdio.h>
#include <troupe/troupe.h>

int main(void)
{
    float a[2][3] = {{1, 2, 3}, {4, 5, 6}}, b[3][2] = {{1, 0}, {0, 1}, {1, 1}}, c[2][2];
    trp_system *system = NULL;
    trp_device *device = NULL;
    trp_actor *blas = NULL;
    trp_completion done = {0};
    trp_gemm_request r = {.type = TRP_F32, .order = TRP_ROW_MAJOR, .m = 2, .n = 2, .k = 3};

    bool failed =
        trp_system_create(NULL, &system) || trp_device_open(system, NULL, &device) ||
        trp_actor_create(device, &(trp_actor_options){.kind = "blas"}, &blas) ||
        trp_buffer_create(device, sizeof a, &r.a) || trp_buffer_create(device, sizeof b, &r.b) ||
        trp_buffer_create(device, sizeof c, &r.c) ||
        trp_write(device, r.a, 0, a, sizeof a, NULL) || /* all are queued; none waits */
        trp_write(device, r.b, 0, b, sizeof b, NULL) || trp_gemm(blas, &r, NULL) ||
        trp_read(device, r.c, 0, c, sizeof c, &done) ||
        trp_await(done.future, TRP_FOREVER, NULL); /* order follows from the buffers used */
    if (failed)
        fprintf(stderr, "failed: %s\n", trp_error_message());
    else
        printf("c[1][0] is %g\n", (double)c[1][0]); /* 4*1 + 5*0 + 6*1 = 10 */
    trp_actor_destroy(blas);
    trp_device_close(device); /* takes the buffers with it */
    return trp_system_destroy(system) || failed;
}
