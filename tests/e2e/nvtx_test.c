/* NVTX: a tool that is injected into the worker sees a range around each request, with its name. */
#include "support/harness.h"

#include <unistd.h>

static char log_path[256];

/* The tool beside this program's folder, where the build puts it. */
static bool find_tool(char *out, size_t size)
{
    char self[512];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        return false;
    self[length] = '\0';
    *strrchr(self, '/') = '\0';
    snprintf(out, size, "%s/../libnvtx-injection.so", self);
    return access(out, R_OK) == 0;
}

/* What the tool has written. The worker may have written it just before. */
static char *read_log(void)
{
    static char text[65536];
    FILE *file = fopen(log_path, "re");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[length] = '\0';
    return text;
}

static size_t count_lines(const char *text, const char *line)
{
    size_t count = 0;
    for (; (text = strstr(text, line)); text += strlen(line))
        count++;
    return count;
}

static void ranges(void)
{
    enum { SENT = 20 };
    char line[128];
    h_world w = h_open(NULL);
    trp_actor *probe = NULL;
    H_OK(trp_actor_create(w.device, &(trp_actor_options){.kind = "probe", .name = "my probe"},
                          &probe));
    trp_buffer b = h_buffer(w.device, 4096);
    H_OK(trp_fill(w.device, b, 0, 4096, 1, 1, NULL));
    H_OK(trp_device_drain(w.device, H_LONG));
    uint64_t before = h_info(w.device).requests_submitted;
    for (int i = 0; i < SENT; i++)
        h_probe(probe, i == 3 ? TRP_PROBE_LIBRARY_ERROR : TRP_PROBE_NOP, NULL);
    H_OK(trp_probe(probe, &(trp_probe_request){.header.label = "layer 3"}, NULL));
    H_OK(trp_device_drain(w.device, H_LONG));
    h_close(&w); /* the worker has left its last range */

    const char *text = read_log();
    if (strstr(text, "bad"))
        h_fail(__FILE__, __LINE__, "the tool says: %s", text);
    for (uint64_t ticket = before + 1; ticket <= before + SENT; ticket++) {
        snprintf(line, sizeof line, "push troupe 0 my probe probe #%" PRIu64 " (%" PRIu64 ")\n",
                 ticket, ticket);
        H_EQUAL(count_lines(text, line), 1);
    }
    snprintf(line, sizeof line,
             "push troupe 0 my probe probe #%" PRIu64 " \"layer 3\" (%" PRIu64 ")\n",
             before + SENT + 1, before + SENT + 1);
    H_EQUAL(count_lines(text, line), 1);
    H_CHECK(strstr(text, "push troupe 0 local fill #"));
    H_EQUAL(count_lines(text, "push troupe "), count_lines(text, "pop troupe 0\n"));
    H_EQUAL(count_lines(text, "pop "), count_lines(text, "pop troupe 0\n"));
}

/* A worker in a process of its own decides anew: a tool that does not want, a file that is none. */
static void no_tool(void)
{
    if (h_isolation() == TRP_ISOLATION_THREAD)
        h_skip("a process loads its tool once");
    char tool[600];
    snprintf(tool, sizeof tool, "%s", getenv("NVTX_INJECTION64_PATH"));
    static const char *const paths[] = {"", "/nonexistent/tool.so", "/dev/null"};
    for (size_t i = 0; i <= sizeof paths / sizeof *paths; i++) {
        bool refuse = i == sizeof paths / sizeof *paths;
        unlink(log_path);
        setenv("NVTX_INJECTION64_PATH", refuse ? tool : paths[i], 1);
        if (refuse)
            setenv("TROUPE_TEST_NVTX_REFUSE", "1", 1);
        h_world w = h_open(NULL);
        trp_actor *probe = h_actor(w.device, "probe");
        trp_completion c = {0};
        h_probe(probe, TRP_PROBE_NOP, &c);
        H_OK(h_await_any(c));
        h_close(&w);
        H_CHECK(!strstr(read_log(), "push"));
    }
    unsetenv("TROUPE_TEST_NVTX_REFUSE");
    setenv("NVTX_INJECTION64_PATH", tool, 1);
}

int main(int argc, char **argv)
{
    static const h_case cases[] = {H_CASE(ranges), H_CASE(no_tool)};
    char tool[600];
    const char *folder = getenv("TMPDIR");
    if (!find_tool(tool, sizeof tool)) {
        printf("skipped: the tool %s was not built\n", tool);
        return H_EXIT_SKIPPED;
    }
    snprintf(log_path, sizeof log_path, "%s/troupe-nvtx-%d", folder ? folder : "/tmp",
             (int)getpid());
    setenv("NVTX_INJECTION64_PATH", tool, 1);
    setenv("TROUPE_TEST_NVTX_LOG", log_path, 1);
    int status = h_main(argc, argv, cases, sizeof cases / sizeof *cases);
    unlink(log_path);
    return status;
}
