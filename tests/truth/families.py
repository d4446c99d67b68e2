"""The families of programs. Each function draws one program with both of its versions, faulty and repaired, and
returns the truth about the faulty one: `Truth`. truth.py checks it by arithmetic before it runs anything.
"""
from plans import (CHUNK, CONTEXT, GIB, KIB, MIB, NEXT_CONTEXT, PAGE, STREAM, Impossible, Node, alloc, call, loop, only_faulty,
                   only_repaired, varied_loop, when)

ESTABLISHED_OR_SUPPORTED = ("established", "supported")


class Truth:
    """The truth about a program.

    name: of the row in the table. ends: how the faulty program ends ("oom", "exit", "kill", "throw"). right:
    verdicts that are right, {cause: certainties}; the causes "clean" and "undetermined" have no certainties. true:
    causes that may be called established; every other established cause is an overclaim. decisive: the cause that the
    recording proves, because an observation in it admits no other one; it must be established. leak: whether "ruled out: a
    leak" is false. lists: whether a clean run may list leaks. ambiguous: why "undetermined" is right, too. beside: causes
    of which the verdict must name one, as the cause or as an alternative. status: the exit status, if it is not the
    usual one."""

    def __init__(self, name, ends, right, true, leak=False, ambiguous=None):
        self.name, self.ends, self.right, self.true = name, ends, right, set(true)
        self.leak, self.ambiguous, self.lists = leak, ambiguous, False
        self.beside, self.status, self.decisive = (), None, None

    def decided(self, cause, observed=True):
        """State that the program shows the decisive observation of this cause."""
        self.decisive = cause if observed else None
        return self


def leak_truth(name, ambiguous=None):
    return Truth(name, "oom", {"gpu-oom-leak": ESTABLISHED_OR_SUPPORTED}, ["gpu-oom-leak"], True, ambiguous)


def capacity_truth(name, ambiguous=None, others=()):
    causes = ["gpu-oom-capacity", *others]
    return Truth(name, "oom", {c: ESTABLISHED_OR_SUPPORTED for c in causes}, causes, False, ambiguous)


CLEAN = {"clean": None}


def modest_neighbour(d):
    """Another process uses a part of the GPU in both versions, so it does not cause the difference between them."""
    theirs = d.rng.uniform(0.08, 0.3)
    d.neighbour = [Node("begin", 1, 0, 0, 0), alloc(0, 0, "plain", int(theirs * d.usable) // PAGE * PAGE), Node("ready"),
                   Node("hold")]
    d.neighbour_bytes = d.neighbour_bytes_repaired = 0  # already subtracted from the usable memory
    d.usable -= int(theirs * d.usable) + CONTEXT + 4 * PAGE
    d.notes["neighbour"] = round(theirs, 2)
    if d.usable < GIB // 2:
        raise Impossible("too small a card for two")


def found_batch(d):
    """A search for the batch size: allocation failures that are handled before the work begins."""
    kind = d.kind if d.kind != "cached" else "plain"
    bag = d.bag()
    sizes = [d.size(d.card * factor, kind) for factor in (4, 2, 1.1)]
    d.notes["searched"] = True
    return [loop(3, [alloc(bag, d.place(), kind, sizes, op="try")])] + d.waits()


def small_leak(d, steps):
    """Statements of a step that keep a little memory, but never enough to kill the program."""
    d.notes["small_leak"] = True
    size = d.size(d.rng.uniform(0.002, 0.04) * d.usable / steps)
    return [alloc(d.bag(), d.place(), d.rng.choice([d.kind, "plain"]), size)]


# ---- leaks ---------------------------------------------------------------------------------------------------------

def leak(d):
    """Blocks kept by each step, each k-th step, or each step from the n-th on. The repaired program frees them."""
    rng = d.rng
    if d.language == "plan" and d.card >= 4 * GIB and rng.random() < 0.08:
        modest_neighbour(d)
    share = d.log(0.001, 0.4)
    base = rng.choice([0, rng.uniform(0, 0.2), rng.uniform(0.1, 0.6)])
    warm_part = rng.choice([0, rng.random(), 1])
    transient_part = (1 - warm_part) * 0.9
    every = rng.choice([1] * 6 + [2, 3, 5, 10])
    start = rng.choice([0] * 5 + [3, 10, 30])
    steps_needed = start + every * ((1 - base) / share + 1)
    pattern = rng.choice(["equal", "equal", "varied", "varied", "cycle", "growing", "hidden"])
    sites = rng.choice([1, 1, 1, 2, 2, 3, 4])
    kind = d.kind if rng.random() < 0.7 else rng.choice(["plain", "pitch", "async", "pool", "vmm", "vmmh", "vmmr", "cached"])
    allowed = d.ops_max * 0.6 / steps_needed
    if allowed < 4:
        raise Impossible("too many steps")
    count = rng.choice([0, 0, rng.randint(1, 4), rng.randint(3, 30)])
    count = int(min(count, allowed / 4))
    d.notes.update(share=round(share, 4), base=round(base, 3), every=every, start=start, pattern=pattern, sites=sites,
                   kept=kind, transients=count)
    body, end = d.transients(base * transient_part * d.usable, count, int(steps_needed * 2))
    body = body + d.work()
    keep, bags = [], []
    bytes_a_step = share * d.usable
    if pattern == "hidden":
        blocks = int(max(3, min(rng.randint(5, 60), allowed / 3)))
        bag = d.bag()
        inner = [alloc(bag, d.place(), kind, d.sizes(bytes_a_step / blocks / sites, "varied", int(steps_needed) * blocks,
                                                     kind)) for _ in range(sites)]
        inner += d.work(rng.choice([0, 1]))
        if rng.random() < 0.4:
            lengths = [rng.randint(max(1, blocks // 2), blocks * 3 // 2) for _ in range(97)]
            keep.append(varied_loop(lengths, inner))
        else:
            keep.append(loop(blocks, inner))
        bags.append(bag)
    else:
        weights = [rng.uniform(0.3, 1) for _ in range(sites)]
        for weight in weights:
            bag = d.bag()
            table = d.sizes(bytes_a_step * weight / sum(weights), pattern, int(steps_needed / every) + 8, kind)
            one = [alloc(bag, d.place(), kind, table)]
            if sites > 1 and keep and rng.random() < 0.2:
                one = [when("every", rng.randint(2, 4), 0, body=one)]
            keep += one
            bags.append(bag)
    half = rng.random() < 0.06
    if half:
        keep = [loop(2, keep)] + [Node("freehalf", bag) for bag in bags]
    if every > 1:
        if rng.random() < 0.25:
            keep = [when("chosen", every, body=keep)]
            d.notes["chosen"] = True
        else:
            keep = [when("every", every, rng.randrange(every), body=keep)]
    if start > 0:
        keep = [when("from", start, body=keep)]
    if rng.random() < 0.3:
        keep = [call(rng.randrange(8), keep)]
    repair = [only_repaired(*[Node("freeall", bag) for bag in bags])]
    if rng.random() < 0.25:
        repair = keep + repair  # all at one place
    else:
        body = d.insert(body, keep)
    body = body + d.waits() + repair + end
    if rng.random() < 0.15:
        body = [call(0, body)]
    steps = int(steps_needed * rng.uniform(1.3, 2.2)) + 5
    warm = d.warm(base * warm_part * d.usable) if warm_part * base > 0 else []
    if rng.random() < 0.15 and warm_part * base > 0:  # the optimizer's state is allocated in the first step
        body = [when("until", 1, body=warm)] + body
        warm = []
    ambiguous = None
    if count == 0 and (pattern in ("equal", "growing") or sites == 1) and not half:
        ambiguous = "the loop does nothing but take blocks: it may as well build something"
    truth = leak_truth("leak: " + pattern, ambiguous)
    d.kept_bags = set(bags)
    if rng.random() < 0.06:
        warm = found_batch(d) + warm
    return d.program(warm + d.main_loop(steps, body)), truth


def leak_runs(d):
    """Train twice or more in one process: the memory of the first run stays allocated."""
    rng = d.rng
    share = rng.uniform(0.12, 0.6)
    runs = int(1 / share * rng.uniform(1.3, 2)) + 2
    steps = rng.randint(3, 40)
    kept = d.warm(share * 1.6 * d.usable)
    bags = {n.args[0] for n in flat(kept) if n.op == "alloc"}
    start, end = d.transients(rng.uniform(0.02, 0.3) * d.usable, rng.randint(1, 8), steps * runs)
    step = start + d.work() + d.waits() + end
    free = [Node("freeall", bag) for bag in sorted(bags)]
    run = kept + [loop(steps, step)] + [only_repaired(*free)]
    d.notes.update(share=share, runs=runs)
    d.kept_bags = bags
    return d.program(d.main_loop(runs, run)), leak_truth("leak: runs kept")


def leak_handles(d):
    """Streams or contexts created by each step, besides the program's own data."""
    rng = d.rng
    d.card = rng.choice([2, 3, 4]) * GIB
    d.usable = d.card - CONTEXT
    contexts = rng.random() < 0.3
    base = rng.choice([0, rng.uniform(0.05, 0.3), rng.uniform(0.3, 0.75)])
    if contexts:
        base = min(base, 0.5)
    bag = d.bag()
    room = d.usable * (1 - base * 0.6)
    if contexts:
        number, steps = 1, int(room / NEXT_CONTEXT * 2) + 6
        each = [alloc(bag, d.place(), "context", 1)]
    else:
        number = rng.randint(3, 40)
        steps = int(room / STREAM / number * 1.6) + 6
        each = [loop(number, [alloc(bag, d.place(), "stream", 1)])]
    start, end = d.transients(base * 0.35 * d.usable, min(rng.randint(0, 8), int(8000 / steps)), steps)
    body = d.insert(start + d.work(rng.choice([0, 1, 2])), each) + d.waits() + end + [only_repaired(Node("freeall", bag))]
    warm = d.warm(base * 0.5 * d.usable) if base else []
    d.ops_max = max(d.ops_max, 16000) if d.language != "python" else 6000
    d.kept_bags = {bag}
    d.notes.update(base=round(base, 3), handles="contexts" if contexts else "streams", a_step=number)
    return d.program(warm + d.main_loop(steps, body)), leak_truth("leak: " + d.notes["handles"])


def leak_thread(d):
    """One thread loads and keeps data; another one trains and frees its memory."""
    rng = d.rng
    if d.fail == "cleanup":  # not while the other thread uses its bags
        d.fail = "exit"
    share = d.log(0.005, 0.2)
    steps = int(1 / share * rng.uniform(1.2, 1.6)) + 4
    bag = d.bag()
    kind = rng.choice(["plain", "plain", "pitch", "vmm"])
    pattern = rng.choice(["equal", "varied", "cycle"])
    loader = [alloc(bag, d.place(), kind, d.sizes(share * d.usable, pattern, steps, kind)), Node("wait", "htod", 0)]
    loader += [only_repaired(Node("freeall", bag))]
    d.kind = rng.choice(["plain", "pitch"])
    other = min(steps, 200)
    start, end = d.transients(rng.uniform(0.01, 0.1) * d.usable, rng.randint(1, 5), other)
    trainer = start + d.work(2) + d.waits() + end
    warm = d.warm(rng.uniform(0.02, 0.2) * d.usable, "plain") if rng.random() < 0.6 else []
    if "cached" in set(kinds_in_flat(warm + trainer + loader)):
        raise Impossible("the cache belongs to one thread")
    body = [Node("thread", body=[loop(steps, loader)]), Node("thread", body=[loop(other, trainer)]), Node("join")]
    d.notes.update(share=share, pattern=pattern)
    d.kept_bags = {bag}
    # The threads do not wait for each other. The first one may finish before the second has launched anything, like a
    # thread that loads a data set in parts.
    truth = leak_truth("leak: thread", "no work need lie between the blocks")
    truth.right["gpu-oom-capacity"] = ("supported",)
    return d.program(warm + body), truth


def leak_skipped(d):
    """A leak whose allocation failures are caught: batches are skipped from then on, and the program ends with
    status 1."""
    rng = d.rng
    share = d.log(0.03, 0.3)
    steps = int(1 / share * rng.uniform(1.5, 3)) + 6
    bag = d.bag()
    kind = rng.choice(["plain", "pitch", "vmm"])
    d.kind = "plain"
    start, end = d.transients(rng.uniform(0.005, 0.02) * d.usable, rng.randint(1, 5), steps)
    keep = [alloc(bag, d.place(), kind, d.sizes(share * d.usable, rng.choice(["equal", "cycle"]), steps, kind), op="try")]
    body = start + d.work() + keep + d.waits() + end + [only_repaired(Node("freeall", bag))]
    body = d.main_loop(steps, body) + [only_faulty(Node("say", "too many batches were skipped"), Node("exit", 1))]
    d.kept_bags = {bag}
    d.notes.update(share=round(share, 3), steps=steps)
    truth = Truth("leak: refusals skipped", "exit", {"gpu-oom-leak": ("established", "supported", "hypothesis"),
                                                      "undetermined": None}, ["gpu-oom-leak"], True)
    return d.program(body), truth


# ---- capacity ------------------------------------------------------------------------------------------------------

def steady_steps(d, budget, count, steps, more=()):
    start, end = d.transients(budget, count, steps)
    return d.main_loop(steps, start + d.work() + list(more) + d.waits() + end)


def capacity_huge(d):
    """One request that is larger than the GPU, at the start or after successful steps."""
    rng = d.rng
    steps = rng.choice([0, 0, 1, 5, 40])
    base = rng.uniform(0, 0.6)
    before = d.warm(base * 0.5 * d.usable) if rng.random() < 0.6 else []
    if steps:
        more = small_leak(d, steps) if rng.random() < 0.25 else []
        before = before + steady_steps(d, base * 0.4 * d.usable, rng.randint(1, 8), steps, more)
    bag = d.bag()
    kind = d.kind if d.kind != "cached" else "plain"
    place = d.place()
    huge = d.size(d.card * rng.choice([1.05, 1.3, 2, 5]), kind)
    body = before + [only_faulty(alloc(bag, place, kind, huge)),
                     only_repaired(alloc(bag, place, kind, d.size(0.2 * d.usable, kind)))]
    body += d.work(1) + d.waits() + [Node("freeall", bag)]
    others = ["gpu-oom-peak-phase"] if steps > 1 else []
    # The driver refuses more than the card has, and the program says so when it ends.
    return d.program(body), capacity_truth("capacity: one request", others=others).decided("gpu-oom-capacity",
                                                                                         d.fail != "quiet")


def forward_backward(d, budget, layers, equal):
    """One step of a network: each layer's output is kept for the backward pass. Returns statements."""
    rng = d.rng
    bag = d.bag()
    if equal:
        table = [d.size(budget / layers)]
        forward = [loop(layers, [alloc(bag, d.place(), d.kind, table)] + d.work(1) +
                        (d.waits() if rng.random() < 0.4 else []))]
    elif layers <= 14:
        weights = [rng.uniform(0.2, 1) for _ in range(layers)]
        forward = []
        for weight in weights:
            forward.append(alloc(bag, d.place(), d.kind, d.size(budget * weight / sum(weights))))
            forward += d.work(rng.choice([0, 1, 2]))
    else:
        pieces = rng.randint(2, 4)
        each = [rng.uniform(0.2, 1) for _ in range(pieces)]
        inner = []
        for part in each:
            table = [d.size(budget / layers * part / sum(each) * rng.uniform(0.8, 1.2)) for _ in range(layers)]
            inner.append(alloc(bag, d.place(), d.kind, table))
            inner += d.work(1)
        forward = [loop(layers, inner + (d.waits() if rng.random() < 0.4 else []))]
    backward = [loop(layers, d.work(1) + [Node("freelast", bag)]), Node("freeall", bag)]
    return [call(1, forward), call(2, backward)] if rng.random() < 0.5 else forward + backward


def both(d, build):
    """The same statements at two sizes: build(factor), drawn with the same random numbers."""
    state, bags, place = d.rng.getstate(), d.bags_used, d.next_place
    faulty = build(1.0)
    d.rng.setstate(state)
    d.bags_used, d.next_place = bags, place
    return [only_faulty(*faulty), only_repaired(*build(None))]


def capacity_step(d):
    """The first step needs more memory than the GPU has, in many blocks, all of which it would have freed."""
    rng = d.rng
    need = rng.uniform(1.15, 3)
    fits = rng.uniform(0.3, 0.7)
    warm_share = rng.choice([0, rng.uniform(0.02, 0.25)])
    steps = rng.randint(1, 10)
    layers = rng.choice([rng.randint(3, 14), rng.randint(15, 80)])
    equal = rng.random() < 0.3

    warm = d.warm(warm_share * d.usable) if warm_share else []

    def build(factor):
        budget = d.usable * (need if factor else fits * (1 - warm_share))
        return d.main_loop(steps, forward_backward(d, budget, layers, equal) + d.waits())

    ambiguous = None
    if layers > 14 or equal:
        ambiguous = "layers that repeat, and no step ended: the same calls as a loop that keeps"
    d.notes.update(need=round(need, 2), layers=layers, equal=equal, warm=round(warm_share, 2))
    return d.program(warm + both(d, build)), capacity_truth("capacity: first step", ambiguous)


def capacity_model(d):
    """A model loaded layer by layer that is larger than the GPU, sometimes with a copy and a conversion for each
    layer."""
    rng = d.rng
    need = rng.uniform(1.1, 2.5)
    layers = rng.randint(4, 80)
    parts = rng.randint(1, 5)
    staging = rng.random() < 0.5
    copies, converts = rng.random() < 0.6, rng.random() < 0.6
    equal = rng.random() < 0.6

    def build(factor):
        budget = d.usable * (need if factor else 0.5)
        bag, stage = d.bag(), d.bag()
        shares = [rng.uniform(0.1, 1) for _ in range(parts)]
        inner = []
        for share in shares:
            table = [d.size(budget / layers * share / sum(shares) * (1 if equal else rng.uniform(0.4, 1.6)))
                     for _ in range(1 if equal else layers)]
            if staging:
                inner.append(alloc(stage, d.place(), "plain", [d.size(size / 4, "plain") for size in table[:1]]))
            inner.append(alloc(bag, d.place(), d.kind, table))
            if copies:
                inner.append(Node("wait", "htod", 0))
            if converts:
                inner += d.work(1)
            if staging:
                inner.append(Node("freeall", stage))
        start, end = d.transients(0.1 * d.usable, 4, 10)
        return [call(4, [loop(layers, inner + d.waits())])] + d.main_loop(5, start + d.work() + d.waits() + end)

    ambiguous = "no step was reached: layers that stay look as a loop that keeps" if layers > 3 else None
    d.notes.update(need=round(need, 2), layers=layers, parts=parts, staging=staging, converts=converts, equal=equal)
    return d.program(both(d, build)), capacity_truth("capacity: model", ambiguous)


def capacity_models(d):
    """Several different models, each trained for a while and kept, because the last phase uses all of them."""
    rng = d.rng
    number = rng.randint(2, 4)
    need = rng.uniform(1.15, 1.8)
    shares = [rng.uniform(0.5, 1) for _ in range(number)]
    shapes = [(rng.randint(2, 24), rng.randint(1, 3), rng.randint(2, 15)) for _ in range(number)]

    def build(factor):
        budget = d.usable * (need if factor else 0.5)
        body = []
        for share, (layers, parts, steps) in zip(shares, shapes):
            bag = d.bag()
            each = budget * share / sum(shares) / layers / parts
            inner = [alloc(bag, d.place(), d.kind, [d.size(each * rng.uniform(0.6, 1.4)) for _ in range(layers)])
                     for _ in range(parts)]
            start, end = d.transients(0.03 * d.usable, rng.randint(1, 6), steps)
            body += [call(4, [loop(layers, inner + d.work(rng.choice([0, 1])))]),
                     loop(steps, start + d.work() + d.waits() + end)]
        return body + [loop(5, d.work(3) + d.waits())]

    d.notes.update(number=number, need=round(need, 2))
    return d.program(both(d, build)), capacity_truth("capacity: several models", "what is kept may be used again, or not")


def capacity_growing(d):
    """Each step frees everything, and needs more than the one before: a larger batch, a longer sequence."""
    rng = d.rng
    steps = rng.randint(6, 60)
    blocks = rng.randint(1, 10)
    warm_share = rng.choice([0, rng.uniform(0.05, 0.4)])
    peak = rng.uniform(1.2, 2)
    shape = rng.choice(["line", "double", "random"])
    warm = d.warm(warm_share * d.usable) if warm_share else []
    long_at = rng.randint(steps // 2, steps - 1)

    def size_at(i, factor, part):
        if shape == "line":
            share = (i + 1) / steps
        elif shape == "double":
            share = 2.0 ** -(min(steps, 12) - 1 - i) if i < 12 else 1
        else:
            share = rng.uniform(0.05, 0.35)
            if i == long_at:
                share = 1
        return d.size(share * part * d.usable * (peak if factor else 0.45 * (1 - warm_share)))

    def build(factor):
        bag = d.bag()
        parts = [rng.uniform(0.2, 1) for _ in range(blocks)]
        body = []
        for part in parts:
            part /= sum(parts)
            body.append(alloc(bag, d.place(), d.kind, [size_at(i, factor, part) for i in range(steps)]))
            body += d.work(rng.choice([0, 1]))
        return d.main_loop(steps, body + d.work(1) + d.waits() + [Node("freeall", bag)])

    d.notes.update(steps=steps, blocks=blocks, shape=shape)
    return d.program(warm + both(d, build)), capacity_truth("capacity: growing steps", others=["gpu-oom-peak-phase"])


def peak_phase(d):
    """Steps succeed; the validation after them, or the optimizer's first step, needs more memory than there is."""
    rng = d.rng
    steps = rng.randint(3, 80)
    before = d.warm(rng.uniform(0.05, 0.3) * d.usable) if rng.random() < 0.8 else []
    more = small_leak(d, steps) if rng.random() < 0.15 else []
    if rng.random() < 0.25:  # a cache that fills up and then stays constant
        fill = rng.randint(1, max(1, steps * 2 // 3))
        more += [when("until", fill, body=[alloc(d.bag(), d.place(), d.kind, d.size(0.2 / fill * d.usable))])]
        d.notes["cache"] = fill
    before += steady_steps(d, rng.uniform(0.05, 0.25) * d.usable, rng.randint(1, 10), steps, more)
    layers = rng.randint(3, 40)
    equal = rng.random() < 0.3
    need = rng.uniform(1.15, 2)

    def build(factor):
        body = forward_backward(d, d.usable * (need if factor else 0.2), layers, equal)
        return [call(5, body)]

    d.notes.update(steps=steps, layers=layers, equal=equal)
    return (d.program(before + both(d, build)),
            capacity_truth("peak phase", "blocks of a phase that was never over" if layers > 3 else None,
                           others=["gpu-oom-peak-phase"]))


# ---- others --------------------------------------------------------------------------------------------------------

def fragmentation(d):
    """Small blocks share pages; every other one is freed, and the pages stay allocated. Repaired: large blocks with
    their own pages."""
    rng = d.rng
    d.card = rng.choice([2, 3, 4, 6]) * GIB
    d.usable = d.card - CONTEXT
    filled = rng.uniform(0.6, 0.93)
    small = rng.choice([MIB, MIB, 512 * KIB, 768 * KIB])
    bag = d.bag()
    count = int(filled * d.usable / max(small, 0.5 * MIB if small < MIB else small))
    if small == 768 * KIB:
        count = int(filled * d.usable / MIB)  # two of them fit into a page of 2 MiB
    large = int(filled * d.usable / (32 * MIB))
    held = filled * d.usable
    want = d.size((d.usable - held) + held * rng.uniform(0.1, 0.35), "plain")
    place, wanted_at = d.place(), d.place()
    last = d.bag()
    steps = rng.choice([0, 0, 10])
    body = [only_faulty(loop(count, [alloc(bag, place, "plain", small)]), Node("freehalf", bag)),
            only_repaired(loop(large, [alloc(bag, place, "plain", 32 * MIB)]), Node("freehalf", bag))]
    if steps:
        body += steady_steps(d, (d.usable - held) * 0.4, 3, steps)
    body += d.work(1) + [alloc(last, wanted_at, "plain", want)] + d.work(1) + [Node("freeall", last), Node("freeall", bag)]
    d.notes.update(small=small, filled=round(filled, 2), want=want)
    d.pages_matter = (count, small, want)
    d.ops_max = 20000
    # Half of each page is unused, and the request would have fitted into these halves.
    return d.program(body), Truth("fragmentation", "oom", {"gpu-oom-fragmentation": ESTABLISHED_OR_SUPPORTED},
                                  ["gpu-oom-fragmentation"]).decided("gpu-oom-fragmentation", d.fail != "quiet")


def neighbour(d):
    """Another process uses the GPU; alone, this one would fit."""
    rng = d.rng
    theirs = rng.uniform(0.35, 0.75)
    ours = 1 - theirs + rng.uniform(0.1, 0.3)
    ours = min(ours, 0.85)
    d.neighbour = [Node("begin", 1, 0, 0, 0)]
    blocks = rng.choice([1, 1, 8])
    for part in (only_faulty, only_repaired):
        share = theirs if part is only_faulty else 0.02
        d.neighbour.append(part(*[alloc(0, 0, "plain", int(share * d.usable / blocks) // PAGE * PAGE + PAGE)
                                  for _ in range(blocks)]))
    if rng.random() < 0.4:  # it handles a refusal of its own
        d.neighbour.append(alloc(1, 0, "plain", 2 * d.card, op="try"))
    d.neighbour += [Node("ready"), Node("hold")]
    d.neighbour_bytes = int(theirs * d.usable) + CONTEXT
    d.neighbour_bytes_repaired = int(0.02 * d.usable) + CONTEXT + blocks * 2 * PAGE
    d.usable_alone = d.usable
    steps = rng.randint(1, 30)
    split = rng.uniform(0, 1)
    warm = d.warm(ours * 1.7 * split * d.usable) if split > 0.1 else []
    body = warm + d.main_loop(steps, forward_backward(d, ours * (1 - split * 0.9) * d.usable, rng.randint(1, 12), False) +
                              d.waits())
    d.notes.update(theirs=round(theirs, 2), ours=round(ours, 2))
    # The recording has the requests of both, and both together are more than the card has. Layers that repeat before the
    # first step has ended are the same calls as a loop that keeps, which the card would not have held for long either.
    repeats = any(node.op in ("loop", "vloop") for node in flat(warm))
    return d.program(body), Truth("neighbour", "oom", {"gpu-oom-other-process": ESTABLISHED_OR_SUPPORTED},
                                  ["gpu-oom-other-process"]).decided("gpu-oom-other-process",
                                                                   d.fail != "quiet" and not repeats)


def refused_context(d):
    """A context is refused: the card is full with the program's own memory, or with another process's."""
    rng = d.rng
    if d.language == "plan" and rng.random() < 0.6:
        d.neighbour = [Node("begin", 1, 0, 0, 0),
                       only_faulty(alloc(0, 0, "plain", (d.usable - rng.randint(60, 400) * MIB) // PAGE * PAGE)),
                       only_repaired(alloc(0, 0, "plain", 64 * MIB)), Node("ready"), Node("hold")]
        d.neighbour_bytes, d.neighbour_bytes_repaired = d.usable, CONTEXT + 66 * MIB
        body = steady_steps(d, 0.1 * d.usable, rng.randint(1, 4), rng.randint(1, 20))
        d.notes["holder"] = "other"
        return d.program(body), Truth("context refused: neighbour", "oom", {"gpu-oom-other-process":
                                      ESTABLISHED_OR_SUPPORTED}, ["gpu-oom-other-process"])
    free = rng.randint(100, 400) * MIB
    bag = d.bag()
    sizes = [(d.usable - free) // PAGE * PAGE, max(PAGE, (d.usable - free - 2 * NEXT_CONTEXT) // 2 // PAGE * PAGE)]
    body = [only_faulty(alloc(bag, d.place(), "plain", sizes[0])), only_repaired(alloc(bag, d.place(), "plain", sizes[1]))]
    body += d.work(rng.randint(0, 3)) + d.waits() + [alloc(bag, d.place(), "context", 1)] + d.work(1)
    d.notes["holder"] = "own"
    return d.program(body), capacity_truth("context refused: own")


def own_exception(d):
    """An out-of-memory error is handled, much work succeeds after it, and the program ends because of another error
    of its own."""
    rng = d.rng
    if d.language == "python":
        d.fail = "raise"  # it does not end with a failed allocation
    tries = d.bag()
    kind = d.kind if d.kind != "cached" else "plain"
    body = d.warm(rng.uniform(0.02, 0.3) * d.usable) if rng.random() < 0.6 else []
    refusals = rng.choice([0, 1, 1, 3, 20])
    if refusals:
        body.append(loop(refusals, [alloc(tries, d.place(), kind, d.size(d.card * rng.uniform(1.1, 3), kind), op="try")]))
        body.append(Node("iffailed", body=[alloc(tries, d.place(), kind, d.size(0.1 * d.usable, kind))]))
        if rng.random() < 0.5:
            body.append(Node("say", "no room for this batch, going on with a smaller one"))
    steps = rng.randint(5, 120)
    leaks = rng.random() < 0.25
    more = []
    if leaks:
        more = [alloc(d.bag(), d.place(), d.kind, d.size(0.3 / steps * d.usable)),
                only_repaired(Node("freeall", d.bags_used - 1))]
    body += steady_steps(d, rng.uniform(0.02, 0.2) * d.usable, rng.randint(1, 10), steps, more)
    python = d.language == "python"
    thrown = python or d.language == "c++"
    body += [only_faulty(Node("throw", "label 1204 is not one of the 1000 classes") if thrown else
                         Node("exit", rng.choice([1, 2, 3])))]
    d.notes.update(refusals=refusals, leaks=leaks)
    right = {"undetermined": None, "gpu-oom-capacity": ("hypothesis",)}
    if python:
        right = {"script-exception": ESTABLISHED_OR_SUPPORTED}
    true = ["script-exception"] if python else []
    decisive = "script-exception" if python else None
    if d.language == "c++":
        # std::terminate aborts the process.
        right = {"undetermined": None, "script-exception": ("established", "supported", "hypothesis"),
                 "host-crash-of-process": ("established", "supported", "hypothesis")}
        true = ["script-exception", "host-crash-of-process"]
    return d.program(body), Truth("own exception" + (" after a handled refusal" if refusals else ""),
                                  "throw" if thrown else "exit", right, true).decided(decisive)


def probes(d):
    """Questions whose answers are errors, as libraries ask them at their start. The program goes on, and then ends with
    an exception or a status of its own. Repaired: it does not."""
    rng = d.rng
    python, cxx = d.language == "python", d.language == "c++"
    d.fail = "raise" if python else d.fail
    asked = rng.sample(["name", "device", "size"], rng.randint(1, 3))
    body = [Node("probe", what) for what in asked]
    if rng.random() < 0.5:
        body = [loop(rng.randint(2, 40), body)]
    warm = d.warm(rng.uniform(0.02, 0.3) * d.usable) if rng.random() < 0.6 else []
    body = warm + body if rng.random() < 0.5 else body + warm
    works = rng.random() < 0.8  # then the answers cannot be what ended it
    if works:
        body += steady_steps(d, rng.uniform(0.02, 0.2) * d.usable, rng.randint(1, 6), rng.randint(1, 60))
    body += [only_faulty(Node("throw", "label 1204 is not one of the 1000 classes") if python or cxx else
                         Node("exit", rng.choice([1, 2, 3])))]
    causes = ["script-exception"] if python else ["script-exception", "host-crash-of-process"] if cxx else []
    right = {cause: ("established", "supported", "hypothesis") for cause in causes}
    if not python:
        right["undetermined"] = None
    d.notes["asked"] = "+".join(asked)
    return d.program(body), Truth("probes", "throw" if python or cxx else "exit", right, causes).decided(
        "script-exception", python and works)


def killed(d):
    """SIGKILL during healthy steps."""
    rng = d.rng
    body = d.warm(rng.uniform(0.02, 0.4) * d.usable) if rng.random() < 0.6 else []
    body += steady_steps(d, rng.uniform(0.02, 0.4) * d.usable, rng.randint(1, 10), rng.randint(3, 80))
    if rng.random() < 0.3:  # it would have died of a leak later
        body += d.main_loop(rng.randint(5, 40), [alloc(d.bag(), d.place(), d.kind, d.size(0.005 * d.usable)),
                                                 only_repaired(Node("freeall", d.bags_used - 1))] + d.work(1))
    # The program sends the signal itself, so "from outside" is never proved.
    number = rng.choice([9, 9, 15, 1, 10, 14])
    body += [only_faulty(Node("kill", number))]
    d.notes["signal"] = number
    return d.program(body), Truth("own signal", "kill", {"killed-by-scheduler-or-user": ("supported", "hypothesis"),
                                                         "undetermined": None}, [])


def idle_memory(d):
    """A pool, or the program's own cache, holds unused memory; a request outside it does not fit. Repaired: trimmed."""
    rng = d.rng
    own = rng.random() < 0.5
    kind = "cached" if own else rng.choice(["async", "pool"])
    bag, last = d.bag(), d.bag()
    held = rng.uniform(0.45, 0.75)
    d.kind = kind
    steps = rng.randint(1, 40)
    count = rng.randint(1, 20)
    table = d.size(held * d.usable / count, "plain")
    step = [loop(count, [alloc(bag, d.place(), kind, table)] + d.work(rng.choice([0, 1]))), Node("freeall", bag)]
    body = d.main_loop(steps, step + (d.waits() or [Node("wait", "ctx", 0)]))
    body += [only_repaired(Node("flush" if own else "trimpools"))]
    want = d.size((1 - held + rng.uniform(0.1, 0.25)) * d.usable, "plain")
    body += [alloc(last, d.place(), "plain", want)] + d.work(1) + [Node("freeall", last)]
    body = d.program(body)
    if not own:
        for node in body:
            if node.op == "begin":
                node.args = (d.streams, 1, 1, 0)
        body = [n for n in body if n.op != "keeppools"]
        body.insert(1, Node("keeppools"))
    d.notes.update(held=round(held, 2), steps=steps, count=count, kind=kind)
    right = {"gpu-oom-fragmentation": ESTABLISHED_OR_SUPPORTED, "gpu-oom-preallocation": ESTABLISHED_OR_SUPPORTED,
             "gpu-oom-capacity": ("supported", "hypothesis"), "undetermined": None}
    return body, Truth("idle: own cache" if own else "idle: pool", "oom", right,
                       ["gpu-oom-fragmentation", "gpu-oom-preallocation"])


# ---- what looks like something else ---------------------------------------------------------------------------------

def group(d):
    """A sentence, a clip or a job keeps a block in each step and frees all at its end; the last one is too long."""
    rng = d.rng
    room = rng.randint(8, 60)  # blocks that fit
    earlier = rng.randint(4, 14)
    usual = [max(2, int(room * rng.uniform(0.2, 0.6))) for _ in range(earlier)]
    long = int(room * rng.uniform(1.25, 2.5)) + 2
    kind = d.kind if d.kind != "cached" else "plain"
    warm = d.warm(rng.uniform(0.02, 0.15) * d.usable) if rng.random() < 0.6 else []
    size = d.sizes(0.8 * d.usable / room, rng.choice(["equal", "cycle"]), room, kind)
    launches, extra = rng.choice([1, 2, 3, 5]), rng.random() < 0.5

    def build(factor):
        bag, other = d.bag(), d.bag()
        step = [alloc(bag, d.place(), kind, size)]
        if extra:
            step = [alloc(other, d.place(), "plain", d.size(0.02 * d.usable, "plain"))] + step
        step += d.work(launches) + d.waits() + ([Node("freeall", other)] if extra else [])
        counts = usual + [long if factor else usual[0]]
        return d.main_loop(len(counts), [varied_loop(counts, step), Node("freeall", bag)])

    d.notes.update(room=room, earlier=earlier, long=long)
    return d.program(warm + both(d, build)), capacity_truth("group: a long one", others=["gpu-oom-peak-phase"])


def planned_buffer(d):
    """A replay buffer, a cache or a data set grows to a bound that is too large. Repaired: a bound that fits."""
    rng = d.rng
    room = int(d.log(6, 400 if d.language != "python" else 80))
    kind = d.kind if d.kind != "cached" else "plain"
    bag = d.bag()
    steps = int(room * rng.uniform(1.5, 2.5)) + 4
    warm = d.warm(rng.uniform(0.02, 0.15) * d.usable) if rng.random() < 0.6 else []
    start, end = d.transients(0.05 * d.usable, rng.randint(0, 4), steps)
    keep = [alloc(bag, d.place(), kind, d.sizes(0.8 * d.usable / room, rng.choice(["equal", "cycle", "varied"]), steps, kind)),
            only_faulty(Node("trim", bag, int(room * rng.uniform(1.4, 2)) + 3)),
            only_repaired(Node("trim", bag, max(1, room // 3)))]
    body = d.main_loop(steps, start + d.work(rng.randint(1, 4)) + keep + d.waits() + end)
    d.notes.update(room=room, steps=steps)
    truth = Truth("planned buffer", "oom", {"gpu-oom-leak": ("supported", "hypothesis"), "gpu-oom-capacity":
                                            ESTABLISHED_OR_SUPPORTED}, ["gpu-oom-capacity"],
                  ambiguous="whether growth is planned cannot be seen")
    return d.program(warm + body), truth


def handled_on_host(d):
    """A refused request is handled on the host, with little or no work on the GPU; something else ends the program."""
    rng = d.rng
    d.fail = "raise" if d.language == "python" else d.fail
    kind = d.kind if d.kind != "cached" else "plain"
    body = d.warm(rng.uniform(0.02, 0.3) * d.usable) if rng.random() < 0.6 else []
    if rng.random() < 0.6:
        body += steady_steps(d, rng.uniform(0.02, 0.2) * d.usable, rng.randint(1, 6), rng.randint(1, 30))
    attempt = [alloc(d.bag(), d.place(), kind, d.size(d.card * rng.uniform(1.1, 3), kind), op="try")]
    body += [call(rng.randrange(8), attempt)] if rng.random() < 0.5 else attempt
    if rng.random() < 0.6:
        body.append(Node("say", rng.choice(["out of memory: falling back to the CPU", "the optional cache is off",
                                            "this sample is skipped"])))
    body += d.work(rng.choice([0, 0, 1]))
    thrown = d.language in ("python", "c++")
    body += [only_faulty(Node("throw", "label 1204 is not one of the 1000 classes") if thrown else
                         Node("exit", rng.choice([1, 2, 3])))]
    right, true = {"undetermined": None, "gpu-oom-capacity": ("supported", "hypothesis")}, []
    if d.language == "python":
        right, true = {"script-exception": ESTABLISHED_OR_SUPPORTED}, ["script-exception"]
    elif thrown:
        right.update({c: ("established", "supported", "hypothesis") for c in ("script-exception", "host-crash-of-process")})
        true = ["script-exception", "host-crash-of-process"]
    return d.program(body), Truth("handled on the host", "throw" if thrown else "exit", right, true)


def thread_ends(d):
    """An exception ends a thread, and the program exits with status 0. In Python alone."""
    rng = d.rng
    if d.language != "python":
        raise Impossible("only Python goes on")
    d.fail, d.kind = "raise", "plain"
    d.wait = rng.choice(["ctx", "stream", "none"])
    refused = rng.random() < 0.5
    bag = d.bag()
    huge = alloc(bag, d.place(), "plain", d.size(d.card * rng.uniform(1.1, 2), "plain"))
    fits = alloc(bag, d.place(), "plain", d.size(0.02 * d.usable, "plain"))
    ends = [huge] if refused else [fits, Node("throw", "label 1204 is not one of the 1000 classes")]
    warm = [alloc(d.bag(), d.place(), "plain", d.size(0.1 * d.usable, "plain"))]
    after = steady_steps(d, 0.1 * d.usable, rng.randint(1, 4), rng.randint(1, 40)) if rng.random() < 0.6 else []
    if "cached" in set(kinds_in_flat(after)):
        raise Impossible("the cache belongs to one thread")
    body = warm + [Node("thread", body=[only_faulty(*ends), only_repaired(fits)]), Node("join")] + after
    d.notes["refused"] = refused
    cause = "gpu-oom-capacity" if refused else "script-exception"
    truth = Truth("thread ends: " + ("refused" if refused else "exception"), "oom" if refused else "throw",
                  {cause: ESTABLISHED_OR_SUPPORTED}, [cause])
    truth.status = 0
    return d.program(body), truth


def built_again(d):
    """A model is built again while the old one is held, and both do not fit. Repaired: the old one is freed first."""
    rng = d.rng
    layers, times = rng.randint(1, 16), rng.randint(2, 5)
    kind = d.kind if d.kind != "cached" else "plain"
    bag = d.bag()
    share = rng.uniform(0.58, 0.75)
    table = (d.sizes(share * d.usable / layers, rng.choice(["equal", "cycle"]), layers, kind) * layers)[:layers]
    start, end = d.transients(0.05 * d.usable, rng.randint(0, 4), 40)
    build = [loop(layers, [alloc(bag, d.place(), kind, table)])]
    steps = loop(rng.randint(1, 20), start + d.work(rng.randint(1, 4)) + (d.waits() or [Node("wait", "ctx", 0)]) + end)
    body = [only_repaired(Node("freeall", bag)), call(4, build), only_faulty(Node("trim", bag, layers)), steps]
    d.notes.update(layers=layers, share=round(share, 2))
    truth = Truth("built again", "oom", {"gpu-oom-capacity": ("supported",), "gpu-oom-leak": ("supported",),
                                         "gpu-oom-peak-phase": ("supported",)}, [])
    truth.beside = ("gpu-oom-leak",)
    return d.program(d.main_loop(times, body)), truth


def kept_objects(d):
    """A graph with memory of its own is kept for each shape, or a pool for each request. Repaired: only two."""
    rng = d.rng
    kind = rng.choice(["graph", "keptpool"])
    if kind == "graph" and d.kind in ("async", "pool"):
        d.kind = "plain"
    room = int(d.log(24, 120 if d.language != "python" else 50))
    size = d.usable / room
    d.card = rng.choice([2, 3, 4, 8]) * GIB
    d.usable = d.card - CONTEXT
    size = max(CHUNK, int(0.85 * d.usable / room) // CHUNK * CHUNK) if kind == "keptpool" else \
        d.size(0.85 * d.usable / room, "plain")
    bag = d.bag()
    keep = [alloc(bag, d.place(), kind, size)]
    steps = int(d.usable / size * rng.uniform(1.3, 1.8)) + 4
    start, end = d.transients(0.03 * d.usable, rng.randint(0, 3), steps)
    body = [only_faulty(*keep), only_repaired(when("until", 2, body=keep))]
    body = start + d.work(rng.randint(1, 3)) + body + [Node("wait", "ctx", 0)] + end
    d.kept_bags = {bag}
    d.notes.update(kept=kind, room=room)
    causes = ["gpu-oom-leak", "gpu-hidden-driver-growth" if kind == "graph" else "gpu-oom-fragmentation"]
    truth = Truth("kept: " + ("graphs" if kind == "graph" else "pools"), "oom",
                  {c: ESTABLISHED_OR_SUPPORTED for c in causes}, causes)
    truth.lists = True
    return d.program(d.main_loop(steps, body)), truth


# ---- healthy -------------------------------------------------------------------------------------------------------

def healthy(d):
    """No fault, although some memory grows, is kept, is refused, or is allocated twice."""
    rng = d.rng
    kind = d.kind
    what = rng.choice(["steady", "window", "cache", "plateau", "accumulation", "model", "small leak", "runs", "refused",
                       "arena", "two threads", "managed", "handles", "cached runs", "rebound", "host memory",
                       "gave up early"])
    warm = d.warm(rng.uniform(0.02, 0.4) * d.usable) if rng.random() < 0.6 else []
    steps = rng.choice([rng.randint(1, 10), rng.randint(10, 150)])
    more, body, bag = [], None, d.bag()
    budget = rng.uniform(0.01, 0.25) * d.usable
    count = rng.randint(0, 12)
    pattern = rng.choice(["equal", "varied", "cycle"])
    if what == "window":
        length = rng.randint(2, 12)
        more = [alloc(bag, d.place(), kind, d.sizes(0.2 / length * d.usable, pattern, steps)), Node("trim", bag, length)]
    elif what in ("cache", "plateau"):
        fill = rng.randint(1, max(1, steps // 2))
        table = d.sizes(rng.uniform(0.05, 0.3) / fill * d.usable, rng.choice([pattern, "growing"]), fill)
        more = [when("until", fill, body=[alloc(bag, d.place(), kind, table)])]
    elif what == "accumulation":
        every = rng.randint(2, 8)
        more = [alloc(bag, d.place(), kind, d.sizes(0.2 / every * d.usable, pattern, steps)),
                when("every", every, every - 1, body=[Node("freeall", bag)])]
    elif what == "model":
        layers = rng.randint(8, 200 if d.language != "python" else 60)
        warm += [loop(layers, [alloc(bag, d.place(), kind, d.sizes(0.3 / layers * d.usable, pattern, layers))] +
                      (d.work(1) if rng.random() < 0.5 else []) + (d.waits() if rng.random() < 0.5 else []))]
    elif what == "small leak":
        more = [alloc(bag, d.place(), kind, d.sizes(rng.uniform(0.001, 0.03) / steps * d.usable, pattern, steps))]
    elif what == "runs":
        runs = rng.randint(2, 5)
        start, end = d.transients(budget, count, steps)
        steps = min(steps, 40)
        inner = [alloc(bag, d.place(), kind, d.sizes(rng.uniform(0.1, 0.4) / 3 * d.usable, "equal", 1))] * 1 + \
            [loop(steps, start + d.work() + d.waits() + end), Node("freeall", bag)]
        body = d.main_loop(runs, inner)
    elif what == "refused":
        table = d.size(d.card * rng.uniform(1.1, 3), "plain")
        more = [when("every", rng.randint(2, 9), 0, body=[alloc(bag, d.place(), "plain", table, op="try")])]
    elif what == "arena":
        warm = [alloc(bag, d.place(), "plain", d.size(rng.uniform(0.4, 0.7) * d.usable, "plain"))]
        budget = min(budget, 0.15 * d.usable)
    elif what == "two threads":
        d.kind = "plain"
        parts = []
        for _ in range(2):
            start, end = d.transients(budget * 0.5, max(1, count), steps)
            parts.append(Node("thread", body=[loop(steps, start + d.work(1) + d.waits() + end)]))
        body = parts + [Node("join")]
        if "cached" in set(kinds_in_flat(body)):
            raise Impossible("the cache belongs to one thread")
    elif what == "managed":
        more = [alloc(bag, d.place(), "managed", MIB), when("every", 4, 3, body=[Node("freeall", bag)])]
    elif what == "cached runs":  # each run returns its blocks to the program's own cache, for the next one
        start, end = d.transients(budget, count, steps)
        steps = min(steps, 40)
        layers = rng.randint(2, 20)
        inner = [loop(layers, [alloc(bag, d.place(), "cached", d.sizes(0.4 / layers * d.usable, "equal", layers, "plain"))] +
                      d.work(rng.choice([0, 1]))),
                 loop(steps, start + d.work() + d.waits() + end), Node("freeall", bag)]
        warm, body = [], d.main_loop(rng.randint(2, 6), inner)
    elif what == "rebound":  # model = build(): the old one is freed after the new one exists
        layers = rng.randint(1, 12)
        start, end = d.transients(0.1 * d.usable, count, steps)
        table = d.sizes(rng.uniform(0.1, 0.22) / layers * d.usable, rng.choice(["equal", "cycle"]), layers)
        table = (table * layers)[:layers]
        inner = [loop(layers, [alloc(bag, d.place(), kind, table)]), Node("trim", bag, layers),
                 loop(min(steps, 20), start + d.work() + d.waits() + end)]
        warm, body = [], d.main_loop(rng.randint(2, 8), inner)
    elif what == "host memory":
        more = [alloc(bag, d.place(), "host", 64 * KIB)]
    elif what == "gave up early":  # it leaks quickly, and stops long before the GPU is full
        more = [alloc(bag, d.place(), kind, d.sizes(rng.uniform(0.1, 0.4) / steps * d.usable, pattern, steps))]
    elif what == "handles":
        handle = rng.choice(["stream", "event"])
        more = [loop(rng.randint(1, 6), [alloc(bag, d.place(), handle, 1)]), Node("freeall", bag)]
    if body is None:
        body = steady_steps(d, budget, count, steps, more)
    d.notes.update(what=what, steps=steps)
    truth = Truth("healthy: " + what, "exit", CLEAN, [])
    truth.lists = what in ("small leak", "gave up early", "host memory")
    return d.program(warm + body), truth


def flat(nodes):
    for node in nodes:
        yield node
        if node.body is not None:
            yield from flat(node.body)


def kinds_in_flat(nodes):
    return [n.args[2] for n in flat(nodes) if n.op in ("alloc", "try")]


# weight, family, whether there is a repaired twin
FAMILIES = [(34, leak, True), (6, leak_runs, True), (5, leak_handles, True), (3, leak_thread, True), (2, leak_skipped, True),
            (3, capacity_huge, True), (6, capacity_step, True), (5, capacity_model, True), (3, capacity_models, True),
            (5, capacity_growing, True),
            (4, peak_phase, True), (3, fragmentation, True), (4, neighbour, True), (5, own_exception, True),
            (2, killed, True), (3, idle_memory, True), (16, healthy, False), (4, group, True), (3, planned_buffer, True),
            (4, handled_on_host, True), (2, thread_ends, True), (3, built_again, True), (3, kept_objects, True), (3, refused_context, True),
            (3, probes, True)]
