/* The version of this library. SPDX-License-Identifier: Apache-2.0 */
#ifndef TROUPE_VERSION_H
#define TROUPE_VERSION_H

#include <troupe/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRP_VERSION_MAJOR  0
#define TRP_VERSION_MINOR  1
#define TRP_VERSION_PATCH  0
#define TRP_VERSION_STRING "0.1.0"

/* TRP_VERSION_STRING of the library that is running. Static string. */
TRP_API const char *trp_version(void);

#ifdef __cplusplus
}
#endif
#endif
