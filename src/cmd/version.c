/* `gpuwhy version`: prints the version of this build, the libraries that it uses and the optional parts that are
 * missing. */
#include "gwi_cmd.h"

#include "gw_logs.h"

#include <elfutils/libdwfl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <zstd.h>

int gwi_cmd_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("gpuwhy %s\n", GW_PROGRAM_VERSION);
    printf("JSON:                json-c %s\n", json_c_version());
    printf("compression:         zstd %s\n", ZSTD_versionString());
    printf("symbols, core dumps: elfutils %s\n", dwfl_version(NULL));
    printf("text logs:           %s\n", gw_logs_are_supported() ? "yes" : "no (built without Hyperscan and PCRE2)");
    printf("text logs in gzip:   %s\n", GW_HAVE_ZLIB ? "yes" : "no (built without zlib)");
    printf("text logs in xz:     %s\n", GW_HAVE_LZMA ? "yes" : "no (built without liblzma)");
    return GW_EXIT_OK;
}
