"""Flight Recorder dumps in the form of format 2.10 and older ones (a pickle of protocol 2), made without PyTorch.

As a program: flight.py FOLDER writes every case as FOLDER/<case>_<rank>.
"""

import copy
import json
import os
import pickle
import sys

START_NS = 1_724_779_239_000_000_000
TORCH = "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py"


def call(number, op="all_reduce", size=(1024, 1024), dtype="Float", line=57, state="completed", group=("0", "default_pg"),
         p2p=False, backend="nccl:"):
    t_ns = START_NS + number * 1_000_000_000
    frames = [{"name": op, "filename": TORCH, "line": 2810}, {"name": "step", "filename": "/home/user/train.py", "line": line},
              {"name": "<module>", "filename": "/home/user/train.py", "line": 90}]
    return {"frames": frames, "record_id": number, "pg_id": int(group[0]), "process_group": group,
            "collective_seq_id": number, "p2p_seq_id": number if p2p else 0, "op_id": number,
            "profiling_name": backend + op, "time_created_ns": t_ns, "input_sizes": [list(size)],
            "input_dtypes": [dtype], "output_sizes": [list(size)], "output_dtypes": [dtype], "state": state,
            "time_discovered_started_ns": None,
            "time_discovered_completed_ns": t_ns + 5 if state == "completed" else None,
            "retired": state == "completed", "timeout_ms": 600000, "is_p2p": p2p}


def waits(number, op="all_reduce", **more):
    return call(number, op, state="scheduled", **more)


def before(count, first=1, **more):
    return [call(i, **more) for i in range(first, count + 1)]


def dump(entries, world=2, groups=(("0", "default_pg"),), version="2.10", last=None):
    config = {name: {"name": name, "desc": desc, "ranks": str(list(range(world)))} for name, desc in groups}
    if last is None:
        last = max([e.get("collective_seq_id", 0) for e in entries], default=-1)
    status = {name: {"last_enqueued_collective": last, "last_started_collective": -1, "last_completed_collective": last}
              for name, desc in groups}
    return {"version": version, "comm_lib_version": "2.28.9", "pg_config": config, "pg_status": status, "entries": entries}


def old(entries):
    """Entries as versions before 2.2 wrote them."""
    entries = copy.deepcopy(entries)
    for entry in entries:
        entry["seq_id"] = entry.pop("collective_seq_id")
        for key in ("p2p_seq_id", "is_p2p", "timeout_ms", "input_dtypes", "output_dtypes"):
            del entry[key]
    return entries


def ranks(count, make):
    return [dump(make(rank), count) for rank in range(count)]


TP = ("1", "tensor")
BOTH = (("0", "default_pg"), TP)

# name: the dumps of ranks 0, 1, ...
CASES = {
    "other_op": [dump(before(40) + [waits(41)]), dump(before(40) + [waits(41, "broadcast", line=60)])],
    "other_size": [dump(before(40) + [waits(41)]), dump(before(40) + [waits(41, size=(1000,), line=60)])],
    "other_type": [dump(before(40) + [waits(41)]), dump(before(40) + [waits(41, dtype="BFloat16", line=60)])],
    # the calls parted at 38; both ranks went on, since calls do not wait for the GPU
    "parted": [dump(before(37) + [waits(38), waits(39), waits(40)]),
               dump(before(37) + [waits(38, "_all_gather_base", line=60), waits(39), waits(40)])],
    "barrier": [dump(before(40) + [waits(41)]), dump(before(40) + [waits(41, "all_reduce_barrier", size=(1,), line=60)])],
    "one_of_eight": ranks(8, lambda r: before(9) + [waits(10, "broadcast", line=61) if r == 3 else waits(10)]),
    "second_group": [dump(before(5) + before(7, group=TP) + [waits(8, group=TP)], groups=BOTH),
                     dump(before(5) + before(7, group=TP) + [waits(8, "reduce", group=TP, line=60)], groups=BOTH)],
    "old": [dump(old(before(40) + [waits(41)]), version="2.0"),
            dump(old(before(40) + [waits(41, "broadcast", line=60)]), version="2.0")],
    "behind": [dump(before(40) + [waits(41, line=58)]), dump(before(40))],
    "behind_of_eight": ranks(8, lambda r: before(9) + ([] if r in (2, 5) else [waits(10, line=58)])),
    "never_called": [dump([waits(1)]), dump([])],
    "only_active": [dump([waits(41, line=58)]), dump([], last=40)],
    # the repaired programs, and those that only look alike
    "finished": [dump(before(41)), dump(before(41))],
    "agree": [dump(before(40) + [waits(41)]), dump(before(40) + [waits(41)])],
    "uneven_all_to_all": [dump(before(40) + [waits(41, "all_to_all", size=(10,))]),
                          dump(before(40) + [waits(41, "all_to_all", size=(20,))])],
    "uneven_all_gather": [dump(before(40) + [waits(41, "all_gather", size=(10,))]),
                          dump(before(40) + [waits(41, "all_gather", size=(20,))])],
    "grouped": [dump(before(40) + [waits(41, "broadcast", size=(10,)), waits(41, "broadcast", size=(20,)), waits(41, "coalesced")]),
                dump(before(40) + [waits(41, "broadcast", size=(20,)), waits(41, "broadcast", size=(10,)), waits(41, "coalesced")])],
    "unknown_names": [dump(before(40) + [waits(41, "all_reduce_new")]), dump(before(40) + [waits(41, "coalesced")])],
    "completed_apart": [dump(before(40) + [call(41)]), dump(before(40) + [call(41, "broadcast")])],
    "send_and_receive": [dump(before(40) + [waits(40, "send 0->1", p2p=True)]),
                         dump(before(40) + [waits(40, "recv 1<-0", p2p=True, size=(7,))])],
    "one_alone": [dump(before(40) + [waits(41)], world=4)],
    "only_active_agree": [dump([waits(41)]), dump([], last=41)],
    "no_calls": [dump([]), dump([])],
}


def as_json(content):
    """As PyTorch's handler dump_nccl_trace_json answers: keys are sorted, numbers of groups are texts, calls have no
    stacks, times that are not known are 0, and a list of no calls is left out."""
    content = copy.deepcopy(content)
    for status in content["pg_status"].values():
        status.update({key: str(number) for key, number in status.items()})
    for entry in content["entries"]:
        del entry["frames"]
        entry.update({key: 0 for key, value in entry.items() if key.startswith("time_discovered") and value is None})
    if not content["entries"]:
        del content["entries"]
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def write(folder):
    for name, dumps in CASES.items():
        for rank, content in enumerate(dumps):
            path = os.path.join(folder, f"{name}_{rank}")
            with open(path, "wb") as file:
                pickle.dump(content, file, protocol=2)
            with open(f"{path}.json", "w") as file:
                file.write(as_json(content))


if __name__ == "__main__":
    write(sys.argv[1])
