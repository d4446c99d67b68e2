/* Checks that less evidence never makes a verdict more certain: less_test [--all | --few] RECORDING..
 *
 * Each recording is judged as it is, and then from copies that lack evidence:
 * - one kind of evidence, or the driver calls of one process
 * - two of them (some pairs, chosen at random; with --all, every pair)
 * - the end (after some items, chosen at random; with --all, after more of them)
 * - a part in the middle: its blocks are damaged, or its events were lost because the buffer was full
 * With --few, nothing is chosen at random: a test that records a run must not depend on what it recorded this time.
 * A copy has the mark of what it lacks, as the hook or the supervisor would have written it. Rules:
 * - No verdict is established and lists an alternative.
 * - No cause becomes more certain, except that an explanation which was refuted may become a hypothesis: nothing
 *   refutes it any more. No cause and no clean verdict becomes established. No verdict becomes clean, unless no call
 *   had failed and the loss of what showed the fault was counted, or the program exited with status 0 and only its
 * output shows that a thread ended: then its certainty is supported.
 * - The same cause rules nothing out that it did not rule out before, and another one rules out no failed driver call.
 * - A verdict rules something out, is clean or says that the GPU is not at fault only if the recording reaches its end,
 *   is not damaged and lost no failed call. What a driver call could confirm is ruled out only if calls were recorded,
 *   and what a call of any process could confirm only if no process was unobserved.
 * A cause that an established one explained (gw_cause.depth) counts as supported. */
#include "gwi_cause.h"

#include "gw_hash.h"
#include "gw_model.h"
#include "gw_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the kinds of evidence ---- */

#define EVENTS(...)                                                                                                    \
    (const uint8_t[])                                                                                                  \
    {                                                                                                                  \
        __VA_ARGS__, GW_EV_COUNT                                                                                       \
    }
#define FACTS(...)                                                                                                     \
    (const char *const[])                                                                                              \
    {                                                                                                                  \
        __VA_ARGS__, NULL                                                                                              \
    }

typedef struct kind {
    const char *name;
    uint32_t items, sources;  /* bits of gw_item_kind; of gw_source, of samples and events of the machine */
    const uint8_t *events;    /* NULL: none */
    const char *const *pairs; /* facts and META items, by the beginning of their keys; NULL: none */
    const char *key, *value;  /* the mark: a META item if the key begins with "option.", else a fact; NULL: none */
    bool is_counted;          /* the buffer was full, and the hook counted what it could not write */
    bool is_failed;           /* the driver calls that failed */
} kind;

#define ITEM(name) (1u << GW_ITEM_##name)
#define FROM(name) (1u << GW_SOURCE_##name)
#define ALL_REPORTS                                                                                                    \
    GW_EV_ALLOCATOR_OOM, GW_EV_ALLOCATOR_STATE, GW_EV_ALLOCATOR_BLOCK, GW_EV_ALLOCATOR_HISTORY, GW_EV_ALLOCATOR_HELD,  \
        GW_EV_ALLOCATOR_REQUESTS, GW_EV_ALLOCATOR_SIZE

/* Not here: what only marks a lack itself (process.coverage apart), and ranks and cuDNN's log, which have no mark.
 * INJECTED is written together with the call that it refuses. */
static const kind kinds[] = {
    {.name = "failed calls", .is_failed = true, .is_counted = true},
    {.name = "samples",
     .items = ITEM(SAMPLE) | ITEM(MACHINE),
     .pairs = FACTS("card.holder", "device.holder", "nvml.", "pci.peers", "host.core"),
     .key = "option.no_sense",
     .value = "1"},
    {.name = "NVML", .sources = FROM(NVML), .pairs = FACTS("nvml.", "card.holder"), .key = "nvml.none", .value = "?"},
    {.name = "the control group", .sources = FROM(CGROUP)},
    {.name = "the host's memory and disks", .sources = FROM(HOST)},
    {.name = "samples of processes", .sources = FROM(PROCESS)},
    {.name = "the kernel log", .sources = FROM(KERNEL_LOG), .key = "sense.no_kernel_log", .value = "no permission"},
    {.name = "stderr", .items = ITEM(STDERR), .key = "stderr.not_recorded", .value = "disabled with --no-stderr"},
    {.name = "call sites",
     .items = ITEM(SYMBOL),
     .events = EVENTS(GW_EV_SITE, GW_EV_SITE_FRAMES, GW_EV_PYTHON_CODE, GW_EV_PYTHON_LINES, GW_EV_LAUNCH_SITE),
     .key = "option.no_sites",
     .value = "1"},
    {.name = "symbols", .items = ITEM(SYMBOL)},
    {.name = "Python's lines", .events = EVENTS(GW_EV_PYTHON_CODE, GW_EV_PYTHON_LINES), .is_counted = true},
    {.name = "the places of launches", .events = EVENTS(GW_EV_LAUNCH_SITE), .is_counted = true},
    {.name = "exits", .items = ITEM(EXIT)},
    {.name = "reports of PyTorch", .events = EVENTS(ALL_REPORTS), .key = "option.no_attach", .value = "1"},
    {.name = "PyTorch's refusals", .events = EVENTS(GW_EV_ALLOCATOR_OOM), .is_counted = true},
    {.name = "PyTorch's state", .events = EVENTS(GW_EV_ALLOCATOR_STATE), .is_counted = true},
    {.name = "PyTorch's blocks", .events = EVENTS(GW_EV_ALLOCATOR_BLOCK), .is_counted = true},
    {.name = "PyTorch's history", .events = EVENTS(GW_EV_ALLOCATOR_HISTORY), .is_counted = true},
    {.name = "PyTorch's memory over time", .events = EVENTS(GW_EV_ALLOCATOR_HELD), .is_counted = true},
    {.name = "PyTorch's counts of requests",
     .events = EVENTS(GW_EV_ALLOCATOR_REQUESTS, GW_EV_ALLOCATOR_SIZE),
     .is_counted = true},
    {.name = "arrays of JAX", .events = EVENTS(GW_EV_ARRAYS_OOM, GW_EV_ARRAYS), .is_counted = true},
    {.name = "what the interpreter and the crash handler reported",
     .events = EVENTS(GW_EV_PYTHON_RAISED, GW_EV_CRASH),
     .is_counted = true},
    {.name = "free memory", .events = EVENTS(GW_EV_MEMORY_INFO), .is_counted = true},
    {.name = "refusals by the limit", .events = EVENTS(GW_EV_GUARD_REFUSED), .is_counted = true},
    {.name = "pools", .events = EVENTS(GW_EV_POOL_STATE), .is_counted = true},
    {.name = "phases", .events = EVENTS(GW_EV_PHASE), .is_counted = true},
    {.name = "the order of streams", .events = EVENTS(GW_EV_ORDER, GW_EV_ORDER_RANGE), .is_counted = true},
    {.name = "texts", .events = EVENTS(GW_EV_TEXT, GW_EV_DRIVER_LOG), .is_counted = true},
    {.name = "notes", .events = EVENTS(GW_EV_NOTE), .is_counted = true},
    {.name = "forks", .events = EVENTS(GW_EV_FORK), .is_counted = true},
    {.name = "cards", .events = EVENTS(GW_EV_DEVICE, GW_EV_DEVICE_ATTRIBUTE, GW_EV_DRIVER), .is_counted = true},
    {.name = "last launches", .items = ITEM(RING), .is_counted = true},
    {.name = "counters", .items = ITEM(COUNTERS), .is_counted = true}, /* there were too many threads */
    {.name = "mapped files", .items = ITEM(MAPS), .events = EVENTS(GW_EV_MAPPED), .is_counted = true},
    {.name = "the environment", .pairs = FACTS("env.")},
    {.name = "limits of processes", .pairs = FACTS("rlimit.")},
    {.name = "process.coverage", .pairs = FACTS("process.coverage")},
    {.name = "hangs", .pairs = FACTS("hang")},
    {.name = "threads of a hang", .pairs = FACTS("hang.thread")},
    {.name = "core dumps", .pairs = FACTS("host.core")},
    {.name = "dumps of the GPU", .pairs = FACTS("gpucore")},
    {.name = "the second run", .pairs = FACTS("blame")},
    {.name = "libraries", .pairs = FACTS("library")},
    {.name = "source files", .pairs = FACTS("source")},
    {.name = "attempts", .pairs = FACTS("attempt", "memory.", "cure")},
    {.name = "who still runs", .pairs = FACTS("process.alive")},
    {.name = "torch.handled", .pairs = FACTS("torch.handled")},
    {.name = "who holds the card", .pairs = FACTS("card.holder", "device.holder")},
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0], PROCESSES_MAX = 64 - KIND_COUNT };

static bool begins_with_any(const char *text, const char *const *begin)
{
    for (; begin != NULL && *begin != NULL; begin++)
        if (gw_begins(text, *begin))
            return true;
    return false;
}

static bool has_event(const uint8_t *events, uint8_t wanted)
{
    for (; events != NULL && *events != GW_EV_COUNT; events++)
        if (*events == wanted)
            return true;
    return false;
}

/* True if the event is a driver call, not a fact that the hook wrote. */
static bool is_call(const gw_event *event)
{
    return event->kind < GW_EV_TEXT;
}

static bool is_of_kind(const kind *it, const gw_item *item)
{
    const gw_event *event = &item->event;
    switch (item->kind) {
    case GW_ITEM_EVENT:
        return it->is_failed ? is_call(event) && event->result != 0 : has_event(it->events, event->kind);
    case GW_ITEM_SAMPLE:
        return it->sources >> item->sample.source & 1 || it->items & ITEM(SAMPLE);
    case GW_ITEM_MACHINE:
        return it->sources >> item->machine.source & 1 || it->items & ITEM(MACHINE);
    case GW_ITEM_META:
    case GW_ITEM_SUPERVISOR:
        return begins_with_any(item->pair.key, it->pairs);
    default:
        return it->items >> item->kind & 1;
    }
}

/* ---- what a copy lacks ---- */

typedef enum gap {
    NO_GAP,
    CUT,     /* the recording ends there */
    DAMAGED, /* its blocks cannot be read */
    BURST    /* the buffer was full: the hook counted the events that it could not write */
} gap;

typedef struct lack {
    char name[160];
    uint64_t what; /* bits of the kinds, and of the processes from bit KIND_COUNT on */
    gap gap;
    uint64_t first, end; /* the numbers of its items */
} lack;

typedef struct checked {
    const char *path;
    uint64_t items, random;
    uint64_t present; /* kinds and processes that the recording has, as in lack.what */
    uint32_t pid[PROCESSES_MAX];
    size_t process_count;
    gw_verdict *whole;
    size_t bad, judged;
} checked;

/* A copy of the recording. The last three are noted from its items, not as the judge does. */
typedef struct copy {
    gw_model *model;
    uint64_t left_out; /* number of items */
    uint64_t lost_events, lost_failures, lost_threads;
    bool is_whole, has_calls, has_unseen_driver;
} copy;

static bool is_of_process(const checked *it, uint64_t what, const gw_item *item)
{
    const uint32_t of_calls = ITEM(PROCESS) | ITEM(EVENT) | ITEM(COUNTERS) | ITEM(RING) | ITEM(LOST) | ITEM(MAPS);
    for (size_t i = 0; i < it->process_count; i++)
        if (what >> (KIND_COUNT + i) & 1 && item->pid == it->pid[i])
            return of_calls >> item->kind & 1;
    return false;
}

static bool is_left_out(const checked *it, const lack *without, uint64_t number, const gw_item *item)
{
    bool is_inside = number >= without->first && number < without->end;
    if (is_inside && (without->gap != BURST || item->kind == GW_ITEM_EVENT))
        return true;
    for (size_t i = 0; i < KIND_COUNT; i++)
        if (without->what >> i & 1 && is_of_kind(&kinds[i], item))
            return true;
    return is_of_process(it, without->what, item);
}

static bool lacks_exits(const lack *without)
{
    for (size_t i = 0; i < KIND_COUNT; i++)
        if (without->what >> i & 1 && kinds[i].items & ITEM(EXIT))
            return true;
    return false;
}

static bool is_counted(const lack *without)
{
    bool counted = without->gap == BURST;
    for (size_t i = 0; i < KIND_COUNT; i++)
        counted = counted || (without->what >> i & 1 && kinds[i].is_counted);
    return counted;
}

static bool lacks_output(const lack *without)
{
    for (size_t i = 0; i < KIND_COUNT; i++)
        if (without->what >> i & 1 && (kinds[i].items & ITEM(STDERR)) != 0)
            return true;
    return false;
}

/* ---- making a copy ---- */

static void must(gw_status st, const gw_error *err)
{
    if (st == GW_OK)
        return;
    fprintf(stderr, "less_test: %s\n", err->text);
    exit(2);
}

static void feed(copy *to, const gw_item *item)
{
    gw_error err;
    bool is_fact = item->kind == GW_ITEM_SUPERVISOR;
    must(gw_model_feed(to->model, item, &err), &err);
    to->is_whole = to->is_whole && item->kind != GW_ITEM_TRUNCATED &&
                   !(item->kind == GW_ITEM_LOST && item->lost.failures + item->lost.threads > 0);
    to->has_calls = to->has_calls || (item->kind == GW_ITEM_EVENT && is_call(&item->event));
    to->has_unseen_driver = to->has_unseen_driver || (is_fact && gw_begins(item->pair.key, "unobserved.driver"));
}

static void feed_mark(copy *to, const char *key, const char *value)
{
    gw_item item = {.kind = gw_begins(key, "option.") ? GW_ITEM_META : GW_ITEM_SUPERVISOR};
    item.pair.key = key;
    item.pair.value = value;
    feed(to, &item);
}

/* Feed the marks before the recording: META items come first in every recording. */
static void feed_marks(copy *to, const checked *it, uint64_t what)
{
    char text[80];
    for (size_t i = 0; i < KIND_COUNT; i++)
        if (what >> i & 1 && kinds[i].key != NULL)
            feed_mark(to, kinds[i].key, kinds[i].value);
    for (size_t i = 0; i < it->process_count; i++) {
        if ((what >> (KIND_COUNT + i) & 1) == 0)
            continue;
        snprintf(text, sizeof text, "pid %u called the driver, and its calls were not recorded", it->pid[i]);
        feed_mark(to, "unobserved.driver", text);
    }
}

/* Count an item that the hook could not write, or what the recording itself counts as lost. */
static void feed_lost(copy *to, const gw_item *item)
{
    gw_item lost = {.kind = GW_ITEM_LOST, .t_ns = item->t_ns, .pid = item->pid};
    if (item->kind == GW_ITEM_LOST) {
        to->lost_events += item->lost.events;
        to->lost_failures += item->lost.failures;
        to->lost_threads += item->lost.threads;
    } else {
        to->lost_events++;
        to->lost_failures += item->kind == GW_ITEM_EVENT && is_call(&item->event) && item->event.result != 0;
        to->lost_threads += item->kind == GW_ITEM_COUNTERS;
    }
    lost.lost.events = to->lost_events;
    lost.lost.failures = to->lost_failures;
    lost.lost.threads = to->lost_threads;
    feed(to, &lost);
}

static void name_fns(const gw_reader *reader, gw_model *model)
{
    gw_error err;
    uint32_t count = gw_reader_fn_count(reader);
    const char **names = calloc(count + 1u, sizeof *names);
    for (uint32_t i = 0; i < count; i++)
        names[i] = gw_reader_fn_name(reader, (uint16_t)i);
    must(gw_model_name_fns(model, names, count, &err), &err);
    free(names);
}

/* Feed what the copy has of the recording. Returns the time of the last item. */
static uint64_t feed_items(copy *to, gw_reader *reader, const checked *it, const lack *without)
{
    gw_error err;
    const gw_item *item;
    bool counted = is_counted(without);
    gw_status st = GW_OK;
    uint64_t number = 0, t_ns = 0;
    while ((st = gw_reader_next(reader, &item, &err)) == GW_OK && (without->gap != CUT || number < without->first)) {
        t_ns = item->t_ns;
        bool is_missing = is_left_out(it, without, number++, item);
        to->left_out += is_missing;
        if (!is_missing && !(counted && item->kind == GW_ITEM_LOST))
            feed(to, item);
        else if (counted && !is_of_process(it, without->what, item))
            feed_lost(to, item);
    }
    must(st == GW_END ? GW_OK : st, &err);
    to->left_out += without->gap == CUT ? it->items - number : 0;
    return t_ns;
}

static copy read_without(const checked *it, const lack *without)
{
    gw_error err;
    gw_reader *reader = NULL;
    copy to = {.is_whole = without->gap != DAMAGED};
    must(gw_reader_open(it->path, &reader, &err), &err);
    must(gw_model_new(&to.model, &err), &err);
    feed_marks(&to, it, without->what);
    gw_item cut = {.kind = GW_ITEM_TRUNCATED, .t_ns = feed_items(&to, reader, it, without)};
    if (without->gap == CUT || lacks_exits(without))
        feed(&to, &cut);
    to.model->damaged_count += without->gap == DAMAGED;
    name_fns(reader, to.model);
    must(gw_model_finish(to.model, &err), &err);
    gw_reader_close(reader);
    return to;
}

/* ---- comparing ---- */

__attribute__((format(printf, 3, 4))) static void complain(checked *it, const lack *without, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("%s: without %s, ", it->path, without->name);
    vprintf(format, args);
    printf("\n");
    va_end(args);
    it->bad++;
}

static gw_certainty certainty_of(const gw_verdict *verdict, const gw_cause *cause)
{
    const gw_cause *best = verdict->cause == NULL ? NULL : gwi_cause_of(verdict->cause);
    for (const gw_cause *it = best; it != NULL; it = it->excludes == NULL ? NULL : gwi_cause_of(it->excludes))
        if (it == cause)
            return verdict->certainty; /* or the same observation, in less detail */
    for (size_t i = 0; i < verdict->alternative_count; i++)
        if (strcmp(verdict->alternatives[i].cause, cause->id) == 0)
            return verdict->alternatives[i].certainty;
    bool is_explained = best != NULL && verdict->certainty == GW_ESTABLISHED && cause->depth > best->depth;
    return is_explained ? GW_SUPPORTED : GW_HYPOTHESIS;
}

/* True if the verdict rules out the explanation `wanted`, for whatever reason, which is in parentheses. */
static bool rules_out(const gw_verdict *verdict, const char *wanted)
{
    size_t bytes = strcspn(wanted, "(");
    for (size_t i = 0; i < verdict->ruled_out.count; i++)
        if (strncmp(verdict->ruled_out.item[i], wanted, bytes) == 0)
            return true;
    return false;
}

static bool acquits_gpu(const gw_verdict *verdict)
{
    return strstr(verdict->headline, "the GPU is not at fault") != NULL ||
           strstr(verdict->headline, "the GPU is ruled out") != NULL;
}

/* Return what the verdict claims: that the run is clean, that the GPU is innocent, or an explanation that it rules out.
 * Only explanations that begin with one of `begin` count, or with `is_other`, only the other ones. NULL: none. */
static const char *claim_of(const gw_verdict *verdict, const char *const *begin, bool is_other)
{
    if (verdict->status == GW_VERDICT_CLEAN || acquits_gpu(verdict))
        return verdict->headline;
    for (size_t i = 0; i < verdict->ruled_out.count; i++)
        if (begins_with_any(verdict->ruled_out.item[i], begin) != is_other)
            return verdict->ruled_out.item[i];
    return NULL;
}

/* Explanations that a failed driver call could confirm. */
static const char *const of_calls[] = {"the GPU (", "a fault on the GPU", "a failed driver call",
                                       "a shortage of GPU memory", NULL};

/* Compare with the verdict on the whole recording. */
static void compare(checked *it, const lack *without, const gw_verdict *less)
{
    const gw_verdict *whole = it->whole;
    for (size_t i = 0; i < GWI_CAUSE_COUNT; i++) {
        gw_certainty before = certainty_of(whole, gwi_causes[i]), after = certainty_of(less, gwi_causes[i]);
        if (after > before)
            complain(it, without, "%s is %s, not %s", gwi_causes[i]->id, gw_certainty_text(after),
                     gw_certainty_text(before));
    }
    bool was_clean = whole->status == GW_VERDICT_CLEAN;
    bool is_hidden = (is_counted(without) && !whole->has_failure) ||
                     (lacks_output(without) && whole->exit_known && whole->exit_code == 0);
    bool may_be_clean = was_clean || (is_hidden && less->certainty < GW_ESTABLISHED);
    if (less->status == GW_VERDICT_CLEAN && (!may_be_clean || (was_clean && less->certainty > whole->certainty)))
        complain(it, without, "it is clean (%s)", gw_certainty_text(less->certainty));
    if (was_clean) /* which needs no list */
        return;
    bool is_same = whole->cause == less->cause;
    bool was_ruled_out = claim_of(whole, of_calls, false) != NULL;
    for (size_t i = 0; i < less->ruled_out.count; i++) {
        const char *item = less->ruled_out.item[i];
        if (!rules_out(whole, item) && (is_same || (!was_ruled_out && begins_with_any(item, of_calls))))
            complain(it, without, "it rules out %s", item);
    }
    if (acquits_gpu(less) && !was_ruled_out)
        complain(it, without, "the GPU is acquitted: %s", less->headline);
}

/* Check that the verdict claims nothing that the copy cannot show. */
static void check_claims(checked *it, const lack *without, const copy *of, const gw_verdict *verdict)
{
    static const char *const of_machine[] = {"the program (no driver call can", "the kernel's out-of-memory killer",
                                             "the GPU's memory (the host's", NULL};
    static const char *const of_run[] = {"the GPU (no driver call", "the GPU (none of",         "a failed driver call",
                                         "other processes (0 B",    "other processes (at most", NULL};
    const char *claim;
    if (verdict->certainty == GW_ESTABLISHED && verdict->alternative_count > 0)
        complain(it, without, "%s is established, but may be %s", verdict->cause, verdict->alternatives[0].cause);
    if (!of->is_whole && (claim = claim_of(verdict, NULL, true)) != NULL)
        complain(it, without, "it is not whole, but claims: %s", claim);
    if (!of->has_calls && (claim = claim_of(verdict, of_machine, true)) != NULL)
        complain(it, without, "it has no driver call, but claims: %s", claim);
    if (of->has_unseen_driver && (claim = claim_of(verdict, of_run, false)) != NULL)
        complain(it, without, "a process was not observed, but it claims: %s", claim);
}

static void print(const gw_verdict *verdict)
{
    printf("  %s %s (%s): %s\n", gw_verdict_status_text(verdict->status),
           verdict->cause == NULL ? "none" : verdict->cause, gw_certainty_text(verdict->certainty), verdict->headline);
    for (size_t i = 0; i < verdict->evidence_count; i++)
        printf("    %s [%s]\n", verdict->evidence[i].text, verdict->evidence[i].source);
    for (size_t i = 0; i < verdict->alternative_count; i++)
        printf("    or: %s (%s)\n", verdict->alternatives[i].cause,
               gw_certainty_text(verdict->alternatives[i].certainty));
}

/* ---- one recording ---- */

static void check(checked *it, const lack *without)
{
    gw_error err;
    gw_verdict *less = NULL;
    size_t bad = it->bad;
    copy of = read_without(it, without);
    if (of.left_out > 0) {
        must(gw_judge(of.model, &less, &err), &err);
        it->judged++;
        check_claims(it, without, &of, less);
        compare(it, without, less);
        if (it->bad > bad && getenv("GW_TEST_PRINT") != NULL)
            print(less);
    }
    gw_verdict_free(less);
    gw_model_free(of.model);
}

static const char *name_of(const checked *it, size_t bit, char out[40])
{
    if (bit < KIND_COUNT)
        return kinds[bit].name;
    snprintf(out, 40, "the calls of pid %u", it->pid[bit - KIND_COUNT]);
    return out;
}

static void check_pair(checked *it, size_t first, size_t second)
{
    char a[40], b[40];
    lack without = {.what = UINT64_C(1) << first | UINT64_C(1) << second};
    if (first == second)
        snprintf(without.name, sizeof without.name, "%s", name_of(it, first, a));
    else
        snprintf(without.name, sizeof without.name, "%s and %s", name_of(it, first, a), name_of(it, second, b));
    check(it, &without);
}

static uint64_t random_below(checked *it, uint64_t bound)
{
    it->random = gw_hash_mix(it->random, bound);
    return (it->random >> 20) % bound;
}

/* Check each kind that the recording has, and pairs of them: all, or `pair_count` by chance. */
static void check_kinds(checked *it, bool all, size_t pair_count)
{
    size_t bit[64], count = 0;
    for (size_t i = 0; i < 64; i++)
        if (it->present >> i & 1)
            bit[count++] = i;
    for (size_t i = 0; i < count; i++)
        check_pair(it, bit[i], bit[i]);
    for (size_t i = 0; all && i < count; i++)
        for (size_t k = 0; k < i; k++)
            check_pair(it, bit[k], bit[i]);
    for (size_t i = 0; !all && count > 1 && i < pair_count; i++) {
        size_t first = random_below(it, count);
        check_pair(it, bit[first], bit[(first + 1 + random_below(it, count - 1)) % count]);
    }
}

static void check_gap(checked *it, gap what, uint64_t first, uint64_t end)
{
    static const char *const words[] = {[CUT] = "the end", [DAMAGED] = "damaged blocks", [BURST] = "a burst of events"};
    lack without = {.gap = what, .first = first, .end = end};
    snprintf(without.name, sizeof without.name, "%s (items %" PRIu64 " to %" PRIu64 ")", words[what], first, end);
    check(it, &without);
}

/* Cut the recording: in fixed places and `count` times by chance, more often near the ends. Leave out parts, too. */
static void check_gaps(checked *it, size_t count)
{
    static const unsigned per_mille[] = {250, 500, 900, 990};
    for (size_t i = 0; i < sizeof per_mille / sizeof per_mille[0]; i++)
        check_gap(it, CUT, it->items * per_mille[i] / 1000, it->items);
    check_gap(it, CUT, it->items - 1, it->items);
    for (size_t i = 0; i < count; i++) {
        uint64_t span = random_below(it, it->items) + 1, at = random_below(it, span);
        uint64_t end = at + 1 + random_below(it, it->items - at);
        check_gap(it, CUT, i % 2 == 0 ? at : it->items - 1 - at, it->items);
        check_gap(it, DAMAGED, at, end);
        check_gap(it, BURST, at, end);
    }
}

/* Note which kinds and processes the recording has. */
static void survey(checked *it)
{
    gw_error err;
    gw_reader *reader = NULL;
    const gw_item *item;
    must(gw_reader_open(it->path, &reader, &err), &err);
    while (gw_reader_next(reader, &item, &err) == GW_OK) {
        it->items++;
        for (size_t i = 0; i < KIND_COUNT; i++)
            it->present |= (uint64_t)is_of_kind(&kinds[i], item) << i;
        size_t i = 0;
        while (i < it->process_count && it->pid[i] != item->pid)
            i++;
        if (item->kind == GW_ITEM_PROCESS && i == it->process_count && i < PROCESSES_MAX) {
            it->present |= UINT64_C(1) << (KIND_COUNT + i);
            it->pid[it->process_count++] = item->pid;
        }
    }
    gw_reader_close(reader);
}

/* Return `count`, or less for a long recording, so that it takes seconds, not minutes. */
static size_t few(const checked *it, size_t count)
{
    const uint64_t items_max = 200000;
    return it->items <= items_max ? count : (size_t)(count * items_max / it->items);
}

static size_t check_recording(const char *path, bool all, bool is_random)
{
    static const lack nothing = {.name = "nothing"};
    gw_error err;
    checked it = {.path = path};
    survey(&it);
    it.random = it.items;
    copy of = read_without(&it, &nothing);
    must(gw_judge(of.model, &it.whole, &err), &err);
    gw_model_free(of.model);
    check_claims(&it, &nothing, &of, it.whole);
    check_kinds(&it, all, is_random ? few(&it, 16) : 0);
    check_gaps(&it, all ? 64 : is_random ? few(&it, 6) : 0);
    gw_verdict_free(it.whole);
    if (it.bad == 0)
        printf("%s: %zu copies with less evidence\n", path, it.judged);
    return it.bad;
}

int main(int argc, char **argv)
{
    size_t bad = 0;
    bool all = argc > 1 && strcmp(argv[1], "--all") == 0, is_random = argc > 1 && strcmp(argv[1], "--few") != 0;
    int first = all || !is_random ? 2 : 1;
    if (argc <= first) {
        fprintf(stderr, "usage: less_test [--all | --few] RECORDING..\n");
        return 2;
    }
    for (int i = first; i < argc; i++)
        bad += check_recording(argv[i], all, is_random);
    return bad > 0;
}
