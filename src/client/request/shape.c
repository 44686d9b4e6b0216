/* The shape of a copy on each side: consecutive bytes, or rows and planes at pitches. */
#include "base/error.h"
#include "client/request/copies.h"

static trp_status too_far(const char *name, const trp__box *box)
{
    return trp__fail(TRP_E_ARGUMENT,
                     "%s: %llu planes of %llu rows of %llu bytes reach further than memory does",
                     name, (unsigned long long)box->planes, (unsigned long long)box->rows,
                     (unsigned long long)box->bytes);
}

/* Fills in default pitches, and checks that rows and planes do not overlap. */
static trp_status check_pitch(const trp__box *box, trp_pitch *p, const char *name, uint64_t *span)
{
    uint64_t plane, planes, most;
    if (p->row == 0)
        p->row = box->bytes;
    if (p->row < box->bytes)
        return trp__fail(TRP_E_ARGUMENT,
                         "%s.row: expected at least the %llu bytes of a row, got %llu", name,
                         (unsigned long long)box->bytes, (unsigned long long)p->row);
    if (__builtin_mul_overflow(box->rows - 1, p->row, &plane) ||
        __builtin_add_overflow(plane, box->bytes, &plane) ||
        __builtin_mul_overflow(box->rows, p->row, &most))
        return too_far(name, box);
    if (p->plane == 0)
        p->plane = most;
    if (p->plane < plane)
        return trp__fail(TRP_E_ARGUMENT,
                         "%s.plane: expected at least the %llu bytes that the rows of a plane "
                         "span, got %llu",
                         name, (unsigned long long)plane, (unsigned long long)p->plane);
    if (__builtin_mul_overflow(box->planes - 1, p->plane, &planes) ||
        __builtin_add_overflow(planes, plane, span) || *span > INT64_MAX)
        return too_far(name, box);
    return TRP_OK;
}

/* Joins rows without gaps on both sides, and turns planes of one row into rows. */
static void merge_rows(trp__shape *s)
{
    trp__box *b = &s->box;
    trp_pitch *p = s->pitch;
    for (int i = 0; i < 3; i++) {
        if (b->rows > 1 && p[0].row == b->bytes && p[1].row == b->bytes) {
            b->bytes *= b->rows;
            b->rows = 1;
        }
        if (b->planes > 1 && p[0].plane == b->rows * p[0].row && p[1].plane == b->rows * p[1].row &&
            b->rows > 1) {
            b->rows *= b->planes;
            b->planes = 1;
        }
        if (b->rows == 1 && b->planes > 1) {
            b->rows = b->planes;
            b->planes = 1;
            p[0].row = p[0].plane;
            p[1].row = p[1].plane;
        }
    }
}

/* Describes a copy of contiguous bytes. */
void trp__shape_linear(trp__shape *s, uint64_t bytes)
{
    s->bytes = s->span[0] = s->span[1] = bytes;
    s->box.bytes = 0;
}

trp_status trp__shape_of(trp__shape *s, uint64_t bytes, uint64_t rows, uint64_t planes,
                         const trp_pitch *first, const char *first_name, const trp_pitch *second,
                         const char *second_name)
{
    trp__shape_linear(s, bytes);
    if (bytes == 0 || (rows <= 1 && planes <= 1))
        return TRP_OK;
    s->box = (trp__box){bytes, rows ? rows : 1, planes ? planes : 1};
    s->pitch[0] = *first;
    s->pitch[1] = *second;
    trp_status status = check_pitch(&s->box, &s->pitch[0], first_name, &s->span[0]);
    if (status == TRP_OK)
        status = check_pitch(&s->box, &s->pitch[1], second_name, &s->span[1]);
    if (status != TRP_OK)
        return status;
    s->bytes = trp__box_bytes(&s->box);
    merge_rows(s);
    if (s->box.rows == 1)
        s->box.bytes = 0;
    return TRP_OK;
}

/* Returns TRP__COVER too if a copy writes all bytes that it spans on that side. */
uint32_t trp__shape_writes(const trp__shape *s, int side)
{
    return TRP__WRITE | (s->span[side] == s->bytes ? (uint32_t)TRP__COVER : 0);
}
