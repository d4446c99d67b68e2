/* Builds the Python part of the hook as a library that a Python interpreter can load. python_test.py calls the
 * functions of the library. */
#include "python_testlib.h"

#include "gw_python_lines.h"
#include "gwi_python.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- replaces the hook: facts are stored for the test to read ---- */

enum { FACTS_MAX = 200000 };
static test_fact *facts; /* owned */
static _Atomic uint32_t fact_count;
static char *sink_at;        /* where facts are copied while time is measured; NULL: store them in `facts` */
static _Atomic int refusals; /* number of facts that gwi_fact() will refuse, as if the buffer were full */

bool gwi_fact(unsigned kind, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, const char *text);
bool gwi_fact(unsigned kind, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, const char *text)
{
    if (atomic_load(&refusals) > 0 && atomic_fetch_sub(&refusals, 1) > 0)
        return false;
    /* For a realistic time, copy as many bytes as the hook does: one record for the event, and one per 48 bytes of
     * text. */
    if (sink_at != NULL) {
        size_t bytes = text != NULL ? strlen(text) : 0;
        sink_at[0] = (char)(a0 + a1 + a2 + a3);
        for (size_t done = 0; done < bytes; done += GW_RAW_TEXT_BYTES)
            memcpy(sink_at + 64 + done / GW_RAW_TEXT_BYTES * 64, text + done,
                   bytes - done < GW_RAW_TEXT_BYTES ? bytes - done : GW_RAW_TEXT_BYTES);
        sink_at += 64 + (bytes + GW_RAW_TEXT_BYTES - 1) / GW_RAW_TEXT_BYTES * 64;
        return true;
    }
    uint32_t at = atomic_fetch_add(&fact_count, 1);
    if (facts == NULL || at >= FACTS_MAX)
        return false;
    facts[at].kind = kind;
    facts[at].arg[0] = a0;
    facts[at].arg[1] = a1;
    facts[at].arg[2] = a2;
    facts[at].arg[3] = a3;
    facts[at].text[0] = '\0';
    if (text != NULL)
        strncat(facts[at].text, text, GW_TEXT_BYTES_MAX);
    return true;
}

uint32_t test_fact_count(void)
{
    return atomic_load(&fact_count);
}

const test_fact *test_fact_at(uint32_t at)
{
    return &facts[at];
}

EXPORT void test_refuse(int count);
void test_refuse(int count)
{
    atomic_store(&refusals, count);
}

/* ---- functions that the test calls ---- */

int test_look(void)
{
    if (facts == NULL)
        facts = calloc(FACTS_MAX, sizeof *facts);
    return gwi_python_look() ? 1 : 0;
}

EXPORT void test_forked(void);
void test_forked(void)
{
    gwi_python_forked();
}

static gwi_python_memory *begin_stop(void)
{
    static __thread gwi_python_memory space;
    static __thread int is_first; /* 1: first thread of the process, -1: another thread, 0: not known yet */
    if (is_first == 0)
        is_first = syscall(SYS_gettid) == getpid() ? 1 : -1;
    return gwi_python_memory_begin(&space, is_first > 0);
}

extern EXPORT uint32_t test_last_flags;
uint32_t test_last_flags;

uint32_t test_stop(test_frame *out, uint32_t max, uint32_t *ret_count)
{
    gwi_python_frame frame[GW_SITE_PYTHON_MAX];
    unsigned flags;
    bool is_main;
    gwi_python_memory *memory = begin_stop();
    size_t count =
        gwi_python_frames(frame, max < GW_SITE_PYTHON_MAX ? max : GW_SITE_PYTHON_MAX, memory, &flags, &is_main);
    for (size_t i = 0; i < count; i++) {
        out[i].code = gwi_python_code(&frame[i], memory);
        out[i].instruction = frame[i].instruction;
        out[i].is_entry = frame[i].is_entry;
        out[i].address = frame[i].code;
        out[i].mark = frame[i].mark;
    }
    *ret_count = (uint32_t)count;
    test_last_flags = flags;
    return flags | (uint32_t)is_main << 16;
}

EXPORT void test_main_site(uint32_t site);
void test_main_site(uint32_t site)
{
    gwi_python_main_site(site);
}

/* ---- the native stack at the same stop ---- */

/* Return the number of Python evaluation loops on the native stack; -1 if the stack has 4096 frames or more. */
EXPORT int test_loops(void);
int test_loops(void)
{
    void *address[4096];
    int loops = 0, count = backtrace(address, 4096);
    for (int i = 0; i < count; i++) {
        Dl_info info;
        if (dladdr((char *)address[i] - 1, &info) != 0 && info.dli_sname != NULL &&
            strcmp(info.dli_sname, "_PyEval_EvalFrameDefault") == 0)
            loops++;
    }
    return count < 4096 ? loops : -1;
}

static void *stop_thread(void *into)
{
    test_thread_stop *s = into;
    test_frame frame[GW_SITE_PYTHON_MAX];
    s->flags = test_stop(frame, GW_SITE_PYTHON_MAX, &s->count);
    s->borrowed = gwi_python_borrowed_site();
    return NULL;
}

int test_stop_native(test_thread_stop *into)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, stop_thread, into) != 0)
        return 1;
    return pthread_join(thread, NULL);
}

/* ---- timing ---- */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Read the frames `rounds` times, as the hook does to compute a site's key. Returns the time in ns. */
EXPORT uint64_t test_time_key(uint32_t rounds, uint64_t *ret_sum);
uint64_t test_time_key(uint32_t rounds, uint64_t *ret_sum)
{
    gwi_python_frame frame[GW_SITE_PYTHON_MAX];
    unsigned flags;
    bool is_main;
    uint64_t sum = 0, begin = now_ns();
    for (uint32_t round = 0; round < rounds; round++) {
        size_t count = gwi_python_frames(frame, GW_SITE_PYTHON_MAX, begin_stop(), &flags, &is_main);
        for (size_t i = 0; i < count; i++)
            sum += frame[i].code + (uint32_t)frame[i].instruction + frame[i].mark;
    }
    *ret_sum = sum;
    return now_ns() - begin;
}

/* Record the code of all frames again, and return the time that this took in ns. Code objects are numbered from 1 again
 * afterwards. */
EXPORT uint64_t test_time_codes(uint64_t *ret_bytes);
uint64_t test_time_codes(uint64_t *ret_bytes)
{
    static char sink[1 << 20];
    gwi_python_frame frame[GW_SITE_PYTHON_MAX];
    unsigned flags;
    bool is_main;
    gwi_python_memory *memory = begin_stop();
    size_t count = gwi_python_frames(frame, GW_SITE_PYTHON_MAX, memory, &flags, &is_main);
    gwi_python_code_forked();
    sink_at = sink;
    uint64_t begin = now_ns();
    for (size_t i = 0; i < count; i++)
        (void)gwi_python_code(&frame[i], memory);
    uint64_t ns = now_ns() - begin;
    *ret_bytes = (uint64_t)(sink_at - sink);
    sink_at = NULL;
    gwi_python_code_forked();
    return ns;
}

EXPORT int32_t test_line(unsigned version, const uint8_t *table, size_t bytes, int32_t first, int32_t instruction);
int32_t test_line(unsigned version, const uint8_t *table, size_t bytes, int32_t first, int32_t instruction)
{
    return gw_python_line(version, table, bytes, first, instruction);
}
