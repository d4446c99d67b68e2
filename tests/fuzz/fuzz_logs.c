/* Fuzz text logs: the reader, then the judge. The log is fed in pieces. The first byte selects their size, and whether
 * a second file begins halfway. */
#include "gw_logs.h"
#include "gw_verdict.h"
#include "seeds.h"

#include <string.h>

/* Write one seed for each example line, and one with all lines. */
static void write_seeds(const char *folder)
{
    static const char *const lines[] = {
#define GWI_EXAMPLE(sign, field, value, line) line,
#include "examples.def"
#undef GWI_EXAMPLE
    };
    enum { COUNT = sizeof lines / sizeof lines[0] };
    for (size_t i = 0; i <= COUNT; i++) {
        FILE *file = open_seed(folder, i);
        if (file == NULL)
            continue;
        fputc('\0', file);
        for (size_t k = i < COUNT ? i : 0; k <= (i < COUNT ? i : COUNT - 1); k++)
            fprintf(file, "[rank%zu]: %s\n", k % 4, lines[k]);
        fclose(file);
    }
}

static void check(const gw_log *log)
{
    for (size_t i = 0; i < log->find_count; i++) {
        const gw_log_find *find = &log->find[i];
        if (find->sign >= GW_SIGN_COUNT || find->file >= log->file_count || find->line == 0 ||
            find->line > log->file[find->file].line_count || strlen(find->text) > GW_LOG_TEXT_MAX ||
            find->field_count > GW_LOG_FIELDS_MAX || (i > 0 && find->order < log->find[i - 1].order))
            abort();
    }
}

static void judge(const gw_log *log)
{
    gw_error err;
    gw_verdict *verdict = NULL;
    if (gw_judge_log(log, &verdict, &err) != GW_OK)
        abort();
    if (verdict->headline == NULL || (verdict->status == GW_VERDICT_FAULT) != (verdict->cause != NULL))
        abort();
    gw_verdict_free(verdict);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    gw_error err;
    gw_log *log = NULL;
    gw_log_reader *reader = NULL;
    if (bytes == 0)
        return 0;
    size_t piece = data[0] % 128 == 0 ? bytes : data[0] % 128;
    bool two = data[0] >= 128;
    if (gw_log_open(&reader, &err) != GW_OK || gw_log_begin(reader, "a", &err) != GW_OK)
        abort();
    for (size_t at = 1; at < bytes; at += piece) {
        if (two && at > bytes / 2) {
            two = false;
            if (gw_log_begin(reader, "b", &err) != GW_OK)
                abort();
        }
        if (gw_log_feed(reader, (const char *)data + at, bytes - at < piece ? bytes - at : piece, &err) != GW_OK)
            abort();
    }
    if (gw_log_finish(reader, &log, &err) != GW_OK)
        abort();
    check(log);
    judge(log);
    gw_log_free(log);
    return 0;
}
