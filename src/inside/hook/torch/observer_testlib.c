/* Run the observer in a Python process without the rest of the hook. observer_test.py loads this library with ctypes
 * and reads the facts from an array. */
#include "gwi_observer.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { FACTS_MAX = 100000, TEXT_BYTES = 300 };

typedef struct fact {
    uint64_t kind;
    uint64_t argument[4];
    uint64_t site;
    char text[TEXT_BYTES];
} fact;

void *__real_dlsym(void *library, const char *symbol);

static fact facts[FACTS_MAX];
static uint32_t fact_count;
static __thread int guard_depth;
static int unguarded_facts;
static int refused_kind, refusals; /* reject the next `refusals` facts of this kind, as if the buffer were full */

static bool put_fact(gw_event_kind kind, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, const char *text)
{
    if (guard_depth <= 0)
        unguarded_facts++;
    if (fact_count == FACTS_MAX || (refusals > 0 && (int)kind == refused_kind && refusals-- > 0))
        return false;
    fact *f = &facts[fact_count++];
    *f = (fact){.kind = kind, .argument = {a0, a1, a2, a3}};
    if (text != NULL)
        snprintf(f->text, sizeof f->text, "%s", text);
    return true;
}

static void put_fact_at(gw_event_kind kind, uint32_t site, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3)
{
    if (put_fact(kind, a0, a1, a2, a3, NULL))
        facts[fact_count - 1].site = site;
}

static uint32_t enter(void)
{
    return (uint32_t)guard_depth++;
}

static void leave(uint32_t before)
{
    guard_depth--;
    if ((uint32_t)guard_depth != before)
        unguarded_facts++;
}

/* The linker replaces the observer's dlsym() by __wrap_dlsym(), which does not find the symbol `hidden`. */
static char hidden[64];

void test_hide(const char *symbol)
{
    snprintf(hidden, sizeof hidden, "%s", symbol);
}

void *__wrap_dlsym(void *library, const char *symbol)
{
    return strcmp(symbol, hidden) == 0 ? NULL : __real_dlsym(library, symbol);
}

/* Stand-in for gwi_course.h, which records PyTorch's allocations and frees. test_course() sets the values that it
 * returns. */
static bool course_whole;
static gwi_observer_block course_block;
static uint64_t course_address;
static uint32_t course_site;

static bool whole(void)
{
    return course_whole;
}

static bool write_course(uint64_t device, bool full)
{
    return course_whole && put_fact(GW_EV_ALLOCATOR_STATE, GW_ALLOCATOR_COURSE_REQUESTS, 1, device, 0, NULL) &&
           (!full || put_fact(GW_EV_ALLOCATOR_REQUESTS, 1, 1, device, 0, "gBAAAAA"));
}

static bool find_block(uint64_t device, uint64_t address, gwi_observer_block *ret_block)
{
    *ret_block = course_block;
    return course_whole && device == 0 && address == course_address;
}

static uint32_t request_site(uint64_t device)
{
    uint32_t site = device == 0 ? course_site : 0;
    course_site = 0;
    return site;
}

void test_course(uint64_t address, uint64_t order, uint64_t age_ns, uint32_t site, uint32_t wanted_site)
{
    course_whole = true;
    course_address = address;
    course_block = (gwi_observer_block){order, age_ns, site};
    course_site = wanted_site;
}

static const gwi_observer_port port = {.fact = put_fact,
                                       .fact_at = put_fact_at,
                                       .guard_enter = enter,
                                       .guard_leave = leave,
                                       .course_is_whole = whole,
                                       .course_write = write_course,
                                       .course_find = find_block,
                                       .course_request = request_site};

uint32_t test_fact_count(void)
{
    return fact_count;
}

const fact *test_fact(uint32_t index)
{
    return &facts[index];
}

/* Returns 0 if every guard was left, and no fact was written outside a guard. */
int test_guard_depth(void)
{
    return guard_depth + unguarded_facts;
}

void test_start(void)
{
    gwi_observer_start(&port);
}

static uint64_t now_ticks(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void test_poke(void)
{
    gwi_observer_notice(now_ticks());
}

static void *poke_often(void *unused)
{
    (void)unused;
    for (int i = 0; i < 1000; i++)
        gwi_observer_notice(now_ticks());
    return NULL;
}

void test_poke_from_threads(int threads)
{
    pthread_t id[16];
    int made = 0;
    while (made < threads && made < 16 && pthread_create(&id[made], NULL, poke_often, NULL) == 0)
        made++;
    while (made > 0)
        pthread_join(id[--made], NULL);
}

void test_clear(void)
{
    fact_count = 0;
}

void test_refuse(int kind, int times)
{
    refused_kind = kind;
    refusals = times;
}

/* Return the event kind with this name, or -1. */
int test_kind(const char *name)
{
    static const char *const names[GW_EV_COUNT] = {
#define GW_X(kind, ...) #kind,
        GW_EVENT_KINDS(GW_X)
#undef GW_X
    };
    for (int i = 0; i < GW_EV_COUNT; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

/* Return name `index` of the list `f`: fields, `a`: actions or `m`: moments. Returns NULL after its end. */
const char *test_name(int list, int index)
{
#define GW_X(name, text) text,
    static const char *const fields[] = {GW_ALLOCATOR_FIELDS(GW_X) NULL};
    static const char *const actions[] = {GW_ALLOCATOR_ACTIONS(GW_X) NULL};
    static const char *const moments[] = {GW_ALLOCATOR_MOMENTS(GW_X) NULL};
#undef GW_X
    if (list == 'f')
        return fields[index];
    return list == 'a' ? actions[index] : moments[index];
}
