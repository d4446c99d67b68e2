"""Write a plan as a program: as text for the interpreter truth_plan, or as C, C++ or Python source."""

AROUND = ("train_step", "forward_pass", "backward_pass", "optimizer_step", "build_model", "validate", "load_data",
          "train_epoch")
PLACES = ("load_batch", "load_labels", "make_weights", "make_moments", "open_workspace", "forward_conv",
          "forward_linear", "save_hidden_state", "backward_conv", "collect_metrics", "evaluate", "forward_attention",
          "forward_mlp", "forward_norm", "backward_attention", "backward_mlp", "keep_outputs", "append_history",
          "cache_lookup", "read_records", "replay_add", "tensor_new", "buffer_create", "tensor_like")


class Interpreted:
    """Write one statement per line; blocks end with `end`. Tables of sizes come first."""

    def __init__(self, nodes, fail="exit", neighbour=None):
        self.tables, self.known, self.lines = [], {}, []
        if neighbour is not None:
            self.lines.append(f"spawn {neighbour}")
        self.write(nodes)
        self.text = "\n".join([f"fail {fail}"] + self.tables + self.lines) + "\n"

    def table(self, sizes):
        key = tuple(sizes)
        if key not in self.known:
            self.known[key] = len(self.known)
            self.tables.append(f"table {self.known[key]} {len(sizes)} " + " ".join(map(str, sizes)))
        return self.known[key]

    def write(self, nodes):
        for node in nodes:
            if node.op in ("alloc", "try"):
                bag, place, kind = node.args
                self.lines.append(f"{node.op} {bag} {place} {kind} {self.table(node.sizes)}")
                continue
            if node.op == "vloop":
                self.lines.append(f"vloop {self.table(node.sizes)}")
            else:
                self.lines.append(" ".join([node.op, *map(str, node.args)]))
            if node.body is not None:
                self.write(node.body)
                self.lines.append("end")


class Compiled:
    """Write C, which is also C++: a function for each `call` and each thread, some of the allocations through
    helpers."""

    def __init__(self, nodes, rng, fail, language):
        self.rng, self.language = rng, language
        self.tables, self.known, self.functions, self.helpers = [], {}, [], {}
        self.counter = 0
        self.through = rng.random() < 0.5
        main = self.body(nodes, 1, "0")
        head = (["#include <exception>"] if language == "c++" else []) + ['#include "truth_run.h"', ""]
        if self.counter and any(f.startswith("static void *thread") for f in self.functions):
            head += ["static pthread_t threads[8];", "static int threads_count;"]
        head += ["static MAYBE_UNUSED int failed;", ""]
        self.text = "\n".join(head + self.tables + list(self.helpers.values()) + self.functions + [
            "int main(void)", "{", f'    fail_style = "{fail}";'] + main + ["    return 0;", "}", ""])

    def sizes(self, sizes):
        if len(sizes) == 1:
            return f"(size_t){sizes[0]}", None
        key = tuple(sizes)
        if key not in self.known:
            self.known[key] = f"sizes_{len(self.known)}"
            self.tables.append(f"static const size_t {self.known[key]}[] = {{{', '.join(map(str, sizes))}}};")
        self.counter += 1
        name = self.known[key]
        return f"{name}[turn_{self.counter}++ % {len(sizes)}]", f"static size_t turn_{self.counter};"

    def helper(self, kind, place):
        """Some places share a helper, like programs with a tensor class."""
        if not self.through:
            return None
        name = f"{PLACES[place % 3 + 21]}_{kind}"
        if name not in self.helpers:
            self.helpers[name] = (f"static NOINLINE void {name}(struct bag *bag, size_t bytes)\n{{\n"
                                  f"    TAKE({kind}, bag, bytes);\n}}\n")
        return name

    def function(self, name, body):
        self.functions.append(f"static NOINLINE void {name}(long long turn)\n{{\n    (void)turn;\n" + "\n".join(body) +
                              "\n}\n")

    def body(self, nodes, depth, turn):
        lines, pad = [], "    " * depth
        for node in nodes:
            op, args = node.op, node.args
            if op in ("alloc", "try"):
                lines += self.allocation(node, pad)
            elif op == "loop":
                self.counter += 1
                index = f"i{self.counter}"
                lines.append(f"{pad}for (long long {index} = 0; {index} < {args[0]}; {index}++) {{")
                lines += self.body(node.body, depth + 1, index) + [f"{pad}}}"]
            elif op == "vloop":
                count, number = self.sizes(node.sizes)
                self.counter += 1
                index = f"i{self.counter}"
                lines += [f"{pad}{{"] + ([f"{pad}    {number}"] if number else [])
                lines.append(f"{pad}    for (long long {index} = 0, end{index} = (long long){count}; {index} < end{index}; "
                             f"{index}++) {{")
                lines += self.body(node.body, depth + 2, index) + [f"{pad}    }}", f"{pad}}}"]
            elif op == "if":
                how = args[0]
                test = (f"{turn} % {args[1]} == {args[2]}" if how == "every" else f"{turn} >= {args[1]}" if how == "from"
                        else f"{turn} < {args[1]}" if how == "until" else f"chosen({turn}, {args[1]})" if how == "chosen"
                        else f"{turn} == {args[1]}")
                lines += [f"{pad}if ({test}) {{"] + self.body(node.body, depth + 1, turn) + [f"{pad}}}"]
            elif op == "iffailed":
                lines += [f"{pad}if (failed) {{"] + self.body(node.body, depth + 1, turn) + [f"{pad}}}"]
            elif op == "call":
                self.counter += 1
                name = f"{AROUND[args[0] % len(AROUND)]}_{self.counter}"
                self.function(name, self.body(node.body, 1, "turn"))
                lines.append(f"{pad}{name}({turn});")
            elif op == "thread":
                self.counter += 1
                name = f"thread_{self.counter}"
                body = self.body(node.body, 1, "0")
                self.functions.append(f"static void *{name}(void *unused)\n{{\n    (void)unused;\n"
                                      "    CHECKED(cuCtxSetCurrent(the_context));\n" + "\n".join(body) +
                                      "\n    return NULL;\n}\n")
                lines.append(f"{pad}pthread_create(&threads[threads_count++], NULL, {name}, NULL);")
            else:
                lines.append(pad + self.statement(op, args))
        return lines

    def allocation(self, node, pad):
        bag, place, kind = node.args
        sizes, turn = self.sizes(node.sizes)
        if node.op == "try":
            body = [f"CUresult result = CUDA_SUCCESS;", f"TAKE_TRY({kind}, &bags[{bag}], {sizes});",
                    "if (result != CUDA_SUCCESS)", "    failed = 1;"]
        else:
            helper = self.helper(kind, place)
            body = [f"{helper}(&bags[{bag}], {sizes});" if helper else f"TAKE({kind}, &bags[{bag}], {sizes});"]
        if turn is None and node.op == "alloc":
            return [pad + line for line in body]
        return [pad + "{"] + [pad + "    " + line for line in ([turn] if turn else []) + body] + [pad + "}"]

    def statement(self, op, args):
        if op == "launch":
            count = args[1]
            if count == 1:
                return f"launch({args[0]}, {args[2]}, scratch);"
            return f"for (int k = 0; k < {count}; k++)\n        launch(({args[0]} + k) % KERNELS, {args[2]}, scratch);"
        if op == "throw" and self.language == "c++":
            return f'throw truth_failure("{args[0]}");'
        return {"freeall": lambda: f"give_all(&bags[{args[0]}]);", "freelast": lambda: f"give_last(&bags[{args[0]}]);",
                "freehalf": lambda: f"give_half(&bags[{args[0]}]);",
                "trim": lambda: f"give_beyond(&bags[{args[0]}], {args[1]});",
                "wait": lambda: f'wait_for("{args[0]}", {args[1]});',
                "memset": lambda: f"CHECKED(cuMemsetD8Async(newest(&bags[{args[0]}]), 0, 256, NULL));",
                "join": lambda: "while (threads_count > 0)\n        pthread_join(threads[--threads_count], NULL);",
                "say": lambda: f'fprintf(stderr, "{args[0]}\\n");', "exit": lambda: f"stop({args[0]});",
                "kill": lambda: f"kill(getpid(), {args[0]});", "throw": lambda: f'fprintf(stderr, "{args[0]}\\n"), stop(1);',
                "keeppools": lambda: "keep_pools();", "trimpools": lambda: "trim_pools();",
                "flush": lambda: "cache_flush();", "probe": lambda: f'probe("{args[0]}");',
                "endclean": lambda: "end_clean();",
                "begin": lambda: f"begin({args[0]}, {args[1]}, {args[2]}, {args[3]});"}[op]()


class Scripted:
    """Write Python with ctypes: a function for each `call` and for each place."""

    def __init__(self, nodes, fail):
        self.functions, self.places, self.tables, self.known = [], {}, [], {}
        self.counter = 0
        main = self.body(nodes, 1, "0")
        self.text = "\n".join(["import threading", "", "import truth_run as gpu", "",
                               "bags = [[] for _ in range(64)]", "turns = [0] * 4096", "threads = []",
                               f'gpu.fail_style = "{fail}"', ""] + self.tables + [""] + list(self.places.values()) +
                              self.functions + ["def main():"] + main + ["", "main()", ""])

    def place(self, number, kind):
        name = f"{PLACES[number % len(PLACES)]}_{kind}"
        if name not in self.places:
            self.places[name] = f'def {name}(bag, count):\n    gpu.new(bag, "{kind}", count)\n'
        return name

    def sizes(self, sizes):
        if len(sizes) == 1:
            return str(sizes[0]), []
        key = tuple(sizes)
        if key not in self.known:
            self.known[key] = f"SIZES_{len(self.known)}"
            self.tables.append(f"{self.known[key]} = {list(sizes)}")
        self.counter += 1
        return (f"{self.known[key]}[turns[{self.counter}] % {len(sizes)}]", [f"turns[{self.counter}] += 1"])

    def body(self, nodes, depth, turn):
        lines, pad = [], "    " * depth
        for node in nodes:
            op, args = node.op, node.args
            if op in ("alloc", "try"):
                sizes, after = self.sizes(node.sizes)
                if op == "try":
                    lines.append(f'{pad}gpu.attempt(bags[{args[0]}], "{args[2]}", {sizes})')
                else:
                    lines.append(f"{pad}{self.place(args[1], args[2])}(bags[{args[0]}], {sizes})")
                lines += [pad + line for line in after]
            elif op == "loop":
                self.counter += 1
                lines += [f"{pad}for i{self.counter} in range({args[0]}):"] + \
                    self.body(node.body, depth + 1, f"i{self.counter}")
            elif op == "vloop":
                count, after = self.sizes(node.sizes)
                self.counter += 1
                lines += [f"{pad}count{self.counter} = {count}"] + [pad + line for line in after]
                lines += [f"{pad}for i{self.counter} in range(count{self.counter}):"] + \
                    self.body(node.body, depth + 1, f"i{self.counter}")
            elif op == "if":
                how = args[0]
                test = (f"{turn} % {args[1]} == {args[2]}" if how == "every" else f"{turn} >= {args[1]}" if how == "from"
                        else f"{turn} < {args[1]}" if how == "until" else f"gpu.chosen({turn}, {args[1]})"
                        if how == "chosen" else f"{turn} == {args[1]}")
                lines += [f"{pad}if {test}:"] + self.body(node.body, depth + 1, turn)
            elif op == "iffailed":
                lines += [f"{pad}if gpu.failed:"] + self.body(node.body, depth + 1, turn)
            elif op in ("call", "thread"):
                self.counter += 1
                name = f"{AROUND[args[0] % len(AROUND)]}_{self.counter}" if op == "call" else f"thread_{self.counter}"
                head = ["    gpu.make_current()"] if op == "thread" else []
                self.functions += [f"def {name}(turn):"] + head + self.body(node.body, 1, "turn") + [""]
                lines += ([f"{pad}{name}({turn})"] if op == "call" else
                          [f"{pad}threads.append(threading.Thread(target={name}, args=(0,)))", f"{pad}threads[-1].start()"])
            else:
                lines.append(pad + self.statement(op, args))
        return lines or [pad + "pass"]

    def statement(self, op, args):
        return {"freeall": lambda: f"gpu.give_all(bags[{args[0]}])", "freelast": lambda: f"gpu.give_last(bags[{args[0]}])",
                "freehalf": lambda: f"gpu.give_half(bags[{args[0]}])",
                "trim": lambda: f"gpu.give_beyond(bags[{args[0]}], {args[1]})",
                "launch": lambda: f"gpu.launch({args[0]}, {args[2]}, {args[1]})",
                "wait": lambda: f'gpu.wait_for("{args[0]}", {args[1]})', "memset": lambda: f"gpu.memset(bags[{args[0]}])",
                "join": lambda: "for thread in threads: thread.join()",
                "say": lambda: f'gpu.sys.stderr.write("{args[0]}\\n")', "exit": lambda: f"gpu.leave({args[0]})",
                "kill": lambda: f"gpu.kill({args[0]})", "throw": lambda: f'raise ValueError("{args[0]}")',
                "keeppools": lambda: "gpu.keep_pools()", "trimpools": lambda: "gpu.trim_pools()",
                "flush": lambda: "gpu.flush()", "probe": lambda: f'gpu.probe("{args[0]}")',
                "endclean": lambda: "gpu.end_clean(bags)",
                "begin": lambda: f"gpu.begin({args[0]}, {args[1]}, {args[2]}, {args[3]})"}[op]()
