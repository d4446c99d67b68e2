/* Print the report that gs_end() returns. */
#include "gwi_scope.h"

#include <stdlib.h>

static void print_held(const gs_held *held, FILE *out)
{
    char bytes[GWI_BYTES_TEXT_MAX];
    fprintf(out, "  still held: %zu x %s", held->count, gs_kind_text(held->kind));
    if (held->bytes != 0)
        fprintf(out, ", %s", gwi_bytes_text(bytes, held->bytes));
    fprintf(out, ", %s:%d", held->file, held->line);
    if (held->scope[0] != '\0')
        fprintf(out, " (%s)", held->scope);
    if (held->kept_count != 0)
        fprintf(out, ": %zu could not be released", held->kept_count);
    fputc('\n', out);
}

static void print_memory(const gs_report *report, FILE *out)
{
    char begin[GWI_BYTES_TEXT_MAX], end[GWI_BYTES_TEXT_MAX], allowed[GWI_BYTES_TEXT_MAX], missing[GWI_BYTES_EXACT_MAX];
    int64_t missing_bytes = report->missing_bytes;
    if (!report->has_memory) {
        fprintf(out, "  the driver's free memory: unknown\n");
        return;
    }
    gwi_bytes_text(begin, report->free_begin_bytes);
    gwi_bytes_text(end, report->free_end_bytes);
    gwi_bytes_text(allowed, report->allowed_bytes);
    fprintf(out, "  the driver's free memory: %s before, %s after", begin, end);
    if (missing_bytes > 0)
        gwi_bytes_exact(missing, (uint64_t)missing_bytes);
    if (missing_bytes <= 0)
        fprintf(out, ": nothing is missing\n");
    else if ((uint64_t)missing_bytes <= report->allowed_bytes)
        fprintf(out, ": %s, which the context keeps (up to %s)\n", missing, allowed);
    else
        fprintf(out, ": %s are MISSING (a context keeps up to %s)\n", missing, allowed);
}

void gs_report_print(const gs_report *report, FILE *out)
{
    char text[1024], peak[GWI_BYTES_TEXT_MAX], pinned[GWI_BYTES_TEXT_MAX];
    if (report == NULL)
        return;
    fprintf(out, "scope %s ended%s: peak %s on the card, %s pinned\n",
            report->name[0] == '\0' ? "(no name)" : report->name, report->is_dead ? ", dead" : "",
            gwi_bytes_text(peak, report->peak_bytes), gwi_bytes_text(pinned, report->pinned_peak_bytes));
    if (report->has_failure)
        fprintf(out, "  first failure: %s\n", gs_failure_text(&report->failure, text, sizeof text));
    for (size_t i = 0; i < report->entry_count; i++)
        print_held(&report->entries[i], out);
    if (report->is_dead)
        fprintf(out, "  nothing could be released one by one: the context was abandoned\n");
    else
        print_memory(report, out);
    if (report->context == GS_CONTEXT_UNSURE)
        fprintf(out, "  the context might not have been released\n");
}

void gs_report_free(gs_report *report)
{
    if (report == NULL)
        return;
    free(report->entries);
    free(report);
}
