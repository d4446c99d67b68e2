/* Parses faults of the GPU itself in a specification. Syntax:
 *
 *    xid:79   lost   ecc   thermal   power-cap   power-brake   link:1x4
 *    each with [#CARD], then [@2s | @500ms | @launch:N | @FUNCTION[:N]]
 *
 * Without #CARD, the first GPU fails. Without a time, the fault is present from the start. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gwi_spec.h"

#include "gw_text.h"

static const struct {
    const char *name;
    gw_virt_card_fault fault;
} faults[] = {
    {"xid:", GW_VIRT_CARD_XID},        {"lost", GW_VIRT_CARD_LOST},           {"ecc", GW_VIRT_CARD_ECC},
    {"thermal", GW_VIRT_CARD_THERMAL}, {"power-cap", GW_VIRT_CARD_POWER_CAP}, {"power-brake", GW_VIRT_CARD_POWER_BRAKE},
    {"link:", GW_VIRT_CARD_LINK}};
_Static_assert(sizeof faults / sizeof *faults == GW_VIRT_CARD_FAULT_COUNT, "one name a fault");

/* Return the index of the fault that `text` begins with, -1 if there is none. The name ends with a colon, or before a #
 * or @. */
static int find(const char *text)
{
    size_t bytes = strcspn(text, "#@:");
    bytes += text[bytes] == ':';
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (strlen(faults[i].name) == bytes && memcmp(faults[i].name, text, bytes) == 0)
            return (int)i;
    return -1;
}

bool gwi_is_card_fault(const char *text)
{
    return find(text) >= 0;
}

/* Parse a time such as "2s" or "500ms". */
static bool time_parse(const char *text, uint64_t *ret_ns)
{
    const long long max = 1000000; /* largest number, in the unit that follows it */
    char number[16];
    long long value = 0;
    size_t digits = strspn(text, "0123456789");
    uint64_t unit_ns = 0;
    if (strcmp(text + digits, "s") == 0)
        unit_ns = 1000000000u;
    else if (strcmp(text + digits, "ms") == 0)
        unit_ns = 1000000u;
    if (unit_ns == 0 || digits >= sizeof number)
        return false;
    memcpy(number, text, digits);
    number[digits] = '\0';
    if (!gwi_number_parse(number, 0, max, &value))
        return false;
    *ret_ns = (uint64_t)value * unit_ns;
    return true;
}

static bool when_parse(const char *text, gw_virt_fault *fault)
{
    long long count = 0;
    if (text[0] >= '0' && text[0] <= '9')
        return time_parse(text, &fault->after_ns);
    if (gw_begins(text, "launch:")) {
        fault->when = GW_VIRT_WHEN_LAUNCH;
        if (!gwi_number_parse(text + 7, 1, INT64_MAX, &count))
            return false;
        fault->count = (uint64_t)count;
        return true;
    }
    fault->when = GW_VIRT_WHEN_CALL;
    return gwi_name_count(text, fault);
}

/* Parse the values after the colon: the number of an Xid, or generation and lanes of a link. */
static bool values_parse(const char *text, gw_virt_fault *fault)
{
    long long first = 0;
    long long second = 0;
    if (fault->code == GW_VIRT_CARD_XID) {
        if (!gwi_number_parse(text, 1, 999, &first))
            return false;
    } else if (fault->code == GW_VIRT_CARD_LINK) {
        char generation[2] = {text[0], '\0'};
        if (text[0] == '\0' || text[1] != 'x' || !gwi_number_parse(generation, 1, 6, &first) ||
            !gwi_number_parse(text + 2, 1, 32, &second))
            return false;
    }
    fault->values[0] = (unsigned)first;
    fault->values[1] = (unsigned)second;
    return true;
}

bool gwi_card_fault_parse(const char *text, gw_virt_fault *fault)
{
    char word[160];
    long long card = 0;
    int row = find(text);
    if (row < 0 || snprintf(word, sizeof word, "%s", text) >= (int)sizeof word)
        return false;
    fault->kind = GW_VIRT_FAULT_CARD;
    fault->code = (int)faults[row].fault;
    char *at = strchr(word, '@');
    if (at != NULL) {
        *at = '\0';
        if (!when_parse(at + 1, fault))
            return false;
    }
    char *number = strchr(word, '#');
    if (number != NULL) {
        *number = '\0';
        if (!gwi_number_parse(number + 1, 0, GW_VIRT_DEVICES_MAX - 1, &card))
            return false;
        fault->card = (unsigned)card;
    }
    return values_parse(word + strlen(faults[row].name), fault);
}
