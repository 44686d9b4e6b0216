/* Searches of the matmul actor that meet others, are given up, or lose their worker. */
#include "support/folder.h"
#include "support/plan_bed.h"
#include "support/faults/points.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

TROUPE_TEST("long");
TROUPE_TEST_FAKE_GPU("no sanitizer");

/* One of two workers that ask for the same at once. */
typedef struct twin {
    h_world world;
    trp_actor *matmul;
    trp_completion done;
} twin;

static void open_twin(twin *t)
{
    pb_open();
    *t = (twin){.world = pb.world, .matmul = pb.matmul};
}

static void ask_twin(twin *t, trp_tune tune)
{
    trp_buffer of[3];
    trp_matmul_request r = pb_plain();
    for (int i = 0; i < 3; i++)
        of[i] = h_filled(t->world.device, PB_BYTES, 0);
    r.a.buffer = of[0];
    r.b.buffer = of[1];
    r.d.buffer = of[2];
    r.tune = tune;
    H_OK(trp_matmul(t->matmul, &r, &t->done));
}

/* The last two workers: one has searched, the other has taken what that found. */
static void expect_one_search(void)
{
    pb_counts c[2];
    if (h_is_gpu())
        return;
    H_CHECK(pb_all_counts(c, 2) >= 2);
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
    pb_empty_folder();
    int held = pb_hold_searches();
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
    pb_find_record(path);
}

/* The first to get the right to search dies with it. Its request runs again, and the other one, who
 * waited, or came later, has no harm of it. */
static void dead_in_a_search(void)
{
    twin twins[2];
    char hits[96];
    if (!h_points_built())
        h_skip("this build has no fault points");
    pb_empty_folder();
    snprintf(hits, sizeof hits, "%s/hits", pb.folder);
    H_EQUAL(close(open(hits, O_RDWR | O_CREAT | O_CLOEXEC, 0600)), 0);
    H_EQUAL(truncate(hits, 4096), 0);
    setenv("TROUPE_FAULT_POINT_HITS", hits, 1);
    setenv("TROUPE_FAULT_POINT", "CACHE_CLAIMED:1:kill-self", 1);
    int held = pb_hold_searches();
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
    snprintf(entries, sizeof entries, "%s/store", pb.folder);
    for (int round = 0; round < 4; round++) {
        trp_completion c = {0};
        pb_empty_folder();
        size_t before = pb_all_counts(&(pb_counts){0}, 1);
        int held = pb_hold_searches();
        pb_open();
        trp_matmul_request r = pb_plain(), other = pb_plain();
        r.tune = TRP_TUNE_QUICK;
        other.m = 16;
        H_OK(trp_matmul(pb.matmul, &r, &c));
        h_sleep(round * 10 * H_MS);
        if (round % 2 == 0) {
            H_OK(trp_cancel(c.future));
            H_IS(h_await_any(c), TRP_E_CANCELLED);
            H_OK(pb_run(&other));
            H_EQUAL(h_folder_count(entries, "", ".entry"), 0); /* nobody has searched */
            c = (trp_completion){0};
            H_OK(trp_matmul(pb.matmul, &r, &c)); /* the same again: it waits again */
            h_sleep(H_MS);
            close(held);
            H_OK(h_await_any(c));
            pb_close();
        } else {
            pb_close();
            close(held);
        }
        if (h_is_gpu())
            continue;
        H_EQUAL(pb_all_counts(&(pb_counts){0}, 1), before + 1);
        H_CHECK(round % 2 == 0 ? pb_last_counts().matmuls > 20 : pb_last_counts().matmuls == 0);
    }
}

/* Of two problems in turn each is given up at some time; what became of that is nothing to those
 * who ask for it later. */
static void given_up_in_turn(void)
{
    pb_empty_folder();
    int held = pb_hold_searches();
    pb_open();
    trp_matmul_request r[2] = {pb_plain(), pb_plain()};
    r[0].tune = r[1].tune = TRP_TUNE_QUICK;
    r[1].m = 16;
    for (int i = 0; i < 60; i++) {
        trp_completion c = {0};
        H_OK(trp_matmul(pb.matmul, &r[i % 2], &c));
        h_sleep((int64_t)ref_rng_below(h_rng(), 4) * H_MS / 2);
        H_OK(trp_cancel(c.future));
        H_IS(h_await_any(c), TRP_E_CANCELLED);
        if (i % 6 == 5)
            h_sleep(12 * H_MS); /* the one that waits has looked meanwhile */
    }
    for (int i = 0; i < 2; i++) {
        trp_completion c = {0};
        H_OK(trp_matmul(pb.matmul, &r[i], &c));
        if (i == 0)
            close(held);
        H_OK(h_await_any(c));
    }
    pb_close();
}

/* The worker dies in a search: the request runs again, on the next one. */
static void killed_in_a_search(void)
{
    for (int round = 0; round < 6; round++) {
        pb_empty_folder();
        pb_open();
        trp_matmul_request r = pb_plain();
        trp_completion c = {0};
        trp_error error;
        r.tune = TRP_TUNE_FULL;
        H_OK(trp_matmul(pb.matmul, &r, &c));
        h_sleep(round * 5 * H_MS);
        kill((pid_t)h_info(pb.world.device).worker_pid, SIGKILL);
        H_IS(h_await(c.future, &error), TRP_OK);
        r.tune = TRP_TUNE_OFF;
        H_OK(pb_run(&r));
        pb_close();
    }
}

/* Cancelled, dropped, or overdue while it waits for its plan: it ends, and the next one is done. */
static void given_up_in_a_search(void)
{
    for (int round = 0; round < 12; round++) {
        pb_empty_folder();
        pb_open();
        trp_matmul_request r = pb_plain(), other = pb_plain();
        trp_completion c = {0};
        trp_error error;
        r.tune = TRP_TUNE_FULL;
        if (round % 3 == 2)
            r.header.deadline_ns = 2 * H_MS;
        H_OK(trp_matmul(pb.matmul, &r, &c));
        h_sleep(round / 3 * 2 * H_MS);
        if (round % 3 == 0)
            H_OK(trp_cancel(c.future));
        if (round % 3 == 1) {
            trp_future_drop(c.future);
        } else {
            trp_status status = h_await(c.future, &error);
            H_CHECK(status == TRP_OK || status == (round % 3 == 0 ? TRP_E_CANCELLED : TRP_E_FAULT));
        }
        h_fill(pb.world.device, pb.d, 0); /* it may be lost */
        other.m = 16;
        H_OK(pb_run(&other));
        if (round == 10)
            trp_actor_destroy(pb.matmul); /* with its plans */
        pb_close();
    }
}

/* The actor ends while its thread searches. */
static void ended_in_a_search(void)
{
    for (int round = 0; round < 4; round++) {
        pb_empty_folder();
        pb_open();
        trp_matmul_request r = pb_plain();
        r.tune = TRP_TUNE_FULL;
        H_OK(trp_matmul(pb.matmul, &r, NULL));
        h_sleep(round * 4 * H_MS);
        if (round % 2)
            trp_actor_destroy(pb.matmul);
        pb_close();
    }
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {H_CASE(two_processes_search_once),
                                   H_CASE(dead_in_a_search),
                                   H_CASE(given_up_while_another_searches),
                                   H_CASE(given_up_in_turn),
                                   H_CASE(killed_in_a_search),
                                   H_CASE(given_up_in_a_search),
                                   H_CASE(ended_in_a_search)};
    return pb_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
