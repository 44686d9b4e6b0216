/* Numbers of descriptors. A program that was started with a standard stream closed gives its number
 * to the next file that is opened, and what is printed there later lands in that file: a log line
 * in the memory of a buffer. So no descriptor of the library has the number of a standard stream.
 */
#ifndef TRP_BASE_OS_DESCRIPTOR_H
#define TRP_BASE_OS_DESCRIPTOR_H

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* The descriptor, or another one of the same file in its place, closed on exec. -1, errno: `fd` was
 * -1, or there is no other number; `fd` is closed then, too. */
static inline int trp__descriptor_apart(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    int apart = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int code = errno;
    close(fd);
    errno = code;
    return apart;
}

/* Opens something for each standard stream that is closed, so that its use fails as it did: for
 * programs of our own, whose libraries open files, too. At the beginning, while there is one
 * thread.
 */
static inline void trp__descriptor_fill_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY); /* the lowest */
    }
}

#endif
