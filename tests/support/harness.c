#include "support/harness.h"

#include <xxhash.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- checks ---- */

static const char *running = "start";

void h_fail(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    flockfile(stderr);
    fprintf(stderr, "%s:%d: in %s: ", file, line, running);
    vfprintf(stderr, format, arguments);
    const trp_error *error = trp_error_last();
    if (error->status != TRP_OK)
        fprintf(stderr, "\n  last error of this thread: %s: %s", trp_status_name(error->status),
                error->message);
    fputc('\n', stderr);
    funlockfile(stderr);
    va_end(arguments);
    /* Other threads may be anywhere: no clean-up here, the launcher does it. */
    _exit(1);
}

void h_check_status(const char *file, int line, const char *call, trp_status got, trp_status wanted)
{
    if (got != wanted)
        h_fail(file, line, "%s\n  gave %s, expected %s", call, trp_status_name(got),
               trp_status_name(wanted));
}

void h_check_says(const char *file, int line, const char *text, const char *word)
{
    if (!strstr(text, word))
        h_fail(file, line, "the message \"%s\" does not have \"%s\"", text, word);
}

void h_check_equal(const char *file, int line, const char *what, uint64_t got, uint64_t wanted)
{
    if (got != wanted)
        h_fail(file, line, "%s is %" PRIu64 ", expected %" PRIu64, what, got, wanted);
}

void h_check_bytes(const char *file, int line, const void *got, const void *wanted, size_t bytes)
{
    const unsigned char *a = got, *b = wanted;
    if (bytes == 0 || memcmp(a, b, bytes) == 0)
        return;
    size_t first = 0, wrong = 0;
    for (size_t i = bytes; i-- > 0;) {
        if (a[i] != b[i]) {
            first = i;
            wrong++;
        }
    }
    h_fail(file, line, "%zu of %zu bytes differ, first at %zu: %#x, expected %#x", wrong, bytes,
           first, a[first], b[first]);
}

/* ---- cases ---- */

static jmp_buf skipped;
static const char *skip_reason;

void h_skip(const char *reason)
{
    skip_reason = reason;
    longjmp(skipped, 1);
}

static bool chosen(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0)
            return true;
    }
    return argc < 2;
}

static void check_nothing_left(size_t fds, size_t threads)
{
    if (h_count_children() != 0)
        h_fail(__FILE__, __LINE__, "%zu child processes are left", h_count_children());
    if (h_count_fds() != fds)
        h_fail(__FILE__, __LINE__, "%zu descriptors are open, %zu were before", h_count_fds(), fds);
    /* In a thread of this process, a library may leave threads until the process ends. */
    if (h_isolation() == TRP_ISOLATION_PROCESS && !h_threads_come_to(threads))
        h_fail(__FILE__, __LINE__, "%zu threads are left, %zu were before", h_count_threads(),
               threads);
}

/* Returns false if the case was skipped. */
static bool run_case(const h_case *c)
{
    if (setjmp(skipped)) {
        printf("  skip %s: %s\n", c->name, skip_reason);
        return false;
    }
    int64_t start = h_now();
    c->run();
    printf("  ok   %s (%.2f s)\n", c->name, (double)(h_now() - start) / (double)H_SEC);
    return true;
}

static void need_device(void);

static void *run_nothing(void *unused)
{
    return unused;
}

int h_rounds(int host, int gpu)
{
    return h_is_gpu() ? gpu : H_SANITIZED ? (host + 2) / 3 : host;
}

int h_main(int argc, char **argv, const h_case *cases, size_t count)
{
    size_t ran = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    need_device();
    h_rng(); /* prints the seed */
    /* a sanitizer starts its own thread with the first thread of the process */
    h_join(h_start(run_nothing, NULL));
    for (size_t i = 0; i < count; i++) {
        if (!chosen(argc, argv, cases[i].name))
            continue;
        running = cases[i].name;
        size_t fds = h_count_fds(), threads = h_count_threads();
        bool done = run_case(&cases[i]);
        check_nothing_left(fds, threads);
        ran += done;
    }
    return ran > 0 ? 0 : H_EXIT_SKIPPED;
}

/* ---- the device under test ---- */

static bool asked_for(const char *variable, const char *value)
{
    const char *text = getenv(variable);
    return text && strcmp(text, value) == 0;
}

bool h_is_cuda(void)
{
    return asked_for("TROUPE_TEST_BACKEND", "cuda");
}

bool h_is_gpu(void)
{
    return h_is_cuda() && !asked_for("TROUPE_TEST_GPU", "fake");
}

trp_backend h_backend(void)
{
    return h_is_cuda() ? TRP_BACKEND_CUDA : TRP_BACKEND_HOST;
}

trp_isolation h_isolation(void)
{
    return asked_for("TROUPE_TEST_ISOLATION", "thread") ? TRP_ISOLATION_THREAD
                                                        : TRP_ISOLATION_PROCESS;
}

void h_need_process_isolation(void)
{
    if (h_isolation() == TRP_ISOLATION_PROCESS)
        return;
    printf("skipped: a fault of a worker that is a thread ends the whole program\n");
    exit(H_EXIT_SKIPPED);
}

/* Looks for a GPU in a child: after this process had used the driver, children that some tests fork
 * could not use it. */
static bool gpu_present(void)
{
    int status = 0;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        size_t count = 0;
        trp_system *system = h_system_create(NULL);
        H_OK(trp_system_list_devices(system, NULL, 0, &count));
        _exit(count > 1 ? 0 : 1);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

static void need_device(void)
{
    if (!h_is_cuda())
        return;
    if (!gpu_present()) {
        printf("skipped: there is no GPU\n");
        exit(H_EXIT_SKIPPED);
    }
    /* The driver opens files with the first allocation, and keeps them open. */
    h_world w = h_open(NULL);
    h_buffer(w.device, 1);
    h_close(&w);
}

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t log_lines;
enum { LOG_KEPT = 8 };
static char log_kept[LOG_KEPT][512]; /* the last lines, in a ring */

static void take_line(void *unused, int level, const char *line)
{
    (void)unused;
    (void)level;
    pthread_mutex_lock(&log_lock);
    snprintf(log_kept[log_lines++ % LOG_KEPT], sizeof *log_kept, "%s", line);
    pthread_mutex_unlock(&log_lock);
    if (asked_for("TROUPE_LOG", "info"))
        fprintf(stderr, "  log: %s\n", line);
}

uint64_t h_log_count(void)
{
    pthread_mutex_lock(&log_lock);
    uint64_t lines = log_lines;
    pthread_mutex_unlock(&log_lock);
    return lines;
}

void h_log_last(char *out, size_t size)
{
    pthread_mutex_lock(&log_lock);
    snprintf(out, size, "%s", log_lines ? log_kept[(log_lines - 1) % LOG_KEPT] : "");
    pthread_mutex_unlock(&log_lock);
}

bool h_log_said(const char *word)
{
    bool said = false;
    pthread_mutex_lock(&log_lock);
    for (int i = 0; i < LOG_KEPT; i++)
        said = said || strstr(log_kept[i], word);
    pthread_mutex_unlock(&log_lock);
    return said;
}

trp_system *h_system_create(const char *worker_path)
{
    trp_system *system = NULL;
    H_OK(trp_system_create(
        &(trp_system_options){.worker_path = worker_path, .log = take_line, .log_user_data = NULL},
        &system));
    return system;
}

trp_device_options h_options(void)
{
    return (trp_device_options){
        .backend = h_backend(),
        .isolation = h_isolation(),
        .restart_budget = 1000,
        .start_timeout_ns = (uint64_t)H_LONG,
    };
}

h_world h_open(const trp_device_options *options)
{
    trp_device_options standard = h_options();
    h_world world = {.system = h_system_create(NULL)};
    H_OK(trp_device_open(world.system, options ? options : &standard, &world.device));
    return world;
}

void h_close(h_world *world)
{
    trp_device_close(world->device);
    H_OK(trp_system_destroy(world->system));
    *world = (h_world){0};
}

trp_actor *h_actor(trp_device *device, const char *kind)
{
    trp_actor *actor = NULL;
    H_OK(trp_actor_create(device, &(trp_actor_options){.kind = kind}, &actor));
    return actor;
}

trp_buffer h_buffer(trp_device *device, uint64_t bytes)
{
    trp_buffer buffer = {0};
    H_OK(trp_buffer_create(device, bytes, &buffer));
    return buffer;
}

trp_buffer h_sealable(trp_device *device, uint64_t bytes)
{
    trp_buffer buffer = {0};
    H_OK(trp_buffer_create_with(device, &(trp_buffer_options){.bytes = bytes, .sealable = true},
                                &buffer));
    return buffer;
}

void h_fill(trp_device *device, trp_buffer buffer, uint32_t word)
{
    trp_completion c = {0};
    H_OK(trp_fill(device, buffer, 0, h_buffer_info(device, buffer).bytes, word, 4, &c));
    H_OK(h_await_any(c));
}

trp_buffer h_filled(trp_device *device, uint64_t bytes, uint32_t word)
{
    trp_buffer buffer = h_buffer(device, bytes);
    H_OK(trp_fill(device, buffer, 0, bytes, word, 4, NULL));
    return buffer;
}

void h_write(trp_device *device, trp_buffer buffer, uint64_t offset, const void *data,
             uint64_t bytes)
{
    trp_completion c = {0};
    H_OK(trp_write(device, buffer, offset, data, bytes, &c));
    H_OK(trp_await(c.future, H_LONG, NULL));
}

void h_read(trp_device *device, trp_buffer buffer, uint64_t offset, void *data, uint64_t bytes)
{
    trp_completion c = {0};
    H_OK(trp_read(device, buffer, offset, data, bytes, &c));
    H_OK(trp_await(c.future, H_LONG, NULL));
}

trp_device_info h_info(trp_device *device)
{
    trp_device_info info;
    H_OK(trp_device_get_info(device, &info));
    return info;
}

trp_buffer_info h_buffer_info(trp_device *device, trp_buffer buffer)
{
    trp_buffer_info info;
    H_OK(trp_buffer_get_info(device, buffer, &info));
    return info;
}

void h_probe(trp_actor *probe, trp_probe_action action, trp_completion *completion)
{
    H_OK(trp_probe(probe, &(trp_probe_request){.header = {.wait_ns = H_LONG}, .action = action},
                   completion));
}

void h_spin(trp_actor *probe, int64_t ns, trp_completion *completion)
{
    H_OK(trp_probe(probe,
                   &(trp_probe_request){.action = TRP_PROBE_SPIN, .duration_ns = (uint64_t)ns},
                   completion));
}

trp_status h_await(trp_future future, trp_error *error)
{
    trp_status status = trp_await(future, H_LONG, error);
    if (status == TRP_E_TIMEOUT)
        h_fail(__FILE__, __LINE__, "a request did not end within %d s", (int)(H_LONG / H_SEC));
    return status;
}

trp_status h_await_any(trp_completion completion)
{
    return h_await(completion.future, NULL);
}

void h_await_state(trp_device *device, trp_device_state state)
{
    int64_t end = h_now() + H_LONG;
    while (h_info(device).state != state) {
        if (h_now() > end)
            h_fail(__FILE__, __LINE__, "the device is in state %d, not %d",
                   (int)h_info(device).state, (int)state);
        h_sleep(H_MS);
    }
}

void h_await_incarnation(trp_device *device, uint32_t incarnation)
{
    int64_t end = h_now() + H_LONG;
    for (;;) {
        trp_device_info info = h_info(device);
        if (info.incarnation >= incarnation && info.state == TRP_DEVICE_READY)
            return;
        if (h_now() > end)
            h_fail(__FILE__, __LINE__, "incarnation is %u, state %d: no worker %u came",
                   info.incarnation, (int)info.state, incarnation);
        h_sleep(H_MS / 2);
    }
}

trp_device_info h_await_standby(trp_device *device)
{
    int64_t end = h_now() + H_LONG;
    for (;;) {
        trp_device_info info = h_info(device);
        if (info.state == TRP_DEVICE_READY && info.standby_pid != 0)
            return info;
        if (h_now() > end)
            h_fail(__FILE__, __LINE__, "no standby came: state %d, incarnation %u", (int)info.state,
                   info.incarnation);
        h_sleep(H_MS / 2);
    }
}

/* ---- random data ---- */

ref_rng *h_rng(void)
{
    static ref_rng rng;
    static bool ready;
    if (!ready)
        ref_rng_init(&rng, ref_seed());
    ready = true;
    return &rng;
}

ref_rng h_rng_fork(void)
{
    ref_rng rng;
    ref_rng_init(&rng, ref_rng_next(h_rng()));
    return rng;
}

/* splitmix64 from a random start. Without checks of sanitizers, which would take most of the time
 * of some tests. */
__attribute__((no_sanitize("thread", "address", "undefined"))) static void
expand(uint64_t state, char *out, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 8) {
        uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        z ^= z >> 31;
        if (bytes - at >= 8) {
            __builtin_memcpy(out + at, &z, 8);
            continue;
        }
        for (size_t k = 0; k < bytes - at; k++)
            out[at + k] = (char)(z >> 8 * k);
    }
}

void h_random_bytes(ref_rng *rng, void *out, size_t bytes)
{
    expand(ref_rng_next(rng), out, bytes);
}

void *h_random_block(ref_rng *rng, size_t bytes)
{
    void *block = h_malloc(bytes);
    h_random_bytes(rng, block, bytes);
    return block;
}

void *h_malloc(size_t bytes)
{
    void *block = malloc(bytes ? bytes : 1);
    if (!block)
        h_fail(__FILE__, __LINE__, "no memory for %zu bytes", bytes);
    return block;
}

uint64_t h_hash(const void *data, size_t bytes)
{
    return XXH3_64bits(data, bytes);
}

uint64_t h_random_size(ref_rng *rng, uint64_t limit)
{
    uint64_t top = UINT64_C(1) << ref_rng_below(rng, 64 - (size_t)__builtin_clzll(limit));
    uint64_t size = top + ref_rng_below(rng, (size_t)top);
    return size < limit ? size : limit;
}
