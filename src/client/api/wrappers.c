/* The functions that the public headers define inline, once more as exported ones: ctypes, cffi,
 * bindgen and their kin call what a library exports, and compile no body of a header. */
#define TRP_INLINE TRP_API

#include <troupe/troupe.h>
