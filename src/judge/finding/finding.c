/* Functions that fill a finding: the headline, the evidence and the lists that a cause adds. */
#include "gw_mask.h"
#include "gw_text.h"
#include "gwi_cause.h"

#include "gw_array.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool gwi_list_add(gw_string_list *list, const char *text)
{
    if (!gw_array_more(&list->item, list->count, sizeof *list->item))
        return false;
    list->item[list->count] = strdup(text);
    if (list->item[list->count] == NULL)
        return false;
    list->count++;
    return true;
}

/* Format a text and mask secrets in it. Quoted lines of a log or traceback may contain a password or a token. */
static char *format_text(const char *format, va_list args)
{
    char *text = NULL;
    gw_text masked = {0};
    if (vasprintf(&text, format, args) < 0)
        return NULL;
    gw_mask_text(&masked, text, strlen(text));
    if (!masked.failed && strcmp(text, gw_text_str(&masked)) != 0) {
        free(text);
        text = strdup(gw_text_str(&masked));
    }
    gw_text_free(&masked);
    return text;
}

bool gwi_list_addf(gw_string_list *list, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = format_text(format, args);
    va_end(args);
    bool good = text != NULL && gwi_list_add(list, text);
    free(text);
    return good;
}

static void list_format(gwi_finding *finding, gw_string_list *list, const char *format, va_list args)
{
    char *text = format_text(format, args);
    if (text == NULL || !gwi_list_add(list, text))
        finding->failed = true;
    free(text);
}

#define LIST_SAYER(name, list)                                                                                         \
    void name(gwi_finding *finding, const char *format, ...)                                                           \
    {                                                                                                                  \
        va_list args;                                                                                                  \
        va_start(args, format);                                                                                        \
        list_format(finding, &finding->list, format, args);                                                            \
        va_end(args);                                                                                                  \
    }
LIST_SAYER(gwi_consequence, consequences)
LIST_SAYER(gwi_next, next)

/* Defined here alone, so that no other file can rule something out. */
struct gwi_ruled_out {
    gw_string_list list;
};

void gwi_rule_out(const gwi_case *c, gwi_finding *finding, gwi_concerns concerns, const char *format, ...)
{
    if (!gwi_is_observed(c, concerns))
        return;
    if (finding->ruled_out == NULL && (finding->ruled_out = calloc(1, sizeof *finding->ruled_out)) == NULL) {
        finding->failed = true;
        return;
    }
    va_list args;
    va_start(args, format);
    list_format(finding, &finding->ruled_out->list, format, args);
    va_end(args);
}

gw_string_list gwi_take_ruled_out(gwi_finding *finding)
{
    gw_string_list list = finding->ruled_out == NULL ? (gw_string_list){0} : finding->ruled_out->list;
    free(finding->ruled_out);
    finding->ruled_out = NULL;
    return list;
}

void gwi_headline(gwi_finding *finding, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = format_text(format, args);
    va_end(args);
    gw_text_clear(&finding->headline);
    gw_text_add_str(&finding->headline, text == NULL ? "" : text);
    finding->failed = finding->failed || text == NULL || finding->headline.failed;
    free(text);
}

static void evidence_add(gwi_finding *finding, gw_evidence evidence)
{
    if (evidence.text == NULL ||
        !gw_array_more(&finding->evidence, finding->evidence_count, sizeof *finding->evidence)) {
        finding->failed = true;
        free(evidence.text);
        return;
    }
    finding->evidence[finding->evidence_count++] = evidence;
}

void gwi_evidence(gwi_finding *finding, uint64_t t_ns, const char *source, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = format_text(format, args);
    va_end(args);
    evidence_add(finding, (gw_evidence){.t_ns = t_ns == GWI_NO_TIME ? 0 : t_ns,
                                        .has_time = t_ns != GWI_NO_TIME,
                                        .text = text,
                                        .unit = "",
                                        .source = source});
}

void gwi_measure(gwi_finding *finding, uint64_t t_ns, const char *source, double value, const char *unit,
                 const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = format_text(format, args);
    va_end(args);
    evidence_add(finding, (gw_evidence){.t_ns = t_ns == GWI_NO_TIME ? 0 : t_ns,
                                        .has_time = t_ns != GWI_NO_TIME,
                                        .text = text,
                                        .has_value = true,
                                        .value = value,
                                        .unit = unit,
                                        .source = source});
}

void gwi_weigh(gwi_finding *finding, gw_weight weight)
{
    if (finding->evidence_count > 0)
        finding->evidence[finding->evidence_count - 1].weight = weight;
}

void gwi_list_free(gw_string_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->item[i]);
    free(list->item);
    *list = (gw_string_list){0};
}

void gwi_finding_free(gwi_finding *finding)
{
    gw_text_free(&finding->headline);
    for (size_t i = 0; i < finding->evidence_count; i++)
        free(finding->evidence[i].text);
    free(finding->evidence);
    gw_string_list ruled_out = gwi_take_ruled_out(finding);
    gwi_list_free(&ruled_out);
    gwi_list_free(&finding->consequences);
    gwi_list_free(&finding->next);
    *finding = (gwi_finding){0};
}
