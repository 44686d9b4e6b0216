/* What the tests ask of the actor in hostile.c. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_PLUGINS_HOSTILE_H
#define TESTS_PLUGINS_HOSTILE_H

#include <stdint.h>

/* The configuration is "WORD", "WORD@N" or "note:PATH". With WORD, init() does what it says, from
 * worker N on:
 *   segv abort exit kill hang     in init()
 *   stream-segv stream-hang       in what init() has enqueued (host)
 *   refuse mute fault again       what init() returns
 * With "late@N", init() takes 0.3 s, and workers before N are killed in it.
 * With "note:PATH", lines are added to that file: "stop" by stop(), "unload" when the library goes,
 * "fill" by handle() for HOSTILE_FILL. */

/* trp_custom_request.code */
enum {
    HOSTILE_FILL = 1, /* u32: fills every access that is written with it */
    HOSTILE_COPY,     /* from access[1] to access[0] */
    HOSTILE_REPORT,   /* a hostile_report to access[0] */
    HOSTILE_ADD,      /* u32: adds it to every u32 of access[0], in the stream (host) */
    HOSTILE_REFUSE,   /* i32 status, i32 code: fails so, domain "hostile" */
    HOSTILE_MUTE,     /* i32 status: returned without a message */
    HOSTILE_PIECES,   /* u32 n, u32 pattern: fills access[0] in n pieces, one a call */
    HOSTILE_MEMORY,   /* is short of memory until some actor of this library was trimmed */
    HOSTILE_LARGE,    /* enqueues more arguments than fit */
    HOSTILE_SEGV,     /* in handle() */
    HOSTILE_ABORT,
    HOSTILE_EXIT, /* status 5 */
    HOSTILE_HANG,
    HOSTILE_STREAM_SEGV, /* in the stream (host), after a half of each output was filled */
    HOSTILE_STREAM_EXIT,
    HOSTILE_STREAM_HANG,
};

/* u32 words, so that it can be written with fills. */
typedef struct hostile_report {
    uint32_t inits; /* that this copy of the library has seen */
    uint32_t handled;
    uint32_t incarnation;
    uint32_t backend;
    uint32_t state_was_zero;
    uint32_t name_length, name_first;
    uint32_t config_length;
    uint32_t payload_bytes, payload_sum;
    uint32_t access_count;
    uint32_t mode[8];
    uint32_t bytes[8];
    uint32_t trims;
} hostile_report;

#endif
