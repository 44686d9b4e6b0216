/* Provides a cache, kernels and processes to the sections about compiled kernels. */
#include "jit.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

char *jit_source(unsigned number, unsigned steps)
{
    char *text = NULL;
    int length = asprintf(&text,
                          "extern \"C\" __global__ void warm(float *out)\n"
                          "{\n"
                          "    float x = threadIdx.x + %uu, y = blockIdx.x;\n"
                          "    if (!out)\n"
                          "        return;\n"
                          "#pragma unroll\n"
                          "    for (int i = 0; i < %u; i++) {\n"
                          "        x = x * y + (float)i;\n"
                          "        y = y * x - (float)(i * 7 %% 1000);\n"
                          "    }\n"
                          "    out[threadIdx.x] = x + y;\n"
                          "}\n",
                          number, steps);
    return length < 0 ? NULL : text;
}

bool jit_begin(suite *s, jit_place *p)
{
    *p = (jit_place){0};
    if (!scratch_begin(s, &p->files))
        return false;
    scratch_path(&p->files, "cache", p->cache);
    scratch_path(&p->files, "warm.cu", p->file);
    scratch_path(&p->files, "kernels.txt", p->list);
    scratch_path(&p->files, "kernels.pack", p->pack);
    snprintf(p->target, sizeof p->target, "sm_%u",
             suite_on_gpu(s) ? s->info.compute_major * 10 + s->info.compute_minor : 90);
    setenv("TROUPE_CACHE_DIR", p->cache, 1);
    p->source = jit_source(0, JIT_STEPS);
    return p->source && scratch_write(s, p->file, p->source) &&
           scratch_write(s, p->list, "warm.cu --name warm\n");
}

void jit_end(jit_place *p)
{
    scratch_end(&p->files);
    free(p->source);
}

/* Starts this command as a process. Its output goes to a file or is dropped.
 */
static bool start_into(suite *s, const char *const *arguments, const char *output, pid_t *pid)
{
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
    errno = posix_spawn(pid, "/proc/self/exe", &quiet, NULL, (char *const *)(uintptr_t)arguments,
                        environ);
    posix_spawn_file_actions_destroy(&quiet);
    return errno == 0 || suite_failed(s, "starting troupe");
}

bool jit_start(suite *s, const char *const *arguments, pid_t *pid)
{
    return start_into(s, arguments, "/dev/null", pid);
}

bool jit_finish(suite *s, pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    snprintf(s->error, sizeof s->error, "a process that was started has failed");
    return false;
}

bool suite_run_into(suite *s, const char *const *arguments, const char *output)
{
    pid_t pid;
    return start_into(s, arguments, output, &pid) && jit_finish(s, pid);
}

bool suite_run(suite *s, const char *const *arguments)
{
    return suite_run_into(s, arguments, "/dev/null");
}
