/* Notices and log lines of a device. */
#ifndef TRP_CLIENT_OBSERVE_OBSERVE_H
#define TRP_CLIENT_OBSERVE_OBSERVE_H

#include "client/core/device.h"
#include "client/observe/stats.h"

/* watch.c */
bool trp__watch_take(trp__queue_item *item, trp_event *out);
void trp__notice_post(trp_device *device, trp_notice_kind kind, uint32_t incarnation,
                      int64_t time_ns, uint64_t dropped, const trp_error *error);
void trp__notice(trp_device *device, trp_notice_kind kind, const trp_error *error);
void trp__notice_relay(trp_device *device, uint32_t incarnation, const trp__message *m);
/* A log line of an event that also makes a notice of that kind: not shown on standard error if a
 * watch gets such notices. trp__worker_line() passes on a worker's line. */
void trp__device_line(trp_device *device, trp_notice_kind kind, int level, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void trp__worker_line(trp_device *device, struct trp__process *p, const trp__message *m);
void trp__notices_deliver(trp_device *device);
void trp__watches_close(trp_device *device);

#endif
