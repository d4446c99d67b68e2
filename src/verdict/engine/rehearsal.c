/* The answer of a rehearsal: does the program fit the card, and what does it hold at its peak? */
#include "gwi_rehearsal.h"

#include <stdlib.h>
#include <string.h>

bool gwi_rehearsal_was_ended(const gw_model *model)
{
    return model->rehearsal.card_count > 0 && gw_model_fact(model, GW_FACT_REHEARSAL_ENDED) != NULL;
}

static const gw_rehearsed *highest(const gw_rehearsal *rehearsal)
{
    const gw_rehearsed *highest = &rehearsal->card[0];
    for (size_t i = 1; i < rehearsal->card_count; i++)
        if (rehearsal->card[i].peak_bytes > highest->peak_bytes)
            highest = &rehearsal->card[i];
    return highest;
}

static bool is_out_of_memory(const char *cause)
{
    return cause != NULL && strncmp(cause, "gpu-oom", 7) == 0;
}

/* True if the program failed for lack of GPU memory. The reason for that may be open, for example whether memory
 * leaked: then several causes are possible, but all of them are about memory. */
static bool lacked_memory(const gw_verdict *verdict)
{
    if (verdict->status == GW_VERDICT_FAULT)
        return is_out_of_memory(verdict->cause);
    for (size_t i = 0; i < verdict->alternative_count; i++)
        if (!is_out_of_memory(verdict->alternatives[i].cause))
            return false;
    return verdict->alternative_count > 0;
}

/* A program that failed for another reason than memory did not get far enough to tell. */
static gw_fits fits(const gw_verdict *verdict)
{
    if (verdict->status == GW_VERDICT_CLEAN)
        return GW_FITS;
    return lacked_memory(verdict) ? GW_FITS_NOT : GW_FITS_UNKNOWN;
}

static uint64_t count_refusals(const gw_model *model)
{
    uint64_t count = 0;
    for (size_t i = 0; i < model->failure_count; i++)
        count += model->failure[i].is_allocation ? model->failure[i].repeat_count : 0;
    return count;
}

static bool copy_refused(const gw_rehearsal *from, gw_verdict_rehearsal *to)
{
    for (size_t i = 0; i < from->refused_count; i++)
        if (!gwi_list_add(&to->refused, from->refused[i]))
            return false;
    return true;
}

bool gwi_fill_rehearsal(const gwi_case *c, gw_verdict *verdict)
{
    const gw_rehearsal *from = &c->model->rehearsal;
    char place[GWI_PLACE_TEXT_MAX];
    if (from->card_count == 0)
        return true;
    const gw_rehearsed *card = highest(from);
    gw_verdict_rehearsal *to = verdict->rehearsal = calloc(1, sizeof *to);
    if (to == NULL)
        return false;
    *to = (gw_verdict_rehearsal){.fits = fits(verdict),
                                 .device = card->device,
                                 .pid = card->pid,
                                 .card_count = from->card_count,
                                 .limit_bytes = card->limit_bytes,
                                 .real_bytes = card->real_bytes,
                                 .peak_bytes = card->peak_bytes,
                                 .asked_bytes = card->asked_bytes,
                                 .driver_bytes = card->driver_bytes,
                                 .t_peak_ns = card->t_peak_ns,
                                 .torch_live_bytes = from->torch_live_bytes,
                                 .torch_reserved_bytes = from->torch_reserved_bytes,
                                 .equal_iterations = from->equal_iterations,
                                 .launches_each = from->launches_each,
                                 .was_ended = gwi_rehearsal_was_ended(c->model),
                                 .timed = from->timed,
                                 .refusal_count = count_refusals(c->model)};
    if (card->peak_site != 0 && gwi_place(c, card->peak_site, place)[0] != '\0') {
        to->place = strdup(place);
        if (to->place == NULL)
            return false;
    }
    return copy_refused(from, to);
}
