/* Sorts files by their kind, judges each kind, and chooses one verdict. */
#include "gwi_mixed.h"

#include "gw_say.h"
#include "gwi_folder.h"
#include "gwi_job.h"
#include "gwi_judge.h"

#include "gw_logs.h"
#include "gw_text.h"
#include "gw_torch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* In the order of their strength as evidence. */
typedef enum kind { RECORDING, SAVED, SNAPSHOT, LOG, KIND_COUNT, OTHER = KIND_COUNT } kind;

typedef struct mixture {
    char **file[KIND_COUNT]; /* owned lists of borrowed paths */
    int count[KIND_COUNT];
    gw_verdict *verdict[KIND_COUNT]; /* owned; NULL: none */
    bool running, no_history;
    gw_error *err;
} mixture;

static kind kind_of(const char *path)
{
    struct stat info;
    bool is_folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    if (gwi_folder_is_recording(path) || (is_folder && !gwi_folder_is_one(path)))
        return RECORDING;
    if (gw_saved_kind_of(path) != GW_SAVED_NONE)
        return SAVED;
    if (gw_torch_is_snapshot(path))
        return SNAPSHOT;
    return gw_log_is_text(path) ? LOG : OTHER;
}

gwi_kinds gwi_kinds_of(char *const *files, int count)
{
    struct stat info;
    gwi_kinds all = {.count = count, .kind = calloc((size_t)count + 1, sizeof *all.kind)};
    int found[KIND_COUNT + 1] = {0}, kinds = 0;
    for (int i = 0; i < count && all.kind != NULL; i++) {
        if (strcmp(files[i], "-") != 0 && stat(files[i], &info) != 0) {
            gwi_kinds_free(&all);
            break;
        }
        all.kind[i] = (unsigned char)kind_of(files[i]);
        found[all.kind[i]]++;
    }
    if (all.kind == NULL)
        return all;
    for (int i = 0; i < KIND_COUNT; i++)
        kinds += found[i] > 0;
    all.is_mixed = found[SAVED] > 0 || kinds > 1 || (found[OTHER] > 0 && found[LOG] > 0);
    all.are_logs = count > 0 && found[LOG] == count;
    return all;
}

void gwi_kinds_free(gwi_kinds *kinds)
{
    free(kinds->kind);
    *kinds = (gwi_kinds){0};
}

/* ---- each kind ---- */

static void skip(void *user, const char *why)
{
    (void)user;
    gw_say("explain: skipped: %s", why);
}

static gw_status judge_recordings(mixture *m)
{
    gwi_job job;
    gw_status st = gwi_job_read(m->file[RECORDING], m->count[RECORDING], &job, m->err);
    for (size_t i = 0; i < job.unread.count && st == GW_OK; i++)
        skip(NULL, job.unread.item[i]);
    if (st == GW_OK)
        st = gwi_job_judge(&job, m->file[RECORDING], m->no_history, &m->verdict[RECORDING], m->err);
    m->running = job.running;
    gwi_job_free(&job);
    return st;
}

static gw_status judge_saved(mixture *m)
{
    gw_model *model = NULL;
    gw_status st =
        gw_saved_model((const char *const *)m->file[SAVED], (size_t)m->count[SAVED], skip, NULL, &model, m->err);
    if (st == GW_OK)
        st = gw_judge(model, &m->verdict[SAVED], m->err);
    gw_model_free(model);
    return st;
}

/* Of several memory snapshots, the verdict is about the first one that can be read. */
static gw_status judge_snapshots(mixture *m)
{
    gwi_judged judged;
    gw_status st = GW_OK;
    for (int i = 0; i < m->count[SNAPSHOT]; i++) {
        gw_status one = gwi_judge_file(m->file[SNAPSHOT][i], &(gwi_judge_how){.no_history = true}, &judged, m->err);
        st = m->verdict[SNAPSHOT] == NULL ? one : st;
        if (one == GW_OK && m->verdict[SNAPSHOT] == NULL) {
            m->verdict[SNAPSHOT] = judged.verdict;
            judged.verdict = NULL;
        } else if (one != GW_OK && (m->verdict[SNAPSHOT] != NULL || i + 1 < m->count[SNAPSHOT])) {
            skip(NULL, m->err->text); /* the caller reports the last one */
        }
        if (one == GW_OK)
            gwi_judged_free(&judged);
    }
    return st;
}

static gw_status judge_logs(mixture *m)
{
    gw_log *log = NULL;
    gw_status st = gw_log_read((const char *const *)m->file[LOG], (size_t)m->count[LOG], &log, m->err);
    if (st == GW_OK)
        st = gw_judge_log(log, &m->verdict[LOG], m->err);
    gw_log_free(log);
    return st;
}

/* ---- one verdict ---- */

/* Add "dump_0, dump_1 and 16 more" to a line. */
static void add_names(gw_text *text, char *const *files, int count)
{
    enum { NAMED_MAX = 12 };
    for (int i = 0; i < count && i < NAMED_MAX; i++)
        gw_text_addf(text, "%s%s", i == 0 ? "" : ", ", files[i]);
    if (count > NAMED_MAX)
        gw_text_addf(text, " and %d more", count - NAMED_MAX);
}

/* Report from which files the verdict comes, and what those of another kind show. */
static bool say_files(const mixture *m, kind of, gw_verdict *best)
{
    static const char *const sources[KIND_COUNT] = {"host", "dump", "dump", "log"};
    const gw_verdict *it = m->verdict[of];
    gw_text text = {0};
    add_names(&text, m->file[of], m->count[of]);
    if (it == best)
        gw_text_addf(&text, ": %s",
                     m->count[of] == 1 ? "the verdict is about this file" : "the verdict is about these files");
    else
        gw_text_addf(&text, ": %s", it->headline);
    if (it != best && it->cause != NULL)
        gw_text_addf(&text, " (%s, %s)", it->cause, gw_certainty_text(it->certainty));
    bool good = !text.failed && gw_verdict_add_evidence(best, sources[of], gw_text_str(&text));
    gw_text_free(&text);
    return good;
}

static gw_status choose(mixture *m, gw_verdict **ret_verdict)
{
    const gw_verdict *list[KIND_COUNT];
    kind of[KIND_COUNT];
    size_t count = 0;
    for (int i = 0; i < KIND_COUNT; i++)
        if (m->verdict[i] != NULL) {
            of[count] = (kind)i;
            list[count++] = m->verdict[i];
        }
    if (count == 0)
        return gw_fail(m->err, GW_MISSING, "none of the files can be used");
    gw_verdict *best = m->verdict[of[gw_verdict_best(list, count)]];
    for (size_t i = 0; i < count && count > 1; i++)
        if (!say_files(m, of[i], best))
            return gw_fail(m->err, GW_NOMEM, "explain the files together");
    for (size_t i = 0; i < count; i++)
        if (m->verdict[of[i]] == best)
            m->verdict[of[i]] = NULL;
    *ret_verdict = best;
    return GW_OK;
}

/* Put each file into the list of its kind. False: no memory. */
static bool sort_files(mixture *m, char *const *files, const gwi_kinds *kinds)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        m->file[i] = calloc((size_t)kinds->count, sizeof(char *));
        if (m->file[i] == NULL)
            return false;
    }
    for (int i = 0; i < kinds->count; i++) {
        kind its = kinds->kind[i];
        if (its == OTHER)
            gw_say("explain: skipped: %s: neither a recording, nor a dump that gpuwhy knows, nor text", files[i]);
        else
            m->file[its][m->count[its]++] = files[i];
    }
    return true;
}

gw_status gwi_mixed_judge(char *const *files, const gwi_kinds *kinds, bool no_history, gw_verdict **ret_verdict,
                          bool *ret_running, gw_error *err)
{
    static gw_status (*const judge[KIND_COUNT])(mixture *) = {judge_recordings, judge_saved, judge_snapshots,
                                                              judge_logs};
    gw_error why = {""};
    mixture m = {.no_history = no_history, .err = &why};
    gw_status st =
        sort_files(&m, files, kinds) ? GW_OK : gw_fail(&why, GW_NOMEM, "no memory for %d files", kinds->count);
    int used = 0;
    for (int i = 0; i < KIND_COUNT; i++)
        used += m.count[i] > 0;
    for (int i = 0; i < KIND_COUNT && st == GW_OK; i++) {
        gw_status one = m.count[i] == 0 ? GW_OK : judge[i](&m);
        bool is_fatal = one == GW_NOMEM || one == GW_USAGE || used == 1;
        if (one != GW_OK && !is_fatal)
            skip(NULL, why.text);
        st = is_fatal ? one : st;
    }
    if (st == GW_OK)
        st = choose(&m, ret_verdict);
    *ret_running = m.running;
    if (st != GW_OK)
        st = gw_fail(err, st, "%s", why.text);
    for (int i = 0; i < KIND_COUNT; i++) {
        gw_verdict_free(m.verdict[i]);
        free(m.file[i]);
    }
    return st;
}
