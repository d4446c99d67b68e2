/* Without elfutils there are no stacks. */
#include "gwi_stacks.h"

#include <stdio.h>

void gwi_stacks_walk(uint32_t pid, gw_stack_process *process)
{
    (void)pid;
    snprintf(process->no_stacks, sizeof process->no_stacks, "this build lacks elfutils (libdw), which reads stacks");
}

void gw_stacks_let_go(void)
{
}

bool gw_stacks_has_frames(void)
{
    return false;
}
