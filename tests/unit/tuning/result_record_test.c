/* What the worker makes of records whose result has no room where they say: what no sender writes.
 */
#include "client/core/device.h"
#include "support/gate.h"
#include "support/harness.h"

#include <troupe/troupe.h>

enum { N = 8 };

/* A record that names room where there is none is refused by the worker. */
static void refused_by_the_worker(void)
{
    static const struct {
        uint32_t piece, bytes;
    } wrong[] = {
        {TRP__SMALL_COUNT + 1, 4}, {UINT32_MAX, 4}, {1, TRP__SMALL_BYTES + 1}, {1, UINT32_MAX}};
    h_world world = h_open(NULL);
    trp_actor *blas = h_actor(world.device, "blas");
    h_gate gate = h_gate_create(world.device, N * sizeof(float));
    trp_buffer ones = h_filled(world.device, N * sizeof(float), 0x3f800000);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        for (int64_t ns = 50 * H_MS;; ns *= 2) {
            float value = -1;
            trp_completion done = {0};
            trp_error error;
            h_gate_close(&gate, ns);
            trp_blas1_request r = {.type = TRP_F32, .n = N, .x = gate.buffer, .y = ones};
            r.value = &value;
            H_OK(trp_dot(blas, &r, &done));
            trp__record *record = &world.device->control->record[done.future.id & (TRP__SLOTS - 1)];
            record->piece = wrong[i].piece;
            record->piece_bytes = wrong[i].bytes;
            bool closed = h_gate_closed(&gate);
            h_gate_open(&gate);
            trp_status status = h_await(done.future, &error);
            if (!closed)
                continue;
            H_EQUAL(status, TRP_E_INTERNAL);
            H_SAYS("staging memory");
            H_CHECK(value == -1);
            break;
        }
    }
    h_close(&world);
}

H_CASES(H_CASE(refused_by_the_worker))
