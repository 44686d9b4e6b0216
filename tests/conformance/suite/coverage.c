/* Prints, as a Markdown table, the operations of each backend and the reasons of exclusions.def.
 * See conformance.h. SPDX-License-Identifier: Apache-2.0 */
#include "conformance/conformance.h"

typedef struct exclusion {
    const char *actor, *operation, *variant;
    trp_backend backend;
    const char *words, *reason;
} exclusion;

static const exclusion exclusions[] = {
#define EXCLUSION(actor, operation, variant, backend, words, reason)                               \
    {actor, operation, variant, backend, words, reason},
#include "conformance/exclusions.def"
#undef EXCLUSION
    {NULL, NULL, NULL, TRP_BACKEND_HOST, NULL, NULL},
};

static const exclusion *find(const cf_actor *actor, const cf_operation *operation, unsigned variant,
                             trp_backend backend)
{
    const char *name = operation->variants[variant].name;
    for (const exclusion *x = exclusions; x->actor; x++) {
        if (strcmp(x->actor, actor->kind) == 0 && strcmp(x->operation, operation->name) == 0 &&
            (!x->variant || strcmp(x->variant, name) == 0) && x->backend == backend)
            return x;
    }
    return NULL;
}

const char *cf_excluded(const cf_actor *actor, const cf_operation *operation, unsigned variant,
                        trp_backend backend, const char **words)
{
    const exclusion *x = find(actor, operation, variant, backend);
    *words = x ? x->words : NULL;
    return x ? x->reason : NULL;
}

static void print_cell(const cf_actor *actor, const cf_operation *o, trp_backend backend)
{
    unsigned count = 0;
    for (unsigned v = 0; v < o->variant_count; v++)
        count += find(actor, o, v, backend) == NULL;
    if (count == o->variant_count) {
        printf(" all |");
        return;
    }
    const char *reason = NULL;
    printf(" all without");
    for (unsigned v = 0; v < o->variant_count; v++) {
        const exclusion *x = find(actor, o, v, backend);
        if (!x)
            continue;
        if (reason && strcmp(reason, x->reason) != 0)
            printf(" (%s);", reason);
        else if (reason)
            printf(",");
        printf(" %s", o->variants[v].name);
        reason = x->reason;
    }
    printf(" (%s)", reason);
    printf(" |");
}

void cf_print_table(const cf_actor *actor)
{
    printf("## %s\n\n| operation | variants | host | cuda | if its worker dies |\n"
           "| --- | --- | --- | --- | --- |\n",
           actor->title ? actor->title : actor->kind);
    for (size_t i = 0; i < actor->count; i++) {
        const cf_operation *o = &actor->operations[i];
        printf("| %s |", o->name);
        for (unsigned v = 0; v < o->variant_count; v++)
            printf("%s %s", v > 0 ? "," : "", o->variants[v].name);
        printf(" |");
        print_cell(actor, o, TRP_BACKEND_HOST);
        print_cell(actor, o, TRP_BACKEND_CUDA);
        printf(" runs again%s |\n", o->runs_again ? "" : ", or ends with a fault");
    }
}
