/* The text of the transforms. The includer defines T, NAME(x) and IS_F32. */
#include "actors/fft/host/vector_real.h"

#include "actors/fft/host/ends_real.h"
#include "actors/fft/host/passes_real.h"
#include "actors/fft/host/strips_real.h"

#include "actors/fft/host/single_real.h"

void NAME(trp__fft_run)(const trp__fft_job *job)
{
    if (job->lines == 0)
        return;
    if (job->plan->key.single)
        NAME(run_single)(job);
    else
        NAME(run_beside)(job);
}

#include "actors/fft/host/trig_real.h"
