/* A program that forks: the child can't use what the parent opened, says so in every call, and does
 * the parent no harm; what it opens by itself works. */
#include "support/harness.h"

#include <sys/wait.h>
#include <unistd.h>

typedef struct things {
    h_world w;
    trp_actor *probe, *blas;
    trp_buffer buffer;
    trp_queue *queue;
    void *host;
    trp_completion pending, done;
} things;

static void refused_in_child(things *t)
{
    trp_device *d = t->w.device, *device = NULL;
    char byte = 0;
    trp_buffer b;
    trp_buffer_info info;
    trp_device_info device_info;
    trp_actor *actor = NULL;
    trp_queue *queue = NULL;
    trp_event event;
    trp_completion c = {0};
    void *memory = NULL;
    trp_device_options options = h_options();
    H_IS(trp_probe(t->probe, &(trp_probe_request){.action = TRP_PROBE_NOP}, &c), TRP_E_FORKED);
    H_SAYS("fork");
    H_IS(trp_gemm(t->blas, &(trp_gemm_request){.type = TRP_F32}, &c), TRP_E_FORKED);
    H_IS(trp_write(d, t->buffer, 0, &byte, 1, &c), TRP_E_FORKED);
    H_IS(trp_read(d, t->buffer, 0, &byte, 1, &c), TRP_E_FORKED);
    H_IS(trp_copy(d, t->buffer, 0, t->buffer, 1, 1, &c), TRP_E_FORKED);
    H_IS(trp_fill(d, t->buffer, 0, 1, 1, 1, &c), TRP_E_FORKED);
    H_IS(trp_buffer_create(d, 1, &b), TRP_E_FORKED);
    H_IS(trp_buffer_create_with(d, &(trp_buffer_options){.bytes = 1}, &b), TRP_E_FORKED);
    H_IS(trp_buffer_seal(d, t->buffer, TRP_FOREVER), TRP_E_FORKED);
    H_IS(trp_buffer_unseal(d, t->buffer), TRP_E_FORKED);
    H_IS(trp_buffer_free(d, t->buffer), TRP_E_FORKED);
    H_IS(trp_buffer_get_info(d, t->buffer, &info), TRP_E_FORKED);
    H_IS(trp_host_alloc(d, 1, &memory), TRP_E_FORKED);
    H_IS(trp_host_free(d, t->host), TRP_E_FORKED);
    H_IS(trp_device_trim(d), TRP_E_FORKED);
    H_IS(trp_device_drain(d, H_LONG), TRP_E_FORKED);
    H_IS(trp_device_get_info(d, &device_info), TRP_E_FORKED);
    H_IS(trp_actor_create(d, &(trp_actor_options){.kind = "probe"}, &actor), TRP_E_FORKED);
    H_IS(trp_await(t->pending.future, TRP_FOREVER, NULL), TRP_E_FORKED);
    H_IS(trp_await(t->done.future, 0, NULL), TRP_E_FORKED);
    H_IS(trp_queue_next(t->queue, H_LONG, &event), TRP_E_FORKED);
    H_IS(trp_queue_create(t->w.system, &queue), TRP_E_FORKED);
    H_IS(trp_queue_destroy(t->queue), TRP_E_FORKED);
    H_IS(trp_device_open(t->w.system, &options, &device), TRP_E_FORKED);
    H_IS(trp_system_destroy(t->w.system), TRP_E_FORKED);
    /* Those that return nothing do nothing. */
    trp_future_drop(t->pending.future);
    trp_actor_destroy(t->probe);
    trp_device_close(d);
}

/* Exit code 0 of a child that has run `run`. */
static void in_child(void (*run)(things *t), things *t)
{
    fflush(NULL);
    pid_t pid = fork();
    H_CHECK(pid >= 0);
    if (pid == 0) {
        run(t);
        _exit(0);
    }
    int status = 0;
    H_CHECK(waitpid(pid, &status, 0) == pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        h_fail(__FILE__, __LINE__, "the child ended with %s %d",
               WIFSIGNALED(status) ? "signal" : "exit code",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void parent_works(things *t)
{
    uint32_t got = 0;
    trp_completion c = {0};
    H_OK(trp_fill(t->w.device, t->buffer, 0, 4, 0x1234, 4, NULL));
    h_read(t->w.device, t->buffer, 0, &got, 4);
    H_EQUAL(got, 0x1234);
    h_probe(t->probe, TRP_PROBE_NOP, &c);
    H_OK(h_await_any(c));
}

static void child_of_a_busy_parent(void)
{
    things t = {.w = h_open(NULL)};
    trp_event event;
    t.probe = h_actor(t.w.device, "probe");
    t.blas = h_actor(t.w.device, "blas");
    t.buffer = h_buffer(t.w.device, 100);
    H_OK(trp_host_alloc(t.w.device, 10000, &t.host));
    H_OK(trp_queue_create(t.w.system, &t.queue));
    for (int i = 0; i < 5; i++) {
        h_probe(t.probe, TRP_PROBE_NOP, &t.done);
        H_OK(trp_device_drain(t.w.device, H_LONG));
        h_spin(t.probe, 100 * H_MS, &t.pending);
        h_probe(t.probe, TRP_PROBE_NOP, &(trp_completion){.queue = t.queue, .user_data = &t});
        in_child(refused_in_child, &t);
        H_OK(h_await_any(t.done));
        H_OK(h_await_any(t.pending));
        H_OK(trp_queue_next(t.queue, H_LONG, &event));
        H_OK(event.status);
        H_CHECK(event.user_data == &t);
        parent_works(&t);
    }
    H_OK(trp_queue_destroy(t.queue));
    H_EQUAL(h_info(t.w.device).restarts, 0);
    h_close(&t.w);
}

/* Not called under ThreadSanitizer. */
__attribute__((unused)) static void open_in_child(things *t)
{
    (void)t;
    /* A GPU's driver can't be used in a forked child of a process that has used it. */
    if (h_is_cuda())
        return;
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    trp_buffer b = h_buffer(w.device, 1000);
    uint32_t got = 0;
    trp_completion c = {0};
    H_OK(trp_fill(w.device, b, 0, 1000, 7, 4, NULL));
    h_read(w.device, b, 0, &got, 4);
    H_EQUAL(got, 7);
    h_probe(probe, TRP_PROBE_NOP, &c);
    H_OK(h_await_any(c));
    h_close(&w);
}

#if defined(__SANITIZE_THREAD__)
enum { THREADS_IN_CHILDREN = 0 };
#else
enum { THREADS_IN_CHILDREN = 1 };
#endif

static void child_with_its_own_device(void)
{
    if (!THREADS_IN_CHILDREN)
        h_skip("ThreadSanitizer can't start threads in a forked child of a program with threads");
    things t = {.w = h_open(NULL)};
    t.probe = h_actor(t.w.device, "probe");
    t.buffer = h_buffer(t.w.device, 100);
    for (int i = 0; i < 3; i++) {
        in_child(open_in_child, &t);
        parent_works(&t);
    }
    h_close(&t.w);
}

static void *keep_busy(void *argument)
{
    things *t = argument;
    for (int i = 0; i < (H_SANITIZED ? 100 : 400); i++) {
        trp_completion c = {0};
        trp_buffer b = h_buffer(t->w.device, 200000);
        H_OK(trp_fill(t->w.device, b, 0, 200000, 1, 1, &c));
        H_OK(h_await_any(c));
        h_probe(t->probe, TRP_PROBE_NOP, &c);
        H_OK(h_await_any(c));
        H_OK(trp_buffer_free(t->w.device, b));
    }
    return NULL;
}

static void just_exit(things *t)
{
    (void)t;
}

/* Forks while other threads are in calls: locks that they hold are held for ever in the child. */
static void forks_beside_threads(void)
{
    things t = {.w = h_open(NULL)};
    h_thread *thread[2];
    trp_event event;
    t.probe = h_actor(t.w.device, "probe");
    t.blas = h_actor(t.w.device, "blas");
    t.buffer = h_buffer(t.w.device, 100);
    H_OK(trp_host_alloc(t.w.device, 10000, &t.host));
    H_OK(trp_queue_create(t.w.system, &t.queue));
    for (int i = 0; i < 2; i++)
        thread[i] = h_start(keep_busy, &t);
    for (int i = 0; i < 30; i++) {
        h_probe(t.probe, TRP_PROBE_NOP, &t.pending);
        h_probe(t.probe, TRP_PROBE_NOP, &t.done);
        h_probe(t.probe, TRP_PROBE_NOP, &(trp_completion){.queue = t.queue});
        in_child(i % 3 ? refused_in_child : just_exit, &t);
        H_OK(h_await_any(t.pending));
        H_OK(h_await_any(t.done));
        H_OK(trp_queue_next(t.queue, H_LONG, &event));
    }
    for (int i = 0; i < 2; i++)
        h_join(thread[i]);
    H_OK(trp_queue_destroy(t.queue));
    h_close(&t.w);
}

H_CASES(H_CASE(child_of_a_busy_parent), H_CASE(child_with_its_own_device),
        H_CASE(forks_beside_threads))
