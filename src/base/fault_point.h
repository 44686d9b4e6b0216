/* Fault points: named places at which a test kills a process, delays it, or makes a step fail.
 *
 * They exist only in builds with TROUPE_FAULT_POINTS (a CMake option, on in the builds that have
 * tests, off in the one that is installed); everywhere else the macros are empty.
 *
 * Environment variables, which workers inherit, arm them:
 *
 *   TROUPE_FAULT_POINT       one or more of NAME:HITS:ACTION, with commas between them.
 *                            HITS: "3" the third hit, "3-5", "3+" the third and every later one.
 *                            ACTION: kill-self, kill-active, kill-successor (worker processes; in
 *                            application points), stall (20 ms), fail (where the table says so).
 *   TROUPE_FAULT_POINT_HITS  a file of TRP__FAULT_POINT_COUNT 32-bit words in which all processes
 *                            count the hits of each point; without it each counts for itself.
 *
 * tests/fault/points_test.c walks the whole table. */
#ifndef TRP_BASE_FAULT_POINT_H
#define TRP_BASE_FAULT_POINT_H

#include <stdbool.h>
#include <stdint.h>

/* POINT(name, side, whether it can fail). In the order in which a device comes to them. */
#define TRP__FAULT_POINTS(POINT)                                                                   \
    /* The worker: handshake. */                                                                   \
    POINT(WORKER_START, WORKER, false)                                                             \
    POINT(WORKER_HELLO, WORKER, false)                                                             \
    POINT(WORKER_CONTROL_MAPPED, WORKER, false)                                                    \
    POINT(WORKER_REPLY_MAPPED, WORKER, false)                                                      \
    POINT(WORKER_DEVICE_OPEN, WORKER, false)                                                       \
    POINT(WORKER_STAGING_MAPPED, WORKER, false)                                                    \
    POINT(WORKER_SET_UP, WORKER, true)                                                             \
    POINT(WORKER_READY_UNSENT, WORKER, false)                                                      \
    POINT(WORKER_READY_SENT, WORKER, false)                                                        \
    POINT(WORKER_AWAITS_PROMOTION, WORKER, false)                                                  \
    POINT(WORKER_PROMOTED, WORKER, false)                                                          \
    /* The side thread. */                                                                         \
    POINT(ARENA_MAPPING, WORKER, true)                                                             \
    POINT(ARENA_MAPPED, WORKER, false)                                                             \
    POINT(ARENA_UNANSWERED, WORKER, false)                                                         \
    POINT(ARENA_ANSWERED, WORKER, false)                                                           \
    POINT(HOST_MAPPING, WORKER, false)                                                             \
    POINT(HOST_UNANSWERED, WORKER, false)                                                          \
    POINT(HOST_ANSWERED, WORKER, false)                                                            \
    POINT(ACTOR_STARTING, WORKER, false)                                                           \
    POINT(ACTOR_STREAM_MADE, WORKER, false)                                                        \
    POINT(ACTOR_UNANSWERED, WORKER, false)                                                         \
    POINT(ACTOR_ANSWERED, WORKER, false)                                                           \
    POINT(DROP_ARENA, WORKER, false)                                                               \
    POINT(DROP_ARENA_UNMAPPING, WORKER, false)                                                     \
    POINT(DROP_HOST, WORKER, false)                                                                \
    POINT(DROP_HOST_UNMAPPING, WORKER, false)                                                      \
    POINT(DROP_ACTOR, WORKER, false)                                                               \
    POINT(DROP_ACTOR_STOPPING, WORKER, false)                                                      \
    POINT(DROP_UNANSWERED, WORKER, false)                                                          \
    POINT(DROP_ANSWERED, WORKER, false)                                                            \
    POINT(WORKER_STOP, WORKER, false)                                                              \
    POINT(WORKER_STOP_JOINED, WORKER, false)                                                       \
    POINT(WORKER_STOP_TORN_DOWN, WORKER, false)                                                    \
    /* The scheduler. */                                                                           \
    POINT(RESUME_TAKING, WORKER, false)                                                            \
    POINT(RESUME_TAKING_ALONE, WORKER, false)                                                      \
    POINT(RING_TAKING, WORKER, false)                                                              \
    POINT(ISSUE_UNMARKED, WORKER, false)                                                           \
    POINT(ISSUE_MARKED, WORKER, false)                                                             \
    POINT(ISSUE_IN_PARTS, WORKER, false)                                                           \
    POINT(ISSUE_HANDLED, WORKER, false)                                                            \
    POINT(ISSUE_ERROR_HEALTH, WORKER, true)                                                        \
    POINT(ISSUE_ERROR_REPLIED, WORKER, false)                                                      \
    POINT(SIGNAL_ENQUEUEING, WORKER, false)                                                        \
    POINT(SIGNAL_ENQUEUED, WORKER, false)                                                          \
    POINT(SCHEDULER_SLEEPS, WORKER, false)                                                         \
    /* The host backend. */                                                                        \
    POINT(HOST_OPERATION, WORKER, false)                                                           \
    POINT(HOST_OPERATION_DONE, WORKER, false)                                                      \
    POINT(FAULT_UNREPORTED, WORKER, false)                                                         \
    POINT(FAULT_WRITTEN, WORKER, false)                                                            \
    /* The application: starting a worker. */                                                      \
    POINT(LAUNCH, APPLICATION, true)                                                               \
    POINT(LAUNCH_SPAWNED, APPLICATION, false)                                                      \
    POINT(LAUNCH_GREETED, APPLICATION, false)                                                      \
    POINT(LAUNCH_PLACED, APPLICATION, false)                                                       \
    POINT(READY_AWAITED, APPLICATION, false)                                                       \
    POINT(WELCOME, APPLICATION, false)                                                             \
    POINT(WELCOME_TOLD, APPLICATION, false)                                                        \
    POINT(NEWS_UNSENT, APPLICATION, false)                                                         \
    POINT(NEWS_SENT, APPLICATION, false)                                                           \
    POINT(ANSWER_TAKEN, APPLICATION, false)                                                        \
    POINT(PROMOTE_MAPPING, APPLICATION, true)                                                      \
    POINT(PROMOTE_MAPPED, APPLICATION, false)                                                      \
    POINT(PROMOTE_UNSTORED, APPLICATION, false)                                                    \
    POINT(PROMOTE_STORED, APPLICATION, false)                                                      \
    POINT(PROMOTE_DONE, APPLICATION, false)                                                        \
    /* The application: after a death. */                                                          \
    POINT(RECOVER, APPLICATION, false)                                                             \
    POINT(END, APPLICATION, false)                                                                 \
    POINT(END_KILLED, APPLICATION, false)                                                          \
    POINT(END_TAKEN_OUT, APPLICATION, false)                                                       \
    POINT(ABANDON, APPLICATION, false)                                                             \
    POINT(ABANDON_TAKEN_OUT, APPLICATION, false)                                                   \
    POINT(ABANDON_KILLED, APPLICATION, false)                                                      \
    POINT(REAP, APPLICATION, false)                                                                \
    POINT(REAPED, APPLICATION, false)                                                              \
    POINT(JUDGE, APPLICATION, false)                                                               \
    POINT(JUDGE_COLLECTED, APPLICATION, false)                                                     \
    POINT(JUDGE_REQUEST, APPLICATION, false)                                                       \
    POINT(JUDGE_DONE_ENDED, APPLICATION, false)                                                    \
    POINT(JUDGE_FLIGHT_DECIDED, APPLICATION, false)                                                \
    POINT(JUDGE_RANGE_DECIDED, APPLICATION, false)                                                 \
    POINT(JUDGE_TRANSFERS_RESTARTED, APPLICATION, false)                                           \
    POINT(GO_ON, APPLICATION, false)                                                               \
    POINT(GO_DOWN, APPLICATION, false)                                                             \
    POINT(STANDBY_LAUNCH, APPLICATION, false)                                                      \
    POINT(STANDBY_LOST, APPLICATION, false)                                                        \
    POINT(STANDBY_GIVEN_UP, APPLICATION, false)                                                    \
    /* The kernel cache, in whatever process: for unit/store_processes_test. */                    \
    POINT(CACHE_TEMPORARY_MADE, CACHE, true)                                                       \
    POINT(CACHE_HALF_WRITTEN, CACHE, true)                                                         \
    POINT(CACHE_WRITTEN, CACHE, true)                                                              \
    POINT(CACHE_SYNCED, CACHE, false)                                                              \
    POINT(CACHE_COUNTED, CACHE, true)                                                              \
    POINT(CACHE_RENAMED, CACHE, false)                                                             \
    POINT(CACHE_ENTRY_WRITTEN, CACHE, false)                                                       \
    POINT(CACHE_CLAIMED, CACHE, false)                                                             \
    POINT(CACHE_EVICTING, CACHE, false)                                                            \
    POINT(CACHE_EVICTED, CACHE, false)

typedef enum trp__fault_point_id {
#define POINT(name, side, can_fail) TRP__POINT_##name,
    TRP__FAULT_POINTS(POINT)
#undef POINT
        TRP__FAULT_POINT_COUNT
} trp__fault_point_id;

#ifdef TROUPE_FAULT_POINTS

/* Counts a hit and performs the armed action. Returns whether the step must fail. `active`: the
 * process of the worker that takes requests; `successor`: of the one that takes over, or that is
 * starting; 0: none. */
bool trp__fault_point(trp__fault_point_id point, int64_t active, int64_t successor);

/* True if the next step must fail. */
#define TRP__FAULT_POINT_FAILS(name) trp__fault_point(TRP__POINT_##name, 0, 0)
#define TRP__FAULT_POINT(name)       ((void)TRP__FAULT_POINT_FAILS(name))
/* In the application, with the processes that can be killed there. */
#define TRP__FAULT_POINT_FAILS_NEAR(name, active, successor)                                       \
    trp__fault_point(TRP__POINT_##name, (active), (successor))
#define TRP__FAULT_POINT_NEAR(name, active, successor)                                             \
    ((void)TRP__FAULT_POINT_FAILS_NEAR(name, active, successor))

#else

#define TRP__FAULT_POINT_FAILS(name)                         false
#define TRP__FAULT_POINT(name)                               ((void)0)
#define TRP__FAULT_POINT_FAILS_NEAR(name, active, successor) false
#define TRP__FAULT_POINT_NEAR(name, active, successor)       ((void)0)

#endif
#endif
