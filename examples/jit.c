/* A kernel of one's own: compiled when the program runs, launched as a request. Needs a GPU and
 * NVRTC. */
#include <stdio.h>
#include <troupe/troupe.h>

static const char source[] =
    "template <class T> __global__ void saxpy(T *y, const T *x, T a, unsigned n)\n"
    "{\n"
    "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) y[i] += a * x[i];\n"
    "}\n";

int main(void)
{
    enum { N = 1000, BYTES = N * sizeof(float) };
    static float x[N], y[N];
    const char *names[] = {"saxpy<float>"};
    trp_system *system = NULL;
    trp_device *device = NULL;
    trp_actor *jit = NULL;
    trp_module module;
    trp_buffer bx, by;
    trp_completion done = {0};
    for (int i = 0; i < N; i++)
        x[i] = (float)i;

    bool failed = trp_system_create(NULL, &system) || trp_device_open(system, NULL, &device) ||
                  trp_actor_create(device, &(trp_actor_options){.kind = "jit"}, &jit) ||
                  trp_buffer_create(device, BYTES, &bx) || trp_buffer_create(device, BYTES, &by) ||
                  trp_write(device, bx, 0, x, BYTES, NULL) ||
                  trp_write(device, by, 0, y, BYTES, NULL);
    if (!failed) {
        const trp_jit_compile_request compile = {.source = source, .names = names, .name_count = 1};
        const trp_kernel_arg args[] = {trp_arg_buffer(by, TRP_ACCESS_READ_WRITE),
                                       trp_arg_buffer(bx, TRP_ACCESS_READ), trp_arg_f32(2),
                                       trp_arg_u32(N)};
        trp_kernel_launch_request launch = {
            .grid = {(N + 255) / 256}, .block = {256}, .args = args, .arg_count = 4};
        /* Nothing here waits: the launch waits for the compile, the read for the launch. */
        failed = trp_jit_compile(jit, &compile, &module, NULL);
        launch.module = module;
        failed = failed || trp_kernel_launch(jit, &launch, NULL) ||
                 trp_read(device, by, 0, y, BYTES, &done) ||
                 trp_await(done.future, TRP_FOREVER, NULL);
    }
    if (failed)
        fprintf(stderr, "failed: %s\n", trp_error_message());
    else
        printf("y[%d] is %g\n", N - 1, (double)y[N - 1]); /* 1998 */
    trp_actor_destroy(jit);
    trp_device_close(device);
    return trp_system_destroy(system) || failed;
}
