/* Judges a recording by its path, and prints the verdict to a terminal or a file. */
#include "gw_array.h"
#include "gwi_judge.h"
#include "gwi_past_runs.h"
#include "gwi_progress.h"
#include "gwi_terminal.h"

#include "gw_clock.h"
#include "gw_logs.h"
#include "gw_model.h"
#include "gw_process.h"
#include "gw_render.h"
#include "gw_say.h"
#include "gw_sites.h"
#include "gw_torch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

gw_status gwi_judge_phase(const char *path, const char *name, const gw_text *traceback, gw_verdict **ret_verdict,
                          gw_error *err)
{
    gw_reader *reader = NULL;
    gw_model *model = NULL;
    gw_status st = gw_reader_open(path, &reader, err);
    if (st == GW_OK)
        st = gw_model_build_phase(reader, name, gw_text_str(traceback), traceback->bytes, &model, err);
    if (st == GW_OK)
        st = gw_judge(model, ret_verdict, err);
    gw_model_free(model);
    gw_reader_close(reader);
    return st;
}

/* Read what a recording without an end needs: the identity of this machine, and when it started. */
static gw_status judge_here(const gw_model *model, gw_verdict **ret_verdict, gw_error *err)
{
    struct utsname name;
    struct timespec up;
    char boot_id[GW_BOOT_ID_MAX];
    (void)gw_boot_id(boot_id);
    gw_later later = {.host = uname(&name) == 0 ? name.nodename : "", .boot_id = boot_id};
    if (clock_gettime(CLOCK_BOOTTIME, &up) == 0)
        later.boot_realtime_ns = gw_realtime_ns() - ((uint64_t)up.tv_sec * 1000000000u + (uint64_t)up.tv_nsec);
    return gw_judge_later(model, &later, ret_verdict, err);
}

/* `progress` may be NULL. */
static gw_status judge(const char *path, bool is_quick, gwi_progress *progress, gw_model **ret_model,
                       gw_verdict **ret_verdict, gw_error *err)
{
    gw_reader *reader = NULL;
    gw_model *model = NULL;
    gw_status st;
    if (gw_torch_is_snapshot(path)) {
        st = gw_torch_snapshot_model(path, &model, err);
    } else if (gw_saved_kind_of(path) != GW_SAVED_NONE) {
        st = gw_saved_model(&path, 1, NULL, NULL, &model, err);
    } else {
        st = gw_reader_open(path, &reader, err);
        if (st == GW_OK) {
            gwi_progress_watch(progress, reader);
            st = gw_model_read(reader, &model, err);
            if (st == GW_OK)
                st = gw_torch_flights_add(model, err);
            if (st == GW_OK)
                st = gw_model_finish(model, err);
        }
    }
    gwi_progress_part(progress, "naming call sites");
    if (st == GW_OK && !is_quick) /* if naming the sites fails, frames are printed as file and address */
        (void)!gw_model_name_sites(model, GW_NAMES_SOFT_MS, GW_NAMES_HARD_MS, NULL);
    gwi_progress_part(progress, "judging");
    if (st == GW_OK)
        st = judge_here(model, ret_verdict, err);
    if (st == GW_OK && ret_model != NULL) {
        *ret_model = model;
        model = NULL;
    }
    gw_model_free(model);
    gw_reader_close(reader);
    return st;
}

gw_status gwi_judge(const char *path, gw_verdict **ret_verdict, gw_error *err)
{
    return judge(path, false, NULL, NULL, ret_verdict, err);
}

gw_status gwi_judge_quickly(const char *path, gw_verdict **ret_verdict, gw_error *err)
{
    return judge(path, true, NULL, NULL, ret_verdict, err);
}

gw_status gwi_judge_model(const char *path, gw_model **ret_model, gw_verdict **ret_verdict, gw_error *err)
{
    gwi_progress *progress = gwi_progress_begin("reading the recording");
    gw_status st = judge(path, false, progress, ret_model, ret_verdict, err);
    gwi_progress_end(progress);
    return st;
}

gw_status gwi_judge_shown(const char *path, gw_verdict **ret_verdict, gw_error *err)
{
    return gwi_judge_model(path, NULL, ret_verdict, err);
}

gw_status gwi_refuse_text(const char *path, gw_status st, gw_error *err)
{
    gw_text command = {0};
    if (st != GW_CORRUPT || !gw_log_is_text(path))
        return st;
    gw_add_explain(&command, false, path);
    st = gw_fail(err, st, "%s is a text log; use %s", path, gw_text_str(&command));
    gw_text_free(&command);
    return st;
}

/* Write to stderr. A closed output is no reason to fail. */
static void write_whole(int fd, const gw_text *text)
{
    for (size_t at = 0; at < text->bytes;) {
        ssize_t written = write(fd, text->data + at, text->bytes - at);
        if (written < 0 && errno != EINTR)
            return;
        at += written > 0 ? (size_t)written : 0;
    }
}

static gw_render_style style_of(int fd)
{
    return (gw_render_style){.width = gwi_terminal_width(fd), .colour = gwi_has_colour(fd)};
}

void gwi_verdict_print(const gw_verdict *verdict, const gwi_print *how, int fd)
{
    gw_text text = {0};
    gw_render_style style = style_of(fd);
    style.running = how->running;
    style.all = how->all;
    style.again = how->again;
    if (gwi_is_terminal(fd))
        gw_text_add(&text, "\n", 1); /* separate the verdict from the program's own output */
    gw_render_text(verdict, &style, &text);
    if (fd == STDOUT_FILENO) /* main() reports it if this cannot be written */
        gw_put(gw_text_str(&text));
    else
        write_whole(fd, &text);
    gw_text_free(&text);
}

void gwi_rehearsal_print(const gw_verdict *verdict, int fd)
{
    gw_text text = {0};
    gw_render_style style = style_of(fd);
    gw_render_rehearsal(verdict, &style, &text);
    write_whole(fd, &text);
    gw_text_free(&text);
}

void gwi_verdict_print_now(gw_verdict *verdict, const char *recording)
{
    free(verdict->recording);
    verdict->recording = recording == NULL ? NULL : strdup(recording);
    gwi_verdict_print(verdict, &(gwi_print){.running = true, .all = verdict->recording == NULL}, STDERR_FILENO);
}

gw_status gwi_verdict_write_json(const gw_verdict *verdict, const gwi_output *output, gw_error *err)
{
    gw_text text = {0};
    gw_status st = gw_render_json(verdict, &text, err);
    if (st == GW_OK && output != NULL)
        st = gwi_output_write(output, &text, 0, err);
    else if (st == GW_OK)
        gw_put(gw_text_str(&text));
    gw_text_free(&text);
    return st;
}

/* Judges a file that the user named. */

typedef struct folder_search {
    gw_path recording; /* absolute path */
    gw_path folder;    /* the run folder; "" until found */
    bool running;      /* the supervisor of the run is still running */
} folder_search;

/* If the recording belongs to this run folder, store the folder. run.meta in the folder has the recording's path. */
static void compare(void *user, const char *folder)
{
    folder_search *search = user;
    static gw_path recording;
    pid_t supervisor;
    if (!gw_run_meta_read(folder, recording, &supervisor) || strcmp(recording, search->recording) != 0)
        return;
    snprintf(search->folder, sizeof search->folder, "%s", folder);
    search->running = gw_run_is_going(folder, supervisor);
}

static void look_up(const gwi_run_list *runs, folder_search *search)
{
    for (size_t i = 0; i < runs->count; i++) {
        if (strcmp(runs->run[i].recording, search->recording) != 0)
            continue;
        snprintf(search->folder, sizeof search->folder, "%s", runs->run[i].folder);
        search->running = runs->run[i].running;
    }
}

/* Return the path to read: the recording's run folder, which may contain events that are not in the recording yet.
 * Without one, return `file`. `runs` may be NULL. */
static const char *where_to_read(const char *file, const gwi_run_list *runs, folder_search *search)
{
    *search = (folder_search){0};
    static gw_path recording;
    pid_t supervisor;
    if (gw_torch_is_snapshot(file) || gw_saved_kind_of(file) != GW_SAVED_NONE)
        return file;
    if (realpath(file, search->recording) == NULL)
        return file; /* the path cannot be resolved; opening the recording will report the reason */
    if (gw_run_meta_read(file, recording, &supervisor)) { /* `file` is a run folder */
        search->running = gw_run_is_going(file, supervisor);
        if (recording[0] != '\0')
            snprintf(search->recording, sizeof search->recording, "%s", recording);
        return file;
    }
    if (runs != NULL)
        look_up(runs, search);
    else
        gw_run_folders_visit(compare, search);
    return search->folder[0] == '\0' ? file : search->folder;
}

/* ---- all run folders ---- */

typedef struct listing {
    gwi_run_list *list;
    bool failed;
} listing;

static void list_one(void *user, const char *folder)
{
    listing *all = user;
    gw_path recording;
    pid_t supervisor;
    if (all->failed || !gw_run_meta_read(folder, recording, &supervisor) || recording[0] == '\0')
        return;
    gwi_run_list *list = all->list;
    if (!gw_array_more(&list->run, list->count, sizeof *list->run)) {
        all->failed = true;
        return;
    }
    struct gwi_run *run = &list->run[list->count++];
    *run = (struct gwi_run){strdup(recording), strdup(folder), gw_run_is_going(folder, supervisor)};
    all->failed = run->recording == NULL || run->folder == NULL;
}

gw_status gwi_run_list_read(gwi_run_list *ret_list, gw_error *err)
{
    *ret_list = (gwi_run_list){0};
    listing all = {.list = ret_list};
    gw_run_folders_visit(list_one, &all);
    return all.failed ? gw_fail(err, GW_NOMEM, "list the run folders") : GW_OK;
}

void gwi_run_list_free(gwi_run_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->run[i].recording);
        free(list->run[i].folder);
    }
    free(list->run);
    *list = (gwi_run_list){0};
}

/* ---- judging ---- */

void gwi_judged_free(gwi_judged *judged)
{
    gw_verdict_free(judged->verdict);
    gw_model_free(judged->model);
    *judged = (gwi_judged){0};
}

static gw_status judge_how(const gwi_judge_how *how, gwi_judged *judged, gw_error *err)
{
    if (how->cell != NULL)
        return gwi_judge_phase(judged->path, how->cell, how->traceback, &judged->verdict, err);
    if (how->is_quick)
        return gwi_judge_quickly(judged->path, &judged->verdict, err);
    return gwi_judge_model(judged->path, &judged->model, &judged->verdict, err);
}

gw_status gwi_judge_file(const char *file, const gwi_judge_how *how, gwi_judged *ret_judged, gw_error *err)
{
    static folder_search search;
    *ret_judged = (gwi_judged){0};
    snprintf(ret_judged->path, sizeof ret_judged->path, "%s", where_to_read(file, how->runs, &search));
    gw_status st = judge_how(how, ret_judged, err);
    if (st != GW_OK) {
        *ret_judged = (gwi_judged){0};
        return gwi_refuse_text(file, st, err);
    }
    gw_verdict *verdict = ret_judged->verdict;
    free(verdict->recording);
    verdict->run.is_cut = verdict->run.is_cut && !search.running;
    verdict->recording =
        verdict->snapshot != NULL ? NULL : strdup(search.recording[0] == '\0' ? file : search.recording);
    /* The recording of another user is not compared with our own runs: it could name one of them. */
    if (!how->no_history && how->cell == NULL && !search.running && verdict->snapshot == NULL &&
        verdict->status != GW_VERDICT_CLEAN && verdict->run.owner == geteuid())
        gwi_last_good_say(verdict, file, NULL);
    ret_judged->running = search.running;
    return GW_OK;
}
