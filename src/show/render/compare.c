/* Writes the comparison of two runs as text, the differences that matter first and those that do not matter last:
 *
 *    gpuwhy: python train.py: good exited 0 after 3.1 s, bad exited 1 after 1.2 s
 *
 *    Differs  driver       kernel module: 550.54.14 -> 535.104.05
 *             environment  CUDA_VISIBLE_DEVICES: (none) -> 1
 *    Diverges after 214 identical calls
 *             good  0.31 s  cuMemAlloc of 64.00 MiB at train.py:41 in load
 *             bad   0.33 s  cuMemAlloc of 128.00 MiB at train.py:41 in load
 *    Same     command (2), driver (3), libraries (9) */
#include "gw_json.h"
#include "gw_render.h"
#include "gw_say.h"
#include "gw_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Writes the comparison of two runs as JSON. */

static json_object *of_trait(const gw_trait *trait)
{
    if (trait == NULL)
        return NULL;
    json_object *object = json_object_new_object();
    json_object_object_add(object, "text", gw_json_string(trait->text));
    json_object_object_add(object, "value", trait->has_value ? json_object_new_double(trait->value) : NULL);
    json_object_object_add(object, "unit", trait->has_value ? json_object_new_string(trait->unit) : NULL);
    return object;
}

static json_object *of_difference(const gw_difference *difference)
{
    const gw_trait *any = difference->good != NULL ? difference->good : difference->bad;
    json_object *object = json_object_new_object();
    json_object_object_add(object, "area", json_object_new_string(gw_area_text(difference->area)));
    json_object_object_add(object, "name", gw_json_string(any->name));
    json_object_object_add(object, "matters", json_object_new_boolean(difference->matters));
    json_object_object_add(object, "good", of_trait(difference->good));
    json_object_object_add(object, "bad", of_trait(difference->bad));
    return object;
}

static json_object *of_side(const gw_parting_side *side)
{
    if (side->ended)
        return NULL;
    json_object *object = json_object_new_object();
    json_object_object_add(object, "t_s", json_object_new_double((double)side->t_ns / 1e9));
    json_object_object_add(object, "call", gw_json_string(side->call));
    json_object_object_add(object, "bytes", side->bytes == 0 ? NULL : json_object_new_int64((int64_t)side->bytes));
    json_object_object_add(object, "result", json_object_new_int(side->result));
    json_object_object_add(object, "place", gw_json_string(side->place));
    return object;
}

static json_object *of_parting(const gw_parting *parting)
{
    json_object *object = json_object_new_object();
    json_object_object_add(object, "known", json_object_new_boolean(parting->known));
    json_object_object_add(object, "reason", gw_json_string(parting->reason));
    json_object_object_add(object, "parted", json_object_new_boolean(parting->parted));
    json_object_object_add(object, "complete", json_object_new_boolean(!parting->cut));
    json_object_object_add(object, "same_calls", json_object_new_int64((int64_t)parting->same));
    bool parted = parting->parted;
    json_object_object_add(object, "main", parted ? json_object_new_boolean(parting->is_main) : NULL);
    json_object_object_add(object, "process", parted ? json_object_new_int64(parting->process) : NULL);
    json_object_object_add(object, "thread", parted ? json_object_new_int64(parting->thread) : NULL);
    json_object_object_add(object, "good", parted ? of_side(&parting->good) : NULL);
    json_object_object_add(object, "bad", parted ? of_side(&parting->bad) : NULL);
    return object;
}

static json_object *of_run(gw_portrait *portrait)
{
    json_object *object = json_object_new_object();
    static const struct {
        gw_area area;
        const char *trait, *key;
    } rows[] = {{GW_AREA_COMMAND, "line", "command"}, {GW_AREA_END, "exit", "exit"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const gw_trait *trait = gw_portrait_trait(portrait, rows[i].area, rows[i].trait);
        json_object_object_add(object, rows[i].key, trait == NULL ? NULL : gw_json_string(trait->text));
    }
    json_object_object_add(object, "seconds",
                           json_object_new_double((double)gw_portrait_model(portrait)->t_end_ns / 1e9));
    return object;
}

gw_status gw_render_comparison_json(const gw_comparison *comparison, gw_portrait *good, gw_portrait *bad, gw_text *text,
                                    gw_error *err)
{
    json_object *whole = json_object_new_object(), *list = json_object_new_array(), *same = json_object_new_object();
    for (size_t i = 0; i < comparison->count; i++)
        json_object_array_add(list, of_difference(&comparison->difference[i]));
    for (int i = 0; i < GW_AREA_COUNT; i++)
        json_object_object_add(same, gw_area_text((gw_area)i), json_object_new_int64((int64_t)comparison->same[i]));
    json_object_object_add(whole, "schema", json_object_new_int(GW_JSON_SCHEMA));
    json_object_object_add(whole, "kind", json_object_new_string("diff"));
    json_object_object_add(whole, "differs", json_object_new_boolean(comparison->differs));
    json_object_object_add(whole, "good", of_run(good));
    json_object_object_add(whole, "bad", of_run(bad));
    json_object_object_add(whole, "differences", list);
    json_object_object_add(whole, "same", same);
    json_object_object_add(whole, "parting", of_parting(&comparison->parting));
    return gw_json_write(whole, JSON_C_TO_STRING_PRETTY, text, err);
}

enum { LABEL_COLUMNS = 9, AREA_COLUMNS = 13, VALUE_BYTES_MAX = 100, LINES_MAX = 30, LIGHT_MAX = 8 };

typedef struct page {
    gw_text *text;
    const char *label; /* label of the next line; "" after it was printed */
    bool colour;
} page;

/* Add one line to the page; `what`, its beginning, is in the colour of `role`. Strings from the recording must not
 * control the terminal, so replace control characters. */
static void add_line_in(page *at, const char *line, const char *what, gw_role role)
{
    gw_text clean = {0};
    gw_add_printable(&clean, line);
    size_t from = at->text->bytes;
    gw_text_addf(at->text, "%-*s", LABEL_COLUMNS, at->label);
    if (at->colour)
        gw_paint_begin(at->text, from, at->label, strlen(at->label), GW_ROLE_STRONG);
    from = at->text->bytes;
    gw_text_addf(at->text, "%s\n", gw_text_str(&clean));
    if (at->colour)
        gw_paint_begin(at->text, from, what, strlen(what), role);
    gw_text_free(&clean);
    at->label = "";
}

static void add_line(page *at, const char *line)
{
    add_line_in(at, line, "", GW_ROLE_PLAIN);
}

/* Add a value. If it is long (a path, a list of folders), print only its end, because the end is more specific. */
static void add_value(gw_text *line, const gw_trait *trait)
{
    if (trait == NULL) {
        gw_text_add_str(line, "(none)");
        return;
    }
    size_t bytes = strlen(trait->text), cut = bytes > VALUE_BYTES_MAX ? bytes - VALUE_BYTES_MAX : 0;
    while (cut > 0 && ((unsigned char)trait->text[cut] & 0xC0) == 0x80)
        cut++; /* do not cut inside a UTF-8 character */
    if (bytes == 0)
        gw_text_add_str(line, "\"\"");
    else
        gw_text_addf(line, "%s%s", cut > 0 ? "..." : "", trait->text + cut);
}

/* Add the ratio bad / good if both values are numbers and the good one is positive. */
static void add_ratio(gw_text *line, const gw_difference *difference)
{
    if (difference->good == NULL || difference->bad == NULL || !difference->good->has_value ||
        !difference->bad->has_value || difference->good->value <= 0)
        return;
    double ratio = difference->bad->value / difference->good->value;
    gw_text_addf(line, ratio >= 10 ? " (x %.0f)" : " (x %.2f)", ratio);
}

static void add_difference(page *at, const gw_difference *difference)
{
    gw_text line = {0};
    const gw_trait *any = difference->good != NULL ? difference->good : difference->bad;
    gw_text_addf(&line, "%-*s%s: ", AREA_COLUMNS, gw_area_text(difference->area), any->name);
    add_value(&line, difference->good);
    gw_text_add_str(&line, " -> ");
    add_value(&line, difference->bad);
    add_ratio(&line, difference);
    add_line(at, gw_text_str(&line));
    gw_text_free(&line);
}

/* Print at most `lines_max` of the differences that matter, and the number of those left out. If `matters` is false,
 * print those that do not matter. */
static void add_differences(page *at, const gw_comparison *comparison, bool matters, size_t lines_max)
{
    size_t told = 0, left = 0;
    for (size_t i = 0; i < comparison->count; i++) {
        if (comparison->difference[i].matters != matters)
            continue;
        if (told == lines_max) {
            left++;
            continue;
        }
        add_difference(at, &comparison->difference[i]);
        told++;
    }
    if (left > 0) {
        char line[64];
        snprintf(line, sizeof line, "and %zu more (--json lists all)", left);
        add_line(at, line);
    }
}

static void add_side(page *at, const char *which, const gw_parting_side *side, gw_role role)
{
    gw_text line = {0};
    char bytes[GW_BYTES_TEXT_MAX];
    gw_text_addf(&line, "%-4s  ", which);
    if (side->ended) {
        gw_text_add_str(&line, "no further call");
    } else {
        gw_text_addf(&line, "%.2f s  %s", (double)side->t_ns / 1e9, side->call);
        if (side->bytes != 0)
            gw_text_addf(&line, " of %s", gw_bytes_text(bytes, side->bytes));
        if (side->result != 0)
            gw_text_addf(&line, " failed: %s", gw_result_name(side->result));
        if (side->place != NULL)
            gw_text_addf(&line, " at %s", side->place);
    }
    add_line_in(at, gw_text_str(&line), which, role);
    gw_text_free(&line);
}

static void add_parting(page *at, const gw_parting *parting)
{
    gw_text line = {0};
    at->label = "Diverges";
    if (!parting->known)
        gw_text_addf(&line, "unknown: %s", parting->reason);
    else if (!parting->parted)
        gw_text_addf(&line, "nowhere: the same %" PRIu64 " calls in the same order%s", parting->same,
                     parting->cut ? ", as far as gpuwhy compared them" : "");
    else
        gw_text_addf(&line, "after %" PRIu64 " identical calls", parting->same);
    if (parting->parted && !parting->is_main)
        gw_text_addf(&line, " of thread %u of process %u", parting->thread, parting->process);
    add_line(at, gw_text_str(&line));
    gw_text_free(&line);
    if (parting->parted) {
        add_side(at, "good", &parting->good, GW_ROLE_GOOD);
        add_side(at, "bad", &parting->bad, GW_ROLE_FAILED);
    }
}

static void add_same(page *at, const gw_comparison *comparison)
{
    gw_text line = {0};
    for (int i = 0; i < GW_AREA_COUNT; i++)
        if (comparison->same[i] > 0)
            gw_text_addf(&line, "%s%s (%zu)", line.bytes == 0 ? "" : ", ", gw_area_text((gw_area)i),
                         comparison->same[i]);
    at->label = "Same";
    add_line(at, line.bytes == 0 ? "nothing" : gw_text_str(&line));
    gw_text_free(&line);
}

static void add_ending(gw_text *line, const char *which, gw_portrait *portrait)
{
    const gw_trait *exit = gw_portrait_trait(portrait, GW_AREA_END, "exit");
    double seconds = (double)gw_portrait_model(portrait)->t_end_ns / 1e9;
    gw_text_addf(line, "%s %s after %.1f s", which, exit == NULL ? "(exit status unknown)" : exit->text, seconds);
}

void gw_render_comparison_text(const gw_comparison *comparison, gw_portrait *good, gw_portrait *bad, bool colour,
                               gw_text *text)
{
    page at = {.text = text, .label = "", .colour = colour};
    gw_text head = {0}, clean = {0};
    const gw_trait *command = gw_portrait_trait(bad, GW_AREA_COMMAND, "line");
    gw_text_addf(&head, "gpuwhy: %.120s: ", command == NULL ? "the program" : command->text);
    add_ending(&head, "good", good);
    add_ending(&head, ", bad", bad);
    gw_add_printable(&clean, gw_text_str(&head));
    gw_text_addf(text, "%s\n\n", gw_text_str(&clean));
    gw_text_free(&clean);
    gw_text_free(&head);
    at.label = "Differs";
    add_differences(&at, comparison, true, LINES_MAX);
    if (at.label[0] != '\0')
        add_line(&at, "nothing that matters");
    add_parting(&at, &comparison->parting);
    add_same(&at, comparison);
    at.label = "Also";
    add_differences(&at, comparison, false, LIGHT_MAX);
}
