#include "actors/cutlass/plan/subject.h"

#include "actors/cutlass/templates/abi.h"
#include "base/error.h"
#include "driver/cuda.h"

#include <troupe/version.h>

#include <stdio.h>
#include <string.h>

trp__cutlass_subject trp__cutlass_subject_of(const trp__cutlass_problem *problem,
                                             const trp_cutlass_args *args, bool in_place,
                                             const char *kernel)
{
    const int64_t ld[] = {args->lda, args->ldb, args->ldc, args->ldd};
    const int64_t batch[] = {args->batch_a, args->batch_b, args->batch_c, args->batch_d};
    trp__cutlass_subject s;
    memset(&s, 0, sizeof s);
    s.problem = trp__cutlass_choice_key_of(problem, NULL);
    s.in_place = in_place;
    memcpy(s.ld, ld, sizeof s.ld);
    memcpy(s.batch, batch, sizeof s.batch);
    memcpy(s.conv[0], args->conv_a, sizeof s.conv[0]);
    memcpy(s.conv[1], args->conv_b, sizeof s.conv[1]);
    if (problem->tree) {
        uint8_t bytes[TRP__TREE_BYTES_MAX];
        s.tree_bytes = (uint32_t)trp__tree_encode(problem->tree, bytes);
    }
    trp__copy_string(s.kernel, sizeof s.kernel, kernel);
    return s;
}

void trp__cutlass_subject_text(const trp__cutlass_subject *s, char *out, size_t size)
{
    static const char *const operations[] = {"gemm", "grouped", "conv"};
    static const char *const convolutions[] = {"fprop", "dgrad", "wgrad"};
    const trp__cutlass_choice_key *p = &s->problem;
    const bool convolves = p->operation == TRP__CUTLASS_CONV;
    const uint32_t which = convolves ? p->conv : p->operation;
    char batch[32] = "";
    if (p->batch > 1)
        snprintf(batch, sizeof batch, "%lldx", (long long)p->batch);
    snprintf(out, size, "%s %s%lldx%lldx%lld %s %s %s%s",
             which < 3 ? (convolves ? convolutions : operations)[which] : "unknown", batch,
             (long long)p->m, (long long)p->n, (long long)p->k, trp_dtype_name((trp_dtype)p->a),
             trp_dtype_name((trp_dtype)p->b), trp_dtype_name((trp_dtype)p->d),
             s->tree_bytes ? "" : " integers");
}

void trp__cutlass_name_library(trp__tuning_site *site)
{
    snprintf(site->library, sizeof site->library, "templates of Troupe %s, ABI %d",
             TRP_VERSION_STRING, TRP_CUTLASS_ABI);
}

bool trp__cutlass_site_of(const trp__encoder *encoder, trp__tuning_site *site)
{
    const trp__cuda *cu;
    trp_device_info info;
    trp_error ignored;
    int driver = 0;
    if (trp__cuda_load(&cu, &ignored) != TRP_OK || cu->cuDriverGetVersion(&driver) != 0 ||
        trp__device_info(trp_actor_device(encoder->actor), &info) != TRP_OK)
        return false;
    trp__tuning_site_set(site, info.name, info.processors, encoder->compute, driver);
    trp__cutlass_name_library(site);
    return true;
}

void trp__cutlass_verdict_key(const trp__verdicts *verdicts, const trp__cutlass_subject *s,
                              const trp__cutlass_settings *settings, uint64_t image, trp__key *out)
{
    char text[256];
    trp__cutlass_subject_text(s, text, sizeof text);
    trp__verdict_key_begin(verdicts, TRP__KIND_CUTLASS_PROOF, text, s->kernel, out);
    trp__key_add(out, TRP__KEY_INPUT, s, sizeof *s);
    trp__key_add(out, TRP__KEY_INPUT, settings, sizeof *settings);
    trp__key_add(out, TRP__KEY_INPUT, &image, sizeof image);
}
