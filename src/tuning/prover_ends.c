/* Failures of a proof, and waiting for its work. */
#include "base/error.h"
#include "base/os/clock.h"
#include "tuning/prover_parts.h"

#include <stdio.h>
#include <time.h>

enum { QUERIES = 200 /* before the thread sleeps between queries */ };

/* Work of other actors may delay the device, which is not the plan's fault. */
#define LIMIT_NS (60 * TRP__SECOND)
#define NAP_NS   50000

bool trp__proof_impossible(trp__proof_bench *b, const char *why)
{
    b->verdict->result = TRP__PROOF_IMPOSSIBLE;
    trp__error_set(&b->verdict->error, TRP_E_MEMORY, "%s", why);
    trp__copy_string(b->verdict->reason, sizeof b->verdict->reason, why);
    return false;
}

static bool broke(trp__proof_bench *b, trp__cu_result result, const char *what)
{
    b->verdict->result = TRP__PROOF_BROKE;
    trp__error_set_code(&b->verdict->error, TRP_E_LIBRARY, "cuda", result, "a proof: %s", what);
    snprintf(b->verdict->reason, sizeof b->verdict->reason, "%s (CUDA error %d)", what,
             (int)result);
    return false;
}

bool trp__proof_failed(trp__proof_bench *b, trp__proof_result otherwise, const char *why)
{
    const trp__cu_result result =
        b->stream ? b->proof->cu->cuStreamQuery(b->stream) : TRP__CU_SUCCESS;
    if (trp__cuda_sticky(result))
        return broke(b, result, "it broke the context");
    if (otherwise == TRP__PROOF_IMPOSSIBLE)
        return trp__proof_impossible(b, why);
    b->verdict->result = otherwise;
    trp__copy_string(b->verdict->reason, sizeof b->verdict->reason, why);
    return false;
}

bool trp__proof_called(trp__proof_bench *b, trp__cu_result result, const char *call)
{
    return result == TRP__CU_SUCCESS || trp__proof_failed(b, TRP__PROOF_IMPOSSIBLE, call);
}

bool trp__proof_wait(trp__proof_bench *b)
{
    enum { LAUNCH_TIMEOUT = 702 };
    const int64_t end = trp__deadline(b->proof->limit_ns ? b->proof->limit_ns : LIMIT_NS);
    for (unsigned n = 0;; n++) {
        trp__cu_result result = b->proof->cu->cuStreamQuery(b->stream);
        if (result == TRP__CU_SUCCESS)
            return true;
        if (trp__cuda_sticky(result))
            return broke(b, result, "it broke the context");
        if (result != TRP__CU_NOT_READY)
            return trp__proof_impossible(b, "cuStreamQuery");
        if (trp__now_ns() > end)
            return broke(b, LAUNCH_TIMEOUT, "it did not end in time");
        if (n > QUERIES)
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
}

void trp__proof_mark(trp__proof_bench *b, trp__proof_phase phase)
{
    const int64_t now = trp__now_ns();
    b->verdict->phase_ns[phase] += now - b->marked_ns;
    b->marked_ns = now;
}
