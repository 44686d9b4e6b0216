/* Times the phases of a process from its start to a convolution by cuDNN. */
#include "raw_dnn.h"

#include "actors/dnn/plans/record.h"
#include "actors/dnn/plans/warm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORD = 1 << 20 }; /* largest record in bytes */

typedef struct process {
    const trp__cuda *cu;
    trp__cu_device device;
    trp__cu_context context; /* retained primary context; NULL: not created */
    raw_dnn lib;
    raw_conv conv;
    char *path;
    bool warm, read;
    char error[320];
    unsigned char record[RECORD];
    double ns[SUITE_PHASES];
} process;

static bool fail(process *p, const char *what, const char *why)
{
    snprintf(p->error, sizeof p->error, "%s: %.200s", what, why);
    return false;
}

/* Does what a worker does before it starts an actor. */
static bool open_context(process *p, int ordinal)
{
    trp_error error = {0};
    if (trp__cuda_load(&p->cu, &error) != TRP_OK)
        return fail(p, "the driver", error.message);
    if (p->cu->cuDeviceGet(&p->device, ordinal) != TRP__CU_SUCCESS ||
        p->cu->cuDevicePrimaryCtxRetain(&p->context, p->device) != TRP__CU_SUCCESS) {
        p->context = NULL;
        return fail(p, "the driver", "there is no context");
    }
    return p->cu->cuCtxSetCurrent(p->context) == TRP__CU_SUCCESS ||
           fail(p, "the driver", "the context can't be used");
}

static bool read_record(process *p)
{
    FILE *file = fopen(p->path, "r");
    p->conv.record_bytes = file ? fread(p->record, 1, RECORD, file) : 0;
    if (file)
        fclose(file);
    p->conv.record = p->record;
    return p->conv.record_bytes > 0 || fail(p, p->path, "there is no record");
}

static bool write_record(process *p)
{
    unsigned char *bytes = NULL;
    size_t size = 0;
    trp_error error = {0};
    if (trp__dnn_record_write(p->conv.plan, &bytes, &size, &error) != TRP_OK)
        return fail(p, "the record", error.message);
    FILE *file = fopen(p->path, "w");
    bool good = file && fwrite(bytes, 1, size, file) == size;
    good = file && fclose(file) == 0 && good;
    free(bytes);
    return good || fail(p, p->path, strerror(errno));
}

static bool load(process *p)
{
    const trp__cudnn *lib;
    trp_error error = {0};
    return trp__cudnn_load(&lib, &error) == TRP_OK || fail(p, "cuDNN", error.message);
}

static bool open_handle(process *p)
{
    return raw_dnn_open(&p->lib, p->error) == TRP_OK;
}

static bool take_properties(process *p)
{
    p->lib.planner.device = trp__cudnn_properties(p->lib.lib, p->lib.handle);
    return true;
}

static bool warm_up(process *p)
{
    static const trp__tuning_site nowhere; /* the cache lookup names this site; there is no cache */
    const atomic_bool wanted = true;
    return !p->warm || trp__dnn_warm_up(&p->lib.planner, &nowhere, NULL, &wanted) ||
           fail(p, "cuDNN", "it plans no small convolution");
}

static bool plan(process *p)
{
    return raw_conv_plan(&p->lib, &p->conv);
}

static bool launch(process *p)
{
    return raw_conv_run(&p->lib, &p->conv, 1);
}

/* Allocates the convolution's memory and reads its record; belongs to no phase. */
static bool prepare(process *p, suite_phase phase)
{
    if (phase == SUITE_PHASE_PLAN)
        return !p->read || read_record(p);
    if (phase == SUITE_PHASE_LAUNCH)
        return raw_conv_begin(&p->lib, &p->conv) && (p->read || write_record(p));
    return true;
}

static bool run(process *p)
{
    static bool (*const steps[SUITE_PHASES])(process * p) = {[SUITE_PHASE_LIBRARY] = load,
                                                             [SUITE_PHASE_HANDLE] = open_handle,
                                                             [SUITE_PHASE_PROPERTIES] =
                                                                 take_properties,
                                                             [SUITE_PHASE_WARM] = warm_up,
                                                             [SUITE_PHASE_PLAN] = plan,
                                                             [SUITE_PHASE_LAUNCH] = launch,
                                                             [SUITE_PHASE_NEXT] = launch};
    for (int i = 0; i < SUITE_PHASES; i++) {
        if (!prepare(p, (suite_phase)i))
            return false;
        int64_t from = stats_now();
        if (!steps[i](p))
            return false;
        p->ns[i] = (double)(stats_now() - from);
    }
    return true;
}

bool suite_first_conv(const char *gpu, const char *path, const char *how)
{
    process *p = calloc(1, sizeof *p);
    if (!p)
        return false;
    p->conv.what = DNN_FIRST_SHAPE;
    p->path = strdup(path);
    p->warm = strncmp(how, "warm-", 5) == 0;
    p->read = strcmp(p->warm ? how + 5 : how, "read") == 0;
    bool good = p->path && open_context(p, (int)strtoul(gpu, NULL, 10)) && run(p);
    for (int i = 0; good && i < SUITE_PHASES; i++)
        printf("%.0f%c", p->ns[i], i + 1 < SUITE_PHASES ? ' ' : '\n');
    if (!good)
        fprintf(stderr, "troupe: bench: the first convolution: %s\n", p->error);
    if (p->lib.lib) {
        raw_conv_end(&p->lib, &p->conv);
        raw_dnn_close(&p->lib);
    }
    if (p->context)
        p->cu->cuDevicePrimaryCtxRelease_v2(p->device);
    free(p->path);
    free(p);
    return good;
}
