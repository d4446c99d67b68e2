"""Run the pods of packaging/kubernetes in namespaces (pod.py), with a virtual card and programs that fail."""
import copy
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from harness import BUILD, GPUWHY, Failure, Workplace, expect, main, skip, wait_until  # noqa: E402
from manifests import MANIFESTS, load, need_schemas  # noqa: E402
from pod import Pod, reason_why_not  # noqa: E402

MESSAGE_BYTES_MAX = 4096
WAIT_S = 120
CNN = "/gpuwhy/program/lib/gpuwhy/lab/cnn"
LEAK = [CNN, "--runs", "2", "--batch", "16384", "--keep-runs"]
TWIN = [CNN, "--runs", "2", "--batch", "16384"]


class Pods:
    def __init__(self, folder):
        self.folder, self.count = folder, 0
        self.image = folder / "image"  # what the image of gpuwhy has in /opt/gpuwhy
        subprocess.run(["cmake", "--install", BUILD, "--prefix", self.image], check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(self.image / "include", ignore_errors=True)
        self.job = load(MANIFESTS / "job.yaml")[0]["spec"]["template"]["spec"]

    def new(self, specification=None, **more):
        self.count += 1
        pod = Pod(specification or self.job, self.folder / f"pod{self.count}", {"/opt/gpuwhy": self.image}, **more)
        pod.run_init_containers()
        return pod

    def container(self, words, observed=True):
        """The container of the Job with other words as its program."""
        container = copy.deepcopy(self.job["containers"][0])
        command = container["command"]
        at = command.index("run") + 1
        container["command"] = [*command[:at], "--gpu", "virtual:h200,memory=16GiB", *command[at:]] if observed else []
        container["args"] = words
        return container


def recordings(pod):
    return sorted((pod.volumes["gpuwhy"] / "recordings").rglob("*.gpuwhy"))


def explained(path):
    done = subprocess.run([GPUWHY, "explain", "--no-history", "--json", path], capture_output=True, timeout=WAIT_S,
                          env={**os.environ, "XDG_STATE_HOME": str(path.parent / "state")})
    return json.loads(done.stdout)


def out_of_memory(pods, **more):
    """The program fails as without gpuwhy, the message names the cause, and the recording is in the volume."""
    pod, container = pods.new(**more), pods.container(LEAK)
    done = pod.run_container(container)
    message = pod.message(container)
    expect(done.returncode == 1, f"status {done.returncode}: {done.stderr.decode()}")
    expect("Verdict  gpu-oom-leak (supported)" in message and "Where    cnn.c:" in message, message)
    expect(len(message.encode()) <= MESSAGE_BYTES_MAX, "the message is too long")
    expect(b"buffers are in" not in done.stderr, f"no folder in memory: {done.stderr.decode()}")
    found = recordings(pod)
    expect(len(found) == 1, f"recordings: {found}")
    verdict = explained(found[0])
    expect(verdict["cause"] == "gpu-oom-leak" and verdict["program"]["exit"] == 1, f"explained: {verdict['headline']}")
    expect(list((pod.volumes["gpuwhy-memory"] / "run").iterdir()) == [], "buffers are left")
    # The container is started again, in the same pod.
    pod.run_container(container)
    expect(len(recordings(pod)) == 2, f"recordings after a restart: {recordings(pod)}")


def same_end(pods, **more):
    """How a program ends is the same without gpuwhy. A clean run leaves no message."""
    pod = pods.new(**more)
    for words in (["sh", "-c", "exit 7"], ["true"], TWIN):
        ends = {}
        for observed in (False, True):
            container = pods.container(words, observed)
            if words == TWIN and not observed:
                continue  # without gpuwhy there is no card
            ends[observed] = pod.run_container(container).returncode
        expect(len(set(ends.values())) == 1, f"{words}: {ends}")
        message = pod.message(container)
        expect((message == "") == (ends[True] == 0), f"{words}: {message}")
    # The first process of a container can be killed from outside only; other programs die as usual.
    done = pod.run_container(pods.container(["sh", "-c", "kill -SEGV $$"]))
    expect(done.returncode == 128 + signal.SIGSEGV, f"status after a signal: {done.returncode}")


def first_process(parent):
    """The process that `unshare` has started."""
    children = pathlib.Path(f"/proc/{parent}/task/{parent}/children")
    return int(children.read_text().split()[0])


def stopped_from_outside(pods, **more):
    """SIGTERM, as when a pod is deleted, reaches the program, which ends in its own way."""
    pod = pods.new(**more)
    program = "trap 'echo stopping; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    container = pods.container(["sh", "-c", program])
    process = pod.start_container(container)
    expect(process.stdout.readline() == b"ready\n", "the program did not start")
    os.kill(first_process(process.pid), signal.SIGTERM)
    out, _ = process.communicate(timeout=WAIT_S)
    expect((out, process.returncode) == (b"stopping\n", 7), f"{out!r}, status {process.returncode}")
    expect("exited 7" in pod.message(container), pod.message(container))


def killed_at_once(pods, **more):
    """The kernel kills all processes of a container that needs too much memory. The recording is in the volume."""
    pod = pods.new(**more)
    container = pods.container(["sh", "-c", '"$@"; echo ready; exec sleep 1000', "sh", *TWIN])
    process = pod.start_container(container)
    while process.stdout.readline() not in (b"ready\n", b""):
        pass
    wait_until(lambda: recordings(pod) and explained(recordings(pod)[0])["coverage"]["processes"] > 0,
               "the recording has no process")
    os.kill(first_process(process.pid), signal.SIGKILL)
    process.communicate(timeout=WAIT_S)
    verdict = explained(recordings(pod)[0])
    expect(verdict["status"] == "undetermined" and verdict["program"]["exit"] is None, verdict["headline"])
    expect(pod.message(container) == "", pod.message(container))


def host_view(pods, **more):
    """The container of the DaemonSet serves the cards as another user, without any capability."""
    template = load(MANIFESTS / "watch.yaml")[0]["spec"]["template"]["spec"]
    container = template["containers"][0]
    # The state of a virtual card stands for the driver of the node.
    template["volumes"] = [{"name": "card", "emptyDir": {}}]
    container["volumeMounts"] = [{"name": "card", "mountPath": "/card"}]
    template["initContainers"] = [{**container, "name": "card", "command": ["mkdir", "-m", "700", "/card/state"]}]
    pod = pods.new(template, own_net=False, **more)
    command = container["command"]
    command[command.index("0.0.0.0:9465")] = "0.0.0.0:0"  # a free port
    process = pod.start_container(container, {"GPUWHY_VIRTUAL": "h200", "GPUWHY_VIRTUAL_DIR": "/card/state"})
    try:
        line = process.stderr.readline().decode()
        port = re.search(r":(\d+)/metrics", line)
        expect(port is not None, line)
        connection = http.client.HTTPConnection("127.0.0.1", int(port[1]), timeout=WAIT_S)
        probe = container["readinessProbe"]["httpGet"]["path"]
        connection.request("GET", probe)
        answer = connection.getresponse()
        expect(answer.status == 200, f"the probe: {answer.status}")
        answer.read()
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        expect("gpuwhy_gpus_readable 1" in text, text)
        expect("gpuwhy_gpu_memory_total_bytes{" in text, text)
    finally:
        process.terminate()
        _, err = process.communicate(timeout=WAIT_S)
    expect(process.returncode == 0, f"status {process.returncode}: {err.decode()}")


CASES = {"out_of_memory": lambda pods, mode: out_of_memory(pods, **mode),
         "no_shared_memory": lambda pods, mode: out_of_memory(pods, shm=None, **mode),
         "same_end": lambda pods, mode: same_end(pods, **mode),
         "stopped_from_outside": lambda pods, mode: stopped_from_outside(pods, **mode),
         "killed_at_once": lambda pods, mode: killed_at_once(pods, **mode),
         "host_view": lambda pods, mode: host_view(pods, **mode)}


def inside(folder):
    """Run all cases; the folder is a tmpfs of this process's own mount namespace."""
    folder = pathlib.Path(folder)
    ran = 0
    pods = Pods(folder)
    for as_root in (True, False):
        name = "as root" if as_root else "in a user namespace"
        (folder / str(as_root)).mkdir()
        reason = "not root" if as_root and os.environ["GPUWHY_TEST_ROOT"] == "0" else \
            reason_why_not(as_root, folder / str(as_root))
        if reason:
            print(f"skipped, {name}: {reason}")
            continue
        # The two ways differ only in their users, so the other cases are tried in one of them.
        for case, test in CASES.items() if ran == 0 else [("out_of_memory", CASES["out_of_memory"])]:
            begin = time.monotonic()
            test(pods, {"as_root": as_root})
            print(f"passed, {name}: {case} ({time.monotonic() - begin:.1f} s)", flush=True)
        ran += 1
    if ran == 0:
        skip("this machine allows no namespaces")


def test():
    if len(sys.argv) == 3 and sys.argv[1] == "--inside":
        return inside(sys.argv[2])
    need_schemas()
    if shutil.which("unshare") is None or shutil.which("setpriv") is None:
        skip("no unshare, or no setpriv")
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    probe = subprocess.run(["unshare", *user, "--mount", "true"], capture_output=True, text=True)
    if probe.returncode != 0:  # no namespaces, or a root that is no mount point, as in a chroot
        skip(probe.stderr.strip())
    with Workplace() as place:
        script = 'mount -t tmpfs -o mode=755 none "$1" || exit 77; exec "$2" -B "$3" --inside "$1"'
        command = ["unshare", *user, "--mount", "sh", "-c", script, "sh", str(place), sys.executable, __file__]
        done = subprocess.run(command, env={**os.environ, "GPUWHY_TEST_ROOT": str(int(os.geteuid() == 0))})
        if done.returncode == 77:
            skip("this machine allows no namespaces")
        if done.returncode != 0:
            raise Failure(f"status {done.returncode}")


if __name__ == "__main__":
    main(test)
