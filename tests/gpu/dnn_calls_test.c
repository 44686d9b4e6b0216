/* Every call that the dnn actor makes to cuDNN, and to the driver, fails once: the first, the
 * second, and so on. Whatever that is worth, an error names its cause and nothing is left
 * behind; where cuDNN has failed, the same request succeeds when it is sent again. Needs the fakes,
 * which fail a call on demand.
 */
#include "support/folder.h"
#include "support/harness.h"

#include <troupe/dnn.h>

#include <string.h>

TROUPE_TEST("long");
TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

enum { SIDE = 5, COUNT = SIDE * SIDE, TRIES = 4 };

static char cublaslt[512]; /* the fake's path */

typedef struct failure {
    const char *variable, *result_variable, *result;
    bool passes; /* the actor goes on; what the driver refuses may be the device's own */
} failure;

typedef struct outcome {
    int rounds, opened, made, good, again;
} outcome;

static bool is_named(void)
{
    const trp_error *error = trp_error_last();
    return error->status != TRP_OK && error->message[0] != '\0';
}

/* y = relu(x * w) of one channel, as a convolution: one product where there is cuBLASLt, else a
 * convolution by cuDNN, and a kernel of the actor's. */
static trp_status run(trp_device *device, trp_actor *dnn, int64_t n, trp_error *error)
{
    const size_t bytes = (size_t)n * COUNT * sizeof(float);
    float *data = h_malloc(bytes);
    trp_buffer x = {0}, w = {0}, y = {0};
    trp_completion c[3] = {{0}};
    for (int64_t i = 0; i < n * COUNT; i++)
        data[i] = (float)(i % 7) - 3;
    H_OK(trp_buffer_create(device, bytes, &x));
    H_OK(trp_buffer_create(device, bytes, &y));
    H_OK(trp_buffer_create(device, 4, &w));
    const trp_dnn_tensor tensors[] = {
        {0},
        {.type = TRP_F32, .rank = 4, .dim = {n, 1, SIDE, SIDE}, .buffer = x},
        {.type = TRP_F32, .rank = 4, .dim = {1, 1, 1, 1}, .buffer = w},
        {0},
        {.type = TRP_F32, .rank = 4, .dim = {n, 1, SIDE, SIDE}, .buffer = y}};
    const trp_dnn_node nodes[] = {
        {.kind = TRP_DNN_CONV_FORWARD, .x = 1, .w = 2, .y = 3},
        {.kind = TRP_DNN_POINTWISE, .pointwise = TRP_DNN_RELU, .x = 3, .y = 4}};
    const float two = 2;
    trp_status status = trp_write(device, x, 0, data, bytes, &c[0]);
    if (status == TRP_OK)
        status = h_await(c[0].future, error);
    if (status == TRP_OK)
        status = trp_write(device, w, 0, &two, sizeof two, &c[1]);
    if (status == TRP_OK)
        status = h_await(c[1].future, error);
    if (status == TRP_OK)
        status = trp_dnn_graph(
            dnn,
            &(trp_dnn_graph_request){
                .tensors = tensors, .tensor_count = 5, .nodes = nodes, .node_count = 2},
            &c[2]);
    if (status == TRP_OK && (status = h_await(c[2].future, error)) == TRP_OK) {
        trp_completion read = {0};
        status = trp_read(device, y, 0, data, bytes, &read);
        if (status == TRP_OK)
            status = h_await(read.future, error);
        for (int64_t i = 0; i < n * COUNT && status == TRP_OK; i++)
            H_CHECK(data[i] == (float)(i % 7 < 3 ? 0 : 2 * (i % 7 - 3)));
    }
    free(data);
    return status;
}

/* An actor whose creation has failed stays so, so each try has its own. */
static trp_status work(trp_device *device, int call, outcome *o)
{
    trp_status status = TRP_E_STALE;
    for (int i = 0; i < TRIES && status != TRP_OK; i++) {
        trp_error error = {0};
        trp_actor *dnn = NULL;
        status = trp_actor_create(device, &(trp_actor_options){.kind = "dnn"}, &dnn);
        if (status == TRP_OK) {
            o->made += i == 0;
            status = run(device, dnn, call, &error);
            trp_actor_destroy(dnn);
        }
        H_CHECK(status == TRP_OK || error.message[0] != '\0' || is_named());
        o->good += i == 0 && status == TRP_OK;
        o->again += i > 0 && status == TRP_OK;
    }
    return status;
}

static void one_round(trp_system *system, const failure *f, int call, outcome *o)
{
    char number[16];
    trp_device *device = NULL;
    trp_device_options options = h_options();
    options.restart_budget = 4;
    snprintf(number, sizeof number, "%d", call);
    setenv(f->variable, number, 1); /* read by the workers, for this process has begun */
    setenv(f->result_variable, f->result, 1);
    o->rounds++;
    trp_status status = trp_device_open(system, &options, &device);
    unsetenv(f->variable); /* of the next worker nothing fails */
    if (status != TRP_OK) {
        H_CHECK(is_named());
        return;
    }
    o->opened++;
    status = work(device, call, o);
    H_CHECK(status == TRP_OK || !f->passes);
    trp_device_close(device);
}

static void each_call(const failure *failures, int kinds, int calls)
{
    outcome o = {0};
    char cache[256];
    trp_system *system;
    h_folder_make(cache, sizeof cache, "dnn-calls");
    setenv("TROUPE_CACHE_DIR", cache, 1);
    setenv("FAKE_CUDNN_TAKES", "conv", 1);
    system = h_system_create(NULL);
    for (int call = 1; call <= calls; call += H_SANITIZED ? 5 : 1)
        one_round(system, &failures[call % kinds], call, &o);
    printf("  of %d: %d opened, %d made the actor, %d requests succeeded at once, %d later\n",
           o.rounds, o.opened, o.made, o.good, o.again);
    H_CHECK(o.opened > 0 && o.made > 0 && o.good > 0 && o.again > 0);
    H_OK(trp_system_destroy(system));
    h_folder_remove(cache);
}

static void cudnn(void)
{
    static const failure failures[] = {
        {"FAKE_CUDNN_FAIL_CALL", "FAKE_CUDNN_FAIL_RESULT", "5000", true},
        {"FAKE_CUDNN_FAIL_CALL", "FAKE_CUDNN_FAIL_RESULT", "4003", true},
        {"FAKE_CUDNN_FAIL_CALL", "FAKE_CUDNN_FAIL_RESULT", "2000", true},
        {"FAKE_CUDNN_FAIL_CALL", "FAKE_CUDNN_FAIL_RESULT", "3000", true}};
    each_call(failures, 4, 420);
}

static trp_status run_with(trp_system *system, const char *result, trp_error *error)
{
    const trp_device_options options = h_options();
    trp_device *device;
    trp_actor *dnn;
    setenv("FAKE_CUDNN_RUN_RESULT", result, 1);
    H_OK(trp_device_open(system, &options, &device));
    unsetenv("FAKE_CUDNN_RUN_RESULT");
    H_OK(trp_actor_create(device, &(trp_actor_options){.kind = "dnn"}, &dnn));
    trp_status status = run(device, dnn, 3, error);
    trp_actor_destroy(dnn);
    trp_device_close(device);
    return status;
}

/* What cuDNN has planned and then does not run, kernels of the actor's do. */
static void refused(void)
{
    trp_error error = {0};
    char cache[256];
    trp_system *system;
    h_folder_make(cache, sizeof cache, "dnn-refused");
    setenv("TROUPE_CACHE_DIR", cache, 1);
    setenv("FAKE_CUDNN_TAKES", "conv", 1);
    system = h_system_create(NULL);
    H_OK(run_with(system, "5000", &error));
    H_OK(run_with(system, "2000", &error));
    H_OK(run_with(system, "3000", &error));
    H_OK(trp_system_destroy(system));
    h_folder_remove(cache);
}

static void driver(void)
{
    static const failure failures[] = {
        {"FAKE_CUDA_FAIL_CALL", "FAKE_CUDA_FAIL_RESULT", "2", false},
        {"FAKE_CUDA_FAIL_CALL", "FAKE_CUDA_FAIL_RESULT", "700", false}};
    each_call(failures, 2, 130);
}

/* The product, by cuBLASLt. */
static void product(void)
{
    setenv("TROUPE_CUBLASLT", cublaslt, 1);
    driver();
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {H_CASE(cudnn), H_CASE(refused), H_CASE(driver), H_CASE(product)};
    h_need_process_isolation();
    if (!h_is_cuda() || h_is_gpu() || !getenv("TROUPE_CUDNN") || !getenv("TROUPE_CUBLASLT")) {
        printf("skipped: only the fakes fail on demand\n");
        return H_EXIT_SKIPPED;
    }
    snprintf(cublaslt, sizeof cublaslt, "%s", getenv("TROUPE_CUBLASLT"));
    setenv("TROUPE_CUBLASLT", "/nowhere/libcublasLt.so", 1);
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
