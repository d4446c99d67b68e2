/* Answers a question about an error code: what it may mean, its possible causes (log_rules.def), the command that shows
 * which one it is, and misleading advice (log_ask.def). A code alone is no proof, so the verdict is undetermined. */
#include "gwi_ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct ask_row {
    int sign;
    const char *which, *command, *tells, *misleading;
} ask_row;

static const ask_row ask_rows[] = {
#define GWI_ASK(sign, which, command, tells, misleading) {GW_SAYS_##sign, which, command, tells, misleading},
#include "log_ask.def"
#undef GWI_ASK
};
enum { ASK_COUNT = sizeof ask_rows / sizeof ask_rows[0] };

static const ask_row *row_for(int sign, const char *which)
{
    const ask_row *general = NULL;
    for (size_t i = 0; i < ASK_COUNT; i++) {
        if (ask_rows[i].sign != sign)
            continue;
        if (ask_rows[i].which[0] == '\0')
            general = &ask_rows[i];
        else if (gwi_log_is_listed(ask_rows[i].which, which))
            return &ask_rows[i];
    }
    return general;
}

/* Return the row of log_ask.def for one possible meaning of the question, or NULL. A status name of cuDNN 9 may end
 * with details that the rows omit. So shorten the name until a row matches. */
static const ask_row *row_of(const gwi_reading *reading)
{
    char head[sizeof reading->which];
    snprintf(head, sizeof head, "%s", reading->which);
    const ask_row *general = row_for(reading->sign, "");
    for (;;) {
        const ask_row *row = row_for(reading->sign, head);
        char *tail = reading->sign == (int)GW_SAYS_CUDNN_STATUS ? strrchr(head, '_') : NULL;
        if (row != general || tail == NULL)
            return row;
        *tail = '\0';
    }
}

/* ---- meanings ---- */

static char *text_or_null(const char *text, bool *good)
{
    char *copy = text[0] == '\0' ? NULL : strdup(text);
    *good = *good && (text[0] == '\0' || copy != NULL);
    return copy;
}

static bool add_meanings(gw_verdict_question *question, const gwi_readings *readings)
{
    bool good = true;
    question->meaning = calloc(readings->count + 1, sizeof *question->meaning);
    for (size_t i = 0; i < readings->count && question->meaning != NULL && good; i++) {
        const gwi_reading *reading = &readings->reading[i];
        gw_verdict_meaning *meaning = &question->meaning[question->meaning_count++];
        *meaning = (gw_verdict_meaning){.kind = reading->kind,
                                        .has_code = reading->has_code,
                                        .code = reading->code,
                                        .verified = gw_verified_text(reading->verified),
                                        .source = reading->source};
        meaning->name = text_or_null(reading->name, &good);
        meaning->meaning = text_or_null(reading->meaning, &good);
        meaning->hint = text_or_null(reading->hint, &good);
    }
    return question->meaning != NULL && good;
}

static void say_meanings(gwi_finding *finding, const gw_verdict_question *question)
{
    for (size_t i = 0; i < question->meaning_count; i++) {
        const gw_verdict_meaning *meaning = &question->meaning[i];
        gw_text line = {0};
        gw_text_add_str(&line, meaning->kind);
        if (meaning->has_code)
            gw_text_addf(&line, " %d", meaning->code);
        if (meaning->name != NULL)
            gw_text_addf(&line, ", %s", meaning->name);
        if (meaning->meaning != NULL)
            gw_text_addf(&line, ": %s", meaning->meaning);
        if (meaning->hint != NULL)
            gw_text_addf(&line, "; %s", meaning->hint);
        if (strcmp(meaning->verified, "yes") != 0)
            gw_text_addf(&line, " (%s: known from experience)",
                         strcmp(meaning->verified, "no") == 0 ? "not verified" : "verified in part");
        gwi_evidence(finding, GWI_NO_TIME, "tables", "%s", gw_text_str(&line));
        finding->failed = finding->failed || line.failed;
        gw_text_free(&line);
    }
}

/* ---- possible causes ---- */

static bool has_cause(const gw_verdict *verdict, const char *cause)
{
    for (size_t i = 0; i < verdict->alternative_count; i++) {
        if (strcmp(verdict->alternatives[i].cause, cause) == 0)
            return true;
    }
    return false;
}

static bool add_causes(gw_verdict *verdict, const gwi_readings *readings)
{
    verdict->alternatives = calloc(readings->count * GWI_LOG_CAUSES_MAX + 1, sizeof *verdict->alternatives);
    if (verdict->alternatives == NULL)
        return false;
    for (size_t i = 0; i < readings->count; i++) {
        gwi_statement said;
        bool exact;
        if (!gwi_log_rule(readings->reading[i].sign, readings->reading[i].which, &said, &exact))
            continue;
        for (size_t k = 0; k < said.cause_count; k++) {
            const gw_cause *cause = gwi_cause_of(said.cause[k]);
            if (has_cause(verdict, cause->id))
                continue;
            verdict->alternatives[verdict->alternative_count++] =
                (gw_alternative){cause->id, GW_HYPOTHESIS, cause->summary, cause->proof};
        }
    }
    return true;
}

/* Sort the possible meanings by their best row in log_rules.def:
 * - first those whose value has its own row
 * - then those with only a general row
 * - then those without a known cause */
static void sort_readings(gwi_readings *readings)
{
    gwi_readings sorted = {0};
    for (int pass = 0; pass < 3; pass++) {
        for (size_t i = 0; i < readings->count; i++) {
            gwi_statement said;
            bool exact = false;
            const gwi_reading *reading = &readings->reading[i];
            int rank = 1;
            if (!gwi_log_rule(reading->sign, reading->which, &said, &exact))
                rank = 2;
            else if (exact)
                rank = 0;
            if (rank == pass)
                sorted.reading[sorted.count++] = *reading;
        }
    }
    *readings = sorted;
}

/* ---- the next command, and misleading advice ---- */

static bool add_misleading(gw_verdict_question *question, const ask_row *row)
{
    char line[256];
    for (const char *at = row->misleading; *at != '\0';) {
        size_t bytes = strcspn(at, "\n");
        snprintf(line, sizeof line, "%.*s", (int)bytes, at);
        if (!gwi_list_add(&question->misleading, line))
            return false;
        at += bytes + (at[bytes] != '\0');
    }
    return true;
}

static bool add_decider(gw_verdict *verdict, const gwi_readings *readings)
{
    gw_verdict_question *question = verdict->question;
    for (size_t i = 0; i < readings->count; i++) {
        const ask_row *row = row_of(&readings->reading[i]);
        if (row == NULL)
            continue;
        question->command = row->command;
        question->tells = row->tells;
        return gwi_list_addf(&verdict->next, "To find out: %s. It shows %s", row->command, row->tells) &&
               add_misleading(question, row);
    }
    const gwi_page_found *page = readings->count == 0 ? gwi_page_for(question->text) : NULL;
    if (page != NULL) {
        question->command = page->command;
        question->tells = page->tells;
        return gwi_list_addf(&verdict->next, "Read: %s. It says %s", page->command, page->tells);
    }
    if (readings->count == 0)
        return gwi_list_addf(&verdict->next,
                             "Run the program: gpuwhy run -- COMMAND; or give its whole log: gpuwhy explain LOG");
    const char *option = verdict->alternative_count > 0 ? gwi_log_decider(verdict->alternatives[0].cause) : NULL;
    if (option != NULL)
        question->command = option;
    return option == NULL || gwi_list_addf(&verdict->next, "To find out: %s", option);
}

static bool add_fixes_of_first(gw_verdict *verdict, gw_framework framework)
{
    gw_string_list fixes = {0};
    bool good = true;
    if (verdict->alternative_count == 0)
        return true;
    const char *id = verdict->alternatives[0].cause;
    good = gwi_add_fixes(&fixes, gwi_cause_of(id), framework);
    for (size_t i = 0; i < fixes.count; i++) {
        good = good && gwi_list_addf(&verdict->next, "If it is %s: %s", id, fixes.item[i]);
    }
    gwi_list_free(&fixes);
    return good;
}

/* ---- the answer ---- */

/* True if one number has several meanings with different names, so that the user must choose. */
static bool is_ambiguous(const gw_verdict_question *question)
{
    for (size_t i = 1; i < question->meaning_count; i++) {
        if (!gw_str_same(question->meaning[i].name, question->meaning[0].name))
            return true;
    }
    return false;
}

static void say_headline(gwi_finding *finding, const gw_verdict *verdict, const char *text)
{
    size_t causes = verdict->alternative_count, meanings = verdict->question->meaning_count;
    if (meanings == 0 && verdict->question->command != NULL)
        gwi_headline(finding, "this is no message of a program; a page of gpuwhy answers the question");
    else if (meanings == 0)
        gwi_headline(finding, "gpuwhy does not recognise this message");
    else if (causes == 0)
        gwi_headline(finding, "%.80s is known, but no cause in gpuwhy's catalogue produces it", text);
    else if (causes == 1)
        gwi_headline(finding, "%.80s alone is no proof; its only known cause is %s", text,
                     verdict->alternatives[0].cause);
    else if (is_ambiguous(verdict->question))
        gwi_headline(finding, "%.80s has %zu meanings, with %zu possible causes in total; the most likely is %s", text,
                     meanings, causes, verdict->alternatives[0].cause);
    else
        gwi_headline(finding, "%.80s alone has %zu possible causes; the most likely is %s", text, causes,
                     verdict->alternatives[0].cause);
}

static gw_verdict *open_answer(const char *text)
{
    gw_verdict *verdict = calloc(1, sizeof *verdict);
    if (verdict == NULL)
        return NULL;
    verdict->status = GW_VERDICT_UNDETERMINED;
    verdict->question = calloc(1, sizeof *verdict->question);
    if (verdict->question == NULL || !gw_str_copy(text, &verdict->question->text)) {
        gw_verdict_free(verdict);
        return NULL;
    }
    return verdict;
}

static gw_status answer(const char *text, const char *subject, gwi_readings *readings, gw_framework framework,
                        gw_verdict **ret_verdict, gw_error *err)
{
    gwi_finding finding = {0};
    gw_verdict *verdict = open_answer(text);
    sort_readings(readings);
    bool good = verdict != NULL && add_meanings(verdict->question, readings) && add_causes(verdict, readings) &&
                add_decider(verdict, readings) && add_fixes_of_first(verdict, framework) &&
                gw_str_copy("a code does not show a place", &verdict->where_reason);
    if (good) {
        say_headline(&finding, verdict, subject);
        say_meanings(&finding, verdict->question);
        verdict->headline = strdup(gw_text_str(&finding.headline));
        verdict->evidence = finding.evidence;
        verdict->evidence_count = finding.evidence_count;
        finding.evidence = NULL;
        finding.evidence_count = 0;
        good = !finding.failed && verdict->headline != NULL;
    }
    gwi_finding_free(&finding);
    if (!good) {
        gw_verdict_free(verdict);
        return gw_fail(err, GW_NOMEM, "answer a question");
    }
    *ret_verdict = verdict;
    return GW_OK;
}

gw_status gw_judge_question(const char *question, gw_verdict **ret_verdict, gw_error *err)
{
    gwi_readings readings;
    if (!gwi_read_question(question, &readings))
        return gw_fail(err, GW_MISSING, "gpuwhy does not recognise %.100s as a code or a name", question);
    return answer(question, question, &readings, GW_FRAMEWORK_RAW, ret_verdict, err);
}

/* Collect the codes in a message, without duplicates. The code of the root statement comes first. */
static void read_message(const gwi_log_case *c, gwi_readings *ret_readings)
{
    const gwi_statement *root = gwi_log_root(c);
    *ret_readings = (gwi_readings){0};
    for (size_t pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < c->count; i++) {
            gwi_readings one = {0};
            if ((pass == 0) != (&c->statement[i] == root))
                continue;
            gwi_read_find(c->statement[i].find, &one);
            for (size_t k = 0; k < one.count && ret_readings->count < GWI_READINGS_MAX; k++) {
                bool known = false;
                for (size_t n = 0; n < ret_readings->count; n++)
                    known = known || (ret_readings->reading[n].sign == one.reading[k].sign &&
                                      ret_readings->reading[n].code == one.reading[k].code &&
                                      strcmp(ret_readings->reading[n].which, one.reading[k].which) == 0);
                if (!known)
                    ret_readings->reading[ret_readings->count++] = one.reading[k];
            }
        }
    }
}

gw_status gw_judge_message(const gw_log *log, const char *message, gw_verdict **ret_verdict, gw_error *err)
{
    gwi_log_case c;
    gwi_readings readings;
    gw_status st = gwi_log_open(log, NULL, &c, err);
    if (st != GW_OK)
        return st;
    const gwi_statement *root = gwi_log_root(&c);
    bool says_why =
        root != NULL && (root->depth == GWI_ROOT || root->why[0] != '\0') && root->certainty >= GW_SUPPORTED;
    read_message(&c, &readings);
    gw_framework framework = c.framework;
    gwi_log_close(&c);
    if (!says_why)
        return answer(message, "this message", &readings, framework, ret_verdict, err);
    gw_verdict *verdict = NULL, *asked = NULL;
    st = gw_judge_log(log, &verdict, err);
    if (st == GW_OK)
        st = answer(message, "this message", &readings, framework, &asked, err);
    if (st == GW_OK) { /* the verdict on the message does not have the command and the misleading advice */
        verdict->question = asked->question;
        asked->question = NULL;
        free(verdict->log);
        verdict->log = NULL;
        *ret_verdict = verdict;
        verdict = NULL;
    }
    gw_verdict_free(asked);
    gw_verdict_free(verdict);
    return st;
}
