#include "support/plan_bed.h"

#include "support/folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

plan_bed pb;

static h_world open_world(void)
{
    trp_device_options options = h_options();
    options.standby = TRP_STANDBY_OFF; /* one worker, hence one line of counts */
    options.proof = TRP_PROOF_OFF;
    return h_open(&options);
}

void pb_open(void)
{
    pb.world = open_world();
    pb.matmul = h_actor(pb.world.device, "matmul");
    pb.a = h_filled(pb.world.device, PB_BYTES, 0);
    pb.b = h_filled(pb.world.device, PB_BYTES, 0);
    pb.d = h_filled(pb.world.device, PB_BYTES, 0);
    pb.extra = h_filled(pb.world.device, PB_BYTES, 0);
}

void pb_close(void)
{
    h_close(&pb.world);
}

trp_matmul_request pb_plain(void)
{
    return (trp_matmul_request){.m = PB_SIDE,
                                .n = PB_SIDE,
                                .k = PB_SIDE,
                                .trans_a = TRP_T,
                                .a = {.buffer = pb.a, .type = TRP_BF16},
                                .b = {.buffer = pb.b},
                                .d = {.buffer = pb.d}};
}

trp_status pb_run(const trp_matmul_request *request)
{
    trp_completion c = {0};
    trp_status sent = trp_matmul(pb.matmul, request, &c);
    return sent == TRP_OK ? h_await_any(c) : sent;
}

trp_status pb_run_tuned(trp_tune tune)
{
    trp_matmul_request r = pb_plain();
    r.tune = tune;
    return pb_run(&r);
}

size_t pb_all_counts(pb_counts *out, size_t room)
{
    pb_counts next;
    size_t count = 0;
    FILE *file = fopen(pb.counts_file, "r");
    if (!file)
        return 0;
    while (fscanf(file, "heuristics %llu checks %llu matmuls %llu left %llu\n", &next.heuristics,
                  &next.checks, &next.matmuls, &next.left) == 4) {
        H_EQUAL(next.left, 0);
        out[count++ % room] = next;
    }
    fclose(file);
    return count;
}

pb_counts pb_last_counts(void)
{
    pb_counts c;
    H_CHECK(pb_all_counts(&c, 1) > 0);
    return c;
}

void pb_empty_folder(void)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s' && mkdir -m 700 '%s'", pb.folder, pb.folder);
    H_EQUAL(system(command), 0);
}

void pb_find_record(char path[256])
{
    char entries[128];
    snprintf(entries, sizeof entries, "%s/store", pb.folder);
    H_EQUAL(h_folder_count(entries, "", ".entry"), 1);
    H_CHECK(h_folder_find(entries, ".entry", path, 256));
}

int pb_hold_searches(void)
{
    char path[128];
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = INT64_C(1) << 62};
    snprintf(path, sizeof path, "%s/store", pb.folder);
    H_CHECK(mkdir(path, 0700) == 0);
    snprintf(path, sizeof path, "%s/store/lock", pb.folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    H_CHECK(fd >= 0 && fcntl(fd, F_OFD_SETLK, &all) == 0);
    return fd;
}

int pb_main(int argc, char **argv, const h_case *cases, size_t count)
{
    h_need_process_isolation();
    if (!h_is_cuda()) {
        printf("skipped: the host makes no plans\n");
        return H_EXIT_SKIPPED;
    }
    snprintf(pb.folder, sizeof pb.folder, "/tmp/troupe-plans-%d", (int)getpid());
    snprintf(pb.counts_file, sizeof pb.counts_file, "%s-counts", pb.folder);
    setenv("TROUPE_CACHE_DIR", pb.folder, 1);
    setenv("FAKE_CUBLASLT_COUNTS", pb.counts_file, 1);
    pb_empty_folder();
    int result = h_main(argc, argv, cases, count);
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s' '%s'", pb.folder, pb.counts_file);
    return system(command) == 0 ? result : 1;
}
