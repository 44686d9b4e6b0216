/* cuDNN, opened at run time: its backend API, and its functions for recurrent networks. */
#ifndef TRP_LIBS_CUDNN_H
#define TRP_LIBS_CUDNN_H

#include "driver/toolkit.h"
#include "libs/cudnn/cudnn_abi.h"

#include <troupe/status.h>

#include <stddef.h>

/* The loaded functions, called by their exported names. */
typedef struct trp__cudnn {
    TRP__CUDNN_FUNCTIONS(TRP__TOOLKIT_MEMBER)
    TRP__CUDNN_RNN_FUNCTIONS(TRP__TOOLKIT_MEMBER)
} trp__cudnn;

TRP__TOOLKIT_DECLARE(trp__cudnn);

/* Finds the file that would be opened, in a process that has not opened it. */
bool trp__cudnn_find(char path[TRP__DYNLIB_PATH_SIZE]);

/* Returns TRP_OK, or translates the failure of `call`, with the library's last message in this
 * thread. A broken context may show as any status; the scheduler asks the backend's health() after
 * each error. */
trp_status trp__cudnn_failed(const trp__cudnn *lib, trp__cudnn_status result, const char *call,
                             trp_error *error);
static inline trp_status trp__cudnn_check(const trp__cudnn *lib, trp__cudnn_status result,
                                          const char *call, trp_error *error)
{
    return __builtin_expect(result == TRP__CUDNN_STATUS_SUCCESS, 1)
               ? TRP_OK
               : trp__cudnn_failed(lib, result, call, error);
}

/* Returns whether a code means a failure during execution, not that the library lacks a feature. */
static inline bool trp__cudnn_broke(trp__cudnn_status result)
{
    return result / 1000 == TRP__CUDNN_STATUS_EXECUTION_FAILED / 1000;
}

/* Writes the version: "9.19.0". */
void trp__cudnn_version(const trp__cudnn *lib, char *out, size_t size);

/* A descriptor under construction. The first error stays: later calls do nothing, and
 * trp__cudnn_finish() returns it, so that no step needs a check. */
typedef struct trp__cudnn_builder {
    const trp__cudnn *lib;
    trp__cudnn_descriptor descriptor;
    trp_status status;
    trp_error *error;
} trp__cudnn_builder;

trp__cudnn_builder trp__cudnn_begin(const trp__cudnn *lib, trp__cudnn_descriptor_type type,
                                    trp_error *error);
void trp__cudnn_set(trp__cudnn_builder *builder, trp__cudnn_attribute name,
                    trp__cudnn_attribute_type type, int64_t count, const void *values);
/* Set one value: an enumerator, an int64_t, a flag, a real number (as double or float), or a
 * descriptor. */
void trp__cudnn_set_enum(trp__cudnn_builder *builder, trp__cudnn_attribute name,
                         trp__cudnn_attribute_type type, int value);
void trp__cudnn_set_int(trp__cudnn_builder *builder, trp__cudnn_attribute name, int64_t value);
void trp__cudnn_set_flag(trp__cudnn_builder *builder, trp__cudnn_attribute name, bool value);
void trp__cudnn_set_real(trp__cudnn_builder *builder, trp__cudnn_attribute name, bool is_double,
                         double value);
void trp__cudnn_set_descriptor(trp__cudnn_builder *builder, trp__cudnn_attribute name,
                               trp__cudnn_descriptor value);
/* Finalises the descriptor. On an error it is destroyed, and *out is NULL. */
trp_status trp__cudnn_finish(trp__cudnn_builder *builder, trp__cudnn_descriptor *out);

/* Returns the properties of a handle's device, from which plans can be made. NULL: the library
 * can't do that. */
trp__cudnn_descriptor trp__cudnn_properties(const trp__cudnn *lib, trp__cudnn_handle handle);

/* Destroys a descriptor, and sets it to NULL. Does nothing for NULL. */
void trp__cudnn_drop(const trp__cudnn *lib, trp__cudnn_descriptor *descriptor);

#endif
