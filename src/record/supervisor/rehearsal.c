/* `gpuwhy rehearse`: what the hook is told, and when the program is ended. */
#include "gwi_state.h"

#include "gw_exit.h"
#include "gw_fact.h"
#include "gw_process.h"
#include "gw_say.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Time between SIGTERM and SIGKILL. */
static const uint64_t kill_after_ns = 5000000000u;

/* Read --until. *ret_iterations: 0: the hook shall not look for equal iterations; UINT64_MAX: as many as it finds
 * enough. *ret_seconds: 0: no limit. Returns false if the text is wrong. */
static bool parse_until(const char *text, uint64_t *ret_iterations, double *ret_seconds)
{
    char *end = NULL;
    *ret_iterations = UINT64_MAX;
    *ret_seconds = 0;
    if (text == NULL || strcmp(text, "steady") == 0)
        return true;
    *ret_iterations = 0;
    if (strcmp(text, "end") == 0)
        return true;
    double number = strtod(text, &end);
    if (end == text || !(number > 0 && number <= 1e6))
        return false;
    if (strcmp(end, "s") == 0)
        *ret_seconds = number;
    else
        *ret_iterations = (uint64_t)number;
    return strcmp(end, "s") == 0 || (*end == '\0' && (double)*ret_iterations == number);
}

gw_status gwi_rehearsal_check(const gw_run_options *options, gw_error *err)
{
    uint64_t iterations;
    double seconds;
    if (options->until != NULL && !options->rehearse)
        return gw_fail(err, GW_USAGE, "--until: only for a rehearsal");
    if (!parse_until(options->until, &iterations, &seconds))
        return gw_fail(err, GW_USAGE,
                       "--until %s: must be `steady`, `end`, a number of equal iterations, or seconds such as 30s",
                       options->until);
    return GW_OK;
}

/* A real run that a rehearsed program starts would take memory and compute. */
static int refuse_inside_rehearsal(void)
{
    const char *outer = getenv("GPUWHY_REHEARSE");
    if (outer == NULL || outer[0] == '\0' || getenv("GPUWHY_RUN_DIR") == NULL)
        return GW_EXIT_OK;
    gw_say("run: this is inside a rehearsal, and the program would run for real; it was not started");
    return GW_EXIT_CANNOT_RUN;
}

int gwi_rehearsal_possible(const gw_supervisor *run)
{
    const gwi_program *program = &run->program;
    if (!run->options.rehearse)
        return refuse_inside_rehearsal();
    if (!run->doors.open)
        gw_say(
            "rehearse: needs a GPU and its driver, because the real libraries run in front of them (%s); without one, "
            "--gpu virtual:h200,memory=8GiB does for a program that uses the driver API alone (not PyTorch), `gpuwhy "
            "whatif` answers from a recording, and `trainer --plan` for its own networks",
            run->doors_reason);
    else if (program->is_32_bit || program->is_privileged || program->is_static)
        gw_say("rehearse: %s cannot load the hook, so it would run for real; it was not started", program->image);
    else if (run->run_folder[0] == '\0')
        gw_say(
            "rehearse: no folder has room for the buffers, so the answer would be lost; the program was not started");
    else
        return GW_EXIT_OK;
    return GW_EXIT_CANNOT_RUN;
}

void gwi_rehearsal_begin(const gw_run_options *options)
{
    if (options->rehearse)
        gw_orphans_take();
}

void gwi_rehearsal_end(const gw_run_options *options, gw_text *left_behind)
{
    gw_text names = {0};
    size_t left = 0, count = options->rehearse ? gw_orphans_end(&left, &names) : 0;
    if (count > 0)
        gw_text_addf(left_behind, GW_LEFT_BEHIND "%zu process%s behind, which %s ended%s: %s", count,
                     count == 1 ? "" : "es", count == 1 ? "was" : "were", left == 0 ? "" : "; some are still running",
                     gw_text_str(&names));
    gw_text_free(&names);
}

void gwi_rehearsal_setting(const gw_run_options *options, char *out, size_t out_bytes)
{
    uint64_t iterations;
    double seconds;
    if (!parse_until(options->until, &iterations, &seconds) || iterations == UINT64_MAX)
        snprintf(out, out_bytes, "%" PRIu64, options->memory_bytes);
    else
        snprintf(out, out_bytes, "%" PRIu64 ",iterations=%" PRIu64, options->memory_bytes, iterations);
}

/* Signal the program and every rehearsed process: if the program is a shell, its child would otherwise go on. */
static void signal_all(const gw_supervisor *run, int signal)
{
    kill(run->child, signal);
    (void)gwi_record_signal(&run->record, run->child, signal);
}

static void end_program(gw_supervisor *run, const char *why)
{
    uint64_t now = gwi_record_now_ns(&run->record);
    if (run->rehearsal_ended_ns == 0) {
        run->rehearsal_ended_ns = now;
        gwi_record_fact(&run->record, gw_fact_key_text(GW_FACT_REHEARSAL_ENDED), "%s", why);
        signal_all(run, SIGTERM);
    } else if (now - run->rehearsal_ended_ns > kill_after_ns) {
        signal_all(run, SIGKILL);
    }
}

void gwi_rehearsal_look(gw_supervisor *run)
{
    uint64_t iterations;
    double seconds;
    if (!run->options.rehearse || !parse_until(run->options.until, &iterations, &seconds))
        return;
    if (run->record.is_steady)
        end_program(run, "iterations");
    else if (seconds > 0 && (double)(gwi_record_now_ns(&run->record) - run->started_at_ns) > seconds * 1e9)
        end_program(run, "time");
}
