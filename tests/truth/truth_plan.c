/* Runs a plan: a text with one statement per line, as in truth.py's class Interpreted. truth.py writes the plan and
 * knows the expected verdict.
 *
 *     truth_plan PLAN [READY-FD]
 *
 * With READY-FD, this is the second process beside a program. It writes a byte there at the statement `ready`.
 * Each `alloc` names one of 24 places, which are separate functions. As in real programs, half of them call the driver
 * themselves, and half call a helper. */
#include "truth_run.h"

#include <errno.h>

enum op_code {
    OP_alloc,
    OP_try,
    OP_freeall,
    OP_freelast,
    OP_freehalf,
    OP_trim,
    OP_launch,
    OP_wait,
    OP_memset,
    OP_loop,
    OP_if,
    OP_iffailed,
    OP_call,
    OP_thread,
    OP_join,
    OP_end,
    OP_say,
    OP_exit,
    OP_kill,
    OP_throw,
    OP_spawn,
    OP_ready,
    OP_hold,
    OP_keeppools,
    OP_flush,
    OP_endclean,
    OP_begin,
    OP_sleep,
    OP_vloop,
    OP_trimpools,
    OP_probe,
    OP_COUNT
};
static const char *const op_names[OP_COUNT] = {
    "alloc",  "try",      "freeall", "freelast", "freehalf", "trim",      "launch", "wait",
    "memset", "loop",     "if",      "iffailed", "call",     "thread",    "join",   "end",
    "say",    "exit",     "kill",    "throw",    "spawn",    "ready",     "hold",   "keeppools",
    "flush",  "endclean", "begin",   "sleep",    "vloop",    "trimpools", "probe"};

struct op {
    enum op_code code;
    char words[4][32]; /* the first words of the statement, as text */
    long long numbers[4];
    char *text;          /* owned, never freed: the remaining text of the line */
    const size_t *sizes; /* the table of sizes that an alloc names */
    size_t sizes_count;
    size_t turn; /* number of executions of an alloc so far */
    size_t end;  /* for a statement with a block: the index of its `end` */
};

struct table {
    size_t *sizes, count;
};

enum { OPS_MAX = 4096, TABLES_MAX = 512, THREADS_MAX = 8 };
static struct op ops[OPS_MAX];
static size_t ops_count;
static struct table tables[TABLES_MAX];
static int failed; /* 1: a `try` has failed, so `iffailed` runs its block */
static int ready_fd = -1;
static pthread_t threads[THREADS_MAX];
static int threads_count;

static void run(size_t first, size_t end, long long turn);

/* ---- the places ---- */

static enum take_kind kind_of(const char *name)
{
    static const char *const names[TAKE_KINDS] = {"plain",  "pitch", "async",   "pool",    "vmm",
                                                  "vmmh",   "vmmr",  "cached",  "managed", "host",
                                                  "stream", "event", "context", "graph",   "keptpool"};
    for (int kind = 0; kind < TAKE_KINDS; kind++)
        if (strcmp(names[kind], name) == 0)
            return (enum take_kind)kind;
    abort();
}

/* Define a place that calls the driver itself. */
#define CASE(how)                                                                                                      \
    case TAKE_##how:                                                                                                   \
        TAKE_TRY(how, bag, bytes);                                                                                     \
        break;
#define DIRECT(name)                                                                                                   \
    static NOINLINE CUresult name(enum take_kind kind, struct bag *bag, size_t bytes)                                  \
    {                                                                                                                  \
        CUresult result = CUDA_ERROR_INVALID_VALUE;                                                                    \
        switch (kind) {                                                                                                \
            CASE(plain)                                                                                                \
            CASE(pitch)                                                                                                \
            CASE(async)                                                                                                \
            CASE(pool)                                                                                                 \
            CASE(vmm)                                                                                                  \
            CASE(vmmh)                                                                                                 \
            CASE(vmmr)                                                                                                 \
            CASE(cached)                                                                                               \
            CASE(managed)                                                                                              \
            CASE(host)                                                                                                 \
            CASE(stream)                                                                                               \
            CASE(event)                                                                                                \
            CASE(context)                                                                                              \
            CASE(graph)                                                                                                \
            CASE(keptpool)                                                                                             \
        case TAKE_KINDS:                                                                                               \
            break;                                                                                                     \
        }                                                                                                              \
        return result;                                                                                                 \
    }
/* Define a place that calls the driver through `helper`. The assembly prevents a tail call. */
#define THROUGH(name, helper)                                                                                          \
    static NOINLINE CUresult name(enum take_kind kind, struct bag *bag, size_t bytes)                                  \
    {                                                                                                                  \
        CUresult result = helper(kind, bag, bytes);                                                                    \
        __asm__ volatile("" : "+r"(result));                                                                           \
        return result;                                                                                                 \
    }

// clang-format off
DIRECT(load_batch)
DIRECT(load_labels)
DIRECT(make_weights)
DIRECT(make_moments)
DIRECT(open_workspace)
DIRECT(forward_conv)
DIRECT(forward_linear)
DIRECT(save_hidden_state)
DIRECT(backward_conv)
DIRECT(collect_metrics)
DIRECT(evaluate)
DIRECT(tensor_new)
DIRECT(buffer_create)
THROUGH(tensor_like, tensor_new)
THROUGH(forward_attention, tensor_new)
THROUGH(forward_mlp, tensor_like)
THROUGH(forward_norm, tensor_like)
THROUGH(backward_attention, tensor_new)
THROUGH(backward_mlp, tensor_like)
THROUGH(keep_outputs, tensor_new)
THROUGH(append_history, buffer_create)
THROUGH(cache_lookup, buffer_create)
THROUGH(read_records, buffer_create)
THROUGH(replay_add, buffer_create)
static CUresult (*const places[])(enum take_kind, struct bag *, size_t) = {
    load_batch, load_labels, make_weights, make_moments, open_workspace, forward_conv, forward_linear, save_hidden_state,
    backward_conv, collect_metrics, evaluate, forward_attention, forward_mlp, forward_norm, backward_attention,
    backward_mlp, keep_outputs, append_history, cache_lookup, read_records, replay_add, tensor_new, buffer_create, tensor_like};
// clang-format on
enum { PLACES = sizeof places / sizeof places[0] };

/* ---- functions around statements, for different stacks ---- */

#define AROUND(name)                                                                                                   \
    static NOINLINE void name(size_t first, size_t end, long long turn)                                                \
    {                                                                                                                  \
        run(first, end, turn);                                                                                         \
        __asm__ volatile("");                                                                                          \
    }
// clang-format off
AROUND(train_step)
AROUND(forward_pass)
AROUND(backward_pass)
AROUND(optimizer_step)
AROUND(build_model)
AROUND(validate)
AROUND(load_data)
AROUND(train_epoch)
static void (*const around[])(size_t, size_t, long long) = {train_step, forward_pass, backward_pass, optimizer_step,
                                                            build_model, validate, load_data, train_epoch};
// clang-format on
enum { AROUNDS = sizeof around / sizeof around[0] };

/* ---- running ---- */

static void *run_thread(void *argument)
{
    struct op *op = (struct op *)argument;
    CHECKED(cuCtxSetCurrent(the_context));
    run((size_t)(op - ops) + 1, op->end, 0);
    return NULL;
}

static int holds(const struct op *op, long long turn)
{
    const char *how = op->words[0];
    if (strcmp(how, "every") == 0)
        return turn % op->numbers[1] == op->numbers[2];
    if (strcmp(how, "from") == 0)
        return turn >= op->numbers[1];
    if (strcmp(how, "until") == 0)
        return turn < op->numbers[1];
    if (strcmp(how, "chosen") == 0)
        return chosen(turn, op->numbers[1]);
    return turn == op->numbers[1]; /* "only N" */
}

static void take(struct op *op)
{
    size_t bytes = op->sizes[op->turn++ % op->sizes_count];
    enum take_kind kind = kind_of(op->words[2]);
    CUresult result = places[op->numbers[1] % PLACES](kind, &bags[op->numbers[0]], bytes);
    if (result == CUDA_SUCCESS)
        return;
    if (op->code != OP_try)
        give_up(result, op->words[2], bytes);
    failed = 1;
}

/* Execute one statement that has no block: no loop, condition, call or thread. */
static void step(struct op *op)
{
    struct bag *bag = &bags[op->numbers[0] >= 0 && op->numbers[0] < BAGS_MAX ? op->numbers[0] : 0];
    switch (op->code) {
    case OP_alloc:
    case OP_try:
        take(op);
        break;
    case OP_freeall:
        give_all(bag);
        break;
    case OP_freelast:
        give_last(bag);
        break;
    case OP_freehalf:
        give_half(bag);
        break;
    case OP_trim:
        give_beyond(bag, (size_t)op->numbers[1]);
        break;
    case OP_launch:
        for (long long count = 0; count < op->numbers[1]; count++)
            launch((int)(op->numbers[0] + count) % KERNELS, (int)op->numbers[2], scratch);
        break;
    case OP_wait:
        wait_for(op->words[0], (int)op->numbers[1]);
        break;
    case OP_memset:
        if (newest(bag) != 0)
            CHECKED(cuMemsetD8Async(newest(bag), 0, 256, streams[0]));
        break;
    case OP_join:
        while (threads_count > 0)
            pthread_join(threads[--threads_count], NULL);
        break;
    case OP_say:
        fprintf(stderr, "%s\n", op->text);
        break;
    case OP_exit:
        stop((int)op->numbers[0]);
        break;
    case OP_kill:
        kill(getpid(), (int)op->numbers[0]);
        break;
    case OP_throw:
        fprintf(stderr, "%s\n", op->text);
        stop(1);
        break;
    case OP_spawn:
        neighbour_start(op->text);
        break;
    case OP_ready:
        if (write(ready_fd, "r", 1) != 1)
            abort();
        break;
    case OP_hold:
        for (;;)
            pause();
    case OP_keeppools:
        keep_pools();
        break;
    case OP_flush:
        cache_flush();
        break;
    case OP_trimpools:
        trim_pools();
        break;
    case OP_endclean:
        end_clean();
        break;
    case OP_begin:
        begin((int)op->numbers[0], (int)op->numbers[1], (int)op->numbers[2], (int)op->numbers[3]);
        break;
    case OP_probe:
        probe(op->words[0]);
        break;
    case OP_sleep:
        usleep((unsigned)op->numbers[0] * 1000);
        break;
    default:
        abort();
    }
}

static void run(size_t first, size_t end, long long turn)
{
    for (size_t index = first; index < end; index++) {
        struct op *op = &ops[index];
        switch (op->code) {
        case OP_loop:
            for (long long i = 0; i < op->numbers[0]; i++)
                run(index + 1, op->end, i);
            break;
        case OP_vloop:
            for (long long i = 0, count = (long long)op->sizes[op->turn++ % op->sizes_count]; i < count; i++)
                run(index + 1, op->end, i);
            break;
        case OP_if:
            if (holds(op, turn))
                run(index + 1, op->end, turn);
            break;
        case OP_iffailed:
            if (failed)
                run(index + 1, op->end, turn);
            break;
        case OP_call:
            around[op->numbers[0] % AROUNDS](index + 1, op->end, turn);
            break;
        case OP_thread:
            if (threads_count == THREADS_MAX || pthread_create(&threads[threads_count++], NULL, run_thread, op) != 0)
                abort();
            break;
        default:
            step(op);
            continue;
        }
        index = op->end;
    }
}

/* ---- reading a plan ---- */

static void read_table(char *text)
{
    unsigned long id = strtoul(text, &text, 10);
    if (id >= TABLES_MAX)
        abort();
    struct table *table = &tables[id];
    table->count = strtoul(text, &text, 10);
    table->sizes = (size_t *)calloc(table->count, sizeof *table->sizes);
    for (size_t index = 0; index < table->count; index++)
        table->sizes[index] = strtoull(text, &text, 10);
}

static enum op_code code_of(const char *name)
{
    for (int code = 0; code < OP_COUNT; code++)
        if (strcmp(op_names[code], name) == 0)
            return (enum op_code)code;
    fprintf(stderr, "truth_plan: no statement is called %s\n", name);
    exit(2);
}

static void read_op(char *line)
{
    static size_t open[64], depth;
    struct op *op = &ops[ops_count];
    char name[32] = "";
    int used = 0;
    if (ops_count == OPS_MAX || sscanf(line, "%31s %n", name, &used) != 1)
        abort();
    op->code = code_of(name);
    op->text = strdup(line + used);
    sscanf(op->text, "%31s %31s %31s %31s", op->words[0], op->words[1], op->words[2], op->words[3]);
    for (int index = 0; index < 4; index++)
        op->numbers[index] = atoll(op->words[index]);
    if (op->code == OP_alloc || op->code == OP_try || op->code == OP_vloop) {
        unsigned long id = (unsigned long)op->numbers[0];
        if (op->code != OP_vloop)
            sscanf(op->text, "%*s %*s %*s %lu", &id);
        op->sizes = tables[id].sizes;
        op->sizes_count = tables[id].count;
    }
    if (op->code == OP_loop || op->code == OP_vloop || op->code == OP_if || op->code == OP_iffailed ||
        op->code == OP_call || op->code == OP_thread)
        open[depth++] = ops_count;
    if (op->code == OP_end)
        ops[open[--depth]].end = ops_count;
    ops_count++;
}

static void read_plan(const char *path)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    if (file == NULL) {
        fprintf(stderr, "truth_plan: %s: %s\n", path, strerror(errno));
        exit(2);
    }
    while (getline(&line, &room, file) > 0) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "table ", 6) == 0)
            read_table(line + 6);
        else if (strncmp(line, "fail ", 5) == 0)
            fail_style = strdup(line + 5);
        else if (line[0] != 0)
            read_op(line);
    }
    free(line);
    fclose(file);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    program_path = argv[0];
    if (argc > 2)
        ready_fd = atoi(argv[2]);
    read_plan(argv[1]);
    run(0, ops_count, 0);
    return 0;
}
