/* Finds the known problems of libraries that may explain the end of a program. */
#include "gwi_known.h"

#include "gw_text.h"
#include "gwi_log.h"

#include <stdlib.h>
#include <string.h>

enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 };

/* ---- the software ---- */

static void add_from_text(const gwi_log_case *text, gw_software *software)
{
    for (size_t i = 0; i < text->log->find_count; i++) {
        const gw_log_find *find = &text->log->find[i];
        if (find->sign == GW_SAYS_VERSION && gw_log_text(find, "package") != NULL)
            gw_software_add_text(software, gw_log_text(find, "package"), gw_log_text(find, "version"));
    }
    gw_software_add_text(software, "driver", text->context.driver);
    gw_software_add_card(software, text->context.card);
}

static void add_card(const gw_model *model, const gw_process *process, gw_software *software)
{
    unsigned cards = 0;
    for (int i = 0; i < GW_MODEL_DEVICES_MAX; i++) {
        const gw_device *device = &model->device[i];
        if (!process->usage[i].used)
            continue;
        cards++;
        if (device->has_attribute[CAPABILITY_MAJOR] && device->has_attribute[CAPABILITY_MINOR])
            gw_software_add(software, "capability",
                            gw_version_of((unsigned)device->attribute[CAPABILITY_MAJOR],
                                          (unsigned)device->attribute[CAPABILITY_MINOR], 0));
        gw_software_add_card(software, device->name);
    }
    if (cards > 0)
        gw_software_add(software, "cards", gw_version_of(cards, 0, 0));
}

void gwi_software_of(const gwi_case *c, gw_software *ret_software)
{
    *ret_software = (gw_software){0};
    for (size_t i = 0; c->process != NULL && i < c->process->libraries.count; i++) {
        const gw_library *library = &c->process->libraries.item[i];
        if (!library->is_major_only && library->part[0] == '\0')
            gw_software_add(ret_software, gw_library_kind_text(library->kind), library->version);
    }
    if (c->process != NULL)
        add_card(c->model, c->process, ret_software);
    if (c->text != NULL)
        add_from_text(c->text, ret_software);
}

/* ---- what betrays a problem ---- */

static bool is_printed(const void *context, const char *word, size_t bytes)
{
    const gw_log *log = context;
    for (size_t i = 0; i < log->find_count; i++) {
        if (memmem(log->find[i].text, strlen(log->find[i].text), word, bytes) != NULL)
            return true;
    }
    return false;
}

static bool is_seen(const gwi_case *c, const gw_regression *row)
{
    return c->text != NULL && gw_regression_is_seen(row, is_printed, c->text->log);
}

/* True if the problem's effect can be the failure that the verdict is about. Words that are seen (`seen`) are part of a
 * message for most effects, but only an operation's name for memory. */
static bool fits(const gw_verdict *verdict, gw_harm effect, bool seen)
{
    bool is_clean = verdict->status == GW_VERDICT_CLEAN;
    switch (effect) {
    case GW_HARM_MEMORY:
        return verdict->cause != NULL &&
               (gw_begins(verdict->cause, "gpu-oom") || gw_begins(verdict->cause, "host-oom") ||
                gw_begins(verdict->cause, "gpu-hidden"));
    case GW_HARM_HANG:
        return !is_clean && (seen || verdict->is_hang);
    case GW_HARM_WRONG:
        return verdict->cause != NULL && gw_begins(verdict->cause, "numeric-divergence");
    case GW_HARM_SLOW:
        return seen && is_clean;
    default:
        return !is_clean;
    }
}

/* ---- the verdict ---- */

/* Remove from the advice what this row contradicts. */
static void withdraw(const gw_regression *row, gw_string_list *next)
{
    size_t kept = 0;
    for (size_t i = 0; i < next->count; i++) {
        bool is_against = false;
        for (const char *at = row->withdraws; at != NULL && *at != '\0'; at += *at == '|') {
            size_t bytes = strcspn(at, "|");
            is_against = is_against || memmem(next->item[i], strlen(next->item[i]), at, bytes) != NULL;
            at += bytes;
        }
        if (is_against)
            free(next->item[i]);
        else
            next->item[kept++] = next->item[i];
    }
    next->count = kept;
}

static bool add_cure(const gw_regression *row, bool is_first, gw_string_list *next)
{
    if (!gwi_list_add(next, row->cure))
        return false;
    for (size_t i = next->count - 1; is_first && i > 0; i--) {
        char *before = next->item[i - 1];
        next->item[i - 1] = next->item[i];
        next->item[i] = before;
    }
    return true;
}

static bool add_known(const gw_regression *row, const gw_software *software, gw_certainty certainty,
                      gw_verdict *verdict)
{
    gw_text text = {0};
    gw_verdict_known *more = realloc(verdict->known, (verdict->known_count + 1) * sizeof *more);
    if (more == NULL)
        return false;
    verdict->known = more;
    gw_regression_say(row, software, &text);
    bool good = !text.failed && gw_str_copy(gw_text_str(&text), &more[verdict->known_count].text);
    gw_text_free(&text);
    if (!good)
        return false;
    more[verdict->known_count].cure = row->cure;
    more[verdict->known_count].source = row->source;
    more[verdict->known_count++].certainty = certainty;
    if (certainty == GW_SUPPORTED)
        withdraw(row, &verdict->next);
    return add_cure(row, certainty == GW_SUPPORTED, &verdict->next);
}

/* Return how certain it is that the program met the problem of a row. NONE: nothing shows it. */
static gw_certainty judge_row(const gwi_case *c, const gw_regression *row, const gw_software *software,
                              const gw_verdict *verdict)
{
    gw_applies applies = gw_regression_applies(row, software);
    bool seen = applies != GW_APPLIES_NOT && is_seen(c, row);
    if (applies == GW_APPLIES_NOT || (row->seen != NULL && !seen) || (row->seen == NULL && applies != GW_APPLIES) ||
        !fits(verdict, row->effect, seen))
        return GW_CERTAINTY_NONE;
    return seen && applies == GW_APPLIES && row->verified == GW_VERIFIED_YES ? GW_SUPPORTED : GW_HYPOTHESIS;
}

bool gwi_fill_known(const gwi_case *c, gw_verdict *verdict)
{
    enum { KNOWN_MAX = 4 };
    gw_software software;
    gwi_software_of(c, &software);
    for (gw_certainty certainty = GW_SUPPORTED; certainty >= GW_HYPOTHESIS; certainty--) {
        for (size_t i = 0; i < gw_data_regressions_count && verdict->known_count < KNOWN_MAX; i++) {
            const gw_regression *row = &gw_data_regressions[i];
            if (judge_row(c, row, &software, verdict) == certainty && !add_known(row, &software, certainty, verdict))
                return false;
        }
    }
    return true;
}
