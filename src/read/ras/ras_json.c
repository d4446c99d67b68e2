/* Read the JSON of NCCL 2.28.7 and later. */
#include "gwi_ras.h"

#include "gw_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool number_of(json_object *object, const char *name, uint64_t *ret_number)
{
    json_object *value = gw_json_member(object, name);
    if (!json_object_is_type(value, json_type_int) || json_object_get_int64(value) < 0)
        return false;
    *ret_number = (uint64_t)json_object_get_int64(value);
    return true;
}

static bool is_true(json_object *object, const char *name)
{
    json_object *value = gw_json_member(object, name);
    return json_object_is_type(value, json_type_boolean) && json_object_get_boolean(value);
}

static void read_counts(json_object *counts, gw_ras_rank *to)
{
    if (!json_object_is_type(counts, json_type_object))
        return;
    json_object_object_foreach(counts, name, value)
    {
        int kind = gwi_ras_kind(name, strlen(name));
        if (kind < 0 || !json_object_is_type(value, json_type_int) || json_object_get_int64(value) < 0)
            continue;
        to->has[kind] = true;
        to->count[kind] = (uint64_t)json_object_get_int64(value);
    }
}

/* Read a rank. Returns false if there is no memory. */
static bool read_rank(json_object *from, bool is_missing, gw_ras_comm *comm)
{
    uint64_t rank, pid;
    json_object *status = gw_json_member(from, "status");
    const char *host = gw_json_member_text(from, "host");
    if (!number_of(from, "rank", &rank) || rank >= comm->size)
        return true; /* memory that was never set */
    gw_ras_rank *to = gwi_ras_rank(comm, (uint32_t)rank);
    if (to == NULL)
        return false;
    if (number_of(from, "pid", &pid) && pid <= INT32_MAX)
        to->pid = (uint32_t)pid;
    snprintf(to->node, sizeof to->node, "%s", host == NULL ? "" : host);
    to->is_missing = is_missing && is_true(status, "unresponsive");
    to->is_dead = is_missing && is_true(status, "considered_dead");
    read_counts(gw_json_member(from, "collective_counts"), to);
    return true;
}

static bool read_ranks(json_object *list, bool is_missing, gw_ras_comm *comm)
{
    size_t count = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
    for (size_t i = 0; i < count; i++)
        if (!read_rank(json_object_array_get_idx(list, i), is_missing, comm))
            return false;
    return true;
}

static bool read_comm(json_object *from, gw_ras *ras)
{
    uint64_t size;
    const char *hash = gw_json_member_text(from, "hash");
    if (hash == NULL || !number_of(from, "size", &size) || size == 0 || size > GWI_RAS_RANKS_MAX)
        return true;
    gw_ras_comm *comm = gwi_ras_comm(ras, strtoull(hash, NULL, 16));
    if (comm == NULL)
        return false;
    comm->size = (uint32_t)size;
    return read_ranks(gw_json_member(from, "ranks"), false, comm) &&
           read_ranks(gw_json_member(from, "missing_ranks"), true, comm);
}

gw_status gwi_ras_read_json(const char *name, const char *text, size_t bytes, gw_ras *ras, gw_error *err)
{
    enum { DEPTH_MAX = 16 };
    gw_status st = GW_OK;
    uint64_t timeouts = 0;
    struct json_tokener *parser = json_tokener_new_ex(DEPTH_MAX);
    json_object *root = parser == NULL ? NULL : json_tokener_parse_ex(parser, text, (int)bytes);
    json_object *comms = gw_json_member(root, "communicators");
    const char *version = gw_json_member_text(root, "nccl_version");
    if (parser == NULL)
        st = gw_fail(err, GW_NOMEM, "%s: no memory", name);
    else if (root == NULL)
        st = gw_fail(err, GW_CORRUPT, "%s: at byte %zu: %s", name, json_tokener_get_parse_end(parser),
                     json_tokener_get_error(parser) == json_tokener_continue
                         ? "the file ends early"
                         : json_tokener_error_desc(json_tokener_get_error(parser)));
    else if (!json_object_is_type(comms, json_type_array))
        st = gw_fail(err, GW_UNSUPPORTED, "%s: JSON, but not an answer of NCCL's RAS: no list of communicators", name);
    snprintf(ras->version, sizeof ras->version, "%s", version == NULL ? "" : version);
    ras->is_timeout = number_of(gw_json_member(root, "ras"), "timeouts_count", &timeouts) && timeouts > 0;
    for (size_t i = 0, count = st == GW_OK ? json_object_array_length(comms) : 0; i < count && st == GW_OK; i++)
        if (!read_comm(json_object_array_get_idx(comms, i), ras))
            st = gw_fail(err, GW_NOMEM, "%s: no memory, or too many ranks", name);
    json_object_put(root);
    if (parser != NULL)
        json_tokener_free(parser);
    return st;
}
