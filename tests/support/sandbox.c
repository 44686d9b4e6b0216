/* Runs one test program and fails it for anything that it leaves behind: a process, shared memory
 * named "troupe*", a file in its temporary folder. SPDX-License-Identifier: Apache-2.0
 *
 *   sandbox [--timeout SECONDS] [--fixed-addresses] [--shm PREFIX] PROGRAM [ARGUMENT...]
 *
 * The program gets a fresh TMPDIR and a process group of its own. The exit code is the program's
 * (128 + signal if it was killed), or 99 when it left something behind or ran out of time.
 * --fixed-addresses turns address randomisation off, which ThreadSanitizer may need. --shm looks
 * for shared memory with another name than "troupe*": sandboxes that run side by side see each
 * other's. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    EXIT_DIRTY = 99,
    GRACE_MS = 3000, /* children of the program may end this much later than the program */
    POLL_MS = 10,
    MAX_NAMES = 4096,
};

static const char shm_folder[] = "/dev/shm";
static const char *shm_prefix = "troupe";

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("sandbox: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

static void die(const char *what)
{
    complain("%s: %s", what, strerror(errno));
    exit(EXIT_DIRTY);
}

/* --- processes --- */

/* Returns the parent of a process; 0: it has ended. */
static pid_t parent_of(pid_t pid)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t length = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[length] = 0;
    /* "pid (name) state parent ...", where the name may contain any character, even a parenthesis.
     */
    const char *after_name = strrchr(line, ')');
    int parent = 0;
    if (!after_name || sscanf(after_name + 1, " %*c %d", &parent) != 1)
        return 0;
    return parent;
}

static bool descends_from(pid_t pid, pid_t ancestor)
{
    while (pid > 1) {
        pid = parent_of(pid);
        if (pid == ancestor)
            return true;
    }
    return false;
}

static void print_process(pid_t pid)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(line, 1, sizeof line - 1, file) : 0;
    if (file)
        fclose(file);
    for (size_t i = 0; i + 1 < length; i++)
        if (line[i] == 0)
            line[i] = ' ';
    line[length] = 0;
    complain("  process %d: %s", pid, length ? line : "(no command line)");
}

/* Kills every descendant, and prints a line for each if `print` is set. */
static void kill_descendants(bool print)
{
    DIR *proc = opendir("/proc");
    if (!proc)
        die("/proc");
    for (struct dirent *entry; (entry = readdir(proc));) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || !descends_from(pid, getpid()))
            continue;
        if (print)
            print_process(pid);
        kill(pid, SIGKILL);
    }
    closedir(proc);
}

/* This process is the subreaper, so orphaned descendants become its children: no child left means
 * no descendant left. Waits for that until the deadline. */
static bool reap_all(int64_t deadline)
{
    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0 && errno == ECHILD)
            return true;
        if (pid > 0)
            continue;
        if (now_ms() >= deadline)
            return false;
        pause_ms(POLL_MS);
    }
}

static bool processes_are_gone(void)
{
    if (reap_all(now_ms() + GRACE_MS))
        return true;
    complain("left running %d ms after the test:", GRACE_MS);
    kill_descendants(true);
    /* A process may fork while it is being killed, so repeat until none is left. */
    while (!reap_all(now_ms() + 100))
        kill_descendants(false);
    return false;
}

/* --- shared memory --- */

static char *shm_before[MAX_NAMES];
static size_t shm_before_count;

static bool in_shm_before(const char *name)
{
    for (size_t i = 0; i < shm_before_count; i++)
        if (strcmp(shm_before[i], name) == 0)
            return true;
    return false;
}

static void snapshot_shm(void)
{
    DIR *folder = opendir(shm_folder);
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder)) && shm_before_count < MAX_NAMES;)
        if (strncmp(entry->d_name, shm_prefix, strlen(shm_prefix)) == 0)
            shm_before[shm_before_count++] = strdup(entry->d_name);
    closedir(folder);
}

/* Returns whether a living process has mapped it: it belongs to a test that runs beside this one.
 */
static bool shm_in_use(const char *name)
{
    char wanted[512];
    snprintf(wanted, sizeof wanted, "%s/%s", shm_folder, name);
    bool found = false;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && !found && (entry = readdir(proc));) {
        char path[64], line[1024];
        long pid = strtol(entry->d_name, NULL, 10);
        if (pid <= 0)
            continue;
        snprintf(path, sizeof path, "/proc/%ld/maps", pid);
        FILE *maps = fopen(path, "re");
        while (maps && !found && fgets(line, sizeof line, maps))
            found = strstr(line, wanted) != NULL;
        if (maps)
            fclose(maps);
    }
    if (proc)
        closedir(proc);
    return found;
}

static bool shm_is_clean(void)
{
    bool clean = true;
    DIR *folder = opendir(shm_folder);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (strncmp(entry->d_name, shm_prefix, strlen(shm_prefix)) != 0 ||
            in_shm_before(entry->d_name) || shm_in_use(entry->d_name))
            continue;
        complain("left behind: %s/%s", shm_folder, entry->d_name);
        clean = false;
    }
    if (folder)
        closedir(folder);
    return clean;
}

/* --- the temporary folder --- */

static char temporary[4096];
static bool temporary_clean = true;

static void make_temporary(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(temporary, sizeof temporary, "%s/troupe-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(temporary))
        die(temporary);
    setenv("TMPDIR", temporary, 1);
}

static int report_and_remove(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    /* created by ThreadSanitizer, in a process that was killed while it started */
    bool runtime = strncmp(path + at->base, "tsan.rodata.", 12) == 0;
    if (at->level > 0 && !runtime) {
        complain("left behind: %s", path);
        temporary_clean = false;
    }
    remove(path);
    return 0;
}

static bool temporary_is_clean(void)
{
    nftw(temporary, report_and_remove, 16, FTW_DEPTH | FTW_PHYS);
    return temporary_clean;
}

/* --- the program --- */

static void run_program(char **command, pid_t parent, bool fixed_addresses)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_DIRTY);
    /* Tests kill processes on purpose: no core files. */
    setrlimit(RLIMIT_CORE, &(struct rlimit){0});
    if (fixed_addresses)
        personality(ADDR_NO_RANDOMIZE);
    execv(command[0], command);
    die(command[0]);
}

/* Returns the exit code of the program, 128 + signal, or EXIT_DIRTY if it ran out of time. */
static int wait_for_program(pid_t program, int64_t timeout_s)
{
    int64_t deadline = now_ms() + timeout_s * 1000;
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid == program && WIFSIGNALED(status)) {
            complain("killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
            return 128 + WTERMSIG(status);
        }
        if (pid == program)
            return WEXITSTATUS(status);
        if (pid > 0)
            continue; /* an orphan of the program */
        if (now_ms() >= deadline) {
            complain("no end after %lld s; killed:", (long long)timeout_s);
            kill_descendants(true);
            return EXIT_DIRTY;
        }
        pause_ms(2);
    }
}

int main(int argc, char **argv)
{
    int64_t timeout_s = 3600;
    bool fixed_addresses = false;
    int next = 1;
    for (; next < argc && strncmp(argv[next], "--", 2) == 0; next++) {
        if (strcmp(argv[next], "--timeout") == 0 && next + 1 < argc)
            timeout_s = strtol(argv[++next], NULL, 10);
        else if (strcmp(argv[next], "--fixed-addresses") == 0)
            fixed_addresses = true;
        else if (strcmp(argv[next], "--shm") == 0 && next + 1 < argc)
            shm_prefix = argv[++next];
        else
            break;
    }
    if (next >= argc || strncmp(argv[next], "--", 2) == 0) {
        complain("usage: sandbox [--timeout SECONDS] [--fixed-addresses] [--shm PREFIX] PROGRAM "
                 "[ARGUMENT...]");
        return EXIT_DIRTY;
    }

    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        die("PR_SET_CHILD_SUBREAPER");
    snapshot_shm();
    make_temporary();

    pid_t self = getpid();
    pid_t program = fork();
    if (program < 0)
        die("fork");
    if (program == 0)
        run_program(argv + next, self, fixed_addresses);

    int code = wait_for_program(program, timeout_s);
    bool processes = processes_are_gone();
    bool shm = shm_is_clean();
    bool files = temporary_is_clean();
    return processes && shm && files ? code : EXIT_DIRTY;
}
