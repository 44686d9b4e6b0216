/* What clients and server send each other over TCP: all numbers in the byte order of x86 and ARM.
 * A client sends one request at a time on a connection and waits for its reply. */
#ifndef SERVER_PROTOCOL_H
#define SERVER_PROTOCOL_H

#include <stdint.h>

enum { REQUEST_MAGIC = 0x31514552 }; /* "REQ1" */

/* Followed by one input: floats, as many as w1 of the model has columns. */
typedef struct request_head {
    uint32_t magic;
    uint32_t number; /* comes back in the reply */
} request_head;

/* Followed by one output: floats, as many as w2 has rows; zeros unless the status is 0. */
typedef struct reply_head {
    int32_t status; /* a trp_status */
    uint32_t number;
} reply_head;

/* A connection whose first bytes are "GET " gets the metrics by HTTP instead. */
#endif
