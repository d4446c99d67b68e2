"""L15: with DDP the last rank keeps copies of its gradients: 32 MiB x 130 = 4.1 GiB on 4 GiB. repaired: none.

nccl 1: one rank; gloo 2: two ranks on one GPU; nccl 2: two ranks with a GPU each.
"""

import os
import socket
import sys

import torch
import torch.distributed as distributed


def rank(number, backend, count, keeps):
    torch.cuda.set_device(number if backend == "nccl" else 0)
    distributed.init_process_group(backend, rank=number, world_size=count)
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(2048, 2048, bias=False), torch.nn.Linear(2048, 2048, bias=False)).cuda()
    model = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    kept = []
    for _ in range(130):
        model(torch.randn(256, 2048, device="cuda")).square().mean().backward()
        if keeps and number == count - 1:
            kept.append([p.grad.clone() for p in model.parameters()])
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    distributed.destroy_process_group()


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    backend, count = sys.argv[1], int(sys.argv[2])
    torch.multiprocessing.spawn(rank, (backend, count, "repaired" not in sys.argv), nprocs=count)
    print("all ranks are done")
