/* Exports the functions that the public headers define inline, for ctypes, cffi, bindgen and the
 * like, which compile no headers. */
#define TRP_INLINE TRP_API

#include <troupe/troupe.h>
