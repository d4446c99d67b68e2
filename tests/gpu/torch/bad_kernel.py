"""A kernel of the program that writes far outside every block."""

import torch

SOURCE = """
extern "C" __global__ void write_far_away(float *data, int gigabytes) {
    data[(size_t)gigabytes * (1 << 28) + threadIdx.x] = 1.0f;
}
"""


def launch(gigabytes=4096):
    kernel = torch.cuda._compile_kernel(SOURCE, "write_far_away")
    data = torch.zeros(1024, device="cuda")
    kernel(grid=(1, 1, 1), block=(256, 1, 1), args=[data, gigabytes])
    return data
