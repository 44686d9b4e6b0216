/* Every call that a worker makes to the driver fails once: the first, the second, and so on.
 * Whatever that is worth, everything ends, an error names its cause, and nothing is left behind. A
 * device that has been opened works.
 * Needs the fake driver, which fails a call on demand. */
#include "support/harness.h"

#include <sys/wait.h>
#include <unistd.h>

TROUPE_TEST("long");
TROUPE_TEST_FAKE_GPU("no sanitizer");

enum { CALLS = 70, OPENING_CALLS = 40, SIDE = 32, BYTES = SIDE * SIDE * 4, LARGE = 1 << 20 };

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

/* Opening. */

enum { SMALL = 64, LARGER_THAN_ARENAS = 128 << 20 };

/* A write, a read and a request; and why not, else. */
static bool works(trp_device *device, uint64_t bytes, trp_error *error)
{
    char data[SMALL] = "data", got[SMALL] = "";
    trp_completion c[3] = {{0}};
    trp_buffer buffer = {0};
    trp_actor *probe = NULL;
    bool well = trp_actor_create(device, &(trp_actor_options){.kind = "probe"}, &probe) == TRP_OK &&
                trp_buffer_create(device, bytes, &buffer) == TRP_OK &&
                trp_write(device, buffer, 0, data, SMALL, &c[0]) == TRP_OK &&
                trp_probe(probe, &(trp_probe_request){.action = TRP_PROBE_NOP}, &c[1]) == TRP_OK &&
                trp_read(device, buffer, 0, got, SMALL, &c[2]) == TRP_OK;
    if (!well) {
        H_CHECK(is_named());
        *error = *trp_error_last();
    }
    for (int i = 0; i < 3 && well; i++)
        well = h_await(c[i].future, error) == TRP_OK;
    H_CHECK(!well || strcmp(data, got) == 0);
    if (probe)
        trp_actor_destroy(probe);
    return well;
}

/* The same, once what comes behind the opening has met the call that fails. The buffer then has an
 * arena of its own, for a worker does without one that it could not map. */
static bool works_soon(trp_device *device, trp_error *error)
{
    return works(device, SMALL, error) || works(device, LARGER_THAN_ARENAS, error);
}

static trp_device_options plain_options(void)
{
    trp_device_options options = h_options();
    options.standby = TRP_STANDBY_OFF;
    options.restart_budget = 2;
    return options;
}

/* Opens a device whose workers can't do one call. True if that was so; then it works. */
static bool opens(trp_system *system)
{
    trp_error error = {0};
    trp_device *device = NULL;
    trp_device_options options = plain_options();
    trp_status status = trp_device_open(system, &options, &device);
    setenv("FAKE_CUDA_FAIL_CALL", "0", 1); /* workers that come later can */
    if (status != TRP_OK) {
        H_CHECK(is_named());
        H_SAYS("CUDA_ERROR_");
        H_SAYS(", in cu");
        return false;
    }
    if (!works_soon(device, &error))
        h_fail(__FILE__, __LINE__, "it was opened, and does nothing: %s", error.message);
    trp_device_close(device);
    return true;
}

/* The same for the workers that replace one. True if one of them took over; then it works. */
static bool is_replaced(trp_system *system, const char *call)
{
    trp_error error = {0};
    trp_device *device = NULL;
    trp_completion c = {0};
    trp_device_options options = plain_options();
    H_OK(trp_device_open(system, &options, &device));
    setenv("FAKE_CUDA_FAIL_CALL", call, 1);
    h_probe(h_actor(device, "probe"), TRP_PROBE_ABORT, &c);
    H_IS(h_await_any(c), TRP_E_FAULT);
    bool well = works_soon(device, &error);
    setenv("FAKE_CUDA_FAIL_CALL", "0", 1);
    well = well || works_soon(device, &error); /* a call after the opening can end two workers */
    if (!well) {
        h_await_state(device, TRP_DEVICE_DOWN);
        trp_buffer buffer;
        H_IS(trp_buffer_create(device, SMALL, &buffer), TRP_E_DEVICE_DOWN);
        H_SAYS(", in cu");
    }
    trp_device_close(device);
    return well;
}

static void replacing(void)
{
    char number[16];
    int well = 0;
    trp_system *system = h_system_create(NULL);
    setenv("FAKE_CUDA_FAIL_RESULT", "2", 1);
    for (int call = 1; call <= OPENING_CALLS; call++) {
        snprintf(number, sizeof number, "%d", call);
        well += is_replaced(system, number);
    }
    printf("  of %d: %d were replaced\n", OPENING_CALLS, well);
    H_CHECK(well > 0 && well < OPENING_CALLS);
    H_OK(trp_system_destroy(system));
}

static void opening_gives(const char *result)
{
    char number[16];
    trp_system *system = h_system_create(NULL);
    int opened = 0;
    H_CHECK(opens(system)); /* what is made once is */
    size_t fds = h_count_fds(), threads = h_count_threads();
    setenv("FAKE_CUDA_FAIL_RESULT", result, 1);
    for (int call = 1; call <= OPENING_CALLS; call++) {
        snprintf(number, sizeof number, "%d", call);
        setenv("FAKE_CUDA_FAIL_CALL", number, 1);
        opened += opens(system);
        H_EQUAL(h_count_fds(), fds);
        H_CHECK(h_threads_come_to(threads));
    }
    printf("  of %d: %d opened\n", OPENING_CALLS, opened);
    H_CHECK(opened > 0 && opened < OPENING_CALLS);
    H_OK(trp_system_destroy(system));
}

static void opening(void)
{
    opening_gives("2");
    opening_gives("201"); /* no context */
    opening_gives("700");
}

/* The application's own calls: it is a program by itself, for they are counted from its first. */
static int be_alone(void)
{
    trp_system *system = h_system_create(NULL);
    bool opened = opens(system);
    H_OK(trp_system_destroy(system));
    return opened ? 0 : 3;
}

static void opening_in_the_application(void)
{
    char number[16];
    int opened = 0;
    for (int call = 1; call <= OPENING_CALLS; call++) {
        int status = 0;
        snprintf(number, sizeof number, "%d", call);
        setenv("FAKE_CUDA_FAIL_CALL", number, 1);
        setenv("FAKE_CUDA_FAIL_RESULT", call % 2 ? "2" : "700", 1);
        fflush(NULL);
        pid_t pid = fork();
        H_CHECK(pid >= 0);
        if (pid == 0) {
            execl("/proc/self/exe", "driver_calls_test", "--alone", (char *)NULL);
            _exit(127);
        }
        H_EQUAL(waitpid(pid, &status, 0), pid);
        if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 3))
            h_fail(__FILE__, __LINE__, "call %d: the program ended with %#x", call, status);
        opened += WEXITSTATUS(status) == 0;
    }
    printf("  of %d: %d opened\n", OPENING_CALLS, opened);
    H_CHECK(opened > 0 && opened < OPENING_CALLS);
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {H_CASE(out_of_memory), H_CASE(illegal_address), H_CASE(opening),
                                   H_CASE(opening_in_the_application), H_CASE(replacing)};
    if (argc == 2 && strcmp(argv[1], "--alone") == 0)
        return be_alone();
    h_need_process_isolation();
    if (!h_is_cuda() || h_is_gpu()) {
        printf("skipped: only the fake driver fails on demand\n");
        return H_EXIT_SKIPPED;
    }
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
