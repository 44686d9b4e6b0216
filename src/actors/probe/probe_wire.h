/* Payload of TRP_OP_PROBE. The accesses are the inputs that were given, then the outputs, each the
 * whole buffer. */
#ifndef TRP_ACTORS_PROBE_WIRE_H
#define TRP_ACTORS_PROBE_WIRE_H

#include <stdint.h>

enum { TRP__PROBE_STORE_BYTES = 8 }; /* bytes that a store of the probe writes */

typedef struct trp__probe {
    uint32_t action; /* trp_probe_action */
    uint32_t reserved;
    uint64_t duration_ns;
} trp__probe;

#endif
