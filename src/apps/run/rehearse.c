/* `gpuwhy rehearse`: runs a program in front of the real driver, without memory and without computing, and tells
 * whether it fits. If it does not, a second rehearsal on a larger card tells how much it needs. */
#include "gwi_cmd.h"
#include "gwi_judge.h"
#include "gwi_manual.h"
#include "gwi_options.h"
#include "gwi_past_runs.h"
#include "gwi_temporary.h"

#include "gw_say.h"
#include "gw_supervisor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REHEARSE_OPTIONS(X)                                                                                            \
    X(STRING, const char *, gpu, "--gpu", "real|virtual:CARD[,..]", "real",                                            \
      "the GPU in front of which it is rehearsed")                                                                     \
    X(BYTES, uint64_t, memory_bytes, "--memory", "SIZE", NULL,                                                         \
      "the card that the program sees, smaller or larger than the real one [the real one]")                            \
    X(STRING, const char *, until, "--until", "steady|end|N|Ns", "steady",                                             \
      "end the program when its iterations are equal, not at all, after N equal iterations, or after N seconds")       \
    X(FLAG, bool, once, "--once", NULL, NULL, "if it does not fit, do not rehearse again to see how much it needs")    \
    X(STRING, const char *, output, "-o", "FILE", NULL, "write the recording to FILE")                                 \
    X(STRING, const char *, json, "--json", "FILE", NULL, "also write the answer as JSON; -: to standard output")      \
    X(FLAG, bool, no_attach, "--no-attach", NULL, NULL, "do not collect evidence inside Python and frameworks")        \
    X(FLAG, bool, no_sites, "--no-sites", NULL, NULL, "do not record where driver calls were made")                    \
    X(FLAG, bool, no_history, "--no-history", NULL, NULL, "do not list this rehearsal in gpuwhy history")              \
    X(FLAG, bool, end_with_parent, "--end-with-parent", NULL, NULL,                                                    \
      "stop the program when the process that started gpuwhy exits, or gpuwhy is killed")

GWI_OPTIONS(rehearse_options, REHEARSE_OPTIONS);
enum { LARGER = 16 };

const gwi_manual gwi_manual_rehearse = {
    .usage = "gpuwhy rehearse [options] -- program [arguments]\n",
    .about = "Runs the program in front of the real driver, but takes no GPU memory and computes nothing. Reports "
             "whether the program fits the card, and what it holds at its peak. Values that the program reads from "
             "the card are zeros.",
    .words = "PROGRAM",
    .group = {{.options = options_table, .count = OPTION_COUNT}},
    .exits = {{GW_EXIT_OK, "it fits"},
              {GW_EXIT_UNDETERMINED, "it does not fit, or that is not known"},
              {GW_EXIT_USAGE, "usage error; the program was not started"},
              {GW_EXIT_CANNOT_RUN, "the program cannot be executed"},
              {GW_EXIT_NOT_FOUND, "there is no such program"}},
    .environment = {{GWI_MANUAL_STATE_HOME}},
    .files = {{GWI_MANUAL_RECORDINGS}, {GWI_MANUAL_RUNS}},
    .examples = {{"gpuwhy rehearse -- python train.py", "does it fit this card?"},
                 {"gpuwhy rehearse --memory 16GiB -- python train.py", "does it fit a card of 16 GiB?"}},
    .see_also = "run fit"};

/* Rehearse the program once and judge it. Returns GW_EXIT_OK and the verdict, or a status after printing the reason. */
static int rehearse(const rehearse_options *options, uint64_t memory_bytes, const char *output, char **program,
                    gw_verdict **ret_verdict)
{
    gw_run_options run_options = {.gpu = options->gpu,
                                  .memory_bytes = memory_bytes,
                                  .output = output,
                                  .record_bytes_max = (uint64_t)512 << 20,
                                  .hang_after = "off",
                                  .no_attach = options->no_attach,
                                  .no_sites = options->no_sites,
                                  .no_sense = true,
                                  .no_history = options->no_history,
                                  .end_with_parent = options->end_with_parent,
                                  .rehearse = true,
                                  .until = options->until};
    gw_run_judges judges = {0};
    gw_supervisor *run = NULL;
    gw_error err;
    bool is_kept;
    int status = gw_supervisor_start(&run_options, program, &judges, &run);
    if (status != GW_EXIT_OK)
        return status;
    gw_supervisor_watch(run);
    gw_supervisor_close(run);
    const char *recording = gw_supervisor_recording(run, &is_kept);
    gw_status st = gwi_judge(recording, ret_verdict, &err);
    if (st != GW_OK) {
        gw_say("rehearse: no answer: %s", err.text);
        status = GW_EXIT_UNDETERMINED;
    } else if (is_kept) {
        free((*ret_verdict)->recording);
        (*ret_verdict)->recording = strdup(recording);
    }
    gw_text left_behind = {0};
    gw_supervisor_leave(run, &left_behind);
    if (left_behind.bytes > 0)
        gw_say("rehearse: %s", gw_text_str(&left_behind));
    if (left_behind.bytes > 0 && st == GW_OK)
        (void)!gw_verdict_add_evidence(*ret_verdict, "exit", gw_text_str(&left_behind));
    gw_text_free(&left_behind);
    return status;
}

/* Rehearse again on a much larger card, and print what the program needs there. */
static void say_need(const rehearse_options *options, const gw_verdict *first, char **program)
{
    char need[GW_BYTES_TEXT_MAX], more[GW_BYTES_TEXT_MAX];
    gwi_temporary folder;
    gw_error err;
    gw_path path;
    gw_verdict *second = NULL;
    uint64_t limit = first->rehearsal->limit_bytes;
    if (gwi_temporary_make("rehearse", &folder, &err) != GW_OK)
        return;
    if (gw_path_format(path, NULL, "%s/larger.gpuwhy", folder.path) != GW_OK) {
        gwi_temporary_remove(&folder);
        return;
    }
    bool known = rehearse(options, limit * LARGER, path, program, &second) == GW_EXIT_OK && second->rehearsal != NULL &&
                 second->rehearsal->fits == GW_FITS;
    if (known && second->rehearsal->peak_bytes > limit)
        fprintf(stderr, "Needs    %s, %s more than the card has (on a card that is large enough)\n",
                gw_bytes_text(need, second->rehearsal->peak_bytes),
                gw_bytes_text(more, second->rehearsal->peak_bytes - limit));
    else if (known)
        fprintf(stderr,
                "Needs    %s on a card that is large enough; the driver's own memory and fragments need the rest\n",
                gw_bytes_text(need, second->rehearsal->peak_bytes));
    else if (second != NULL && second->rehearsal != NULL && second->rehearsal->fits == GW_FITS_NOT)
        fprintf(stderr, "Needs    not known: it does not fit a card %d times as large, either\n", LARGER);
    else
        fprintf(stderr, "Needs    not known: the rehearsal on a card %d times as large failed\n", LARGER);
    gw_verdict_free(second);
    gwi_temporary_remove(&folder);
}

static int tell(const rehearse_options *options, gw_verdict *verdict, char **program, const gwi_output *json)
{
    gw_error err;
    if (verdict->rehearsal == NULL) {
        gw_say("rehearse: the program used no GPU memory, so there is nothing to tell");
        return GW_EXIT_UNDETERMINED;
    }
    gwi_rehearsal_print(verdict, STDERR_FILENO);
    if (verdict->rehearsal->fits == GW_FITS_NOT && !options->once)
        say_need(options, verdict, program);
    if (verdict->recording != NULL) {
        gw_text command = {0};
        gw_add_explain(&command, false, verdict->recording);
        fprintf(stderr, "Details  %s\n", gw_text_str(&command));
        gw_text_free(&command);
    }
    if (json->path != NULL && gwi_verdict_write_json(verdict, json, &err) != GW_OK)
        gw_say("rehearse: %s", err.text);
    return verdict->rehearsal->fits == GW_FITS ? GW_EXIT_OK : GW_EXIT_UNDETERMINED;
}

int gwi_cmd_rehearse(int argc, char **argv)
{
    rehearse_options options = {0};
    char **program = NULL;
    gw_verdict *verdict = NULL;
    int status = gwi_program_take(&gwi_manual_rehearse, &options, &options.help, argc, argv, &program);
    if (status != GW_EXIT_OK || options.help)
        return status;
    gwi_output output[] = {
        {.option = "-o", .path = options.output, .kind = GWI_OUTPUT_RECORDING},
        {.option = "--json", .path = options.json, .may_be_stdout = true, .wait_s_max = GWI_OUTPUT_WAIT_S}};
    gw_error err;
    if (gwi_outputs_open(output, 2, program, 1, &err) != GW_OK)
        return gwi_refuse("rehearse", &err);
    status = rehearse(&options, options.memory_bytes, options.output, program, &verdict);
    if (status != GW_EXIT_OK)
        return status;
    status = tell(&options, verdict, program, &output[1]);
    if (!options.no_history && verdict->rehearsal != NULL)
        gwi_past_add(verdict, verdict->recording != NULL ? verdict->recording : "", NULL, NULL);
    gw_verdict_free(verdict);
    return status;
}
