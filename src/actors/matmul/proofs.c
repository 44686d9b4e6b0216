#include "actors/matmul/proofs.h"

#include "matrix/record.h"
#include "matrix/reference/launch.h"

const trp__own_program trp__matmul_reference_program = {
    .actor = "matmul", .name = "reference", .file = TRP__PRODUCT_FILE};

/* A plan that is judged. */
typedef struct judged {
    trp__matmul_proofs *p;
    const trp__matmul_key *key;
    const trp__matmul_plan *plan;
} judged;

void trp__matmul_proofs_close(trp__matmul_proofs *p, trp_instance *instance)
{
    trp__verdicts_end(&p->proofs.verdicts);
    trp__own_module_unload(&p->reference, p->cu, instance);
}

/* Loads the reference kernel. If neither the cache nor a pack has it, this thread compiles it at
 * once, since a wrong algorithm would be used meanwhile. */
static bool have_reference(trp__matmul_proofs *p)
{
    const trp__verdicts *verdicts = &p->proofs.verdicts;
    trp_error error;
    if (p->reference.kernel || p->proofs.no_reference)
        return p->reference.kernel != NULL;
    const trp_status status = trp__own_module_load(
        &p->reference, p->cu, verdicts->store, verdicts->site->target,
        &trp__matmul_reference_program, TRP__PRODUCT_KERNEL, p->proofs.unwanted, &error);
    return trp__proofs_have_reference(&p->proofs, status, &error);
}

static bool is_ready(void *context)
{
    const judged *j = context;
    trp__matmul_proofs *p = j->p;
    if (!trp__matmul_provable(&j->key->problem))
        return false;
    p->skipped = p->skipped || p->ahead;
    return !p->ahead && have_reference(p);
}

static void prove(void *context, trp__proof_verdict *out)
{
    const judged *j = context;
    trp__matmul_prove(j->p->planner, j->p->cu, j->key, j->plan, j->p->reference.kernel, out);
}

bool trp__matmul_proofs_accept(trp__matmul_proofs *p, const trp__matmul_key *key,
                               const trp__matmul_plan *plan)
{
    char name[TRP__MATMUL_ALGO_NAME], text[256];
    trp__key verdict_key;
    judged j = {p, key, plan};
    trp__matmul_algo_name(p->planner, plan, name);
    trp__matmul_problem_text(&key->problem, text, sizeof text);
    trp__matmul_verdict_key(&p->proofs.verdicts, p->planner, key, plan, &verdict_key);
    const trp__proof_subject subject = {.key = &verdict_key,
                                        .plan = name,
                                        .problem = text,
                                        .is_ready = is_ready,
                                        .prove = prove,
                                        .context = &j};
    const bool accepted = trp__proofs_accept(&p->proofs, &subject);
    trp__key_end(&verdict_key);
    return accepted;
}

bool trp__matmul_proofs_can_run(const trp__matmul_proofs *p, const trp__matmul_key *key)
{
    return p->reference.kernel && trp__product_takes(&key->problem);
}
