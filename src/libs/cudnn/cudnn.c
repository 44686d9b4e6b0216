#include "libs/cudnn/cudnn.h"

#include "base/error.h"
#include "base/text.h"

#include <string.h>

/* All versions of CUDA share a soname: the installed library is built for one of them. */
TRP__TOOLKIT_DEFINE(trp__cudnn,
                    TRP__CUDNN_FUNCTIONS(TRP__TOOLKIT_SYMBOL)
                        TRP__CUDNN_RNN_FUNCTIONS(TRP__TOOLKIT_SYMBOL),
                    .name = "cudnn", .env = "TROUPE_CUDNN", .soname_12 = "libcudnn.so.9",
                    .package_hint = "install cuDNN 9 (apt, or pip install nvidia-cudnn-cu13)")

bool trp__cudnn_find(char path[TRP__DYNLIB_PATH_SIZE])
{
    return trp__toolkit_find(&library, path);
}

trp_status trp__cudnn_failed(const trp__cudnn *lib, trp__cudnn_status result, const char *call,
                             trp_error *error)
{
    char said[256] = "";
    bool unsupported = result / 1000 == TRP__CUDNN_STATUS_NOT_SUPPORTED / 1000;
    trp_status status = unsupported ? TRP_E_UNSUPPORTED
                        : result == TRP__CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                                result == TRP__CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
                            ? TRP_E_MEMORY
                            : TRP_E_LIBRARY;
    lib->cudnnGetLastErrorString(said, sizeof said);
    said[sizeof said - 1] = '\0';
    trp__text_clean(said);
    return trp__error_set_code(error, status, "cudnn", result, "%s (%d)%s%s, in %s",
                               lib->cudnnGetErrorString(result), result, said[0] ? ": " : "", said,
                               call);
}

void trp__cudnn_version(const trp__cudnn *lib, char *out, size_t size)
{
    trp__toolkit_version(lib->cudnnGetProperty, out, size);
}

trp__cudnn_builder trp__cudnn_begin(const trp__cudnn *lib, trp__cudnn_descriptor_type type,
                                    trp_error *error)
{
    trp__cudnn_builder builder = {.lib = lib, .error = error};
    builder.status =
        trp__cudnn_check(lib, lib->cudnnBackendCreateDescriptor(type, &builder.descriptor),
                         "cudnnBackendCreateDescriptor", error);
    if (builder.status != TRP_OK)
        builder.descriptor = NULL;
    return builder;
}

void trp__cudnn_set(trp__cudnn_builder *builder, trp__cudnn_attribute name,
                    trp__cudnn_attribute_type type, int64_t count, const void *values)
{
    if (builder->status == TRP_OK)
        builder->status = trp__cudnn_check(
            builder->lib,
            builder->lib->cudnnBackendSetAttribute(builder->descriptor, name, type, count, values),
            "cudnnBackendSetAttribute", builder->error);
}

void trp__cudnn_set_enum(trp__cudnn_builder *builder, trp__cudnn_attribute name,
                         trp__cudnn_attribute_type type, int value)
{
    trp__cudnn_set(builder, name, type, 1, &value);
}

void trp__cudnn_set_int(trp__cudnn_builder *builder, trp__cudnn_attribute name, int64_t value)
{
    trp__cudnn_set(builder, name, TRP__CUDNN_TYPE_INT64, 1, &value);
}

void trp__cudnn_set_flag(trp__cudnn_builder *builder, trp__cudnn_attribute name, bool value)
{
    trp__cudnn_set(builder, name, TRP__CUDNN_TYPE_BOOLEAN, 1, &value);
}

void trp__cudnn_set_real(trp__cudnn_builder *builder, trp__cudnn_attribute name, bool is_double,
                         double value)
{
    float single = (float)value;
    trp__cudnn_set(builder, name, is_double ? TRP__CUDNN_TYPE_DOUBLE : TRP__CUDNN_TYPE_FLOAT, 1,
                   is_double ? (const void *)&value : &single);
}

void trp__cudnn_set_descriptor(trp__cudnn_builder *builder, trp__cudnn_attribute name,
                               trp__cudnn_descriptor value)
{
    trp__cudnn_set(builder, name, TRP__CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

trp_status trp__cudnn_finish(trp__cudnn_builder *builder, trp__cudnn_descriptor *out)
{
    if (builder->status == TRP_OK)
        builder->status =
            trp__cudnn_check(builder->lib, builder->lib->cudnnBackendFinalize(builder->descriptor),
                             "cudnnBackendFinalize", builder->error);
    if (builder->status != TRP_OK)
        trp__cudnn_drop(builder->lib, &builder->descriptor);
    *out = builder->descriptor;
    return builder->status;
}

trp__cudnn_descriptor trp__cudnn_properties(const trp__cudnn *lib, trp__cudnn_handle handle)
{
    trp__cudnn_descriptor device = NULL;
    trp_error ignored;
    if (lib->cudnnGetVersion() < TRP__CUDNN_VERSION_DEVICEPROP)
        return NULL;
    trp__cudnn_builder m =
        trp__cudnn_begin(lib, TRP__CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &ignored);
    trp__cudnn_set(&m, TRP__CUDNN_ATTR_DEVICEPROP_HANDLE, TRP__CUDNN_TYPE_HANDLE, 1, &handle);
    (void)trp__cudnn_finish(&m, &device);
    return device;
}

void trp__cudnn_drop(const trp__cudnn *lib, trp__cudnn_descriptor *descriptor)
{
    if (*descriptor)
        lib->cudnnBackendDestroyDescriptor(*descriptor);
    *descriptor = NULL;
}
