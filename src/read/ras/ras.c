/* Read the text of STATUS. The lines that matter:
 *
 *     NCCL version 2.28.9 compiled with CUDA 13.0
 *         0         1         4         8        32        32   RUNNING  MISMATCH
 *     #0-0 (27a079b828ff1a75) MISMATCH
 *       Communicator ranks have different AllReduce operation counts
 *       26 ranks have launched up to operation 6650
 *       6 ranks have launched up to operation 6649
 *       Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210
 *       Rank 3 has launched up to operation 12 -- GPU 3 managed by process 483075 on node 172.16.64.210
 *       Rank 4 has not launched any operations -- [process information not found]
 *     #0-0 (27a079b828ff1a75) INCOMPLETE
 *       Missing communicator data from 1 rank
 *       Rank 7 -- GPU 7 managed by process 483079 on node 172.16.64.210
 *
 * The table has the number of ranks of the communicators of a group. "Rank N -- .." belongs to the line of several
 * ranks before it. If only one of those lines has no ranks after it, its ranks are those that no other line names. */
#include "gwi_ras.h"

#include "gw_own.h"
#include "gw_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

enum { LINE_MAX_BYTES = 512, UNNAMED_MAX = 8, GROUPS_MAX = 64 };

/* Ranks of one count that the text has not named yet. */
typedef struct several {
    uint64_t ranks, count;
} several;

typedef struct scan {
    gw_ras *ras;
    uint32_t size_of[GROUPS_MAX]; /* ranks of a communicator of each group in the table; 0: not known */
    gw_ras_comm *comm;            /* NULL: outside the lines of a communicator */
    bool is_incomplete;
    int kind;                     /* of the counts that follow; -1: none */
    bool is_several;              /* the ranks that follow have the count of the last line of several ranks */
    several unnamed[UNNAMED_MAX]; /* lines of several ranks without ranks after them, of the present kind */
    size_t unnamed_count;
    uint64_t ranks; /* of all lines of the present kind */
    bool failed;
} scan;

/* Give the ranks that no line has named the count of the only line without ranks. */
static void end_kind(scan *it)
{
    if (it->comm != NULL && it->kind >= 0 && it->ranks > it->comm->size && it->ranks <= GWI_RAS_RANKS_MAX)
        it->comm->size = (uint32_t)it->ranks;
    if (it->comm != NULL && it->kind >= 0 && it->unnamed_count == 1 && it->comm->size <= (1u << 16)) {
        uint64_t left = it->unnamed[0].ranks;
        for (uint32_t rank = 0; rank < it->comm->size && left > 0 && !it->failed; rank++) {
            gw_ras_rank *to = gwi_ras_rank(it->comm, rank);
            it->failed = it->failed || to == NULL;
            if (to == NULL || to->has[it->kind] || to->is_missing)
                continue;
            to->has[it->kind] = true;
            to->count[it->kind] = it->unnamed[0].count;
            left--;
        }
    }
    it->kind = -1;
    it->unnamed_count = 0;
    it->ranks = 0;
    it->is_several = false;
}

static void read_process(const char *line, gw_ras_rank *to)
{
    const char *at = strstr(line, "managed by process ");
    if (at != NULL)
        (void)!sscanf(at, "managed by process %u on node %63s", &to->pid, to->node);
}

/* Read "Rank 3 has launched up to operation 12 -- ..", "Rank 3 has not launched .." or "Rank 3 -- ..". */
static void read_rank(scan *it, const char *line)
{
    unsigned rank = 0;
    unsigned long long count = 0;
    int used = 0;
    if (sscanf(line, "Rank %u%n", &rank, &used) != 1 || rank >= GWI_RAS_RANKS_MAX)
        return;
    if (it->comm->size != 0 && rank >= it->comm->size)
        return; /* memory that was never set */
    gw_ras_rank *to = gwi_ras_rank(it->comm, rank);
    it->failed = it->failed || to == NULL;
    if (to == NULL)
        return;
    read_process(line, to);
    if (it->is_incomplete) {
        to->is_missing = true;
        return;
    }
    bool has = sscanf(line + used, " has launched up to operation %llu", &count) == 1;
    bool none = gw_begins(line + used, " has not launched any");
    if (it->kind < 0)
        return;
    if (has || none) {
        to->has[it->kind] = true;
        to->count[it->kind] = count;
        it->ranks++;
    } else if (it->is_several && it->unnamed_count > 0 && it->unnamed[it->unnamed_count - 1].ranks > 0) {
        several *last = &it->unnamed[it->unnamed_count - 1];
        to->has[it->kind] = true;
        to->count[it->kind] = last->count;
        if (--last->ranks == 0)
            it->unnamed_count--;
    }
}

static void read_several(scan *it, const char *line)
{
    unsigned long long ranks, count = 0;
    bool has = sscanf(line, "%llu ranks have launched up to operation %llu", &ranks, &count) == 2;
    int end = 0;
    bool none = !has && sscanf(line, "%llu ranks have not launched any operations%n", &ranks, &end) == 1 && end > 0;
    if (it->kind < 0 || !(has || none) || ranks > GWI_RAS_RANKS_MAX)
        return;
    it->is_several = it->unnamed_count < UNNAMED_MAX;
    it->ranks += ranks;
    if (it->is_several)
        it->unnamed[it->unnamed_count++] = (several){ranks, count};
}

static void read_line(scan *it, const char *line)
{
    static const char counts[] = "Communicator ranks have different ";
    unsigned long long hash;
    char what[16], per_node[16];
    unsigned group, size;
    line += strspn(line, " ");
    if (sscanf(line, "NCCL version %31s", it->ras->version) == 1)
        return;
    if (it->comm == NULL && sscanf(line, "%u %*u %*u %15s %u %*u %15s", &group, per_node, &size, what) == 4 &&
        group < GROUPS_MAX && size <= GWI_RAS_RANKS_MAX) {
        it->size_of[group] = size;
    } else if (line[0] == '#' && sscanf(line, "#%u-%*u (%llx) %15s", &group, &hash, what) == 3) {
        end_kind(it);
        it->comm = gwi_ras_comm(it->ras, hash);
        it->failed = it->failed || it->comm == NULL;
        if (it->comm != NULL && it->comm->size == 0 && group < GROUPS_MAX)
            it->comm->size = it->size_of[group];
        it->is_incomplete = strcmp(what, "INCOMPLETE") == 0;
    } else if (gw_begins(line, "TIMEOUT") || gw_begins(line, "INCOMPLETE")) {
        it->ras->is_timeout = true;
    } else if (it->comm != NULL && gw_begins(line, counts)) {
        const char *kind = line + sizeof counts - 1, *end = strstr(kind, " operation counts");
        end_kind(it);
        it->kind = end == NULL ? -1 : gwi_ras_kind(kind, (size_t)(end - kind));
    } else if (it->comm != NULL && gw_begins(line, "Rank ")) {
        read_rank(it, line);
    } else if (it->comm != NULL) {
        read_several(it, line);
    }
}

static gw_status read_text(const char *name, const char *text, size_t bytes, gw_ras *ras, gw_error *err)
{
    scan it = {.ras = ras, .kind = -1};
    for (size_t at = 0; at < bytes && !it.failed;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t length = end == NULL ? bytes - at : (size_t)(end - text) - at;
        char line[LINE_MAX_BYTES];
        snprintf(line, sizeof line, "%.*s", (int)(length < sizeof line ? length : sizeof line - 1), text + at);
        read_line(&it, line);
        at += length + 1;
    }
    end_kind(&it);
    return it.failed ? gw_fail(err, GW_NOMEM, "%s: no memory, or too many ranks", name) : GW_OK;
}

/* ---- both ---- */

static bool has(const char *text, size_t bytes, const char *word)
{
    return memmem(text, bytes, word, strlen(word)) != NULL;
}

static bool is_json(const char *text, size_t bytes)
{
    return bytes > 0 && text[0] == '{';
}

bool gw_ras_is(const char *text, size_t bytes)
{
    enum { START = 4096 };
    size_t start = bytes < START ? bytes : START;
    if (is_json(text, bytes))
        return has(text, start, "\"nccl_version\"") && has(text, start, "\"communicators\"");
    return bytes > 13 && memcmp(text, "NCCL version ", 13) == 0 && has(text, start, "Job summary");
}

gw_status gw_ras_read(const char *name, const char *text, size_t bytes, gw_ras *ret_ras, gw_error *err)
{
    gw_ras ras = {0};
    gw_status st;
    if (!gw_ras_is(text, bytes) || bytes > INT32_MAX)
        return gw_fail(err, GW_UNSUPPORTED, "%s: not an answer of NCCL's RAS", name);
    st = is_json(text, bytes) ? gwi_ras_read_json(name, text, bytes, &ras, err)
                              : read_text(name, text, bytes, &ras, err);
    if (st != GW_OK) {
        gw_ras_free(&ras);
        return st;
    }
    *ret_ras = ras;
    return GW_OK;
}

gw_status gw_ras_read_file(const char *path, gw_ras *ret_ras, gw_error *err)
{
    enum { BYTES_MAX = 64 << 20 };
    gw_text text = {0};
    gw_status st = gw_plain_read(path, BYTES_MAX, &text, err);
    if (st == GW_OK)
        st = gw_ras_read(path, gw_text_str(&text), text.bytes, ret_ras, err);
    gw_text_free(&text);
    return st;
}
