/* The supervisor: starting and ending workers, and judging requests when one dies. */
#ifndef TRP_CLIENT_RECOVERY_RECOVERY_H
#define TRP_CLIENT_RECOVERY_RECOVERY_H

#include "client/request/request.h"

/* supervisor.c */
trp_status trp__supervisor_start(trp_device *device);
void trp__supervisor_stop(trp_device *device);

/* recover.c */
trp_status trp__promote_successor(trp_device *device, trp_error *error);
void trp__go_down(trp_device *device);
int64_t trp__start_delay(uint32_t failures, int64_t most);

/* standby.c */
int64_t trp__standby_delay(const trp_device *device);
void trp__standby_lose(trp_device *device, bool dead);
void trp__standby_look_after(trp_device *device);

/* messages.c */
void trp__take_messages(trp_device *device, uint32_t index, bool *gone);
void trp__look_after_mail(trp_device *device, uint32_t index);

/* announce.c */
void trp__announce_all(trp_device *device, uint32_t index);
void trp__announce_promoted(trp_device *device);
void trp__announce_actor(trp_device *device, uint32_t index, trp__client_actor *actor);
void trp__number_answered(trp_device *device, uint32_t index, const trp__message *m);
void trp__number_answered_all(trp_device *device, uint32_t index);

/* process.c and process_end.c */
trp_status trp__process_launch(trp_device *device, uint32_t index, trp_error *error);
trp_status trp__process_await_ready(trp_device *device, uint32_t index, trp_error *error);
trp_status trp__process_refusal(const trp__message *m, trp_error *error);
void trp__process_welcome(trp_device *device, uint32_t index);
trp_status trp__process_promote(trp_device *device, uint32_t index, trp_error *error);
bool trp__process_end(trp_device *device, uint32_t index, bool kill_now, trp_error *cause);
void trp__process_kill(trp__process *process);
void trp__process_abandon(trp_device *device, uint32_t index, trp_error *cause);
void trp__process_reap(trp_device *device, bool wait);
int64_t trp__process_due(const trp_device *device, const trp__process *p);

/* actor_start.c. device->lock is held. */
void trp__actor_start_begin(trp_device *device, trp__client_actor *actor);
void trp__actor_start_answered(trp_device *device, uint32_t index, trp__client_actor *actor,
                               const trp_error *error);
/* For the supervisor, which holds no lock. */
typedef struct trp__suspicion {
    trp__client_actor *actor; /* that the worker was starting; NULL: none */
    uint64_t made;            /* its `made` then */
    uint32_t incarnation;
    bool stuck;
} trp__suspicion;
trp__suspicion trp__actor_start_suspicion(trp_device *device, uint32_t index);
bool trp__actor_start_explain(trp_device *device, const trp__suspicion *suspicion,
                              trp_error *cause);
void trp__actor_start_blame(trp_device *device, const trp__suspicion *suspicion, bool others,
                            const trp_error *cause);
void trp__actor_start_end_trials(trp_device *device);
bool trp__actor_start_late(trp__process *p);
bool trp__actor_start_any(const trp_device *device);
bool trp__actor_start_lanes_end(trp_device *device, trp_error *error);
void trp__actor_start_check(trp_device *device);
trp_status trp__actor_start_await(trp_device *device, uint32_t index, trp_error *error);

/* validate_reply.c */
void trp__process_breach(trp__process *p, trp_fault fault, const char *what);
const char *trp__words_look(trp_device *device);
bool trp__words_untouched(const trp__reply *reply);
bool trp__read_absurd(trp_device *device);
void trp__words_freeze(trp_device *device);

/* scope.c; for the supervisor */
#define TRP__SCOPE_LOST  UINT64_MAX            /* as a judged ticket: lost with all other buffers */
#define TRP__SCOPE_FIRST (TRP__SCOPE_LOST - 1) /* from here on no tickets */
void trp__scope_begin(trp_device *device);
void trp__scope_cover(trp_device *device, const trp__record *record);
void trp__scope_end(trp_device *device, uint64_t last);

#endif
