/* Ranks of a job as short texts, for tests. A text is a list of words:
 *
 *     rank:    NAME=VALUE (a trait) stuck lossy replays | error@T well@T gone@T (status unknown) died@T ended@T | sleep
 * lock loader running input kernel child device A:1/8    from here on: communicator A, rank 1 of 8; then optionally
 * init (not ready), left@T, aborted ar41~ a call: kind and number; the last character is its state: ! entered, ~
 * enqueued, . completed, x refused, c captured. Before it, in this order: =ELEMENTS, /TYPE, ^ROOT_OR_PEER, gGROUP,
 * tTIME, @LINE
 *
 * Kinds: ar all_reduce, rs reduce_scatter, rd reduce, bc broadcast, ag all_gather, aa all_to_all, ga gather, sc
 * scatter, sd send, rv recv. Calls have 1024 elements of float32 and were made at number * 10 ns. */
#ifndef GW_RANKS_TESTLIB_H
#define GW_RANKS_TESTLIB_H

#include "gw_model_facts.h"
#include "gw_ranks.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FLOAT32 = 7, ELEMENTS = 1024 };

static inline bool take_mark(const char **at, char mark, uint64_t *ret_number)
{
    char *end;
    if (**at != mark)
        return false;
    *ret_number = strtoull(*at + 1, &end, 10);
    *at = end;
    return true;
}

static inline gw_rank_call call_of(const char *word, uint64_t *ret_line)
{
    static const char kinds[] = "arrsrdbcagaagascsdrvpssgwswr", states[] = "!~.xc";
    gw_rank_call call = {.elements = ELEMENTS, .type = FLOAT32, .root_or_peer = -1};
    uint64_t number = 0;
    for (size_t i = 0; i < GW_NCCL_CALL_COUNT; i++)
        if (strncmp(&kinds[2 * i], word, 2) == 0)
            call.call = (uint8_t)i;
    const char *at = word + 1;
    char *end;
    call.number = strtoull(at + 1, &end, 10);
    at = end;
    call.t_ns = call.number * 10;
    *ret_line = 0;
    take_mark(&at, '=', &call.elements);
    if (take_mark(&at, '/', &number))
        call.type = (int32_t)number;
    if (take_mark(&at, '^', &number))
        call.root_or_peer = (int32_t)number;
    if (take_mark(&at, 'g', &number))
        call.group = (uint32_t)number;
    take_mark(&at, 't', &call.t_ns);
    take_mark(&at, '@', ret_line);
    assert(*at != '\0' && strchr(states, *at) != NULL);
    call.state = (uint8_t)(strchr(states, *at) - states);
    return call;
}

static inline void add_call(gw_rank *rank, const char *word)
{
    uint64_t line;
    char place[32];
    gw_rank_communicator *it = &rank->communicator[rank->communicator_count - 1];
    gw_rank_call call = call_of(word, &line);
    if (line != 0) {
        snprintf(place, sizeof place, "train.py:%" PRIu64, line);
        rank->place = realloc(rank->place, (rank->place_count + 1) * sizeof *rank->place);
        rank->place[rank->place_count++] = strdup(place);
        call.place = (uint16_t)rank->place_count;
    }
    bool is_p2p = gw_nccl_has_peer(call.call);
    if (is_p2p)
        it->p2p++;
    else
        it->collectives = call.number;
    it->calls[call.call]++;
    it->call = realloc(it->call, (it->call_count + 1) * sizeof *it->call);
    it->call[it->call_count++] = call;
}

static inline void add_communicator(gw_rank *rank, const char *word)
{
    unsigned number = 0, size = 0;
    int count = sscanf(word + 1, ":%u/%u", &number, &size);
    assert(count == 2);
    (void)count;
    rank->communicator = realloc(rank->communicator, (rank->communicator_count + 1) * sizeof *rank->communicator);
    rank->communicator[rank->communicator_count++] =
        (gw_rank_communicator){.id = (uint64_t)word[0], .size = size, .rank = number, .is_ready = true, .t_init_ns = 1};
}

static inline void set_word(gw_rank *rank, const char *word)
{
    static const char *const stands[] = {"unknown", "running", "input", "nccl",   "kernel", "sleep",
                                         "lock",    "loader",  "child", "device", "stopped"};
    static const char *const ends[] = {"runs", "well", "gone", "died", "ended"};
    gw_rank_communicator *it = rank->communicator_count == 0 ? NULL : &rank->communicator[rank->communicator_count - 1];
    const char *mark = strchr(word, '@');
    size_t bytes = mark == NULL ? strlen(word) : (size_t)(mark - word);
    uint64_t t_ns = mark == NULL ? 0 : strtoull(mark + 1, NULL, 10);
    rank->is_stuck = rank->is_stuck || strcmp(word, "stuck") == 0;
    rank->is_whole = rank->is_whole && strcmp(word, "lossy") != 0;
    rank->has_replays = rank->has_replays || strcmp(word, "replays") == 0;
    for (size_t i = 0; i < sizeof stands / sizeof stands[0]; i++)
        if (strcmp(word, stands[i]) == 0) {
            rank->stand = (gw_rank_stand)i;
            rank->stand_text = strdup("waiting at load.py:9");
        }
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (strlen(ends[i]) == bytes && strncmp(word, ends[i], bytes) == 0) {
            rank->end = (gw_rank_end)i;
            rank->t_end_ns = t_ns;
        }
    if (strncmp(word, "error@", 6) == 0) {
        rank->has_error = true;
        rank->t_error_ns = t_ns;
    }
    if (it != NULL && strcmp(word, "init") == 0)
        it->is_ready = false;
    if (it != NULL && strncmp(word, "left@", 5) == 0)
        it->t_end_ns = t_ns;
    if (it != NULL && strcmp(word, "aborted") == 0)
        it->is_aborted = true;
}

static inline void add_trait(gw_rank *rank, const char *word)
{
    size_t before = rank->traits == NULL ? 0 : strlen(rank->traits);
    rank->traits = realloc(rank->traits, before + strlen(word) + 2);
    sprintf(rank->traits + before, "%s\n", word);
}

/* Read a rank. `world` ranks belong to the job. */
static inline gw_rank rank_of_text(const char *text, uint32_t number, uint32_t world)
{
    gw_rank rank = {.pid = 100 + number, .rank = number, .world = world, .has_rank = true, .is_whole = true};
    char *copy = strdup(text), *rest = copy, *word;
    while ((word = strsep(&rest, " ")) != NULL) {
        if (word[0] >= 'A' && word[0] <= 'Z' && word[1] == ':')
            add_communicator(&rank, word);
        else if (strlen(word) > 2 && word[2] >= '0' && word[2] <= '9')
            add_call(&rank, word);
        else if (strchr(word, '=') != NULL)
            add_trait(&rank, word);
        else
            set_word(&rank, word);
    }
    free(copy);
    return rank;
}

/* Read the ranks of a job, from a list that ends with NULL. A text "" is a rank that is not recorded. */
static inline gw_ranks ranks_of_texts(const char *const *text, size_t count_max)
{
    gw_ranks ranks = {0};
    uint32_t world = 0;
    while (world < count_max && text[world] != NULL)
        world++;
    ranks.item = calloc(world + 1, sizeof *ranks.item);
    for (uint32_t i = 0; i < world; i++)
        if (text[i][0] != '\0')
            ranks.item[ranks.count++] = rank_of_text(text[i], i, world);
    return ranks;
}

#endif
