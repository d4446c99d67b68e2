/* `gpuwhy whatif`: replays PyTorch's allocator with other settings. */
#include "gwi_cmd.h"
#include "gwi_judge.h"
#include "gwi_manual.h"
#include "gwi_options.h"
#include "gwi_runs.h"
#include "gwi_terminal.h"

#include "gw_model_replay.h"
#include "gw_render.h"
#include "gw_torch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GWI_WHATIF_OPTIONS(X)                                                                                          \
    X(BYTES, uint64_t, memory, "--memory", "SIZE", NULL,                                                               \
      "on a card of this size, with the same memory taken by everything but PyTorch")                                  \
    X(STRING, const char *, set, "--set", "KEY:VALUE,..", NULL,                                                        \
      "also try these settings, as in PYTORCH_ALLOC_CONF, all at once")                                                \
    X(FLAG, bool, json, "--json", NULL, NULL, "print JSON (docs/json-schema.md)")

GWI_OPTIONS(whatif_options, GWI_WHATIF_OPTIONS);

enum { NO_REPLAY = 1 };

const gwi_manual gwi_manual_whatif = {
    .usage = "gpuwhy whatif [options] RECORDING\n",
    .about = "Replays PyTorch's caching allocator from a recording or a saved memory snapshot, first with the "
             "recorded settings, then with one setting changed at a time: how much memory it would have reserved, "
             "and whether a refused request would have been granted. The replay needs every allocation: recordings "
             "have them if PyTorch ran out of memory, or with --allocations or --deep.",
    .words = "RECORDING|FILE",
    .group = {{.options = options_table, .count = OPTION_COUNT}},
    .exits = {{GW_EXIT_OK, "the replay is equal to the recording"},
              {GW_EXIT_UNDETERMINED, "there is no replay; the output gives the reason"},
              {GW_EXIT_USAGE, "usage error, or the file cannot be read"}},
    .files = {{GWI_MANUAL_RECORDINGS}, {GWI_MANUAL_HANDLE}},
    .examples = {{"gpuwhy whatif run.gpuwhy", "would another setting of the allocator have helped?"},
                 {"gpuwhy whatif --memory 40GiB run.gpuwhy", "what would happen on a card of 40 GiB?"}},
    .see_also = "run explain"};

static gw_status read_model(const char *path, gw_model **ret_model, gw_error *err)
{
    gw_reader *reader = NULL;
    if (gw_torch_is_snapshot(path))
        return gw_torch_snapshot_model(path, ret_model, err);
    gw_status st = gwi_refuse_text(path, gw_reader_open(path, &reader, err), err);
    if (st == GW_OK)
        st = gw_model_build(reader, ret_model, err);
    gw_reader_close(reader);
    return st;
}

static void add_command(const gw_model *model, gw_text *text)
{
    for (size_t i = 0; i < model->meta_count; i++)
        if (model->meta[i].key != NULL && strcmp(model->meta[i].key, "argv") == 0 && model->meta[i].value != NULL)
            gw_text_addf(text, "%s%s", text->bytes == 0 ? "" : " ", model->meta[i].value);
}

static gw_status print(const gw_whatif_story *story, bool json, gw_error *err)
{
    gw_text text = {0};
    gw_status st = GW_OK;
    if (json)
        st = gw_render_whatif_json(story, &text, err);
    else
        gw_render_whatif_text(story, gwi_has_colour(STDOUT_FILENO), &text);
    if (st == GW_OK && text.failed)
        st = gw_fail(err, GW_NOMEM, "print the replay");
    if (st == GW_OK && (fputs(gw_text_str(&text), stdout) < 0 || fflush(stdout) != 0))
        st = gw_fail(err, GW_IO, "write to standard output");
    gw_text_free(&text);
    return st;
}

/* Replay the report. A reason why that is impossible goes to *ret_reason, and GW_OK is returned. */
static gw_status replay(const gw_model *model, const gw_allocator_report *report, const whatif_options *options,
                        gw_whatif *whatif, gw_error *ret_reason, gw_error *err)
{
    gw_replay_input input = {0};
    gw_whatif_options how = {.memory_bytes = options->memory, .version = model->torch_version};
    gw_status st = gw_model_replay_input(model, report, &input, ret_reason);
    if (st == GW_MISSING || st == GW_UNSUPPORTED || st == GW_CORRUPT)
        return GW_OK;
    if (st != GW_OK)
        return gw_fail(err, st, "%s", ret_reason->text);
    how.own[0] = options->set;
    how.own_count = options->set != NULL;
    size_t *phases = gw_model_replay_phases(model, report, &input, &how.phase_count);
    how.phase = phases;
    st = gw_whatif_make(&input, &how, whatif, err);
    if (st == GW_CORRUPT) {
        *ret_reason = *err;
        st = GW_OK;
    } else if (st == GW_OK && !whatif->check.is_exact) {
        (void)!gw_fail(ret_reason, GW_OK, "the replay is not equal to the recording: %s", whatif->check.difference);
    }
    free(phases);
    gw_replay_input_free(&input);
    return st;
}

static int whatif(const char *path, const whatif_options *options)
{
    static struct gw_whatif result; /* large */
    gw_error err = {0}, reason = {0};
    gw_model *model = NULL;
    gw_text command = {0};
    gw_whatif_story story = {.recording = path, .device = -1};
    gw_status st = read_model(path, &model, &err);
    const gw_allocator_report *report = st == GW_OK ? gw_model_replay_report(model) : NULL;
    if (st == GW_OK)
        st = replay(model, report, options, &result, &reason, &err);
    if (st == GW_OK) {
        add_command(model, &command);
        story.command = command.bytes == 0 ? NULL : gw_text_str(&command);
        story.impossible = reason.text[0] == '\0' ? NULL : reason.text;
        story.whatif = story.impossible == NULL ? &result : NULL;
        story.device = report == NULL ? -1 : report->device;
        st = print(&story, options->json, &err);
    }
    gw_text_free(&command);
    gw_model_free(model);
    if (st != GW_OK)
        return gwi_refuse("whatif", &err);
    return story.impossible == NULL ? GW_EXIT_OK : NO_REPLAY;
}

static gw_status check(const whatif_options *options, int words, gw_error *err)
{
    gw_replay_settings settings = gw_replay_settings_default();
    if (words != 1)
        return gw_fail(err, GW_USAGE, "one recording or memory snapshot is needed");
    return options->set == NULL ? GW_OK : gw_replay_settings_read(&settings, options->set, err);
}

int gwi_cmd_whatif(int argc, char **argv)
{
    whatif_options options = {0};
    gw_error err = {0};
    int words = 0;
    gw_status st = gwi_options_parse_mixed(options_table, OPTION_COUNT, &options, argc, argv, &words, &err);
    gwi_pager_begin();
    if (st == GW_OK && options.help)
        return gwi_manual_print(&gwi_manual_whatif);
    if (st == GW_OK)
        st = check(&options, words, &err);
    if (st == GW_OK)
        st = gwi_handles_resolve(argv + 1, words, &err);
    return st == GW_OK ? whatif(argv[1], &options) : gwi_refuse("whatif", &err);
}
