/* The jit actor on the host: its companions do what there is to do. What needs a GPU is refused by
 * the sender's side already. */
#include "actors/jit/jit.h"
#include "base/error.h"

static trp_status handle(trp_instance *instance, trp_job *job, trp_error *error)
{
    (void)instance;
    (void)job;
    return trp__error_set(error, TRP_E_UNSUPPORTED, "kernels run on GPUs only");
}

const trp_actor_impl trp__jit_host = {.abi = TRP_ACTOR_ABI, .handle = handle};
