#include "model/state.h"

static const char *const break_texts[] = {
#define BREAK_TEXT(name, text) text,
    BREAKS(BREAK_TEXT)
#undef BREAK_TEXT
};

static const char *const mutation_names[] = {
#define MUTATION_NAME(name) #name,
    MODEL_MUTATIONS(MUTATION_NAME)
#undef MUTATION_NAME
};

const char *model_mutation_name(model_mutation mutation)
{
    return mutation_names[mutation];
}

/* trp__buffer_readable(), where `cover` is the last request that writes all of it before, and
 * `accepted` the last of those whose failure was told. */
static status readable(const buffer *x, uint8_t cover, uint8_t accepted)
{
    bool hidden = x->lost < cover && x->poison < cover && accepted < cover;
    if (x->lost > x->good && !hidden)
        return LOST;
    return x->poison > accepted && x->poison >= cover ? DEPENDENCY : OK;
}

/* Whether a request can't have its inputs. */
status model_find_unreadable(const run *r, const state *s, uint32_t request)
{
    status found = OK;
    for (uint32_t b = 0; b < r->plan->buffers && found == OK; b++) {
        if (r->plan->request[request].reads >> b & 1)
            found = readable(&s->buffers[b], s->buffers[b].cover, s->buffers[b].accepted);
    }
    return found;
}

/* The last failure that was told, but for those of requests behind the reader: they fail before
 * their turn, and say nothing of one before it. */
static uint8_t accepted_by(const run *r, const buffer *x, const thread *t, uint32_t b)
{
    bool later = t->ticket != 0 && x->accepted > t->ticket && !is(r, MODEL_LATER_ACKED_COUNTS);
    return later ? t->accepted[b] : x->accepted;
}

/* The same for a request that has its ticket: trp__buffer_readable_at(). */
status model_find_unreadable_then(const run *r, const state *s, const thread *t)
{
    status found = OK;
    for (uint32_t b = 0; b < r->plan->buffers && found == OK; b++) {
        const buffer *x = &s->buffers[b];
        bool later = x->cover > t->ticket && !is(r, MODEL_LATER_COVER_COUNTS);
        if (r->plan->request[t->request].reads >> b & 1)
            found = readable(x, later ? t->cover[b] : x->cover, accepted_by(r, x, t, b));
    }
    return found;
}

/* Of which failures the sender of a request knows. */
void model_note_accepted(const run *r, state *n, const thread *t)
{
    outcome *o = &n->outcomes[t->request];
    for (uint32_t i = 0; i < r->plan->requests; i++) {
        if (n->outcomes[i].acked)
            o->knew |= (uint8_t)(1U << i);
    }
    for (uint32_t b = 0; b < r->plan->buffers; b++) {
        if (r->plan->request[t->request].reads >> b & 1)
            o->accepted[b] = accepted_by(r, &n->buffers[b], t, b);
    }
}

void model_raise_outputs(const run *r, state *n, uint32_t request, uint8_t ticket, bool accepted)
{
    for (uint32_t b = 0; b < r->plan->buffers; b++) {
        if (r->plan->request[request].writes >> b & 1)
            raise_to(accepted ? &n->buffers[b].accepted : &n->buffers[b].poison, ticket);
    }
}

void model_set_own(state *n, const words *w)
{
    n->own = *w;
    if (n->attached)
        n->mapped = *w;
}

/* Takes a thread past places at which it does nothing that others could see. */
void model_go_on(const run *r, state *n, uint32_t index)
{
    thread *t = &n->threads[index];
    if (t->place == S_AFTER)
        model_after_sending(r, n, index);
    else if (t->place == S_TAKEN)
        model_next_request(r, t, index, t->request + 1U);
    else if (t->place == Z_IDLE)
        *t = (thread){.place = Z_IDLE};
}

static void all_steps(const void *context, const void *bytes, explorer *e)
{
    const run *r = context;
    const state *now = bytes;
    for (uint32_t i = 0; i < r->plan->senders; i++)
        model_step_sender(r, now, e, i);
    model_step_sweeper(r, now, e);
    model_step_supervisor(r, now, e);
    model_step_worker(r, now, e);
    for (uint32_t a = 0; a < r->plan->actors; a++)
        model_step_stream(r, now, e, a);
    model_step_environment(r, now, e);
}

static const char *is_broken(const void *context, const void *bytes)
{
    (void)context;
    return break_texts[((const state *)bytes)->broken];
}

/* All senders are through, every request has ended once, every slot is free again. */
static bool is_final(const void *context, const void *bytes)
{
    const run *r = context;
    const state *s = bytes;
    bool final = s->threads[SUPERVISOR].place == V_IDLE || s->threads[SUPERVISOR].place == V_OVER;
    for (uint32_t i = 0; i < r->plan->senders; i++)
        final = final && s->threads[i].place == S_END;
    for (uint32_t i = 0; i < r->plan->requests; i++)
        final = final && s->outcomes[i].ends == 1;
    for (uint32_t i = 0; i < r->plan->slots; i++)
        final = final && s->slots[i].phase == FREE;
    return final;
}

explorer_result model_run(const model_plan *plan, model_mutation mutation, uint64_t max_states,
                          FILE *trace)
{
    run r = {.plan = plan, .mutation = mutation};
    state first;
    memset(&first, 0, sizeof first);
    first.next_ticket = 1;
    first.resume_start = 1;
    first.attached = first.promoted = 1;
    first.worker.place = K_START;
    for (uint32_t i = 0; i < MODEL_SLOTS; i++)
        first.slots[i].generation = 1;
    for (uint32_t i = 0; i < plan->senders; i++)
        model_next_request(&r, &first.threads[i], i, 0);
    first.threads[SWEEPER].place = Z_IDLE;
    first.threads[SUPERVISOR].place = V_IDLE;
    explorer_model model = {.state_bytes = sizeof(state),
                            .context = &r,
                            .steps = all_steps,
                            .broken = is_broken,
                            .final = is_final};
    return explorer_run(&model, &first, max_states, trace);
}
