/* Answers the words of --fail-on with a verdict. */
#include "gwi_gate.h"
#include "gwi_junit.h"

#include "gw_exit.h"
#include "gw_render.h"
#include "gw_say.h"

#include <stdio.h>
#include <string.h>

/* ---- the words ---- */

enum { WORD_MAX = 64 };
static const char leak_word[] = "leak", any_word[] = "any";

/* Take the next word off the list. False: there is none. A word that is too long is cut, and then no cause. */
static bool take(const char **words, char word[WORD_MAX])
{
    if (*words == NULL)
        return false;
    const char *end = strchrnul(*words, ',');
    snprintf(word, WORD_MAX, "%.*s", (int)(end - *words), *words);
    *words = *end == '\0' ? NULL : end + 1;
    return true;
}

gw_status gwi_cause_check(const char *option, const char *word, bool is_gate, gw_error *err)
{
    gw_nearest nearest = {.word = word};
    if (gw_cause_find(word) != NULL || (is_gate && (strcmp(word, leak_word) == 0 || strcmp(word, any_word) == 0)))
        return GW_OK;
    for (int i = 0; i < 2 && is_gate; i++)
        gw_nearest_add(&nearest, i == 0 ? leak_word : any_word);
    const char *similar = nearest.found == NULL ? gw_suggest_name(word) : nearest.found;
    return gw_fail(err, GW_USAGE, "%s %s: unknown cause%s%s%s", option, word, similar == NULL ? "" : "; did you mean ",
                   similar == NULL ? "; `gpuwhy causes` lists them" : similar, similar == NULL ? "" : "?");
}

gw_status gwi_gate_check(const char *words, gw_error *err)
{
    char word[WORD_MAX];
    gw_status st = GW_OK;
    while (st == GW_OK && take(&words, word))
        st = gwi_cause_check("--fail-on", word, true, err);
    return st;
}

/* ---- the answers ---- */

typedef enum answer { NO, YES, UNKNOWN } answer;

static answer say(gw_text *why, answer it, const char *reason)
{
    gw_text_add_str(why, reason);
    return it;
}

/* Return the advice that begins with "ABOUT: ", NULL: there is none. */
static const char *advice_about(const gw_verdict *verdict, const char *about)
{
    for (size_t i = 0; i < verdict->advice.count; i++)
        if (gw_begins(verdict->advice.item[i], about) && verdict->advice.item[i][strlen(about)] == ':')
            return verdict->advice.item[i];
    return NULL;
}

static answer ask_leak(const gw_verdict *verdict, gw_text *why)
{
    const gw_verdict_unfreed *unfreed = &verdict->unfreed;
    const char *leak = advice_about(verdict, "leak");
    leak = leak == NULL ? advice_about(verdict, "possible leak") : leak;
    if (verdict->cause != NULL && strcmp(verdict->cause, "gpu-oom-leak") == 0)
        return say(why, YES, verdict->headline);
    if (leak != NULL)
        return say(why, YES, leak);
    if (verdict->incomplete != NULL)
        return say(why, UNKNOWN, verdict->incomplete);
    if (verdict->status == GW_VERDICT_UNDETERMINED)
        return say(why, UNKNOWN, verdict->headline);
    if (verdict->status == GW_VERDICT_FAULT)
        return say(why, UNKNOWN, "leaks are found only in runs that end well");
    if (verdict->part_count > 0)
        return say(why, UNKNOWN, "several recordings were explained together");
    return unfreed->is_strict && unfreed->unknown_because != NULL ? say(why, UNKNOWN, unfreed->unknown_because) : NO;
}

static answer ask_cause(const char *cause, const gw_verdict *verdict, gw_text *why)
{
    if (verdict->cause != NULL && strcmp(verdict->cause, cause) == 0)
        return say(why, YES, verdict->headline);
    if (advice_about(verdict, cause) != NULL)
        return say(why, YES, advice_about(verdict, cause));
    if (verdict->incomplete != NULL)
        return say(why, UNKNOWN, verdict->incomplete);
    return verdict->status == GW_VERDICT_UNDETERMINED ? say(why, UNKNOWN, verdict->headline) : NO;
}

/* Answer a word. `why` gets the reason, unless the answer is NO. */
static answer ask(const char *word, const gw_verdict *verdict, gw_text *why)
{
    if (verdict == NULL)
        return say(why, UNKNOWN, "there is no verdict");
    bool is_any = strcmp(word, any_word) == 0;
    if (is_any && verdict->status == GW_VERDICT_FAULT)
        return say(why, YES, verdict->headline);
    return is_any || strcmp(word, leak_word) == 0 ? ask_leak(verdict, why) : ask_cause(word, verdict, why);
}

/* Answer a word as a test case: it is skipped if the answer is not known, unless that fails the job. */
static gwi_junit_state test(const char *word, const gw_verdict *verdict, gw_text *why)
{
    gw_text reason = {0};
    answer it = ask(word, verdict, &reason);
    gw_text_addf(why, "%s%s", it == UNKNOWN ? "not known: " : "", gw_text_str(&reason));
    gw_text_free(&reason);
    bool needs_answer =
        verdict == NULL || strcmp(word, any_word) == 0 || (strcmp(word, leak_word) == 0 && verdict->unfreed.is_strict);
    if (it == NO)
        return GWI_JUNIT_PASSED;
    return it == YES || needs_answer ? GWI_JUNIT_FAILED : GWI_JUNIT_SKIPPED;
}

/* Say what passes although somebody may mean it by a leak. */
static void say_unfreed(const char *word, const gw_verdict *verdict)
{
    char bytes[GW_BYTES_TEXT_MAX];
    bool is_meant = strcmp(word, any_word) == 0 || strcmp(word, leak_word) == 0;
    if (is_meant && verdict != NULL && !verdict->unfreed.is_strict && verdict->unfreed.bytes > 0)
        gw_say("--fail-on %s: %s of device memory was not freed, which is a leak only with --leaks strict", word,
               gw_bytes_text(bytes, verdict->unfreed.bytes));
}

bool gwi_gate_fails(const char *words, const gw_verdict *verdict)
{
    char word[WORD_MAX];
    bool fails = false;
    while (take(&words, word)) {
        gw_text why = {0}, line = {0};
        gwi_junit_state state = test(word, verdict, &why);
        gw_add_printable(&line, gw_text_str(&why));
        if (state == GWI_JUNIT_FAILED)
            gw_say("--fail-on %s: %s; the exit status is %d", word, gw_text_str(&line), GW_EXIT_FAIL_ON);
        else if (state == GWI_JUNIT_SKIPPED)
            gw_say("--fail-on %s: %s; this does not change the exit status", word, gw_text_str(&line));
        else
            say_unfreed(word, verdict);
        fails = fails || state == GWI_JUNIT_FAILED;
        gw_text_free(&why);
        gw_text_free(&line);
    }
    return fails;
}

/* ---- JUnit XML ---- */

/* Return the name of the program: that of a Python script, otherwise that of the file that was started. */
static const char *program_of(const gw_verdict *verdict)
{
    for (size_t i = 1; verdict != NULL && i < verdict->argv.count; i++)
        if (gw_ends_with(verdict->argv.item[i], ".py"))
            return gw_path_last(verdict->argv.item[i]);
    return verdict == NULL || verdict->argv.count == 0 ? "unknown" : gw_path_last(verdict->argv.item[0]);
}

/* `type`: of a failure for which the verdict has no cause. */
static void add_case(gwi_junit *suite, const char *name, const char *type, gwi_junit_state state,
                     const gw_verdict *verdict, const char *why)
{
    enum { WIDTH = 100 };
    gw_text text = {0}, class_name = {0};
    gw_text_addf(&class_name, "gpuwhy.run.%s", program_of(verdict));
    if (verdict != NULL && state == GWI_JUNIT_FAILED)
        gw_render_text(verdict, &(gw_render_style){.width = WIDTH, .all = true}, &text);
    else
        gw_text_add_str(&text, why);
    gwi_junit_add(suite, &(gwi_junit_case){.classname = gw_text_str(&class_name),
                                           .name = name,
                                           .state = state,
                                           .type = verdict == NULL || verdict->cause == NULL ? type : verdict->cause,
                                           .message = why,
                                           .text = gw_text_str(&text)});
    suite->cases.failed = suite->cases.failed || text.failed || class_name.failed;
    gw_text_free(&text);
    gw_text_free(&class_name);
}

gw_status gwi_gate_write_junit(const char *words, const gw_verdict *verdict, bool ended_well, const gwi_output *output,
                               gw_error *err)
{
    char word[WORD_MAX];
    gwi_junit suite = {0};
    add_case(&suite, "exit status 0", "undetermined", ended_well ? GWI_JUNIT_PASSED : GWI_JUNIT_FAILED, verdict,
             verdict == NULL ? "there is no verdict" : verdict->headline);
    while (take(&words, word)) {
        gw_text why = {0}, name = {0};
        gwi_junit_state state = test(word, verdict, &why);
        gw_text_addf(&name, strcmp(word, any_word) == 0 ? "neither a fault nor a leak" : "no %s", word);
        add_case(&suite, gw_text_str(&name), word, state, verdict, gw_text_str(&why));
        gw_text_free(&name);
        gw_text_free(&why);
    }
    return gwi_junit_write(&suite, "gpuwhy run", output, err);
}
