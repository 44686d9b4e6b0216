/* TLSF with its bookkeeping outside of the memory that it manages. See suballoc.h. */
#include "client/core/suballoc.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/*
 * Sizes are counted in granules. Below SL_COUNT granules, class (0, n) holds the blocks of exactly
 * n. Above, the first level is the power of two and the second cuts it in SL_COUNT equal parts. A
 * size in bytes has 64 bits, so one in granules 56: the first level ends at 55 - SL_BITS + 1.
 */
enum {
    GRANULE_SHIFT = 8,
    SL_BITS = 5,
    SL_COUNT = 1 << SL_BITS,
    FL_COUNT = 64 - GRANULE_SHIFT - SL_BITS + 1,
    CLASS_COUNT = FL_COUNT * SL_COUNT,
    FIRST_NODES = 64,
    FIRST_REGIONS = 8,
};

_Static_assert(TRP__SUBALLOC_GRANULE == 1u << GRANULE_SHIFT, "granule and shift agree");
_Static_assert(SL_COUNT == 32, "a second-level bitmap is one uint32_t");
_Static_assert(sizeof(size_t) == 8, "the bytes of 2^32 nodes fit in a size_t");
_Static_assert(FL_COUNT <= 64, "the first-level bitmap is one uint64_t");

enum node_state { NODE_SPARE, NODE_FREE, NODE_USED };

/*
 * One block of a region, or a spare. Nodes link by index, because the array moves when it grows.
 * Index 0 stands for "none" and is no block.
 */
typedef struct block_node {
    uint64_t offset; /* granules */
    uint64_t size;   /* granules */
    uint32_t phys_prev, phys_next;
    uint32_t list_prev, list_next; /* free list; spares use list_next alone */
    uint16_t region;
    uint8_t state;
} block_node;

/* `first` is the block at offset 0: a split keeps the node of the lower part and a merge that of
 * the lower block, so it stays the same as long as the region. 0: no such region. */
typedef struct region_entry {
    uint32_t first;
    uint64_t size; /* granules */
} region_entry;

struct trp__suballoc {
    block_node *nodes;
    uint32_t node_count;    /* used part of the array, with node 0 */
    uint32_t node_capacity; /* 0 before the first region */
    uint32_t spare_head;    /* nodes below node_count that name no block */
    uint32_t region_count;
    region_entry *regions; /* by id */
    uint64_t free_granules, used_granules;
    uint64_t fl_map;
    uint32_t sl_map[FL_COUNT];
    uint32_t heads[CLASS_COUNT];
};

static unsigned log2_floor(uint64_t value)
{
    return 63u - (unsigned)__builtin_clzll(value);
}

/* Returns the class whose list holds blocks of this size. */
static unsigned class_of(uint64_t size)
{
    if (size < SL_COUNT)
        return (unsigned)size;
    unsigned log2 = log2_floor(size);
    unsigned second = (unsigned)(size >> (log2 - SL_BITS)) & (SL_COUNT - 1u);
    return (log2 - SL_BITS + 1u) * SL_COUNT + second;
}

/* Returns the first class of which every block is at least this size; may be CLASS_COUNT, which is
 * none. */
static unsigned class_sure_to_fit(uint64_t size)
{
    if (size < SL_COUNT)
        return (unsigned)size;
    return class_of(size + (UINT64_C(1) << (log2_floor(size) - SL_BITS)) - 1u);
}

static void list_insert(trp__suballoc *sa, uint32_t index)
{
    block_node *n = &sa->nodes[index];
    unsigned class = class_of(n->size);
    uint32_t head = sa->heads[class];
    n->state = NODE_FREE;
    n->list_prev = 0;
    n->list_next = head;
    if (head != 0)
        sa->nodes[head].list_prev = index;
    sa->heads[class] = index;
    sa->sl_map[class / SL_COUNT] |= 1u << (class % SL_COUNT);
    sa->fl_map |= UINT64_C(1) << (class / SL_COUNT);
}

static void list_remove(trp__suballoc *sa, uint32_t index)
{
    const block_node *n = &sa->nodes[index];
    if (n->list_next != 0)
        sa->nodes[n->list_next].list_prev = n->list_prev;
    if (n->list_prev != 0) {
        sa->nodes[n->list_prev].list_next = n->list_next;
        return;
    }
    unsigned class = class_of(n->size);
    sa->heads[class] = n->list_next;
    if (n->list_next == 0) {
        sa->sl_map[class / SL_COUNT] &= ~(1u << (class % SL_COUNT));
        if (sa->sl_map[class / SL_COUNT] == 0)
            sa->fl_map &= ~(UINT64_C(1) << (class / SL_COUNT));
    }
}

/* Returns a free block of the given class or of the next one above that has any; 0 if none. */
static uint32_t first_from_class(const trp__suballoc *sa, unsigned class)
{
    if (class >= CLASS_COUNT)
        return 0;
    unsigned first = class / SL_COUNT;
    uint32_t seconds = sa->sl_map[first] & (UINT32_MAX << (class % SL_COUNT));
    if (seconds == 0) {
        /* FL_COUNT is below 64, so the shift is defined. */
        uint64_t firsts = sa->fl_map & (UINT64_MAX << (first + 1u));
        if (firsts == 0)
            return 0;
        first = (unsigned)__builtin_ctzll(firsts);
        seconds = sa->sl_map[first];
    }
    return sa->heads[first * SL_COUNT + (unsigned)__builtin_ctz(seconds)];
}

static uint32_t find_fit(const trp__suballoc *sa, uint64_t size)
{
    unsigned sure = class_sure_to_fit(size);
    uint32_t index = first_from_class(sa, sure);
    unsigned own = class_of(size);
    if (index != 0 || own == sure)
        return index;
    /* Only the request's own class can still hold a block that fits: the one that is exactly as
     * large as the request, for example. */
    for (index = sa->heads[own]; index != 0; index = sa->nodes[index].list_next) {
        if (sa->nodes[index].size >= size)
            return index;
    }
    return 0;
}

/* Makes sure that spare_take succeeds once. May move the array. */
static bool spare_reserve(trp__suballoc *sa)
{
    if (sa->spare_head != 0 || sa->node_count < sa->node_capacity)
        return true;
    uint32_t capacity = FIRST_NODES;
    if (sa->node_capacity != 0) {
        if (sa->node_capacity > UINT32_MAX / 2u)
            return false;
        capacity = sa->node_capacity * 2u;
    }
    block_node *nodes = realloc(sa->nodes, (size_t)capacity * sizeof(block_node));
    if (nodes == NULL)
        return false;
    if (sa->node_capacity == 0) {
        memset(&nodes[0], 0, sizeof(nodes[0]));
        sa->node_count = 1;
    }
    sa->nodes = nodes;
    sa->node_capacity = capacity;
    return true;
}

static uint32_t spare_take(trp__suballoc *sa)
{
    uint32_t index = sa->spare_head;
    if (index != 0) {
        sa->spare_head = sa->nodes[index].list_next;
        return index;
    }
    return sa->node_count++;
}

static void spare_give(trp__suballoc *sa, uint32_t index)
{
    sa->nodes[index].state = NODE_SPARE;
    sa->nodes[index].list_next = sa->spare_head;
    sa->spare_head = index;
}

trp__suballoc *trp__suballoc_create(void)
{
    return calloc(1, sizeof(trp__suballoc));
}

void trp__suballoc_destroy(trp__suballoc *sa)
{
    if (sa != NULL) {
        free(sa->nodes);
        free(sa->regions);
        free(sa);
    }
}

/* Makes room in the table of regions for this id. */
static bool region_reserve(trp__suballoc *sa, uint32_t region)
{
    if (region < sa->region_count)
        return true;
    uint32_t count = sa->region_count == 0 ? FIRST_REGIONS : sa->region_count;
    while (count <= region)
        count *= 2u;
    region_entry *regions = realloc(sa->regions, (size_t)count * sizeof(region_entry));
    if (regions == NULL)
        return false;
    memset(&regions[sa->region_count], 0,
           (size_t)(count - sa->region_count) * sizeof(region_entry));
    sa->regions = regions;
    sa->region_count = count;
    return true;
}

bool trp__suballoc_add_region(trp__suballoc *sa, uint32_t region, uint64_t size)
{
    uint64_t granules = size >> GRANULE_SHIFT;
    uint64_t total = sa->free_granules + sa->used_granules;
    if (region >= TRP__SUBALLOC_REGION_LIMIT || granules == 0 ||
        granules > (UINT64_MAX >> GRANULE_SHIFT) - total) {
        return false;
    }
    if (!region_reserve(sa, region) || sa->regions[region].first != 0 || !spare_reserve(sa))
        return false;
    uint32_t index = spare_take(sa);
    sa->nodes[index] = (block_node){.size = granules, .region = (uint16_t)region};
    list_insert(sa, index);
    sa->regions[region] = (region_entry){.first = index, .size = granules};
    sa->free_granules += granules;
    return true;
}

bool trp__suballoc_region_empty(const trp__suballoc *sa, uint32_t region)
{
    if (region >= sa->region_count || sa->regions[region].first == 0)
        return false;
    /* Free neighbours are always merged, so an empty region is one free block. */
    const block_node *first = &sa->nodes[sa->regions[region].first];
    return first->state == NODE_FREE && first->phys_next == 0;
}

bool trp__suballoc_remove_region(trp__suballoc *sa, uint32_t region)
{
    if (!trp__suballoc_region_empty(sa, region))
        return false;
    uint32_t index = sa->regions[region].first;
    list_remove(sa, index);
    sa->free_granules -= sa->nodes[index].size;
    spare_give(sa, index);
    sa->regions[region] = (region_entry){0};
    return true;
}

bool trp__suballoc_alloc(trp__suballoc *sa, uint64_t size, trp__suballoc_block *out)
{
    *out = (trp__suballoc_block){0};
    if (size == 0 || size > UINT64_MAX - (TRP__SUBALLOC_GRANULE - 1u))
        return false;
    uint64_t granules = (size + (TRP__SUBALLOC_GRANULE - 1u)) >> GRANULE_SHIFT;
    uint32_t index = find_fit(sa, granules);
    if (index == 0)
        return false;
    /* The only step that can fail comes before the first change. */
    bool split = sa->nodes[index].size > granules;
    if (split && !spare_reserve(sa))
        return false;
    list_remove(sa, index);
    if (split) {
        uint32_t rest = spare_take(sa);
        block_node *n = &sa->nodes[index];
        sa->nodes[rest] = (block_node){
            .offset = n->offset + granules,
            .size = n->size - granules,
            .phys_prev = index,
            .phys_next = n->phys_next,
            .region = n->region,
        };
        if (n->phys_next != 0)
            sa->nodes[n->phys_next].phys_prev = rest;
        n->phys_next = rest;
        n->size = granules;
        list_insert(sa, rest);
    }
    block_node *n = &sa->nodes[index];
    n->state = NODE_USED;
    sa->free_granules -= granules;
    sa->used_granules += granules;
    *out = (trp__suballoc_block){
        .node = index,
        .region = n->region,
        .offset = n->offset << GRANULE_SHIFT,
        .size = granules << GRANULE_SHIFT,
    };
    return true;
}

/* Appends the block `upper` to its lower neighbour; neither is in a free list. */
static void merge(trp__suballoc *sa, uint32_t lower, uint32_t upper)
{
    block_node *l = &sa->nodes[lower];
    const block_node *u = &sa->nodes[upper];
    l->size += u->size;
    l->phys_next = u->phys_next;
    if (u->phys_next != 0)
        sa->nodes[u->phys_next].phys_prev = lower;
    spare_give(sa, upper);
}

void trp__suballoc_free(trp__suballoc *sa, uint32_t node)
{
    bool allocated = node != 0 && node < sa->node_count && sa->nodes[node].state == NODE_USED;
    assert(allocated);
    if (!allocated)
        return;
    uint32_t index = node;
    uint64_t size = sa->nodes[index].size;
    sa->used_granules -= size;
    sa->free_granules += size;
    uint32_t upper = sa->nodes[index].phys_next;
    if (upper != 0 && sa->nodes[upper].state == NODE_FREE) {
        list_remove(sa, upper);
        merge(sa, index, upper);
    }
    uint32_t lower = sa->nodes[index].phys_prev;
    if (lower != 0 && sa->nodes[lower].state == NODE_FREE) {
        list_remove(sa, lower);
        merge(sa, lower, index);
        index = lower;
    }
    list_insert(sa, index);
}

uint64_t trp__suballoc_free_bytes(const trp__suballoc *sa)
{
    return sa->free_granules << GRANULE_SHIFT;
}

uint64_t trp__suballoc_used_bytes(const trp__suballoc *sa)
{
    return sa->used_granules << GRANULE_SHIFT;
}

uint64_t trp__suballoc_largest_free(const trp__suballoc *sa)
{
    if (sa->fl_map == 0)
        return 0;
    unsigned first = log2_floor(sa->fl_map);
    unsigned second = log2_floor(sa->sl_map[first]);
    uint64_t largest = 0;
    uint32_t index = sa->heads[first * SL_COUNT + second];
    for (; index != 0; index = sa->nodes[index].list_next) {
        if (sa->nodes[index].size > largest)
            largest = sa->nodes[index].size;
    }
    return largest << GRANULE_SHIFT;
}

/* Sums of a walk over the bookkeeping. */
typedef struct tally {
    uint64_t free_granules, used_granules;
    uint32_t free_blocks, used_blocks;
} tally;

/* One region: its blocks follow each other without gap or overlap, fill it, and no two neighbours
 * are both free. */
static bool check_region(const trp__suballoc *sa, uint32_t region, tally *sum)
{
    uint64_t offset = 0;
    uint32_t previous = 0;
    uint32_t index = sa->regions[region].first;
    while (index != 0) {
        if (index >= sa->node_count)
            return false;
        const block_node *n = &sa->nodes[index];
        bool is_free = n->state == NODE_FREE;
        if (n->region != region || n->offset != offset || n->size == 0 ||
            n->phys_prev != previous || (!is_free && n->state != NODE_USED)) {
            return false;
        }
        if (is_free && previous != 0 && sa->nodes[previous].state == NODE_FREE)
            return false;
        if (n->size > sa->regions[region].size - offset)
            return false;
        offset += n->size;
        *(is_free ? &sum->free_granules : &sum->used_granules) += n->size;
        *(is_free ? &sum->free_blocks : &sum->used_blocks) += 1u;
        previous = index;
        index = n->phys_next;
    }
    return offset == sa->regions[region].size;
}

/* One free list: links agree, each block belongs to the class, and the bitmaps say that it is
 * there. */
static bool check_list(const trp__suballoc *sa, unsigned class, uint32_t *blocks)
{
    uint32_t previous = 0;
    uint32_t index = sa->heads[class];
    bool marked = (sa->sl_map[class / SL_COUNT] >> (class % SL_COUNT) & 1u) != 0;
    if (marked != (index != 0))
        return false;
    while (index != 0) {
        if (index >= sa->node_count || *blocks >= sa->node_count)
            return false;
        const block_node *n = &sa->nodes[index];
        if (n->state != NODE_FREE || n->list_prev != previous || class_of(n->size) != class)
            return false;
        *blocks += 1u;
        previous = index;
        index = n->list_next;
    }
    return true;
}

bool trp__suballoc_check(const trp__suballoc *sa)
{
    tally sum = {0};
    for (uint32_t region = 0; region < sa->region_count; region++) {
        if (!check_region(sa, region, &sum))
            return false;
    }
    if (sum.free_granules != sa->free_granules || sum.used_granules != sa->used_granules)
        return false;
    uint32_t listed = 0;
    for (unsigned class = 0; class < CLASS_COUNT; class ++) {
        if (!check_list(sa, class, &listed))
            return false;
    }
    for (unsigned first = 0; first < FL_COUNT; first++) {
        if ((sa->fl_map >> first & 1u) != (sa->sl_map[first] != 0))
            return false;
    }
    if (listed != sum.free_blocks || sa->fl_map >> FL_COUNT != 0)
        return false;
    /* Each node except node 0 is a block of a region or a spare. */
    uint32_t spares = 0;
    for (uint32_t i = sa->spare_head; i != 0; i = sa->nodes[i].list_next) {
        if (i >= sa->node_count || sa->nodes[i].state != NODE_SPARE || spares >= sa->node_count)
            return false;
        spares++;
    }
    uint32_t named = sum.free_blocks + sum.used_blocks + spares;
    return sa->node_count == 0 ? named == 0 : named == sa->node_count - 1u;
}
