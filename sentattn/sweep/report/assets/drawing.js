const SPACE = "http://www.w3.org/2000/svg";
const study = JSON.parse(document.getElementById("data").textContent);
const tip = document.getElementById("tip");
const isFirst = (trial) => study.front.includes(trial.number);

function shape(name, attributes, parent, text) {
  const element = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

function node(name, className, parent, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

// A drawing as wide as its place, with room for what is written beside it.
function drawing(parent, height, margin, title) {
  const width = Math.max(200, parent.clientWidth);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": title || "" }, parent);
  return { svg, left: margin.left, right: width - margin.right, top: margin.top, bottom: height - margin.bottom };
}

const short = (value) => typeof value === "number" ? String(Number(value.toPrecision(5))) : String(value);

// Few round numbers between two, evenly spaced.
function round(low, high, count) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count, size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * size).find((one) => one >= rough * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}

// From the values of an objective to pixels, with a little air at both ends.
function scale(values, from, to) {
  let low = Math.min(...values), high = Math.max(...values);
  if (low === high) { const air = Math.abs(low) * 0.05 || 1; low -= air; high += air; }
  const air = (high - low) * 0.05, map = (value) => from + (value - low + air) / (high - low + 2 * air) * (to - from);
  return Object.assign(map, { low, high });
}

function valueAxis(frame, map, count = 5) {
  for (const tick of round(map.low, map.high, count)) {
    shape("line", { x1: frame.left, x2: frame.right, y1: map(tick), y2: map(tick), class: "axis" }, frame.svg);
    shape("text", { x: frame.left - 6, y: map(tick) + 4, "text-anchor": "end" }, frame.svg, short(tick));
  }
}

// The axis of a setting: its ticks as far as there is room for them, and a break between 0 and a log scale.
function settingAxis(frame, axis) {
  const across = (at) => frame.left + at * (frame.right - frame.left);
  shape("line", { x1: frame.left, x2: frame.right, y1: frame.bottom, y2: frame.bottom, class: "axis" }, frame.svg);
  let taken = -Infinity;
  for (const [at, text] of axis.ticks) {
    const half = 3.2 * Math.min(text.length, 14);
    shape("line", { x1: across(at), x2: across(at), y1: frame.bottom, y2: frame.bottom + 4, class: "axis" }, frame.svg);
    if (across(at) - half < taken + 4) continue;
    taken = across(at) + half;
    const shown = text.length > 14 ? text.slice(0, 13) + "\u2026" : text;
    shape("text", { x: across(at), y: frame.bottom + 16, "text-anchor": "middle" }, frame.svg, shown);
  }
  if (axis.gap !== null) {
    const x = across(axis.gap), y = frame.bottom;
    shape("rect", { x: x - 3, y: y - 3, width: 6, height: 6, fill: "var(--paper)" }, frame.svg);
    for (const dx of [-4, 1]) shape("line", { x1: x + dx, x2: x + dx + 3, y1: y + 4, y2: y - 4, class: "axis" }, frame.svg);
  }
  return across;
}

function mark(svg, x, y, trial) {
  if (trial.state === "failed") return shape("path", { d: `M${x - 3},${y - 3}l6,6m0,-6l-6,6`, class: "failed" }, svg);
  if (trial.state === "pruned") return shape("circle", { cx: x, cy: y, r: 3, class: "pruned" }, svg);
  return shape("circle", { cx: x, cy: y, r: isFirst(trial) ? 5.5 : 3.5, class: isFirst(trial) ? "best" : "complete" }, svg);
}

function about(trial) {
  const reached = trial.objectives
    ? study.objectives.map((one, i) => `${one.metric} ${short(trial.objectives[i])}`).join(", ") : trial.state;
  const values = Object.entries(trial.values).map(([key, value]) => `${key}=${value === null ? "null" : short(value)}`);
  return [`trial ${trial.number}: ${reached}`, ...values, ...(trial.note ? [trial.note] : [])].join("\n");
}

function tells(element, text) {
  element.addEventListener("pointerenter", (event) => tell(event, typeof text === "function" ? text() : text));
  element.addEventListener("pointerleave", () => { tip.hidden = true; });
}

function tell(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  const room = document.documentElement;
  tip.style.left = Math.max(6, Math.min(event.clientX + 12, room.clientWidth - tip.offsetWidth - 6)) + "px";
  const below = event.clientY + 14;
  tip.style.top = (below + tip.offsetHeight > room.clientHeight ? event.clientY - tip.offsetHeight - 10 : below) + "px";
}

function legend(parent, entries) {
  const list = node("div", "legend", parent);
  for (const [text, draw] of entries) {
    const entry = node("span", "", list);
    const svg = shape("svg", { viewBox: "0 0 14 10" }, entry);
    draw(svg);
    entry.append(text);
  }
}

const dot = (state, best) => (svg) => best
  ? shape("circle", { cx: 7, cy: 5, r: 4.5, class: "best" }, svg)
  : mark(svg, 7, 5, { state, number: -1 });
