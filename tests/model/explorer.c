#include "model/explorer.h"

#include <xxhash.h>

#include <stdlib.h>
#include <string.h>

typedef struct edge {
    uint32_t from, to;
} edge;

struct explorer {
    const explorer_model *model;
    uint64_t max_states;

    XXH128_hash_t *seen; /* of each state, by number */
    uint32_t *table;     /* open addressing: number + 1 */
    uint64_t table_size; /* a power of two */
    uint32_t *parent;
    uint16_t *ordinal; /* which of the parent's steps led there */
    uint8_t *is_final;
    uint64_t count, capacity;

    edge *edges; /* the program's */
    uint64_t edge_count, edge_capacity;

    unsigned char *frontier, *next; /* states whose steps are to be offered */
    uint64_t frontier_count, frontier_capacity, next_count, next_capacity;
    uint64_t steps;

    uint32_t from; /* the state that offers */
    uint16_t offered;
    const char *broken;
    uint32_t broken_at;

    FILE *trace; /* replaying: print step `wanted` and keep where it leads */
    int wanted;
    unsigned char *replayed;
};

static void *grown(void *block, uint64_t count, size_t size)
{
    void *more = realloc(block, count * size);
    if (!more) {
        fprintf(stderr, "explorer: no memory\n");
        abort();
    }
    return more;
}

static void insert(explorer *e, uint32_t number)
{
    uint64_t at = e->seen[number].low64 & (e->table_size - 1);
    while (e->table[at] != 0)
        at = (at + 1) & (e->table_size - 1);
    e->table[at] = number + 1;
}

static void grow(explorer *e)
{
    e->capacity = e->capacity ? 2 * e->capacity : 1 << 16;
    e->seen = grown(e->seen, e->capacity, sizeof *e->seen);
    e->parent = grown(e->parent, e->capacity, sizeof *e->parent);
    e->ordinal = grown(e->ordinal, e->capacity, sizeof *e->ordinal);
    e->is_final = grown(e->is_final, e->capacity, 1);
    e->table_size = 2 * e->capacity;
    e->table = grown(e->table, e->table_size, sizeof *e->table);
    memset(e->table, 0, e->table_size * sizeof *e->table);
    for (uint32_t i = 0; i < e->count; i++)
        insert(e, i);
}

/* The number of a state; UINT32_MAX if it is new. */
static uint32_t find(const explorer *e, XXH128_hash_t hash)
{
    uint64_t at = hash.low64 & (e->table_size - 1);
    for (; e->table[at] != 0; at = (at + 1) & (e->table_size - 1)) {
        uint32_t number = e->table[at] - 1;
        if (XXH128_isEqual(e->seen[number], hash))
            return number;
    }
    return UINT32_MAX;
}

static uint32_t add(explorer *e, XXH128_hash_t hash, const void *state)
{
    size_t bytes = e->model->state_bytes;
    if (e->count == e->capacity)
        grow(e);
    uint32_t number = (uint32_t)e->count++;
    e->seen[number] = hash;
    e->parent[number] = e->from;
    e->ordinal[number] = e->offered;
    e->is_final[number] = e->model->final(e->model->context, state);
    insert(e, number);
    if (e->next_count == e->next_capacity) {
        e->next_capacity = e->next_capacity ? 2 * e->next_capacity : 1 << 12;
        e->next = grown(e->next, e->next_capacity, bytes + sizeof number);
    }
    unsigned char *place = e->next + e->next_count++ * (bytes + sizeof number);
    memcpy(place, &number, sizeof number);
    memcpy(place + sizeof number, state, bytes);
    const char *broken = e->model->broken(e->model->context, state);
    if (broken && !e->broken) {
        e->broken = broken;
        e->broken_at = number;
    }
    return number;
}

static void note_edge(explorer *e, uint32_t to)
{
    if (e->edge_count == e->edge_capacity) {
        e->edge_capacity = e->edge_capacity ? 2 * e->edge_capacity : 1 << 16;
        e->edges = grown(e->edges, e->edge_capacity, sizeof *e->edges);
    }
    e->edges[e->edge_count++] = (edge){.from = e->from, .to = to};
}

void explorer_offer(explorer *e, explorer_by by, const void *next, const char *label, int a, int b)
{
    if (e->replayed) {
        if (e->offered++ != e->wanted)
            return;
        memcpy(e->replayed, next, e->model->state_bytes);
        fprintf(e->trace, "  %s", by == EXPLORER_ENVIRONMENT ? "* " : "  ");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        fprintf(e->trace, label, a, b);
#pragma GCC diagnostic pop
        fputc('\n', e->trace);
        return;
    }
    XXH128_hash_t hash = XXH3_128bits(next, e->model->state_bytes);
    uint32_t to = find(e, hash);
    if (to == UINT32_MAX)
        to = add(e, hash, next);
    e->offered++;
    e->steps++;
    if (by == EXPLORER_PROGRAM && to != e->from)
        note_edge(e, to);
}

/* Prints the steps that lead to a state. */
static void print_trace(explorer *e, const void *first, uint32_t number, FILE *out)
{
    uint32_t depth = 0;
    for (uint32_t i = number; i != 0; i = e->parent[i])
        depth++;
    uint32_t *path = grown(NULL, depth + 1, sizeof *path);
    for (uint32_t i = number, k = depth; i != 0; i = e->parent[i])
        path[--k] = i;
    unsigned char *state = grown(NULL, 2, e->model->state_bytes);
    e->replayed = state + e->model->state_bytes;
    e->trace = out;
    memcpy(state, first, e->model->state_bytes);
    for (uint32_t i = 0; i < depth; i++) {
        e->wanted = e->ordinal[path[i]];
        e->offered = 0;
        memset(e->replayed, 0, e->model->state_bytes);
        e->model->steps(e->model->context, state, e);
        memcpy(state, e->replayed, e->model->state_bytes);
    }
    e->replayed = NULL;
    free(state);
    free(path);
}

static int by_target(const void *a, const void *b)
{
    uint32_t x = ((const edge *)a)->to, y = ((const edge *)b)->to;
    return x < y ? -1 : x > y;
}

/* The first state from which no final one can be reached; UINT32_MAX if there is none. */
static uint32_t find_trap(explorer *e)
{
    uint8_t *good = grown(NULL, e->count, 1);
    uint32_t *stack = grown(NULL, e->count, sizeof *stack);
    uint64_t *begin = grown(NULL, e->count + 1, sizeof *begin);
    uint64_t height = 0;
    uint32_t trap = UINT32_MAX;
    qsort(e->edges, e->edge_count, sizeof *e->edges, by_target);
    for (uint64_t i = 0, k = 0; i <= e->count; i++) {
        while (k < e->edge_count && e->edges[k].to < i)
            k++;
        begin[i] = k;
    }
    memcpy(good, e->is_final, e->count);
    for (uint32_t i = 0; i < e->count; i++) {
        if (good[i])
            stack[height++] = i;
    }
    while (height > 0) {
        uint32_t to = stack[--height];
        for (uint64_t k = begin[to]; k < begin[to + 1]; k++) {
            uint32_t from = e->edges[k].from;
            if (!good[from]) {
                good[from] = 1;
                stack[height++] = from;
            }
        }
    }
    for (uint32_t i = 0; i < e->count && trap == UINT32_MAX; i++) {
        if (!good[i])
            trap = i;
    }
    free(good);
    free(stack);
    free(begin);
    return trap;
}

static void release(explorer *e)
{
    free(e->seen);
    free(e->table);
    free(e->parent);
    free(e->ordinal);
    free(e->is_final);
    free(e->edges);
    free(e->frontier);
    free(e->next);
}

explorer_result explorer_run(const explorer_model *model, const void *first, uint64_t max_states,
                             FILE *trace)
{
    explorer e = {.model = model, .max_states = max_states};
    explorer_result result = {0};
    size_t stride = model->state_bytes + sizeof(uint32_t);
    grow(&e);
    add(&e, XXH3_128bits(first, model->state_bytes), first);
    while (e.next_count > 0 && !e.broken && e.count <= max_states) {
        unsigned char *spare = e.frontier;
        uint64_t spare_capacity = e.frontier_capacity;
        e.frontier = e.next;
        e.frontier_capacity = e.next_capacity;
        e.frontier_count = e.next_count;
        e.next = spare;
        e.next_capacity = spare_capacity;
        e.next_count = 0;
        result.depth++;
        for (uint64_t i = 0; i < e.frontier_count && !e.broken && e.count <= max_states; i++) {
            const unsigned char *place = e.frontier + i * stride;
            memcpy(&e.from, place, sizeof e.from);
            e.offered = 0;
            model->steps(model->context, place + sizeof e.from, &e);
        }
    }
    for (uint64_t i = 0; i < e.count; i++)
        result.final += e.is_final[i];
    result.out_of_bound = !e.broken && e.count > max_states;
    if (!e.broken && !result.out_of_bound) {
        e.broken_at = find_trap(&e);
        if (e.broken_at != UINT32_MAX)
            e.broken = "from here no end can be reached: a deadlock, a lost wake-up or a loop";
    }
    if (e.broken && trace) {
        fprintf(trace, "%s, after:\n", e.broken);
        print_trace(&e, first, e.broken_at, trace);
    }
    result.broken = e.broken;
    result.states = e.count;
    result.steps = e.steps;
    release(&e);
    return result;
}
