/* Plans of the matmul actor: made once for a problem; a search's result is kept and used again; a
 * refusal says which part it was; and a library that fails is told. How often the library was asked
 * only the fake one tells. Without proofs, of which e2e/products/proofs tells. */
#include "support/folder.h"
#include "support/harness.h"
#include "support/faults/points.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

TROUPE_TEST("long");
TROUPE_TEST_FAKE_GPU("no sanitizer");

enum { SIDE = 48, BYTES = 1 << 20 };

static h_world world;
static trp_actor *matmul;
static trp_buffer a, b, d, extra;
static char folder[64], counts_file[96];

static h_world open_world(void)
{
    trp_device_options options = h_options();
    options.standby = TRP_STANDBY_OFF; /* one worker, one line of counts */
    options.proof = TRP_PROOF_OFF;
    return h_open(&options);
}

static void open_actor(void)
{
    world = open_world();
    matmul = h_actor(world.device, "matmul");
    a = h_filled(world.device, BYTES, 0);
    b = h_filled(world.device, BYTES, 0);
    d = h_filled(world.device, BYTES, 0);
    extra = h_filled(world.device, BYTES, 0);
}

/* Each worker begins with no plan. */
static void close_actor(void)
{
    h_close(&world);
}

static trp_matmul_request plain(void)
{
    return (trp_matmul_request){.m = SIDE,
                                .n = SIDE,
                                .k = SIDE,
                                .trans_a = TRP_T,
                                .a = {.buffer = a, .type = TRP_BF16},
                                .b = {.buffer = b},
                                .d = {.buffer = d}};
}

static trp_status run(const trp_matmul_request *request)
{
    trp_completion c = {0};
    trp_status sent = trp_matmul(matmul, request, &c);
    return sent == TRP_OK ? h_await_any(c) : sent;
}

/* A problem again, with a search or without one. */
static trp_status run_tuned(trp_tune tune)
{
    trp_matmul_request r = plain();
    r.tune = tune;
    return run(&r);
}

/* What the library was asked for in the last worker that ended in order. */
typedef struct counts {
    unsigned long long heuristics, checks, matmuls, left;
} counts;

/* All workers that ended in order, up to `room` of them; returns how many there were. */
static size_t all_counts(counts *out, size_t room)
{
    counts next;
    size_t count = 0;
    FILE *file = fopen(counts_file, "r");
    if (!file)
        return 0;
    while (fscanf(file, "heuristics %llu checks %llu matmuls %llu left %llu\n", &next.heuristics,
                  &next.checks, &next.matmuls, &next.left) == 4) {
        H_EQUAL(next.left, 0);
        out[count++ % room] = next;
    }
    fclose(file);
    return count;
}

static counts last_counts(void)
{
    counts c;
    H_CHECK(all_counts(&c, 1) > 0);
    return c;
}

static void empty_folder(void)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s' && mkdir -m 700 '%s'", folder, folder);
    H_EQUAL(system(command), 0);
}

/* The one record that is kept. */
static void find_record(char path[256])
{
    char entries[128];
    snprintf(entries, sizeof entries, "%s/store", folder);
    H_EQUAL(h_folder_count(entries, "", ".entry"), 1);
    H_CHECK(h_folder_find(entries, ".entry", path, 256));
}

/* Takes the right to search from all others, whatever the problem is, as a search under way in
 * another process does; closing it gives it back. */
static int hold_searches(void)
{
    char path[128];
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = INT64_C(1) << 62};
    snprintf(path, sizeof path, "%s/store", folder);
    H_CHECK(mkdir(path, 0700) == 0);
    snprintf(path, sizeof path, "%s/store/lock", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    H_CHECK(fd >= 0 && fcntl(fd, F_OFD_SETLK, &all) == 0);
    return fd;
}

/* Cases. */

enum { PROBLEMS = 1000 };

static void run_problems(int passes)
{
    for (int pass = 0; pass < passes; pass++) {
        trp_completion c[PROBLEMS] = {{0}};
        for (int i = 0; i < PROBLEMS; i++) {
            trp_matmul_request r = plain();
            r.header.wait_ns = TRP_FOREVER;
            r.m = 1 + i % 40;
            r.n = 1 + i / 40;
            r.k = 3;
            H_OK(trp_matmul(matmul, &r, &c[i]));
        }
        for (int i = 0; i < PROBLEMS; i++)
            H_OK(h_await_any(c[i]));
    }
}

static void a_thousand_problems_twice(void)
{
    open_actor();
    run_problems(2);
    close_actor();
    if (h_is_gpu())
        return;
    counts c = last_counts();
    H_EQUAL(c.heuristics, PROBLEMS);
    H_EQUAL(c.matmuls, 2 * PROBLEMS);
}

/* Scalars and places make no other problem; what the library must know does. */
static void what_makes_a_problem(void)
{
    open_actor();
    trp_matmul_request r = plain();
    H_OK(run(&r));
    r.alpha = trp_real(-2);
    H_OK(run(&r));
    r.a.offset = 4096;
    r.d.offset = 8192;
    H_OK(run(&r));
    r.d.offset = 8192 + 16; /* aligned otherwise: another problem */
    H_OK(run(&r));
    r.beta = trp_real(1);
    r.c.buffer = extra; /* another one */
    H_OK(run(&r));
    r.beta = trp_real(3);
    H_OK(run(&r));
    close_actor();
    if (h_is_gpu())
        return;
    H_EQUAL(last_counts().heuristics, 3);
}

static void a_search_is_kept(void)
{
    counts c;
    empty_folder();
    trp_matmul_request r;
    for (int round = 0; round < 4; round++) {
        static const trp_tune tunes[] = {TRP_TUNE_QUICK, TRP_TUNE_OFF, TRP_TUNE_FULL,
                                         TRP_TUNE_QUICK};
        open_actor();
        r = plain();
        r.tune = tunes[round];
        H_OK(run(&r));
        H_OK(run(&r));
        close_actor();
        if (h_is_gpu())
            continue;
        c = last_counts();
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
    find_record(path); /* a better one takes the place of the one before */
}

/* A record in which a byte is wrong, or that others may write, is none, and is replaced. */
static void a_damaged_record(void)
{
    char path[256];
    empty_folder();
    open_actor();
    H_OK(run_tuned(TRP_TUNE_QUICK));
    close_actor();
    for (int round = 0; round < 5; round++) {
        const long size = 96; /* of a record, which ends the file */
        find_record(path);
        long places[] = {40, 300, h_file_size(path) - size, h_file_size(path) - 1};
        if (round < 4)
            h_file_flip(path, places[round]);
        else
            H_EQUAL(chmod(path, 0666), 0);
        for (int i = 0; i < 3; i++) {
            open_actor();
            H_OK(run_tuned(i == 1 ? TRP_TUNE_QUICK : TRP_TUNE_OFF));
            close_actor();
            if (h_is_gpu())
                continue;
            counts c = last_counts();
            H_EQUAL(c.checks, i == 2);
            H_CHECK(i == 1 ? c.matmuls > 20 : c.matmuls == 1);
        }
    }
}

/* Where a record can't be kept, the actor that has searched knows, and nobody else. */
static void what_is_not_kept(void)
{
    for (int round = 0; round < 2; round++) {
        empty_folder();
        if (round == 0)
            setenv("TROUPE_CACHE_SIZE", "1", 1);
        else
            H_EQUAL(chmod(folder, 0500), 0);
        for (int worker = 0; worker < 2; worker++) {
            open_actor();
            H_OK(run_tuned(worker == 0 ? TRP_TUNE_QUICK : TRP_TUNE_OFF));
            H_OK(run_tuned(TRP_TUNE_OFF));
            close_actor();
            if (!h_is_gpu() && (round == 0 || geteuid() != 0)) /* root may write anywhere */
                H_EQUAL(last_counts().checks, worker == 0);
        }
        unsetenv("TROUPE_CACHE_SIZE");
        H_EQUAL(chmod(folder, 0700), 0);
    }
}

/* One of two workers that ask for the same at once. */
typedef struct twin {
    h_world world;
    trp_actor *matmul;
    trp_completion done;
} twin;

static void open_twin(twin *t)
{
    open_actor();
    *t = (twin){.world = world, .matmul = matmul};
}

static void ask_twin(twin *t, trp_tune tune)
{
    trp_buffer of[3];
    trp_matmul_request r = plain();
    for (int i = 0; i < 3; i++)
        of[i] = h_filled(t->world.device, BYTES, 0);
    r.a.buffer = of[0];
    r.b.buffer = of[1];
    r.d.buffer = of[2];
    r.tune = tune;
    H_OK(trp_matmul(t->matmul, &r, &t->done));
}

/* The last two workers: one has searched, the other has taken what that found. */
static void expect_one_search(void)
{
    counts c[2];
    if (h_is_gpu())
        return;
    H_CHECK(all_counts(c, 2) >= 2);
    bool first = c[0].matmuls > 1;
    H_CHECK(c[!first].matmuls > 20);
    H_EQUAL(c[first].matmuls, 1);
    H_EQUAL(c[first].checks, 1);
}

/* Both wait until nobody holds the right to search any more. */
static void two_processes_search_once(void)
{
    twin twins[2];
    char path[256];
    empty_folder();
    int held = hold_searches();
    for (int i = 0; i < 2; i++) {
        open_twin(&twins[i]);
        ask_twin(&twins[i], TRP_TUNE_QUICK);
    }
    h_sleep(20 * H_MS);
    close(held);
    for (int i = 0; i < 2; i++)
        H_OK(h_await_any(twins[i].done));
    for (int i = 0; i < 2; i++)
        h_close(&twins[i].world);
    expect_one_search();
    find_record(path);
}

/* The first to get the right to search dies with it. Its request runs again, and the other one, who
 * waited, or came later, has no harm of it. */
static void dead_in_a_search(void)
{
    twin twins[2];
    char hits[96];
    if (!h_points_built())
        h_skip("this build has no fault points");
    empty_folder();
    snprintf(hits, sizeof hits, "%s/hits", folder);
    H_EQUAL(close(open(hits, O_RDWR | O_CREAT | O_CLOEXEC, 0600)), 0);
    H_EQUAL(truncate(hits, 4096), 0);
    setenv("TROUPE_FAULT_POINT_HITS", hits, 1);
    setenv("TROUPE_FAULT_POINT", "CACHE_CLAIMED:1:kill-self", 1);
    int held = hold_searches();
    for (int i = 0; i < 2; i++) {
        open_twin(&twins[i]);
        ask_twin(&twins[i], TRP_TUNE_QUICK);
    }
    h_sleep(20 * H_MS);
    close(held);
    uint32_t restarts = 0;
    for (int i = 0; i < 2; i++) {
        H_OK(h_await_any(twins[i].done));
        restarts += h_info(twins[i].world.device).restarts;
    }
    H_EQUAL(restarts, 1);
    H_CHECK(h_point_hits("CACHE_CLAIMED") >= 2);
    for (int i = 0; i < 2; i++)
        h_close(&twins[i].world);
    unsetenv("TROUPE_FAULT_POINT");
    unsetenv("TROUPE_FAULT_POINT_HITS");
    expect_one_search();
}

/* Another process is at the search for longer than anybody wants it: who is cancelled or ends while
 * it waits holds nobody up. */
static void given_up_while_another_searches(void)
{
    char entries[128];
    snprintf(entries, sizeof entries, "%s/store", folder);
    for (int round = 0; round < 4; round++) {
        trp_completion c = {0};
        empty_folder();
        size_t before = all_counts(&(counts){0}, 1);
        int held = hold_searches();
        open_actor();
        trp_matmul_request r = plain(), other = plain();
        r.tune = TRP_TUNE_QUICK;
        other.m = 16;
        H_OK(trp_matmul(matmul, &r, &c));
        h_sleep(round * 10 * H_MS);
        if (round % 2 == 0) {
            H_OK(trp_cancel(c.future));
            H_IS(h_await_any(c), TRP_E_CANCELLED);
            H_OK(run(&other));
            H_EQUAL(h_folder_count(entries, "", ".entry"), 0); /* nobody has searched */
            c = (trp_completion){0};
            H_OK(trp_matmul(matmul, &r, &c)); /* the same again: it waits again */
            h_sleep(H_MS);
            close(held);
            H_OK(h_await_any(c));
            close_actor();
        } else {
            close_actor();
            close(held);
        }
        if (h_is_gpu())
            continue;
        H_EQUAL(all_counts(&(counts){0}, 1), before + 1);
        H_CHECK(round % 2 == 0 ? last_counts().matmuls > 20 : last_counts().matmuls == 0);
    }
}

/* After a search also those who asked for none have its result, in the same worker too. */
static void others_profit(void)
{
    empty_folder();
    open_actor();
    trp_matmul_request r = plain();
    H_OK(run(&r));
    r.tune = TRP_TUNE_QUICK;
    H_OK(run(&r));
    r.tune = TRP_TUNE_OFF;
    H_OK(run(&r)); /* its plan is made anew: with the record */
    H_OK(run(&r));
    close_actor();
    if (!h_is_gpu())
        H_EQUAL(last_counts().checks, 1);
}

/* A search with everything that a request can have. */
static void a_search_of_everything(void)
{
    open_actor();
    trp_matmul_request r = plain();
    r.tune = TRP_TUNE_FULL;
    r.batch = 2;
    r.a.stride = r.b.stride = r.d.stride = SIDE * SIDE;
    r.c = (trp_matmul_matrix){.buffer = d, .stride = SIDE * SIDE};
    r.beta = trp_real(0.5);
    H_OK(run(&r)); /* in place */
    r = plain();
    r.tune = TRP_TUNE_QUICK;
    r.a.type = TRP_F8E4M3;
    r.d.type = TRP_F8E4M3;
    r.a.scale.buffer = r.b.scale.buffer = r.d.scale.buffer = extra;
    r.amax_d = extra;
    r.amax_d_offset = 1024;
    H_OK(run(&r));
    r = plain();
    r.tune = TRP_TUNE_QUICK;
    r.activation = TRP_ACTIVATION_GELU;
    r.aux = (trp_matmul_matrix){.buffer = extra};
    r.bias = (trp_matmul_vector){.buffer = extra, .offset = BYTES / 2};
    H_OK(run(&r));
    r = plain();
    r.tune = TRP_TUNE_QUICK;
    r.scalars = extra;
    r.c.buffer = d;
    H_OK(run(&r));
    close_actor();
}

/* Whatever the folder is, products are right; only what was found is not kept. */
static void no_folder(void)
{
    static const char *const folders[] = {"", "/dev/null", "/nowhere/at/all", "relative"};
    char own[64];
    snprintf(own, sizeof own, "%s", folder);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        setenv("TROUPE_CACHE_DIR", folders[i], 1);
        open_actor();
        trp_matmul_request r = plain();
        r.tune = TRP_TUNE_QUICK;
        H_OK(run(&r));
        r.tune = TRP_TUNE_OFF;
        H_OK(run(&r));
        close_actor();
    }
    setenv("TROUPE_CACHE_DIR", own, 1);
}

/* A request that the library can't do: the message says which part it is. */
static void refusals(void)
{
    open_actor();
    trp_matmul_request r = plain();
    r.a.type = TRP_F8E4M3;
    r.d.type = TRP_BF16;
    H_OK(run(&r));
    trp_matmul_request wrong = r;
    trp_error error;
    trp_completion c = {0};
    wrong.trans_a = TRP_N;
    H_OK(trp_matmul(matmul, &wrong, &c));
    H_IS(h_await(c.future, &error), TRP_E_UNSUPPORTED);
    h_check_says(__FILE__, __LINE__, error.message, "A transposed and B not");
    wrong = r;
    wrong.m = wrong.n = wrong.k = 17;
    c = (trp_completion){0};
    H_OK(trp_matmul(matmul, &wrong, &c));
    H_IS(h_await(c.future, &error), TRP_E_UNSUPPORTED);
    h_check_says(__FILE__, __LINE__, error.message, "multiples of 16");
    wrong = r;
    wrong.a.type = TRP_F4E2M1;
    wrong.b.type = TRP_DTYPE_NONE;
    wrong.k = 64;
    wrong.a.scale = wrong.b.scale = (trp_scale){.buffer = extra, .mode = TRP_SCALE_BLOCK_16};
    c = (trp_completion){0};
    H_OK(trp_matmul(matmul, &wrong, &c));
    trp_status status = h_await(c.future, &error);
    if (status != TRP_OK) { /* a GPU may have it */
        H_IS(status, TRP_E_UNSUPPORTED);
        h_check_says(__FILE__, __LINE__, error.message, "compute capability 10.0");
    }
    H_OK(run(&r));
    close_actor();
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
        open_actor();
        trp_matmul_request r = plain();
        trp_error error;
        trp_completion c = {0};
        H_OK(run(&r));
        r.m = 16;
        H_OK(trp_matmul(matmul, &r, &c));
        H_IS(h_await(c.future, &error), TRP_E_LIBRARY);
        H_CHECK(strcmp(error.domain, "cublas") == 0 && error.code == 13);
        H_OK(run(&r));
        close_actor();
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
        empty_folder();
        snprintf(number, sizeof number, "%d", call);
        setenv("FAKE_CUBLASLT_FAIL_MATMUL", number, 1);
        open_actor();
        trp_matmul_request r = plain();
        r.tune = TRP_TUNE_QUICK;
        H_OK(run(&r));
        close_actor();
    }
    unsetenv("FAKE_CUBLASLT_FAIL_MATMUL");
}

/* The worker dies in a search: the request runs again, on the next one. */
static void killed_in_a_search(void)
{
    for (int round = 0; round < 6; round++) {
        empty_folder();
        open_actor();
        trp_matmul_request r = plain();
        trp_completion c = {0};
        trp_error error;
        r.tune = TRP_TUNE_FULL;
        H_OK(trp_matmul(matmul, &r, &c));
        h_sleep(round * 5 * H_MS);
        kill((pid_t)h_info(world.device).worker_pid, SIGKILL);
        H_IS(h_await(c.future, &error), TRP_OK);
        r.tune = TRP_TUNE_OFF;
        H_OK(run(&r));
        close_actor();
    }
}

/* Cancelled, dropped, or overdue while it waits for its plan: it ends, and the next one is done. */
static void given_up_in_a_search(void)
{
    for (int round = 0; round < 12; round++) {
        empty_folder();
        open_actor();
        trp_matmul_request r = plain(), other = plain();
        trp_completion c = {0};
        trp_error error;
        r.tune = TRP_TUNE_FULL;
        if (round % 3 == 2)
            r.header.deadline_ns = 2 * H_MS;
        H_OK(trp_matmul(matmul, &r, &c));
        h_sleep(round / 3 * 2 * H_MS);
        if (round % 3 == 0)
            H_OK(trp_cancel(c.future));
        if (round % 3 == 1) {
            trp_future_drop(c.future);
        } else {
            trp_status status = h_await(c.future, &error);
            H_CHECK(status == TRP_OK || status == (round % 3 == 0 ? TRP_E_CANCELLED : TRP_E_FAULT));
        }
        h_fill(world.device, d, 0); /* it may be lost */
        other.m = 16;
        H_OK(run(&other));
        if (round == 10)
            trp_actor_destroy(matmul); /* with its plans */
        close_actor();
    }
}

/* The actor ends while its thread searches. */
static void ended_in_a_search(void)
{
    for (int round = 0; round < 4; round++) {
        empty_folder();
        open_actor();
        trp_matmul_request r = plain();
        r.tune = TRP_TUNE_FULL;
        H_OK(trp_matmul(matmul, &r, NULL));
        h_sleep(round * 4 * H_MS);
        if (round % 2)
            trp_actor_destroy(matmul);
        close_actor();
    }
}

/* Products that come again with the same operands. */

static trp_matmul_request adding(uint64_t place)
{
    trp_matmul_request r = plain();
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
    h_fill(world.device, buffer, bits);
}

/* A of x and B of 1: adds SIDE x to each element of D. */
static void add_times(const trp_matmul_request *r, float x, int times)
{
    fill(a, x);
    for (int i = 0; i < times; i++)
        H_OK(run(r));
}

static void expect(uint64_t place, float value)
{
    float got[4];
    h_read(world.device, d, place * 16, got, sizeof got);
    for (int i = 0; i < 4; i++)
        H_EQUAL((uint64_t)got[i], (uint64_t)value);
}

static void again_and_again(void)
{
    enum { OFTEN = 4 }; /* calls before it is recorded, by one more */
    open_actor();
    trp_matmul_request r = adding(0), other = adding(0);
    other.alpha = trp_real(3);
    fill(b, 1);
    add_times(&r, 1, 10);
    expect(0, 10 * SIDE);
    add_times(&r, 2, 10); /* what is in the operands is not recorded */
    expect(0, 30 * SIDE);
    add_times(&other, 1, 10); /* but the scalars are */
    expect(0, 60 * SIDE);
    H_OK(trp_device_trim(world.device));
    add_times(&r, 1, 10);
    expect(0, 70 * SIDE);
    close_actor();
    if (h_is_gpu())
        return;
    counts c = last_counts();
    H_EQUAL(c.heuristics, 1);
    H_CHECK(c.matmuls <= 3 * (OFTEN + 1));
}

static void more_than_are_recorded(void)
{
    enum { PLACES = 600, ROUNDS = 7 };
    open_actor();
    fill(a, 1);
    fill(b, 1);
    for (int i = 0; i < PLACES * ROUNDS; i++) {
        trp_matmul_request r = adding((uint64_t)(i % 7 < 3 ? i % 5 : i % PLACES));
        r.header.wait_ns = TRP_FOREVER;
        H_OK(trp_matmul(matmul, &r, NULL));
    }
    H_OK(trp_device_drain(world.device, H_LONG));
    float sum = 0, *got = h_malloc(PLACES * 16);
    h_read(world.device, d, 0, got, PLACES * 16);
    for (int i = 0; i < PLACES * 4; i++)
        sum += got[i];
    H_EQUAL((uint64_t)sum, UINT64_C(4) * SIDE * PLACES * ROUNDS);
    free(got);
    close_actor();
}

static void again_in_the_next_worker(void)
{
    open_actor();
    trp_actor *probe = h_actor(world.device, "probe");
    trp_matmul_request r = adding(0);
    fill(b, 1);
    for (int i = 1; i <= 3; i++) {
        trp_completion guilty = {0};
        add_times(&r, 1, 8);
        expect(0, (float)(i * 8 * SIDE));
        h_probe(probe, TRP_PROBE_KILL, &guilty);
        H_IS(h_await_any(guilty), TRP_E_FAULT);
    }
    close_actor();
}

/* Of two problems in turn each is given up at some time; what became of that is nothing to those
 * who ask for it later. */
static void given_up_in_turn(void)
{
    empty_folder();
    int held = hold_searches();
    open_actor();
    trp_matmul_request r[2] = {plain(), plain()};
    r[0].tune = r[1].tune = TRP_TUNE_QUICK;
    r[1].m = 16;
    for (int i = 0; i < 60; i++) {
        trp_completion c = {0};
        H_OK(trp_matmul(matmul, &r[i % 2], &c));
        h_sleep((int64_t)ref_rng_below(h_rng(), 4) * H_MS / 2);
        H_OK(trp_cancel(c.future));
        H_IS(h_await_any(c), TRP_E_CANCELLED);
        if (i % 6 == 5)
            h_sleep(12 * H_MS); /* the one that waits has looked meanwhile */
    }
    for (int i = 0; i < 2; i++) {
        trp_completion c = {0};
        H_OK(trp_matmul(matmul, &r[i], &c));
        if (i == 0)
            close(held);
        H_OK(h_await_any(c));
    }
    close_actor();
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {H_CASE(a_thousand_problems_twice),
                                   H_CASE(what_makes_a_problem),
                                   H_CASE(a_search_is_kept),
                                   H_CASE(a_damaged_record),
                                   H_CASE(what_is_not_kept),
                                   H_CASE(two_processes_search_once),
                                   H_CASE(dead_in_a_search),
                                   H_CASE(given_up_while_another_searches),
                                   H_CASE(given_up_in_turn),
                                   H_CASE(others_profit),
                                   H_CASE(a_search_of_everything),
                                   H_CASE(no_folder),
                                   H_CASE(refusals),
                                   H_CASE(a_library_that_fails),
                                   H_CASE(a_search_that_fails),
                                   H_CASE(killed_in_a_search),
                                   H_CASE(given_up_in_a_search),
                                   H_CASE(ended_in_a_search),
                                   H_CASE(again_and_again),
                                   H_CASE(more_than_are_recorded),
                                   H_CASE(again_in_the_next_worker)};
    h_need_process_isolation();
    if (!h_is_cuda()) {
        printf("skipped: the host makes no plans\n");
        return H_EXIT_SKIPPED;
    }
    snprintf(folder, sizeof folder, "/tmp/troupe-plans-%d", (int)getpid());
    snprintf(counts_file, sizeof counts_file, "%s-counts", folder);
    setenv("TROUPE_CACHE_DIR", folder, 1);
    setenv("FAKE_CUBLASLT_COUNTS", counts_file, 1);
    empty_folder();
    int result = h_main(argc, argv, cases, sizeof cases / sizeof *cases);
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s' '%s'", folder, counts_file);
    return system(command) == 0 ? result : 1;
}
