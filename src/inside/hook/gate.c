/* Injected failures and the fence: see gwi_gate.h.
 *
 * The driver is closed if an injected failure closed it (a sticky error, a lost device), or if a sticky error of the
 * driver itself closed the fence. From then on every call fails with that result without reaching the driver, apart
 * from the harmless ones of gw_inject_is_harmless(). This also holds for the hook's own calls.
 *
 * Only the program's own calls are counted and can be chosen by a rule. The hook's calls are told apart by the thread's
 * slot: the hook calls the driver only inside a wrapper, after the wrapper's own call. A forked child counts from the
 * beginning, and the driver is open again in it: a child cannot use its parent's contexts anyway. */
#include "gwi_gate.h"
#include "gwi_guard_parts.h"

#include "gw_cuda_results.h"
#include "gw_inject.h"
#include "gw_rank_variables.h"
#include "gw_run_shared.h"
#include "gwi_hook.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FACTS_MAX = 256 }; /* injections of one rule that are recorded as facts; later ones are only counted */

void *gwi_gate_next[GW_FN_COUNT];

/* Why the driver is closed. */
enum { OPEN, CLOSED_BY_INJECTION, CLOSED_BY_FENCE };

static struct {
    gw_inject_plan plan;
    bool closes;      /* a rule of the plan may close the driver */
    bool needs_begin; /* a rule depends on the process's first call: process=N, after= */
    enum { FENCE_OFF, FENCE_ON, FENCE_EXIT } fence;
    uint64_t harmless[(GW_FN_COUNT + 63) / 64];
    /* One bit per rule, for each function. */
    uint16_t rules[GW_FN_COUNT];
} gate;
_Static_assert(GW_INJECT_RULES_MAX <= 16, "one bit per rule");

/* The state of this process. `mark` is that of the process's buffer; after a fork it differs, and all is reset. */
static struct {
    _Atomic uint32_t mark;
    uint16_t applies; /* rules whose rank and process are those of this process */
    uint64_t start_ns;
    _Atomic uint64_t calls[GW_INJECT_RULES_MAX];
    _Atomic uint64_t injections[GW_INJECT_RULES_MAX];
    _Atomic uint32_t closed; /* result << 8 | why; 0: open */
    _Atomic bool fence_is_told;
} own;

static __thread uint64_t counted_call __attribute__((tls_model("initial-exec")));

/* ---- this process ---- */

static bool is_rank(int64_t rank)
{
    static const char *const names[] = {
#define GW_X(rank, of, local) rank,
        GW_RANK_VARIABLES(GW_X)
#undef GW_X
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && value[0] >= '0' && value[0] <= '9')
            return strtoll(value, NULL, 10) == rank;
    }
    return false;
}

static bool is_program(const char *name)
{
    char path[1024];
    ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - 1);
    if (bytes <= 0)
        return false;
    path[bytes] = '\0';
    const char *slash = strrchr(path, '/');
    return strcmp(slash == NULL ? path : slash + 1, name) == 0;
}

static void begin_process(uint32_t mark)
{
    gw_run_shared *shared = gwi_run_shared();
    uint32_t number = shared == NULL ? 0 : atomic_fetch_add(&shared->process_count, 1) + 1;
    own.applies = 0;
    for (size_t i = 0; i < gate.plan.count; i++) {
        const gw_inject_rule *rule = &gate.plan.rule[i];
        bool here = (rule->rank < 0 || is_rank(rule->rank)) && (rule->process == 0 || rule->process == number) &&
                    (rule->program[0] == '\0' || is_program(rule->program));
        own.applies |= (uint16_t)(here ? 1u << i : 0);
        own.calls[i] = own.injections[i] = 0;
    }
    own.start_ns = gw_monotonic_ns();
    own.closed = OPEN;
    own.fence_is_told = false;
    atomic_store_explicit(&own.mark, mark, memory_order_release);
}

/* Prepare the state at the first call of this process. False: not possible now, so the call passes through. */
static bool is_ready(void)
{
    uint32_t mark = atomic_load_explicit(&gwi_wipe.mark, memory_order_relaxed);
    if (gwi_likely(atomic_load_explicit(&own.mark, memory_order_acquire) == mark))
        return true;
    if (mark == 0 || !gwi_lock()) /* 0: in a forked child, before a wrapper has given it its mark */
        return false;
    if (own.mark != mark)
        begin_process(mark);
    gwi_unlock();
    return true;
}

/* True if the program makes this call, not the hook. */
static bool is_programs(gw_slot *slot, unsigned fn)
{
    enum { NO_SLOT = 1 }; /* inside_fn of the slot that stands for none */
    if (slot == NULL)
        return true;
    uint32_t inside = atomic_load_explicit(&slot->inside_fn, memory_order_relaxed);
    if (inside == 0 || (inside == NO_SLOT && !gwi_slot_is_shared(slot))) /* the wrapper of a GET does not enter */
        return true;
    if (inside != fn + 1)
        return false;
    uint64_t call = atomic_load_explicit(&slot->calls, memory_order_relaxed) ^ (uint64_t)slot->mark << 32;
    if (counted_call == call)
        return false; /* the hook's own call of the same function, inside this wrapper */
    counted_call = call;
    return true;
}

/* Store flags for the event of this call, if the thread can record one. */
static void note_forced(gw_slot *slot, unsigned flags)
{
    if (slot != NULL && gwi_slot_is_shared(slot))
        gwi_slot_note_forced(slot, flags);
}

/* ---- a rule takes effect ---- */

/* Sleep without being a cancellation point, as the driver's calls are none. */
static void wait_ns(uint64_t ns)
{
    struct timespec left = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    while (syscall(SYS_nanosleep, &left, &left) != 0 && errno == EINTR)
        ;
}

/* Decide whether the rule chooses this call. Returns the number of the injection, counted from 1; 0: not chosen. */
static uint64_t chooses(size_t index)
{
    const gw_inject_rule *rule = &gate.plan.rule[index];
    if (rule->after_ns != 0 && gw_monotonic_ns() - own.start_ns < rule->after_ns)
        return 0;
    uint64_t number = atomic_fetch_add(&own.calls[index], 1) + 1;
    if (number < rule->first || number > rule->last || !gw_inject_draws(rule, index, number))
        return 0;
    uint64_t order = atomic_fetch_add(&own.injections[index], 1) + 1;
    return rule->once && order > 1 ? 0 : order;
}

static void record(unsigned fn, const gw_inject_rule *rule, uint64_t order)
{
    if (order <= FACTS_MAX)
        gwi_fact_of(fn, GW_EV_INJECTED, rule->result, order, rule->slow_ns, rule->closes, rule->text);
}

/* Let the supervisor know that the current device is lost, or the first one if there is no context. The driver is
 * called directly, because the rule may name these very functions. */
static void tell_lost(void)
{
    gw_run_shared *shared = gwi_run_shared();
    CUcontext context = NULL;
    CUdevice device = 0;
    if (GWI_DRIVER(cuCtxGetCurrent) == NULL || GWI_DRIVER(cuCtxGetCurrent)(&context) != 0 || context == NULL ||
        GWI_DRIVER(cuCtxGetDevice) == NULL || GWI_DRIVER(cuCtxGetDevice)(&device) != 0 || device < 0 || device > 31)
        device = 0;
    if (shared != NULL)
        atomic_fetch_or(&shared->lost_devices, 1u << device);
}

/* Apply the rules that name the function, in the order of the plan. Slow rules add up; the first one with a result
 * decides. */
static bool inject(gw_slot *slot, unsigned fn, int *ret_result)
{
    unsigned rules = gate.rules[fn] & own.applies;
    for (size_t i = 0; rules >> i != 0; i++) {
        const gw_inject_rule *rule = &gate.plan.rule[i];
        uint64_t order = (rules >> i & 1) != 0 ? chooses(i) : 0;
        if (order == 0)
            continue;
        record(fn, rule, order);
        if (rule->slow_ns != 0)
            wait_ns(rule->slow_ns);
        if (rule->result == 0)
            continue;
        if (rule->is_lost)
            tell_lost();
        if (rule->closes)
            atomic_store(&own.closed, (uint32_t)rule->result << 8 | CLOSED_BY_INJECTION);
        note_forced(slot, GW_EVF_INJECTED);
        *ret_result = rule->result;
        return true;
    }
    return false;
}

/* ---- a closed driver ---- */

/* End the process at its first call after the error. The thread leaves its wrapper first, so that the recording does
 * not say that the process ended inside the driver. */
static void end_process(gw_slot *slot)
{
    if (slot != NULL)
        atomic_store_explicit(&slot->inside_fn, 0, memory_order_release);
    _exit(GW_FENCE_EXIT_STATUS);
}

static int answer_closed(gw_slot *slot, unsigned fn, uint32_t closed)
{
    bool fenced = gate.fence != FENCE_OFF;
    if (is_programs(slot, fn)) {
        if (fenced && !atomic_exchange(&own.fence_is_told, true))
            gwi_fact_of(fn, GW_EV_FENCED, closed >> 8, gate.fence == FENCE_EXIT, 0, 0, NULL);
        if (gate.fence == FENCE_EXIT)
            end_process(slot);
        note_forced(slot,
                    ((closed & 0xff) == CLOSED_BY_INJECTION ? GW_EVF_INJECTED : 0) | (fenced ? GW_EVF_FENCED : 0));
    }
    return (int)(closed >> 8);
}

static bool is_harmless(unsigned fn)
{
    return gate.harmless[fn / 64] >> fn % 64 & 1;
}

/* ---- for the gates ---- */

bool gwi_gate_before(unsigned fn, int *ret_result)
{
    bool answered = false;
    int saved_errno = errno;
    gw_slot *slot = gwi_slot_usable();
    if (!is_ready())
        goto out;
    uint32_t closed = atomic_load_explicit(&own.closed, memory_order_relaxed);
    if (gwi_unlikely(closed != OPEN) && !is_harmless(fn)) {
        *ret_result = answer_closed(slot, fn, closed);
        answered = true;
    } else if (gate.rules[fn] != 0 && is_programs(slot, fn)) {
        answered = inject(slot, fn, ret_result);
    }
out:
    errno = saved_errno;
    return answered;
}

void gwi_gate_failed(int result)
{
    uint32_t open = OPEN;
    if (gate.fence != FENCE_OFF && gw_cuda_is_sticky((unsigned)result))
        atomic_compare_exchange_strong(&own.closed, &open, (uint32_t)result << 8 | CLOSED_BY_FENCE);
}

bool gwi_gates_are_on(void)
{
    return gate.plan.count > 0 || gate.fence != FENCE_OFF;
}

/* ---- the layer ---- */

static void *gate_of(unsigned fn, void *next)
{
    bool all = (gate.closes || gate.needs_begin || gate.fence != FENCE_OFF) && !is_harmless(fn);
    if (gwi_gates[fn] == NULL || (gate.rules[fn] == 0 && !all))
        return NULL;
    gwi_gate_next[fn] = next;
    return gwi_gates[fn];
}

void gwi_gate_begin(void)
{
    const char *plan = getenv("GPUWHY_INJECT"), *fence = getenv("GPUWHY_FENCE");
    char reason[GW_INJECT_REASON_MAX];
    if (gwi.run_dir[0] == '\0') /* what gpuwhy changes must be recorded */
        return;
    if (plan == NULL || plan[0] == '\0' || !gw_inject_parse(plan, &gate.plan, reason))
        gate.plan.count = 0; /* the supervisor has already checked a plan that the user gave */
    if (fence != NULL && fence[0] != '\0')
        gate.fence = strcmp(fence, "exit") == 0 ? FENCE_EXIT : FENCE_ON;
    if (!gwi_gates_are_on())
        return;
    for (unsigned fn = 0; fn < GW_FN_COUNT; fn++) {
        gate.harmless[fn / 64] |= (uint64_t)gw_inject_is_harmless(fn) << fn % 64;
        for (size_t i = 0; i < gate.plan.count; i++)
            gate.rules[fn] |= (uint16_t)(gw_inject_names(&gate.plan.rule[i], fn) ? 1u << i : 0);
    }
    for (size_t i = 0; i < gate.plan.count; i++) {
        const gw_inject_rule *rule = &gate.plan.rule[i];
        gate.closes = gate.closes || rule->closes;
        gate.needs_begin = gate.needs_begin || rule->process != 0 || rule->after_ns != 0;
    }
    gwi_layer_add(gate_of);
}
