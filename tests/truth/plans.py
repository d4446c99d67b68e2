"""Plans: programs as trees of statements, the GPU memory that they use, and tools to draw families of them.

Nothing here depends on how gpuwhy judges. The truth about a program follows from its construction, and is checked by
arithmetic: `holds()` walks through the program and its repaired twin, and adds up the GPU memory that they use.
"""
import math

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
PAGE = 2 * MIB
# The virtual H200's own figures (data/cards/h200.card).
CONTEXT, NEXT_CONTEXT, STREAM = 552402944, 548995072, 573440
MARGIN = 24 * MIB  # for the kernel library, the scratch block, and partly used pages
POOL_SLACK = 64 * MIB
CHUNK = 32 * MIB  # what a pool takes from the card


class Impossible(Exception):
    """The arithmetic does not decide what this draft of a program does: draw another one."""


class Node:
    __slots__ = ("op", "args", "body", "sizes")

    def __init__(self, op, *args, body=None, sizes=None):
        self.op, self.args, self.body, self.sizes = op, args, body, sizes


def alloc(bag, place, kind, sizes, op="alloc"):
    return Node(op, bag, place, kind, sizes=[sizes] if isinstance(sizes, int) else list(sizes))


def loop(count, body):
    return Node("loop", int(count), body=body)


def varied_loop(counts, body):
    """A loop whose count comes from a table, with the next entry each time it is reached."""
    return Node("vloop", body=body, sizes=list(counts))


def chosen(turn, one_in):
    """Irregular, but the same in all languages."""
    return (turn * 2654435761 % 4294967296 >> 16) % one_in == 0


def when(how, *numbers, body):
    return Node("if", how, *numbers, body=body)


def call(place, body):
    return Node("call", place, body=body)


def only_faulty(*body):
    return Node("faulty", body=list(body))


def only_repaired(*body):
    return Node("repaired", body=list(body))


def resolve(nodes, repaired):
    """Extract the faulty or the repaired program from the tree that has both."""
    result = []
    for node in nodes:
        if node.op in ("faulty", "repaired"):
            if (node.op == "repaired") == repaired:
                result += resolve(node.body, repaired)
        elif node.body is not None:
            result.append(Node(node.op, *node.args, body=resolve(node.body, repaired), sizes=node.sizes))
        else:
            result.append(node)
    return result


# ---- arithmetic ----------------------------------------------------------------------------------------------------

class End(Exception):
    def __init__(self, how, detail=None):
        self.how, self.detail = how, detail


class Holds:
    """Walks a program. `low` is the size of its live requests; `high` the maximum GPU memory that they may use."""

    def __init__(self, usable, ops_max, by_page=False):
        self.usable, self.ops_max, self.by_page = usable, ops_max, by_page
        self.page_room, self.page_blocks, self.page_of = 0, [], []
        self.bags, self.turns, self.idle = {}, {}, {}
        self.low = self.large = self.small = self.small_peak = 0
        self.pools, self.pool_peaks, self.pools_kept = {"async": 0, "pool": 0}, {"async": 0, "pool": 0}, False
        self.streams = self.streams_peak = self.idle_bytes = 0
        self.low_peak = self.high_peak = 0
        self.ops = self.allocations = 0
        self.failed = False
        self.main_turn = None  # turn of the main loop
        self.refusals = 0

    def high(self):
        peaks = sum(self.pool_peaks.values())
        pool = 1.15 * peaks + POOL_SLACK if peaks else 0
        small = self.small_peak + PAGE if self.small_peak else 0
        return self.large + small + pool + self.streams_peak * STREAM + self.idle_bytes

    def add(self, kind, size, sign):
        if kind in ("managed", "host", "event"):
            return
        if kind == "stream":
            self.streams += sign
            self.streams_peak = max(self.streams, self.streams_peak)
            self.low += sign * STREAM
        elif kind == "context":
            self.low += sign * NEXT_CONTEXT
            self.large += sign * (NEXT_CONTEXT + PAGE)
        elif kind == "graph":  # the virtual card keeps the block until the process ends
            grown = -(-size // PAGE) * PAGE if sign > 0 else 0
            self.low += size if sign > 0 else 0
            self.large += grown
        elif kind == "keptpool":
            self.low += sign * -(-size // CHUNK) * CHUNK
            self.large += sign * -(-size // CHUNK) * CHUNK
        elif kind in ("async", "pool"):
            self.pools[kind] += sign * size
            grown = max(self.pools[kind] - self.pool_peaks[kind], 0)
            self.pool_peaks[kind] += grown
            self.low += grown if self.pools_kept else sign * size
        elif size <= MIB and not kind.startswith("vmm") and self.by_page:
            self.small_by_page(size, sign)
        elif size <= MIB and not kind.startswith("vmm"):
            self.low += sign * size
            self.small += sign * -(-size // 512) * 512
            self.small_peak = max(self.small, self.small_peak)
        else:
            self.low += sign * size
            self.large += sign * -(-size // PAGE) * PAGE

    def small_by_page(self, size, sign):
        """Fill pages one after the other; each is kept until its last block is freed. Frees are in order of age."""
        if sign > 0:
            if self.page_room < size:
                self.page_blocks.append(0)
                self.page_room = PAGE
                self.low += PAGE
                self.large += PAGE
            self.page_room -= size
            self.page_blocks[-1] += 1
            self.page_of.append(len(self.page_blocks) - 1)
        else:
            page = self.page_of[self.small]  # the caller frees every other one: see the family
            self.small += 2
            self.page_blocks[page] -= 1
            if self.page_blocks[page] == 0:
                self.low -= PAGE
                self.large -= PAGE

    def take(self, node, refusable=False):
        bag, _, kind = node.args
        turn = self.turns.get(id(node), 0)
        self.turns[id(node)] = turn + 1
        size = node.sizes[turn % len(node.sizes)]
        self.allocations += 1
        if kind == "pitch":
            size = -(-size // 4096) * 4096
        if refusable:
            needs = size if kind != "stream" else STREAM
            if self.low + needs > self.usable + MARGIN:
                self.failed, self.refusals = True, self.refusals + 1
                return
            if self.high() + needs > self.usable - MARGIN:
                raise Impossible("a refusal that may not come")
        if kind == "cached" and self.idle.get(size, 0) > 0:
            self.idle[size] -= 1
            self.idle_bytes -= -(-size // PAGE) * PAGE
        self.add(kind, size, 1)
        self.bags.setdefault(bag, []).append((kind, size))
        self.low_peak = max(self.low_peak, self.low)
        high = self.high()
        self.high_peak = max(self.high_peak, high)
        # Only a request through the cache flushes the unused memory of the program's own cache.
        idle = 0 if kind == "cached" else sum(size * count for size, count in self.idle.items() if count)
        if self.low + idle > self.usable + MARGIN:
            raise End("oom", self.main_turn)

    def give(self, item):
        kind, size = item
        self.add(kind, size, -1)
        if kind == "cached":
            self.idle[size] = self.idle.get(size, 0) + 1
            self.idle_bytes += -(-size // PAGE) * PAGE

    def walk(self, nodes, turn, in_main=True):
        for node in nodes:
            self.ops += 1
            if self.ops > self.ops_max:
                raise Impossible("too long")
            op, args = node.op, node.args
            if op == "alloc":
                self.take(node)
            elif op == "try":
                self.take(node, True)
            elif op == "freeall":
                for item in self.bags.pop(args[0], ()):
                    self.give(item)
            elif op == "freelast":
                if self.bags.get(args[0]):
                    self.give(self.bags[args[0]].pop())
            elif op == "freehalf":
                bag = self.bags.get(args[0], [])
                for item in bag[::2]:
                    self.give(item)
                self.bags[args[0]] = bag[1::2]
            elif op == "trim":
                bag = self.bags.get(args[0], [])
                while len(bag) > args[1]:
                    self.give(bag.pop(0))
            elif op == "loop":
                main = len(args) > 1
                for i in range(args[0]):
                    if main:
                        self.main_turn = i
                    self.walk(node.body, i)
            elif op == "vloop":
                number = self.turns.get(id(node), 0)
                self.turns[id(node)] = number + 1
                for i in range(node.sizes[number % len(node.sizes)]):
                    self.walk(node.body, i)
            elif op == "if":
                how = args[0]
                if (turn % args[1] == args[2] if how == "every" else turn >= args[1] if how == "from" else
                        turn < args[1] if how == "until" else chosen(turn, args[1]) if how == "chosen" else
                        turn == args[1]):
                    self.walk(node.body, turn)
            elif op == "iffailed":
                if self.failed:
                    self.walk(node.body, turn)
            elif op == "call":
                self.walk(node.body, turn)
            elif op == "launch":
                self.ops += args[1]
            elif op == "flush":
                self.idle, self.idle_bytes = {}, 0
            elif op == "trimpools":
                if self.pools_kept:
                    self.low -= sum(self.pool_peaks.values()) - sum(self.pools.values())
                self.pool_peaks = dict(self.pools)
            elif op == "keeppools":
                self.pools_kept = True
            elif op == "endclean":
                for bag in list(self.bags):
                    for item in self.bags.pop(bag):
                        self.give(item)
            elif op in ("exit", "kill", "throw"):
                raise End(op, args[0])
            elif op == "begin":
                if self.usable < -MARGIN:
                    raise End("oom")
                if self.usable < MARGIN:
                    raise Impossible("a context that may be refused")
                self.large += args[0] * STREAM + 2 * PAGE


class Outcome:
    """`end`: "oom", "exit", "kill", "throw"; `unsure`: the bounds do not decide whether it runs out of memory."""

    def __init__(self, end, detail, walk, usable):
        self.end, self.detail, self.walk = end, detail, walk
        self.low_peak, self.high_peak, self.refusals = walk.low_peak, walk.high_peak, walk.refusals
        self.unsure = end != "oom" and walk.high_peak > usable - MARGIN
        self.ops = walk.ops


def threads_of(nodes):
    return [n for n in nodes if n.op == "thread"]


def holds(nodes, usable, ops_max, by_page=False):
    """Determine how a program ends on a GPU with this much memory left for it."""
    if not threads_of(nodes):
        walk = Holds(usable, ops_max, by_page)
        try:
            walk.walk(nodes, 0)
        except End as end:
            return Outcome(end.how, end.detail, walk, usable)
        return Outcome("exit", 0, walk, usable)
    # Threads interleave in any order. Only two values are certain: the use of each thread alone, and the memory left
    # when all are done.
    first = [i for i, n in enumerate(nodes) if n.op == "thread"][0]
    before = nodes[:first]
    rest = [n for n in nodes[first:] if n.op != "thread"]
    high, base = 0, None
    for thread in threads_of(nodes):
        alone = Holds(usable, ops_max)
        alone.walk(before, 0)
        base = alone.high()
        try:
            alone.walk(thread.body, 0)
        except End as end:
            return Outcome(end.how, end.detail, alone, usable)
        high += alone.high_peak - base
    walk = Holds(usable, ops_max)
    walk.walk(before, 0)
    after = Holds(usable * 64, ops_max)
    after.walk(before, 0)
    for thread in threads_of(nodes):
        after.walk(thread.body, 0)
    after.high_peak = base + high
    after.low_peak = after.low
    if after.low > usable + MARGIN:
        return Outcome("oom", None, after, usable)
    try:
        after.walk(rest, 0)
    except End as end:
        return Outcome(end.how, end.detail, after, usable)
    return Outcome("exit", 0, after, usable)


# ---- drawing -------------------------------------------------------------------------------------------------------

WAITS = ("ctx", "stream", "event", "dtoh", "htod", "dtoha", "poll", "none")


class Draft:
    """One program while it is drawn: the GPU, the random numbers, and the parts from which families are built."""

    def __init__(self, rng, language):
        self.rng, self.language = rng, language
        self.card = rng.choice([2, 2, 3, 4, 4, 6, 8, 12, 16, 24, 40, 80]) * GIB
        self.bags_used = 0
        self.streams = rng.choice([1, 1, 1, 2, 3])
        self.kind = rng.choices(["plain", "async", "pool", "vmm", "pitch", "cached", "vmmr"],
                                [58, 11, 6, 6, 5, 11, 3])[0]
        self.wait = rng.choice(WAITS)
        self.ops_max = 3000 if language == "python" else 14000
        self.usable = self.card - CONTEXT
        self.notes = {}
        self.neighbour, self.kept_bags = None, set()
        self.fail = rng.choice({"c": ["exit", "exit", "quiet", "cleanup", "abort"],
                                "plan": ["exit", "exit", "quiet", "cleanup", "abort"],
                                "c++": ["exit", "throw", "cleanup", "abort"],
                                "python": ["raise", "raise", "quiet"]}[language])
        self.places = list(range(24))
        rng.shuffle(self.places)
        self.next_place = 0

    def place(self):
        self.next_place += 1
        return self.places[(self.next_place - 1) % len(self.places)]

    def bag(self):
        self.bags_used += 1
        if self.bags_used > 60:
            raise Impossible("bags")
        return self.bags_used - 1

    def log(self, low, high):
        return math.exp(self.rng.uniform(math.log(low), math.log(high)))

    def size(self, size, kind=None):
        kind = kind or self.kind
        step = PAGE if kind.startswith("vmm") else self.rng.choice([512, 4096, 64 * KIB, MIB])
        size = max(int(size), 512)
        if size < 4 * step:
            step = PAGE if kind.startswith("vmm") else 512
        return max(step, size // step * step)

    def sizes(self, mean, pattern, count, kind=None):
        """Draw a table of sizes with this mean."""
        rng = self.rng
        if pattern == "equal":
            return [self.size(mean, kind)]
        if pattern == "varied":
            return [self.size(mean * rng.uniform(0.3, 1.7), kind) for _ in range(max(8, min(count, 600)))]
        if pattern == "cycle":
            return [self.size(mean * rng.uniform(0.4, 1.6), kind) for _ in range(rng.randint(2, 7))]
        count = max(8, min(count, 1200))  # growing
        slope = rng.uniform(0.3, 1.5)
        return [self.size(mean * (1 - slope / 3 + 2 * slope / 3 * i / count), kind) for i in range(count)]

    def work(self, launches=None):
        """Draw kernels, or none."""
        rng = self.rng
        count = rng.choice([0, 1, 1, 2, 3, 5, 8]) if launches is None else launches
        if count == 0:
            return []
        return [Node("launch", rng.randrange(8), count, rng.randint(0, self.streams))]

    def waits(self):
        return [] if self.wait == "none" else [Node("wait", self.wait, self.rng.randint(0, self.streams))]

    # -- pieces of a program

    def warm(self, budget, kind=None):
        """Weights, optimizer state, constants, an arena: memory that lives as long as the program, at most `budget`
        bytes."""
        rng, kind = self.rng, kind or self.kind
        style = rng.choice(["lines", "layers", "layers", "states", "arena", "data"])
        if budget < 8 * MIB:
            style = "lines"
        bag = self.bag()
        if style == "lines":
            count = rng.randint(1, 6)
            return [alloc(bag, self.place(), kind, self.size(budget * 0.95 / count * rng.uniform(0.3, 1), kind))
                    for _ in range(count)]
        if style in ("arena", "data"):
            block = [alloc(bag, self.place(), "plain", self.size(budget * rng.uniform(0.5, 0.95), "plain"))]
            return block + ([Node("memset", bag)] if rng.random() < 0.5 else [])
        layers = rng.randint(3, 40)
        parts = rng.randint(1, 4) if style == "states" else 1
        pattern = rng.choice(["equal", "varied", "cycle"])
        body = []
        for _ in range(parts):
            body.append(alloc(bag, self.place(), kind, self.sizes(budget * 0.55 / layers / parts, pattern, layers, kind)))
        if rng.random() < 0.4:
            body.append(Node("wait", "htod", 0))
        body += self.work(rng.choice([0, 0, 1]))
        build = [loop(layers, body)]
        return [call(4, build)] if rng.random() < 0.6 else build

    def transients(self, budget, count, steps):
        """What one step allocates and frees: (statements at its start, at its end)."""
        rng = self.rng
        if count == 0 or budget < 4096:
            return [], []
        style = rng.choice(["end", "end", "layers", "workspace", "mixed", "prefetch", "lengths"])
        pattern = rng.choice(["equal", "varied", "cycle"])
        kind = self.kind if rng.random() < 0.8 else rng.choice(["plain", "cached", "async"])
        start, end = [], []
        if style == "layers":
            bag = self.bag()
            table = self.sizes(budget * 0.5 / count, pattern, steps * count, kind)
            start.append(loop(count, [alloc(bag, self.place(), kind, table)] + self.work(1)))
            if rng.random() < 0.5:
                end.append(loop(count, self.work(1) + [Node("freelast", bag)]))
            end.append(Node("freeall", bag))
        elif style == "lengths":  # sequences: a different number of blocks in each step
            bag = self.bag()
            table = self.sizes(budget * 0.4 / count, pattern, steps * count, kind)
            counts = [rng.randint(1, count) for _ in range(min(steps, 400))]
            start.append(varied_loop(counts, [alloc(bag, self.place(), kind, table)] + self.work(rng.choice([0, 1]))))
            end.append(Node("freeall", bag))
        elif style == "prefetch":  # each lives until the next step has its own
            for _ in range(min(count, 3)):
                bag = self.bag()
                table = self.sizes(budget * 0.25 / min(count, 3), pattern, steps, kind)
                start.append(alloc(bag, self.place(), kind, table))
                end.append(Node("trim", bag, rng.randint(1, 2)))
        elif style == "workspace":
            bag = self.bag()
            table = self.sizes(budget * 0.55, pattern, steps * count, kind)
            start.append(loop(count, [alloc(bag, self.place(), kind, table)] + self.work(1) + [Node("freelast", bag)]))
        else:
            groups = 1 if style == "end" else 2
            for group in range(groups):
                bag = self.bag()
                for _ in range(max(1, min(count // groups, 15))):
                    table = self.sizes(budget * 0.5 / count, rng.choice(["equal", pattern]), steps, kind)
                    start.append(alloc(bag, self.place(), kind, table))
                    if rng.random() < 0.4:
                        start += self.work(1)
                (end if group == 0 else start).append(Node("freeall", bag))
        return start, end

    def insert(self, body, nodes):
        at = self.rng.randint(0, len(body))
        return body[:at] + nodes + body[at:]

    def program(self, body, endings=None):
        """Add beginning and end around the body."""
        rng = self.rng
        kinds = set(kinds_in(body))
        # Half of the programs have a kernel that takes time, but not if frees would queue up behind it in stream order.
        slow = int(rng.random() < 0.5 and not kinds & {"async", "pool"})
        begin = Node("begin", self.streams, 1, 1 if "pool" in kinds or rng.random() < 0.05 else 0, slow)
        head = [begin]
        if kinds & {"async", "pool"} and rng.random() < 0.5:
            if begin.args[2] == 0:
                begin.args = (self.streams, 1, 1, slow)
            head.append(Node("keeppools"))
        tail = endings
        if tail is None:
            tail = [Node("endclean"), Node("exit", 0)] if rng.random() < 0.7 else [Node("exit", 0)]
        return head + body + tail

    def main_loop(self, count, body):
        node = loop(count, body)
        node.args = (int(count), "main")
        return [call(7, [node])] if self.rng.random() < 0.4 else [node]

    def step_cost(self, body):
        total = 0
        for node in body:
            if node.op in ("loop", "vloop"):
                times = node.args[0] if node.op == "loop" else max(node.sizes)
                total += times * self.step_cost(node.body) + 1
            elif node.body is not None:
                total += self.step_cost(node.body) + 1
            elif node.op == "launch":
                total += node.args[1]
            else:
                total += 1
        return total


def kinds_in(nodes):
    for node in nodes:
        if node.op in ("alloc", "try"):
            yield node.args[2]
        if node.body is not None:
            yield from kinds_in(node.body)
