#include "actors/dnn/engines/product_cublaslt.h"

#include "base/bytes.h"
#include "base/error.h"
#include "matrix/tune.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* An engine for a product. */
typedef struct trp__dnn_product_plan {
    const trp__matmul_planner *planner; /* NULL: an own kernel computes it */
    trp__dnn_product product;
    union {
        trp__matmul_plan plan;
        trp__dnn_multiply own;
    };
} product_plan;

static trp_status open_library(const trp__dnn_planner *planner, trp_error *error)
{
    trp__matmul_planner *own = planner->products ? &planner->products->planner : NULL;
    const trp__cublaslt *lt;
    if (!own)
        return trp__error_set(error, TRP_E_MISSING, "cuBLASLt is not used here");
    if (own->handle)
        return TRP_OK;
    trp_status status = trp__cublaslt_load(&lt, error);
    if (status != TRP_OK)
        return status;
    status = trp__cublaslt_check(lt, lt->cublasLtCreate(&own->handle), "cublasLtCreate", error);
    if (status != TRP_OK) { /* treated as missing if the driver is too old or memory is short */
        own->handle = NULL;
        error->status = TRP_E_MISSING;
        return TRP_E_MISSING;
    }
    own->lt = lt;
    return TRP_OK;
}

void trp__dnn_products_close(trp__dnn_products *products)
{
    if (products->planner.handle)
        products->planner.lt->cublasLtDestroy(products->planner.handle);
    *products = (trp__dnn_products){0};
}

static trp__matmul_key key_of(const trp__dnn_product *product, bool deterministic)
{
    void *at[TRP__MATMUL_OPERANDS] = {0};
    trp__matmul_key key;
    for (int i = 0; i < TRP__MATMUL_OPERANDS; i++) { /* addresses with this alignment */
        if (product->tensor[i] != TRP__DNN_NO_PORT)
            at[i] = (void *)((uintptr_t)1 << product->alignment[i]);
    }
    key = trp__matmul_key_of(&product->problem, at);
    key.deterministic = deterministic;
    return key;
}

/* Creates a plan with the heuristic's first algorithm. */
static trp_status make_plan(const trp__matmul_planner *planner, const trp__dnn_product *product,
                            const trp__matmul_key *key, product_plan **out, trp_error *error)
{
    void *at[TRP__MATMUL_OPERANDS];
    product_plan *made = calloc(1, sizeof *made);
    *out = NULL;
    if (!made)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for the plan of a product");
    for (int i = 0; i < TRP__MATMUL_OPERANDS; i++)
        at[i] = (void *)((uintptr_t)1 << product->alignment[i]);
    made->planner = planner;
    made->product = *product;
    trp_status status = trp__matmul_plan_try(planner, key, at, &made->plan, error);
    if (status != TRP_OK) {
        free(made);
        return status == TRP_E_LIBRARY && error->code == TRP__CUBLAS_INVALID_VALUE
                   ? TRP_E_UNSUPPORTED
                   : status;
    }
    *out = made;
    return TRP_OK;
}

static void fill_engine(product_plan *plan, trp__dnn_engine *out)
{
    *out = (trp__dnn_engine){.product = plan, .workspace = plan->plan.workspace};
    trp__cublaslt_algo_name(plan->planner->lt, &plan->plan.algo, out->name, sizeof out->name);
}

void trp__dnn_product_drop(trp__dnn_engine *engine)
{
    if (engine->product && engine->product->planner)
        trp__matmul_plan_drop(engine->product->planner->lt, &engine->product->plan);
    free(engine->product);
    engine->product = NULL;
}

/* Adds the other proposals of the heuristic, each with separate descriptors. */
static trp_status add_others(const trp__dnn_product *product, const trp__matmul_key *key,
                             uint32_t room, trp__dnn_engine out[], uint32_t *count,
                             trp_error *error)
{
    const product_plan *first = out[0].product;
    trp__cublaslt_result *proposed = calloc(room, sizeof *proposed);
    trp_status status = TRP_OK;
    if (!proposed)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for %" PRIu32 " algorithms", room);
    int found = trp__matmul_plan_candidates(first->planner, key, &first->plan, proposed, (int)room);
    for (int i = 0; i < found && *count < room && status == TRP_OK; i++) {
        product_plan *plan;
        if (memcmp(&proposed[i].algo, &first->plan.algo, sizeof first->plan.algo) == 0)
            continue;
        status = make_plan(first->planner, product, key, &plan, error);
        if (status != TRP_OK || !plan)
            break;
        plan->plan.algo = proposed[i].algo;
        plan->plan.workspace = proposed[i].workspace_bytes;
        fill_engine(plan, &out[(*count)++]);
    }
    free(proposed);
    return status;
}

trp_status trp__dnn_product_engines(const trp__dnn_planner *planner, const trp__dnn_head *head,
                                    const trp__dnn_product *product, uint32_t room,
                                    trp__dnn_engine out[], uint32_t *count, trp_error *error)
{
    product_plan *plan;
    trp_status status = open_library(planner, error);
    *count = 0;
    if (status != TRP_OK)
        return status;
    trp__matmul_key key = key_of(product, head->deterministic);
    status = make_plan(&planner->products->planner, product, &key, &plan, error);
    if (status != TRP_OK || !plan)
        return status;
    fill_engine(plan, &out[(*count)++]);
    return room > 1 ? add_others(product, &key, room, out, count, error) : TRP_OK;
}

uint32_t trp__dnn_product_own_engine(const trp__dnn_planner *planner,
                                     const trp__dnn_product *product, trp__dnn_engine *out)
{
    product_plan *made = calloc(1, sizeof *made);
    uint64_t workspace = 0;
    if (!made || !trp__dnn_multiply_takes(&product->problem) ||
        !trp__dnn_multiply_plan(planner->modules, product, &made->own, &workspace)) {
        free(made);
        return 0;
    }
    made->product = *product;
    *out =
        (trp__dnn_engine){.product = made, .workspace = workspace, .name = TRP__DNN_MULTIPLY_NAME};
    return 1;
}

bool trp__dnn_product_is_own(const trp__dnn_engine *engine)
{
    return engine->product && !engine->product->planner;
}

bool trp__dnn_product_has_own(const trp__dnn_engine *engine)
{
    return engine->product && trp__dnn_multiply_takes(&engine->product->product.problem);
}

/* A record has the library's version and the algorithm; zeros for an own kernel. */

enum { ALGO_WORDS = sizeof((trp__cublaslt_algo *)0)->data / sizeof(uint64_t) };

_Static_assert(TRP__DNN_PRODUCT_BYTES == 8 + 8 * ALGO_WORDS, "as documented");

void trp__dnn_product_write(const trp__dnn_engine *engine,
                            unsigned char out[TRP__DNN_PRODUCT_BYTES])
{
    const product_plan *plan = engine->product;
    if (!plan->planner) {
        memset(out, 0, TRP__DNN_PRODUCT_BYTES);
        return;
    }
    trp__put64(out, plan->planner->lt->cublasLtGetVersion());
    for (int i = 0; i < ALGO_WORDS; i++)
        trp__put64(out + 8 + 8 * i, plan->plan.algo.data[i]);
}

trp_status trp__dnn_product_read(const trp__dnn_planner *planner, const trp__dnn_part *part,
                                 const void *bytes, size_t size, trp__dnn_engine *out,
                                 trp_error *error)
{
    const unsigned char *b = bytes;
    const trp__dnn_head *head = part->graph->head;
    trp__dnn_product product;
    trp__matmul_record record = {0};
    product_plan *plan;
    if (size == TRP__DNN_PRODUCT_BYTES && trp__get64(b) == 0 &&
        trp__dnn_product_of(part->graph, part->first, part->count, &product) &&
        trp__dnn_product_own_engine(planner, &product, out) == 1)
        return TRP_OK;
    trp_status status = open_library(planner, error);
    if (status != TRP_OK)
        return status;
    const trp__matmul_planner *own = &planner->products->planner;
    if (size != TRP__DNN_PRODUCT_BYTES || trp__get64(b) != own->lt->cublasLtGetVersion() ||
        !trp__dnn_product_of(part->graph, part->first, part->count, &product))
        return trp__error_set(error, TRP_E_MISSING, "an algorithm for something else");
    for (int i = 0; i < ALGO_WORDS; i++)
        record.algo.data[i] = trp__get64(b + 8 + 8 * i);
    trp__matmul_key key = key_of(&product, head->deterministic);
    status = make_plan(own, &product, &key, &plan, error);
    if (status != TRP_OK || !plan)
        return status;
    bool good = trp__matmul_use_record(own, &key, &record, &plan->plan);
    fill_engine(plan, out);
    if (good)
        return TRP_OK;
    trp__dnn_product_drop(out);
    return trp__error_set(error, TRP_E_MISSING, "an algorithm that cuBLASLt does not take");
}

static trp_status launch_one(product_plan *plan, const trp__kernel_launch *launch,
                             void *const operand[TRP__MATMUL_OPERANDS], trp_error *error)
{
    if (!plan->planner)
        return trp__dnn_multiply_launch(&plan->own, launch, operand, error);
    return trp__matmul_plan_launch(plan->planner, &plan->plan, &plan->product.problem, operand,
                                   plan->plan.workspace ? launch->workspace : NULL,
                                   plan->plan.workspace, trp__kernel_stream(launch), error);
}

trp_status trp__dnn_product_launch(const trp__dnn_engine *engine, const trp__kernel_launch *launch,
                                   trp_error *error)
{
    product_plan *plan = engine->product;
    const trp__dnn_product *product = &plan->product;
    trp_status status = TRP_OK;
    for (int64_t i = 0; i < product->times && status == TRP_OK; i++) {
        void *operand[TRP__MATMUL_OPERANDS] = {0};
        uint64_t offset[TRP__MATMUL_MATRICES];
        trp__dnn_product_offsets(product, i, offset);
        for (int k = 0; k < TRP__MATMUL_OPERANDS; k++) {
            if (product->tensor[k] != TRP__DNN_NO_PORT)
                operand[k] = (char *)launch->at[product->tensor[k]] +
                             (k < TRP__MATMUL_MATRICES ? offset[k] : 0);
        }
        status = launch_one(plan, launch, operand, error);
    }
    return status;
}
