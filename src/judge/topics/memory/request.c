/* Judges whether the size of the refused request is possible at all, and names its GPU. */
#include "gwi_request.h"

#include <inttypes.h>
#include <stdio.h>

enum { ADDRESS_BITS = 47, TIMES_THE_CARD = 64 };
static const uint64_t tib = (uint64_t)1 << 40;

const char *const gwi_impossible_fixes[] = {
    "Check how this size is computed: a negative difference, a product that overflows 32 or 64 bits, or an "
    "uninitialised number",
    "Compute sizes in 64 bits (size_t, int64) from the first factor on, and check them before the request", NULL};

/* True if the size can only be a mistake. Below 1 TiB, a correct program may request it on any card, for example for a
 * matrix of all pairs. */
bool gwi_is_impossible_size(uint64_t bytes, uint64_t device_bytes)
{
    if (bytes >> ADDRESS_BITS != 0)
        return true;
    return device_bytes != 0 && bytes >= tib && bytes / TIMES_THE_CARD > device_bytes;
}

bool gwi_request_is_impossible(const gwi_case *c)
{
    const gwi_memory *memory = &c->memory;
    return memory->known && gwi_is_impossible_size(memory->wanted_bytes, memory->has_total ? memory->total_bytes : 0);
}

/* Does not set the verdict's place, because gwi_say_request() does so. */
void gwi_say_impossible_request(const gwi_case *c, gwi_finding *finding)
{
    const gwi_memory *memory = &c->memory;
    char call[GWI_CALL_TEXT_MAX];
    bool is_negative = memory->wanted_bytes >> 63 != 0;
    gwi_call_text(call, memory->call);
    if (is_negative)
        gwi_headline(finding, "%s requested %" PRIu64 " bytes: the size was negative (%" PRId64 ") or overflowed", call,
                     memory->wanted_bytes, (int64_t)memory->wanted_bytes);
    else
        gwi_headline(finding,
                     "%s requested %" PRIu64
                     " bytes, more than any card has: the size overflowed or was computed wrongly",
                     call, memory->wanted_bytes);
    for (size_t i = 0; gwi_impossible_fixes[i] != NULL; i++)
        gwi_next(finding, "%s", gwi_impossible_fixes[i]);
}

char *gwi_on_gpu(const gwi_case *c, int device, char out[GWI_GPU_TEXT_MAX])
{
    int count = 0;
    out[0] = '\0';
    for (int i = 0; i < GW_MODEL_DEVICES_MAX; i++)
        count += c->model->device[i].known;
    if (count > 1 && device >= 0 && device < GW_MODEL_DEVICES_MAX)
        snprintf(out, GWI_GPU_TEXT_MAX, " on GPU %d of %d", device, count);
    return out;
}
