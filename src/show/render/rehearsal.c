/* The answer of a rehearsal as text. */
#include "gw_render.h"

#include "gw_say.h"
#include "gw_text.h"

#include <inttypes.h>
#include <string.h>

enum { LABEL_COLUMNS = 9, INDENT = 11, WIDTH = 80 };

/* Where the paragraphs go. */
typedef struct answer {
    gw_text *text;
    unsigned width;
    bool colour;
} answer;

/* Add a body beside its label, with the first word in the colour of `role`. Names of files and cards come from
 * elsewhere, so replace control characters. */
static void add_body(const answer *to, const char *label, const gw_text *body, gw_role role)
{
    gw_text clean = {0};
    size_t from = to->text->bytes;
    gw_add_printable(&clean, gw_text_str(body));
    gw_text_addf(to->text, "%-*s", LABEL_COLUMNS, label);
    if (to->colour)
        gw_paint_begin(to->text, from, label, strlen(label), GW_ROLE_STRONG);
    from = to->text->bytes;
    gw_add_wrapped(to->text, gw_text_str(&clean), LABEL_COLUMNS, INDENT, to->width);
    if (to->colour)
        gw_paint_begin(to->text, from, gw_text_str(&clean), strcspn(gw_text_str(&clean), ":"), role);
    gw_text_free(&clean);
}

static void paragraph(const answer *to, const char *label, const gw_text *body)
{
    add_body(to, label, body, GW_ROLE_PLAIN);
}

static void add_head(const answer *to, const gw_verdict *verdict)
{
    gw_text line = {0}, clean = {0};
    char bytes[GW_BYTES_TEXT_MAX];
    gw_text_add_str(&line, "gpuwhy: rehearsed");
    for (size_t i = 0; i < verdict->argv.count; i++)
        gw_text_addf(&line, " %s", verdict->argv.item[i]);
    gw_text_addf(&line, " in %.1f s for a card of %s", verdict->seconds,
                 gw_bytes_text(bytes, verdict->rehearsal->limit_bytes));
    if (verdict->gpu_count > 0)
        gw_text_addf(&line, " on %s", verdict->gpus[0].name);
    gw_text_add_str(&line, "; nothing was computed");
    gw_add_printable(&clean, gw_text_str(&line));
    gw_add_wrapped(to->text, gw_text_str(&clean), 0, 8, to->width);
    gw_text_add(to->text, "\n", 1);
    gw_text_free(&clean);
    gw_text_free(&line);
}

static void add_fits(const answer *to, const gw_verdict *verdict)
{
    const gw_verdict_rehearsal *it = verdict->rehearsal;
    char peak[GW_BYTES_TEXT_MAX], limit[GW_BYTES_TEXT_MAX], left[GW_BYTES_TEXT_MAX];
    gw_text body = {0};
    uint64_t spare = it->limit_bytes > it->peak_bytes ? it->limit_bytes - it->peak_bytes : 0;
    gw_bytes_text(peak, it->peak_bytes);
    gw_bytes_text(limit, it->limit_bytes);
    gw_bytes_text(left, spare);
    if (it->fits == GW_FITS)
        gw_text_addf(&body, "yes: the process holds at most %s of %s; %s remain", peak, limit, left);
    if (it->fits == GW_FITS && it->refusal_count > 0)
        gw_text_addf(&body,
                     ". But %" PRIu64 " request%s refused, and the program went on: it may have used less memory than "
                     "it wanted",
                     it->refusal_count, it->refusal_count == 1 ? " was" : "s were");
    if (it->fits == GW_FITS_NOT)
        gw_text_addf(&body, "no: a request was refused when the process held %s of %s", peak, limit);
    if (it->fits == GW_FITS_UNKNOWN)
        gw_text_addf(&body, "unknown: the program failed for another reason, at %s of %s", peak, limit);
    static const gw_role roles[] = {
        [GW_FITS] = GW_ROLE_GOOD, [GW_FITS_NOT] = GW_ROLE_FAILED, [GW_FITS_UNKNOWN] = GW_ROLE_WARNING};
    add_body(to, "Fits", &body, roles[it->fits]);
    gw_text_free(&body);
}

static void add_peak(const answer *to, const gw_verdict *verdict)
{
    const gw_verdict_rehearsal *it = verdict->rehearsal;
    char asked[GW_BYTES_TEXT_MAX], driver[GW_BYTES_TEXT_MAX];
    gw_text body = {0};
    gw_text_addf(&body, "%.2f s  %s allocated by the program", (double)it->t_peak_ns / 1e9,
                 gw_bytes_text(asked, it->asked_bytes));
    gw_text_addf(&body, " and %s for context, code and streams", gw_bytes_text(driver, it->driver_bytes));
    if (it->place != NULL)
        gw_text_addf(&body, ", at %s", it->place);
    if (it->card_count > 1)
        gw_text_addf(&body, " (pid %" PRIu32 " on GPU %d, the highest of %zu)", it->pid, it->device, it->card_count);
    paragraph(to, "Peak", &body);
    gw_text_free(&body);
    if (it->torch_reserved_bytes == 0)
        return;
    body = (gw_text){0};
    gw_text_addf(&body, "%s live in PyTorch's allocator at its peak, of %s reserved",
                 gw_bytes_text(asked, it->torch_live_bytes), gw_bytes_text(driver, it->torch_reserved_bytes));
    paragraph(to, "PyTorch", &body);
    gw_text_free(&body);
}

static void add_steady(const answer *to, const gw_verdict_rehearsal *it)
{
    gw_text body = {0};
    if (it->equal_iterations != 0)
        gw_text_addf(&body, "%" PRIu64 " equal iterations of %" PRIu64 " launches", it->equal_iterations,
                     it->launches_each);
    if (it->was_ended)
        gw_text_addf(&body, "%sthe program was then ended: what it does later was not rehearsed",
                     it->equal_iterations != 0 ? "; " : "");
    if (body.bytes > 0)
        paragraph(to, "Steady", &body);
    gw_text_free(&body);
}

/* Append the first places of a list: "A, B, C, and 2 more". */
static void add_places(gw_text *body, const char *before, const gw_string_list *places)
{
    enum { SHOWN_MAX = 3 };
    for (size_t i = 0; i < places->count && i < SHOWN_MAX; i++)
        gw_text_addf(body, "%s%s", i == 0 ? before : ", ", places->item[i]);
    if (places->count > SHOWN_MAX)
        gw_text_addf(body, ", and %zu more", places->count - SHOWN_MAX);
}

static void add_open(const answer *to, const gw_verdict_rehearsal *it)
{
    gw_text body = {0};
    if (it->sizes.count > 0) {
        add_places(&body, "sizes read from the card were zeros, at ", &it->sizes);
        add_places(&body, "; so were values read at ", &it->values);
    } else {
        gw_text_add_str(&body, "values read from the card were zeros");
        add_places(&body, ", at ", &it->values);
        gw_text_add_str(&body, ": sizes that depend on data were taken as for zeros");
    }
    if (it->values.count > 0 && it->fits == GW_FITS_UNKNOWN)
        gw_text_add_str(&body, "; the program may have stopped because of one");
    paragraph(to, "Open", &body);
    gw_text_free(&body);
    body = (gw_text){0};
    if (it->timed) {
        gw_text_add_str(&body, "the program measured times on the card, which were made up: what it chooses by time "
                               "(cudnn.benchmark, autotuning) may need another amount of memory");
        paragraph(to, "", &body);
    }
    gw_text_free(&body);
    for (size_t i = 0; i < it->refused.count; i++) {
        body = (gw_text){0};
        gw_text_addf(&body, "%s was refused, because a rehearsal does not support it", it->refused.item[i]);
        paragraph(to, "", &body);
        gw_text_free(&body);
    }
}

void gw_render_rehearsal(const gw_verdict *verdict, const gw_render_style *style, gw_text *text)
{
    answer to = {.text = text, .width = style->width == 0 ? WIDTH : style->width, .colour = style->colour};
    add_head(&to, verdict);
    add_fits(&to, verdict);
    add_peak(&to, verdict);
    add_steady(&to, verdict->rehearsal);
    add_open(&to, verdict->rehearsal);
}
