/* Finds out how the live memory accumulated. It may have grown in spans with work between them, for example because the
 * program ran twice. Or blocks of one size were kept: a leak in each step.
 *
 * Blocks are listed in the order of their allocation. Work between neighbouring blocks shows as allocations that were
 * freed again (gaps in `order`), and as calls in the rings. A training loop does much more such work than the
 * construction of a model.
 *
 * An allocator's history may begin too late to contain these allocations. Even then, its peaks (the highest and lowest
 * live bytes in equal spans of time) show that live bytes rose and fell.
 *
 * Equal sizes in a row prove nothing: gradients have the same sizes as the weights, and layers the same sizes as other
 * layers. */
#include "gw_array.h"
#include "gw_growth.h"
#include "gwi_inner.h"
#include "gwi_pattern.h"

#include <string.h>

typedef struct work {
    uint64_t transient;       /* number of blocks allocated between the previous block and this one, and freed since */
    uint32_t launches, waits; /* calls between these two blocks, from the rings; waits: synchronisations and copies */
    uint32_t cycles;          /* number of launches followed by a wait or a copy: about the number of iterations */
    uint32_t falls;           /* how often live bytes fell by at least course.fall_min */
    uint64_t fall_bytes;      /* largest fall of the live bytes, from one span of time to a later one */
    /* sums up to this block; for cycles_so_far, the larger of `cycles` and `falls` of each block is added */
    uint64_t transient_so_far, cycles_so_far;
} work;

/* Live bytes over time: the highest and lowest value in each span of time (`peak`). A fall is measured only from one
 * span to a later one. The order of the two values within a span is unknown. */
typedef struct course {
    const gw_peak *peak;
    size_t count;
    uint64_t fall_min;             /* smallest fall that counts, in bytes */
    bool has_unseen;               /* the history is known to begin after the process first had memory */
    uint64_t t_first_ns, t_end_ns; /* when the process first had memory; when the history was read */
} course;

typedef struct moment {
    uint64_t t_ns;
    bool is_launch;
} moment;

static int by_moment(const void *left, const void *right)
{
    const moment *a = left, *b = right;
    return a->t_ns < b->t_ns ? -1 : a->t_ns > b->t_ns;
}

static moment *moments_of(const gw_model *model, uint32_t pid, size_t *ret_count)
{
    size_t room = 0, count = 0;
    const gw_thread *first = gw_model_first_thread(model, pid);
    for (const gw_thread *thread = first; thread != NULL; thread = gw_model_next_thread(model, thread))
        room += thread->ring_count;
    moment *list = room == 0 ? NULL : malloc(room * sizeof *list);
    for (const gw_thread *thread = first; list != NULL && thread != NULL;
         thread = gw_model_next_thread(model, thread)) {
        for (size_t k = 0; k < thread->ring_count; k++) {
            const gw_ring_call *call = &thread->ring[k];
            bool launch = gw_is_any_launch(call) && !call->captured;
            if (launch || call->is_sync || call->is_copy)
                list[count++] = (moment){call->t_ns, launch};
        }
    }
    if (count > 0)
        qsort(list, count, sizeof *list, by_moment);
    *ret_count = count;
    return list;
}

/* Count in list[i] how often live bytes fell between the allocations of live[i - 1] and live[i]. The count begins with
 * the span of time of the first allocation and ends with that of the second. */
static void add_falls(work *list, const gw_live *live, size_t count, const course *way)
{
    size_t at = 0;
    for (size_t i = 1; i <= count; i++) {
        while (at < way->count && way->peak[at].t_ns < live[i - 1].t_ns)
            at++;
        uint64_t highest = 0;
        for (size_t k = at; k < way->count; k++) {
            const gw_peak *span = &way->peak[k];
            if (k > at && span->has_low && highest > span->low_bytes) {
                uint64_t fall = highest - span->low_bytes;
                list[i].fall_bytes = fall > list[i].fall_bytes ? fall : list[i].fall_bytes;
                if (fall >= way->fall_min) {
                    list[i].falls++;
                    highest = 0;
                }
            }
            highest = span->bytes > highest ? span->bytes : highest;
            if (i < count && span->t_ns >= live[i].t_ns)
                break;
        }
    }
}

static void add_up(work *list, size_t count)
{
    uint64_t transient = 0, cycles = 0;
    for (size_t i = 0; i <= count; i++) {
        list[i].transient_so_far = transient += list[i].transient;
        list[i].cycles_so_far = cycles += list[i].cycles > list[i].falls ? list[i].cycles : list[i].falls;
    }
}

/* Return an array of count + 1 elements; the caller frees it. Element i is the work before live[i]. The last one is the
 * work after the last block. */
static work *work_of(const gw_model *model, uint32_t pid, const gw_live *live, size_t count, uint64_t order_now,
                     const course *way)
{
    work *list = calloc(count + 1, sizeof *list);
    size_t moment_count = 0, at = 0;
    moment *moments = moments_of(model, pid, &moment_count);
    bool launching = false;
    for (size_t i = 0; list != NULL && i <= count; i++) {
        uint64_t order_before = i == 0 ? 0 : live[i - 1].order;
        uint64_t order_here = i == count ? order_now + 1 : live[i].order;
        list[i].transient = order_here > order_before + 1 ? order_here - order_before - 1 : 0;
        for (; at < moment_count && (i == count || moments[at].t_ns <= live[i].t_ns); at++) {
            list[i].launches += moments[at].is_launch;
            list[i].waits += !moments[at].is_launch;
            list[i].cycles += launching && !moments[at].is_launch;
            launching = moments[at].is_launch;
        }
    }
    free(moments);
    if (list != NULL && way->count > 0)
        add_falls(list, live, count, way);
    if (list != NULL)
        add_up(list, count);
    return list;
}

static uint64_t amount(const work *item)
{
    return item->transient + item->launches;
}

/* Compare the sizes at `from` and later with those at the start of the list. Returns how many are equal before the
 * first difference, at most `from`. *ret_sorts is the number of runs of equal sizes among them. */
static size_t match_length(const gwi_pattern *sizes, size_t from, size_t *ret_sorts)
{
    size_t length = sizes->match[from] < from ? sizes->match[from] : from;
    *ret_sorts = sizes->sorts[length];
    return length;
}

/* True if the work before a block consists of several iterations, not of a single pass. `inside_max` is the largest
 * amount of work before any other block. */
static bool is_loop(const work *item, uint64_t inside_max)
{
    enum { WAITS_MIN = 3, TRANSIENT_MIN = 24 };
    if (item->waits >= WAITS_MIN && item->launches >= WAITS_MIN)
        return amount(item) >= 2 * inside_max;
    return item->transient >= TRANSIENT_MIN && item->transient >= 3 * inside_max;
}

static uint64_t cycles_in(const work *list, size_t from, size_t to)
{
    return to <= from ? 0 : list[to - 1].cycles_so_far - (from == 0 ? 0 : list[from - 1].cycles_so_far);
}

static uint64_t transients_in(const work *list, size_t from, size_t to)
{
    return to <= from ? 0 : list[to - 1].transient_so_far - (from == 0 ? 0 : list[from - 1].transient_so_far);
}

/* True if a second run begins at index `at`: after some iterations, the sizes repeat those at the start of the list. A
 * start that repeats one pattern, as weights and gradients do, shows no second run. */
static bool is_run_start(const gwi_pattern *sizes, const work *list, size_t at, size_t *ret_length)
{
    enum { LENGTH_MIN = 3, SORTS_MIN = 2, CYCLES_MIN = 3, TRANSIENTS_MIN = 24 };
    size_t sorts;
    size_t length = match_length(sizes, at, &sorts);
    *ret_length = length;
    if (length < LENGTH_MIN || sorts < SORTS_MIN || gwi_pattern_is_periodic(sizes, at))
        return false;
    uint64_t cycles = cycles_in(list, 1, at + 1);
    if (length == at) /* everything before `at` is repeated: require work directly before `at`, too */
        return cycles >= CYCLES_MIN && (amount(&list[at]) > 0 || list[at].falls > 0);
    return cycles >= CYCLES_MIN || transients_in(list, 1, at + 1) >= TRANSIENTS_MIN;
}

/* Return the total size of the blocks at `last` and later that have a partner. A partner is an unused block of about
 * the same size among the first `first` blocks. Returns 0 if out of memory. */
static uint64_t partner_bytes(const gw_live *live, size_t count, size_t first, size_t last)
{
    uint64_t *size = malloc(count * sizeof *size), sum = 0;
    if (size == NULL)
        return 0;
    for (size_t i = 0; i < count; i++)
        size[i] = live[i].bytes;
    qsort(size, first, sizeof *size, gw_by_number);
    qsort(size + last, count - last, sizeof *size, gw_by_number);
    for (size_t a = 0, b = last; a < first && b < count;) {
        /* a caching allocator may return a block that is slightly larger than requested */
        uint64_t slack = size[b] / 64;
        if (size[a] + slack < size[b]) {
            a++;
        } else if (size[b] + slack < size[a]) {
            b++;
        } else {
            sum += size[b++];
            a++;
        }
    }
    free(size);
    return sum;
}

/* True if the last span is a new run, not a copy of the model. Always true for the driver's ledger.
 *
 * In a framework's list, a copy (an average of the weights, a teacher) begins with the same sizes as a run. So at least
 * half of the last span's bytes must have partners in the first span. In addition:
 * - the last span continues after the repeated sizes, or
 * - iterations ran while the first span's blocks with these sizes were allocated. */
static bool goes_on(const gw_live *live, const work *list, const gw_growth *growth)
{
    if (live[0].cls != GW_CLASS_COUNT)
        return true;
    bool more = growth->last_count > growth->repeat_match_count || cycles_in(list, 1, growth->repeat_match_count) > 0;
    return more && growth->last_partner_bytes * 2 >= growth->last_bytes;
}

enum { STARTS_MAX = 64 };

/* Find where later runs begin. Stores the index of each run's first block in `starts`, and returns their number.
 * *ret_length is how many sizes the last run shares with the beginning of the first. */
static size_t find_starts(const gwi_pattern *sizes, size_t count, const work *list, size_t starts[STARTS_MAX],
                          size_t *ret_length)
{
    size_t start_count = 0, length = 0, first = 0;
    for (size_t at = 1; at < count && start_count < STARTS_MAX; at++) {
        if (first == 0 && !is_run_start(sizes, list, at, &length))
            continue;
        if (first != 0) { /* after the second run, a further run needs only to begin with the same sizes */
            size_t sorts;
            length = match_length(sizes, at, &sorts);
            if (length < 3 || sorts < 2)
                continue;
        } else {
            first = at;
        }
        starts[start_count++] = at;
        *ret_length = length;
        at += length > 1 ? length - 1 : 0;
    }
    return start_count;
}

/* Analyse the sizes of the blocks in order, with the refused request at the end. Returns false if out of memory. */
static bool pattern_of(const gw_live *live, size_t count, uint64_t wanted, gwi_pattern *ret_sizes)
{
    uint64_t *size = malloc((count + 1) * sizeof *size);
    for (size_t i = 0; size != NULL && i < count; i++)
        size[i] = live[i].bytes;
    if (size != NULL)
        size[count] = wanted;
    bool good = size != NULL && gwi_pattern_make(size, count + (wanted != 0), ret_sizes);
    free(size);
    return good;
}

/* True if most of the repeated blocks were not requested in the same kind of call as those of the first span. An
 * optimizer's state has the sizes of the weights, but is no second run. */
static bool are_other_calls(const gw_model *model, const gw_live *live, size_t count, size_t last, size_t length)
{
    size_t known = 0, other = 0;
    uint32_t *site = calloc(count + 1, sizeof *site);
    for (size_t i = 0; site != NULL && i < count; i++)
        site[i] = live[i].site;
    gwi_call *call = site == NULL ? NULL : gwi_calls_at(model, site, count);
    for (size_t i = 0; call != NULL && i < length && i < last && last + i < count; i++) {
        const gwi_call *then = &call[i], *now = &call[last + i];
        known += then->kind != GWI_CALL_NONE && now->kind != GWI_CALL_NONE;
        other += then->kind != GWI_CALL_NONE && now->kind != GWI_CALL_NONE && then->kind != now->kind;
    }
    free(call);
    free(site);
    return other * 2 > known;
}

static void find_runs(const gw_model *model, const gw_live *live, size_t count, uint64_t wanted, const work *list,
                      gw_growth *growth)
{
    size_t starts[STARTS_MAX], last_length = 0;
    gwi_pattern sizes;
    if (!pattern_of(live, count, wanted, &sizes))
        return;
    size_t start_count = find_starts(&sizes, count, list, starts, &last_length);
    gwi_pattern_free(&sizes);
    if (start_count == 0)
        return;
    size_t first = starts[0];
    growth->repeats = true;
    growth->repeat_count = start_count + 1;
    growth->repeat_match_count = last_length;
    growth->span_count = start_count + 1;
    for (size_t i = 0; i < first; i++)
        growth->first_bytes += live[i].bytes;
    growth->first_count = first;
    growth->first_has_begin = live[0].has_time;
    growth->first_begin_ns = live[0].t_ns;
    growth->first_end_ns = live[first].t_ns;
    size_t last = starts[start_count - 1];
    for (size_t i = last; i < count; i++)
        growth->last_bytes += live[i].bytes;
    growth->last_count = count - last;
    growth->last_partner_bytes = partner_bytes(live, count, first, last);
    growth->last_begin_ns = live[last].t_ns;
    growth->repeat_goes_on = goes_on(live, list, growth) && !are_other_calls(model, live, count, last, last_length);
}

/* If no span repeats, find the last span of growth: the blocks after the largest amount of work that kept no memory. */
static void find_spans(const gw_live *live, size_t count, const work *list, gw_growth *growth)
{
    size_t cut = 0;
    for (size_t i = 1; i < count; i++)
        cut = amount(&list[i]) > (cut == 0 ? 0 : amount(&list[cut])) ? i : cut;
    growth->span_count = 1;
    if (cut == 0)
        return;
    uint64_t inside = 0;
    for (size_t i = 1; i < count; i++)
        inside = i != cut && amount(&list[i]) > inside ? amount(&list[i]) : inside;
    if (!is_loop(&list[cut], inside))
        return;
    growth->span_count = 2;
    growth->first_has_begin = live[0].has_time;
    growth->first_begin_ns = live[0].t_ns;
    growth->first_end_ns = live[cut].t_ns;
    growth->last_begin_ns = live[cut].t_ns;
    growth->first_count = cut;
    growth->last_count = count - cut;
    for (size_t i = 0; i < count; i++)
        *(i < cut ? &growth->first_bytes : &growth->last_bytes) += live[i].bytes;
}

/* ---- one size, kept again and again ---- */

typedef struct sort_of { /* live blocks of one group (ledger) or one size (allocator) */
    uint64_t bytes, live, pairs_with_turnover, pairs_with_steps, pairs_with_falls, turnover, begin_ns, end_ns;
    uint64_t launches, waits, transient, fall_bytes; /* counted since the last block of this sort */
    uint64_t live_bytes;
    uint64_t kept_bytes,
        kept_since; /* kept_bytes: total size of all blocks in the list since the first block of this sort;
                       kept_since: total size of the blocks of other sorts since the last block of this sort */
    uint32_t group, site;
    uint64_t site_count; /* number of blocks from `site` */
    struct {
        uint32_t site;
        uint64_t count;
    } seen[16];
    size_t sites_seen;
    bool begun;
} sort_of;

/* Return the key that all blocks of one sort share. */
static uint64_t sort_key(const gw_live *live)
{
    return live->cls == GW_CLASS_COUNT ? live->bytes * 2 + 1 : (uint64_t)live->group * 2;
}

typedef struct sibling {
    const gw_live *live;
    uint64_t key;
} sibling;

static inline bool is_sibling(const void *context, uint32_t index)
{
    const sibling *wanted = context;
    return sort_key(&wanted->live[index]) == wanted->key;
}

static size_t sorts_of(const gw_live *live, size_t count, uint32_t *ret_sort, uint64_t *bytes)
{
    gwi_table table = {0}; /* maps a key to the first block of the sort */
    uint32_t sorts = 0;
    for (size_t i = 0; i < count; i++) {
        sibling wanted = {live, sort_key(&live[i])};
        uint32_t hash = gwi_hash(wanted.key);
        gwi_spot spot = gwi_table_find(&table, hash, is_sibling, &wanted);
        if (spot.bucket != NULL) {
            ret_sort[i] = ret_sort[gwi_spot_value(spot)];
        } else {
            if (!gwi_table_add(&table, hash, (uint32_t)i))
                break;
            bytes[sorts] = 0;
            ret_sort[i] = sorts++;
        }
        bytes[ret_sort[i]] += live[i].bytes;
    }
    gwi_table_free(&table);
    return sorts;
}

/* Count the blocks of one sort by call site, for the first 16 sites. `it->site` becomes the most frequent one. A single
 * block could mislead, because it may belong to the step in progress. */
static void count_site(sort_of *it, uint32_t site)
{
    size_t at = 0;
    while (at < it->sites_seen && it->seen[at].site != site)
        at++;
    if (at == sizeof it->seen / sizeof it->seen[0])
        return;
    it->sites_seen += at == it->sites_seen;
    it->seen[at].site = site;
    if (++it->seen[at].count > it->site_count) {
        it->site_count = it->seen[at].count;
        it->site = site;
    }
}

static void follow_sort(const gw_live *live, size_t count, const work *list, const uint32_t *sort, uint32_t which,
                        sort_of *it)
{
    for (size_t i = 0; i < count; i++) {
        it->launches += list[i].launches;
        it->waits += list[i].waits;
        it->transient += list[i].transient;
        it->fall_bytes = list[i].fall_bytes > it->fall_bytes ? list[i].fall_bytes : it->fall_bytes;
        it->kept_bytes += it->begun ? live[i].bytes : 0;
        it->kept_since += it->begun && sort[i] != which ? live[i].bytes : 0;
        /* skip other sorts, and blocks without a time: they cannot mark the beginning */
        if (sort[i] != which || !live[i].has_time)
            continue;
        if (it->begun) {
            it->pairs_with_falls += it->fall_bytes >= live[i].bytes + it->kept_since / 2;
            it->pairs_with_turnover += it->transient > 0;
            it->pairs_with_steps += it->launches > 0 && it->waits > 0;
            it->turnover += it->transient;
        } else {
            it->begin_ns = live[i].t_ns;
            it->kept_bytes = live[i].bytes;
        }
        it->begun = true;
        it->kept_since = 0;
        it->bytes = live[i].bytes;
        it->group = live[i].group;
        count_site(it, live[i].site);
        it->live++;
        it->live_bytes += live[i].bytes;
        it->end_ns = live[i].t_ns;
        it->launches = it->waits = it->transient = it->fall_bytes = 0;
    }
}

/* True if memory was freed before at least half of these blocks (gw_group.step_count). Memory freed only after the last
 * block does not help. Always true for a framework's list, which has no such count. */
static bool came_with_frees(const gw_model *model, const gw_live *live, const sort_of *it)
{
    return live->cls == GW_CLASS_COUNT || model->group[it->group].step_count * 2 >= it->live;
}

/* True if these blocks may belong to a late phase that looks like the whole run, because the history is short. It
 * begins after the process first had memory, and most of the time since then passed before the first block. */
static bool is_late(const sort_of *it, const course *way)
{
    return way->has_unseen && it->begin_ns > way->t_first_ns && way->t_end_ns > it->begin_ns &&
           it->begin_ns - way->t_first_ns > way->t_end_ns - it->begin_ns;
}

/* True if neither the first pass through a deep model nor a late phase looks like these blocks:
 * - Live bytes fell between most of them.
 * - Live bytes fell by the size of an average block before the first one.
 * - The first one is in the first half of the recorded time. */
static bool is_accumulation(const sort_of *it, const course *way)
{
    enum { FALLS_MIN = 6 };
    if (it->pairs_with_falls < FALLS_MIN || it->pairs_with_falls * 4 < (it->live - 1) * 3)
        return false;
    uint64_t highest = 0;
    bool fell_before = false;
    size_t before = 0;
    for (; before < way->count && way->peak[before].t_ns < it->begin_ns; before++) {
        const gw_peak *span = &way->peak[before];
        fell_before = fell_before || (span->has_low && highest > span->low_bytes &&
                                      highest - span->low_bytes >= it->kept_bytes / it->live);
        highest = span->bytes > highest ? span->bytes : highest;
    }
    return fell_before && before * 2 <= way->count;
}

enum { PAIRS_MIN = 8, PAIRS_MANY = 48 };

/* True if other memory was allocated and freed between most of these blocks. A leak is then possible, but
 * is_step_leak() needs more evidence. */
static bool may_be_step_leak(const gw_model *model, const gw_live *live, const sort_of *it)
{
    return came_with_frees(model, live, it) && it->pairs_with_turnover >= PAIRS_MIN &&
           it->pairs_with_turnover * 4 >= it->live * 3;
}

/* True if at least eight blocks of one sort hold at least half of the live memory, with no kernel launch before or
 * between them. They may be one pool in pieces, or a loop may keep them. After launches, they could be one pass through
 * equal layers. */
static bool may_be_pile(const sort_of *it, uint64_t total_bytes, const work *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].launches > 0)
            return false;
    return it->live >= PAIRS_MIN && it->live_bytes * 2 >= total_bytes;
}

static bool is_step_leak(const gw_model *model, const gw_live *live, const sort_of *it, const course *way)
{
    if (it->pairs_with_steps >= PAIRS_MIN)
        return true; /* between enough successive blocks, the program launched a kernel and also waited or copied */
    if (is_accumulation(it, way) && !is_late(it, way))
        return true;
    return may_be_step_leak(model, live, it) && it->pairs_with_turnover >= PAIRS_MANY;
}

/* Look for a step leak. Examine only the LOOK_MAX sorts with the most bytes, because a leak of a smaller sort did
 * not fill the card. */
static void find_steps(const gw_model *model, const gw_live *live, size_t count, const work *list, const course *way,
                       gw_growth *growth)
{
    enum { LOOK_MAX = 8 };
    uint32_t *sort = malloc(count * sizeof *sort);
    uint64_t *bytes = malloc(count * sizeof *bytes);
    size_t sorts = sort == NULL || bytes == NULL ? 0 : sorts_of(live, count, sort, bytes);
    uint64_t total_bytes = 0;
    for (size_t i = 0; i < sorts; i++)
        total_bytes += bytes[i];
    for (size_t look = 0; look < LOOK_MAX && sorts > 0; look++) {
        uint32_t which = 0;
        for (uint32_t i = 1; i < sorts; i++)
            which = bytes[i] > bytes[which] ? i : which;
        if (bytes[which] == 0)
            break;
        sort_of it = {0};
        follow_sort(live, count, list, sort, which, &it);
        growth->steps_unsure = growth->steps_unsure || (is_accumulation(&it, way) && is_late(&it, way)) ||
                               (live->cls != GW_CLASS_COUNT &&
                                (may_be_step_leak(model, live, &it) || may_be_pile(&it, total_bytes, list, count)));
        if (is_step_leak(model, live, &it, way) && it.live_bytes > growth->step_live_bytes) {
            growth->steps = true;
            growth->step_count = it.live;
            growth->step_bytes = it.bytes;
            growth->step_live_bytes = it.live_bytes;
            growth->step_begin_ns = it.begin_ns;
            growth->step_end_ns = it.end_ns;
            growth->step_turnover = it.turnover;
            growth->step_group = it.group;
            growth->step_site = it.site;
            growth->step_freed = live[0].cls == GW_CLASS_COUNT ? 0 : model->group[it.group].free_count;
            growth->step_waited = it.pairs_with_steps;
            growth->step_fallen = it.pairs_with_falls;
            growth->step_all_bytes = it.kept_bytes;
        }
        bytes[which] = 0;
    }
    free(sort);
    free(bytes);
}

/* Find earlier work that ended: live bytes rose, and later fell to less than half. Store the highest such peak and the
 * time of the fall. */
static void find_earlier(const course *way, gw_growth *growth)
{
    uint64_t highest = 0;
    for (size_t i = 0; i < way->count; i++) {
        const gw_peak *span = &way->peak[i];
        if (span->has_low && span->low_bytes * 2 < highest && highest > growth->earlier_peak_bytes) {
            growth->earlier_peak_bytes = highest;
            growth->earlier_t_ns = span->t_ns;
        }
        highest = span->bytes > highest ? span->bytes : highest;
    }
}

/* Return the time at which the process first allocated device or managed memory from the driver. Returns UINT64_MAX
 * if it never did. */
static uint64_t first_memory_ns(const gw_model *model, uint32_t pid)
{
    uint64_t first = UINT64_MAX;
    for (size_t i = 1; i < model->group_count; i++) {
        const gw_group *group = &model->group[i];
        if (group->pid == pid && gwi_is_counted(group->cls) && group->t_first_ns < first)
            first = group->t_first_ns;
    }
    return first;
}

static course course_of(const gw_model *model, uint32_t pid, const gw_allocator_report *report, uint64_t total_bytes)
{
    enum { FALL_PART = 16 };
    course way = {.fall_min = total_bytes / FALL_PART + 1};
    if (report == NULL)
        return way;
    way.peak = report->peak;
    way.count = report->peak_count;
    way.t_end_ns = report->t_ns;
    way.t_first_ns = first_memory_ns(model, pid);
    uint64_t age_ns = report->field[GW_ALLOCATOR_HISTORY_AGE];
    way.has_unseen =
        report->has_field[GW_ALLOCATOR_HISTORY_AGE] && age_ns <= report->t_ns && way.t_first_ns < report->t_ns - age_ns;
    return way;
}

/* ---- iterations ---- */

/* Append the refused request to the list of granted requests, because it may begin an iteration. */
static void add_refused(const gw_growth_question *question, gw_request refused, gw_request *list, size_t *count)
{
    refused.t_ns = question->wanted_t_ns;
    refused.bytes = question->wanted_bytes;
    for (size_t i = *count; i-- > 0 && refused.group == 0;)
        if (list[i].bytes == refused.bytes && (list[i].site == refused.site || question->snapshot == NULL))
            refused.group = list[i].group;
    list[(*count)++] = refused;
}

static gw_request refused_by_driver(const gw_growth_question *question)
{
    const gw_snapshot *snapshot = question->snapshot;
    return (gw_request){.live_bytes = snapshot->usage.live_bytes + snapshot->usage.class_bytes[GW_CLASS_MANAGED],
                        .launches = snapshot->launches,
                        .frees = snapshot->frees,
                        .copies = snapshot->copies,
                        .reads = snapshot->reads,
                        .waits = snapshot->waits,
                        .order = snapshot->order + 1,
                        .site = question->wanted_site};
}

static gw_request refused_by_allocator(const gw_growth_question *question, const gw_request *last)
{
    const gw_allocator_report *report = question->report;
    return (gw_request){.live_bytes = report->field[GW_ALLOCATOR_ALLOCATED],
                        /* the work since the last request is unknown; assume one launch */
                        .launches = last->launches + 1,
                        .frees = last->frees,
                        .waits = last->waits,
                        .order = last->order + 1,
                        .site = report->wanted_site};
}

/* Return the bytes that the leaking call sites (loop->keeper) had kept before the first request of the list. */
static uint64_t kept_earlier(const gw_growth_question *question, const gw_iterations *loop, uint64_t first_order)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < question->live_count && question->live[i].order < first_order; i++) {
        for (size_t k = 0; k < loop->keeper_count; k++)
            bytes += question->live[i].site != 0 && question->live[i].site == loop->keeper[k].site
                         ? question->live[i].bytes
                         : 0;
    }
    return bytes;
}

/* True if at least three iterations that kept no memory lie between the equal requests `from` and `to`. An iteration is
 * a wait or a read by the host, or a request that was freed again. Loading layers repeats requests, too, but keeps
 * memory. Waits and requests of other threads may belong to either run, so they are ignored. */
static bool is_between_runs(const gw_request *list, size_t from, size_t to)
{
    enum { ROUNDS_MIN = 3 };
    uint64_t rounds = 0, passing = 0;
    if (list[to].launches + list[to].copies <= list[from].launches + list[from].copies)
        return false;
    for (size_t i = from + 1; i <= to; i++) {
        bool own = list[i].thread == list[from].thread || list[i].thread == 0 || list[from].thread == 0;
        rounds += own ? list[i].waits + list[i].reads - list[i - 1].waits - list[i - 1].reads : 0;
        if (rounds >= ROUNDS_MIN || passing >= ROUNDS_MIN)
            return true;
        passing = list[i].lifetime == GW_ALIVE ? 0 : passing + own;
        rounds = list[i].lifetime == GW_ALIVE ? 0 : rounds;
    }
    return false;
}

static bool is_same_place(const gw_request *a, const gw_request *b)
{
    return a->site != 0 ? a->site == b->site : a->group == b->group && a->group != 0;
}

/* True if one call site made at least three requests within NEAR requests, in a stretch of requests that kept no
 * memory. */
static bool has_idle_loop(const gw_request *list, size_t from, size_t to)
{
    enum { TIMES_MIN = 3, NEAR = 64 };
    size_t begin = from; /* index of the last request whose memory was kept */
    for (size_t i = from + 1; i <= to; i++) {
        size_t times = 1;
        if (list[i].lifetime == GW_ALIVE)
            begin = i;
        for (size_t k = i; --k > begin && i - k < NEAR && times < TIMES_MIN;)
            times += is_same_place(&list[k], &list[i]);
        if (begin < i && times >= TIMES_MIN)
            return true;
    }
    return false;
}

/* Return how many requests up to `a` equal those up to `b`, counted backwards without overlap. `most` limits the
 * number. If `by_place`, only call sites are compared, not sizes. */
static size_t equal_before(const gw_request *list, size_t a, size_t b, size_t most, bool by_place)
{
    size_t length = 0;
    while (length <= a && length < b - a && length < most &&
           (by_place ? is_same_place(&list[a - length], &list[b - length])
                     : list[a - length].group == list[b - length].group))
        length++;
    return length;
}

/* Find the longest sequence of earlier requests that the newest requests repeat. Returns its length; *ret_then is the
 * index of its last request. Stops after about STEPS_MAX comparisons. */
static size_t longest_repeat(const gw_request *list, size_t last, bool by_place, size_t *ret_then)
{
    enum { STEPS_MAX = 4 << 20, LENGTH_MAX = 1 << 13 };
    size_t best = 0, steps = 0;
    for (size_t then = last; then-- > 0 && steps < STEPS_MAX;) {
        size_t length = equal_before(list, then, last, LENGTH_MAX, by_place);
        steps += length + 1;
        if (length > best) {
            best = length;
            *ret_then = then;
        }
    }
    return best;
}

/* True if two pieces of a framework's list probably do the same work. A call site may be unknown. More than half of the
 * sites known in both pieces must be equal. If none is known, the requests must have several sizes: a series of one
 * size proves nothing. */
static bool is_same_work(const gw_request *list, size_t first, size_t begin, size_t length)
{
    size_t known = 0, equal = 0;
    bool several_sizes = false;
    for (size_t i = 0; i < length; i++) {
        const gw_request *a = &list[first + i], *b = &list[begin + i];
        known += a->site != 0 && b->site != 0;
        equal += a->site != 0 && a->site == b->site;
        several_sizes = several_sizes || a->group != list[first].group;
    }
    return equal * 2 > known || (known == 0 && several_sizes);
}

/* Two pieces of a list of requests, of equal length. The newer piece is at the end of the list. */
typedef struct rerun {
    size_t first, begin, length; /* start of the older piece, start of the newer piece, length of both */
    bool by_place;
} rerun;

/* True if one thread made all these requests. If several threads make them, each run of the program may mix them in
 * another order. */
static bool is_of_one_thread(const gw_request *list, size_t from, size_t to)
{
    uint16_t thread = 0;
    for (size_t i = from; i <= to; i++) {
        if (thread != 0 && list[i].thread != 0 && list[i].thread != thread)
            return false;
        thread = list[i].thread != 0 ? list[i].thread : thread;
    }
    return true;
}

/* True if iterations lie between the two pieces. Several complete repetitions of one run leave nothing between the
 * pieces. Then look for iterations in the newer piece, without the refused request. */
static bool lie_between_runs(const gw_request *list, const rerun *it)
{
    size_t then = it->first + it->length - 1, last = it->begin + it->length - 1;
    if (!it->by_place && is_between_runs(list, then, it->begin))
        return true;
    if (!is_of_one_thread(list, it->first, last))
        return false;
    if (it->by_place && has_idle_loop(list, then, it->begin))
        return true;
    return list[last].site != 0 && it->begin <= then + 2 && has_idle_loop(list, then, last - 1);
}

/* Check further conditions for pieces with different sizes. They must have at least eight requests from several call
 * sites. Some blocks of the newer piece must still be alive. */
static bool is_same_loader(const gw_request *list, const rerun *it)
{
    enum { LENGTH_MIN = 8 };
    uint64_t kept = 0;
    bool several = false;
    for (size_t i = it->begin; i < it->begin + it->length; i++) {
        kept += list[i].lifetime == GW_ALIVE;
        several = several || !is_same_place(&list[i], &list[it->begin]);
    }
    return it->length >= LENGTH_MIN && several && kept > 0;
}

static bool is_rerun(const gw_request *list, const rerun *it, const gw_growth_question *question)
{
    size_t last = it->begin + it->length - 1, kept = 0;
    /* For a framework's requests, often only the sizes are known. A few equal sizes can be chance, so require eight. */
    size_t length_min = question->snapshot != NULL && list[last].site != 0 ? 1 : 8;
    for (size_t i = it->first; i < it->first + it->length; i++)
        kept += list[i].lifetime == GW_ALIVE;
    if (it->length < length_min || kept == 0 || (it->by_place && !is_same_loader(list, it)))
        return false;
    if (question->snapshot == NULL && !is_same_work(list, it->first, it->begin, it->length))
        return false;
    return lie_between_runs(list, it);
}

/* Find a rerun: the refused request and the requests before it repeat the beginning of an earlier run.
 * - The same call sites request the same sizes, or other sizes if the driver's ledger has the sites (another batch
 *   size).
 * - Some memory of the earlier run is still alive.
 * - Iterations lie between the two runs. */
static void find_rerun(const gw_request *list, size_t count, const gw_growth_question *question, gw_growth *growth)
{
    size_t last = count - 1;
    rerun it = {.by_place = false};
    bool found = false;
    for (int by_place = 0; by_place < 2 && !found; by_place++) {
        size_t then = 0;
        bool known = by_place ? list[last].site != 0 && question->snapshot != NULL : list[last].group != 0;
        it.by_place = by_place != 0;
        it.length = known ? longest_repeat(list, last, it.by_place, &then) : 0;
        it.first = then + 1 - it.length;
        it.begin = last + 1 - it.length;
        found = it.length > 0 && is_rerun(list, &it, question);
    }
    if (!found)
        return;
    growth->repeats = growth->repeat_goes_on = growth->repeat_by_requests = true;
    growth->repeat_count = growth->span_count = 2;
    growth->repeat_by_place = it.by_place;
    growth->repeat_match_count = it.length;
    for (size_t i = it.first; i < it.begin; i++)
        growth->first_bytes += list[i].lifetime == GW_ALIVE ? list[i].bytes : 0;
    growth->first_has_begin = question->live[0].has_time;
    growth->first_begin_ns = list[it.first].t_ns;
    growth->first_end_ns = growth->last_begin_ns = list[it.begin].t_ns;
    while (growth->first_count < question->live_count &&
           question->live[growth->first_count].order < list[it.begin].order)
        growth->first_count++;
}

/* True if the hook recorded every request to the framework's allocator and every free. A report with missed events
 * does not count. */
static bool has_course(const gw_allocator_report *report)
{
    return report->has_course && report->course_missed == 0 && report->request_count > 0;
}

/* Return the report whose list of requests applies to this report, usually itself. After many refusals in a row, the
 * buffer has no room for later lists. Then use a report of the same process and device, up to two seconds older.
 * Returns NULL if there is none. */
static const gw_allocator_report *report_with_course(const gw_model *model, const gw_allocator_report *report)
{
    const uint64_t near_ns = 2000000000u;
    if (report == NULL || has_course(report))
        return report;
    for (size_t i = model->allocator_count; i-- > 0;) {
        const gw_allocator_report *other = &model->allocator[i];
        if (other->pid == report->pid && other->device == report->device && other->t_ns <= report->t_ns &&
            report->t_ns - other->t_ns <= near_ns && has_course(other))
            return other;
    }
    return NULL;
}

static void find_iterations(const gw_model *model, const gw_growth_question *question, gw_growth *growth)
{
    size_t count = 0;
    bool work_known = false, by_driver = question->snapshot != NULL;
    gw_request *list = by_driver ? gwi_requests_list(model, question->pid, question->snapshot, &count, &work_known)
                                 : gwi_requests_of_report(report_with_course(model, question->report), &count);
    if (list == NULL || count == 0) {
        free(list);
        return;
    }
    growth->requests_whole = list[0].order == 1;
    uint64_t first_order = list[0].order;
    if (by_driver)
        add_refused(question, refused_by_driver(question), list, &count);
    else if (!question->report->is_other_refused)
        add_refused(question, refused_by_allocator(question, &list[count - 1]), list, &count);
    if (by_driver)
        gwi_requests_work(model, question->pid, list, count);
    gwi_requests_calls(model, list, count);
    gw_request_source source = GW_REQUESTS_WITHOUT_WORK;
    if (!by_driver)
        source = GW_REQUESTS_OF_FRAMEWORK;
    else if (work_known)
        source = GW_REQUESTS_OF_DRIVER;
    gw_iterations_find(list, count, source, growth->total_bytes, &growth->loop);
    if (!growth->repeats && question->live_count > 1)
        find_rerun(list, count, question, growth);
    growth->loop_bytes = growth->loop.leak_bytes;
    if (growth->loop.leak_count > 0 && growth->loop.idle_count == 0)
        growth->loop_bytes += kept_earlier(question, &growth->loop, first_order);
    free(list);
}

void gw_growth_find(const gw_model *model, const gw_growth_question *question, gw_growth *ret_growth)
{
    const gw_live *live = question->live;
    size_t count = question->live_count;
    *ret_growth = (gw_growth){0};
    for (size_t i = 0; i < count; i++) {
        ret_growth->total_bytes += live[i].bytes;
        ret_growth->undated_bytes += live[i].has_time ? 0 : live[i].bytes;
        if (live[i].bytes > ret_growth->largest_bytes) {
            ret_growth->largest_bytes = live[i].bytes;
            ret_growth->largest_t_ns = live[i].t_ns;
            ret_growth->largest_has_time = live[i].has_time;
            ret_growth->largest_group = live[i].group;
            ret_growth->largest_site = live[i].site;
        }
    }
    course way = course_of(model, question->pid, question->report, ret_growth->total_bytes);
    find_earlier(&way, ret_growth);
    work *list = count < 2 ? NULL : work_of(model, question->pid, live, count, question->order_now, &way);
    if (list != NULL)
        find_runs(model, live, count, question->wanted_bytes, list, ret_growth);
    if (question->snapshot != NULL || report_with_course(model, question->report) != NULL)
        find_iterations(model, question, ret_growth);
    if (list == NULL)
        return;
    if (!ret_growth->loop.searched) /* not searched: requests, or the work between them, were not recorded */
        find_steps(model, live, count, list, &way, ret_growth);
    if (!ret_growth->repeats)
        find_spans(live, count, list, ret_growth);
    free(list);
}
