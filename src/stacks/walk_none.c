/* Without elfutils there are no native stacks. */
#include "gwi_stacks.h"

#include <stdio.h>

void gwi_stacks_walk(uint32_t pid, gw_stack_process *process, gwi_python *python)
{
    for (size_t i = 0; i < process->thread_count; i++)
        gwi_stacks_unheld(pid, process, &process->thread[i], python);
    snprintf(process->no_stacks, sizeof process->no_stacks,
             "this build lacks elfutils (libdw), which reads native stacks");
}

void gw_stacks_let_go(void)
{
}

bool gw_stacks_has_frames(void)
{
    return false;
}
