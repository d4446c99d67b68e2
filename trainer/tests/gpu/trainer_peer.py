"""The trainer's networks in PyTorch, trained as users would do it: channels last, autocast, cudnn.benchmark, SGD
with momentum (fused), a batch that stays on the GPU.

    trainer_peer.py MODEL BATCH PRECISION [MODE]
        MODEL: small, vgg11, resnet18, resnet50, mobilenetv2, efficientnet-b0; PRECISION: fp32 (without TF32), bf16
        MODE: eager (the default), or a mode of torch.compile: default, reduce-overhead, max-autotune

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


def vgg11():
    """The trainer's model has no dropout and no pooling before the linear layers."""
    import torchvision
    net = torchvision.models.vgg11()
    net.avgpool = torch.nn.Identity()
    net.classifier = torch.nn.Sequential(*[layer for layer in net.classifier
                                           if not isinstance(layer, torch.nn.Dropout)])
    return net


def of_torchvision(name):
    def make():
        import torchvision
        return getattr(torchvision.models, name)()
    return make


def main(model, batch, precision, mode="eager"):
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    make = {"small": small, "vgg11": vgg11, "resnet18": of_torchvision("resnet18"),
            "resnet50": of_torchvision("resnet50"), "mobilenetv2": of_torchvision("mobilenet_v2"),
            "efficientnet-b0": of_torchvision("efficientnet_b0")}[model]
    side, classes = (28, 10) if model == "small" else (224, 1000)
    net = make().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9, fused=True)
    loss_of = torch.nn.CrossEntropyLoss()
    images = torch.randn(batch, 3, side, side, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(0, classes, (batch,), device="cuda")

    def loss_with(images, labels):
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=precision == "bf16"):
            return loss_of(net(images), labels)

    if mode != "eager":
        loss_with = torch.compile(loss_with, mode=mode)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_with(images, labels).backward()
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
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
