/* Threads that share the pieces of one piece of work: one set for all of a process, as many as it
 * may use processors, the caller's own among them. They sleep while there is nothing to do.
 *
 * Which thread computes a piece, and when, is chance. So pieces must not depend on each other, and
 * results have the same bits for any number of threads if a piece's do not depend on who runs it.
 */
#ifndef TRP_BASE_OS_TEAM_H
#define TRP_BASE_OS_TEAM_H

#include <stdint.h>

enum { TRP__TEAM_THREADS_MAX = 64 };

/* Counts users. The first piece of work with more than one piece starts the threads; the last
 * close ends them, so nothing may be running. Any thread. */
void trp__team_open(void);
void trp__team_close(void);

/* Threads that may run pieces, the caller's among them: 1 to TRP__TEAM_THREADS_MAX. Without a user
 * there is only the caller's. */
int trp__team_width(void);

/* One piece, of number 0 to pieces - 1. `worker` is below trp__team_width(), and no two pieces of
 * one call run at the same time with the same one: scratch memory can be indexed by it. */
typedef void trp__team_piece(void *context, int64_t piece, int worker);

/* Runs all pieces, fewer than 2^31, and returns once they are done. A caller that comes while
 * another thread's work is being shared, or out of a piece, runs its pieces alone. */
void trp__team_run(trp__team_piece *run, void *context, int64_t pieces);

#endif
