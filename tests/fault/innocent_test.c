/* Innocent requests in flight at a fault; TROUPE_TEST_ROUNDS=100 for the long form. */
#include "support/faults/innocents.h"
#include "support/label.h"

TROUPE_TEST("many workers");

static void one_culprit(void)
{
    static const trp_probe_action actions[] = {
        TRP_PROBE_ILLEGAL_ADDRESS, TRP_PROBE_ABORT, TRP_PROBE_EXIT, TRP_PROBE_KILL,
        TRP_PROBE_OUT_OF_BOUNDS,   TRP_PROBE_TRAP};
    h_innocents(h_is_cuda() ? 12 : H_SANITIZED ? 6 : 18, actions, sizeof actions / sizeof *actions);
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {H_CASE(one_culprit)};
    h_need_process_isolation();
    return h_main(argc, argv, cases, 1);
}
