/* Reads the verdict that a trial of `gpuwhy fit` has written as JSON. */
#include "gw_json.h"
#include "gwi_fit_state.h"

#include "gw_exit.h"
#include "gw_supervisor.h"
#include "gw_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t number_of(json_object *object, const char *name)
{
    int64_t value = json_object_get_int64(gw_json_member(object, name));
    return value > 0 ? (uint64_t)value : 0;
}

/* The text may come from the program, so control characters in it are replaced. */
static void set_why(gwi_fit_trial *trial, const char *text)
{
    gw_text clean = {0};
    free(trial->why);
    trial->why = NULL;
    if (text == NULL)
        return;
    gw_add_printable(&clean, text);
    (void)gw_str_copy(gw_text_str(&clean), &trial->why); /* without memory, the reason is unknown */
    gw_text_free(&clean);
}

/* ---- without a verdict ---- */

/* Set `why` to the last line that gpuwhy or the program has printed. Without a verdict, the exit status is gpuwhy's. */
static void read_log(gwi_fit_trial *trial, int status)
{
    static const char *const before[] = {"gpuwhy: ", "rehearse: ", "run: "};
    gw_path path;
    char line[512], last[512] = "", shown[640], *text = last;
    FILE *log = gw_path_format(path, NULL, "%s.log", trial->stem) == GW_OK ? fopen(path, "re") : NULL;
    while (log != NULL && fgets(line, sizeof line, log) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] != '\0')
            memcpy(last, line, sizeof last);
    }
    if (log != NULL)
        fclose(log);
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++)
        if (gw_begins(text, before[i]))
            text += strlen(before[i]);
    if (WIFEXITED(status) && WEXITSTATUS(status) >= GW_EXIT_USAGE)
        trial->cannot = WEXITSTATUS(status);
    if (WIFSIGNALED(status))
        snprintf(shown, sizeof shown, "it died of signal %d: %s", WTERMSIG(status), text);
    else
        snprintf(shown, sizeof shown, "%s", text);
    set_why(trial, shown[0] == '\0' ? "it printed nothing" : shown);
}

/* ---- the verdict ---- */

static void read_rehearsal(gwi_fit_trial *trial, json_object *root)
{
    json_object *it = gw_json_member(root, "rehearsal"), *fits = gw_json_member(it, "fits");
    if (it == NULL) {
        set_why(trial, "the program used no GPU memory");
        return;
    }
    if (fits != NULL)
        trial->fit = json_object_get_boolean(fits) ? GW_FIT_YES : GW_FIT_NO;
    trial->peak_bytes = number_of(it, "peak_bytes");
    trial->limit_bytes = number_of(it, "limit_bytes");
    trial->real_bytes = number_of(it, "real_bytes");
    trial->equal_iterations = number_of(it, "equal_iterations");
    trial->launches_each = number_of(it, "launches_each");
}

static bool is_out_of_memory(json_object *object)
{
    const char *cause = gw_json_member_text(object, "cause");
    return cause != NULL && gw_begins(cause, "gpu-oom");
}

/* True if the run failed for lack of GPU memory, even if the reason for that is open. */
static bool lacked_memory(json_object *root)
{
    json_object *others = gw_json_member(root, "alternatives");
    if (gw_json_member_text(root, "cause") != NULL || !json_object_is_type(others, json_type_array))
        return is_out_of_memory(root);
    size_t count = (size_t)json_object_array_length(others);
    for (size_t i = 0; i < count; i++)
        if (!is_out_of_memory(json_object_array_get_idx(others, i)))
            return false;
    return count > 0;
}

/* A real run that we have ended has run well, unless it had failed before. */
static void read_real(gwi_fit_trial *trial, json_object *root)
{
    const char *status = gw_json_member_text(root, "status"), *cause = gw_json_member_text(root, "cause");
    bool is_fault = status != NULL && strcmp(status, "fault") == 0;
    bool was_killed = cause != NULL && strcmp(cause, "killed-by-scheduler-or-user") == 0;
    json_object *code = gw_json_member(gw_json_member(root, "program"), "exit");
    bool ended_well = code != NULL && json_object_get_int(code) == 0;
    if (lacked_memory(root))
        trial->fit = GW_FIT_NO;
    else if (trial->asked_ns != 0 && (!is_fault || was_killed))
        trial->fit = GW_FIT_YES;
    else if (!is_fault && ended_well)
        trial->fit = GW_FIT_YES;
    trial->was_ended = trial->asked_ns != 0;
}

static void read_card(gwi_fit_trial *trial, json_object *root)
{
    json_object *gpus = gw_json_member(root, "gpus");
    if (!json_object_is_type(gpus, json_type_array) || json_object_array_length(gpus) == 0)
        return;
    const char *name = gw_json_member_text(json_object_array_get_idx(gpus, 0), "name");
    trial->card = name == NULL ? NULL : strdup(name);
}

/* Take over what a rehearsal has ended: "the program left 1 process behind, which was ended: sleep (pid 7)". */
static void read_left_behind(gwi_fit *fit, json_object *root)
{
    json_object *evidence = gw_json_member(root, "evidence");
    size_t count = json_object_is_type(evidence, json_type_array) ? (size_t)json_object_array_length(evidence) : 0;
    for (size_t i = 0; i < count; i++) {
        const char *text = gw_json_member_text(json_object_array_get_idx(evidence, i), "text");
        const char *names = text != NULL && gw_begins(text, GW_LEFT_BEHIND) ? strstr(text, ": ") : NULL;
        if (names == NULL)
            continue;
        fit->ended_count += strtoul(text + strlen(GW_LEFT_BEHIND), NULL, 10);
        gw_text_addf(&fit->ended_names, "%s%s", fit->ended_names.bytes == 0 ? "" : ", ", names + 2);
    }
}

void gwi_fit_read(gwi_fit *fit, gwi_fit_trial *trial, int status)
{
    gw_path path;
    trial->fit = GW_FIT_UNKNOWN;
    json_object *root =
        gw_path_format(path, NULL, "%s.json", trial->stem) == GW_OK ? json_object_from_file(path) : NULL;
    if (root == NULL) {
        read_log(trial, status);
        return;
    }
    if (trial->kind == GWI_FIT_REAL)
        read_real(trial, root);
    else
        read_rehearsal(trial, root);
    if (trial->fit == GW_FIT_YES)
        set_why(trial, NULL);
    else if (trial->why == NULL)
        set_why(trial, gw_json_member_text(root, "headline"));
    read_card(trial, root);
    read_left_behind(fit, root);
    json_object_put(root);
}
