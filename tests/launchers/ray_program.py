"""Two workers of Ray Train on the CPU; the worker with rank 1 fails in its fourth step."""
import pathlib
import sys

import ray
import ray.train
import ray.train.torch

HERE = str(pathlib.Path(__file__).resolve().parent)


def loop():
    sys.path.insert(0, HERE)
    import rank
    number = ray.train.get_context().get_world_rank()
    rank.begin()
    for step in range(6):
        rank.allocate(1 << (50 if number == 1 and step == 3 else 20))


if __name__ == "__main__":
    ray.init(num_cpus=4, include_dashboard=False)
    ray.train.torch.TorchTrainer(loop, scaling_config=ray.train.ScalingConfig(num_workers=2, use_gpu=False)).fit()
