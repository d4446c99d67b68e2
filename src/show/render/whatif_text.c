/* Writes the replays of PyTorch's allocator as text: what was replayed, a table of the settings, and a sentence.
 *
 *    gpuwhy: python train.py: what if PyTorch's allocator had other settings?
 *
 *    Replayed  63 requests; all 9 calls to the driver are equal to the recorded ones
 *    Refused   1.00 GiB, with 3.50 GiB reserved at most and 1.75 GiB in use
 *    Memory    4.37 GiB for PyTorch
 *
 *              with                           peak reserved      refused request
 *              the recorded settings          3.50 GiB           refused
 *              expandable_segments:True       3.50 to 3.52 GiB   granted
 *
 *    With expandable_segments:True this run peaks at ... */
#include "gw_text.h"
#include "gw_say.h"
#include "gw_render.h"
#include "gw_render_whatif.h"

#include <stdio.h>
#include <string.h>

enum { LABEL_COLUMNS = 10, NAME_COLUMNS = 38, PEAK_COLUMNS = 19, WIDTH = 80 };

typedef struct page {
    gw_text *text;
    bool colour;
} page;

static void add_label(const page *at, const char *label)
{
    size_t from = at->text->bytes;
    gw_text_addf(at->text, "%-*s", LABEL_COLUMNS, label);
    if (at->colour)
        gw_paint_begin(at->text, from, label, strlen(label), GW_ROLE_STRONG);
}

static void add_head(const gw_whatif_story *story, gw_text *text)
{
    gw_text head = {0};
    gw_text_addf(&head, "gpuwhy: %.120s: what if PyTorch's allocator had other settings?",
                 story->command == NULL ? story->recording : story->command);
    gw_add_printable(text, gw_text_str(&head));
    gw_text_add_str(text, "\n\n");
    gw_text_free(&head);
}

static void add_replayed(const gw_whatif *whatif, const page *at)
{
    const gw_replay_check *check = &whatif->check;
    char reserved[GW_BYTES_TEXT_MAX], live[GW_BYTES_TEXT_MAX];
    add_label(at, "Replayed");
    gw_text_addf(at->text, "%zu requests; all %zu calls to the driver are equal to the recorded ones\n",
                 whatif->request_count, check->step_count);
    if (check->place_count > 0)
        gw_text_addf(at->text, "%-*sand so are the addresses of %zu blocks\n", LABEL_COLUMNS, "", check->place_count);
    if (check->unsure_count > 0)
        gw_text_addf(at->text, "%-*sof %zu requests only the block's size is known: peaks are ranges\n", LABEL_COLUMNS,
                     "", check->unsure_count);
    if (whatif->ran_out)
        return;
    add_label(at, "Peak");
    gw_text_addf(at->text, "%s reserved, %s of it in use\n", gw_bytes_text(reserved, check->reserved_peak),
                 gw_bytes_text(live, check->live_peak));
}

static void add_refused(const gw_whatif *whatif, const page *at)
{
    char wanted[GW_BYTES_TEXT_MAX], peak[GW_BYTES_TEXT_MAX], room[GW_BYTES_TEXT_MAX], live[GW_BYTES_TEXT_MAX];
    if (whatif->ran_out) {
        add_label(at, "Refused");
        gw_text_addf(at->text, "%s, with %s reserved at most and %s in use\n",
                     gw_bytes_text(wanted, whatif->wanted_bytes), gw_bytes_text(peak, whatif->check.reserved_peak),
                     gw_bytes_text(live, whatif->check.live_bytes));
    }
    if (whatif->room_bytes != 0) {
        add_label(at, "Memory");
        gw_text_addf(at->text, "%s for PyTorch%s\n", gw_bytes_text(room, whatif->room_bytes),
                     whatif->is_other_card ? " on the other card" : "");
    }
}

static gw_role role_of(gw_whatif_outcome outcome)
{
    if (outcome == GW_WHATIF_GRANTED)
        return GW_ROLE_GOOD;
    return outcome == GW_WHATIF_UNSURE ? GW_ROLE_WARNING : GW_ROLE_FAILED;
}

/* Add a row of the table. Runs that were not refused memory have no outcome. */
static void add_row(const char *name, const gw_replay_result *result, gw_whatif_outcome outcome, bool has_outcome,
                    bool needs_fraction, const page *at)
{
    char range[GW_WHATIF_RANGE_MAX];
    gw_text line = {0};
    gw_text_addf(&line, "%-*s%-*s ", LABEL_COLUMNS, "", NAME_COLUMNS, name);
    gw_whatif_range(range, result->reserved_least, result->reserved_most);
    gw_text_addf(&line, "%-*s", has_outcome ? PEAK_COLUMNS : 0, range);
    gw_add_printable(at->text, gw_text_str(&line));
    gw_text_free(&line);
    size_t from = at->text->bytes;
    if (has_outcome)
        gw_text_add_str(at->text, gw_whatif_outcome_text(outcome));
    if (has_outcome && at->colour)
        gw_paint(at->text, from, role_of(outcome));
    gw_text_addf(at->text, "%s\n", needs_fraction ? " (1)" : "");
}

static bool has_outcome(const gw_whatif *whatif, gw_whatif_outcome outcome)
{
    return whatif->ran_out || outcome != GW_WHATIF_NO_REFUSAL;
}

static void add_table(const gw_whatif *whatif, const page *at)
{
    bool needs_fraction = false;
    gw_text_addf(at->text, "\n%-*s%-*s ", LABEL_COLUMNS, "", NAME_COLUMNS, "with");
    if (whatif->ran_out)
        gw_text_addf(at->text, "%-*srefused request\n", PEAK_COLUMNS, "peak reserved");
    else
        gw_text_add_str(at->text, "peak reserved\n");
    add_row("the recorded settings", &whatif->same, whatif->same_outcome, has_outcome(whatif, whatif->same_outcome),
            false, at);
    for (size_t i = 0; i < whatif->row_count; i++) {
        const gw_whatif_row *row = &whatif->row[i];
        add_row(row->name, &row->result, row->outcome, has_outcome(whatif, row->outcome), row->needs_fraction, at);
        needs_fraction = needs_fraction || row->needs_fraction;
    }
    if (needs_fraction)
        gw_text_addf(at->text,
                     "%-*s(1) with torch.cuda.set_per_process_memory_fraction(1.0), without which it\n%-*sdoes "
                     "nothing\n",
                     LABEL_COLUMNS, "", LABEL_COLUMNS + 4, "");
    gw_text_add_str(at->text, "\n");
}

static void add_sentence(const char *sentence, gw_text *text)
{
    gw_text line = {0};
    gw_text_addf(&line, "%s.", sentence);
    (void)gw_add_wrapped(text, gw_text_str(&line), 0, 0, WIDTH);
    gw_text_free(&line);
}

void gw_render_whatif_text(const gw_whatif_story *story, bool colour, gw_text *text)
{
    const page at = {.text = text, .colour = colour};
    char sentence[GW_WHATIF_TEXT_MAX];
    add_head(story, text);
    if (story->impossible != NULL) {
        gw_text line = {0};
        size_t from = text->bytes;
        gw_text_addf(&line, "No replay: %s", story->impossible);
        add_sentence(gw_text_str(&line), text);
        if (colour)
            gw_paint_begin(text, from, "No replay", strlen("No replay"), GW_ROLE_WARNING);
        gw_text_free(&line);
        return;
    }
    add_replayed(story->whatif, &at);
    add_refused(story->whatif, &at);
    add_table(story->whatif, &at);
    add_sentence(gw_whatif_sentence(sentence, story->whatif), text);
}
