/* Reads what `py-spy dump` prints, and finds out what each thread waits for. The text:
 *
 *     Process 4711: python -u train.py
 *     Python v3.11.7 (/usr/bin/python3.11)
 *
 *     Thread 4711 (idle): "MainThread"
 *         clock_nanosleep (libc.so.6)                   only with --native
 *         read (train.py:4)
 *             Arguments:                                only with --locals
 *                 path: "shard-17"
 *         <module> (train.py:16)
 *     Thread 0x7F5B2C (active+gil)
 *
 * py-spy names files as modules do ("torch/distributed/distributed_c10d.py"), unless it got --full-filenames. */
#include "gwi_records.h"

#include "gw_array.h"
#include "gw_hash.h"
#include "gw_own.h"
#include "gw_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_MAX = 64 << 20, THREADS_MAX = 1 << 16, FRAMES_MAX = 4096, NAME_MAX_BYTES = 512 };

bool gwi_pyspy_is(const char *text)
{
    unsigned pid;
    for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += line[0] == '\n';
        const char *next = strchr(line, '\n');
        if (sscanf(line, "Process %u: ", &pid) == 1 && next != NULL && gw_begins(next + 1, "Python v"))
            return true;
    }
    return false;
}

/* ---- names of files ---- */

/* Complete the name of a module's file, so that its owner is known: PyTorch and other frameworks are in a folder of
 * packages, and the standard library in Python's own. */
static void complete_name(char out[NAME_MAX_BYTES], const char *file)
{
    static const char *const packages[] = {"torch/",      "jax/",   "tensorflow/", "numpy/",
                                           "triton/",     "keras/", "lightning/",  "pytorch_lightning/",
                                           "accelerate/", "flax/",  "deepspeed/",  "transformers/"};
    static const char *const library[] = {
        "threading.py",  "queue.py",     "selectors.py", "socket.py", "ssl.py",     "subprocess.py",    "runpy.py",
        "contextlib.py", "functools.py", "tempfile.py",  "pickle.py", "weakref.py", "multiprocessing/", "concurrent/",
        "asyncio/",      "importlib/",   "logging/",     "json/",     "http/",      "urllib/",          "shutil.py",
        "copy.py",       "traceback.py"};
    const char *folder = "";
    for (size_t i = 0; i < sizeof packages / sizeof packages[0]; i++)
        folder = gw_begins(file, packages[i]) ? "site-packages/" : folder;
    for (size_t i = 0; i < sizeof library / sizeof library[0]; i++)
        folder = gw_begins(file, library[i]) ? "/usr/lib/python3/" : folder;
    snprintf(out, NAME_MAX_BYTES, "%s%.*s", folder, NAME_MAX_BYTES - 32, file);
}

/* ---- the text ---- */

typedef struct parser {
    gwi_torch *torch;
    gw_error *err;
    gwi_torch_thread thread; /* the one that is read now; pid 0: none */
    uint32_t pid, command;   /* of the process that is read now */
    size_t frame_count;      /* in torch->frame */
} parser;

static gw_status add_text(parser *p, const char *text, size_t bytes, uint32_t *ret_id)
{
    return gw_pickle_add_text(p->torch->pickle, text, (uint32_t)bytes, ret_id, p->err);
}

static gw_status end_thread(parser *p)
{
    gwi_torch *torch = p->torch;
    gw_status st = GW_OK;
    if (p->thread.pid == 0)
        return GW_OK;
    if (torch->thread_count == THREADS_MAX)
        return gw_fail(p->err, GW_UNSUPPORTED, "more than %d threads", THREADS_MAX);
    if (p->frame_count > 0)
        st = gwi_torch_store(torch, torch->pickle, torch->frame, p->frame_count * sizeof *torch->frame,
                             &p->thread.stack, p->err);
    if (st == GW_OK && !gw_array_room(&torch->thread, torch->thread_count, &torch->thread_capacity, sizeof p->thread))
        st = gw_fail(p->err, GW_NOMEM, "no memory for its threads");
    if (st == GW_OK)
        torch->thread[torch->thread_count++] = p->thread;
    p->thread.pid = 0;
    return st;
}

static gw_status begin_process(parser *p, const char *line, size_t bytes)
{
    const char *command = memchr(line, ':', bytes);
    gw_status st = end_thread(p);
    p->pid = (uint32_t)strtoul(line + strlen("Process "), NULL, 10);
    p->command = UINT32_MAX;
    if (st == GW_OK && command != NULL && command + 2 < line + bytes)
        st = add_text(p, command + 2, bytes - (size_t)(command + 2 - line), &p->command);
    return st;
}

static gw_status begin_thread(parser *p, const char *line, size_t bytes)
{
    const char *number = line + strlen("Thread "), *end = line + bytes, *name = memchr(line, '"', bytes);
    const char *status = memchr(line, '(', bytes);
    gw_status st = end_thread(p);
    if (st != GW_OK || p->pid == 0 || status == NULL)
        return st;
    p->frame_count = 0;
    p->thread = (gwi_torch_thread){.pid = p->pid,
                                   .thread_id = strtoull(number, NULL, 0),
                                   .command = p->command,
                                   .name = UINT32_MAX,
                                   .native = UINT32_MAX,
                                   .is_active = gw_begins(status, "(active")};
    if (!gw_begins(number, "0x") && p->thread.thread_id <= INT32_MAX)
        p->thread.tid = (uint32_t)p->thread.thread_id;
    if (name != NULL && end - name > 2)
        st = add_text(p, name + 1, (size_t)(end - name) - 2, &p->thread.name);
    return st;
}

/* Read "    name (file:line)", or "    name (file)" for native code. */
static gw_status add_frame(parser *p, const char *line, size_t bytes)
{
    char copy[2 * NAME_MAX_BYTES], file[NAME_MAX_BYTES];
    gwi_torch_frame frame = {.line = 0};
    snprintf(copy, sizeof copy, "%.*s", (int)(bytes < sizeof copy ? bytes : sizeof copy - 1), line);
    char *open = strstr(copy, " ("), *close = strrchr(copy, ')');
    for (char *next = open; next != NULL && (next = strstr(next + 1, " (")) != NULL;)
        open = next;
    if (p->thread.pid == 0 || open == NULL || close == NULL || close < open || p->frame_count == FRAMES_MAX)
        return GW_OK;
    *open = *close = '\0';
    char *colon = strrchr(open + 2, ':');
    size_t digits = colon == NULL ? 0 : strspn(colon + 1, "0123456789");
    if (digits > 0 && digits < 10 && colon[digits + 1] == '\0') {
        frame.line = (int32_t)strtoul(colon + 1, NULL, 10);
        *colon = '\0';
    }
    complete_name(file, open + 2);
    gw_status st = add_text(p, copy, strlen(copy), &frame.name);
    uint32_t number = 0;
    if (st == GW_OK)
        st = add_text(p, file, strlen(file), &frame.file);
    if (st == GW_OK)
        st = gwi_torch_store(p->torch, p->torch->pickle, &frame, sizeof frame, &number, p->err);
    if (st == GW_OK && !gw_array_room(&p->torch->frame, p->frame_count, &p->torch->frame_capacity, sizeof number))
        st = gw_fail(p->err, GW_NOMEM, "no memory for its frames");
    if (st == GW_OK)
        p->torch->frame[p->frame_count++] = number;
    return st;
}

/* Read a line. Lines that py-spy does not print, such as those of a script around it, are ignored. */
static gw_status read_line(parser *p, const char *line, size_t bytes)
{
    enum { INDENT = 4 };
    while (bytes > 0 && line[bytes - 1] == '\r')
        bytes--;
    size_t indent = strspn(line, " ");
    if (indent == 0 && gw_begins(line, "Process ") && line[8] >= '0' && line[8] <= '9')
        return begin_process(p, line, bytes);
    if (indent == 0 && gw_begins(line, "Thread "))
        return begin_thread(p, line, bytes);
    if (indent > INDENT && bytes > indent && p->thread.pid != 0) {
        uint64_t before = p->thread.locals == 0 ? GW_HASH_START : p->thread.locals;
        p->thread.locals = gw_hash_step(gw_hash_bytes(before, line, bytes), 0xff);
    }
    return indent == INDENT && bytes > INDENT ? add_frame(p, line + INDENT, bytes - INDENT) : GW_OK;
}

gw_status gwi_pyspy_read(const char *path, gwi_torch *torch, gw_error *err)
{
    gw_text text = {0};
    parser p = {.torch = torch, .err = err};
    size_t number = 0;
    gw_status st = gw_plain_read(path, BYTES_MAX, &text, err);
    if (st != GW_OK)
        goto out;
    for (const char *line = gw_text_str(&text); *line != '\0' && st == GW_OK; number++) {
        size_t bytes = strcspn(line, "\n");
        st = read_line(&p, line, bytes);
        line += bytes + (line[bytes] == '\n');
    }
    if (st == GW_OK)
        st = end_thread(&p);
    if (st == GW_OK && torch->thread_count == 0)
        st = gw_fail(err, GW_CORRUPT, "a dump of py-spy without threads");
    if (st != GW_OK)
        gw_wrap(err, "%s: line %zu", path, number);
out:
    gw_text_free(&text);
    return st;
}

/* ---- what a thread waits for ---- */

/* Functions that wait, as native code or as Python's standard library names them. The first row with a function of the
 * innermost frames decides: a thread that waits for another one to end does so with a lock. `file`: part of the name of
 * its file; NULL: native code. */
static const struct {
    const char *wait, *file, *function[10];
} rows[] = {
    {"sleep", NULL, {"clock_nanosleep", "nanosleep", "time_sleep", "pysleep", "usleep", "sleep"}},
    {"child", NULL, {"waitpid", "wait4", "waitid", "os_waitpid"}},
    {"child", "/subprocess.py", {"wait", "_wait", "_try_wait", "communicate"}},
    {"child", "/multiprocessing/popen_", {"wait", "poll"}},
    {"join", "/threading.py", {"join", "_wait_for_tstate_lock"}},
    {"input", "/selectors.py", {"select"}},
    {"input", "/multiprocessing/connection.py", {"recv", "_recv", "recv_bytes", "poll", "wait", "accept"}},
    {"input", "/socket.py", {"accept", "readinto"}},
    {"input", NULL, {"poll", "ppoll", "select", "epoll_wait", "recv", "recvfrom", "recvmsg", "read", "accept"}},
    {"lock", "/threading.py", {"wait", "acquire", "__enter__"}},
    {"lock",
     NULL,
     {"PyThread_acquire_lock_timed", "pthread_cond_wait", "pthread_mutex_lock", "sem_wait", "futex_wait"}},
};

static const char *text_of(const gwi_torch *torch, uint32_t id)
{
    return gw_pickle_text(torch->pickle, (gw_pickle_value){.type = GW_PICKLE_TEXT, .number = id}, NULL);
}

static bool is_of_library(const char *file)
{
    return strstr(file, "/lib/python3") != NULL && strstr(file, "-packages/") == NULL;
}

static bool is_row(size_t row, const char *function, const char *file, bool is_native)
{
    const char *last = strrchr(function, '.'); /* "Condition.wait" */
    bool is = is_native ? rows[row].file == NULL : rows[row].file != NULL && strstr(file, rows[row].file) != NULL;
    for (size_t i = 0; is && i < sizeof rows[0].function / sizeof rows[0].function[0] && rows[row].function[i] != NULL;
         i++)
        if (strcmp(last == NULL || is_native ? function : last + 1, rows[row].function[i]) == 0)
            return true;
    return false;
}

/* Look at the innermost frames, up to the first one of Python code outside of the standard library. */
static void find_wait(const gwi_torch *torch, const uint32_t *frame, size_t count, gwi_torch_thread *thread)
{
    size_t best = sizeof rows / sizeof rows[0];
    for (size_t i = 0; i < count; i++) {
        gwi_torch_frame it = gwi_torch_frame_of(torch, frame[i]);
        const char *function = text_of(torch, it.name), *file = text_of(torch, it.file);
        bool is_native = it.line <= 0;
        if (!is_native && !is_of_library(file))
            break;
        if (is_native && thread->native == UINT32_MAX && !gw_begins(function, "0x"))
            thread->native = it.name;
        for (size_t row = 0; row < best; row++)
            if (is_row(row, function, file, is_native))
                best = row;
    }
    thread->wait = best < sizeof rows / sizeof rows[0] ? rows[best].wait : "other";
    if (thread->is_active)
        thread->wait = "running";
}

/* Count the dumps of the thread's process before the one with this thread. A dump lists a thread once. */
static uint32_t dump_of(const gwi_torch *torch, size_t index)
{
    enum { LOOKED_AT_MAX = 4096 };
    const gwi_torch_thread *it = &torch->thread[index];
    uint32_t dump = 0;
    bool is_first = true;
    for (size_t i = index, looked = 0; i-- > 0 && looked++ < LOOKED_AT_MAX;) {
        const gwi_torch_thread *other = &torch->thread[i];
        if (other->pid != it->pid)
            continue;
        dump = is_first ? other->dump : dump;
        is_first = false;
        if (other->dump != dump)
            break;
        if (other->thread_id == it->thread_id)
            return dump + 1;
    }
    return dump;
}

gw_status gwi_pyspy_finish(gwi_torch *torch, gw_error *err)
{
    uint32_t frame[FRAMES_MAX];
    gw_status st =
        torch->thread_count > THREADS_MAX ? gw_fail(err, GW_UNSUPPORTED, "more than %d threads", THREADS_MAX) : GW_OK;
    for (size_t i = 0; i < torch->thread_count && st == GW_OK; i++) {
        gwi_torch_thread *thread = &torch->thread[i];
        size_t all = thread->stack == 0 ? 0 : gwi_torch_stack_of(torch, thread->stack, frame, FRAMES_MAX), kept = 0;
        size_t count = all < FRAMES_MAX ? all : FRAMES_MAX;
        thread->dump = dump_of(torch, i);
        find_wait(torch, frame, count, thread);
        for (size_t k = 0; k < count; k++)
            if (gwi_torch_frame_of(torch, frame[k]).line > 0)
                frame[kept++] = frame[k];
        thread->stack = 0;
        if (kept > 0)
            st = gwi_torch_store(torch, torch->pickle, frame, kept * sizeof frame[0], &thread->stack, err);
    }
    return st;
}
