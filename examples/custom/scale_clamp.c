/* Uses the actor of scale_clamp_actor.c on a GPU if there is one, else on the processor, and
 * compares with plain C.  Usage: scale_clamp PATH_OF_SCALE_CLAMP_ACTOR.SO [-thread]
 * With -thread the actor runs in this process, where a debugger finds it. */
#include "scale_clamp.h"

#include <troupe/troupe.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 100003 };

static float x[N], out[N];

int main(int argc, char **argv)
{
    trp_system *system = NULL;
    trp_device *device = NULL;
    trp_actor *actor = NULL;
    trp_device_info info;
    trp_completion done = {0};
    trp_buffer buffer[2];
    scale_clamp p = {.count = N, .scale = 0.25f, .shift = -3.0f, .low = -1.5f, .high = 40.0f};
    int wrong = 0;
    trp_device_options options = {.isolation = TRP_ISOLATION_PROCESS};
    if (argc == 3 && strcmp(argv[2], "-thread") == 0)
        options.isolation = TRP_ISOLATION_THREAD;
    else if (argc != 2) {
        fprintf(stderr, "usage: %s PATH_OF_SCALE_CLAMP_ACTOR.SO [-thread]\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 211) + 0.1f * (float)(i % 7);

    bool failed = trp_system_create(NULL, &system) || trp_device_open(system, &options, &device) ||
                  trp_device_get_info(device, &info) ||
                  trp_actor_create(device, &(trp_actor_options){.library = argv[1]}, &actor) ||
                  trp_buffer_create(device, sizeof x, &buffer[0]) ||
                  trp_buffer_create(device, sizeof out, &buffer[1]) ||
                  trp_write(device, buffer[0], 0, x, sizeof x, NULL);
    if (!failed) {
        trp_custom_request r = {.code = SCALE_CLAMP,
                                .payload = &p,
                                .payload_bytes = sizeof p,
                                .access_count = 2,
                                .access = {{.buffer = buffer[0], .mode = TRP_ACCESS_READ},
                                           {.buffer = buffer[1], .mode = TRP_ACCESS_COVER}}};
        failed = trp_custom(actor, &r, NULL) || /* the read waits for it: they share a buffer */
                 trp_read(device, buffer[1], 0, out, sizeof out, &done) ||
                 trp_await(done.future, TRP_FOREVER, NULL);
    }
    for (int i = 0; i < N && !failed; i++) {
        float expected = fminf(fmaxf(fmaf(p.scale, x[i], p.shift), p.low), p.high);
        wrong += !(out[i] == expected);
    }
    if (failed)
        fprintf(stderr, "failed: %s\n", trp_error_message());
    else
        printf("%s: %d of %d elements are wrong\n", trp_backend_name(info.backend), wrong, N);
    trp_actor_destroy(actor);
    trp_device_close(device);
    return trp_system_destroy(system) || failed || wrong;
}
