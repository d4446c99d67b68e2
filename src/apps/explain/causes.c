/* `gpuwhy causes`: lists the catalogue of causes and searches it. */
#include "gw_say.h"
#include "gwi_cmd.h"
#include "gwi_manual.h"
#include "gwi_options.h"
#include "gwi_terminal.h"

#include "gw_regressions.h"
#include "gw_verdict.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define GWI_CAUSES_OPTIONS(X)                                                                                          \
    X(FLAG, bool, search, "--search", "WORD..", NULL, "list the causes that contain these words, most likely first")   \
    X(FLAG, bool, regressions, "--regressions", "[WORD]", NULL,                                                        \
      "list the known problems of library versions, or those that contain this word")

GWI_OPTIONS(causes_options, GWI_CAUSES_OPTIONS);

static void print_row(const gw_cause_info *cause)
{
    gw_text line = {0};
    gw_text_addf(&line, "%-30s", cause->id);
    if (gwi_has_colour(STDOUT_FILENO))
        gw_paint(&line, 0, GW_ROLE_STRONG);
    printf("%s %s\n", gw_text_str(&line), cause->summary);
    gw_text_free(&line);
}

/* Print a heading. A part after it, such as a note, is not in bold. */
static void print_head(const char *head, const char *after)
{
    gw_role role = gwi_has_colour(STDOUT_FILENO) ? GW_ROLE_STRONG : GW_ROLE_PLAIN;
    printf("%s%s%s%s\n", gw_role_begin(role), head, gw_role_end(role), after);
}

static void print_fixes(const char *head, const char *fixes)
{
    int number = 1;
    putchar('\n');
    print_head(head, "");
    for (const char *line = fixes; *line != '\0';) {
        size_t bytes = strcspn(line, "\n");
        printf("  %d. %.*s\n", number++, (int)bytes, line);
        line += bytes + (line[bytes] != '\0');
    }
}

/* Describe how strongly this log line alone indicates the cause. */
static const char *rank_text(const gw_cause_line *line)
{
    if (line->is_only)
        return "only cause:            ";
    return line->is_first ? "most likely cause:     " : "one of several causes: ";
}

/* Print the first alternative of a regular expression as the text that it matches; "..." stands for whatever varies. */
static void print_pattern(const char *pattern)
{
    static const char begins[] = "([{", ends[] = ")]}";
    unsigned depth = 0; /* of brackets, whose content varies */
    gw_text text = {0};
    for (const char *at = pattern; *at != '\0' && !(*at == '|' && depth == 0); at++) {
        bool is_escaped = *at == '\\' && at[1] != '\0';
        if (depth == 0 && *at == '[' && strlen(at) > 3 && at[3] == ']') { /* one of two letters, as in [Ff]ailed */
            gw_text_add(&text, at + 1, 1);
            at += 3;
            continue;
        }
        if (is_escaped)
            at++;
        bool varies = is_escaped ? strchr("dwsSbW", *at) != NULL : strchr(".[{(^$?*+", *at) != NULL;
        if (depth == 0 && !varies)
            gw_text_add(&text, at, 1);
        else if (depth == 0 && strchr("^$?*+b", *at) == NULL && !gw_ends_with(gw_text_str(&text), "..."))
            gw_text_add_str(&text, "...");
        if (!is_escaped && strchr(begins, *at) != NULL)
            depth++;
        else if (!is_escaped && strchr(ends, *at) != NULL && depth > 0)
            depth--;
    }
    printf("\"%s\"\n", gw_text_str(&text));
    gw_text_free(&text);
}

static void print_line(const gw_cause_line *line)
{
    printf("  %s", rank_text(line));
    if (line->example != NULL)
        printf(line->which != NULL ? "\"%s\" [%s]\n" : "\"%s\"%s\n", line->example,
               line->which != NULL ? line->which : "");
    else if (line->pattern != NULL)
        print_pattern(line->pattern);
    else
        printf("%s %s\n", line->sign, line->which);
}

static void print_lines(const gw_cause_info *cause)
{
    enum { LINES_MAX = 64 };
    gw_cause_line lines[LINES_MAX];
    size_t count = gw_cause_lines(cause->id, lines, LINES_MAX);
    putchar('\n');
    print_head("Log lines that this cause can produce", "");
    if (count == 0)
        puts("  none: logs do not show this cause");
    for (size_t i = 0; i < count; i++) {
        if (lines[i].example != NULL || lines[i].pattern != NULL || (lines[i].sign != NULL && lines[i].which != NULL))
            print_line(&lines[i]);
    }
}

static const char *again_text(const gw_cause_info *cause)
{
    gw_again again = cause->again;
    if (again == GW_AGAIN_TRANSIENT)
        return "started again: the failure may not happen again";
    if (again == GW_AGAIN_WAIT)
        return "started again, after others have released what they hold";
    if (cause->acts != GW_ACT_NONE)
        return "started again only with a change, as --rescue makes it: the same command would fail in the same way";
    return "not started again: it would fail in the same way, and gpuwhy can change nothing that helps";
}

static void print_one(const gw_cause_info *cause)
{
    const char *note = "";
    if (cause->is_advice)
        note = " (this is advice, never the reason for a failure)";
    else if (!cause->from_recording)
        note = " (only printed messages show this cause)";
    print_head(cause->id, "");
    printf("\n%s\n\n", cause->summary);
    print_head("Proof", note);
    printf("  %s\n", cause->proof);
    print_lines(cause);
    print_fixes("What to do", cause->fixes);
    for (size_t i = 0; i < GW_CAUSE_FRAMEWORKS; i++) {
        if (cause->fixes_for[i].fixes != NULL)
            print_fixes(cause->fixes_for[i].framework, cause->fixes_for[i].fixes);
    }
    if (cause->is_advice)
        return;
    putchar('\n');
    print_head("With gpuwhy run --restart", "");
    printf("  %s\n", again_text(cause));
}

const gwi_manual gwi_manual_causes = {
    .usage = "gpuwhy causes [id]\n"
             "gpuwhy causes --search WORD...\n"
             "gpuwhy causes --regressions [WORD]\n",
    .about = "Lists the causes that gpuwhy can find. With an id, prints what proves the cause, which log lines it "
             "can produce, and what to do.",
    .words = "CAUSE",
    .group = {{.options = options_table, .count = OPTION_COUNT}},
    .exits = {{GW_EXIT_OK, "the causes were listed"},
              {GW_EXIT_UNDETERMINED, "no cause contains any of the words of --search, and no known problem the word of "
                                     "--regressions"},
              {GW_EXIT_USAGE, "usage error, or there is no such cause"}},
    .examples = {{"gpuwhy causes gpu-oom-leak", "what proves a leak, and what to do about it"},
                 {"gpuwhy causes --search nccl timeout", "find a cause by words"},
                 {"gpuwhy causes --regressions conv3d", "which versions of libraries have known problems with conv3d"}},
    .see_also = "explain"};

/* List the causes that contain all words. If there are none, list those that contain the most words. */
static int search(char **argv, int count)
{
    enum { WORDS_MAX = 32, HITS_MAX = 256 };
    const char *words[WORDS_MAX];
    gw_cause_hit hits[HITS_MAX];
    size_t word_count = 0;
    for (int i = 0; i < count; i++) { /* "out of memory" in quotes counts as three words */
        for (char *word = strtok(argv[i], " \t\n,"); word != NULL && word_count < WORDS_MAX;
             word = strtok(NULL, " \t\n,"))
            words[word_count++] = word;
    }
    if (word_count == 0) {
        gw_say("causes: --search needs at least one word");
        return GW_EXIT_USAGE;
    }
    size_t hit_count = gw_causes_search(words, word_count, hits, HITS_MAX);
    if (hit_count == 0) {
        gw_say("causes: no cause contains any of these words");
        return GW_EXIT_UNDETERMINED;
    }
    if (hits[0].word_count < word_count)
        gw_say("causes: no cause contains all of these words; listing those with %zu of %zu", hits[0].word_count,
               word_count);
    for (size_t i = 0; i < hit_count && hits[i].word_count == hits[0].word_count; i++)
        print_row(hits[i].cause);
    return GW_EXIT_OK;
}

/* Append "PyTorch 2.9.0, before 2.9.1, with cuDNN<9.15, on H20", or "bitsandbytes, before 0.45.3". */
static void add_range(gw_text *line, const gw_regression *row)
{
    gw_text_addf(line, "%s%s%s", row->library, row->first_text != NULL ? " " : "",
                 row->first_text != NULL ? row->first_text : "");
    if (row->before_text != NULL)
        gw_text_addf(line, ", before %s", row->before_text);
    else
        gw_text_add_str(line, " and later");
    if (row->needs != NULL)
        gw_text_addf(line, ", with %s", row->needs);
    if (row->card != NULL)
        gw_text_addf(line, ", on %s", row->card);
}

static bool contains(const gw_regression *row, const char *range, const char *word)
{
    const char *texts[] = {range, row->text, row->cure, row->source, row->seen, row->kernel};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i] != NULL && strcasestr(texts[i], word) != NULL)
            return true;
    }
    return strcasestr(gw_harm_text(row->effect), word) != NULL;
}

static int list_regressions(const char *word)
{
    size_t count = 0;
    for (size_t i = 0; i < gw_data_regressions_count; i++) {
        const gw_regression *row = &gw_data_regressions[i];
        gw_text range = {0};
        add_range(&range, row);
        if (word == NULL || contains(row, gw_text_str(&range), word)) {
            print_head(gw_text_str(&range), "");
            printf("  %s: %s\n  %s\n  source: %s%s\n", gw_harm_text(row->effect), row->text, row->cure, row->source,
                   row->verified == GW_VERIFIED_YES ? "" : " (not confirmed)");
            count++;
        }
        gw_text_free(&range);
    }
    if (count == 0)
        gw_say("causes: no known problem contains %s", word);
    return count > 0 ? GW_EXIT_OK : GW_EXIT_UNDETERMINED;
}

bool gwi_causes_show(const char *id)
{
    size_t count = 0;
    const gw_cause_info *causes = gw_causes(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(causes[i].id, id) == 0) {
            print_one(&causes[i]);
            return true;
        }
    }
    return false;
}

static int show_all(void)
{
    size_t count = 0;
    const gw_cause_info *causes = gw_causes(&count);
    for (size_t i = 0; i < count; i++)
        print_row(&causes[i]);
    return GW_EXIT_OK;
}

int gwi_cmd_causes(int argc, char **argv)
{
    causes_options options = {0};
    gw_error err;
    int words = 0;
    if (gwi_options_parse_mixed(options_table, OPTION_COUNT, &options, argc, argv, &words, &err) != GW_OK)
        return gwi_refuse("causes", &err);
    gwi_pager_begin();
    if (options.help)
        return gwi_manual_print(&gwi_manual_causes);
    if (options.regressions)
        return list_regressions(words > 0 ? argv[1] : NULL);
    if (options.search)
        return search(argv + 1, words);
    if (words == 0)
        return show_all();
    if (gwi_causes_show(argv[1]))
        return GW_EXIT_OK;
    gw_say("causes: unknown cause %s; `gpuwhy causes` lists them, `gpuwhy causes --search` searches for words",
           argv[1]);
    return GW_EXIT_USAGE;
}
