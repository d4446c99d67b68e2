"""S30: no fault. plain (also with other allocators), graphs, workers, profiler."""

import sys

import torch

import cnn


def losses(seed, steps):
    torch.manual_seed(seed)
    trainer = cnn.Trainer()
    x, y = cnn.batch(32)
    values = [trainer.step(x, y) for _ in range(steps)]
    return [f"{v.item():.9g}" for v in values[::steps // 10]]


def plain():
    print(losses(1, 500))


def graphs():
    torch.manual_seed(1)
    net, criterion = cnn.model(), torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, capturable=True)
    x, y = cnn.batch(32)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    values = []
    for i in range(500):
        graph.replay()
        if i % 50 == 0:
            values.append(f"{loss.item():.9g}")
    print(values)


def worker(index, queue):
    configure()
    queue.put((index, losses(index, 100)))


def workers():
    context = torch.multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    processes = [context.Process(target=worker, args=(i, queue)) for i in range(4)]
    for process in processes:
        process.start()
    for index, values in sorted(queue.get() for _ in processes):
        print(index, values)
    for process in processes:
        process.join()
    sys.exit(max(process.exitcode for process in processes))


def profiler():
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        values = losses(1, 100)
    print(values, len(profile.key_averages()) > 10)


def configure():
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False


if __name__ == "__main__":
    configure()
    {"plain": plain, "graphs": graphs, "workers": workers, "profiler": profiler}[sys.argv[1]]()
