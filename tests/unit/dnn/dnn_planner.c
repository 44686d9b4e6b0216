#include "dnn_planner.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static const char h200[] =
    "{\"cudaDeviceId\":0,\"deviceVer\":900,\"driverVer\":13000,"
    "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
    "\"regsPerBlock\":65536,\"multiProcessorCount\":132,\"warpSize\":32,"
    "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,"
    "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,"
    "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,"
    "\"supportCoopLaunch\":1,\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000,"
    "\"l2CacheSize\":62914560,\"totalGlobalMem\":150000000000,\"deviceName\":\"NVIDIA H200\"}";

static void skip(const char *why)
{
    printf("%s: skipped\n", why);
    exit(77);
}

/* cuDNN finds the stand-in for the driver by its name, for it is loaded already. */
void dnn_planner_open(trp__dnn_planner *planner)
{
    const char *driver = getenv("TROUPE_STANDIN_DRIVER");
    trp_error error;
    *planner = (trp__dnn_planner){0};
    if (!driver || !dlopen(driver, RTLD_NOW | RTLD_LOCAL))
        skip("no stand-in for the driver");
    if (trp__cudnn_load(&planner->lib, &error) != TRP_OK)
        skip(error.message);
    if (planner->lib->cudnnGetVersion() < TRP__CUDNN_VERSION_DEVICEPROP)
        skip("a cuDNN that can't plan without a device");
    trp__cudnn_builder m =
        trp__cudnn_begin(planner->lib, TRP__CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &error);
    trp__cudnn_set(&m, TRP__CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, TRP__CUDNN_TYPE_CHAR,
                   sizeof h200 - 1, h200);
    if (trp__cudnn_finish(&m, &planner->device) != TRP_OK)
        skip(error.message);
}

void dnn_planner_close(trp__dnn_planner *planner)
{
    trp__cudnn_drop(planner->lib, &planner->device);
}
