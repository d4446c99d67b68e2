/* `gpuwhy version`: prints the version of this build, the libraries that it uses and the optional parts that are
 * missing. */
#include "gwi_cmd.h"
#include "gwi_manual.h"
#include "gwi_options.h"

#include "gw_logs.h"
#include "gw_report.h"

#include <elfutils/libdwfl.h>
#include <json-c/json.h>
#include <sqlite3.h>
#include <stdio.h>
#include <zstd.h>

#if GW_HAVE_CURSES
#include <ncursesw/ncurses.h>
#define GW_CURSES_VERSION NCURSES_VERSION
#else
#define GW_CURSES_VERSION NULL
#endif

#define GWI_VERSION_OPTIONS(X)

GWI_OPTIONS(version_options, GWI_VERSION_OPTIONS);

const gwi_manual gwi_manual_version = {
    .usage = "gpuwhy version\n"
             "gpuwhy --version, gpuwhy -V\n",
    .about =
        "Prints the version, the libraries that this build uses and their versions, and the optional parts that are "
        "missing.",
    .group = {{.options = options_table, .count = OPTION_COUNT}},
    .exits = {{GW_EXIT_OK, "the version was printed"}, {GW_EXIT_USAGE, "usage error"}},
    .see_also = "doctor"};

enum { HTTP_VERSION_MAX = 24 };
#if GW_HAVE_MICROHTTPD
#include <microhttpd.h>
#endif

/* Write the version of libmicrohttpd to `out`, and return it; NULL: built without. */
static const char *http_version(char out[HTTP_VERSION_MAX])
{
#if GW_HAVE_MICROHTTPD /* 0x00097500 is 0.9.75 */
    snprintf(out, HTTP_VERSION_MAX, "%x.%x.%x", MHD_VERSION >> 24 & 0xff, MHD_VERSION >> 16 & 0xff,
             MHD_VERSION >> 8 & 0xff);
    return out;
#else
    out[0] = '\0';
    return NULL;
#endif
}

static void print_part(const char *what, const char *library, const char *version)
{
    if (version != NULL)
        printf("%-21s%s %s\n", what, library, version);
    else
        printf("%-21sno (built without %s)\n", what, library);
}

static void print_version(void)
{
    char matcher[GW_LOGS_VERSION_MAX], http[HTTP_VERSION_MAX];
    printf("gpuwhy %s\n", GW_PROGRAM_VERSION);
    print_part("JSON:", "json-c", json_c_version());
    print_part("compression:", "zstd", ZSTD_versionString());
    print_part("symbols, core dumps:", "elfutils", dwfl_version(NULL));
    print_part("past runs:", "SQLite", sqlite3_libversion());
    bool has_matcher = gw_logs_matcher_version(matcher);
    printf("%-21s%s\n", "text logs:", has_matcher ? matcher : "no (built without Hyperscan and PCRE2)");
    print_part("text logs in gzip:", "zlib", gw_logs_gzip_version());
    print_part("text logs in xz:", "liblzma", gw_logs_xz_version());
    print_part("screen of watch:", "ncurses", GW_CURSES_VERSION);
    print_part("watch --listen:", "libmicrohttpd", http_version(http));
    print_part("HTML reports:", "dygraphs", GW_HAVE_DYGRAPHS ? GW_REPORT_DYGRAPHS : NULL);
}

int gwi_cmd_version(int argc, char **argv)
{
    version_options options = {0};
    gw_error err = {0};
    int words = 0;
    gw_status st = gwi_options_parse_mixed(options_table, OPTION_COUNT, &options, argc, argv, &words, &err);
    if (st == GW_OK && words > 0)
        st = gw_fail(&err, GW_USAGE, "unexpected word: %s", argv[1]);
    if (st != GW_OK)
        return gwi_refuse("version", &err);
    if (options.help)
        return gwi_manual_print(&gwi_manual_version);
    print_version();
    return GW_EXIT_OK;
}
