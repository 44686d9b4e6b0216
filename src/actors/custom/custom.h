/* Actors whose implementation the application brings along, see include/troupe/custom.h. The
 * worker's part is in the shared object, so there is only the sender's here. */
#ifndef TRP_ACTORS_CUSTOM_H
#define TRP_ACTORS_CUSTOM_H

#include "wire/actor_class.h"

extern const trp__actor_class trp__custom_class;

#endif
