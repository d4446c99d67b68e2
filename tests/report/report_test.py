"""`gpuwhy report` in a real browser: no error on the console, every section is there, the charts react to the mouse,
and the numbers are those of `gpuwhy explain --json`. Screenshots stay in the folder of the build.

    report_test.py CASE FOLDER      CASE: see CASES
    report_test.py --list
"""
import csv
import html.parser
import json
import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import harness  # noqa: E402
import scenarios  # noqa: E402
import webdriver  # noqa: E402
from harness import expect  # noqa: E402

SECTIONS = ("memory", "map", "holders", "ledger", "health", "failures", "libraries", "unknown")
BYTES_MAX = 3 << 20
LIVE_PEAK = 8  # gw_allocator_action
REAL = ROOT / "tests" / "fixtures" / "real"


def recorded(name, folder):
    """Run a scenario on the virtual card. Returns its recording."""
    scenario = scenarios.TABLE[name]
    harness.run_observed(scenario.argv, scenario.card, folder, scenario.options)
    return [folder / "run.gpuwhy"]


def twin(name, folder):
    scenario = scenarios.TABLE[name]
    harness.run_observed(scenario.twin, scenario.twin_card, folder)
    return [folder / "run.gpuwhy"]


def cut(name, folder):
    """A recording without its end, and with a damaged byte."""
    data = bytearray((REAL / name).read_bytes())
    del data[len(data) * 3 // 4:]
    data[len(data) // 2] ^= 0xFF
    (folder / "cut.gpuwhy").write_bytes(data)
    return [folder / "cut.gpuwhy"]


PROGRAM = """\
import ctypes
cu = ctypes.CDLL("libcuda.so.1")
device, context, pointer = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
cu.cuInit(0), cu.cuDeviceGet(ctypes.byref(device), 0), cu.cuCtxCreate_v2(ctypes.byref(context), 0, device)
while cu.cuMemAlloc_v2(ctypes.byref(pointer), 1 << 30) == 0: url = "https://me:hunter2@host/<b>"
raise SystemExit("no memory")
"""


def python(_, folder):
    """A Python program, so the recording has the hash of its file."""
    (folder / "work" / "prog.py").write_text(PROGRAM)
    harness.run_observed([sys.executable, str(folder / "work" / "prog.py")], scenarios.Card("4GiB"), folder)
    return [folder / "run.gpuwhy"]


def ranks(_, folder):
    """The recordings of two ranks that do not overlap in time, so each has its own verdict."""
    return [REAL / "fragmented.gpuwhy", REAL / "healthy_training.gpuwhy"]


def real(name, _):
    return [REAL / name]


# name: (how to get the recordings, of what, what is special about them)
CASES = {
    "s01": (recorded, "S01", {"zoom": True, "failure": True, "ledger": True, "map": True}),
    "s08": (recorded, "S08", {"zoom": True, "failure": True, "ledger": True, "map": True}),
    "clean": (twin, "S01", {"zoom": True, "clean": True}),
    "thermal": (recorded, "S25-thermal", {"zoom": True, "throttle": True, "health": True}),
    "fragmented": (real, "fragmented.gpuwhy", {"zoom": True, "failure": True, "health": True}),
    "leak": (real, "leak_second_run.gpuwhy", {"zoom": True, "failure": True}),
    "fault": (real, "illegal_address.gpuwhy", {}),
    "healthy": (real, "healthy_training.gpuwhy", {"zoom": True, "clean": True}),
    "deep": (real, "healthy_run_twice_deep.gpuwhy", {"zoom": True, "clean": True, "tensors": True}),
    "jax": (real, "preallocation_jax_torch.gpuwhy", {}),
    "snapshot": (lambda *_: [ROOT / "tests" / "fixtures" / "torch" / "leak.pickle"], None,
                 {"zoom": True, "map": True, "unknown": ("ledger", "failures", "libraries")}),
    "cut": (cut, "fragmented.gpuwhy", {"cut": True}),
    "source": (python, None, {"source": True, "failure": True}),
    "two": (ranks, None, {}),
}


def explained(files, folder):
    """The verdict as JSON. Recordings that have no verdict together are explained one by one."""
    status, out, err = harness.gpuwhy("explain", "--json", "--no-history", *files, folder=folder)
    return json.loads(out) if status in (0, 1) else None


def write_page(files, folder):
    page = folder / "report.html"
    status, out, err = harness.gpuwhy("report", *files, "-o", page, "--no-history", folder=folder)
    expect(status in (0, 1), f"gpuwhy report: exit status {status}: {err}")
    expect(str(page) in out, f"the output does not name the page: {out}")
    expect(page.stat().st_size < BYTES_MAX, f"the page has {page.stat().st_size} bytes")
    return page


class Links(html.parser.HTMLParser):
    """Everything that a page would load."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("src", "href", "action", "data", "poster") and not (value or "").startswith(("#", "data:")):
                self.found.append(f"<{tag} {name}={value}>")


def check_alone(page):
    """The page loads nothing."""
    links = Links()
    text = page.read_text()
    links.feed(text)
    expect(not links.found, f"the page loads: {links.found}")
    style = "".join(re.findall(r"<style>(.*?)</style>", text, re.S))
    expect("url(" not in style and "@import" not in style, "the style loads something")


def check_console(browser):
    bad = [entry for entry in browser.log() if entry["level"] == "SEVERE"]
    expect(not bad, f"errors on the console: {bad}")


def visible_text(browser, selector):
    return browser.run("const e = document.querySelector(arguments[0]); return e === null ? null : e.textContent", selector)


def check_sections(browser, count):
    for number in range(count):
        for name in SECTIONS:
            text = visible_text(browser, f"#{name}-{number}")
            expect(text is not None, f"no section {name}-{number}")
            expect(len(text.strip()) > len(name) + 10, f"section {name}-{number} is empty: {text!r}")


def squeeze(text):
    return " ".join((text or "").split())


def check_verdict(browser, verdict):
    """The page says what the JSON says, and contains it."""
    held = json.loads(visible_text(browser, "#verdict-json"))
    expect(held == verdict, "the JSON in the page differs from `gpuwhy explain --json`")
    text = squeeze(visible_text(browser, "#verdict"))
    wanted = [verdict["headline"], verdict["cause"], verdict["status"], *verdict["next"], *verdict["ruled_out"],
              *verdict["advice"], *verdict["consequences"], *(e["text"] for e in verdict["evidence"])]
    if verdict["status"] == "fault":
        wanted.append(verdict["certainty"])
    for words in filter(None, wanted):
        expect(squeeze(words) in text, f"the page does not say: {words}")
    if verdict["where"] and verdict["where"]["text"]:
        expect(squeeze(verdict["where"]["text"])[:40] in text, f"the page does not name {verdict['where']['text']}")
    for words in (verdict["coverage"] or {"unobserved": []})["unobserved"]:
        expect(squeeze(words) in squeeze(visible_text(browser, "#unknown-0")), f"the page hides: {words}")


def gib(text):
    """Return the size in bytes that a text like "2.39 GiB" means."""
    number, unit = text.split()
    return float(number) * 1024 ** ["B", "KiB", "MiB", "GiB", "TiB"].index(unit)


def check_numbers(browser, verdict, has_ledger):
    """The values at the failure are those of the evidence. With `has_ledger`, there must be such evidence."""
    held = [e for e in verdict["evidence"] if e["source"] == "ledger" and re.match(r"this process held", e["text"])]
    expect(held or not has_ledger, "the evidence has no number to compare with the chart")
    legend = browser.run("return [...document.querySelectorAll('#memory-0-0-legend tr')].map(r => [...r.cells].map(c => c.innerText))")
    own = [gib(value) for name, value in legend if not name.startswith(("contexts", "sum", "size", "limit"))
           and value != "unknown"]
    for evidence in held:
        said = gib(re.search(r"[\d.]+ [KMG]iB", evidence["text"]).group())
        # each value is rounded to two digits of its unit
        expect(abs(sum(own) - said) <= 0.011 * 1024 ** 3, f"the chart shows {sum(own)} bytes at the failure: {evidence['text']}")


def chart_box(browser):
    """Scroll the chart of the memory into view, and return its place in the window."""
    return browser.run("""
        const graph = gpuwhyGraphs.find(one => one.chart.id === 'memory-0-0').graph;
        const plot = document.getElementById('memory-0-0');
        plot.scrollIntoView({block: 'center'});
        const box = plot.getBoundingClientRect(), area = graph.getArea();
        return {x: box.x + area.x, y: box.y + area.y, w: area.w, h: area.h};""")


def zoom_range(browser):
    return browser.run("return gpuwhyGraphs.find(one => one.chart.id === 'memory-0-0').graph.xAxisRange()")


def check_tensors(browser, recording, folder):
    """The chart by line has the peak and the last value that PyTorch itself reported."""
    status, out, err = harness.gpuwhy("export", recording, "--to", "csv", folder=folder)
    rows = list(csv.DictReader(out.splitlines()))
    peak = max(int(r["arg2"]) for r in rows if r["kind"] == "ALLOCATOR_HISTORY" and int(r["arg0"]) == LIVE_PEAK)
    live = [int(r["arg1"]) for r in rows if r["kind"] == "ALLOCATOR_STATE" and int(r["arg0"]) == 0][-1]
    chart = browser.run("return gpuwhyGraphs.find(one => one.chart.id === 'tensors-0-0').chart")
    sums = [sum(row[1:]) for row in chart["rows"]]
    expect(max(sums) == peak, f"the highest sum is {max(sums)}, PyTorch's {peak}")
    expect(sums[-1] == live, f"the last sum is {sums[-1]}, PyTorch's {live}")
    expect("cnn.py:25 in Trainer.loss" in [series["name"] for series in chart["series"]], "no line of the program")


def check_hover(browser):
    box = chart_box(browser)
    shown = set()
    for part in (0.1, 0.5, 0.9):
        browser.mouse(("move", box["x"] + box["w"] * part, box["y"] + box["h"] / 2))
        shown.add(visible_text(browser, "#memory-0-0-legend"))
    expect(len(shown) == 3, f"the legend does not follow the mouse: {shown}")
    at = browser.run("""
        const {chart, graph} = gpuwhyGraphs.find(one => one.chart.id === 'memory-0-0');
        const row = chart.rows[graph.getSelection()];
        return {values: row.slice(1).map(v => valueText(chart, v)),
                shown: [...document.querySelectorAll('#memory-0-0-legend tr')].map(r => r.cells[1].innerText)}""")
    expect(at["shown"][:len(at["values"])] == at["values"], f"the legend shows other values: {at}")
    labels = browser.run("""
        const {chart} = gpuwhyGraphs.find(one => one.chart.id === 'memory-0-0');
        const unknown = chart.rows.findIndex(row => row.includes(null));
        const known = chart.rows.findIndex(row => !row.includes(null));
        return [unknown, known].map(index => {
            if (index < 0) return null;
            showRow(chart, index);
            return [...document.querySelectorAll('#memory-0-0-legend tr')].map(r => r.cells[0].innerText);
        });""")
    for names, wanted in zip(labels, ("sum of the known values", "sum")):
        expect(names is None or wanted in names, f"the sum is not called {wanted!r}: {names}")


def check_zoom(browser):
    box = chart_box(browser)
    before = zoom_range(browser)
    y = box["y"] + box["h"] / 2
    browser.mouse(("move", box["x"] + box["w"] * 0.3, y), ("down",), ("move", box["x"] + box["w"] * 0.6, y), ("up",))
    after = zoom_range(browser)
    ratio = (after[1] - after[0]) / (before[1] - before[0])
    expect(0.25 < ratio < 0.35, f"dragging over 30 % of the chart zooms to {ratio:.3f} of {before}: {after}")
    place = (box["x"] + box["w"] / 2, y)
    browser.mouse(("move", *place), ("down",), ("up",), ("down",), ("up",))
    again = zoom_range(browser)
    expect(abs(again[0] - before[0]) + abs(again[1] - before[1]) < 1e-6, f"a double click does not zoom out: {again}, {before}")


def check_failure_in_sight(browser):
    """At the size of a laptop, the verdict and the line of the failure are visible without scrolling."""
    browser.resize(1400, 1000)
    browser.run("scrollTo(0, 0)")
    place = browser.run("""
        const plot = document.getElementById('memory-0-0').getBoundingClientRect();
        return {top: plot.top, height: innerHeight};""")
    expect(place["top"] + 60 < place["height"], f"the failure is below the window: {place}")


def check_width(browser):
    wide = browser.run("return document.documentElement.scrollWidth - innerWidth")
    expect(wide <= 0, f"the page is {wide} pixels wider than the window")


def check_source(browser, recording, folder):
    """The page shows the program's line as the terminal does, without its password, and only while the file is the
    recorded one."""
    shown = visible_text(browser, "pre.source") or ""
    expect('> 5 | while cu.cuMemAlloc_v2(' in shown and "@host/<b>" in shown and "hunter2" not in shown, f"shown: {shown}")
    status, terminal, err = harness.gpuwhy("explain", "--all", "--no-history", recording, folder=folder)
    expect("hunter2" not in terminal and "> 5 | while cu.cuMemAlloc_v2(" in terminal, f"the terminal shows: {terminal}")
    program = folder / "work" / "prog.py"
    program.write_text(PROGRAM.replace("1 << 30", "1 << 31"))
    page = write_page([recording], folder / "work").read_text()
    expect("<pre class=\"source\">the source line is not shown because the file has changed" in page
           and "1 &lt;&lt; 31" not in page, "the line of a changed file is shown")


PRINT_DPI = 48  # a pixel of the sheet is two by two of the page

# How many coloured pixels the charts have on the screen, and will have on paper, where they are scaled.
COLOURED = """
    const printed = arguments[0];
    let count = 0;
    for (const plot of document.querySelectorAll('.plot')) {
        const scale = Math.min(1, printed / plot.clientWidth);
        for (const canvas of plot.querySelectorAll('canvas:not([class^=dygraph-rangesel])')) {
            const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            for (let i = 0; i < data.length; i += 4)
                if (data[i + 3] > 128 && Math.max(data[i], data[i + 1], data[i + 2]) > 60 + Math.min(data[i], data[i + 1], data[i + 2]))
                    count += scale * scale;
        }
    }
    return count;"""


def count_coloured(sheets, without):
    """The coloured pixels that are missing on the sheets `without`."""
    step = 3 * 64
    parts = ((one[i:i + step], other[i:i + step]) for one, other in zip(sheets, without) for i in range(0, len(one), step))
    return sum(a[k:k + 3] != b[k:k + 3] and max(a[k:k + 3]) > 40 + min(a[k:k + 3])
               for a, b in parts if a != b for k in range(0, len(a), 3))


def check_print(browser):
    """On paper, the charts fit on the sheet and have the colours that they have on the screen; then everything is as it
    was before. The colours are the light ones even if the screen is dark."""
    widths = "return [...document.querySelectorAll('.plot canvas')].map(canvas => canvas.getBoundingClientRect().width)"
    before = browser.run(widths)
    wanted = browser.run(COLOURED, 660)
    browser.prefer("dark")
    sheets = browser.print_pixels(PRINT_DPI)
    browser.prefer("light")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    printed = browser.run(widths)
    browser.run("dispatchEvent(new Event('afterprint'))")
    expect(all(width < 700 for width in printed), f"too wide for paper: {printed}")
    expect(browser.run(widths) == before, f"other sizes after printing: {browser.run(widths)}, {before}")
    dark = sum(channel < 100 for sheet in sheets for channel in sheet[::30])
    expect(dark < sum(len(sheet[::30]) for sheet in sheets) * 0.4, "the page is printed dark")
    browser.run("document.head.append(element('style', 'canvas { visibility: hidden; }'))")
    without = browser.print_pixels(PRINT_DPI)
    browser.run("document.head.lastChild.remove()")
    expect(len(sheets) == len(without), "without the charts' contents, the page has another number of sheets")
    seen = count_coloured(sheets, without) * (96 / PRINT_DPI) ** 2
    expect(0.5 * wanted <= seen <= 2 * wanted, f"{seen} coloured pixels are printed in the charts; on the screen: {wanted}")


def screenshots(browser, folder):
    for scheme in ("light", "dark"):
        for width in (800, 1400):
            browser.prefer(scheme)
            browser.resize(width, 1000)
            browser.run("scrollTo(0, 0)")
            check_width(browser)
            browser.screenshot(folder / f"{scheme}-{width}.png")
    height = browser.run("return document.documentElement.scrollHeight")
    browser.prefer("light")
    browser.resize(1400, min(height, 6000))
    browser.screenshot(folder / "whole.png")
    (folder / "print.pdf").write_bytes(browser.print_pdf())


def check(case, folder):
    make, what, special = CASES[case]
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "work").mkdir(parents=True)
    files = make(what, folder)
    verdict = explained(files, folder)
    page = write_page(files, folder)
    check_alone(page)
    with webdriver.Browser() as browser:
        browser.resize(1400, 1000)
        browser.open(page)
        check_sections(browser, len(files))
        if verdict is not None and len(files) == 1:
            check_verdict(browser, verdict)
            if special.get("failure"):
                check_numbers(browser, verdict, special.get("ledger"))
        if special.get("clean"):
            expect(verdict["status"] == "clean", f"not clean: {verdict['status']}")
        if special.get("cut"):
            expect("was cut" in visible_text(browser, "#unknown-0"), "the page does not say that the recording was cut")
        about = visible_text(browser, ".about")
        expect(files[0].suffix != ".gpuwhy" or re.match(r"Started \d{4}-\d\d-\d\d .* on \S+ by .*; gpuwhy \d", about),
               f"when, where and by whom is not said: {about}")
        if special.get("source"):
            check_source(browser, files[0], folder)
        if verdict is not None and len(files) == 1 and verdict["cause"] == "gpu-oom-leak":
            expect("Unknown: only a run" not in visible_text(browser, "#holders-0"), "a leak's page knows no leak")
        if special.get("failure"):
            expect("failed" in visible_text(browser, "#memory-0-0-marks"), "the failure is not marked")
            check_failure_in_sight(browser)
        if special.get("health"):
            expect(browser.run("return gpuwhyGraphs.some(one => one.chart.id.startsWith('health-'))"), "no chart of the card")
        if special.get("map"):
            rows = browser.run("return document.querySelectorAll('#map-0 .maprow').length")
            expect(rows > 1, "the map is empty")
        for name in special.get("unknown", ()):
            expect("Unknown: " in visible_text(browser, f"#{name}-0"), f"section {name} does not say that it knows nothing")
        if special.get("throttle"):
            bands = browser.run("return gpuwhyGraphs.map(one => one.chart.bands.filter(b => b.kind === 'throttle').length)")
            expect(all(count > 0 for count in bands), f"reduced clocks are not marked: {bands}")
            expect("clocks reduced" in visible_text(browser, "#memory-0-0-marks"), "reduced clocks are not explained")
        if special.get("tensors"):
            check_tensors(browser, files[0], folder)
        if special.get("zoom"):
            check_hover(browser)
            check_zoom(browser)
        check_print(browser)
        screenshots(browser, folder)
        check_console(browser)


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(CASES))
        return
    if webdriver.missing():
        harness.skip(f"not installed: {', '.join(webdriver.missing())}")
    if not (harness.BUILD / "lib" / "gpuwhy" / "report" / "dygraph.min.js").exists():
        harness.skip("this build has no dygraphs")
    harness.main(lambda: check(sys.argv[1], pathlib.Path(sys.argv[2]).resolve()))


if __name__ == "__main__":
    main()
