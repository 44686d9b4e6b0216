/* Observers: find the memory files of another process's devices through /proc/PID/fd and map them
 * for reading. The files are not trusted: each must be sealed against shrinking (so no access can
 * fault), and of our version and size; view.c bounds the numbers in it. */
#include "base/call.h"
#include "base/os/descriptor.h"
#include "base/error.h"
#include "base/os/poll.h"
#include "base/os/shm.h"
#include "base/text.h"
#include "client/observe/observe.h"

#include <troupe/version.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILE_PREFIX "/memfd:troupe-"

/* One device of the process. */
typedef struct attachment {
    bool seen; /* in this round */
    uint64_t inode;
    uint64_t reply_inode;
    trp__view view; /* stats is NULL: a free place */
} attachment;

struct trp_observer {
    int64_t pid;
    int pidfd; /* detects that the pid was reused */
    attachment device[TRP__DEVICES];
};

static trp_status ended(const trp_observer *o)
{
    return trp__fail(TRP_E_MISSING, "process %lld has ended", (long long)o->pid);
}

static bool has_ended(const trp_observer *o)
{
    struct pollfd p = {.fd = o->pidfd, .events = POLLIN};
    return trp__poll(&p, 1, 0) > 0;
}

static trp_status no_access(int64_t pid, int code)
{
    if (code == ENOENT || code == ESRCH)
        return trp__fail(TRP_E_MISSING, "there is no process %lld", (long long)pid);
    if (code == EACCES || code == EPERM)
        return trp__fail(TRP_E_SYSTEM,
                         "process %lld: not allowed to look at its files; that takes its user, or "
                         "root",
                         (long long)pid);
    return trp__fail(TRP_E_SYSTEM, "process %lld: %s", (long long)pid, strerror(code));
}

/* Returns whether a descriptor of the process is a file whose name begins like this. */
static bool links_to(int folder, const char *entry, const char *name)
{
    char link[64];
    size_t length = strlen(name);
    return readlinkat(folder, entry, link, sizeof link) >= (ssize_t)length &&
           memcmp(link, name, length) == 0;
}

/* Returns whether a descriptor of the process is the figures of a device; *inode then names the
 * device. */
static bool is_device(int folder, const char *entry, uint64_t *inode)
{
    struct stat st;
    if (!links_to(folder, entry, "/memfd:" TRP__STATS_FILE) || fstatat(folder, entry, &st, 0) != 0)
        return false;
    *inode = (uint64_t)st.st_ino;
    return *inode != 0;
}

static DIR *open_folder(int64_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/fd", (long long)pid);
    return trp__folder_apart(path);
}

trp_status trp_observer_open(int64_t pid, trp_observer **out)
{
    TRP__CALL(trp__call_refused());
    if (!out)
        return trp__fail_null("out");
    if (pid <= 0 || pid > INT32_MAX)
        return trp__fail(TRP_E_ARGUMENT, "pid: expected the number of a process, got %lld",
                         (long long)pid);
    int pidfd = trp__descriptor_apart((int)syscall(SYS_pidfd_open, (pid_t)pid, 0));
    if (pidfd < 0)
        return no_access(pid, errno);
    DIR *folder = open_folder(pid);
    if (!folder) {
        int code = errno;
        close(pidfd);
        return no_access(pid, code);
    }
    closedir(folder);
    trp_observer *o = calloc(1, sizeof *o);
    if (!o) {
        close(pidfd);
        return trp__fail(TRP_E_MEMORY, "no memory for an observer");
    }
    o->pid = pid;
    o->pidfd = pidfd;
    *out = o;
    return TRP_OK;
}

static void unmap_reply(attachment *a)
{
    trp__shm_unmap((void *)a->view.reply, TRP__REPLY_BYTES);
    a->view.reply = NULL;
    a->reply_inode = 0;
}

static void detach(attachment *a)
{
    unmap_reply(a);
    trp__shm_unmap((void *)a->view.control, TRP__CONTROL_BYTES);
    trp__shm_unmap((void *)a->view.stats, TRP__STATS_BYTES);
    memset(a, 0, sizeof *a);
}

void trp_observer_close(trp_observer *o)
{
    TRP__CALL();
    if (!o)
        return;
    for (uint32_t i = 0; i < TRP__DEVICES; i++)
        detach(&o->device[i]);
    close(o->pidfd);
    free(o);
}

/* Maps one of the process's memory files. Checks the link first, since opening another file could
 * have side effects. inode 0: any. NULL: not possible; `error` says why. */
static const void *map_file(int folder, const char *entry, uint64_t *inode, uint64_t bytes,
                            uint64_t magic, trp_error *error)
{
    struct stat st;
    void *map = NULL;
    if (!links_to(folder, entry, FILE_PREFIX))
        return NULL;
    int fd =
        trp__descriptor_apart(openat(folder, entry, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (fd < 0) {
        trp__error_set_errno(error, "opening a memory file of the process");
        return NULL;
    }
    int seals = fcntl(fd, F_GET_SEALS); /* without F_SEAL_SHRINK it is being made, or not ours */
    if (fstat(fd, &st) != 0 || (*inode != 0 && (uint64_t)st.st_ino != *inode) || seals < 0 ||
        !(seals & F_SEAL_SHRINK) || trp__shm_map(fd, bytes, false, NULL, &map, error) != TRP_OK) {
        close(fd);
        return NULL;
    }
    close(fd);
    *inode = (uint64_t)st.st_ino;
    trp__block_head head = *(const volatile trp__block_head *)map;
    if (head.magic == magic && head.abi == TRP__ABI && head.bytes <= bytes)
        return map;
    head.version[sizeof head.version - 1] = '\0';
    trp__text_clean(head.version);
    if (head.magic == magic)
        trp__error_set(error, TRP_E_VERSION,
                       "the process uses Troupe %s (ABI %u), this is %s (ABI %u)", head.version,
                       head.abi, TRP_VERSION_STRING, TRP__ABI);
    trp__shm_unmap(map, bytes);
    return NULL;
}

static const void *map_named(int folder, const trp__stats_file *file, uint64_t bytes,
                             trp_error *error)
{
    char entry[16];
    uint64_t inode = atomic_load(&file->inode);
    snprintf(entry, sizeof entry, "%d", atomic_load(&file->fd));
    return inode ? map_file(folder, entry, &inode, bytes, TRP__MAGIC, error) : NULL;
}

/* Maps the blocks that an attachment still lacks; a new incarnation has another reply block. A
 * failure, because the process is changing them, is tried again in the next round. */
static void follow(attachment *a, int folder)
{
    trp_error error;
    const trp__stats *stats = a->view.stats;
    uint64_t reply = atomic_load(&stats->reply.inode);
    if (!a->view.control)
        a->view.control = map_named(folder, &stats->control, TRP__CONTROL_BYTES, &error);
    if (reply == a->reply_inode)
        return;
    const void *map = map_named(folder, &stats->reply, TRP__REPLY_BYTES, &error);
    if (!map)
        return;
    unmap_reply(a);
    a->view.reply = map;
    a->reply_inode = reply;
}

static attachment *find(trp_observer *o, uint64_t inode)
{
    for (uint32_t i = 0; i < TRP__DEVICES; i++) {
        if (o->device[i].inode == inode)
            return &o->device[i];
    }
    return NULL;
}

/* Attaches to the device of one descriptor of the process, if it is one. */
static void visit(trp_observer *o, int folder, const char *entry, trp_error *error)
{
    uint64_t inode;
    if (!is_device(folder, entry, &inode))
        return;
    attachment *a = find(o, inode);
    if (!a && (a = find(o, 0))) {
        a->view.stats = map_file(folder, entry, &inode, TRP__STATS_BYTES, TRP__STATS_MAGIC, error);
        a->inode = a->view.stats ? inode : 0;
    }
    if (a && a->view.stats) {
        a->seen = true;
        follow(a, folder);
    }
}

/* Attaches to new devices, detaches from closed ones. */
static trp_status look(trp_observer *o, trp_error *error)
{
    DIR *folder = open_folder(o->pid);
    if (!folder)
        return has_ended(o) ? ended(o) : no_access(o->pid, errno);
    for (uint32_t i = 0; i < TRP__DEVICES; i++)
        o->device[i].seen = false;
    for (struct dirent *entry; (entry = readdir(folder));)
        visit(o, dirfd(folder), entry->d_name, error);
    closedir(folder);
    for (uint32_t i = 0; i < TRP__DEVICES; i++) {
        if (!o->device[i].seen)
            detach(&o->device[i]);
    }
    return TRP_OK;
}

trp_status trp_observer_read(trp_observer *o, trp_device_stats *out, size_t capacity, size_t *count)
{
    TRP__CALL(trp__call_refused());
    if (!o || !count || (!out && capacity > 0))
        return trp__fail_null(!o ? "observer" : !count ? "count" : "out");
    trp_error error = {0};
    trp_status status = look(o, &error);
    if (status == TRP_OK && has_ended(o)) /* the pid may be reused by now */
        status = ended(o);
    if (status != TRP_OK)
        return status;
    size_t n = 0;
    for (uint32_t i = 0; i < TRP__DEVICES; i++) {
        attachment *a = &o->device[i];
        if (!a->view.stats)
            continue;
        if (n < capacity)
            trp__view_read(&a->view, &out[n]);
        n++;
    }
    *count = n;
    return n == 0 && error.status == TRP_E_VERSION ? trp__error_raise(&error) : TRP_OK;
}

/* Finding processes. */

/* A process and a device that it has open; devices are identified by the inodes of their figures.
 */
typedef struct holder {
    int64_t pid;
    uint64_t inode;
} holder;

typedef struct holders {
    holder *item;
    size_t count, room;
} holders;

static bool add_holder(holders *all, int64_t pid, uint64_t inode)
{
    if (all->count == all->room) {
        const size_t room = all->room ? 2 * all->room : 64;
        holder *item = realloc(all->item, room * sizeof *item);
        if (!item)
            return false;
        all->item = item;
        all->room = room;
    }
    all->item[all->count++] = (holder){.pid = pid, .inode = inode};
    return true;
}

/* Adds the devices of one process. Processes that the caller may not inspect are skipped. */
static bool look_for_devices(int64_t pid, holders *all)
{
    DIR *folder = open_folder(pid);
    bool ok = true;
    if (!folder)
        return true;
    for (struct dirent *entry; ok && (entry = readdir(folder));) {
        uint64_t inode;
        if (is_device(dirfd(folder), entry->d_name, &inode))
            ok = add_holder(all, pid, inode);
    }
    closedir(folder);
    return ok;
}

static int compare_inodes(const void *a, const void *b)
{
    const holder *x = a, *y = b;
    return x->inode != y->inode ? (x->inode > y->inode) - (x->inode < y->inode)
                                : (x->pid > y->pid) - (x->pid < y->pid);
}

static int compare_pids(const void *a, const void *b)
{
    const holder *x = a, *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

/* Leaves the first holder of each device: a forked child has its parent's descriptors, and, unless
 * pids have wrapped around, a higher pid. Then leaves one entry for each process. */
static size_t leave_owners(holders *all)
{
    size_t devices = 0, processes = 0;
    if (all->count == 0)
        return 0;
    qsort(all->item, all->count, sizeof *all->item, compare_inodes);
    for (size_t i = 0; i < all->count; i++) {
        if (devices == 0 || all->item[i].inode != all->item[devices - 1].inode)
            all->item[devices++] = all->item[i];
    }
    qsort(all->item, devices, sizeof *all->item, compare_pids);
    for (size_t i = 0; i < devices; i++) {
        if (processes == 0 || all->item[i].pid != all->item[processes - 1].pid)
            all->item[processes++] = all->item[i];
    }
    return processes;
}

trp_status trp_observer_find(int64_t *pids, size_t capacity, size_t *count)
{
    TRP__CALL(trp__call_refused());
    holders all = {0};
    bool ok = true;
    if (!count || (!pids && capacity > 0))
        return trp__fail_null(count ? "pids" : "count");
    DIR *folder = trp__folder_apart("/proc");
    if (!folder)
        return trp__fail(TRP_E_SYSTEM, "/proc: %s", strerror(errno));
    for (struct dirent *entry; ok && (entry = readdir(folder));) {
        char *end;
        const long long pid = strtoll(entry->d_name, &end, 10);
        if (pid > 0 && *end == '\0')
            ok = look_for_devices(pid, &all);
    }
    closedir(folder);
    const size_t found = ok ? leave_owners(&all) : 0;
    for (size_t i = 0; i < found && i < capacity; i++)
        pids[i] = all.item[i].pid;
    free(all.item);
    if (!ok)
        return trp__fail(TRP_E_MEMORY, "no memory for a list of processes");
    *count = found;
    return TRP_OK;
}
