/* Write a recording that is large in one way: many items of one kind, many processes, many threads.
 *
 *     make_sized FILE SHAPE COUNT
 *     make_sized --list
 *
 * tests/sized/sized.py checks that the cost of each command grows no faster than the file. Random mutation does not
 * find slow loops: these need many items that differ only in the right field. */
#include "gw_fact.h"
#include "gw_names.h"
#include "gw_recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gw_writer *writer;
static uint64_t now_ns;

static void fail(const gw_error *err)
{
    fprintf(stderr, "make_sized: %s\n", err->text);
    exit(1);
}

static void put(gw_item item)
{
    gw_error err;
    item.t_ns = ++now_ns;
    if (item.kind == GW_ITEM_EVENT) {
        item.event.t_ns = item.t_ns;
        item.pid = item.event.pid;
        item.tid = item.event.tid;
    }
    if (gw_writer_put(writer, &item, &err) != GW_OK)
        fail(&err);
}

static void put_event(gw_event event)
{
    put((gw_item){.kind = GW_ITEM_EVENT, .event = event});
}

static void put_process(uint32_t pid)
{
    put((gw_item){.kind = GW_ITEM_PROCESS, .pid = pid, .process = {1, 1700000000000000000u, "/bin/x", "/lib/d", "id"}});
}

static void put_fact(uint32_t pid, const char *key, const char *value)
{
    put((gw_item){.kind = GW_ITEM_SUPERVISOR, .pid = pid, .pair = {key, value}});
}

static void put_exit(uint32_t pid, int code, int signal)
{
    put((gw_item){
        .kind = GW_ITEM_EXIT, .pid = pid, .exit = {pid, pid == 1, true, signal != 0 ? -1 : code, signal, signal != 0}});
}

/* Return a text of two words of varying length. No two values of `i` have the same text. */
static const char *text_of(uint64_t i)
{
    static char text[64];
    snprintf(text, sizeof text, "name%llu of%llu", (unsigned long long)i, (unsigned long long)(i * 7919 % 10007));
    return text;
}

/* ---- events: every kind, in several roles ---- */

/* Ways in which the events of one kind can differ from each other. */
typedef enum role {
    ROLE_DISTINCT,  /* each has its own object, size, site and context; all succeed */
    ROLE_SAME,      /* all are equal */
    ROLE_FAILED,    /* each fails, with its own object and site */
    ROLE_PROCESSES, /* each comes from its own process, and fails */
    ROLE_THREADS,   /* each comes from its own thread */
    ROLE_COUNT
} role;

static const char *const role_names[] = {"distinct", "same", "failed", "processes", "threads"};

static void put_kind(gw_event_kind kind, role as, uint64_t i)
{
    uint64_t n = as == ROLE_SAME ? 1 : i + 1;
    gw_event event = {
        .pid = as == ROLE_PROCESSES ? (uint32_t)n + 1 : 1,
        .tid = as == ROLE_PROCESSES || as == ROLE_THREADS ? (uint32_t)n + 1 : 1,
        .fn = (uint16_t)(i % 4),
        .kind = (uint8_t)kind,
        .result = as == ROLE_FAILED || as == ROLE_PROCESSES ? (i % 3 == 0 ? 2 : 700) : 0,
        .site = (uint32_t)n,
        .context = as == ROLE_SAME ? 1 : 1 + i % 64,
        .arg = {n << 12, n << 12, 0, n},
    };
    const char *text = text_of(n);
    if (kind == GW_EV_TEXT || kind == GW_EV_NOTE || kind == GW_EV_FUNCTION || kind == GW_EV_DEVICE ||
        kind == GW_EV_DRIVER_LOG || kind == GW_EV_PHASE || kind == GW_EV_ARRAYS || kind == GW_EV_PYTHON_RAISED ||
        kind == GW_EV_MAPPED || kind == GW_EV_PYTHON_CODE) {
        event.text = text;
        event.text_bytes = (uint32_t)strlen(text);
    }
    if (as == ROLE_PROCESSES) {
        put_process(event.pid);
        put_event(event);
        put_exit(event.pid, 1, 0);
    } else {
        put_event(event);
    }
}

/* ---- everything else ---- */

static void many_meta(uint64_t i)
{
    char key[96];
    snprintf(key, sizeof key, "env.%s", text_of(i));
    put((gw_item){.kind = GW_ITEM_META, .pair = {key, "value"}});
}

static void many_processes(uint64_t i)
{
    put_process((uint32_t)i + 2);
}

static void many_failed_processes(uint64_t i)
{
    put_process((uint32_t)i + 2);
    put_event((gw_event){.pid = (uint32_t)i + 2, .tid = (uint32_t)i + 2, .kind = GW_EV_INIT, .result = 999});
    put_exit((uint32_t)i + 2, i % 2 != 0, i % 2 != 0 ? 0 : 9);
}

static void many_exits(uint64_t i)
{
    put_exit((uint32_t)i + 2, 0, i % 2 != 0 ? 11 : 0);
}

static void many_counters(uint64_t i)
{
    static uint64_t counter[GW_COUNT_COUNT];
    counter[0] = i;
    put((gw_item){
        .kind = GW_ITEM_COUNTERS, .pid = 1, .tid = (uint32_t)i + 2, .counters = {counter, i, 1, 2, 1, text_of(i)}});
}

static void many_rings(uint64_t i)
{
    gw_hot_call call[16];
    for (unsigned k = 0; k < 16; k++)
        call[k] = (gw_hot_call){now_ns, i << 8 | k, k, (uint16_t)(k % 4)};
    put((gw_item){.kind = GW_ITEM_RING, .pid = 1, .tid = (uint32_t)i + 2, .ring = {call, 16, 16, 8}});
}

static void many_losses(uint64_t i)
{
    put((gw_item){.kind = GW_ITEM_LOST, .pid = (uint32_t)i + 2, .lost = {i, 1, 0}});
}

static void many_stderr_lines(uint64_t i)
{
    char line[200];
    int bytes = snprintf(line, sizeof line, "  File \"%s.py\", line %llu, in f\nCUDA error: out of memory %llu\n",
                         text_of(i), (unsigned long long)i, (unsigned long long)i);
    put((gw_item){.kind = GW_ITEM_STDERR, .pid = 1, .stderr_part = {line, (uint32_t)bytes}});
}

static void one_stderr_line(uint64_t i)
{
    (void)i;
    put((gw_item){.kind = GW_ITEM_STDERR, .pid = 1, .stderr_part = {"Error: ", 7}});
}

static void many_maps(uint64_t i)
{
    char path[96];
    snprintf(path, sizeof path, "/usr/lib/lib%s.so", text_of(i));
    put((gw_item){.kind = GW_ITEM_MAPS, .pid = 1, .pair = {path, "0123456789abcdef"}});
}

static void many_symbols(uint64_t i)
{
    gw_symbol_frame frame[2] = {{text_of(i), "x.h", 1, 9}, {"main", NULL, 0, 0}};
    put((gw_item){.kind = GW_ITEM_SYMBOL, .symbol = {"/bin/x", i % 100, i, GW_SYMBOL_LINE, frame, 2}});
}

static void many_samples(uint64_t i)
{
    gw_sample_value value[2] = {{GW_METRIC_CARD_POWER, GW_SAMPLE_KNOWN, i}, {3, GW_SAMPLE_NOT_SUPPORTED, 0}};
    put((gw_item){.kind = GW_ITEM_SAMPLE, .sample = {GW_SOURCE_NVML, i % 10 == 0, (uint32_t)i, value, 2}});
}

static void many_process_samples(uint64_t i)
{
    gw_sample_value value[1] = {{GW_METRIC_PROCESS_MEMORY, GW_SAMPLE_KNOWN, i}};
    put((gw_item){
        .kind = GW_ITEM_SAMPLE, .pid = (uint32_t)i + 2, .sample = {GW_SOURCE_PROCESS, true, GW_NO_DEVICE, value, 1}});
}

static void many_machine_events(uint64_t i)
{
    put((gw_item){.kind = GW_ITEM_MACHINE,
                  .pid = (uint32_t)i,
                  .machine = {(uint8_t)(i % GW_MACHINE_EVENT_COUNT), GW_SOURCE_KERNEL_LOG, (uint32_t)(i % 9),
                              (uint32_t)i, i % 120, i, text_of(i)}});
}

/* Write one report of a framework's allocator about a failed request, with many blocks. */
static void many_blocks(uint64_t i)
{
    if (i == 0)
        put_event((gw_event){.pid = 1, .tid = 1, .kind = GW_EV_ALLOCATOR_OOM, .arg = {1 << 20, 1u << 30, 0, 0}});
    put_event((gw_event){.pid = 1,
                         .tid = 1,
                         .kind = GW_EV_ALLOCATOR_BLOCK,
                         .site = (uint32_t)i,
                         .arg = {i << 12, 512 + i, 1000000000 - i, i % 3 | (i + 1) << GW_BLOCK_ORDER_SHIFT}});
}

/* Allocate and free memory, with 100,000 blocks live, as a program does that caches nothing. */
static void churn(uint64_t i)
{
    enum { LIVE = 100000 };
    uint64_t slot = i * 2654435761u % LIVE + 1;
    static bool is_live[LIVE + 1];
    put_event((gw_event){.pid = 1,
                         .tid = 1,
                         .fn = is_live[slot],
                         .kind = is_live[slot] ? GW_EV_FREE : GW_EV_ALLOC,
                         .site = (uint32_t)(i % 50 + 1),
                         .context = 1,
                         .arg = {slot << 16, is_live[slot] ? 0 : 4096}});
    is_live[slot] = !is_live[slot];
}

/* Write many reports of an allocator about failed requests. After each report comes the driver allocation that
 * failed. */
static void many_reports(uint64_t i)
{
    put_event((gw_event){.pid = 1, .tid = 1, .kind = GW_EV_ALLOCATOR_OOM, .arg = {i + 1, 1u << 30, 0, 0}});
    for (unsigned k = 0; k < 4; k++)
        put_event((gw_event){.pid = 1,
                             .tid = 1,
                             .kind = GW_EV_ALLOCATOR_BLOCK,
                             .site = k,
                             .arg = {i << 20 | k << 12, 4096, i, GW_BLOCK_LIVE}});
    put_event((gw_event){.pid = 1, .tid = 1, .kind = GW_EV_ALLOC, .result = 2, .context = 1, .arg = {0, i + 1}});
}

typedef struct shape {
    const char *name;
    void (*put)(uint64_t i);
    const char *fact; /* key of the facts to write; then `put` is not used */
} shape;

static const shape shapes[] = {
    {"meta", many_meta, NULL},
    {"processes", many_processes, NULL},
    {"failed-processes", many_failed_processes, NULL},
    {"exits", many_exits, NULL},
    {"counters", many_counters, NULL},
    {"rings", many_rings, NULL},
    {"losses", many_losses, NULL},
    {"stderr-lines", many_stderr_lines, NULL},
    {"stderr-one-line", one_stderr_line, NULL},
    {"maps", many_maps, NULL},
    {"symbols", many_symbols, NULL},
    {"samples", many_samples, NULL},
    {"process-samples", many_process_samples, NULL},
    {"machine-events", many_machine_events, NULL},
    {"allocator-blocks", many_blocks, NULL},
    {"allocator-reports", many_reports, NULL},
    {"churn", churn, NULL},
#define GW_FACT(...)
#define GW_NUMBER(...)
#define GW_TEXT(...)
#define GW_FACT_END(...)
#define GW_KEY(id, key) {"fact-" key, NULL, key},
#include "facts.def"
};

static void put_nth(const shape *of, uint64_t i)
{
    if (of->fact == NULL) {
        of->put(i);
        return;
    }
    unsigned long long n = i;
    char value[256];
    if (strcmp(of->fact, gw_fact_key_text(GW_FACT_LIBRARY)) == 0)
        snprintf(value, sizeof value,
                 "kind=cudnn part= place=wheel version=9.1.0.%llu from=0 major_only=0 path=/usr/%llu/libcudnn.so.9",
                 n % 100, n);
    else
        snprintf(value, sizeof value, "pid=%llu card=%llu bytes=%llu index=%llu name=n%llu cmd=python %llu", n, n, n, n,
                 n, n);
    put_fact((uint32_t)(i % 1000 + 1), of->fact, value);
}

/* The last name, ANY, stands for all kinds in turn. */
static const char *const kind_names[] = {
#define GW_X(name, ...) #name,
    GW_EVENT_KINDS(GW_X)
#undef GW_X
        "ANY"};

static int list(void)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        puts(shapes[i].name);
    for (unsigned kind = 0; kind <= GW_EV_COUNT; kind++)
        for (unsigned as = 0; as < ROLE_COUNT; as++)
            printf("%s:%s\n", kind_names[kind], role_names[as]);
    return 0;
}

/* Write the items of a shape by its name. Returns false if there is no such shape. */
static bool put_all(const char *name, uint64_t count)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (strcmp(name, shapes[i].name) == 0) {
            for (uint64_t n = 0; n < count; n++)
                put_nth(&shapes[i], n);
            return true;
        }
    for (unsigned kind = 0; kind <= GW_EV_COUNT; kind++) {
        size_t length = strlen(kind_names[kind]);
        if (strncmp(name, kind_names[kind], length) != 0 || name[length] != ':')
            continue;
        for (unsigned as = 0; as < ROLE_COUNT; as++)
            if (strcmp(name + length + 1, role_names[as]) == 0) {
                for (uint64_t n = 0; n < count; n++)
                    put_kind((gw_event_kind)(kind == GW_EV_COUNT ? n % GW_EV_COUNT : kind), (role)as, n);
                return true;
            }
    }
    return false;
}

int main(int argc, char **argv)
{
    static const char *const fn_names[] = {"cuMemAlloc_v2", "cuMemFree_v2", "cuLaunchKernel", "cuStreamSynchronize"};
    gw_error err;
    if (argc == 2 && strcmp(argv[1], "--list") == 0)
        return list();
    if (argc != 4) {
        fputs("usage: make_sized FILE SHAPE COUNT\n", stderr);
        return 2;
    }
    if (gw_writer_create(argv[1], 0, fn_names, 4, &writer, &err) != GW_OK)
        fail(&err);
    put((gw_item){.kind = GW_ITEM_META, .pair = {"version", "1"}});
    put((gw_item){.kind = GW_ITEM_META, .pair = {"argv", "train"}});
    put_process(1);
    put_event((gw_event){.pid = 1, .tid = 1, .kind = GW_EV_CTX_CREATE, .arg = {1, 0, 0, GW_CONTEXT_PRIMARY}});
    if (!put_all(argv[2], strtoull(argv[3], NULL, 10))) {
        fprintf(stderr, "make_sized: no shape %s; see make_sized --list\n", argv[2]);
        return 2;
    }
    put_event((gw_event){.pid = 1, .tid = 1, .kind = GW_EV_ALLOC, .result = 2, .context = 1, .arg = {0, 1u << 30}});
    put((gw_item){.kind = GW_ITEM_STDERR, .pid = 1, .stderr_part = {"RuntimeError: CUDA out of memory\n", 33}});
    put_exit(1, 1, 0);
    if (gw_writer_close(writer, &err) != GW_OK)
        fail(&err);
    return 0;
}
