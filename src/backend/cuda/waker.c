/* Threads that wait for a stream by an interrupt, so that sleepers are woken without polling.
 * Started when a stream first needs one. */
#include "backend/cuda/accel.h"
#include "base/error.h"
#include "base/os/futex.h"
#include "base/os/thread.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/prctl.h>

struct trp__cuda_waker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    trp__cu_event event;
    _Atomic uint32_t *futex; /* of the sleepers to wake after the event; NULL: none */
    bool stop;
};

static void *waker_main(void *argument)
{
    trp__stream *stream = argument;
    trp__cuda_waker *w = stream->waker;
    prctl(PR_SET_NAME, "trp-waker"); /* by itself, see host_backend.c */
    trp__cuda_attach(stream->accel, NULL);
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->futex && !w->stop)
            pthread_cond_wait(&w->changed, &w->lock);
        if (w->stop)
            break;
        pthread_mutex_unlock(&w->lock);
        /* After a fault it returns at once; sleepers are woken as well. */
        trp__cuda_check(stream->accel, stream->accel->cu->cuEventSynchronize(w->event),
                        "cuEventSynchronize", NULL);
        trp__futex_wake(w->futex, INT_MAX);
        pthread_mutex_lock(&w->lock);
        w->futex = NULL;
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void free_waker(trp__accel *accel, trp__cuda_waker *w)
{
    trp__cuda_check(accel, accel->cu->cuEventDestroy_v2(w->event), "cuEventDestroy", NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static trp_status start_waker(trp__stream *stream, trp_error *error)
{
    trp__accel *accel = stream->accel;
    trp__cuda_waker *w = calloc(1, sizeof *w);
    if (!w)
        return trp__error_set(error, TRP_E_MEMORY, "no memory for a thread that waits");
    trp_status status =
        trp__cuda_check(accel,
                        accel->cu->cuEventCreate(&w->event, TRP__CU_EVENT_BLOCKING_SYNC |
                                                                TRP__CU_EVENT_DISABLE_TIMING),
                        "cuEventCreate", error);
    if (status != TRP_OK) {
        free(w);
        return status;
    }
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    stream->waker = w;
    int code = trp__thread_start(&w->thread, TRP__SIGNALS_BLOCKED, waker_main, stream);
    if (code != 0) {
        stream->waker = NULL;
        free_waker(accel, w);
        trp__error_set(error, TRP_E_SYSTEM, "a thread that waits can't be started");
        return TRP_E_SYSTEM;
    }
    return TRP_OK;
}

/* Called when the stream's work is done. */
void trp__cuda_waker_stop(trp__stream *stream)
{
    trp__cuda_waker *w = stream->waker;
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    free_waker(stream->accel, w);
}

trp_status trp__cuda_stream_wake(trp__stream *stream, _Atomic uint32_t *futex, trp_error *error)
{
    trp__accel *accel = stream->accel;
    trp_status status = TRP_OK;
    if (!stream->waker && (status = start_waker(stream, error)) != TRP_OK)
        return status;
    trp__cuda_waker *w = stream->waker;
    if (!w)
        return TRP_E_INTERNAL;
    pthread_mutex_lock(&w->lock);
    if (w->futex)
        status = TRP__AGAIN;
    else
        status = trp__cuda_check(accel, accel->cu->cuEventRecord(w->event, trp__cuda_tail(stream)),
                                 "cuEventRecord", error);
    if (status == TRP_OK) {
        w->futex = futex;
        pthread_cond_signal(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return status;
}
