/* troupe top: shows the activity of devices; its options, and its terminal. */
#include "top.h"

#include "commands.h"
#include "ui/options.h"
#include "data/run.h"
#include "ui/ui.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { INTERVAL_MS = 500, INTERVAL_LEAST_MS = 50, INTERVAL_MOST_MS = 3600000 };

typedef struct top_choice {
    int64_t pid; /* 0: all processes */
    const char *interval;
    int interval_ms;
    bool once, json, prometheus;
} top_choice;

/* The terminal. */

static volatile sig_atomic_t interrupted, stopped;

static void note_signal(int number)
{
    if (number == SIGTSTP)
        stopped = 1;
    else if (number != SIGWINCH) /* SIGWINCH only ends the pause between two pictures */
        interrupted = 1;
}

typedef struct terminal {
    bool keys; /* standard input is a terminal and delivers single keys */
    struct termios before;
} terminal;

static void begin_keys(terminal *t)
{
    t->keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &t->before) == 0;
    struct termios raw = t->before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    t->keys = t->keys && tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

static void end_keys(const terminal *t)
{
    if (t->keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &t->before);
}

/* Ctrl-Z: restores the terminal for the shell. */
static void stop(terminal *t)
{
    stopped = 0;
    end_keys(t);
    raise(SIGSTOP);
    begin_keys(t);
    fputs("\033[2J", stdout);
}

/* Waits for the next picture. False: 'q' was pressed, or the program is to end. */
static bool pause_for(terminal *t, int ms)
{
    const uint64_t end = ui_now() + (uint64_t)ms * 1000000;
    for (uint64_t now = ui_now(); now < end && !interrupted && !stopped; now = ui_now()) {
        struct pollfd p = {.fd = t->keys ? STDIN_FILENO : -1, .events = POLLIN};
        char key[64];
        const int ready = poll(&p, 1, (int)((end - now) / 1000000) + 1);
        if (ready < 0)
            return !interrupted; /* redraw at once for a new size */
        if (ready == 0)
            continue;
        ssize_t n = read(STDIN_FILENO, key, sizeof key);
        if (n <= 0 && errno != EINTR)
            t->keys = false; /* standard input was closed */
        for (ssize_t i = 0; i < n; i++) {
            if (key[i] == 'q' || key[i] == 'Q')
                return false;
        }
    }
    return !interrupted;
}

/* Redraws from the upper left corner, cut to the terminal's present size. */
static void show_in_place(const top_screen *s)
{
    struct winsize size = {0};
    size_t rows = 24, row = 0;
    const size_t columns = ui_columns(STDOUT_FILENO);
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0)
        rows = size.ws_row;
    fputs("\033[H", stdout);
    for (const char *line = s->text; *line && row + 1 < rows; row++) {
        size_t length = strcspn(line, "\n");
        fwrite(line, 1, ui_cut(line, length, columns), stdout);
        fputs("\033[K\n", stdout);
        line += length + (line[length] == '\n');
    }
    fputs("\033[J", stdout);
    fflush(stdout);
}

/* Showing. */

static void make_picture(const top_choice *c, top_screen *page, const top_sample *earlier,
                         const top_sample *now, size_t columns)
{
    if (c->pid)
        top_show_process(page, c->pid, earlier, now, columns);
    else
        top_show_list(page, earlier, now, columns);
}

static bool print_metrics(const top_sample *s)
{
    size_t needed = 0;
    trp_stats_metrics(s->device, s->count, NULL, 0, &needed);
    char *text = malloc(needed);
    bool ok = text && run_check(trp_stats_metrics(s->device, s->count, text, needed, NULL),
                                "writing the metrics");
    if (ok)
        fputs(text, stdout);
    free(text);
    return ok;
}

static int show_once(const top_choice *c, top_watch *watch, top_sample *s, top_screen *page)
{
    if (!run_check(top_look(watch, s), "top"))
        return EXIT_FAILED;
    if (s->count == 0 && c->pid) {
        ui_error("top: process %lld has no open Troupe device", (long long)c->pid);
        return EXIT_FAILED;
    }
    if (c->prometheus)
        return print_metrics(s) ? EXIT_DONE : EXIT_FAILED;
    if (c->json && c->pid) {
        top_print_process(c->pid, s);
    } else if (c->json) {
        top_print_list(s);
    } else {
        make_picture(c, page, NULL, s, TOP_ANY_WIDTH);
        fputs(page->text, stdout);
    }
    return EXIT_DONE;
}

/* Shows pictures until the process ends, or somebody presses q or Ctrl-C. */
static int show_live(const top_choice *c, top_watch *watch, top_sample samples[2], top_screen *page)
{
    const top_sample *earlier = NULL;
    const bool in_place = ui_is_terminal();
    terminal t = {0};
    int status = EXIT_DONE;
    /* SA_RESTART completes a write in progress; the pause between two pictures is interrupted all
     * the same. */
    struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (in_place) {
        sigaction(SIGTSTP, &action, NULL);
        sigaction(SIGWINCH, &action, NULL);
        begin_keys(&t);
        fputs("\033[2J", stdout);
    }
    for (int i = 0; !interrupted; i = 1 - i) {
        top_sample *now = &samples[i];
        const trp_status seen = top_look(watch, now);
        if (seen == TRP_E_MISSING) {
            printf("troupe: %s\n", trp_error_message());
            break;
        }
        if (!run_check(seen, "top")) {
            status = EXIT_FAILED;
            break;
        }
        make_picture(c, page, earlier, now, in_place ? ui_columns(STDOUT_FILENO) : TOP_ANY_WIDTH);
        if (in_place)
            show_in_place(page);
        else
            printf("%s\n", page->text);
        earlier = now;
        if (!pause_for(&t, c->interval_ms))
            break;
        if (stopped)
            stop(&t);
        if (!in_place && (fflush(stdout) != 0 || ferror(stdout)))
            break;
    }
    end_keys(&t);
    if (in_place)
        printf("\n");
    return status;
}

static int look(const top_choice *c)
{
    top_watch watch = {0};
    top_sample samples[2] = {{0}};
    top_screen *page = malloc(sizeof *page);
    int status = EXIT_FAILED;
    bool live = !c->once && !c->json && !c->prometheus && (ui_is_terminal() || c->interval);
    if (!page)
        ui_error("top: no memory");
    else if (run_check(top_watch_begin(&watch, c->pid), "top"))
        status =
            live ? show_live(c, &watch, samples, page) : show_once(c, &watch, &samples[0], page);
    top_watch_end(&watch);
    top_forget(&samples[0]);
    top_forget(&samples[1]);
    free(page);
    return status;
}

static bool read_interval(top_choice *c)
{
    double seconds = INTERVAL_MS / 1000.0;
    if (c->interval && !options_real(c->interval, &seconds))
        return false;
    if (seconds * 1000 < INTERVAL_LEAST_MS || seconds * 1000 > INTERVAL_MOST_MS)
        return false;
    c->interval_ms = (int)(seconds * 1000);
    return true;
}

int command_top(int argc, char **argv)
{
    top_choice c = {0};
    const option options[] = {
        {'i', "interval", "SECONDS",
         "time between two pictures (default 0.5), also without a terminal", OPTION_TEXT,
         &c.interval, NULL},
        {0, "once", NULL, "show it once, as plain text", OPTION_FLAG, &c.once, NULL},
        {0, "json", NULL, "the same as JSON", OPTION_FLAG, &c.json, NULL},
        {0, "prometheus", NULL, "the same as metrics in Prometheus's text format", OPTION_FLAG,
         &c.prometheus, NULL},
    };
    const struct command command = {
        .name = "top",
        .operands = "[PID]",
        .about =
            "Lists the processes that have devices; or shows the activity of the devices of one:\n"
            "actors, the active ones first, queues, how long requests wait and run, what runs,\n"
            "memory, faults. It reads the processes' shared memory and does not disturb them. On "
            "a\n"
            "terminal it is refreshed twice a second, until the process ends or q is pressed.",
        OPTIONS_OF(options),
        .optional_count = 1,
    };
    int exit_status;
    if (!options_parse(&command, argc, argv, &exit_status))
        return exit_status;
    if (argv[1] && (!options_number(argv[1], &c.pid) || c.pid == 0 || c.pid > INT32_MAX))
        return options_reject(&command, "expected the number of a process, got '%s'", argv[1]);
    if (c.json && c.prometheus)
        return options_reject(&command, "--json and --prometheus contradict each other");
    if (c.interval && (c.once || c.json || c.prometheus))
        return options_reject(&command, "--interval and --%s contradict each other",
                              c.once   ? "once"
                              : c.json ? "json"
                                       : "prometheus");
    if (!read_interval(&c))
        return options_reject(&command, "--interval: expected 0.05 to 3600 SECONDS, got '%s'",
                              c.interval);
    return look(&c);
}
