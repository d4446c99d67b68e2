/* `gpuwhy export`: converts a recording into a format that other tools read. */
#include "gw_say.h"
#include "gwi_cmd.h"
#include "gwi_judge.h"
#include "gwi_manual.h"
#include "gwi_options.h"
#include "gwi_output.h"
#include "gwi_progress.h"
#include "gwi_runs.h"

#include "gw_export.h"
#include "gw_text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define GWI_EXPORT_OPTIONS(X)                                                                                          \
    X(STRING, const char *, to, "--to", "FORMAT", NULL, "the output format, see below")                                \
    X(STRING, const char *, output, "-o", "FILE", "-", "write to FILE; -: to standard output")

GWI_OPTIONS(export_options, GWI_EXPORT_OPTIONS);

static void add_formats(gw_text *text)
{
    enum { ABOUT_INDENT = 14, HELP_COLUMNS = 80 };
    for (unsigned i = 0; gw_export_at(i) != NULL; i++) {
        gw_text_addf(text, "  %-10s  ", gw_export_at(i)->name);
        gw_add_wrapped(text, gw_export_at(i)->about, ABOUT_INDENT, ABOUT_INDENT, HELP_COLUMNS);
    }
}

const gwi_manual gwi_manual_export = {
    .usage = "gpuwhy export recording --to FORMAT [-o FILE]\n",
    .about = "Converts a recording for other tools.",
    .words = "RECORDING",
    .group = {{.options = options_table, .count = OPTION_COUNT}},
    .add_more = add_formats,
    .more_title = "formats",
    .exits = {{GW_EXIT_OK, "the recording was exported"},
              {GW_EXIT_USAGE, "usage error, unreadable input, or the output could not be written"}},
    .files = {{GWI_MANUAL_RECORDINGS}, {GWI_MANUAL_HANDLE}},
    .examples = {{"gpuwhy export run.gpuwhy --to perfetto -o run.pftrace", "for Perfetto's viewer"},
                 {"gpuwhy export run.gpuwhy --to memory-csv", "device memory over time, as a table"}},
    .see_also = "report explain"};

static gw_status export_file(const gw_export_format *format, char *path, const char *to, gw_error *err)
{
    gw_reader *reader = NULL;
    gwi_output output = {.option = "-o", .path = to, .may_be_stdout = true};
    uint64_t faults = 0;
    gw_status st = gwi_outputs_open(&output, 1, &path, 1, err);
    if (st == GW_OK)
        st = gwi_refuse_text(path, gw_reader_open(path, &reader, err), err);
    FILE *file = st == GW_OK ? gwi_output_stream(&output, err) : NULL;
    if (file != NULL) {
        /* no progress bar between the lines of the export */
        gwi_progress *progress = isatty(fileno(file)) == 0 ? gwi_progress_begin("exporting the recording") : NULL;
        gwi_progress_watch(progress, reader);
        st = gw_export_run(format, reader, file, &faults, err);
        gwi_progress_end(progress);
        st = gwi_output_finish(&output, file, st, err);
    } else if (st == GW_OK) {
        st = GW_IO;
    }
    gw_reader_close(reader);
    gwi_outputs_close(&output, 1);
    if (st == GW_OK && faults > 0)
        gw_say("export: %s is damaged: %llu blocks were skipped", path, (unsigned long long)faults);
    return st;
}

int gwi_cmd_export(int argc, char **argv)
{
    export_options options = {0};
    gw_error err = {0};
    int words = 0;
    gw_status st = gwi_options_parse_mixed(options_table, OPTION_COUNT, &options, argc, argv, &words, &err);
    if (st == GW_OK && options.help)
        return gwi_manual_print(&gwi_manual_export);
    if (st == GW_OK && words != 1)
        st = gw_fail(&err, GW_USAGE, "name one recording, for example: gpuwhy export run.gpuwhy --to json");
    if (st == GW_OK && options.to == NULL)
        st = gw_fail(&err, GW_USAGE, "--to is missing, for example: --to json");
    const gw_export_format *format = st == GW_OK ? gw_export_find(options.to) : NULL;
    if (st == GW_OK && format == NULL)
        st = gw_fail(&err, GW_USAGE, "--to %s: unknown format; `gpuwhy export --help` lists them", options.to);
    if (st == GW_OK)
        st = gwi_handles_resolve(argv + 1, words, &err);
    if (st == GW_OK)
        st = export_file(format, argv[1], options.output, &err);
    return st == GW_OK ? GW_EXIT_OK : gwi_refuse("export", &err);
}
