#include "support/faults/adversary.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

adv_shared *adv_memory(void)
{
    static adv_shared *memory;
    if (!memory) {
        memory =
            mmap(NULL, sizeof *memory, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        H_CHECK(memory != MAP_FAILED);
    }
    return memory;
}

int adv_child_status(void (*run)(void))
{
    int status = 0;
    memset((void *)adv_memory(), 0, sizeof(adv_shared));
    fflush(NULL);
    pid_t child = fork();
    H_CHECK(child >= 0);
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm((unsigned)(H_LONG / H_SEC));
        run();
        fflush(NULL);
        _exit(0);
    }
    while (waitpid(child, &status, 0) != child)
        H_CHECK(errno == EINTR);
    return status;
}

void adv_child(void (*run)(void))
{
    int status = adv_child_status(run);
    if (WIFSIGNALED(status))
        h_fail(__FILE__, __LINE__, "the child was killed by signal %d%s", WTERMSIG(status),
               WTERMSIG(status) == SIGALRM ? ": it did not end" : "");
    if (WEXITSTATUS(status) != 0)
        h_fail(__FILE__, __LINE__, "the child ended with %d", WEXITSTATUS(status));
}

void adv_await_gone(int64_t pid)
{
    int64_t end = h_now() + H_LONG;
    while (kill((pid_t)pid, 0) == 0 || errno == EPERM) {
        if (h_now() > end)
            h_fail(__FILE__, __LINE__, "process %lld does not end", (long long)pid);
        h_sleep(H_MS);
    }
}

void adv_need_root(void)
{
    if (geteuid() == 0 && getuid() == 0)
        return;
    printf("skipped: only root can give up its rights\n");
    exit(H_EXIT_SKIPPED);
}
