/* Messages over the control socket between application and worker, for rare events, file
 * descriptors and answers. One packet each (SOCK_SEQPACKET). The fields up to `type` never change,
 * so that two versions recognise each other. */
#ifndef TRP_WIRE_MESSAGE_H
#define TRP_WIRE_MESSAGE_H

#include <troupe/worker.h>

enum {
    TRP__MESSAGE_FDS = 3,
    TRP__LIBRARY_PATH_MAX = 1023, /* bytes of the path of an actor's library */
};

typedef enum trp__message_type {
    /* application -> worker */
    TRP__MSG_HELLO = 1,  /* id: incarnation; fds: control block, reply block, staging memory */
    TRP__MSG_ARENA,      /* id, bytes, protection; fd */
    TRP__MSG_ARENA_DROP, /* id */
    TRP__MSG_HOST,       /* id, bytes; fd; protection: 1 for memory that no device reaches */
    TRP__MSG_HOST_DROP,  /* id */
    TRP__MSG_ACTOR,      /* id; text: kind, error.actor: name; library, config. With an error: the
                          * actor can't be made; its requests get this error */
    TRP__MSG_ACTOR_DROP, /* id */
    TRP__MSG_STOP,       /* finish what is issued, then exit */
    TRP__MSG_PROTECT,    /* id of an arena, protection; bytes: how many ns to wait at most for
                            requests that use the arena */
    /* worker -> application */
    TRP__MSG_READY,  /* the context is up, requests are taken */
    TRP__MSG_ANSWER, /* to ARENA, HOST, ACTOR, PROTECT and the drops: id, request type in `about`,
                      * protection, error */
    TRP__MSG_FAULT,  /* the reply block says what; the process is about to exit */
    TRP__MSG_REFUSE, /* the worker can't work: error says why; it exits */
    TRP__MSG_NOTICE, /* about: trp_notice_kind, bytes: its time, id: how many before it were not
                      * sent, because the socket was full; error */
    TRP__MSG_LOG,    /* a line for an operator: about: its level, library: its text. Any time. */
} trp__message_type;

/* `protection` numbers the changes of an arena's mapping: an odd one makes it read-only, an even
 * one writable. It only rises, also when the arena's id is reused, so an outdated message is
 * recognised. */
typedef struct trp__message {
    uint64_t magic;
    uint32_t abi;
    char version[16];
    uint32_t type;

    uint32_t id;
    uint32_t about;
    uint64_t bytes;
    uint64_t protection;
    char text[64];
    char library[TRP__LIBRARY_PATH_MAX + 1]; /* "": a built-in actor */
    char config[TRP_ACTOR_CONFIG_MAX + 1];
    trp_error error;
} trp__message;

/* Sends one message with `count` descriptors (which stay open here). Waits for room, unless the
 * socket is non-blocking or the message is a notice or a line; then a full socket gives
 * TRP_E_SYSTEM with EAGAIN. */
trp_status trp__message_send(int socket, trp__message_type type, trp__message *message,
                             const int *fds, uint32_t count, trp_error *error);

/* Receives one message; descriptors are stored in fds (-1 where none came) and belong to the
 * caller. *closed is set when the other side is gone. Waits unless the socket is non-blocking; then
 * TRP_E_TIMEOUT: no message. A message of another ABI version gives TRP_E_VERSION with both
 * versions in the text. A message whose descriptors this process may not open (RLIMIT_NOFILE) gives
 * TRP_E_SYSTEM; its fields are complete. */
trp_status trp__message_receive(int socket, trp__message *message, int fds[TRP__MESSAGE_FDS],
                                bool *closed, trp_error *error);

#endif
