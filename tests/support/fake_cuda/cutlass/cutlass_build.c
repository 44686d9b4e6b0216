/* Builders of the cutlass actor on the fake driver: they write what the real ones write. */
#include "support/fake_cuda/cutlass/cutlass_parts.h"

#include "actors/cutlass/epilogue/render.h"
#include "support/fake_cuda/settings.h"

#include <string.h>

enum { BARRIERS = 4096 }; /* bytes at the beginning of the workspace that must be zero */

/* Numbers of CUDA's tensor map types. Types that TMA lacks are mapped as bytes. */
static uint8_t map_type(uint8_t type)
{
    return type == TRP_F16    ? 6
           : type == TRP_F32  ? 7
           : type == TRP_F64  ? 8
           : type == TRP_BF16 ? 9
                              : 0;
}

static void describe(trp_cutlass_map *map, uint8_t type, uint64_t address, bool contiguous_k,
                     int64_t lines, int64_t k, int64_t ld, int64_t batch, int64_t l)
{
    uint32_t element = fake_cutlass_bytes(type);
    if (element == 0) { /* 4 bits: mapped as bytes along k */
        describe(map, TRP_U8, address, true, lines, k / 2, ld / 2, batch / 2, l);
        return;
    }
    *map =
        (trp_cutlass_map){.tag = TRP_CUTLASS_TILED,
                          .address = address,
                          .type = map_type(type),
                          .rank = 3,
                          .swizzle = 3,
                          .stride = {(uint64_t)ld * element, l > 1 ? (uint64_t)batch * element : 0},
                          .size = {(uint32_t)(contiguous_k ? k : lines) - 1,
                                   (uint32_t)(contiguous_k ? lines : k) - 1, (uint32_t)l - 1},
                          .box = {(uint16_t)(128 / element), 64, 1},
                          .step = {1, 1, 1, 1, 1}};
}

/* Returns whether the address and strides are aligned for one load. */
static bool aligned(uint64_t address, int64_t ld, int64_t batch, int64_t l, uint8_t type,
                    uint32_t elements)
{
    uint64_t all = address | fake_cutlass_bytes_of_all(type, (uint64_t)ld) |
                   (l > 1 ? fake_cutlass_bytes_of_all(type, (uint64_t)batch) : 0);
    return all % fake_cutlass_bytes_of_all(type, elements) == 0;
}

/* Returns whether lines of a tensor begin at multiples of one load. */
static bool tensor_aligned(const fake_cutlass_kernel *k, const trp_cutlass_args *a, bool right)
{
    const int64_t *stride = right ? a->conv_b : a->conv_a;
    uint64_t address = right ? a->b : a->a;
    int64_t batch = right ? a->batch_b : a->batch_a;
    for (int i = 0; i < 4; i++) {
        if (!aligned(address, stride[i], batch, a->l, right ? k->b : k->a, k->a_align))
            return false;
    }
    return true;
}

static bool can_run(const fake_cutlass_kernel *k, const trp_cutlass_args *a)
{
    if (k->convolves)
        return a->m > 0 && a->n > 0 && a->k > 0 && a->l > 0 && a->sm_count > 0 &&
               a->blocks_per_sm > 0 && fake_cutlass_can_convolve(k, a) &&
               (a->conv_images == 0 ||
                (tensor_aligned(k, a, false) && tensor_aligned(k, a, true))) &&
               aligned(a->d, a->ldd, a->batch_d, a->l, k->d, k->d_align);
    return a->m > 0 && a->n > 0 && a->k > 0 && a->l > 0 && a->sm_count > 0 &&
           a->blocks_per_sm > 0 && aligned(a->a, a->lda, a->batch_a, a->l, k->a, k->a_align) &&
           aligned(a->b, a->ldb, a->batch_b, a->l, k->b, k->b_align) &&
           aligned(a->d, a->ldd, a->batch_d, a->l, k->d, k->d_align);
}

static uint32_t blocks(int32_t size, uint32_t tile, uint32_t cluster)
{
    uint32_t count = ((uint32_t)size + tile - 1) / tile;
    return (count + cluster - 1) / cluster * cluster;
}

/* Grouped products: the arrays, followed by the memory that a kernel changes. */

int32_t fake_cutlass_vectors(const fake_cutlass_kernel *k,
                             trp_group_vector out[FAKE_CUTLASS_VECTORS])
{
    trp__tree tree;
    int32_t count = 0;
    trp__tree_decode(k->tree, k->tree_bytes, &tree);
    for (uint32_t i = 0; i < tree.count; i++) {
        const trp__tree_node *n = &tree.node[i];
        if (n->op == TRP__TREE_PER_ROW || n->op == TRP__TREE_PER_COLUMN)
            out[count++] = (trp_group_vector){.word = (int32_t)trp__tree_word(&tree, n->slot),
                                              .bytes = (int32_t)fake_cutlass_bytes(n->type),
                                              .per_row = n->op == TRP__TREE_PER_ROW};
    }
    return count;
}

trp_group_kind fake_cutlass_kind(const fake_cutlass_kernel *k)
{
    trp__tree tree;
    trp__tree_decode(k->tree, k->tree_bytes, &tree);
    const uint8_t type[4] = {k->a, k->b, tree.c, k->d};
    const uint16_t elements[4] = {k->a_align, k->a_align, k->d_align, k->d_align};
    trp_group_kind kind = {.row_major = {k->a_row, k->b_row, 1, 1}};
    for (int i = 0; i < 4; i++) {
        uint32_t vector = k->sm90 ? 16 : elements[i] * fake_cutlass_bytes(type[i]);
        kind.element[i] = (int32_t)fake_cutlass_bytes(type[i]);
        kind.align[i] = vector > 16 ? 16 : vector > 0 ? (int32_t)vector : 1;
        kind.vector[i] = k->sm90 ? 1 : elements[i];
    }
    return kind;
}

static void build_grouped(const fake_cutlass_kernel *k, const trp_cutlass_args *a,
                          trp_cutlass_built *built, fake_cutlass_parameter *p)
{
    trp_group_vector vector[FAKE_CUTLASS_VECTORS];
    const trp_group_arrays arrays =
        trp_group_arrays_at(a->workspace, a->l, fake_cutlass_vectors(k, vector));
    p->workspace_bytes = built->workspace_bytes = arrays.bytes + FAKE_CUTLASS_GROUPED_BYTES;
    if (!a->workspace || a->workspace_bytes < p->workspace_bytes) {
        built->status = TRP_CUTLASS_WORKSPACE;
        return;
    }
    if (a->l < 1 || a->sm_count < 1 || a->blocks_per_sm < 1)
        return;
    built->status = TRP_CUTLASS_BUILT;
    built->grid[0] = blocks(a->sm_count / k->cluster[1], 1, k->cluster[0]);
    built->grid[1] = k->cluster[1];
    built->grid[2] = 1;
    built->tensor_maps = k->sm90 ? 2 : 0;
    for (int i = 0; i < 2 && k->sm90; i++) /* any address: the kernel writes the maps of groups */
        describe(&p->map[i].description, i ? k->b : k->a, arrays.at[i], true, 1, 1, 16, 0, 1);
}

static void build(const fake_cutlass_kernel *k, const trp_cutlass_args *a, unsigned char *room)
{
    trp_cutlass_built built = {.abi = TRP_CUTLASS_ABI,
                               .status = TRP_CUTLASS_REFUSED,
                               .params_bytes = sizeof(fake_cutlass_parameter)};
    fake_cutlass_parameter p;
    memset(&p, 0, sizeof p);
    p.args = *a;
    if (k->grouped) {
        build_grouped(k, a, &built, &p);
        memcpy(room + TRP_CUTLASS_ALIGN, &p, sizeof p);
        memcpy(room, &built, sizeof built);
        return;
    }
    p.workspace_bytes = fake_setting_number("workspace");
    if (k->stream_k && p.workspace_bytes == 0)
        p.workspace_bytes = BARRIERS + (uint64_t)a->m * (uint64_t)a->n * 4;
    p.zero_bytes = p.workspace_bytes < BARRIERS ? p.workspace_bytes : BARRIERS;
    p.zero_at = (p.workspace_bytes - p.zero_bytes) / 2;
    built.workspace_bytes = p.workspace_bytes;
    built.zero_at = p.zero_at;
    built.zero_bytes = p.zero_bytes;
    if (p.workspace_bytes > 0 && (!a->workspace || a->workspace_bytes < p.workspace_bytes)) {
        built.status = TRP_CUTLASS_WORKSPACE;
    } else if (can_run(k, a)) {
        built.status = TRP_CUTLASS_BUILT;
        built.grid[0] = blocks(a->m, k->tile[0], k->cluster[0]);
        built.grid[1] = blocks(a->n, k->tile[1], k->cluster[1]);
        built.grid[2] = (uint32_t)a->l;
        built.tensor_maps = k->sm90 ? 2 : 0;
        if (k->sm90 && k->convolves) {
            fake_cutlass_conv_maps(k, a, &p.map[0].description, &p.map[1].description);
        } else if (k->sm90) {
            describe(&p.map[0].description, k->a, a->a, k->a_row, a->m, a->k, a->lda, a->batch_a,
                     a->l);
            describe(&p.map[1].description, k->b, a->b, !k->b_row, a->n, a->k, a->ldb, a->batch_b,
                     a->l);
        }
    }
    memcpy(room + TRP_CUTLASS_ALIGN, &p, sizeof p);
    memcpy(room, &built, sizeof built);
}

/* Leaves the traces of a faulty builder, as a test asks. */
static void spoil(const char *how, unsigned char *room)
{
    trp_cutlass_built *built = (trp_cutlass_built *)(void *)room;
    fake_cutlass_parameter *p = (fake_cutlass_parameter *)(void *)(room + TRP_CUTLASS_ALIGN);
    if (strncmp(how, "refuse", 6) == 0)
        built->status = TRP_CUTLASS_REFUSED;
    else if (strncmp(how, "nothing", 7) == 0)
        memset(room, 0, TRP_CUTLASS_RESULT_SIZE);
    else if (strncmp(how, "rubbish", 7) == 0)
        memset(room, 0xa5, TRP_CUTLASS_RESULT_SIZE);
    else if (strncmp(how, "bytes", 5) == 0)
        built->params_bytes = UINT32_MAX;
    else if (strncmp(how, "zero", 4) == 0)
        built->zero_bytes = built->workspace_bytes + 1;
    else if (strncmp(how, "more", 4) == 0)
        built->workspace_bytes = built->zero_bytes = UINT64_C(1) << 40;
    else if (strncmp(how, "again", 5) == 0)
        built->status = TRP_CUTLASS_WORKSPACE;
    else if (strncmp(how, "grid", 4) == 0)
        built->grid[1] = 0;
    else if (strncmp(how, "maps", 4) == 0)
        built->tensor_maps++;
    else if (strncmp(how, "rank", 4) == 0)
        p->map[1].description.rank = 6;
    else if (strncmp(how, "im2col", 6) == 0) {
        p->map[1].description.tag = TRP_CUTLASS_IM2COL;
        p->map[1].description.rank = 2;
    } else if (strncmp(how, "trap", 4) == 0)
        fake_fault(FAKE_ERROR_LAUNCH_FAILED);
}

/* (trp_cutlass_args, void *room), and the variable that describes the kernel. */
void fake_cutlass_build(const uint64_t *parameter)
{
    enum { ARGS = sizeof(trp_cutlass_args) / 8 };
    fake_cutlass_kernel k;
    trp_cutlass_args args;
    fake_pin pin;
    char how[32];
    memcpy(&args, parameter, sizeof args);
    fake_report("builds", "build");
    fake_cutlass_take_time("build_ms");
    unsigned char *room = fake_cuda_reach(&pin, parameter[ARGS], TRP_CUTLASS_RESULT_SIZE, true);
    if (room && fake_cutlass_read(parameter[ARGS + 1], &k)) {
        build(&k, &args, room);
        if (fake_setting("build", how, sizeof how))
            spoil(how, room);
    }
    fake_cuda_let_go(&pin);
}

/* (trp_cutlass_args, void const *table), and the variable that describes the kernel. */
void fake_cutlass_prepare(const uint64_t *parameter)
{
    enum { ARGS = sizeof(trp_cutlass_args) / 8 };
    fake_cutlass_kernel k;
    trp_cutlass_args args;
    trp_group_vector vector[FAKE_CUTLASS_VECTORS];
    fake_pin of_table, of_arrays;
    memcpy(&args, parameter, sizeof args);
    fake_report("runs", "prepare");
    if (!fake_cutlass_read(parameter[ARGS + 1], &k))
        return;
    const trp_group_kind kind = fake_cutlass_kind(&k);
    const uint64_t row = args.grouping >= TRP_GROUPED_OF_M ? 4 : sizeof(trp_group_row);
    const int32_t vectors = fake_cutlass_vectors(&k, vector);
    const uint64_t bytes = trp_group_arrays_at(0, args.l, vectors).bytes;
    const void *table = fake_cuda_reach(&of_table, parameter[ARGS], (uint64_t)args.l * row, false);
    void *room = fake_cuda_reach(&of_arrays, args.workspace, bytes, true);
    if (table && room) {
        const trp_group_arrays arrays = trp_group_arrays_at((uintptr_t)room, args.l, vectors);
        memset(room, 0xcd, bytes);
        for (int32_t i = 0; i < args.l; i++) {
            const trp_group group = trp_group_at(&args, &kind, table, i);
            trp_group_write(&args, &arrays, vector, vectors, &group, i);
        }
    }
    fake_cuda_let_go(&of_table);
    fake_cuda_let_go(&of_arrays);
}
