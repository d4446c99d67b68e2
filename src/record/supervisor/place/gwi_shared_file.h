/* The file that the processes of a run share (gw_run_shared.h), as the supervisor sees it. */
#ifndef GWI_SHARED_FILE_H
#define GWI_SHARED_FILE_H

#include "gw_run_options.h"
#include "gwi_run.h"

typedef struct gwi_shared_file {
    struct gw_run_shared *map; /* owned; NULL: the run does not need the file, or it could not be created */
    uint32_t lost_devices;     /* those that were passed on to the virtual cards */
} gwi_shared_file;

/* Create the file in the run folder, if the options need it. Without the file, each process has the whole limit of
 * --memory, and rules with process=N do not take effect; a message says so. */
void gwi_shared_file_make(gwi_shared_file *shared, const gw_run_options *options, const char *run_folder);
/* Let virtual cards be lost that --inject let a process lose. Does nothing for a real card. */
void gwi_shared_file_look(gwi_shared_file *shared, const gwi_doors *doors);
void gwi_shared_file_close(gwi_shared_file *shared);

#endif
