/* Maps a stack to the number of its call site.
 *
 * The key is computed from everything that is recorded about a stack: all return addresses (up to GW_SITE_NATIVE_MAX),
 * their files, and all Python code and instructions. Two different stacks share a number only if two 64-bit hashes
 * collide.
 *
 * The table of keys uses open addressing in its own memory. Threads do not wait for each other. Only if another thread
 * is writing the same new site, a thread waits about 20 us for its number. */
#include "gwi_site.h"

#include "gwi_hook.h"
#include "gwi_python.h"
#include "gwi_unwind.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    SITES_MAX = 64 << 10,
    TABLE_BITS = 17, /* twice as many entries as sites */
    TABLE_PLACES = 1 << TABLE_BITS,
    PROBES_MAX = 256,
    PATIENCE = 500, /* rounds of wait_for(), about 20 us */
    BEING_WRITTEN = -1
};

typedef struct place {
    _Atomic uint64_t key; /* 0: free */
    _Atomic int32_t site; /* the number; 0: not written yet, or writing failed; or BEING_WRITTEN */
    uint32_t reserved;
} place;

static struct {
    struct memory *_Atomic memory; /* NULL: could not be mapped, or sites were not requested */
    _Atomic uint32_t numbers_given;
    _Atomic uint32_t keys_taken;
    _Atomic uint32_t own_module; /* the hook's own module; 0: not looked up yet */
    _Atomic uint32_t modules_seen;
    _Atomic uint32_t said_full;
} sites;

/* ---- a stack ---- */

typedef struct stack {
    gwi_walk native;
    unsigned python_flags;
    uint32_t python_count;
    uint32_t borrowed; /* the site whose Python frames this thread uses; 0: none */
    bool is_main;
    gwi_python_memory *memory; /* NULL: read the frames in place; otherwise `space` below */
    gwi_python_frame python[GW_SITE_PYTHON_MAX];
    gwi_python_memory space;
} stack;

/* ---- start of a process ---- */

/* All memory of the call sites, in one mapping. Most of it is never touched. */
typedef struct memory {
    place table[TABLE_PLACES];
    char unwind[GWI_UNWIND_BYTES];
    char trails[GWI_TRAIL_BYTES];
    char modules[GWI_MODULES_BYTES];
    stack scratch[GW_SLOT_COUNT]; /* for each slot; not on the thread's stack, which may be small */
} memory;

/* In a forked child, clear the parent's stacks and sites, but keep the tables of modules and Python interpreters. They
 * are still valid. Finding thousands of files again would take milliseconds. */
static void forget_parents(memory *m)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), all = offsetof(memory, modules), whole = all / page * page;
    (void)madvise(m, whole, MADV_DONTNEED);
    memset((char *)m + whole, 0, all - whole);
}

void gwi_site_begin(void)
{
    memory *m = atomic_load(&sites.memory);
    if (!gwi.records_sites)
        return;
    if (m != NULL) {
        forget_parents(m);
        gwi_modules_forked();
        if (gwi_python_look_forked())
            sites.modules_seen = 0;
        gwi_python_forked();
    } else {
        m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (m == MAP_FAILED)
            return;
        (void)madvise(m, sizeof *m, MADV_NOHUGEPAGE);
        gwi_modules_place(m->modules);
    }
    gwi_unwind_place(m->unwind);
    gwi_trail_place(m->trails);
    sites.numbers_given = sites.keys_taken = sites.said_full = 0;
    atomic_store(&sites.memory, m);
}

/* Mix a word into a key. Not a cryptographic hash, but stacks that differ in one word get different keys. */
static uint64_t mixed(uint64_t key, uint64_t word)
{
    key = (key ^ word) * 0xff51afd7ed558ccdull;
    return key ^ key >> 32;
}

/* Look for Python interpreters if the number of modules has changed since the last look. A new interpreter always comes
 * with a new file. */
static void look_for_python(void)
{
    uint32_t count = gwi_modules_count();
    if (gwi_likely(atomic_load_explicit(&sites.modules_seen, memory_order_relaxed) == count))
        return;
    (void)gwi_python_look();
    atomic_store_explicit(&sites.modules_seen, count, memory_order_relaxed);
}

static uint64_t read_python(stack *s, uint64_t key)
{
    s->python_flags = s->python_count = s->borrowed = 0;
    s->is_main = false;
    look_for_python();
    s->python_count =
        (uint32_t)gwi_python_frames(s->python, GW_SITE_PYTHON_MAX, s->memory, &s->python_flags, &s->is_main);
    for (uint32_t i = 0; i < s->python_count; i++) {
        const gwi_python_frame *frame = &s->python[i];
        uint64_t where = (uint64_t)(uint32_t)frame->instruction << 1 | frame->is_entry;
        key = mixed(key ^ where << 31, frame->code ^ frame->mark);
    }
    if ((s->python_flags & GW_SITE_PYTHON_BORROWED) != 0) {
        s->borrowed = gwi_python_borrowed_site();
        if (s->borrowed == 0)
            s->python_flags &= ~(unsigned)GW_SITE_PYTHON_BORROWED;
    }
    return mixed(key, (uint64_t)s->borrowed << 32 | s->python_flags << 16 | s->python_count);
}

/* ---- records ---- */

static bool write_module(void *user, const gwi_module *module)
{
    (void)user;
    return gwi_fact(GW_EV_MAPPED, module->start, module->end - module->start, module->bias, module->build_id,
                    module->path);
}

static bool write_modules(const gwi_walk *walk)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < walk->count; i++) {
        uint32_t module = walk->module[i];
        if (module != 0 && module != last && !gwi_module_announce(module, write_module, NULL))
            return false;
        last = module;
    }
    return true;
}

/* Collects frames and writes them to the buffer three at a time. */
typedef struct frame_writer {
    uint32_t site, first, pending;
    uint64_t frame[3];
    bool failed;
} frame_writer;

static void flush_frames(frame_writer *w)
{
    if (w->pending == 0 || w->failed)
        return;
    while (w->pending < 3)
        w->frame[w->pending++] = 0;
    w->failed =
        !gwi_fact(GW_EV_SITE_FRAMES, w->site | (uint64_t)w->first << 32, w->frame[0], w->frame[1], w->frame[2], NULL);
    w->first += 3;
    w->pending = 0;
}

static void put_frame(frame_writer *w, uint64_t frame)
{
    w->frame[w->pending++] = frame;
    if (w->pending == 3)
        flush_frames(w);
}

static uint64_t python_frame(const gwi_python_frame *frame, gwi_python_memory *python_memory)
{
    /* only returns the number: write_codes() has written the records */
    uint32_t code = gwi_python_code(frame, python_memory);
    uint64_t entry = frame->is_entry ? GW_FRAME_ENTRY : 0;
    return GW_FRAME_OF_CODE(code, frame->instruction) | entry;
}

/* Write the records of the Python code on the stack. They must come before the SITE record. Returns false if one of
 * them could not be written. */
static bool write_codes(const stack *s)
{
    for (uint32_t i = 0; i < s->python_count; i++)
        if (gwi_python_code(&s->python[i], s->memory) == 0)
            return false;
    return true;
}

static bool write_frames(uint32_t site, const stack *s)
{
    frame_writer w = {.site = site};
    uint32_t count = s->native.count + s->python_count;
    unsigned flags = s->native.flags | s->python_flags;
    if (!gwi_fact(GW_EV_SITE, site, count, flags, s->borrowed, NULL))
        return false;
    for (uint32_t i = 0; i < s->native.count; i++)
        put_frame(&w, s->native.pc[i]);
    for (uint32_t i = 0; i < s->python_count; i++)
        put_frame(&w, python_frame(&s->python[i], s->memory));
    flush_frames(&w);
    return !w.failed;
}

/* Write all records of a new stack, and return the number of its site; 0 if there is no room or no free number. Unless
 * `is_precious`, at least half of the buffer must be free: it is better to lose sites than events. */
static GWI_COLD uint32_t write_site(gw_slot *slot, uint64_t ticks, bool is_precious, const stack *s)
{
    uint32_t site = 0;
    if (!is_precious && !gwi_buffer_is_roomy())
        return 0;
    gwi_slot_facts_begin(slot, ticks, is_precious);
    if (write_modules(&s->native) && write_codes(s)) {
        uint32_t number = atomic_fetch_add(&sites.numbers_given, 1) + 1;
        if (number < GW_SITE_FRAMEWORK_FIRST && write_frames(number, s))
            site = number;
    }
    gwi_slot_facts_end(slot);
    return site;
}

/* ---- the table ---- */

static void say_full(void)
{
    if (atomic_exchange(&sites.said_full, 1) == 0)
        gwi_note(GW_NOTE_SITES_FULL, SITES_MAX, 0, 0, NULL);
}

/* Return the entry of `key`, and create it if necessary; NULL: the table is full. */
static place *place_of(place *table, uint64_t key)
{
    uint64_t at = key >> (64 - TABLE_BITS);
    for (unsigned n = 0; n < PROBES_MAX; n++) {
        place *p = &table[(at + n) % TABLE_PLACES];
        uint64_t found = atomic_load_explicit(&p->key, memory_order_relaxed);
        if (gwi_likely(found == key))
            return p;
        if (found != 0)
            continue;
        if (atomic_load(&sites.keys_taken) >= SITES_MAX)
            break;
        if (atomic_compare_exchange_strong(&p->key, &found, key)) {
            atomic_fetch_add(&sites.keys_taken, 1);
            return p;
        }
        if (found == key)
            return p;
    }
    say_full();
    return NULL;
}

/* Wait for a thread that is writing this site. Returns 0 if it does not finish in time or fails. */
static int32_t wait_for(place *p)
{
    int32_t site = BEING_WRITTEN;
    for (unsigned n = 0; n < PATIENCE && site == BEING_WRITTEN; n++) {
#if defined(__x86_64__)
        _mm_pause();
#endif
        site = atomic_load_explicit(&p->site, memory_order_acquire);
    }
    return site == BEING_WRITTEN ? 0 : site;
}

static GWI_COLD uint32_t site_of_new(place *p, gw_slot *slot, uint64_t ticks, bool is_precious, const stack *s)
{
    int32_t before = 0;
    if (atomic_compare_exchange_strong(&p->site, &before, BEING_WRITTEN)) {
        uint32_t site = write_site(slot, ticks, is_precious, s);
        atomic_store_explicit(&p->site, (int32_t)site, memory_order_release);
        return site;
    }
    if (before == BEING_WRITTEN)
        before = wait_for(p);
    /* the other thread was descheduled or had no room: write the stack again, under a second number */
    if (before == 0)
        return write_site(slot, ticks, is_precious, s);
    return (uint32_t)before;
}

/* The registers are read here, so this function must not return before the walk has ended. */
static __attribute__((noinline)) uint32_t site_here(memory *m, gw_slot *slot, unsigned fn, uint64_t ticks,
                                                    bool is_precious)
{
    stack *s = &m->scratch[gwi_slot_index(slot)];
    uint64_t reg[GWI_REGISTER_COUNT];
    uint32_t known = gwi_registers_here(reg);
    s->native.known = gwi_slot_stack(slot);
    s->native.skip_module = atomic_load_explicit(&sites.own_module, memory_order_relaxed);
    s->native.salt = fn;
    s->native.only_key = true;
    s->memory = gwi_python_memory_begin(&s->space, slot->tid == gwi.head->pid);
    gwi_unwind(&s->native, reg, known);
    uint64_t key = read_python(s, s->native.key);
    if (s->native.count == 0 && !s->native.is_short && s->python_count == 0 && s->borrowed == 0)
        return 0; /* the stack could not be read */
    place *p = place_of(m->table, key != 0 ? key : 1);
    if (p == NULL) {
        if (s->is_main)
            gwi_python_main_site(0); /* the current site is unknown, and other threads must not use the old one */
        return 0;
    }
    int32_t site = atomic_load_explicit(&p->site, memory_order_acquire);
    if (gwi_unlikely(site <= 0)) {
        s->native.only_key = false;
        if (s->native.is_short)
            gwi_unwind(&s->native, reg, known);
        site = (int32_t)site_of_new(p, slot, ticks, is_precious, s);
    }
    if (s->is_main && s->python_count != 0)
        gwi_python_main_site((uint32_t)site);
    return (uint32_t)site;
}

/* ---- the calling file ---- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* Return the name of the innermost file that is neither the driver nor CUDA's runtime; "": not known. Code that is in
 * no file, such as generated code, may have any caller. */
static const char *caller_of(const gwi_walk *walk)
{
    for (uint32_t i = 0; i < walk->count && walk->module[i] != 0; i++) {
        const char *name = file_name(gwi_module_at(walk->module[i])->path);
        if (!begins(name, "libcuda.so") && !begins(name, "libcudart"))
            return name;
    }
    return "";
}

/* The registers are read here, so this function must not return before the walk has ended. */
static __attribute__((noinline)) bool is_not_of(memory *m, gw_slot *slot, const char *name)
{
    gwi_walk *walk = &m->scratch[gwi_slot_index(slot)].native;
    uint64_t reg[GWI_REGISTER_COUNT];
    uint32_t known = gwi_registers_here(reg);
    walk->known = gwi_slot_stack(slot);
    walk->skip_module = atomic_load_explicit(&sites.own_module, memory_order_relaxed);
    walk->salt = GW_FN_COUNT;
    walk->only_key = false;
    gwi_unwind(walk, reg, known);
    const char *caller = caller_of(walk);
    return caller[0] != '\0' && !begins(caller, name);
}

static memory *memory_of(gw_slot *slot)
{
    memory *m = atomic_load_explicit(&sites.memory, memory_order_relaxed);
    if (m == NULL || !gwi_slot_is_shared(slot) || atomic_load_explicit(&gwi.head->sites_off, memory_order_relaxed) != 0)
        return NULL;
    if (gwi_unlikely(atomic_load_explicit(&sites.own_module, memory_order_relaxed) == 0))
        atomic_store(&sites.own_module, gwi_module_find((uintptr_t)gwi_site));
    return m;
}

bool gwi_site_is_not_of(gw_slot *slot, const char *name)
{
    memory *m = memory_of(slot);
    return m != NULL && is_not_of(m, slot, name);
}

uint32_t gwi_site(gw_slot *slot, unsigned fn, uint64_t ticks, bool is_precious)
{
    memory *m = memory_of(slot);
    return m == NULL ? 0 : site_here(m, slot, fn, ticks, is_precious);
}
