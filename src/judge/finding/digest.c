/* Frees gw_ranks, and copies them as bytes. A packet is the array of ranks, then the parts of each rank in the order of
 * its fields. Texts end with a zero byte. */
#include "gw_ranks.h"

#include "gw_text.h"

#include <stdlib.h>
#include <string.h>

static void free_rank(gw_rank *rank)
{
    for (size_t i = 0; rank->communicator != NULL && i < rank->communicator_count; i++)
        free(rank->communicator[i].call);
    for (size_t i = 0; rank->place != NULL && i < rank->place_count; i++)
        free(rank->place[i]);
    free(rank->communicator);
    free(rank->place);
    free(rank->stand_text);
    free(rank->traits);
}

void gw_ranks_free(gw_ranks *ranks)
{
    for (size_t i = 0; ranks->item != NULL && i < ranks->count; i++)
        free_rank(&ranks->item[i]);
    free(ranks->item);
    *ranks = (gw_ranks){0};
}

static void add(gw_text *text, const void *data, size_t count, size_t bytes)
{
    if (count > 0)
        gw_text_add(text, data, count * bytes);
}

void gw_ranks_pack(const gw_ranks *ranks, gw_text *text)
{
    add(text, &ranks->count, 1, sizeof ranks->count);
    add(text, ranks->item, ranks->count, sizeof *ranks->item);
    for (size_t i = 0; i < ranks->count; i++) {
        const gw_rank *rank = &ranks->item[i];
        if (rank->stand_text != NULL)
            add(text, rank->stand_text, strlen(rank->stand_text) + 1, 1);
        if (rank->traits != NULL)
            add(text, rank->traits, strlen(rank->traits) + 1, 1);
        add(text, rank->communicator, rank->communicator_count, sizeof *rank->communicator);
        for (size_t k = 0; k < rank->communicator_count; k++)
            add(text, rank->communicator[k].call, rank->communicator[k].call_count, sizeof(gw_rank_call));
        for (size_t k = 0; k < rank->place_count; k++)
            add(text, rank->place[k], strlen(rank->place[k]) + 1, 1);
    }
}

/* ---- reading ---- */

typedef struct packed {
    const char *at;
    size_t left;
    bool failed;
} packed;

/* Take an array of the packet into memory of its own. Returns NULL if it is empty, or after a failure. */
static void *take(packed *from, size_t count, size_t bytes)
{
    from->failed = from->failed || count > from->left / bytes;
    void *copy = from->failed || count == 0 ? NULL : malloc(count * bytes);
    from->failed = from->failed || (count > 0 && copy == NULL);
    if (copy == NULL)
        return NULL;
    memcpy(copy, from->at, count * bytes);
    from->at += count * bytes;
    from->left -= count * bytes;
    return copy;
}

static char *take_text(packed *from)
{
    return take(from, from->failed ? 0 : strnlen(from->at, from->left) + 1, 1);
}

static void take_rank(packed *from, gw_rank *rank)
{
    bool has_text = rank->stand_text != NULL, has_traits = rank->traits != NULL; /* the writer's pointers */
    rank->stand_text = rank->traits = NULL;
    rank->communicator = NULL;
    rank->place = NULL;
    rank->stand_text = has_text ? take_text(from) : NULL;
    rank->traits = has_traits ? take_text(from) : NULL;
    rank->communicator = take(from, rank->communicator_count, sizeof *rank->communicator);
    for (size_t i = 0; rank->communicator != NULL && i < rank->communicator_count; i++)
        rank->communicator[i].call = NULL;
    for (size_t i = 0; rank->communicator != NULL && i < rank->communicator_count; i++)
        rank->communicator[i].call = take(from, rank->communicator[i].call_count, sizeof(gw_rank_call));
    rank->place = from->failed || rank->place_count == 0 ? NULL : calloc(rank->place_count, sizeof *rank->place);
    from->failed = from->failed || (rank->place_count > 0 && rank->place == NULL);
    for (size_t i = 0; rank->place != NULL && i < rank->place_count; i++)
        rank->place[i] = take_text(from);
}

bool gw_ranks_unpack(const char *data, size_t bytes, gw_ranks *ret_ranks)
{
    packed from = {.at = data, .left = bytes};
    gw_ranks ranks = {0};
    size_t *count = take(&from, 1, sizeof *count);
    if (count != NULL)
        ranks.item = take(&from, *count, sizeof *ranks.item);
    for (; ranks.item != NULL && ranks.count < *count; ranks.count++)
        take_rank(&from, &ranks.item[ranks.count]);
    free(count);
    if (from.failed)
        gw_ranks_free(&ranks);
    *ret_ranks = ranks;
    return !from.failed;
}
