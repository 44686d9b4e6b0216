/* poll() under any RLIMIT_NOFILE: the system refuses poll() (EINVAL) of more descriptors than the
 * process may open now, even if they were opened before the limit was lowered. */
#ifndef TRP_BASE_OS_POLL_H
#define TRP_BASE_OS_POLL_H

#include <poll.h>
#include <stdint.h>

/* Like ppoll(); a negative time is endless, descriptors below 0 are left out. Under such a limit a
 * hang-up or an error of a descriptor shows as POLLIN. */
int trp__poll(struct pollfd *polled, int count, int64_t timeout_ns);

#endif
