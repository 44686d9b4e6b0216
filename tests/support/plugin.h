/* Actors from the libraries of tests/plugins. SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_PLUGIN_H
#define TESTS_SUPPORT_PLUGIN_H

#include "plugins/hostile.h"
#include "support/harness.h"

/* Returns the path of a library by its name, valid until the next call. Libraries are beside the
 * folder of the running test. */
const char *h_plugin(const char *name);

/* Creates an actor of the hostile library. */
trp_actor *h_hostile(trp_device *device, const char *config);

/* Return a request to it, and add an access to one. */
trp_custom_request h_custom(uint32_t code, const uint32_t *payload, uint32_t words);
void h_add_access(trp_custom_request *r, trp_buffer buffer, trp_access_mode mode);
/* Sends a request and waits for it. */
trp_status h_run(trp_actor *actor, const trp_custom_request *r, trp_error *error);
/* Fills a whole buffer with a word and checks the contents. */
void h_works(trp_device *device, trp_actor *hostile, uint32_t value);
/* Returns the actor's report. */
hostile_report h_report(trp_device *device, trp_actor *hostile);

/* Writes a configuration with which the actor writes notes; returns the path of the notes. */
const char *h_note_file(char *config, size_t size);
/* Count how often a file has a line, and wait for a number of them. */
size_t h_count_lines(const char *path, const char *line);
void h_await_lines(const char *path, const char *line, size_t wanted);

#endif
