/* Anonymous shared memory: memfds, passed to the worker by descriptor. A memfd has no name in the
 * file system, so none is left behind. */
#ifndef TRP_BASE_OS_SHM_H
#define TRP_BASE_OS_SHM_H

#include <troupe/status.h>

/* Makes a memfd of `bytes` (a multiple of the page size) sealed against resizing, so that no
 * holder can make another's access raise SIGBUS; maps it read-write at *map. `name` shows in /proc.
 * With `readonly_for_others`, every later mapping can only be read. */
trp_status trp__shm_create(const char *name, uint64_t bytes, bool readonly_for_others, int *fd,
                           void **map, trp_error *error);

/* Maps a received descriptor after checking that it is at least `bytes` long and can't shrink. With
 * `at`, replaces the mapping at that address. */
trp_status trp__shm_map(int fd, uint64_t bytes, bool writable, void *at, void **map,
                        trp_error *error);

void trp__shm_unmap(void *map, uint64_t bytes);

uint64_t trp__page_round(uint64_t bytes);

#endif
