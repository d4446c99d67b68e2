/* Connects the state machine of --restart and --rescue with the supervisor and the verdicts. */
#include "gwi_attempts.h"

#include "gw_array.h"
#include "gw_fact.h"
#include "gw_hash.h"
#include "gw_say.h"
#include "gwi_judge.h"
#include "gwi_rehearsals.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* The decision whether to start the program again. */

/* Before another attempt if others hold something that is not memory. */
enum { PAUSE_MS = 30000 };

void gwi_restart_begin(gwi_restart *machine, uint32_t restart_count)
{
    *machine = (gwi_restart){.attempts_max = restart_count + 1, .is_changed = true};
}

static gwi_decision stop(const char *why)
{
    return (gwi_decision){.why = why};
}

static const char last_attempt[] = "this was the last attempt that was allowed";

/* Return why the attempt cannot be followed by another one, or NULL. */
static const char *why_not(const gwi_restart *machine, const gwi_attempt_end *end)
{
    bool is_same = !machine->is_changed && machine->evidence == end->evidence;
    if (!end->has_failed)
        return "the program succeeded";
    if (end->is_stopped)
        return "a signal asked the run to end";
    if (!end->has_cause)
        return "the cause is not determined";
    if (!end->can_change && end->again == GW_AGAIN_PERMANENT)
        return end->why_not != NULL ? end->why_not : "the same command would fail in the same way";
    if (!end->can_change && is_same)
        return "the last two attempts failed in the same way, so this failure is not transient";
    if (machine->count >= machine->attempts_max)
        return last_attempt;
    return NULL;
}

static const char *why_again(const gwi_attempt_end *end)
{
    if (end->can_change)
        return "the command is changed";
    return end->again == GW_AGAIN_WAIT ? "it can succeed after others have released what they hold"
                                       : "the failure may not happen again";
}

gwi_decision gwi_restart_ended(gwi_restart *machine, const gwi_attempt_end *end)
{
    machine->count++;
    const char *why = why_not(machine, end);
    if (why != NULL)
        return stop(why);
    machine->evidence = end->evidence;
    machine->is_changed = end->can_change;
    bool waits = end->again == GW_AGAIN_WAIT;
    return (gwi_decision){.again = true,
                          .waits_for_memory = waits && end->is_memory,
                          .pause_ms = waits && !end->is_memory ? PAUSE_MS : 0,
                          .why = why_again(end)};
}

gwi_decision gwi_restart_waited(gwi_restart *machine, gwi_waited waited)
{
    gwi_decision again = {.again = true};
    switch (waited) {
    case GWI_WAITED_FREE:
        machine->is_changed = true;
        again.why = "the memory is free now";
        return again;
    case GWI_WAITED_WAS_FREE:
        again.why = "the memory is free now";
        return again;
    case GWI_WAITED_UNKNOWN:
        again.why = "it is unknown whether the memory is free now";
        return again;
    case GWI_WAITED_TIMEOUT:
        return stop("the memory did not become free in time");
    case GWI_WAITED_STOPPED:
        break;
    }
    return stop("a signal asked the run to end");
}

/* How long to wait for memory that another process holds, without --wait-memory SIZE:TIMEOUT. */
static const uint64_t memory_wait_max_ns = UINT64_C(3600) * 1000000000;

gw_status gwi_attempts_begin(gwi_attempts *attempts, const gw_run_options *options, char *const *program, gw_error *err)
{
    *attempts = (gwi_attempts){.options = options, .find_cure = gwi_cure_find};
    gw_status st = gwi_rescue_begin(&attempts->rescue, options, program, &attempts->command, err);
    if (st != GW_OK)
        return st;
    uint32_t count = attempts->rescue.is_on ? attempts->rescue.attempts : options->restart_count;
    if (options->cure && count == 0)
        count = 1;
    gwi_restart_begin(&attempts->machine, count);
    if (options->on.count > 0 && count == 0)
        return gw_fail(err, GW_USAGE, "--on needs --restart N");
    st = gwi_rules_parse(&options->on, &attempts->rules, err);
    return st == GW_OK ? gwi_rules_check(&attempts->rules, &attempts->command, err) : st;
}

void gwi_attempts_free(gwi_attempts *attempts)
{
    gwi_command_free(&attempts->command);
    gwi_rescue_free(&attempts->rescue);
    for (size_t i = 0; i < attempts->fact_count; i++)
        gw_text_free(&attempts->fact[i]);
    free(attempts->fact);
    gw_text_free(&attempts->cure);
    *attempts = (gwi_attempts){0};
}

/* ---- what an attempt failed of ---- */

/* Add the text to the hash, with each number as "#". Digits inside a name, such as in sm_90, are no number. */
static uint64_t add_without_numbers(uint64_t hash, const char *text)
{
    bool in_name = false;
    for (const char *at = text; *at != '\0';) {
        if (isdigit((unsigned char)*at) && !in_name) {
            hash = gw_hash_bytes(hash, "#", 1);
            at += strspn(at, "0123456789abcdefABCDEFx.,");
            continue;
        }
        in_name = isalnum((unsigned char)*at) || *at == '_';
        hash = gw_hash_bytes(hash, at++, 1);
    }
    return gw_hash_bytes(hash, "", 1);
}

uint64_t gwi_attempt_evidence(const gw_verdict *verdict)
{
    uint64_t hash = GW_HASH_START;
    hash = add_without_numbers(hash, verdict->cause == NULL ? "" : verdict->cause);
    if (verdict->where != NULL) {
        const char *place = verdict->where->frame[verdict->where->user].text;
        hash = gw_hash_bytes(hash, place, strlen(place) + 1);
    }
    for (size_t i = 0; i < verdict->evidence_count; i++)
        if (verdict->evidence[i].weight == GW_WEIGHT_DECIDES)
            hash = add_without_numbers(hash, verdict->evidence[i].text);
    return hash;
}

static bool has_failed(const gw_supervisor *run)
{
    int status = gw_supervisor_status(run);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static gwi_attempt_end end_of(gw_supervisor *run, const gw_verdict *verdict)
{
    /* A mere hypothesis is no reason to give up. A port that the program could not use needs no more certainty. */
    bool has_cause = verdict != NULL && verdict->status == GW_VERDICT_FAULT &&
                     (verdict->certainty >= GW_SUPPORTED || verdict->needed_port != 0);
    const gw_cause_info *cause = has_cause ? gw_cause_find(verdict->cause) : NULL;
    return (gwi_attempt_end){.has_failed = has_failed(run),
                             .is_stopped = gw_supervisor_is_stopped(run),
                             .has_cause = cause != NULL,
                             .again = cause == NULL ? GW_AGAIN_PERMANENT : cause->again,
                             .is_memory = has_cause && verdict->needed_bytes > 0,
                             .evidence = has_cause ? gwi_attempt_evidence(verdict) : 0};
}

/* ---- what is changed for the next attempt ---- */

/* Set the variable of the cure. The replay knows the allocations up to the failure alone, so with --rescue a rehearsal
 * must not show that those after it do not fit. Returns false if the variable is as it was. */
static bool set_cure(gwi_attempts *attempts, gw_supervisor *run, const gwi_cure *cure)
{
    char *old = NULL;
    bool is_set = gw_str_copy(getenv(cure->name), &old) && (old == NULL || strcmp(old, cure->value) != 0) &&
                  setenv(cure->name, cure->value, 1) == 0;
    if (is_set && attempts->rescue.is_on && gwi_rehearsal_lacks_memory(&attempts->rescue, run)) {
        is_set = false;
        if (old == NULL)
            unsetenv(cure->name);
        else
            setenv(cure->name, old, 1);
    }
    free(old);
    return is_set;
}

/* --cure: set the variable for the next attempt, and prepare the fact about it. Returns true if a cure is known. */
static bool apply_cure(gwi_attempts *attempts, gw_supervisor *run, const char *recording, const gw_verdict *verdict,
                       gwi_rescued *rescued)
{
    gwi_cure cure = {0};
    char before[GW_BYTES_TEXT_MAX], after[GW_BYTES_TEXT_MAX];
    if (attempts->find_cure == NULL || !attempts->find_cure(recording, verdict, &cure) ||
        !set_cure(attempts, run, &cure))
        return false;
    gw_text_addf(&rescued->change, "%s=%s in the environment", cure.name, cure.value);
    gw_text_addf(&rescued->proof, "replayed: peak of %s instead of %s", gw_bytes_text(after, cure.peak_bytes),
                 gw_bytes_text(before, cure.peak_bytes_before));
    const gw_fact_cure fact = {
        GW_FACT_SET(name, gw_fact_text_of(cure.name)),
        GW_FACT_SET(value, gw_fact_text_of(cure.value)),
        GW_FACT_SET(peak_bytes, cure.peak_bytes),
        GW_FACT_SET(peak_bytes_before, cure.peak_bytes_before),
    };
    gw_text_clear(&attempts->cure); /* of an earlier attempt */
    gw_fact_cure_write(&fact, &attempts->cure);
    return true;
}

/* The memory of another process was free when the attempt before had ended, and is missing again: the other process may
 * be one of the program's own. */
static bool is_crowded(const gwi_attempts *attempts, const gw_verdict *verdict)
{
    return attempts->was_free && gw_str_same(verdict->cause, "gpu-oom-other-process");
}

/* --rescue: first what changes no number of the training. Returns true if the next attempt differs from this one. */
static bool rescue(gwi_attempts *attempts, gw_supervisor *run, const char *recording, const gw_verdict *verdict,
                   gwi_rescued *rescued)
{
    const gw_cause_info *cause = gw_cause_find(verdict->cause);
    bool may_cure = cause != NULL && (cause->acts & GW_ACT_ALLOCATOR) != 0;
    bool may_shrink = cause != NULL && (cause->acts & GW_ACT_NUMBERS) != 0;
    if (is_crowded(attempts, verdict))
        return gwi_numbers_change(&attempts->rescue, run, rescued);
    return gwi_rescue_settings(verdict, rescued) ||
           (may_cure && apply_cure(attempts, run, recording, verdict, rescued)) ||
           gwi_rescue_do_without(&attempts->rescue, verdict, rescued) ||
           (may_shrink && gwi_numbers_change(&attempts->rescue, run, rescued)) ||
           gwi_rescue_resume(&attempts->rescue, verdict, rescued);
}

/* Apply --rescue, or --on, or else --cure. Returns true if the next attempt differs from this one. */
static bool change(gwi_attempts *attempts, gw_supervisor *run, const char *recording, const gw_verdict *verdict,
                   gwi_rescued *rescued)
{
    gw_text why_not = {0};
    if (attempts->rescue.is_on)
        return rescue(attempts, run, recording, verdict, rescued);
    bool changed = gwi_rules_apply(&attempts->rules, verdict->cause, &attempts->command, &rescued->change, &why_not);
    if (!changed && why_not.bytes > 0)
        gw_say("--on has nothing left to change: %s", gw_text_str(&why_not));
    gw_text_free(&why_not);
    if (changed || !attempts->options->cure || !gw_begins(verdict->cause, "gpu-oom"))
        return changed;
    changed = apply_cure(attempts, run, recording, verdict, rescued);
    if (!changed) {
        gw_say("--cure: no cure is known for this failure");
        gw_supervisor_note(run, gw_fact_key_text(GW_FACT_CURE), ""); /* without a setting: none is known */
    }
    return changed;
}

/* ---- waiting before the next attempt ---- */

static gwi_decision wait_for_memory(gwi_attempts *attempts, gw_supervisor *run, const gw_verdict *verdict)
{
    static const gwi_waited waited[] = {[GW_WAIT_FREE] = GWI_WAITED_FREE,
                                        [GW_WAIT_TIMEOUT] = GWI_WAITED_TIMEOUT,
                                        [GW_WAIT_STOPPED] = GWI_WAITED_STOPPED,
                                        [GW_WAIT_UNKNOWN] = GWI_WAITED_UNKNOWN,
                                        [GW_WAIT_WAS_FREE] = GWI_WAITED_WAS_FREE};
    gw_wait_end end = gw_supervisor_wait_memory(run, verdict->needed_device, verdict->needed_bytes, memory_wait_max_ns);
    attempts->was_free = attempts->was_free || end == GW_WAIT_WAS_FREE;
    return gwi_restart_waited(&attempts->machine, waited[end]);
}

static bool is_free(int port)
{
    const struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return true;                                          /* not known */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* as the launchers do */
    bool is = bind(fd, (const struct sockaddr *)&address, sizeof address) == 0 || errno != EADDRINUSE;
    close(fd);
    return is;
}

/* Wait until the port can be used. Returns false if a signal asked us to end. */
static bool wait_for_port(gw_supervisor *run, int port, gwi_rescued *rescued)
{
    enum { LOOK_MS = 500, LOOKS_MAX = 1200 };
    gw_say("waiting until port %d is free", port);
    for (int i = 0; i < LOOKS_MAX; i++) {
        if (is_free(port)) {
            gw_text_addf(&rescued->proof, "port %d is free now", port);
            return true;
        }
        if (!gw_supervisor_pause(run, LOOK_MS))
            return false;
    }
    return true;
}

static gwi_decision wait_as_decided(gwi_attempts *attempts, gw_supervisor *run, const gw_verdict *verdict,
                                    gwi_decision decision, gwi_rescued *rescued)
{
    bool goes_on;
    if (decision.again && decision.waits_for_memory) {
        decision = wait_for_memory(attempts, run, verdict);
        if (decision.again)
            gw_text_add_str(&rescued->proof, decision.why);
        return decision;
    }
    if (!decision.again || decision.pause_ms == 0)
        return decision;
    if (verdict->needed_port != 0) {
        goes_on = wait_for_port(run, verdict->needed_port, rescued);
    } else {
        gw_say("waiting %u s before the next attempt", decision.pause_ms / 1000);
        goes_on = gw_supervisor_pause(run, decision.pause_ms);
    }
    return goes_on ? decision : gwi_restart_waited(&attempts->machine, GWI_WAITED_STOPPED);
}

/* ---- recording and reporting ---- */

static void add_ended(gw_text *text, int status)
{
    if (WIFSIGNALED(status))
        gw_text_addf(text, "died of signal %d", WTERMSIG(status));
    else
        gw_text_addf(text, "exited %d", WEXITSTATUS(status));
}

/* Return a text as one line, because each field of the fact is a line. */
static gw_fact_text one_line(char *text)
{
    for (char *at = text; text != NULL && *at != '\0'; at++)
        *at = *at == '\n' ? ' ' : *at;
    return gw_fact_text_of(text);
}

/* Write the fact "attempt" into the attempt's recording, and keep it for the next ones. */
static void record(gwi_attempts *attempts, gw_supervisor *run, const gw_verdict *verdict, const gwi_decision *decision,
                   const gwi_rescued *rescued)
{
    const gwi_rescue *rescue = &attempts->rescue;
    bool is_resumed = decision->again && rescue->checkpoint[0] != '\0';
    gw_text text = {0}, ended = {0};
    bool is_kept;
    const char *recording = gw_supervisor_recording(run, &is_kept);
    char *headline = verdict == NULL || verdict->headline == NULL ? NULL : strdup(verdict->headline);
    add_ended(&ended, gw_supervisor_status(run));
    const gw_fact_attempt fact = {
        GW_FACT_SET(number, attempts->machine.count),
        GW_FACT_SET(most, attempts->machine.attempts_max),
        GW_FACT_SET(again, decision->again),
        .has_cause = verdict != NULL && verdict->cause != NULL,
        .cause = gw_fact_text_of(verdict == NULL ? NULL : verdict->cause),
        .has_headline = headline != NULL,
        .headline = one_line(headline),
        GW_FACT_SET(ended, gw_fact_text_of(gw_text_str(&ended))),
        .has_why = has_failed(run),
        .why = gw_fact_text_of(decision->why),
        .has_change = decision->again && rescued->change.bytes > 0,
        .change = gw_fact_text_of(gw_text_str(&rescued->change)),
        .has_recording = is_kept,
        .recording = gw_fact_text_of(recording),
        .has_proof = decision->again && rescued->proof.bytes > 0,
        .proof = gw_fact_text_of(gw_text_str(&rescued->proof)),
        .has_resumed = is_resumed,
        .resumed = gw_fact_text_of(rescue->checkpoint),
        GW_FACT_SET(took_ms, (uint64_t)(rescue->attempt_seconds * 1000)),
        GW_FACT_SET(kept_ms, (uint64_t)(is_resumed ? rescue->kept_seconds * 1000 : 0)),
    };
    gw_fact_attempt_write(&fact, &text);
    gw_supervisor_note(run, gw_fact_key_text(GW_FACT_ATTEMPT), gw_text_str(&text));
    if (gw_array_more(&attempts->fact, attempts->fact_count, sizeof *attempts->fact))
        attempts->fact[attempts->fact_count++] = text;
    else
        gw_text_free(&text);
    gw_text_free(&ended);
    free(headline);
}

static void tell(const gwi_attempts *attempts, const gw_verdict *verdict, const gwi_decision *decision,
                 const gwi_rescued *rescued)
{
    const char *checkpoint = attempts->rescue.checkpoint;
    if (!decision->again)
        return; /* the verdict on the whole run follows, and includes the reason */
    gw_say("attempt %u of at most %u failed: %s (%s): %s", attempts->machine.count, attempts->machine.attempts_max,
           verdict->cause, gw_certainty_text(verdict->certainty), verdict->headline);
    gw_say("starting it again with %s%s%s%s%s%s",
           rescued->change.bytes > 0 ? gw_text_str(&rescued->change) : "the same command",
           checkpoint[0] == '\0' ? "" : ", from ", checkpoint, rescued->proof.bytes > 0 ? " (" : "",
           gw_text_str(&rescued->proof), rescued->proof.bytes > 0 ? ")" : "");
}

bool gwi_attempts_again(gwi_attempts *attempts, gw_supervisor *run)
{
    gw_verdict *verdict = NULL;
    gwi_rescued rescued = {0};
    if (attempts->machine.attempts_max <= 1)
        return false;
    const char *recording = has_failed(run) ? gw_supervisor_flush(run) : NULL;
    if (recording != NULL && gwi_judge(recording, &verdict, NULL) != GW_OK)
        verdict = NULL;
    gwi_attempt_end end = end_of(run, verdict);
    gwi_rescue_look(&attempts->rescue);
    if (end.has_failed && !end.is_stopped && end.has_cause &&
        attempts->machine.count + 1 < attempts->machine.attempts_max)
        end.can_change = change(attempts, run, recording, verdict, &rescued);
    else if (attempts->rescue.is_on || attempts->options->on.count > 0)
        end.why_not = last_attempt;
    if (rescued.why_not != NULL)
        end.why_not = rescued.why_not;
    end.is_stopped = gw_supervisor_is_stopped(run); /* also during a rehearsal */
    gwi_decision decision = gwi_restart_ended(&attempts->machine, &end);
    decision = wait_as_decided(attempts, run, verdict, decision, &rescued);
    record(attempts, run, verdict, &decision, &rescued);
    tell(attempts, verdict, &decision, &rescued);
    gw_text_free(&rescued.change);
    gw_text_free(&rescued.proof);
    gw_verdict_free(verdict);
    return decision.again;
}

int gwi_attempts_next(gwi_attempts *attempts, gw_supervisor **run)
{
    gwi_command old = attempts->command; /* the attempt that ends still refers to it */
    if (attempts->rescue.is_on && !gwi_rescue_command(&attempts->rescue, &attempts->command))
        attempts->command = old;
    int status = gw_supervisor_next(run, attempts->options, attempts->command.argv);
    if (attempts->command.argv != old.argv)
        gwi_command_free(&old);
    gwi_rescue_next(&attempts->rescue);
    for (size_t i = 0; *run != NULL && i < attempts->fact_count; i++)
        gw_supervisor_note(*run, gw_fact_key_text(GW_FACT_ATTEMPT), gw_text_str(&attempts->fact[i]));
    if (*run != NULL && attempts->cure.bytes > 0)
        gw_supervisor_note(*run, gw_fact_key_text(GW_FACT_CURE), gw_text_str(&attempts->cure));
    return status;
}
