/* Records the program's calls of NCCL in the shared buffer: each communicator with its counts and its last calls.
 *
 * A wrapper writes the call before it calls NCCL, because a call that never returns matters most, and its result
 * afterwards. Nothing is allocated and no thread waits for another one. NCCL's communicators are not for several
 * threads at once. If a program does that anyway, calls and numbers may be wrong, but nothing else.
 *
 * The calls of a group (ncclGroupStart to the outermost ncclGroupEnd) do their work at its end, so they get their
 * result there. Communicators that are made in a group get their handle there. */
#include "gwi_nccl.h"
#include "gwi_site.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef gw_buffer_communicator communicator;
typedef gw_buffer_collective collective;

enum { GUESSES = 16 };

/* The group that the thread is in, and what it needs at every call. */
static __thread struct {
    uint32_t depth, group;
    uint64_t touched;       /* the places of the communicators with calls in the group, as bits */
    uint64_t sites_due;     /* see may_take_site() */
    uint32_t tid, mark;     /* tid: valid while `mark` is that of the process */
    uint8_t guess[GUESSES]; /* by handle: the place where it was found last */
} self __attribute__((tls_model("initial-exec")));
_Static_assert(GW_NCCL_COMMUNICATORS <= 64, "a bit for each");

/* For each place: where NCCL will store the handle of a communicator that is being made in a group. */
static ncclComm_t *_Atomic awaited[GW_NCCL_COMMUNICATORS];
static _Atomic uint32_t groups;

/* The type of a function of a library of NCCL. */
#define GW_X(name, call, parameters, ...) typedef int fn_##name parameters;
GW_NCCL_WORK(GW_X)
GW_NCCL_OTHER_WORK(GW_X)
#undef GW_X
#define GW_X(name, parameters) typedef int fn_##name parameters;
GW_NCCL_CONTROL(GW_X)
GW_NCCL_QUERIES(GW_X)
#undef GW_X
#define REAL(library, name) ((fn_##name *)(uintptr_t)gwi_nccl[library].fn[GWI_##name])

/* ---- entering ---- */

/* Return the thread's slot, if calls are recorded now; NULL: pass the call through. */
static gw_slot *recording_slot(void)
{
    gw_slot *slot = gwi_recording_is_off() ? NULL : gwi_slot_usable();
    return slot == NULL || gwi.slots == NULL ? NULL : slot;
}

static uint32_t own_tid(const gw_slot *slot)
{
    uint32_t mark = atomic_load_explicit(&gwi_wipe.mark, memory_order_relaxed);
    if (gwi_unlikely(self.tid == 0 || self.mark != mark))
        self.tid = gwi_slot_is_shared(slot) ? slot->tid : (uint32_t)syscall(SYS_gettid);
    self.mark = mark;
    return self.tid;
}

/* Limit the cost of call sites: after a burst, a thread gets one for each SPACING_TICKS. A call of PyTorch takes longer
 * than that. */
static bool may_take_site(uint64_t now)
{
    enum { SPACING_TICKS = 30000, BURST = 256 }; /* about 10 us */
    if (self.sites_due < now)
        self.sites_due = now;
    if (self.sites_due - now > (uint64_t)SPACING_TICKS * BURST)
        return false;
    self.sites_due += SPACING_TICKS;
    return true;
}

static uint32_t site_of(gw_slot *slot, uint64_t now)
{
    if (atomic_load_explicit(&slot->inside_fn, memory_order_relaxed) != 0 || !may_take_site(now) ||
        !gwi_slot_is_shared(slot))
        return 0;
    int saved_errno = errno;
    atomic_store_explicit(&slot->inside_fn, UINT32_MAX, memory_order_relaxed);
    uint32_t site = gwi_site(slot, GW_FN_COUNT, now, false);
    atomic_store_explicit(&slot->inside_fn, 0, memory_order_release);
    errno = saved_errno;
    return site;
}

/* Read the clock at the beginning and the end of a call. The thread's next quick calls of the driver get this time. So
 * they have a later time than the call if they are later. */
static uint64_t ticks_now(gw_slot *slot)
{
    uint64_t now = gwi_ticks();
    if (atomic_load_explicit(&slot->inside_fn, memory_order_relaxed) == 0)
        atomic_store_explicit(&slot->inside_since, now, memory_order_relaxed);
    return now;
}

/* ---- communicators ---- */

static uint32_t index_of(const communicator *c)
{
    return (uint32_t)(c - gwi.communicators);
}

static bool is_of(communicator *c, uint64_t handle)
{
    return atomic_load_explicit(&c->state, memory_order_acquire) == GW_NCCL_READY &&
           atomic_load_explicit(&c->handle, memory_order_relaxed) == handle;
}

static communicator *find(ncclComm_t comm)
{
    uint64_t handle = (uint64_t)(uintptr_t)comm;
    uint8_t *guess = &self.guess[(handle >> 4 ^ handle >> 12) % GUESSES];
    if (handle == 0 || gwi_likely(is_of(&gwi.communicators[*guess], handle)))
        return handle == 0 ? NULL : &gwi.communicators[*guess];
    for (uint32_t i = 0; i < GW_NCCL_COMMUNICATORS; i++) {
        communicator *c = &gwi.communicators[i];
        if (is_of(c, handle)) {
            *guess = (uint8_t)i;
            return c;
        }
        if (atomic_load_explicit(&c->state, memory_order_relaxed) == GW_NCCL_FREE)
            return NULL; /* places are taken in order */
    }
    return NULL;
}

/* Return the first free place, or else the one whose communicator ended first. NULL: all are in use. */
static communicator *oldest_place(uint32_t *ret_state)
{
    communicator *found = NULL;
    for (uint32_t i = 0; i < GW_NCCL_COMMUNICATORS; i++) {
        communicator *c = &gwi.communicators[i];
        *ret_state = atomic_load_explicit(&c->state, memory_order_relaxed);
        if (*ret_state == GW_NCCL_FREE)
            return c;
        if (*ret_state == GW_NCCL_ENDED && (found == NULL || c->end_ticks < found->end_ticks))
            found = c;
    }
    *ret_state = GW_NCCL_ENDED;
    return found;
}

/* Take a place for a new communicator, in state MAKING. NULL: there is none. */
static communicator *take_place(uint64_t id, uint32_t size, uint32_t rank)
{
    enum { ATTEMPTS_MAX = 8 };
    for (int n = 0; n < ATTEMPTS_MAX; n++) {
        uint32_t state;
        communicator *c = oldest_place(&state);
        if (c == NULL)
            break;
        if (!atomic_compare_exchange_strong(&c->state, &state, GW_NCCL_MAKING))
            continue;
        c->handle = c->end_ticks = c->total = c->collectives = c->p2p = c->is_ready = 0;
        c->is_aborted = c->has_captured = 0;
        c->splits = c->init_site = c->init_tid = 0;
        c->init_ticks = 0;
        for (int i = 0; i < GW_NCCL_CALL_COUNT; i++)
            c->calls[i] = 0;
        for (int i = 0; i < GW_NCCL_CALL_COUNT; i++)
            c->of_kind[i].stamp = 0;
        for (int i = 0; i < GW_NCCL_LAST; i++)
            c->last[i].stamp = 0;
        c->id = id;
        c->size = size;
        c->rank = rank;
        c->device = -1;
        atomic_fetch_add(&c->generation, 1);
        atomic_store(&awaited[index_of(c)], NULL);
        return c;
    }
    atomic_fetch_add(&gwi.head->communicators_lost, 1);
    return NULL;
}

/* Ask NCCL what was not known before. The functions only read the communicator. */
static void learn(int library, communicator *c, ncclComm_t comm)
{
    int size = 0, rank = 0, device = -1;
    if (c->size == 0 && REAL(library, ncclCommCount) != NULL && REAL(library, ncclCommUserRank) != NULL &&
        REAL(library, ncclCommCount)(comm, &size) == GW_NCCL_OK &&
        REAL(library, ncclCommUserRank)(comm, &rank) == GW_NCCL_OK) {
        c->rank = (uint32_t)rank;
        c->size = (uint32_t)size;
    }
    if (REAL(library, ncclCommCuDevice) != NULL && REAL(library, ncclCommCuDevice)(comm, &device) == GW_NCCL_OK)
        c->device = device;
}

/* A communicator has its handle now. */
static void handle_known(int library, communicator *c, ncclComm_t comm, int result)
{
    communicator *old = find(comm);
    if (old != NULL && old != c) { /* its end was not seen */
        old->end_ticks = gwi_ticks();
        atomic_store_explicit(&old->state, GW_NCCL_ENDED, memory_order_release);
    }
    if (result == GW_NCCL_OK) {
        learn(library, c, comm);
        c->is_ready = 1;
    }
    c->handle = (uint64_t)(uintptr_t)comm;
    atomic_store_explicit(&c->state, GW_NCCL_READY, memory_order_release);
}

static void not_made(communicator *c)
{
    c->end_ticks = gwi_ticks();
    atomic_store_explicit(&c->state, GW_NCCL_ENDED, memory_order_release);
}

/* Find the communicator of a call. One whose creation was not seen is added. */
static communicator *communicator_of(int library, ncclComm_t comm)
{
    communicator *c = find(comm);
    if (c != NULL || comm == NULL)
        return c;
    c = take_place(0, 0, 0);
    if (c == NULL)
        return NULL;
    GWI_KEEP_ERRNO(handle_known(library, c, comm, GW_NCCL_OK));
    if (c->size == 0) /* NCCL does not know it either, or it is still being made */
        c->is_ready = 0;
    return c;
}

/* ---- collectives and point-to-point calls ---- */

typedef struct call {
    gw_slot *slot;
    communicator *c;
    collective *entry; /* NULL: the call is not recorded */
    uint64_t stamp;
    uint32_t generation; /* of the communicator's place */
} call;

static bool is_captured(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (gwi_likely(atomic_load_explicit(&gwi.head->captures_open, memory_order_relaxed) == 0) ||
        GWI_DRIVER(cuStreamIsCapturing) == NULL)
        return false;
    GWI_KEEP_ERRNO((void)GWI_DRIVER(cuStreamIsCapturing)(stream, &status));
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Before a later call takes the place of this one, copy it to the place that keeps the last one of its function. */
static void keep_of_kind(communicator *c, const collective *e)
{
    uint64_t stamp = atomic_load_explicit(&e->stamp, memory_order_relaxed);
    if (stamp == 0 || e->call >= GW_NCCL_CALL_COUNT || gw_nccl_has_peer(e->call))
        return;
    collective *kept = &c->of_kind[e->call];
    atomic_store_explicit(&kept->stamp, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    memcpy((char *)kept + sizeof kept->stamp, (const char *)e + sizeof e->stamp, sizeof *e - sizeof e->stamp);
    atomic_store_explicit(&kept->stamp, stamp, memory_order_release);
}

static void begin(call *it, int library, unsigned what, size_t elements, int type, int op, int root_or_peer,
                  ncclComm_t comm, CUstream stream)
{
    it->entry = NULL;
    it->slot = recording_slot();
    it->c = it->slot == NULL ? NULL : communicator_of(library, comm);
    if (it->c == NULL)
        return;
    communicator *c = it->c;
    it->generation = atomic_load_explicit(&c->generation, memory_order_relaxed);
    if (gwi_unlikely(c->size == 0) && atomic_load_explicit(&c->total, memory_order_relaxed) == 0)
        GWI_KEEP_ERRNO(learn(library, c, comm)); /* it was not ready when it got its handle */
    uint64_t now = ticks_now(it->slot), index = atomic_load_explicit(&c->total, memory_order_relaxed);
    _Atomic uint64_t *counter = gw_nccl_has_peer(what) ? &c->p2p : &c->collectives;
    collective *e = &c->last[index % GW_NCCL_LAST];
    keep_of_kind(c, e);
    gwi_bump(&c->total, 1);
    gwi_bump(counter, 1);
    gwi_bump(&c->calls[what], 1);
    atomic_store_explicit(&e->stamp, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    e->ticks = now;
    e->end_ticks = 0;
    e->number = atomic_load_explicit(counter, memory_order_relaxed);
    e->elements = elements;
    e->stream = (uint64_t)(uintptr_t)stream;
    e->tid = own_tid(it->slot);
    e->site = site_of(it->slot, now);
    e->group = self.depth > 0 ? self.group : 0;
    e->type = type;
    e->op = op;
    e->root_or_peer = root_or_peer;
    e->result = 0;
    e->call = (uint16_t)what;
    e->is_captured = is_captured(stream);
    if (e->is_captured)
        c->has_captured = 1;
    e->state = GW_COLLECTIVE_ENTERED;
    it->stamp = index + 1;
    it->entry = e;
    if (self.depth > 0)
        self.touched |= UINT64_C(1) << index_of(c);
    atomic_store_explicit(&e->stamp, it->stamp, memory_order_release);
}

static void settle(communicator *c, collective *e, int result, uint64_t ticks)
{
    uint32_t state = e->is_captured                       ? GW_COLLECTIVE_CAPTURED
                     : e->call == GW_NCCL_WINDOW_REGISTER ? GW_COLLECTIVE_COMPLETED /* it has waited for all ranks */
                                                          : GW_COLLECTIVE_ENQUEUED;
    if (result == GW_NCCL_IN_PROGRESS)
        state = GW_COLLECTIVE_ENTERED;
    else if (result != GW_NCCL_OK)
        state = GW_COLLECTIVE_REFUSED;
    else if (c->is_ready == 0)
        c->is_ready = 1;
    atomic_store_explicit(&e->result, result, memory_order_relaxed);
    atomic_store_explicit(&e->end_ticks, ticks, memory_order_relaxed);
    atomic_store_explicit(&e->state, state, memory_order_release);
}

static void end(const call *it, int result)
{
    /* In a group, an accepted call is only noted by NCCL. */
    if (it->entry == NULL || (self.depth > 0 && result == GW_NCCL_OK) || !gwi_slot_is_ours(it->slot) ||
        atomic_load_explicit(&it->entry->stamp, memory_order_relaxed) != it->stamp ||
        atomic_load_explicit(&it->c->generation, memory_order_relaxed) != it->generation)
        return; /* or another thread has ended the communicator, and its place was used again */
    settle(it->c, it->entry, result, ticks_now(it->slot));
}

/* ---- groups ---- */

static void group_began(void)
{
    if (self.depth++ > 0)
        return;
    self.touched = 0;
    self.group = atomic_fetch_add_explicit(&groups, 1, memory_order_relaxed) + 1;
}

/* `did_run` is false for ncclGroupSimulateEnd(): its calls are like those that are captured into a graph. */
static void settle_group(int library, communicator *c, int result, uint64_t ticks, bool did_run)
{
    ncclComm_t *from = atomic_exchange(&awaited[index_of(c)], NULL);
    if (from != NULL) {
        if ((result == GW_NCCL_OK || result == GW_NCCL_IN_PROGRESS) && *from != NULL)
            handle_known(library, c, *from, result);
        else
            not_made(c);
    }
    for (int i = 0; i < GW_NCCL_LAST; i++) {
        collective *e = &c->last[i];
        if (atomic_load_explicit(&e->stamp, memory_order_relaxed) != 0 && e->group == self.group &&
            e->state == GW_COLLECTIVE_ENTERED) {
            if (!did_run)
                c->has_captured = e->is_captured = 1;
            settle(c, e, result, ticks);
        }
    }
}

static void group_ended(int library, int result, bool did_run)
{
    if (self.depth == 0 || --self.depth > 0 || self.touched == 0)
        return;
    gw_slot *slot = recording_slot();
    uint64_t ticks = slot == NULL ? 0 : ticks_now(slot);
    for (uint32_t i = 0; i < GW_NCCL_COMMUNICATORS && ticks != 0; i++)
        if ((self.touched >> i & 1) != 0)
            GWI_KEEP_ERRNO(settle_group(library, &gwi.communicators[i], result, ticks, did_run));
    self.touched = 0;
}

/* ---- making and ending communicators ---- */

static uint64_t mixed(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static uint64_t hash_of_id(const ncclUniqueId *id)
{
    uint64_t word[GW_NCCL_ID_BYTES / 8], hash = 1;
    memcpy(word, id, sizeof word);
    for (size_t i = 0; i < sizeof word / sizeof word[0]; i++)
        hash = mixed(hash, word[i]);
    return hash | 1;
}

/* A call that makes a communicator begins. NULL: it is not recorded. */
static communicator *making(uint64_t id, int size, int rank)
{
    gw_slot *slot = recording_slot();
    communicator *c =
        slot == NULL ? NULL : take_place(id, size > 0 ? (uint32_t)size : 0, rank > 0 ? (uint32_t)rank : 0);
    if (c == NULL)
        return NULL;
    c->init_ticks = gwi_ticks();
    c->init_tid = own_tid(slot);
    c->init_site = site_of(slot, c->init_ticks);
    return c;
}

static void made(int library, communicator *c, ncclComm_t *comm, int result)
{
    if (c == NULL || gwi.slots == NULL || c < gwi.communicators || c >= gwi.communicators + GW_NCCL_COMMUNICATORS)
        return;
    if ((result != GW_NCCL_OK && result != GW_NCCL_IN_PROGRESS) || comm == NULL)
        not_made(c);
    else if (self.depth > 0) {
        atomic_store(&awaited[index_of(c)], comm);
        self.touched |= UINT64_C(1) << index_of(c);
    } else if (*comm != NULL)
        GWI_KEEP_ERRNO(handle_known(library, c, *comm, result));
    else
        not_made(c); /* ncclCommSplit() without a color */
}

static void made_all(int library, ncclComm_t *comms, int count, int result)
{
    if (recording_slot() == NULL)
        return;
    uint64_t id = mixed(mixed(gwi_ticks(), gwi.head->pid), (uintptr_t)comms) | 1;
    for (int i = 0; i < count && result == GW_NCCL_OK && comms != NULL; i++) {
        communicator *c = making(id, count, i);
        if (c != NULL)
            made(library, c, &comms[i], result);
    }
}

/* The number of splits is the same in all ranks, so the result is, too. */
static uint64_t id_of_child(int library, ncclComm_t comm, int color)
{
    communicator *parent = recording_slot() == NULL ? NULL : communicator_of(library, comm);
    uint32_t number = parent == NULL ? 0 : ++parent->splits;
    return parent == NULL || parent->id == 0 ? 0 : mixed(mixed(parent->id, number), (uint32_t)color) | 1;
}

/* Ranks that are left out do not call it. The others agree on the numbers of splits and shrinks alike. */
static communicator *shrinking(int library, ncclComm_t comm, const int *excluded, int count)
{
    communicator *parent = recording_slot() == NULL ? NULL : communicator_of(library, comm);
    uint32_t size = parent == NULL ? 0 : parent->size, rank = parent == NULL ? 0 : parent->rank, below = 0;
    for (int i = 0; i < count && excluded != NULL; i++)
        below += excluded[i] >= 0 && (uint32_t)excluded[i] < rank;
    bool is_known = count > 0 && (uint32_t)count < size && below <= rank;
    return making(id_of_child(library, comm, -1 - count), is_known ? (int)(size - (uint32_t)count) : 0,
                  is_known ? (int)(rank - below) : 0);
}

/* The ranks that join know the unique id alone, and most of the others do not know it. So no rank knows an id that all
 * of them know. The others keep their ranks. */
static communicator *growing(int library, ncclComm_t comm, int size, int rank)
{
    const communicator *parent = recording_slot() == NULL || comm == NULL ? NULL : communicator_of(library, comm);
    return making(0, size, parent != NULL ? (int)parent->rank : rank);
}

/* Call this before NCCL ends the communicator: another thread may get its handle at once. */
static void ending(ncclComm_t comm, bool is_abort)
{
    communicator *c = recording_slot() == NULL ? NULL : find(comm);
    if (c == NULL)
        return;
    c->is_aborted = c->is_aborted || is_abort;
    c->end_ticks = gwi_ticks();
    atomic_store_explicit(&c->state, GW_NCCL_ENDED, memory_order_release);
}

/* The work of a communicator was stopped, but its handle can still be used, to make another one of it. `ticks`: before
 * the call, so that a communicator that the same call makes is later. */
static void revoked(int library, ncclComm_t comm, int result, uint64_t ticks)
{
    communicator *c = recording_slot() == NULL || (result != GW_NCCL_OK && result != GW_NCCL_IN_PROGRESS)
                          ? NULL
                          : communicator_of(library, comm);
    if (c == NULL)
        return;
    c->is_aborted = true;
    c->end_ticks = ticks;
}

/* ---- wrappers ---- */

/* The wrappers of a library. Everything above is shared by the libraries. */
#define WORK(library, name, what, parameters, arguments, op_of, root_of)                                               \
    CALL(library, name, what, parameters, arguments, elements, type, op_of, root_of, stream)
#define OTHER(library, name, what, parameters, arguments, elements_of, type_of, peer_of, stream_of)                    \
    CALL(library, name, what, parameters, arguments, elements_of, type_of, -1, peer_of, stream_of)
#define CALL(library, name, what, parameters, arguments, elements_of, type_of, op_of, root_of, stream_of)              \
    static int wrap_##library##_##name parameters                                                                      \
    {                                                                                                                  \
        call it;                                                                                                       \
        begin(&it, library, GW_NCCL_##what, elements_of, type_of, op_of, root_of, comm, stream_of);                    \
        int result = REAL(library, name) arguments;                                                                    \
        end(&it, result);                                                                                              \
        return result;                                                                                                 \
    }

#define MAKES(library, name, parameters, arguments, making, where)                                                     \
    static int wrap_##library##_##name parameters                                                                      \
    {                                                                                                                  \
        communicator *c = making;                                                                                      \
        int result = REAL(library, name) arguments;                                                                    \
        made(library, c, where, result);                                                                               \
        return result;                                                                                                 \
    }

#define ENDS(library, name, is_abort)                                                                                  \
    static int wrap_##library##_##name(ncclComm_t comm)                                                                \
    {                                                                                                                  \
        ending(comm, is_abort);                                                                                        \
        return REAL(library, name)(comm);                                                                              \
    }

#define WRAPPERS(library)                                                                                              \
    GW_NCCL_WORK(WORK_##library)                                                                                       \
    GW_NCCL_OTHER_WORK(OTHER_##library)                                                                                \
    MAKES(library, ncclCommInitRank, (ncclComm_t * ret_comm, int size, ncclUniqueId id, int rank),                     \
          (ret_comm, size, id, rank), making(hash_of_id(&id), size, rank), ret_comm)                                   \
    MAKES(library, ncclCommInitRankConfig, (ncclComm_t * ret_comm, int size, ncclUniqueId id, int rank, void *config), \
          (ret_comm, size, id, rank, config), making(hash_of_id(&id), size, rank), ret_comm)                           \
    MAKES(library, ncclCommInitRankScalable,                                                                           \
          (ncclComm_t * ret_comm, int size, int rank, int id_count, ncclUniqueId *ids, void *config),                  \
          (ret_comm, size, rank, id_count, ids, config),                                                               \
          making(id_count > 0 && ids != NULL ? hash_of_id(ids) : 0, size, rank), ret_comm)                             \
    MAKES(library, ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *ret_comm, void *config),           \
          (comm, color, key, ret_comm, config), making(id_of_child(library, comm, color), 0, 0), ret_comm)             \
    MAKES(library, ncclCommGrow,                                                                                       \
          (ncclComm_t comm, int size, const ncclUniqueId *id, int rank, ncclComm_t *ret_comm, void *config),           \
          (comm, size, id, rank, ret_comm, config), growing(library, comm, size, rank), ret_comm)                      \
    static int wrap_##library##_ncclCommShrink(ncclComm_t comm, int *excluded, int excluded_count,                     \
                                               ncclComm_t *ret_comm, void *config, int flags)                          \
    {                                                                                                                  \
        uint64_t since = recording_slot() == NULL ? 0 : gwi_ticks();                                                   \
        communicator *c = shrinking(library, comm, excluded, excluded_count);                                          \
        int result = REAL(library, ncclCommShrink)(comm, excluded, excluded_count, ret_comm, config, flags);           \
        if ((flags & GW_NCCL_SHRINK_ABORT) != 0)                                                                       \
            revoked(library, comm, result, since);                                                                     \
        made(library, c, ret_comm, result);                                                                            \
        return result;                                                                                                 \
    }                                                                                                                  \
    static int wrap_##library##_ncclCommRevoke(ncclComm_t comm, int flags)                                             \
    {                                                                                                                  \
        uint64_t since = recording_slot() == NULL ? 0 : gwi_ticks();                                                   \
        int result = REAL(library, ncclCommRevoke)(comm, flags);                                                       \
        revoked(library, comm, result, since);                                                                         \
        return result;                                                                                                 \
    }                                                                                                                  \
    ENDS(library, ncclCommFinalize, false)                                                                             \
    ENDS(library, ncclCommDestroy, false)                                                                              \
    ENDS(library, ncclCommAbort, true)                                                                                 \
    static int wrap_##library##_ncclCommInitAll(ncclComm_t *ret_comms, int count, const int *devices)                  \
    {                                                                                                                  \
        int result = REAL(library, ncclCommInitAll)(ret_comms, count, devices);                                        \
        made_all(library, ret_comms, count, result);                                                                   \
        return result;                                                                                                 \
    }                                                                                                                  \
    static int wrap_##library##_ncclGroupStart(void)                                                                   \
    {                                                                                                                  \
        int result = REAL(library, ncclGroupStart)();                                                                  \
        if (result == GW_NCCL_OK)                                                                                      \
            group_began();                                                                                             \
        return result;                                                                                                 \
    }                                                                                                                  \
    static int wrap_##library##_ncclGroupEnd(void)                                                                     \
    {                                                                                                                  \
        int result = REAL(library, ncclGroupEnd)();                                                                    \
        group_ended(library, result, true);                                                                            \
        return result;                                                                                                 \
    }                                                                                                                  \
    static int wrap_##library##_ncclGroupSimulateEnd(void *simulation)                                                 \
    {                                                                                                                  \
        int result = REAL(library, ncclGroupSimulateEnd)(simulation);                                                  \
        group_ended(library, result, false);                                                                           \
        return result;                                                                                                 \
    }

#define WORK_0(...)  WORK(0, __VA_ARGS__)
#define WORK_1(...)  WORK(1, __VA_ARGS__)
#define OTHER_0(...) OTHER(0, __VA_ARGS__)
#define OTHER_1(...) OTHER(1, __VA_ARGS__)
WRAPPERS(0)
WRAPPERS(1)

#define ROW_0(name, ...) [GWI_##name] = (void *)wrap_0_##name,
#define ROW_1(name, ...) [GWI_##name] = (void *)wrap_1_##name,
static gwi_nccl_table wrappers = {{GW_NCCL_WORK(ROW_0) GW_NCCL_OTHER_WORK(ROW_0) GW_NCCL_CONTROL(ROW_0)},
                                  {GW_NCCL_WORK(ROW_1) GW_NCCL_OTHER_WORK(ROW_1) GW_NCCL_CONTROL(ROW_1)}};

void gwi_nccl_begin(void)
{
    gwi_wipe.looks_for_nccl = true;
    gwi_nccl_look(&wrappers);
}
