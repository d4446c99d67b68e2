#!/bin/sh
# An example for EpilogSlurmctld in slurm.conf: after each job, write the verdict on its last recorded step into
# gpuwhy.txt beside the recordings. It does nothing for jobs without recordings or without a fault. It must never fail:
# slurmctld would report a failed epilog. It runs as SlurmUser, which must be root to become the job's user.
#
# gpuwhy finds the folder, and writes only if the job's user owns it and no other user may write to it. Do not redirect
# output into the folder here: it may have been replaced by that of another user.
job=$SLURM_JOB_ID user=$SLURM_JOB_USER
[ -n "$job" ] && [ -n "$user" ] || exit 0
setsid runuser -l "$user" -c "timeout 600 gpuwhy explain --quiet --store slurm:$job" >/dev/null 2>&1 </dev/null &
exit 0
