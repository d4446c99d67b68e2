/* Builds and frees a verdict. */
#include "gwi_cause.h"

#include "gw_array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *gw_certainty_text(gw_certainty certainty)
{
    static const char *const texts[] = {"none", "hypothesis", "supported", "established"};
    return (unsigned)certainty < sizeof texts / sizeof texts[0] ? texts[certainty] : "none";
}

const char *gw_verdict_status_text(gw_verdict_status status)
{
    static const char *const texts[] = {"fault", "clean", "undetermined"};
    return (unsigned)status < sizeof texts / sizeof texts[0] ? texts[status] : "undetermined";
}

void gwi_where_free(gw_where *where)
{
    if (where == NULL)
        return;
    for (size_t i = 0; i < where->frame_count; i++) {
        free(where->frame[i].function);
        free(where->frame[i].file);
        free(where->frame[i].module);
        free(where->frame[i].text);
    }
    free(where->frame);
    gwi_list_free(&where->notes);
    free(where);
}

static void question_free(gw_verdict_question *question)
{
    if (question == NULL)
        return;
    for (size_t i = 0; i < question->meaning_count; i++) {
        free(question->meaning[i].name);
        free(question->meaning[i].meaning);
        free(question->meaning[i].hint);
    }
    free(question->meaning);
    gwi_list_free(&question->misleading);
    free(question->text);
    free(question);
}

static void kept_free(gw_verdict *verdict)
{
    for (size_t i = 0; i < verdict->kept_count; i++) {
        free(verdict->kept[i].phase);
        free(verdict->kept[i].block);
    }
    free(verdict->kept);
    free(verdict->failure_phase);
    free(verdict->wrong_driver);
}

static void leaks_free(gw_verdict_leak *leak, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(leak[i].call);
        gwi_where_free(leak[i].where);
    }
    free(leak);
}

static void unfreed_free(gw_verdict_unfreed *unfreed)
{
    leaks_free(unfreed->place, unfreed->place_count);
    for (size_t i = 0; i < unfreed->turns_count; i++)
        free(unfreed->turns[i].phase);
    free(unfreed->turns);
}

static void attempts_free(gw_verdict *verdict)
{
    for (size_t i = 0; i < verdict->attempt_count; i++) {
        gw_verdict_attempt *attempt = &verdict->attempts[i];
        char *const texts[] = {attempt->cause, attempt->headline, attempt->ended, attempt->recording,
                               attempt->why,   attempt->change,   attempt->proof, attempt->resumed};
        for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++)
            free(texts[k]);
    }
    free(verdict->attempts);
}

void gwi_verdict_run_free(gw_verdict_run *run)
{
    free(run->host);
    free(run->boot_id);
    free(run->cwd);
    free(run->ranks);
    free(run->job);
}

void gwi_verdict_job_free(gw_verdict_job *job)
{
    if (job == NULL)
        return;
    free(job->missing);
    gwi_list_free(&job->unread);
    free(job);
}

void gw_verdict_free(gw_verdict *verdict)
{
    if (verdict == NULL)
        return;
    free(verdict->headline);
    for (size_t i = 0; i < verdict->evidence_count; i++)
        free(verdict->evidence[i].text);
    free(verdict->evidence);
    free(verdict->alternatives);
    gwi_list_free(&verdict->ruled_out);
    gwi_list_free(&verdict->consequences);
    gwi_list_free(&verdict->next);
    gwi_list_free(&verdict->left_alone);
    gwi_list_free(&verdict->advice);
    for (size_t i = 0; i < verdict->known_count; i++)
        free(verdict->known[i].text);
    free(verdict->known);
    gwi_list_free(&verdict->unobserved);
    gwi_list_free(&verdict->argv);
    gwi_where_free(verdict->where);
    free(verdict->where_reason);
    for (size_t i = 0; i < verdict->gpu_count; i++)
        free(verdict->gpus[i].name);
    free(verdict->gpus);
    free(verdict->recording);
    gwi_verdict_run_free(&verdict->run);
    gw_ranks_free(&verdict->ranks);
    for (size_t i = 0; i < verdict->part_count; i++) {
        free(verdict->parts[i].host);
        free(verdict->parts[i].recording);
        free(verdict->parts[i].headline);
    }
    free(verdict->parts);
    gwi_verdict_job_free(verdict->job);
    if (verdict->rehearsal != NULL) {
        free(verdict->rehearsal->place);
        gwi_list_free(&verdict->rehearsal->refused);
        gwi_list_free(&verdict->rehearsal->sizes);
        gwi_list_free(&verdict->rehearsal->values);
        free(verdict->rehearsal);
    }
    free(verdict->snapshot);
    free(verdict->snapshot_kind);
    free(verdict->log);
    question_free(verdict->question);
    kept_free(verdict);
    leaks_free(verdict->leaks, verdict->leak_count);
    unfreed_free(&verdict->unfreed);
    free(verdict->incomplete);
    attempts_free(verdict);
    gwi_list_free(&verdict->interventions);
    free(verdict);
}

bool gw_verdict_add_evidence(gw_verdict *verdict, const char *source, const char *text)
{
    char *copy = strdup(text);
    if (copy == NULL || !gw_array_more(&verdict->evidence, verdict->evidence_count, sizeof *verdict->evidence)) {
        free(copy);
        return false;
    }
    verdict->evidence[verdict->evidence_count++] = (gw_evidence){.text = copy, .source = source};
    return true;
}

bool gwi_add_alternative(gw_verdict *verdict, const char *cause, gw_certainty certainty)
{
    if (verdict->cause != NULL && strcmp(verdict->cause, cause) == 0)
        return true;
    for (size_t i = 0; i < verdict->alternative_count; i++) {
        if (strcmp(verdict->alternatives[i].cause, cause) == 0)
            return true;
    }
    /* Do not use gw_array_more(), because it expects spare capacity. Other code allocates this list, too, and with room
     * for exactly its items. */
    if (!gw_array_resize(&verdict->alternatives, verdict->alternative_count + 1, sizeof *verdict->alternatives))
        return false;
    gw_alternative *list = verdict->alternatives;
    size_t at = verdict->alternative_count++;
    for (; at > 0 && list[at - 1].certainty < certainty; at--)
        list[at] = list[at - 1];
    list[at] = (gw_alternative){.cause = cause, .certainty = certainty};
    return true;
}

bool gwi_add_fixes(gw_string_list *next, const gw_cause *cause, gw_framework framework)
{
    const char *fixes = cause->fixes[framework] != NULL ? cause->fixes[framework] : cause->fixes[GW_FRAMEWORK_RAW];
    while (fixes != NULL && *fixes != '\0') {
        size_t bytes = strcspn(fixes, "\n");
        char line[512];
        snprintf(line, sizeof line, "%.*s", (int)(bytes < 511 ? bytes : 511), fixes);
        if (!gwi_list_add(next, line))
            return false;
        fixes += bytes + (fixes[bytes] == '\n');
    }
    return true;
}

bool gwi_take_words(gwi_finding *finding, gw_verdict *verdict)
{
    if (finding->failed)
        return false;
    verdict->headline = strdup(gw_text_str(&finding->headline));
    verdict->evidence = finding->evidence;
    verdict->evidence_count = finding->evidence_count;
    verdict->ruled_out = gwi_take_ruled_out(finding);
    verdict->consequences = finding->consequences;
    verdict->next = finding->next;
    finding->evidence = NULL;
    finding->evidence_count = 0;
    finding->consequences = finding->next = (gw_string_list){0};
    return verdict->headline != NULL;
}
