/* Reads the files that other programs saved about the ranks of a job into one model. */
#include "gw_torch.h"
#include "gwi_feeder.h"

#include "gw_array.h"
#include "gw_fact.h"
#include "gw_hash.h"
#include "gw_model_facts.h"
#include "gw_own.h"
#include "gw_ras.h"
#include "gw_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOKS_MAX = 4096 };

/* The dump of one process, from a file of py-spy. */
typedef struct look {
    const gwi_torch *torch; /* borrowed from `saved` */
    uint32_t pid, rank;     /* pid: the one in the dump */
    bool has_rank;
    size_t file, main; /* main: index of the main thread */
    uint32_t dump;
    uint64_t key; /* hash of the main thread's stack and of what it waits for */
    uint64_t all; /* hash of all threads */
    bool is_copy; /* an earlier file has an equal dump of the process: this one may be a copy */
} look;

typedef struct saved {
    gw_model *model;
    gw_error *err;
    gwi_torch **torch; /* owned, like each of them; the files of py-spy */
    size_t torch_count, torch_capacity;
    look *look; /* owned; in the order of the files */
    size_t look_count, look_capacity;
    uint32_t pid;     /* the last one that was given to a process of the model */
    const char **ras; /* owned; the paths of RAS's answers */
    size_t ras_count;
    bool has[GW_SAVED_RAS + 1];
} saved;

/* ---- kinds of files ---- */

gw_saved_kind gw_saved_kind_of(const char *path)
{
    char start[GWI_TORCH_START];
    size_t bytes = gw_plain_peek(path, start, sizeof start);
    char first = start[strspn(start, " \t\r\n")];
    static const char *const flight[] = {"\"pg_config\"", "\"collective_seq_id\"", "\"profiling_name\""};
    if (gw_ras_is(start, bytes))
        return GW_SAVED_RAS;
    if (gwi_pyspy_is(start) || (first == '[' && strstr(start, "\"os_thread_id\"") != NULL))
        return GW_SAVED_STACKS;
    bool is_json = first == '{' && GW_HAS_ONE_OF(start, flight);
    bool is_pickle = gw_pickle_is(path) && memmem(start, bytes, "pg_config", strlen("pg_config")) != NULL;
    return is_json || is_pickle ? GW_SAVED_FLIGHT : GW_SAVED_NONE;
}

static void feed_pair(saved *s, gw_item_kind kind, uint32_t pid, uint32_t tid, const char *key, const char *value,
                      gw_status *st)
{
    gw_item item = {.kind = kind, .pid = pid, .tid = tid, .pair = {key, value}};
    if (*st == GW_OK)
        *st = gw_model_feed(s->model, &item, s->err);
}

/* ---- dumps of py-spy ---- */

static const char *text_of(const gwi_torch *torch, uint32_t id)
{
    return gw_pickle_text(torch->pickle, (gw_pickle_value){.type = GW_PICKLE_TEXT, .number = id}, NULL);
}

/* True if the thread is of a process that serves a rank: one that loads data, compiles, or launches the ranks. */
static bool is_of_helper(const gwi_torch *torch, const gwi_torch_thread *thread)
{
    static const char *const files[] = {"torch/utils/data/_utils/worker.py", "multiprocessing/resource_tracker.py",
                                        "multiprocessing/forkserver.py",     "torch/distributed/elastic/",
                                        "torch/distributed/launcher/",       "torch/_inductor/compile_worker/"};
    uint32_t frame[GW_SITE_PYTHON_MAX];
    size_t count = thread->stack == 0 ? 0 : gwi_torch_stack_of(torch, thread->stack, frame, GW_SITE_PYTHON_MAX);
    for (size_t i = 0; i < count && i < GW_SITE_PYTHON_MAX; i++)
        if (GW_HAS_ONE_OF(text_of(torch, gwi_torch_frame_of(torch, frame[i]).file), files))
            return true;
    return false;
}

static uint64_t key_of(const gwi_torch *torch, const gwi_torch_thread *thread)
{
    uint32_t frame[GW_SITE_PYTHON_MAX];
    size_t count = thread->stack == 0 ? 0 : gwi_torch_stack_of(torch, thread->stack, frame, GW_SITE_PYTHON_MAX);
    uint64_t hash = gw_hash_bytes(GW_HASH_START, thread->wait, strlen(thread->wait));
    for (size_t i = 0; i < count && i < GW_SITE_PYTHON_MAX; i++) {
        gwi_torch_frame it = gwi_torch_frame_of(torch, frame[i]);
        const char *name = text_of(torch, it.name), *file = text_of(torch, it.file);
        hash = gw_hash_bytes(hash, name, strlen(name));
        hash = gw_hash_bytes(hash, file, strlen(file));
        hash = gw_hash_step(hash, (uint64_t)it.line);
    }
    return hash;
}

static uint64_t hash_of(const gwi_torch *torch, const look *it)
{
    uint64_t hash = GW_HASH_START;
    for (size_t i = 0; i < torch->thread_count; i++) {
        const gwi_torch_thread *thread = &torch->thread[i];
        if (thread->pid != it->pid || thread->dump != it->dump)
            continue;
        hash = gw_hash_step(gw_hash_step(hash, thread->thread_id), thread->locals);
        hash = gw_hash_step(gw_hash_step(hash, key_of(torch, thread)), thread->is_active);
    }
    return hash;
}

/* True if `it` is more likely to be the main thread than `other`, of the same process. */
static bool is_more_main(const gwi_torch *torch, const gwi_torch_thread *it, const gwi_torch_thread *other)
{
    bool is_named = it->name != UINT32_MAX && strcmp(text_of(torch, it->name), "MainThread") == 0;
    bool is_other_named = other->name != UINT32_MAX && strcmp(text_of(torch, other->name), "MainThread") == 0;
    return is_named != is_other_named ? is_named : it->tid == it->pid && other->tid != other->pid;
}

/* Read the rank in a file's name, such as "rank3.second.txt". Other digits may be a pid, a time or a count. */
static bool rank_in_name(const char *path, uint32_t *ret_rank)
{
    char name[256];
    snprintf(name, sizeof name, "%s", gw_path_last(path));
    for (char *at = name; *at != '\0'; at++)
        *at = (char)tolower((unsigned char)*at);
    for (const char *at = name; (at = strstr(at, "rank")) != NULL;) {
        at += strlen("rank");
        const char *digits = at + strspn(at, "_-=.");
        size_t count = strspn(digits, "0123456789");
        if (count == 0 || count > 9)
            continue;
        *ret_rank = (uint32_t)strtoul(digits, NULL, 10);
        return true;
    }
    return false;
}

static look *look_of(saved *s, const gwi_torch *torch, const gwi_torch_thread *thread, size_t from)
{
    for (size_t i = s->look_count; i-- > from;)
        if (s->look[i].torch == torch && s->look[i].pid == thread->pid && s->look[i].dump == thread->dump)
            return &s->look[i];
    return NULL;
}

/* List the processes of a file, dump after dump. */
static gw_status list_looks(saved *s, const gwi_torch *torch, size_t from, size_t file)
{
    for (size_t i = 0; i < torch->thread_count; i++) {
        look *it = look_of(s, torch, &torch->thread[i], from);
        if (it != NULL) {
            it->main = is_more_main(torch, &torch->thread[i], &torch->thread[it->main]) ? i : it->main;
            continue;
        }
        if (s->look_count == LOOKS_MAX)
            return gw_fail(s->err, GW_UNSUPPORTED, "more than %d processes", LOOKS_MAX);
        if (!gw_array_room(&s->look, s->look_count, &s->look_capacity, sizeof *s->look))
            return gw_fail(s->err, GW_NOMEM, "no memory for its processes");
        s->look[s->look_count++] =
            (look){.torch = torch, .pid = torch->thread[i].pid, .dump = torch->thread[i].dump, .file = file, .main = i};
    }
    return GW_OK;
}

/* Drop the processes that serve a rank, and find the rank of a process that is alone. */
static void name_looks(saved *s, const gwi_torch *torch, size_t from, const char *path)
{
    size_t kept = from;
    bool is_alone = true;
    for (size_t i = from; i < s->look_count; i++)
        if (!is_of_helper(torch, &torch->thread[s->look[i].main]))
            s->look[kept++] = s->look[i];
    s->look_count = kept == from ? s->look_count : kept; /* a file about helpers only is still about them */
    for (size_t i = from; i < s->look_count; i++)
        is_alone = is_alone && s->look[i].pid == s->look[from].pid;
    for (size_t i = from; i < s->look_count; i++) {
        s->look[i].has_rank = is_alone && rank_in_name(path, &s->look[i].rank);
        s->look[i].key = key_of(torch, &torch->thread[s->look[i].main]);
        s->look[i].all = hash_of(torch, &s->look[i]);
    }
}

static gw_status add_stacks(saved *s, const char *path, size_t file)
{
    size_t from = s->look_count;
    gwi_torch *torch = calloc(1, sizeof *torch);
    if (torch == NULL || !gw_array_room(&s->torch, s->torch_count, &s->torch_capacity, sizeof(gwi_torch *))) {
        free(torch);
        return gw_fail(s->err, GW_NOMEM, "%s: no memory", path);
    }
    gw_status st = gwi_torch_read(path, torch, s->err);
    if (st == GW_OK && !torch->is_pyspy) {
        gwi_torch_free(torch);
        st = gw_fail(s->err, GW_UNSUPPORTED, "%s: JSON, but not a dump of py-spy", path);
    }
    if (st != GW_OK) {
        free(torch);
        return st;
    }
    s->torch[s->torch_count++] = torch;
    st = list_looks(s, torch, from, file);
    if (st == GW_OK) {
        name_looks(s, torch, from, path);
    } else {
        s->look_count = from;
        gw_wrap(s->err, "%s", path);
    }
    return st;
}

/* Two dumps are of one process if they have the same rank or, without ranks, the same pid in the same file. */
static bool is_same_process(const look *a, const look *b)
{
    if (a->has_rank || b->has_rank)
        return a->has_rank && b->has_rank && a->rank == b->rank;
    return a->pid == b->pid && a->file == b->file;
}

static gw_status feed_threads(saved *s, const look *it, uint32_t pid, bool is_new)
{
    gwi_feeder f = {.model = s->model, .err = s->err, .status = GW_OK};
    gw_text text = {0};
    if (!gwi_feed_begin(&f, it->torch, pid)) {
        gwi_feed_end(&f);
        return gw_fail(s->err, GW_NOMEM, "no memory for its stacks");
    }
    gwi_feed_as_outside(&f, 0);
    if (is_new)
        gwi_feed_process(&f);
    gw_status st = f.status;
    feed_pair(s, GW_ITEM_SUPERVISOR, pid, pid, gw_fact_key_text(GW_FACT_HANG), "for_ms=0", &st);
    for (size_t i = 0; i < it->torch->thread_count && st == GW_OK; i++) {
        const gwi_torch_thread *thread = &it->torch->thread[i];
        if (thread->pid != it->pid || thread->dump != it->dump)
            continue;
        uint32_t tid = i == it->main ? pid : thread->tid == pid ? 0 : thread->tid;
        bool has_native = thread->native != UINT32_MAX, has_name = thread->name != UINT32_MAX;
        const char *native = has_native ? text_of(it->torch, thread->native) : "";
        const gw_fact_hang_thread fact = {
            GW_FACT_SET(wait, gw_fact_text_of(thread->wait)), GW_FACT_SET(site, gwi_feed_site(&f, thread->stack)),
            GW_FACT_SET(where, gw_fact_text_of(native)),
            GW_FACT_SET(name, gw_fact_text_of(has_name ? text_of(it->torch, thread->name) : ""))};
        gw_text_clear(&text);
        gw_fact_hang_thread_write(&fact, &text);
        st = f.status != GW_OK ? f.status : st;
        feed_pair(s, GW_ITEM_SUPERVISOR, pid, tid, gw_fact_key_text(GW_FACT_HANG_THREAD), gw_text_str(&text), &st);
    }
    st = st == GW_OK && text.failed ? gw_fail(s->err, GW_NOMEM, "no memory for its threads") : st;
    gw_text_free(&text);
    gwi_feed_end(&f);
    return st;
}

/* Add the newest dump of a process to the model: to the process with its rank, or as a new one. */
static gw_status feed_look(saved *s, const look *it)
{
    gw_process *process = NULL;
    char key[64], value[256];
    const gwi_torch_thread *main_thread = &it->torch->thread[it->main];
    for (size_t i = 0; i < s->model->process_count && it->has_rank; i++)
        if (s->model->process[i].has_rank && s->model->process[i].rank == it->rank)
            process = &s->model->process[i];
    uint32_t pid = process != NULL ? process->pid : ++s->pid;
    gw_status st = feed_threads(s, it, pid, process == NULL);
    for (size_t i = 0; i < s->model->process_count && st == GW_OK && process == NULL; i++)
        if (s->model->process[i].pid == pid)
            process = &s->model->process[i];
    if (process != NULL && it->has_rank) {
        process->has_rank = true;
        process->rank = it->rank;
    }
    snprintf(key, sizeof key, GW_META_PROCESS "%" PRIu32, pid);
    snprintf(value, sizeof value, "pid %" PRIu32 "%s%.180s%s", it->pid, main_thread->command == UINT32_MAX ? "" : " (",
             main_thread->command == UINT32_MAX ? "" : text_of(it->torch, main_thread->command),
             main_thread->command == UINT32_MAX ? "" : ")");
    feed_pair(s, GW_ITEM_META, 0, 0, key, value, &st);
    return st;
}

/* Two dumps of a process: did it stand still in between? */
static bool is_equal(const look *a, const look *b)
{
    uint64_t locals = a->torch->thread[a->main].locals;
    return a->pid == b->pid && a->key == b->key && locals == b->torch->thread[b->main].locals;
}

/* Two dumps in one file are two looks. Equal dumps in two files may be one look and a copy of its file. */
static void find_copies(saved *s)
{
    for (size_t i = 0; i < s->look_count; i++)
        for (size_t k = 0; k < i && !s->look[i].is_copy; k++)
            s->look[i].is_copy = s->look[k].file != s->look[i].file && s->look[k].all == s->look[i].all &&
                                 is_same_process(&s->look[k], &s->look[i]);
}

static gw_status feed_looks(saved *s)
{
    gw_status st = GW_OK;
    bool is_same = s->look_count > 0, has_copy = false;
    char who[64];
    find_copies(s);
    for (size_t i = 0; i < s->look_count && st == GW_OK; i++) {
        size_t dumps = 1, copies = s->look[i].is_copy;
        bool is_newest = true, is_moved = false;
        for (size_t k = 0; k < s->look_count; k++) {
            if (k == i || !is_same_process(&s->look[i], &s->look[k]))
                continue;
            dumps++;
            copies += s->look[k].is_copy;
            is_newest = is_newest && k < i;
            is_moved = is_moved || !is_equal(&s->look[i], &s->look[k]);
        }
        if (!is_newest)
            continue;
        has_copy = has_copy || copies > 0;
        is_same = is_same && dumps - copies > 1 && !is_moved && s->look[i].torch->thread[s->look[i].main].locals != 0;
        snprintf(who, sizeof who, "%s %" PRIu32, s->look[i].has_rank ? "rank" : "pid",
                 s->look[i].has_rank ? s->look[i].rank : s->look[i].pid);
        if (is_moved)
            feed_pair(s, GW_ITEM_META, 0, 0, GW_META_MOVED, who, &st);
        if (st == GW_OK)
            st = feed_look(s, &s->look[i]);
    }
    if (is_same)
        feed_pair(s, GW_ITEM_META, 0, 0, GW_META_SAME_STACKS, "1", &st);
    else if (has_copy)
        feed_pair(s, GW_ITEM_META, 0, 0, GW_META_EQUAL_DUMPS, "1", &st);
    return st;
}

/* ---- all files ---- */

static gw_status add_ras(saved *s, const char *path)
{
    enum { BYTES_MAX = 1 << 20 };
    gw_ras ras;
    gw_text text = {0};
    gw_status st = gw_plain_read(path, BYTES_MAX, &text, s->err);
    if (st == GW_OK)
        st = gw_ras_read(path, gw_text_str(&text), text.bytes, &ras, s->err);
    if (st == GW_OK) {
        gw_ras_free(&ras);
        s->ras[s->ras_count++] = path;
    }
    feed_pair(s, GW_ITEM_SUPERVISOR, 0, 0, gw_fact_key_text(GW_FACT_NCCL_RAS), gw_text_str(&text), &st);
    gw_text_free(&text);
    return st;
}

static gw_status add_file(saved *s, const char *path, size_t file)
{
    gw_saved_kind kind = gw_saved_kind_of(path);
    gw_status st = kind == GW_SAVED_RAS      ? add_ras(s, path)
                   : kind == GW_SAVED_STACKS ? add_stacks(s, path, file)
                                             : gwi_flight_add(path, s->pid + 1, true, s->model, s->err);
    s->pid += kind == GW_SAVED_FLIGHT && st == GW_OK;
    s->has[kind] = s->has[kind] || st == GW_OK;
    return st;
}

/* Store what the files are: "py-spy dump", and "rank0.txt and 7 more". */
static gw_status feed_meta(saved *s, const char *first, size_t count)
{
    static const char *const kinds[] = {[GW_SAVED_FLIGHT] = "PyTorch Flight Recorder dump",
                                        [GW_SAVED_STACKS] = "py-spy dump",
                                        [GW_SAVED_RAS] = "NCCL RAS answer"};
    char name[4200], kind[128] = "";
    gw_status st = GW_OK;
    snprintf(name, sizeof name, "%.4096s", first);
    if (count > 1)
        snprintf(name + strlen(name), sizeof name - strlen(name), " and %zu more", count - 1);
    for (size_t i = GW_SAVED_FLIGHT; i <= GW_SAVED_RAS; i++)
        if (s->has[i])
            snprintf(kind + strlen(kind), sizeof kind - strlen(kind), "%s%s", kind[0] == '\0' ? "" : ", ", kinds[i]);
    feed_pair(s, GW_ITEM_META, 0, 0, GW_META_SNAPSHOT, name, &st);
    feed_pair(s, GW_ITEM_META, 0, 0, GW_META_RANKS, kind, &st);
    return st;
}

/* Add the files. If none can be used, the reason of the last one is the error. */
static gw_status add_files(saved *s, const char *const *path, size_t count, gw_saved_skip *skip, void *user)
{
    gw_status st = GW_OK, last = GW_OK;
    const char *first = NULL;
    size_t used = 0;
    for (size_t i = 0; i < count && st == GW_OK; i++) {
        if (last != GW_OK && skip != NULL)
            skip(user, s->err->text);
        last = add_file(s, path[i], i);
        st = last == GW_NOMEM || last == GW_USAGE ? last : GW_OK;
        first = last == GW_OK && first == NULL ? path[i] : first;
        used += last == GW_OK;
    }
    if (st == GW_OK && last != GW_OK && used > 0 && skip != NULL)
        skip(user, s->err->text);
    st = used == 0 ? last : st;
    return st == GW_OK ? feed_meta(s, first, used) : st;
}

static void release(saved *s)
{
    for (size_t i = 0; i < s->torch_count; i++) {
        gwi_torch_free(s->torch[i]);
        free(s->torch[i]);
    }
    free(s->torch);
    free(s->look);
    free(s->ras);
    gw_model_free(s->model);
}

gw_status gw_saved_model(const char *const *path, size_t count, gw_saved_skip *skip, void *user, gw_model **ret_model,
                         gw_error *err)
{
    gw_error why = {""};
    saved s = {.err = &why, .ras = calloc(count + 1, sizeof *s.ras)};
    gw_status st = s.ras == NULL ? gw_fail(&why, GW_NOMEM, "no memory") : gw_model_new(&s.model, &why);
    if (st == GW_OK)
        st = add_files(&s, path, count, skip, user);
    /* Answers of RAS alone have a model of their own, with all communicators. */
    bool is_ras = st == GW_OK && !s.has[GW_SAVED_FLIGHT] && !s.has[GW_SAVED_STACKS];
    if (is_ras) {
        st = gw_ras_model(s.ras, s.ras_count, ret_model, err);
        release(&s);
        return st;
    }
    if (st == GW_OK)
        st = feed_looks(&s);
    if (st == GW_OK)
        st = gw_model_finish(s.model, &why);
    if (st == GW_OK) {
        gwi_flight_set_times(s.model);
        *ret_model = s.model;
        s.model = NULL;
    } else {
        st = gw_fail(err, st, "%s", why.text);
    }
    release(&s);
    return st;
}
