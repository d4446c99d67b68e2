/* What the files of the observer share: the interpreter's functions, the state, and their own functions.
 *
 *   observer_python.c  attaches to PyTorch, enables the history, and has the callback that PyTorch calls
 *   observer_read.c    reads and records statistics, blocks, the history and peaks
 *   observer_stacks.c  records stacks of the history as call sites
 *   observer_raised.c  records the uncaught exception at the interpreter's shutdown
 *   observer_jax.c     records JAX's live arrays
 *   observer_py.c      has the state, and small helpers for Python and PyTorch
 *
 * Call all functions with the interpreter's lock held, unless a comment says otherwise. */
#ifndef GWI_OBSERVER_INSIDE_H
#define GWI_OBSERVER_INSIDE_H

#include "gwi_observer.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

/* ---- Python's functions and types ---- */

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

/* X(name, result, parameters): the functions of Python's stable ABI that we call. A comment describes the returned
 * reference:
 * - "new": the caller must release it
 * - "borrowed": the caller must not */
#define PY_FUNCTIONS(X)                                                                                                \
    X(Py_IsInitialized, int, (void))                                                                                   \
    X(Py_AddPendingCall, int, (int (*function)(void *), void *argument))                                               \
    X(Py_IncRef, void, (py_object * object))                                                                           \
    X(Py_DecRef, void, (py_object * object))                                                                           \
    X(PySys_GetObject, py_object *, (const char *name))                            /* borrowed */                      \
    X(PyModule_GetDict, py_object *, (py_object * module))                         /* borrowed */                      \
    X(PyDict_GetItemString, py_object *, (py_object * dict, const char *key))      /* borrowed; clears errors */       \
    X(PyDict_GetItem, py_object *, (py_object * dict, py_object * key))            /* borrowed; clears errors */       \
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
    X(PyUnicode_AsUTF8AndSize, const char *, (py_object * text, ptrdiff_t * bytes)) /* valid as long as `text` */      \
    X(PyObject_Type, py_object *, (py_object * object))                             /* new */                          \
    X(PyObject_GenericGetAttr, py_object *, (py_object * object, py_object * name)) /* new */                          \
    X(PyType_GetFlags, unsigned long, (py_object * type))                                                              \
    X(PyException_GetTraceback, py_object *, (py_object * exception)) /* new */                                        \
    X(PyException_GetCause, py_object *, (py_object * exception))     /* new */                                        \
    X(PyException_GetContext, py_object *, (py_object * exception))   /* new */                                        \
    X(PyImport_ImportModuleLevel, py_object *,                                                                         \
      (const char *name, py_object *globals, py_object *locals, py_object *from, int level)) /* new */                 \
    X(PyErr_Occurred, py_object *, (void))                                                   /* borrowed */            \
    X(PyErr_Clear, void, (void))                                                                                       \
    X(PyErr_Fetch, void, (py_object * *type, py_object * *value, py_object * *traceback))                              \
    X(PyErr_Restore, void, (py_object * type, py_object * value, py_object * traceback))

/* X(name): built-in types of Python. If the type of an object is exactly one of these, using the object runs no code of
 * the program. */
#define PY_TYPES(X)                                                                                                    \
    X(PyUnicode_Type)                                                                                                  \
    X(PyLong_Type)                                                                                                     \
    X(PyFloat_Type)                                                                                                    \
    X(PyBool_Type)                                                                                                     \
    X(PyBytes_Type)                                                                                                    \
    X(PyTuple_Type)                                                                                                    \
    X(PyWrapperDescr_Type) /* the type of methods implemented in C */

typedef struct python_types {
#define GW_X(name) const py_object *name; /* borrowed: immortal */
    PY_TYPES(GW_X)
#undef GW_X
} python_types;

typedef struct python {
#define GW_X(name, result, parameters) result(*name) parameters;
    PY_FUNCTIONS(GW_X)
#undef GW_X
    python_types types;
    py_object *none; /* borrowed: immortal */
} python;

/* X(member, text): keys of PyTorch's dictionaries. They are converted to Python strings once, at the attach. */
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
    X(frames, "frames")                                                                                                \
    X(filename, "filename")                                                                                            \
    X(name, "name")                                                                                                    \
    X(line, "line")                                                                                                    \
    X(history, "history")                                                                                              \
    X(requested_size, "requested_size")                                                                                \
    X(all, "all")                                                                                                      \
    X(current, "current")                                                                                              \
    X(peak, "peak")

typedef struct keys {
#define GW_X(member, text) py_object *member;
    KEYS(GW_X)
#undef GW_X
} keys;

/* ---- state ---- */

enum { GWI_OBS_REASON_BYTES = 200 };

struct gwi_obs_state {
    _Atomic int phase;
    _Atomic uint64_t next_attempt_ticks;
    _Atomic uint64_t taken_bytes; /* device memory that the process has allocated so far; frees are not subtracted */
    _Atomic bool memory_matters;
    const gwi_observer_port *port;
    /* The members below are accessed with the interpreter's lock held, or by the one thread that has just changed
     * `phase` to queue a pending call. */
    uint32_t attempts;                 /* attempts so far to attach, or after the attach, to enable the history */
    uint32_t refusals;                 /* how many of these attempts PyTorch refused */
    uint32_t history_entries;          /* size of our history in entries; 0: no history */
    bool history_forced;               /* the environment requests a history: enable it when the observer attaches */
    bool deep;                         /* the history has stacks, and is also read when the program ends */
    bool allocations;                  /* what the hook itself has followed is also written when the program ends */
    _Atomic uint64_t history_since_ns; /* when we enabled the history, in CLOCK_MONOTONIC; 0: we did not */
    _Atomic bool reading; /* a thread is reading the history; keeps others out if Python has no global lock */
    bool have_python;
    uint32_t full_reads;                 /* number of out-of-memory errors at which the whole history was read */
    uint64_t last_read_ns, last_took_ns; /* end (CLOCK_MONOTONIC) and duration of the last of these reads */
    python py;
    keys key;
    py_object *torch_c;    /* dict of torch._C; owned once attached, so that it stays valid if the module is deleted */
    pid_t jax_attached_by; /* process that registered our exit handler for JAX; 0: none */
    pid_t attached_by; /* process that attached to PyTorch; 0: none. Its forked children must not call PyTorch, whose
                          locks may be held forever there */
    bool raised_begun; /* the exit handler for the uncaught exception was registered, or registering it failed */
    pid_t raised_pid;  /* process in which this handler may run: the one that registered it, or its forked child */
};
extern struct gwi_obs_state gwi_obs;

uint64_t gwi_obs_clock_ns(clockid_t clock);
void gwi_obs_note(gw_note reason, const char *text);

/* Return true if PyTorch keeps no history. Otherwise `reason` says that the program enabled one, or why
 * PyTorch cannot report this. */
bool gwi_obs_history_is_off(char *reason);

/* Return the dict of a module that is fully imported, otherwise NULL. Runs no code of the module. The reference is
 * borrowed. */
py_object *gwi_obs_imported(const char *name);

/* ---- small helpers over Python: observer_py.c ---- */

/* Look up all functions and types of Python that the observer uses. Needs no interpreter lock. If one is missing,
 * returns false and sets *ret_missing to its name (NULL: there is no Python in the process). */
bool gwi_py_find(python *py, const char **ret_missing);
void gwi_py_give_back(py_object *object); /* release a reference; accepts NULL */
/* Return the value of an integer object. If `object` is NULL or not an integer, returns 0 and sets *ret_known to
 * false. */
uint64_t gwi_py_number(py_object *object, bool *ret_known);
uint64_t gwi_py_number_in(py_object *dict, py_object *key); /* 0 if the key is missing or its value is not an integer */
/* Copy a string, truncated to fit the buffer. False: `object` is NULL or not a string, and the buffer is "". */
bool gwi_py_text(py_object *object, char *buffer, size_t buffer_bytes);
/* Like gwi_py_text(), but also release the reference to `object`. */
bool gwi_py_take_text(py_object *object, char *buffer, size_t buffer_bytes);
/* Call the function `name` of torch._C. Takes the reference to `arguments`. Returns a new reference, or NULL with
 * the reason in `reason`. */
py_object *gwi_py_call_torch(const char *name, py_object *arguments, char *reason);
/* Create a tuple of the given objects and take their references. Returns NULL if one of them is NULL, or if Python is
 * out of memory. */
py_object *gwi_py_tuple(py_object *const *item, ptrdiff_t count);
py_object *gwi_py_none(void);                /* new */
ptrdiff_t gwi_py_list_size(py_object *list); /* 0: not a list */

/* Call gwi_obs_enter() at the start of every callback from the interpreter, and gwi_obs_leave() at its end. They save
 * and restore errno and Python's pending error. Between them, our own driver calls are not recorded. */
typedef struct gwi_obs_saved {
    py_object *type, *value, *traceback;
    uint32_t guard;
    int error;
} gwi_obs_saved;
gwi_obs_saved gwi_obs_enter(void);
void gwi_obs_leave(const gwi_obs_saved *before);

/* ---- the uncaught exception: observer_raised.c ---- */

/* Register the exit handler that records the uncaught exception. A second call has no effect. Call it in the
 * interpreter's main thread, between gwi_obs_enter() and gwi_obs_leave(). */
void gwi_obs_raised_begin(void);
void gwi_obs_raised_forked(void); /* call at the first driver call of a forked child; takes no interpreter lock */

/* ---- reading: observer_read.c ---- */

/* Write the memory limit that the program set with set_per_process_memory_fraction(), if any. `total_bytes` is from
 * PyTorch's out-of-memory callback: the limit or, without one, the total memory. */
void gwi_obs_write_limit(uint64_t device, uint64_t total_bytes);
void gwi_obs_read_at_oom(uint64_t device, bool with_history);
void gwi_obs_read_at_end(void);

/* ---- JAX: observer_jax.c ---- */

/* Call at the interpreter's shutdown. Writes JAX's live arrays if the exception that ends the program says that JAX ran
 * out of memory. */
void gwi_obs_jax_at_end(void);

/* ---- stacks: observer_stacks.c ---- */

/* Start a new memory snapshot, and stop using the Python objects of the previous one. Returns false if out of memory:
 * all stacks of the new snapshot are then unknown. */
bool gwi_stacks_begin(void);
/* Return the number of the stack in a list of frames. Equal stacks have equal numbers, even in different snapshots.
 * Returns 0 for an empty list or NULL, or if there are too many stacks. `frames` must live until the next
 * gwi_stacks_begin(). */
uint32_t gwi_stacks_number(py_object *frames);
uint32_t gwi_stacks_count(void); /* greater than all stack numbers returned so far */
/* Return the call site of the stack with this number. The first request records the site. Returns 0 if the stack is
 * unknown, there are too many sites, or the buffer is full. */
uint32_t gwi_stacks_site(uint32_t number);

#endif
