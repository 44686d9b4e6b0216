/* A tool that NVTX injects, for tests: writes lines "push DOMAIN DEPTH TEXT" and "pop DOMAIN DEPTH"
 * to the file that TROUPE_TEST_NVTX_LOG names, by one write() each, so that no line is lost when
 * the process is killed. With TROUPE_TEST_NVTX_REFUSE set it refuses to load. Written from NVIDIA's
 * documentation of the interface, without the declarations that it tests.
 * SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void (*function)(void);

struct callbacks {
    size_t size;
    int (*get_table)(int module, function ***table, unsigned int *size);
};

struct version_info {
    size_t size;
    uint32_t version, reserved;
    void (*set_version)(uint32_t version);
};

struct attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const char *ascii;
};

struct domain {
    char name[32];
};

static _Thread_local int depth;

/* Opens the file each time: the process may count its descriptors. */
static int say(const char *line)
{
    const char *path = getenv("TROUPE_TEST_NVTX_LOG");
    int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    int good = file >= 0 && write(file, line, strlen(line)) == (ssize_t)strlen(line);
    if (file >= 0)
        close(file);
    return good;
}

static struct domain *create(const char *name)
{
    struct domain *d = calloc(1, sizeof *d);
    if (d)
        snprintf(d->name, sizeof d->name, "%s", name);
    return d;
}

static int push(struct domain *domain, const struct attributes *a)
{
    char line[256];
    int good =
        a->version == 3 && a->size == sizeof *a && a->message_type == 1 && a->payload_type == 1;
    snprintf(line, sizeof line, "%s %s %d %s (%llu)\n", good ? "push" : "bad",
             domain ? domain->name : "-", depth, good ? a->ascii : "",
             (unsigned long long)a->payload);
    say(line);
    return depth++;
}

static int pop(struct domain *domain)
{
    char line[64];
    snprintf(line, sizeof line, "pop %s %d\n", domain ? domain->name : "-", --depth);
    say(line);
    return depth;
}

/* Tools ask for all tables that they know, and store into the slots that exist. */
static int all_tables_are_there(const struct callbacks *c)
{
    static const unsigned int sizes[] = {0, 16, 9, 15, 7, 16, 7};
    for (int module = 1; module <= 6; module++) {
        function **table = NULL;
        unsigned int size = 0;
        if (!c->get_table(module, &table, &size) || size != sizes[module] || table[0] ||
            table[size])
            return 0;
        for (unsigned int i = 1; i < size; i++) {
            if (!table[i])
                return 0;
        }
    }
    return !c->get_table(0, NULL, NULL) && !c->get_table(7, NULL, NULL);
}

__attribute__((visibility("default"))) int
InitializeInjectionNvtx2(const void *(*get_export_table)(uint32_t id));

int InitializeInjectionNvtx2(const void *(*get_export_table)(uint32_t id))
{
    const struct callbacks *c = get_export_table(1);
    const struct version_info *v = get_export_table(3);
    function **table = NULL;
    if (!c || c->size < sizeof *c || !v || v->version != 3 || get_export_table(2) ||
        !say("attached\n") || getenv("TROUPE_TEST_NVTX_REFUSE"))
        return 0;
    v->set_version(3);
    if (!all_tables_are_there(c) || !c->get_table(5, &table, NULL)) {
        say("bad tables\n");
        return 0;
    }
    *table[4] = (function)push;
    *table[5] = (function)pop;
    *table[12] = (function)create;
    return 1;
}
