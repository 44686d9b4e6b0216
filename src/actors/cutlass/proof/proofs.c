#include "actors/cutlass/proof/proofs.h"

#include "actors/cutlass/reference/launch.h"
#include "base/error.h"
#include "worker/actor.h"

#include <string.h>

/* Life. */

trp_status trp__cutlass_proofs_open(trp__cutlass_proofs *p, trp__jit_loader *loader,
                                    trp_error *error)
{
    trp_instance *instance = loader->instance;
    p->loader = loader;
    trp_status status = trp__tuning_site_of(&p->site, instance->ordinal, error);
    if (status != TRP_OK)
        return status;
    trp__cutlass_name_library(&p->site);
    p->builder.makes = &p->makes;
    p->proofs = (trp__proofs){.verdicts = {.store = trp__store_of_process(), .site = &p->site},
                              .name = instance->name,
                              .owner = trp__instance_owner(instance),
                              .unwanted = &p->unwanted,
                              .off = trp__instance_proof_off(instance)};
    return trp__lru_create(sizeof(trp__cutlass_judged_key), sizeof(trp__cutlass_judgement),
                           TRP__CUTLASS_JUDGEMENTS, NULL, NULL, &p->judged, error);
}

void trp__cutlass_proofs_close(trp__cutlass_proofs *p)
{
    if (!p->loader)
        return;
    trp__verdicts_end(&p->proofs.verdicts);
    trp__cutlass_builder_close(&p->builder);
    trp__own_module_unload(&p->reference, p->loader->cu, p->loader->instance);
    trp__lru_destroy(p->judged);
    memset(p, 0, sizeof *p);
}

/* In the side thread. */

/* Has the reference compiled where neither the cache nor a pack has it. */
static bool have_reference(trp__cutlass_proofs *p)
{
    trp_error error;
    if (p->reference.kernel || p->proofs.no_reference)
        return p->reference.kernel != NULL;
    const trp_status status = trp__own_module_load(
        &p->reference, p->loader->cu, p->proofs.verdicts.store, p->site.target,
        &trp__cutlass_reference_program, TRP__CUTLASS_REFERENCE_KERNEL, &p->unwanted, &error);
    return trp__proofs_have_reference(&p->proofs, status, &error);
}

static bool have_builder(trp__cutlass_proofs *p)
{
    trp_error ignored;
    bool *const makes = p->builder.makes;
    if (p->builder.cu)
        return true;
    if (trp__cutlass_builder_open(&p->builder, p->loader->instance, p->loader->cu, &ignored) ==
        TRP_OK)
        return true;
    trp__cutlass_builder_close(&p->builder);
    p->builder.makes = makes;
    return false;
}

static bool is_ready(void *context)
{
    trp__cutlass_proofs *p = context;
    return trp__cutlass_provable(&p->trial) && have_reference(p) && have_builder(p);
}

static void prove(void *context, trp__proof_verdict *out)
{
    trp__cutlass_proofs *p = context;
    trp__cutlass_prove(&p->trial, &p->builder, p->reference.kernel, out);
}

/* The verdict; of what is rejected the reference is there, too. */
static void judge(void *context)
{
    trp__cutlass_proofs *p = context;
    char text[256];
    trp__key key;
    trp__cutlass_subject_text(&p->trial.subject, text, sizeof text);
    trp__cutlass_verdict_key(&p->proofs.verdicts, &p->trial.subject, &p->key.settings, p->image,
                             &key);
    const trp__proof_subject subject = {.key = &key,
                                        .plan = p->trial.subject.kernel,
                                        .problem = text,
                                        .is_ready = is_ready,
                                        .prove = prove,
                                        .context = p};
    p->proofs.unproven = p->proofs.cancelled = false;
    const bool accepted = trp__proofs_accept(&p->proofs, &subject);
    trp__key_end(&key);
    p->status = TRP_OK;
    p->judgement = p->proofs.cancelled              ? TRP__CUTLASS_NOT_JUDGED
                   : accepted && p->proofs.unproven ? TRP__CUTLASS_UNPROVEN
                   : accepted                       ? TRP__CUTLASS_PROVEN
                                                    : TRP__CUTLASS_REJECTED;
    if (p->proofs.broken) { /* the worker ends */
        trp_instance *instance = p->loader->instance;
        instance->services->cuda_fail(instance, trp__proofs_cuda_result(&p->proofs), "a proof",
                                      &p->error);
        p->judgement = TRP__CUTLASS_NOT_JUDGED;
    } else if (p->judgement == TRP__CUTLASS_REJECTED && !have_reference(p)) {
        p->judgement = TRP__CUTLASS_NOT_JUDGED;
        if (!p->proofs.cancelled)
            p->status = trp__error_set(&p->error, TRP_E_UNSUPPORTED,
                                       "the kernel %.60s is known to be wrong for this problem, "
                                       "and there is no kernel in its place",
                                       p->trial.subject.kernel);
    }
}

/* In the scheduler's. */

static trp__cutlass_judged_key key_of(const trp__jit_loaded *module,
                                      const trp__cutlass_subject *subject,
                                      const trp_cutlass_args *args)
{
    trp__cutlass_judged_key key;
    memset(&key, 0, sizeof key);
    key.subject = *subject;
    key.settings = (trp__cutlass_settings){args->swizzle, args->raster, args->splits,
                                           args->stream_k, args->reduction};
    key.slot = module->slot;
    key.generation = module->generation;
    return key;
}

static bool is_same(const trp__cutlass_judged_key *x, const trp__cutlass_judged_key *y)
{
    return memcmp((const char *)x, (const char *)y, sizeof *x) == 0;
}

/* Takes the side thread's verdict, for this request or another one. */
static trp_status take_judgement(trp__cutlass_proofs *p, bool ours, trp_error *error)
{
    p->proving = false;
    if (p->judgement != TRP__CUTLASS_NOT_JUDGED)
        *(trp__cutlass_judgement *)trp__lru_add(p->judged, &p->key) = p->judgement;
    if (p->status == TRP_OK || !ours)
        return TRP_OK;
    *error = p->error;
    return p->status;
}

trp_status trp__cutlass_judge(trp__cutlass_proofs *p, const trp__jit_loaded *module,
                              const trp__cutlass_subject *subject,
                              const trp__cutlass_problem_key *key, uint64_t workspace,
                              trp__cutlass_judgement *out, trp_error *error)
{
    const trp__cutlass_judged_key wanted = key_of(module, subject, &key->args);
    const bool ours = p->proving && is_same(&wanted, &p->key);
    const trp__cutlass_judgement *found = trp__lru_find(p->judged, &wanted);
    if (!found && trp__side_busy(p->loader->side)) {
        if (p->proving && !ours) /* the request that it was for is gone */
            atomic_store(&p->unwanted, true);
        return TRP_AGAIN;
    }
    if (!found && p->proving) {
        trp_status status = take_judgement(p, ours, error);
        if (status != TRP_OK)
            return status;
        found = trp__lru_find(p->judged, &wanted);
    }
    if (found) {
        *out = *found;
        return TRP_OK;
    }
    p->key = wanted;
    p->trial = (trp__cutlass_trial){
        .subject = *subject, .key = *key, .properties = module->extra, .workspace = workspace};
    p->image = module->image_sum;
    p->proving = true;
    atomic_store(&p->unwanted, false);
    trp__side_run(p->loader->side, judge, p);
    return TRP_AGAIN;
}

trp_status trp__cutlass_run_reference(const trp__cutlass_proofs *p,
                                      const trp__cutlass_subject *subject,
                                      const trp_cutlass_args *args, uint64_t table,
                                      trp_error *error)
{
    trp__tree tree;
    trp__cutlass_reference r;
    if (!trp__cutlass_reference_set(subject, args, (const void *)(uintptr_t)table, &tree, &r))
        return trp__error_set(error, TRP_E_INTERNAL, "an epilogue tree that no sender made");
    const trp_status status = trp__cutlass_reference_all(p->loader->cu, p->reference.kernel, &r,
                                                         p->loader->instance->stream, error);
    return status == TRP_OK ? TRP_OK
                            : trp_cuda_check(p->loader->instance, error->code,
                                             "a launch of the reference kernel", error);
}
