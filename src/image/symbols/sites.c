/* Collect processes, mapped files, Python code, sites and symbols from a recording's items. */
#include "gwi_sites.h"

#include "gw_array.h"
#include "gw_text.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SITES_MAX = 1 << 20,
    IDS_MAX = 1 << 20,
    CODES_MAX = 1 << 20,
    PROGRAMS_MAX = 1 << 16,
    MAPPINGS_MAX = 1 << 16,
    PATHS_MAX = 1 << 20,
    SYMBOLS_MAX = 1 << 22,
    TABLE_BYTES_MAX = 1 << 20
};
static const uint64_t frames_kept_max = 16u << 20, bytes_kept_max = 256u << 20;

gw_sites *gw_sites_new(void)
{
    return calloc(1, sizeof(gw_sites));
}

static void program_free(gwi_program *program)
{
    for (int kind = 0; kind < GWI_WRITERS; kind++) {
        const gwi_codes *codes = &program->codes[kind];
        for (uint32_t i = 0; i < codes->count; i++) {
            free(codes->code[i].text);
            free(codes->code[i].table);
        }
        free(codes->code);
        free(program->numbers[kind].number);
    }
    free(program->mapping);
    free(program);
}

void gw_sites_free(gw_sites *sites)
{
    if (sites == NULL)
        return;
    for (uint32_t i = 0; i < sites->program_count; i++)
        program_free(sites->program[i]);
    for (uint32_t i = 0; i < sites->site_count; i++) {
        free(sites->site[i].frame);
        free(sites->site[i].stack);
    }
    for (size_t i = 0; i < sites->symbol_count; i++)
        free(sites->symbol[i].frame);
    tdestroy(sites->path, free);
    free(sites->program);
    free(sites->site);
    free(sites->symbol);
    free(sites->slot);
    free(sites->means);
    free(sites->cwd);
    free(sites->script);
    free(sites->script_folder);
    free(sites->executable);
    free(sites);
}

/* Make room for index `id` in an array of `*count` entries; new ones are zero. A damaged recording may contain any id.
 * Returns false without memory or beyond a limit. */
static bool reach_id(gw_sites *sites, void *array, uint32_t id, uint32_t *count, uint32_t most, size_t element_bytes)
{
    size_t before = *count, wider = before;
    char *data;
    if (id < before)
        return true;
    if (id >= most || sites->bytes_kept + 2 * (uint64_t)id * element_bytes > bytes_kept_max ||
        !gw_array_reach(array, (size_t)id + 1, &wider, element_bytes))
        return false;
    memcpy(&data, array, sizeof data);
    memset(data + before * element_bytes, 0, (wider - before) * element_bytes);
    sites->bytes_kept += (uint64_t)(wider - before) * element_bytes;
    *count = (uint32_t)wider;
    return true;
}

/* ---- processes ---- */

static gwi_program *program_add(gw_sites *sites, uint32_t pid)
{
    if (sites->program_count >= PROGRAMS_MAX ||
        !gw_array_room(&sites->program, sites->program_count, &sites->program_capacity, sizeof(gwi_program *)))
        return NULL;
    gwi_program *program = calloc(1, sizeof *program);
    if (program == NULL)
        return NULL;
    program->pid = pid;
    program->index = sites->program_count;
    program->next_plus_1 = sites->chain_plus_1[pid % GWI_PROGRAM_CHAINS];
    sites->program[sites->program_count++] = program;
    sites->chain_plus_1[pid % GWI_PROGRAM_CHAINS] = sites->program_count;
    return sites->last = program;
}

static gwi_program *program_find(gw_sites *sites, uint32_t pid)
{
    if (sites->last != NULL && sites->last->pid == pid)
        return sites->last;
    uint32_t next_plus_1 = sites->chain_plus_1[pid % GWI_PROGRAM_CHAINS]; /* the newest program in the chain */
    while (next_plus_1 != 0 && sites->program[next_plus_1 - 1]->pid != pid)
        next_plus_1 = sites->program[next_plus_1 - 1]->next_plus_1;
    return next_plus_1 == 0 ? NULL : (sites->last = sites->program[next_plus_1 - 1]);
}

/* True if the limit on programs is reached. Later processes are then ignored, which is not an error. */
static bool is_full(const gw_sites *sites)
{
    return sites->program_count == PROGRAMS_MAX;
}

static gwi_program *program_of(gw_sites *sites, uint32_t pid)
{
    gwi_program *program = program_find(sites, pid);
    return program != NULL ? program : program_add(sites, pid);
}

/* True if the item is about a process of another pid namespace, which has the same pid by chance. */
static bool is_elsewhere(const gwi_program *program, const gw_item *item)
{
    return program->pid_namespace != 0 && item->process.pid_namespace != 0 &&
           program->pid_namespace != item->process.pid_namespace;
}

/* Add a process if it is new. A reader that continues from the recording to the live buffers reports a process twice,
 * with the same pid and start time. */
static bool process_item(gw_sites *sites, const gw_item *item)
{
    gwi_program *program = program_of(sites, item->pid);
    bool is_several = program != NULL && (program->is_several || is_elsewhere(program, item));
    if (program != NULL && program->started && program->start_realtime_ns != item->process.start_realtime_ns)
        program = program_add(sites, item->pid);
    if (program == NULL)
        return is_full(sites);
    program->started = true;
    program->is_several = is_several;
    program->pid_namespace = item->process.pid_namespace;
    program->start_realtime_ns = item->process.start_realtime_ns;
    if (sites->executable == NULL && item->process.exe != NULL && item->process.exe[0] == '/') {
        sites->executable = strdup(item->process.exe);
        return sites->executable != NULL;
    }
    return true;
}

/* ---- the command ---- */

static char *join(const char *folder, const char *name)
{
    char *path = NULL;
    if (name[0] == '/')
        return strdup(name);
    while (gw_begins(name, "./"))
        name += 2;
    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

static void script_is(gw_sites *sites, const char *argument)
{
    sites->script = sites->cwd == NULL ? strdup(argument) : join(sites->cwd, argument);
    const char *slash = sites->script == NULL ? NULL : strrchr(sites->script, '/');
    if (slash != NULL)
        sites->script_folder = strndup(sites->script, (size_t)(slash - sites->script));
}

/* Process a META item. A relative script path is completed when the working folder arrives, which is recorded after the
 * arguments. */
static void meta_item(gw_sites *sites, const gw_item *item)
{
    const char *key = item->pair.key, *value = item->pair.value == NULL ? "" : item->pair.value;
    if (key == NULL)
        return;
    if (strcmp(key, "argv") == 0 && sites->arguments++ > 0 && sites->script == NULL && gw_ends_with(value, ".py"))
        script_is(sites, value);
    if (strcmp(key, "start_realtime_ns") == 0)
        sites->begun_realtime_ns = strtoull(value, NULL, 10);
    if (strcmp(key, "cwd") == 0 && sites->cwd == NULL) {
        sites->cwd = strdup(value);
        if (sites->script != NULL && sites->script[0] != '/') {
            char *relative = sites->script;
            free(sites->script_folder);
            sites->script_folder = NULL;
            script_is(sites, relative);
            free(relative);
        }
    }
}

/* ---- sites ---- */

static gwi_site *site_at(gw_sites *sites, uint32_t number)
{
    return number == 0 || number > sites->site_count ? NULL : &sites->site[number - 1];
}

/* Return the writer of an id; *ret_at is the index among its own ids:
 * - 0: the hook, with ids below `framework`
 * - 1: a framework, with ids from `framework`
 * - 2: the reader from outside, with ids from `outside` */
static unsigned writer_of(uint64_t id, uint32_t framework, uint32_t outside, uint64_t *ret_at)
{
    *ret_at = id;
    if (id >= outside)
        *ret_at = id - outside;
    else if (id >= framework)
        *ret_at = id - framework;
    return id >= outside ? 2 : id >= framework;
}

uint32_t gw_sites_number(gw_sites *sites, uint32_t pid, uint32_t id)
{
    uint64_t its;
    gwi_program *program = id == 0 ? NULL : program_of(sites, pid);
    unsigned writer = writer_of(id, GW_SITE_FRAMEWORK_FIRST, GW_SITE_OUTSIDE_FIRST, &its);
    uint32_t at = (uint32_t)its;
    if (program == NULL || program->is_several)
        return 0;
    gwi_numbers *numbers = &program->numbers[writer];
    if (at < numbers->count && numbers->number[at] != 0)
        return numbers->number[at];
    if (!reach_id(sites, &numbers->number, at, &numbers->count, IDS_MAX, sizeof *numbers->number) ||
        sites->site_count >= SITES_MAX ||
        !gw_array_room(&sites->site, sites->site_count, &sites->site_capacity, sizeof *sites->site))
        return 0;
    sites->site[sites->site_count] = (gwi_site){.program = program->index};
    return numbers->number[at] = ++sites->site_count;
}

uint32_t gw_sites_count(const gw_sites *sites)
{
    return sites->site_count;
}

static bool site_event(gw_sites *sites, const gw_event *event)
{
    uint64_t count = event->arg[1];
    gwi_site *site =
        event->arg[0] > UINT32_MAX ? NULL : site_at(sites, gw_sites_number(sites, event->pid, (uint32_t)event->arg[0]));
    if (site == NULL || site->frame != NULL || count > GW_SITE_FRAMES_MAX ||
        sites->frames_kept + count > frames_kept_max)
        return true;
    site->frame = calloc(count + 1, sizeof *site->frame);
    if (site->frame == NULL)
        return false;
    const gwi_program *program = sites->program[site->program];
    site->frame_count = (uint16_t)count;
    site->flags = (unsigned)event->arg[2];
    if ((site->flags & GW_SITE_PYTHON_BORROWED) != 0 && event->arg[3] <= UINT32_MAX) {
        uint32_t lender = gw_sites_number(sites, event->pid, (uint32_t)event->arg[3]);
        /* look up the site again, because gw_sites_number() may have moved the array */
        site = site_at(sites, gw_sites_number(sites, event->pid, (uint32_t)event->arg[0]));
        site->python_number = lender;
    }
    site->sequence = program->mapping_count == 0 ? 0 : program->mapping[program->mapping_count - 1].sequence;
    sites->frames_kept += count;
    return true;
}

static void frames_event(gw_sites *sites, const gw_event *event)
{
    enum { EACH = 3 };
    uint64_t first = event->arg[0] >> 32;
    gwi_site *site = site_at(sites, gw_sites_number(sites, event->pid, (uint32_t)event->arg[0]));
    if (site == NULL || site->frame == NULL)
        return;
    for (uint64_t i = 0; i < EACH && first + i < site->frame_count; i++) {
        site->frame[first + i] = event->arg[1 + i];
        site->frames_have++;
    }
}

/* ---- mapped files ---- */

static int by_text(const void *left, const void *right)
{
    return strcmp(left, right);
}

const char *gwi_intern(gw_sites *sites, const char *text, size_t bytes)
{
    char *copy = strndup(text, bytes);
    if (copy == NULL)
        return NULL;
    bool is_full = sites->path_count == PATHS_MAX;
    char **place = is_full ? tfind(copy, &sites->path, by_text) : tsearch(copy, &sites->path, by_text);
    const char *found = place == NULL ? NULL : *place;
    if (found == copy)
        sites->path_count++;
    else
        free(copy);
    return found;
}

static bool mapped_event(gw_sites *sites, const gw_event *event)
{
    gwi_program *program = program_of(sites, event->pid);
    if (program == NULL)
        return is_full(sites);
    if (event->text == NULL || event->text_bytes == 0 || event->arg[0] + event->arg[1] < event->arg[0])
        return true;
    const char *path = gwi_intern(sites, event->text, strnlen(event->text, event->text_bytes));
    if (program->mapping_count >= MAPPINGS_MAX)
        return true;
    if (path == NULL)
        return sites->path_count >= PATHS_MAX;
    if (!gw_array_room(&program->mapping, program->mapping_count, &program->mapping_capacity, sizeof(gwi_mapping)))
        return false;
    gwi_mapping *mapping = &program->mapping[program->mapping_count];
    *mapping = (gwi_mapping){.start = event->arg[0],
                             .end = event->arg[0] + event->arg[1],
                             .bias = event->arg[2],
                             .build_id = event->arg[3],
                             .sequence = ++program->mapping_count,
                             .path = path};
    return true;
}

static const gwi_mapping *mapping_in(const gwi_program *program, uint32_t sequence, uint64_t address)
{
    const gwi_mapping *later = NULL;
    for (uint32_t i = program->mapping_count; i-- > 0;) {
        const gwi_mapping *mapping = &program->mapping[i];
        if (address < mapping->start || address >= mapping->end)
            continue;
        if (mapping->sequence <= sequence)
            return mapping;
        later = mapping; /* another thread mapped it, and the mapping was recorded after the site */
    }
    return later;
}

const gwi_mapping *gwi_mapping_at(const gw_sites *sites, const gwi_program *program, uint32_t sequence,
                                  uint64_t address)
{
    enum { FORKS_MAX = 16 };
    for (int i = 0; i < FORKS_MAX; i++) {
        const gwi_mapping *mapping = mapping_in(program, sequence, address);
        if (mapping != NULL || program->parent_plus_1 == 0)
            return mapping;
        program = sites->program[program->parent_plus_1 - 1]; /* a forked child inherits its parent's mappings */
        sequence = UINT32_MAX;
    }
    return NULL;
}

static void fork_event(gw_sites *sites, const gw_event *event)
{
    gwi_program *parent = program_find(sites, (uint32_t)event->arg[0]);
    gwi_program *child = program_of(sites, event->pid);
    if (parent != NULL && child != NULL && parent != child)
        child->parent_plus_1 = parent->index + 1;
}

/* ---- Python's code ---- */

static gwi_codes *codes_of(const gwi_program *program, uint64_t id, uint32_t *ret_at)
{
    uint64_t at;
    unsigned writer = writer_of(id, GW_SITE_FRAMEWORK_CODE_FIRST, GW_SITE_OUTSIDE_CODE_FIRST, &at);
    *ret_at = at >= CODES_MAX ? UINT32_MAX : (uint32_t)at;
    return (gwi_codes *)(uintptr_t)&program->codes[writer];
}

const gwi_code *gwi_code_of(const gwi_program *program, uint32_t id)
{
    uint32_t at;
    const gwi_codes *codes = codes_of(program, id, &at);
    return at >= codes->count || codes->code[at].text == NULL ? NULL : &codes->code[at];
}

static gwi_code *code_at(gw_sites *sites, gwi_program *program, uint64_t id)
{
    uint32_t at;
    gwi_codes *codes = codes_of(program, id, &at);
    return reach_id(sites, &codes->code, at, &codes->count, CODES_MAX, sizeof *codes->code) ? &codes->code[at] : NULL;
}

static bool code_event(gw_sites *sites, const gw_event *event)
{
    gwi_program *program = program_of(sites, event->pid);
    gwi_code *code = program == NULL ? NULL : code_at(sites, program, event->arg[0]);
    if (code == NULL || code->text != NULL || event->text == NULL || sites->bytes_kept > bytes_kept_max)
        return program != NULL || is_full(sites);
    code->text = strndup(event->text, event->text_bytes);
    if (code->text == NULL)
        return false;
    char *end = strchr(code->text, '\n');
    if (end != NULL)
        *end = '\0';
    code->function = code->text[0] == '\0' ? NULL : code->text;
    code->file = end == NULL || end[1] == '\0' ? NULL : end + 1;
    code->first_line = event->arg[1] <= INT32_MAX ? (int32_t)event->arg[1] : 0;
    code->version = event->arg[2] <= UINT16_MAX ? (uint16_t)event->arg[2] : 0;
    code->table_bytes = event->arg[3] <= TABLE_BYTES_MAX ? (uint32_t)event->arg[3] : 0;
    code->table_have = event->arg[3] <= TABLE_BYTES_MAX
                           ? 0
                           : 1; /* no table was recorded: 1 marks it as incomplete, so the lines are unknown */
    sites->bytes_kept += event->text_bytes + code->table_bytes;
    code->table = calloc(code->table_bytes + 1u, 1);
    return code->table != NULL;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static void lines_event(gw_sites *sites, const gw_event *event)
{
    gwi_program *program = program_of(sites, event->pid);
    gwi_code *code = program == NULL || event->arg[0] > UINT32_MAX
                         ? NULL
                         : (gwi_code *)(uintptr_t)gwi_code_of(program, (uint32_t)event->arg[0]);
    uint64_t from = event->arg[1], bytes = event->arg[2];
    if (code == NULL || code->table == NULL || event->text == NULL || from > code->table_bytes ||
        bytes > code->table_bytes - from || bytes * 2 > event->text_bytes)
        return;
    for (uint64_t i = 0; i < bytes; i++) {
        int high = digit(event->text[2 * i]), low = digit(event->text[2 * i + 1]);
        if (high < 0 || low < 0)
            return;
        code->table[from + i] = (uint8_t)(high << 4 | low);
    }
    code->table_have += (uint32_t)bytes;
}

/* ---- names of native addresses ---- */

static size_t place_of(const gw_sites *sites, const char *path, uint64_t build_id, uint64_t address)
{
    uint64_t hash = (uint64_t)(uintptr_t)path * 0x9e3779b97f4a7c15u ^ build_id ^ address * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
    hash *= 0x9e3779b97f4a7c15u;
    size_t mask = sites->slot_count - 1, at = (size_t)(hash >> 32) & mask;
    for (; sites->slot[at] != 0; at = (at + 1) & mask) {
        const gw_symbol *symbol = &sites->symbol[sites->slot[at] - 1];
        if (symbol->address == address && symbol->path == path && symbol->build_id == build_id)
            break;
    }
    return at;
}

static bool grow_symbols(gw_sites *sites)
{
    size_t wider = sites->symbol_capacity == 0 ? 256 : sites->symbol_capacity * 2;
    if (wider > SYMBOLS_MAX)
        return false;
    if (!gw_array_resize(&sites->symbol, wider, sizeof *sites->symbol))
        return false;
    uint32_t *slots = calloc(wider * 2, sizeof *slots);
    if (slots == NULL)
        return false;
    free(sites->slot);
    sites->slot = slots;
    sites->slot_count = wider * 2;
    sites->symbol_capacity = wider;
    for (size_t i = 0; i < sites->symbol_count; i++)
        slots[place_of(sites, sites->symbol[i].path, sites->symbol[i].build_id, sites->symbol[i].address)] =
            (uint32_t)i + 1;
    return true;
}

/* Find or add a symbol. `path` must be interned. Returns NULL if there is no memory or there are too many symbols. */
static gw_symbol *symbol_of(gw_sites *sites, const char *path, uint64_t build_id, uint64_t address)
{
    if (sites->symbol_count == sites->symbol_capacity && !grow_symbols(sites))
        return NULL;
    size_t at = place_of(sites, path, build_id, address);
    if (sites->slot[at] != 0)
        return &sites->symbol[sites->slot[at] - 1];
    sites->symbol[sites->symbol_count] = (gw_symbol){.path = path, .build_id = build_id, .address = address};
    sites->slot[at] = (uint32_t)++sites->symbol_count;
    return &sites->symbol[sites->symbol_count - 1];
}

const gw_symbol *gwi_symbol_find(const gw_sites *sites, const char *path, uint64_t build_id, uint64_t address)
{
    if (sites->slot_count == 0)
        return NULL;
    uint32_t index = sites->slot[place_of(sites, path, build_id, address)];
    return index == 0 ? NULL : &sites->symbol[index - 1];
}

static gw_symbol_frame *copy_frames(const gw_symbol_frame *frame, uint32_t count)
{
    size_t bytes = count * sizeof *frame;
    for (uint32_t i = 0; i < count; i++)
        bytes += (frame[i].function == NULL ? 0 : strlen(frame[i].function) + 1) +
                 (frame[i].file == NULL ? 0 : strlen(frame[i].file) + 1);
    gw_symbol_frame *copy = malloc(bytes + 1);
    char *room = (char *)(copy + count);
    for (uint32_t i = 0; copy != NULL && i < count; i++) {
        copy[i] = (gw_symbol_frame){.line = frame[i].line, .column = frame[i].column};
        if (frame[i].function != NULL) {
            copy[i].function = room;
            room = stpcpy(room, frame[i].function) + 1;
        }
        if (frame[i].file != NULL) {
            copy[i].file = room;
            room = stpcpy(room, frame[i].file) + 1;
        }
    }
    return copy;
}

/* True if the supervisor did not examine the file, or not in time. Another machine may then be able to look up the
 * name. */
static bool is_worth_another_try(uint8_t state)
{
    return state == GW_SYMBOL_NOT_ASKED || state == GW_SYMBOL_UNSUPPORTED || state == GW_SYMBOL_LATE;
}

static bool symbol_item(gw_sites *sites, const gw_item *item)
{
    const char *path = gwi_intern(sites, item->symbol.path, strlen(item->symbol.path));
    gw_symbol *symbol = path == NULL ? NULL : symbol_of(sites, path, item->symbol.build_id, item->symbol.address);
    if (symbol == NULL)
        return sites->path_count >= PATHS_MAX;
    if (symbol->state != GW_SYMBOL_NOT_ASKED || symbol->frame != NULL ||
        (is_worth_another_try(item->symbol.state) && item->symbol.count == 0))
        return true;
    symbol->frame = copy_frames(item->symbol.frame, item->symbol.count);
    if (symbol->frame == NULL)
        return false;
    symbol->count = item->symbol.count;
    symbol->state = (uint8_t)GW_SYMBOL_NONE;
    if (item->symbol.state < GW_SYMBOL_STATE_COUNT)
        symbol->state = item->symbol.state;
    else if (symbol->count > 0)
        symbol->state = (uint8_t)GW_SYMBOL_FUNCTION;
    return true;
}

static bool collect(gw_sites *sites, const gwi_site *site)
{
    const gwi_program *program = sites->program[site->program];
    for (uint16_t i = 0; site->frame != NULL && i < site->frame_count; i++) {
        uint64_t address = site->frame[i];
        if (address == 0 || (address & GW_FRAME_PYTHON) != 0)
            continue;
        const gwi_mapping *mapping = gwi_mapping_at(sites, program, site->sequence, address - 1);
        if (mapping != NULL && symbol_of(sites, mapping->path, mapping->build_id, address - 1 - mapping->bias) == NULL)
            return false;
    }
    return true;
}

gw_status gw_sites_resolve(gw_sites *sites, uint32_t soft_ms, uint32_t hard_ms, gw_error *err)
{
    for (; sites->collected < sites->site_count; sites->collected++) {
        if (!collect(sites, &sites->site[sites->collected]))
            return gw_fail(err, GW_NOMEM, "the addresses of the call sites");
    }
    gw_symbols_options options = {sites->begun_realtime_ns, soft_ms, hard_ms};
    for (uint32_t i = 0; i < sites->site_count; i++) { /* free the stacks that were built without the new names */
        free(sites->site[i].stack);
        sites->site[i].stack = NULL;
    }
    sites->means_found = false;
    return gw_symbols_resolve(sites->symbol, sites->symbol_count, &options, err);
}

const gw_symbol *gw_sites_symbols(const gw_sites *sites, size_t *ret_count)
{
    *ret_count = sites->symbol_count;
    return sites->symbol;
}

/* ---- items ---- */

bool gw_sites_feed_event(gw_sites *sites, const gw_event *event)
{
    switch ((gw_event_kind)event->kind) {
    case GW_EV_SITE:
        return site_event(sites, event);
    case GW_EV_SITE_FRAMES:
        frames_event(sites, event);
        return true;
    case GW_EV_MAPPED:
        return mapped_event(sites, event);
    case GW_EV_PYTHON_CODE:
        return code_event(sites, event);
    case GW_EV_PYTHON_LINES:
        lines_event(sites, event);
        return true;
    case GW_EV_FORK:
        fork_event(sites, event);
        return true;
    default:
        return true;
    }
}

bool gw_sites_feed(gw_sites *sites, const gw_item *item)
{
    switch (item->kind) {
    case GW_ITEM_EVENT:
        return gw_sites_feed_event(sites, &item->event);
    case GW_ITEM_META:
        meta_item(sites, item);
        return true;
    case GW_ITEM_PROCESS:
        return process_item(sites, item);
    case GW_ITEM_SYMBOL:
        return symbol_item(sites, item);
    default:
        return true;
    }
}
