/* Compares where the ranks of a job stand, by the stacks of their main threads that py-spy dumped. A dump shows one
 * moment. It says neither how long a thread has been there nor whether the ranks know each other. */
#include "gwi_hang.h"
#include "gwi_saved_ranks.h"

#include "gw_hash.h"
#include "gw_sites.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A process and how its main thread stands. */
typedef struct stand {
    const gw_process *process;
    gwi_job_rank it;
    uint64_t key; /* equal for equal stacks that wait for the same */
} stand;

typedef struct stands {
    stand *item; /* owned; sorted so that equal ones are together, the rarest first */
    size_t count;
} stands;

static uint64_t key_of(const gwi_case *c, const gw_hang_thread *thread)
{
    char text[GW_PLACE_TEXT_MAX];
    const gw_stack *stack = gw_sites_stack(c->model->sites, thread->site);
    uint64_t hash = gw_hash_bytes(GW_HASH_START, thread->wait, strlen(thread->wait));
    for (size_t i = 0; stack != NULL && i < stack->count; i++) {
        gw_frame_text(c->model->sites, &stack->frame[i], text);
        hash = gw_hash_bytes(hash, text, strlen(text) + 1);
    }
    return hash;
}

static uint32_t number_of(const stand *it)
{
    return it->process->has_rank ? it->process->rank : it->process->pid;
}

static int by_key(const void *left, const void *right)
{
    const stand *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return (number_of(a) > number_of(b)) - (number_of(a) < number_of(b));
}

static int by_rarity(const void *left, const void *right)
{
    const stand *a = left, *b = right;
    return a->it.like != b->it.like ? (a->it.like < b->it.like ? -1 : 1) : by_key(left, right);
}

/* List the main threads of all processes of the dumps. Without memory, the list is empty. */
static stands list_stands(const gwi_case *c)
{
    const gw_model *model = c->model;
    stands all = {.item = calloc(model->hang_count + 1, sizeof *all.item)};
    for (size_t i = 0; i < model->hang_count && all.item != NULL; i++) {
        const gw_hang *hang = &model->hang[i];
        const gw_hang_thread *thread = gwi_hang_thread(hang, hang->pid);
        const gw_process *process = gw_model_process(model, hang->pid);
        if (thread != NULL && process != NULL)
            all.item[all.count++] =
                (stand){process, {process->has_rank ? process->rank : 0, 0, hang, thread, 1}, key_of(c, thread)};
    }
    if (all.count > 1)
        qsort(all.item, all.count, sizeof *all.item, by_key);
    for (size_t begin = 0, end; begin < all.count; begin = end) {
        for (end = begin; end < all.count && all.item[end].key == all.item[begin].key;)
            end++;
        for (size_t i = begin; i < end; i++)
            all.item[i].it.like = end - begin;
    }
    if (all.count > 1)
        qsort(all.item, all.count, sizeof *all.item, by_rarity);
    return all;
}

/* Write "rank 1", "ranks 0, 2-7" or, for processes without a rank, "pid 4711 (python train.py)". */
static void add_who(const gwi_case *c, gw_text *text, const stand *first)
{
    char numbers[GWI_NUMBERS_TEXT_MAX], key[64];
    size_t count = first->it.like, ranks = 0;
    uint32_t *number = calloc(count, sizeof *number);
    for (size_t i = 0; i < count && number != NULL; i++)
        if (first[i].process->has_rank)
            number[ranks++] = first[i].process->rank;
    if (number == NULL)
        text->failed = true;
    else if (ranks > 0)
        gw_text_addf(text, "rank%s %s", GWI_PLURAL(ranks), gwi_numbers_text(numbers, number, ranks));
    for (size_t i = 0, said = ranks; i < count && number != NULL; i++) {
        snprintf(key, sizeof key, GW_META_PROCESS "%" PRIu32, first[i].process->pid);
        const char *known = gw_model_meta(c->model, key);
        if (!first[i].process->has_rank)
            gw_text_addf(text, "%s%s", said++ > 0 ? ", " : "", known == NULL ? "a process" : known);
    }
    free(number);
}

/* Append " is sleeping at load.py:9 in read". */
static void add_doing(const gwi_case *c, gw_text *text, const stand *first)
{
    char doing[GW_DOING_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    gw_text_addf(text, "%s %s%s", first->it.like == 1 ? " is" : " are", gw_doing_text(doing, first->it.main_thread),
                 gwi_at(c, first->it.main_thread->site, at));
}

/* Report the innermost frames of a group, so that a line inside a framework is seen, too. */
static void say_group(const gwi_case *c, gwi_finding *finding, const stand *first)
{
    enum { FRAMES_SHOWN = 5 };
    char frame[GW_PLACE_TEXT_MAX];
    const gw_stack *stack = gw_sites_stack(c->model->sites, first->it.main_thread->site);
    gw_text text = {0};
    size_t shown = 0;
    add_who(c, &text, first);
    add_doing(c, &text, first);
    for (size_t i = 0; stack != NULL && i < stack->count && shown < FRAMES_SHOWN; i++)
        if (stack->frame[i].whose < GW_WHOSE_RUNTIME)
            gw_text_addf(&text, "%s%s", shown++ == 0 ? ": " : " <- ",
                         gw_frame_text(c->model->sites, &stack->frame[i], frame));
    gwi_evidence(finding, GWI_NO_TIME, "dump", "%s", gw_text_str(&text));
    finding->failed = finding->failed || text.failed;
    gw_text_free(&text);
}

/* Report the other threads of a process that is alone. */
static void say_threads(const gwi_case *c, gwi_finding *finding, const gw_hang *hang)
{
    enum { SHOWN_MAX = 16 };
    char doing[GW_DOING_TEXT_MAX], at[GWI_PLACE_TEXT_MAX];
    for (size_t i = 0; i < hang->thread_count && i < SHOWN_MAX; i++) {
        const gw_hang_thread *thread = &hang->thread[i];
        if (thread->tid != hang->pid)
            gwi_evidence(finding, GWI_NO_TIME, "dump", "thread %" PRIu32 " (%s) is %s%s", thread->tid, thread->name,
                         gw_doing_text(doing, thread), gwi_at(c, thread->site, at));
    }
}

/* The groups of equal stacks, at most GWI_JOB_RANKS_MAX. */
typedef struct groups {
    gwi_job_rank it[GWI_JOB_RANKS_MAX];
    bool is_elsewhere[GWI_JOB_RANKS_MAX];
    const stand *first[GWI_JOB_RANKS_MAX];
    size_t count;
} groups;

static void say_headline(const gwi_case *c, gwi_finding *finding, const groups *all, bool is_found)
{
    gw_text text = {0};
    for (size_t i = 0, said = 0; i < all->count && is_found; i++)
        if (all->is_elsewhere[i] && said++ == 0) {
            add_who(c, &text, all->first[i]);
            gw_text_addf(&text, " did not follow the others: %s", all->it[i].like == 1 ? "it" : "they");
            add_doing(c, &text, all->first[i]);
            gwi_where(finding, all->it[i].main_thread->site, "a rank stands here and did not follow the others");
        }
    for (size_t i = all->count; i-- > 0 && is_found;)
        if (!all->is_elsewhere[i]) {
            gw_text_add_str(&text, "; ");
            add_who(c, &text, all->first[i]);
            add_doing(c, &text, all->first[i]);
            break;
        }
    if (!is_found && all->count == 1) {
        add_who(c, &text, all->first[0]);
        add_doing(c, &text, all->first[0]);
        gwi_where(finding, all->it[0].main_thread->site, "the main thread stands here");
    } else if (!is_found) {
        gw_text_addf(&text, "the main threads stand at %zu different places, and none of them is the odd one",
                     all->count);
    }
    gwi_headline(finding, "%s", gw_text_str(&text));
    finding->failed = finding->failed || text.failed;
    gw_text_free(&text);
}

static void say_limits(const gwi_case *c, gwi_finding *finding)
{
    const char *moved = gw_model_meta(c->model, GW_META_MOVED);
    if (moved != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "dump", "%s went on between its dumps", moved);
    else if (gw_model_meta(c->model, GW_META_SAME_STACKS) != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "dump",
                     "each rank has several dumps with the same stack and the same local variables, so it did not go "
                     "on");
    else if (gw_model_meta(c->model, GW_META_EQUAL_DUMPS) != NULL)
        gwi_evidence(finding, GWI_NO_TIME, "dump",
                     "two files have equal dumps of a rank, and one may be a copy of the other: append the dumps of a "
                     "rank to one file (>>), some seconds apart");
    else
        gwi_evidence(finding, GWI_NO_TIME, "dump",
                     "a dump shows one moment: a rank of a program that works is also somewhere else at times");
}

gw_certainty gwi_say_stacks(const gwi_case *c, gwi_finding *finding)
{
    enum { SHOWN_MAX = 8 };
    stands list = list_stands(c);
    groups *all = calloc(1, sizeof *all);
    finding->failed = finding->failed || all == NULL || list.item == NULL;
    for (size_t i = 0; all != NULL && i < list.count && all->count < GWI_JOB_RANKS_MAX; i += list.item[i].it.like) {
        all->first[all->count] = &list.item[i];
        all->it[all->count++] = list.item[i].it;
    }
    bool is_found = all != NULL && all->count > 1 && gwi_find_elsewhere(c, all->it, all->count, all->is_elsewhere);
    if (all != NULL && all->count > 0) {
        if (finding->headline.bytes == 0)
            say_headline(c, finding, all, is_found);
        for (size_t pass = 0, shown = 0; pass < 2; pass++)
            for (size_t i = 0; i < all->count && shown < SHOWN_MAX; i++)
                if ((is_found && all->is_elsewhere[i]) == (pass == 0)) {
                    say_group(c, finding, all->first[i]);
                    gwi_weigh(finding, shown++ < 2 ? GW_WEIGHT_DECIDES : GW_WEIGHT_PLAIN);
                }
        if (all->count > SHOWN_MAX)
            gwi_evidence(finding, GWI_NO_TIME, "dump", "and %zu more stacks", all->count - SHOWN_MAX);
        if (list.count == 1)
            say_threads(c, finding, list.item[0].it.hang);
        say_limits(c, finding);
    }
    free(all);
    free(list.item);
    if (!is_found || gw_model_meta(c->model, GW_META_MOVED) != NULL)
        return GW_CERTAINTY_NONE;
    return gw_model_meta(c->model, GW_META_SAME_STACKS) != NULL ? GW_SUPPORTED : GW_HYPOTHESIS;
}
