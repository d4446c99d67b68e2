/* Changes the environment, the command and the place to go on for the next attempt of `gpuwhy run --rescue`. */
#include "gwi_rescue.h"

#include "gw_clock.h"
#include "gw_say.h"

#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the options ---- */

enum { ATTEMPTS = 3, ATTEMPTS_MAX = 1000 };

/* Read one word of --rescue=WORD,WORD. */
static bool read_word(gwi_rescue *rescue, const char *word, size_t bytes)
{
    static const char leak[] = "leak", rehearse[] = "rehearse";
    char *end = NULL;
    bool is_leak = bytes == strlen(leak) && strncmp(word, leak, bytes) == 0;
    bool is_rehearse = bytes == strlen(rehearse) && strncmp(word, rehearse, bytes) == 0;
    rescue->may_leak = rescue->may_leak || is_leak;
    rescue->may_write = rescue->may_write || is_rehearse;
    if (is_leak || is_rehearse)
        return true;
    unsigned long number = strtoul(word, &end, 10);
    if (!isdigit((unsigned char)word[0]) || end != word + bytes || number == 0 || number > ATTEMPTS_MAX)
        return false;
    rescue->attempts = (uint32_t)number;
    return true;
}

static gw_status read_option(gwi_rescue *rescue, const char *text, gw_error *err)
{
    rescue->attempts = ATTEMPTS;
    for (const char *at = text; *at != '\0';) {
        size_t bytes = strcspn(at, ",");
        if (!read_word(rescue, at, bytes))
            return gw_fail(err, GW_USAGE, "--rescue=%s: expected a number of attempts from 1 to %d, leak or rehearse",
                           text, ATTEMPTS_MAX);
        at += bytes;
        at += *at == ',';
    }
    return GW_OK;
}

static const char last_word[] = "{last}";

static gw_status check(const gw_run_options *options, gw_error *err)
{
    bool has_last = options->resume_with != NULL && strstr(options->resume_with, last_word) != NULL;
    bool is_on = options->rescue != NULL;
    if (!is_on && (options->resume_with != NULL || options->checkpoints != NULL))
        return gw_fail(err, GW_USAGE, "%s needs --rescue",
                       options->resume_with != NULL ? "--resume-with" : "--checkpoints");
    if (has_last && options->checkpoints == NULL)
        return gw_fail(err, GW_USAGE, "--resume-with %s: {last} needs --checkpoints 'PATTERN'", options->resume_with);
    if (!has_last && options->checkpoints != NULL)
        return gw_fail(err, GW_USAGE, "--checkpoints needs --resume-with 'WORDS {last}'");
    if (is_on && options->restart_count > 0)
        return gw_fail(err, GW_USAGE, "--rescue and --restart cannot be combined; --rescue=%u allows %u more attempts",
                       options->restart_count, options->restart_count);
    if (is_on && options->on.count > 0)
        return gw_fail(err, GW_USAGE,
                       "--rescue and --on cannot be combined; write placeholders such as {batch:256} "
                       "into the command");
    return GW_OK;
}

gw_status gwi_rescue_begin(gwi_rescue *rescue, const gw_run_options *options, char *const *program,
                           gwi_command *ret_command, gw_error *err)
{
    *rescue = (gwi_rescue){.options = options, .is_on = options->rescue != NULL};
    gw_status st = check(options, err);
    if (st == GW_OK && rescue->is_on)
        st = read_option(rescue, options->rescue, err);
    if (st == GW_OK && rescue->is_on)
        st = gwi_places_read(program, &rescue->places, err);
    if (st != GW_OK)
        return st;
    rescue->job_ns = rescue->attempt_ns = gw_realtime_ns();
    bool is_made =
        rescue->is_on ? gwi_places_command(&rescue->places, ret_command) : gwi_command_copy(program, ret_command);
    return is_made ? GW_OK : gw_fail(err, GW_NOMEM, "out of memory");
}

void gwi_rescue_free(gwi_rescue *rescue)
{
    gwi_places_free(&rescue->places);
}

/* ---- settings ---- */

static bool set(const char *name, const char *value, gwi_rescued *rescued)
{
    const char *old = getenv(name);
    if ((old != NULL && strcmp(old, value) == 0) || setenv(name, value, 1) != 0)
        return false;
    gw_text_addf(&rescued->change, "%s%s=%s in the environment", rescued->change.bytes > 0 ? ", " : "", name, value);
    return true;
}

/* A cure in data/regressions.tsv that begins with "Set NAME=VALUE" is a setting. */
static bool switch_off(const gw_verdict_known *known, gwi_rescued *rescued)
{
    static const char begin[] = "Set ";
    char name[64], value[64];
    if (!gw_begins(known->cure, begin))
        return false;
    const char *at = known->cure + strlen(begin);
    size_t name_bytes = strcspn(at, "= "), value_bytes = at[name_bytes] == '=' ? strcspn(at + name_bytes + 1, ", ") : 0;
    const char *rest = at + name_bytes + 1 + value_bytes; /* "with the package ..." is a condition */
    if (value_bytes == 0 || name_bytes >= sizeof name || value_bytes >= sizeof value ||
        (*rest != '\0' && !gw_begins(rest, ", or ")))
        return false;
    snprintf(name, sizeof name, "%.*s", (int)name_bytes, at);
    snprintf(value, sizeof value, "%.*s", (int)value_bytes, at + name_bytes + 1);
    if (!set(name, value, rescued))
        return false;
    gw_text_addf(&rescued->proof, "a known problem: %s", known->text);
    return true;
}

static bool is_there(const char *folder, size_t bytes, const char *library)
{
    gw_text pattern = {0};
    glob_t found = {0};
    gw_text_addf(&pattern, "%.*s/%s*", (int)bytes, folder, library);
    bool is = bytes > 0 && glob(gw_text_str(&pattern), GLOB_NOSORT, NULL, &found) == 0;
    globfree(&found);
    gw_text_free(&pattern);
    return is;
}

/* True if the file `path`, without links, is in this folder. */
static bool is_in(const char *path, const char *folder, size_t bytes)
{
    gw_path name, real;
    snprintf(name, sizeof name, "%.*s", (int)bytes, folder);
    size_t folder_bytes = (size_t)(gw_path_last(path) - path);
    return realpath(name, real) != NULL && strlen(real) + 1 == folder_bytes && gw_begins(path, real);
}

/* Leave out the folders of LD_LIBRARY_PATH that contain `library`, or only the folder of the file `path`, if it is
 * known that the program loaded the wrong one there. */
static bool leave_out(const char *library, const char *path, gwi_rescued *rescued)
{
    static const char name[] = "LD_LIBRARY_PATH";
    gw_text kept = {0}, out = {0};
    for (const char *at = getenv(name); at != NULL && *at != '\0';) {
        size_t bytes = strcspn(at, ":");
        bool is_wrong = path == NULL ? is_there(at, bytes, library) : is_in(path, at, bytes);
        gw_text *to = is_wrong ? &out : &kept;
        gw_text_addf(to, "%s%.*s", to->bytes > 0 ? ":" : "", (int)bytes, at);
        at += bytes;
        at += *at == ':';
    }
    bool changed = out.bytes > 0 && !kept.failed && setenv(name, gw_text_str(&kept), 1) == 0;
    if (changed)
        gw_text_addf(&rescued->change, "%s without %s", name, gw_text_str(&out));
    if (changed && path != NULL)
        gw_text_addf(&rescued->proof, "the program loaded %s from there", library);
    gw_text_free(&kept);
    gw_text_free(&out);
    return changed;
}

bool gwi_rescue_settings(const gw_verdict *verdict, gwi_rescued *rescued)
{
    const gw_cause_info *cause = gw_cause_find(verdict->cause);
    for (size_t i = 0; i < verdict->known_count; i++)
        if (switch_off(&verdict->known[i], rescued))
            return true;
    if (cause != NULL && (cause->acts & GW_ACT_GROWTH) != 0) {
        bool jax = set("XLA_PYTHON_CLIENT_PREALLOCATE", "false", rescued);
        return set("TF_FORCE_GPU_ALLOW_GROWTH", "true", rescued) || jax;
    }
    if (cause != NULL && (cause->acts & GW_ACT_LIBRARY) != 0)
        return leave_out(strstr(cause->id, "cudnn") != NULL ? "libcudnn" : "libcuda.so", verdict->wrong_driver,
                         rescued);
    return false;
}

/* ---- numbers ---- */

/* Leave out the card that is lost, and start one process or thread less: {gpus:N} allows that. */
static bool leave_card(gwi_rescue *rescue, const gw_verdict *verdict, gwi_rescued *rescued)
{
    gwi_place *gpus = gwi_places_find(&rescue->places, "gpus");
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    gw_text left = {0}, before = {0};
    int number = 0;
    rescued->why_not = gpus == NULL ? "the command has no {gpus:N}, so gpuwhy may not go on with fewer cards"
                                    : "it is not known which card is lost, or no other one is left";
    if (gpus == NULL || gpus->number < 2 || verdict->lost_device < 0)
        return false;
    for (size_t i = 0; visible == NULL && i < verdict->gpu_count; i++)
        gw_text_addf(&before, "%s%zu", i == 0 ? "" : ",", i);
    for (const char *at = visible == NULL ? gw_text_str(&before) : visible; *at != '\0'; number++) {
        size_t bytes = strcspn(at, ",");
        if (number != verdict->lost_device)
            gw_text_addf(&left, "%s%.*s", left.bytes > 0 ? "," : "", (int)bytes, at);
        at += bytes;
        at += *at == ',';
    }
    char was[24];
    snprintf(was, sizeof was, "%s", gpus->value[0]);
    bool changed = left.bytes > 0 && !left.failed && set("CUDA_VISIBLE_DEVICES", gw_text_str(&left), rescued) &&
                   gwi_place_set(gpus, gpus->number - 1);
    if (changed)
        gwi_place_say(gpus, was, &rescued->change);
    gw_text_free(&left);
    gw_text_free(&before);
    return changed;
}

static bool fewer_workers(gwi_rescue *rescue, gwi_rescued *rescued)
{
    gwi_place *workers = gwi_places_find(&rescue->places, "workers");
    char was[24];
    rescued->why_not = workers == NULL ? "the command has no {workers:N}, which gpuwhy might change"
                                       : "there are no workers left to do without";
    if (workers == NULL || workers->number == 0)
        return false;
    snprintf(was, sizeof was, "%s", workers->value[0]);
    if (!gwi_place_set(workers, workers->number / 2))
        return false;
    gwi_place_say(workers, was, &rescued->change);
    return true;
}

bool gwi_rescue_do_without(gwi_rescue *rescue, const gw_verdict *verdict, gwi_rescued *rescued)
{
    const gw_cause_info *cause = gw_cause_find(verdict->cause);
    unsigned acts = cause == NULL ? GW_ACT_NONE : cause->acts;
    return ((acts & GW_ACT_CARDS) != 0 && leave_card(rescue, verdict, rescued)) ||
           ((acts & GW_ACT_WORKERS) != 0 && fewer_workers(rescue, rescued));
}

/* ---- checkpoints ---- */

/* Find the newest file of a pattern that was written after `since_ns`. */
static bool find_newest(const char *pattern, uint64_t since_ns, gw_path ret_path, uint64_t *ret_ns)
{
    glob_t found = {0};
    bool any = false;
    *ret_ns = since_ns;
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            struct stat file;
            bool is = stat(found.gl_pathv[i], &file) == 0 && strlen(found.gl_pathv[i]) < sizeof(gw_path);
            uint64_t ns = is ? (uint64_t)file.st_mtim.tv_sec * 1000000000u + (uint64_t)file.st_mtim.tv_nsec : 0;
            if (ns < *ret_ns)
                continue;
            snprintf(ret_path, sizeof(gw_path), "%s", found.gl_pathv[i]);
            *ret_ns = ns;
            any = true;
        }
    }
    globfree(&found);
    return any;
}

/* Name a checkpoint of a framework that the user may not have thought of. Nothing is guessed. */
static void name_checkpoint(const gwi_rescue *rescue)
{
    static const struct {
        const char *framework, *pattern;
    } kinds[] = {{"Lightning", "lightning_logs/version_*/checkpoints/*.ckpt"},
                 {"transformers", "*/checkpoint-*/trainer_state.json"},
                 {"transformers", "checkpoint-*/trainer_state.json"}};
    gw_path path;
    uint64_t ns;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (find_newest(kinds[i].pattern, rescue->job_ns, path, &ns))
            gw_say(
                "%s has saved %s; with --resume-with 'WORDS {last}' --checkpoints '%s', the next attempt would go on "
                "there",
                kinds[i].framework, path, kinds[i].pattern);
}

void gwi_rescue_look(gwi_rescue *rescue)
{
    uint64_t ns = 0;
    gw_path path;
    rescue->kept_seconds = 0;
    rescue->attempt_seconds = (double)(gw_realtime_ns() - rescue->attempt_ns) / 1e9;
    if (!rescue->is_on || rescue->options->resume_with == NULL) {
        if (rescue->is_on)
            name_checkpoint(rescue);
        return;
    }
    rescue->checkpoint[0] = '\0'; /* the one of an earlier attempt may be gone */
    if (rescue->options->checkpoints == NULL || !find_newest(rescue->options->checkpoints, rescue->job_ns, path, &ns))
        return;
    rescue->has_checkpoint = true;
    snprintf(rescue->checkpoint, sizeof rescue->checkpoint, "%s", path);
    if (ns > rescue->attempt_ns)
        rescue->kept_seconds = (double)(ns - rescue->attempt_ns) / 1e9;
}

/* A program whose memory grows dies again, but gets further each time, if it goes on from its checkpoints. */
bool gwi_rescue_resume(const gwi_rescue *rescue, const gw_verdict *verdict, gwi_rescued *rescued)
{
    const gw_cause_info *cause = gw_cause_find(verdict->cause);
    bool is_growth = cause != NULL && (cause->acts & (GW_ACT_NUMBERS | GW_ACT_RESUME)) != 0;
    bool is_leak = strcmp(verdict->cause, "gpu-oom-leak") == 0;
    if (is_growth && rescue->may_leak && rescue->checkpoint[0] != '\0' && rescue->kept_seconds > 0) {
        if (is_leak)
            gw_text_addf(&rescued->proof, "the leak will fill the card again; mend it: %s",
                         verdict->next.count > 0 ? verdict->next.item[0] : "see the verdict");
        else
            gw_text_add_str(&rescued->proof, "the program got further than its last checkpoint");
        return true;
    }
    if (is_leak)
        rescued->why_not = !rescue->may_leak ? "a leak fills the card again; --rescue=leak with --resume-with goes on "
                                               "from checkpoints all the same"
                                             : "a leak fills the card again, and no new checkpoint was written";
    return false;
}

/* Add a word of --resume-with, with the checkpoint in place of {last}. */
static bool add_word(gwi_command *command, const char *word, size_t bytes, const char *checkpoint)
{
    gw_text text = {0};
    for (const char *at = word; at < word + bytes;) {
        bool is_last = gw_begins(at, last_word);
        gw_text_add(&text, is_last ? checkpoint : at, is_last ? strlen(checkpoint) : 1);
        at += is_last ? strlen(last_word) : 1;
    }
    char **more = realloc(command->argv, (command->count + 2) * sizeof *more);
    if (more != NULL)
        command->argv = more;
    char *copy = more == NULL || text.failed ? NULL : strdup(gw_text_str(&text));
    gw_text_free(&text);
    if (copy == NULL)
        return false;
    command->argv[command->count++] = copy;
    command->argv[command->count] = NULL;
    return true;
}

bool gwi_rescue_command(const gwi_rescue *rescue, gwi_command *ret_command)
{
    const char *at = rescue->options->resume_with;
    if (!gwi_places_command(&rescue->places, ret_command))
        return false;
    if (at == NULL || (rescue->options->checkpoints != NULL && rescue->checkpoint[0] == '\0'))
        return true;
    while (*(at += strspn(at, " \t\n")) != '\0') {
        size_t bytes = strcspn(at, " \t\n");
        if (!add_word(ret_command, at, bytes, rescue->checkpoint)) {
            gwi_command_free(ret_command);
            return false;
        }
        at += bytes;
    }
    return true;
}

void gwi_rescue_next(gwi_rescue *rescue)
{
    rescue->attempt_ns = gw_realtime_ns();
}
