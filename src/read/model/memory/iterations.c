/* Finds iterations. Each place (call site) that repeatedly requests memory may be where an iteration begins. The live
 * bytes at its requests are compared. gw_iterations.h explains the terms.
 *
 *     weights, then:  batch act act | batch act act | batch act act | batch -> refused
 *     marks:          ^               ^               ^               ^
 *
 * If all `act` blocks are freed but no `batch` block, the three whole iterations left one block each. The place with
 * the best proof is reported. */
#include "gw_iterations.h"

#include "gw_array.h"
#include "gwi_sort.h"

#include <stdlib.h>
#include <string.h>

enum { TRIED_MAX = 12, MEDIAN_MAX = 64, PLACES_MAX = 64, PASS_MAX = 128, LAYERS_MAX = 1024, CALLS_MAX = 16 };

typedef struct list {
    const gw_request *request;
    size_t count;
    gw_request_source source;
    /* [i]: total size of the blocks of the first i requests that are still alive at the end of the list */
    uint64_t *kept;
    uint32_t *kept_blocks; /* [i]: number of these blocks */
} list;

/* The requests that begin an iteration at one place (its marks), as indexes of requests in ascending order. */
typedef struct mark_list {
    const uint32_t *at;
    size_t count;
} mark_list;

/* A possible leak: consecutive iterations that begin at one place and each left memory behind. The last of them ends at
 * the last mark. */
typedef struct candidate {
    mark_list marks; /* the caller owns the array; keep_candidate() copies it */
    size_t first;    /* index in `marks` at which the first of these iterations begins */
    uint64_t bytes;
    bool is_current;
} candidate;

/* Return the total work of the process up to a request. Frees are work, too, because a program that works frees
 * memory. */
static uint64_t work_at(const gw_request *request)
{
    return request->launches + request->copies + request->reads + request->waits + request->frees;
}

static uint64_t kept_in(const list *all, size_t from, size_t to)
{
    return all->kept[to] - all->kept[from];
}

static uint64_t median_of(uint64_t *number, size_t count)
{
    if (count == 0)
        return 0;
    qsort(number, count, sizeof *number, gw_by_number);
    return number[count / 2];
}

typedef enum measure { OF_LAUNCHES, OF_COPIES, OF_READS, OF_WAITS, OF_WORK, OF_REQUESTS, OF_KEPT } measure;

static uint64_t measured(const list *all, const mark_list *marks, size_t which, measure what)
{
    const gw_request *a = &all->request[marks->at[which]], *b = &all->request[marks->at[which + 1]];
    switch (what) {
    case OF_LAUNCHES:
        return b->launches - a->launches;
    case OF_COPIES:
        return b->copies - a->copies;
    case OF_READS:
        return b->reads - a->reads;
    case OF_WAITS:
        return b->waits - a->waits;
    case OF_WORK:
        return work_at(b) - work_at(a);
    case OF_REQUESTS:
        return marks->at[which + 1] - marks->at[which];
    case OF_KEPT:
        return kept_in(all, marks->at[which], marks->at[which + 1]);
    }
    return 0;
}

/* Return the median of `what` over the iterations since iteration `first`. If there are more than MEDIAN_MAX, only the
 * newest of them are used. */
static uint64_t median(const list *all, const mark_list *marks, size_t first, measure what)
{
    uint64_t number[MEDIAN_MAX];
    size_t count = 0;
    for (size_t i = marks->count - 1; i-- > first && count < MEDIAN_MAX;)
        number[count++] = measured(all, marks, i, what);
    return median_of(number, count);
}

/* True if the list ends soon after the last mark: after at most about twice the work and twice the requests of the
 * median iteration. */
static bool is_current(const list *all, const mark_list *marks)
{
    enum { SLACK = 4 };
    size_t last = marks->at[marks->count - 1];
    uint64_t since = work_at(&all->request[all->count - 1]) - work_at(&all->request[last]);
    return since <= 2 * median(all, marks, 0, OF_WORK) + SLACK &&
           all->count - last <= 2 * median(all, marks, 0, OF_REQUESTS) + SLACK;
}

/* Find the newest consecutive iterations that left memory behind. False if there are fewer than two, or if the live
 * bytes grew by less than three fifths of this memory. Then older blocks were freed meanwhile, and nothing leaks. */
static bool find_leak(const list *all, const mark_list *marks, candidate *ret_found)
{
    if (marks->count < 3)
        return false;
    size_t last = marks->count - 1, first = last;
    while (first > 0 && measured(all, marks, first - 1, OF_KEPT) > 0)
        first--;
    /* The first iteration may include requests from before the loop. If it left far more than the others, exclude
     * it. */
    if (last - first > 2 && measured(all, marks, first, OF_KEPT) > 4 * median(all, marks, first, OF_KEPT))
        first++;
    /* The newest iteration may have left blocks that the next iteration will free. If it left far more than the others,
     * exclude it. */
    mark_list whole = *marks;
    if (last - first > 2 && measured(all, marks, last - 1, OF_KEPT) > 4 * median(all, marks, first, OF_KEPT))
        whole.count = last--; /* `last` is now the index of the last mark in `whole`, too */
    if (last - first < 2)
        return false;
    uint64_t kept = kept_in(all, marks->at[first], marks->at[last]);
    uint64_t before = all->request[marks->at[first]].live_bytes, after = all->request[marks->at[last]].live_bytes;
    if (after < before || (after - before) / 3 * 5 < kept)
        return false;
    *ret_found = (candidate){.marks = whole, .first = first, .bytes = kept, .is_current = is_current(all, &whole)};
    return true;
}

/* Find the newest consecutive iterations that began and ended with about the same live bytes. They replace those in
 * `found` only if they contain more requests. */
static void find_balance(const list *all, const mark_list *marks, uint64_t live_now, gw_iterations *found)
{
    enum { COUNT_MIN = 3, PART = 50, WARM_UP = 1 };
    if (marks->count < COUNT_MIN + 1 || !is_current(all, marks))
        return;
    size_t last = marks->count - 1, first = last;
    uint64_t at_end = all->request[marks->at[last]].live_bytes;
    for (; first > 0; first--) {
        uint64_t at_begin = all->request[marks->at[first - 1]].live_bytes;
        uint64_t apart = at_begin > at_end ? at_begin - at_end : at_end - at_begin;
        if (apart > live_now / PART)
            break;
    }
    uint64_t span = marks->at[last] - marks->at[first];
    if (last - first < COUNT_MIN || span <= found->balanced_span)
        return;
    found->balanced_count = last - first;
    found->balanced_whole = first <= WARM_UP;
    found->balanced_span = span;
    found->balanced_end = marks->at[last];
    found->balanced_begin_ns = all->request[marks->at[first]].t_ns;
}

static void add_balanced_peak(const list *all, gw_iterations *found)
{
    for (size_t i = found->balanced_end - found->balanced_span; i < found->balanced_end; i++) {
        uint64_t live = all->request[i].live_bytes + all->request[i].bytes;
        found->balanced_peak_bytes = live > found->balanced_peak_bytes ? live : found->balanced_peak_bytes;
    }
}

/* ---- what kind of loop a candidate is ---- */

static void add_keeper(gw_keeper *place, size_t *count, const gw_request *request)
{
    size_t at = 0;
    while (at < *count &&
           (place[at].site != request->site || (request->site == 0 && place[at].group != request->group)))
        at++;
    if (at == PLACES_MAX)
        return;
    *count += at == *count;
    place[at].site = request->site;
    place[at].group = request->group;
    place[at].bytes += request->bytes;
    place[at].count++;
}

static int by_bytes(const void *left, const void *right)
{
    const gw_keeper *a = left, *b = right;
    return a->bytes > b->bytes ? -1 : a->bytes < b->bytes;
}

static void find_keepers(const list *all, const candidate *it, gw_iterations *found)
{
    gw_keeper place[PLACES_MAX] = {{0}};
    size_t count = 0, last = it->marks.count - 1;
    for (size_t i = it->marks.at[it->first]; i < it->marks.at[last]; i++)
        if (all->request[i].lifetime == GW_ALIVE)
            add_keeper(place, &count, &all->request[i]);
    qsort(place, count, sizeof *place, by_bytes);
    found->keeper_count = count < GW_KEEPERS_MAX ? count : GW_KEEPERS_MAX;
    memcpy(found->keeper, place, found->keeper_count * sizeof *place);
}

static bool is_kept_there(const gw_iterations *found, const gw_request *request)
{
    for (size_t i = 0; i < found->keeper_count; i++)
        if (request->site != 0 ? found->keeper[i].site == request->site : found->keeper[i].group == request->group)
            return true;
    return false;
}

/* Return the bytes that the iterations left behind at these places. */
static uint64_t kept_there(const gw_iterations *found)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < found->keeper_count; i++)
        bytes += found->keeper[i].bytes;
    return bytes;
}

/* Return the most memory that these places held before they freed more than half of it. Holding that much is normal
 * here. */
static uint64_t held_before(const list *all, const gw_iterations *found)
{
    int64_t *change = calloc(all->count + 1, sizeof *change);
    for (size_t i = 0; change != NULL && i < all->count; i++) {
        const gw_request *request = &all->request[i];
        if (!is_kept_there(found, request))
            continue;
        change[i] += (int64_t)request->bytes;
        if (request->lifetime != GW_ALIVE)
            change[i + request->lifetime < all->count ? i + request->lifetime : all->count] -= (int64_t)request->bytes;
    }
    int64_t held = 0, highest = 0, normal = 0;
    for (size_t i = 0; change != NULL && i < all->count; i++) {
        held += change[i];
        highest = held > highest ? held : highest;
        if (held * 2 < highest) {
            normal = highest > normal ? highest : normal;
            highest = held;
        }
    }
    free(change);
    return (uint64_t)normal;
}

/* True if the host waited for the GPU or read results in at least nine out of ten of these iterations. */
static bool is_each_waited(const list *all, const candidate *it)
{
    size_t last = it->marks.count - 1, good = 0;
    for (size_t i = it->first; i < last; i++)
        good += measured(all, &it->marks, i, OF_WAITS) > 0 || measured(all, &it->marks, i, OF_READS) > 0;
    return good * 10 >= (last - it->first) * 9;
}

static uint64_t passing_in(const list *all, const candidate *it)
{
    size_t last = it->marks.count - 1;
    uint64_t from = it->marks.at[it->first], to = it->marks.at[last];
    uint64_t alive = all->kept_blocks[to] - all->kept_blocks[from];
    return (to - from - alive) / (last - it->first);
}

/* ---- several threads ---- */

/* Work of other threads is used only if they make about the same number of requests in each iteration. Otherwise it is
 * random, as with independent loading and training threads. */
enum { THREADS_MAX = 8 };
typedef struct thread_set {
    uint16_t thread[THREADS_MAX];
    size_t count;
} thread_set;

static bool has_thread(const thread_set *set, uint16_t thread)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->thread[i] == thread)
            return true;
    return thread == 0; /* an unknown thread counts as a member of every set */
}

/* Return the threads that made the requests at the beginning of these iterations. Returns an empty set if there are
 * more than THREADS_MAX. */
static thread_set threads_of(const list *all, const candidate *it)
{
    thread_set set = {.count = 0};
    for (size_t i = it->first; i < it->marks.count; i++) {
        uint16_t thread = all->request[it->marks.at[i]].thread;
        if (has_thread(&set, thread))
            continue;
        if (set.count == THREADS_MAX)
            return (thread_set){.count = 0};
        set.thread[set.count++] = thread;
    }
    return set;
}

/* True if the threads outside of `own` made the same number of requests in each iteration. With at least 16 iterations,
 * they may be up to four iterations ahead or behind. */
static bool is_in_step(const list *all, const candidate *it, const thread_set *own)
{
    enum { AHEAD_MAX = 4, MANY = 16 };
    const mark_list *marks = &it->marks;
    size_t last = marks->count - 1, number = last - it->first, total = 0, so_far = 0, unequal = 0;
    for (size_t i = marks->at[it->first]; i < marks->at[last]; i++)
        total += !has_thread(own, all->request[i].thread);
    bool kept_pace = true;
    for (size_t k = it->first; k < last; k++) {
        size_t here = 0;
        for (size_t i = marks->at[k]; i < marks->at[k + 1]; i++)
            here += !has_thread(own, all->request[i].thread);
        so_far += here;
        unequal += here * number != total;
        size_t expected = total * (k - it->first + 1), reached = so_far * number;
        size_t ahead = reached > expected ? reached - expected : expected - reached;
        kept_pace = kept_pace && ahead <= AHEAD_MAX * total;
    }
    return unequal == 0 || (number >= MANY && kept_pace);
}

/* Return the work that the threads in `own` did in the iteration with index `which`. */
static gw_request own_work_in(const list *all, const mark_list *marks, size_t which, const thread_set *own)
{
    gw_request sum = {0};
    for (size_t i = marks->at[which] + 1; i <= marks->at[which + 1]; i++) {
        const gw_request *before = &all->request[i - 1], *here = &all->request[i];
        if (!has_thread(own, here->thread))
            continue;
        sum.launches += here->launches - before->launches;
        sum.copies += here->copies - before->copies;
        sum.reads += here->reads - before->reads;
        sum.waits += here->waits - before->waits;
    }
    return sum;
}

typedef struct own_counts {
    uint64_t launches[MEDIAN_MAX], copies[MEDIAN_MAX], reads[MEDIAN_MAX], waits[MEDIAN_MAX];
} own_counts;

/* Replace the counts per iteration in `found` by those of the threads in `own` alone, because the other threads are not
 * in step. */
static void count_own_work(const list *all, const candidate *it, const thread_set *own, gw_iterations *found)
{
    own_counts counts;
    size_t count = 0, passing = 0, last = it->marks.count - 1;
    for (size_t i = last; i-- > it->first && count < MEDIAN_MAX; count++) {
        gw_request work = own_work_in(all, &it->marks, i, own);
        counts.launches[count] = work.launches;
        counts.copies[count] = work.copies;
        counts.reads[count] = work.reads;
        counts.waits[count] = work.waits;
    }
    found->launches = median_of(counts.launches, count);
    found->copies = median_of(counts.copies, count);
    found->reads = median_of(counts.reads, count);
    found->waits = median_of(counts.waits, count);
    for (size_t i = it->marks.at[it->first]; i < it->marks.at[last]; i++)
        passing += has_thread(own, all->request[i].thread) && all->request[i].lifetime != GW_ALIVE;
    found->passing = passing / (last - it->first);
}

/* True if the threads in `own` requested less than half of the bytes that these iterations left behind. */
static bool is_kept_by_others(const list *all, const candidate *it, const thread_set *own)
{
    size_t last = it->marks.at[it->marks.count - 1];
    uint64_t bytes = 0;
    for (size_t i = it->marks.at[it->first]; i < last; i++)
        if (has_thread(own, all->request[i].thread) && all->request[i].lifetime == GW_ALIVE)
            bytes += all->request[i].bytes;
    return bytes * 2 < it->bytes;
}

/* True if at least nine out of ten requests in these iterations came after some work since the previous request. */
static bool is_interleaved(const list *all, const candidate *it)
{
    size_t from = it->marks.at[it->first], to = it->marks.at[it->marks.count - 1], worked = 0;
    for (size_t i = from + 1; i <= to; i++)
        worked += work_at(&all->request[i]) > work_at(&all->request[i - 1]);
    return worked * 10 >= (to - from) * 9;
}

/* True if more than half of all work was done before the loop's first mark. The loop includes earlier iterations that
 * left nothing behind. */
static bool is_late(const list *all, const candidate *it)
{
    uint64_t begin = work_at(&all->request[0]), end = work_at(&all->request[all->count - 1]);
    return (work_at(&all->request[it->marks.at[0]]) - begin) * 2 > end - begin;
}

/* True if no block was freed and there was at most about one kernel per block. The program may be creating layers, or
 * passing data through them once. */
static bool looks_like_layers(const gw_iterations *found)
{
    return found->passing == 0 && found->is_interleaved && found->launches * 2 <= found->requests * 3 &&
           found->leak_count < PASS_MAX;
}

/* True if this may be one pass through layers in a framework, where each operation requests memory for its result. A
 * training iteration exceeds one of these limits:
 * - at most one kernel per request
 * - at most as many results freed as kept
 * - no waits or reads by the host */
static bool looks_like_operations(const list *all, const gw_iterations *found)
{
    return all->source == GW_REQUESTS_OF_FRAMEWORK && found->reads == 0 && found->waits == 0 &&
           found->launches <= found->requests && found->passing * found->leak_count <= found->leak_blocks &&
           found->leak_count < PASS_MAX;
}

/* True if this may be the program's first pass through its layers: the host neither waited nor read results. Otherwise,
 * each iteration must request at least two blocks, and one of these must be true:
 * - hardly any older block is still alive
 * - the host read nothing, and each iteration has an older live block, such as a weight */
static bool may_be_one_pass(const list *all, const candidate *it, const gw_iterations *found)
{
    uint64_t before = all->kept_blocks[it->marks.at[it->first]];
    if (found->reads == 0 && found->waits == 0)
        return true;
    return found->requests > 1 &&
           (before <= 2 * found->requests + 2 || (found->reads == 0 && before >= found->leak_count));
}

/* True if the program had worked before the loop began: at least eight earlier blocks were freed, for example by other
 * iterations. */
static bool had_worked(const list *all, const candidate *it)
{
    enum { PASSED_MIN = 8 };
    size_t first = it->marks.at[0];
    return first - all->kept_blocks[first] >= PASSED_MIN;
}

/* True if the iterations look like the conversion of loaded blocks:
 * - staging buffers were allocated and freed
 * - at least one copy and at most about one kernel per block that stayed
 * - no reads by the host
 * - almost nothing alive before, or other work had ended before and each block that stayed had one buffer: a further
 *   model */
static bool is_converted(const list *all, const candidate *it, const gw_iterations *found)
{
    const gw_request *begin = &all->request[it->marks.at[it->first]];
    uint64_t stayed = found->requests - (found->passing < found->requests ? found->passing : found->requests);
    bool is_begin = begin->live_bytes <= 2 * found->leak_bytes_median;
    bool is_further = had_worked(all, it) && found->idle_count == 0 && found->passing <= stayed;
    return found->reads == 0 && found->copies > 0 && found->copies >= stayed && found->passing > 0 &&
           found->launches > 0 && found->launches <= stayed + 1 && (is_begin || is_further);
}

static bool are_first_requests(const candidate *it, const gw_iterations *found)
{
    return it->marks.at[it->first] <= 2 * found->requests + 2;
}

/* True if the iterations load blocks through about one staging buffer for each block that stayed. One of these must be
 * true:
 * - The host copied for each block, and no kernel ran.
 * - These are the first requests, at least two blocks stayed per iteration, and there was one kernel for each of them,
 *   or none. Training launches more kernels than there are weights.
 *
 * A framework needs only the first requests, and per iteration one block that stayed, one buffer and at most one
 * kernel. */
static bool is_staged(const list *all, const candidate *it, const gw_iterations *found)
{
    uint64_t stayed = (found->leak_blocks + found->leak_count / 2) / found->leak_count;
    bool are_first = are_first_requests(it, found);
    if (all->source == GW_REQUESTS_OF_FRAMEWORK)
        return are_first && stayed == 1 && found->passing == 1 && found->launches <= 1;
    bool copied = found->launches == 0 && found->reads == 0 && found->waits <= 1 && found->copies >= stayed;
    return found->passing > 0 && (copied || (are_first && stayed >= 2)) && found->passing <= stayed + 1 &&
           found->passing + 1 >= stayed && (found->launches == 0 || found->launches == stayed);
}

/* True if these are the first requests, and each iteration kept one block, copied, ran one kernel and read nothing. The
 * kernel may have converted the copied block. */
static bool is_copied_in(const candidate *it, const gw_iterations *found)
{
    return are_first_requests(it, found) && found->requests == 1 && found->passing == 0 && found->launches == 1 &&
           found->copies > 0 && found->reads == 0;
}

static bool looks_like_loading(const list *all, const candidate *it, const gw_iterations *found)
{
    return found->leak_count < PASS_MAX &&
           (is_converted(all, it, found) || is_staged(all, it, found) || is_copied_in(it, found));
}

/* Return how far the live bytes rose above their value at request `from`, up to request `to`. */
static uint64_t highest_in(const list *all, size_t from, size_t to)
{
    uint64_t begin = all->request[from].live_bytes, highest = begin;
    for (size_t i = from; i < to; i++) {
        uint64_t live = all->request[i].live_bytes + all->request[i].bytes;
        highest = live > highest ? live : highest;
    }
    return highest - begin;
}

/* True if the live bytes rose sharply after the last whole iteration: by more than all iterations kept, and by more
 * than twice the rise within any iteration. */
static bool is_outgrown(const list *all, const candidate *it, const gw_iterations *found)
{
    const mark_list *marks = &it->marks;
    uint64_t since = highest_in(all, marks->at[marks->count - 1], all->count), most = 0;
    for (size_t i = 0; i + 1 < marks->count; i++) {
        uint64_t here = highest_in(all, marks->at[i], marks->at[i + 1]);
        most = here > most ? here : most;
    }
    return since > found->leak_bytes && since > 2 * most;
}

/* True if the program only allocated blocks and perhaps filled them. All of this must be true:
 * - no kernel ran, and the host read nothing
 * - the host did not wait; one wait per iteration is allowed if it may have copied, because loading copies and waits
 *   once
 * - no block was freed, or there are fewer than 16 iterations
 *
 * A framework's copies are not recorded, so it may always have copied. If it launched kernels elsewhere, a loop without
 * any is not a training loop, even if it waits: weights may be moved to the GPU one by one. */
static bool did_nothing(const list *all, const gw_iterations *found)
{
    enum { WAITS_MIN = 2, PASSING_MIN = 16 };
    bool is_framework = all->source == GW_REQUESTS_OF_FRAMEWORK;
    if (found->launches > 0 || found->reads > 0)
        return false;
    if (is_framework && all->request[all->count - 1].launches > all->request[0].launches)
        return true;
    bool may_copy = found->copies > 0 || is_framework;
    bool waited = found->waits >= (may_copy ? WAITS_MIN : 1);
    return !waited && (found->passing == 0 || found->leak_count < PASSING_MIN);
}

/* True if the requests of this iteration, up to the next mark, were all made in one call of a framework, and the host
 * neither waited nor read: a training copies a batch or reads a loss, and the same line may call the model again. */
static bool is_in_one_call(const list *all, const mark_list *marks, size_t which)
{
    const gw_request *mark = &all->request[marks->at[which]];
    uint64_t call = mark->call;
    bool waited = measured(all, marks, which, OF_WAITS) > 0 || measured(all, marks, which, OF_READS) > 0;
    if (waited && !mark->moves_weights)
        return false;
    for (size_t i = marks->at[which] + 1; call != 0 && i <= marks->at[which + 1]; i++)
        if (all->request[i].call != call)
            return false;
    return call != 0;
}

/* True if most of these iterations lie in one call of a framework: they are layers of a model, or parameters of an
 * optimizer. A training step calls the model, the loss and the optimizer one after the other. */
static bool are_in_one_call(const list *all, const candidate *it, const gw_iterations *found)
{
    size_t last = it->marks.count - 1, inside = 0;
    for (size_t i = it->first; i < last; i++)
        inside += is_in_one_call(all, &it->marks, i);
    return inside * 2 > last - it->first && found->leak_count < LAYERS_MAX;
}

typedef struct call_set {
    uint64_t call[CALLS_MAX];
    size_t count;
} call_set;

static bool has_call(const call_set *set, uint64_t call)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->call[i] == call)
            return true;
    return false;
}

/* Return the calls of a framework in the iteration with index `which`. */
static call_set calls_in(const list *all, const mark_list *marks, size_t which)
{
    call_set set = {.count = 0};
    for (size_t i = marks->at[which]; i < marks->at[which + 1]; i++) {
        uint64_t call = all->request[i].call;
        if (call != 0 && set.count < CALLS_MAX && !has_call(&set, call))
            set.call[set.count++] = call;
    }
    return set;
}

/* Return the largest number of iterations that contain one call. */
static size_t most_with_one_call(const list *all, const candidate *it)
{
    uint64_t call[CALLS_MAX];
    size_t count[CALLS_MAX], calls = 0, most = 0;
    for (size_t i = it->first; i + 1 < it->marks.count; i++) {
        call_set here = calls_in(all, &it->marks, i);
        for (size_t k = 0; k < here.count; k++) {
            size_t at = 0;
            while (at < calls && call[at] != here.call[k])
                at++;
            if (at == CALLS_MAX)
                continue;
            count[at] = at < calls ? count[at] + 1 : 1;
            call[at] = here.call[k];
            calls += at == calls;
            most = count[at] > most ? count[at] : most;
        }
    }
    return most;
}

/* True if half of these iterations, or more, made other calls of the framework than the previous one, and no call was
 * made in many of them: they are phases, such as moving the weights, the forward and the backward pass. The calls of
 * requests without a call site are unknown, so the iterations of a training may seem to differ, too. */
static bool are_unlike(const list *all, const candidate *it)
{
    enum { MANY = 4 };
    size_t last = it->marks.count - 1, pairs = 0, unlike = 0;
    call_set before = calls_in(all, &it->marks, it->first);
    for (size_t i = it->first + 1; i < last; i++) {
        call_set here = calls_in(all, &it->marks, i);
        size_t both = 0, most = before.count > here.count ? before.count : here.count;
        for (size_t k = 0; k < here.count; k++)
            both += has_call(&before, here.call[k]);
        pairs += most > 0;
        unlike += most > 0 && both * 2 <= most;
        before = here;
    }
    return pairs > 0 && unlike * 2 >= pairs && most_with_one_call(all, it) < MANY;
}

static gw_loop_doubt doubt_of(const list *all, const candidate *it, const gw_iterations *found)
{
    enum { COUNT_FEW = 3, GROUP_MIN = 3 };
    if (are_in_one_call(all, it, found))
        return GW_LOOP_ONE_PASS;
    if (are_unlike(all, it))
        return GW_LOOP_UNLIKE;
    if (did_nothing(all, found))
        return found->is_apart ? GW_LOOP_OTHER_WORK : GW_LOOP_NO_WORK;
    if (found->leak_bytes - found->leak_bytes_max < found->leak_bytes / 4)
        return GW_LOOP_UNEVEN;
    if (looks_like_loading(all, it, found))
        return GW_LOOP_LOADING;
    if (looks_like_layers(found) && found->is_late && had_worked(all, it))
        return GW_LOOP_LATE;
    if (looks_like_operations(all, found) || (looks_like_layers(found) && may_be_one_pass(all, it, found)))
        return GW_LOOP_ONE_PASS;
    if (found->held_before_bytes * 5 >= kept_there(found) * 4)
        return GW_LOOP_HELD_BEFORE;
    if (found->group_count >= GROUP_MIN)
        return GW_LOOP_GROUP;
    if (found->fitted_before_ns == 0 && is_outgrown(all, it, found))
        return GW_LOOP_OUTGROWN;
    return found->leak_count < COUNT_FEW ? GW_LOOP_FEW : GW_LOOP_SURE;
}

/* Look at the whole iterations directly before the leak, as long as they launched about as many kernels and all their
 * memory is free now. At its own end, such an iteration may still have held memory that a later one freed. */
static void look_before(const list *all, const candidate *it, gw_iterations *found)
{
    bool is_idle = true;
    uint64_t in_row = 0;
    for (size_t i = it->first; i-- > 0 && measured(all, &it->marks, i, OF_KEPT) == 0;) {
        uint64_t launches = measured(all, &it->marks, i, OF_LAUNCHES);
        if (launches * 2 < found->launches || launches > found->launches * 2)
            break;
        const gw_request *begin = &all->request[it->marks.at[i]], *end = &all->request[it->marks.at[i + 1]];
        bool left = end->live_bytes >= begin->live_bytes + found->leak_bytes_median / 2;
        in_row = left ? in_row + 1 : 0;
        is_idle = is_idle && !left;
        found->group_count = in_row > found->group_count ? in_row : found->group_count;
        found->idle_count += is_idle;
    }
}

/* Return when the program, before these iterations, used as much memory at once as it needs now without what they kept.
 * The last iteration, which is not whole, may have kept memory, too. Returns 0 if it never used as much. */
static uint64_t fitted_before(const list *all, const candidate *it, uint64_t kept_bytes_max)
{
    const gw_request *last = &all->request[all->count - 1];
    uint64_t now = last->live_bytes + last->bytes, kept = it->bytes + kept_bytes_max;
    for (size_t i = it->marks.at[it->first]; i-- > 0;)
        if (all->request[i].live_bytes + all->request[i].bytes + kept >= now)
            return all->request[i].t_ns;
    return 0;
}

static void describe(const list *all, const candidate *it, gw_iterations *found)
{
    const mark_list *marks = &it->marks;
    size_t last = marks->count - 1;
    found->leak_count = last - it->first;
    found->leak_bytes = it->bytes;
    uint64_t least = UINT64_MAX;
    for (size_t i = it->first; i < last; i++) {
        uint64_t kept = measured(all, marks, i, OF_KEPT);
        least = kept < least ? kept : least;
        found->leak_bytes_max = kept > found->leak_bytes_max ? kept : found->leak_bytes_max;
    }
    found->leak_bytes_median = median(all, marks, it->first, OF_KEPT);
    found->is_even = found->leak_bytes_max - least <= found->leak_bytes_max / 16;
    found->leak_blocks = all->kept_blocks[marks->at[last]] - all->kept_blocks[marks->at[it->first]];
    found->leak_begin_ns = all->request[marks->at[it->first]].t_ns;
    found->leak_end_ns = all->request[marks->at[last]].t_ns;
    found->leak_begin = marks->at[it->first];
    found->requests = median(all, marks, it->first, OF_REQUESTS);
    found->launches = median(all, marks, it->first, OF_LAUNCHES);
    found->copies = median(all, marks, it->first, OF_COPIES);
    found->reads = median(all, marks, it->first, OF_READS);
    found->waits = median(all, marks, it->first, OF_WAITS);
    found->passing = passing_in(all, it);
    if (is_outgrown(all, it, found))
        found->fitted_before_ns = fitted_before(all, it, found->leak_bytes_max);
    look_before(all, it, found);
    found->is_interleaved = is_interleaved(all, it);
    found->is_late = is_late(all, it);
    found->leak_is_current = it->is_current;
    found->each_waited = is_each_waited(all, it);
    find_keepers(all, it, found);
    found->held_before_bytes = held_before(all, found);
    thread_set own = threads_of(all, it);
    found->is_apart = own.count > 0 && !is_in_step(all, it, &own);
    if (found->is_apart)
        count_own_work(all, it, &own, found);
    bool by_others = found->is_apart && is_kept_by_others(all, it, &own);
    found->doubt = by_others ? GW_LOOP_OTHER_WORK : doubt_of(all, it, found);
}

bool gw_iterations_are_sure(const gw_iterations *found)
{
    enum { COUNT_MIN = 8, IDLE_MIN = 3, MANY = 256 };
    if (found->doubt != GW_LOOP_SURE || !found->leak_is_current || found->launches == 0 || !found->each_waited ||
        found->leak_count < COUNT_MIN)
        return false;
    return found->idle_count >= IDLE_MIN || found->leak_count >= MANY;
}

/* ---- choosing ---- */

static int rank_of(const gw_iterations *found)
{
    if (gw_iterations_are_sure(found))
        return 3;
    if (found->doubt != GW_LOOP_SURE)
        return 0;
    if (found->leak_is_current)
        return 2;
    return 1;
}

/* True if `one` is the better candidate. These are compared in turn: no doubts, over 10 % more leaked bytes, the better
 * proof, longer iterations. */
static bool is_better(const gw_iterations *one, const gw_iterations *other)
{
    int a = rank_of(one), b = rank_of(other);
    bool less = one->leak_bytes / 10 * 11 < other->leak_bytes, more = other->leak_bytes / 10 * 11 < one->leak_bytes;
    if (other->leak_count == 0 || (a > 0) != (b > 0))
        return other->leak_count == 0 || a > b;
    if (less || more)
        return more;
    return a != b ? a > b : one->requests > other->requests;
}

typedef struct search {
    list all;
    candidate tried[TRIED_MAX]; /* sorted by bytes, most first; each candidate owns the array of its marks */
    size_t tried_count;
} search;

static void keep_candidate(search *it, const candidate *found)
{
    size_t at = it->tried_count;
    while (at > 0 && it->tried[at - 1].bytes < found->bytes)
        at--;
    if (at == TRIED_MAX)
        return;
    uint32_t *copy = malloc(found->marks.count * sizeof *copy);
    if (copy == NULL)
        return;
    memcpy(copy, found->marks.at, found->marks.count * sizeof *copy);
    if (it->tried_count == TRIED_MAX)
        free((void *)(uintptr_t)it->tried[--it->tried_count].marks.at);
    memmove(&it->tried[at + 1], &it->tried[at], (it->tried_count - at) * sizeof it->tried[0]);
    it->tried[at] = *found;
    it->tried[at].marks.at = copy;
    it->tried_count++;
}

/* Compute how many more bytes were alive at a place's last iteration than at its first. again_bytes is the maximum of
 * all places. An iteration begins with a request after kernels ran and the host waited or read.
 * With three or more, start at the second: the first allocates memory that stays, such as an optimizer's state. */
static void note_growth(const list *all, const uint32_t *mark, size_t count, gw_iterations *found)
{
    const gw_request *first = &all->request[mark[0]], *turn = first;
    size_t turns = 1;
    for (size_t i = 1; i < count; i++) {
        const gw_request *next = &all->request[mark[i]];
        if (next->launches == turn->launches || next->waits + next->reads == turn->waits + turn->reads)
            continue;
        first = turns == 2 ? turn : first;
        turn = next;
        turns++;
    }
    if (turn->live_bytes > first->live_bytes && turn->live_bytes - first->live_bytes > found->again_bytes)
        found->again_bytes = turn->live_bytes - first->live_bytes;
}

/* Search the iterations that begin at one place for a leak, otherwise for balanced ones. `mark` has the indexes of the
 * place's requests. Those without work since the previous one are removed. */
static void try_place(search *it, uint32_t *mark, size_t count, uint64_t live_now, gw_iterations *found)
{
    size_t kept = 0;
    note_growth(&it->all, mark, count, found);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || work_at(&it->all.request[mark[i]]) > work_at(&it->all.request[mark[kept - 1]]))
            mark[kept++] = mark[i];
    }
    mark_list marks = {mark, kept};
    candidate leak;
    if (find_leak(&it->all, &marks, &leak))
        keep_candidate(it, &leak);
    else
        find_balance(&it->all, &marks, live_now, found);
}

/* Search the iterations of each place, or of each combination of place and size if `by_size`. False if there is no
 * memory. */
static bool try_all(search *it, bool by_size, uint64_t live_now, gw_iterations *found)
{
    size_t count = it->all.count;
    gwi_sort_key *key = malloc(count * sizeof *key);
    uint32_t *mark = malloc(count * sizeof *mark);
    bool good = key != NULL && mark != NULL;
    for (size_t i = 0; good && i < count; i++) {
        const gw_request *request = &it->all.request[i];
        bool place = !by_size && request->site != 0;
        key[i] = (gwi_sort_key){place ? (uint64_t)request->site << 1 | 1 : (uint64_t)request->group << 1, (uint32_t)i};
    }
    good = good && gwi_sort(key, count);
    for (size_t from = 0, to; good && from < count; from = to) {
        for (to = from; to < count && key[to].key == key[from].key; to++)
            mark[to - from] = key[to].index;
        found->most_requests = to - from > found->most_requests ? to - from : found->most_requests;
        try_place(it, mark, to - from, live_now, found);
    }
    free(key);
    free(mark);
    return good;
}

static bool add_up(list *all)
{
    all->kept = malloc((all->count + 1) * sizeof *all->kept);
    all->kept_blocks = malloc((all->count + 1) * sizeof *all->kept_blocks);
    if (all->kept == NULL || all->kept_blocks == NULL)
        return false;
    all->kept[0] = 0;
    all->kept_blocks[0] = 0;
    for (size_t i = 0; i < all->count; i++) {
        bool alive = all->request[i].lifetime == GW_ALIVE;
        all->kept[i + 1] = all->kept[i] + (alive ? all->request[i].bytes : 0);
        all->kept_blocks[i + 1] = all->kept_blocks[i] + alive;
    }
    return true;
}

static bool was_asked(const list *all, const gw_iterations *found, const gw_request *wanted)
{
    for (size_t i = found->balanced_end - found->balanced_span; i < found->balanced_end; i++) {
        const gw_request *request = &all->request[i];
        if (wanted->site != 0 ? request->site == wanted->site : request->group == wanted->group && wanted->group != 0)
            return true;
    }
    return false;
}

/* True if at most 256 requests followed the balanced iterations, all from places that also requested memory in these
 * iterations. The refused request is one of them. */
static bool were_asked(const list *all, const gw_iterations *found)
{
    enum { ASKED_MAX = 256 };
    bool asked = all->count - found->balanced_end <= ASKED_MAX;
    for (size_t i = all->count; asked && i-- > found->balanced_end;)
        asked = was_asked(all, found, &all->request[i]);
    return asked;
}

/* Return the least work above 0 between two successive requests, not counting the last two. Returns 0 if there was no
 * work. */
static uint64_t least_work(const gw_request *request, size_t count)
{
    uint64_t least = 0;
    for (size_t i = 1; i + 1 < count; i++) {
        uint64_t work = work_at(&request[i]) - work_at(&request[i - 1]);
        least = work > 0 && (least == 0 || work < least) ? work : least;
    }
    return least;
}

static bool is_same_thread(const list *all, size_t a, size_t b)
{
    uint16_t one = all->request[a].thread, other = all->request[b].thread;
    return one == other || one == 0 || other == 0;
}

/* True if `fine` are parts of the iterations `coarse`, kept most of the same memory, and its places had freed groups.
 */
static bool are_parts(const gw_iterations *fine, const gw_iterations *coarse)
{
    return fine->leak_count > 0 && fine->requests < coarse->requests && fine->leak_bytes * 2 >= coarse->leak_bytes &&
           fine->keeper[0].site == coarse->keeper[0].site && fine->held_before_bytes >= 2 * fine->leak_bytes_median;
}

static void choose(search *it, gw_iterations *found)
{
    gw_iterations best = {0}, group = {0};
    for (size_t i = 0; i < it->tried_count; i++) {
        gw_iterations one = {0};
        describe(&it->all, &it->tried[i], &one);
        /* A leak that begins after the balanced loop, in the same thread, is part of an unfinished iteration. Earlier
         * iterations freed their memory, so the leak is in doubt. */
        if (found->balanced_count > 0 && one.leak_begin >= found->balanced_end &&
            is_same_thread(&it->all, found->balanced_end, one.leak_begin))
            one.doubt = GW_LOOP_HELD_BEFORE;
        if (one.doubt == GW_LOOP_GROUP && one.leak_bytes > group.leak_bytes)
            group = one;
        if (is_better(&one, &best))
            best = one;
    }
    if (best.doubt == GW_LOOP_SURE && are_parts(&group, &best))
        best = group;
    if (best.leak_count == 0)
        return;
    best.searched = found->searched;
    best.most_requests = found->most_requests;
    best.again_bytes = found->again_bytes;
    best.balanced_count = found->balanced_count;
    best.balanced_whole = found->balanced_whole;
    best.balanced_span = found->balanced_span;
    best.balanced_end = found->balanced_end;
    best.balanced_begin_ns = found->balanced_begin_ns;
    *found = best;
}

void gw_iterations_find(const gw_request *request, size_t count, gw_request_source source, uint64_t live_bytes_now,
                        gw_iterations *ret_found)
{
    search it = {.all = {request, count, source, NULL, NULL}};
    *ret_found = (gw_iterations){0};
    if (count > 0 && count < UINT32_MAX && source != GW_REQUESTS_WITHOUT_WORK && add_up(&it.all)) {
        ret_found->searched =
            try_all(&it, false, live_bytes_now, ret_found) && try_all(&it, true, live_bytes_now, ret_found);
        choose(&it, ret_found);
        const gw_request *last = &request[count - 1];
        ret_found->waits_between = last->waits - request[0].waits;
        ret_found->least_work = least_work(request, count);
        ret_found->last_work = count < 2 ? work_at(last) : work_at(last) - work_at(&request[count - 2]);
        ret_found->balanced_asked = ret_found->balanced_count > 0 && were_asked(&it.all, ret_found);
        if (ret_found->balanced_count > 0)
            add_balanced_peak(&it.all, ret_found);
    }
    for (size_t i = 0; i < it.tried_count; i++)
        free((void *)(uintptr_t)it.tried[i].marks.at);
    free(it.all.kept);
    free(it.all.kept_blocks);
}
