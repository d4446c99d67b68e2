/* Finds the real driver: the one that the program would load without gpuwhy. */
#include "gwi_run.h"

#include "gw_facade.h"

#include <stdlib.h>

static gw_status choose(gwi_doors *doors, const char *specification, const gwi_program *program, gw_error *err)
{
    if (specification[0] != '\0')
        return gw_fail(err, GW_USAGE, "--gpu real:%s: the real GPU has no specification", specification);
    char *found = NULL;
    gw_status st = gw_driver_locate(program->image[0] == '\0' ? program->path : program->image,
                                    getenv("LD_LIBRARY_PATH"), &found, err);
    if (st == GW_OK)
        st = gw_path_format(doors->driver, err, "%s", found);
    else
        doors->closed_why = "no driver";
    free(found);
    return st;
}

const gwi_gpu_source gwi_source_real = {"real", choose};
