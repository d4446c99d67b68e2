/* The first section: the verdict, in the words of `gpuwhy explain`. */
#include "gwi_sections.h"

#include "gw_render.h"
#include "gwi_escape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES_MAX = 40 };

static void list(gwi_part *at, const char *title, const char *class_name, const gw_string_list *items, bool is_ordered)
{
    const char *tag = is_ordered ? "ol" : "ul";
    if (items->count == 0)
        return;
    gw_text_addf(at->page, "<div class=\"%s\"><h4>%s</h4><%s>", class_name, title, tag);
    for (size_t i = 0; i < items->count; i++) {
        gw_text_add_str(at->page, "<li>");
        gwi_html(at->page, items->item[i]);
        gw_text_add_str(at->page, "</li>");
    }
    gw_text_addf(at->page, "</%s></div>\n", tag);
}

/* Write short items in one paragraph: "Ruled out: a; b". */
static void line(gwi_part *at, const char *title, const gw_string_list *items)
{
    for (size_t i = 0; i < items->count; i++) {
        gw_text_addf(at->page, i == 0 ? "<p class=\"also\"><b>%s:</b> " : "; ", title);
        gwi_html(at->page, items->item[i]);
    }
    gw_text_add_str(at->page, items->count > 0 ? "</p>\n" : "");
}

static void evidence_rows(gwi_part *at, const gw_verdict *verdict, gw_weight weight)
{
    for (size_t i = 0; i < verdict->evidence_count; i++) {
        const gw_evidence *evidence = &verdict->evidence[i];
        if (evidence->weight != weight)
            continue;
        gw_text_addf(at->page, "<tr%s><td class=\"n\">", weight == GW_WEIGHT_DECIDES ? " class=\"strong\"" : "");
        if (evidence->has_time)
            gwi_time(at->page, evidence->t_ns);
        gw_text_add_str(at->page, "</td><td>");
        gwi_html(at->page, evidence->text);
        gw_text_add_str(at->page, "</td><td class=\"dim\">");
        gwi_html(at->page, evidence->source);
        gw_text_add_str(at->page, "</td></tr>\n");
    }
}

static void evidence(gwi_part *at, const gw_verdict *verdict)
{
    if (verdict->evidence_count == 0)
        return;
    gw_text_add_str(at->page, "<div class=\"evidence\"><h4>Evidence</h4><table><tr><th>Time</th><th>Fact</th>"
                              "<th>Source</th></tr>\n");
    evidence_rows(at, verdict, GW_WEIGHT_DECIDES);
    evidence_rows(at, verdict, GW_WEIGHT_PLAIN);
    evidence_rows(at, verdict, GW_WEIGHT_ASIDE);
    gw_text_add_str(at->page, "</table></div>\n");
}

static void frames(gwi_part *at, const gw_where *where)
{
    gw_text_add_str(at->page, "<details><summary>whole stack</summary><ol class=\"stack\">");
    for (size_t i = 0; i < where->frame_count && i < FRAMES_MAX; i++) {
        const gw_where_frame *frame = &where->frame[i];
        gw_text_add_str(at->page, i == where->user ? "<li class=\"user\">" : "<li>");
        gwi_html_cut(at->page, frame->text, 110);
        gw_text_add_str(at->page, "</li>");
    }
    gw_text_add_str(at->page, "</ol>");
    if (where->frame_count > FRAMES_MAX)
        gw_text_addf(at->page, "<p class=\"dim\">%zu more frames</p>", where->frame_count - FRAMES_MAX);
    gw_text_add_str(at->page, "</details>");
}

/* The user's line, and the lines around it. */
static void source(gwi_part *at, const gw_verdict *verdict)
{
    gw_text lines = {0};
    gw_render_source(verdict, &lines);
    gw_text_add_str(at->page, lines.bytes > 0 ? "<pre class=\"source\">" : "");
    for (const char *line = gw_text_str(&lines); *line != '\0';) {
        size_t bytes = strcspn(line, "\n");
        char *copy = strndup(line, bytes);
        gw_text_add_str(at->page, line[0] == '>' ? "<b>" : "");
        gwi_html(at->page, copy);
        gw_text_add_str(at->page, line[0] == '>' ? "</b>\n" : "\n");
        at->failed = at->failed || copy == NULL;
        free(copy);
        line += bytes + (line[bytes] == '\n');
    }
    gw_text_add_str(at->page, lines.bytes > 0 ? "</pre>\n" : "");
    at->failed = at->failed || lines.failed;
    gw_text_free(&lines);
}

static void where(gwi_part *at, const gw_verdict *verdict)
{
    const gw_where *place = verdict->where;
    if (place == NULL && (verdict->where_reason == NULL || verdict->status != GW_VERDICT_FAULT))
        return;
    gw_text_add_str(at->page, "<div class=\"where\"><h4>Where</h4><p>");
    if (place != NULL && place->user < place->frame_count) {
        gw_text_add_str(at->page, "<code>");
        gwi_html_cut(at->page, place->frame[place->user].text, 110);
        gw_text_add_str(at->page, "</code>");
        if (place->what != NULL) {
            gw_text_add_str(at->page, ": ");
            gwi_html(at->page, place->what);
        }
    }
    if (verdict->where_reason != NULL) {
        gw_text_add_str(at->page, " <span class=\"dim\">");
        gwi_html(at->page, verdict->where_reason);
        gw_text_add_str(at->page, "</span>");
    }
    gw_text_add_str(at->page, "</p>");
    source(at, verdict);
    if (place != NULL && place->frame_count > 1)
        frames(at, place);
    gw_text_add_str(at->page, "</div>\n");
}

static void alternatives(gwi_part *at, const gw_verdict *verdict)
{
    for (size_t i = 0; i < verdict->alternative_count; i++) {
        const gw_alternative *one = &verdict->alternatives[i];
        gw_text_add_str(at->page, i == 0 ? "<p class=\"also\"><b>Could also be:</b> <code>" : "; <code>");
        gwi_html(at->page, one->cause);
        gw_text_addf(at->page, "</code> (%s)", gw_certainty_text(one->certainty));
        if (one->summary != NULL) {
            gw_text_add_str(at->page, ": ");
            gwi_html(at->page, one->summary);
        }
    }
    gw_text_add_str(at->page, verdict->alternative_count > 0 ? "</p>\n" : "");
}

static void attempts(gwi_part *at, const gw_verdict *verdict)
{
    if (verdict->attempt_count == 0)
        return;
    gw_text_add_str(at->page, "<div class=\"also\"><h4>Attempts</h4><ol>");
    for (size_t i = 0; i < verdict->attempt_count; i++) {
        const gw_verdict_attempt *attempt = &verdict->attempts[i];
        gw_text_addf(at->page, "<li value=\"%u\">", attempt->number);
        gwi_html(at->page, attempt->ended);
        gw_text_add_str(at->page, attempt->headline == NULL ? "" : ": ");
        gwi_html(at->page, attempt->headline);
        gw_text_add_str(at->page, attempt->change == NULL ? "" : "; changed for the next attempt: ");
        gwi_html(at->page, attempt->change);
        gw_text_add_str(at->page, attempt->proof == NULL ? "" : "; ");
        gwi_html(at->page, attempt->proof);
        gw_text_add_str(at->page, attempt->resumed == NULL ? "" : "; it goes on from ");
        gwi_html(at->page, attempt->resumed);
        gw_text_add_str(at->page, "</li>");
    }
    gw_text_add_str(at->page, "</ol></div>\n");
}

static void parts(gwi_part *at, const gw_verdict *verdict)
{
    if (verdict->part_count == 0)
        return;
    gw_text_add_str(at->page, "<div class=\"evidence\"><h4>Recordings</h4><table><tr><th>After the first trouble</th>"
                              "<th>Host</th><th>Recording</th><th>Verdict</th></tr>\n");
    for (size_t i = 0; i < verdict->part_count; i++) {
        const gw_verdict_part *part = &verdict->parts[i];
        gw_text_add_str(at->page, "<tr><td class=\"n\">");
        if (part->has_offset)
            gw_text_addf(at->page, "%+.3f s", part->offset_s);
        gw_text_add_str(at->page, "</td><td>");
        gwi_html(at->page, part->host);
        gw_text_add_str(at->page, "</td><td>");
        gw_text_addf(at->page, "<a href=\"#recording-%zu\">", i);
        gwi_html_cut(at->page, part->recording, 60);
        gw_text_add_str(at->page, "</a>");
        gw_text_add_str(at->page, "</td><td>");
        gwi_html(at->page, part->headline);
        gw_text_add_str(at->page, "</td></tr>\n");
    }
    gw_text_add_str(at->page, "</table></div>\n");
}

static void head(gwi_part *at, const gw_verdict *verdict)
{
    gw_text line = {0};
    gw_render_head(verdict, at->run != NULL && at->run->running, &line);
    gw_text_add_str(at->page, "<p class=\"head\">");
    gwi_html(at->page, gw_text_str(&line));
    gw_text_add_str(at->page, "</p>\n");
    gw_text_free(&line);
}

static void headline(gwi_part *at, const gw_verdict *verdict)
{
    gw_text_addf(at->page, "<p class=\"badges\"><span class=\"badge %s\">%s</span>",
                 gw_verdict_status_text(verdict->status), gw_verdict_status_text(verdict->status));
    if (verdict->cause != NULL) {
        gw_text_add_str(at->page, " <span class=\"badge cause\">");
        gwi_html(at->page, verdict->cause);
        gw_text_add_str(at->page, "</span>");
    }
    if (verdict->status == GW_VERDICT_FAULT)
        gw_text_addf(at->page, " <span class=\"badge certainty\">%s</span>", gw_certainty_text(verdict->certainty));
    gw_text_add_str(at->page, "</p>\n<p class=\"headline\">");
    gwi_html(at->page, verdict->headline == NULL ? "The cause was not determined." : verdict->headline);
    gw_text_add_str(at->page, "</p>\n");
}

void gwi_verdict_part(gwi_part *at, const gw_verdict *verdict, bool is_whole)
{
    char id[48];
    snprintf(id, sizeof id, is_whole ? "verdict" : "verdict-%zu", at->number);
    gw_text_addf(at->page, "<section id=\"%s\" class=\"verdict %s\">\n", id, gw_verdict_status_text(verdict->status));
    head(at, verdict);
    headline(at, verdict);
    if (at->run != NULL)
        gwi_about_part(at);
    gw_text_add_str(at->page, "<div class=\"two\"><div>\n");
    list(at, "What to do", "next", &verdict->next, true);
    where(at, verdict);
    list(at, "Advice", "also", &verdict->advice, false);
    gw_text_add_str(at->page, "</div><div>\n");
    evidence(at, verdict);
    line(at, "Ruled out", &verdict->ruled_out);
    list(at, "Later errors, caused by this one", "also", &verdict->consequences, false);
    alternatives(at, verdict);
    list(at, "Done by gpuwhy", "also", &verdict->interventions, false);
    gw_text_add_str(at->page, "</div></div>\n");
    attempts(at, verdict);
    parts(at, verdict);
    gw_text_add_str(at->page, "</section>\n");
}
