"""A small cluster of Slurm on this machine: slurmctld and three slurmds in namespaces of their own.

Each node has its own host name, boot id, processes and /dev/shm, so it looks like a machine of its own, and killing the
first process of a node ends everything on it at once, as a power loss does. Needs root, unshare, and Debian's slurmctld,
slurmd, slurm-client and munge.
"""
import os
import pathlib
import shutil
import subprocess
import time

ADDRESS = "10.99.0.1"  # slurm looks addresses up with AI_ADDRCONFIG, for which loopback addresses do not count
NODES = ("node1", "node2", "node3")
NEEDED = ("slurmctld", "slurmd", "srun", "sbatch", "munged", "unshare", "ip")
WAIT_S = 120

CONFIGURATION = """
ClusterName=test
SlurmctldHost=controller({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=3
SlurmdParameters=config_overrides
SlurmdTimeout=15
UnkillableStepTimeout=60
SlurmctldPort=16817
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd-%n.pid
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool-%n
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd-%n.log
PlugStackConfig={place}/plugstack.conf
TaskProlog={place}/task_prolog
{nodes}
PartitionName=all Nodes={names} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


NAMESPACES = ("unshare", "-m", "-n", "-p", "-u", "--fork", "--kill-child", "--mount-proc")


def missing():
    """What this machine lacks for a cluster; empty: nothing."""
    lacks = [name for name in NEEDED if shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None]
    if os.geteuid() != 0:
        return [*lacks, "root"]
    if not lacks and subprocess.run([*NAMESPACES, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        return ["permission for new namespaces"]
    return lacks


def wait_for(what, condition):
    end = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {WAIT_S} s")
        time.sleep(0.1)


class MemoryGroup:
    """A control group with a limit on memory, version 1 or 2. `why` says why there is none."""

    def __init__(self, limit_bytes):
        self.folder, self.why = None, ""
        for above, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            folder = pathlib.Path(above) / f"gpuwhy-slurm-{os.getpid()}-{time.time_ns()}"
            try:
                folder.mkdir()
                self.folder = folder
                (folder / limit).write_text(str(limit_bytes))
                (folder / "cgroup.procs").touch()
                return
            except OSError as error:
                self.why += f"{error}; "
                self.remove()

    def enter(self):
        if self.folder is not None:
            (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        for _ in range(100):
            try:
                if self.folder is not None:
                    self.folder.rmdir()
                self.folder = None
                return
            except OSError:
                time.sleep(0.05)  # its processes have not ended yet


class Cluster:
    SMALL = "node2"  # the node with little memory
    SMALL_BYTES = 1 << 30

    def __init__(self, place, plugstack):
        self.place, self.processes = pathlib.Path(place), {}
        self.group = MemoryGroup(self.SMALL_BYTES)
        self.environment = {**os.environ, "SLURM_CONF": str(self.place / "slurm.conf"),
                            "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
        nodes = "\n".join(f"NodeName={name} NodeHostname={name} NodeAddr={ADDRESS} Port={17001 + at} CPUs=4"
                          for at, name in enumerate(NODES))
        (self.place / "state").mkdir()
        (self.place / "slurm.conf").write_text(CONFIGURATION.format(address=ADDRESS, place=self.place, nodes=nodes,
                                                                    names=",".join(NODES)))
        self.plugstack(plugstack)
        prolog = self.place / "task_prolog"
        prolog.write_text("#!/bin/sh\necho export FROM_TASK_PROLOG=1\n")
        prolog.chmod(0o755)

    def plugstack(self, text):
        (self.place / "plugstack.conf").write_text(text)

    def run(self, *command, **options):
        return subprocess.run([*map(str, command)], env=self.environment, text=True, check=True, **options)

    def start(self, name, *command, before=None):
        log = open(self.place / f"{name}.out", "ab")
        self.processes[name] = subprocess.Popen([*map(str, command)], env=self.environment, stdin=subprocess.DEVNULL,
                                                stdout=log, stderr=log, preexec_fn=before)
        log.close()

    def up(self):
        self.run("hostname", "controller")
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "addr", "add", f"{ADDRESS}/32", "dev", "lo")
        self.run("mount", "-t", "tmpfs", "tmpfs", "/dev/shm")
        self.run("mount", "-t", "tmpfs", "tmpfs", "/run")
        for folder in ("/run/munge", "/run/lock"):
            os.makedirs(folder)
        key = self.place / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self.start("munged", "munged", "--foreground", "--force", f"--key-file={key}", "--log-file=/run/munge/log",
                   "--pid-file=/run/munge/pid", "--seed-file=/run/munge/seed")
        wait_for("munged", pathlib.Path("/run/munge/munge.socket.2").exists)
        self.start("slurmctld", "slurmctld", "-D")
        for at, name in enumerate(NODES):
            self.start_node(name, at)
        wait_for("the nodes", lambda: self.states() == {name: "idle" for name in NODES})

    def start_node(self, name, at):
        boot = self.place / f"boot-{name}"
        boot.write_text(f"{at:08x}-1111-4222-8333-444444444444\n")
        self.start(name, "unshare", "-m", "-u", "-p", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
                   f"hostname {name} && mount -t tmpfs tmpfs /dev/shm && mount --bind {boot} /proc/sys/kernel/random/boot_id && "
                   f"exec slurmd -D -N {name}",
                   before=self.group.enter if name == self.SMALL else None)

    def kill_node(self, name):
        """End all processes of a node at once."""
        process = self.processes.pop(name)  # unshare, whose child is the first process of the node
        process.kill()
        process.wait()

    def states(self):
        out = subprocess.run(["sinfo", "-h", "-N", "-o", "%N %T"], env=self.environment, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        return {line.split()[0]: line.split()[1].rstrip("*") for line in out.splitlines()}

    def down(self):
        for name, process in reversed(self.processes.items()):
            process.kill() if name in NODES else process.terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.group.remove()

    def logs(self):
        return "".join(f"== {path.name}\n{path.read_text(errors='replace')[-3000:]}\n"
                       for path in sorted(self.place.glob("*.log")))
