/* Finds leaks in a run that ended well. A leak is a group of objects that were created at one place and never freed.
 * Their number grew until the end.
 *
 * For blocks of device or managed memory, most of one size from one place were kept while other memory was allocated
 * and freed.
 * For other objects:
 * - there are more of their kind than programs keep on purpose
 * - most were kept while other objects, or others from the same place, were freed, or there are very many */
#include "gwi_leaks.h"

#include "gw_array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A kind of object, and how many kept objects make a leak: `grown_min` if other objects, or some from the same place,
 * were freed meanwhile; `many_min` otherwise.
 * Libraries and frameworks keep a few dozen on purpose. The plural of `noun` is "nouns". */
typedef struct kind {
    gw_class cls;
    uint64_t grown_min, many_min;
    const char *noun, *verb;
} kind;

static const kind kinds[] = {
    {GW_CLASS_STREAM, 128, 192, "stream", "destroyed"}, /* PyTorch keeps 32 streams of each priority */
    {GW_CLASS_EVENT, 256, 1024, "event", "destroyed"},
    {GW_CLASS_CONTEXT, 4, 4, "context", "destroyed"},
    {GW_CLASS_MODULE, 128, 128, "module", "unloaded"},
    {GW_CLASS_LIBRARY, 128, 128, "library handle", "unloaded"},
    {GW_CLASS_GRAPH, 64, 128, "graph", "destroyed"},
    {GW_CLASS_GRAPH_EXEC, 128, 128, "executable graph", "destroyed"},
    {GW_CLASS_MEMORY_POOL, 8, 16, "memory pool", "destroyed"},
    {GW_CLASS_HOST, 16, 64, "pinned host block", "freed"},
    {GW_CLASS_REGISTERED, 16, 64, "registered host block", "unregistered"},
    {GW_CLASS_IMPORT, 16, 64, "imported block", "closed"},
    {GW_CLASS_EXTERNAL, 16, 64, "external memory object", "destroyed"},
    {GW_CLASS_RESERVATION, 16, 64, "address reservation", "freed"},
};

typedef struct found {
    const gw_group *group;
    const kind *kind; /* NULL: the group contains blocks of device or managed memory */
    uint64_t left;
} found;

/* The groups of one process. */
typedef struct group_range {
    const gw_group *const *group;
    size_t count;
} group_range;

typedef struct found_list {
    found *item; /* owned */
    size_t count, capacity;
    bool failed; /* out of memory */
} found_list;

static void add_found(found_list *list, const gw_group *group, const kind *of, uint64_t left)
{
    if (!gw_array_room(&list->item, list->count, &list->capacity, sizeof *list->item))
        list->failed = true;
    else
        list->item[list->count++] = (found){group, of, left};
}

/* Count the objects that were live at the end or were destroyed with their context. The result is at most the peak of
 * live objects, because a program may free objects by destroying whole contexts. */
static uint64_t left_of(const gw_group *group)
{
    uint64_t left = group->live_count + group->buried_count;
    return left < group->live_count_peak ? left : group->live_count_peak;
}

/* True if the number of objects grew until the end, as in a leak. A full cache does not grow, nor do objects made
 * before the actual work. `total` is the number of objects created by the process, counted like group->order_last. */
static bool goes_on(const gw_process *process, const gw_group *group, uint64_t total)
{
    const uint64_t moment_ns = 1000000000;
    uint64_t t_end_ns =
        process->t_last_event_ns > process->synced_at_ns ? process->t_last_event_ns : process->synced_at_ns;
    uint64_t grown_ns = group->t_last_ns - group->t_first_ns;
    uint64_t rest_ns = t_end_ns > group->t_last_ns ? t_end_ns - group->t_last_ns : 0;
    return group->order_last * 4 >= total * 3 && rest_ns <= grown_ns + moment_ns;
}

/* True if the number of live objects reached its maximum only in the last eighth of the group's requests. A window, a
 * queue or a history grows only until it is full. */
static bool grows_on(const gw_group *group)
{
    enum { LAST_PART = 8 };
    return (group->alloc_count - group->grown_at) * LAST_PART <= group->alloc_count;
}

/* ---- memory ---- */

/* True if more than 16 blocks are left: programs keep up to a dozen in a queue or ring. 8 are enough if the program
 * freed more than an eighth of this place's blocks. */
static bool is_more_than_a_window(const gw_group *group, uint64_t left)
{
    enum { COUNT_MIN = 8, WINDOW_MAX = 16, GIVEN_PART = 8 };
    uint64_t given_back = group->alloc_count - left;
    return left > WINDOW_MAX || (left >= COUNT_MIN && given_back * GIVEN_PART > group->alloc_count);
}

static bool is_device_memory(const gw_group *group)
{
    return group->cls <= GW_CLASS_DEVICE_LAST || group->cls == GW_CLASS_MANAGED;
}

static bool is_memory_leak(const gw_process *process, const gw_group *group)
{
    const uint64_t bytes_min = 1u << 20;
    uint64_t left = left_of(group);
    return is_device_memory(group) && is_more_than_a_window(group, left) &&
           group->step_count * 2 >= group->alloc_count && left * group->bytes >= bytes_min &&
           left * 2 >= group->alloc_count && grows_on(group) && goes_on(process, group, process->alloc_order);
}

/* True if the program launched far more kernels after its last request for memory than in eight iterations of the loop.
 * Then the loop allocated data for this work. False if the launches before the request are unknown. */
static bool has_worked_since(const gw_process *process, const gw_snapshot *snapshot, const gw_iterations *loop)
{
    enum { ITERATIONS_MANY = 8, SLACK = 4 };
    uint64_t launches = gw_launches(process->counter);
    bool is_counted = snapshot->launches + snapshot->copies + snapshot->waits > 0;
    return is_counted && launches > snapshot->launches + ITERATIONS_MANY * loop->launches + SLACK;
}

/* Return the time at which the program had finished loading memory that it needs until its end, 0 if no loop kept
 * memory.
 *
 * A loop that loads a model layer by layer looks like a leak. The loop is taken for loading if one of these is true:
 * - its blocks look like the layers of a model
 * - it ended long before the program's last request
 * - the program did much more work after this request
 *
 * The result is then shortly after the loop's end, otherwise the loop's start. */
static uint64_t filled_until(const gw_model *model, const gw_process *process)
{
    const gw_snapshot *snapshot = gw_model_snapshot(model, process->end_snapshot);
    if (snapshot == NULL || snapshot->reason != GW_SNAPSHOT_END)
        return 0;
    gw_growth_question question = {.pid = process->pid,
                                   .live = snapshot->live,
                                   .live_count = snapshot->live_count,
                                   .order_now = snapshot->order,
                                   .snapshot = snapshot};
    gw_growth growth;
    gw_growth_find(model, &question, &growth);
    const gw_iterations *loop = &growth.loop;
    if (loop->leak_count == 0)
        return 0;
    uint64_t one_ns = (loop->leak_end_ns - loop->leak_begin_ns) / loop->leak_count;
    bool is_over = loop->doubt == GW_LOOP_LOADING || loop->doubt == GW_LOOP_ONE_PASS || !loop->leak_is_current ||
                   has_worked_since(process, snapshot, loop);
    return is_over ? loop->leak_end_ns + 2 * one_ns : loop->leak_begin_ns;
}

static void find_memory(const gw_process *process, group_range of, found_list *list)
{
    for (size_t i = 0; i < of.count; i++)
        if (is_memory_leak(process, of.group[i]))
            add_found(list, of.group[i], NULL, left_of(of.group[i]));
}

/* Find all memory that the process did not free. */
static void find_unfreed(group_range of, found_list *list)
{
    for (size_t i = 0; i < of.count; i++)
        if (is_device_memory(of.group[i]) && left_of(of.group[i]) > 0 && of.group[i]->bytes > 0)
            add_found(list, of.group[i], NULL, left_of(of.group[i]));
}

static bool is_strict(const gwi_case *c)
{
    return gw_model_meta(c->model, GW_META_LEAKS) != NULL;
}

/* True for memory of any kind. Also true for address reservations, because a model that is loaded into mapped memory
 * needs both. */
static bool is_of_memory(const found *it)
{
    gw_class cls = (gw_class)it->group->cls;
    return it->kind == NULL || cls == GW_CLASS_HOST || cls == GW_CLASS_REGISTERED || cls == GW_CLASS_IMPORT ||
           cls == GW_CLASS_EXTERNAL || cls == GW_CLASS_RESERVATION;
}

/* Drop each group of memory whose kept objects were all made before filled_until(), even if others were made and freed
 * there later. */
static void drop_filled(const gw_model *model, const gw_process *process, found_list *list)
{
    uint64_t end_ns = list->count == 0 ? 0 : filled_until(model, process);
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (!is_of_memory(&list->item[i]) || list->item[i].group->t_kept_ns >= end_ns)
            list->item[kept++] = list->item[i];
    list->count = kept;
}

static int by_group(const void *left, const void *right)
{
    const found *a = left, *b = right;
    return (a->group > b->group) - (a->group < b->group);
}

/* `list` is sorted by group. */
static bool is_found(const found_list *list, const gw_group *group)
{
    const found wanted = {.group = group};
    return list->count > 0 && bsearch(&wanted, list->item, list->count, sizeof wanted, by_group) != NULL;
}

/* Return the total size of the blocks that were live at the end of the process and are no leaks. `list` is sorted by
 * group. */
static uint64_t other_bytes(const gw_model *model, const found_list *list, const gw_snapshot *snapshot)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < snapshot->live_count; i++) {
        uint32_t group = snapshot->live[i].group;
        if (group == 0 || !is_found(list, &model->group[model->group[group].kin]))
            bytes += snapshot->live[i].bytes;
    }
    return bytes;
}

/* ---- other objects ---- */

static const kind *kind_of(const gw_group *group)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (kinds[i].cls == (gw_class)group->cls)
            return &kinds[i];
    }
    return NULL;
}

static void find_handles(const gw_process *process, group_range range, found_list *list)
{
    for (size_t i = 0; i < range.count; i++) {
        const gw_group *group = range.group[i];
        const kind *of = kind_of(group);
        uint64_t left = left_of(group), given_back = group->free_count - group->buried_count;
        if (of == NULL || left < of->grown_min || left * 2 < group->alloc_count)
            continue;
        bool grown = group->step_count * 2 >= group->alloc_count || given_back > 0;
        if ((grown || left >= of->many_min) && grows_on(group) && goes_on(process, group, process->made_total))
            add_found(list, group, of, left);
    }
}

/* ---- the report ---- */

static uint64_t bytes_of(const found *it)
{
    return it->left * it->group->bytes;
}

static int by_weight(const void *left, const void *right)
{
    const found *a = left, *b = right;
    if (bytes_of(a) != bytes_of(b))
        return bytes_of(a) > bytes_of(b) ? -1 : 1;
    if (a->left != b->left)
        return a->left > b->left ? -1 : 1;
    return by_group(left, right);
}

static bool say(const gwi_case *c, gw_verdict *verdict, const found *it)
{
    const gw_group *group = it->group;
    char all[GW_BYTES_TEXT_MAX], one[GW_BYTES_TEXT_MAX], call[GWI_CALL_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    double first_s = (double)group->t_first_ns / 1e9, last_s = (double)group->t_last_ns / 1e9;
    gw_bytes_text(all, bytes_of(it));
    gw_bytes_text(one, group->bytes);
    gwi_at(c, group->site, at);
    if (it->kind == NULL && is_strict(c))
        return gwi_list_addf(&verdict->advice, "leak: %s in %" PRIu64 " block%s of %s by %s%s, never freed", all,
                             it->left, it->left == 1 ? "" : "s", one,
                             gwi_call_text(call, gw_model_fn_name(c->model, group->fn)), at);
    if (it->kind == NULL)
        return gwi_list_addf(
            &verdict->advice,
            "possible leak: %s in %" PRIu64
            " blocks of %s by %s%s, never freed while other memory was allocated and freed (%.1f s to %.1f s)",
            all, it->left, one, gwi_call_text(call, gw_model_fn_name(c->model, group->fn)), at, first_s, last_s);
    const char *noun = it->kind->noun, *verb = it->kind->verb;
    if (group->bytes == 0)
        return gwi_list_addf(&verdict->advice,
                             "possible leak: %" PRIu64 " %ss created%s, %" PRIu64
                             " of them never %s (%.1f s to %.1f s)",
                             group->alloc_count, noun, at, it->left, verb, first_s, last_s);
    return gwi_list_addf(&verdict->advice,
                         "possible leak: %" PRIu64 " %ss of %s created%s, %" PRIu64
                         " of them (%s) never %s (%.1f s to %.1f s)",
                         group->alloc_count, noun, one, at, it->left, all, verb, first_s, last_s);
}

static bool list_one(const gwi_case *c, gw_verdict_leak **leaks, size_t *count, const found *it)
{
    const gw_group *group = it->group;
    if (!gw_array_more(leaks, *count, sizeof **leaks))
        return false;
    gw_verdict_leak *leak = &(*leaks)[(*count)++];
    *leak = (gw_verdict_leak){.kind = gw_class_text((gw_class)group->cls),
                              .call = strdup(gw_model_fn_name(c->model, group->fn)),
                              .pid = group->pid,
                              .made = group->alloc_count,
                              .left = it->left,
                              .bytes = bytes_of(it),
                              .t_first_ns = group->t_first_ns,
                              .t_last_ns = group->t_last_ns};
    return leak->call != NULL && gwi_where_at(c, group->site, "it was created here", &leak->where);
}

/* Report at most four leaks of memory, and then at most four leaks of other objects. With a common limit, one kind
 * could hide the other. */
static bool say_found(const gwi_case *c, gw_verdict *verdict, const found_list *list)
{
    enum { SAID_MAX = 4 };
    bool good = true;
    for (int handles = 0; handles < 2; handles++) {
        size_t said = 0;
        for (size_t i = 0; i < list->count && said < SAID_MAX && good; i++) {
            if ((list->item[i].kind != NULL) != (handles != 0))
                continue;
            good = say(c, verdict, &list->item[i]);
            said++;
        }
    }
    return good;
}

/* Report what the list of leaks lacks, and why it may be wrong. `listed` leaks of the process are in the list. */
static bool say_doubts(const gw_process *process, gw_verdict *verdict, const found_list *list, size_t listed)
{
    size_t more = list->count - listed;
    if (more > 0 && !gwi_list_addf(&verdict->advice, "%zu smaller possible leak%s of pid %u %s not listed", more,
                                   more == 1 ? "" : "s", process->pid, more == 1 ? "is" : "are"))
        return false;
    if (list->count == 0 || process->lost_events == 0)
        return true;
    return gwi_list_addf(&verdict->advice,
                         "%" PRIu64 " event%s of pid %u %s lost, so what looks like a leak may have been freed",
                         process->lost_events, process->lost_events == 1 ? "" : "s", process->pid,
                         process->lost_events == 1 ? "was" : "were");
}

/* Report memory that was never freed and is no leak. Sorts the list by group. */
static bool say_rest(const gwi_case *c, const gw_process *process, gw_verdict *verdict, found_list *list)
{
    const uint64_t worth_saying = 64u << 20;
    char bytes[GW_BYTES_TEXT_MAX];
    const gw_snapshot *snapshot = gw_model_snapshot(c->model, process->end_snapshot);
    if (snapshot == NULL || snapshot->reason != GW_SNAPSHOT_END)
        return true;
    if (list->count > 0)
        qsort(list->item, list->count, sizeof list->item[0], by_group);
    uint64_t other = other_bytes(c->model, list, snapshot);
    return other < worth_saying ||
           gwi_list_addf(
               &verdict->advice,
               "%s was not freed before pid %u exited; this is not a fault, because the driver frees this memory",
               gw_bytes_text(bytes, other), process->pid);
}

/* Sort the list, and append its `listed` largest elements to `leaks`. Returns false if memory runs out. */
static bool list_largest(const gwi_case *c, found_list *list, size_t listed, gw_verdict_leak **leaks, size_t *count)
{
    bool good = !list->failed;
    if (list->count > 0)
        qsort(list->item, list->count, sizeof list->item[0], by_weight);
    for (size_t i = 0; i < listed && good; i++)
        good = list_one(c, leaks, count, &list->item[i]);
    return good;
}

static bool list_process(const gwi_case *c, const gw_process *process, group_range range, gw_verdict *verdict)
{
    enum { LISTED_MAX = 64 };
    found_list list = {.count = 0};
    if (process->is_several) /* advise_losses() reports it */
        return true;
    if (!is_strict(c))
        find_memory(process, range, &list);
    find_handles(process, range, &list);
    drop_filled(c->model, process, &list);
    if (is_strict(c))
        find_unfreed(range, &list);
    size_t listed = list.count < LISTED_MAX ? list.count : LISTED_MAX;
    bool good = list_largest(c, &list, listed, &verdict->leaks, &verdict->leak_count);
    good = good && say_found(c, verdict, &list) && say_doubts(process, verdict, &list, listed) &&
           say_rest(c, process, verdict, &list);
    free(list.item);
    return good;
}

static int by_pid(const void *left, const void *right)
{
    const gw_group *a = *(const gw_group *const *)left, *b = *(const gw_group *const *)right;
    if (a->pid != b->pid)
        return a->pid < b->pid ? -1 : 1;
    return (a > b) - (a < b);
}

/* Return the groups of a pid in a list that is sorted by pid. */
static group_range groups_of(const gw_group *const *group, size_t count, uint32_t pid)
{
    size_t low = 0, high = count, end;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (group[middle]->pid < pid)
            low = middle + 1;
        else
            high = middle;
    }
    for (end = low; end < count && group[end]->pid == pid; end++)
        ;
    return (group_range){group + low, end - low};
}

typedef bool on_process(const gwi_case *c, const gw_process *process, group_range range, gw_verdict *verdict);

/* Call a function for each process. Returns false if it does, or if memory runs out. */
static bool for_each_process(const gwi_case *c, gw_verdict *verdict, on_process *call)
{
    const gw_model *model = c->model;
    const gw_group **group = malloc((model->group_count + 1) * sizeof(const gw_group *));
    size_t count = 0;
    bool good = group != NULL;
    for (size_t i = 1; good && i < model->group_count; i++) /* group 0 belongs to all processes */
        group[count++] = &model->group[i];
    if (count > 0)
        qsort(group, count, sizeof(const gw_group *), by_pid);
    for (size_t i = 0; i < model->process_count && good; i++) {
        group_range range = groups_of((const gw_group *const *)group, count, model->process[i].pid);
        good = call(c, &model->process[i], range, verdict);
    }
    free(group);
    return good;
}

bool gwi_fill_leaks(const gwi_case *c, gw_verdict *verdict)
{
    return for_each_process(c, verdict, list_process);
}

/* ---- what was not freed, whether or not it is a leak ---- */

/* Return the length of a phase's name without the number at its end. */
static size_t name_bytes(const char *name)
{
    size_t bytes = strlen(name);
    while (bytes > 0 && name[bytes - 1] >= '0' && name[bytes - 1] <= '9')
        bytes--;
    return bytes;
}

/* True if phase `b` is a turn of the same loop as `a`. */
static bool is_turn(const gw_phase *a, const gw_phase *b)
{
    return a->pid == b->pid && a->name != NULL && b->name != NULL && name_bytes(a->name) == name_bytes(b->name) &&
           memcmp(a->name, b->name, name_bytes(a->name)) == 0;
}

/* Return the live bytes at the end of a phase; at its begin if the end is not known. */
static uint64_t end_bytes(const gw_model *model, size_t index)
{
    bool has_next = index + 1 < model->phase_count && model->phase[index + 1].pid == model->phase[index].pid;
    return model->phase[has_next ? index + 1 : index].live_bytes;
}

/* Compare the end of the first turn of a loop with that of the last one. The first turn may set up what later ones
 * use. */
static bool list_loop(const gwi_case *c, gw_verdict *verdict, size_t first)
{
    const gw_phase *phase = c->model->phase;
    gw_verdict_unfreed *unfreed = &verdict->unfreed;
    size_t last = first, count = 1;
    char bytes[GW_BYTES_TEXT_MAX];
    for (size_t i = first + 1; i < c->model->phase_count && phase[i].pid == phase[first].pid; i++) {
        if (is_turn(&phase[first], &phase[i])) {
            last = i;
            count++;
        }
    }
    uint64_t before = end_bytes(c->model, first), after = end_bytes(c->model, last);
    if (after <= before)
        return true;
    if (!gw_array_more(&unfreed->turns, unfreed->turns_count, sizeof *unfreed->turns))
        return false;
    gw_verdict_turns *turns = &unfreed->turns[unfreed->turns_count++];
    *turns = (gw_verdict_turns){strdup(phase[last].name), phase[last].pid, count, after - before};
    return turns->phase != NULL &&
           (!is_strict(c) ||
            gwi_list_addf(&verdict->advice, "leak: pid %u held %s more after turn %zu (phase %s) than after the first",
                          turns->pid, gw_bytes_text(bytes, turns->bytes), count, turns->phase));
}

static bool list_turns(const gwi_case *c, gw_verdict *verdict)
{
    enum { LOOPS_MAX = 64 };
    const gw_phase *phase = c->model->phase;
    bool good = true;
    for (size_t i = 0, loops = 0; i < c->model->phase_count && loops < LOOPS_MAX && good; i++) {
        size_t first = 0;
        while (first < i && !is_turn(&phase[first], &phase[i]))
            first++;
        if (first < i || phase[i].name == NULL)
            continue;
        good = list_loop(c, verdict, i);
        loops++;
    }
    return good;
}

static bool list_unfreed(const gwi_case *c, const gw_process *process, group_range range, gw_verdict *verdict)
{
    gw_verdict_unfreed *unfreed = &verdict->unfreed;
    enum { PLACES_MAX = 16 }; /* each one has a stack */
    found_list list = {.count = 0};
    if (process->alive_at_end)
        unfreed->unknown_because = "a process of the run was still running at the end";
    find_unfreed(range, &list);
    for (size_t i = 0; i < list.count; i++)
        unfreed->bytes += bytes_of(&list.item[i]);
    bool good = list_largest(c, &list, list.count < PLACES_MAX ? list.count : PLACES_MAX, &unfreed->place,
                             &unfreed->place_count);
    free(list.item);
    return good;
}

/* With --leaks strict, the headline of a good end names what was left. */
static bool say_unfreed(gw_verdict *verdict)
{
    char bytes[GW_BYTES_TEXT_MAX];
    gw_text text = {0};
    if (!verdict->unfreed.is_strict || verdict->unfreed.bytes == 0)
        return true;
    gw_text_addf(&text, "%s, but %s of device memory was never freed", verdict->headline,
                 gw_bytes_text(bytes, verdict->unfreed.bytes));
    char *headline = text.failed ? NULL : strdup(gw_text_str(&text));
    gw_text_free(&text);
    if (headline == NULL)
        return false;
    free(verdict->headline);
    verdict->headline = headline;
    return true;
}

bool gwi_fill_unfreed(const gwi_case *c, gw_verdict *verdict)
{
    gw_verdict_unfreed *unfreed = &verdict->unfreed;
    unfreed->is_strict = is_strict(c);
    if (verdict->status != GW_VERDICT_CLEAN || c->model->asked_phase != NULL)
        unfreed->unknown_because = "no good end of the program is known";
    else if (verdict->rehearsal != NULL)
        unfreed->unknown_because = "it was a rehearsal";
    else if (verdict->incomplete != NULL)
        unfreed->unknown_because = verdict->incomplete;
    else if (c->model->group_count > 0 && c->model->group[0].alloc_count > 0)
        unfreed->unknown_because = "there are too many places that made objects";
    return unfreed->unknown_because != NULL ||
           (for_each_process(c, verdict, list_unfreed) && list_turns(c, verdict) && say_unfreed(verdict));
}
