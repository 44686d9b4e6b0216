/* The jit actor on the host. Its companions compile and link; the sender refuses requests that need
 * a GPU. */
#include "actors/jit/jit.h"
#include "base/error.h"

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    (void)instance;
    (void)job;
    return trp__error_set(error, TRP_E_UNSUPPORTED, "kernels run on GPUs only");
}

const trp_actor_impl trp__jit_host = {.abi = TRP_ACTOR_ABI, .handle = handle};
