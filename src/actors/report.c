/* The worker's report for `troupe doctor`: the libraries that it finds. */
#include "wire/entry.h"

#include "actors/cutlass/plan/headers.h"
#include "actors/dnn/host/onednn/onednn.h"
#include "driver/cuda.h"
#include "driver/device_memory.h"
#include "libs/cublas/cublas.h"
#include "libs/cublaslt/cublaslt.h"
#include "libs/cudnn/cudnn.h"
#include "libs/cufft/cufft.h"
#include "libs/nvjitlink/nvjitlink.h"
#include "libs/nvrtc/nvrtc.h"
#include "libs/openblas/openblas.h"

#include <stdio.h>

static trp_status report_driver(char *version, size_t version_size, const char **path,
                                trp_error *error)
{
    const trp__cuda *cu;
    int number = 0;
    trp_status status = trp__cuda_load(&cu, error);
    if (status != TRP_OK)
        return status;
    cu->cuDriverGetVersion(&number);
    snprintf(version, version_size, "CUDA %d.%d", number / 1000, number % 1000 / 10);
    *path = trp__cuda_path();
    return TRP_OK;
}

/* The report of one library, whose load, version and path functions are named alike. */
#define DEFINE_REPORT(name)                                                                        \
    static trp_status report_##name(char *version, size_t version_size, const char **path,         \
                                    trp_error *error)                                              \
    {                                                                                              \
        const trp__##name *library;                                                                \
        trp_status status = trp__##name##_load(&library, error);                                   \
        if (status != TRP_OK)                                                                      \
            return status;                                                                         \
        trp__##name##_version(library, version, version_size);                                     \
        *path = trp__##name##_path();                                                              \
        return TRP_OK;                                                                             \
    }
DEFINE_REPORT(cublas)
DEFINE_REPORT(cublaslt)
DEFINE_REPORT(cudnn)
DEFINE_REPORT(cufft)
DEFINE_REPORT(nvrtc)
DEFINE_REPORT(nvjitlink)
DEFINE_REPORT(openblas)
DEFINE_REPORT(onednn)
#undef DEFINE_REPORT

/* Reports the headers that kernels are compiled with. */
static trp_status report_cutlass(char *version, size_t version_size, const char **path,
                                 trp_error *error)
{
    const char *const *folders;
    uint32_t count;
    trp_status status = trp__cutlass_folders(&folders, &count, error);
    if (status != TRP_OK)
        return status;
    snprintf(version, version_size, "headers");
    *path = folders[TRP__CUTLASS_FOLDER_CUTLASS];
    return TRP_OK;
}

static const struct {
    const char *key;
    trp_status (*report)(char *version, size_t version_size, const char **path, trp_error *error);
} libraries[] = {
    {"cuda", report_driver},         {"cublas", report_cublas},     {"cublaslt", report_cublaslt},
    {"cudnn", report_cudnn},         {"cufft", report_cufft},       {"nvrtc", report_nvrtc},
    {"nvjitlink", report_nvjitlink}, {"openblas", report_openblas}, {"onednn", report_onednn},
    {"cutlass", report_cutlass},
};

/* Replaces tabs and newlines in the last field. */
static void print_line(const char *key, const char *state, const char *version, const char *text)
{
    printf("%s\t%s\t%s\t", key, state, version);
    for (; *text; text++)
        putchar(*text == '\t' || *text == '\n' ? ' ' : *text);
    putchar('\n');
}

/* Reports each GPU, with its compute capability as the version. */
static void report_gpus(void)
{
    uint32_t count = 0;
    if (trp__cuda_device_count(&count, NULL) != TRP_OK)
        return;
    for (uint32_t i = 0; i < count; i++) {
        trp__cuda_device_info info;
        trp_error error = {0};
        char key[16];
        char version[24] = "";
        trp_status status = trp__cuda_device_describe(i, &info, &error);
        if (status == TRP_OK) {
            snprintf(version, sizeof version, "sm_%u%u", info.compute_major, info.compute_minor);
            status = trp__cuda_device_check(i, &error);
        }
        snprintf(key, sizeof key, "gpu%u", i);
        print_line(key, status == TRP_OK ? "ok" : "error", version,
                   status == TRP_OK ? info.name : error.message);
    }
}

int trp__worker_report(void)
{
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        char version[64] = "";
        const char *path = "";
        trp_error error = {0};
        trp_status status = libraries[i].report(version, sizeof version, &path, &error);
        print_line(libraries[i].key,
                   status == TRP_OK          ? "ok"
                   : status == TRP_E_MISSING ? "missing"
                                             : "error",
                   version, status == TRP_OK ? path : error.message);
        if (i == 0)
            report_gpus();
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
