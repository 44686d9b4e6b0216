/* Fault points of the supervisor, at which a test may also kill one of the device's workers. To be
 * used by the supervisor's thread, or under device->lock. */
#ifndef TRP_CLIENT_CORE_POINTS_H
#define TRP_CLIENT_CORE_POINTS_H

#include "base/fault_point.h"
#include "client/core/device.h"

#define TRP__DEVICE_POINT_FAILS(device, name)                                                      \
    TRP__FAULT_POINT_FAILS_NEAR(name, (device)->worker[(device)->active].pid,                      \
                                (device)->worker[1 - (device)->active].pid)
#define TRP__DEVICE_POINT(device, name)                                                            \
    TRP__FAULT_POINT_NEAR(name, (device)->worker[(device)->active].pid,                            \
                          (device)->worker[1 - (device)->active].pid)

#endif
