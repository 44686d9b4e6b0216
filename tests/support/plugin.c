#include "support/plugin.h"

#include <string.h>
#include <unistd.h>

/* Looks in the nearest folder above the program that has plugins. */
const char *h_plugin(const char *name)
{
    static char path[1024];
    char folder[900];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (length < 0)
        h_fail(__FILE__, __LINE__, "/proc/self/exe can't be read");
    folder[length] = '\0';
    do {
        char *last = strrchr(folder, '/');
        if (!last)
            h_fail(__FILE__, __LINE__, "there is no plugin of that name");
        *last = '\0';
        snprintf(path, sizeof path, "%s/plugins/%s.so", folder, name);
    } while (access(path, R_OK) != 0);
    return path;
}

trp_actor *h_hostile(trp_device *device, const char *config)
{
    trp_actor *actor = NULL;
    H_OK(trp_actor_create(
        device, &(trp_actor_options){.library = h_plugin("hostile"), .config = config}, &actor));
    return actor;
}

trp_custom_request h_custom(uint32_t code, const uint32_t *payload, uint32_t words)
{
    return (trp_custom_request){.code = code, .payload = payload, .payload_bytes = words * 4};
}

void h_add_access(trp_custom_request *r, trp_buffer buffer, trp_access_mode mode)
{
    r->access[r->access_count++] = (trp_custom_access){.buffer = buffer, .mode = mode};
}

trp_status h_run(trp_actor *actor, const trp_custom_request *r, trp_error *error)
{
    trp_completion c = {0};
    H_OK(trp_custom(actor, r, &c));
    return h_await(c.future, error);
}

void h_works(trp_device *device, trp_actor *hostile, uint32_t value)
{
    enum { WORDS = 1000 };
    uint32_t got[WORDS];
    trp_buffer buffer = h_buffer(device, sizeof got);
    trp_custom_request r = h_custom(HOSTILE_FILL, &value, 1);
    h_add_access(&r, buffer, TRP_ACCESS_COVER);
    H_OK(h_run(hostile, &r, NULL));
    h_read(device, buffer, 0, got, sizeof got);
    for (int i = 0; i < WORDS; i++)
        H_EQUAL(got[i], value);
    H_OK(trp_buffer_free(device, buffer));
}

hostile_report h_report(trp_device *device, trp_actor *hostile)
{
    hostile_report got;
    trp_buffer buffer = h_buffer(device, sizeof got);
    trp_custom_request r = h_custom(HOSTILE_REPORT, NULL, 0);
    h_add_access(&r, buffer, TRP_ACCESS_COVER);
    H_OK(h_run(hostile, &r, NULL));
    h_read(device, buffer, 0, &got, sizeof got);
    H_OK(trp_buffer_free(device, buffer));
    return got;
}

const char *h_note_file(char *config, size_t size)
{
    const char *folder = getenv("TMPDIR");
    snprintf(config, size, "note:%s/troupe-test-%d", folder ? folder : "/tmp", (int)getpid());
    return config + strlen("note:");
}

size_t h_count_lines(const char *path, const char *line)
{
    char text[4096];
    size_t count = 0;
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[length] = '\0';
    for (const char *at = text; (at = strstr(at, line)); at += strlen(line))
        count++;
    return count;
}

void h_await_lines(const char *path, const char *line, size_t wanted)
{
    int64_t end = h_now() + H_LONG;
    while (h_count_lines(path, line) != wanted) {
        if (h_now() > end)
            h_fail(__FILE__, __LINE__, "%zu times %s in %s, expected %zu",
                   h_count_lines(path, line), line, path, wanted);
        h_sleep(H_MS);
    }
}
