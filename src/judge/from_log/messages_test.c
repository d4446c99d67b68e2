/* Judges every message of tests/logs/messages.tsv as a log of its own. */
#include "judge_testlib.h"

#include "gw_text.h"

#include <stdio.h>

enum { PROGRAM, VERSIONS, MESSAGE, CAUSE, ALSO, KIND, FIELDS };

/* Split a line at its tabs, in place. Missing fields are "". */
static void split(char *line, char *field[FIELDS])
{
    for (size_t i = 0; i < FIELDS; i++) {
        field[i] = line;
        line += strcspn(line, "\t\n");
        if (*line != '\0')
            *line++ = '\0';
    }
}

/* Replace the escapes \n and \t of a message by a newline and a tab. */
static void unescape(char *text)
{
    char *to = text;
    for (; *text != '\0'; text++) {
        bool escaped = text[0] == '\\' && (text[1] == 'n' || text[1] == 't');
        *to++ = !escaped ? *text : text[1] == 'n' ? '\n' : '\t';
        text += escaped;
    }
    *to = '\0';
}

static bool is_listed(const char *list, const char *word)
{
    size_t bytes = strlen(word);
    for (const char *at = list; *at != '\0'; at += strcspn(at, ",")) {
        at += *at == ',';
        if (strncmp(at, word, bytes) == 0 && (at[bytes] == ',' || at[bytes] == '\0'))
            return true;
    }
    return false;
}

static bool is_alternative(const gw_verdict *verdict, const char *cause)
{
    for (size_t i = 0; i < verdict->alternative_count; i++) {
        if (strcmp(verdict->alternatives[i].cause, cause) == 0)
            return true;
    }
    return false;
}

/* A harmless message must have no cause. A message that only repeats another failure may have its cause among the
 * alternatives. */
static bool is_right(const gw_verdict *verdict, char *field[FIELDS])
{
    const char *cause = verdict->cause;
    if (strcmp(field[KIND], "harmless") == 0)
        return cause == NULL;
    if (cause != NULL && (strcmp(cause, field[CAUSE]) == 0 || is_listed(field[ALSO], cause)))
        return true;
    return strcmp(field[KIND], "echo") == 0 && verdict->certainty != GW_ESTABLISHED &&
           is_alternative(verdict, field[CAUSE]);
}

/* Every class of messages must have at least one message in the table. */
static void check_classes(const bool seen[GW_SIGN_COUNT])
{
    static const struct {
        gw_sign sign;
        const char *name;
    } classes[] = {
#define GWI_MESSAGE(name, kind, depth, certainty, causes, pattern) {GW_SAYS_##name, #name},
#include "messages.def"
#undef GWI_MESSAGE
    };
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        if (!seen[classes[i].sign])
            fail_msg("%s is in no message of " GW_MESSAGES, classes[i].name);
    }
}

/* Judge one message and mark its signs as seen. Returns false if the verdict is wrong. */
static bool judge_message(char *field[FIELDS], bool seen[GW_SIGN_COUNT])
{
    gw_verdict *verdict = NULL;
    unescape(field[MESSAGE]);
    gw_log *log = log_of("message.log", field[MESSAGE]);
    assert_int_equal(gw_judge_log(log, &verdict, NULL), GW_OK);
    for (gw_sign sign = 0; sign < GW_SIGN_COUNT; sign++)
        seen[sign] = seen[sign] || log->count[sign] > 0;
    gw_log_free(log);
    bool right = is_right(verdict, field);
    if (!right)
        print_message("%s: %s: %s instead of %s\n", field[PROGRAM], field[MESSAGE],
                      verdict->cause != NULL ? verdict->cause : "no cause", field[CAUSE]);
    gw_verdict_free(verdict);
    return right;
}

static void every_message_is_known(void **state)
{
    enum { LINE_BYTES_MAX = 4096, MESSAGES_MIN = 1000 };
    char line[LINE_BYTES_MAX], *field[FIELDS];
    bool seen[GW_SIGN_COUNT] = {0};
    size_t count = 0, wrong = 0;
    (void)state;
    if (!gw_logs_are_supported()) {
        print_message("skipped: this build reads no text logs\n");
        skip();
    }
    FILE *file = fopen(GW_MESSAGES, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file)); /* skip the row with the names of the columns */
    while (fgets(line, sizeof line, file) != NULL) {
        split(line, field);
        wrong += !judge_message(field, seen);
        count++;
    }
    fclose(file);
    assert_int_equal(wrong, 0);
    assert_true(count >= MESSAGES_MIN);
    check_classes(seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
