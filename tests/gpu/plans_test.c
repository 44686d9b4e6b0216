/* Plans of the matmul actor: made once for a problem; a search's record is stored and used again; a
 * refusal names the part that it is about; an error of the library is reported. Only the fake
 * library counts its calls. Without proofs, which e2e/products/proofs tests. */
#include "support/folder.h"
#include "support/plan_bed.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

TROUPE_TEST("long");
TROUPE_TEST_FAKE_GPU("no sanitizer");

enum { PROBLEMS = 1000 };

static void run_problems(int passes)
{
    for (int pass = 0; pass < passes; pass++) {
        trp_completion c[PROBLEMS] = {{0}};
        for (int i = 0; i < PROBLEMS; i++) {
            trp_matmul_request r = pb_plain();
            r.header.wait_ns = TRP_FOREVER;
            r.m = 1 + i % 40;
            r.n = 1 + i / 40;
            r.k = 3;
            H_OK(trp_matmul(pb.matmul, &r, &c[i]));
        }
        for (int i = 0; i < PROBLEMS; i++)
            H_OK(h_await_any(c[i]));
    }
}

static void a_thousand_problems_twice(void)
{
    pb_open();
    run_problems(2);
    pb_close();
    if (h_is_gpu())
        return;
    pb_counts c = pb_last_counts();
    H_EQUAL(c.heuristics, PROBLEMS);
    H_EQUAL(c.matmuls, 2 * PROBLEMS);
}

/* Scalars and places make no other problem; what the library must know does. */
static void what_makes_a_problem(void)
{
    pb_open();
    trp_matmul_request r = pb_plain();
    H_OK(pb_run(&r));
    r.alpha = trp_real(-2);
    H_OK(pb_run(&r));
    r.a.offset = 4096;
    r.d.offset = 8192;
    H_OK(pb_run(&r));
    r.d.offset = 8192 + 16; /* aligned otherwise: another problem */
    H_OK(pb_run(&r));
    r.beta = trp_real(1);
    r.c.buffer = pb.extra; /* another one */
    H_OK(pb_run(&r));
    r.beta = trp_real(3);
    H_OK(pb_run(&r));
    pb_close();
    if (h_is_gpu())
        return;
    H_EQUAL(pb_last_counts().heuristics, 3);
}

static void a_search_is_kept(void)
{
    pb_counts c;
    pb_empty_folder();
    trp_matmul_request r;
    for (int round = 0; round < 4; round++) {
        static const trp_tune tunes[] = {TRP_TUNE_QUICK, TRP_TUNE_OFF, TRP_TUNE_FULL,
                                         TRP_TUNE_QUICK};
        pb_open();
        r = pb_plain();
        r.tune = tunes[round];
        H_OK(pb_run(&r));
        H_OK(pb_run(&r));
        pb_close();
        if (h_is_gpu())
            continue;
        c = pb_last_counts();
        /* A record is found, and the library agrees with it: nothing is measured. A full search is
         * done though a quick one was, and asks the library about more than it proposes. */
        bool searched = round == 0 || round == 2;
        if (round == 2)
            H_CHECK(c.checks > 3);
        else
            H_EQUAL(c.checks, searched ? 0 : 1);
        H_EQUAL(c.heuristics, searched ? 2 : 1);
        H_CHECK(searched ? c.matmuls > 20 : c.matmuls == 2);
    }
    char path[256];
    pb_find_record(path); /* a better one takes the place of the one before */
}

/* A record in which a byte is wrong, or that others may write, is none, and is replaced. */
static void a_damaged_record(void)
{
    char path[256];
    pb_empty_folder();
    pb_open();
    H_OK(pb_run_tuned(TRP_TUNE_QUICK));
    pb_close();
    for (int round = 0; round < 5; round++) {
        const long size = 96; /* of a record, which ends the file */
        pb_find_record(path);
        long places[] = {40, 300, h_file_size(path) - size, h_file_size(path) - 1};
        if (round < 4)
            h_file_flip(path, places[round]);
        else
            H_EQUAL(chmod(path, 0666), 0);
        for (int i = 0; i < 3; i++) {
            pb_open();
            H_OK(pb_run_tuned(i == 1 ? TRP_TUNE_QUICK : TRP_TUNE_OFF));
            pb_close();
            if (h_is_gpu())
                continue;
            pb_counts c = pb_last_counts();
            H_EQUAL(c.checks, i == 2);
            H_CHECK(i == 1 ? c.matmuls > 20 : c.matmuls == 1);
        }
    }
}

/* Where a record can't be kept, the actor that has searched knows, and nobody else. */
static void what_is_not_kept(void)
{
    for (int round = 0; round < 2; round++) {
        pb_empty_folder();
        if (round == 0)
            setenv("TROUPE_CACHE_SIZE", "1", 1);
        else
            H_EQUAL(chmod(pb.folder, 0500), 0);
        for (int worker = 0; worker < 2; worker++) {
            pb_open();
            H_OK(pb_run_tuned(worker == 0 ? TRP_TUNE_QUICK : TRP_TUNE_OFF));
            H_OK(pb_run_tuned(TRP_TUNE_OFF));
            pb_close();
            if (!h_is_gpu() && (round == 0 || geteuid() != 0)) /* root may write anywhere */
                H_EQUAL(pb_last_counts().checks, worker == 0);
        }
        unsetenv("TROUPE_CACHE_SIZE");
        H_EQUAL(chmod(pb.folder, 0700), 0);
    }
}

/* After a search also those who asked for none have its result, in the same worker too. */
static void others_profit(void)
{
    pb_empty_folder();
    pb_open();
    trp_matmul_request r = pb_plain();
    H_OK(pb_run(&r));
    r.tune = TRP_TUNE_QUICK;
    H_OK(pb_run(&r));
    r.tune = TRP_TUNE_OFF;
    H_OK(pb_run(&r)); /* its plan is made anew: with the record */
    H_OK(pb_run(&r));
    pb_close();
    if (!h_is_gpu())
        H_EQUAL(pb_last_counts().checks, 1);
}

/* A search with everything that a request can have. */
static void a_search_of_everything(void)
{
    pb_open();
    trp_matmul_request r = pb_plain();
    r.tune = TRP_TUNE_FULL;
    r.batch = 2;
    r.a.stride = r.b.stride = r.d.stride = PB_SIDE * PB_SIDE;
    r.c = (trp_matmul_matrix){.buffer = pb.d, .stride = PB_SIDE * PB_SIDE};
    r.beta = trp_real(0.5);
    H_OK(pb_run(&r)); /* in place */
    r = pb_plain();
    r.tune = TRP_TUNE_QUICK;
    r.a.type = TRP_F8E4M3;
    r.d.type = TRP_F8E4M3;
    r.a.scale.buffer = r.b.scale.buffer = r.d.scale.buffer = pb.extra;
    r.amax_d = pb.extra;
    r.amax_d_offset = 1024;
    H_OK(pb_run(&r));
    r = pb_plain();
    r.tune = TRP_TUNE_QUICK;
    r.activation = TRP_ACTIVATION_GELU;
    r.aux = (trp_matmul_matrix){.buffer = pb.extra};
    r.bias = (trp_matmul_vector){.buffer = pb.extra, .offset = PB_BYTES / 2};
    H_OK(pb_run(&r));
    r = pb_plain();
    r.tune = TRP_TUNE_QUICK;
    r.scalars = pb.extra;
    r.c.buffer = pb.d;
    H_OK(pb_run(&r));
    pb_close();
}

/* Whatever the folder is, products are right; only what was found is not kept. */
static void no_folder(void)
{
    static const char *const folders[] = {"", "/dev/null", "/nowhere/at/all", "relative"};
    char own[64];
    snprintf(own, sizeof own, "%s", pb.folder);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        setenv("TROUPE_CACHE_DIR", folders[i], 1);
        pb_open();
        trp_matmul_request r = pb_plain();
        r.tune = TRP_TUNE_QUICK;
        H_OK(pb_run(&r));
        r.tune = TRP_TUNE_OFF;
        H_OK(pb_run(&r));
        pb_close();
    }
    setenv("TROUPE_CACHE_DIR", own, 1);
}

/* A request that the library can't do: the message says which part it is. */
static void refusals(void)
{
    pb_open();
    trp_matmul_request r = pb_plain();
    r.a.type = TRP_F8E4M3;
    r.d.type = TRP_BF16;
    H_OK(pb_run(&r));
    trp_matmul_request wrong = r;
    trp_error error;
    trp_completion c = {0};
    wrong.trans_a = TRP_N;
    H_OK(trp_matmul(pb.matmul, &wrong, &c));
    H_IS(h_await(c.future, &error), TRP_E_UNSUPPORTED);
    h_check_says(__FILE__, __LINE__, error.message, "A transposed and B not");
    wrong = r;
    wrong.m = wrong.n = wrong.k = 17;
    c = (trp_completion){0};
    H_OK(trp_matmul(pb.matmul, &wrong, &c));
    H_IS(h_await(c.future, &error), TRP_E_UNSUPPORTED);
    h_check_says(__FILE__, __LINE__, error.message, "multiples of 16");
    wrong = r;
    wrong.a.type = TRP_F4E2M1;
    wrong.b.type = TRP_DTYPE_NONE;
    wrong.k = 64;
    wrong.a.scale = wrong.b.scale = (trp_scale){.buffer = pb.extra, .mode = TRP_SCALE_BLOCK_16};
    c = (trp_completion){0};
    H_OK(trp_matmul(pb.matmul, &wrong, &c));
    trp_status status = h_await(c.future, &error);
    if (status != TRP_OK) { /* a GPU may have it */
        H_IS(status, TRP_E_UNSUPPORTED);
        h_check_says(__FILE__, __LINE__, error.message, "compute capability 10.0");
    }
    H_OK(pb_run(&r));
    pb_close();
}

/* The library fails once, in either call; the next request is done. */
static void a_library_that_fails(void)
{
    static const char *const calls[] = {"FAKE_CUBLASLT_FAIL_HEURISTIC",
                                        "FAKE_CUBLASLT_FAIL_MATMUL"};
    if (h_is_gpu())
        h_skip("only the fake cuBLASLt fails on demand");
    for (int i = 0; i < 2; i++) {
        setenv(calls[i], "2", 1);
        pb_open();
        trp_matmul_request r = pb_plain();
        trp_error error;
        trp_completion c = {0};
        H_OK(pb_run(&r));
        r.m = 16;
        H_OK(trp_matmul(pb.matmul, &r, &c));
        H_IS(h_await(c.future, &error), TRP_E_LIBRARY);
        H_CHECK(strcmp(error.domain, "cublas") == 0 && error.code == 13);
        H_OK(pb_run(&r));
        pb_close();
        unsetenv(calls[i]);
    }
}

/* Searches in which a measurement fails leave the first algorithm. */
static void a_search_that_fails(void)
{
    char number[16];
    if (h_is_gpu())
        h_skip("only the fake cuBLASLt fails on demand");
    for (int call = 1; call < 60; call += 9) {
        pb_empty_folder();
        snprintf(number, sizeof number, "%d", call);
        setenv("FAKE_CUBLASLT_FAIL_MATMUL", number, 1);
        pb_open();
        trp_matmul_request r = pb_plain();
        r.tune = TRP_TUNE_QUICK;
        H_OK(pb_run(&r));
        pb_close();
    }
    unsetenv("FAKE_CUBLASLT_FAIL_MATMUL");
}

/* Products that come again with the same operands. */

static trp_matmul_request adding(uint64_t place)
{
    trp_matmul_request r = pb_plain();
    r.a.type = TRP_F32;
    r.d.offset = place * 16;
    r.c = r.d;
    r.beta = trp_real(1);
    r.m = r.n = 2;
    return r;
}

static void fill(trp_buffer buffer, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    h_fill(pb.world.device, buffer, bits);
}

/* A of x and B of 1: adds PB_SIDE x to each element of D. */
static void add_times(const trp_matmul_request *r, float x, int times)
{
    fill(pb.a, x);
    for (int i = 0; i < times; i++)
        H_OK(pb_run(r));
}

static void expect(uint64_t place, float value)
{
    float got[4];
    h_read(pb.world.device, pb.d, place * 16, got, sizeof got);
    for (int i = 0; i < 4; i++)
        H_EQUAL((uint64_t)got[i], (uint64_t)value);
}

static void again_and_again(void)
{
    enum { OFTEN = 4 }; /* calls before it is recorded, by one more */
    pb_open();
    trp_matmul_request r = adding(0), other = adding(0);
    other.alpha = trp_real(3);
    fill(pb.b, 1);
    add_times(&r, 1, 10);
    expect(0, 10 * PB_SIDE);
    add_times(&r, 2, 10); /* what is in the operands is not recorded */
    expect(0, 30 * PB_SIDE);
    add_times(&other, 1, 10); /* but the scalars are */
    expect(0, 60 * PB_SIDE);
    H_OK(trp_device_trim(pb.world.device));
    add_times(&r, 1, 10);
    expect(0, 70 * PB_SIDE);
    pb_close();
    if (h_is_gpu())
        return;
    pb_counts c = pb_last_counts();
    H_EQUAL(c.heuristics, 1);
    H_CHECK(c.matmuls <= 3 * (OFTEN + 1));
}

static void more_than_are_recorded(void)
{
    enum { PLACES = 600, ROUNDS = 7 };
    pb_open();
    fill(pb.a, 1);
    fill(pb.b, 1);
    for (int i = 0; i < PLACES * ROUNDS; i++) {
        trp_matmul_request r = adding((uint64_t)(i % 7 < 3 ? i % 5 : i % PLACES));
        r.header.wait_ns = TRP_FOREVER;
        H_OK(trp_matmul(pb.matmul, &r, NULL));
    }
    H_OK(trp_device_drain(pb.world.device, H_LONG));
    float sum = 0, *got = h_malloc(PLACES * 16);
    h_read(pb.world.device, pb.d, 0, got, PLACES * 16);
    for (int i = 0; i < PLACES * 4; i++)
        sum += got[i];
    H_EQUAL((uint64_t)sum, UINT64_C(4) * PB_SIDE * PLACES * ROUNDS);
    free(got);
    pb_close();
}

static void again_in_the_next_worker(void)
{
    pb_open();
    trp_actor *probe = h_actor(pb.world.device, "probe");
    trp_matmul_request r = adding(0);
    fill(pb.b, 1);
    for (int i = 1; i <= 3; i++) {
        trp_completion guilty = {0};
        add_times(&r, 1, 8);
        expect(0, (float)(i * 8 * PB_SIDE));
        h_probe(probe, TRP_PROBE_KILL, &guilty);
        H_IS(h_await_any(guilty), TRP_E_FAULT);
    }
    pb_close();
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {H_CASE(a_thousand_problems_twice),
                                   H_CASE(what_makes_a_problem),
                                   H_CASE(a_search_is_kept),
                                   H_CASE(a_damaged_record),
                                   H_CASE(what_is_not_kept),
                                   H_CASE(others_profit),
                                   H_CASE(a_search_of_everything),
                                   H_CASE(no_folder),
                                   H_CASE(refusals),
                                   H_CASE(a_library_that_fails),
                                   H_CASE(a_search_that_fails),
                                   H_CASE(again_and_again),
                                   H_CASE(more_than_are_recorded),
                                   H_CASE(again_in_the_next_worker)};
    return pb_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
