"""A small kubelet: run the containers of a pod specification in namespaces of this machine, one after the other.

Each container has its own mounts, processes, network and user, a root folder of this machine's files that cannot be
written, the volumes of the specification, and /dev/termination-log, as Kubernetes sets them up. Root becomes the user of
the specification. Another user does the same inside a user namespace.
"""
import os
import pathlib
import shlex
import subprocess

# Folders of this machine that stand for the files of an image. A link stays a link.
IMAGE = ("bin", "sbin", "lib", "lib32", "lib64", "usr", "etc")
DEVICES = ("null", "zero", "full", "random", "urandom")


def quoted(words):
    return " ".join(shlex.quote(str(word)) for word in words)


class Pod:
    """`folder`: for its volumes and root folders; on a tmpfs, and created here. `image`: files of this machine that the
    containers see in addition: {path in the container: folder here}. `shm`: options of the tmpfs on /dev/shm; None: there
    is no /dev/shm. `as_root`: without a user namespace. `own_net`: the containers have a network of their own."""

    def __init__(self, specification, folder, image=None, shm="size=64m,noexec,nosuid,nodev,mode=1777", as_root=True,
                 own_net=True):
        self.specification, self.folder, self.image, self.shm = specification, folder, image or {}, shm
        self.as_root, self.own_net, self.own_pids = as_root, own_net, not specification.get("hostPID", False)
        self.messages, self.volumes = {}, {}
        folder.mkdir()
        for volume in specification.get("volumes", []):
            assert "emptyDir" in volume, volume  # other kinds are not supported here
            path = folder / f"volume-{volume['name']}"
            path.mkdir()
            path.chmod(0o777)  # the mode that the kubelet gives to an emptyDir
            self.volumes[volume["name"]] = path

    def user(self, container):
        context = {**self.specification.get("securityContext", {}), **container.get("securityContext", {})}
        return context.get("runAsUser", 0), context.get("runAsGroup", 0)

    # ---- the shell lines that make a container ----

    def root_lines(self, root, message):
        yield "mkdir -p " + quoted([root])
        yield f"mount -t tmpfs -o mode=755 none {root}"
        for name in IMAGE:
            here = pathlib.Path("/", name)
            if here.is_symlink():
                yield f"ln -s {quoted([os.readlink(here)])} {root}/{name}"
            elif here.is_dir():
                yield from self.bind_lines(here, f"{root}/{name}", True)
        yield f"mkdir -p {root}/proc {root}/sys {root}/dev"
        yield f"mount -t proc proc {root}/proc" if self.own_pids else f"mount --rbind /proc {root}/proc"
        yield f"mount --rbind /sys {root}/sys"
        yield f"mount -t tmpfs -o mode=755 none {root}/dev"
        for name in DEVICES:
            yield f"touch {root}/dev/{name} && mount --bind /dev/{name} {root}/dev/{name}"
        if self.shm is not None:
            yield f"mkdir {root}/dev/shm && mount -t tmpfs -o {self.shm} none {root}/dev/shm"
        yield f"touch {root}/dev/termination-log && mount --bind {quoted([message])} {root}/dev/termination-log"
        yield f"mount -o remount,bind,ro {root}/dev"

    def bind_lines(self, here, there, read_only):
        yield f"mkdir -p {quoted([there])} && mount --rbind {quoted([here])} {quoted([there])}"
        if read_only:
            yield f"mount -o remount,bind,ro {quoted([there])}"

    def mount_lines(self, container, root):
        for there, here in self.image.items():
            yield from self.bind_lines(here, f"{root}{there}", True)
        for mount in sorted(container.get("volumeMounts", []), key=lambda one: one["mountPath"]):
            here = self.volumes[mount["name"]] / mount.get("subPath", "")
            if not here.exists():  # the kubelet creates it, and it belongs to root
                here.mkdir(mode=0o755)
            yield from self.bind_lines(here, f"{root}{mount['mountPath']}", mount.get("readOnly", False))

    def become(self, container):
        """Words that drop all privileges and become the user of the container."""
        user, group = self.user(container)
        if self.as_root:
            return ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--no-new-privs",
                    "--bounding-set=-all", "--inh-caps=-all", "--"]
        return ["unshare", "--user", f"--map-user={user}", f"--map-group={group}", "--"]

    def script(self, container, environment):
        root, message = self.folder / f"root-{container['name']}", self.folder / f"message-{container['name']}"
        message.write_text("")  # each start has a new one
        message.chmod(0o666)
        self.messages[container["name"]] = message
        variables = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME": "pod",
                     **{one["name"]: one["value"] for one in container.get("env", [])}, **environment}
        words = [*container.get("command", []), *container.get("args", [])]
        lines = ["set -e", *self.root_lines(root, message), *self.mount_lines(container, root),
                 f"mount -o remount,bind,ro {root}", f"cd {root}", "pivot_root . .", "umount -l .", "cd /",
                 "exec " + quoted([*self.become(container), "env", "-i",
                                   *(f"{name}={value}" for name, value in variables.items()), *words])]
        return "\n".join(lines)

    # ---- running ----

    def namespaces(self):
        """The command that starts a shell as the first process of a container."""
        user = [] if self.as_root else ["--user", "--map-root-user"]
        net = ["--net"] if self.own_net else []
        pids = ["--pid", "--fork", "--kill-child"] if self.own_pids else []
        return ["unshare", *user, "--mount", "--ipc", "--uts", *net, *pids, "sh", "-c"]

    def start_container(self, container, environment=None):
        script = self.script(container, environment or {})
        return subprocess.Popen([*self.namespaces(), script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def run_container(self, container, environment=None, timeout=120):
        process = self.start_container(container, environment)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def run_init_containers(self):
        for container in self.specification.get("initContainers", []):
            done = self.run_container(container)
            if done.returncode != 0:
                raise RuntimeError(f"init container {container['name']}: {done.stderr.decode(errors='replace')}")

    def message(self, container):
        return self.messages[container["name"]].read_text()


def reason_why_not(as_root, folder):
    """Return why this machine cannot run a pod, or None."""
    probe = Pod({"containers": []}, folder / "probe", as_root=as_root)
    done = probe.run_container({"name": "probe", "command": ["true"]})
    return None if done.returncode == 0 else done.stderr.decode(errors="replace").strip() or f"status {done.returncode}"
