"""S07: blocks of mixed sizes and lifetimes. In the end enough memory is cached, but no block is large enough.

The fix is an environment variable, so the twin is the same program.
"""

import torch

MIB = 1 << 20
kept = []


def allocate(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


wide = [allocate(512) for _ in range(7)]  # long samples leave large segments
del wide
pieces = [allocate(64) for _ in range(56)]  # short ones split them ...
kept.append(pieces[::2])  # ... and half of the parts stay
del pieces
print("cached", torch.cuda.memory_reserved() > 3 * (1 << 30), flush=True)
batch = allocate(1024)
print("done", len(kept))
