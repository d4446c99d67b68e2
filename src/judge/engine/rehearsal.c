/* The answer of a rehearsal: does the program fit the card, and what does it hold at its peak? */
#include "gwi_rehearsal.h"

#include <stdio.h>
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

/* Parts of the names of PyTorch's functions that read a size from the card. */
static const char *const size_functions[] = {"nonzero",  "masked_select",     "unique",
                                             "bincount", "repeat_interleave", "histc"};

/* Return the function that reads a size on this stack; NULL if there is none. Only PyTorch's own functions count:
 * std::unique_ptr is no such function. */
static const char *size_function(const gw_stack *stack)
{
    static const char native[] = "at::native::";
    for (size_t i = 0; stack != NULL && i < stack->count; i++) {
        const gw_frame *frame = &stack->frame[i];
        const char *name = frame->python || frame->function == NULL ? NULL : strstr(frame->function, native);
        size_t bytes = name == NULL ? 0 : strcspn(name + strlen(native), "<(");
        for (size_t k = 0; bytes > 0 && k < sizeof size_functions / sizeof size_functions[0]; k++)
            if (memmem(name + strlen(native), bytes, size_functions[k], strlen(size_functions[k])) != NULL)
                return size_functions[k];
    }
    return NULL;
}

static bool has_text(const gw_string_list *list, const char *text)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->item[i], text) == 0)
            return true;
    return false;
}

static bool add_read(const gwi_case *c, uint32_t site, gw_verdict_rehearsal *to)
{
    char at[GWI_PLACE_TEXT_MAX], text[GWI_PLACE_TEXT_MAX + 32];
    const char *function = size_function(gw_sites_stack(c->model->sites, site));
    if (gwi_at(c, site, at)[0] == '\0')
        return true;
    const char *place = at + strlen(" at ");
    if (function == NULL)
        snprintf(text, sizeof text, "%s", place);
    else
        snprintf(text, sizeof text, "%s (%s)", place, function);
    gw_string_list *list = function == NULL ? &to->values : &to->sizes;
    return has_text(list, text) || gwi_list_add(list, text);
}

static bool add_reads(const gwi_case *c, gw_verdict_rehearsal *to)
{
    const gw_rehearsal *from = &c->model->rehearsal;
    for (size_t i = 0; i < from->read_count; i++)
        if (!add_read(c, from->read_site[i], to))
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
    return copy_refused(from, to) && add_reads(c, to);
}
