/* Reads the files that are copied into a page. */
#include "gw_report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static gw_status read_file(const char *folder, const char *name, gw_text *text, gw_error *err)
{
    char path[4096], part[16384];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
        return gw_fail(err, GW_IO, "%s: the path is too long", folder);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return gw_fail(err, errno == ENOENT ? GW_MISSING : GW_IO, "open %s: %s", path, strerror(errno));
    for (size_t bytes; (bytes = fread(part, 1, sizeof part, file)) > 0;)
        gw_text_add(text, part, bytes);
    bool failed = ferror(file) != 0;
    fclose(file);
    if (failed)
        return gw_fail(err, GW_IO, "read %s", path);
    return text->failed ? gw_fail(err, GW_NOMEM, "read %s", path) : GW_OK;
}

static gw_status check_charts(const gw_report_assets *assets, gw_error *err)
{
    const char *script = gw_text_str(&assets->chart_script);
    if (strstr(script, "\"" GW_REPORT_DYGRAPHS "\"") == NULL)
        return gw_fail(err, GW_VERSION,
                       "the installed dygraphs is not version " GW_REPORT_DYGRAPHS
                       ", which the report needs; build gpuwhy again with that version of "
                       "libjs-dygraphs");
    if (strstr(script, "</script") != NULL || strstr(gw_text_str(&assets->chart_style), "</style") != NULL)
        return gw_fail(err, GW_VERSION, "the installed dygraphs cannot be copied into a page");
    return GW_OK;
}

gw_status gw_report_assets_read(const char *folder, gw_report_assets *ret_assets, gw_error *err)
{
    *ret_assets = (gw_report_assets){0};
    gw_status st = read_file(folder, "report.js", &ret_assets->script, err);
    if (st == GW_OK)
        st = read_file(folder, "report.css", &ret_assets->style, err);
    if (st == GW_OK) {
        st = read_file(folder, "dygraph.min.js", &ret_assets->chart_script, err);
        if (st == GW_OK)
            st = read_file(folder, "dygraph.min.css", &ret_assets->chart_style, err);
        if (st == GW_MISSING)
            st = gw_fail(err, GW_MISSING,
                         "the chart library dygraphs is missing: it was not found when gpuwhy was built; "
                         "install libjs-dygraphs " GW_REPORT_DYGRAPHS " and build gpuwhy again");
    }
    if (st == GW_OK)
        st = check_charts(ret_assets, err);
    if (st != GW_OK)
        gw_report_assets_free(ret_assets);
    return st;
}

void gw_report_assets_free(gw_report_assets *assets)
{
    gw_text_free(&assets->chart_script);
    gw_text_free(&assets->chart_style);
    gw_text_free(&assets->script);
    gw_text_free(&assets->style);
}
