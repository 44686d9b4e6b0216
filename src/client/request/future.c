/* Futures: waiting for the end of requests, taking their results, and giving them up. */
#include "base/call.h"
#include "base/error.h"
#include "base/os/futex.h"
#include "client/core/backoff.h"
#include "client/request/request.h"

/* Returns the slot of a future's request. It may hold another request by now: compare the state.
 * NULL: no such future ever existed. */
static trp__slot *future_slot(trp_future future, trp_device **device, uint64_t *generation)
{
    uint32_t tag = (uint32_t)future.id >> TRP__SLOT_BITS; /* with the unused bits, which are 0 */
    *device = trp__device_by_tag(tag);
    *generation = future.id >> 32;
    return *device && *generation != 0 ? &(*device)->slot[future.id & (TRP__SLOTS - 1)] : NULL;
}

trp_status trp__future_stale(void)
{
    return trp__fail(TRP_E_STALE, "future: it was never given out, was ended before, or its device "
                                  "is closed");
}

/* Does the same, and raises an error. A device that is down still has its requests. */
trp_status trp__future_find(trp_future future, trp_device **device, trp__slot **slot,
                            uint64_t *generation)
{
    *slot = future_slot(future, device, generation);
    if (!*slot)
        return trp__future_stale();
    return trp__device_known(*device);
}

/* Ends a future that is done. False if another thread was faster. */
static bool take_result(trp_device *device, trp__slot *slot, uint64_t state, trp_error *result)
{
    uint64_t mine = trp__state(trp__generation_of(state), TRP__FILLING);
    if (!atomic_compare_exchange_strong(&slot->state, &state, mine))
        return false;
    result->status = trp__result_read(device, slot, result);
    trp__result_taken(device, slot, mine);
    return true;
}

static void sleep_on(trp_device *device, trp__slot *slot, uint64_t state, trp__backoff *backoff,
                     int64_t nap)
{
    trp__record *record = &device->control->record[slot->index];
    uint32_t seen = atomic_load(&record->ended);
    atomic_fetch_add(&record->sleepers, 1);
    trp__backoff_doze(backoff);
    if (atomic_load(&slot->state) == state)
        trp__futex_wait(&record->ended, seen, nap);
    atomic_fetch_sub(&record->sleepers, 1);
}

bool trp__is_future(uint64_t state, uint64_t generation)
{
    return (trp__generation_of(state) & UINT32_MAX) == generation && (state & TRP__WANTED);
}

/* Learns how long requests of an actor take, so that the next wait polls more often around that
 * time. The time noted is when the request was last seen running: when it was seen done, the thread
 * may have overslept. */
static void learn_wait(trp_device *device, uint32_t actor, const trp__backoff *backoff)
{
    if (backoff->slack != 0)
        atomic_store_explicit(&device->request.typical_wait[actor], backoff->waited,
                              memory_order_relaxed);
}

/* State of a future's request. */
typedef enum standing { STANDS_STALE, STANDS_PENDING, STANDS_ENDED } standing;

/* Ends a pending request if it is done, after earlier ones with results, which may go to the same
 * memory. True if the slot must be read again. */
static bool finish_in_order(trp_device *device, trp__slot *slot, uint64_t state)
{
    const uint64_t ticket = atomic_load_explicit(&slot->ticket, memory_order_relaxed);
    const uint32_t actor = atomic_load_explicit(&slot->actor, memory_order_relaxed) % TRP__ACTORS;
    if (ticket != 0 && trp__timeline(device, actor) >= ticket)
        trp__deliver_before(device, ticket);
    else if (!atomic_load_explicit(&slot->cancelling, memory_order_relaxed))
        return false; /* it may be done by now, but so may earlier ones */
    return trp__try_finish(device, slot, state);
}

/* Reads the state of the slot into *state, and ends the request if it is done. */
static standing look_at(trp_device *device, trp__slot *slot, uint64_t generation, uint64_t *state)
{
    for (;;) {
        *state = atomic_load_explicit(&slot->state, memory_order_acquire);
        if (!trp__is_future(*state, generation))
            return STANDS_STALE;
        trp__phase phase = trp__phase_of(*state);
        if (phase == TRP__PENDING && finish_in_order(device, slot, *state))
            continue;
        if (phase == TRP__GATHERED) {
            trp__list_look(device, slot);
            if (atomic_load(&slot->state) != *state)
                continue;
        }
        return phase == TRP__DONE ? STANDS_ENDED : STANDS_PENDING;
    }
}

/* Ends the future of a request that has ended. Raises the request's error, or TRP_E_STALE if
 * another thread was faster. */
static trp_status end_future(trp_device *device, trp__slot *slot, uint64_t state, trp_error *result)
{
    trp__deliver_before(device, atomic_load(&slot->ticket));
    if (!take_result(device, slot, state, result))
        return trp__future_stale();
    return result->status == TRP_OK ? TRP_OK : trp__error_raise(result);
}

/* Waits until the request has ended, or there is none; TRP_E_TIMEOUT. */
static trp_status wait_on(trp_device *device, trp__slot *slot, uint64_t generation,
                          trp__backoff *backoff, uint64_t *state)
{
    uint32_t actor = atomic_load_explicit(&slot->actor, memory_order_relaxed) % TRP__ACTORS;
    standing stands;
    backoff->expected =
        atomic_load_explicit(&device->request.typical_wait[actor], memory_order_relaxed);
    while ((stands = look_at(device, slot, generation, state)) == STANDS_PENDING) {
        int64_t nap;
        if (!trp__backoff_step(backoff, &nap))
            return TRP_E_TIMEOUT;
        if (nap > 0)
            sleep_on(device, slot, *state, backoff, nap);
    }
    if (stands == STANDS_STALE)
        return trp__future_stale();
    learn_wait(device, actor, backoff);
    return TRP_OK;
}

static trp_status wait_for(trp_future future, int64_t timeout_ns, trp_error *result)
{
    trp_device *device;
    uint64_t generation, state;
    trp__slot *slot;
    trp_status status = trp__future_find(future, &device, &slot, &generation);
    if (status != TRP_OK)
        return status;
    trp__backoff backoff = trp__backoff_begin(timeout_ns);
    status = wait_on(device, slot, generation, &backoff, &state);
    trp__backoff_end(&backoff);
    if (status == TRP_E_TIMEOUT)
        return trp__fail(TRP_E_TIMEOUT, "the request has not completed after %lld ns",
                         (long long)timeout_ns);
    return status == TRP_OK ? end_future(device, slot, state, result) : status;
}

/* Copies the error of a call that waits to its caller. */
static trp_status copy_error(trp_status status, trp_error *error)
{
    if (error)
        *error = status == TRP_OK ? (trp_error){0} : *trp__error_last();
    return status;
}

trp_status trp_await(trp_future future, int64_t timeout_ns, trp_error *error)
{
    TRP__CALL_QUICK(trp__call_refused());
    trp_error result;
    return copy_error(wait_for(future, timeout_ns, &result), error);
}

/* Ends the first future whose request has ended, or that is stale. TRP_E_TIMEOUT: there is none
 * (yet); *left is how many are not zero. */
static trp_status end_first(trp_future *futures, size_t count, size_t *index, size_t *left)
{
    *left = 0;
    for (size_t i = 0; i < count; i++) {
        trp_device *device;
        uint64_t generation, state = 0;
        trp__slot *slot;
        trp_error result = {0};
        if (futures[i].id == 0)
            continue;
        *left += 1;
        trp_status status = trp__future_find(futures[i], &device, &slot, &generation);
        if (status == TRP_E_FORKED)
            return status;
        if (status == TRP_OK) {
            standing stands = look_at(device, slot, generation, &state);
            if (stands == STANDS_PENDING)
                continue;
            status = stands == STANDS_STALE ? trp__future_stale()
                                            : end_future(device, slot, state, &result);
        }
        futures[i].id = 0;
        *index = i;
        return status;
    }
    return TRP_E_TIMEOUT;
}

static trp_status check_futures(const trp_future *futures, size_t count, const void *index)
{
    if ((futures || count == 0) && index)
        return TRP_OK;
    return trp__fail_null(index ? "futures" : "index");
}

trp_status trp_await_any(trp_future *futures, size_t count, int64_t timeout_ns, size_t *index,
                         trp_error *error)
{
    TRP__CALL(trp__call_refused());
    size_t left;
    trp_status status = check_futures(futures, count, index);
    if (index)
        *index = count;
    if (status != TRP_OK)
        return copy_error(status, error);
    trp__backoff backoff = trp__backoff_begin(timeout_ns);
    while ((status = end_first(futures, count, index, &left)) == TRP_E_TIMEOUT && left > 0) {
        int64_t nap = 0;
        if (!trp__backoff_step(&backoff, &nap))
            break;
        if (nap > 0)
            trp__nap(nap);
    }
    if (status == TRP_E_TIMEOUT)
        status = left > 0
                     ? trp__fail(TRP_E_TIMEOUT, "none of %zu requests has completed after %lld ns",
                                 left, (long long)timeout_ns)
                     : trp__fail(TRP_E_STALE,
                                 "futures: expected one that is not zero among "
                                 "%zu, got none",
                                 count);
    return copy_error(status, error);
}

/* Waits for one of several, within their common time. A stale one counts as ended. */
static trp_status await_one(trp_future future, trp__backoff *backoff)
{
    trp_device *device;
    uint64_t generation, state;
    trp__slot *slot;
    if (future.id == 0)
        return TRP_OK;
    trp_status status = trp__future_find(future, &device, &slot, &generation);
    if (status == TRP_OK)
        status = wait_on(device, slot, generation, backoff, &state);
    return status == TRP_E_STALE ? TRP_OK : status;
}

trp_status trp_await_all(const trp_future *futures, size_t count, int64_t timeout_ns, size_t *index,
                         trp_error *error)
{
    TRP__CALL(trp__call_refused());
    size_t ignored, failed = count;
    trp_error first = {0};
    index = index ? index : &ignored;
    trp_status status = check_futures(futures, count, index);
    trp__backoff backoff = trp__backoff_begin(timeout_ns);
    *index = count;
    for (size_t i = 0; i < count && status == TRP_OK; i++) {
        status = await_one(futures[i], &backoff);
        if (status != TRP_OK)
            *index = i;
    }
    trp__backoff_end(&backoff);
    if (status == TRP_E_TIMEOUT)
        status = trp__fail(TRP_E_TIMEOUT, "request %zu of %zu has not completed after %lld ns",
                           *index, count, (long long)timeout_ns);
    if (status != TRP_OK)
        return copy_error(status, error);
    for (size_t i = 0; i < count; i++) { /* all have ended */
        trp_error result = {0};
        if (futures[i].id == 0 || wait_for(futures[i], TRP_FOREVER, &result) == TRP_OK)
            continue;
        if (failed == count) {
            failed = i;
            first = *trp__error_last();
        }
    }
    *index = failed;
    return copy_error(failed == count ? TRP_OK : trp__error_raise(&first), error);
}

void trp_future_drop(trp_future future)
{
    TRP__CALL_QUICK();
    trp_device *device;
    uint64_t generation;
    trp__slot *slot = future_slot(future, &device, &generation);
    if (!slot || trp__device_known(device) != TRP_OK)
        return;
    uint64_t state = atomic_load(&slot->state);
    while (trp__is_future(state, generation)) {
        /* Clears TRP__WANTED for the thread that ends the request; frees the slot if it has
         * ended. */
        bool done = trp__phase_of(state) == TRP__DONE;
        uint64_t next =
            done ? trp__state(trp__generation_of(state), TRP__FILLING) : state & ~TRP__WANTED;
        if (!atomic_compare_exchange_weak(&slot->state, &state, next))
            continue;
        if (done)
            trp__result_taken(device, slot, next);
        else if (atomic_load(&device->request.deliveries) > 0)
            trp__supervisor_wake(device); /* no other thread may see its end */
        return;
    }
}

trp_status trp_device_drain(trp_device *device, int64_t timeout_ns)
{
    TRP__CALL(trp__call_refused());
    trp_status status = trp__device_known(device);
    if (status != TRP_OK)
        return status;
    uint64_t end = atomic_load(&device->control->next_ticket.value);
    trp__backoff backoff = trp__backoff_begin(timeout_ns);
    for (uint32_t i = 0; i < atomic_load(&device->slots_used);) {
        trp__slot *slot = &device->slot[i];
        uint64_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
        trp__phase phase = trp__phase_of(state);
        uint64_t ticket = atomic_load_explicit(&slot->ticket, memory_order_relaxed);
        bool pending = phase == TRP__RETIRING ||
                       (ticket < end && phase == TRP__GATHERED && trp__leads(slot)) ||
                       (ticket < end &&
                        (phase == TRP__PENDING || !trp__retired_early_over(device, slot, ticket)));
        if (!pending || (phase == TRP__PENDING && finish_in_order(device, slot, state))) {
            i += !pending;
            continue;
        }
        int64_t nap;
        if (phase == TRP__GATHERED)
            trp__list_look(device, slot);
        if (!trp__backoff_step(&backoff, &nap)) {
            trp__backoff_end(&backoff);
            return trp__fail(TRP_E_TIMEOUT, "request %llu has not completed",
                             (unsigned long long)ticket);
        }
        if (nap > 0)
            sleep_on(device, slot, state, &backoff, nap);
    }
    trp__backoff_end(&backoff);
    return TRP_OK;
}
