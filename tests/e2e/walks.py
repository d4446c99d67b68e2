"""Compare the hook's stacks with the C library's at the same place: recursion, signal handlers (also on their own
stack), coroutines on stacks that are freed, a library that is unloaded and another one mapped in its place, 200
forked children, 64 threads that reach the same new stacks at once, and more new stacks at once than the buffer
holds, without losing any event.
"""
import collections
import csv
import io
import os

from harness import BUILD, SANITIZE, Card, Workplace, expect, gpuwhy, main, new_folder, run_observed

WALKS = BUILD / "tests" / "hook" / "hook_walks"
CHILDREN, THREADS, ROUNDS, STORM = 200, 64, 8, 5000


def rows_of(run, item="event"):
    status, out, err = gpuwhy("export", run.recording, "--to", "csv", folder=run.folder)
    expect(status == 0, f"export: {err}")
    return [row for row in csv.DictReader(io.StringIO(out)) if row["item"] == item]


class Sites:
    """Each process's sites from the recording, and its mapped files in the recorded order."""

    def __init__(self, rows):
        self.frames = collections.defaultdict(dict)
        self.counts, self.flags, self.position = {}, {}, {}
        self.files = collections.defaultdict(list)
        for position, row in enumerate(rows):
            pid, arg = int(row["pid"]), [int(row[f"arg{i}"] or 0) for i in range(4)]
            if row["kind"] == "SITE":
                expect((pid, arg[0]) not in self.counts, f"site {arg[0]} of {pid} is told twice")
                self.counts[pid, arg[0]], self.flags[pid, arg[0]] = arg[1], arg[2]
                self.position[pid, arg[0]] = position
            elif row["kind"] == "SITE_FRAMES":
                for i in range(3):
                    self.frames[pid, arg[0] & 0xffffffff][(arg[0] >> 32) + i] = arg[1 + i]
            elif row["kind"] == "MAPPED":
                self.files[pid].append((position, arg[0], arg[0] + arg[1], row["value"]))

    def stack(self, pid, site):
        expect((pid, site) in self.counts, f"process {pid}: site {site} is named and never told")
        found = self.frames[pid, site]
        return [found[i] for i in range(self.counts[pid, site])]

    def file_at(self, pid, site, address):
        found = [path for position, low, high, path in self.files[pid]
                 if position < self.position[pid, site] and low <= address < high]
        return found[-1] if found else None


def told(run):
    """Return the program's output: (name, pid, address of the allocation, stack)."""
    result = []
    for line in run.stdout.decode().splitlines():
        words = line.split()
        if words and words[0] == "alloc":
            result.append((words[1], int(words[2]), int(words[3]), [int(w) for w in words[4:]]))
    return result


def site_by_allocation(rows):
    """Return (pid, address) -> site; a failed allocation has address 0."""
    found = {}
    for row in rows:
        if row["kind"] == "ALLOC":
            found[int(row["pid"]), int(row["arg0"] or 0)] = int(row["site"] or 0)
    return found


def same(ours, theirs, name):
    """Compare frame by frame. For an interrupted frame our address is one byte higher. The end of a coroutine's
    stack is not checked."""
    frames = ours[1:]
    if SANITIZE and len(theirs) > 1 and frames[:1] == theirs[1:2]:
        theirs = theirs[1:]  # the sanitizer is between the program and its backtrace()
    if name == "coroutine":
        length = min(len(frames), len(theirs))
        expect(length > 12, f"coroutine: {len(frames)} frames")
        frames, theirs = frames[:length], theirs[:length]
    return len(frames) == len(theirs) and all(a == b or (name == "signal" and a == b + 1) for a, b in zip(frames, theirs))


def test():
    plugins = [BUILD / "src" / "inside" / "hook" / f"libgw_unwind_plugin_{letter}.so" for letter in "ab"]
    with Workplace() as place:
        run = run_observed([WALKS, *plugins], Card("8GiB"), new_folder(place, "walks"))
        expect(run.status == 0, f"exit {run.status}: {run.stderr.decode(errors='replace')[-2000:]}")
        rows = rows_of(run)
        sites, site_of, lines = Sites(rows), site_by_allocation(rows), told(run)
        by_name = collections.Counter()
        for name, pid, address, theirs in lines:
            site = site_of.get((pid, address), 0)
            expect(site != 0, f"{name}: allocation {address:#x} of {pid} has no site")
            ours = sites.stack(pid, site)
            expect(same(ours, theirs, name), f"{name}: the hook saw\n  {[hex(f) for f in ours[1:]]}\nthe program\n  "
                   f"{[hex(f) for f in theirs]}")
            expect(sites.file_at(pid, site, ours[0]) == os.path.realpath(WALKS), f"{name}: the caller's file is "
                   f"{sites.file_at(pid, site, ours[0])}")
            if name.endswith(".so"):
                seen = sites.file_at(pid, site, ours[1] - 1)
                expect(seen == name, f"{name} was taken for {seen}")
            by_name[os.path.basename(name)] += 1
        expect(by_name["child"] == CHILDREN, f"{by_name['child']} children")
        expect(by_name["thread"] == THREADS * ROUNDS, f"{by_name['thread']} allocations of threads")
        two = [site_of[pid, address] for name, pid, address, _ in lines if name == "line"]
        expect(len(set(two)) == 2, f"two lines of one function are the sites {two}")
        deep = {site_of[pid, address] for name, pid, address, _ in lines if name == "deep"}
        expect(len(deep) == 20, f"20 depths are {len(deep)} sites")
        stacks = {tuple(theirs) for name, _, _, theirs in lines if name == "thread"}
        threads = {site_of[pid, address] for name, pid, address, _ in lines if name == "thread"}
        expect(len(threads) >= len(stacks), f"{len(stacks)} stacks of threads are {len(threads)} sites")
        lost = [row for row in rows_of(run, "lost")]
        expect(not lost, f"events were lost: {lost}")
        allocations = sum(row["kind"] == "ALLOC" for row in rows)
        expect(allocations == len(lines) + STORM, f"{allocations} allocations, of {len(lines)} + {STORM}")
        record_bytes = run.recording.stat().st_size
        print(f"{sum(by_name.values())} stacks are the C library's: {dict(by_name)}; {len(sites.counts)} sites, "
              f"{len(stacks)} stacks of 64 threads under {len(threads)} numbers; {record_bytes} bytes in all")


if __name__ == "__main__":
    main(test)
