/* Control messages: what arrives is what was sent, or it is refused with the reason. */
#include "support/unit.h"

#include "base/error.h"
#include "wire/layout.h"
#include "wire/message.h"
#include "support/label.h"

#include <troupe/version.h>

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

TROUPE_TEST("no tsan");

static int count_fds(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void make_pair(int pair[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(fcntl(pair[1], F_SETFL, O_NONBLOCK), 0);
}

static ino_t inode(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    return st.st_ino;
}

static void there(void **unused)
{
    (void)unused;
    int pair[2], before = count_fds();
    make_pair(pair);
    for (uint32_t count = 0; count <= TRP__MESSAGE_FDS; count++) {
        int fds[TRP__MESSAGE_FDS] = {-1, -1, -1}, got[TRP__MESSAGE_FDS];
        trp__message m = {.id = 7, .about = TRP__MSG_HOST, .bytes = UINT64_MAX - 3}, r;
        trp_error error = {0};
        bool closed = true;
        snprintf(m.text, sizeof m.text, "kind %u", count);
        snprintf(m.error.message, sizeof m.error.message, "detail");
        m.error.status = TRP_E_MISSING;
        for (uint32_t i = 0; i < count; i++) {
            fds[i] = memfd_create("troupe-test", MFD_CLOEXEC);
            assert_true(fds[i] >= 0);
        }
        assert_int_equal(trp__message_send(pair[0], TRP__MSG_ANSWER, &m, fds, count, &error),
                         TRP_OK);
        assert_int_equal(trp__message_receive(pair[1], &r, got, &closed, &error), TRP_OK);
        assert_false(closed);
        assert_int_equal(r.type, TRP__MSG_ANSWER);
        assert_int_equal(r.id, 7);
        assert_int_equal(r.about, TRP__MSG_HOST);
        assert_true(r.bytes == UINT64_MAX - 3);
        assert_string_equal(r.text, m.text);
        assert_int_equal(r.error.status, TRP_E_MISSING);
        assert_string_equal(r.error.message, "detail");
        assert_string_equal(r.version, TRP_VERSION_STRING);
        for (uint32_t i = 0; i < TRP__MESSAGE_FDS; i++) {
            if (i >= count) {
                assert_int_equal(got[i], -1);
                continue;
            }
            assert_true(inode(got[i]) == inode(fds[i])); /* in the order given */
            assert_int_equal(fcntl(got[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
            close(got[i]);
            close(fds[i]);
        }
    }
    close(pair[0]);
    close(pair[1]);
    assert_int_equal(count_fds(), before);
}

static void nothing_there(void **unused)
{
    (void)unused;
    int pair[2], fds[TRP__MESSAGE_FDS];
    trp__message m;
    trp_error error = {0};
    bool closed = true;
    make_pair(pair);
    assert_int_equal(trp__message_receive(pair[1], &m, fds, &closed, &error), TRP_E_TIMEOUT);
    assert_false(closed);
    close(pair[0]);
    assert_int_equal(trp__message_receive(pair[1], &m, fds, &closed, &error), TRP_E_FAULT);
    assert_true(closed);
    /* The other direction: sending to nobody is an error, not a signal. */
    trp__message out = {0};
    assert_int_not_equal(trp__message_send(pair[1], TRP__MSG_STOP, &out, NULL, 0, &error), TRP_OK);
    close(pair[1]);
    /* No socket at all. */
    assert_int_not_equal(trp__message_receive(-1, &m, fds, &closed, &error), TRP_OK);
    assert_true(closed);
    assert_int_not_equal(trp__message_send(-1, TRP__MSG_STOP, &out, NULL, 0, NULL), TRP_OK);
}

/* Sends raw bytes with three descriptors; they must not stay open here when they are refused. */
static trp_status receive_raw(const void *bytes, size_t length, trp_error *error)
{
    int pair[2], before = count_fds(), got[TRP__MESSAGE_FDS];
    make_pair(pair);
    union {
        char space[CMSG_SPACE(3 * sizeof(int))];
        struct cmsghdr align;
    } control;
    memset(&control, 0, sizeof control);
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = memfd_create("troupe-test", MFD_CLOEXEC);
        assert_true(fds[i] >= 0);
    }
    struct iovec data = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
    struct msghdr header = {.msg_iov = &data,
                            .msg_iovlen = 1,
                            .msg_control = control.space,
                            .msg_controllen = sizeof control.space};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(rights), fds, sizeof fds);
    assert_int_equal(sendmsg(pair[0], &header, 0), length);
    trp__message m;
    bool closed = false;
    trp_status status = trp__message_receive(pair[1], &m, got, &closed, error);
    for (int i = 0; i < 3; i++) {
        if (status != TRP_OK)
            assert_int_equal(got[i], -1);
        else
            close(got[i]);
        close(fds[i]);
    }
    close(pair[0]);
    close(pair[1]);
    assert_int_equal(count_fds(), before);
    return status;
}

static trp__message right(void)
{
    trp__message m = {.magic = TRP__MAGIC, .abi = TRP__ABI, .type = TRP__MSG_READY};
    snprintf(m.version, sizeof m.version, "%s", TRP_VERSION_STRING);
    return m;
}

static void refused(void **unused)
{
    (void)unused;
    trp_error error = {0};
    trp__message m = right();
    char text[32];
    assert_int_equal(receive_raw(&m, sizeof m, &error), TRP_OK);

    m = right();
    m.abi = TRP__ABI + 6;
    snprintf(m.version, sizeof m.version, "3.2.1");
    assert_int_equal(receive_raw(&m, sizeof m, &error), TRP_E_VERSION);
    assert_non_null(strstr(error.message, "3.2.1"));
    assert_non_null(strstr(error.message, TRP_VERSION_STRING));
    snprintf(text, sizeof text, "ABI %u", TRP__ABI + 6);
    assert_non_null(strstr(error.message, text));
    snprintf(text, sizeof text, "ABI %u", TRP__ABI);
    assert_non_null(strstr(error.message, text));
    /* The same from a version whose messages are shorter. */
    assert_int_equal(receive_raw(&m, 64, &error), TRP_E_VERSION);
    assert_non_null(strstr(error.message, "3.2.1"));
    /* A version without an end stays inside its field. */
    memset(m.version, 'x', sizeof m.version);
    m.type = 0x79797979; /* "yyyy" */
    assert_int_equal(receive_raw(&m, sizeof m, &error), TRP_E_VERSION);
    assert_null(strstr(error.message, "xxxxxxxxxxxxxxxx"));
    assert_null(strstr(error.message, "y"));
    /* One that is no text is made one. */
    snprintf(m.version, sizeof m.version, "1\xff\x1b[2J\n");
    assert_int_equal(receive_raw(&m, 64, &error), TRP_E_VERSION);
    assert_non_null(strstr(error.message, "Troupe 1??[2J?"));

    m = right();
    m.magic++;
    assert_int_equal(receive_raw(&m, sizeof m, &error), TRP_E_VERSION);
    char noise[2 * sizeof m];
    memset(noise, 0x5a, sizeof noise);
    assert_int_equal(receive_raw(noise, sizeof noise, &error), TRP_E_VERSION);
    assert_int_equal(receive_raw(noise, 1, &error), TRP_E_VERSION);

    /* Right, but cut, or too long. */
    m = right();
    assert_int_equal(receive_raw(&m, sizeof m - 1, &error), TRP_E_VERSION);
    assert_int_equal(receive_raw(&m, 12, &error), TRP_E_VERSION);
    memset(noise, 0, sizeof noise);
    memcpy(noise, &m, sizeof m);
    assert_int_equal(receive_raw(noise, sizeof m + 1, &error), TRP_E_VERSION);
}

/* Strings that the other side did not end. */
static void unterminated(void **unused)
{
    (void)unused;
    int pair[2], fds[TRP__MESSAGE_FDS];
    trp__message m = right(), r;
    trp_error error = {0};
    bool closed = false;
    memset(m.version, 'v', sizeof m.version);
    memset(m.text, 't', sizeof m.text);
    memset(m.error.domain, 'd', sizeof m.error.domain);
    memset(m.error.actor, 'a', sizeof m.error.actor);
    memset(m.error.message, 'm', sizeof m.error.message);
    make_pair(pair);
    assert_int_equal(send(pair[0], &m, sizeof m, 0), sizeof m);
    assert_int_equal(trp__message_receive(pair[1], &r, fds, &closed, &error), TRP_OK);
    assert_int_equal(strlen(r.version), sizeof r.version - 1);
    assert_int_equal(strlen(r.text), sizeof r.text - 1);
    assert_int_equal(strlen(r.error.domain), sizeof r.error.domain - 1);
    assert_int_equal(strlen(r.error.actor), sizeof r.error.actor - 1);
    assert_int_equal(strlen(r.error.message), sizeof r.error.message - 1);
    close(pair[0]);
    close(pair[1]);
}

/* More descriptors than a message may have: none leaks. */
static void too_many_descriptors(void **unused)
{
    (void)unused;
    enum { SENT = 5 };
    int pair[2], before = count_fds(), fds[SENT], got[TRP__MESSAGE_FDS];
    union {
        char space[CMSG_SPACE(SENT * sizeof(int))];
        struct cmsghdr align;
    } control;
    trp__message m = right(), r;
    trp_error error = {0};
    bool closed = false;
    make_pair(pair);
    memset(&control, 0, sizeof control);
    for (int i = 0; i < SENT; i++)
        fds[i] = memfd_create("troupe-test", MFD_CLOEXEC);
    struct iovec data = {.iov_base = &m, .iov_len = sizeof m};
    struct msghdr header = {.msg_iov = &data,
                            .msg_iovlen = 1,
                            .msg_control = control.space,
                            .msg_controllen = sizeof control.space};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(rights), fds, sizeof fds);
    assert_int_equal(sendmsg(pair[0], &header, 0), sizeof m);
    if (trp__message_receive(pair[1], &r, got, &closed, &error) == TRP_OK) {
        for (int i = 0; i < TRP__MESSAGE_FDS; i++)
            close(got[i]);
    }
    for (int i = 0; i < SENT; i++)
        close(fds[i]);
    close(pair[0]);
    close(pair[1]);
    assert_int_equal(count_fds(), before);
}

/* A full inbox is told as EAGAIN on a socket that doesn't wait, and nothing is lost or torn. */
static void full_inbox(void **unused)
{
    (void)unused;
    int pair[2], fds[TRP__MESSAGE_FDS];
    uint32_t sent = 0, taken = 0;
    trp_error error = {0};
    bool closed = false;
    make_pair(pair);
    for (;; sent++) {
        trp__message m = {.id = sent};
        if (trp__message_send(pair[1], TRP__MSG_ANSWER, &m, NULL, 0, &error) != TRP_OK)
            break;
    }
    assert_true(sent > 1);
    assert_int_equal(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
    trp__message r;
    while (trp__message_receive(pair[0], &r, fds, &closed, &error) == TRP_OK)
        assert_int_equal(r.id, taken++);
    assert_int_equal(taken, sent);
    close(pair[0]);
    close(pair[1]);
}

UNIT_MAIN(UNIT(there), UNIT(nothing_there), UNIT(refused), UNIT(unterminated),
          UNIT(too_many_descriptors), UNIT(full_inbox))
