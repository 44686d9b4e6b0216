#include "wire/message.h"

#include "base/os/descriptor.h"
#include "base/error.h"
#include "base/text.h"
#include "wire/layout.h"

#include <troupe/version.h>

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

trp_status trp__message_send(int socket, trp__message_type type, trp__message *message,
                             const int *fds, uint32_t count, trp_error *error)
{
    message->magic = TRP__MAGIC;
    message->abi = TRP__ABI;
    trp__copy_string(message->version, sizeof message->version, TRP_VERSION_STRING);
    message->type = type;

    union {
        char bytes[CMSG_SPACE(sizeof(int) * TRP__MESSAGE_FDS)];
        struct cmsghdr align;
    } ancillary;
    memset(&ancillary, 0, sizeof ancillary);
    struct iovec data = {.iov_base = message, .iov_len = sizeof *message};
    struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1};
    if (count > 0) {
        header.msg_control = ancillary.bytes;
        header.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int) * count);
        memcpy(CMSG_DATA(rights), fds, sizeof(int) * count);
    }
    /* Sent from the scheduler's thread too, which must not block. */
    const bool passing = type == TRP__MSG_NOTICE || type == TRP__MSG_LOG;
    int flags = MSG_NOSIGNAL | (passing ? MSG_DONTWAIT : 0);
    ssize_t sent;
    do
        sent = sendmsg(socket, &header, flags);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return trp__error_set_errno(error, "sending to the other process");
    return TRP_OK;
}

static void take_descriptors(struct msghdr *header, int fds[TRP__MESSAGE_FDS])
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
            fd = trp__descriptor_apart(fd);
            if (i < TRP__MESSAGE_FDS)
                fds[i] = fd;
            else if (fd >= 0)
                close(fd);
        }
    }
}

trp_status trp__message_receive(int socket, trp__message *message, int fds[TRP__MESSAGE_FDS],
                                bool *closed, trp_error *error)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * TRP__MESSAGE_FDS)];
        struct cmsghdr align;
    } ancillary;
    struct iovec data = {.iov_base = message, .iov_len = sizeof *message};
    struct msghdr header = {.msg_iov = &data,
                            .msg_iovlen = 1,
                            .msg_control = ancillary.bytes,
                            .msg_controllen = sizeof ancillary.bytes};
    for (int i = 0; i < TRP__MESSAGE_FDS; i++)
        fds[i] = -1;
    *closed = false;
    memset(message, 0, sizeof *message);
    ssize_t got;
    do
        got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return TRP_E_TIMEOUT;
    if (got <= 0) {
        *closed = true;
        if (got == 0 || errno == ECONNRESET)
            return trp__error_set(error, TRP_E_FAULT, "the other process closed the connection");
        return trp__error_set_errno(error, "receiving from the other process");
    }
    take_descriptors(&header, fds);
    message->version[sizeof message->version - 1] = '\0';
    trp__text_clean(message->version); /* untrusted, and shown */
    message->text[sizeof message->text - 1] = '\0';
    message->library[sizeof message->library - 1] = '\0';
    message->config[sizeof message->config - 1] = '\0';
    message->error.domain[sizeof message->error.domain - 1] = '\0';
    message->error.actor[sizeof message->error.actor - 1] = '\0';
    message->error.message[sizeof message->error.message - 1] = '\0';
    /* Descriptors were dropped because of RLIMIT_NOFILE, not for lack of room. */
    bool lacking =
        (header.msg_flags & MSG_CTRUNC) && header.msg_controllen < sizeof ancillary.bytes;
    bool cut = header.msg_flags & (MSG_TRUNC | MSG_CTRUNC);
    bool whole = (size_t)got == sizeof *message && !cut;
    if (message->magic == TRP__MAGIC && message->abi == TRP__ABI && whole)
        return TRP_OK;

    for (int i = 0; i < TRP__MESSAGE_FDS; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
    if (message->magic != TRP__MAGIC)
        return trp__error_set(error, TRP_E_VERSION, "the other process does not speak Troupe");
    if (message->abi == TRP__ABI && lacking) {
        errno = EMFILE;
        return trp__error_set_errno(error, "descriptors of a message");
    }
    if (message->abi == TRP__ABI)
        return trp__error_set(error, TRP_E_VERSION,
                              "the other process is Troupe %s (ABI %u) too, but its message has "
                              "%s%zd bytes, expected %zu",
                              message->version, message->abi, cut ? "more than " : "", got,
                              sizeof *message);
    return trp__error_set(error, TRP_E_VERSION,
                          "this process is Troupe %s (ABI %u), the other process is Troupe %s (ABI "
                          "%u): both must come from one build",
                          TRP_VERSION_STRING, TRP__ABI, message->version, message->abi);
}
