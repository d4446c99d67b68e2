/* Convert Flight Recorder dumps to the communicators of a model, one process for each dump. */
#include "gw_torch.h"
#include "gwi_feeder.h"

#include "gw_array.h"
#include "gw_hash.h"
#include "gw_model_facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GROUPS_MAX = 256, CALLS_MAX = 128, SUPERVISED_MAX = 1 << 15 };

/* PyTorch's names of calls, after the name of the back end and a colon. The size that NCCL gets is that of the first
 * input or output tensor; a list of tensors may be uneven, so its size is not compared. */
static const struct {
    const char *name;
    gw_nccl_call call;
    enum { BY_INPUT, BY_OUTPUT, BY_NONE } size;
} calls[] = {{"all_reduce", GW_NCCL_ALL_REDUCE, BY_INPUT},
             {"all_reduce_barrier", GW_NCCL_ALL_REDUCE, BY_INPUT},
             {"broadcast", GW_NCCL_BROADCAST, BY_INPUT},
             {"_broadcast_oop", GW_NCCL_BROADCAST, BY_INPUT},
             {"reduce", GW_NCCL_REDUCE, BY_INPUT},
             {"_reduce_oop", GW_NCCL_REDUCE, BY_INPUT},
             {"_all_gather_base", GW_NCCL_ALL_GATHER, BY_INPUT},
             {"all_gather", GW_NCCL_ALL_GATHER, BY_NONE},
             {"_reduce_scatter_base", GW_NCCL_REDUCE_SCATTER, BY_OUTPUT},
             {"reduce_scatter", GW_NCCL_REDUCE_SCATTER, BY_NONE},
             {"all_to_all", GW_NCCL_ALL_TO_ALL, BY_NONE},
             {"gather", GW_NCCL_GATHER, BY_NONE},
             {"scatter", GW_NCCL_SCATTER, BY_NONE}};

/* PyTorch's names of types, in the order of ncclDataType_t. */
static const char *const types[] = {"Char",   "Byte", "Int",   "UInt32", "Long",
                                    "UInt64", "Half", "Float", "Double", "BFloat16"};

static int32_t type_of(const char *name)
{
    enum { BYTE = 1 };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(name, types[i]) == 0)
            return (int32_t)i;
    return strcmp(name, "Bool") == 0 ? BYTE : -1;
}

static const char *text_of(const gwi_torch *torch, uint32_t id)
{
    return gw_pickle_text(torch->pickle, (gw_pickle_value){.type = GW_PICKLE_TEXT, .number = id}, NULL);
}

/* Convert a call. Returns false if it is not one NCCL call that all ranks of the group make. */
static bool convert(const gwi_torch *torch, const gwi_torch_collective *from, gw_collective *ret_to)
{
    const char *name = text_of(torch, from->name), *colon = strchr(name, ':');
    name = colon == NULL ? name : colon + 1;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (strcmp(name, calls[i].name) != 0)
            continue;
        *ret_to = (gw_collective){.call = calls[i].call,
                                  .number = from->number,
                                  .t_ns = from->time_ns,
                                  .type = from->dtype == UINT32_MAX ? -1 : type_of(text_of(torch, from->dtype)),
                                  .op = -1,
                                  .root_or_peer = -1,
                                  .state = from->is_completed ? GW_COLLECTIVE_COMPLETED : GW_COLLECTIVE_ENQUEUED};
        if (calls[i].size != BY_NONE)
            ret_to->elements = calls[i].size == BY_INPUT ? from->in : from->out;
        return true;
    }
    return false;
}

/* ---- process groups ---- */

/* Read "[0, 1, 5]": count the ranks, and find the place of `rank`. */
static void read_ranks(const char *text, uint32_t rank, gw_communicator *to)
{
    for (const char *at = text; *at != '\0';) {
        char *end;
        unsigned long number = strtoul(at, &end, 10);
        if (end == at) {
            at++;
            continue;
        }
        if (number == rank)
            to->rank = to->size;
        to->size++;
        at = end;
    }
}

typedef struct group {
    uint32_t name;   /* text id in the pickle */
    uint64_t number; /* PyTorch's number of the group in this process */
    gw_communicator comm;
    size_t capacity;
} group;

typedef struct dump {
    gwi_feeder f;
    uint32_t rank;
    bool has_rank;
    group *group; /* owned, with their calls until they are moved to the model */
    size_t group_count, group_capacity;
} dump;

static group *group_of(dump *d, uint32_t name, uint64_t number)
{
    const char *desc, *ranks;
    for (size_t i = 0; i < d->group_count; i++)
        if (d->group[i].name == name)
            return &d->group[i];
    if (d->group_count == GROUPS_MAX || !gw_array_room(&d->group, d->group_count, &d->group_capacity, sizeof *d->group))
        return NULL;
    group *it = &d->group[d->group_count++];
    *it = (group){.name = name, .number = number, .comm = {.device = -1, .is_ready = true}};
    ranks = gwi_torch_ranks_of(d->f.torch, name, &desc);
    const char *text = text_of(d->f.torch, name);
    it->comm.id = gw_hash_bytes(GW_HASH_START, text, strlen(text));
    if (ranks != NULL) {
        it->comm.id = gw_hash_bytes(it->comm.id, ranks, strlen(ranks));
        read_ranks(ranks, d->has_rank ? d->rank : UINT32_MAX, &it->comm);
    }
    char key[64], value[256];
    snprintf(key, sizeof key, GW_META_GROUP "%016" PRIx64, it->comm.id);
    snprintf(value, sizeof value, "%.80s%s%.120s%s", text, desc == NULL ? "" : " (", desc == NULL ? "" : desc,
             desc == NULL ? "" : ")");
    if (gw_model_meta(d->f.model, key) == NULL)
        gwi_feed_pair(&d->f, GW_ITEM_META, key, value);
    return it;
}

static int by_number(const void *left, const void *right)
{
    const gw_collective *a = left, *b = right;
    return (a->number > b->number) - (a->number < b->number);
}

/* Sort the calls, drop those that share a number (they were grouped), and keep the last ones. */
static void tidy(gw_communicator *comm)
{
    size_t kept = 0;
    if (comm->last_count > 1)
        qsort(comm->last, comm->last_count, sizeof *comm->last, by_number);
    for (size_t i = 0, end; i < comm->last_count; i = end) {
        for (end = i + 1; end < comm->last_count && comm->last[end].number == comm->last[i].number;)
            end++;
        if (end == i + 1)
            comm->last[kept++] = comm->last[i];
    }
    size_t first = kept > CALLS_MAX ? kept - CALLS_MAX : 0;
    if (comm->last != NULL)
        memmove(comm->last, comm->last + first, (kept - first) * sizeof *comm->last);
    comm->last_count = kept - first;
}

static gw_status add_calls(dump *d)
{
    const gwi_torch *torch = d->f.torch;
    for (size_t i = 0; i < torch->collective_count; i++) {
        const gwi_torch_collective *call = &torch->collective[i];
        gw_collective converted;
        group *it = group_of(d, call->group, call->group_number);
        if (it == NULL)
            return d->group_count == GROUPS_MAX ? GW_OK : gw_fail(d->f.err, GW_NOMEM, "no memory for its groups");
        if (call->is_p2p) {
            it->comm.p2p++;
            continue;
        }
        it->comm.collectives = call->number > it->comm.collectives ? call->number : it->comm.collectives;
        if (call->number == 0 || !convert(torch, call, &converted))
            continue;
        if (!gw_array_room(&it->comm.last, it->comm.last_count, &it->capacity, sizeof converted))
            return gw_fail(d->f.err, GW_NOMEM, "no memory for its calls");
        converted.site = gw_sites_number(d->f.model->sites, d->f.pid, gwi_feed_site(&d->f, call->stack));
        it->comm.calls[converted.call]++;
        it->comm.last[it->comm.last_count++] = converted;
    }
    return d->f.status;
}

/* A dump may lack completed calls (TORCH_INCLUDE_ONLY_ACTIVE), and a group without calls is in no entry. PyTorch's
 * status of the groups has the number of the last call, or of the last point-to-point call if there are such. */
static gw_status add_status(dump *d)
{
    const gwi_torch *torch = d->f.torch;
    uint32_t name;
    uint64_t number, last;
    bool only = gwi_torch_only_group(torch, &name, &number) && gwi_torch_enqueued(torch, number, &last);
    if (only && d->group_count == 0 && group_of(d, name, number) == NULL)
        return gw_fail(d->f.err, GW_NOMEM, "no memory for its groups");
    if (only && torch->collective_count == 0)
        d->group[0].comm.collectives = last;
    for (size_t i = 0; i < d->group_count; i++) {
        gw_communicator *comm = &d->group[i].comm;
        if (comm->p2p == 0 && torch->collective_count > 0 && gwi_torch_enqueued(torch, d->group[i].number, &last) &&
            last > comm->collectives)
            comm->collectives = last;
    }
    return GW_OK;
}

static void free_groups(dump *d)
{
    for (size_t i = 0; i < d->group_count; i++)
        free(d->group[i].comm.last);
    free(d->group);
}

/* Move the groups to the process of the model. */
static gw_status move_groups(dump *d)
{
    gw_process *process = NULL;
    for (size_t i = 0; i < d->f.model->process_count; i++)
        if (d->f.model->process[i].pid == d->f.pid)
            process = &d->f.model->process[i];
    gw_communicator *list = process == NULL ? NULL : calloc(d->group_count + 1, sizeof *list);
    if (list == NULL)
        return gw_fail(d->f.err, GW_NOMEM, "no memory for its groups");
    process->communicator = list;
    process->has_rank = d->has_rank;
    process->rank = d->rank;
    for (size_t i = 0; i < d->group_count; i++) {
        tidy(&d->group[i].comm);
        list[process->communicator_count++] = d->group[i].comm;
        d->group[i].comm.last = NULL;
    }
    return GW_OK;
}

/* ---- files ---- */

bool gwi_rank_of_name(const char *path, uint32_t *ret_rank)
{
    const char *name = strrchr(path, '/'), *end;
    name = name == NULL ? path : name + 1;
    for (end = name + strcspn(name, "."); end > name && end[-1] >= '0' && end[-1] <= '9';)
        end--;
    size_t digits = strspn(end, "0123456789");
    if (digits == 0 || digits > 9)
        return false;
    *ret_rank = (uint32_t)strtoul(end, NULL, 10);
    return true;
}

gw_status gwi_flight_add(const char *path, uint32_t pid, bool is_new, gw_model *model, gw_error *err)
{
    gwi_torch torch;
    dump d = {.f = {.model = model, .err = err, .status = GW_OK}};
    gw_status st = gwi_torch_read(path, &torch, err);
    if (st != GW_OK)
        return st;
    d.has_rank = gwi_rank_of_name(path, &d.rank);
    for (size_t i = 0; i < model->process_count && d.has_rank && is_new; i++)
        if (model->process[i].has_rank && model->process[i].rank == d.rank)
            st = gw_fail(err, GW_USAGE, "%s: another dump is of rank %" PRIu32 ", too", path, d.rank);
    if (st == GW_OK && !torch.is_flight)
        st = gw_fail(err, GW_UNSUPPORTED, "%s: a pickle, but not a Flight Recorder dump", path);
    if (st == GW_OK && !gwi_feed_begin(&d.f, &torch, pid))
        st = gw_fail(err, GW_NOMEM, "%s: no memory for its stacks", path);
    if (st == GW_OK) {
        if (is_new)
            gwi_feed_process(&d.f);
        else
            gwi_feed_as_outside(&d.f, SUPERVISED_MAX);
        st = add_calls(&d);
        if (st == GW_OK)
            st = add_status(&d);
        if (st == GW_OK)
            st = move_groups(&d);
        if (st != GW_OK)
            gw_wrap(err, "%s", path);
    }
    free_groups(&d);
    gwi_feed_end(&d.f);
    gwi_torch_free(&torch);
    return st;
}

void gwi_flight_set_times(gw_model *model)
{
    uint64_t first = UINT64_MAX, last = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < model->process_count; i++)
            for (size_t k = 0; k < model->process[i].communicator_count; k++) {
                gw_communicator *comm = &model->process[i].communicator[k];
                for (size_t n = 0; n < comm->last_count; n++) {
                    uint64_t *t_ns = &comm->last[n].t_ns;
                    if (pass == 0 && *t_ns != 0) {
                        first = *t_ns < first ? *t_ns : first;
                        last = *t_ns > last ? *t_ns : last;
                    } else if (pass != 0) {
                        *t_ns = *t_ns >= first ? *t_ns - first : 0;
                    }
                }
            }
    model->t_end_ns = last > first ? last - first : 0;
}

/* ---- dumps of a recorded run ---- */

/* Return the newest process of a rank. NULL: none. */
static gw_process *process_of(const gw_model *model, uint32_t rank)
{
    for (size_t i = model->process_count; i-- > 0;)
        if (model->process[i].has_rank && model->process[i].rank == rank)
            return &model->process[i];
    return NULL;
}

/* True if the file is the one that was recorded, and not one of a later run. */
static bool is_unchanged(const char *path, uint64_t written_ns)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
           (uint64_t)info.st_mtim.tv_sec * 1000000000u + (uint64_t)info.st_mtim.tv_nsec == written_ns;
}

gw_status gw_torch_flights_add(gw_model *model, gw_error *err)
{
    const char *start = gw_model_meta(model, "start_realtime_ns");
    uint64_t start_ns = start == NULL ? 0 : strtoull(start, NULL, 10);
    size_t count = model->owner == geteuid() ? model->fact_count : 0; /* another user's recording can name any file */
    for (size_t i = 0; i < count; i++) {
        char *path;
        uint32_t rank;
        if (model->fact[i].what != GW_FACT_TORCH_FLIGHT)
            continue;
        uint64_t written_ns = strtoull(model->fact[i].value, &path, 10);
        gw_process *process = *path == ' ' && gwi_rank_of_name(path + 1, &rank) ? process_of(model, rank) : NULL;
        if (process == NULL || process->communicator_count > 0 || !is_unchanged(path + 1, written_ns))
            continue;
        uint32_t pid = process->pid;
        gw_status st = gwi_flight_add(path + 1, pid, false, model, NULL);
        if (st == GW_NOMEM)
            return gw_fail(err, st, "no memory for the Flight Recorder dumps");
        process = process_of(model, rank);
        process->nccl_unseen = true; /* a dump is not a whole record of calls */
        for (size_t k = 0; k < process->communicator_count; k++)
            for (size_t n = 0; n < process->communicator[k].last_count; n++) {
                uint64_t *t_ns = &process->communicator[k].last[n].t_ns;
                *t_ns = *t_ns > start_ns ? *t_ns - start_ns : 0;
            }
    }
    return GW_OK;
}
