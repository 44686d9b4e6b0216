/* The "probe" actor, see include/troupe/probe.h. */
#ifndef TRP_ACTORS_PROBE_H
#define TRP_ACTORS_PROBE_H

#include "wire/actor_class.h"

extern const trp__actor_class trp__probe_class;
extern const struct trp_actor_impl trp__probe_cuda;
extern const struct trp_actor_impl trp__probe_host;

#endif
