/* troupe top: its samples (top_watch.c) and their presentation (top_show.c, top_json.c). */
#ifndef TRP_CLI_COMMANDS_TOP_H
#define TRP_CLI_COMMANDS_TOP_H

#include <troupe/troupe.h>

/* A process that is watched. */
typedef struct top_process {
    int64_t pid;
    trp_observer *observer;
    bool listed; /* found in this round */
} top_process;

/* The watched processes: one, or all that have devices. */
typedef struct top_watch {
    int64_t pid; /* 0: all */
    top_process *process;
    size_t count, room;
} top_watch;

/* All devices at one moment; those of a process are adjacent. */
typedef struct top_sample {
    uint64_t time; /* 0: no sample yet */
    trp_device_stats *device;
    size_t count, room;
} top_sample;

/* Begins to watch a process; 0: all that this user may inspect. */
trp_status top_watch_begin(top_watch *watch, int64_t pid);
void top_watch_end(top_watch *watch);

/* Takes a sample. TRP_E_MISSING: the one process has ended. When all are watched, processes that
 * end or can't be inspected are skipped. */
trp_status top_look(top_watch *watch, top_sample *sample);
void top_forget(top_sample *sample);

/* Finds the same device in an earlier sample; NULL: absent. */
const trp_device_stats *top_device_before(const top_sample *earlier, const trp_device_stats *d);
/* Finds the same actor; likewise. */
const trp_actor_stats *top_actor_before(const trp_device_stats *earlier, const trp_actor_stats *a);

/* A screenful of text. */
enum { TOP_SCREEN_BYTES = 1 << 18, TOP_ANY_WIDTH = 400 };
typedef struct top_screen {
    size_t length;
    char text[TOP_SCREEN_BYTES];
} top_screen;

/* Writes a sample as text of so many columns: rates and times since the earlier sample, or without
 * one, times of all requests and no rates. */
void top_show_process(top_screen *s, int64_t pid, const top_sample *earlier, const top_sample *now,
                      size_t columns);
void top_show_list(top_screen *s, const top_sample *earlier, const top_sample *now, size_t columns);

const char *top_state_name(trp_device_state state);

void top_print_process(int64_t pid, const top_sample *sample); /* {"pid":...} and a newline */
void top_print_list(const top_sample *sample);                 /* {"processes":[...]} */

#endif
