/* Writes the header of a report: the conditions of the measurement. */
#include "suite.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static void describe_command(report *r, int argc, char **argv)
{
    char line[256] = "troupe";
    for (int i = 0; i < argc; i++) {
        size_t length = strlen(line);
        snprintf(line + length, sizeof line - length, " %s", argv[i]);
    }
    report_text(r, "command", "command", "%s", line);
}

static void describe_time(report *r)
{
    char date[40] = "unknown";
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc))
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    report_text(r, "date", "date", "%s", date);
}

/* Writes the release of the NVIDIA driver: the first word in the line "NVRM version: ..." that is a
 * number with a dot. */
static void describe_driver(report *r)
{
    char line[256] = "";
    const char *release = NULL;
    FILE *file = fopen("/proc/driver/nvidia/version", "r");
    if (file) {
        if (!fgets(line, sizeof line, file))
            line[0] = '\0';
        fclose(file);
    }
    char *rest = line;
    for (char *word; !release && (word = strsep(&rest, " \t\n")) != NULL;) {
        if (*word >= '0' && *word <= '9' && strchr(word, '.') &&
            strspn(word, "0123456789.") == strlen(word))
            release = word;
    }
    report_text(r, "driver", "driver", "%s", release ? release : "unknown");
}

static void describe_machine(suite *s)
{
    report *r = s->report;
    enum { MOST = 65 };
    static trp_device_info devices[MOST];
    size_t count = 0;
    if (trp_system_list_devices(s->system, devices, MOST, &count) != TRP_OK || count == 0 ||
        count > MOST)
        return;
    const trp_device_info *host = &devices[count - 1];
    report_text(r, "cpu", NULL, "%s", host->name);
    report_number(r, "cores", NULL, host->processors);
    printf("%-10s %s, %u cores\n", "cpu", host->name, host->processors);
}

static void describe_device(suite *s)
{
    const trp_device_info *info = &s->info;
    report *r = s->report;
    report_text(r, "backend", NULL, "%s", trp_backend_name(info->backend));
    if (!suite_on_gpu(s)) {
        report_text(r, "device", "device", "%s (host)", info->name);
        return;
    }
    report_text(r, "device", "device", "%s (cuda %u)", info->name, info->ordinal);
    report_text(r, "compute_capability", NULL, "%u.%u", info->compute_major, info->compute_minor);
    report_number(r, "device_memory_bytes", NULL, (double)info->memory_total);
    describe_driver(r);
    report_text(r, "cuda", "CUDA", "%s", s->raw->driver_version);
}

void suite_describe(suite *s, int argc, char **argv)
{
    report *r = s->report;
    report_text(r, "troupe", "Troupe", "%s", trp_version());
    describe_command(r, argc, argv);
    describe_time(r);
    describe_device(s);
    report_text(r, "blas", "library", "%s", *s->raw->blas_version ? s->raw->blas_version : "none");
    describe_machine(s);
    report_number(r, "seed", NULL, (double)s->seed);
}
