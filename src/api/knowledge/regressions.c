/* Which known problems of libraries (data/regressions.tsv) apply to the software of a log, a machine or a process. */
#include "gw_regressions.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

const char *gw_harm_text(gw_harm effect)
{
    static const char *const texts[] = {"memory", "host memory", "wrong", "crash", "error", "hang", "slow"};
    _Static_assert(sizeof texts / sizeof texts[0] == GW_HARM_COUNT, "one text an effect");
    return texts[effect];
}

/* ---- software ---- */

/* Packages whose name is not that of the table. The names of other packages differ at most in case, in '_', in a prefix
 * "nvidia-" or in a suffix such as "-cu12". */
static const struct {
    const char *package, *name;
} packages[] = {{"torch", "PyTorch"},
                {"pytorch-lightning", "Lightning"},
                {"onnxruntime-gpu", "onnxruntime"},
                {"cuda-runtime", "CUDA"},
                {"cudart", "CUDA"},
                {"cuda-toolkit", "CUDA"}, /* packages of conda */
                {"cuda-version", "CUDA"},
                {"nnunetv2", "nnU-Net"},
                {"flash-attention", "flash-attn"},
                {"llama-cpp", "llama.cpp"}};

/* Write the name of the table for a package. Returns false if it does not fit. */
static bool name_of(const char *package, char out[GW_SOFTWARE_NAME_MAX])
{
    size_t bytes = 0;
    package += gw_begins(package, "nvidia-") || gw_begins(package, "nvidia_") ? sizeof "nvidia-" - 1 : 0;
    for (; package[bytes] != '\0' && bytes + 1 < GW_SOFTWARE_NAME_MAX; bytes++)
        out[bytes] = (char)(package[bytes] == '_' ? '-' : package[bytes]);
    out[bytes] = '\0';
    if (package[bytes] != '\0' || bytes == 0)
        return false;
    char *end = strstr(out, "-cu");
    end = end != NULL && gw_begins(end, "-cuda") ? end + strlen("-cuda") : end + (end != NULL ? strlen("-cu") : 0);
    const char *rest = end == NULL ? "" : end + strspn(end, "0123456789x");
    if (end != NULL && end != rest && (*rest == '\0' || strcmp(rest, "-bindings") == 0)) /* TensorRT's native part */
        *strstr(out, "-cu") = '\0';
    for (size_t i = 0; i < sizeof packages / sizeof packages[0]; i++) {
        if (strcasecmp(out, packages[i].package) == 0)
            snprintf(out, GW_SOFTWARE_NAME_MAX, "%s", packages[i].name);
    }
    return true;
}

static const gw_software_item *find(const gw_software *software, const char *name)
{
    for (size_t i = 0; i < software->count; i++) {
        if (strcasecmp(software->item[i].name, name) == 0)
            return &software->item[i];
    }
    return NULL;
}

gw_version gw_software_version(const gw_software *software, const char *name)
{
    const gw_software_item *item = find(software, name);
    return item == NULL ? 0 : item->version;
}

/* True for the text after the numbers of a version that was built before the release, as nightly builds are. */
static bool is_early(const char *rest)
{
    return *rest == 'a' || *rest == 'b' || gw_begins(rest, "rc") || gw_begins(rest, "dev") || gw_begins(rest, ".dev");
}

/* `text` is the version as it was written, and `end` the text after its numbers. */
static void add(gw_software *software, const char *package, gw_version version, const char *text, const char *end)
{
    char name[GW_SOFTWARE_NAME_MAX];
    if (version == 0 || !name_of(package, name) || gw_software_version(software, name) != 0 ||
        software->count == GW_SOFTWARE_MAX)
        return;
    memcpy(software->item[software->count].name, name, sizeof name);
    snprintf(software->item[software->count].text, GW_VERSION_TEXT_MAX, "%.*s", (int)(end - text), text);
    software->item[software->count].is_early = is_early(end);
    software->item[software->count++].version = version;
}

void gw_software_add(gw_software *software, const char *package, gw_version version)
{
    char text[GW_VERSION_TEXT_MAX];
    gw_version_text(text, version);
    add(software, package, version, text, text + strlen(text));
}

void gw_software_add_text(gw_software *software, const char *package, const char *version)
{
    gw_version parsed;
    const char *end;
    if (version == NULL || !gw_version_parse(version, &parsed, &end))
        return;
    add(software, package, parsed, version, end);
    if (gw_begins(package, "nvidia-cublas")) /* the package has both libraries */
        add(software, "cuBLASLt", parsed, version, end);
    unsigned cuda = 0;
    if (sscanf(end, "+cu%3u", &cuda) == 1 && cuda >= 100) /* "2.9.0+cu128" has CUDA 12.8 */
        gw_software_add(software, "CUDA", gw_version_of(cuda / 10, cuda % 10, 0));
}

void gw_software_add_card(gw_software *software, const char *name)
{
    if (name == NULL || software->card[0] != '\0')
        return;
    snprintf(software->card, sizeof software->card, "%s", name);
    gw_software_add(software, "capability", gw_data_capability_named(name));
}

/* ---- words of card names ---- */

/* Compare a word of a card's name with a pattern such as "A100" or "RTX 40xx", where x is any digit. Returns true if
 * the pattern ends where the word ends: "H20" is not in "H200". */
static bool is_word_at(const char *name, const char *pattern, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        bool is_digit = pattern[i] == 'x' && isdigit((unsigned char)name[i]);
        if (name[i] == '\0' || (name[i] != pattern[i] && !is_digit))
            return false;
    }
    return !isalnum((unsigned char)name[bytes]);
}

static bool has_word(const char *name, const char *pattern, size_t bytes)
{
    for (const char *at = name; *at != '\0'; at++) {
        if ((at == name || !isalnum((unsigned char)at[-1])) && is_word_at(at, pattern, bytes))
            return true;
    }
    return false;
}

/* True if one of the words of `list` is in a card's name. A character of `separators` ends a word. */
static bool has_one_word(const char *name, const char *list, const char *separators)
{
    for (const char *at = list; *at != '\0';) {
        size_t bytes = strcspn(at, separators);
        if (bytes > 0 && has_word(name, at, bytes))
            return true;
        at += bytes;
        at += strspn(at, separators);
    }
    return false;
}

gw_version gw_data_capability_named(const char *card)
{
    for (size_t i = 0; i < gw_data_compute_capability_count; i++) {
        const gw_capability *row = &gw_data_compute_capability[i];
        const char *list = row->examples;
        while (list != NULL && *list != '\0') { /* "RTX 30xx, A10": the items have blanks */
            size_t bytes = strcspn(list, ",/(");
            if (bytes > 0 && has_word(card, list, bytes))
                return row->capability;
            list += bytes;
            list += strspn(list, ",/( ");
        }
    }
    return 0;
}

/* ---- rows ---- */

/* True if the version begins with the numbers of `wanted`, whose text is from `text` to `end`: 12.1.105 is a 12.1. */
static bool begins_with(gw_version version, gw_version wanted, const char *text, const char *end)
{
    unsigned part = 0;
    for (const char *at = text; at <= end; at++) {
        if (at < end && *at != '.')
            continue;
        if (gw_version_part(version, part) != gw_version_part(wanted, part))
            return false;
        part++;
    }
    return true;
}

/* Check one condition, such as "cuDNN<9.15", and set *ret_end to the text after it. */
static gw_applies check(const char *need, const gw_software *software, const char **ret_end)
{
    char name[GW_SOFTWARE_NAME_MAX];
    size_t name_bytes = strcspn(need, "<>="), sign_bytes = strspn(need + name_bytes, "<>=");
    gw_version wanted = 0;
    snprintf(name, sizeof name, "%.*s", (int)name_bytes, need);
    const char *sign = need + name_bytes, *number = sign + sign_bytes;
    (void)gw_version_parse(number, &wanted, ret_end); /* datagen has checked the text */
    gw_version version = gw_software_version(software, name);
    if (version == 0)
        return GW_APPLIES_UNKNOWN;
    bool holds = *sign == '>'   ? version >= wanted
                 : *sign == '<' ? version < wanted
                                : begins_with(version, wanted, number, *ret_end);
    return holds ? GW_APPLIES : GW_APPLIES_NOT;
}

gw_applies gw_regression_applies(const gw_regression *row, const gw_software *software)
{
    const gw_software_item *item = find(software, row->library);
    if (item == NULL || item->version < row->first || (row->before != 0 && item->version >= row->before))
        return GW_APPLIES_NOT;
    gw_applies all = item->is_early ? GW_APPLIES_UNKNOWN : GW_APPLIES;
    for (const char *at = row->needs; at != NULL && *at != '\0'; at += *at == ' ') {
        gw_applies one = check(at, software, &at);
        all = one < all ? one : all;
    }
    if (row->card != NULL && software->card[0] != '\0' && !has_one_word(software->card, row->card, " "))
        return GW_APPLIES_NOT;
    return row->card != NULL && software->card[0] == '\0' && all == GW_APPLIES ? GW_APPLIES_UNKNOWN : all;
}

bool gw_regression_is_likely(const gw_regression *row, const gw_software *software)
{
    for (const char *at = row->likely; at != NULL && *at != '\0'; at += *at == ' ') {
        if (check(at, software, &at) == GW_APPLIES)
            return true;
    }
    return false;
}

bool gw_regression_has(const char *words, bool (*has)(const void *context, const char *word, size_t bytes),
                       const void *context)
{
    bool all = true;
    for (const char *at = words; at != NULL && *at != '\0';) {
        size_t bytes = strcspn(at, "|&");
        all = all && has(context, at, bytes);
        at += bytes;
        if (*at != '&' && all)
            return true;
        all = *at == '&' ? all : true;
        at += *at != '\0';
    }
    return false;
}

void gw_regression_say(const gw_regression *row, const gw_software *software, gw_text *text)
{
    const gw_software_item *item = find(software, row->library);
    gw_text_addf(text, "%s %s %s", row->library, item == NULL ? "?" : item->text, row->text);
}
