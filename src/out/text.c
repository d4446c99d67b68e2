/* A verdict as text. Layout alone: a label column, then a body wrapped at the width.
 *
 *     gpuwhy: python train.py exited 1 after 41.2 s on NVIDIA H200 (limit 16.00 GiB)
 *
 *     Verdict  gpu-oom-leak (established): the second run found the GPU full of what the first one kept.
 *     Why      38.92 s  cuMemAlloc of 2.39 GiB failed; 0.79 GiB of 16.00 GiB was free
 *              ruled out: other processes (0 B) */
#include "gw_out.h"
#include "gwi_out.h"

#include <stdio.h>
#include <string.h>

enum { LABEL_COLUMNS = 9, WIDTH_MIN = 40, ARGUMENT_BYTES_MAX = 72, COMMAND_BYTES_MAX = 120, QUESTION_BYTES_MAX = 200 };

typedef struct layout {
    gw_text *text;
    unsigned width;
    bool colour;
    bool running;
} layout;

/* Columns a string takes: UTF-8 sequences count as one. Good enough for what we print. */
static unsigned columns(const char *string, size_t bytes)
{
    unsigned count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += ((unsigned char)string[i] & 0xC0) != 0x80;
    return count;
}

static void add_spaces(gw_text *text, unsigned count)
{
    while (count-- > 0)
        gw_text_add(text, " ", 1);
}

/* Words of `body` from column `at` on; further lines begin at `indent`. Words longer than a line stay whole: a
 * path that is cut cannot be copied. */
static void add_wrapped(layout *page, const char *body, unsigned at, unsigned indent)
{
    bool line_is_empty = true;
    while (*body != '\0') {
        size_t gap = strspn(body, " ");
        size_t word = strcspn(body + gap, " ");
        unsigned wanted = (unsigned)gap + columns(body + gap, word);
        if (!line_is_empty && at + wanted > page->width) {
            gw_text_add(page->text, "\n", 1);
            add_spaces(page->text, indent);
            at = indent;
            body += gap;
            gap = 0;
            wanted = columns(body, word);
        }
        gw_text_add(page->text, body, gap + word);
        body += gap + word;
        at += wanted;
        line_is_empty = false;
    }
    gw_text_add(page->text, "\n", 1);
}

static void add_label(layout *page, const char *label)
{
    if (page->colour && label[0] != '\0')
        gw_text_addf(page->text, "\033[1m%-*s\033[0m", LABEL_COLUMNS, label);
    else
        gw_text_addf(page->text, "%-*s", LABEL_COLUMNS, label);
}

static void add_paragraph(layout *page, const char *label, const char *foreign, unsigned hang)
{
    gw_text clean = {0};
    gw_out_add_printable(&clean, foreign);
    add_label(page, label);
    add_wrapped(page, gw_text_str(&clean), LABEL_COLUMNS, LABEL_COLUMNS + hang);
    gw_text_free(&clean);
}

/* Each entry of a list is a paragraph; the label stands before the first only. */
static void add_list(layout *page, const char *label, const gw_string_list *list, bool numbered)
{
    for (size_t i = 0; i < list->count; i++) {
        gw_text line = {0};
        if (numbered)
            gw_text_addf(&line, "%zu. ", i + 1);
        gw_text_add_str(&line, list->item[i]);
        add_paragraph(page, i == 0 ? label : "", gw_text_str(&line), numbered ? 3 : 2);
        gw_text_free(&line);
    }
}

static void add_joined(layout *page, const char *label, const char *lead, const gw_string_list *list)
{
    if (list->count == 0)
        return;
    gw_text line = {0};
    gw_text_add_str(&line, lead);
    for (size_t i = 0; i < list->count; i++)
        gw_text_addf(&line, "%s%s", i == 0 ? "" : ", ", list->item[i]);
    add_paragraph(page, label, gw_text_str(&line), 2);
    gw_text_free(&line);
}

static void add_gpus(gw_text *line, const gw_verdict *verdict)
{
    /* a GPU that stands there several times in a row is named once, with its count */
    for (size_t i = 0, same; i < verdict->gpu_count; i += same) {
        const struct gw_verdict_gpu *gpu = &verdict->gpus[i];
        for (same = 1; i + same < verdict->gpu_count; same++) {
            const struct gw_verdict_gpu *other = gpu + same;
            if (strcmp(gpu->name, other->name) != 0 || gpu->bytes_limit != other->bytes_limit)
                break;
        }
        gw_text_add_str(line, i == 0 ? " on " : ", ");
        if (same > 1)
            gw_text_addf(line, "%zu x ", same);
        gw_text_add_str(line, gpu->name);
        char bytes[GW_BYTES_TEXT_MAX];
        if (gpu->bytes_limit != 0)
            gw_text_addf(line, " (limit %s)", gw_bytes_text(bytes, gpu->bytes_limit));
        else if (gpu->is_virtual && gpu->bytes_total != 0)
            gw_text_addf(line, " (virtual, %s)", gw_bytes_text(bytes, gpu->bytes_total));
    }
}

static void add_ending(gw_text *line, const gw_verdict *verdict, bool running)
{
    if (!verdict->exit_known && running)
        gw_text_add_str(line, " is running");
    else if (!verdict->exit_known)
        gw_text_add_str(line, ": how it ended is not known");
    else if (verdict->signal != 0)
        gw_text_addf(line, " died of signal %d (%s)", verdict->signal, strsignal(verdict->signal));
    else
        gw_text_addf(line, " exited %d", verdict->exit_code);
    gw_text_addf(line, verdict->seconds < 1000 ? " after %.1f s" : " after %.0f s", verdict->seconds);
}

static void add_cut(gw_text *line, const char *text, size_t bytes_max)
{
    size_t bytes = strlen(text);
    bool cut = bytes > bytes_max;
    while (cut && bytes > 0 && (bytes > bytes_max - 3 || ((unsigned char)text[bytes] & 0xC0) == 0x80))
        bytes--; /* not in the middle of a character */
    gw_text_addf(line, "%.*s%s", (int)bytes, text, cut ? "..." : "");
}

/* One argument as one would type it; long ones (whole scripts after -c) are cut. */
static void add_argument(gw_text *line, const char *argument)
{
    bool plain = argument[0] != '\0' && strpbrk(argument, " \t\n\"'\\$&;<>|()*?[]#~`!{}") == NULL;
    gw_text_add_str(line, plain ? "" : "'");
    add_cut(line, argument, ARGUMENT_BYTES_MAX);
    gw_text_add_str(line, plain ? "" : "'");
}

static void add_head(layout *page, const gw_verdict *verdict)
{
    gw_text line = {0};
    gw_text_add_str(&line, "gpuwhy: ");
    for (size_t i = 0; i < verdict->argv.count; i++) {
        if (i > 0)
            gw_text_add_str(&line, " ");
        if (i > 0 && line.bytes > COMMAND_BYTES_MAX) {
            gw_text_add_str(&line, "...");
            break;
        }
        add_argument(&line, verdict->argv.item[i]);
    }
    bool asked = verdict->question != NULL;
    if (verdict->argv.count == 0 && verdict->snapshot == NULL && verdict->log == NULL && !asked)
        gw_text_add_str(&line, "the program");
    if (asked)
        add_cut(&line, verdict->question->text, QUESTION_BYTES_MAX);
    else if (verdict->log != NULL)
        gw_text_add_str(&line, verdict->log);
    else if (verdict->snapshot == NULL)
        add_ending(&line, verdict, page->running);
    else
        gw_text_addf(&line, "PyTorch memory snapshot %s, %.1f s of history", verdict->snapshot, verdict->seconds);
    add_gpus(&line, verdict);
    gw_text clean = {0};
    gw_out_add_printable(&clean, gw_text_str(&line));
    add_wrapped(page, gw_text_str(&clean), 0, 8);
    gw_text_free(&clean);
    gw_text_free(&line);
}

static void add_verdict_line(layout *page, const gw_verdict *verdict)
{
    gw_text line = {0};
    if (verdict->status == GW_VERDICT_FAULT)
        gw_text_addf(&line, "%s (%s): ", verdict->cause, gw_certainty_text(verdict->certainty));
    else if (verdict->status == GW_VERDICT_CLEAN)
        gw_text_add_str(&line, "no fault found: ");
    else
        gw_text_add_str(&line, "not determined: ");
    gw_text_add_str(&line, verdict->headline == NULL ? "" : verdict->headline);
    /* a headline that only repeats the label is not said twice */
    bool unobserved = verdict->is_coverage_known && verdict->observed_count == 0; /* then it is no finding of ours */
    if (verdict->status == GW_VERDICT_CLEAN && verdict->headline != NULL &&
        (unobserved || strncmp(verdict->headline, "no fault found", 14) == 0)) {
        gw_text_clear(&line);
        gw_text_add_str(&line, verdict->headline);
    }
    add_paragraph(page, "Verdict", gw_text_str(&line), 0);
    gw_text_free(&line);
}

static void add_evidence(layout *page, const gw_verdict *verdict, const char **label)
{
    for (size_t i = 0; i < verdict->evidence_count; i++) {
        const gw_evidence *evidence = &verdict->evidence[i];
        gw_text line = {0};
        if (evidence->has_time)
            gw_text_addf(&line, "%.2f s  ", (double)evidence->t_ns / 1e9);
        gw_text_add_str(&line, evidence->text);
        add_paragraph(page, *label, gw_text_str(&line), 2);
        gw_text_free(&line);
        *label = "";
    }
}

/* The user's frame, then those of the user's below it; what lies between and above is the JSON's. */
static void add_where(layout *page, const gw_verdict *verdict)
{
    enum { CALLERS_MAX = 4 };
    const gw_where *where = verdict->where;
    if (where == NULL)
        return;
    gw_text line = {0};
    unsigned shown = 0;
    gw_text_addf(&line, "%s: %s", where->frame[where->user].text, where->what);
    add_paragraph(page, "Where", gw_text_str(&line), 2);
    gw_text_clear(&line);
    for (size_t i = where->user + 1; i < where->frame_count && shown < CALLERS_MAX; i++) {
        const gw_where_frame *frame = &where->frame[i];
        if (frame->whose == NULL || (strcmp(frame->whose, "own") != 0 && strcmp(frame->whose, "user") != 0))
            continue;
        gw_text_addf(&line, "%s%s", shown == 0 ? "called at " : ", ", frame->text);
        shown++;
    }
    if (shown > 0)
        add_paragraph(page, "", gw_text_str(&line), 2);
    gw_text_free(&line);
    for (size_t i = 0; i < where->notes.count; i++)
        add_paragraph(page, "", where->notes.item[i], 2);
}

static void add_alternatives(layout *page, const gw_verdict *verdict)
{
    gw_text line = {0};
    for (size_t i = 0; i < verdict->alternative_count; i++)
        gw_text_addf(&line, "%s%s (%s)", i == 0 ? "" : ", ", verdict->alternatives[i].cause,
                     gw_certainty_text(verdict->alternatives[i].certainty));
    if (line.bytes > 0)
        add_paragraph(page, "Or", gw_text_str(&line), 2);
    gw_text_free(&line);
}

static int first_sentence(const char *text)
{
    const char *end = strstr(text, ". ");
    return end != NULL ? (int)(end - text) + 1 : (int)strlen(text);
}

/* Of a question: each cause with what would establish it. */
static void add_causes(layout *page, const gw_verdict *verdict)
{
    for (size_t i = 0; i < verdict->alternative_count; i++) {
        const gw_alternative *one = &verdict->alternatives[i];
        gw_text line = {0};
        gw_text_addf(&line, "%zu. %s: %.*s", i + 1, one->cause, first_sentence(one->summary), one->summary);
        add_paragraph(page, i == 0 ? "From" : "", gw_text_str(&line), 3);
        gw_text_clear(&line);
        gw_text_addf(&line, "   told by: %s", one->told_by);
        add_paragraph(page, "", gw_text_str(&line), 3);
        gw_text_free(&line);
    }
}

void gw_out_text(const gw_verdict *verdict, const gw_out_style *style, gw_text *text)
{
    unsigned width = style->width == 0 ? 80 : style->width;
    layout page = {.text = text,
                   .width = width < WIDTH_MIN ? WIDTH_MIN : width,
                   .colour = style->colour,
                   .running = style->running};
    add_head(&page, verdict);
    gw_text_add(text, "\n", 1);
    add_verdict_line(&page, verdict);
    bool is_answer = verdict->question != NULL && verdict->status == GW_VERDICT_UNDETERMINED;
    const char *label = is_answer ? "Is" : verdict->status == GW_VERDICT_CLEAN ? "Seen" : "Why";
    add_evidence(&page, verdict, &label);
    add_joined(&page, label, "ruled out: ", &verdict->ruled_out);
    add_where(&page, verdict);
    add_list(&page, "Then", &verdict->consequences, false);
    if (is_answer)
        add_causes(&page, verdict);
    else
        add_alternatives(&page, verdict);
    add_list(&page, "Next", &verdict->next, verdict->next.count > 1);
    if (verdict->question != NULL)
        add_list(&page, "Beware", &verdict->question->misleading, false);
    add_list(&page, "Also", &verdict->advice, false);
    if (verdict->recording != NULL) {
        gw_text line = {0};
        gw_text_addf(&line, "gpuwhy explain %s", verdict->recording);
        add_paragraph(&page, "Details", gw_text_str(&line), 2);
        gw_text_free(&line);
    }
}
