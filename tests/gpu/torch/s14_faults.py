"""S14: a misaligned access, or a trap, in a kernel of the program; a later call reports the error.

    s14_faults.py misaligned | trap | repaired

NVRTC, which is installed with PyTorch, compiles the kernels: nothing else is needed."""

import sys

import torch

import cnn

SOURCE = """
extern "C" __global__ void read_wide(const char *bytes, float *out, int offset) {
    float4 four = *(const float4 *)(bytes + 16 * threadIdx.x + offset);
    out[threadIdx.x] = four.x + four.y + four.z + four.w;
}
extern "C" __global__ void trap_when(const float *data, float *out, int number) {
    if ((int)threadIdx.x == number)
        asm volatile("trap;");
    out[threadIdx.x] = data[threadIdx.x];
}
"""


def launch(name, number):
    kernel = torch.cuda._compile_kernel(SOURCE, name)
    data, out = torch.zeros(1024, device="cuda"), torch.zeros(64, device="cuda")
    kernel(grid=(1, 1, 1), block=(64, 1, 1), args=[data, out, number])
    return out


def main(variant):
    torch.manual_seed(1)
    trainer = cnn.Trainer()
    x, y = cnn.batch(64)
    for _ in range(20):
        trainer.step(x, y)
    torch.cuda.synchronize()
    print("first run done", flush=True)
    kept = [launch("read_wide", 4 if variant == "misaligned" else 0),
            launch("trap_when", 17 if variant == "trap" else -1)]
    for _ in range(20):
        trainer.step(x, y)
    torch.cuda.synchronize()
    print("second run done", len(kept))


main(sys.argv[1] if len(sys.argv) > 1 else "misaligned")
