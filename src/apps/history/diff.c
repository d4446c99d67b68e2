/* `gpuwhy diff`: compares two recordings. */
#include "gw_say.h"
#include "gwi_cmd.h"
#include "gwi_judge.h"
#include "gwi_manual.h"
#include "gwi_options.h"
#include "gwi_runs.h"
#include "gwi_terminal.h"

#include "gw_render.h"
#include "gw_torch.h"

#include <stdio.h>
#include <unistd.h>

#define GWI_DIFF_OPTIONS(X) X(FLAG, bool, json, "--json", NULL, NULL, "print JSON (docs/json-schema.md)")

GWI_OPTIONS(diff_options, GWI_DIFF_OPTIONS);

enum { DIFFERENT = 1 };

const gwi_manual gwi_manual_diff = {
    .usage = "gpuwhy diff [options] GOOD BAD\n",
    .about = "Compares two recordings of the same command: what differs, and at which call they diverge.",
    .words = "RECORDING",
    .group = {{.options = options_table, .count = OPTION_COUNT}},
    .exits = {{GW_EXIT_OK, "nothing that matters differs"},
              {GW_EXIT_UNDETERMINED, "something that matters differs"},
              {GW_EXIT_USAGE, "usage error, or a recording cannot be read completely"}},
    .files = {{GWI_MANUAL_RECORDINGS}, {GWI_MANUAL_HANDLE}},
    .examples = {{"gpuwhy diff @3 @1", "the third newest and the newest run of `gpuwhy history`"},
                 {"gpuwhy diff monday.gpuwhy today.gpuwhy", "what is different today?"}},
    .see_also = "explain history"};

static gw_status read_one(const char *path, gw_portrait **ret_portrait, gw_error *err)
{
    if (gw_torch_is_snapshot(path))
        return gw_fail(err, GW_USAGE, "%s is a PyTorch memory snapshot; only recordings can be compared", path);
    gw_status st = gwi_refuse_text(path, gw_portrait_read(path, UINT64_MAX, ret_portrait, err), err);
    if (st == GW_OK)
        gw_portrait_name_sites(*ret_portrait, GW_NAMES_SOFT_MS, GW_NAMES_HARD_MS);
    return st;
}

static gw_status render(const gw_comparison *comparison, gw_portrait *good, gw_portrait *bad, bool json, gw_error *err)
{
    gw_text text = {0};
    gw_status st = GW_OK;
    if (json)
        st = gw_render_comparison_json(comparison, good, bad, &text, err);
    else
        gw_render_comparison_text(comparison, good, bad, gwi_has_colour(STDOUT_FILENO), &text);
    if (st == GW_OK && text.failed)
        st = gw_fail(err, GW_NOMEM, "print the comparison");
    if (st == GW_OK)
        gw_put(gw_text_str(&text));
    gw_text_free(&text);
    return st;
}

/* Report a damaged recording. The readable part was compared, but the exit status must not mean "equal". */
static bool is_damaged(const char *path, const gw_portrait *portrait)
{
    const gw_model *model = gw_portrait_model(portrait);
    if (model->damaged_count > 0)
        gw_say("diff: %s is damaged and was only compared in part: %s", path, model->damaged_first);
    return model->damaged_count > 0;
}

static int compare(const char *good_path, const char *bad_path, const diff_options *options)
{
    gw_error err;
    gw_portrait *good = NULL, *bad = NULL;
    gw_comparison *comparison = NULL;
    gw_status st = read_one(good_path, &good, &err);
    if (st == GW_OK)
        st = read_one(bad_path, &bad, &err);
    if (st == GW_OK)
        st = gw_compare(good, bad, &comparison, &err);
    if (st == GW_OK)
        st = render(comparison, good, bad, options->json, &err);
    int status = GW_EXIT_OK;
    if (st != GW_OK)
        status = gwi_refuse("diff", &err);
    else if (comparison->differs)
        status = DIFFERENT;
    if (st == GW_OK && is_damaged(good_path, good))
        status = GW_EXIT_USAGE;
    if (st == GW_OK && is_damaged(bad_path, bad))
        status = GW_EXIT_USAGE;
    gw_comparison_free(comparison);
    gw_portrait_free(bad);
    gw_portrait_free(good);
    return status;
}

int gwi_cmd_diff(int argc, char **argv)
{
    diff_options options = {0};
    gw_error err = {0};
    int words = 0;
    gw_status st = gwi_options_parse_mixed(options_table, OPTION_COUNT, &options, argc, argv, &words, &err);
    gwi_pager_begin();
    if (st == GW_OK && options.help)
        return gwi_manual_print(&gwi_manual_diff);
    if (st == GW_OK && words != 2)
        st = gw_fail(&err, GW_USAGE, "two recordings are needed, the good one first");
    if (st == GW_OK)
        st = gwi_handles_resolve(argv + 1, words, &err);
    return st == GW_OK ? compare(argv[1], argv[2], &options) : gwi_refuse("diff", &err);
}
