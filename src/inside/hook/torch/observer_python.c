/* How the observer attaches to PyTorch.
 *
 *   notice (any thread)  ->  Py_AddPendingCall  ->  attach_pending (main thread, interpreter's lock held)
 *        the first time: register the exit handler that reads sys.last_exc (observer_raised.c)
 *        torch imported and CUDA initialised?  if not: try again at a later notice, with growing pauses
 *        attach the out-of-memory observer, register the exit handler; enable the history if it is already needed
 *   taken (any thread): 1/16 of the card's memory has been allocated
 *        notice  ->  Py_AddPendingCall  ->  history_pending: enable the history
 *   out of memory       ->  on_oom    (in the thread that failed; PyTorch takes the interpreter's lock and has released
 *                                      its own allocator lock)
 *   interpreter exits   ->  on_exit_of_interpreter    (atexit; runs before PyTorch's handlers, because PyTorch
 *                                                      registered them earlier)
 *
 * Only functions of Python's stable ABI are used. If PyTorch lacks a function, the observer records the reason and
 * does not attach. */
#include "gwi_observer_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- state ---- */

enum {
    PHASE_OFF = 0,      /* not started, disabled, or given up: gwi_observer_notice() does nothing */
    PHASE_WAITING = 1,  /* not attached: gwi_observer_notice() may queue an attempt to attach */
    PHASE_QUEUED = 2,   /* an attempt to attach is in the interpreter's queue */
    PHASE_ATTACHED = 3, /* attached; if `memory_matters`, gwi_observer_notice() may queue a call of history_pending() */
    PHASE_HISTORY_QUEUED = 4, /* a call of history_pending() is in the interpreter's queue */
    PHASE_DONE = 5            /* attached, and no further pending call is needed */
};

enum {
    ATTEMPTS_AT_ONCE = 16,  /* make this many attempts to attach without pauses between them */
    REFUSALS_MAX = 3,       /* give up after PyTorch has refused this many times */
    FULL_READS_AT_ONCE = 8, /* always read the whole history at the first 8 out-of-memory errors */
    READ_REST_FACTOR = 20   /* after those, only if this many times the duration of the last full read has passed */
};

/* ---- callbacks of PyTorch and the interpreter ---- */

/* True if the whole history may be read at this out-of-memory error. The last error matters most, but cannot be
 * recognised in advance. So the history is read at the first few errors, and later only after a pause: a program
 * may probe for memory. If true, the caller must reset `reading`. */
static bool may_read_history(void)
{
    uint64_t rested_ns = gwi_obs_clock_ns(CLOCK_MONOTONIC) - gwi_obs.last_read_ns;
    if (gwi_obs.full_reads >= FULL_READS_AT_ONCE && rested_ns < READ_REST_FACTOR * gwi_obs.last_took_ns)
        return false;
    return !atomic_exchange_explicit(&gwi_obs.reading, true, memory_order_acquire);
}

/* True if the program forbids what the observer does, such as to read the clock. */
static bool is_quiet(void)
{
    return gwi_obs.port->is_quiet != NULL && gwi_obs.port->is_quiet();
}

static void report_begins(void)
{
    if (gwi_obs.port->course_report_begin != NULL)
        gwi_obs.port->course_report_begin();
}

static void report_ends(void)
{
    if (gwi_obs.port->course_report_end != NULL)
        gwi_obs.port->course_report_end();
}

/* PyTorch calls this when it is out of memory, with (device, bytes wanted, total or limit, bytes free). Never
 * raises an exception, because PyTorch would then fail with it. */
static py_object *on_oom(py_object *self, py_object *arguments)
{
    uint64_t value[4] = {0};
    bool known = true;
    (void)self;
    if (is_quiet() || getpid() != gwi_obs.attached_by)
        return gwi_py_none();
    gwi_obs_saved before = gwi_obs_enter();
    for (ptrdiff_t i = 0; i < 4 && i < gwi_obs.py.PyTuple_Size(arguments); i++)
        value[i] = gwi_py_number(gwi_obs.py.PyTuple_GetItem(arguments, i), &known);
    uint32_t site = gwi_obs.port->course_request == NULL ? 0 : gwi_obs.port->course_request(value[0]);
    report_begins();
    gwi_obs.port->fact_at(GW_EV_ALLOCATOR_OOM, site, value[1], value[2], value[3], value[0]);
    bool with_history = may_read_history();
    uint64_t begin_ns = gwi_obs_clock_ns(CLOCK_MONOTONIC);
    gwi_obs_write_limit(value[0], value[2]);
    gwi_obs_read_at_oom(value[0], with_history);
    report_ends();
    if (with_history) {
        gwi_obs.full_reads++;
        gwi_obs.last_read_ns = gwi_obs_clock_ns(CLOCK_MONOTONIC);
        gwi_obs.last_took_ns = gwi_obs.last_read_ns - begin_ns;
        atomic_store_explicit(&gwi_obs.reading, false, memory_order_release);
    }
    /* The program may catch the exception and continue. Enable the history now, so that a second report has the
     * ages of blocks. */
    atomic_store_explicit(&gwi_obs.memory_matters, true, memory_order_relaxed);
    gwi_obs_leave(&before);
    return gwi_py_none();
}

static py_object *on_exit_of_interpreter(py_object *self, py_object *arguments)
{
    (void)self;
    (void)arguments;
    if (is_quiet() || getpid() != gwi_obs.attached_by)
        return gwi_py_none();
    gwi_obs_saved before = gwi_obs_enter();
    report_begins();
    gwi_obs_read_at_end();
    report_ends();
    gwi_obs_leave(&before);
    return gwi_py_none();
}

static py_object *on_exit_with_jax(py_object *self, py_object *arguments)
{
    (void)self;
    (void)arguments;
    if (is_quiet() || getpid() != gwi_obs.jax_attached_by)
        return gwi_py_none();
    gwi_obs_saved before = gwi_obs_enter();
    gwi_obs_jax_at_end();
    gwi_obs_leave(&before);
    return gwi_py_none();
}

static py_method jax_method = {"gpuwhy_jax_exit", on_exit_with_jax, PY_METHOD_NOARGS, NULL};
static py_method oom_method = {"gpuwhy_out_of_memory", on_oom, PY_METHOD_VARARGS, NULL};
static py_method exit_method = {"gpuwhy_exit", on_exit_of_interpreter, PY_METHOD_NOARGS, NULL};

/* ---- attaching ---- */

typedef enum outcome { OUTCOME_ATTACHED, OUTCOME_LATER, OUTCOME_REFUSED } outcome;

static bool flag_in(py_object *dict, const char *name)
{
    py_object *flag = dict == NULL ? NULL : gwi_obs.py.PyDict_GetItemString(dict, name);
    bool set = flag != NULL && gwi_obs.py.PyObject_IsTrue(flag) == 1;
    gwi_obs.py.PyErr_Clear();
    return set;
}

static bool make_keys(void)
{
    bool good = true;
#define GW_X(member, text)                                                                                             \
    if (gwi_obs.key.member == NULL)                                                                                    \
        gwi_obs.key.member = gwi_obs.py.PyUnicode_FromString(text);                                                    \
    good = good && gwi_obs.key.member != NULL;
    KEYS(GW_X)
#undef GW_X
    gwi_obs.py.PyErr_Clear();
    return good;
}

/* Return the list of actions that the history leaves out. Frees then have one entry instead of two, and the ring
 * covers 1.5 times as much time. */
static py_object *actions_skipped(void)
{
    py_object *list = gwi_obs.py.PyList_New(1);
    py_object *action = gwi_obs.py.PyUnicode_FromString("free_requested");
    if (list != NULL && action != NULL) {
        gwi_obs.py.PyList_SetItem(list, 0, action);
        return list;
    }
    gwi_py_give_back(list);
    gwi_py_give_back(action);
    return NULL;
}

/* Enable the history. Newer versions of PyTorch add parameters after the first four, so long lists are tried first.
 * False: `reason` says why. */
static bool switch_history_on(char *reason)
{
    bool deep = gwi_obs.deep;
    for (int count = 8; count >= 4; count--) {
        py_object *argument[8] = {gwi_obs.py.PyUnicode_FromString("all"),
                                  deep ? gwi_obs.py.PyUnicode_FromString("alloc") : gwi_py_none(),
                                  gwi_obs.py.PyUnicode_FromString("python"),
                                  gwi_obs.py.PyLong_FromLongLong(gwi_obs.history_entries),
                                  gwi_obs.py.PyBool_FromLong(0),
                                  gwi_obs.py.PyBool_FromLong(0),
                                  gwi_obs.py.PyBool_FromLong(0),
                                  actions_skipped()};
        for (int i = count; i < 8; i++)
            gwi_py_give_back(argument[i]);
        py_object *done = gwi_py_call_torch("_cuda_record_memory_history", gwi_py_tuple(argument, count), reason);
        if (done != NULL) {
            gwi_py_give_back(done);
            return true;
        }
        if (strstr(reason, "argument") == NULL)
            break; /* the call failed for another reason than its number of arguments */
    }
    return false;
}

/* Register an exit handler with Python's module atexit, which modules of torch import. If the program has not
 * imported atexit, this returns false, and nothing is read at exit. */
static bool register_exit(py_method *what)
{
    py_object *atexit_dict = gwi_obs_imported("atexit");
    py_object *function = atexit_dict == NULL ? NULL : gwi_obs.py.PyDict_GetItemString(atexit_dict, "register");
    py_object *method = gwi_obs.py.PyCFunction_NewEx(what, NULL, NULL);
    py_object *arguments = gwi_py_tuple(&method, 1);
    py_object *done =
        function == NULL || arguments == NULL ? NULL : gwi_obs.py.PyObject_CallObject(function, arguments);
    gwi_py_give_back(arguments);
    gwi_py_give_back(done);
    gwi_obs.py.PyErr_Clear();
    return done != NULL;
}

/* True if no history is needed: the hook follows every block itself, and the user did not request a history. */
static bool course_will_do(void)
{
    return !gwi_obs.history_forced && gwi_obs.port->course_is_whole != NULL && gwi_obs.port->course_is_whole();
}

typedef enum switched { SWITCHED_ON, SWITCHED_NEVER, SWITCHED_FAILED } switched;

/* Enable the history. SWITCHED_NEVER: the program did so itself, or PyTorch cannot report whether it is on. Unless
 * SWITCHED_ON, `reason` says why. */
static switched switch_history(char *reason)
{
    if (!gwi_obs_history_is_off(reason))
        return SWITCHED_NEVER;
    if (!switch_history_on(reason))
        return SWITCHED_FAILED;
    gwi_obs.history_since_ns = gwi_obs_clock_ns(CLOCK_MONOTONIC);
    return SWITCHED_ON;
}

static void history_words(char *buffer, size_t buffer_bytes)
{
    uint64_t taken_mib = atomic_load_explicit(&gwi_obs.taken_bytes, memory_order_relaxed) >> 20;
    if (gwi_obs.history_forced)
        snprintf(buffer, buffer_bytes, "history of %u entries with%s stacks, from the start", gwi_obs.history_entries,
                 gwi_obs.deep ? " Python" : "out");
    else
        snprintf(buffer, buffer_bytes,
                 "history of %u entries without stacks, turned on when %" PRIu64
                 " MiB of device memory had been allocated",
                 gwi_obs.history_entries, taken_mib);
}

static const char no_history_needed[] = "no history: its allocations are followed from the first one on";

/* Enable the history when the observer attaches, if it is already needed. `words` describes the result. False: it
 * may still be enabled later. */
static bool history_at_attach(char *words, size_t words_bytes)
{
    char reason[GWI_OBS_REASON_BYTES] = "";
    if (gwi_obs.history_entries == 0) {
        snprintf(words, words_bytes, "no history");
        return true;
    }
    bool now = gwi_obs.history_forced || atomic_load_explicit(&gwi_obs.memory_matters, memory_order_relaxed);
    if (now && course_will_do()) {
        snprintf(words, words_bytes, "%s", no_history_needed);
        return true;
    }
    if (!now && gwi_obs_history_is_off(reason)) {
        snprintf(words, words_bytes, "no history until a sixteenth of the card's memory is allocated");
        return false;
    }
    switched result = now ? switch_history(reason) : SWITCHED_NEVER;
    if (result == SWITCHED_ON)
        history_words(words, words_bytes);
    else
        snprintf(words, words_bytes, "no history%s: %s", result == SWITCHED_NEVER ? " from gpuwhy" : "", reason);
    return true;
}

/* Attach to PyTorch. After OUTCOME_ATTACHED, *ret_done is true if the history need not be enabled later. */
static outcome attach(char *reason, bool *ret_done)
{
    py_object *torch = gwi_obs_imported("torch");
    py_object *torch_cuda = torch == NULL ? NULL : gwi_obs_imported("torch.cuda");
    /* Do not call PyTorch before it has initialised CUDA: the call would do so, perhaps against the program's wish.
     * The C++ part of the initialisation ends with default_generators. The Python part sets `_initialized` later,
     * perhaps after the first allocation. */
    if (torch_cuda == NULL || !(flag_in(torch_cuda, "_initialized") || flag_in(torch_cuda, "default_generators")))
        return OUTCOME_LATER;
    gwi_obs.torch_c = gwi_obs_imported("torch._C");
    if (gwi_obs.torch_c == NULL)
        return OUTCOME_LATER;
    if (!make_keys()) {
        snprintf(reason, GWI_OBS_REASON_BYTES, "Python is out of memory");
        return OUTCOME_REFUSED;
    }
    py_object *method = gwi_obs.py.PyCFunction_NewEx(&oom_method, NULL, NULL);
    py_object *done = gwi_py_call_torch("_cuda_attach_out_of_memory_observer", gwi_py_tuple(&method, 1), reason);
    if (done == NULL)
        return OUTCOME_REFUSED;
    gwi_py_give_back(done);
    gwi_obs.py.Py_IncRef(gwi_obs.torch_c);
    gwi_obs.attached_by = getpid();
    char words[GWI_OBS_REASON_BYTES + 40], version[40], text[GWI_OBS_REASON_BYTES + 160];
    *ret_done = history_at_attach(words, sizeof words);
    bool at_exit = register_exit(&exit_method);
    if (!gwi_py_text(gwi_obs.py.PyDict_GetItemString(torch, "__version__"), version, sizeof version))
        snprintf(version, sizeof version, "of unknown version");
    snprintf(text, sizeof text, "PyTorch %s; %s%s", version, words, at_exit ? "" : "; no read-out at the end");
    gwi_obs_note(GW_NOTE_OBSERVER_ATTACHED, text);
    return OUTCOME_ATTACHED;
}

/* Register the exit handler for JAX, once. JAX registers its own when it is imported. Handlers run in reverse order, so
 * ours runs first. */
static void attach_to_jax(void)
{
    if (gwi_obs.jax_attached_by == 0 && gwi_obs_imported("jax") != NULL && register_exit(&jax_method))
        gwi_obs.jax_attached_by = getpid();
}

/* Try to attach. Runs in the interpreter's main thread with its lock held. Must return 0: any other value raises an
 * exception in the program. */
static int attach_pending(void *unused)
{
    char reason[GWI_OBS_REASON_BYTES] = "";
    (void)unused;
    bool done = false;
    if (is_quiet())
        return 0;
    gwi_obs_saved before = gwi_obs_enter();
    gwi_obs_raised_begin();
    attach_to_jax();
    outcome result = attach(reason, &done);
    if (result == OUTCOME_REFUSED && ++gwi_obs.refusals == 1)
        gwi_obs_note(GW_NOTE_OBSERVER_REFUSED, reason);
    gwi_obs_leave(&before);
    int next = PHASE_WAITING;
    if (result == OUTCOME_ATTACHED) {
        next = done ? PHASE_DONE : PHASE_ATTACHED;
        gwi_obs.attempts = gwi_obs.refusals = 0; /* from now on, they count attempts to enable the history */
        atomic_store_explicit(&gwi_obs.next_attempt_ticks, 0, memory_order_relaxed);
    } else if (gwi_obs.refusals >= (uint32_t)REFUSALS_MAX) {
        next = PHASE_OFF;
    }
    atomic_store_explicit(&gwi_obs.phase, next, memory_order_release);
    return 0;
}

/* Enable the history after the attach. Like attach_pending(), this runs in the main thread with the interpreter's lock
 * held, and must return 0. */
static int history_pending(void *unused)
{
    char reason[GWI_OBS_REASON_BYTES] = "", words[GWI_OBS_REASON_BYTES + 40];
    (void)unused;
    if (is_quiet() || getpid() != gwi_obs.attached_by)
        return 0;
    gwi_obs_saved before = gwi_obs_enter();
    bool needed = !course_will_do();
    switched result = needed ? switch_history(reason) : SWITCHED_NEVER;
    if (!needed)
        snprintf(words, sizeof words, "%s", no_history_needed);
    else if (result == SWITCHED_ON)
        history_words(words, sizeof words);
    else
        snprintf(words, sizeof words, "no history%s: %s", result == SWITCHED_NEVER ? " from gpuwhy" : "", reason);
    if (result != SWITCHED_FAILED || ++gwi_obs.refusals == 1)
        gwi_obs_note(GW_NOTE_TEXT_ONLY, words);
    gwi_obs_leave(&before);
    bool again = result == SWITCHED_FAILED && gwi_obs.refusals < (uint32_t)REFUSALS_MAX;
    atomic_store_explicit(&gwi_obs.phase, again ? PHASE_ATTACHED : PHASE_DONE, memory_order_release);
    return 0;
}

/* ---- entry points ---- */

static void note_missing(const char *symbol)
{
    char text[GWI_OBS_REASON_BYTES];
    int error = errno;
    snprintf(text, sizeof text, "this Python has no %s", symbol);
    uint32_t guard = gwi_obs.port->guard_enter();
    gwi_obs_note(GW_NOTE_OBSERVER_REFUSED, text);
    gwi_obs.port->guard_leave(guard);
    errno = error;
}

void gwi_observer_start(const gwi_observer_port *port)
{
    const char *missing = NULL;
    const char *attach_wanted = getenv("GPUWHY_ATTACH");
    const char *history = getenv("GPUWHY_HISTORY");
    const char *deep = getenv("GPUWHY_DEEP"), *allocations = getenv("GPUWHY_ALLOCATIONS");
    gwi_obs.port = port;
    gwi_obs.history_entries = GWI_OBSERVER_HISTORY_ENTRIES;
    if (history != NULL && history[0] != '\0') {
        unsigned long entries = strtoul(history, NULL, 10);
        gwi_obs.history_entries = entries > 10000000 ? 10000000 : (uint32_t)entries;
        gwi_obs.history_forced = entries > 0;
    }
    gwi_obs.deep = deep != NULL && strcmp(deep, "1") == 0;
    gwi_obs.allocations = allocations != NULL && strcmp(allocations, "1") == 0;
    gwi_obs.history_forced = gwi_obs.history_forced || (gwi_obs.deep && gwi_obs.history_entries > 0);
    bool off = attach_wanted != NULL && strcmp(attach_wanted, "0") == 0;
    /* Look up Python's functions only here: dlsym() takes the loader's lock. Later calls come from threads that may
     * hold other locks, and could deadlock. */
    if (!off)
        gwi_obs.have_python = gwi_py_find(&gwi_obs.py, &missing);
    if (missing != NULL)
        note_missing(missing);
    atomic_store_explicit(&gwi_obs.phase, gwi_obs.have_python ? PHASE_WAITING : PHASE_OFF, memory_order_release);
}

/* Pauses between attempts, in ticks. They double from about 10 ms to about a second; the exact length of a tick does
 * not matter. */
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
    uint64_t taken = atomic_fetch_add_explicit(&gwi_obs.taken_bytes, bytes, memory_order_relaxed) + bytes;
    if (card_bytes != 0 && taken >= card_bytes / GWI_OBSERVER_HISTORY_SHARE &&
        !atomic_load_explicit(&gwi_obs.memory_matters, memory_order_relaxed))
        atomic_store_explicit(&gwi_obs.memory_matters, true, memory_order_relaxed);
}

/* Change the phase from `idle` to `queued` and queue the call. If queuing fails, change the phase back. */
static void queue(int idle, int queued, int (*pending)(void *), uint64_t now_ticks)
{
    if (!atomic_compare_exchange_strong_explicit(&gwi_obs.phase, &idle, queued, memory_order_acquire,
                                                 memory_order_relaxed))
        return; /* another thread has queued the call */
    atomic_store_explicit(&gwi_obs.next_attempt_ticks, now_ticks + pause_ticks(gwi_obs.attempts++),
                          memory_order_relaxed);
    /* If Python is not initialised yet, or its queue is full, a later notice tries again. */
    if (!gwi_obs.py.Py_IsInitialized() || gwi_obs.py.Py_AddPendingCall(pending, NULL) != 0)
        atomic_store_explicit(&gwi_obs.phase, idle, memory_order_release);
}

void gwi_observer_notice(uint64_t now_ticks)
{
    int phase = atomic_load_explicit(&gwi_obs.phase, memory_order_relaxed);
    bool history = phase == PHASE_ATTACHED && atomic_load_explicit(&gwi_obs.memory_matters, memory_order_relaxed);
    if (phase != PHASE_WAITING && !history)
        return;
    if (now_ticks < atomic_load_explicit(&gwi_obs.next_attempt_ticks, memory_order_relaxed))
        return;
    int error = errno;
    if (history)
        queue(PHASE_ATTACHED, PHASE_HISTORY_QUEUED, history_pending, now_ticks);
    else
        queue(PHASE_WAITING, PHASE_QUEUED, attach_pending, now_ticks);
    errno = error;
}

bool gwi_observer_is_attached(void)
{
    int phase = atomic_load_explicit(&gwi_obs.phase, memory_order_acquire);
    return phase >= PHASE_ATTACHED && gwi_obs.attached_by == getpid();
}

void gwi_observer_forked(void)
{
    int phase = atomic_load_explicit(&gwi_obs.phase, memory_order_relaxed);
    gwi_obs_raised_forked();
    if (phase == PHASE_QUEUED)
        atomic_store_explicit(&gwi_obs.phase, PHASE_WAITING, memory_order_release);
    else if (phase == PHASE_ATTACHED || phase == PHASE_HISTORY_QUEUED)
        atomic_store_explicit(&gwi_obs.phase, PHASE_DONE,
                              memory_order_release); /* PyTorch is not called in a forked child */
    atomic_store_explicit(&gwi_obs.taken_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&gwi_obs.memory_matters, false, memory_order_relaxed);
    atomic_store_explicit(&gwi_obs.next_attempt_ticks, 0, memory_order_relaxed);
}
