/* Stores trails in a small set-associative cache, and compares a stack with them. */
#include "gwi_trail.h"

#include "gwi_hook.h"
#include "gwi_machine.h"
#include "gwi_modules.h"

/* All fields are atomic: another thread may write them during a read. `version` is odd during a write, and a new
 * even number afterwards. */
typedef struct trail {
    _Atomic uint32_t version;
    _Atomic uint32_t word_count;
    _Atomic uint32_t module_count;
    _Atomic uint32_t uses_bp;
    _Atomic uint64_t sp, bp, pc, key, result;
    _Atomic uint32_t distance[GWI_TRAIL_WORDS];
    _Atomic uint64_t value[GWI_TRAIL_WORDS];
    _Atomic uint64_t module_pc[GWI_TRAIL_MODULES];
    _Atomic uint16_t module[GWI_TRAIL_MODULES];
} trail;

typedef union trail_space {
    trail trail;
    char bytes[2048];
} trail_space;
_Static_assert(sizeof(trail_space) == 2048 && GWI_TRAIL_BYTES == GWI_TRAIL_SETS * GWI_TRAIL_WAYS * sizeof(trail_space),
               "as the header says");

static trail_space *_Atomic trails;
static _Atomic uint32_t next_way;

/* Readers use acquire, and the writer uses release. A reader of a changed field also sees the changed `version`,
 * and ignores what it read. On x86-64, this order costs nothing. */
#define GET(field)        atomic_load_explicit(&(field), memory_order_acquire)
#define SET(field, value) atomic_store_explicit(&(field), (value), memory_order_release)

void gwi_trail_place(void *memory)
{
    atomic_store(&trails, memory);
}

static trail_space *set_of(trail_space *all, const gwi_trail_start *start)
{
    uint64_t hash = ((start->sp ^ start->pc << 20) + start->key) * 0x9e3779b97f4a7c15ull;
    return &all[(hash >> 57) * GWI_TRAIL_WAYS]; /* the upper 7 bits of the hash */
}
_Static_assert(GWI_TRAIL_SETS == 1 << 7, "as many as the hash can tell");

/* Compare the words of a trail with the stack. follow() ignores the result if another thread changes the trail.
 * Even then, no read may be outside the stack. */
static bool words_agree(trail *t, uint64_t sp, uint64_t stack_bytes)
{
    uint32_t count = GET(t->word_count);
    for (uint32_t i = 0; i < count && i < GWI_TRAIL_WORDS; i++) {
        uint64_t distance = GET(t->distance[i]);
        if (distance > stack_bytes - sizeof(uint64_t) || gwi_peek(sp + distance) != GET(t->value[i]))
            return false;
    }
    return true;
}

static bool modules_are_there(trail *t)
{
    uint32_t count = GET(t->module_count);
    for (uint32_t i = 0; i < count && i < GWI_TRAIL_MODULES; i++)
        if (!gwi_module_is_there(GET(t->module[i]), GET(t->module_pc[i])))
            return false;
    return true;
}

static bool follow(trail *t, const gwi_trail_start *start, uint64_t stack_end, uint64_t *ret_result)
{
    uint32_t version = atomic_load_explicit(&t->version, memory_order_acquire);
    if (version == 0 || version % 2 != 0 || GET(t->sp) != start->sp || GET(t->pc) != start->pc ||
        GET(t->key) != start->key || (GET(t->uses_bp) && GET(t->bp) != start->bp))
        return false;
    uint64_t result = GET(t->result);
    if (!words_agree(t, start->sp, stack_end - start->sp) || !modules_are_there(t))
        return false;
    *ret_result = result;
    return GET(t->version) == version;
}

bool gwi_trail_follow(const gwi_trail_start *start, uint64_t stack_end, uint64_t *ret_result)
{
    trail_space *all = atomic_load_explicit(&trails, memory_order_relaxed);
    if (all == NULL)
        return false;
    trail_space *set = set_of(all, start);
    for (unsigned way = 0; way < GWI_TRAIL_WAYS; way++)
        if (follow(&set[way].trail, start, stack_end, ret_result))
            return true;
    return false;
}

bool gwi_trail_is_wanted(const gwi_trail_start *start)
{
    enum { TRY_EVERY = 16 };
    static _Atomic uint32_t asked;
    trail_space *all = atomic_load_explicit(&trails, memory_order_relaxed);
    if (all == NULL)
        return false;
    trail_space *set = set_of(all, start);
    for (unsigned way = 0; way < GWI_TRAIL_WAYS; way++)
        if (GET(set[way].trail.version) == 0)
            return true;
    return atomic_fetch_add_explicit(&asked, 1, memory_order_relaxed) % TRY_EVERY == 0;
}

void gwi_trail_begin(gwi_trail_draft *draft, const gwi_trail_start *start)
{
    draft->start = *start;
    draft->is_good = true;
    draft->uses_bp = false;
    draft->word_count = draft->module_count = 0;
}

void gwi_trail_module(gwi_trail_draft *draft, uint32_t module, uint64_t pc)
{
    for (uint32_t i = 0; i < draft->module_count; i++)
        if (draft->module[i] == module)
            return;
    if (draft->module_count == GWI_TRAIL_MODULES) {
        draft->is_good = false;
        return;
    }
    draft->module[draft->module_count] = (uint16_t)module;
    draft->module_pc[draft->module_count++] = pc;
}

/* Return a free entry, or the next one to replace. */
static trail *choose(trail_space *set)
{
    for (unsigned way = 0; way < GWI_TRAIL_WAYS; way++)
        if (GET(set[way].trail.version) == 0)
            return &set[way].trail;
    return &set[atomic_fetch_add_explicit(&next_way, 1, memory_order_relaxed) % GWI_TRAIL_WAYS].trail;
}

void gwi_trail_keep(const gwi_trail_draft *draft, uint64_t result)
{
    trail_space *all = atomic_load_explicit(&trails, memory_order_relaxed);
    if (all == NULL || !draft->is_good)
        return;
    trail *t = choose(set_of(all, &draft->start));
    uint32_t version = GET(t->version);
    if (version % 2 != 0 || !atomic_compare_exchange_strong(&t->version, &version, version + 1))
        return;
    SET(t->sp, draft->start.sp);
    SET(t->bp, draft->start.bp);
    SET(t->pc, draft->start.pc);
    SET(t->key, draft->start.key);
    SET(t->result, result);
    SET(t->uses_bp, draft->uses_bp);
    for (uint32_t i = 0; i < draft->word_count; i++) {
        SET(t->distance[i], draft->distance[i]);
        SET(t->value[i], draft->value[i]);
    }
    for (uint32_t i = 0; i < draft->module_count; i++) {
        SET(t->module[i], draft->module[i]);
        SET(t->module_pc[i], draft->module_pc[i]);
    }
    SET(t->word_count, draft->word_count);
    SET(t->module_count, draft->module_count);
    atomic_store_explicit(&t->version, version + 2, memory_order_release);
}
