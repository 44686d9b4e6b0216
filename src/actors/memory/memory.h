/* The memory actors: copies and fills. One implementation serves every backend. */
#ifndef TRP_ACTORS_MEMORY_H
#define TRP_ACTORS_MEMORY_H

#include "wire/actor_class.h"

extern const trp__actor_class trp__memory_class;

#endif
