/* Reads the known GPU models and parses the specification of a virtual GPU: see gw_virt_spec.h. */
#include "gw_virt_spec.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpuwhy/kernel_model.h"
#include "gw_embedded.h"
#include "gw_text.h"

/* Parses the words of a specification: numbers, and names with a count. */

/* Parse all of the text as a number from min to max. */
static bool number_parse(const char *text, long long min, long long max, long long *ret)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < min || value > max)
        return false;
    *ret = value;
    return true;
}

/* Parse "NAME" or "NAME:N" into name and count. A missing count is 1. */
static bool name_count(const char *text, gw_virt_fault *fault)
{
    size_t bytes = strcspn(text, ":");
    long long count = 1;
    if (bytes == 0 || bytes >= sizeof fault->name)
        return false;
    if (text[bytes] == ':' && !number_parse(text + bytes + 1, 1, INT64_MAX, &count))
        return false;
    memcpy(fault->name, text, bytes);
    fault->name[bytes] = '\0';
    fault->count = (uint64_t)count;
    return true;
}

/* Parses faults of the GPU itself in a specification. Syntax:
 *
 *    xid:79   lost   ecc   thermal   power-cap   power-brake   link:1x4
 *    each with [#CARD], then [@2s | @500ms | @launch:N | @FUNCTION[:N]]
 *
 * Without #CARD, the first GPU fails. Without a time, the fault is present from the start. */

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

/* True if the text begins with the name of a GPU fault. The whole text must then follow the grammar in card_fault.c. */
static bool is_card_fault(const char *text)
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
    if (!number_parse(number, 0, max, &value))
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
        if (!number_parse(text + 7, 1, INT64_MAX, &count))
            return false;
        fault->count = (uint64_t)count;
        return true;
    }
    fault->when = GW_VIRT_WHEN_CALL;
    return name_count(text, fault);
}

/* Parse the values after the colon: the number of an Xid, or generation and lanes of a link. */
static bool values_parse(const char *text, gw_virt_fault *fault)
{
    long long first = 0;
    long long second = 0;
    if (fault->code == GW_VIRT_CARD_XID) {
        if (!number_parse(text, 1, 999, &first))
            return false;
    } else if (fault->code == GW_VIRT_CARD_LINK) {
        char generation[2] = {text[0], '\0'};
        if (text[0] == '\0' || text[1] != 'x' || !number_parse(generation, 1, 6, &first) ||
            !number_parse(text + 2, 1, 32, &second))
            return false;
    }
    fault->values[0] = (unsigned)first;
    fault->values[1] = (unsigned)second;
    return true;
}

static bool card_fault_parse(const char *text, gw_virt_fault *fault)
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
        if (!number_parse(number + 1, 0, GW_VIRT_DEVICES_MAX - 1, &card))
            return false;
        fault->card = (unsigned)card;
    }
    return values_parse(word + strlen(faults[row].name), fault);
}

static const gw_embedded *card_find(const char *name, size_t name_bytes)
{
    for (const gw_embedded *card = gwi_cards; card->name != NULL; card++)
        if (strlen(card->name) == name_bytes && memcmp(card->name, name, name_bytes) == 0)
            return card;
    return NULL;
}

const char *gw_virt_card_name(size_t index)
{
    size_t count = 0;
    while (count < index && gwi_cards[count].name != NULL)
        count++;
    return gwi_cards[count].name;
}

static gw_status card_line(gw_virt_card *card, const char *key, const char *value, gw_error *err)
{
    static const struct {
        const char *key;
        size_t offset;
    } sizes[] = {{"memory_bytes", offsetof(gw_virt_card, memory_bytes)},
                 {"context_bytes", offsetof(gw_virt_card, context_bytes)},
                 {"context_next_bytes", offsetof(gw_virt_card, context_next_bytes)},
                 {"stream_bytes", offsetof(gw_virt_card, stream_bytes)},
                 {"reserved_bytes", offsetof(gw_virt_card, board.reserved_bytes)},
                 {"bar1_bytes", offsetof(gw_virt_card, board.bar1_bytes)},
                 {"power_idle_mw", offsetof(gw_virt_card, board.power_idle_mw)},
                 {"power_busy_mw", offsetof(gw_virt_card, board.power_busy_mw)},
                 {"power_limit_mw", offsetof(gw_virt_card, board.power_limit_mw)},
                 {"power_min_mw", offsetof(gw_virt_card, board.power_min_mw)},
                 {"temperature_idle", offsetof(gw_virt_card, board.temperature_idle)},
                 {"temperature_busy", offsetof(gw_virt_card, board.temperature_busy)},
                 {"temperature_slowdown", offsetof(gw_virt_card, board.temperature_slowdown)},
                 {"temperature_shutdown", offsetof(gw_virt_card, board.temperature_shutdown)},
                 {"temperature_gpu_max", offsetof(gw_virt_card, board.temperature_gpu_max)},
                 {"temperature_memory_max", offsetof(gw_virt_card, board.temperature_memory_max)},
                 {"clock_idle_mhz", offsetof(gw_virt_card, board.clock_idle_mhz)},
                 {"link_generation", offsetof(gw_virt_card, board.link_generation)},
                 {"link_lanes", offsetof(gw_virt_card, board.link_lanes)},
                 {"nvlink_count", offsetof(gw_virt_card, board.nvlink_count)},
                 {"pci_id", offsetof(gw_virt_card, board.pci_id)},
                 {"pci_subsystem_id", offsetof(gw_virt_card, board.pci_subsystem_id)},
                 {"cores_per_sm", offsetof(gw_virt_card, board.cores_per_sm)},
                 {"fan_count", offsetof(gw_virt_card, board.fan_count)},
                 {"has_ecc", offsetof(gw_virt_card, board.has_ecc)},
                 {"has_row_remap", offsetof(gw_virt_card, board.has_row_remap)}};
    long long number = 0;
    if (strcmp(key, "name") == 0) {
        snprintf(card->name, sizeof card->name, "%s", value);
        return GW_OK;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (strcmp(key, sizes[i].key) == 0 && number_parse(value, 0, INT64_MAX, &number)) {
            *(uint64_t *)((char *)card + sizes[i].offset) = (uint64_t)number;
            return GW_OK;
        }
    long long attribute = 0;
    if (gw_begins(key, "attr.") && number_parse(key + 5, 0, GW_VIRT_ATTRIBUTES_MAX - 1, &attribute) &&
        number_parse(value, INT32_MIN, INT32_MAX, &number)) {
        card->attributes[attribute] = (int)number;
        card->attributes_known[attribute] = true;
        return GW_OK;
    }
    return gw_fail(err, GW_CORRUPT, "bad line \"%s=%s\"", key, value);
}

/* Read the values of a GPU model. `depth` counts nested "like" lines, so that a cycle of such lines is an error. */
static gw_status card_read(const gw_embedded *source, gw_virt_card *card, int depth, gw_error *err)
{
    const char *line = source->text;
    while (*line != '\0') {
        char buffer[256];
        size_t bytes = strcspn(line, "\n");
        snprintf(buffer, sizeof buffer, "%.*s", (int)bytes, line);
        line += bytes + (line[bytes] == '\n');
        char *equals = strchr(buffer, '=');
        if (buffer[0] == '#' || buffer[0] == '\0')
            continue;
        if (equals == NULL)
            return gw_fail(err, GW_CORRUPT, "card %s: line without \"=\": %s", source->name, buffer);
        *equals = '\0';
        gw_status st;
        if (strcmp(buffer, "like") == 0) {
            const gw_embedded *other = card_find(equals + 1, strlen(equals + 1));
            if (other == NULL || depth > 4)
                return gw_fail(err, GW_CORRUPT, "card %s: like=%s names an unknown card", source->name, equals + 1);
            st = card_read(other, card, depth + 1, err);
        } else {
            st = card_line(card, buffer, equals + 1, err);
        }
        if (st != GW_OK) {
            gw_wrap(err, "card %s", source->name);
            return st;
        }
    }
    return GW_OK;
}

static const char *const kernel_faults[] = {
    [GW_KERNEL_FAULT_NONE] = "none",
    [GW_KERNEL_FAULT_ILLEGAL_ADDRESS] = "illegal-address",
    [GW_KERNEL_FAULT_MISALIGNED] = "misaligned",
    [GW_KERNEL_FAULT_ASSERT] = "assert",
    [GW_KERNEL_FAULT_TRAP] = "trap",
    [GW_KERNEL_FAULT_STACK_OVERFLOW] = "stack-overflow",
    [GW_KERNEL_FAULT_ILLEGAL_INSTRUCTION] = "illegal-instruction",
    [GW_KERNEL_FAULT_ADDRESS_SPACE] = "address-space",
    [GW_KERNEL_FAULT_INVALID_PC] = "invalid-pc",
};
_Static_assert(sizeof kernel_faults / sizeof *kernel_faults == GW_KERNEL_FAULT_COUNT, "one name a fault");

static int kernel_fault_find(const char *name, size_t bytes)
{
    for (int i = 1; i < GW_KERNEL_FAULT_COUNT; i++)
        if (strlen(kernel_faults[i]) == bytes && memcmp(kernel_faults[i], name, bytes) == 0)
            return i;
    return 0;
}

static bool fault_parse(const char *text, gw_virt_fault *fault)
{
    long long number = 0;
    memset(fault, 0, sizeof *fault);
    if (gw_begins(text, "oom-at:")) {
        fault->kind = GW_VIRT_FAULT_OOM_AT;
        fault->code = 2;
        if (!number_parse(text + 7, 1, INT64_MAX, &number))
            return false;
        fault->count = (uint64_t)number;
        return true;
    }
    if (gw_begins(text, "init:")) {
        fault->kind = GW_VIRT_FAULT_INIT;
        if (!number_parse(text + 5, 1, 9999, &number))
            return false;
        fault->code = (int)number;
        return true;
    }
    if (is_card_fault(text))
        return card_fault_parse(text, fault);
    const char *at = strchr(text, '@');
    if (at == NULL)
        return false;
    fault->code = kernel_fault_find(text, (size_t)(at - text));
    if (fault->code != 0 && gw_begins(at, "@kernel:") && at[8] != '\0') {
        fault->kind = GW_VIRT_FAULT_KERNEL;
        return snprintf(fault->name, sizeof fault->name, "%s", at + 8) < (int)sizeof fault->name;
    }
    if (fault->code != 0 && gw_begins(at, "@launch:") && number_parse(at + 8, 1, INT64_MAX, &number)) {
        fault->kind = GW_VIRT_FAULT_LAUNCH;
        fault->count = (uint64_t)number;
        return true;
    }
    char code[8];
    if ((size_t)(at - text) >= sizeof code)
        return false;
    memcpy(code, text, (size_t)(at - text));
    code[at - text] = '\0';
    if (!number_parse(code, 1, 9999, &number))
        return false;
    fault->kind = GW_VIRT_FAULT_CALL;
    fault->code = (int)number;
    return name_count(at + 1, fault);
}

static gw_status fault_option(const char *value, gw_virt_spec *spec, gw_error *err)
{
    if (spec->fault_count == GW_VIRT_FAULTS_MAX)
        return gw_fail(err, GW_USAGE, "more than %d faults", GW_VIRT_FAULTS_MAX);
    if (!fault_parse(value, &spec->faults[spec->fault_count]))
        return gw_fail(err, GW_USAGE,
                       "fault=%s: not one of oom-at:N, init:CODE, CODE@FUNCTION[:N], KIND@kernel:NAME, KIND@launch:N, "
                       "or a card fault: xid:N, lost, ecc, thermal, power-cap, power-brake, link:GENxLANES, each with "
                       "[#CARD][@TIME|@launch:N|@FUNCTION[:N]]",
                       value);
    spec->fault_count++;
    return GW_OK;
}

static gw_status option(const char *key, const char *value, gw_virt_spec *spec, gw_error *err)
{
    if (strcmp(key, "memory") == 0) {
        uint64_t bytes = 0;
        if (!gw_bytes_parse(value, &bytes) || bytes < ((uint64_t)1 << 30) || bytes > ((uint64_t)1 << 40))
            return gw_fail(err, GW_USAGE, "memory=%s: not a size from 1GiB to 1TiB", value);
        spec->card.memory_bytes = bytes;
        spec->card.board.reserved_bytes = 0; /* NVML and nvidia-smi report this size, too */
        return GW_OK;
    }
    if (strcmp(key, "hostmem") == 0) {
        if (!gw_bytes_parse(value, &spec->host_bytes_max))
            return gw_fail(err, GW_USAGE, "hostmem=%s: not a size", value);
        return GW_OK;
    }
    if (strcmp(key, "host") == 0) {
        if (!gw_bytes_parse(value, &spec->host_bytes) || spec->host_bytes < 1 << 20)
            return gw_fail(err, GW_USAGE, "host=%s: not a size from 1MiB", value);
        return GW_OK;
    }
    if (strcmp(key, "driver") == 0) {
        long long version = 0;
        if (!number_parse(value, 11040, GW_VIRT_DRIVER_VERSION, &version))
            return gw_fail(err, GW_USAGE, "driver=%s: not a version from 11040 to %d", value, GW_VIRT_DRIVER_VERSION);
        spec->driver_version = (int)version;
        return GW_OK;
    }
    if (strcmp(key, "fault") == 0)
        return fault_option(value, spec, err);
    return gw_fail(err, GW_USAGE, "unknown option \"%s\" (memory, driver, hostmem, host, fault)", key);
}

static gw_status card_word(const char *word, size_t bytes, gw_virt_spec *spec, gw_error *err)
{
    size_t digits = strspn(word, "0123456789");
    spec->device_count = 1;
    if (digits > 0 && digits < bytes && word[digits] == 'x') {
        long count = digits < 4 ? strtol(word, NULL, 10) : 0;
        if (count < 1 || count > GW_VIRT_DEVICES_MAX)
            return gw_fail(err, GW_USAGE, "%.*s: the number of cards must be 1 to %d", (int)bytes, word,
                           GW_VIRT_DEVICES_MAX);
        spec->device_count = (unsigned)count;
        word += digits + 1;
        bytes -= digits + 1;
    }
    const gw_embedded *card = card_find(word, bytes);
    if (card != NULL)
        return card_read(card, &spec->card, 0, err);
    gw_fail(err, GW_USAGE, "unknown card \"%.*s\"; known:", bytes > 64 ? 64 : (int)bytes, word);
    for (const gw_embedded *known = gwi_cards; known->name != NULL && err != NULL; known++) {
        size_t used = strlen(err->text);
        snprintf(err->text + used, sizeof err->text - used, " %s", known->name);
    }
    return GW_USAGE;
}

gw_status gw_virt_spec_parse(const char *text, gw_virt_spec *ret_spec, gw_error *err)
{
    gw_virt_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.driver_version = GW_VIRT_DRIVER_VERSION;
    spec.host_bytes_max = spec.host_bytes = UINT64_MAX;
    size_t bytes = strcspn(text, ",");
    gw_status st = card_word(text, bytes, &spec, err);
    while (st == GW_OK && text[bytes] == ',') {
        char word[256];
        text += bytes + 1;
        bytes = strcspn(text, ",");
        if (bytes >= sizeof word)
            return gw_fail(err, GW_USAGE, "an option is longer than %zu bytes", sizeof word - 1);
        memcpy(word, text, bytes);
        word[bytes] = '\0';
        char *equals = strchr(word, '=');
        if (equals == NULL)
            return gw_fail(err, GW_USAGE, "option \"%s\" lacks \"=\"", word);
        *equals = '\0';
        st = option(word, equals + 1, &spec, err);
    }
    for (unsigned i = 0; i < spec.fault_count && st == GW_OK; i++)
        if (spec.faults[i].kind == GW_VIRT_FAULT_CARD && spec.faults[i].card >= spec.device_count)
            st = gw_fail(err, GW_USAGE, "a fault of card #%u: there are %u cards, counted from 0", spec.faults[i].card,
                         spec.device_count);
    if (st == GW_OK)
        *ret_spec = spec;
    return st;
}

gw_status gw_virt_spec_check(const char *text, gw_error *err)
{
    gw_virt_spec spec;
    return gw_virt_spec_parse(text, &spec, err);
}
