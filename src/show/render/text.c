/* Writes a verdict as text, either cut to one screen or in full.
 *
 *    gpuwhy: python train.py exited 1 after 41.2 s on NVIDIA H200 (limit 16.00 GiB)
 *
 *    Verdict  gpu-oom-leak (supported): the second run found the GPU full of what the first one kept.
 *    Where    train.py:31 in step: what holds most was allocated there
 *               30 |     loss = criterion(model(x), y)
 *             > 31 |     losses.append(loss)
 *    Next     Append float(loss), or loss.detach()
 *    Why      38.92 s  cuMemAlloc of 2.39 GiB failed; 0.79 GiB of 16.00 GiB was free
 *             ruled out: other processes (0 B)
 *    Details  4 more lines: gpuwhy explain --all run.gpuwhy */
#include "gw_render.h"
#include "gw_text.h"
#include "gwi_page.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    WIDTH_MIN = 40,
    ARGUMENT_BYTES_MAX = 72,
    COMMAND_BYTES_MAX = 120,
    COMMAND_BYTES_MIN = 30,
    QUESTION_BYTES_MAX = 200
};

/* Add each entry of a list as a paragraph of its own. */
static void add_list(gwi_page *page, gwi_section section, const char *label, const gw_string_list *list, bool numbered)
{
    for (size_t i = 0; i < list->count; i++) {
        gw_text line = {0};
        if (numbered)
            gw_text_addf(&line, "%zu. ", i + 1);
        gw_text_add_str(&line, list->item[i]);
        gwi_page_add(page, section, label, gw_text_str(&line), numbered ? 3 : 2);
        gw_text_free(&line);
    }
}

/* Return the length of an item without its detail in brackets, e.g. of "other processes" in "other processes (0 B)". */
static int without_detail(const char *item)
{
    const char *detail = strstr(item, " (");
    return detail == NULL || item[strlen(item) - 1] != ')' ? (int)strlen(item) : (int)(detail - item);
}

static void add_ruled_out(gwi_page *page, const char *label, const gw_string_list *list)
{
    gw_text line = {0}, brief = {0};
    for (size_t i = 0; i < list->count; i++) {
        gw_text_addf(&line, "%s%s", i == 0 ? "ruled out: " : ", ", list->item[i]);
        gw_text_addf(&brief, "%s%.*s", i == 0 ? "ruled out: " : ", ", without_detail(list->item[i]), list->item[i]);
    }
    if (list->count > 0) {
        gwi_page_add(page, GWI_RULED_OUT, label, gw_text_str(&line), 2);
        gwi_page_role(page, GW_ROLE_DIM, SIZE_MAX);
        gwi_page_brief(page, gw_text_str(&brief));
    }
    gw_text_free(&line);
    gw_text_free(&brief);
}

static void add_gpus(gw_text *line, const gw_verdict *verdict)
{
    /* print consecutive equal GPUs once, with their count */
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
        gw_text_add_str(line, ": exit status unknown");
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
        bytes--; /* do not cut inside a UTF-8 character */
    gw_text_addf(line, "%.*s%s", (int)bytes, text, cut ? "..." : "");
}

/* Add one argument, quoted as in a shell. Long arguments (whole scripts after -c) are cut. */
static void add_argument(gw_text *line, const char *argument, size_t bytes_max)
{
    gw_text cut = {0};
    add_cut(&cut, argument, bytes_max);
    gw_add_shell_word(line, gw_text_str(&cut));
    line->failed = line->failed || cut.failed;
    gw_text_free(&cut);
}

static void add_command(gw_text *line, const gw_verdict *verdict, size_t bytes_max)
{
    for (size_t i = 0; i < verdict->argv.count; i++) {
        if (i > 0)
            gw_text_add_str(line, " ");
        if (i > 0 && line->bytes > bytes_max) {
            gw_text_add_str(line, "...");
            break;
        }
        add_argument(line, verdict->argv.item[i], bytes_max < ARGUMENT_BYTES_MAX ? bytes_max : ARGUMENT_BYTES_MAX);
    }
}

/* Append the head line, without "gpuwhy: ". The command is cut to about `bytes_max` bytes. */
static void add_run(gw_text *line, const gw_verdict *verdict, bool running, size_t bytes_max)
{
    add_command(line, verdict, bytes_max);
    bool asked = verdict->question != NULL;
    if (verdict->argv.count == 0 && verdict->snapshot == NULL && verdict->log == NULL && !asked)
        gw_text_add_str(line, "the program");
    if (asked)
        add_cut(line, verdict->question->text, QUESTION_BYTES_MAX);
    else if (verdict->log != NULL)
        gw_text_add_str(line, verdict->log);
    else if (verdict->rehearsal != NULL)
        gw_text_add_str(line, ", rehearsed (nothing was computed),");
    if (verdict->snapshot == NULL && verdict->log == NULL && !asked)
        add_ending(line, verdict, running);
    else if (verdict->snapshot != NULL && verdict->log == NULL && !asked)
        gw_text_addf(line, "%s %s", verdict->snapshot_kind, verdict->snapshot);
    if (verdict->snapshot != NULL && verdict->log == NULL && !asked && verdict->seconds > 0)
        gw_text_addf(line, ", %.1f s of history", verdict->seconds);
    add_gpus(line, verdict);
}

static void write_head(gw_text *line, const gw_verdict *verdict, bool running, size_t bytes_max)
{
    gw_text_clear(line);
    gw_text_add_str(line, "gpuwhy: ");
    add_run(line, verdict, running, bytes_max);
}

void gw_render_head(const gw_verdict *verdict, bool running, gw_text *text)
{
    add_run(text, verdict, running, COMMAND_BYTES_MAX);
}

/* Add the head line. Its brief form, for one screen, shortens the command and keeps everything else. */
static void add_head(gwi_page *page, const gw_verdict *verdict, bool running)
{
    gw_text line = {0};
    write_head(&line, verdict, running, COMMAND_BYTES_MAX);
    const gwi_paragraph *head = gwi_page_add(page, GWI_HEAD, "", gw_text_str(&line), 8);
    for (size_t bytes = COMMAND_BYTES_MAX; bytes >= COMMAND_BYTES_MIN && head != NULL; bytes -= 10) {
        write_head(&line, verdict, running, bytes);
        gwi_page_brief(page, gw_text_str(&line));
        if (head->brief == NULL || gwi_paragraph_lines(page, head, head->brief) <= 2)
            break;
    }
    gw_text_free(&line);
}

/* Return the colour of the verdict's first words. A hypothesis is not printed like a proven fault. */
static gw_role role_of(const gw_verdict *verdict)
{
    if (verdict->status == GW_VERDICT_FAULT)
        return verdict->certainty == GW_HYPOTHESIS ? GW_ROLE_WARNING : GW_ROLE_FAILED;
    return verdict->status == GW_VERDICT_CLEAN ? GW_ROLE_GOOD : GW_ROLE_WARNING;
}

static void add_verdict_line(gwi_page *page, const gw_verdict *verdict)
{
    gw_text line = {0};
    if (verdict->status == GW_VERDICT_FAULT)
        gw_text_addf(&line, "%s (%s): ", verdict->cause, gw_certainty_text(verdict->certainty));
    else if (verdict->status == GW_VERDICT_CLEAN)
        gw_text_add_str(&line, "no fault found: ");
    else
        gw_text_add_str(&line, "not determined: ");
    gw_text_add_str(&line, verdict->headline == NULL ? "" : verdict->headline);
    /* omit "no fault found: " if the headline itself begins with these words */
    if (verdict->status == GW_VERDICT_CLEAN && verdict->headline != NULL &&
        gw_begins(verdict->headline, "no fault found")) {
        gw_text_clear(&line);
        gw_text_add_str(&line, verdict->headline);
    }
    gwi_page_add(page, GWI_VERDICT, "Verdict", gw_text_str(&line), 0);
    gwi_page_role(page, role_of(verdict), strcspn(gw_text_str(&line), ":"));
    gw_text_free(&line);
}

/* Add the evidence, the most important first. Entries of equal weight stay in the order of verdict->evidence. */
static void add_evidence(gwi_page *page, const gw_verdict *verdict, const char *label)
{
    static const gw_weight order[] = {GW_WEIGHT_DECIDES, GW_WEIGHT_PLAIN, GW_WEIGHT_ASIDE};
    for (size_t pass = 0; pass < sizeof order / sizeof order[0]; pass++) {
        for (size_t i = 0; i < verdict->evidence_count; i++) {
            const gw_evidence *evidence = &verdict->evidence[i];
            bool is_said = verdict->headline != NULL && strstr(verdict->headline, evidence->text) != NULL;
            if (evidence->weight != order[pass] || is_said)
                continue;
            gw_text line = {0};
            if (evidence->has_time)
                gw_text_addf(&line, "%.2f s  ", (double)evidence->t_ns / 1e9);
            gw_text_add_str(&line, evidence->text);
            gwi_page_add(page, GWI_WHY, label, gw_text_str(&line), 2);
            gw_text_free(&line);
        }
    }
}

/* ---- the place ---- */

/* Add the user's frame, and below it its callers in the user's own code. Frames in libraries are printed only in the
 * JSON. */
static void add_where(gwi_page *page, const gw_verdict *verdict)
{
    enum { CALLERS_MAX = 4 };
    const gw_where *where = verdict->where;
    if (where == NULL)
        return;
    gw_text line = {0};
    unsigned shown = 0;
    gw_text_addf(&line, "%s: %s", where->frame[where->user].text, where->what);
    gwi_page_add(page, GWI_WHERE, "Where", gw_text_str(&line), 2);
    gwi_page_role(page, GW_ROLE_PLACE, strlen(where->frame[where->user].text));
    gwi_source_add(page, verdict);
    gw_text_clear(&line);
    for (size_t i = where->user + 1; i < where->frame_count && shown < CALLERS_MAX; i++) {
        const gw_where_frame *frame = &where->frame[i];
        if (frame->whose == NULL || (strcmp(frame->whose, "own") != 0 && strcmp(frame->whose, "user") != 0))
            continue;
        gw_text_addf(&line, "%s%s", shown == 0 ? "called at " : ", ", frame->text);
        shown++;
    }
    if (shown > 0)
        gwi_page_add(page, GWI_CALLED, "Where", gw_text_str(&line), 2);
    gw_text_free(&line);
    add_list(page, GWI_WHERE_NOTE, "Where", &where->notes, false);
}

/* ---- known problems of the libraries ---- */

static void add_known(gwi_page *page, const gw_verdict *verdict)
{
    for (size_t i = 0; i < verdict->known_count; i++) {
        const gw_verdict_known *known = &verdict->known[i];
        gw_text line = {0};
        gw_text_addf(&line, "%s%s (%s)", known->certainty < GW_SUPPORTED ? "possibly: " : "", known->text,
                     known->source);
        gwi_page_add(page, GWI_KNOWN, "Known", gw_text_str(&line), 2);
        gw_text_free(&line);
    }
}

/* ---- other explanations ---- */

/* Add the other possible causes as one paragraph. The brief form of the paragraph omits the certainty of hypotheses. */
static void add_alternatives(gwi_page *page, const gw_verdict *verdict, const char *label)
{
    gw_text line = {0}, brief = {0};
    for (size_t i = 0; i < verdict->alternative_count; i++) {
        const gw_alternative *one = &verdict->alternatives[i];
        const char *begin = i == 0 ? "could also be: " : ", ", *certainty = gw_certainty_text(one->certainty);
        gw_text_addf(&line, "%s%s (%s)", begin, one->cause, certainty);
        if (one->certainty > GW_HYPOTHESIS)
            gw_text_addf(&brief, "%s%s (%s)", begin, one->cause, certainty);
        else
            gw_text_addf(&brief, "%s%s", begin, one->cause);
    }
    if (line.bytes > 0) {
        gwi_page_add(page, GWI_COULD, label, gw_text_str(&line), 2);
        gwi_page_brief(page, gw_text_str(&brief));
    }
    gw_text_free(&line);
    gw_text_free(&brief);
}

static int first_sentence(const char *text)
{
    const char *end = strstr(text, ". ");
    return end != NULL ? (int)(end - text) + 1 : (int)strlen(text);
}

/* Add a heading, and below it each possible cause and how to confirm it. This answers a question about an error code or
 * message (verdict->question) when the verdict is undetermined. */
static void add_causes(gwi_page *page, const gw_verdict *verdict)
{
    /* wider than the column of labels, so it is printed on a line of its own */
    static const char label[] = "Possible causes";
    gwi_paragraph *heading = verdict->alternative_count == 0 ? NULL : gwi_page_add(page, GWI_CAUSE, label, "", 0);
    if (heading != NULL)
        heading->verbatim = true;
    for (size_t i = 0; i < verdict->alternative_count; i++) {
        const gw_alternative *one = &verdict->alternatives[i];
        gw_text line = {0};
        gw_text_addf(&line, "%zu. %s: %.*s", i + 1, one->cause, first_sentence(one->summary), one->summary);
        gwi_page_add(page, GWI_CAUSE, label, gw_text_str(&line), 3);
        gw_text_clear(&line);
        gw_text_addf(&line, "   Would be confirmed by: %s", one->told_by);
        gwi_page_add(page, GWI_CONFIRM, label, gw_text_str(&line), 3);
        gw_text_free(&line);
    }
}

/* ---- the attempts of --restart and --rescue ---- */

/* Add one line per attempt, the newest first: it explains how the run ended. A single attempt that succeeded is not
 * mentioned. */
static void add_attempts(gwi_page *page, const gw_verdict *verdict)
{
    if (verdict->attempt_count == 1 && verdict->attempts[0].why == NULL)
        return;
    for (size_t i = verdict->attempt_count; i-- > 0;) {
        const gw_verdict_attempt *attempt = &verdict->attempts[i];
        gw_text line = {0};
        gw_text_addf(&line, "attempt %u of at most %u: ", attempt->number, verdict->attempts_max);
        if (attempt->cause != NULL)
            gw_text_addf(&line, "%s, ", attempt->cause);
        gw_text_add_str(&line, attempt->ended == NULL ? "its end is not known" : attempt->ended);
        if (attempt->seconds > 0)
            gw_text_addf(&line, " after %.1f s", attempt->seconds);
        if (attempt->again)
            gw_text_addf(&line, "; then %s", attempt->change == NULL ? "the same command" : attempt->change);
        else if (attempt->why != NULL)
            gw_text_addf(&line, "; no further attempt: %s", attempt->why);
        if (attempt->again && attempt->proof != NULL)
            gw_text_addf(&line, " (%s)", attempt->proof);
        if (attempt->resumed != NULL)
            gw_text_addf(&line, ", from %s: %.1f s were kept", attempt->resumed, attempt->kept_seconds);
        gwi_page_add(page, GWI_RUN, "Run", gw_text_str(&line), 2);
        gw_text_free(&line);
    }
}

/* ---- the whole text ---- */

/* Add the last paragraph, a command. It prints everything if lines were left out (`more`). Otherwise, it explains the
 * recording again. */
static void add_details(gwi_page *page, const gw_verdict *verdict, const gw_render_style *style, unsigned more)
{
    gw_text line = {0};
    if (more > 0)
        gw_text_addf(&line, "%u more line%s: ", more, more == 1 ? "" : "s");
    if (more > 0 && style->again != NULL)
        gw_text_add_str(&line, style->again);
    else if (more > 0 || verdict->recording != NULL)
        gw_add_explain(&line, more > 0, verdict->recording);
    if (line.bytes > 0)
        gwi_page_add(page, GWI_DETAILS, "Details", gw_text_str(&line), 2);
    gwi_page_role(page, GW_ROLE_DIM, SIZE_MAX);
    gw_text_free(&line);
}

static unsigned details_lines(const gwi_page *page, const gw_verdict *verdict, const gw_render_style *style)
{
    gwi_page alone = {.width = page->width};
    add_details(&alone, verdict, style, 99);
    unsigned lines = 0;
    for (size_t i = 0; i < alone.count; i++)
        lines += gwi_paragraph_lines(&alone, &alone.paragraph[i], alone.paragraph[i].body);
    gwi_page_free(&alone);
    return lines;
}

static void add_all(gwi_page *page, const gw_verdict *verdict, bool running)
{
    bool is_answer = verdict->question != NULL && verdict->status == GW_VERDICT_UNDETERMINED;
    const char *label = "Why";
    if (is_answer)
        label = "Meaning";
    else if (verdict->status == GW_VERDICT_CLEAN)
        label = "Seen";
    add_head(page, verdict, running);
    add_verdict_line(page, verdict);
    add_where(page, verdict);
    add_known(page, verdict);
    add_list(page, GWI_NEXT, "Next", &verdict->next, verdict->next.count > 1);
    add_evidence(page, verdict, label);
    add_ruled_out(page, label, &verdict->ruled_out);
    if (is_answer)
        add_causes(page, verdict);
    else
        add_alternatives(page, verdict, label);
    add_attempts(page, verdict);
    add_list(page, GWI_RUN, "Run", &verdict->interventions, false);
    add_list(page, GWI_LATER, "Later", &verdict->consequences, false);
    if (verdict->question != NULL)
        add_list(page, GWI_BEWARE, "Beware", &verdict->question->misleading, false);
    add_list(page, GWI_ALSO, "Also", &verdict->advice, false);
}

void gw_render_text(const gw_verdict *verdict, const gw_render_style *style, gw_text *text)
{
    unsigned width = style->width == 0 ? 80 : style->width, more = 0;
    gwi_page page = {.width = width < WIDTH_MIN ? WIDTH_MIN : width, .colour = style->colour};
    add_all(&page, verdict, style->running);
    if (!style->all) {
        unsigned details = details_lines(&page, verdict, style);
        more = gwi_page_fit(&page, details < GW_RENDER_LINES ? GW_RENDER_LINES - details : 0);
    }
    add_details(&page, verdict, style, more);
    gwi_page_print(&page, text);
    gwi_page_free(&page);
}

/* ---- a short text ---- */

/* Hide all evidence after the first `count` entries. */
static void hide_evidence(gwi_page *page, unsigned count)
{
    for (size_t i = 0; i < page->count; i++) {
        if (page->paragraph[i].section != GWI_WHY)
            continue;
        page->paragraph[i].hidden = count == 0;
        count -= count > 0;
    }
}

/* Return how many bytes of `text` fit into `bytes` bytes, counted up to the end of a line. */
static size_t whole_lines(const gw_text *text, size_t bytes)
{
    while (bytes > 0 && text->data[bytes - 1] != '\n')
        bytes--;
    return bytes;
}

static void add_cut_lines(gw_text *text, const gw_text *whole, size_t bytes_max)
{
    static const char mark[] = "(cut here)\n";
    const size_t mark_bytes = sizeof mark - 1;
    size_t kept = 0;
    if (whole->bytes <= bytes_max)
        gw_text_add(text, gw_text_str(whole), whole->bytes);
    else if (bytes_max > mark_bytes)
        kept = whole_lines(whole, bytes_max - mark_bytes);
    if (kept > 0) {
        gw_text_add(text, whole->data, kept);
        gw_text_add(text, mark, mark_bytes);
    }
}

void gw_render_message(const gw_verdict *verdict, size_t bytes_max, gw_text *text)
{
    enum { MESSAGE_COLUMNS = 72, EVIDENCE_MAX = 6 };
    static const gw_render_style style = {.width = MESSAGE_COLUMNS};
    gwi_page page = {.width = MESSAGE_COLUMNS};
    gw_text whole = {0};
    add_head(&page, verdict, false);
    add_verdict_line(&page, verdict);
    add_where(&page, verdict);
    add_known(&page, verdict);
    add_list(&page, GWI_NEXT, "Next", &verdict->next, verdict->next.count > 1);
    add_details(&page, verdict, &style, 0); /* before the evidence, so that it is not cut */
    add_evidence(&page, verdict, "Why");
    hide_evidence(&page, EVIDENCE_MAX);
    gwi_page_print(&page, &whole);
    gwi_page_free(&page);
    add_cut_lines(text, &whole, bytes_max);
    text->failed = text->failed || whole.failed;
    gw_text_free(&whole);
}
