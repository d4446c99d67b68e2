/* Draws a snapshot: a title, the cards, the runs, and the processes.
 *
 * All lines below the title are drawn first; then those that fit are copied, so that scrolling needs no second layout.
 */
#include "gwi_screen.h"

#include "gw_text.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

enum { WIDTH_MIN = 40 };

/* ---- the title ---- */

/* True if the card, or a run on it, has an alarm. */
static bool has_alarm(const gw_watch_snapshot *s, size_t card)
{
    bool found = s->card[card].is_alarm;
    for (size_t i = 0; i < s->run_count && !found; i++)
        for (size_t k = 0; k < s->run[i].use_count; k++)
            found = found || (s->run[i].use[k].is_alarm && s->run[i].use[k].card == (int)card);
    return found;
}

/* The lines with the details may be scrolled away, so the title names the cards. */
static void add_alarms(gw_text *text, const gw_watch_snapshot *s)
{
    bool any = false;
    for (size_t i = 0; i < s->card_count; i++) {
        if (!has_alarm(s, i))
            continue;
        if (!any)
            gwi_mark(text, GW_MARK_ALARM);
        gw_text_addf(text, "%s%" PRIu32, any ? ", " : "  ALARM: GPU ", s->card[i].index);
        any = true;
    }
    gwi_mark(text, GW_MARK_PLAIN);
}

static void add_title(gw_text *text, const gw_watch_snapshot *s, const gw_watch_view *view)
{
    time_t now = (time_t)(s->t_realtime_ns / 1000000000u);
    struct tm parts;
    char clock[32] = "", alarm[GW_BYTES_TEXT_MAX];
    if (localtime_r(&now, &parts) != NULL)
        strftime(clock, sizeof clock, "%H:%M:%S", &parts);
    gwi_mark(text, GW_MARK_TITLE);
    gw_text_add_str(text, "gpuwhy watch");
    gwi_mark(text, GW_MARK_PLAIN);
    gw_text_add_str(text, "  ");
    gw_add_printable(text, s->host);
    gw_text_addf(text, "  %s", clock);
    add_alarms(text, s);
    if (s->alarm_ratio > 0)
        gw_text_addf(text, "  alarm at %.0f %%", s->alarm_ratio * 100);
    else if (s->alarm_bytes > 0)
        gw_text_addf(text, "  alarm at %s", gw_bytes_text(alarm, s->alarm_bytes));
    if (view->height > 0)
        gw_text_addf(text, "  every %u s   ? help  q quit", view->interval_s);
    gw_text_add_str(text, "\n");
    if (view->is_typing || view->filter[0] != '\0') {
        gwi_mark(text, GW_MARK_WARN);
        gw_text_add_str(text, "filter: ");
        gw_add_printable(text, view->filter);
        gw_text_add_str(text, view->is_typing ? "_   (Enter: keep, Esc: remove)\n" : "   (Esc: remove)\n");
    }
}

/* ---- help ---- */

static void add_help(gw_text *text)
{
    gwi_mark(text, GW_MARK_HEAD);
    gw_text_add_str(text, "Keys\n  order of the processes:");
    gwi_mark(text, GW_MARK_PLAIN);
#define GW_X(name, key, words) gw_text_addf(text, "  %c %s", key, words);
    GW_WATCH_ORDERS(GW_X)
#undef GW_X
    gw_text_add_str(text, "\n"
                          "  /  show only what contains a text (user, command, pid, run)   Esc  all\n"
                          "  Up Down PgUp PgDn Home   scroll     Space  refresh now\n"
                          "  ?  this help                        q  quit\n\n");
    gwi_mark(text, GW_MARK_HEAD);
    gw_text_add_str(text, "Words\n");
    gwi_mark(text, GW_MARK_PLAIN);
    gw_text_add_str(text, "  in use   what NVML reports for the card or the process\n"
                          "  needs    what a recorded run cannot give back: live memory without PyTorch's\n"
                          "           cache, and the driver's share (context, loaded code). Alarms look at\n"
                          "           this. Unknown for programs that gpuwhy does not record\n"
                          "  bar      # needed by recorded runs, = other memory in use, . free\n"
                          "  /min     growth of what is needed, if it is steady; \"full in\" continues it\n"
                          "  idle     since when a process has not used the card; \"> 5 min\": at least\n"
                          "  ECC      corrected memory errors since the driver was loaded\n"
                          "  Xid      fault events of the card since watch was started\n"
                          "  ?        the card does not report this value\n");
}

/* ---- the screen ---- */

/* Copy the lines [from, from + count) of `lines` to the screen. Returns the number of all lines. */
static unsigned copy_lines(gw_text *text, const char *lines, unsigned from, unsigned count, unsigned width)
{
    unsigned number = 0;
    for (const char *at = lines; *at != '\0'; number++) {
        const char *end = strchr(at, '\n');
        size_t bytes = end == NULL ? strlen(at) : (size_t)(end - at);
        if (number >= from && number - from < count)
            gwi_add_cut(text, at, bytes, width);
        at += bytes + (end != NULL);
    }
    return number;
}

void gw_watch_draw(const gw_watch_snapshot *s, const gw_watch_view *view, gw_text *text, unsigned *ret_top_max)
{
    gw_text title = {0}, body = {0}, rest = {0};
    unsigned width = view->width < WIDTH_MIN ? WIDTH_MIN : view->width;
    add_title(&title, s, view);
    if (view->help) {
        add_help(&body);
    } else {
        gwi_draw_cards(&body, s, width);
        gwi_draw_runs(&body, s, view);
        gwi_draw_processes(&body, s, view);
    }
    unsigned head = copy_lines(&rest, gw_text_str(&title), 0, UINT32_MAX, width);
    unsigned all = copy_lines(&rest, gw_text_str(&body), 0, 0, width);
    unsigned room = view->height == 0 ? all : view->height > head ? view->height - head : 0;
    unsigned top_max = all > room ? all - room : 0, top = view->top < top_max ? view->top : top_max;
    gw_text_add(text, gw_text_str(&rest), rest.bytes);
    bool has_more = top < top_max && room > 1;
    copy_lines(text, gw_text_str(&body), top, has_more ? room - 1 : room, width);
    if (has_more) {
        gwi_mark(text, GW_MARK_DIM);
        gw_text_addf(text, "-- %u more lines: Down, PgDn --\n", all - top - (room - 1));
    }
    *ret_top_max = top_max;
    gw_text_free(&title);
    gw_text_free(&body);
    gw_text_free(&rest);
}
