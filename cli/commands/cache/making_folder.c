/* The temporary cache of a command: created, locked while the command lives, removed at its end;
 * folders of killed commands are removed, too. */
#include "make.h"
#include "ui/ui.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "troupe-pack-"
#define NAME   PREFIX "XXXXXX"

/* Another process may take a new, still unlocked folder for an abandoned one. */
enum { TRIES = 10 };

/* An interrupt only sets this flag: the command must go on to remove its folder. */
static volatile sig_atomic_t interrupted;

static void note_interrupt(int signal)
{
    interrupted = signal;
}

bool making_interrupted(void)
{
    return interrupted != 0;
}

static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction old, action = {.sa_handler = note_interrupt, .sa_flags = SA_RESTART};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        if (sigaction(signals[i], NULL, &old) == 0 &&
            old.sa_handler != SIG_IGN) /* ignored, for instance by nohup */
            sigaction(signals[i], &action, NULL);
    }
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *where)
{
    (void)s, (void)type, (void)where;
    return remove(path);
}

static int remove_all(const char *folder)
{
    return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* A lock on the folder itself; the kernel releases it when the process is killed. */
static int folder_lock = -1;

/* Opens and locks a folder of this user. -1: another kind of file, or locked; sets `unsure` where
 * locks don't work (some network file systems). */
static int lock_folder(const char *folder, bool *unsure)
{
    struct stat opened, named;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool locked = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
    *unsure = fd >= 0 && !locked && errno != EWOULDBLOCK;
    /* The folder may have been replaced in between. */
    if (locked && fstat(fd, &opened) == 0 && lstat(folder, &named) == 0 &&
        opened.st_dev == named.st_dev && opened.st_ino == named.st_ino &&
        opened.st_uid == geteuid())
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Removes folders of killed commands, which are unlocked. */
static void remove_left(const char *parent)
{
    char path[PATH_MAX];
    bool unsure;
    DIR *d = opendir(parent);
    for (const struct dirent *e; d && (e = readdir(d));) {
        int length = snprintf(path, sizeof path, "%s/%s", parent, e->d_name);
        if (strncmp(e->d_name, PREFIX, sizeof PREFIX - 1) != 0 ||
            strlen(e->d_name) != sizeof NAME - 1 || length < 0 || length >= PATH_MAX)
            continue;
        int fd = lock_folder(path, &unsure);
        if (fd < 0)
            continue;
        (void)remove_all(path); /* the next command tries again */
        close(fd);
    }
    if (d)
        closedir(d);
}

static bool make_locked(const char *parent, char folder[PATH_MAX])
{
    bool unsure = false;
    for (int i = 0; i < TRIES && folder_lock < 0 && !unsure; i++) {
        int length = snprintf(folder, PATH_MAX, "%s/" NAME, parent);
        if (length < 0 || length >= PATH_MAX) {
            errno = ENAMETOOLONG;
            return false;
        }
        if (!mkdtemp(folder))
            return false;
        folder_lock = lock_folder(folder, &unsure);
    }
    errno = EBUSY;
    return folder_lock >= 0 || unsure;
}

bool making_folder_make(char folder[PATH_MAX])
{
    const char *parent = secure_getenv("TMPDIR");
    catch_signals();
    if (!parent || parent[0] != '/')
        parent = "/tmp";
    remove_left(parent);
    if (make_locked(parent, folder) && setenv("TROUPE_CACHE_DIR", folder, 1) == 0 &&
        setenv("TROUPE_CACHE_SIZE", "1024T", 1) == 0 && /* keep everything for the pack */
        setenv("TROUPE_CACHE_PACKS", "", 1) == 0)
        return true;
    ui_error("a folder in %s: %s", parent, strerror(errno));
    folder[0] = '\0';
    return false;
}

void making_folder_remove(const char *folder)
{
    if (*folder && remove_all(folder) != 0)
        ui_error("%s: %s", folder, strerror(errno));
    if (folder_lock >= 0)
        close(folder_lock);
    folder_lock = -1;
}
