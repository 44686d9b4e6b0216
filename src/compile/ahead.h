/* Reads headers before they are asked for, by several threads: the first compile of a process with
 * certain folders waits for hundreds of them, one after the other, though most of what it takes is
 * hashing each. */
#ifndef TRP_COMPILE_AHEAD_H
#define TRP_COMPILE_AHEAD_H

#include "compile/headers.h"

/* Makes known (trp__jit_facts_of_file()) what a program includes, and what that includes; roughly:
 * what is missed is read later, what is too much is known for nothing. Does nothing for folders
 * that it was done for before (if that is going on, waits for its end), and where there is one
 * processor. Any thread. */
void trp__jit_headers_ahead(const trp__jit_program *program);

#endif
