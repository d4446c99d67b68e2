/* The environment variables in which launchers set a process's rank. Innermost first: a per-node launcher often starts
 * a launcher of workers, and the workers inherit the variables of both.
 *
 * X(rank, number of ranks, rank on this machine); NULL: the launcher does not set it. */
#ifndef GW_RANK_VARIABLES_H
#define GW_RANK_VARIABLES_H

#define GW_RANK_VARIABLES(X)                                                                                           \
    X("RANK", "WORLD_SIZE", "LOCAL_RANK") /* torchrun, accelerate, deepspeed */                                        \
    X("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK")                                    \
    X("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK")                                       \
    X("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID")                                                                       \
    X("PMIX_RANK", NULL, NULL)                                                                                         \
    X("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK")                                                            \
    X("JAX_PROCESS_ID", "JAX_NUM_PROCESSES", NULL)                                                                     \
    X("FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID")                                                         \
    X("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")

/* torchrun's count of its restarts. */
#define GW_RESTART_VARIABLE "TORCHELASTIC_RESTART_COUNT"
/* The number of the machine, from which Lightning computes the rank. */
#define GW_NODE_VARIABLE "NODE_RANK"

/* Variables that a program may set itself, before it uses the GPU: the first row above and the two others. Not those of
 * MPI: a library that starts MPI in a process without a launcher sets a rank that means nothing. */
#define GW_RANK_VARIABLES_INSIDE                                                                                       \
    {                                                                                                                  \
        "RANK", "WORLD_SIZE", "LOCAL_RANK", GW_RESTART_VARIABLE, GW_NODE_VARIABLE                                      \
    }

#endif
