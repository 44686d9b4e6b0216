/* Explores the model of the mailbox, of retiring, judging, promotion and replay: no order of steps
 * loses a request, ends one twice, runs one where it must not run, or gets stuck. And the model is
 * worth something: each of a list of ways to get the protocol wrong is found out by it.
 *
 *   protocol_test             the plans and mutations below: seconds
 *   TROUPE_TEST_MODEL=large   larger plans too: minutes, and some GB of memory
 *   protocol_test PLAN [MUTATION]   one plan, with the trace to what is broken
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/protocol.h"
#include "support/label.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

TROUPE_TEST("long", "no sanitizer");

enum { A0 = 0, A1 = 1, X = 1, Y = 2 };

/* Plans that every run explores. */
/* clang-format off */
static const model_plan plans[] = {
    /* sleeping and waking */
    {.name = "handshake", .slots = 2, .actors = 1, .senders = 2, .requests = 2,
     .request = {{.sender = 0}, {.sender = 1}}},
    /* more requests than slots */
    {.name = "reuse", .slots = 2, .actors = 2, .senders = 2, .requests = 3,
     .request = {{.sender = 0}, {.sender = 1}, {.sender = 1, .actor = A1}}},
    /* at any step of two senders */
    {.name = "kill", .slots = 2, .actors = 1, .senders = 2, .requests = 2, .kills = 1, .budget = 1,
     .request = {{.sender = 0}, {.sender = 1}}},
    /* the second while what was in flight runs again */
    {.name = "kills", .slots = 2, .actors = 2, .senders = 1, .requests = 2, .kills = 3, .budget = 3,
     .request = {{.end = MODEL_AWAIT_LATER}, {.actor = A1}}},
    /* the supervisor itself kills the worker */
    {.name = "deadline", .slots = 2, .actors = 2, .senders = 1, .requests = 2, .kills = 1,
     .hangs = 1, .budget = 2,
     .request = {{.end = MODEL_AWAIT_LATER}, {.actor = A1}}},
    /* one kills its worker, two have no part in it */
    {.name = "culprit", .slots = 3, .actors = 2, .senders = 2, .requests = 3, .budget = 3,
     .request = {{.sender = 0, .must_succeed = true, .end = MODEL_AWAIT_LATER},
                 {.sender = 0, .actor = A1, .must_succeed = true},
                 {.sender = 1, .actor = A1, .culprit = true}}},
    {.name = "culprit-between", .slots = 3, .actors = 2, .senders = 1, .requests = 3, .budget = 3,
     .request = {{.must_succeed = true, .end = MODEL_AWAIT_LATER},
                 {.actor = A1, .culprit = true, .end = MODEL_AWAIT_LATER},
                 {.actor = A1, .must_succeed = true}}},
    {.name = "two-culprits", .slots = 3, .actors = 2, .senders = 1, .requests = 3, .budget = 4,
     .request = {{.culprit = true, .end = MODEL_AWAIT_LATER},
                 {.actor = A1, .end = MODEL_AWAIT_LATER},
                 {.actor = A1, .culprit = true}}},
    /* reads what it writes: must not run twice */
    {.name = "update", .slots = 2, .actors = 2, .buffers = 1, .senders = 1, .requests = 2,
     .kills = 2, .budget = 2,
     .request = {{.reads = X, .writes = X, .end = MODEL_AWAIT_LATER}, {.actor = A1}}},
    /* readers of what a culprit was writing */
    {.name = "lost", .slots = 2, .actors = 2, .buffers = 1, .senders = 2, .requests = 3,
     .budget = 2,
     .request = {{.sender = 0, .writes = X, .culprit = true},
                 {.sender = 1, .actor = A1, .reads = X},
                 {.sender = 1, .actor = A1, .reads = X}}},
    /* the same, and the third worker knows of nothing */
    {.name = "lost-long-ago", .slots = 2, .actors = 2, .buffers = 1, .senders = 2, .requests = 2,
     .kills = 1, .budget = 2,
     .request = {{.sender = 0, .writes = X, .culprit = true},
                 {.sender = 1, .actor = A1, .reads = X}}},
    /* and somebody writes all of it anew */
    {.name = "rewritten", .slots = 3, .actors = 2, .buffers = 1, .senders = 2, .requests = 3,
     .budget = 2,
     .request = {{.sender = 0, .writes = X, .culprit = true},
                 {.sender = 0, .writes = X},
                 {.sender = 1, .actor = A1, .reads = X}}},
    /* the same, and the third worker knows of nothing */
    {.name = "rewritten-long-ago", .slots = 2, .actors = 1, .buffers = 1, .senders = 2,
     .requests = 3, .kills = 1, .budget = 2,
     .request = {{.sender = 0, .writes = X, .culprit = true},
                 {.sender = 0, .writes = X},
                 {.sender = 1, .reads = X}}},
    /* an input of one that may run again, by its own actor */
    {.name = "overwrite", .slots = 2, .actors = 1, .buffers = 1, .senders = 1, .requests = 2,
     .kills = 2, .budget = 2,
     .request = {{.reads = X, .end = MODEL_AWAIT_LATER}, {.writes = X}}},
    /* by another */
    {.name = "overwrite-elsewhere", .slots = 2, .actors = 2, .buffers = 1, .senders = 1,
     .requests = 2, .kills = 2, .budget = 2,
     .request = {{.reads = X, .end = MODEL_AWAIT_LATER}, {.actor = A1, .writes = X}}},
    /* a reader of what a reader should have written */
    {.name = "chain", .slots = 3, .actors = 2, .buffers = 2, .senders = 1, .requests = 3,
     .kills = 1, .budget = 2,
     .request = {{.writes = X, .culprit = true, .end = MODEL_AWAIT_LATER},
                 {.actor = A1, .reads = X, .writes = Y, .end = MODEL_AWAIT_LATER},
                 {.reads = Y}}},
    /* late; and one that reads what it should have written */
    {.name = "refused", .slots = 3, .actors = 2, .buffers = 2, .senders = 2, .requests = 3,
     .budget = 2,
     .request = {{.sender = 0, .writes = X, .culprit = true, .end = MODEL_AWAIT_LATER},
                 {.sender = 1, .actor = A1, .reads = X, .writes = Y, .end = MODEL_AWAIT_LATER},
                 {.sender = 1, .reads = Y}}},
    /* in its library, beside one that reads what it should have written */
    {.name = "fails", .slots = 2, .actors = 2, .buffers = 1, .senders = 2, .requests = 2,
     .kills = 1, .budget = 1,
     .request = {{.sender = 0, .writes = X, .fails = 1}, {.sender = 1, .actor = A1, .reads = X}}},
    /* one fails; a later one, which a death obstructs, must not hide it */
    {.name = "hidden", .slots = 4, .actors = 2, .buffers = 2, .senders = 1, .requests = 4,
     .kills = 1, .budget = 2,
     .request = {{.writes = Y, .culprit = true, .end = MODEL_AWAIT_LATER},
                 {.actor = A1, .writes = X, .fails = 1, .end = MODEL_AWAIT_LATER},
                 {.reads = X, .end = MODEL_AWAIT_LATER},
                 {.actor = A1, .reads = Y, .writes = X}}},
    /* the same with one that must not run twice */
    {.name = "hidden-in-flight", .slots = 3, .actors = 2, .buffers = 1, .senders = 1,
     .requests = 3, .kills = 2, .budget = 2,
     .request = {{.writes = X, .fails = 2, .end = MODEL_AWAIT_LATER},
                 {.actor = A1, .reads = X, .end = MODEL_AWAIT_LATER},
                 {.reads = X, .writes = X}}},
    /* half done, then failed; but told was only the end of the next */
    {.name = "half-acked", .slots = 2, .actors = 2, .buffers = 1, .senders = 1, .requests = 3,
     .kills = 1, .budget = 1,
     .request = {{.writes = X, .fails = 2, .end = MODEL_AWAIT_LATER},
                 {.reads = X, .writes = X},
                 {.actor = A1, .reads = X}}},
    /* the same, and the third worker knows of nothing */
    {.name = "half-acked-killed", .slots = 2, .actors = 2, .buffers = 1, .senders = 1,
     .requests = 3, .kills = 2, .budget = 2,
     .request = {{.writes = X, .fails = 2, .end = MODEL_AWAIT_LATER},
                 {.reads = X, .writes = X},
                 {.actor = A1, .reads = X}}},
    /* but that fails, on a worker that knows nothing of the first */
    {.name = "half-acked-anew", .slots = 4, .actors = 2, .buffers = 1, .senders = 1, .requests = 4,
     .kills = 1, .budget = 2,
     .request = {{.writes = X, .culprit = true, .end = MODEL_AWAIT_LATER},
                 {.writes = X, .fails = 1, .end = MODEL_AWAIT_LATER},
                 {.writes = X, .cancelled = true},
                 {.actor = A1, .reads = X}}},
    /* but somebody writes all of it anew before it is read */
    {.name = "half-acked-covered", .slots = 3, .actors = 2, .buffers = 1, .senders = 1,
     .requests = 4, .kills = 2, .budget = 2,
     .request = {{.writes = X, .fails = 2, .end = MODEL_AWAIT_LATER},
                 {.reads = X, .writes = X},
                 {.writes = X, .end = MODEL_AWAIT_LATER},
                 {.actor = A1, .reads = X}}},
    /* behind one that fails and its reader */
    {.name = "cancelled", .slots = 3, .actors = 2, .buffers = 1, .senders = 1, .requests = 3,
     .kills = 1, .budget = 1,
     .request = {{.writes = X, .fails = 1, .end = MODEL_AWAIT_LATER},
                 {.actor = A1, .reads = X, .end = MODEL_AWAIT_LATER},
                 {.writes = X, .cancelled = true}}},
    /* and one that reads what it should have written */
    {.name = "cancelled-first", .slots = 2, .actors = 2, .buffers = 1, .senders = 1, .requests = 2,
     .kills = 1, .budget = 1, .slow_passing = true,
     .request = {{.writes = X, .cancelled = true, .end = MODEL_AWAIT_LATER},
                 {.actor = A1, .reads = X}}},
    /* the failure of a request behind the reader */
    {.name = "acked-a-later-one", .slots = 3, .actors = 2, .buffers = 1, .senders = 2,
     .requests = 3,
     .request = {{.sender = 0, .writes = X, .fails = 1, .end = MODEL_AWAIT_LATER},
                 {.sender = 0, .actor = A1, .reads = X},
                 {.sender = 1, .writes = X, .cancelled = true}}},
    /* the worker may be quicker */
    {.name = "cancelled-in-doubt", .slots = 2, .actors = 2, .buffers = 1, .senders = 1,
     .requests = 2, .kills = 2, .budget = 2,
     .request = {{.writes = X, .end = MODEL_AWAIT_LATER},
                 {.actor = A1, .reads = X, .writes = X, .cancelled = true}}},
    /* no worker passes what the first death has ended */
    {.name = "ended-then-down", .slots = 2, .actors = 2, .buffers = 1, .senders = 1, .requests = 3,
     .kills = 1, .budget = 1, .slow_passing = true,
     .request = {{.writes = X, .culprit = true, .end = MODEL_AWAIT_LATER},
                 {.actor = A1, .reads = X},
                 {.writes = X}}},
    /* by who needs its place in the mailbox */
    {.name = "ended-and-swept", .slots = 2, .actors = 1, .buffers = 1, .mailbox = 1, .senders = 1,
     .requests = 2, .kills = 1, .budget = 2, .sweeper = true,
     .request = {{.culprit = true, .writes = X, .end = MODEL_NOBODY}, {.end = MODEL_NOBODY}}},
    /* its future, at any moment */
    {.name = "ended-and-dropped", .slots = 2, .actors = 1, .buffers = 1, .mailbox = 1,
     .senders = 1, .requests = 2, .kills = 1, .budget = 2, .sweeper = true, .slow_passing = true,
     .request = {{.culprit = true, .writes = X, .end = MODEL_DROP}, {.end = MODEL_NOBODY}}},
    /* no restart is left */
    {.name = "down", .slots = 2, .actors = 1, .senders = 2, .requests = 2, .kills = 1, .budget = 0,
     .request = {{.sender = 0}, {.sender = 1}}},
    /* a future is dropped, and again when its slot is another's */
    {.name = "drop", .slots = 1, .actors = 1, .mailbox = 4, .senders = 2, .requests = 3,
     .sweeper = true,
     .request = {{.sender = 0, .end = MODEL_DROP}, {.sender = 1}, {.sender = 1}}},
    /* wants to know; and the mailbox has one place */
    {.name = "nobody", .slots = 2, .actors = 1, .mailbox = 1, .senders = 1, .requests = 3,
     .sweeper = true,
     .request = {{.end = MODEL_NOBODY}, {.end = MODEL_NOBODY}, {.end = MODEL_NOBODY}}},
    {.name = "nobody-killed", .slots = 2, .actors = 1, .mailbox = 1, .senders = 1, .requests = 2,
     .kills = 1, .budget = 1, .sweeper = true,
     .request = {{.end = MODEL_NOBODY}, {.end = MODEL_NOBODY}}},
    /* a result that nobody awaits, while a thread ends what is over */
    {.name = "delivered", .slots = 2, .actors = 1, .mailbox = 2, .senders = 1, .requests = 2,
     .sweeper = true,
     .request = {{.delivers = true, .end = MODEL_NOBODY}, {.sender = 0}}},
    /* two await what is behind it, and places and tickets differ */
    {.name = "delivered-to-two", .slots = 3, .actors = 1, .mailbox = 4, .senders = 2, .requests = 3,
     .request = {{.sender = 0, .delivers = true, .end = MODEL_NOBODY},
                 {.sender = 0},
                 {.sender = 1}}},
    /* awaited is another actor's request, which waits for it */
    {.name = "delivered-elsewhere", .slots = 2, .actors = 2, .buffers = 1, .mailbox = 2,
     .senders = 1, .requests = 2, .sweeper = true,
     .request = {{.reads = X, .delivers = true, .end = MODEL_NOBODY}, {.actor = A1, .writes = X}}},
    {.name = "delivered-after-a-death", .slots = 2, .actors = 1, .mailbox = 2, .senders = 1,
     .requests = 2, .kills = 1, .budget = 1,
     .request = {{.delivers = true, .end = MODEL_NOBODY}, {.sender = 0}}},
};
/* clang-format on */

/* clang-format off */
static const model_plan large_plans[] = {
    {.name = "cancelled-anywhere", .slots = 2, .actors = 2, .buffers = 1, .senders = 2,
     .requests = 2, .kills = 1, .budget = 1,
     .request = {{.sender = 0, .writes = X, .cancelled = true},
                 {.sender = 1, .actor = A1, .reads = X}}},
    /* beside one that updates what it should have written */
    {.name = "fails-large", .slots = 3, .actors = 2, .buffers = 1, .senders = 2, .requests = 3,
     .kills = 1, .budget = 1,
     .request = {{.sender = 0, .writes = X, .fails = 1, .end = MODEL_AWAIT_LATER},
                 {.sender = 0, .actor = A1, .reads = X},
                 {.sender = 1, .reads = X, .writes = X}}},
    {.name = "acked-and-killed", .slots = 3, .actors = 2, .buffers = 1, .senders = 2, .requests = 3,
     .kills = 1, .budget = 1, .slow_passing = true,
     .request = {{.sender = 0, .writes = X, .fails = 1, .end = MODEL_AWAIT_LATER},
                 {.sender = 0, .actor = A1, .reads = X},
                 {.sender = 1, .writes = X, .cancelled = true}}},
    {.name = "two-each", .slots = 4, .actors = 1, .senders = 2, .requests = 4,
     .request = {{.sender = 0, .end = MODEL_AWAIT_LATER},
                 {.sender = 0},
                 {.sender = 1, .end = MODEL_AWAIT_LATER},
                 {.sender = 1}}},
    {.name = "three-senders", .slots = 3, .actors = 2, .senders = 3, .requests = 3,
     .request = {{.sender = 0}, {.sender = 1, .actor = A1}, {.sender = 2}}},
    {.name = "kills-large", .slots = 2, .actors = 2, .senders = 2, .requests = 2, .kills = 3,
     .budget = 3,
     .request = {{.sender = 0}, {.sender = 1, .actor = A1}}},
    {.name = "kill-of-three", .slots = 3, .actors = 2, .senders = 2, .requests = 3, .kills = 1,
     .budget = 1,
     .request = {{.sender = 0},
                 {.sender = 1, .end = MODEL_AWAIT_LATER},
                 {.sender = 1, .actor = A1}}},
    {.name = "update-large", .slots = 2, .actors = 2, .buffers = 1, .senders = 2, .requests = 2,
     .kills = 2, .budget = 2,
     .request = {{.sender = 0, .reads = X, .writes = X}, {.sender = 1, .actor = A1}}},
    {.name = "overwrite-large", .slots = 2, .actors = 2, .buffers = 1, .senders = 2, .requests = 2,
     .kills = 2, .budget = 2,
     .request = {{.sender = 0, .reads = X}, {.sender = 1, .actor = A1, .writes = X}}},
    {.name = "lost-and-killed", .slots = 3, .actors = 2, .buffers = 1, .senders = 2, .requests = 3,
     .kills = 1, .budget = 2,
     .request = {{.sender = 0, .writes = X, .culprit = true, .end = MODEL_AWAIT_LATER},
                 {.sender = 0, .writes = X},
                 {.sender = 1, .actor = A1, .reads = X}}},
    {.name = "down-large", .slots = 2, .actors = 1, .senders = 2, .requests = 3, .kills = 2,
     .budget = 1,
     .request = {{.sender = 0}, {.sender = 1}, {.sender = 1}}},
    {.name = "drop-large", .slots = 2, .actors = 1, .mailbox = 4, .senders = 2, .requests = 3,
     .sweeper = true,
     .request = {{.sender = 0, .end = MODEL_DROP}, {.sender = 1}, {.sender = 0}}},
    {.name = "drop-and-killed", .slots = 2, .actors = 1, .mailbox = 2, .senders = 2, .requests = 2,
     .kills = 1, .budget = 1, .sweeper = true,
     .request = {{.sender = 0, .end = MODEL_DROP}, {.sender = 1}}},
};
/* clang-format on */

/* Every mutation, with the plan that finds it out and a word of what is said then. */
static const struct wrong {
    model_mutation mutation;
    const char *plan, *says;
} wrongs[] = {
    {MODEL_DOORBELL_BEFORE_RING, "handshake", "no end can be reached"},
    {MODEL_RING_NOT_FENCED, "handshake", "no end can be reached"},
    {MODEL_SLEEPING_NOT_FENCED, "handshake", "no end can be reached"},
    {MODEL_NO_SECOND_LOOK_AT_RING, "handshake", "no end can be reached"},
    {MODEL_DOORBELL_NOT_RAISED, "handshake", "no end can be reached"},
    {MODEL_CELL_BEFORE_RECORD, "handshake", "was not done"},
    {MODEL_CELL_BEFORE_PENDING, "kill", "was not done"},
    {MODEL_ISSUED_AFTER_HANDLE, "update", "runs again"},
    {MODEL_NO_SIGNAL_BEFORE_OVERWRITE, "overwrite", "or later"},
    {MODEL_RETIRE_WITHOUT_SWAP, "kill", "ended twice"},
    {MODEL_GENERATION_NOT_RAISED, "drop", "was not done"},
    {MODEL_PLACE_FREED_EARLY, "nobody", "no end can be reached"},
    {MODEL_SWEEP_SKIPS_UNFINISHED, "nobody", "no end can be reached"},
    {MODEL_NO_AWAIT_PUBLICATION, "kill", "was not done"},
    {MODEL_NO_SECOND_PASS_LOST, "kill", "was not done"},
    {MODEL_NO_SECOND_PASS_UNJUDGED, "fails", "a failed one should have written"},
    {MODEL_LOOK_BEFORE_TICKET, "lost-long-ago", "half-written"},
    {MODEL_LATER_COVER_COUNTS, "rewritten-long-ago", "half-written"},
    {MODEL_DEATHS_NOT_COUNTED, "kills", "third time"},
    {MODEL_NOT_ALONE, "culprit-between", "no part in any death"},
    {MODEL_ALONE_UNTIL_ISSUED, "culprit-between", "no part in any death"},
    {MODEL_ALL_RUN_AGAIN, "update", "runs again"},
    {MODEL_BLIND_REPLAY, "fails", "a failed one should have written"},
    {MODEL_PROMOTED_BEFORE_MAPPED, "kill", "no end can be reached"},
    {MODEL_DOWN_AFTER_FAILING, "down", "no end can be reached"},
    {MODEL_SENDER_IGNORES_DOWN, "down", "no end can be reached"},
    {MODEL_REFUSAL_IGNORED, "lost", "shall be refused"},
    {MODEL_REPLY_AFTER_END, "lost", "was not done"},
    {MODEL_POISON_IGNORED, "refused", "a failed one should have written"},
    {MODEL_SECOND_PASS_FAILS, "refused", "a failed one should have written"},
    {MODEL_POISONED_EARLY, "hidden", "a failed one should have written"},
    {MODEL_FAILED_NOT_LISTED, "lost", "no end can be reached"},
    {MODEL_RETIRED_EARLY_FREED, "lost", "or that shall be refused"},
    {MODEL_PASSING_NOT_AWAITED, "cancelled-first", "a failed one should have written"},
    {MODEL_LATER_ACKED_COUNTS, "acked-a-later-one", "a failed one should have written"},
    {MODEL_ACKED_COUNTS_HALFWAY, "half-acked", "half-written"},
    {MODEL_ACKED_COUNTS_LOST, "half-acked-killed", "half-written"},
    {MODEL_COVER_NOT_JUDGED, "half-acked-covered", "though what it reads is good"},
    {MODEL_LOSS_FORGOTTEN, "half-acked-anew", "half-written"},
    {MODEL_CANCEL_LOOKS_FIRST, "cancelled-first", "cancelled that had begun"},
    {MODEL_DELIVERY_FORGOTTEN, "delivered", "was there"},
    {MODEL_DELIVERY_NOT_AWAITED, "delivered", "was there"},
    {MODEL_DELIVERY_COUNTED_EARLY, "delivered", "was there"},
    {MODEL_DELIVERY_STOPS_AT_GAP, "delivered-to-two", "was there"},
    {MODEL_DELIVERY_STOPS_AT_LATER, "delivered-to-two", "was there"},
};

enum {
    PLANS = sizeof plans / sizeof *plans,
    LARGE = sizeof large_plans / sizeof *large_plans,
    WRONGS = sizeof wrongs / sizeof *wrongs,
    STATES_MAX = 3 * 1000 * 1000,
};

#define LARGE_STATES_MAX UINT64_C(200000000)

static const model_plan *find_plan(const char *name)
{
    for (int i = 0; i < PLANS + LARGE; i++) {
        const model_plan *plan = i < PLANS ? &plans[i] : &large_plans[i - PLANS];
        if (strcmp(plan->name, name) == 0)
            return plan;
    }
    fprintf(stderr, "there is no plan \"%s\"\n", name);
    exit(2);
}

static explorer_result explore(const model_plan *plan, model_mutation mutation, uint64_t max_states,
                               FILE *trace)
{
    clock_t start = clock();
    explorer_result result = model_run(plan, mutation, max_states, trace);
    printf("  %-20s %-26s %9" PRIu64 " states %9" PRIu64 " steps, depth %3u, %5.2f s\n", plan->name,
           mutation == MODEL_NONE ? "" : model_mutation_name(mutation), result.states, result.steps,
           result.depth, (double)(clock() - start) / CLOCKS_PER_SEC);
    return result;
}

/* The protocol as it is. */
static int explore_right(const model_plan *plan, uint64_t max_states)
{
    explorer_result result = explore(plan, MODEL_NONE, max_states, stdout);
    if (result.out_of_bound)
        printf("%s: more than %" PRIu64 " states: nothing is proved\n", plan->name, max_states);
    /* A model that can't go far proves nothing either. */
    if (!result.broken && result.final == 0)
        printf("%s: no final state was seen\n", plan->name);
    return result.broken || result.out_of_bound || result.final == 0;
}

/* The protocol with a mistake, which must show, and as what it is. */
static int explore_wrong(const struct wrong *w)
{
    explorer_result result = explore(find_plan(w->plan), w->mutation, STATES_MAX, NULL);
    if (result.broken && strstr(result.broken, w->says))
        return 0;
    printf("%s in plan %s: expected \"%s\", got \"%s\"\n", model_mutation_name(w->mutation),
           w->plan, w->says, result.broken ? result.broken : "nothing");
    return 1;
}

static int explore_one(const char *plan, const char *mutation)
{
    for (int m = 0; m < MODEL_MUTATION_COUNT; m++) {
        if (strcmp(mutation, model_mutation_name((model_mutation)m)) != 0)
            continue;
        explorer_result result =
            explore(find_plan(plan), (model_mutation)m, LARGE_STATES_MAX, stdout);
        return result.broken != NULL;
    }
    fprintf(stderr, "there is no mutation \"%s\"\n", mutation);
    return 2;
}

int main(int argc, char **argv)
{
    const char *size = getenv("TROUPE_TEST_MODEL");
    bool large = size && strcmp(size, "large") == 0;
    int failures = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1)
        return explore_one(argv[1], argc > 2 ? argv[2] : "NONE");
    if (WRONGS != MODEL_MUTATION_COUNT - 1) {
        printf("a mutation is not in the list\n");
        failures++;
    }
    for (int i = 0; i < PLANS; i++)
        failures += explore_right(&plans[i], STATES_MAX);
    for (int i = 0; i < WRONGS; i++)
        failures += explore_wrong(&wrongs[i]);
    for (int i = 0; i < LARGE && large; i++)
        failures += explore_right(&large_plans[i], LARGE_STATES_MAX);
    if (failures)
        printf("%d of them failed\n", failures);
    return failures ? 1 : 0;
}
