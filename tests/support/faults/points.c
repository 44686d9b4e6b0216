#include "support/faults/points.h"

#include "base/fault_point.h"
#include "support/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { APPLICATION = 0, WORKER = 1, CACHE = 2 };

static const h_point points[] = {
#define POINT(name, side, can_fail) {#name, (side) == WORKER, can_fail},
    TRP__FAULT_POINTS(POINT)
#undef POINT
};

/* The points of the cache are the last ones. */
static const int sides[] = {
#define POINT(name, side, can_fail) side,
    TRP__FAULT_POINTS(POINT)
#undef POINT
};

const h_point *h_points(size_t *count)
{
    *count = 0;
    while (*count < sizeof points / sizeof *points && sides[*count] != CACHE)
        ++*count;
    return points;
}

const h_point *h_cache_points(size_t *count)
{
    size_t before;
    h_points(&before);
    *count = sizeof points / sizeof *points - before;
    return points + before;
}

size_t h_point_find(const char *name)
{
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        if (strcmp(points[i].name, name) == 0)
            return i;
    }
    h_fail(__FILE__, __LINE__, "there is no fault point %s", name);
}

uint32_t h_point_hits(const char *name)
{
    uint32_t hits = 0;
    off_t at = (off_t)(h_point_find(name) * sizeof hits);
    const char *path = getenv("TROUPE_FAULT_POINT_HITS");
    int fd = open(path ? path : "", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || pread(fd, &hits, sizeof hits, at) != sizeof hits)
        h_fail(__FILE__, __LINE__, "TROUPE_FAULT_POINT_HITS: %s", strerror(errno));
    close(fd);
    return hits;
}

bool h_points_built(void)
{
#ifdef TROUPE_FAULT_POINTS
    return true;
#else
    return false;
#endif
}
