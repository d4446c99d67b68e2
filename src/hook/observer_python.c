/* How the observer gets in and what it reads.
 *
 *   notice (any thread)  ->  Py_AddPendingCall  ->  attach_pending (main thread, interpreter's lock held)
 *        torch imported?  CUDA initialised by it?  else: again at a later rare call, with growing pauses
 *        attach the out-of-memory observer, register the read-out at exit; history on if memory matters already
 *   taken (any thread): enough of the card taken  ->  notice  ->  Py_AddPendingCall  ->  history_pending: history on
 *   out of memory      ->  on_oom     (thread that failed; PyTorch takes the interpreter's lock and has given its own
 *                                      allocator lock back)
 *   interpreter's end  ->  on_exit    (atexit, before PyTorch's own handlers because it was registered after them)
 *
 * Everything of Python used here is in its stable ABI; what a version lacks is a refusal with a reason, never a crash.
 */
#include "gwi_observer.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* ---- Python, as far as we need it ---- */

typedef struct py_object py_object; /* opaque */
typedef py_object *(*py_function)(py_object *self, py_object *arguments);

/* Layout of PyMethodDef, fixed by the stable ABI. */
typedef struct py_method {
    const char *name;
    py_function function;
    int flags;
    const char *doc;
} py_method;

enum { PY_METHOD_VARARGS = 1, PY_METHOD_NOARGS = 4 };

/* X(name, result, parameters): the members of the stable ABI that we call. References: "new" must be given back,
 * "borrowed" must not. */
#define PY_FUNCTIONS(X)                                                                                                \
    X(Py_IsInitialized, int, (void))                                                                                   \
    X(Py_AddPendingCall, int, (int (*function)(void *), void *argument))                                               \
    X(Py_IncRef, void, (py_object * object))                                                                           \
    X(Py_DecRef, void, (py_object * object))                                                                           \
    X(PySys_GetObject, py_object *, (const char *name))                            /* borrowed */                      \
    X(PyModule_GetDict, py_object *, (py_object * module))                         /* borrowed */                      \
    X(PyDict_GetItemString, py_object *, (py_object * dict, const char *key))      /* borrowed, clears errors */       \
    X(PyDict_GetItem, py_object *, (py_object * dict, py_object * key))            /* borrowed, clears errors */       \
    X(PyObject_GetAttrString, py_object *, (py_object * object, const char *name)) /* new */                           \
    X(PyObject_IsTrue, int, (py_object * object))                                                                      \
    X(PyObject_CallObject, py_object *, (py_object * callable, py_object * arguments))            /* new */            \
    X(PyObject_Str, py_object *, (py_object * object))                                            /* new */            \
    X(PyCFunction_NewEx, py_object *, (py_method * method, py_object * self, py_object * module)) /* new */            \
    X(PyTuple_New, py_object *, (ptrdiff_t count))                                                /* new */            \
    X(PyTuple_SetItem, int, (py_object * tuple, ptrdiff_t index, py_object * item)) /* takes the reference */          \
    X(PyTuple_GetItem, py_object *, (py_object * tuple, ptrdiff_t index))           /* borrowed */                     \
    X(PyTuple_Size, ptrdiff_t, (py_object * tuple))                                                                    \
    X(PyList_New, py_object *, (ptrdiff_t count)) /* new */                                                            \
    X(PyList_Size, ptrdiff_t, (py_object * list))                                                                      \
    X(PyList_GetItem, py_object *, (py_object * list, ptrdiff_t index))           /* borrowed */                       \
    X(PyList_SetItem, int, (py_object * list, ptrdiff_t index, py_object * item)) /* takes the reference */            \
    X(PyBool_FromLong, py_object *, (long value))                                 /* new */                            \
    X(PyLong_FromLongLong, py_object *, (long long value))                        /* new */                            \
    X(PyLong_AsUnsignedLongLongMask, unsigned long long, (py_object * number))                                         \
    X(PyFloat_AsDouble, double, (py_object * number))                                                                  \
    X(PyUnicode_FromString, py_object *, (const char *text))                        /* new */                          \
    X(PyUnicode_AsUTF8AndSize, const char *, (py_object * text, ptrdiff_t * bytes)) /* lives as long as text */        \
    X(PyErr_Occurred, py_object *, (void))                                          /* borrowed */                     \
    X(PyErr_Clear, void, (void))                                                                                       \
    X(PyErr_Fetch, void, (py_object * *type, py_object * *value, py_object * *traceback))                              \
    X(PyErr_Restore, void, (py_object * type, py_object * value, py_object * traceback))

typedef struct python {
#define GW_X(name, result, parameters) result(*name) parameters;
    PY_FUNCTIONS(GW_X)
#undef GW_X
    py_object *none; /* borrowed: immortal */
} python;

/* X(member, text): keys of PyTorch's dictionaries, made into Python strings once. */
#define KEYS(X)                                                                                                        \
    X(segments, "segments")                                                                                            \
    X(device_traces, "device_traces")                                                                                  \
    X(device, "device")                                                                                                \
    X(address, "address")                                                                                              \
    X(blocks, "blocks")                                                                                                \
    X(size, "size")                                                                                                    \
    X(state, "state")                                                                                                  \
    X(is_expandable, "is_expandable")                                                                                  \
    X(action, "action")                                                                                                \
    X(addr, "addr")                                                                                                    \
    X(time_us, "time_us")                                                                                              \
    X(all, "all")                                                                                                      \
    X(current, "current")                                                                                              \
    X(peak, "peak")

typedef struct keys {
#define GW_X(member, text) py_object *member;
    KEYS(GW_X)
#undef GW_X
} keys;

/* ---- state ---- */

enum {
    PHASE_OFF = 0,            /* not started, switched off, or given up: a notice does nothing */
    PHASE_WAITING = 1,        /* a notice may queue an attempt */
    PHASE_QUEUED = 2,         /* an attempt waits in the interpreter's queue */
    PHASE_ATTACHED = 3,       /* attached, and history is off until memory matters: then a notice may queue it */
    PHASE_HISTORY_QUEUED = 4, /* the switch waits in the interpreter's queue */
    PHASE_DONE = 5            /* attached, and nothing is left to queue */
};

enum {
    ATTEMPTS_AT_ONCE = 16,     /* the first attempts follow each other without a pause */
    REFUSALS_MAX = 3,          /* PyTorch said no so many times: given up */
    FULL_READS_AT_ONCE = 8,    /* so many out-of-memories read the whole history ... */
    READ_REST_FACTOR = 20,     /* ... later ones after so many times what the last read-out took */
    READ_BUDGET_MS = 500,      /* a walk over history stops after this long */
    HISTORY_SPANS = 512,       /* spans of time in the condensed history */
    HISTORY_SINGLES_MAX = 512, /* youngest single entries */
    DEVICES_MAX = 64,
    REASON_BYTES = 200
};

static struct observer {
    _Atomic int phase;
    _Atomic uint64_t next_attempt_ticks;
    _Atomic uint64_t taken_bytes; /* device memory since the start, frees not subtracted */
    _Atomic bool memory_matters;
    const gwi_observer_port *port;
    /* From here on: touched with the interpreter's lock held, or by the one thread that owns the attempt. */
    uint32_t attempts;
    uint32_t refusals;
    uint32_t history_entries;          /* wanted; 0: none */
    bool history_forced;               /* asked for by the environment: on from the attach */
    _Atomic uint64_t history_since_ns; /* CLOCK_MONOTONIC; 0: no history of ours */
    _Atomic bool reading;              /* guards the walk's working space where the interpreter has no lock */
    bool have_python;
    uint32_t full_reads;
    uint64_t last_read_ns, last_took_ns; /* end and duration of the last read-out of the history */
    python py;
    keys key;
    py_object *torch_c; /* dict of torch._C; owned once attached: the interpreter's end clears modules before us */
    pid_t attached_by;  /* 0: nobody yet. In its forked children PyTorch's locks may be held for ever */
} obs;

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void note(gw_note reason, const char *text)
{
    obs.port->fact(GW_EV_NOTE, reason, 0, 0, 0, text);
}

/* ---- small helpers over Python ---- */

static bool find_python(python *py)
{
#define GW_X(name, result, parameters)                                                                                 \
    {                                                                                                                  \
        void *found = dlsym(RTLD_DEFAULT, #name);                                                                      \
        if (found == NULL)                                                                                             \
            return false;                                                                                              \
        memcpy(&py->name, &found, sizeof found);                                                                       \
    }
    PY_FUNCTIONS(GW_X)
#undef GW_X
    py->none = dlsym(RTLD_DEFAULT, "_Py_NoneStruct");
    return py->none != NULL;
}

static void give_back(py_object *object)
{
    if (object != NULL)
        obs.py.Py_DecRef(object);
}

/* `ret_known` false: no number. */
static uint64_t number_of(py_object *object, bool *ret_known)
{
    *ret_known = false;
    if (object == NULL)
        return 0;
    uint64_t value = obs.py.PyLong_AsUnsignedLongLongMask(object);
    if (obs.py.PyErr_Occurred() != NULL) {
        obs.py.PyErr_Clear();
        return 0;
    }
    *ret_known = true;
    return value;
}

static uint64_t number_in(py_object *dict, py_object *key)
{
    bool known;
    return number_of(dict == NULL ? NULL : obs.py.PyDict_GetItem(dict, key), &known);
}

/* Copies a text, cut to the buffer. False: not a text. */
static bool copy_text(py_object *object, char *buffer, size_t buffer_bytes)
{
    ptrdiff_t bytes = 0;
    const char *text = object == NULL ? NULL : obs.py.PyUnicode_AsUTF8AndSize(object, &bytes);
    if (text == NULL) {
        obs.py.PyErr_Clear();
        buffer[0] = '\0';
        return false;
    }
    size_t length = (size_t)bytes < buffer_bytes - 1 ? (size_t)bytes : buffer_bytes - 1;
    memcpy(buffer, text, length);
    buffer[length] = '\0';
    return true;
}

/* Take the interpreter's error as one line of text, and clear it. */
static void take_error(char *reason, size_t reason_bytes)
{
    py_object *type = NULL, *value = NULL, *traceback = NULL;
    obs.py.PyErr_Fetch(&type, &value, &traceback);
    py_object *text = value == NULL ? NULL : obs.py.PyObject_Str(value);
    if (text == NULL || !copy_text(text, reason, reason_bytes))
        snprintf(reason, reason_bytes, "it failed without saying why");
    obs.py.PyErr_Clear();
    reason[strcspn(reason, "\n")] = '\0';
    give_back(text);
    give_back(type);
    give_back(value);
    give_back(traceback);
}

/* Call `name` of torch._C. Takes the reference to `arguments`. New reference; NULL: `reason` says why. */
static py_object *call_torch(const char *name, py_object *arguments, char *reason)
{
    py_object *function = obs.py.PyDict_GetItemString(obs.torch_c, name);
    py_object *result = NULL;
    if (function == NULL) {
        snprintf(reason, REASON_BYTES, "this PyTorch has no torch._C.%s", name);
    } else if (arguments == NULL) {
        take_error(reason, REASON_BYTES);
    } else {
        result = obs.py.PyObject_CallObject(function, arguments);
        if (result == NULL)
            take_error(reason, REASON_BYTES);
    }
    give_back(arguments);
    return result;
}

/* A tuple of the given objects, whose references it takes; NULL when one of them is NULL. */
static py_object *tuple_of(py_object *const *item, ptrdiff_t count)
{
    py_object *tuple = obs.py.PyTuple_New(count);
    bool good = tuple != NULL;
    for (ptrdiff_t i = 0; i < count; i++) {
        if (item[i] == NULL)
            good = false;
        else if (tuple == NULL)
            give_back(item[i]);
        else
            obs.py.PyTuple_SetItem(tuple, i, item[i]);
    }
    if (good)
        return tuple;
    give_back(tuple);
    return NULL;
}

static py_object *none_new(void)
{
    obs.py.Py_IncRef(obs.py.none);
    return obs.py.none;
}

/* ---- reading PyTorch's allocator ---- */

typedef struct block {
    uint64_t address;
    uint64_t bytes;
    uint64_t age_ns;
    uint64_t state;
} block;

typedef struct block_list {
    block *block; /* owned: its own mapping, so that a full heap does not matter */
    size_t count;
    size_t room;
} block_list;

typedef struct block_map {
    block_list live;
    uint64_t largest_inactive_bytes;
    uint64_t segment_count;
    bool expandable;
} block_map;

static int by_address(const void *left, const void *right)
{
    const block *a = left, *b = right;
    return (a->address > b->address) - (a->address < b->address);
}

static int by_bytes_falling(const void *left, const void *right)
{
    const block *a = left, *b = right;
    return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

static bool block_list_make(block_list *list, size_t room)
{
    memset(list, 0, sizeof *list);
    if (room == 0)
        return true;
    void *mapping = mmap(NULL, room * sizeof(block), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED)
        return false;
    list->block = mapping;
    list->room = room;
    return true;
}

static void block_list_free(block_list *list)
{
    if (list->block != NULL)
        munmap(list->block, list->room * sizeof(block));
    memset(list, 0, sizeof *list);
}

/* The segments of one device of a snapshot; NULL where there are none. */
static py_object *segment_at(py_object *segments, ptrdiff_t index, uint64_t device)
{
    py_object *segment = obs.py.PyList_GetItem(segments, index);
    return segment != NULL && number_in(segment, obs.key.device) == device ? segment : NULL;
}

static ptrdiff_t list_size(py_object *list)
{
    ptrdiff_t count = list == NULL ? 0 : obs.py.PyList_Size(list);
    if (count < 0) {
        obs.py.PyErr_Clear();
        count = 0;
    }
    return count;
}

static void add_segment(block_map *map, py_object *segment)
{
    py_object *blocks = obs.py.PyDict_GetItem(segment, obs.key.blocks);
    uint64_t address = number_in(segment, obs.key.address);
    py_object *expandable = obs.py.PyDict_GetItem(segment, obs.key.is_expandable);
    map->segment_count++;
    if (expandable != NULL && obs.py.PyObject_IsTrue(expandable) == 1)
        map->expandable = true;
    for (ptrdiff_t i = 0, n = list_size(blocks); i < n; i++) {
        py_object *entry = obs.py.PyList_GetItem(blocks, i);
        uint64_t bytes = number_in(entry, obs.key.size);
        char state[24];
        copy_text(entry == NULL ? NULL : obs.py.PyDict_GetItem(entry, obs.key.state), state, sizeof state);
        if (strcmp(state, "inactive") == 0) {
            if (bytes > map->largest_inactive_bytes)
                map->largest_inactive_bytes = bytes;
        } else if (map->live.count < map->live.room) {
            map->live.block[map->live.count++] =
                (block){.address = address,
                        .bytes = bytes,
                        .age_ns = GW_AGE_UNKNOWN,
                        .state = strcmp(state, "active_allocated") == 0 ? GW_BLOCK_LIVE : GW_BLOCK_PENDING};
        }
        address += bytes; /* older versions do not give each block's address; blocks follow each other */
    }
}

/* False: no memory for the list. */
static bool read_blocks(py_object *snapshot, uint64_t device, block_map *map)
{
    memset(map, 0, sizeof *map);
    py_object *segments = obs.py.PyDict_GetItem(snapshot, obs.key.segments);
    ptrdiff_t segment_count = list_size(segments);
    size_t room = 0;
    for (ptrdiff_t i = 0; i < segment_count; i++) {
        py_object *segment = segment_at(segments, i, device);
        if (segment != NULL)
            room += (size_t)list_size(obs.py.PyDict_GetItem(segment, obs.key.blocks));
    }
    if (!block_list_make(&map->live, room))
        return false;
    for (ptrdiff_t i = 0; i < segment_count; i++) {
        py_object *segment = segment_at(segments, i, device);
        if (segment != NULL)
            add_segment(map, segment);
    }
    return true;
}

static void write_blocks(block_list *live)
{
    size_t listed = live->count < GWI_OBSERVER_BLOCKS_MAX ? live->count : GWI_OBSERVER_BLOCKS_MAX;
    uint64_t rest_bytes = 0;
    if (live->count > 1)
        qsort(live->block, live->count, sizeof(block), by_bytes_falling);
    for (size_t i = 0; i < listed; i++) {
        const block *b = &live->block[i];
        obs.port->fact(GW_EV_ALLOCATOR_BLOCK, b->address, b->bytes, b->age_ns, b->state, NULL);
    }
    for (size_t i = listed; i < live->count; i++)
        rest_bytes += live->block[i].bytes;
    if (live->count > listed)
        obs.port->fact(GW_EV_ALLOCATOR_BLOCK, live->count - listed, rest_bytes, GW_AGE_UNKNOWN, GW_BLOCK_REST, NULL);
}

/* ---- history ---- */

typedef struct history_entry {
    gw_allocator_action action;
    uint64_t address;
    uint64_t bytes;
    uint64_t age_ns;
} history_entry;

typedef struct history_walk {
    py_object *trace;
    ptrdiff_t count;
    uint64_t now_realtime_ns;
    uint64_t deadline_ns;
    uint64_t oldest_age_ns;
    uint64_t live_bytes; /* just after the entry last looked at, going back in time */
    uint64_t highest[HISTORY_SPANS], lowest[HISTORY_SPANS];
    bool seen[HISTORY_SPANS];
} history_walk;

static gw_allocator_action action_of(py_object *text)
{
    static const char *const names[GW_ACTION_COUNT] = {
#define GW_X(name, text) text,
        GW_ALLOCATOR_ACTIONS(GW_X)
#undef GW_X
    };
    char name[24];
    if (!copy_text(text, name, sizeof name))
        return GW_ACTION_OTHER;
    for (int i = 0; i < GW_ACTION_LIVE_PEAK; i++) /* the condensed kinds are ours, not PyTorch's */
        if (strcmp(name, names[i]) == 0)
            return (gw_allocator_action)i;
    return GW_ACTION_OTHER;
}

static bool history_at(const history_walk *walk, ptrdiff_t index, history_entry *ret_entry)
{
    py_object *entry = obs.py.PyList_GetItem(walk->trace, index);
    if (entry == NULL) {
        obs.py.PyErr_Clear();
        return false;
    }
    uint64_t t_ns = number_in(entry, obs.key.time_us) * 1000;
    ret_entry->action = action_of(obs.py.PyDict_GetItem(entry, obs.key.action));
    ret_entry->address = number_in(entry, obs.key.addr);
    ret_entry->bytes = number_in(entry, obs.key.size);
    ret_entry->age_ns = t_ns < walk->now_realtime_ns ? walk->now_realtime_ns - t_ns : 0;
    return true;
}

static void see_live(history_walk *walk, uint64_t age_ns)
{
    uint64_t span = walk->oldest_age_ns == 0 ? 0 : age_ns * (HISTORY_SPANS - 1) / walk->oldest_age_ns;
    if (span >= HISTORY_SPANS)
        span = HISTORY_SPANS - 1;
    if (!walk->seen[span] || walk->live_bytes > walk->highest[span])
        walk->highest[span] = walk->live_bytes;
    if (!walk->seen[span] || walk->live_bytes < walk->lowest[span])
        walk->lowest[span] = walk->live_bytes;
    walk->seen[span] = true;
}

/* `live` is sorted by address. The youngest allocation of an address is the block's own: entries come youngest first.
 */
static void give_age(block_list *live, const history_entry *entry)
{
    block wanted = {.address = entry->address};
    block *found = live->count == 0 ? NULL : bsearch(&wanted, live->block, live->count, sizeof(block), by_address);
    if (found != NULL && found->age_ns == GW_AGE_UNKNOWN)
        found->age_ns = entry->age_ns;
}

static void step_back(history_walk *walk, block_list *live, const history_entry *entry)
{
    if (entry->action == GW_ACTION_ALLOC) {
        see_live(walk, entry->age_ns);
        give_age(live, entry);
        walk->live_bytes -= entry->bytes < walk->live_bytes ? entry->bytes : walk->live_bytes;
        see_live(walk, entry->age_ns); /* the low just before it */
    } else if (entry->action == GW_ACTION_FREE) {
        see_live(walk, entry->age_ns);
        walk->live_bytes += entry->bytes;
    }
}

static void write_condensed(const history_walk *walk)
{
    for (int span = HISTORY_SPANS - 1; span >= 0; span--) {
        uint64_t age_ns = (uint64_t)span * walk->oldest_age_ns / (HISTORY_SPANS - 1);
        if (!walk->seen[span])
            continue;
        obs.port->fact(GW_EV_ALLOCATOR_HISTORY, GW_ACTION_LIVE_PEAK, 0, walk->highest[span], age_ns, NULL);
        obs.port->fact(GW_EV_ALLOCATOR_HISTORY, GW_ACTION_LIVE_LOW, 0, walk->lowest[span], age_ns, NULL);
    }
}

static void write_singles(const history_walk *walk)
{
    ptrdiff_t first = walk->count > HISTORY_SINGLES_MAX ? walk->count - HISTORY_SINGLES_MAX : 0;
    history_entry entry;
    for (ptrdiff_t i = first; i < walk->count; i++)
        if (history_at(walk, i, &entry))
            obs.port->fact(GW_EV_ALLOCATOR_HISTORY, entry.action, entry.address, entry.bytes, entry.age_ns, NULL);
}

/* Walk the device's history from its end back, give live blocks their ages, write the condensed history. */
static void read_history(py_object *snapshot, uint64_t device, uint64_t live_bytes, block_list *live)
{
    static history_walk walk; /* 9 KiB: not on a foreign thread's stack; the interpreter's lock guards it */
    py_object *traces = obs.py.PyDict_GetItem(snapshot, obs.key.device_traces);
    history_entry entry;
    memset(&walk, 0, sizeof walk);
    if ((ptrdiff_t)device >= list_size(traces))
        return;
    walk.trace = obs.py.PyList_GetItem(traces, (ptrdiff_t)device);
    walk.count = list_size(walk.trace);
    walk.live_bytes = live_bytes;
    walk.now_realtime_ns = clock_ns(CLOCK_REALTIME);
    walk.deadline_ns = clock_ns(CLOCK_MONOTONIC) + READ_BUDGET_MS * UINT64_C(1000000);
    obs.port->fact(GW_EV_ALLOCATOR_STATE, GW_ALLOCATOR_HISTORY_TOTAL, (uint64_t)walk.count, device, 0, NULL);
    if (obs.history_since_ns != 0)
        obs.port->fact(GW_EV_ALLOCATOR_STATE, GW_ALLOCATOR_HISTORY_AGE,
                       clock_ns(CLOCK_MONOTONIC) - obs.history_since_ns, device, 0, NULL);
    if (walk.count == 0 || !history_at(&walk, 0, &entry))
        return;
    walk.oldest_age_ns = entry.age_ns;
    if (live->count > 1)
        qsort(live->block, live->count, sizeof(block), by_address);
    for (ptrdiff_t i = walk.count - 1; i >= 0; i--) {
        if ((i & 4095) == 0 && clock_ns(CLOCK_MONOTONIC) > walk.deadline_ns) {
            note(GW_NOTE_TEXT_ONLY, "reading PyTorch's memory history took too long: its older part was left out");
            break;
        }
        if (history_at(&walk, i, &entry))
            step_back(&walk, live, &entry);
    }
    write_condensed(&walk);
    write_singles(&walk);
}

/* ---- statistics ---- */

/* stats[name]["all"][field] of the nested dictionary. */
static bool stat_of(py_object *stats, const char *name, py_object *field, uint64_t *ret_value)
{
    bool known = false;
    py_object *family = obs.py.PyDict_GetItemString(stats, name);
    py_object *all = family == NULL ? NULL : obs.py.PyDict_GetItem(family, obs.key.all);
    uint64_t value = number_of(all == NULL ? NULL : obs.py.PyDict_GetItem(all, field), &known);
    if (known)
        *ret_value = value;
    return known;
}

static void write_stat(py_object *stats, const char *name, py_object *field, gw_allocator_field as, uint64_t device)
{
    uint64_t value;
    if (stat_of(stats, name, field, &value))
        obs.port->fact(GW_EV_ALLOCATOR_STATE, as, value, device, 0, NULL);
}

static void write_count(py_object *stats, const char *name, gw_allocator_field as, uint64_t device)
{
    bool known;
    uint64_t value = number_of(obs.py.PyDict_GetItemString(stats, name), &known);
    if (known)
        obs.port->fact(GW_EV_ALLOCATOR_STATE, as, value, device, 0, NULL);
}

/* New reference; NULL: `reason` says why, e.g. that there is no such device. Asks the driver nothing. */
static py_object *take_stats(uint64_t device, char *reason)
{
    py_object *argument = obs.py.PyLong_FromLongLong((long long)device);
    return call_torch("_cuda_memoryStats", tuple_of(&argument, 1), reason);
}

static void write_stats(py_object *stats, uint64_t device)
{
    write_stat(stats, "allocated_bytes", obs.key.current, GW_ALLOCATOR_ALLOCATED, device);
    write_stat(stats, "allocated_bytes", obs.key.peak, GW_ALLOCATOR_ALLOCATED_PEAK, device);
    write_stat(stats, "reserved_bytes", obs.key.current, GW_ALLOCATOR_RESERVED, device);
    write_stat(stats, "reserved_bytes", obs.key.peak, GW_ALLOCATOR_RESERVED_PEAK, device);
    write_stat(stats, "active_bytes", obs.key.current, GW_ALLOCATOR_ACTIVE, device);
    write_stat(stats, "inactive_split_bytes", obs.key.current, GW_ALLOCATOR_INACTIVE_SPLIT, device);
    write_count(stats, "num_alloc_retries", GW_ALLOCATOR_RETRIES, device);
    write_count(stats, "num_ooms", GW_ALLOCATOR_OOMS, device);
}

/* The bytes that the program asked for and holds, in the unit of the history's sizes; 0 when not known. */
static uint64_t live_bytes_of(py_object *stats)
{
    uint64_t bytes = 0;
    if (!stat_of(stats, "requested_bytes", obs.key.current, &bytes))
        (void)stat_of(stats, "allocated_bytes", obs.key.current, &bytes);
    return bytes;
}

/* With `history` false the traces are left out where this PyTorch can do that: they are what takes time. */
static py_object *take_snapshot(bool history, char *reason)
{
    py_object *snapshot = NULL;
    if (!history) {
        py_object *part[3] = {obs.py.PyLong_FromLongLong(0), obs.py.PyLong_FromLongLong(0), obs.py.PyBool_FromLong(0)};
        py_object *filter = tuple_of(part, 3);
        snapshot = call_torch("_cuda_memorySnapshot", filter == NULL ? NULL : tuple_of(&filter, 1), reason);
        if (snapshot != NULL || obs.history_since_ns != 0)
            return snapshot;
    }
    /* Since 2.5 it takes one argument, before that none. */
    py_object *none = none_new();
    snapshot = call_torch("_cuda_memorySnapshot", tuple_of(&none, 1), reason);
    if (snapshot == NULL)
        snapshot = call_torch("_cuda_memorySnapshot", obs.py.PyTuple_New(0), reason);
    return snapshot;
}

enum { WHEN_OOM = 0, WHEN_END = 1 };

/* `stats` NULL: what the block map says must do. */
static void write_allocator(py_object *stats, uint64_t device, uint64_t when, bool with_history)
{
    char reason[REASON_BYTES];
    block_map map;
    obs.port->fact(GW_EV_ALLOCATOR_STATE, GW_ALLOCATOR_WHEN, when, device, 0, NULL);
    if (stats != NULL)
        write_stats(stats, device);
    py_object *snapshot = take_snapshot(with_history, reason);
    if (snapshot == NULL) {
        note(GW_NOTE_TEXT_ONLY, reason);
        return;
    }
    if (read_blocks(snapshot, device, &map)) {
        obs.port->fact(GW_EV_ALLOCATOR_STATE, GW_ALLOCATOR_LARGEST_INACTIVE, map.largest_inactive_bytes, device, 0,
                       NULL);
        obs.port->fact(GW_EV_ALLOCATOR_STATE, GW_ALLOCATOR_SEGMENTS, map.segment_count, device, 0, NULL);
        obs.port->fact(GW_EV_ALLOCATOR_STATE, GW_ALLOCATOR_EXPANDABLE, map.expandable, device, 0, NULL);
        if (with_history)
            read_history(snapshot, device, stats == NULL ? 0 : live_bytes_of(stats), &map.live);
        write_blocks(&map.live);
        block_list_free(&map.live);
    }
    give_back(snapshot);
    obs.py.PyErr_Clear();
}

static void read_at_oom(uint64_t device, bool with_history)
{
    char reason[REASON_BYTES];
    py_object *stats = take_stats(device, reason);
    if (stats == NULL)
        note(GW_NOTE_TEXT_ONLY, reason);
    write_allocator(stats, device, WHEN_OOM, with_history);
    give_back(stats);
}

/* Devices are counted by asking for their statistics: a question to the driver could fail after a sticky error, and
 * PyTorch would warn about that on stderr. */
static void read_at_end(void)
{
    char reason[REASON_BYTES];
    for (uint64_t device = 0; device < DEVICES_MAX; device++) {
        uint64_t reserved_bytes = 0;
        py_object *stats = take_stats(device, reason);
        if (stats == NULL)
            break;
        if (stat_of(stats, "reserved_bytes", obs.key.current, &reserved_bytes) && reserved_bytes > 0)
            write_allocator(stats, device, WHEN_END, false);
        give_back(stats);
    }
}

/* PyTorch's own limit (set_per_process_memory_fraction): where it is set, `total` at an out-of-memory is the limit. */
static void write_limit(uint64_t device, uint64_t total_bytes)
{
    char reason[REASON_BYTES];
    py_object *argument = obs.py.PyLong_FromLongLong((long long)device);
    py_object *fraction = call_torch("_cuda_getMemoryFraction", tuple_of(&argument, 1), reason);
    double value = fraction == NULL ? 1.0 : obs.py.PyFloat_AsDouble(fraction);
    if (obs.py.PyErr_Occurred() != NULL)
        obs.py.PyErr_Clear();
    else if (value > 0.0 && value < 1.0)
        obs.port->fact(GW_EV_ALLOCATOR_STATE, GW_ALLOCATOR_LIMIT, total_bytes, device, 0, NULL);
    give_back(fraction);
}

/* ---- what PyTorch and the interpreter call ---- */

typedef struct saved {
    py_object *type, *value, *traceback;
    uint32_t guard;
    int error;
} saved;

static saved enter(void)
{
    saved before = {.error = errno, .guard = obs.port->guard_enter()};
    obs.py.PyErr_Fetch(&before.type, &before.value, &before.traceback);
    return before;
}

static void leave(const saved *before)
{
    obs.py.PyErr_Restore(before->type, before->value, before->traceback);
    obs.port->guard_leave(before->guard);
    errno = before->error;
}

/* The last out-of-memory of a run is the one that matters, and nobody knows which it is. So the first few read
 * everything; after these a program that probes for memory spends at most a small share of its time here. True: the
 * caller gives `reading` back. */
static bool may_read_history(void)
{
    uint64_t rested_ns = clock_ns(CLOCK_MONOTONIC) - obs.last_read_ns;
    if (obs.full_reads >= FULL_READS_AT_ONCE && rested_ns < READ_REST_FACTOR * obs.last_took_ns)
        return false;
    return !atomic_exchange_explicit(&obs.reading, true, memory_order_acquire);
}

/* (device, bytes wanted, bytes total or limit, bytes free) -> None. PyTorch turns a raised exception into its own
 * failure, so nothing is ever raised here. */
static py_object *on_oom(py_object *self, py_object *arguments)
{
    uint64_t value[4] = {0};
    bool known = true;
    (void)self;
    if (getpid() != obs.attached_by)
        return none_new();
    saved before = enter();
    for (ptrdiff_t i = 0; i < 4 && i < obs.py.PyTuple_Size(arguments); i++)
        value[i] = number_of(obs.py.PyTuple_GetItem(arguments, i), &known);
    obs.port->fact(GW_EV_ALLOCATOR_OOM, value[1], value[2], value[3], value[0], NULL);
    bool with_history = may_read_history();
    uint64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
    write_limit(value[0], value[2]);
    read_at_oom(value[0], with_history);
    if (with_history) {
        obs.full_reads++;
        obs.last_read_ns = clock_ns(CLOCK_MONOTONIC);
        obs.last_took_ns = obs.last_read_ns - begin_ns;
        atomic_store_explicit(&obs.reading, false, memory_order_release);
    }
    /* The program may catch it and go on: the next one shall have ages. */
    atomic_store_explicit(&obs.memory_matters, true, memory_order_relaxed);
    leave(&before);
    return none_new();
}

static py_object *on_exit_of_interpreter(py_object *self, py_object *arguments)
{
    (void)self;
    (void)arguments;
    if (getpid() != obs.attached_by)
        return none_new();
    saved before = enter();
    read_at_end();
    leave(&before);
    return none_new();
}

static py_method oom_method = {"gpuwhy_out_of_memory", on_oom, PY_METHOD_VARARGS, NULL};
static py_method exit_method = {"gpuwhy_exit", on_exit_of_interpreter, PY_METHOD_NOARGS, NULL};

/* ---- attaching ---- */

typedef enum outcome { OUTCOME_ATTACHED, OUTCOME_LATER, OUTCOME_REFUSED } outcome;

/* The dict of a module that is imported to its end; NULL else. Runs no code of the module. */
static py_object *imported_dict(const char *name)
{
    py_object *modules = obs.py.PySys_GetObject("modules");
    py_object *module = modules == NULL ? NULL : obs.py.PyDict_GetItemString(modules, name);
    py_object *dict = module == NULL || module == obs.py.none ? NULL : obs.py.PyModule_GetDict(module);
    if (dict == NULL) {
        obs.py.PyErr_Clear();
        return NULL;
    }
    py_object *spec = obs.py.PyDict_GetItemString(dict, "__spec__");
    py_object *initializing =
        spec == NULL || spec == obs.py.none ? NULL : obs.py.PyObject_GetAttrString(spec, "_initializing");
    bool finished = initializing == NULL || obs.py.PyObject_IsTrue(initializing) == 0;
    give_back(initializing);
    obs.py.PyErr_Clear();
    return finished ? dict : NULL;
}

static bool flag_in(py_object *dict, const char *name)
{
    py_object *flag = dict == NULL ? NULL : obs.py.PyDict_GetItemString(dict, name);
    bool set = flag != NULL && obs.py.PyObject_IsTrue(flag) == 1;
    obs.py.PyErr_Clear();
    return set;
}

static bool make_keys(void)
{
    bool good = true;
#define GW_X(member, text)                                                                                             \
    if (obs.key.member == NULL)                                                                                        \
        obs.key.member = obs.py.PyUnicode_FromString(text);                                                            \
    good = good && obs.key.member != NULL;
    KEYS(GW_X)
#undef GW_X
    obs.py.PyErr_Clear();
    return good;
}

/* A free is requested and completed: one of the two entries is enough, and the ring lasts half as long again. */
static py_object *actions_skipped(void)
{
    py_object *list = obs.py.PyList_New(1);
    py_object *action = obs.py.PyUnicode_FromString("free_requested");
    if (list != NULL && action != NULL) {
        obs.py.PyList_SetItem(list, 0, action);
        return list;
    }
    give_back(list);
    give_back(action);
    return NULL;
}

/* PyTorch's function has gained arguments over the years; the first four mean the same in all. */
static bool switch_history_on(char *reason)
{
    for (int count = 8; count >= 4; count--) {
        py_object *argument[8] = {obs.py.PyUnicode_FromString("all"),
                                  none_new(),
                                  obs.py.PyUnicode_FromString("python"),
                                  obs.py.PyLong_FromLongLong(obs.history_entries),
                                  obs.py.PyBool_FromLong(0),
                                  obs.py.PyBool_FromLong(0),
                                  obs.py.PyBool_FromLong(0),
                                  actions_skipped()};
        for (int i = count; i < 8; i++)
            give_back(argument[i]);
        py_object *done = call_torch("_cuda_record_memory_history", tuple_of(argument, count), reason);
        if (done != NULL) {
            give_back(done);
            return true;
        }
        if (strstr(reason, "argument") == NULL)
            break; /* not a matter of its signature */
    }
    return false;
}

/* False: the program switched it on itself, or this PyTorch cannot tell (the asynchronous allocator, old versions). */
static bool history_is_off(char *reason)
{
    py_object *answer = call_torch("_cuda_isHistoryEnabled", obs.py.PyTuple_New(0), reason);
    bool off = answer != NULL && obs.py.PyObject_IsTrue(answer) == 0;
    if (answer != NULL && !off)
        snprintf(reason, REASON_BYTES, "the program has switched it on itself");
    give_back(answer);
    obs.py.PyErr_Clear();
    return off;
}

/* atexit is imported by what torch imports; were it not, there is no read-out at the end. */
static bool register_exit(void)
{
    py_object *atexit_dict = imported_dict("atexit");
    py_object *function = atexit_dict == NULL ? NULL : obs.py.PyDict_GetItemString(atexit_dict, "register");
    py_object *method = obs.py.PyCFunction_NewEx(&exit_method, NULL, NULL);
    py_object *arguments = tuple_of(&method, 1);
    py_object *done = function == NULL || arguments == NULL ? NULL : obs.py.PyObject_CallObject(function, arguments);
    give_back(arguments);
    give_back(done);
    obs.py.PyErr_Clear();
    return done != NULL;
}

typedef enum switched { SWITCHED_ON, SWITCHED_NEVER, SWITCHED_FAILED } switched;

/* Never: it is not ours to switch, and no later attempt is worth it. Unless ON, `reason` says why. */
static switched switch_history(char *reason)
{
    if (!history_is_off(reason))
        return SWITCHED_NEVER;
    if (!switch_history_on(reason))
        return SWITCHED_FAILED;
    obs.history_since_ns = clock_ns(CLOCK_MONOTONIC);
    return SWITCHED_ON;
}

static void history_words(char *buffer, size_t buffer_bytes)
{
    uint64_t taken_mib = atomic_load_explicit(&obs.taken_bytes, memory_order_relaxed) >> 20;
    if (obs.history_forced)
        snprintf(buffer, buffer_bytes, "history of %u entries without stacks, from the start", obs.history_entries);
    else
        snprintf(buffer, buffer_bytes,
                 "history of %u entries without stacks, on since %" PRIu64 " MiB of device memory were taken",
                 obs.history_entries, taken_mib);
}

/* What of the history happens at the attach. True: nothing is left to do about it. */
static bool history_at_attach(char *words, size_t words_bytes)
{
    char reason[REASON_BYTES] = "";
    if (obs.history_entries == 0) {
        snprintf(words, words_bytes, "no history");
        return true;
    }
    bool now = obs.history_forced || atomic_load_explicit(&obs.memory_matters, memory_order_relaxed);
    if (!now && history_is_off(reason)) {
        snprintf(words, words_bytes, "no history until a sixteenth of the card's memory was taken");
        return false;
    }
    switched result = now ? switch_history(reason) : SWITCHED_NEVER;
    if (result == SWITCHED_ON)
        history_words(words, words_bytes);
    else
        snprintf(words, words_bytes, "no history%s: %s", result == SWITCHED_NEVER ? " of ours" : "", reason);
    return true;
}

/* `ret_done`: there is no history left to begin. */
static outcome attach(char *reason, bool *ret_done)
{
    py_object *torch = imported_dict("torch");
    py_object *torch_cuda = torch == NULL ? NULL : imported_dict("torch.cuda");
    /* Asking PyTorch anything before it has initialised CUDA would make it do so: the program may have meant not to.
     * Its C++ part makes the default generators last; the flag follows a little later, and between the two the first
     * allocation of a program may already be lost. */
    if (torch_cuda == NULL || !(flag_in(torch_cuda, "_initialized") || flag_in(torch_cuda, "default_generators")))
        return OUTCOME_LATER;
    obs.torch_c = imported_dict("torch._C");
    if (obs.torch_c == NULL)
        return OUTCOME_LATER;
    if (!make_keys()) {
        snprintf(reason, REASON_BYTES, "Python has no memory left");
        return OUTCOME_REFUSED;
    }
    py_object *method = obs.py.PyCFunction_NewEx(&oom_method, NULL, NULL);
    py_object *done = call_torch("_cuda_attach_out_of_memory_observer", tuple_of(&method, 1), reason);
    if (done == NULL)
        return OUTCOME_REFUSED;
    give_back(done);
    obs.py.Py_IncRef(obs.torch_c);
    obs.attached_by = getpid();
    char words[REASON_BYTES + 40], version[40], text[REASON_BYTES + 160];
    *ret_done = history_at_attach(words, sizeof words);
    bool at_exit = register_exit();
    if (!copy_text(obs.py.PyDict_GetItemString(torch, "__version__"), version, sizeof version))
        snprintf(version, sizeof version, "of unknown version");
    snprintf(text, sizeof text, "PyTorch %s; %s%s", version, words, at_exit ? "" : "; no read-out at the end");
    note(GW_NOTE_OBSERVER_ATTACHED, text);
    return OUTCOME_ATTACHED;
}

/* Runs in the interpreter's main thread with its lock held. Must return 0: anything else raises in the program. */
static int attach_pending(void *unused)
{
    char reason[REASON_BYTES] = "";
    (void)unused;
    bool done = false;
    saved before = enter();
    outcome result = attach(reason, &done);
    if (result == OUTCOME_REFUSED && ++obs.refusals == 1)
        note(GW_NOTE_OBSERVER_REFUSED, reason);
    leave(&before);
    int next = PHASE_WAITING;
    if (result == OUTCOME_ATTACHED) {
        next = done ? PHASE_DONE : PHASE_ATTACHED;
        obs.attempts = obs.refusals = 0; /* of the history, from here on */
        atomic_store_explicit(&obs.next_attempt_ticks, 0, memory_order_relaxed);
    } else if (obs.refusals >= (uint32_t)REFUSALS_MAX) {
        next = PHASE_OFF;
    }
    atomic_store_explicit(&obs.phase, next, memory_order_release);
    return 0;
}

/* The same promises as attach_pending's: main thread, lock held, always 0. */
static int history_pending(void *unused)
{
    char reason[REASON_BYTES] = "", words[REASON_BYTES + 40];
    (void)unused;
    if (getpid() != obs.attached_by)
        return 0;
    saved before = enter();
    switched result = switch_history(reason);
    if (result == SWITCHED_ON)
        history_words(words, sizeof words);
    else
        snprintf(words, sizeof words, "no history%s: %s", result == SWITCHED_NEVER ? " of ours" : "", reason);
    if (result != SWITCHED_FAILED || ++obs.refusals == 1)
        note(GW_NOTE_TEXT_ONLY, words);
    leave(&before);
    bool again = result == SWITCHED_FAILED && obs.refusals < (uint32_t)REFUSALS_MAX;
    atomic_store_explicit(&obs.phase, again ? PHASE_ATTACHED : PHASE_DONE, memory_order_release);
    return 0;
}

/* ---- entry points ---- */

void gwi_observer_start(const gwi_observer_port *port)
{
    const char *attach_wanted = getenv("GPUWHY_ATTACH");
    const char *history = getenv("GPUWHY_HISTORY");
    obs.port = port;
    obs.history_entries = GWI_OBSERVER_HISTORY_ENTRIES;
    if (history != NULL && history[0] != '\0') {
        unsigned long entries = strtoul(history, NULL, 10);
        obs.history_entries = entries > 10000000 ? 10000000 : (uint32_t)entries;
        obs.history_forced = entries > 0;
    }
    bool off = attach_wanted != NULL && strcmp(attach_wanted, "0") == 0;
    /* Looked for once: it takes the loader's lock, and later calls come from threads that hold locks of their own. */
    if (!off)
        obs.have_python = find_python(&obs.py);
    atomic_store_explicit(&obs.phase, obs.have_python ? PHASE_WAITING : PHASE_OFF, memory_order_release);
}

/* Pauses between attempts, in ticks: they double from some 10 ms to about a second; nothing depends on how long a tick
 * is. */
#define PAUSE_TICKS     (UINT64_C(1) << 25)
#define PAUSE_TICKS_MAX (UINT64_C(1) << 31)

static uint64_t pause_ticks(uint32_t attempts)
{
    if (attempts < ATTEMPTS_AT_ONCE)
        return 0;
    uint32_t doublings = attempts - ATTEMPTS_AT_ONCE;
    return doublings > 5 ? PAUSE_TICKS_MAX : PAUSE_TICKS << doublings;
}

void gwi_observer_taken(uint64_t bytes, uint64_t card_bytes)
{
    uint64_t taken = atomic_fetch_add_explicit(&obs.taken_bytes, bytes, memory_order_relaxed) + bytes;
    if (card_bytes != 0 && taken >= card_bytes / GWI_OBSERVER_HISTORY_SHARE &&
        !atomic_load_explicit(&obs.memory_matters, memory_order_relaxed))
        atomic_store_explicit(&obs.memory_matters, true, memory_order_relaxed);
}

/* From phase `idle` into the interpreter's queue; back again where that fails. */
static void queue(int idle, int queued, int (*pending)(void *), uint64_t now_ticks)
{
    if (!atomic_compare_exchange_strong_explicit(&obs.phase, &idle, queued, memory_order_acquire, memory_order_relaxed))
        return; /* another thread was faster */
    atomic_store_explicit(&obs.next_attempt_ticks, now_ticks + pause_ticks(obs.attempts++), memory_order_relaxed);
    /* Not begun yet, or its queue is full: a later rare call tries again. */
    if (!obs.py.Py_IsInitialized() || obs.py.Py_AddPendingCall(pending, NULL) != 0)
        atomic_store_explicit(&obs.phase, idle, memory_order_release);
}

void gwi_observer_notice(uint64_t now_ticks)
{
    int phase = atomic_load_explicit(&obs.phase, memory_order_relaxed);
    bool history = phase == PHASE_ATTACHED && atomic_load_explicit(&obs.memory_matters, memory_order_relaxed);
    if (phase != PHASE_WAITING && !history)
        return;
    if (now_ticks < atomic_load_explicit(&obs.next_attempt_ticks, memory_order_relaxed))
        return;
    int error = errno;
    if (history)
        queue(PHASE_ATTACHED, PHASE_HISTORY_QUEUED, history_pending, now_ticks);
    else
        queue(PHASE_WAITING, PHASE_QUEUED, attach_pending, now_ticks);
    errno = error;
}

void gwi_observer_forked(void)
{
    int phase = atomic_load_explicit(&obs.phase, memory_order_relaxed);
    if (phase == PHASE_QUEUED)
        atomic_store_explicit(&obs.phase, PHASE_WAITING, memory_order_release);
    else if (phase == PHASE_ATTACHED || phase == PHASE_HISTORY_QUEUED)
        atomic_store_explicit(&obs.phase, PHASE_DONE, memory_order_release); /* PyTorch is not asked here */
    atomic_store_explicit(&obs.taken_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&obs.memory_matters, false, memory_order_relaxed);
    atomic_store_explicit(&obs.next_attempt_ticks, 0, memory_order_relaxed);
}
