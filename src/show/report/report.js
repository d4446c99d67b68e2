// Draws the charts with dygraphs. The data is in the element "charts": one object for each chart, with times in ns.
"use strict";

const charts = JSON.parse(document.getElementById("charts").textContent);
const graphs = []; // {chart, graph}, so that tests and other charts can find them

const GIB = 1024 ** 3;
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function timeText(seconds) {
  const whole = Math.floor(seconds), two = (n) => String(n).padStart(2, "0");
  if (seconds < 1) return seconds.toFixed(3) + " s";
  if (seconds < 10) return seconds.toFixed(2) + " s";
  if (seconds < 120) return seconds.toFixed(1) + " s";
  if (seconds < 3600) return Math.floor(whole / 60) + " min " + two(whole % 60) + " s";
  return Math.floor(whole / 3600) + " h " + two(Math.floor(whole % 3600 / 60)) + " min";
}

// An axis needs different labels for neighbouring ticks, so its times have as many digits as their distance.
function axisTime(seconds, granularity, options, graph) {
  const [from, to] = graph.xAxisRange(), span = to - from;
  if (seconds >= 120 && span >= 10) return timeText(seconds);
  const digits = Math.max(0, Math.min(9, 2 - Math.floor(Math.log10(span || 1))));
  return seconds.toFixed(span >= 10 ? 0 : digits) + " s";
}

function valueText(chart, value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "unknown";
  if (chart.unit !== "bytes") return Number(value.toFixed(1)) + " " + chart.unit;
  const unit = value < 1024 ? 0 : Math.min(5, Math.floor(Math.log2(value) / 10));
  return (value / 1024 ** unit).toFixed(unit === 0 ? 0 : 2) + " " + UNITS[unit];
}

function element(tag, text, className) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

// Fill the legend with the values of one row, which were still the same at `t_ns`. dygraphs stacks the values, so they are
// read from the data instead.
function showRow(chart, index, t_ns = chart.rows[index] && chart.rows[index][0]) {
  const legend = document.getElementById(chart.id + "-legend"), row = chart.rows[index];
  if (!row) return;
  legend.replaceChildren();
  if (!chart.stacked) {
    const what = index === chart.resting ? "highest: " : "";
    legend.append(what + valueText(chart, row[1]) + " at " + timeText(row[0] / 1e9));
    return;
  }
  const table = document.createElement("table");
  legend.append(element("div", "at " + timeText(t_ns / 1e9), "at"), table);
  const add = (name, value, swatch) => {
    const line = table.insertRow(), key = line.insertCell(), number = line.insertCell();
    key.className = "name";
    if (swatch !== null) key.append(element("i", "", "c" + swatch));
    key.append(name);
    number.className = "n";
    number.textContent = valueText(chart, value);
    if (swatch === null) line.style.fontWeight = "600";
  };
  chart.series.forEach((series, i) => add(series.name, row[i + 1], series.colour));
  const known = row.includes(null) ? "sum of the known values" : "sum";
  add(known, row.slice(1).reduce((sum, value) => sum + (value || 0), 0), null);
  if (chart.limit !== null) add(chart.limit_text, chart.limit, null);
}

// The row to show while nothing is pointed at: the first failure, otherwise the highest sum.
function restingRow(chart) {
  const failure = chart.marks[0];
  if (failure) {
    let last = 0;
    chart.rows.forEach((row, i) => { if (row[0] <= failure.t_ns) last = i; });
    return last;
  }
  const sums = chart.rows.map((row) => row.slice(1).reduce((sum, value) => sum + (value || 0), 0));
  return sums.reduce((best, sum, i) => (sum > sums[best] ? i : best), 0);
}

function showResting(chart) {
  const failure = chart.marks[0], row = chart.rows[chart.resting];
  if (failure && row && row[0] <= failure.t_ns) showRow(chart, chart.resting, failure.t_ns);
  else showRow(chart, chart.resting);
}

// Behind the values: phases and reduced clocks as bands, the limit and failures as lines.
function drawUnder(chart, context, area, graph) {
  for (const band of chart.bands) {
    const from = graph.toDomXCoord(band.from_ns / 1e9), to = graph.toDomXCoord(band.to_ns / 1e9);
    const isPhase = band.kind === "phase";
    context.fillStyle = colour(isPhase ? "--phase" : "--throttle");
    context.fillRect(from, area.y, Math.max(1, to - from), isPhase ? area.h : 8);
    context.fillStyle = colour("--dim");
    if (isPhase) {
      context.fillRect(from, area.y, 1, area.h);
      context.font = "13px sans-serif";
      if (to - from > context.measureText(band.text).width + 8) context.fillText(band.text, from + 4, area.y + 24);
    }
  }
}

function drawOver(chart, graph) {
  const area = graph.getArea(), context = graph.hidden_ctx_;
  context.save();
  context.beginPath();
  context.rect(area.x, area.y, area.w, area.h);
  context.clip();
  if (chart.limit !== null) {
    const y = graph.toDomYCoord(chart.limit);
    context.strokeStyle = colour("--ink");
    context.setLineDash([6, 4]);
    context.beginPath();
    context.moveTo(area.x, y);
    context.lineTo(area.x + area.w, y);
    context.stroke();
    context.setLineDash([]);
  }
  for (const mark of chart.marks) {
    const x = graph.toDomXCoord(mark.t_ns / 1e9);
    context.fillStyle = context.strokeStyle = colour("--bad");
    context.lineWidth = 2;
    context.beginPath();
    context.moveTo(x, area.y);
    context.lineTo(x, area.y + area.h);
    context.stroke();
    context.beginPath();
    context.moveTo(x - 7, area.y);
    context.lineTo(x + 7, area.y);
    context.lineTo(x, area.y + 11);
    context.fill();
  }
  context.restore();
}

// The text under a chart: what the marks and bands mean.
function listMarks(chart) {
  const list = document.getElementById(chart.id + "-marks"), shown = 8;
  if (!list) return;
  const lines = chart.marks.map((mark) => [mark.text, mark.kind]);
  for (const kind of ["throttle", "phase"]) {
    const bands = chart.bands.filter((band) => band.kind === kind);
    for (const band of bands)
      lines.push([timeText(band.from_ns / 1e9) + " to " + timeText(band.to_ns / 1e9) + ": " +
                  (kind === "phase" ? "phase " : "clocks reduced: ") + band.text, kind]);
  }
  lines.slice(0, shown).forEach(([text, kind]) => list.append(element("li", text, kind)));
  if (lines.length > shown) {
    const more = document.createElement("details"), inner = element("ul", "", "marks");
    more.append(element("summary", lines.length - shown + " more"), inner);
    lines.slice(shown).forEach(([text, kind]) => inner.append(element("li", text, kind)));
    list.append(more);
  }
}

// Steps of an axis in GiB or MiB, with whole numbers.
function byteTicks(low, high, pixels, options, graph) {
  const wanted = Math.max(2, pixels / 40);
  let step = 2 ** Math.ceil(Math.log2((high - low || 1) / wanted));
  const ticks = [], big = high >= GIB, unit = big ? GIB : 1024 ** 2;
  for (let v = Math.ceil(low / step) * step; v <= high; v += step)
    ticks.push({v, label: Number((v / unit).toFixed(2)) + (big ? " GiB" : " MiB")});
  return ticks;
}

function highest(chart) {
  const tops = chart.rows.map((row) => (chart.stacked ? row.slice(1).reduce((sum, v) => sum + (v || 0), 0) : row[1] || 0));
  return tops.reduce((top, value) => Math.max(top, value), 0);
}

function range(chart) {
  const top = highest(chart);
  const withLimit = chart.limit !== null && chart.limit < top * 2.5 ? Math.max(chart.limit, top) : top;
  return [0, withLimit * 1.1 || 1];
}

// Zooming one chart of a recording zooms the others, too.
function zoomOthers(chart, graph) {
  const window_ = graph.isZoomed("x") ? graph.xAxisRange() : null;
  for (const other of graphs)
    if (other.graph !== graph && other.chart.run === chart.run) other.graph.updateOptions({dateWindow: window_});
}

function options(chart) {
  return {
    labels: ["time"].concat(chart.series.map((series, i) => "s" + i)),
    colors: chart.series.map((series) => colour("--c" + series.colour)),
    stackedGraph: chart.stacked, stepPlot: true, fillGraph: chart.stacked,
    fillAlpha: chart.stacked ? 0.85 : 0.15, strokeWidth: chart.stacked ? 1 : 2,
    valueRange: range(chart), dateWindow: null, gridLineColor: colour("--line"), axisLineColor: colour("--dim"),
    legend: "never", animatedZooms: false, highlightCircleSize: 3, xRangePad: 6,
    interactionModel: Dygraph.defaultInteractionModel, // a range selector would make dragging move the chart
    showRangeSelector: chart.stacked, rangeSelectorHeight: 28,
    rangeSelectorPlotStrokeColor: colour("--dim"), rangeSelectorPlotFillColor: colour("--c8"),
    rangeSelectorPlotFillGradientColor: "", rangeSelectorBackgroundStrokeColor: colour("--line"),
    axes: {
      x: {axisLabelFormatter: axisTime, pixelsPerLabel: 90, axisLabelWidth: 90},
      y: chart.unit === "bytes" ? {ticker: byteTicks, axisLabelWidth: 70} : {axisLabelWidth: 70, pixelsPerLabel: 30},
    },
    underlayCallback: (context, area, graph) => drawUnder(chart, context, area, graph),
    drawCallback: (graph) => drawOver(chart, graph),
    highlightCallback: (event, x, points, row) => showRow(chart, row),
    unhighlightCallback: () => showResting(chart),
    zoomCallback: () => zoomOthers(chart, graphs.find((one) => one.chart === chart).graph),
  };
}

function draw(chart) {
  if (chart.rows.length === 0) return;
  chart.resting = restingRow(chart);
  // A gap in one layer of a stack would leave a hole in the layers above it, so it is drawn as 0. The legend says
  // "unknown".
  const drawn = (value) => (value === null && chart.stacked ? 0 : value);
  const rows = chart.rows.map((row) => [row[0] / 1e9].concat(row.slice(1).map(drawn)));
  graphs.push({chart, graph: new Dygraph(document.getElementById(chart.id), rows, options(chart))});
  showResting(chart);
  listMarks(chart);
}

function redraw() {
  for (const {chart, graph} of graphs) {
    const {dateWindow, ...rest} = options(chart);
    graph.updateOptions(rest);
  }
}

// A printed page is narrower than the window, and light. Canvases do not shrink, and one that gets another size at this
// moment is printed empty, so they keep their size and are scaled.
const PRINTED_WIDTH = 660;
function setPrinted(printed) {
  document.documentElement.classList.toggle("printed", printed);
  for (const {chart} of graphs) {
    const plot = document.getElementById(chart.id);
    plot.style.zoom = printed ? Math.min(1, PRINTED_WIDTH / plot.clientWidth) : "";
  }
  redraw();
}
addEventListener("beforeprint", () => setPrinted(true));
addEventListener("afterprint", () => setPrinted(false));

charts.forEach(draw);
window.gpuwhyGraphs = graphs;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
