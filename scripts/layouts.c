/* Prints the layouts of memory shared by application and worker as tables of Markdown; layouts.sh
 * writes docs/layouts.md from it. A row has offset, bytes, field, meaning.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/layout.h"
#include "wire/message.h"
#include "wire/stats.h"

#include <stddef.h>
#include <stdio.h>

static const char *grouped(size_t number)
{
    static char text[4][32];
    static int next;
    char digits[24], *to = text[next = (next + 1) % 4];
    const size_t count = (size_t)snprintf(digits, sizeof digits, "%zu", number);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = 0;
    return text[next];
}

static void row(size_t offset, size_t bytes, const char *field, const char *what)
{
    printf("| %s | %s | `%s` | %s |\n", grouped(offset), grouped(bytes), field, what);
}

static void table(const char *title, const char *type, size_t bytes)
{
    printf("\n%s, `%s`, %s bytes:\n\n| offset | bytes | field | |\n| --- | --- | --- | --- |\n",
           title, type, grouped(bytes));
}

#define TABLE(title, t)   table(title, #t, sizeof(t))
#define ROW(t, f, what)   row(offsetof(t, f), sizeof((t *)0)->f, #f, what)
#define ITEMS(t, f, what) row(offsetof(t, f), sizeof((t *)0)->f, #f "[]", what)

static void control(void)
{
    TABLE("Control block", trp__control);
    ROW(trp__control, head, "magic, ABI version, size, version string; compared before all else");
    ROW(trp__control, backend, "");
    ROW(trp__control, ordinal, "which GPU");
    ROW(trp__control, isolation, "");
    ROW(trp__control, proof, "a `trp_proof`");
    ROW(trp__control, restart_window_ns, "in which restarts of actors are counted");
    ROW(trp__control, resume_start, "the ticket with which a new worker begins in the ring");
    ROW(trp__control, resume_alone, "how many of `resume` run one at a time");
    ROW(trp__control, resume_count, "");
    ITEMS(trp__control, resume, "request slots that it takes before");
    ROW(trp__control, promoted, "a futex: the incarnation that takes requests");
    ROW(trp__control, tracing, "not 0 while both sides note times");
    ROW(trp__control, doorbell, "a futex; on a pair of cache lines of its own");
    ROW(trp__control, next_ticket, "");
    ITEMS(trp__control, piece_ready, "of each piece of staging memory, on lines of their own");
    ITEMS(trp__control, ring, "the submission ring");
    ITEMS(trp__control, record, "requests");
    ITEMS(trp__control, buffer, "buffers: generation, arena, offset, bytes, protection");
    ROW(trp__control, rehearsed_count, "of all requests stored for standbys");
    ITEMS(trp__control, rehearsed, "the last of them");
}

static void reply(void)
{
    TABLE("Reply block", trp__reply);
    ROW(trp__reply, head, "");
    ROW(trp__reply, sleeping, "the scheduler needs the doorbell");
    ROW(trp__reply, taken, "tickets below this were taken from the ring");
    ROW(trp__reply, fault_present, "`fault` is complete");
    ROW(trp__reply, fault_time_ns, "when it was reported, CLOCK_MONOTONIC");
    ROW(trp__reply, starting, "1 + the actor that the side thread is making");
    ROW(trp__reply, again, "counts answers that a request is to be handed over again");
    ROW(trp__reply, fault, "the worker's last words, a `trp_error`");
    ITEMS(trp__reply, issued, "the last ticket of each actor that was, or is being, issued");
    ITEMS(trp__reply, waiting, "the request of each actor that it has done nothing for yet, or 0");
    ITEMS(trp__reply, timelines.timeline, "tickets of each actor up to this are done");
    ITEMS(trp__reply, timelines.stream_done, "chunks of large copies that the device has copied");
    ITEMS(trp__reply, error, "of each slot: ticket, status, code, domain, cause, message");
    ITEMS(trp__reply, issue_stamp, "of each slot: ticket and time of issue");
    ITEMS(trp__reply, progress, "of each actor: a count, then stamps");
}

static void record(void)
{
    TABLE("Request", trp__record);
    ROW(trp__record, ticket, "written last");
    ROW(trp__record, op, "");
    ROW(trp__record, actor, "");
    ROW(trp__record, access_count, "");
    ROW(trp__record, ended, "a futex");
    ROW(trp__record, sleepers, "on it");
    ROW(trp__record, refuse, "a status, found too late to refuse the call");
    row(offsetof(trp__record, refuse) + sizeof((trp__record *)0)->refuse, 1, "timed, sampled",
        "it has a deadline; its times are noted");
    ROW(trp__record, labelled, "the sender gave it a label");
    ROW(trp__record, begun, "its outputs may be half-written unless it succeeds");
    ROW(trp__record, cause, "the request because of which it is refused");
    ROW(trp__record, cancelled, "the record's own ticket if it shall not be issued");
    ROW(trp__record, code, "of a custom request");
    ROW(trp__record, payload_bytes, "likewise");
    ROW(trp__record, piece, "1 + the piece of staging memory for a result or input");
    ROW(trp__record, piece_bytes, "");
    ITEMS(trp__record, payload, "the actor's own");
    ITEMS(trp__record, access, "what it reads and writes");
    ITEMS(trp__record, label, "untouched without one");
    ROW(trp__record, acked_last, "of the failures that its sender has acknowledged");
    ITEMS(trp__record, acked, "a bit for each of the tickets before it");
    TABLE("Access", trp__access);
    ROW(trp__access, slot, "in the buffer table");
    ROW(trp__access, generation, "that the slot must have");
    ROW(trp__access, offset, "in the buffer");
    ROW(trp__access, bytes, "");
    ROW(trp__access, mode, "1 reads, 2 writes, 4 writes all of the range and reads none");
    ROW(trp__access, whole, "the range is all of the buffer");
    ROW(trp__access, accepted_high,
        "the last failed request whose failure was acknowledged, upper bits");
    ROW(trp__access, accepted_low, "lower bits");
}

static void message(void)
{
    TABLE("Message", trp__message);
    ROW(trp__message, magic, "");
    ROW(trp__message, abi, "");
    ITEMS(trp__message, version, "");
    ROW(trp__message, type, "");
    ROW(trp__message, id, "");
    ROW(trp__message, about, "");
    ROW(trp__message, bytes, "");
    ROW(trp__message, protection, "number of a change of an arena's mapping");
    ITEMS(trp__message, text, "the kind of an actor");
    ITEMS(trp__message, library, "the path of an actor's shared object");
    ITEMS(trp__message, config, "the string for its `init`");
    ROW(trp__message, error, "");
}

int main(void)
{
    printf(
        "# Layouts\n\nThe memory that application and worker share, byte for byte, on x86-64 and aarch64. "
        "`scripts/layouts.sh` writes\nthis page; [protocol.md](protocol.md) says how it is used.\n"
        "\nABI version %u. Memory of a device, bytes: control block %s, reply block %s, "
        "staging %s, statistics %s.\n",
        TRP__ABI, grouped(TRP__CONTROL_BYTES), grouped(TRP__REPLY_BYTES),
        grouped(TRP__STAGING_BYTES), grouped(TRP__STATS_BYTES));
    control();
    reply();
    record();
    message();
    return 0;
}
