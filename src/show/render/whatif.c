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
#include "gw_json.h"
#include "gw_render.h"
#include "gw_say.h"
#include "gw_text.h"

#include <stdio.h>
#include <string.h>

/* Writes the replays of PyTorch's allocator as JSON. */

static void add_bytes(json_object *object, const char *key, uint64_t bytes, bool is_known)
{
    json_object_object_add(object, key, is_known ? json_object_new_int64((int64_t)bytes) : NULL);
}

static json_object *of_result(const char *name, const gw_replay_result *result, gw_whatif_outcome outcome)
{
    json_object *object = json_object_new_object();
    json_object_object_add(object, "name", gw_json_string(name));
    add_bytes(object, "reserved_peak_least_bytes", result->reserved_least, true);
    add_bytes(object, "reserved_peak_most_bytes", result->reserved_most, true);
    add_bytes(object, "allocated_peak_bytes", result->live_peak, true);
    json_object_object_add(object, "retries", json_object_new_int64((int64_t)result->retry_count));
    json_object_object_add(object, "outcome",
                           outcome == GW_WHATIF_NO_REFUSAL ? NULL : gw_json_string(gw_whatif_outcome_text(outcome)));
    return object;
}

static json_object *of_row(const gw_whatif_row *row)
{
    json_object *object = of_result(row->name, &row->result, row->outcome);
    json_object_object_add(object, "is_setting", json_object_new_boolean(row->is_setting));
    json_object_object_add(object, "needs_memory_fraction", json_object_new_boolean(row->needs_fraction));
    json_object_object_add(object, "is_own", json_object_new_boolean(row->is_own));
    return object;
}

static json_object *of_check(const gw_whatif *whatif)
{
    const gw_replay_check *check = &whatif->check;
    json_object *object = json_object_new_object();
    json_object_object_add(object, "requests", json_object_new_int64((int64_t)whatif->request_count));
    json_object_object_add(object, "driver_calls", json_object_new_int64((int64_t)check->step_count));
    json_object_object_add(object, "addresses", json_object_new_int64((int64_t)check->place_count));
    json_object_object_add(object, "unknown_sizes", json_object_new_int64((int64_t)check->unsure_count));
    add_bytes(object, "reserved_peak_bytes", check->reserved_peak, true);
    add_bytes(object, "allocated_peak_bytes", check->live_peak, true);
    add_bytes(object, "wanted_bytes", whatif->wanted_bytes, whatif->ran_out);
    add_bytes(object, "needed_bytes", whatif->need_bytes, true);
    return object;
}

static void add_whatif(json_object *whole, const gw_whatif *whatif)
{
    char sentence[GW_WHATIF_TEXT_MAX];
    const gw_whatif_row *cure = gw_whatif_cure(whatif);
    json_object *list = json_object_new_array();
    for (size_t i = 0; i < whatif->row_count; i++)
        json_object_array_add(list, of_row(&whatif->row[i]));
    json_object_object_add(whole, "recorded", of_check(whatif));
    add_bytes(whole, "memory_bytes", whatif->room_bytes, whatif->room_bytes != 0);
    json_object_object_add(whole, "other_card", json_object_new_boolean(whatif->is_other_card));
    json_object_object_add(whole, "same", of_result("recorded settings", &whatif->same, whatif->same_outcome));
    add_bytes(whole, "unlimited_peak_bytes", whatif->unlimited.reserved_most, true);
    json_object_object_add(whole, "tried", list);
    json_object_object_add(whole, "cure", cure == NULL ? NULL : gw_json_string(cure->name));
    json_object_object_add(whole, "summary", gw_json_string(gw_whatif_sentence(sentence, whatif)));
}

gw_status gw_render_whatif_json(const gw_whatif_story *story, gw_text *text, gw_error *err)
{
    json_object *whole = json_object_new_object();
    json_object_object_add(whole, "schema", json_object_new_int(GW_JSON_SCHEMA));
    json_object_object_add(whole, "kind", json_object_new_string("whatif"));
    json_object_object_add(whole, "recording", gw_json_string(story->recording));
    json_object_object_add(whole, "command", gw_json_string(story->command));
    json_object_object_add(whole, "device", story->device < 0 ? NULL : json_object_new_int(story->device));
    json_object_object_add(whole, "possible", json_object_new_boolean(story->impossible == NULL));
    json_object_object_add(whole, "reason", gw_json_string(story->impossible));
    if (story->impossible == NULL)
        add_whatif(whole, story->whatif);
    return gw_json_write(whole, JSON_C_TO_STRING_PRETTY, text, err);
}

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
        gw_text_add_str(&line, "No replay: ");
        gw_add_printable(&line, story->impossible); /* it may name a setting of the program */
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
