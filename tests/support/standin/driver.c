/* Stands in for libcuda.so.1 where there is no GPU, while cuDNN makes plans without a device: cuDNN
 * compiles kernels and asks the driver to load them, to see whether that works, and here it always
 * does. Calls that need a device fail. */
#include <stddef.h>

enum { SUCCESS = 0, NO_DEVICE = 100, NOT_FOUND = 500, NOT_SUPPORTED = 801 };

/* Functions that must exist, and are not called without a device. */
#define UNUSED(name)                                                                               \
    __attribute__((visibility("default"))) int name(void);                                         \
    int name(void)                                                                                 \
    {                                                                                              \
        return NO_DEVICE;                                                                          \
    }
UNUSED(cuCtxGetCurrent)
UNUSED(cuCtxGetLimit)
UNUSED(cuCtxPopCurrent)
UNUSED(cuCtxPushCurrent)
UNUSED(cuStreamGetCtx)
UNUSED(cuLinkCreate)
UNUSED(cuLinkAddData)
UNUSED(cuLinkComplete)
UNUSED(cuLinkDestroy)
UNUSED(cuLaunchKernel)
UNUSED(cuLaunchKernelEx)
UNUSED(cuLaunchCooperativeKernel)
UNUSED(cuDeviceGet)
UNUSED(cuLibraryLoadFromFile)
UNUSED(cuKernelSetAttribute)
UNUSED(cuKernelGetAttribute)
UNUSED(cuOccupancyMaxPotentialClusterSize)

#define API __attribute__((visibility("default")))

API int cuInit(unsigned flags);
API int cuInit(unsigned flags)
{
    (void)flags;
    return NO_DEVICE;
}

API int cuDriverGetVersion(int *version);
API int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return SUCCESS;
}

API int cuDeviceGetCount(int *count);
API int cuDeviceGetCount(int *count)
{
    *count = 0;
    return NO_DEVICE;
}

API int cuGetErrorString(int result, const char **text);
API int cuGetErrorString(int result, const char **text)
{
    (void)result;
    *text = "an error of no driver";
    return SUCCESS;
}

API int cuGetErrorName(int result, const char **name);
API int cuGetErrorName(int result, const char **name)
{
    return cuGetErrorString(result, name);
}

API int cuGetProcAddress_v2(const char *name, void **function, int version,
                            unsigned long long flags, int *found);
API int cuGetProcAddress_v2(const char *name, void **function, int version,
                            unsigned long long flags, int *found)
{
    (void)name;
    (void)version;
    (void)flags;
    *function = NULL;
    if (found)
        *found = 1; /* no such symbol */
    return NOT_FOUND;
}

API int cuGetExportTable(const void **table, const void *id);
API int cuGetExportTable(const void **table, const void *id)
{
    (void)id;
    *table = NULL;
    return NOT_SUPPORTED;
}

/* Images and kernels are never inspected. */

static char something;

API int cuLibraryLoadData(void **library, const void *code, void *options, void **values,
                          unsigned count, void *library_options, void **library_values,
                          unsigned library_count);
API int cuLibraryLoadData(void **library, const void *code, void *options, void **values,
                          unsigned count, void *library_options, void **library_values,
                          unsigned library_count)
{
    (void)code, (void)options, (void)values, (void)count;
    (void)library_options, (void)library_values, (void)library_count;
    *library = &something;
    return SUCCESS;
}

API int cuLibraryGetKernel(void **kernel, void *library, const char *name);
API int cuLibraryGetKernel(void **kernel, void *library, const char *name)
{
    (void)library;
    (void)name;
    *kernel = &something;
    return SUCCESS;
}

API int cuLibraryUnload(void *library);
API int cuLibraryUnload(void *library)
{
    (void)library;
    return SUCCESS;
}
