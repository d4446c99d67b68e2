/* Checks whether ACS, the access control of the PCIe bridges above the cards, redirects copies between cards to the
 * root complex.
 *
 * The control register is in a bridge's extended configuration space. Only root may read more than the first 64 bytes
 * of the space. Layout (PCI Express Base Specification):
 * - Extended capabilities start at 0x100. The low 16 bits of a header are the id. The high 12 bits are the offset of
 *   the next capability.
 * - ACS has the id 0x000d and its control register at offset 6.
 * - Bits 2 and 3 redirect requests and completions between devices below the bridge. */
#include "gwi_doctor.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CONFIG_BYTES = 4096,
    EXTENDED = 0x100,
    CAPABILITIES_MAX = 64,
    ACS_ID = 0x000d,
    ACS_CONTROL = 6,
    REDIRECTS = 0x0c,
    NAME_BYTES_MAX = 17, /* for a PCI address such as "0000:10:00.0"; its domain may have up to eight digits */
    BRIDGES_MAX = 256
};

typedef struct bridges {
    char name[BRIDGES_MAX][NAME_BYTES_MAX];
    size_t count, read;
    gw_text redirect; /* names of the bridges that redirect copies */
} bridges;

static unsigned little(const uint8_t *at, int bytes)
{
    unsigned value = 0;
    for (int i = bytes; i-- > 0;)
        value = value << 8 | at[i];
    return value;
}

/* Return the offset of the ACS capability, or 0 if the bridge has none. */
static size_t find_acs(const uint8_t config[CONFIG_BYTES])
{
    size_t at = EXTENDED;
    for (int i = 0; i < CAPABILITIES_MAX && at >= EXTENDED && at + ACS_CONTROL + 2 <= CONFIG_BYTES; i++) {
        unsigned head = little(config + at, 4);
        if ((head & 0xffff) == ACS_ID)
            return at;
        at = head >> 20 & 0xffc;
    }
    return 0;
}

static bool read_config(const char *root, const char *name, uint8_t config[CONFIG_BYTES])
{
    gw_text path = {0};
    gw_text_addf(&path, "%s/sys/bus/pci/devices/%s/config", root, name);
    int fd = path.failed ? -1 : open(gw_text_str(&path), O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, config, CONFIG_BYTES);
    if (fd >= 0)
        close(fd);
    gw_text_free(&path);
    return got == CONFIG_BYTES;
}

static void look_at_bridge(const char *root, const char *name, bridges *all)
{
    uint8_t config[CONFIG_BYTES];
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->name[i], name) == 0)
            return;
    if (all->count == BRIDGES_MAX)
        return;
    snprintf(all->name[all->count++], NAME_BYTES_MAX, "%s", name);
    if (!read_config(root, name, config))
        return;
    all->read++;
    size_t acs = find_acs(config);
    if (acs != 0 && (little(config + acs + ACS_CONTROL, 2) & REDIRECTS) != 0)
        gw_text_addf(&all->redirect, "%s%s", all->redirect.bytes > 0 ? " " : "", name);
}

/* True for an address such as "0000:00:01.0". */
static bool is_address(const char *text, size_t bytes)
{
    size_t domain = strspn(text, "0123456789abcdef");
    return domain >= 4 && bytes == domain + strlen(":00:00.0") && bytes < NAME_BYTES_MAX && text[domain] == ':' &&
           text[domain + 3] == ':' && text[domain + 6] == '.' && isdigit((unsigned char)text[domain + 7]);
}

/* Look at the bridges above a card. The card's path in sysfs names them: ".../0000:00:01.0/0000:01:00.0". */
static void look_above(const char *root, const char *card, bridges *all)
{
    char place[PATH_MAX], name[NAME_BYTES_MAX];
    gw_text path = {0};
    gw_text_addf(&path, "%s/sys/bus/pci/devices/%s", root, card);
    ssize_t got = path.failed ? -1 : readlink(gw_text_str(&path), place, sizeof place - 1);
    gw_text_free(&path);
    if (got <= 0)
        return;
    place[got] = '\0';
    for (char *part = place; *part != '\0';) {
        size_t bytes = strcspn(part, "/");
        if (part[bytes] == '/' && is_address(part, bytes)) { /* the last component is the card */
            snprintf(name, sizeof name, "%.*s", (int)bytes, part);
            look_at_bridge(root, name, all);
        }
        part += bytes + (part[bytes] == '/');
    }
}

void gwi_look_acs(gw_facts *facts, const char *root)
{
    bridges *all = calloc(1, sizeof *all);
    long long cards = gwi_number_or(facts, "pci.cards", 0);
    if (all == NULL) {
        facts->failed = true;
        return;
    }
    for (long long i = 0; i < cards && i < GWI_CARDS_MAX; i++) {
        const char *card = gw_facts_getf(facts, "pci.card.%lld.pci", i);
        if (card != NULL)
            look_above(root, card, all);
    }
    if (all->count > 0) {
        gw_facts_set(facts, "pci.acs.bridges", "%zu", all->count);
        gw_facts_set(facts, "pci.acs.read", "%zu", all->read);
    }
    if (all->read > 0)
        gw_facts_set(facts, "pci.acs.redirect", "%s", all->redirect.bytes > 0 ? gw_text_str(&all->redirect) : "none");
    facts->failed = facts->failed || all->redirect.failed;
    gw_text_free(&all->redirect);
    free(all);
}
