#include "cache/claim.h"

#include "base/os/clock.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/bytes.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Interval between attempts to lock: a compile takes a tenth of a second or more. */
#define LOOK_FIRST_NS (200 * TRP__US)
#define LOOK_LAST_NS  (10 * TRP__MS)

void trp__claims_init(trp__claims *claims)
{
    *claims = (trp__claims){0};
    pthread_mutex_init(&claims->lock, NULL);
}

void trp__claims_end(trp__claims *claims)
{
    pthread_mutex_destroy(&claims->lock);
}

/* Claims the key among the threads of this process. */
static trp__lock_result try_here(trp__store_claim *claim)
{
    trp__claims *claims = claim->claims;
    trp__lock_result result = TRP__LOCKED;
    pthread_mutex_lock(&claims->lock);
    for (trp__store_claim *c = claims->first; c; c = c->next) {
        if (c->at == claim->at && c->pid == claim->pid)
            result = TRP__LOCK_BUSY;
    }
    if (result == TRP__LOCKED) {
        claim->next = claims->first;
        claims->first = claim;
    }
    pthread_mutex_unlock(&claims->lock);
    return result;
}

static void leave_here(trp__store_claim *claim)
{
    trp__claims *claims = claim->claims;
    pthread_mutex_lock(&claims->lock);
    for (trp__store_claim **c = &claims->first; *c; c = &(*c)->next) {
        if (*c == claim) {
            *c = claim->next;
            break;
        }
    }
    pthread_mutex_unlock(&claims->lock);
}

static void close_lock(trp__store_claim *claim)
{
    if (claim->fd >= 0)
        close(claim->fd);
    claim->fd = -1;
}

/* Opens the file once for each claim: an OFD lock belongs to the open file description, so threads
 * exclude each other as processes do. */
static bool open_lock(trp__store_claim *claim, trp__disk *disk)
{
    int folder;
    if (trp__disk_folder(disk, true, &folder, NULL) != TRP_OK)
        return false;
    bool good = trp__disk_open_lock(folder, &claim->fd, NULL) == TRP_OK;
    if (!good)
        claim->fd = -1;
    close(folder);
    return good;
}

static trp__lock_result try_once(trp__store_claim *claim, trp__disk *disk)
{
    struct stat s;
    if (claim->fd < 0 && !open_lock(claim, disk))
        return try_here(claim);
    trp__lock_result result = trp__disk_lock(claim->fd, claim->at);
    if (result == TRP__LOCK_NONE) {
        close_lock(claim);
        return try_here(claim);
    }
    if (result == TRP__LOCKED && fstat(claim->fd, &s) == 0 && s.st_nlink == 0) {
        /* The folder was removed meanwhile: other processes lock a new file by now. */
        close_lock(claim);
        return TRP__LOCK_BUSY;
    }
    return result;
}

static trp_status wait_for(trp__store_claim *claim, trp__disk *disk, const trp__store_wait *wait,
                           trp_error *error)
{
    int64_t deadline = wait ? wait->deadline_ns : INT64_MAX, pause = LOOK_FIRST_NS;
    while (try_once(claim, disk) == TRP__LOCK_BUSY) {
        int64_t left = deadline - trp__now_ns();
        if (wait && wait->is_cancelled && wait->is_cancelled(wait->context))
            return trp__error_set(error, TRP_E_CANCELLED, "cancelled while another one makes it");
        if (left <= 0)
            return trp__error_set(error, TRP_E_TIMEOUT, "another one was still making it");
        trp__sleep_ns(pause < left ? pause : left);
        pause = 2 * pause < LOOK_LAST_NS ? 2 * pause : LOOK_LAST_NS;
    }
    return TRP_OK;
}

trp_status trp__claim_begin(trp__claims *claims, trp__disk *disk, const trp__hash *hash,
                            const trp__store_wait *wait, trp__store_claim **out, trp_error *error)
{
    trp__store_claim *claim = calloc(1, sizeof *claim);
    if (!claim)
        return trp__error_set(error, TRP_E_MEMORY, "no memory to wait for an entry of the cache");
    *claim = (trp__store_claim){.claims = claims,
                                .fd = -1,
                                .at = (int64_t)(trp__get64(hash->byte) & (TRP__LOCK_KEYS - 1)),
                                .pid = getpid()};
    trp_status status = wait_for(claim, disk, wait, error);
    if (status != TRP_OK) {
        close_lock(claim);
        free(claim);
        return status;
    }
    TRP__FAULT_POINT(CACHE_CLAIMED);
    *out = claim;
    return TRP_OK;
}

void trp__store_claim_end(trp__store_claim *claim)
{
    if (!claim)
        return;
    if (claim->fd < 0)
        leave_here(claim);
    else if (claim->pid == getpid())
        trp__disk_unlock(
            claim->fd,
            claim->at); /* unlocks although a forked child may still hold the descriptor */
    close_lock(claim);
    free(claim);
}
