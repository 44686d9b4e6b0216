/* troupe-worker: the process in which the libraries run. Started by libtroupe, never by hand,
 * except with --report or --version. */
#include "base/os/cpu.h"
#include "base/os/descriptor.h"
#include "wire/entry.h"
#include "wire/layout.h"

#include <troupe/version.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SOCKET = 3 };

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--report") == 0)
        return trp__worker_report();
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("troupe-worker %s (ABI %u)\n", TRP_VERSION_STRING, TRP__ABI);
        return 0;
    }
    if (argc != 3 || strcmp(argv[1], "--parent") != 0) {
        fprintf(stderr, "troupe-worker is started by programs that use libtroupe.\n"
                        "By hand: troupe-worker --report | --version\n");
        return 2;
    }
    /* Die with the application, also if it dies between these lines: the parent is compared after
     * the signal is asked for. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != (pid_t)strtol(argv[2], NULL, 10))
        return 0;
    trp__descriptor_fill_streams();
    /* A dump of the core would hold up the next worker for as long as it takes to write. */
    setrlimit(RLIMIT_CORE, &(struct rlimit){0});
    syscall(SYS_close_range, SOCKET + 1, ~0U, 0); /* nothing of the application stays open */
    /* Threads of libraries that use OpenMP, and OpenBLAS's own, wait asleep: spinning, they would
     * take the cores from the scheduler and from the application. A library reads this when it is
     * opened. */
    setenv("OMP_WAIT_POLICY", "passive", 0);
    setenv("OPENBLAS_THREAD_TIMEOUT", "16", 0); /* 2^16 cycles of spinning; else 2^26 */
    /* Both make a thread for each processor of the affinity and know nothing of quotas: in a
     * container with 2 of 64 processors the threads would be stopped in turn, and all wait for the
     * last one. OpenBLAS reads this variable too, after OPENBLAS_NUM_THREADS. */
    char threads[16];
    snprintf(threads, sizeof threads, "%u", trp__cpu_count());
    setenv("OMP_NUM_THREADS", threads, 0);
    return trp__worker_run(SOCKET, true);
}
