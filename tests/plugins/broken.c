/* Libraries that a worker must refuse: each BROKEN_ macro makes one.
 * SPDX-License-Identifier: Apache-2.0 */
#include <troupe/worker.h>

#ifdef BROKEN_DEPENDENCY
int troupe_test_nowhere(void);
#endif

__attribute__((unused)) static trp_status handle(trp_instance *instance, trp_job *job,
                                                 trp_error *error)
{
    (void)instance;
    (void)job;
    (void)error;
#ifdef BROKEN_DEPENDENCY
    return troupe_test_nowhere();
#else
    return TRP_OK;
#endif
}

#ifdef BROKEN_JOINS
static bool joins(trp_instance *instance, const trp_job *first, const trp_job *next)
{
    (void)instance;
    (void)first;
    (void)next;
    return false;
}
#endif

/* An implementation needs no more than a handle(). */
__attribute__((unused)) static const trp_actor_impl impl = {
#ifdef BROKEN_IMPL_ABI
    .abi = 77,
#else
    .abi = TRP_ACTOR_ABI,
#endif
#ifdef BROKEN_STATE
    .state_bytes = TRP_ACTOR_STATE_MAX + 1,
#endif
#ifndef BROKEN_HANDLE
    .handle = handle,
#endif
#ifdef BROKEN_JOINS
    .joins = joins,
#endif
};

#ifdef BROKEN_ENTRY
extern TRP_API const trp_actor_library trp_actor_entri;
const trp_actor_library trp_actor_entri
#else
const trp_actor_library trp_actor_entry
#endif
    = {
#ifdef BROKEN_ABI
        .head = {77, TRP_ACTOR_BYTES, "9.8.7"},
#elif defined(BROKEN_BYTES)
        .head = {TRP_ACTOR_ABI, TRP_ACTOR_BYTES + 8, "9.8.7"},
#else
    .head = TRP_ACTOR_HEAD,
#endif
#ifdef BROKEN_BACKEND
        .name = "nowhere",
        .version = "3",
#else
        .cuda = &impl,
        .host = &impl,
#endif
};
