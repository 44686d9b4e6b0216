/* A standby plans what the active worker was asked for before it takes over, and runs nothing of
 * it. On the fakes of cuBLASLt and cuDNN, which tell what each process asks of them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "support/dnn_bed.h"
#include "support/label.h"

#include <signal.h>
#include <stdio.h>
#include <troupe/matmul.h>

TROUPE_TEST_FAKE_GPU("no tsan", "dnn");

enum { SIDE = 48 };

/* The file in which a fake tells what a process asks of it. */
static const char *file_of(const char *name, int64_t pid)
{
    static char file[64];
    snprintf(file, sizeof file, "%s_%lld", name, (long long)pid);
    return file;
}

static size_t runs(const db_bed *b)
{
    return h_kernels_reported(&b->k, "cublaslt_runs") + h_kernels_reported(&b->k, "cudnn_runs");
}

/* The standby takes over. */
static int64_t kill_active(const db_bed *b)
{
    trp_device *device = b->k.world.device;
    const trp_device_info before = h_await_standby(device);
    H_EQUAL(kill((pid_t)before.worker_pid, SIGKILL), 0);
    for (int i = 0; i < 20000 && h_info(device).worker_pid != before.standby_pid; i++)
        usleep(1000);
    H_EQUAL(h_info(device).worker_pid, before.standby_pid);
    return before.standby_pid;
}

/* A product of ones, of `depth` each. */
static void multiply(const db_bed *b, trp_actor *matmul, int64_t depth, trp_tune tune)
{
    trp_device *device = b->k.world.device;
    const trp_buffer at[] = {h_filled(device, SIDE * SIDE * 4, 0x3f800000),
                             h_filled(device, SIDE * SIDE * 4, 0x3f800000),
                             h_filled(device, SIDE * SIDE * 4, 0x7fc00000)};
    const trp_matmul_request r = {.m = SIDE,
                                  .n = SIDE,
                                  .k = depth,
                                  .tune = tune,
                                  .a = {.buffer = at[0], .type = TRP_F32},
                                  .b = {.buffer = at[1], .type = TRP_F32},
                                  .d = {.buffer = at[2], .type = TRP_F32}};
    float got[SIDE * SIDE];
    trp_completion done = {0};
    H_OK(trp_matmul(matmul, &r, &done));
    H_OK(h_await_any(done));
    h_read(device, at[2], 0, got, sizeof got);
    for (int i = 0; i < SIDE * SIDE; i++)
        H_CHECK(got[i] == (float)depth);
    for (int i = 0; i < 3; i++)
        trp_buffer_free(device, at[i]);
}

/* Without proofs. */
static db_bed open_unproven(void)
{
    trp_device_options options = h_options();
    options.proof = TRP_PROOF_OFF;
    return db_open(&options, "");
}

static void products(void)
{
    db_bed b = open_unproven();
    trp_actor *matmul = h_actor(b.k.world.device, "matmul");
    const int64_t first = h_await_standby(b.k.world.device).worker_pid;
    multiply(&b, matmul, 32, TRP_TUNE_OFF);
    multiply(&b, matmul, 16, TRP_TUNE_OFF);
    const size_t plans = h_kernels_reported(&b.k, file_of("cublaslt_plans", first)), ran = runs(&b);
    for (int round = 0; round < 2; round++) {
        const int64_t standby = h_await_standby(b.k.world.device).standby_pid;
        h_kernels_await(&b.k, file_of("cublaslt_plans", standby), plans);
        H_EQUAL(runs(&b), ran + 2 * (size_t)round);
        H_EQUAL(kill_active(&b), standby);
        multiply(&b, matmul, 32, TRP_TUNE_OFF);
        multiply(&b, matmul, 16, TRP_TUNE_OFF);
        H_EQUAL(h_kernels_reported(&b.k, file_of("cublaslt_plans", standby)), plans);
        H_EQUAL(runs(&b), ran + 2 * (size_t)(round + 1));
    }
    db_close(&b);
}

/* What another worker has found is used. Without a place where that is kept nothing is searched
 * ahead, for a search runs on the request's own memory. */
static void searches(bool kept)
{
    if (!kept)
        setenv("TROUPE_CACHE_DIR", "", 1);
    db_bed b = open_unproven();
    trp_actor *matmul = h_actor(b.k.world.device, "matmul");
    multiply(&b, matmul, 24, TRP_TUNE_QUICK);
    multiply(&b, matmul, 16, TRP_TUNE_OFF);
    const size_t ran = runs(&b);
    const int64_t standby = h_await_standby(b.k.world.device).standby_pid;
    h_kernels_await(&b.k, file_of("cublaslt_plans", standby), 2);
    usleep(300000);
    H_EQUAL(runs(&b), ran);
    H_EQUAL(kill_active(&b), standby);
    multiply(&b, matmul, 24, TRP_TUNE_QUICK);
    H_CHECK(kept ? runs(&b) == ran + 1 : runs(&b) > ran + 1);
    db_close(&b);
}

static void searched(void)
{
    searches(true);
}

static void nothing_kept(void)
{
    searches(false);
}

/* Sends a product until it has waited for a proof. */
static void multiply_proven(const db_bed *b, trp_actor *matmul, int64_t depth)
{
    size_t before;
    do {
        before = runs(b);
        multiply(b, matmul, depth, TRP_TUNE_OFF);
    } while (runs(b) == before + 1);
}

/* A verdict that is known is used; what nobody has proven yet is not proven ahead. */
static void proven(void)
{
    db_bed b = db_open(NULL, "");
    trp_actor *matmul = h_actor(b.k.world.device, "matmul");
    multiply_proven(&b, matmul, 32);
    const size_t ran = runs(&b);
    const int64_t standby = h_await_standby(b.k.world.device).standby_pid;
    h_kernels_await(&b.k, file_of("cublaslt_plans", standby), 1);
    usleep(300000);
    H_EQUAL(runs(&b), ran);
    H_EQUAL(kill_active(&b), standby);
    multiply(&b, matmul, 32, TRP_TUNE_OFF);
    H_EQUAL(runs(&b), ran + 1);
    db_close(&b);
}

static void convolutions(void)
{
    trp_dnn_ran ran;
    trp_error error = {0};
    db_bed b = db_open(NULL, "all");
    H_OK(db_conv(&b, 2, (trp_dnn_options){0}, &ran, &error));
    const int64_t standby = h_await_standby(b.k.world.device).standby_pid;
    h_kernels_await(&b.k, file_of("cudnn_plans", standby), 2); /* one is the worker's start */
    usleep(300000);
    const size_t plans = h_kernels_reported(&b.k, file_of("cudnn_plans", standby));
    H_EQUAL(kill_active(&b), standby);
    H_OK(db_conv(&b, 2, (trp_dnn_options){0}, &ran, &error));
    H_EQUAL(h_kernels_reported(&b.k, file_of("cudnn_plans", standby)), plans);
    H_CHECK(ran.found);
    db_close(&b);
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {H_CASE(products), H_CASE(searched), H_CASE(nothing_kept),
                                   H_CASE(proven), H_CASE(convolutions)};
    if (!h_kernels_are_fake() || !getenv("TROUPE_CUDNN"))
        return H_EXIT_SKIPPED;
    return h_kernels_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
