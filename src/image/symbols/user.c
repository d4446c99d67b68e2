/* Find the frame of a stack that belongs to the user. */
#include "gwi_sites.h"

/* Return the index of the innermost frame of the most specific owner, or `count` if all frames belong to the runtime. A
 * helper function is skipped if its owner has another frame further out. */
static size_t find_user(const gw_sites *sites, const gw_frame *frame, size_t count)
{
    size_t best = count;
    for (size_t i = 0; i < count; i++) {
        if (frame[i].whose < GW_WHOSE_RUNTIME && (best == count || frame[i].whose < frame[best].whose))
            best = i;
    }
    for (size_t i = best; i < count; i++) {
        if (frame[i].whose == frame[best].whose && !gwi_is_means(sites, &frame[i]))
            return i;
    }
    return best;
}

const gw_stack *gw_sites_stack(gw_sites *sites, uint32_t number)
{
    gw_stack *stack = gwi_stack_of(sites, number);
    if (stack == NULL || stack->user != SIZE_MAX)
        return stack;
    if (!sites->means_found)
        gwi_find_means(sites);
    stack->user = find_user(sites, stack->frame, stack->count);
    return stack;
}

const gw_frame *gw_stack_caller(const gw_stack *stack)
{
    for (size_t i = stack->user + 1; i < stack->count; i++)
        if (stack->frame[i].whose <= stack->frame[stack->user].whose)
            return &stack->frame[i];
    return NULL;
}
