#!/usr/bin/env python3
"""The batch finders of accelerate and Lightning under the limit that `gpuwhy fit` gets: their answers, trials and seconds.
One row a finder.

    tests/gpu/rehearse/finders.py [--gpuwhy build/gpuwhy] [GIB ...]"""
import argparse
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
FIRST = 1024  # where accelerate starts; it goes down from there
KINDS = ("accelerate", "lightning power", "lightning binsearch")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gib", type=int, nargs="*", default=[8, 24])
    parser.add_argument("--gpuwhy", default="build/gpuwhy")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--kind", help=argparse.SUPPRESS)
    return parser.parse_args()


# ---- inside the limit ----------------------------------------------------------------------------------------------

def by_accelerate(model, size, torch):
    from accelerate.utils import find_executable_batch_size
    tried = []

    @find_executable_batch_size(starting_batch_size=FIRST)
    def train(batch):
        tried.append(batch)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        for _ in range(3):
            images = torch.randn(batch, 3, size, size).cuda()
            loss = torch.nn.functional.cross_entropy(model(images), torch.randint(0, 1000, (batch,)).cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return batch

    return train(), tried


def by_lightning(model, size, torch, mode):
    import lightning
    from lightning.pytorch.tuner import Tuner
    tried = []

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model, self.batch_size = model, 2

        def train_dataloader(self):
            tried.append(self.batch_size)
            data = torch.utils.data.TensorDataset(torch.randn(1, 3, size, size).expand(8192, -1, -1, -1),
                                                  torch.zeros(8192, dtype=torch.long))
            return torch.utils.data.DataLoader(data, batch_size=self.batch_size)

        def training_step(self, batch, _):
            return torch.nn.functional.cross_entropy(self.model(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    trainer = lightning.Trainer(accelerator="gpu", devices=1, logger=False, enable_progress_bar=False,
                                enable_model_summary=False, max_epochs=1)
    answer = Tuner(trainer).scale_batch_size(Module(), mode=mode, steps_per_trial=3, init_val=2, max_trials=25)
    return answer, tried


def inside(args):
    import torch
    import torchvision
    model = getattr(torchvision.models, args.model)(weights=None).cuda()
    began = time.monotonic()
    if args.kind == "accelerate":
        answer, tried = by_accelerate(model, args.size, torch)
    else:
        answer, tried = by_lightning(model, args.size, torch, args.kind.split()[1])
    print(json.dumps({"answer": answer, "trials": len(tried), "tried": tried, "seconds": time.monotonic() - began}))


# ---- outside -------------------------------------------------------------------------------------------------------

def main():
    args = arguments()
    if args.kind:
        inside(args)
        return 0
    print(f"{'GiB':>4} {'finder':20} {'batch':>6} {'trials':>6} {'seconds':>8}")
    for gib in args.gib:
        for kind in KINDS:
            command = [args.gpuwhy, "run", "--quiet", "--no-history", "--memory", f"{gib}GiB", "--", sys.executable, "-B",
                       os.path.join(HERE, "finders.py"), "--model", args.model, "--size", str(args.size), "--kind", kind]
            done = subprocess.run(command, capture_output=True, text=True)
            lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
            if not lines:
                print(f"{gib:4} {kind:20} ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}", flush=True)
                continue
            one = json.loads(lines[-1])
            print(f"{gib:4} {kind:20} {one['answer']!s:>6} {one['trials']:6} {one['seconds']:8.1f}  {one['tried']}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
