#include "support/fake_cuda/settings.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int open_file(const char *name, int flags)
{
    char path[PATH_MAX];
    const char *folder = getenv("FAKE_CUTLASS");
    if (!folder || !folder[0])
        return -1;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return open(path, flags | O_CLOEXEC, 0600);
}

bool fake_setting(const char *name, char *out, size_t size)
{
    int file = open_file(name, O_RDONLY);
    out[0] = '\0';
    if (file < 0)
        return false;
    ssize_t n = read(file, out, size - 1);
    out[n < 0 ? 0 : n] = '\0';
    close(file);
    return true;
}

bool fake_setting_has(const char *name, int number)
{
    char list[64], *at = list;
    if (!fake_setting(name, list, sizeof list))
        return false;
    for (;;) {
        char *end;
        long one = strtol(at, &end, 10);
        if (end != at && one == number)
            return true;
        if (*end != ',')
            return false;
        at = end + 1;
    }
}

unsigned long fake_setting_number(const char *name)
{
    char text[32];
    fake_setting(name, text, sizeof text);
    return strtoul(text, NULL, 10);
}

void fake_report(const char *name, const char *line)
{
    char text[256];
    int file = open_file(name, O_WRONLY | O_APPEND | O_CREAT);
    if (file < 0)
        return;
    int n = snprintf(text, sizeof text, "%.250s\n", line);
    (void)!write(file, text, (size_t)n);
    close(file);
}

void fake_report_mine(const char *name, const char *line)
{
    char mine[64];
    snprintf(mine, sizeof mine, "%.40s_%lld", name, (long long)getpid());
    fake_report(mine, line);
}
