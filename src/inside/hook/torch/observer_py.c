/* The observer's state, and helpers that call Python's stable ABI and PyTorch. */
#include "gwi_observer_inside.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct gwi_obs_state gwi_obs;

uint64_t gwi_obs_clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void gwi_obs_note(gw_note reason, const char *text)
{
    gwi_obs.port->fact(GW_EV_NOTE, reason, 0, 0, 0, text);
}

bool gwi_py_find(python *py, const char **ret_missing)
{
    *ret_missing = NULL;
    if (dlsym(RTLD_DEFAULT, "Py_IsInitialized") == NULL)
        return false;
#define GW_X(name, result, parameters)                                                                                 \
    {                                                                                                                  \
        void *found = dlsym(RTLD_DEFAULT, *ret_missing = #name);                                                       \
        if (found == NULL)                                                                                             \
            return false;                                                                                              \
        memcpy(&py->name, &found, sizeof found);                                                                       \
    }
    PY_FUNCTIONS(GW_X)
#undef GW_X
#define GW_X(name)                                                                                                     \
    {                                                                                                                  \
        py->types.name = dlsym(RTLD_DEFAULT, *ret_missing = #name);                                                    \
        if (py->types.name == NULL)                                                                                    \
            return false;                                                                                              \
    }
    PY_TYPES(GW_X)
#undef GW_X
    py->none = dlsym(RTLD_DEFAULT, *ret_missing = "_Py_NoneStruct");
    if (py->none == NULL)
        return false;
    *ret_missing = NULL;
    return true;
}

void gwi_py_give_back(py_object *object)
{
    if (object != NULL)
        gwi_obs.py.Py_DecRef(object);
}

uint64_t gwi_py_number(py_object *object, bool *ret_known)
{
    *ret_known = false;
    if (object == NULL)
        return 0;
    uint64_t value = gwi_obs.py.PyLong_AsUnsignedLongLongMask(object);
    if (gwi_obs.py.PyErr_Occurred() != NULL) {
        gwi_obs.py.PyErr_Clear();
        return 0;
    }
    *ret_known = true;
    return value;
}

uint64_t gwi_py_number_in(py_object *dict, py_object *key)
{
    bool known;
    return gwi_py_number(dict == NULL ? NULL : gwi_obs.py.PyDict_GetItem(dict, key), &known);
}

bool gwi_py_text(py_object *object, char *buffer, size_t buffer_bytes)
{
    ptrdiff_t bytes = 0;
    const char *text = object == NULL ? NULL : gwi_obs.py.PyUnicode_AsUTF8AndSize(object, &bytes);
    if (text == NULL) {
        gwi_obs.py.PyErr_Clear();
        buffer[0] = '\0';
        return false;
    }
    size_t length = (size_t)bytes < buffer_bytes - 1 ? (size_t)bytes : buffer_bytes - 1;
    memcpy(buffer, text, length);
    buffer[length] = '\0';
    return true;
}

bool gwi_py_take_text(py_object *object, char *buffer, size_t buffer_bytes)
{
    bool good = gwi_py_text(object, buffer, buffer_bytes);
    gwi_py_give_back(object);
    return good;
}

/* Copy the first line of the interpreter's pending error to `reason`, and clear the error. */
static void take_error(char *reason, size_t reason_bytes)
{
    py_object *type = NULL, *value = NULL, *traceback = NULL;
    gwi_obs.py.PyErr_Fetch(&type, &value, &traceback);
    py_object *text = value == NULL ? NULL : gwi_obs.py.PyObject_Str(value);
    if (text == NULL || !gwi_py_text(text, reason, reason_bytes))
        snprintf(reason, reason_bytes, "it failed without giving a reason");
    gwi_obs.py.PyErr_Clear();
    reason[strcspn(reason, "\n")] = '\0';
    gwi_py_give_back(text);
    gwi_py_give_back(type);
    gwi_py_give_back(value);
    gwi_py_give_back(traceback);
}

py_object *gwi_py_call_torch(const char *name, py_object *arguments, char *reason)
{
    py_object *function = gwi_obs.py.PyDict_GetItemString(gwi_obs.torch_c, name);
    py_object *result = NULL;
    if (function == NULL) {
        snprintf(reason, GWI_OBS_REASON_BYTES, "this PyTorch has no torch._C.%s", name);
    } else if (arguments == NULL) {
        take_error(reason, GWI_OBS_REASON_BYTES);
    } else {
        result = gwi_obs.py.PyObject_CallObject(function, arguments);
        if (result == NULL)
            take_error(reason, GWI_OBS_REASON_BYTES);
    }
    gwi_py_give_back(arguments);
    return result;
}

py_object *gwi_py_tuple(py_object *const *item, ptrdiff_t count)
{
    py_object *tuple = gwi_obs.py.PyTuple_New(count);
    bool good = tuple != NULL;
    for (ptrdiff_t i = 0; i < count; i++) {
        if (item[i] == NULL)
            good = false;
        else if (tuple == NULL)
            gwi_py_give_back(item[i]);
        else
            gwi_obs.py.PyTuple_SetItem(tuple, i, item[i]);
    }
    if (good)
        return tuple;
    gwi_py_give_back(tuple);
    return NULL;
}

py_object *gwi_py_none(void)
{
    gwi_obs.py.Py_IncRef(gwi_obs.py.none);
    return gwi_obs.py.none;
}

ptrdiff_t gwi_py_list_size(py_object *list)
{
    ptrdiff_t count = list == NULL ? 0 : gwi_obs.py.PyList_Size(list);
    if (count < 0) {
        gwi_obs.py.PyErr_Clear();
        count = 0;
    }
    return count;
}

gwi_obs_saved gwi_obs_enter(void)
{
    gwi_obs_saved before = {.error = errno, .guard = gwi_obs.port->guard_enter()};
    gwi_obs.py.PyErr_Fetch(&before.type, &before.value, &before.traceback);
    return before;
}

void gwi_obs_leave(const gwi_obs_saved *before)
{
    gwi_obs.py.PyErr_Restore(before->type, before->value, before->traceback);
    gwi_obs.port->guard_leave(before->guard);
    errno = before->error;
}

/* Return the dict of a module that is completely imported, otherwise NULL. No code of the module runs. */
py_object *gwi_obs_imported(const char *name)
{
    py_object *modules = gwi_obs.py.PySys_GetObject("modules");
    py_object *module = modules == NULL ? NULL : gwi_obs.py.PyDict_GetItemString(modules, name);
    py_object *dict = module == NULL || module == gwi_obs.py.none ? NULL : gwi_obs.py.PyModule_GetDict(module);
    if (dict == NULL) {
        gwi_obs.py.PyErr_Clear();
        return NULL;
    }
    py_object *spec = gwi_obs.py.PyDict_GetItemString(dict, "__spec__");
    py_object *initializing =
        spec == NULL || spec == gwi_obs.py.none ? NULL : gwi_obs.py.PyObject_GetAttrString(spec, "_initializing");
    bool finished = initializing == NULL || gwi_obs.py.PyObject_IsTrue(initializing) == 0;
    gwi_py_give_back(initializing);
    gwi_obs.py.PyErr_Clear();
    return finished ? dict : NULL;
}

/* True if the memory history is off. Otherwise sets `reason`: the program enabled it, or this PyTorch cannot report it
 * (the asynchronous allocator, old versions). */
bool gwi_obs_history_is_off(char *reason)
{
    py_object *answer = gwi_py_call_torch("_cuda_isHistoryEnabled", gwi_obs.py.PyTuple_New(0), reason);
    bool off = answer != NULL && gwi_obs.py.PyObject_IsTrue(answer) == 0;
    if (answer != NULL && !off)
        snprintf(reason, GWI_OBS_REASON_BYTES, "the program has turned it on itself");
    gwi_py_give_back(answer);
    gwi_obs.py.PyErr_Clear();
    return off;
}
