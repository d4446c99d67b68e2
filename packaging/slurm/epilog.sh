#!/bin/sh
# An example for EpilogSlurmctld in slurm.conf: after each job, write the verdict on its last recorded step into
# gpuwhy.txt beside the recordings. It does nothing for jobs without recordings or without a fault. It must never fail:
# slurmctld would report a failed epilog. It runs as SlurmUser, which must be root to become the job's user.
job=$SLURM_JOB_ID user=$SLURM_JOB_USER
[ -n "$job" ] && [ -n "$user" ] || exit 0
setsid runuser -l "$user" -c "
    links=\"\${XDG_STATE_HOME:-\$HOME/.local/state}\"/gpuwhy/slurm
    step=\$(ls \"\$links\" 2>/dev/null | grep \"^$job[.]\" | sort -t. -k2,2n | tail -n 1)
    link=\$links/\$step
    [ -n \"\$step\" ] || exit 0
    timeout 600 gpuwhy explain --quiet \"\$link/\" >\"\$link/gpuwhy.txt\" 2>/dev/null </dev/null
    [ -s \"\$link/gpuwhy.txt\" ] || rm -f \"\$link/gpuwhy.txt\"
" >/dev/null 2>&1 &
exit 0
