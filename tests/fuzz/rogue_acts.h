/* Things that a rogue worker (rogue.h) does: right and wrong messages, rubbish in shared memory,
 * work that it only claims to have done. */
#ifndef TESTS_FUZZ_ROGUE_ACTS_H
#define TESTS_FUZZ_ROGUE_ACTS_H

#include "fuzz/rogue.h"
#include "support/reference/reference.h"

#include "wire/layout.h"
#include "wire/message.h"

enum { SOCKET = 3, MAPS = 8 };

typedef struct map {
    char *base;
    size_t bytes;
} map;

typedef struct rogue {
    rogue_kind kind;
    ref_rng rng;
    uint32_t incarnation;
    int fds[TRP__MESSAGE_FDS]; /* control, reply, staging */
    const trp__control *control;
    trp__reply *reply;
    map map[MAPS]; /* memory that it may scribble over: staging, host segments, arenas */
    uint32_t maps;
    uint64_t next;    /* ticket */
    uint32_t honesty; /* of 100 steps, so many are as they should be */
    bool ready;
} rogue;

static inline size_t below(rogue *r, size_t bound)
{
    return ref_rng_below(&r->rng, bound);
}

static inline bool chance(rogue *r, size_t percent)
{
    return below(r, 100) < percent;
}

void rogue_nap_us(long us);
/* The parent's death, or its signal, ends this. */
_Noreturn void rogue_sleep_forever(void);
void rogue_fill_random(rogue *r, void *to, size_t bytes);
void rogue_say(trp__message_type type, trp__message *m, const int *fds, uint32_t count);
void rogue_say_ready(rogue *r);
void rogue_keep_map(rogue *r, int fd, uint64_t bytes);
void rogue_scribble_memory(rogue *r);
void rogue_scribble_fault(rogue *r);
/* Rubbish in one place of the reply block. */
void rogue_scribble_reply(rogue *r);
void rogue_note_resource(rogue *r, const trp__message *m, int fd);
/* Takes messages for up to `ms`. False when the application wants its end. */
bool rogue_take_messages(rogue *r, int ms);
void rogue_garble(rogue *r);
/* Descriptors, more than anybody has room for. */
void rogue_send_descriptors(rogue *r);
/* Takes what is in the ring and says that it is done. */
void rogue_pretend(rogue *r, bool finish);
bool rogue_my_turn(const rogue *r);
void rogue_await_my_turn(rogue *r);

#endif
