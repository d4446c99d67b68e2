#!/usr/bin/env python3
"""One short training, for comparing a rehearsal with a real run. Prints one JSON line with the memory it took."""
import argparse
import contextlib
import json
import os
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet50", help="a torchvision model, timm:NAME, gpt2 or cnn")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--size", type=int, default=86, help="pixels, or tokens of gpt2")
    parser.add_argument("--optimizer", default="SGD")
    parser.add_argument("--zero", choices=("early", "late"), default="early",
                        help="call zero_grad() before the forward pass or just before the backward pass")
    parser.add_argument("--precision", choices=("fp32", "bf16", "fp16"), default="fp32")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--checkpoint", action="store_true", help="recompute activations")
    parser.add_argument("--graph", action="store_true", help="replay the iteration as a CUDA graph")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--benchmark", action="store_true", help="cudnn.benchmark")
    parser.add_argument("--lightning", action="store_true", help="let Lightning's Trainer run the iterations")
    parser.add_argument("--ddp", action="store_true", help="DistributedDataParallel with NCCL, under torchrun")
    parser.add_argument("--keep", choices=("no", "loss", "output"), default="no",
                        help="keep the loss with its graph, or a copy of the output, of every iteration")
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--fraction", type=float, default=0.0, help="PyTorch's own limit")
    return parser.parse_args()


def build(args, torch):
    from torch import nn
    name = args.model
    if name == "cnn":
        side = args.size // 4
        return nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                             nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                             nn.Flatten(), nn.Linear(128 * side * side, 1000))
    if name == "gpt2":
        import transformers
        config = transformers.GPT2Config(n_layer=6, n_positions=max(args.size, 64), resid_pdrop=0.0, embd_pdrop=0.0,
                                         attn_pdrop=0.0)
        return transformers.GPT2LMHeadModel(config)
    if name.startswith("timm:"):
        import timm
        return timm.create_model(name[5:], num_classes=1000)
    import torchvision
    return getattr(torchvision.models, name)(weights=None)


def process_bytes(torch):
    """What NVML says this process holds on the card; None if it does not say."""
    try:
        import pynvml
        pynvml.nvmlInit()
        card = pynvml.nvmlDeviceGetHandleByIndex(torch.cuda.current_device())
        for row in pynvml.nvmlDeviceGetComputeRunningProcesses(card):
            if row.pid == os.getpid():
                return row.usedGpuMemory
    except Exception as error:  # no NVML: say so instead of a number
        return str(error)
    return None


class Step:
    def __init__(self, args, torch):
        self.args, self.torch, self.output = args, torch, None
        self.model = build(args, torch).cuda()
        if args.channels_last:
            self.model = self.model.to(memory_format=torch.channels_last)
        make = getattr(torch.optim, args.optimizer)
        extra = {"momentum": 0.9} if args.optimizer == "SGD" and args.channels_last else {}
        if args.graph:
            extra["capturable"] = True
        self.optimizer = make(self.model.parameters(), lr=1e-3, **extra)
        self.scaler = torch.amp.GradScaler("cuda") if args.precision == "fp16" else None
        if args.compile:
            self.model = torch.compile(self.model)
        if args.ddp:
            self.model = torch.nn.parallel.DistributedDataParallel(self.model)

    def data(self):
        args, torch = self.args, self.torch
        if args.model == "gpt2":
            tokens = torch.randint(0, 50000, (args.batch_size, args.size))
            return tokens, tokens
        images = torch.randn(args.batch_size, 3, args.size, args.size)
        if args.channels_last:
            images = images.to(memory_format=torch.channels_last)
        return images, torch.randint(0, 1000, (args.batch_size,))

    def forward(self, images, labels):
        args, torch = self.args, self.torch
        kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
        cast = torch.autocast("cuda", kinds[args.precision]) if args.precision in kinds else contextlib.nullcontext()
        with cast:
            if args.model == "gpt2":
                return self.model(images, labels=labels).loss
            if args.checkpoint:
                out = torch.utils.checkpoint.checkpoint(self.model, images, use_reentrant=False)
            else:
                out = self.model(images)
            if hasattr(out, "logits"):
                out = out.logits
            self.output = out
            return torch.nn.functional.cross_entropy(out, labels)

    def once(self, images, labels):
        if self.args.zero == "early":
            self.optimizer.zero_grad()
        loss = self.forward(images, labels)
        if self.args.zero == "late":
            self.optimizer.zero_grad()
        if self.scaler is None:
            loss.backward()
            self.optimizer.step()
        else:
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        return loss


def graphed(step, torch):
    images, labels = (x.cuda() for x in step.data())
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step.once(images, labels)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step.once(images, labels)
    for _ in range(step.args.iterations):
        graph.replay()


def by_lightning(step, torch):
    """The same iterations in Lightning's loop: its order of zero_grad, forward, backward and step."""
    import logging

    import lightning
    logging.getLogger("lightning").setLevel(logging.ERROR)

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = step.model

        def training_step(self, batch, _):
            return step.forward(*batch)

        def configure_optimizers(self):
            return step.optimizer

    args = step.args
    batches = [step.data() for _ in range(args.iterations)]
    trainer = lightning.Trainer(accelerator="gpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Module(), torch.utils.data.DataLoader(batches, batch_size=None))


def main():
    args = arguments()
    start = time.monotonic()
    import torch
    import torch.utils.checkpoint
    if args.model not in ("cnn", "gpt2") and not args.model.startswith("timm:"):
        import torchvision  # noqa: F401
    imported = time.monotonic()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = args.benchmark
    if args.fraction:
        torch.cuda.set_per_process_memory_fraction(args.fraction)
    if args.ddp:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        torch.distributed.init_process_group("nccl")
    step = Step(args, torch)
    if args.graph:
        graphed(step, torch)
    elif args.lightning:
        by_lightning(step, torch)
    else:
        kept = []
        for _ in range(args.iterations):
            images, labels = step.data()
            loss = step.once(images.cuda(), labels.cuda())
            loss.item()
            if args.keep == "loss":
                loss = step.forward(images.cuda(), labels.cuda())  # a loss whose graph is alive
                kept.append(loss)
            elif args.keep == "output":
                kept.append(step.output.detach().repeat(64, 1))
            step.output = None
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    print(json.dumps({"imports_s": round(imported - start, 2), "work_s": round(time.monotonic() - imported, 2),
                      "reserved_now": stats["reserved_bytes.all.current"],
                      "allocated": stats["allocated_bytes.all.peak"], "reserved": stats["reserved_bytes.all.peak"],
                      "retries": stats["num_alloc_retries"], "process": process_bytes(torch), "pid": os.getpid()}),
          flush=True)
    if args.ddp:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
