/* The order of tiles in groups: each tile once, a group after the other, in narrow pieces. */
#include "support/unit.h"

#include "actors/cutlass/templates/tiles.h"
#include "support/label.h"

TROUPE_TEST("no tsan");

enum { MOST = 21 };

static void each_tile_once(void **state)
{
    (void)state;
    for (uint32_t lines = 1; lines <= MOST; lines++) {
        for (uint32_t length = 1; length <= MOST; length++) {
            for (uint32_t shift = 0; 1u << shift <= lines; shift++) {
                unsigned char seen[MOST][MOST] = {{0}};
                for (uint32_t i = 0; i < lines * length; i++) {
                    const trp_tile_place p =
                        trp_tile_in_groups(lines, length, shift, i / length, i % length);
                    assert_in_range(p.line, 0, lines - 1);
                    assert_in_range(p.at, 0, length - 1);
                    assert_int_equal(seen[p.line][p.at]++, 0);
                }
            }
        }
    }
}

/* 5 lines of 3 in groups of 2: 0 and 1, 2 and 3, then 4 alone. */
static void order(void **state)
{
    static const trp_tile_place wanted[] = {{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2},
                                            {1, 2}, {2, 0}, {3, 0}, {2, 1}, {3, 1},
                                            {2, 2}, {3, 2}, {4, 0}, {4, 1}, {4, 2}};
    (void)state;
    for (uint32_t i = 0; i < 15; i++) {
        const trp_tile_place p = trp_tile_in_groups(5, 3, 1, i / 3, i % 3);
        assert_memory_equal(&p, &wanted[i], sizeof p);
    }
}

UNIT_MAIN(UNIT(each_tile_once), UNIT(order))
