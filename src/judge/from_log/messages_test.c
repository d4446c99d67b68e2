/* Judges every message of tests/logs/messages.tsv as a log of its own. Then it judges each message and each log of
 * tests/logs as the recorded stderr of a program that exited with status 1 and made no driver call. A text must have
 * the same meaning in both. */
#include "judge_testlib.h"

#include "gw_text.h"

#include <glob.h>
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
            fail_msg("%s is in no message of " GW_LOGS, classes[i].name);
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

/* Call `judge` with the fields of each message. Returns the number of messages. */
static size_t for_each_message(void (*judge)(char *field[FIELDS], void *user), void *user)
{
    enum { LINE_BYTES_MAX = 4096 };
    char line[LINE_BYTES_MAX], *field[FIELDS];
    size_t count = 0;
    FILE *file = fopen(GW_LOGS "/messages.tsv", "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file)); /* skip the row with the names of the columns */
    for (; fgets(line, sizeof line, file) != NULL; count++) {
        split(line, field);
        judge(field, user);
    }
    fclose(file);
    return count;
}

typedef struct known {
    bool seen[GW_SIGN_COUNT];
    size_t wrong;
} known;

static void judge_known(char *field[FIELDS], void *user)
{
    known *it = user;
    it->wrong += !judge_message(field, it->seen);
}

static void every_message_is_known(void **state)
{
    enum { MESSAGES_MIN = 1000 };
    known it = {0};
    assert_true(for_each_message(judge_known, &it) >= MESSAGES_MIN);
    assert_int_equal(it.wrong, 0);
    check_classes(it.seen);
}

/* ---- the same text as a log, and as the stderr of a run ---- */

typedef enum machine { WITH_DRIVER, WITHOUT_DRIVER, MACHINES } machine;

typedef struct figure {
    size_t same, less, more, differ, outranked, undetermined, invented;
} figure;

static gw_feed feed;

/* Judge a program that printed `text`, made no driver call and exited with status 1. */
static gw_verdict *judge_as_run(const char *text, size_t bytes, machine on)
{
    gw_feed_open_bare(&feed);
    if (on == WITH_DRIVER)
        gw_feed_meta(&feed, "gpu", "virtual:h200");
    else
        gw_feed_fact(&feed, "doors.closed", "no driver");
    gw_feed_process(&feed, feed.pid, 1, "/usr/bin/program");
    gw_feed_stderr_bytes(&feed, text, bytes);
    gw_feed_exit(&feed, 1, 0);
    gw_error err;
    gw_verdict *verdict = NULL;
    gw_model *model = gw_feed_finish(&feed);
    assert_int_equal(gw_judge(model, &verdict, &err), GW_OK);
    gw_model_free(model);
    return verdict;
}

/* True if the evidence names a fact that is not part of the text. */
static bool names_a_fact(const gw_verdict *verdict)
{
    for (size_t i = 0; i < verdict->evidence_count; i++) {
        const char *source = verdict->evidence[i].source;
        if (strcmp(source, "exit") == 0 || strcmp(source, "host") == 0)
            return true;
    }
    return false;
}

static void add_to(figure *sum, const char *name, const gw_verdict *log, const gw_verdict *run)
{
    const char *told = log->cause != NULL ? log->cause : "none", *found = run->cause != NULL ? run->cause : "none";
    bool is_same = strcmp(told, found) == 0, is_more = is_same && run->certainty > log->certainty && log->cause != NULL;
    if (is_same && !(is_more && !names_a_fact(run))) {
        sum->same++;
        sum->less += log->cause != NULL && run->certainty < log->certainty;
        sum->more += is_more;
        return;
    }
    if (is_same)
        sum->differ++; /* more certain without a reason */
    else if (run->cause == NULL)
        sum->undetermined++;
    else if (log->cause == NULL)
        sum->invented++;
    else if (names_a_fact(run) && strcmp(found, "script-exception") != 0)
        sum->outranked++;
    else
        sum->differ++;
    if (getenv("GW_TEST_PRINT") != NULL)
        print_message("%.100s: as a log %s (%s), as a run %s (%s)\n", name, told, gw_certainty_text(log->certainty),
                      found, gw_certainty_text(run->certainty));
}

static void compare_log(const char *name, const gw_log *log, const char *text, size_t bytes, figure sum[MACHINES])
{
    gw_verdict *told = NULL;
    assert_int_equal(gw_judge_log(log, &told, NULL), GW_OK);
    for (machine on = 0; on < MACHINES; on++) {
        gw_verdict *run = judge_as_run(text, bytes, on);
        add_to(&sum[on], name, told, run);
        gw_verdict_free(run);
    }
    gw_verdict_free(told);
}

static void compare_message(char *field[FIELDS], void *user)
{
    unescape(field[MESSAGE]);
    gw_log *log = log_of("message.log", field[MESSAGE]);
    compare_log(field[MESSAGE], log, field[MESSAGE], strlen(field[MESSAGE]), user);
    gw_log_free(log);
}

static void compare_file(const char *path, figure sum[MACHINES])
{
    enum { TEXT_BYTES_MAX = 1 << 20 };
    gw_log *log = NULL;
    char *text = malloc(TEXT_BYTES_MAX);
    FILE *file = fopen(path, "r");
    assert_true(text != NULL && file != NULL);
    size_t bytes = fread(text, 1, TEXT_BYTES_MAX, file);
    assert_true(bytes > 0 && bytes < TEXT_BYTES_MAX);
    assert_int_equal(gw_log_read(&path, 1, &log, NULL), GW_OK);
    compare_log(gw_path_last(path), log, text, bytes, sum);
    fclose(file);
    free(text);
    gw_log_free(log);
}

static void expect_figure(const char *what, const figure *it, size_t count)
{
    print_message(
        "%s: %zu texts, %zu with the same cause (%zu less certain, %zu more certain by a fact), %zu outranked "
        "by a fact, %zu undetermined, %zu invented, %zu different\n",
        what, count, it->same, it->less, it->more, it->outranked, it->undetermined, it->invented, it->differ);
    assert_int_equal(it->same + it->outranked, count);
    assert_true(it->outranked * 20 <= count);
}

static void a_run_has_the_cause_of_its_text(void **state)
{
    enum { LOGS_MIN = 300 };
    figure sum[MACHINES] = {0};
    glob_t logs;
    size_t count = for_each_message(compare_message, sum);
    assert_int_equal(glob(GW_LOGS "/*/*.log", 0, NULL, &logs), 0);
    assert_true(logs.gl_pathc >= LOGS_MIN);
    for (size_t i = 0; i < logs.gl_pathc; i++, count++)
        compare_file(logs.gl_pathv[i], sum);
    globfree(&logs);
    expect_figure("virtual card", &sum[WITH_DRIVER], count);
    assert_int_equal(sum[WITH_DRIVER].outranked, 0);
    expect_figure("no driver", &sum[WITHOUT_DRIVER], count);
}

/* ---- the line that raised a message ---- */

/* How a program prints a message that it raised: alone, or as a rank's error in two lines that torchrun repeats. */
static const char *const shapes[] = {
    "Traceback (most recent call last):\n  File \"/home/u/job.py\", line 28, in step\n    loss.backward()\n"
    "  File \"/usr/lib/python3/dist-packages/torch/_tensor.py\", line 500, in backward\n    run(self)\n"
    "%s%s\n",
    "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/home/u/job.py\", line 28, in step\n"
    "[rank1]:     loss.backward()\n%s[rank1]: torch.distributed.DistBackendError: error in: /src/utils.cpp:77\n"
    "[rank1]: Last error:\n[rank1]: %s\n"
    "Traceback (most recent call last):\n  File \"/usr/bin/torchrun\", line 8, in <module>\n    sys.exit(main())\n"
    "  File \"/usr/lib/python3/dist-packages/torch/distributed/run.py\", line 900, in main\n    run(args)\n"
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"};
enum { SHAPE_LINE = 28 };

typedef struct places {
    size_t found, missing;
} places;

static void expect_place(const gw_verdict *verdict, const char *what, const char *message, places *sum)
{
    const gw_where *where = verdict->where;
    bool is_found = where != NULL && where->frame[where->user].line == SHAPE_LINE;
    sum->found += verdict->cause != NULL && is_found;
    sum->missing += verdict->cause != NULL && !is_found;
    if (verdict->cause != NULL && !is_found)
        print_message("%s: %.120s: %s (%s) without a place\n", what, message, verdict->cause,
                      gw_certainty_text(verdict->certainty));
}

/* Write the message with a prefix at each line but the first. */
static void prefix_lines(const char *message, const char *prefix, char *to, size_t room)
{
    gw_text text = {0};
    for (const char *line = message; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n')
        gw_text_addf(&text, "%s%.*s", line == message ? "" : prefix, (int)strcspn(line, "\n"), line);
    snprintf(to, room, "%s", gw_text_str(&text));
    gw_text_free(&text);
}

static void raise_message(char *field[FIELDS], void *user)
{
    enum { TEXT_BYTES_MAX = 8192 };
    char text[TEXT_BYTES_MAX], message[TEXT_BYTES_MAX / 2];
    unescape(field[MESSAGE]);
    if (gw_begins(field[MESSAGE], "Last State:"))
        return; /* kubectl prints it about a container, and no program raises it */
    size_t word = strcspn(field[MESSAGE], " \n");
    bool has_type = word > 6 && memcmp(field[MESSAGE] + word - 6, "Error:", 6) == 0;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        gw_verdict *told = NULL;
        prefix_lines(field[MESSAGE], i == 0 ? "\n" : "\n[rank1]: ", message, sizeof message);
        snprintf(text, sizeof text, shapes[i], i > 0 || has_type ? "" : "RuntimeError: ", message);
        gw_log *log = log_of("raised.log", text);
        assert_int_equal(gw_judge_log(log, &told, NULL), GW_OK);
        expect_place(told, "log", field[MESSAGE], user);
        gw_verdict *run = judge_as_run(text, strlen(text), WITH_DRIVER);
        expect_place(run, "run", field[MESSAGE], user);
        gw_verdict_free(run);
        gw_verdict_free(told);
        gw_log_free(log);
    }
}

static void a_raised_message_has_a_place(void **state)
{
    places sum = {0};
    for_each_message(raise_message, &sum);
    print_message("%zu verdicts on raised messages name the line, %zu do not\n", sum.found, sum.missing);
    assert_int_equal(sum.missing, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_is_known),
        cmocka_unit_test(a_run_has_the_cause_of_its_text),
        cmocka_unit_test(a_raised_message_has_a_place),
    };
    if (!gw_logs_are_supported()) {
        print_message("skipped: this build reads no text logs\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
