/* Runs the problems of operations, undisturbed and while workers are killed. See conformance.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "conformance/conformance.h"

#include <signal.h>

static const cf_actor *tested;

/* Problems that are pending when a worker is killed. */
enum { GROUP = 16 };

static size_t below(size_t bound)
{
    return ref_rng_below(h_rng(), bound);
}

/* ---- problems ---- */

bool cf_chosen(const cf_operation *operation)
{
    const char *only = getenv("TROUPE_TEST_OPERATION");
    return !only || !*only || strcmp(only, operation->name) == 0;
}

cf_bench cf_open(const cf_actor *actor)
{
    trp_device_options options = {.restart_budget = 100000};
    if (actor->few_proofs && !h_is_gpu() && below(4) > 0)
        options.proof = TRP_PROOF_OFF;
    cf_bench bench = {.actor = actor, .world = h_open(&options)};
    bench.at = h_actor(bench.world.device, actor->kind);
    return bench;
}

void cf_close(cf_bench *bench)
{
    if (bench->actor->end)
        bench->actor->end();
    /* A freed buffer exists until the failed request is released. */
    H_OK(trp_device_drain(bench->world.device, H_LONG));
    if (!bench->actor->keeps || !h_is_cuda())
        H_EQUAL(h_info(bench->world.device).buffers, 0);
    h_close(&bench->world);
}

void cf_draw(cf_problem *p, const cf_operation *operation, unsigned variant, cf_kind kind)
{
    *p = (cf_problem){.operation = operation, .variant = variant};
    while (!operation->family->draw(p, (unsigned)below(operation->ways), kind))
        ;
}

void cf_upload(cf_bench *bench, cf_problem *p)
{
    for (int i = 0; i < p->block_count; i++) {
        block *b = &p->blocks[i];
        if (!b->before)
            continue;
        b->buffer = h_buffer(bench->world.device, b->bytes);
        h_write(bench->world.device, b->buffer, 0, b->before, b->bytes);
    }
}

static void download(cf_bench *bench, cf_problem *p)
{
    for (int i = 0; i < p->block_count; i++) {
        block *b = &p->blocks[i];
        if (b->before)
            h_read(bench->world.device, b->buffer, 0, b->after, b->bytes);
    }
}

void cf_drop(cf_bench *bench, cf_problem *p)
{
    for (int i = 0; i < p->block_count; i++) {
        block *b = &p->blocks[i];
        if (!b->before)
            continue;
        if (b->buffer.id)
            H_OK(trp_buffer_free(bench->world.device, b->buffer));
        block_free(b);
    }
    p->operation->family->drop(p);
}

static trp_status send(cf_bench *bench, const cf_problem *p, trp_completion *done)
{
    *done = (trp_completion){0};
    return p->operation->family->send(bench->at, p, done);
}

/* Returns whether the problem was done; sets `refused` if it was refused, and may be. */
static bool run(cf_bench *bench, const cf_problem *p, bool *refused)
{
    trp_completion done;
    trp_status status = send(bench, p, &done);
    if (status == TRP_OK)
        status = h_await_any(done);
    *refused =
        status == TRP_E_UNSUPPORTED && p->may_refuse && strstr(trp_error_message(), p->may_refuse);
    if (status != TRP_OK && !*refused)
        fprintf(stderr, "%s %s ended with %s: %s\n", p->operation->name,
                p->operation->variants[p->variant].name, trp_status_name(status),
                trp_error_message());
    return status == TRP_OK;
}

/* ---- undisturbed ---- */

/* Returns whether a problem completes with right results, and nothing else was written. */
static bool outputs_right(cf_bench *bench, cf_problem *p, cf_tally *t)
{
    download(bench, p);
    bool right = p->operation->family->check(p, t);
    for (int i = 0; i < p->block_count && right; i++) {
        const block *b = &p->blocks[i];
        for (size_t k = 0; b->before && k < b->bytes && right; k++) {
            right = b->writable[k] || b->after[k] == b->before[k];
            if (!right)
                fprintf(stderr, "%s: byte %zu of buffer %d was written\n", p->operation->name, k,
                        i);
        }
    }
    return right;
}

static bool solve(cf_bench *bench, cf_problem *p, cf_tally *t)
{
    bool refused;
    cf_upload(bench, p);
    bool right = run(bench, p, &refused) ? outputs_right(bench, p, t) : refused;
    cf_drop(bench, p);
    t->problems++;
    t->refused += refused;
    return right;
}

/* Runs every combination of options several times, or a part of them where the isolation, a
 * sanitizer or a slow device cannot change the numbers. */
static bool variant_right(cf_bench *bench, const cf_operation *o, unsigned variant, cf_tally *t)
{
    const bool fake = h_is_cuda() && !h_is_gpu();
    const bool all =
        !H_SANITIZED && h_isolation() == TRP_ISOLATION_PROCESS && !(fake && tested->slow_fake);
    const int rounds = tested->rounds ? tested->rounds : 100;
    const int before = t->problems, refused_before = t->refused;
    const int enough = before + (all ? rounds : rounds / 4);
    bool right = true;
    while (right && t->problems < enough) {
        for (unsigned way = 0; way < (all ? o->ways : 1) && right; way++) {
            cf_problem p = {.operation = o, .variant = variant};
            if (!all)
                cf_draw(&p, o, variant, CF_RANDOM);
            if (!all || o->family->draw(&p, way, CF_RANDOM))
                right = solve(bench, &p, t);
        }
    }
    const int ran = t->problems - before - (t->refused - refused_before);
    if (right && !o->variants[variant].by_device && 20 * ran < t->problems - before) {
        fprintf(stderr, "%s %s: %d of %d were refused\n", o->name, o->variants[variant].name,
                t->refused - refused_before, t->problems - before);
        right = false;
    }
    return right;
}

static void numbers(void)
{
    cf_bench bench = cf_open(tested);
    char wrong[256] = "";
    for (size_t i = 0; i < tested->count; i++) {
        const cf_operation *o = &tested->operations[i];
        cf_tally t = {0};
        bool right = true;
        if (!cf_chosen(o))
            continue;
        for (unsigned v = 0; v < o->variant_count; v++) {
            if (!cf_excluded(tested, o, v, h_backend(), &(const char *){NULL}))
                right = variant_right(&bench, o, v, &t) && right;
        }
        printf("    %-5s %5d problems, %d refused, largest error %.3f of the bound%s\n", o->name,
               t.problems, t.refused, t.worst, right ? "" : ", FAILED");
        if (!right)
            snprintf(wrong + strlen(wrong), sizeof wrong - strlen(wrong), " %s", o->name);
    }
    if (*wrong)
        h_fail(__FILE__, __LINE__, "wrong:%s", wrong);
    cf_close(&bench);
}

/* ---- with workers killed ---- */

typedef struct victim {
    cf_problem p;
    trp_completion done;
    char *wanted[CF_BLOCKS]; /* the contents that blocks have after an undisturbed run */
} victim;

/* Runs the problem undisturbed and saves the results; false: it was refused. */
static bool remember(cf_bench *bench, victim *v)
{
    cf_tally t = {0};
    H_CHECK(v->p.block_count <= CF_BLOCKS);
    bool refused;
    cf_upload(bench, &v->p);
    const bool ran = run(bench, &v->p, &refused);
    H_CHECK(ran || refused);
    if (refused) {
        cf_drop(bench, &v->p);
        return false;
    }
    if (!outputs_right(bench, &v->p, &t))
        h_fail(__FILE__, __LINE__, "wrong: %s", v->p.operation->name);
    for (int i = 0; i < v->p.block_count; i++) {
        block *b = &v->p.blocks[i];
        if (!b->before)
            continue;
        v->wanted[i] = h_malloc(b->bytes);
        memcpy(v->wanted[i], b->after, b->bytes);
        h_write(bench->world.device, b->buffer, 0, b->before, b->bytes);
    }
    return true;
}

/* Checks that outputs are lost, or were written by a request that had completed, and that no other
 * buffer is lost. */
static void lost(cf_bench *bench, const victim *v)
{
    for (int i = 0; i < v->p.block_count; i++) {
        const block *b = &v->p.blocks[i];
        if (!b->before)
            continue;
        const bool written = memchr(b->writable, true, b->bytes);
        trp_completion done = {0};
        trp_status status = trp_read(bench->world.device, b->buffer, 0, b->after, b->bytes, &done);
        if (written && (!v->p.in_parts || status == TRP_E_LOST)) {
            H_IS(status, TRP_E_LOST);
            continue;
        }
        H_OK(status == TRP_OK ? h_await_any(done) : status);
        H_CHECK(memcmp(b->after, v->wanted[i], b->bytes) == 0);
    }
}

static void judge(cf_bench *bench, victim *v, cf_tally *t)
{
    trp_error error;
    trp_status status = h_await(v->done.future, &error);
    bool faulted = status == TRP_E_FAULT && v->p.may_fault;
    t->problems++;
    t->faults += faulted;
    if (!faulted && status != TRP_OK)
        h_fail(__FILE__, __LINE__, "%s %s, whose worker was killed, ended with %s: %s",
               v->p.operation->name, v->p.operation->variants[v->p.variant].name,
               trp_status_name(status), error.message);
    if (faulted)
        lost(bench, v);
    else
        download(bench, &v->p);
    for (int i = 0; i < v->p.block_count; i++) {
        const block *b = &v->p.blocks[i];
        if (!faulted && !v->p.any_bits && b->before &&
            memcmp(b->after, v->wanted[i], b->bytes) != 0)
            h_fail(__FILE__, __LINE__, "%s %s, run again: other bits in buffer %d",
                   v->p.operation->name, v->p.operation->variants[v->p.variant].name, i);
        free(v->wanted[i]);
    }
    if (!faulted && (v->p.any_bits || v->p.operation->family->again))
        H_CHECK(v->p.operation->family->check(&v->p, &(cf_tally){0}));
    cf_drop(bench, &v->p);
}

/* Returns whether there was a worker to be killed. */
static bool kill_under(cf_bench *bench, victim *group, int count, cf_tally *t)
{
    for (int i = 0; i < count; i++)
        H_OK(send(bench, &group[i].p, &group[i].done));
    if (below(2))
        h_sleep((int64_t)below(200) * 1000);
    int64_t pid = h_info(bench->world.device).worker_pid;
    if (pid > 0)
        kill((pid_t)pid, SIGKILL);
    for (int i = 0; i < count; i++)
        judge(bench, &group[i], t);
    h_await_state(bench->world.device, TRP_DEVICE_READY);
    return pid > 0;
}

static void killed_workers(void)
{
    if (h_isolation() != TRP_ISOLATION_PROCESS)
        h_skip("a worker that is a thread can't be killed");
    static victim group[GROUP];
    cf_bench bench = cf_open(tested);
    cf_tally t = {0};
    int count = 0;
    unsigned kills = 0;
    /* Few operations are run more often, until three workers were killed. */
    for (int round = 0; round < (H_SANITIZED ? 1 : 3) || (kills < 3 && round < 24); round++) {
        for (size_t i = 0; i < tested->count; i++) {
            const cf_operation *o = &tested->operations[i];
            for (unsigned v = 0; v < o->variant_count && cf_chosen(o); v++) {
                if (cf_excluded(tested, o, v, h_backend(), &(const char *){NULL}))
                    continue;
                group[count] = (victim){0};
                cf_draw(&group[count].p, o, v, CF_RANDOM);
                count += remember(&bench, &group[count]) ? 1 : 0;
                if (count == GROUP) {
                    kills += kill_under(&bench, group, count, &t) ? 1 : 0;
                    count = 0;
                }
            }
        }
    }
    if (count > 0)
        kills += kill_under(&bench, group, count, &t) ? 1 : 0;
    printf("    %d problems under %u workers killed, %d of them ended with a fault\n", t.problems,
           kills, t.faults);
    H_CHECK(kills > 0 || t.problems == 0);
    cf_close(&bench);
}

/* ---- bad input, exclusions ---- */

static void bad_input(void)
{
    cf_bench bench = cf_open(tested);
    cf_bad_input(&bench);
    cf_close(&bench);
}

static void exclusions(void)
{
    cf_bench bench = cf_open(tested);
    int count = 0;
    for (size_t i = 0; i < tested->count; i++) {
        const cf_operation *o = &tested->operations[i];
        for (unsigned v = 0; v < o->variant_count && cf_chosen(o); v++) {
            const char *words;
            if (!cf_excluded(tested, o, v, h_backend(), &words))
                continue;
            /* another property of the problem may be unsupported, too */
            bool said = false;
            for (int tries = 0; tries < 50 && !said; tries++) {
                cf_problem p;
                trp_completion done = {0};
                cf_draw(&p, o, v, CF_RANDOM);
                cf_upload(&bench, &p);
                trp_status status = o->family->send(bench.at, &p, &done);
                if (status == TRP_OK)
                    status = h_await_any(done);
                H_IS(status, TRP_E_UNSUPPORTED);
                said = strstr(trp_error_message(), words) != NULL;
                cf_drop(&bench, &p);
            }
            H_SAYS(words);
            count++;
        }
    }
    printf("    %d variants of operations are left out\n", count);
    cf_close(&bench);
}

int cf_main(int argc, char **argv, const cf_actor *actor)
{
    static h_case cases[16] = {{"numbers", numbers},
                               {"killed_workers", killed_workers},
                               {"bad_input", bad_input},
                               {"exclusions", exclusions}};
    enum { COMMON = 4 };
    tested = actor;
    if (argc == 2 && strcmp(argv[1], "--table") == 0) {
        cf_print_table(actor);
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--bench") == 0) {
        cf_time(actor);
        return 0;
    }
    H_CHECK(COMMON + actor->more_count <= sizeof cases / sizeof *cases);
    if (actor->more_count > 0)
        memcpy(&cases[COMMON], actor->more, actor->more_count * sizeof *cases);
    return h_main(argc, argv, cases, COMMON + actor->more_count);
}
