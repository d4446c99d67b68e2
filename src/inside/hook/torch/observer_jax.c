/* Record JAX's live arrays after JAX has run out of memory.
 *
 * XLA allocates most of the card's memory at once and divides it up itself. So the driver sees neither the arrays nor,
 * usually, the failed allocation. JAX can list its live arrays and its allocator's statistics without the GPU. But it
 * has no callback for a failed allocation, and must not be queried inside one.
 *
 * So the arrays are read when the interpreter shuts down, before JAX's own exit handler. The program's variables and
 * the frames in the traceback still exist then. The exception that ends the program must have RESOURCE_EXHAUSTED in its
 * message. Nothing is recorded if the program survives the failure, or exits by os._exit().
 *
 * If there are several local devices, only the arrays of the fullest one are recorded, without those that are spread
 * over several devices: their size does not show how much of them is on each. */
#include "gwi_observer_inside.h"

#include "gw_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KINDS_MAX = 512,    /* distinguish at most this many combinations of type and shape */
    KINDS_WRITTEN = 32, /* write at most this many combinations, those with the most memory */
    ARRAYS_BUDGET_MS = 300,
    NAME_BYTES = 96,
    DEVICE_BYTES = 64,
    MESSAGE_BYTES = 400
};

/* Live arrays of the same type and shape. */
typedef struct array_kind {
    uint64_t bytes, count; /* size of one array; number of arrays */
    char name[NAME_BYTES]; /* such as "float32[1024,1024]" */
} array_kind;

static py_object *call_none(py_object *callable)
{
    py_object *result = callable == NULL ? NULL : gwi_obs.py.PyObject_CallObject(callable, NULL);
    gwi_obs.py.PyErr_Clear();
    return result;
}

/* Return an attribute as a new reference. Returns NULL if there is none. */
static py_object *attribute(py_object *object, const char *name)
{
    py_object *found = object == NULL ? NULL : gwi_obs.py.PyObject_GetAttrString(object, name);
    gwi_obs.py.PyErr_Clear();
    return found;
}

static py_object *call_method(py_object *object, const char *name)
{
    py_object *method = attribute(object, name);
    py_object *result = call_none(method);
    gwi_py_give_back(method);
    return result;
}

static bool text_of(py_object *object, char *buffer, size_t buffer_bytes)
{
    py_object *text = object == NULL ? NULL : gwi_obs.py.PyObject_Str(object);
    gwi_obs.py.PyErr_Clear();
    return gwi_py_take_text(text, buffer, buffer_bytes);
}

static bool text_of_attribute(py_object *object, const char *name, char *buffer, size_t buffer_bytes)
{
    py_object *value = attribute(object, name);
    bool good = text_of(value, buffer, buffer_bytes);
    gwi_py_give_back(value);
    return good;
}

/* True if the program ends with an out-of-memory exception. *ret_wanted is then the failed allocation's size in bytes;
 * 0: the message has no exact size. */
static bool is_out_of_memory(uint64_t *ret_wanted)
{
    static const char wanted_words[] = "allocate ";
    char message[MESSAGE_BYTES];
    py_object *exception = gwi_obs.py.PySys_GetObject("last_exc"); /* exists since Python 3.12 */
    if (exception == NULL)
        exception = gwi_obs.py.PySys_GetObject("last_value");
    if (exception == NULL || exception == gwi_obs.py.none || !text_of(exception, message, sizeof message) ||
        strstr(message, "RESOURCE_EXHAUSTED") == NULL)
        return false;
    const char *at = strstr(message, wanted_words);
    *ret_wanted = 0;
    if (at != NULL) {
        char *end;
        unsigned long long bytes = strtoull(at + sizeof wanted_words - 1, &end, 10);
        bool is_whole = gw_begins(end, " bytes") || strcmp(end, ".") == 0; /* false for "5.14GiB", which is rounded */
        *ret_wanted = is_whole ? bytes : 0;
    }
    return true;
}

/* Append a shape to `name`, in brackets: "(1024, 1024)" as "[1024,1024]", "(5,)" as "[5]". */
static void add_shape(char *name, size_t name_bytes, const char *shape)
{
    size_t n = strlen(name);
    for (const char *c = shape; *c != '\0' && n + 1 < name_bytes; c++) {
        if (*c == ' ' || (*c == ',' && c[1] == ')'))
            continue;
        if (*c == '(')
            name[n++] = '[';
        else if (*c == ')')
            name[n++] = ']';
        else
            name[n++] = *c;
    }
    name[n] = '\0';
}

/* Read the size, type and shape of an array. Returns false if the object is not an array, or is a deleted one. */
static bool read_array(py_object *array, array_kind *ret_kind)
{
    char shape[NAME_BYTES];
    bool known;
    py_object *nbytes = attribute(array, "nbytes");
    ret_kind->bytes = gwi_py_number(nbytes, &known);
    ret_kind->count = 1;
    gwi_py_give_back(nbytes);
    if (!known || ret_kind->bytes == 0 ||
        !text_of_attribute(array, "dtype", ret_kind->name, sizeof ret_kind->name - 1) ||
        !text_of_attribute(array, "shape", shape, sizeof shape))
        return false;
    add_shape(ret_kind->name, sizeof ret_kind->name, shape);
    return true;
}

static int by_held_falling(const void *left, const void *right)
{
    const array_kind *a = left, *b = right;
    uint64_t held_a = a->bytes * a->count, held_b = b->bytes * b->count;
    return (held_a < held_b) - (held_a > held_b);
}

/* Write how Python prints a set that contains only this device: "{CudaDevice(id=0)}". */
static bool text_of_set(py_object *device, char text[DEVICE_BYTES])
{
    py_object *list = gwi_obs.py.PyList_New(1);
    if (list == NULL)
        return false;
    gwi_obs.py.Py_IncRef(device);
    gwi_obs.py.PyList_SetItem(list, 0, device);
    bool good = text_of(list, text, DEVICE_BYTES);
    gwi_py_give_back(list);
    size_t bytes = good ? strlen(text) : 0;
    if (bytes < 2 || text[bytes - 1] != ']')
        return false;
    text[0] = '{';
    text[bytes - 1] = '}';
    return true;
}

/* True if the array is on no other device than the one whose set prints as `set`. "": the only device. */
static bool is_on(py_object *array, const char *set)
{
    char text[DEVICE_BYTES];
    if (set[0] == '\0')
        return true;
    py_object *devices = call_method(array, "devices");
    bool good = text_of(devices, text, sizeof text);
    gwi_py_give_back(devices);
    return good && strcmp(text, set) == 0;
}

/* Count the arrays of each type and shape that are on the device `set` (is_on()). The first KINDS_MAX combinations are
 * counted in `kind`, all others together in `rest`. Returns false if the time limit stopped the count. */
static bool count_arrays(py_object *arrays, const char *set, array_kind *kind, size_t *ret_kinds, array_kind *rest)
{
    uint64_t deadline_ns = gwi_obs_clock_ns(CLOCK_MONOTONIC) + ARRAYS_BUDGET_MS * UINT64_C(1000000);
    size_t kinds = 0;
    for (ptrdiff_t i = 0, n = gwi_py_list_size(arrays); i < n; i++) {
        array_kind now;
        if ((i & 255) == 255 && gwi_obs_clock_ns(CLOCK_MONOTONIC) > deadline_ns)
            return false;
        py_object *array = gwi_obs.py.PyList_GetItem(arrays, i);
        if (!is_on(array, set) || !read_array(array, &now))
            continue;
        size_t at = 0;
        while (at < kinds && (kind[at].bytes != now.bytes || strcmp(kind[at].name, now.name) != 0))
            at++;
        if (at == KINDS_MAX) {
            rest->bytes += now.bytes;
            rest->count++;
            continue;
        }
        if (at == kinds)
            kind[kinds++] = (array_kind){.bytes = now.bytes};
        memcpy(kind[at].name, now.name, sizeof now.name);
        kind[at].count++;
        *ret_kinds = kinds;
    }
    return true;
}

static uint64_t stat(py_object *stats, const char *name)
{
    bool known;
    uint64_t value = gwi_py_number(
        stats == NULL || stats == gwi_obs.py.none ? NULL : gwi_obs.py.PyDict_GetItemString(stats, name), &known);
    return known ? value : 0;
}

static void write_arrays(py_object *arrays, const char *set, py_object *stats, uint64_t wanted)
{
    static array_kind kind[KINDS_MAX]; /* static, because it is large; protected by the interpreter's lock */
    array_kind rest = {0};
    size_t kinds = 0;
    bool all = count_arrays(arrays, set, kind, &kinds, &rest);
    gwi_obs.port->fact(GW_EV_ARRAYS_OOM, wanted, stat(stats, "bytes_in_use"), stat(stats, "bytes_limit"),
                       stat(stats, "peak_bytes_in_use"), "JAX");
    if (kinds > 1)
        qsort(kind, kinds, sizeof *kind, by_held_falling);
    for (size_t i = 0; i < kinds && i < KINDS_WRITTEN; i++)
        gwi_obs.port->fact(GW_EV_ARRAYS, kind[i].bytes, kind[i].count, 0, 0, kind[i].name);
    for (size_t i = KINDS_WRITTEN; i < kinds; i++) {
        rest.bytes += kind[i].bytes * kind[i].count;
        rest.count += kind[i].count;
    }
    if (rest.count > 0)
        gwi_obs.port->fact(GW_EV_ARRAYS, rest.bytes, rest.count, 1, 0, "");
    if (!all)
        gwi_obs_note(GW_NOTE_TEXT_ONLY, "counting JAX's live arrays took too long: the list is incomplete");
}

/* Return the device with the most memory in use, borrowed from the list. NULL: there is none. */
static py_object *fullest_of(py_object *devices)
{
    py_object *found = NULL;
    uint64_t most = 0;
    for (ptrdiff_t i = 0, n = gwi_py_list_size(devices); i < n; i++) {
        py_object *device = gwi_obs.py.PyList_GetItem(devices, i);
        py_object *stats = call_method(device, "memory_stats");
        uint64_t used = stat(stats, "bytes_in_use");
        gwi_py_give_back(stats);
        if (found == NULL || used > most) {
            found = device;
            most = used;
        }
    }
    return found;
}

void gwi_obs_jax_at_end(void)
{
    uint64_t wanted;
    char set[DEVICE_BYTES] = "";
    if (!is_out_of_memory(&wanted))
        return;
    py_object *jax = gwi_obs_imported("jax");
    py_object *devices = jax == NULL ? NULL : call_none(gwi_obs.py.PyDict_GetItemString(jax, "local_devices"));
    py_object *device = fullest_of(devices);
    if (device != NULL && (gwi_py_list_size(devices) == 1 || text_of_set(device, set))) {
        py_object *stats = call_method(device, "memory_stats");
        py_object *arrays = call_none(gwi_obs.py.PyDict_GetItemString(jax, "live_arrays"));
        write_arrays(arrays, set, stats, wanted);
        gwi_py_give_back(arrays);
        gwi_py_give_back(stats);
    }
    gwi_py_give_back(devices);
    gwi_obs.py.PyErr_Clear();
}
