/* A card with a given amount of memory, which the driver hands out in pages of 2 MiB. */
#include "gwi_allocator.h"

static uint64_t whole_pages(uint64_t bytes)
{
    const uint64_t page = 2 * GWI_MIB;
    return (bytes + page - 1) / page * page;
}

static gwi_answer grant(gwi_card *card, uint64_t bytes)
{
    if (whole_pages(bytes) > card->room_bytes - card->used_bytes)
        return GWI_REFUSED;
    card->used_bytes += whole_pages(bytes);
    return GWI_GRANTED;
}

static gwi_answer take(void *user, uint64_t bytes, uint64_t *ret_address)
{
    gwi_card *card = user;
    if (grant(card, bytes) == GWI_REFUSED)
        return GWI_REFUSED;
    card->next_address -= card->is_falling ? bytes : 0;
    *ret_address = card->next_address;
    card->next_address += card->is_falling ? 0 : bytes;
    return GWI_GRANTED;
}

static bool give(void *user, uint64_t address, uint64_t bytes)
{
    gwi_card *card = user;
    (void)address;
    card->used_bytes -= whole_pages(bytes);
    return true;
}

static gwi_answer reserve(void *user, uint64_t bytes, uint64_t *ret_address)
{
    gwi_card *card = user;
    *ret_address = card->next_space;
    card->next_space += bytes;
    return GWI_GRANTED;
}

static gwi_answer create(void *user, uint64_t page_bytes, uint64_t count)
{
    return grant(user, whole_pages(page_bytes) * count);
}

static bool unmap(void *user, uint64_t address, uint64_t page_bytes, uint64_t count)
{
    return give(user, address, whole_pages(page_bytes) * count);
}

gwi_device gwi_card_device(gwi_card *card, uint64_t room_bytes, bool is_falling)
{
    *card = (gwi_card){.room_bytes = room_bytes,
                       .next_address = (uint64_t)1 << 62,
                       .is_falling = is_falling,
                       .next_space = (uint64_t)3 << 62};
    return (gwi_device){card, take, give, reserve, create, unmap};
}
