/* Limits of the process that are lowered while a device is open. */
#include "support/harness.h"

#include <sys/resource.h>

static void set_limit(rlim_t limit)
{
    struct rlimit now;
    H_CHECK(getrlimit(RLIMIT_NOFILE, &now) == 0);
    now.rlim_cur = limit;
    H_CHECK(setrlimit(RLIMIT_NOFILE, &now) == 0);
}

/* Fewer descriptors than are open: the death of the worker is noticed all the same, and the
 * standby, which needs no more of them, takes over. A next one can't be started until there are
 * more. */
static void fewer_descriptors(void)
{
    static const rlim_t limits[] = {1, 3, 8, 12};
    struct rlimit before;
    H_CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    h_world w = h_open(NULL);
    trp_actor *probe = h_actor(w.device, "probe");
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        trp_completion c = {0};
        h_await_standby(w.device);
        set_limit(limits[i]);
        h_probe(probe, TRP_PROBE_ABORT, &c);
        H_IS(h_await_any(c), TRP_E_FAULT);
        c = (trp_completion){0};
        h_probe(probe, TRP_PROBE_NOP, &c);
        H_OK(h_await_any(c));
        set_limit(before.rlim_cur);
    }
    h_close(&w);
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {{"fewer_descriptors", fewer_descriptors}};
    h_need_process_isolation();
    return h_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
