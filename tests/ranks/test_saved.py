"""`gpuwhy explain` on what other programs saved about the ranks of a job: dumps of py-spy, alone and together with Flight
Recorder dumps, answers of NCCL's RAS, error files of torchrun and logs. Needs neither PyTorch nor py-spy nor a GPU.

Environment: GPUWHY_BUILD: the build folder.
"""

import json
import os
import pathlib
import pickle
import random
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
for folder in (HERE.parent, HERE.parent / "torch", HERE.parent / "ras"):
    sys.path.insert(0, str(folder))
import answers
import flight
import json_schemas
import stacks

GPUWHY = str(pathlib.Path(os.environ.get("GPUWHY_BUILD", "build")).resolve() / "gpuwhy")
ELSEWHERE = "rank 1 did not follow the others: it is"
WORKER = stacks.PLAIN[0].replace("5559", "6001").replace("    main (train.py:15)\n", "    _worker_loop (torch/utils/data/_utils/worker.py:349)\n")
WATCHDOG = ("step 39 loss 0.5\nstep 40 loss 0.4\n[rank0]:[E1127 10:00:00.1 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective "
            "operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for "
            "600029 milliseconds before timing out.\n")
OOM = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 200.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 70.00 GiB "
       "is free. Process 1 has 9.15 GiB memory in use. Of the allocated memory 8.00 GiB is allocated by PyTorch, and 0.50 GiB is reserved by "
       "PyTorch but unallocated.\n")
ERROR = {"message": {"message": "ValueError: shard 17 is empty", "extraInfo": {
    "py_callstack": 'Traceback (most recent call last):\n  File "/home/user/train.py", line 4, in read\n    raise ValueError("shard 17 is empty")\n'
                    "ValueError: shard 17 is empty\n", "timestamp": "1700000000"}}}
failures = []


def check(condition, what):
    if not condition:
        failures.append(what)
        print(f"FAILED   {what}")


class Folder:
    """Files of one case."""

    def __init__(self, root, name):
        self.path = pathlib.Path(root) / name
        self.path.mkdir()

    def put(self, **files):
        for name, content in files.items():
            path = self.path / name.replace("__", ".")
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return self

    def dumps(self, case):
        return self.put(**{f"dump_{rank}": pickle.dumps(dump, protocol=2) for rank, dump in enumerate(flight.CASES[case])})

    def explain(self, *names, status=None):
        words = names or sorted(os.listdir(self.path))
        done = subprocess.run([GPUWHY, "explain", "--json", *words], cwd=self.path, capture_output=True, text=True, timeout=120)
        check(status is None or done.returncode == status, f"{self.path.name}: exit {done.returncode}: {done.stderr}")
        if not done.stdout:
            check(False, f"{self.path.name}: no verdict: {done.stderr}")
            return {"cause": None, "certainty": None, "headline": "", "evidence": [], "alternatives": [], "where": None}, done.stderr
        verdict = json_schemas.check(json.loads(done.stdout))
        verdict["all"] = " | ".join([verdict["headline"], *(line["text"] for line in verdict["evidence"])])
        return verdict, done.stderr


def ranks(make, count=2):
    return {f"rank{rank}__txt": make(rank) for rank in range(count)}


def of_rank(rank, odd):
    """The dump of a rank of a larger job."""
    return stacks.NATIVE[rank == odd].replace("5559", str(7000 + rank)).replace("5560", str(7000 + rank))


def check_unsure(verdict, wanted, name):
    check(verdict["cause"] is None and verdict["status"] == "undetermined", f"{name}: {verdict['cause']}: {verdict['headline']}")
    for text in wanted:
        check(text in verdict["all"], f"{name}: no '{text}' in: {verdict['all']}")


# ---- py-spy alone ----

def test_forms(root):
    doing = {"PLAIN": "waiting", "NATIVE": "sleeping (in clock_nanosleep)", "LOCALS": "waiting", "JSON": "sleeping (in clock_nanosleep)"}
    for form, texts in ((form, getattr(stacks, form)) for form in doing):
        verdict, errors = Folder(root, form).put(**ranks(lambda rank: texts[rank])).explain(status=1)
        check(errors == "", f"{form}: {errors}")
        check_unsure(verdict, [f"{ELSEWHERE} {doing[form]} at train.py:4 in read", "train.py:8 in step", "in all_reduce",
                               "a dump shows one moment"], form)
        check(verdict["where"]["line"] == 4, f"{form}: {verdict['where']}")
        check([it["cause"] for it in verdict["alternatives"]] == ["peer-died"], f"{form}: {verdict['alternatives']}")


def test_many(root):
    verdict, _ = Folder(root, "eight").put(**ranks(lambda rank: of_rank(rank, 3), 8)).explain()
    check_unsure(verdict, ["rank 3 did not follow the others: it is sleeping", "ranks 0-2, 4-7 are waiting for a lock"], "eight")
    # all dumps in one file, where nothing shows the ranks, with the lines of a script and Windows line ends
    one = "== node 1\n" + "\n".join(of_rank(rank, 3) for rank in range(8)).replace("\n", "\r\n")
    verdict, _ = Folder(root, "one_file").put(dumps__txt=one).explain()
    check_unsure(verdict, ["pid 7003 (/usr/bin/python3 -u train.py 1) did not follow the others"], "one_file")
    # the digits of the name are the pid
    verdict, _ = Folder(root, "pids").put(**{f"dump-{7000 + rank}__txt": of_rank(rank, 3) for rank in range(8)}).explain()
    check_unsure(verdict, ["pid 7003 (/usr/bin/python3 -u train.py 1) did not follow the others"], "pids")
    # the digits of the name are another number, such as the pid outside of a container
    verdict, _ = Folder(root, "other_pids").put(**{f"dump_{1230 + rank}__txt": of_rank(rank, 3) for rank in range(8)}).explain()
    check_unsure(verdict, ["pid 7003 (/usr/bin/python3 -u train.py 1) did not follow the others"], "other pids")
    # py-spy dump --subprocesses: a process that loads data is not a rank
    verdict, _ = Folder(root, "helpers").put(**ranks(lambda rank: stacks.PLAIN[rank] + WORKER)).explain()
    check_unsure(verdict, [f"{ELSEWHERE} waiting at train.py:4 in read"], "helpers")


def test_alone(root):
    verdict, _ = Folder(root, "alone").put(rank1__txt=stacks.NATIVE[1]).explain()
    check_unsure(verdict, ["rank 1 is sleeping (in clock_nanosleep) at train.py:4 in read", "thread 5801 (pin_memory) is waiting for a lock"], "alone")
    verdict, _ = Folder(root, "agree").put(**ranks(lambda rank: of_rank(rank, None), 4)).explain()
    check_unsure(verdict, ["ranks 0-3 are waiting for a lock"], "agree")
    check(verdict["alternatives"] == [], f"agree: {verdict['alternatives']}")
    # two ranks at two places, none of them in a collective: neither is the odd one
    both = [stacks.PLAIN[1], stacks.PLAIN[1].replace("read (train.py:4)", "write (train.py:31)")]
    verdict, _ = Folder(root, "apart").put(**ranks(lambda rank: both[rank])).explain()
    check_unsure(verdict, ["none of them is the odd one"], "apart")
    check(verdict["alternatives"] == [], f"apart: {verdict['alternatives']}")


def test_twice(root):
    """Only ranks that did not go on between two dumps support a cause, and only local variables show that."""
    later = {"same": lambda rank: stacks.LOCALS[rank], "moved": lambda rank: stacks.LOCALS[rank].replace("i: 0", "i: 1"),
             "one_moved": lambda rank: stacks.LOCALS[rank].replace("i: 0", "i: 1" if rank == 0 else "i: 0"),
             "elsewhere": lambda rank: stacks.LOCALS[1 - rank].replace(str(5560 - rank), str(5559 + rank))}
    for name, second in later.items():
        verdict, _ = Folder(root, f"twice_{name}").put(**ranks(lambda rank: stacks.LOCALS[rank] + second(rank))).explain()
        # the same dumps in files of their own
        apart = Folder(root, f"apart_{name}").put(**{f"rank{rank}__{n}__txt": text for rank in (0, 1)
                                                     for n, text in enumerate((stacks.LOCALS[rank], second(rank)))}).explain()[0]
        if name == "same": # one may be a copy of the other
            check_unsure(apart, [ELSEWHERE, "one may be a copy of the other"], "equal files")
        else:
            check((apart["cause"], apart["headline"]) == (verdict["cause"], verdict["headline"]), f"{name}: files apart: {apart['headline']}")
        if name == "same":
            check((verdict["cause"], verdict["certainty"]) == ("peer-died", "supported"), f"{name}: {verdict['cause']} {verdict['headline']}")
            check("the same local variables" in verdict["all"] and ELSEWHERE in verdict["headline"], f"{name}: {verdict['all']}")
        else:
            check_unsure(verdict, ["went on between its dumps"], name)
    # dumps in files of their own that differ elsewhere are no copies
    extra = "Thread 9000 (idle): \"pin_memory\"\n    wait (threading.py:320)\n"
    verdict = Folder(root, "apart_other_thread").put(**{f"rank{rank}__{n}__txt": stacks.LOCALS[rank] + n * extra
                                                        for rank in (0, 1) for n in (0, 1)}).explain()[0]
    check(verdict["cause"] == "peer-died", f"files apart, not equal: {verdict['headline']}")
    for form in ("PLAIN", "NATIVE"):
        verdict, _ = Folder(root, f"twice_{form}").put(**ranks(lambda rank: 2 * getattr(stacks, form)[rank])).explain()
        check_unsure(verdict, [ELSEWHERE, "a dump shows one moment"], f"two dumps, {form}")
    with_locals = [text.replace('"locals":null', '"locals":[{"name":"i","addr":1,"arg":true,"repr":"0"}]') for text in stacks.JSON]
    verdict, _ = Folder(root, "json_same").put(**ranks(lambda rank: 2 * with_locals[rank])).explain()
    check(verdict["cause"] == "peer-died", f"two dumps as JSON: {verdict['headline']}")
    verdict, _ = Folder(root, "json_moved").put(**ranks(lambda rank: with_locals[rank] + with_locals[rank].replace('"repr":"0"', '"repr":"1"'))).explain()
    check_unsure(verdict, ["went on between its dumps"], "two dumps as JSON, moved")


# ---- files that cannot be used ----

def test_refused(root):
    bad = {"no_threads__txt": ("Process 12: python a.py\nPython v3.11.7 (/usr/bin/python3)\n", "without threads"),
           "cut__json": (stacks.JSON[0][:-30], "at byte"), "deep__json": ('[{"os_thread_id": ' + "[" * 200, "at byte"),
           "huge__json": ('[{"os_thread_id": [' + "{}," * 4000000, "of memory would be needed")}
    for name, (text, why) in bad.items():
        folder = Folder(root, f"bad_{name}").put(**{name: text})
        path = name.replace("__", ".")
        done = subprocess.run([GPUWHY, "explain", path], cwd=folder.path, capture_output=True, text=True, timeout=60)
        check(done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1, f"{name}: {done.returncode} {done.stdout} {done.stderr}")
        check(path in done.stderr and why in done.stderr, f"{name}: {done.stderr}")
        # beside good files it is skipped
        verdict, errors = folder.put(**ranks(lambda rank: stacks.NATIVE[rank])).explain()
        check(errors.count("\n") == 1 and f"skipped: {path}" in errors, f"{name}: {errors}")
        check_unsure(verdict, [ELSEWHERE], name)
    folder = Folder(root, "junk").put(**ranks(lambda rank: stacks.NATIVE[rank])).put(junk__bin=bytes(range(256)) * 20)
    verdict, errors = folder.explain()
    check("skipped: junk.bin: neither" in errors, errors)
    check_unsure(verdict, [ELSEWHERE], "junk")
    os.mkfifo(folder.path / "pipe.txt")
    verdict, errors = folder.explain(".") # a FIFO in a folder is not opened, and binary files are not evidence
    check(errors == "", errors)
    check_unsure(verdict, [ELSEWHERE], "a folder")


def test_broken(root):
    """Damaged dumps never crash the program."""
    chance = random.Random(5)
    folder = Folder(root, "broken")
    for number in range(60):
        data = bytearray(chance.choice([*stacks.LOCALS, *stacks.JSON]).encode())
        for _ in range(chance.randint(1, 8)):
            at = chance.randrange(len(data))
            data[at:at + chance.randint(0, 9)] = bytes(chance.randrange(256) for _ in range(chance.randint(0, 5)))
        (folder.path / "rank0.txt").write_bytes(data)
        done = subprocess.run([GPUWHY, "explain", "--json", "rank0.txt"], cwd=folder.path, capture_output=True, timeout=60)
        check(done.returncode in (0, 1, 2), f"damaged dump {number}: {done.returncode} {done.stderr[-300:]}")


# ---- several kinds ----

def mixture(root, name, case, *, same_counts=True):
    counts = {0: 41, 1: 40}
    return Folder(root, name).dumps(case).put(**{f"pyspy_rank{rank}__txt": stacks.NATIVE[rank] for rank in (0, 1)}).put(
        ras1__txt=answers.text(2, counts), ras2__txt=answers.text(2, counts if same_counts else {0: 42, 1: 41}),
        rank0__log=WATCHDOG, rank1__log="step 39 loss 0.5\nstep 40 loss 0.4\n")


def test_mixture(root):
    folder = mixture(root, "mixture", "behind").put(junk__bin=bytes(range(256)) * 20)
    named = ["dump_0", "dump_1", "ras1.txt", "ras2.txt", "pyspy_rank0.txt", "pyspy_rank1.txt", "rank0.log", "rank1.log", "junk.bin"]
    for words in (named, list(reversed(named)), ["."]):
        verdict, errors = folder.explain(*words)
        name = f"mixture {words[0]}"
        check((verdict["cause"], verdict["certainty"]) == ("straggler", "supported"), f"{name}: {verdict['cause']} {verdict['headline']}")
        for text in ("rank 1 has not called all_reduce #41: it is sleeping (in clock_nanosleep) at train.py:4 in read", "rank 0 waits in all_reduce #41",
                     "NCCL's RAS: rank 1 (pid 4701) has launched 40", "the verdict is about these files", "peer-died, hypothesis"):
            check(text in verdict["all"], f"{name}: no '{text}' in {verdict['all']}")
        for path in named[:-1]:
            check(path in verdict["all"], f"{name}: {path} is not named: {verdict['all']}")
        check(("skipped: junk.bin" in errors) == (words != ["."]), f"{name}: {errors}")
    # a rank that failed by itself comes first, by a log or by an error file of torchrun
    verdict, _ = mixture(root, "with_oom", "behind").put(rank1__log=OOM).explain()
    check(verdict["cause"].startswith("gpu-oom") and "rank 1 has not called all_reduce #41" in verdict["all"], f"OOM: {verdict['all']}")
    verdict, _ = mixture(root, "with_error", "behind").put(error__json=json.dumps(ERROR)).explain(".")
    check(verdict["cause"] == "script-exception" and "straggler, supported" in verdict["all"], f"error file: {verdict['all']}")
    # counts and stacks, without dumps of calls
    some = ["ras1.txt", "ras2.txt", "pyspy_rank0.txt", "pyspy_rank1.txt"]
    verdict, _ = mixture(root, "no_dumps", "behind").explain(*some)
    check((verdict["cause"], verdict["certainty"]) == ("peer-died", "supported"), f"RAS and stacks: {verdict['all']}")
    check("rank 1 is sleeping" in verdict["all"] and "launched 40" in verdict["all"], f"RAS and stacks: {verdict['all']}")
    verdict, _ = mixture(root, "no_dumps_moved", "behind", same_counts=False).explain(*some)
    check_unsure(verdict, ["rank 1 is sleeping"], "RAS that went on")
    # one bad file of each kind
    folder = mixture(root, "some_bad", "other_op").put(dump_0=b"\x80\x02}q\x00(X\x09\x00\x00\x00pg_configK\x01u.", ras1__txt='{"nccl_version": "2.28", "communicators": [',
                                                       pyspy_rank0__txt="Process 12: a\nPython v3.11\n")
    verdict, errors = folder.explain()
    check(errors.count("skipped: ") == 3, f"three bad files: {errors}")
    check(verdict["certainty"] != "established" and "dump_1" in verdict["all"], f"three bad files: {verdict['all']}")


def test_healthy(root):
    """The same files of a job that works."""
    folder = mixture(root, "healthy", "finished", same_counts=False).put(rank0__log="step 39 loss 0.5\nstep 40 loss 0.4\nTraining completed, saved model.pt\n")
    verdict, errors = folder.explain()
    check(verdict["status"] in ("clean", "undetermined") and verdict["cause"] is None, f"healthy: {verdict['cause']} {verdict['all']}")
    check(errors == "", errors)


def main():
    tests = [test for name, test in globals().items() if name.startswith("test_")]
    with tempfile.TemporaryDirectory() as root:
        for test in tests:
            test(root)
    print(f"{len(tests)} tests, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
