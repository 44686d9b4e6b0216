/* Reads headers ahead of a compile with several threads. The first compile of a process with
 * certain folders reads hundreds of headers one after the other, and most of that time goes into
 * hashing. */
#ifndef TRP_COMPILE_AHEAD_H
#define TRP_COMPILE_AHEAD_H

#include "compile/headers.h"

/* Scans what a program includes, transitively, so that trp__include_scan_file() knows it. It is
 * approximate: a missed header is read later, a superfluous one costs its reading. Returns at once
 * for folders that were read before and on one processor; waits for another thread that is reading
 * the same. Any thread. */
void trp__jit_headers_ahead(const trp__jit_program *program);

#endif
