"""S07: blocks of mixed sizes and lifetimes. In the end enough is cached, but no block is large enough.

The cure is a setting of the environment, so the twin is the same program under it.
"""

import torch

MIB = 1 << 20
kept = []


def allocate(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


wide = [allocate(512) for _ in range(7)]  # long samples leave wide segments behind
del wide
pieces = [allocate(64) for _ in range(56)]  # short ones split them ...
kept.append(pieces[::2])  # ... and half of the pieces stay
del pieces
print("cached", torch.cuda.memory_reserved() > 3 * (1 << 30), flush=True)
batch = allocate(1024)
print("done", len(kept))
