/* Threads that share the pieces of a job: one team for the whole process, of as many threads as it
 * may use processors, the caller included. They sleep while there is no job.
 *
 * Any thread may compute a piece, at any time. So pieces must not depend on each other; results
 * have the same bits for any number of threads if those of a piece do not depend on `worker`. */
#ifndef TRP_BASE_OS_TEAM_H
#define TRP_BASE_OS_TEAM_H

#include <stdint.h>

enum { TRP__TEAM_THREADS_MAX = 64 };

/* Counts users. The first piece of work with more than one piece starts the threads; the last
 * close ends them, so nothing may be running. Any thread. */
void trp__team_open(void);
void trp__team_close(void);

/* Returns how many threads may run pieces, the caller included: 1 to TRP__TEAM_THREADS_MAX; 1
 * without a user. */
int trp__team_width(void);

/* One piece, of number 0 to pieces - 1. `worker` is below trp__team_width(), and no two pieces of
 * one call run at the same time with the same one: scratch memory can be indexed by it. */
typedef void trp__team_piece(void *context, int64_t piece, int worker);

/* Runs all pieces, fewer than 2^31, and returns once they are done. While another thread's job is
 * shared, and inside a piece, the caller runs its pieces alone. */
void trp__team_run(trp__team_piece *run, void *context, int64_t pieces);

#endif
