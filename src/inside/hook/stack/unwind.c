/* Walks native stacks with compact, cached rules.
 *
 * In nearly all code, the frame address is the stack pointer or the frame pointer plus a constant. The return address
 * is directly below it. The caller's frame pointer is unchanged, or saved at a constant distance. Such a rule fits into
 * one word, together with the number of its module:
 *
 *   bits 0-1    source of the frame address: FROM_SP, FROM_BP, FROM_SAVED; FROM_UNUSUAL: an unusual frame
 *   bits 2-3    where the caller's frame pointer is: BP_SAME, BP_AT_FRAME, BP_AT_BP
 *   bit  4      set if there is no caller
 *   bits 5-16   number of the module
 *   bits 17-40  offset of the frame address, in words, signed
 *   bits 41-56  offset of the saved frame pointer, in words, signed
 *   bit  63     always set, so that a rule is never 0
 *
 * The table holds pairs (address ^ rule, rule), with the address of the instruction. If two threads write an entry at
 * once, the resulting pair matches no address. So a wrong rule is never used.
 *
 * The walk follows only the PC, the stack pointer and the frame pointer. If an unusual frame needs other registers, it
 * starts again and follows all of them. */
#include "gwi_unwind.h"

#include "gwi_hook.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct entry {
    _Atomic uint64_t pc_and_rule, rule;
} entry;
_Static_assert(sizeof(entry) == 16 && GWI_MODULES_MAX <= 4096, "as the header says");

static entry *_Atomic entries;

enum { FROM_UNUSUAL = 0, FROM_SP = 1, FROM_BP = 2, FROM_SAVED = 3 };
enum { BP_SAME = 0, BP_AT_FRAME = 1, BP_AT_BP = 2 };
enum { WORD = 8, FRAME_WORDS_MAX = 1 << 22, BP_WORDS_MAX = 1 << 14 };

#define RULE_IS_SET    (1ull << 63)
#define RULE_IS_LAST   (1ull << 4)
#define RULE_FROM(r)   ((unsigned)(r)&3)
#define RULE_BP(r)     ((unsigned)(r) >> 2 & 3)
#define RULE_MODULE(r) ((uint32_t)((r) >> 5) & 0xfff)
#define RULE_FRAME(r)  (((int64_t)((r) << 23) >> 40) * WORD)
#define RULE_BP_AT(r)  (((int64_t)((r) << 7) >> 48) * WORD)

void gwi_unwind_place(void *memory)
{
    atomic_store(&entries, memory);
}

/* ---- the stack ---- */

/* The memory that a walk may read. The thread's own stack starts at `low` and is read without checks. On another stack,
 * up to STRANGE_STACK_BYTES after `floor` may be read, if the kernel reports each page as readable. */
typedef struct stack {
    uintptr_t low, span; /* the last readable word starts at low + span */
    uintptr_t floor;
    uintptr_t page; /* the last page that was checked and is readable */
} stack;

enum { STRANGE_STACK_BYTES = 16 << 20, ASK_PAGE_BYTES = 4096, LOOKS_MAX = 16 };

/* Find the thread's own stack, and store its limits in `known`. It is the mapping that contains the stack pointer, if:
 * - the thread's TLS is in this mapping at a higher address, or
 * - the kernel created it as the stack of the process.
 *
 * Limits of other stacks are not stored: such a stack may be unmapped while the thread lives. */
static GWI_COLD void look_for_stack(gwi_stack_known *known, uintptr_t sp)
{
    uintptr_t own = (uintptr_t)&gwi_slot;
    bool is_first_thread = syscall(SYS_gettid) == getpid();
    gwi_mapping found;
    known->looks++;
    if (!gwi_mapping_find(sp, &found) || !found.is_readable)
        return;
    if (found.is_first_stack && is_first_thread) {
        known->low = found.low;
        known->high = found.high;
    } else if (!is_first_thread && own > sp && own < found.high) {
        known->low = found.low;
        known->high = own & ~(uintptr_t)(WORD - 1);
    }
}

/* True if `sp` may be on the thread's own stack although it is outside the known limits. Either no limits are known
 * yet, or the stack of the first thread may have grown downwards. */
static bool may_be_own(const gwi_stack_known *known, uintptr_t sp)
{
    return known->high == 0 || (sp < known->low && known->low - sp < STRANGE_STACK_BYTES);
}

static void open_stack(stack *s, gwi_stack_known *known, uintptr_t sp)
{
    s->page = 0;
    bool is_known = sp >= known->low && sp < known->high;
    if (gwi_unlikely(!is_known) && known->looks < LOOKS_MAX && may_be_own(known, sp))
        look_for_stack(known, sp);
    bool has_own = known->high - known->low > WORD;
    s->low = has_own ? known->low : UINTPTR_MAX; /* UINTPTR_MAX: no aligned address is in the range */
    s->span = has_own ? known->high - known->low - WORD : 0;
}

static bool is_in_own(const stack *s, uint64_t at)
{
    return at - s->low <= s->span && at % WORD == 0;
}

static uint64_t own_end(const stack *s)
{
    return s->low + s->span + WORD;
}

static GWI_COLD bool read_strange(stack *s, uintptr_t at, uint64_t *ret)
{
    if (at % WORD != 0 || at < s->floor || at - s->floor >= STRANGE_STACK_BYTES)
        return false;
    uintptr_t page = at & ~(uintptr_t)(ASK_PAGE_BYTES - 1);
    if (page != s->page) {
        if (!gwi_may_read(at))
            return false;
        s->page = page;
    }
    *ret = gwi_peek(at);
    return true;
}

static inline __attribute__((always_inline)) bool read_stack(stack *s, uintptr_t at, uint64_t *ret)
{
    if (gwi_unlikely(at - s->low > s->span || at % WORD != 0))
        return read_strange(s, at, ret);
    *ret = gwi_peek(at);
    return true;
}

static bool read_for_expression(void *user, uintptr_t at, uint64_t *ret_value)
{
    return read_stack(user, at, ret_value);
}

/* ---- computing a rule ---- */

static bool fits(int64_t value, int64_t words_max)
{
    return value % WORD == 0 && value / WORD > -words_max && value / WORD < words_max;
}

static uint64_t packed(unsigned from, unsigned bp, uint32_t module, int64_t frame, int64_t bp_at)
{
    return RULE_IS_SET | from | bp << 2 | (uint64_t)module << 5 | ((uint64_t)(frame / WORD) & 0xffffff) << 17 |
           ((uint64_t)(bp_at / WORD) & 0xffff) << 41;
}

/* Detect an expression that is only "frame pointer + offset", optionally dereferenced. Functions that align their
 * stack have such expressions. */
static bool is_bp_expression(const gwi_cfi_region *region, int64_t at, bool dereferenced, int64_t *ret_offset)
{
    enum { BREG6 = 0x70 + GWI_REG_BP, DEREF = 0x06 };
    uintptr_t from = (uintptr_t)at;
    unsigned bytes = dereferenced ? 3 : 2;
    if (from < region->low || from > region->high || region->high - from < bytes + 1)
        return false;
    const uint8_t *byte = (const uint8_t *)from;
    if (byte[0] != bytes || byte[1] != BREG6 || (byte[2] & 0x80) != 0 || (dereferenced && byte[3] != DEREF))
        return false;
    *ret_offset = (byte[2] & 0x40) != 0 ? (int64_t)byte[2] - 0x80 : byte[2];
    return true;
}

/* Pack the rules into one word. Rules that do not fit are packed as an unusual frame. */
static uint64_t pack(const gwi_cfi_region *region, const gwi_cfi_rules *rules, uint32_t module)
{
    uint64_t unusual = packed(FROM_UNUSUAL, BP_SAME, module, 0, 0);
    unsigned from, bp = BP_SAME;
    int64_t frame = rules->frame_value, bp_at = 0;
    if (rules->return_register >= GWI_REGISTER_COUNT || rules->is_signal_frame)
        return unusual;
    if (rules->how[rules->return_register] == GWI_CFI_UNDEFINED)
        return unusual | RULE_IS_LAST;
    if (rules->how[rules->return_register] != GWI_CFI_AT || rules->value[rules->return_register] != -WORD ||
        rules->how[GWI_REG_SP] != GWI_CFI_SAME)
        return unusual;
    if (rules->frame_is_expression) {
        if (!is_bp_expression(region, rules->frame_value, true, &frame))
            return unusual;
        from = FROM_SAVED;
    } else if (rules->frame_register == GWI_REG_SP || rules->frame_register == GWI_REG_BP) {
        from = rules->frame_register == GWI_REG_SP ? FROM_SP : FROM_BP;
    } else {
        return unusual;
    }
    if (rules->how[GWI_REG_BP] == GWI_CFI_AT) {
        bp = BP_AT_FRAME;
        bp_at = rules->value[GWI_REG_BP];
    } else if (rules->how[GWI_REG_BP] == GWI_CFI_AT_EXPRESSION) {
        if (!is_bp_expression(region, rules->value[GWI_REG_BP], false, &bp_at))
            return unusual;
        bp = BP_AT_BP;
    } else if (rules->how[GWI_REG_BP] != GWI_CFI_SAME) {
        return unusual;
    }
    return fits(frame, FRAME_WORDS_MAX) && fits(bp_at, BP_WORDS_MAX) ? packed(from, bp, module, frame, bp_at) : unusual;
}

static entry *entry_of(entry *table, uintptr_t pc)
{
    return &table[pc * 0x9e3779b97f4a7c15ull >> 50]; /* the upper 14 bits of the hash */
}
_Static_assert(GWI_UNWIND_ENTRIES == 1 << 14, "as many as the hash can tell");

/* Compute and cache the rule for `pc`. If no known module contains `pc`, the rule's module is 0, and the rule is not
 * cached. */
static GWI_COLD uint64_t learn(uintptr_t pc)
{
    gwi_cfi_rules rules;
    uint32_t module = gwi_module_find(pc);
    if (module == 0)
        return packed(FROM_UNUSUAL, BP_SAME, 0, 0, 0);
    const gwi_cfi_region *region = &gwi_module_at(module)->cfi;
    uint64_t rule = packed(FROM_UNUSUAL, BP_SAME, module, 0, 0);
    if (gwi_cfi_find(region, pc, &rules))
        rule = pack(region, &rules, module);
    entry *table = atomic_load(&entries);
    if (table != NULL) {
        entry *e = entry_of(table, pc);
        atomic_store_explicit(&e->pc_and_rule, pc ^ rule, memory_order_relaxed);
        atomic_store_explicit(&e->rule, rule, memory_order_release);
    }
    return rule;
}

static inline uint64_t rule_of(entry *table, uintptr_t pc)
{
    if (gwi_likely(table != NULL)) {
        entry *e = entry_of(table, pc);
        uint64_t rule = atomic_load_explicit(&e->rule, memory_order_acquire);
        if (gwi_likely((atomic_load_explicit(&e->pc_and_rule, memory_order_relaxed) ^ rule) == pc && rule != 0))
            return rule;
    }
    return learn(pc);
}

/* ---- a step ---- */

/* The current frame of a walk. */
typedef struct frame {
    uint64_t reg[GWI_REGISTER_COUNT];
    uint32_t known;
    bool is_exact;  /* the PC is the address of an interrupted instruction, not a return address */
    bool needs_all; /* an unusual frame needed a register that was not followed */
} frame;

enum { KNOWN_FEW = 1u << GWI_REG_BP | 1u << GWI_REG_SP | 1u << GWI_REG_PC };

static bool has(const frame *f, unsigned number)
{
    return (f->known >> number & 1) != 0;
}

/* Compute the caller's register `number`. Returns false if its value is lost. */
static bool recover(const frame *f, const gwi_cfi_region *region, const gwi_cfi_rules *rules,
                    const gwi_cfi_inputs *inputs, uint64_t frame_at, unsigned number, uint64_t *ret)
{
    uint64_t at = frame_at + (uint64_t)rules->value[number];
    switch (rules->how[number]) {
    case GWI_CFI_SAME:
        *ret = number == GWI_REG_SP ? frame_at : f->reg[number];
        return number == GWI_REG_SP || has(f, number);
    case GWI_CFI_AT:
        return inputs->read(inputs->user, at, ret);
    case GWI_CFI_IS:
        *ret = at;
        return true;
    case GWI_CFI_REGISTER:
        if (rules->value[number] < 0 || rules->value[number] >= GWI_REGISTER_COUNT)
            return false;
        *ret = f->reg[rules->value[number]];
        return has(f, (unsigned)rules->value[number]);
    case GWI_CFI_AT_EXPRESSION:
        return gwi_cfi_evaluate(region, (uintptr_t)rules->value[number], inputs, true, frame_at, &at) &&
               inputs->read(inputs->user, at, ret);
    case GWI_CFI_IS_EXPRESSION:
        return gwi_cfi_evaluate(region, (uintptr_t)rules->value[number], inputs, true, frame_at, ret);
    default:
        return false;
    }
}

static bool frame_address(const frame *f, const gwi_cfi_region *region, const gwi_cfi_rules *rules,
                          const gwi_cfi_inputs *inputs, uint64_t *ret)
{
    if (rules->frame_is_expression)
        return gwi_cfi_evaluate(region, (uintptr_t)rules->frame_value, inputs, false, 0, ret);
    *ret = f->reg[rules->frame_register] + (uint64_t)rules->frame_value;
    return has(f, rules->frame_register);
}

typedef enum step { STEP_GOOD, STEP_LAST, STEP_LOST } step;

/* Make one step to the caller, with the full rules from the file. */
static step step_fully(frame *f, stack *s, const gwi_cfi_region *region, uintptr_t pc)
{
    gwi_cfi_rules rules;
    frame caller = {.known = 0};
    uint64_t frame_at;
    if (!gwi_cfi_find(region, pc, &rules))
        return STEP_LOST;
    gwi_cfi_inputs inputs = {f->reg, f->known, read_for_expression, s};
    if (rules.how[rules.return_register] == GWI_CFI_UNDEFINED)
        return STEP_LAST;
    if (!frame_address(f, region, &rules, &inputs, &frame_at)) {
        f->needs_all = true;
        return STEP_LOST;
    }
    for (unsigned i = 0; i < GWI_REGISTER_COUNT; i++)
        if (recover(f, region, &rules, &inputs, frame_at, i, &caller.reg[i]))
            caller.known |= 1u << i;
    if (rules.return_register != GWI_REG_PC) {
        caller.reg[GWI_REG_PC] = caller.reg[rules.return_register];
        caller.known |= has(&caller, rules.return_register) ? 1u << GWI_REG_PC : 0;
    }
    if (!has(&caller, GWI_REG_PC) || !has(&caller, GWI_REG_SP))
        return STEP_LOST;
    if (rules.is_signal_frame)
        s->floor = caller.reg[GWI_REG_SP]; /* the interrupted code may be on another stack */
    else if (caller.reg[GWI_REG_SP] <= f->reg[GWI_REG_SP])
        return STEP_LOST; /* a caller's stack pointer is always higher */
    caller.is_exact = rules.is_signal_frame;
    *f = caller;
    return STEP_GOOD;
}

/* Return whether the bytes before `pc` look like a call. */
static GWI_COLD bool is_behind_call(uint64_t pc)
{
    return pc > ASK_PAGE_BYTES && pc >> 47 == 0 && gwi_may_read((pc - WORD) & ~(uint64_t)(WORD - 1)) &&
           gwi_may_read((pc - 1) & ~(uint64_t)(WORD - 1)) && gwi_follows_call(pc);
}

/* Make one step to the caller through code without call frame information, generated at run time or written by hand.
 * The frame pointer is assumed to point to the caller's saved frame pointer, with the return address above it. Fails if
 * no call precedes the return address. */
static step step_by_pointer(frame *f, stack *s)
{
    uint64_t at = f->reg[GWI_REG_BP], bp, pc;
    if (!has(f, GWI_REG_BP) || at < f->reg[GWI_REG_SP] || is_in_own(s, at) != is_in_own(s, f->reg[GWI_REG_SP]) ||
        !read_stack(s, at, &bp) || !read_stack(s, at + WORD, &pc) || !is_behind_call(pc))
        return STEP_LOST;
    f->reg[GWI_REG_SP] = at + 2 * WORD;
    f->reg[GWI_REG_BP] = bp;
    f->reg[GWI_REG_PC] = pc;
    f->known = KNOWN_FEW;
    f->is_exact = false;
    return STEP_GOOD;
}

static GWI_COLD step step_unusual(frame *f, stack *s, uint64_t rule, uintptr_t pc)
{
    uint32_t module = RULE_MODULE(rule);
    if ((rule & RULE_IS_LAST) != 0)
        return STEP_LAST;
    step done = module != 0 ? step_fully(f, s, &gwi_module_at(module)->cfi, pc) : STEP_LOST;
    return done == STEP_LOST && !f->needs_all ? step_by_pointer(f, s) : done;
}

/* Records a walk as a trail (gwi_trail.h). The frame pointer becomes part of the trail only when a frame is found
 * through it. Many functions use that register for other values, so such a trail matches less often. */
typedef struct trace {
    gwi_trail_draft *draft; /* NULL: no trail is being recorded */
    /* where the frame pointer was read from the stack; 0: it is unchanged since the start of the trail */
    uint64_t bp_at;
    bool bp_is_told;
} trace;

static void trace_bp(trace *t, uint64_t bp)
{
    if (t->bp_is_told)
        return;
    t->bp_is_told = true;
    if (t->bp_at == 0)
        t->draft->uses_bp = true;
    else
        gwi_trail_word(t->draft, t->bp_at, bp);
}

/* Add a step to the trail. `rule` led to the frame address `frame_at` and the return address `pc`. */
static void trace_step(trace *t, const frame *f, uint64_t rule, uint64_t frame_at, uint64_t pc)
{
    uint64_t bp = f->reg[GWI_REG_BP];
    if (RULE_FROM(rule) != FROM_SP || RULE_BP(rule) == BP_AT_BP)
        trace_bp(t, bp);
    if (RULE_FROM(rule) == FROM_SAVED)
        gwi_trail_word(t->draft, bp + (uint64_t)RULE_FRAME(rule), frame_at);
    gwi_trail_word(t->draft, frame_at - WORD, pc);
    if (RULE_BP(rule) != BP_SAME) {
        t->bp_at = (RULE_BP(rule) == BP_AT_FRAME ? frame_at : bp) + (uint64_t)RULE_BP_AT(rule);
        t->bp_is_told = false;
    }
}

static inline __attribute__((always_inline)) step step_usual(frame *f, stack *s, uint64_t rule, trace *t)
{
    uint64_t sp = f->reg[GWI_REG_SP], bp = f->reg[GWI_REG_BP], frame_at, pc;
    if (RULE_FROM(rule) == FROM_SP)
        frame_at = sp + (uint64_t)RULE_FRAME(rule);
    else
        frame_at = bp + (uint64_t)RULE_FRAME(rule);
    if (gwi_unlikely(RULE_FROM(rule) == FROM_SAVED) && !read_stack(s, frame_at, &frame_at))
        return STEP_LOST;
    if (gwi_unlikely(frame_at <= sp) || gwi_unlikely(!read_stack(s, frame_at - WORD, &pc)))
        return STEP_LOST;
    if (t->draft != NULL)
        trace_step(t, f, rule, frame_at, pc);
    if (RULE_BP(rule) != BP_SAME) {
        uint64_t at = (RULE_BP(rule) == BP_AT_FRAME ? frame_at : bp) + (uint64_t)RULE_BP_AT(rule);
        if (gwi_unlikely(!read_stack(s, at, &f->reg[GWI_REG_BP])))
            return STEP_LOST;
    }
    f->reg[GWI_REG_SP] = frame_at;
    f->reg[GWI_REG_PC] = pc;
    f->known = KNOWN_FEW;
    f->is_exact = false;
    return STEP_GOOD;
}

/* ---- the walk ---- */

/* Modules that were checked in this walk and are still mapped. */
typedef struct checked {
    uint32_t last;
    uint16_t module[8];
    unsigned count;
} checked;

static bool is_checked(checked *c, uint32_t module)
{
    for (unsigned i = 0; i < 8 && i < c->count; i++)
        if (c->module[i] == module)
            return true;
    return false;
}

/* Return a valid rule for `pc`. If the module was unloaded since the rule was cached, compute the rule again. */
static inline uint64_t rule_now(checked *c, entry *table, uintptr_t pc, const trace *t)
{
    uint64_t rule = rule_of(table, pc);
    uint32_t module = RULE_MODULE(rule);
    if (gwi_likely(module == c->last) || module == 0)
        return rule;
    if (!is_checked(c, module)) {
        if (gwi_unlikely(!gwi_module_is_there(module, pc))) {
            rule = learn(pc);
            module = RULE_MODULE(rule);
        }
        c->module[c->count++ % 8] = (uint16_t)module;
    }
    if (t->draft != NULL)
        gwi_trail_module(t->draft, module, pc);
    c->last = module;
    return rule;
}

static inline uint64_t mixed(uint64_t key, uint64_t word)
{
    key = (key ^ word) * 0x9e3779b97f4a7c15ull;
    return key ^ key >> 29;
}

/* A walk in progress. */
typedef struct progress {
    gwi_walk *walk;
    frame frame;
    stack stack;
    trace trace;
    checked modules;
    bool skips;          /* still in the hook's own frames, which are skipped */
    bool is_second_part; /* past the frame at which a second trail may start */
    bool is_known;       /* the rest of the walk was found in a stored trail */
    bool is_whole_trail; /* the trail being recorded covers the whole walk */
    uint64_t key, first_key;
    unsigned steps_left;
} progress;

/* A walk is looked up among the trails twice: as a whole, and after FRAMES_BEFORE_TRAIL frames. There are too many
 * different walks to store each as a whole. Most differ only in their first frames, so the second lookup often
 * succeeds. */
enum { FRAMES_BEFORE_TRAIL = 6, OWN_FRAMES_MAX = 16 };

static void record_trail(progress *p, const gwi_trail_start *start)
{
    gwi_trail_begin(&p->walk->draft, start);
    p->trace = (trace){.draft = &p->walk->draft};
    p->modules.last = p->modules.count = 0; /* so that every module of the trail is added to it */
}

static void begin_second_part(progress *p, bool fully)
{
    gwi_walk *w = p->walk;
    frame *f = &p->frame;
    stack *s = &p->stack;
    gwi_trail_start start = {f->reg[GWI_REG_SP], f->reg[GWI_REG_BP], f->reg[GWI_REG_PC], p->key};
    p->is_second_part = true;
    p->first_key = p->key;
    p->key = 0;
    if (fully || p->trace.draft != NULL || f->is_exact || !has(f, GWI_REG_BP) || !is_in_own(s, start.sp))
        return;
    if (w->only_key && gwi_trail_follow(&start, own_end(s), &p->key))
        p->is_known = true;
    else
        record_trail(p, &start);
}

/* Look up the whole walk from its start. Returns true if a trail matches; the walk is then done. */
static bool begin_first_part(progress *p)
{
    gwi_walk *w = p->walk;
    const uint64_t *reg = p->frame.reg;
    gwi_trail_start start = {reg[GWI_REG_SP], reg[GWI_REG_BP], reg[GWI_REG_PC], w->salt};
    if (!is_in_own(&p->stack, start.sp))
        return false;
    w->is_short = w->only_key && gwi_trail_follow(&start, own_end(&p->stack), &w->key);
    if (!w->is_short && gwi_trail_is_wanted(&start)) {
        record_trail(p, &start);
        p->is_whole_trail = true;
    }
    return w->is_short;
}

/* Add the current frame. Returns false if there is no room for it. */
static bool take_frame(progress *p, uintptr_t pc, uint32_t module)
{
    gwi_walk *w = p->walk;
    p->skips = p->skips && module == w->skip_module;
    if (p->skips)
        return true;
    if (w->count == GW_SITE_NATIVE_MAX)
        return false;
    w->pc[w->count] = pc + 1;
    w->module[w->count++] = (uint16_t)module;
    p->key = mixed(p->key, pc ^ (uint64_t)module << 48);
    return true;
}

/* Walk to the end of the stack, or as far as possible. */
static step walk_up(progress *p, bool fully)
{
    entry *table = atomic_load_explicit(&entries, memory_order_relaxed);
    gwi_walk *w = p->walk;
    frame *f = &p->frame;
    step done = STEP_GOOD;
    while (done == STEP_GOOD) {
        if (gwi_unlikely(w->count == FRAMES_BEFORE_TRAIL) && !p->is_second_part) {
            begin_second_part(p, fully);
            if (p->is_known)
                return STEP_LAST;
        }
        if (f->reg[GWI_REG_PC] == 0) /* a return address of 0 marks the outermost frame */
            return STEP_LAST;
        uintptr_t pc = f->reg[GWI_REG_PC] - (f->is_exact ? 0 : 1);
        uint64_t rule = rule_now(&p->modules, table, pc, &p->trace);
        uint32_t module = RULE_MODULE(rule);
        if (gwi_unlikely(module == 0) && (f->is_exact || !is_behind_call(pc + 1)))
            return STEP_LOST; /* `pc` is not in code, so the value was not a return address */
        if (gwi_unlikely(!take_frame(p, pc, module) || p->steps_left-- == 0)) {
            w->flags |= GW_SITE_NATIVE_CUT;
            return STEP_LAST;
        }
        if (gwi_likely(RULE_FROM(rule) != FROM_UNUSUAL) && !fully) {
            done = step_usual(f, &p->stack, rule, &p->trace);
        } else {
            if ((rule & RULE_IS_LAST) == 0)
                w->draft.is_good = false;
            done = step_unusual(f, &p->stack, rule, pc);
        }
    }
    return done;
}

static void finish(progress *p, step done)
{
    gwi_walk *w = p->walk;
    if (done == STEP_LOST)
        w->flags |= GW_SITE_NATIVE_LOST;
    w->is_short = p->is_known;
    if (!p->is_known)
        p->key = mixed(p->key, w->flags);
    w->key = mixed(p->first_key, p->key);
    if (p->trace.draft != NULL && done == STEP_LAST)
        gwi_trail_keep(p->trace.draft, p->is_whole_trail ? w->key : p->key);
}

static void begin(progress *p, gwi_walk *walk, const uint64_t *reg, uint32_t known)
{
    memcpy(p->frame.reg, reg, sizeof p->frame.reg);
    p->frame.known = known;
    p->frame.is_exact = true;
    p->frame.needs_all = false;
    p->stack.floor = reg[GWI_REG_SP];
    p->walk = walk;
    p->trace = (trace){.draft = NULL};
    p->modules.last = p->modules.count = 0;
    p->skips = walk->skip_module != 0;
    p->is_second_part = p->is_known = p->is_whole_trail = false;
    p->key = p->first_key = 0;
    p->steps_left = GW_SITE_NATIVE_MAX + OWN_FRAMES_MAX;
    walk->count = 0;
    walk->flags = 0;
}

void gwi_unwind(gwi_walk *walk, const uint64_t reg[GWI_REGISTER_COUNT], uint32_t known)
{
    progress p;
    walk->count = 0;
    walk->is_short = false;
    walk->flags = GW_SITE_NATIVE_LOST;
    walk->key = 0;
    if (!GWI_CAN_UNWIND || gwi_module_at(0) == NULL)
        return;
    open_stack(&p.stack, walk->known, reg[GWI_REG_SP]);
    begin(&p, walk, reg, known);
    if (begin_first_part(&p))
        return;
    step done = walk_up(&p, false);
    if (done == STEP_LOST && p.frame.needs_all) { /* try again with all registers */
        begin(&p, walk, reg, known);
        done = walk_up(&p, true);
    }
    finish(&p, done);
}
