/* Many arrays in one buffer, and a worker that dies: a request that reads some and writes others
 * runs again, and one that can't costs what it writes and nothing else. */
#include "support/harness.h"

#include <math.h>
#include <signal.h>

TROUPE_TEST_FAKE_GPU("no tsan", "FAKE_CUDA_REPORT_MS=1");

enum { N = 192, ARRAY = N * N, ARRAY_BYTES = ARRAY * 4, ARRAYS = 4, BYTES = ARRAYS * ARRAY_BYTES };

typedef enum array { A, B, C, OTHER } array;

typedef struct stage {
    h_world w;
    trp_actor *blas;
    trp_buffer all;
    float *data;
} stage;

static uint64_t at(array which)
{
    return (uint64_t)which * ARRAY_BYTES;
}

static stage set_up(void)
{
    stage s = {.w = h_open(NULL), .data = h_malloc(BYTES)};
    s.blas = h_actor(s.w.device, "blas");
    s.all = h_buffer(s.w.device, BYTES);
    for (uint32_t i = 0; i < BYTES / 4; i++) /* whole numbers: sums are exact */
        s.data[i] = (float)(int)(i % 7) - 3.0F;
    h_write(s.w.device, s.all, 0, s.data, BYTES);
    return s;
}

static void tear_down(stage *s)
{
    h_close(&s->w);
    free(s->data);
}

static void kill_worker(trp_device *d)
{
    trp_device_info before = h_info(d);
    if (before.worker_pid > 0)
        kill((pid_t)before.worker_pid, SIGKILL);
    h_await_incarnation(d, before.incarnation + 1);
}

static trp_gemm_request product(const stage *s, double beta)
{
    return (trp_gemm_request){.type = TRP_F32,
                              .m = N,
                              .n = N,
                              .k = N,
                              .a = s->all,
                              .b = s->all,
                              .c = s->all,
                              .a_offset = at(A),
                              .b_offset = at(B),
                              .c_offset = at(C),
                              .beta = trp_real(beta)};
}

/* c = a b, `times` times added to what was there. */
static void check_product(const stage *s, const float *got, int times, float before)
{
    for (int column = 0; column < N; column += 13) {
        for (int row = 0; row < N; row += 11) {
            double sum = 0;
            for (int k = 0; k < N; k++)
                sum += (double)s->data[at(A) / 4 + (uint64_t)(k * N + row)] *
                       (double)s->data[at(B) / 4 + (uint64_t)(column * N + k)];
            double want = (double)before + times * sum;
            if ((double)got[column * N + row] != want)
                h_fail(__FILE__, __LINE__, "element %d, %d is %g, expected %g", row, column,
                       (double)got[column * N + row], want);
        }
    }
}

/* Products of arrays of one buffer, killed again and again: none fails, and all are right. */
static void runs_again(void)
{
    stage s = set_up();
    trp_device *d = s.w.device;
    float *got = h_malloc(ARRAY_BYTES);
    trp_gemm_request r = product(&s, 0);
    for (int round = 0; round < (H_SANITIZED ? 4 : 12); round++) {
        trp_completion c[8] = {{0}};
        h_await_standby(d);
        for (int i = 0; i < 8; i++)
            H_OK(trp_gemm(s.blas, &r, &c[i]));
        kill_worker(d);
        for (int i = 0; i < 8; i++)
            H_OK(h_await_any(c[i]));
        h_read(d, s.all, at(C), got, ARRAY_BYTES);
        check_product(&s, got, 1, 0);
    }
    H_EQUAL(h_info(d).requests_failed, 0);
    free(got);
    tear_down(&s);
}

static trp_status read_of(stage *s, uint64_t offset, uint64_t bytes, float *got)
{
    trp_completion c = {0};
    trp_status status = trp_read(s->w.device, s->all, offset, got, bytes, &c);
    return status == TRP_OK ? h_await_any(c) : status;
}

/* One that adds to what it writes can't run again: that array is lost, the others are not. */
static void costs_what_it_writes(void)
{
    stage s = set_up();
    trp_device *d = s.w.device;
    float *got = h_malloc(BYTES);
    trp_gemm_request r = product(&s, 1);
    bool hit = false;
    for (int round = 0; !hit; round++) {
        trp_completion c[20] = {{0}};
        H_CHECK(round < 500);
        h_await_standby(d);
        H_OK(trp_fill(d, s.all, at(C), ARRAY_BYTES, 0, 4, NULL));
        H_OK(trp_device_drain(d, H_LONG));
        for (int i = 0; i < 20; i++)
            H_OK(trp_gemm(s.blas, &r, &c[i]));
        kill_worker(d);
        for (int i = 0; i < 20; i++) {
            trp_error error;
            trp_status status = h_await(c[i].future, &error);
            hit = hit || status == TRP_E_FAULT;
            if (hit && status != TRP_E_FAULT && status != TRP_E_DEPENDENCY) /* it reads that */
                H_IS(status, TRP_E_LOST);
        }
    }
    H_CHECK(h_buffer_info(d, s.all).lost);
    H_IS(read_of(&s, 0, BYTES, got), TRP_E_LOST);
    H_SAYS("trp_buffer_discard");
    H_IS(read_of(&s, at(C), 4, got), TRP_E_LOST);
    H_IS(read_of(&s, at(OTHER) - 4, 8, got), TRP_E_LOST);
    H_IS(trp_gemm(s.blas, &r, NULL), TRP_E_LOST);
    H_SAYS("c: ");
    H_IS(trp_buffer_seal(d, s.all, H_LONG), TRP_E_ARGUMENT); /* not made for it */
    H_OK(read_of(&s, at(A), 2 * (uint64_t)ARRAY_BYTES, got));
    H_SAME(got, s.data, 2 * (uint64_t)ARRAY_BYTES);
    H_OK(read_of(&s, at(OTHER), ARRAY_BYTES, got));
    H_SAME(got, s.data + at(OTHER) / 4, ARRAY_BYTES);

    /* Written anew in parts, one of them by a copy, one given up. */
    H_OK(trp_fill(d, s.all, at(C), ARRAY_BYTES / 2, 0, 4, NULL));
    H_OK(trp_copy(d, s.all, at(A), s.all, at(C) + ARRAY_BYTES / 2, ARRAY_BYTES / 4, NULL));
    H_CHECK(h_buffer_info(d, s.all).lost);
    H_OK(trp_buffer_discard(d, s.all, at(C) + ARRAY_BYTES / 4 * 3, ARRAY_BYTES / 4));
    H_CHECK(!h_buffer_info(d, s.all).lost);
    H_OK(read_of(&s, 0, BYTES, got));
    r = product(&s, 0);
    H_OK(trp_gemm(s.blas, &r, NULL));
    H_OK(read_of(&s, at(C), ARRAY_BYTES, got));
    check_product(&s, got, 1, 0);
    free(got);
    tear_down(&s);
}

H_CASES_OF_PROCESSES(H_CASE(runs_again), H_CASE(costs_what_it_writes))
