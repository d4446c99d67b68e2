/* The maps of device memory: at the failure, and when the process held the most. */
#include "gwi_sections.h"

#include "gwi_escape.h"
#include "gwi_map.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_CHARS_MAX = 60 };

/* What a map shows: lists of blocks, and the names of their colours. */
typedef struct picture {
    gwi_block *block, *segment; /* owned */
    size_t block_count, segment_count;
    uint64_t unmapped_bytes; /* memory without an address, such as that of cuMemCreate */
    bool by_allocator;       /* the blocks are those of a framework's allocator */
    uint64_t missing_bytes;  /* blocks that the allocator's report only counted */
    gw_text name[GWI_NAMED_MAX];
    size_t name_count;
    bool used[GWI_MEMORY_COLUMNS];
} picture;

static void picture_free(picture *it)
{
    free(it->block);
    free(it->segment);
    for (size_t i = 0; i < GWI_NAMED_MAX; i++)
        gw_text_free(&it->name[i]);
}

static bool reserve(picture *it, size_t blocks, size_t segments)
{
    it->block = malloc((blocks + 1) * sizeof *it->block);
    it->segment = malloc((segments + 1) * sizeof *it->segment);
    return it->block != NULL && it->segment != NULL;
}

/* ---- the driver's blocks, coloured as in the chart ---- */

/* `has_mappings`: memory of cuMemCreate has the address of its mapping, or 0. In the snapshots of the model, it has its
 * handle instead. */
static void take_driver_blocks(gwi_part *at, const gw_live *live, size_t count, bool has_mappings, picture *it)
{
    for (size_t i = 0; i < count; i++) {
        if (live[i].cls == GW_CLASS_MANAGED)
            continue;
        bool is_virtual = live[i].cls == GW_CLASS_VMM;
        bool has_address =
            is_virtual ? has_mappings && live[i].address != 0 : gw_class_has_addresses((gw_class)live[i].cls);
        if (!has_address) {
            it->unmapped_bytes = gwi_sum(it->unmapped_bytes, live[i].bytes);
            continue;
        }
        uint8_t colour = gwi_holder_column(at->holders, live[i].group);
        it->block[it->block_count++] = (gwi_block){live[i].address, live[i].bytes, colour};
    }
}

static void name_as_chart(gwi_part *at, int device, picture *it)
{
    const gwi_device_holders *holders = &at->holders->device[device];
    for (size_t i = 0; i < it->block_count; i++)
        it->used[it->block[i].colour] = true;
    it->name_count = holders->count;
    for (size_t i = 0; i < holders->count; i++)
        gw_text_add_str(&it->name[i], holders->name[i]);
}

/* ---- the blocks of a framework's allocator ---- */

typedef struct site_sum {
    uint32_t site;
    uint64_t bytes;
    uint8_t colour;
} site_sum;

static int compare_sites(const void *a, const void *b)
{
    const site_sum *left = a, *right = b;
    return (left->site > right->site) - (left->site < right->site);
}

static int compare_sums(const void *a, const void *b)
{
    const site_sum *left = a, *right = b;
    int order = (left->bytes < right->bytes) - (left->bytes > right->bytes);
    return order != 0 ? order : compare_sites(a, b);
}

static size_t sum_sites(const gw_live *live, size_t count, site_sum *sum)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        sum[i] = (site_sum){live[i].site, live[i].bytes, GWI_SMALLER};
    qsort(sum, count, sizeof *sum, compare_sites);
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && sum[kept - 1].site == sum[i].site)
            sum[kept - 1].bytes = gwi_sum(sum[kept - 1].bytes, sum[i].bytes);
        else
            sum[kept++] = sum[i];
    }
    return kept;
}

/* Give the places that hold the most a colour and a name. Sites with the same text share both. */
static void colour_sites(gwi_part *at, site_sum *sum, size_t count, picture *it)
{
    enum { SITES_NAMED_MAX = 64 };
    qsort(sum, count, sizeof *sum, compare_sums);
    for (size_t i = 0; i < count && i < SITES_NAMED_MAX; i++) {
        gw_text text = {0};
        size_t k = 0;
        (void)gwi_site_text(at->model, sum[i].site, &text);
        while (k < it->name_count && strcmp(gw_text_str(&it->name[k]), gw_text_str(&text)) != 0)
            k++;
        if (k == it->name_count && k < GWI_NAMED_MAX)
            gw_text_add_str(&it->name[it->name_count++], gw_text_str(&text));
        if (k < GWI_NAMED_MAX)
            sum[i].colour = (uint8_t)k;
        gw_text_free(&text);
    }
    qsort(sum, count, sizeof *sum, compare_sites);
}

static bool take_allocator_blocks(gwi_part *at, const gw_allocator_report *report, picture *it)
{
    site_sum *sum = malloc((report->live_count + 1) * sizeof *sum);
    gw_live *list = gwi_report_live(at, report);
    if (sum == NULL || list == NULL) {
        free(list);
        free(sum);
        return false;
    }
    size_t count = sum_sites(list, report->live_count, sum);
    colour_sites(at, sum, count, it);
    for (size_t i = 0; i < report->live_count; i++) {
        const gw_live *live = &list[i];
        const site_sum *of = bsearch(&(site_sum){.site = live->site}, sum, count, sizeof *sum, compare_sites);
        it->block[it->block_count++] = (gwi_block){live->address, live->bytes, of == NULL ? GWI_SMALLER : of->colour};
        it->used[it->block[it->block_count - 1].colour] = true;
    }
    it->by_allocator = true;
    it->missing_bytes = report->rest_bytes;
    free(list);
    free(sum);
    return true;
}

static int compare_addresses(const void *a, const void *b)
{
    const gwi_block *left = a, *right = b;
    return (left->address > right->address) - (left->address < right->address);
}

/* True if one of the sorted blocks begins in the segment. */
static bool has_block(const gwi_block *block, size_t count, const gw_live *segment)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (block[middle].address < segment->address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && block[low].address - segment->address < segment->bytes;
}

/* The driver's blocks that contain blocks of the allocator are its segments. The others are memory that the allocator
 * keeps for later, if their sum is what it reserves beyond its segments; otherwise other memory of the program. */
static void take_segments(const gw_snapshot *snapshot, const gw_allocator_report *report, picture *it)
{
    uint64_t segments = 0, others = 0, reserved = report->field[GW_ALLOCATOR_RESERVED];
    size_t blocks = it->block_count;
    qsort(it->block, blocks, sizeof *it->block, compare_addresses);
    for (size_t i = 0; i < snapshot->live_count; i++) {
        const gw_live *live = &snapshot->live[i];
        bool inside = has_block(it->block, blocks, live);
        if (live->cls == GW_CLASS_PLAIN && inside)
            segments = gwi_sum(segments, live->bytes);
        else if (live->cls == GW_CLASS_PLAIN)
            others = gwi_sum(others, live->bytes);
    }
    bool are_cached = report->has_field[GW_ALLOCATOR_RESERVED] && gwi_sum(segments, others) == reserved;
    for (size_t i = 0; i < snapshot->live_count; i++) {
        const gw_live *live = &snapshot->live[i];
        if (live->cls != GW_CLASS_PLAIN)
            continue;
        if (are_cached || has_block(it->block, blocks, live))
            it->segment[it->segment_count++] = (gwi_block){live->address, live->bytes, 0};
        else
            it->block[it->block_count++] = (gwi_block){live->address, live->bytes, GWI_OUTSIDE};
    }
    it->used[GWI_OUTSIDE] = it->used[GWI_OUTSIDE] || it->block_count > blocks;
}

/* ---- HTML ---- */

static void legend(gwi_part *at, const picture *it)
{
    gw_text_add_str(at->page, "<p class=\"maplegend\">");
    for (size_t i = 0; i < it->name_count; i++) {
        if (!it->used[i])
            continue;
        gw_text_addf(at->page, "<span class=\"key\"><i class=\"c%zu\"></i>", i);
        gwi_html_cut(at->page, gw_text_str(&it->name[i]), NAME_CHARS_MAX);
        gw_text_add_str(at->page, "</span> ");
    }
    if (it->used[GWI_SMALLER])
        gw_text_addf(at->page, "<span class=\"key\"><i class=\"c%d\"></i>smaller places</span> ", GWI_SMALLER);
    if (it->used[GWI_OUTSIDE])
        gw_text_addf(at->page, "<span class=\"key\"><i class=\"c%d\"></i>other memory of the program</span> ",
                     GWI_OUTSIDE);
    gw_text_add_str(at->page, "<span class=\"key\"><i class=\"hole\"></i>free</span></p>\n");
}

static void bytes_in(gwi_part *at, const char *before, uint64_t bytes, const char *after)
{
    gw_text_add_str(at->page, before);
    gwi_bytes(at->page, bytes);
    gw_text_add_str(at->page, after);
}

static void summary(gwi_part *at, const picture *it, const gwi_map *map)
{
    gw_text_addf(at->page, "<p>%zu %s", map->segment_count, map->segment_count == 1 ? "segment" : "segments");
    bytes_in(at, ", <b>", map->bytes, "</b> in all");
    bytes_in(at, "; <b>", map->used_bytes, "</b> of it in use; ");
    if (map->hole_bytes_max > 0)
        bytes_in(at, "largest free piece <b>", map->hole_bytes_max, "</b>.");
    else
        gw_text_add_str(at->page, "nothing free.");
    if (it->by_allocator)
        gw_text_add_str(at->page, " Each row is a segment: memory that the framework's allocator requested from the "
                                  "driver. The allocator divides segments into blocks, which are coloured.");
    else
        gw_text_add_str(at->page, " Each row is a segment: blocks from the driver that lie side by side.");
    if (it->unmapped_bytes > 0)
        bytes_in(at, " ", it->unmapped_bytes, " of cuMemCreate has no known address and is not in the map.");
    if (it->missing_bytes > 0)
        bytes_in(at, " ", it->missing_bytes, " in use is not in the map: the recording has no addresses of it.");
    if (map->ignored_count > 0)
        gw_text_addf(at->page, " %zu blocks with impossible addresses are left out.", map->ignored_count);
    gw_text_add_str(at->page, "</p>\n");
}

/* Write the map, with a bar for the refused request if `wanted_bytes` is not 0. */
static void show(gwi_part *at, picture *it, uint64_t wanted_bytes)
{
    gwi_map map;
    if (!gwi_map_make(it->block, it->block_count, it->segment, it->segment_count, &map)) {
        at->failed = true;
        return;
    }
    summary(at, it, &map);
    legend(at, it);
    gwi_map_svg(at->page, &map, wanted_bytes);
    gwi_map_free(&map);
}

static void moment_line(gwi_part *at, const gwi_moment *moment)
{
    const gw_failure *failure = moment->failure;
    gw_text_addf(at->page, "<p>Process %u, ", moment->pid);
    gwi_time(at->page, moment->t_ns);
    gw_text_add_str(at->page, " after the start");
    if (moment->wanted_bytes > 0)
        bytes_in(at, ": the refused request needed <b>", moment->wanted_bytes, "</b>");
    if (moment->wanted_bytes > 0 && failure != NULL && failure->bytes_wanted > 0 &&
        moment->wanted_bytes != failure->bytes_wanted)
        bytes_in(at, ", for which the framework's allocator requested ", failure->bytes_wanted, " from the driver");
    if (failure != NULL && failure->has_info)
        bytes_in(at, "; the driver had <b>", failure->info.bytes_free, "</b> free");
    else if (failure == NULL && moment->is_refusal && moment->report->has_free)
        bytes_in(at, "; the card had <b>", moment->report->bytes_free, "</b> free");
    gw_text_add_str(at->page, ".</p>\n");
}

/* Take the blocks of the moment: those of the framework's allocator or, without its report, those of the driver. */
static bool take_moment(gwi_part *at, const gwi_moment *moment, const gw_snapshot *snapshot, picture *it)
{
    bool by_allocator = moment->report != NULL && moment->report->live_count > 0;
    size_t live_count = snapshot == NULL || snapshot->live == NULL ? 0 : snapshot->live_count;
    if (!reserve(it, live_count + (by_allocator ? moment->report->live_count : 0), live_count))
        return false;
    if (by_allocator) {
        if (!take_allocator_blocks(at, moment->report, it))
            return false;
        if (live_count > 0)
            take_segments(snapshot, moment->report, it);
    } else if (live_count > 0) {
        take_driver_blocks(at, snapshot->live, live_count, false, it);
        name_as_chart(at, snapshot->device, it);
    }
    return true;
}

static void at_failure(gwi_part *at)
{
    gwi_moment moment;
    picture it = {0};
    if (!gwi_moment_find(at, &moment)) {
        gw_text_add_str(at->page, at->run->verdict->status == GW_VERDICT_FAULT
                                      ? "<p>There is no map of the failure, because no request for memory was "
                                        "refused: the run failed for another reason.</p>\n"
                                      : "<p>No request for memory was refused.</p>\n");
        return;
    }
    gw_text_add_str(at->page,
                    moment.is_refusal ? "<h4>At the failure</h4>\n" : "<h4>When the snapshot was saved</h4>\n");
    moment_line(at, &moment);
    const gw_snapshot *snapshot =
        moment.failure == NULL ? NULL : gw_model_snapshot(at->model, moment.failure->snapshot);
    bool good = take_moment(at, &moment, snapshot, &it);
    if (good && it.block_count + it.segment_count + it.unmapped_bytes > 0)
        show(at, &it, moment.wanted_bytes);
    else if (good)
        gw_text_add_str(at->page,
                        "<p>The list of blocks is not known: nothing was live, the program continued after the "
                        "failure, or there were too many failures.</p>\n");
    at->failed = at->failed || !good;
    picture_free(&it);
}

static void at_peak(gwi_part *at, int device)
{
    char name[GW_DEVICE_TEXT_MAX];
    const gwi_device_course *course = &at->course->device[device];
    picture it = {0};
    gw_text_addf(at->page, "<h4>At the peak on %s</h4>\n<p>Process %u, ", gw_device_text(name, device),
                 course->peak_pid);
    gwi_time(at->page, course->t_peak_ns);
    gw_text_add_str(at->page, " after the start, when it held the most memory.</p>\n");
    if (course->peak == NULL) {
        gw_text_add_str(at->page, "<p>The list of blocks is not known.</p>\n");
        return;
    }
    if (reserve(&it, course->peak_count, 0)) {
        take_driver_blocks(at, course->peak, course->peak_count, true, &it);
        name_as_chart(at, device, &it);
        show(at, &it, 0);
    } else {
        at->failed = true;
    }
    picture_free(&it);
}

void gwi_map_part(gwi_part *at)
{
    enum { DEVICES_SHOWN_MAX = 4 };
    unsigned shown = 0;
    gwi_section_begin(at, "map", "Memory map");
    at_failure(at);
    for (int device = 0; device < GW_MODEL_DEVICE_PLACES; device++) {
        if (at->course->device[device].peak_bytes > 0 && shown++ < DEVICES_SHOWN_MAX)
            at_peak(at, device);
    }
    if (shown > DEVICES_SHOWN_MAX)
        gw_text_addf(at->page, "<p>The maps of %u more devices are left out.</p>\n", shown - DEVICES_SHOWN_MAX);
    gwi_section_end(at);
}
