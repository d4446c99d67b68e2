/* Finds helper functions in the user's own code, such as "xmalloc", whose caller is more interesting. One of these must
 * be true:
 * - At least three other functions of the user call it on the way to the driver, and at most two of its lines appear in
 *   stacks.
 * - It calls the driver itself, always from the same line, and two lines of the user call it.
 * - Another helper calls it, and at most two of its lines appear in stacks. */
#include "gwi_sites.h"

#include "gw_array.h"
#include "gw_hash.h"

#include <stdlib.h>
#include <string.h>

enum { CALLERS_MIN = 3, CALLS_MIN = 2, LINES_MAX = 2, SITES_MAX = 1 << 14 };

/* a function in one stack: hashes of the function, of its caller, and of its caller's line; the function's line */
typedef struct passing {
    uint64_t function, caller, call, line;
    bool is_direct; /* no other library lies between the function and the driver */
} passing;

/* Return a hash of the names of a frame's function and file. */
static uint64_t key_of(const gw_frame *frame)
{
    uint64_t hash = GW_HASH_START;
    const char *texts[] = {frame->function, frame->file != NULL ? frame->file : frame->module};
    for (int i = 0; i < 2; i++) {
        if (texts[i] != NULL)
            hash = gw_hash_bytes(hash, texts[i], strlen(texts[i]));
        hash = gw_hash_step(hash, 0xff);
    }
    return hash;
}

static bool may_be_means(const gw_frame *frame)
{
    return frame->function != NULL && frame->whose <= GW_WHOSE_USER;
}

static uint64_t line_of(const gw_frame *frame)
{
    return frame->line != 0 ? frame->line : frame->address;
}

bool gwi_is_means(const gw_sites *sites, const gw_frame *frame)
{
    uint64_t key = key_of(frame);
    return may_be_means(frame) && sites->means_count > 0 &&
           bsearch(&key, sites->means, sites->means_count, sizeof key, gw_by_number) != NULL;
}

static int by_function(const void *left, const void *right)
{
    const passing *a = left, *b = right;
    if (a->function != b->function)
        return a->function < b->function ? -1 : 1;
    if (a->caller != b->caller)
        return a->caller < b->caller ? -1 : 1;
    return a->call < b->call ? -1 : a->call > b->call;
}

typedef struct gathering {
    passing *list; /* owned */
    size_t count, capacity;
} gathering;

static bool gather(gathering *to, const gw_stack *stack)
{
    bool is_direct = true;
    for (size_t i = 0; i < stack->count; i++) {
        size_t caller = i + 1;
        is_direct = is_direct && (stack->frame[i].whose <= GW_WHOSE_USER || stack->frame[i].whose >= GW_WHOSE_RUNTIME);
        if (!may_be_means(&stack->frame[i]) || (stack->frame[i].python && !is_direct))
            continue;
        while (caller < stack->count && stack->frame[caller].whose > GW_WHOSE_USER)
            caller++;
        if (caller == stack->count)
            return true;
        if (!gw_array_room(&to->list, to->count, &to->capacity, sizeof *to->list))
            return false;
        const gw_frame *frame = &stack->frame[i];
        uint64_t called_by = key_of(&stack->frame[caller]);
        to->list[to->count++] = (passing){.function = key_of(frame),
                                          .caller = called_by,
                                          .call = gw_hash_step(called_by, line_of(&stack->frame[caller])),
                                          .line = line_of(frame),
                                          .is_direct = is_direct};
        is_direct = false;
    }
    return true;
}

static bool is_known(const gw_sites *sites, uint64_t function)
{
    for (size_t i = 0; i < sites->means_count; i++)
        if (sites->means[i] == function)
            return true;
    return false;
}

/* True if at most `most` lines of a function appear in stacks. */
static bool has_few_lines(const passing *list, size_t count, size_t most)
{
    uint64_t line[LINES_MAX];
    size_t lines = 0;
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < lines && line[k] != list[i].line)
            k++;
        if (k == most)
            return false;
        if (k == lines)
            line[lines++] = list[i].line;
    }
    return true;
}

/* True if a function is a helper. `list` has one element for each stack that contains the function, sorted by caller
 * and by its line. */
static bool is_means(const passing *list, size_t count)
{
    size_t callers = 0, calls = 0;
    bool is_direct = true;
    for (size_t i = 0; i < count; i++) {
        bool is_other = list[i].caller != list[i].function;
        callers += is_other && (i == 0 || list[i].caller != list[i - 1].caller);
        calls += is_other && (i == 0 || list[i].call != list[i - 1].call);
        is_direct = is_direct && list[i].is_direct;
    }
    if (callers >= CALLERS_MIN)
        return has_few_lines(list, count, LINES_MAX);
    return calls >= CALLS_MIN && is_direct && has_few_lines(list, count, 1);
}

/* The same for a function that another helper calls. */
static bool is_means_of_means(const gw_sites *sites, const passing *list, size_t count)
{
    bool called = false;
    for (size_t i = 0; i < count && !called; i++)
        called = list[i].caller != list[i].function && is_known(sites, list[i].caller);
    return called && has_few_lines(list, count, LINES_MAX);
}

/* Find helpers that are called by helpers. Helpers found in one round may call helpers of the next round. */
static void follow_means(gw_sites *sites, const passing *list, size_t count)
{
    enum { ROUNDS_MAX = 4 };
    for (int round = 0; round < ROUNDS_MAX; round++) {
        size_t before = sites->means_count;
        for (size_t from = 0, to; from < count; from = to) {
            uint64_t function = list[from].function;
            for (to = from; to < count && list[to].function == function; to++)
                ;
            if (!is_known(sites, function) && is_means_of_means(sites, list + from, to - from))
                sites->means[sites->means_count++] = function;
        }
        if (sites->means_count == before)
            break;
    }
    qsort(sites->means, sites->means_count, sizeof *sites->means, gw_by_number);
}

void gwi_find_means(gw_sites *sites)
{
    gathering all = {NULL, 0, 0};
    bool good = sites->site_count <= SITES_MAX;
    free(sites->means);
    sites->means = NULL;
    sites->means_count = 0;
    sites->means_found = true;
    for (uint32_t number = 1; number <= sites->site_count && good; number++) {
        const gw_stack *stack = gwi_stack_of(sites, number);
        good = stack == NULL || gather(&all, stack);
    }
    if (!good || all.count == 0)
        goto out;
    qsort(all.list, all.count, sizeof *all.list, by_function);
    sites->means = malloc(all.count * sizeof *sites->means);
    for (size_t from = 0, to; from < all.count && sites->means != NULL; from = to) {
        uint64_t function = all.list[from].function;
        for (to = from; to < all.count && all.list[to].function == function; to++)
            ;
        if (is_means(all.list + from, to - from))
            sites->means[sites->means_count++] = function;
    }
    if (sites->means_count > 0)
        follow_means(sites, all.list, all.count);
out:
    free(all.list);
}

/* Find the frame of a stack that belongs to the user. */

/* Return the index of the innermost frame of the most specific owner, or `count` if all frames belong to the runtime. A
 * helper function is skipped if its owner has another frame further out. */
static size_t find_user(const gw_sites *sites, const gw_frame *frame, size_t count)
{
    size_t best = count;
    for (size_t i = 0; i < count; i++) {
        if (frame[i].whose < GW_WHOSE_RUNTIME && (best == count || frame[i].whose < frame[best].whose))
            best = i;
    }
    for (size_t i = best; i < count; i++) {
        if (frame[i].whose == frame[best].whose && !gwi_is_means(sites, &frame[i]))
            return i;
    }
    return best;
}

const gw_stack *gw_sites_stack(gw_sites *sites, uint32_t number)
{
    gw_stack *stack = gwi_stack_of(sites, number);
    if (stack == NULL || stack->user != SIZE_MAX)
        return stack;
    if (!sites->means_found)
        gwi_find_means(sites);
    stack->user = find_user(sites, stack->frame, stack->count);
    return stack;
}

const gw_frame *gw_stack_caller(const gw_stack *stack)
{
    for (size_t i = stack->user + 1; i < stack->count; i++)
        if (stack->frame[i].whose <= stack->frame[stack->user].whose)
            return &stack->frame[i];
    return NULL;
}
