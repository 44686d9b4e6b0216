#include "support/gate.h"

h_gate h_gate_create(trp_device *device, uint64_t bytes)
{
    h_gate gate = {.device = device, .blocker = h_actor(device, "probe")};
    gate.buffer = h_filled(device, bytes, 0);
    return gate;
}

void h_gate_behind(trp_actor *blocker, trp_buffer buffer)
{
    for (int i = 0; i < 800; i++)
        h_probe(blocker, TRP_PROBE_NOP, NULL);
    H_OK(trp_probe(blocker, &(trp_probe_request){.action = TRP_PROBE_NOP, .outputs = {buffer}},
                   NULL));
}

void h_gate_close(h_gate *gate, int64_t ns)
{
    H_CHECK(ns < 30 * H_SEC);
    H_OK(trp_device_drain(gate->device, H_LONG));
    gate->hold = (trp_completion){0};
    h_spin(gate->blocker, ns, &gate->hold);
    h_gate_behind(gate->blocker, gate->buffer);
}

bool h_gate_closed(const h_gate *gate)
{
    return trp_await(gate->hold.future, 0, NULL) == TRP_E_TIMEOUT;
}

void h_gate_open(h_gate *gate)
{
    trp_future_drop(gate->hold.future);
    H_OK(trp_device_drain(gate->device, H_LONG));
}
