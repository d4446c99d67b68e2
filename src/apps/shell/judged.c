/* Judges a file that the user named. */
#include "gwi_judge.h"
#include "gwi_judged.h"
#include "gwi_past.h"

#include "gw_array.h"
#include "gw_torch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    if (gw_torch_is_snapshot(file))
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

static gw_status judge(const gwi_judge_how *how, gwi_judged *judged, gw_error *err)
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
    gw_status st = judge(how, ret_judged, err);
    if (st != GW_OK) {
        *ret_judged = (gwi_judged){0};
        return st;
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
