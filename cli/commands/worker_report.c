#include "worker_report.h"

#include "ui/ui.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define REPORT_WITHIN_MS 60000

/* Reads the pipe to its end, up to `size` - 1 bytes and the deadline. */
static bool read_all(int fd, char *text, size_t size)
{
    size_t length = 0;
    uint64_t deadline = ui_now() + REPORT_WITHIN_MS * UINT64_C(1000000);
    bool ended = false;
    while (!ended && length < size - 1) {
        uint64_t now = ui_now();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (now >= deadline || poll(&p, 1, (int)((deadline - now) / 1000000) + 1) == 0)
            break;
        ssize_t n = read(fd, text + length, size - 1 - length);
        if (n < 0 && errno != EINTR)
            break;
        ended = n == 0;
        length += n > 0 ? (size_t)n : 0;
    }
    text[length] = '\0';
    return ended;
}

bool worker_report(const char *worker, char text[REPORT_BYTES])
{
    int ends[2], status = 0;
    pid_t pid;
    char *argv[] = {(char *)(uintptr_t)worker, (char[]){"--report"}, NULL};
    posix_spawn_file_actions_t actions;

    if (pipe(ends) != 0) {
        ui_error("pipe: %s", strerror(errno));
        return false;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    int failed = posix_spawn(&pid, worker, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    bool ended = !failed && read_all(ends[0], text, REPORT_BYTES);
    close(ends[0]);
    if (failed) {
        ui_error("%s: %s", worker, strerror(failed));
        return false;
    }
    if (!ended)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (!ended)
        ui_error("%s --report did not end within %d s", worker, REPORT_WITHIN_MS / 1000);
    else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        ui_error("%s --report %s %d", worker, WIFEXITED(status) ? "exited with" : "died of signal",
                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool worker_report_next(char **rest, report_line *out)
{
    char *line = strsep(rest, "\n");
    const char *fields[4] = {NULL};
    while (line && !*line)
        line = strsep(rest, "\n");
    for (int i = 0; i < 4; i++)
        fields[i] = line && i < 3 ? strsep(&line, "\t") : line;
    *out = (report_line){.key = fields[0],
                         .status = fields[1] ? fields[1] : "error",
                         .version = fields[2] ? fields[2] : "",
                         .text = fields[3] ? fields[3] : ""};
    return fields[0] != NULL;
}
