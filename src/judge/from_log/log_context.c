/* Finds the framework, its version and the card in the log, and adapts the advice to them. */
#include "gwi_log.h"
#include "gwi_request.h"

#include "gw_regressions.h"
#include "gw_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- looking ---- */

static const char *const names[GW_FRAMEWORK_COUNT] = {
    [GW_FRAMEWORK_TORCH] = "PyTorch", [GW_FRAMEWORK_TENSORFLOW] = "TensorFlow", [GW_FRAMEWORK_JAX] = "JAX"};

static bool is_package(gw_framework framework, const char *package)
{
    switch (framework) {
    case GW_FRAMEWORK_TORCH:
        return strcasecmp(package, "torch") == 0 || strcasecmp(package, "PyTorch") == 0;
    case GW_FRAMEWORK_TENSORFLOW:
        return strcasecmp(package, "tensorflow") == 0;
    case GW_FRAMEWORK_JAX:
        return strcasecmp(package, "jax") == 0 || strcasecmp(package, "jaxlib") == 0;
    default:
        return false;
    }
}

static void find_version(gwi_log_case *c)
{
    gwi_log_context *context = &c->context;
    for (size_t i = 0; i < c->log->find_count; i++) {
        const gw_log_find *find = &c->log->find[i];
        const char *package = gw_log_text(find, "package"), *text = gw_log_text(find, "version"), *end;
        gw_version version;
        if (find->sign != GW_SAYS_VERSION || package == NULL || text == NULL || !is_package(c->framework, package) ||
            !gw_version_parse(text, &version, &end))
            continue;
        context->version = version;
        context->version_text = text;
        return;
    }
    /* No line gives the version. Up to version 2.0, PyTorch wrote the numbers of an out-of-memory message in
     * parentheses. */
    for (size_t i = 0; i < c->log->find_count && c->framework == GW_FRAMEWORK_TORCH; i++) {
        const char *text = c->log->find[i].text;
        if (c->log->find[i].sign == GW_SAYS_TORCH_OOM && strstr(text, "total capacity;") != NULL &&
            strstr(text, "already allocated;") != NULL) {
            context->version = gw_version_of(2, 0, 0);
            context->version_text = "2.0";
            context->version_by_message = true;
            return;
        }
    }
}

/* True for names of Turing cards and older cards, which do not support bfloat16. Newer cards have other names. */
static bool lacks_bfloat16(const char *card)
{
    static const char *const words[] = {"Tesla", "GTX",  "TITAN", "Titan", "Quadro", "RTX 20",
                                        " T4",   "V100", "P100",  "P40",   "K80"};
    return GW_HAS_ONE_OF(card, words);
}

void gwi_log_look_around(gwi_log_case *c)
{
    const gw_log_find *card = gwi_log_first(c->log, GW_SAYS_GPU_NAME),
                      *driver = gwi_log_first(c->log, GW_SAYS_SMI_DRIVER);
    const gw_log_find *total = gwi_log_first(c->log, GW_SAYS_OOM_TOTAL);
    gwi_log_context *context = &c->context;
    *context = (gwi_log_context){.framework = names[c->framework]};
    if (total == NULL)
        total = gwi_log_first(c->log, GW_SAYS_TF_TOTAL_MEMORY);
    context->card = card != NULL ? gw_log_text(card, "name") : NULL;
    context->capability = context->card != NULL ? gw_data_capability_named(context->card) : 0;
    context->driver = driver != NULL ? gw_log_text(driver, "version") : NULL;
    context->card_lacks_bfloat16 = context->card != NULL && lacks_bfloat16(context->card);
    if (total != NULL && !gw_log_bytes(total, "total", &context->card_bytes))
        (void)gw_log_bytes(total, "bytes", &context->card_bytes);
    find_version(c);
}

/* ---- advice ---- */

static const struct {
    gw_framework framework;
    const char *from, *before, *has, *instead;
} fix_rows[] = {
#define GWI_FIX(framework, from, before, has, instead) {GW_FRAMEWORK_##framework, from, before, has, instead},
#include "log_fixes.def"
#undef GWI_FIX
};
enum { FIX_COUNT = sizeof fix_rows / sizeof fix_rows[0] };

static bool is_within(gw_version version, const char *from, const char *before)
{
    gw_version first = 0, end = 0;
    const char *rest;
    bool has_first = from[0] != '\0' && gw_version_parse(from, &first, &rest);
    bool has_end = before[0] != '\0' && gw_version_parse(before, &end, &rest);
    return (!has_first || version >= first) && (!has_end || version < end);
}

/* Return the wording of the fix for the framework's version in the log. Returns "" if this version lacks the feature
 * that the fix uses. */
static const char *in_words_of(const gwi_log_case *c, const char *fix)
{
    for (size_t i = 0; i < FIX_COUNT && c->context.version != 0; i++) {
        if (fix_rows[i].framework == c->framework && strstr(fix, fix_rows[i].has) != NULL &&
            is_within(c->context.version, fix_rows[i].from, fix_rows[i].before))
            return fix_rows[i].instead;
    }
    return fix;
}

static void for_card(const gwi_log_case *c, const char *fix, char *out, size_t bytes)
{
    if (!c->context.card_lacks_bfloat16 || strstr(fix, "bfloat16") == NULL)
        snprintf(out, bytes, "%s", fix);
    else
        snprintf(out, bytes, "Use float16 with loss scaling%s: a %.60s does not support bfloat16",
                 c->framework == GW_FRAMEWORK_TORCH ? " (torch.float16 in autocast, a GradScaler)" : "",
                 c->context.card);
}

static bool is_impossible(const gwi_log_case *c, const gw_cause *cause)
{
    bool found = false;
    for (size_t i = 0; i < c->count && strcmp(cause->id, "gpu-oom-capacity") == 0; i++)
        found = found || c->statement[i].is_impossible;
    return found;
}

static bool add_impossible_fixes(const char *place, gw_string_list *next)
{
    bool good = true;
    for (size_t i = 0; gwi_impossible_fixes[i] != NULL && good; i++)
        good = i == 0 && place[0] != '\0' ? gwi_list_addf(next, "At %s: %s", place, gwi_impossible_fixes[i])
                                          : gwi_list_add(next, gwi_impossible_fixes[i]);
    return good;
}

bool gwi_log_add_fixes(const gwi_log_case *c, const gw_cause *cause, const char *place, gw_string_list *next)
{
    gw_string_list fixes = {0};
    bool replaces = false;
    if (is_impossible(c, cause))
        return add_impossible_fixes(place, next);
    if (!gwi_log_add_advice(c, cause->id, &replaces, next))
        return false;
    if (replaces)
        return true;
    bool good = gwi_add_fixes(&fixes, cause, c->framework), first = true;
    for (size_t i = 0; i < fixes.count; i++) {
        char text[600];
        const char *fix = in_words_of(c, fixes.item[i]);
        for_card(c, fix, text, sizeof text);
        if (fix[0] != '\0' && good) {
            /* such a fix sets an environment variable, so it belongs to no line of the program */
            bool is_setting = gw_begins(text, "Set ");
            good = first && !is_setting && place[0] != '\0' ? gwi_list_addf(next, "At %s: %s", place, text)
                                                            : gwi_list_add(next, text);
            first = false;
        }
    }
    gwi_list_free(&fixes);
    return good;
}
