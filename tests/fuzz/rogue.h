/* A worker program that has lost its mind: it shakes hands as a worker does and then writes rubbish
 * to whatever it can write. For tests of the application's side.
 *
 * A test that uses it calls rogue_main() first when it is started as a worker ("--parent"), and
 * opens devices with the path that rogue_path() makes: a link to the test's own program whose name
 * says what the worker shall do, so that many may be started at a time.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FUZZ_ROGUE_H
#define TESTS_FUZZ_ROGUE_H

#include <stddef.h>
#include <stdint.h>

/* What one does. All begin with a right handshake, but those that say otherwise. */
#define ROGUE_LIST(X)                                                                              \
    X(SEALS)   /* tries to shrink, grow and write what it must not; refuses, saying what worked */ \
    X(MUTE)    /* is ready, then does nothing at all */                                            \
    X(CLERK)   /* answers all messages, and never begins a request */                              \
    X(LIAR)    /* says at once that everything is done, and does nothing */                        \
    X(BOASTER) /* says that more is done than was sent */                                          \
    X(WAVERER) /* its progress goes back and forth */                                              \
    X(READER)  /* says that reads are done, and copies nothing */                                  \
    X(FLOODER) /* answers without end what nobody asked, before and after it is ready */           \
    X(HASTY)   /* is ready again and again */                                                      \
    X(EARLY)   /* as a standby, has done it all before its turn */                                 \
    X(GARBLER) /* sends packets that are no messages */                                            \
    X(FORKER)  /* leaves children with all it has, which go on writing; then ends */               \
    X(DEAF)    /* closes one direction of its socket, or all of it, and lives on */                \
    X(STOPPED) /* stops itself */                                                                  \
    X(STUBBORN) /* works, and ignores the end */                                                   \
    X(MEDDLER)  /* a real worker behind somebody who changes messages and memory */                \
    X(MAD)      /* any of it, at random */

typedef enum rogue_kind {
#define ROGUE_ENUM(name) ROGUE_##name,
    ROGUE_LIST(ROGUE_ENUM)
#undef ROGUE_ENUM
        ROGUE_COUNT
} rogue_kind;

const char *rogue_name(rogue_kind kind);

/* Makes the link in $TMPDIR; unlink it in the end. */
void rogue_path(rogue_kind kind, uint64_t seed, char *out, size_t size);

/* The worker: `path` is argv[0]. Returns its exit status. */
int rogue_main(const char *path);

#endif
