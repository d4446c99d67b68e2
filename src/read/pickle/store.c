/* Stores the texts and containers of a pickle file, and looks them up for the caller. */
#include "gw_array.h"
#include "gw_hash.h"
#include "gw_own.h"
#include "gwi_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads a file through a small window. */

gw_status gwi_window_open(gwi_window *window, const char *path, gw_error *err)
{
    *window = (gwi_window){.fd = -1};
    return gw_plain_open(path, true, &window->fd, err);
}

void gwi_window_close(gwi_window *window)
{
    if (window->fd >= 0)
        close(window->fd);
    window->fd = -1;
}

static gw_status refill(gwi_window *window, gw_error *err)
{
    window->passed += window->filled;
    window->at = window->filled = 0;
    ssize_t count;
    do
        count = read(window->fd, window->data, sizeof window->data);
    while (count < 0 && errno == EINTR);
    if (count < 0)
        return gw_fail(err, GW_IO, "%s", strerror(errno));
    if (count == 0)
        return gw_fail(err, GW_CORRUPT, "the file ends early");
    window->filled = (size_t)count;
    return GW_OK;
}

gw_status gwi_window_take(gwi_window *window, void *to, size_t count, gw_error *err)
{
    unsigned char *out = to;
    while (count > 0) {
        if (window->at == window->filled) {
            gw_status st = refill(window, err);
            if (st != GW_OK)
                return st;
        }
        size_t part = window->filled - window->at < count ? window->filled - window->at : count;
        memcpy(out, window->data + window->at, part);
        window->at += part;
        out += part;
        count -= part;
    }
    return GW_OK;
}

/* Check that the store may grow by `more` bytes. Its size is limited by memory_max. */
static gw_status check_memory(const gw_pickle *store, uint64_t more, gw_error *err)
{
    if (more > store->memory_max - store->memory)
        return gw_fail(err, GW_UNSUPPORTED, "more than %" PRIu64 " MiB of memory would be needed",
                       store->memory_max >> 20);
    return GW_OK;
}

gw_status gwi_store_room(gw_pickle *store, void *array, uint64_t wanted, uint64_t *capacity, size_t element_bytes,
                         gw_error *err)
{
    if (wanted <= *capacity)
        return GW_OK;
    /* grow by half, not to twice the size, because unused capacity counts against memory_max */
    uint64_t wider = *capacity + *capacity / 2;
    wider = wider < wanted ? wanted : wider;
    wider = wider < 4 ? 4 : wider;
    bool wraps = wider > UINT64_MAX / 2 / element_bytes;
    uint64_t more = wraps ? UINT64_MAX : (wider - *capacity) * element_bytes;
    gw_status st = check_memory(store, more, err);
    if (st != GW_OK)
        return st;
    if (!gw_array_resize(array, wider, element_bytes))
        return gw_fail(err, GW_NOMEM, "no memory for %" PRIu64 " more bytes", more);
    *capacity = wider;
    store->memory += more;
    return GW_OK;
}

/* ---- texts ---- */

static uint32_t hash_of(const char *bytes, uint32_t count)
{
    uint64_t hash = gw_hash_bytes(GW_HASH_START, bytes, count);
    return (uint32_t)(hash ^ hash >> 32);
}

gw_status gwi_store_text_room(gw_pickle *store, uint32_t bytes, char **ret_room, gw_error *err)
{
    gw_status st = gwi_store_room(store, &store->bytes, store->bytes_count + bytes + 1, &store->bytes_capacity, 1, err);
    if (st == GW_OK)
        *ret_room = store->bytes + store->bytes_count;
    return st;
}

static void enter(gw_pickle *store, uint32_t id)
{
    uint32_t at = store->text[id].hash & (store->slot_count - 1);
    while (store->slot[at] != 0)
        at = (at + 1) & (store->slot_count - 1);
    store->slot[at] = id + 1;
}

static gw_status widen_slots(gw_pickle *store, gw_error *err)
{
    if (store->slot_count >= 2 * (store->text_count + 1))
        return GW_OK;
    uint32_t count = store->slot_count == 0 ? 1024 : 2 * store->slot_count;
    uint64_t more = (uint64_t)(count - store->slot_count) * sizeof *store->slot;
    gw_status st = check_memory(store, more, err);
    if (st != GW_OK)
        return st;
    uint32_t *slot = calloc(count, sizeof *slot);
    if (slot == NULL)
        return gw_fail(err, GW_NOMEM, "no memory for %u texts", count);
    free(store->slot);
    store->memory += more;
    store->slot = slot;
    store->slot_count = count;
    for (uint32_t id = 0; id < store->text_count; id++)
        enter(store, id);
    return GW_OK;
}

gw_status gwi_store_text(gw_pickle *store, uint32_t bytes, uint32_t *ret_id, gw_error *err)
{
    const char *text = store->bytes + store->bytes_count;
    gw_status st = widen_slots(store, err);
    if (st != GW_OK)
        return st;
    uint32_t hash = hash_of(text, bytes);
    for (uint32_t at = hash & (store->slot_count - 1); store->slot[at] != 0; at = (at + 1) & (store->slot_count - 1)) {
        const gwi_text_ref *known = &store->text[store->slot[at] - 1];
        if (known->hash == hash && known->bytes == bytes && memcmp(store->bytes + known->offset, text, bytes) == 0) {
            *ret_id = store->slot[at] - 1;
            return GW_OK;
        }
    }
    if (store->text_count >= INT32_MAX)
        return gw_fail(err, GW_UNSUPPORTED, "more than 2^31 texts");
    st = gwi_store_room(store, &store->text, store->text_count + UINT64_C(1), &store->text_capacity,
                        sizeof *store->text, err);
    if (st != GW_OK)
        return st;
    store->bytes[store->bytes_count + bytes] = '\0';
    store->text[store->text_count] = (gwi_text_ref){store->bytes_count, bytes, hash};
    store->bytes_count += bytes + UINT64_C(1);
    enter(store, store->text_count);
    *ret_id = store->text_count++;
    return GW_OK;
}

gw_status gw_pickle_add_text(gw_pickle *store, const void *data, uint32_t bytes, uint32_t *ret_id, gw_error *err)
{
    char *room;
    gw_status st = gwi_store_text_room(store, bytes, &room, err);
    if (st != GW_OK)
        return st;
    memcpy(room, data, bytes);
    return gwi_store_text(store, bytes, ret_id, err);
}

/* ---- containers ---- */

gw_status gwi_store_node(gw_pickle *store, gw_pickle_type type, uint32_t *ret_index, gw_error *err)
{
    if (store->node_count >= INT32_MAX)
        return gw_fail(err, GW_UNSUPPORTED, "more than 2^31 containers");
    gw_status st = gwi_store_room(store, &store->node, store->node_count + UINT64_C(1), &store->node_capacity,
                                  sizeof *store->node, err);
    if (st != GW_OK)
        return st;
    store->node[store->node_count] = (gwi_node){.type = (uint8_t)type, .state = GWI_NODE_OPEN};
    *ret_index = store->node_count++;
    return GW_OK;
}

gw_status gwi_store_append(gw_pickle *store, uint32_t node, const gw_pickle_value *item, size_t count, gw_error *err)
{
    gwi_node *to = &store->node[node];
    uint64_t capacity = to->capacity;
    if (count > INT32_MAX - to->count)
        return gw_fail(err, GW_UNSUPPORTED, "a container of more than 2^31 items");
    gw_status st = gwi_store_room(store, &to->item, to->count + (uint64_t)count, &capacity, sizeof *item, err);
    if (st != GW_OK)
        return st;
    to->capacity = (uint32_t)capacity;
    if (count > 0)
        memcpy(to->item + to->count, item, count * sizeof *item);
    to->count += (uint32_t)count;
    return GW_OK;
}

void gwi_store_fold(gw_pickle *store, uint32_t node, gw_pickle_value folded)
{
    gwi_node *it = &store->node[node];
    store->memory -= (uint64_t)it->capacity * sizeof *it->item;
    free(it->item);
    it->state = GWI_NODE_FOLDED;
    it->capacity = 0;
    it->count = folded.tag;
    it->folded = folded.number;
}

gw_pickle_value gwi_store_value(const gw_pickle *store, uint32_t node)
{
    const gwi_node *it = &store->node[node];
    if (it->state == GWI_NODE_FOLDED)
        return (gw_pickle_value){.type = GW_PICKLE_FOLDED, .tag = it->count, .number = it->folded};
    return (gw_pickle_value){.type = it->type, .number = node};
}

gw_status gwi_store_complete(gw_pickle *store, uint32_t node, const gw_pickle_options *options, gw_error *err)
{
    if (store->node[node].state != GWI_NODE_OPEN)
        return GW_OK;
    store->node[node].state = GWI_NODE_SEALED;
    if (options->fold == NULL)
        return GW_OK;
    gw_pickle_value value = gwi_store_value(store, node), folded = value;
    gw_status st = options->fold(options->user, store, value, &folded, err);
    if (st == GW_OK && folded.type == GW_PICKLE_FOLDED)
        gwi_store_fold(store, node, folded);
    return st;
}

gw_status gw_pickle_new(const gw_pickle_options *options, gw_pickle **ret_pickle, gw_error *err)
{
    gw_pickle *store = calloc(1, sizeof *store);
    if (store == NULL)
        return gw_fail(err, GW_NOMEM, "out of memory");
    store->memory_max = options->memory_max != 0 ? options->memory_max : UINT64_C(2) << 30;
    gw_status st = GW_OK;
    for (size_t i = 0; st == GW_OK && i < options->name_count; i++) {
        uint32_t id;
        st = gw_pickle_add_text(store, options->names[i], (uint32_t)strlen(options->names[i]), &id, err);
    }
    if (st == GW_OK)
        *ret_pickle = store;
    else
        gw_pickle_free(store);
    return st;
}

/* ---- look-ups by the caller ---- */

void gw_pickle_free(gw_pickle *store)
{
    if (store == NULL)
        return;
    for (uint32_t i = 0; i < store->node_count; i++) {
        if (store->node[i].state != GWI_NODE_FOLDED)
            free(store->node[i].item);
    }
    free(store->node);
    free(store->text);
    free(store->bytes);
    free(store->slot);
    free(store);
}

static const gwi_node *node_of(const gw_pickle *store, gw_pickle_value value)
{
    if (!gwi_is_container(value) || value.number >= store->node_count ||
        store->node[value.number].state == GWI_NODE_FOLDED)
        return NULL;
    return &store->node[value.number];
}

/* Return `value` or, if it is a container that was folded in the meantime, the value that replaced it. */
static gw_pickle_value current(const gw_pickle *store, gw_pickle_value value)
{
    return gwi_is_container(value) && value.number < store->node_count ? gwi_store_value(store, (uint32_t)value.number)
                                                                       : value;
}

size_t gw_pickle_count(const gw_pickle *store, gw_pickle_value value)
{
    const gwi_node *node = node_of(store, value);
    if (node == NULL)
        return 0;
    if (node->type == GW_PICKLE_DICT)
        return node->count / 2;
    return node->count;
}

gw_pickle_value gw_pickle_at(const gw_pickle *store, gw_pickle_value value, size_t index, gw_pickle_value *ret_key)
{
    const gwi_node *node = node_of(store, value);
    if (ret_key != NULL)
        *ret_key = (gw_pickle_value){0};
    if (node == NULL || index >= gw_pickle_count(store, value))
        return (gw_pickle_value){0};
    if (node->type != GW_PICKLE_DICT)
        return current(store, node->item[index]);
    if (ret_key != NULL)
        *ret_key = current(store, node->item[2 * index]);
    return current(store, node->item[2 * index + 1]);
}

bool gw_pickle_get(const gw_pickle *store, gw_pickle_value dict, uint32_t text, gw_pickle_value *ret_value)
{
    const gwi_node *node = node_of(store, dict);
    if (node == NULL || node->type != GW_PICKLE_DICT)
        return false;
    for (uint32_t i = node->count; i >= 2; i -= 2) {
        if (node->item[i - 2].type == GW_PICKLE_TEXT && node->item[i - 2].number == text) {
            *ret_value = current(store, node->item[i - 1]);
            return true;
        }
    }
    return false;
}

bool gw_pickle_get_number(const gw_pickle *store, gw_pickle_value dict, uint32_t text, uint64_t *ret_number)
{
    gw_pickle_value value;
    if (!gw_pickle_get(store, dict, text, &value) || value.type != GW_PICKLE_INT || value.number > INT64_MAX)
        return false;
    *ret_number = value.number;
    return true;
}

const char *gw_pickle_text(const gw_pickle *store, gw_pickle_value value, size_t *ret_bytes)
{
    bool known = value.type == GW_PICKLE_TEXT && value.number < store->text_count;
    if (ret_bytes != NULL)
        *ret_bytes = known ? store->text[value.number].bytes : 0;
    return known ? store->bytes + store->text[value.number].offset : "";
}
