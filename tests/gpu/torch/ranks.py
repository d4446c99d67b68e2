"""Two ranks on two GPUs, started by torchrun: one script for each argument. Most of them end in a hang that rank 1 causes. A
line that a verdict must name has a mark, such as `# OTHER`; scenarios.py looks its number up."""

import datetime
import fcntl
import os
import socket
import subprocess
import sys
import threading
import time

if "RANK" not in os.environ:
    os.execv(sys.executable, [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port",
                              str(20000 + os.getpid() % 20000), *sys.argv])

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

RANK = int(os.environ["RANK"])
STEPS, FAULT_AT = 30, 10


def init(seconds=600, **more):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=seconds),
                            device_id=torch.device("cuda", torch.cuda.current_device()), **more)


def network():
    return nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1024, 10)).cuda()


def batch(size=32):
    return torch.randn(size, 3, 32, 32, device="cuda"), torch.randint(0, 10, (size,), device="cuda")


def step_of(model):
    images, labels = batch()
    nn.functional.cross_entropy(model(images), labels).backward()  # STEP
    torch.cuda.synchronize()


def train(at_fault=None, steps=STEPS, model=None):
    """Train with DDP; at_fault is called in rank 1 before step FAULT_AT."""
    model = model or nn.parallel.DistributedDataParallel(network())
    for step in range(steps):
        if at_fault is not None and RANK == 1 and step == FAULT_AT:
            at_fault()
        step_of(model)


def reduce_often(data, times=STEPS):
    for _ in range(times):
        dist.all_reduce(data)  # REDUCE
        torch.cuda.synchronize()


# ---- ranks that call something else ----------------------------------------------------------------------------------

def order():
    init()
    data = torch.ones(1 << 20, device="cuda")
    reduce_often(data, FAULT_AT)
    if RANK == 0:
        dist.all_reduce(data)  # FIRST
    else:
        dist.broadcast(data, 0)  # OTHER
    reduce_often(data)


def size():
    init()
    reduce_often(torch.ones(1 << 20, device="cuda"), FAULT_AT)
    data = torch.ones(1 << 24 if RANK == 0 else 3 << 24, device="cuda")
    for _ in range(STEPS):
        dist.all_reduce(data)  # SIZES
        torch.cuda.synchronize()


def kind():
    init()
    reduce_often(torch.ones(1 << 20, device="cuda"), FAULT_AT)
    data = torch.ones(1 << 24, device="cuda", dtype=torch.float32 if RANK == 0 else torch.float64)
    for _ in range(STEPS):
        dist.all_reduce(data)  # TYPES
        torch.cuda.synchronize()


def receive():
    init()
    data = torch.ones(1 << 20, device="cuda")
    reduce_often(data, FAULT_AT)
    dist.recv(data, 1 - RANK)  # BOTH
    torch.cuda.synchronize()


def evaluate():
    """Rank 0 alone evaluates, with a collective of its own."""
    init()
    model = nn.parallel.DistributedDataParallel(network())
    train(model=model, steps=FAULT_AT)
    if RANK == 0:
        correct = torch.zeros(1, device="cuda")
        dist.all_reduce(correct)  # EVALUATED
        torch.cuda.synchronize()
    train(model=model)


def uneven():
    """Rank 1 has fewer batches: it finishes, and rank 0 waits for it."""
    init()
    train(steps=STEPS if RANK == 0 else FAULT_AT)
    if RANK == 1:
        time.sleep(1e6)  # FINISHED


def ended():
    init()
    train(steps=STEPS if RANK == 0 else FAULT_AT)
    if RANK == 1:
        os._exit(0)  # ENDED


def sharded():
    """FSDP; rank 0 alone calls the model once more."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    init()
    model = FullyShardedDataParallel(network())
    for _ in range(5):
        step_of(model)
    if RANK == 0:
        model(batch()[0])  # ALONE
        torch.cuda.synchronize()
    else:
        time.sleep(1e6)  # ABSENT


def replayed():
    """A graph with a captured collective; rank 1 replays it less often."""
    graph, _ = captured()
    for _ in range(STEPS if RANK == 0 else FAULT_AT):
        graph.replay()
        torch.cuda.synchronize()  # REPLAYED
    if RANK == 1:
        time.sleep(1e6)  # NOT_REPLAYED


def captured():
    init()
    data = torch.ones(1 << 20, device="cuda")
    reduce_often(data, 3)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(data)
    return graph, data


def one_group():
    """Only rank 0 makes the group, for which all are needed."""
    init()
    train()
    if RANK == 0:
        dist.new_group([0, 1])  # GROUP
    dist.barrier()  # BARRIER


def accumulate():
    """Rank 1 leaves out the reduction of a step's gradients."""
    init()
    model = nn.parallel.DistributedDataParallel(network())
    for step in range(STEPS):
        if RANK == 1 and step == FAULT_AT:
            with model.no_sync():
                step_of(model)
        else:
            step_of(model)
    dist.barrier()


def objects():
    """Rank 0 gathers objects while rank 1 goes on."""
    init()
    model = nn.parallel.DistributedDataParallel(network())
    train(model=model, steps=FAULT_AT)
    if RANK == 0:
        dist.all_gather_object([None, None], {"loss": 0.5})  # OBJECTS
    train(model=model)


def two_groups():
    """Two communicators, used in opposite order."""
    init()
    one, two = dist.new_group([0, 1]), dist.new_group([0, 1])
    data = torch.ones(1 << 26, device="cuda")
    for group in (one, two):
        dist.all_reduce(data, group=group)
    torch.cuda.synchronize()
    for _ in range(STEPS):
        for group in ((one, two) if RANK == 0 else (two, one)):
            dist.all_reduce(data, group=group)  # GROUPS
            torch.cuda.synchronize()


# ---- ranks that do not come ------------------------------------------------------------------------------------------

def sleep():
    init()
    train(lambda: time.sleep(1e6))  # SLEEPS


def lock():
    def take_twice():
        mutex.acquire()
        mutex.acquire()  # LOCKED

    mutex = threading.Lock()
    init()
    train(take_twice)


def pipe():
    def read():
        os.read(ends[0], 1)  # READS

    ends = os.pipe()
    init()
    train(read)


def connection():
    def wait():
        server.accept()  # ACCEPTS

    server = socket.create_server(("127.0.0.1", 0))
    init()
    train(wait)


class Stuck(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        if RANK == 1 and index == FAULT_AT:
            time.sleep(1e6)
        return torch.zeros(3, 32, 32)


def loader():
    init()
    model = nn.parallel.DistributedDataParallel(network())
    for images in torch.utils.data.DataLoader(Stuck(), batch_size=2, num_workers=1):  # LOADS
        model(images.cuda()).sum().backward()
        torch.cuda.synchronize()


def busy():
    def search():
        while True:  # SEARCHES
            pass

    init()
    train(search)


def debugger():
    init()
    train(breakpoint)  # BREAKS


def process():
    init()
    train(lambda: subprocess.run(["sleep", "1000000"]))  # RUNS


def file_lock():
    """Both processes want a file's lock, and rank 0 does not give it back."""
    def take():
        fcntl.flock(file, fcntl.LOCK_EX)  # FILE_LOCK

    init()
    name = f"/tmp/ranks-{os.environ['MASTER_PORT']}.lock"
    file = open(name, "w")
    if RANK == 0:
        fcntl.flock(file, fcntl.LOCK_EX)
    dist.barrier()
    train(take)


def skipped():
    """The loss of rank 1 is not finite, and it leaves the loop."""
    init()
    model = nn.parallel.DistributedDataParallel(network())
    for step in range(STEPS):
        if RANK == 1 and step == FAULT_AT:
            break
        step_of(model)
    dist.barrier()  # LAST


def kernel():
    init()
    train(lambda: (torch.cuda._sleep(1 << 50), torch.cuda.synchronize()))  # SPINS


def rendezvous():
    """One rank of three was never started."""
    os.environ["WORLD_SIZE"] = "3"
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]) + 1, 3, RANK == 0, datetime.timedelta(seconds=600))
    dist.init_process_group("nccl", store=store, rank=RANK, world_size=3)  # MEETS
    dist.barrier()


# ---- ranks that fail -------------------------------------------------------------------------------------------------

def exception():
    def fail():
        return {}["label"]  # KEY

    init()
    train(fail)


def memory():
    def fill():
        kept.extend(torch.empty(1 << 30, device="cuda") for _ in range(1000))  # FILLS

    kept = []
    init()
    train(fill)


def handled_memory():
    """Rank 1 handles its refused request, skips the step, and waits for work."""
    def fill():
        try:
            torch.empty(1 << 50, device="cuda")
        except torch.OutOfMemoryError:
            time.sleep(1e6)  # HANDLES

    init()
    train(fill)


def label():
    def wrong():
        images, labels = batch()
        nn.functional.cross_entropy(network()(images), labels + 10).backward()  # LABEL
        torch.cuda.synchronize()

    init()
    train(wrong)


def watchdog():
    init(seconds=12)
    train(lambda: time.sleep(1e6))  # WATCHED


def unused():
    """Half of the parameters get no gradient."""
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.spare = network(), network()

        def forward(self, images):
            return self.used(images)

    init()
    train(model=nn.parallel.DistributedDataParallel(Half()))


def one_card():
    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    dist.all_reduce(torch.ones(4, device="cuda"))  # SAME_CARD
    torch.cuda.synchronize()


# ---- healthy ---------------------------------------------------------------------------------------------------------

def healthy():
    init()
    train()


def healthy_slow():
    init()
    train(lambda: time.sleep(5))


def healthy_save():
    """Rank 0 saves for a while, and rank 1 waits for it."""
    init()
    model = nn.parallel.DistributedDataParallel(network())
    train(model=model)
    if RANK == 0:
        for _ in range(5):
            time.sleep(1)
    dist.barrier()
    train(model=model)


def healthy_join():
    init()
    model = nn.parallel.DistributedDataParallel(network())
    with model.join():
        train(model=model, steps=STEPS if RANK == 0 else FAULT_AT)


def healthy_sharded():
    from torch.distributed.fsdp import FullyShardedDataParallel

    init()
    train(model=FullyShardedDataParallel(network()))


def healthy_graph():
    graph, _ = captured()
    for _ in range(STEPS):
        graph.replay()
    torch.cuda.synchronize()


def healthy_groups():
    """Several communicators, point-to-point calls, uneven gathers."""
    init()
    pair, data = dist.new_group([0, 1]), torch.ones(1 << 16, device="cuda")
    for _ in range(STEPS):
        dist.all_reduce(data, group=pair)
        (dist.send if RANK == 0 else dist.recv)(data, 1 - RANK)
        dist.all_gather([torch.empty(10, device="cuda"), torch.empty(20, device="cuda")], torch.ones(10 + 10 * RANK, device="cuda"))
        dist.reduce_scatter_tensor(torch.empty(1 << 15, device="cuda"), data)
    torch.cuda.synchronize()


def healthy_checkpoint():
    """Rank 0 writes a file, both read it, a process pool prepares data."""
    init()
    model, path = nn.parallel.DistributedDataParallel(network()), f"/tmp/ranks-{os.environ['MASTER_PORT']}.pt"
    for _ in range(3):
        train(model=model, steps=5)
        if RANK == 0:
            torch.save(model.state_dict(), path)
            time.sleep(2)
        dist.barrier()
        model.load_state_dict(torch.load(path, map_location="cuda"))
    dist.barrier()
    if RANK == 0:
        os.remove(path)


def healthy_objects():
    init()
    for step in range(STEPS):
        found = [None, None]
        dist.all_gather_object(found, {"rank": RANK, "text": "x" * (100 * RANK * step)})
        dist.broadcast_object_list([step] if RANK == 0 else [None], 0)
        dist.barrier()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    if dist.is_initialized():
        dist.destroy_process_group()
    print("done")
