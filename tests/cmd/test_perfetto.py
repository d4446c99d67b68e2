"""`gpuwhy export --to perfetto` and the memory tables: traces of real runs, read by a small decoder of its own, and by the
schema that Perfetto publishes where the Python package `perfetto` is installed or can be installed."""
import csv
import json
import os
import pathlib
import subprocess
import sys

from support import GPU, GPUWHY, Case, WAIT_S

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
CNN = os.environ.get("EXAMPLE_CNN", str(pathlib.Path(GPUWHY).parent / "examples" / "cnn"))
SLICE_BEGIN, SLICE_END, INSTANT, COUNTER = 1, 2, 3, 4


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """Return the fields of a message: {number: [values]}. A value is a number or bytes."""
    at, found = 0, {}
    while at < len(data):
        tag, at = varint(data, at)
        value, at = varint(data, at)
        if tag & 7 == 2:
            assert at + value <= len(data)
            value, at = data[at:at + value], at + value
        else:
            assert tag & 7 == 0
        found.setdefault(tag >> 3, []).append(value)
    return found


class Trace:
    """A decoded trace: tracks {uuid: (kind, name, parent)} and events [(t_ns, type, uuid, name, value, annotations)]."""

    def __init__(self, data):
        self.tracks, self.events, events, notes = {}, [], {}, {}
        for position, packet in enumerate(fields(data)[1]):
            packet = fields(packet)
            assert packet[13] == [3 if position == 0 else 2]
            for interned in packet.get(12, []):
                for number, names in ((2, events), (3, notes)):
                    for name in fields(interned).get(number, []):
                        name = fields(name)
                        assert name[1][0] not in names
                        names[name[1][0]] = name[2][0].decode()
            if 60 in packet:
                self.add_track(fields(packet[60][0]))
                continue
            event = fields(packet[11][0])
            name = events[event[10][0]] if 10 in event else event.get(23, [b""])[0].decode()
            annotations = {}
            for note in map(fields, event.get(4, [])):
                value = note.get(3, note.get(7, note.get(6)))[0]
                annotations[notes[note[1][0]]] = value.decode() if isinstance(value, bytes) else value
            assert event[11][0] in self.tracks
            self.events.append((packet[8][0], event[9][0], event[11][0], name, event.get(30, [None])[0], annotations))

    def add_track(self, track):
        kind, name = "named", track.get(2, [b""])[0].decode()
        if 3 in track:
            kind, name = "process", fields(track[3][0]).get(6, [b""])[0].decode()
        elif 4 in track:
            kind, name = "thread", fields(track[4][0])[2][0]
        elif 8 in track:
            kind = "counter"
        parent = track.get(5, [None])[0]
        assert parent is None or parent in self.tracks
        self.tracks[track[1][0]] = (kind, name, parent)

    def of(self, kind, name=None):
        return [uuid for uuid, track in self.tracks.items() if track[0] == kind and (name is None or track[1] == name)]

    def on(self, uuid):
        return [event for event in self.events if event[2] == uuid]


class Perfetto(Case):
    def record(self, batch="4096", memory="2GiB"):
        recording, verdict = self.folder / "r.gpuwhy", self.folder / "v.json"
        self.run_gpuwhy("run", "--gpu", f"{GPU},memory={memory}", "--no-history", "--quiet", "-o", recording, "--json",
                        verdict, "--", CNN, "--batch", batch)
        return recording, json.loads(verdict.read_text())

    def export(self, recording, to):
        done = self.run_gpuwhy("export", recording, "--to", to)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return done.stdout

    def test_a_failed_run(self):
        recording, verdict = self.record()
        self.assertTrue(verdict["cause"].startswith("gpu-oom"), verdict["headline"])
        trace = Trace(self.export(recording, "perfetto"))
        [process], threads = trace.of("process"), trace.of("thread")
        self.assertEqual(trace.tracks[process][1], "cnn")
        self.assertEqual({trace.tracks[thread][2] for thread in threads}, {process})
        streams = [uuid for uuid in trace.of("named") if "stream" in trace.tracks[uuid][1]]
        self.assertEqual({trace.tracks[stream][2] for stream in streams}, {process})
        launched = {event[5]["kernel"] for event in trace.events if "kernel" in event[5]}
        self.assertGreater(len(launched), 0)
        self.assertLessEqual(launched, {event[3] for stream in streams for event in trace.on(stream)})
        names = {event[3] for thread in threads for event in trace.on(thread)}
        self.assertLessEqual({"cuMemAlloc_v2", "cuLaunchKernel", "CUDA_ERROR_OUT_OF_MEMORY"}, names)
        [failure] = [event for event in trace.events if event[3] == "CUDA_ERROR_OUT_OF_MEMORY"]
        self.assertEqual((failure[1], failure[5]["call"], failure[5]["result"]), (INSTANT, "cuMemAlloc_v2", 2))
        self.assertEqual(f"{failure[0] / 1e9:.6f}", f"{verdict['failure']['t_s']:.6f}")
        [exit_event] = [event for event in trace.on(process) if event[3] == "exit"]
        self.assertEqual(exit_event[5], {"exit status": verdict["program"]["exit"]})

    def test_slices_and_counters(self):
        recording, verdict = self.record(batch="64", memory="16GiB")
        trace = Trace(self.export(recording, "perfetto"))
        slices = 0
        for uuid in trace.of("thread"):
            last, depth = 0, 0
            for t_ns, kind, *_ in trace.on(uuid):
                if kind in (SLICE_BEGIN, SLICE_END):
                    self.assertGreaterEqual(t_ns, last)
                    self.assertEqual(depth, 0 if kind == SLICE_BEGIN else 1)
                    last, depth, slices = t_ns, 1 - depth, slices + depth
            self.assertEqual(depth, 0)
        self.assertGreater(slices, 0)
        [allocated] = trace.of("counter", "GPU 0: allocated by the process")
        values = [(event[0], event[4]) for event in trace.on(allocated)]
        self.assertEqual(max(value for _, value in values), verdict["peak"]["bytes"])
        self.assertEqual(values[-1][1], 0)  # after the end of the process
        rows = list(csv.DictReader(self.export(recording, "memory-csv").decode().splitlines()))
        self.assertEqual([(int(row["t_ns"]), int(row["bytes"])) for row in rows if row["what"] == "allocated"], values)
        memory = json.loads(self.export(recording, "memory-json"))["memory"]
        self.assertEqual([(row["what"], row["bytes"]) for row in memory],
                         [(row["what"], int(row["bytes"])) for row in rows])
        self.assertEqual({row["pid"] is None for row in memory if row["what"] == "card_used"}, {True})
        whole = [row["bytes"] for row in memory if row["what"] == "device_used"]
        self.assertTrue(whole and min(whole) > 0)

    def test_each_call_of_a_ring_is_exported_once(self):
        """A failure and the end of the thread record the same ring. The calls of a thread are numbered: `total` is the
        number after the last one."""
        recording, _ = self.record()
        items = json.loads(self.export(recording, "json"))["items"]
        rings = [item for item in items if item["item"] == "ring"]
        self.assertGreater(len(rings), 0)
        calls = {(item["tid"], item["total"] - len(item["calls"]) + place): (item["tid"], call["t_ns"])
                 for item in rings for place, call in enumerate(item["calls"])}
        trace = Trace(self.export(recording, "perfetto"))
        shown = [(trace.tracks[event[2]][1], event[0]) for event in trace.events
                 if trace.tracks[event[2]][0] == "thread"
                 and set(event[5]) in ({"what", "stream"}, {"what", "stream", "kernel"}, {"bytes", "stream"})]
        self.assertEqual(sorted(shown), sorted(calls.values()))

    def test_the_published_schema(self):
        import pypi
        module = "perfetto.protos.perfetto.trace.perfetto_trace_pb2"
        try:
            python = pypi.python_with(["perfetto"], "perfetto", [module])
        except SystemExit as reason:
            self.skipTest(f"no Python with perfetto: {reason}")
        recording, _ = self.record()
        path = self.folder / "r.pftrace"
        path.write_bytes(self.export(recording, "perfetto"))
        program = f"""
import json, sys
from {module} import Trace
data = open({str(path)!r}, "rb").read()
trace = Trace.FromString(data)
assert trace.SerializeToString(deterministic=True)
bare = Trace.FromString(data)
bare.DiscardUnknownFields()
assert bare.SerializeToString(deterministic=True) == trace.SerializeToString(deterministic=True), "unknown fields"
names = {{}}
found = []
for packet in trace.packet:
    names.update((name.iid, name.name) for name in packet.interned_data.event_names)
    event = packet.track_event
    if event.type == event.TYPE_INSTANT:
        found.append(names[event.name_iid])
units = [p.track_descriptor.counter.unit for p in trace.packet if p.track_descriptor.HasField("counter")]
print(json.dumps([len(trace.packet), found, units]))
"""
        done = subprocess.run([python, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=WAIT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        packets, found, units = json.loads(done.stdout)
        self.assertEqual(packets, len(fields(path.read_bytes())[1]))
        self.assertIn("CUDA_ERROR_OUT_OF_MEMORY", found)
        self.assertIn(3, units)  # bytes

    def test_phases_are_slices_of_their_process(self):
        recording = self.folder / "r.gpuwhy"
        done = self.run_gpuwhy("run", "--gpu", GPU, "--no-history", "-o", recording, "--", os.environ["PHASE_MARKS"])
        self.assertEqual(done.returncode, 0, done.stderr)
        trace = Trace(self.export(recording, "perfetto"))
        names = {}
        for uuid in trace.of("named", "phases"):
            process, depth = trace.tracks[trace.tracks[uuid][2]], 0
            self.assertEqual(process[0], "process")
            for _, kind, _, name, _, _ in trace.on(uuid):
                depth += 1 if kind == SLICE_BEGIN else -1
                self.assertIn(depth, (0, 1))
                names.setdefault(uuid, []).append(name)
            self.assertEqual(depth, 0)
        first = [[name for name in one if name] for one in names.values()]
        self.assertIn(["first", "by a thread", "x" * 200], [one[:3] for one in first])
        self.assertIn(["in the child"], first)
