/* Checks that less evidence never makes a verdict more certain: less_test RECORDING..
 *
 * Each recording is judged as it is, and then once for each class of evidence without that class. The copy without it
 * has the fact that marks it as not observed, as the supervisor would have written it. Rules:
 * - No verdict is established and lists an alternative.
 * - No cause becomes more certain, except that an explanation which was refuted may become a hypothesis: nothing
 *   refutes it any more. No cause and no clean verdict becomes established.
 * - No verdict becomes clean.
 * - No failure of a driver call is ruled out that was not ruled out before.
 * A cause that an established one explained (gw_cause.depth) counts as supported. */
#include "gwi_cause.h"

#include "gw_model.h"
#include "gw_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is left out ---- */

typedef enum class {
    WHOLE,
    CALLS_OF_PROCESS,
    FAILURES,
    SENSING,
    OUTPUT,
    SITES,
    EXITS,
    FACTS,
    REPORTS,
    RAISED,
    END
} class;

typedef struct lack {
    class what;
    const char *name;
    const char *key, *value; /* the mark: a META item if the key begins with "option.", else a fact; NULL: none */
    uint32_t pid;            /* CALLS_OF_PROCESS */
    unsigned per_mille;      /* END: this part of the items is kept; 1000: all but the last */
} lack;

/* Facts, by the beginning of their keys. The others mark what was not observed, or, like ranks and cuDNN's log, have no
 * such mark. */
static const char *const facts[] = {"process.coverage", "hang",        "host.core",    "gpucore", "blame",
                                    "library",          "attempt",     "memory.",      "cure",    "process.alive",
                                    "torch.handled",    "card.holder", "device.holder"};
static const char *const sensed[] = {"card.holder", "device.holder", "nvml.", "pci.peers", "host.core", NULL};

static bool begins_with_any(const char *text, const char *const *begin)
{
    for (; *begin != NULL; begin++)
        if (gw_begins(text, *begin))
            return true;
    return false;
}

static bool is_site_event(const gw_event *event)
{
    return event->kind == GW_EV_SITE || event->kind == GW_EV_SITE_FRAMES || event->kind == GW_EV_PYTHON_CODE ||
           event->kind == GW_EV_LAUNCH_SITE;
}

static bool is_report(const gw_event *event)
{
    switch (event->kind) {
    case GW_EV_ALLOCATOR_OOM:
    case GW_EV_ALLOCATOR_STATE:
    case GW_EV_ALLOCATOR_BLOCK:
    case GW_EV_ALLOCATOR_HISTORY:
    case GW_EV_ALLOCATOR_HELD:
    case GW_EV_ALLOCATOR_REQUESTS:
    case GW_EV_ALLOCATOR_SIZE:
        return true;
    case GW_EV_NOTE:
        return event->arg[0] == GW_NOTE_OBSERVER_ATTACHED;
    default:
        return false;
    }
}

static bool is_of_calls(const gw_item *item)
{
    return item->kind == GW_ITEM_PROCESS || item->kind == GW_ITEM_EVENT || item->kind == GW_ITEM_COUNTERS ||
           item->kind == GW_ITEM_RING || item->kind == GW_ITEM_LOST || item->kind == GW_ITEM_MAPS;
}

static bool is_left_out(const lack *it, const gw_item *item)
{
    bool is_event = item->kind == GW_ITEM_EVENT, is_fact = item->kind == GW_ITEM_SUPERVISOR;
    switch (it->what) {
    case CALLS_OF_PROCESS:
        return item->pid == it->pid && is_of_calls(item);
    case FAILURES:
        return is_event && item->event.result != 0;
    case SENSING:
        return item->kind == GW_ITEM_SAMPLE || item->kind == GW_ITEM_MACHINE ||
               (is_fact && begins_with_any(item->pair.key, sensed));
    case OUTPUT:
        return item->kind == GW_ITEM_STDERR;
    case SITES:
        return item->kind == GW_ITEM_SYMBOL || (is_event && is_site_event(&item->event));
    case EXITS:
        return item->kind == GW_ITEM_EXIT;
    case FACTS:
        return is_fact && gw_begins(item->pair.key, it->name);
    case REPORTS:
        return is_event && is_report(&item->event);
    case RAISED:
        return is_event && (item->event.kind == GW_EV_PYTHON_RAISED || item->event.kind == GW_EV_CRASH);
    case WHOLE:
    case END:
        break;
    }
    return false;
}

/* ---- judging a copy ---- */

static void must(gw_status st, const gw_error *err)
{
    if (st == GW_OK)
        return;
    fprintf(stderr, "less_test: %s\n", err->text);
    exit(2);
}

/* Feed the mark before the recording: META items come first in every recording. */
static void feed_mark(gw_model *model, const lack *it)
{
    gw_error err;
    if (it->key == NULL)
        return;
    gw_item item = {.kind = gw_begins(it->key, "option.") ? GW_ITEM_META : GW_ITEM_SUPERVISOR};
    item.pair.key = it->key;
    item.pair.value = it->value;
    must(gw_model_feed(model, &item, &err), &err);
}

static void feed_lost(gw_model *model, uint32_t pid, uint64_t t_ns)
{
    gw_error err;
    gw_item item = {.kind = GW_ITEM_LOST, .t_ns = t_ns, .pid = pid};
    item.lost.failures = 1;
    must(gw_model_feed(model, &item, &err), &err);
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

/* Read the recording without what `it` leaves out. *ret_left: the number of items that were left out. */
static gw_model *read_without(const char *path, const lack *it, uint64_t items, uint64_t *ret_left)
{
    gw_error err;
    gw_reader *reader = NULL;
    gw_model *model = NULL;
    const gw_item *item;
    uint64_t seen = 0, t_ns = 0, keep = it->per_mille == 1000 ? items - 1 : items * it->per_mille / 1000;
    *ret_left = 0;
    must(gw_reader_open(path, &reader, &err), &err);
    must(gw_model_new(&model, &err), &err);
    feed_mark(model, it);
    gw_status st = GW_OK;
    while ((st = gw_reader_next(reader, &item, &err)) == GW_OK && (it->what != END || seen < keep)) {
        seen++;
        t_ns = item->t_ns;
        if (!is_left_out(it, item)) {
            must(gw_model_feed(model, item, &err), &err);
            continue;
        }
        (*ret_left)++;
        if (it->what == FAILURES)
            feed_lost(model, item->pid, item->t_ns);
    }
    must(st == GW_END ? GW_OK : st, &err);
    if (it->what == END || it->what == EXITS) {
        gw_item cut = {.kind = GW_ITEM_TRUNCATED, .t_ns = t_ns};
        must(gw_model_feed(model, &cut, &err), &err);
    }
    *ret_left += it->what == END ? items - seen : 0;
    name_fns(reader, model);
    must(gw_model_finish(model, &err), &err);
    gw_reader_close(reader);
    return model;
}

/* ---- comparing ---- */

static gw_certainty certainty_of(const gw_verdict *verdict, const gw_cause *cause)
{
    if (verdict->cause != NULL && strcmp(verdict->cause, cause->id) == 0)
        return verdict->certainty;
    for (size_t i = 0; i < verdict->alternative_count; i++)
        if (strcmp(verdict->alternatives[i].cause, cause->id) == 0)
            return verdict->alternatives[i].certainty;
    const gw_cause *best = verdict->cause == NULL ? NULL : gwi_cause_of(verdict->cause);
    if (best == NULL || verdict->certainty != GW_ESTABLISHED)
        return GW_HYPOTHESIS;
    if (best->excludes != NULL && strcmp(best->excludes, cause->id) == 0)
        return GW_ESTABLISHED; /* the same observation, in less detail */
    return cause->depth > best->depth ? GW_SUPPORTED : GW_HYPOTHESIS;
}

/* True if the verdict rules out an explanation that a driver call could confirm. */
static bool rules_out_calls(const gw_verdict *verdict)
{
    static const char *const claims[] = {"the GPU (", "a fault on the GPU", "a failed driver call",
                                         "a shortage of GPU memory", NULL};
    for (size_t i = 0; i < verdict->ruled_out.count; i++)
        if (begins_with_any(verdict->ruled_out.item[i], claims))
            return true;
    return false;
}

static size_t compare(const char *path, const lack *it, const gw_verdict *whole, const gw_verdict *less)
{
    size_t bad = 0;
    for (size_t i = 0; i < GWI_CAUSE_COUNT; i++) {
        gw_certainty before = certainty_of(whole, gwi_causes[i]), after = certainty_of(less, gwi_causes[i]);
        if (after <= before)
            continue;
        printf("%s: without %s, %s is %s, not %s\n", path, it->name, gwi_causes[i]->id, gw_certainty_text(after),
               gw_certainty_text(before));
        bad++;
    }
    bool was_clean = whole->status == GW_VERDICT_CLEAN;
    if (less->status == GW_VERDICT_CLEAN && (!was_clean || less->certainty > whole->certainty)) {
        printf("%s: without %s, it is clean (%s)\n", path, it->name, gw_certainty_text(less->certainty));
        bad++;
    }
    if (rules_out_calls(less) && !rules_out_calls(whole) && !was_clean) { /* a clean verdict needs no list */
        printf("%s: without %s, \"%s\" is ruled out\n", path, it->name, less->ruled_out.item[0]);
        bad++;
    }
    return bad;
}

static size_t check_alternatives(const char *path, const lack *it, const gw_verdict *verdict)
{
    if (verdict->certainty != GW_ESTABLISHED || verdict->alternative_count == 0)
        return 0;
    printf("%s: without %s, %s is established, but may be %s\n", path, it->name, verdict->cause,
           verdict->alternatives[0].cause);
    return 1;
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

typedef struct checked {
    const char *path;
    uint64_t items;
    gw_verdict *whole;
    size_t bad, judged;
} checked;

static void check(checked *it, const lack *without)
{
    gw_error err;
    uint64_t left = 0;
    gw_verdict *less = NULL;
    gw_model *model = read_without(it->path, without, it->items, &left);
    if (left > 0) {
        must(gw_judge(model, &less, &err), &err);
        it->judged++;
        size_t bad = check_alternatives(it->path, without, less) + compare(it->path, without, it->whole, less);
        if (bad > 0 && getenv("GW_TEST_PRINT") != NULL)
            print(less);
        it->bad += bad;
    }
    gw_verdict_free(less);
    gw_model_free(model);
}

static uint64_t count_items(const char *path)
{
    gw_error err;
    gw_reader *reader = NULL;
    const gw_item *item;
    uint64_t count = 0;
    must(gw_reader_open(path, &reader, &err), &err);
    while (gw_reader_next(reader, &item, &err) == GW_OK)
        count++;
    gw_reader_close(reader);
    return count;
}

static void check_processes(checked *it, const gw_model *whole)
{
    enum { PROCESSES_MAX = 8 };
    for (size_t i = 0; i < whole->process_count && i < PROCESSES_MAX; i++) {
        lack without = {CALLS_OF_PROCESS,      "the calls of a process",
                        "unobserved.driver",   "pid 1 uses a driver, and its calls were not recorded",
                        whole->process[i].pid, 0};
        check(it, &without);
    }
}

static size_t check_recording(const char *path)
{
    static const lack lacks[] = {
        {FAILURES, "failed calls", NULL, NULL, 0, 0},
        {SENSING, "samples", "option.no_sense", "1", 0, 0},
        {OUTPUT, "stderr", "stderr.not_recorded", "disabled with --no-stderr", 0, 0},
        {SITES, "sites", "option.no_sites", "1", 0, 0},
        {EXITS, "exits", NULL, NULL, 0, 0},
        {REPORTS, "reports of PyTorch", "option.no_attach", "1", 0, 0},
        {RAISED, "what the interpreter and the crash handler reported", NULL, NULL, 0, 0},
        {END, "the last three quarters", NULL, NULL, 0, 250},
        {END, "the second half", NULL, NULL, 0, 500},
        {END, "the last tenth", NULL, NULL, 0, 900},
        {END, "the last hundredth", NULL, NULL, 0, 990},
        {END, "the last item", NULL, NULL, 0, 1000},
    };
    static const lack nothing = {WHOLE, "nothing", NULL, NULL, 0, 0};
    gw_error err;
    uint64_t left;
    checked it = {.path = path, .items = count_items(path)};
    gw_model *model = read_without(path, &nothing, it.items, &left);
    must(gw_judge(model, &it.whole, &err), &err);
    it.bad += check_alternatives(path, &nothing, it.whole);
    check_processes(&it, model);
    gw_model_free(model);
    for (size_t i = 0; i < sizeof lacks / sizeof lacks[0]; i++)
        check(&it, &lacks[i]);
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        lack without = {FACTS, facts[i], NULL, NULL, 0, 0};
        check(&it, &without);
    }
    gw_verdict_free(it.whole);
    if (it.bad == 0)
        printf("%s: %zu copies with less evidence\n", path, it.judged);
    return it.bad;
}

int main(int argc, char **argv)
{
    size_t bad = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: less_test RECORDING..\n");
        return 2;
    }
    for (int i = 1; i < argc; i++)
        bad += check_recording(argv[i]);
    return bad > 0;
}
