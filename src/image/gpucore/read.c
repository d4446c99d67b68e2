/* Collects the faults from the tables: first from the lanes, then from the SMs. An SM is skipped if one of its lanes
 * was already counted. */
#define _GNU_SOURCE
#include "gwi_core.h"

#include "gw_array.h"

#include <stdlib.h>
#include <string.h>

/* Offsets of fields in the rows. Fields that only newer drivers write are read if the row is long enough. */
enum {
    DEVICE_NAME = 0,
    DEVICE_SM_TYPE = 16,
    DEVICE_SM_COUNT = 36,
    DEVICE_LANE_COUNT = 44,
    SM_ID = 0,
    SM_EXCEPTION = 8, /* written since driver 555 */
    SM_ERROR_PC_VALID = 12,
    SM_ERROR_PC = 16,
    SM_WITH_EXCEPTION_BYTES = 24,
    BLOCK_GRID = 0,
    BLOCK_INDEX = 8,
    WARP_ERROR_PC = 0,
    WARP_ID = 8,
    WARP_ERROR_PC_VALID = 24,
    LANE_PC = 0,
    LANE_NUMBER = 16,
    LANE_THREAD = 20,
    LANE_EXCEPTION = 32,
    GRID_ID = 0,
    GRID_ENTRY = 24,
    GRID_DIM = 72,
    GRID_BLOCK_DIM = 84,
    META_DRIVER = 8,
    META_CUDA = 16,
    META_FLAGS = 24,
    META_BYTES = 32
};

enum { EXCEPTION_MAX = 4096, THREADS_MAX = 1024, SMS_MAX = 1 << 16, PLACES_MAX = 256, DEVICES_MAX = 64 };

/* A fault and its count, which grows while the tables are read. */
typedef struct place {
    gw_gpucore_fault fault; /* take_faults() sets its names and line later */
    uint64_t kernel_entry;
} place;

typedef struct gathered {
    const gwi_core *core;
    place *place; /* owned */
    size_t count;
    uint64_t beyond;
    uint64_t *sm_with_lane; /* owned: keys of the SMs that have a lane with an exception, unsorted */
    size_t sm_count;
    /* Indices of the grid tables, found only once, because a dump may have a million sections. */
    size_t grids[DEVICES_MAX];
    size_t grid_table_count;
} gathered;

static gw_status refuse(const gwi_core *core, size_t section, uint64_t row, gw_error *err, const char *why)
{
    return gw_fail(err, GW_CORRUPT, "%s: section %zu (%.60s), row %llu: %s", core->name, section,
                   core->section[section].name, (unsigned long long)row, why);
}

static void take_three(uint32_t out[3], const uint8_t *at)
{
    for (int i = 0; i < 3; i++)
        out[i] = gwi_u32(at + 4 * i);
}

static bool is_same_place(const gw_gpucore_fault *a, const gw_gpucore_fault *b)
{
    return a->exception == b->exception && a->device == b->device && a->has_thread == b->has_thread &&
           a->has_pc == b->has_pc && a->pc == b->pc && a->has_grid == b->has_grid &&
           memcmp(a->grid_dim, b->grid_dim, sizeof a->grid_dim) == 0 &&
           memcmp(a->block_dim, b->block_dim, sizeof a->block_dim) == 0;
}

static gw_status add(gathered *all, const gw_gpucore_fault *fault, uint64_t kernel_entry, gw_error *err)
{
    for (size_t i = 0; i < all->count; i++) {
        if (all->place[i].kernel_entry == kernel_entry && is_same_place(&all->place[i].fault, fault)) {
            all->place[i].fault.count++;
            return GW_OK;
        }
    }
    if (all->count == PLACES_MAX) {
        all->beyond++;
        return GW_OK;
    }
    if (!gw_array_more(&all->place, all->count, sizeof *all->place))
        return gw_fail(err, GW_NOMEM, "%s: the faults", all->core->name);
    all->place[all->count] = (place){*fault, kernel_entry};
    all->place[all->count++].fault.count = 1;
    return GW_OK;
}

/* ---- grids ---- */

static void find_grids(gathered *all)
{
    for (size_t i = 1; i < all->core->count; i++)
        if (all->core->section[i].table == GWI_GRIDS && all->grid_table_count < DEVICES_MAX)
            all->grids[all->grid_table_count++] = i;
}

/* Return the row of the grid with this id on this device, or NULL if the grid is in no table. */
static const uint8_t *grid_row(const gathered *all, uint32_t device, uint64_t id)
{
    for (size_t i = 0; i < all->grid_table_count; i++) {
        const gwi_section *section = &all->core->section[all->grids[i]];
        for (uint64_t row = 0; section->header.sh_info == device && row < gwi_row_count(section); row++) {
            const uint8_t *at = gwi_core_row(all->core, all->grids[i], row);
            if (at != NULL && gwi_u64(at + GRID_ID) == id)
                return at;
        }
    }
    return NULL;
}

static const char *check_grid(const gw_gpucore_fault *fault)
{
    for (int i = 0; i < 3; i++) {
        if (fault->block_dim[i] == 0 || fault->block_dim[i] > THREADS_MAX || fault->grid_dim[i] == 0)
            return "invalid grid dimensions";
        if (fault->block[i] >= fault->grid_dim[i])
            return "block outside the grid";
        if (fault->thread[i] >= fault->block_dim[i])
            return "thread outside the block";
    }
    return NULL;
}

/* ---- lanes ---- */

static uint64_t sm_key(uint32_t device, uint32_t sm)
{
    return (uint64_t)device << 32 | sm;
}

static bool has_lane(const gathered *all, uint64_t key)
{
    for (size_t i = all->sm_count; i-- > 0;) /* search backwards, because the SM added last matches most often */
        if (all->sm_with_lane[i] == key)
            return true;
    return false;
}

static gw_status note_sm(gathered *all, uint64_t key, gw_error *err)
{
    if (has_lane(all, key))
        return GW_OK;
    if (all->sm_count >= SMS_MAX || !gw_array_more(&all->sm_with_lane, all->sm_count, sizeof *all->sm_with_lane))
        return gw_fail(err, GW_NOMEM, "%s: the SMs", all->core->name);
    all->sm_with_lane[all->sm_count++] = key;
    return GW_OK;
}

/* The warp, block and SM that a table of lanes belongs to. Links and row numbers were already checked. */
typedef struct family {
    const uint8_t *warp, *block, *sm;
    uint32_t device;
} family;

static bool find_family(const gwi_core *core, size_t lanes, family *ret_family)
{
    const GElf_Shdr *lane = &core->section[lanes].header;
    const GElf_Shdr *warp = &core->section[lane->sh_link].header;
    const GElf_Shdr *block = &core->section[warp->sh_link].header;
    *ret_family = (family){.warp = gwi_core_row(core, lane->sh_link, lane->sh_info),
                           .block = gwi_core_row(core, warp->sh_link, warp->sh_info),
                           .sm = gwi_core_row(core, block->sh_link, block->sh_info),
                           .device = core->section[block->sh_link].header.sh_info};
    return ret_family->warp != NULL && ret_family->block != NULL && ret_family->sm != NULL;
}

static gw_status add_lane(gathered *all, size_t section, uint64_t row, const uint8_t *lane, const family *from,
                          gw_error *err)
{
    gw_gpucore_fault fault = {.exception = gwi_u32(lane + LANE_EXCEPTION),
                              .device = from->device,
                              .sm = gwi_u32(from->sm + SM_ID),
                              .has_thread = true,
                              .warp = gwi_u32(from->warp + WARP_ID),
                              .lane = gwi_u32(lane + LANE_NUMBER)};
    bool exact = gwi_u32(from->warp + WARP_ERROR_PC_VALID) != 0;
    fault.pc = exact ? gwi_u64(from->warp + WARP_ERROR_PC) : gwi_u64(lane + LANE_PC);
    fault.has_pc = fault.pc != 0;
    take_three(fault.block, from->block + BLOCK_INDEX);
    take_three(fault.thread, lane + LANE_THREAD);
    const char *why = NULL;
    if (fault.exception > EXCEPTION_MAX && fault.exception != UINT32_MAX)
        why = "unknown exception number";
    else if (fault.lane >= 64)
        why = "lane number out of range";
    else if (fault.thread[0] >= THREADS_MAX || fault.thread[1] >= THREADS_MAX || fault.thread[2] >= THREADS_MAX)
        why = "thread index out of range";
    uint64_t entry = 0;
    const uint8_t *grid = grid_row(all, from->device, gwi_u64(from->block + BLOCK_GRID));
    if (grid != NULL && why == NULL) {
        fault.has_grid = true;
        entry = gwi_u64(grid + GRID_ENTRY);
        take_three(fault.grid_dim, grid + GRID_DIM);
        take_three(fault.block_dim, grid + GRID_BLOCK_DIM);
        why = check_grid(&fault);
    }
    if (why != NULL)
        return refuse(all->core, section, row, err, why);
    gw_status st = note_sm(all, sm_key(fault.device, fault.sm), err);
    return st == GW_OK ? add(all, &fault, entry, err) : st;
}

static gw_status gather_lanes(gathered *all, size_t section, gw_error *err)
{
    const gwi_section *table = &all->core->section[section];
    family from;
    if (gwi_row_count(table) == 0)
        return GW_OK;
    if (!find_family(all->core, section, &from))
        return refuse(all->core, section, 0, err, "its parent rows cannot be read");
    for (uint64_t row = 0; row < gwi_row_count(table); row++) {
        const uint8_t *lane = gwi_core_row(all->core, section, row);
        if (lane == NULL)
            return refuse(all->core, section, row, err, "it cannot be read");
        gw_status st = gwi_u32(lane + LANE_EXCEPTION) == 0 ? GW_OK : add_lane(all, section, row, lane, &from, err);
        if (st != GW_OK)
            return st;
    }
    return GW_OK;
}

/* ---- SMs ---- */

static gw_status gather_sms(gathered *all, size_t section, gw_error *err)
{
    const gwi_core *core = all->core;
    const gwi_section *table = &core->section[section];
    uint32_t device = table->header.sh_info;
    const uint8_t *device_row = gwi_core_row(core, table->header.sh_link, device);
    uint64_t count = gwi_row_count(table);
    if (device_row == NULL || count > gwi_u32(device_row + DEVICE_SM_COUNT))
        return refuse(core, section, 0, err, "more SMs than the device has");
    for (uint64_t row = 0; row < count; row++) {
        const uint8_t *sm = gwi_core_row(core, section, row);
        if (sm == NULL)
            return refuse(core, section, row, err, "it cannot be read");
        if (gwi_u32(sm + SM_ID) >= gwi_u32(device_row + DEVICE_SM_COUNT))
            return refuse(core, section, row, err, "SM number out of range");
        if (table->header.sh_entsize < SM_WITH_EXCEPTION_BYTES || gwi_u32(sm + SM_EXCEPTION) == 0)
            continue;
        gw_gpucore_fault fault = {.exception = gwi_u32(sm + SM_EXCEPTION), .device = device, .sm = gwi_u32(sm + SM_ID)};
        fault.has_pc = gwi_u32(sm + SM_ERROR_PC_VALID) != 0;
        fault.pc = fault.has_pc ? gwi_u64(sm + SM_ERROR_PC) : 0;
        if (fault.exception > EXCEPTION_MAX && fault.exception != UINT32_MAX)
            return refuse(core, section, row, err, "unknown exception number");
        if (has_lane(all, sm_key(device, fault.sm)))
            continue; /* the faults of this SM's lanes were already added */
        gw_status st = add(all, &fault, 0, err);
        if (st != GW_OK)
            return st;
    }
    return GW_OK;
}

static gw_status gather(gathered *all, gw_error *err)
{
    gw_status st = GW_OK;
    find_grids(all);
    for (size_t i = 1; i < all->core->count && st == GW_OK; i++)
        if (all->core->section[i].table == GWI_LANES)
            st = gather_lanes(all, i, err);
    for (size_t i = 1; i < all->core->count && st == GW_OK; i++)
        if (all->core->section[i].table == GWI_SMS)
            st = gather_sms(all, i, err);
    return st;
}

/* ---- the result ---- */

static int worse_first(const void *a, const void *b)
{
    const gw_gpucore_fault *x = &((const place *)a)->fault, *y = &((const place *)b)->fault;
    if (x->has_thread != y->has_thread)
        return x->has_thread ? -1 : 1;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x->pc < y->pc ? -1 : x->pc > y->pc;
}

static gw_status take_faults(gathered *all, gw_gpucore *ret, gw_error *err)
{
    gw_status st = GW_OK;
    if (all->count > 0)
        qsort(all->place, all->count, sizeof *all->place, worse_first);
    ret->faults_beyond = all->beyond;
    for (size_t i = 0; i < all->count && st == GW_OK; i++) {
        if (ret->fault_count == GW_GPUCORE_FAULTS_MAX) {
            ret->faults_beyond++;
            continue;
        }
        gw_gpucore_fault *fault = &ret->fault[ret->fault_count++];
        *fault = all->place[i].fault;
        st = gwi_place_find(all->core, all->place[i].kernel_entry, fault, err);
    }
    return st;
}

static gw_status keep_string(const gwi_core *core, uint64_t offset, char **ret_text, gw_error *err)
{
    const char *text = gwi_core_string(core, offset);
    if (text == NULL)
        return GW_OK;
    *ret_text = strdup(text);
    return *ret_text == NULL ? gw_fail(err, GW_NOMEM, "%s: a name", core->name) : GW_OK;
}

static gw_status take_device(const gwi_core *core, size_t section, gw_gpucore *ret, gw_error *err)
{
    uint32_t device = ret->fault_count > 0 ? ret->fault[0].device : 0;
    const uint8_t *row = gwi_core_row(core, section, device);
    if (row == NULL)
        return GW_OK;
    gw_status st = keep_string(core, gwi_u64(row + DEVICE_NAME), &ret->device_name, err);
    return st == GW_OK ? keep_string(core, gwi_u64(row + DEVICE_SM_TYPE), &ret->device_sm, err) : st;
}

static void take_meta(const gwi_core *core, size_t section, gw_gpucore *ret)
{
    const uint8_t *at = core->section[section].header.sh_size >= META_BYTES ? gwi_core_bytes(core, section) : NULL;
    if (at == NULL)
        return;
    ret->has_version = ret->has_flags = true;
    for (int i = 0; i < 2; i++) {
        ret->driver_version[i] = gwi_u32(at + META_DRIVER + 4 * i);
        ret->cuda_version[i] = gwi_u32(at + META_CUDA + 4 * i);
    }
    ret->flags = gwi_u32(at + META_FLAGS);
}

static gw_status take_rest(const gwi_core *core, gw_gpucore *ret, gw_error *err)
{
    gw_status st = GW_OK;
    for (size_t i = 1; i < core->count && st == GW_OK; i++) {
        switch (core->section[i].table) {
        case GWI_DEVICES:
            st = take_device(core, i, ret, err);
            break;
        case GWI_META:
            take_meta(core, i, ret);
            break;
        case GWI_GRIDS:
            ret->grid_count += gwi_row_count(&core->section[i]);
            break;
        case GWI_RELOCATED_IMAGE:
            ret->image_count++;
            break;
        default:
            break;
        }
    }
    return st;
}

gw_status gw_gpucore_read(int fd, const char *name, gw_gpucore **ret_core, gw_error *err)
{
    gwi_core core;
    gathered all = {.core = &core};
    gw_gpucore *ret = NULL;
    gw_status st = gwi_core_open(&core, fd, name, err);
    if (st == GW_OK)
        st = gather(&all, err);
    if (st != GW_OK)
        goto out;
    ret = calloc(1, sizeof *ret);
    st = ret == NULL ? gw_fail(err, GW_NOMEM, "%s", name) : take_faults(&all, ret, err);
    if (st == GW_OK)
        st = take_rest(&core, ret, err);
    if (st != GW_OK)
        goto out;
    *ret_core = ret;
    ret = NULL; /* the caller owns it now */
out:
    gw_gpucore_free(ret);
    free(all.place);
    free(all.sm_with_lane);
    gwi_core_close(&core);
    return st;
}

void gw_gpucore_free(gw_gpucore *core)
{
    if (core == NULL)
        return;
    for (size_t i = 0; i < core->fault_count; i++) {
        free(core->fault[i].kernel);
        free(core->fault[i].function);
        free(core->fault[i].file);
    }
    free(core->device_name);
    free(core->device_sm);
    free(core);
}
