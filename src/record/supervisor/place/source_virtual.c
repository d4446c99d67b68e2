/* Finds the driver library and NVML of the virtual cards. They are installed beside our other libraries. */
#include "gwi_run.h"

#include "gw_virt_spec.h"

static gw_status choose(gwi_doors *doors, const char *specification, const gwi_program *program, gw_error *err)
{
    (void)program;
    doors->is_virtual = true;
    doors->virtual_specification = specification;
    if (specification[0] == '\0')
        return gw_fail(err, GW_USAGE, "--gpu virtual: name a card, for example virtual:h200");
    gw_status st = gw_virt_spec_check(specification, err);
    if (st != GW_OK) {
        gw_wrap(err, "--gpu virtual:%s", specification);
        return st;
    }
    st = gw_library_find("virtual/nvml", doors->nvml_folder, err);
    return st == GW_OK ? gw_library_find("virtual/libcuda.so.1", doors->driver, err) : st;
}

const gwi_gpu_source gwi_source_virtual = {"virtual", choose};
