/* Innocent requests in flight when a kernel writes to an illegal address: 100 rounds on a GPU.
 * TROUPE_TEST_BACKEND=host runs it without one. */
#include "support/faults/innocents.h"

static void illegal_address(void)
{
    static const trp_probe_action actions[] = {TRP_PROBE_ILLEGAL_ADDRESS};
    h_innocents(100, actions, 1);
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {H_CASE(illegal_address)};
    setenv("TROUPE_TEST_BACKEND", "cuda", 0);
    h_need_process_isolation();
    return h_main(argc, argv, cases, 1);
}
