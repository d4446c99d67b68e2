"""S35: whole arrays are copied to the device at once: one block of 10 GiB. repaired: copied in parts."""

import sys

import torch

MIB = 1 << 20
images = torch.empty(10 * 1024 * MIB // (3 * 28 * 28 * 4), 3, 28, 28)
if len(sys.argv) > 1 and sys.argv[1] == "repaired":
    for first in range(0, len(images), len(images) // 200):
        part = images[first:first + 3200].cuda()
else:
    everything = images.cuda()
torch.cuda.synchronize()
print("on the device")
