"""The trainer's networks in PyTorch, trained as users would do it: channels last, autocast, cudnn.benchmark, SGD
with momentum, a batch that stays on the GPU.

    trainer_peer.py MODEL BATCH PRECISION        MODEL: small, resnet50; PRECISION: fp32 (without TF32), bf16

Prints "ready" after ten steps. Then each line on stdin is a number of seconds to train; the answer is a line with
images per second."""
import sys
import time

import torch


def small():
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2),
                         nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(128 * 7 * 7, 10))


def resnet50():
    import torchvision
    return torchvision.models.resnet50()


def main(model, batch, precision):
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    side, classes = {"small": (28, 10), "resnet50": (224, 1000)}[model]
    net = {"small": small, "resnet50": resnet50}[model]().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()
    images = torch.randn(batch, 3, side, side, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(0, classes, (batch,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=precision == "bf16"):
            loss = loss_of(net(images), labels)
        loss.backward()
        optimizer.step()

    for _ in range(10):
        step()
    torch.cuda.synchronize()
    print("ready", flush=True)
    for line in sys.stdin:
        seconds, steps, begin = float(line), 0, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            for _ in range(10):
                step()
            torch.cuda.synchronize()
            steps += 10
        print(steps * batch / (time.perf_counter() - begin), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
