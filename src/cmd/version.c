/* `gpuwhy version`: what this build is and what it lacks. */
#include "gwi_cmd.h"

#include "gw_gpucore.h"
#include "gw_out.h"
#include "gw_stacks.h"
#include "gw_symbols.h"

#include <stdio.h>

int gwi_cmd_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("gpuwhy %s\n", GW_PROGRAM_VERSION);
    printf("JSON output:            %s\n", gw_out_has_json() ? "yes" : "no (built without json-c)");
    printf("compressed recordings:  %s\n", GW_HAVE_ZSTD ? "yes" : "no (built without zstd)");
    printf("names of call sites:    %s\n",
           gw_symbols_supported() ? "yes" : "no (built without elfutils: native frames are file and address)");
    printf("GPU core dumps:         %s\n", gw_gpucore_can_read() ? "yes" : "no (built without elfutils)");
    printf("native stacks of hung threads: %s\n", gw_stacks_has_frames() ? "yes" : "no (built without elfutils)");
    return GWI_EXIT_OK;
}
