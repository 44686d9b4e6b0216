/* Every call that a worker makes to the driver fails once: the first, the second, and so on.
 * Whatever that is worth, everything ends, an error names its cause, and nothing is left behind.
 * Needs the fake driver, which fails a call on demand. */
#include "support/harness.h"

enum { CALLS = 70, SIDE = 32, BYTES = SIDE * SIDE * 4, LARGE = 1 << 20 };

typedef struct outcome {
    int opened, made, sent, succeeded;
} outcome;

static bool is_named(void)
{
    const trp_error *error = trp_error_last();
    return error->status != TRP_OK && error->message[0] != '\0';
}

static void count_end(outcome *o, trp_status sent, trp_completion c)
{
    trp_error error = {0};
    H_CHECK(sent == TRP_OK || is_named());
    if (sent != TRP_OK)
        return;
    o->sent++;
    trp_status status = h_await(c.future, &error);
    H_CHECK(status == TRP_OK || error.message[0] != '\0');
    o->succeeded += status == TRP_OK;
}

/* A product of matrices that are 1 everywhere. */
static void work(trp_device *device, trp_actor *blas, trp_actor *probe, outcome *o)
{
    trp_completion c[5] = {{0}};
    trp_buffer a = {0}, out = {0}, large = {0};
    float one[SIDE * SIDE], got[SIDE * SIDE] = {0};
    char *memory = h_malloc(LARGE);
    memset(memory, 3, LARGE);
    for (int i = 0; i < SIDE * SIDE; i++)
        one[i] = 1;
    H_OK(trp_buffer_create(device, BYTES, &a));
    H_OK(trp_buffer_create(device, BYTES, &out));
    H_OK(trp_buffer_create(device, LARGE, &large));
    trp_status status[5];
    status[0] = trp_write(device, a, 0, one, BYTES, &c[0]);
    status[1] =
        trp_gemm(blas,
                 &(trp_gemm_request){
                     .type = TRP_F32, .m = SIDE, .n = SIDE, .k = SIDE, .a = a, .b = a, .c = out},
                 &c[1]);
    status[2] = trp_probe(probe, &(trp_probe_request){.action = TRP_PROBE_NOP}, &c[2]);
    status[3] = trp_read(device, out, 0, got, BYTES, &c[3]);
    status[4] = trp_write(device, large, 0, memory, LARGE, &c[4]); /* in chunks */
    int before = o->succeeded;
    for (int i = 0; i < 5; i++)
        count_end(o, status[i], c[i]);
    if (o->succeeded == before + 5)
        H_CHECK(got[0] == SIDE && got[SIDE * SIDE - 1] == SIDE);
    free(memory);
}

static void one_round(trp_system *system, int call, outcome *o)
{
    char number[16];
    trp_device *device = NULL;
    trp_actor *blas = NULL, *probe = NULL;
    trp_device_options options = h_options();
    options.restart_budget = 3;
    snprintf(number, sizeof number, "%d", call);
    setenv("FAKE_CUDA_FAIL_CALL", number, 1); /* read by the workers, for this process has begun */
    trp_status status = trp_device_open(system, &options, &device);
    if (status != TRP_OK) {
        H_CHECK(is_named());
        H_SAYS("CUDA_ERROR_");
        return;
    }
    o->opened++;
    if (trp_actor_create(device, &(trp_actor_options){.kind = "blas"}, &blas) == TRP_OK &&
        trp_actor_create(device, &(trp_actor_options){.kind = "probe"}, &probe) == TRP_OK) {
        o->made++;
        work(device, blas, probe, o);
    } else {
        H_CHECK(is_named());
    }
    trp_device_close(device);
}

static void each_call_gives(const char *result)
{
    outcome o = {0};
    trp_system *system = h_system_create(NULL);
    setenv("FAKE_CUDA_FAIL_RESULT", result, 1);
    for (int call = 1; call <= CALLS; call++)
        one_round(system, call, &o);
    unsetenv("FAKE_CUDA_FAIL_CALL");
    printf("  of %d: %d opened, %d made actors, %d of %d requests succeeded\n", CALLS, o.opened,
           o.made, o.succeeded, o.sent);
    H_CHECK(o.opened > 0 && o.opened < CALLS && o.made > 0 && o.succeeded > 0);
    H_OK(trp_system_destroy(system));
}

static void out_of_memory(void)
{
    each_call_gives("2");
}

/* A result after which the worker is replaced. */
static void illegal_address(void)
{
    each_call_gives("700");
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {
        {"out_of_memory", out_of_memory},
        {"illegal_address", illegal_address},
    };
    h_need_process_isolation();
    if (!h_is_cuda() || h_is_gpu()) {
        printf("skipped: only the fake driver fails on demand\n");
        return H_EXIT_SKIPPED;
    }
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
