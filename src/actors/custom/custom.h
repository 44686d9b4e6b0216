/* Custom actors, see include/troupe/custom.h. The worker's part is in the application's shared
 * object; this is the sender's. */
#ifndef TRP_ACTORS_CUSTOM_H
#define TRP_ACTORS_CUSTOM_H

#include "wire/actor_class.h"

extern const trp__actor_class trp__custom_class;

#endif
