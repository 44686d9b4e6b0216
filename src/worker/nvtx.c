#include "worker/nvtx.h"

#include "wire/actor_class.h"
#include "worker/nvtx_abi.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Room for each function that a tool may set; only three of them are called. */
enum { PLACES = 16 };

static trp__nvtx_function function[TRP__NVTX_CB_MODULE_SIZE][PLACES];
/* The tool's table: pointers to the places, NULL at index 0 and behind the last. */
static trp__nvtx_function *place[TRP__NVTX_CB_MODULE_SIZE][PLACES + 1];

static const unsigned int table_size[TRP__NVTX_CB_MODULE_SIZE] = {
    [TRP__NVTX_CB_MODULE_CORE] = TRP__NVTX_CBID_CORE_SIZE,
    [TRP__NVTX_CB_MODULE_CUDA] = TRP__NVTX_CBID_CUDA_SIZE,
    [TRP__NVTX_CB_MODULE_OPENCL] = TRP__NVTX_CBID_OPENCL_SIZE,
    [TRP__NVTX_CB_MODULE_CUDART] = TRP__NVTX_CBID_CUDART_SIZE,
    [TRP__NVTX_CB_MODULE_CORE2] = TRP__NVTX_CBID_CORE2_SIZE,
    [TRP__NVTX_CB_MODULE_SYNC] = TRP__NVTX_CBID_SYNC_SIZE,
};

static trp__nvtx_range_push *range_push;
static trp__nvtx_range_pop *range_pop;
static trp__nvtx_domain *domain;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int get_module_function_table(int module, trp__nvtx_function_table *table,
                                     unsigned int *size)
{
    if (module <= 0 || module >= TRP__NVTX_CB_MODULE_SIZE)
        return 0;
    if (size)
        *size = table_size[module];
    if (table)
        *table = place[module];
    return 1;
}

static void set_injection_version(uint32_t version)
{
    (void)version; /* unused; tools expect the function */
}

static const void *get_export_table(uint32_t id)
{
    static const trp__nvtx_callbacks callbacks = {sizeof callbacks, get_module_function_table};
    static const trp__nvtx_version_info info = {sizeof info, TRP__NVTX_VERSION, 0,
                                                set_injection_version};
    switch (id) {
    case TRP__NVTX_ETID_CALLBACKS:
        return &callbacks;
    case TRP__NVTX_ETID_VERSIONINFO:
        return &info;
    default:
        return NULL;
    }
}

static void fill_tables(void)
{
    for (int m = 0; m < TRP__NVTX_CB_MODULE_SIZE; m++) {
        for (unsigned int i = 1; i < table_size[m]; i++)
            place[m][i] = &function[m][i];
    }
}

/* Ignores a tool that can't be loaded, as NVIDIA's headers do: the variable is inherited by
 * programs that know nothing of it. A loaded tool is never unloaded. */
static void load(void)
{
    const char *path = secure_getenv("NVTX_INJECTION64_PATH");
    void *library = path && *path ? dlopen(path, RTLD_LAZY) : NULL;
    if (!library)
        return;
    trp__nvtx_initialize *initialize = NULL;
    *(void **)&initialize = dlsym(library, TRP__NVTX_INITIALIZE);
    fill_tables();
    if (!initialize || initialize(get_export_table) == 0) {
        dlclose(library);
        return;
    }
    const trp__nvtx_function *core2 = function[TRP__NVTX_CB_MODULE_CORE2];
    trp__nvtx_domain_create *create =
        (trp__nvtx_domain_create *)core2[TRP__NVTX_CBID_CORE2_DomainCreateA];
    range_push = (trp__nvtx_range_push *)core2[TRP__NVTX_CBID_CORE2_DomainRangePushEx];
    range_pop = (trp__nvtx_range_pop *)core2[TRP__NVTX_CBID_CORE2_DomainRangePop];
    if (!range_push || !range_pop)
        range_push = NULL; /* the tool wants no ranges */
    else if (create)
        domain = create("troupe");
}

bool trp__nvtx_wanted(void)
{
    pthread_once(&once, load);
    return range_push != NULL;
}

void trp__nvtx_push(const trp__instance *instance, const trp__record *record)
{
    char op[24], text[176];
    trp__op_name(instance->class, record->op, op, sizeof op);
    int n = snprintf(text, sizeof text, "%s %s #%" PRIu64, instance->name, op, record->ticket);
    if (record->labelled)
        snprintf(text + n, sizeof text - (size_t)n, " \"%.*s\"", TRP_LABEL_MAX, record->label);
    const trp__nvtx_event_attributes event = {
        .version = TRP__NVTX_VERSION,
        .size = sizeof event,
        .payload_type = TRP__NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
        .payload.ullValue = record->ticket,
        .message_type = TRP__NVTX_MESSAGE_TYPE_ASCII,
        .message.ascii = text,
    };
    range_push(domain, &event);
}

void trp__nvtx_pop(void)
{
    range_pop(domain);
}
