"""Answers of NCCL's RAS (src/ras/client_support.cc, NCCL 2.24 to 2.28): text and JSON, made without NCCL."""

import json

HEAD = """NCCL version {version} compiled with CUDA 13.0
CUDA runtime version 13000, driver version 13000

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      1          {size}            1          {size}        {size}

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         {size}         {size}         {size}   RUNNING  {state}

Errors
======

{errors}
Warnings
========

{warnings}
"""
HASH = "27a079b828ff1a75"


def where(rank):
    return f"GPU {rank} managed by process {4700 + rank} on node 127.0.0.1"


def lines_of(kind, counts):
    """What RAS prints about ranks with different counts: outliers by name, others as a number."""
    text = f"#0-0 ({HASH}) MISMATCH\n  Communicator ranks have different {kind} operation counts\n"
    groups = {}
    for rank, count in counts.items():
        groups.setdefault(count, []).append(rank)
    for count, ranks in sorted(groups.items(), key=lambda item: -len(item[1])):
        done = f"launched up to operation {count}" if count else None
        if len(ranks) == 1:
            text += f"  Rank {ranks[0]} has {done or 'not launched any operations'} -- {where(ranks[0])}\n"
            continue
        text += f"  {len(ranks)} ranks have {done or 'not launched any operations'}\n"
        if len(ranks) <= 10 and len(ranks) * 4 <= len(counts):
            text += "".join(f"  Rank {rank} -- {where(rank)}\n" for rank in ranks)
    return text + "\n"


def text(size, counts=None, kind="AllReduce", missing=(), never=(), version="2.28.9"):
    errors = ""
    if missing:
        errors = (f"INCOMPLETE\n  Missing data from {len(missing)} process\n  The missing process:\n\n"
                  f"#0-0 ({HASH}) INCOMPLETE\n  Missing communicator data from {len(missing)} ranks\n")
        errors += "".join(f"  Rank {rank} -- {where(rank)}\n" for rank in missing)
        errors += "".join(f"  Rank {rank} -- [process information not found]\n" for rank in never) + "\n"
    warnings = lines_of(kind, counts) if counts else ""
    state = "MISMATCH" if counts else "INCOMPLETE" if missing else "OK"
    return HEAD.format(version=version, size=size, state=state, errors=errors, warnings=warnings)


def as_json(size, counts, missing=(), never=(), kind="AllReduce", dead=False):
    def rank_of(rank):
        return {"rank": rank, "host": "127.0.0.1", "pid": 4700 + rank if rank < size else -7, "cuda_dev": rank, "nvml_dev": rank}

    def here(rank, count):
        zero = {"Broadcast": 0, "Reduce": 0, "AllGather": 0, "ReduceScatter": 0, "AllReduce": 0}
        return dict(rank_of(rank), status={"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False,
                                           "abort_flag": False}, collective_counts=dict(zero, **{kind: count}))

    gone = [dict(rank_of(rank), status={"unresponsive": True, "considered_dead": dead}) for rank in (*missing, *never)]
    comm = {"hash": "0x" + HASH, "secondary_hash": "0x1:0x2", "size": size, "ranks_count": len(counts),
            "missing_ranks_count": len(gone), "ranks": [here(*item) for item in counts.items()], "missing_ranks": gone}
    return json.dumps({"nccl_version": "2.28.9", "cuda_runtime_version": 13000, "cuda_driver_version": 13000,
                       "timestamp": "2026-01-01 00:00:00", "communicators_count": 1, "communicators": [comm],
                       "ras": {"collection_time_sec": 0.001, "timeouts_count": 0}}, indent=2)
