/* Convert an answer of RAS to the communicators of a model. */
#include "gw_ras.h"

#include "gw_model_facts.h"
#include "gw_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gw_status feed_pair(gw_model *model, const char *key, const char *value, gw_error *err)
{
    gw_item item = {.kind = GW_ITEM_META, .pair = {key, value}};
    return gw_model_feed(model, &item, err);
}

/* A rank of a communicator, and the process that it belongs to. */
typedef struct seat {
    const gw_ras_comm *comm;
    const gw_ras_rank *rank;
} seat;

static int by_process(const void *left, const void *right)
{
    const seat *a = left, *b = right;
    int order = strcmp(a->rank->node, b->rank->node);
    if (order == 0)
        order = (a->rank->pid > b->rank->pid) - (a->rank->pid < b->rank->pid);
    if (order == 0)
        order = (a->rank->rank > b->rank->rank) - (a->rank->rank < b->rank->rank);
    return order != 0 ? order : (a->comm->hash > b->comm->hash) - (a->comm->hash < b->comm->hash);
}

static bool is_same_process(const seat *a, const seat *b)
{
    return a->rank->pid != 0 && a->rank->pid == b->rank->pid && strcmp(a->rank->node, b->rank->node) == 0;
}

static gw_communicator communicator_of(const seat *from)
{
    gw_communicator to = {
        .id = from->comm->hash, .size = from->comm->size, .rank = from->rank->rank, .device = -1, .is_ready = true};
    for (int i = 0; i < GW_NCCL_CALL_COUNT; i++) {
        to.calls[i] = from->rank->count[i];
        to.collectives += to.calls[i];
    }
    if (from->rank->has[GW_RAS_ALL])
        to.collectives = from->rank->count[GW_RAS_ALL];
    return to;
}

/* Feed one process with its communicators: seat[0] to seat[count - 1]. */
static gw_status feed_process(gw_model *model, uint32_t pid, const seat *its, size_t count, gw_error *err)
{
    char key[64], value[128];
    gw_item item = {.kind = GW_ITEM_PROCESS, .pid = pid};
    item.process.exe = item.process.driver_path = item.process.driver_build_id = "";
    gw_status st = gw_model_feed(model, &item, err);
    gw_communicator *list = calloc(count, sizeof *list);
    if (st == GW_OK && list == NULL)
        st = gw_fail(err, GW_NOMEM, "no memory for its ranks");
    if (st != GW_OK) {
        free(list);
        return st;
    }
    gw_process *process = &model->process[model->process_count - 1];
    process->communicator = list;
    for (size_t i = 0; i < count; i++) {
        if (its[i].rank->is_missing || its[i].rank->is_dead) {
            snprintf(value, sizeof value, "rank %" PRIu32 "%s", its[i].rank->rank,
                     its[i].rank->is_dead ? " is considered dead" : " did not answer");
            st = st == GW_OK ? feed_pair(model, its[i].rank->is_dead ? GW_META_DEAD : GW_META_SILENT, value, err) : st;
            continue;
        }
        list[process->communicator_count++] = communicator_of(&its[i]);
    }
    snprintf(key, sizeof key, GW_META_PROCESS "%" PRIu32, pid);
    snprintf(value, sizeof value, "pid %" PRIu32 " on node %s", its->rank->pid, its->rank->node);
    return its->rank->pid == 0 || st != GW_OK ? st : feed_pair(model, key, value, err);
}

static gw_status feed_ranks(gw_model *model, const gw_ras *ras, gw_error *err)
{
    size_t count = 0, used = 0;
    uint32_t pid = 1;
    gw_status st = GW_OK;
    for (size_t i = 0; i < ras->comm_count; i++)
        count += ras->comm[i].rank_count;
    seat *all = calloc(count + 1, sizeof *all);
    if (all == NULL)
        return gw_fail(err, GW_NOMEM, "no memory for its ranks");
    for (size_t i = 0; i < ras->comm_count; i++)
        for (size_t k = 0; k < ras->comm[i].rank_count; k++)
            all[used++] = (seat){&ras->comm[i], &ras->comm[i].rank[k]};
    if (count > 1)
        qsort(all, count, sizeof *all, by_process);
    for (size_t begin = 0, end; begin < count && st == GW_OK; begin = end) {
        for (end = begin + 1; end < count && is_same_process(&all[begin], &all[end]);)
            end++;
        st = feed_process(model, pid++, &all[begin], end - begin, err);
    }
    free(all);
    return st;
}

/* Read the newest answer. *ret_same is true if there are older ones, and all have its counts. */
static gw_status read_answers(const char *const *path, size_t count, gw_ras *ret_ras, bool *ret_same, gw_error *err)
{
    gw_status st = gw_ras_read_file(path[count - 1], ret_ras, err);
    *ret_same = st == GW_OK && count > 1;
    for (size_t i = 0; i + 1 < count && st == GW_OK; i++) {
        gw_ras older;
        st = gw_ras_read_file(path[i], &older, err);
        if (st != GW_OK) {
            gw_ras_free(ret_ras);
            break;
        }
        *ret_same = *ret_same && gw_ras_same(&older, ret_ras);
        gw_ras_free(&older);
    }
    return st;
}

bool gw_ras_same(const gw_ras *a, const gw_ras *b)
{
    if (a->comm_count != b->comm_count)
        return false;
    for (size_t i = 0; i < a->comm_count; i++) {
        const gw_ras_comm *x = &a->comm[i], *y = &b->comm[i];
        if (x->hash != y->hash || x->size != y->size || x->rank_count != y->rank_count)
            return false;
        for (size_t k = 0; k < x->rank_count; k++)
            if (x->rank[k].rank != y->rank[k].rank || x->rank[k].pid != y->rank[k].pid ||
                memcmp(x->rank[k].has, y->rank[k].has, sizeof x->rank[k].has) != 0 ||
                memcmp(x->rank[k].count, y->rank[k].count, sizeof x->rank[k].count) != 0)
                return false;
    }
    return true;
}

gw_status gw_ras_model(const char *const *path, size_t count, gw_model **ret_model, gw_error *err)
{
    gw_ras ras;
    gw_model *model = NULL;
    bool is_same;
    const char *newest = path[count - 1];
    gw_status st = read_answers(path, count, &ras, &is_same, err);
    if (st != GW_OK)
        return st;
    st = gw_model_new(&model, err);
    if (st == GW_OK)
        st = feed_pair(model, GW_META_SNAPSHOT, newest, err);
    if (st == GW_OK)
        st = feed_pair(model, GW_META_RANKS, "NCCL RAS answer", err);
    if (st == GW_OK && is_same)
        st = feed_pair(model, GW_META_SAME, "1", err);
    if (st == GW_OK)
        st = feed_ranks(model, &ras, err);
    if (st == GW_OK)
        st = gw_model_finish(model, err);
    gw_ras_free(&ras);
    if (st != GW_OK) {
        gw_wrap(err, "%s", newest);
        gw_model_free(model);
        return st;
    }
    *ret_model = model;
    return GW_OK;
}
