const DEEP = 8;

// A colour between the scale's ends, in a few steps.
const shade = (share) => {
  const step = Math.min(DEEP - 1, Math.floor(Math.max(0, share) * DEEP)) / (DEEP - 1);
  return `color-mix(in srgb, var(--high) ${Math.round(100 * step)}%, var(--low))`;
};

// How good a value is among others, from 0 to 1.
function merit(values, mode) {
  const low = Math.min(...values), high = Math.max(...values);
  return (value) => high === low ? 1 : (mode === "max" ? value - low : high - value) / (high - low);
}

function shades(parent, objective, values) {
  const ends = [Math.min(...values), Math.max(...values)], [bad, good] = objective.mode === "max" ? ends : ends.reverse();
  const list = node("div", "legend", parent);
  const entry = node("span", "", list);
  entry.append(`${objective.metric} ${short(bad)} `);
  const svg = shape("svg", { viewBox: `0 0 ${DEEP * 12} 10`, style: `width:${DEEP * 12}px` }, entry);
  for (let i = 0; i < DEEP; i++)
    shape("rect", { x: i * 12, y: 0, width: 12, height: 10, style: `fill:${shade((i + 0.5) / DEEP)}` }, svg);
  entry.append(` ${short(good)}`);
}

// One chart a setting and objective: what trials reached with each of its values.
function slices(parent) {
  if (!complete.length) return false;
  const best = study.trials.find((trial) => trial.number === study.front[0]);
  for (const [place, objective] of study.objectives.entries()) for (const axis of study.axes) {
    const shown = complete.filter((trial) => axis.key in trial.at);
    if (!shown.length) continue;
    const chart = node("div", "", parent);
    node("h3", "", chart, several ? `${axis.key}: ${objective.metric}` : axis.key);
    const frame = drawing(chart, 190, { left: 52, right: 14, top: 8, bottom: 24 }, axis.key);
    const y = scale(complete.map((trial) => trial.objectives[place]), frame.bottom - 4, frame.top);
    valueAxis(frame, y, 4);
    const across = settingAxis(frame, axis);
    for (const trial of [...shown].sort((a, b) => isFirst(a) - isFirst(b))) {
      // Choices and 0 hold many trials in one place, so they are spread by their numbers.
      const width = axis.choices ? 0.5 / axis.ticks.length : axis.gap !== null && trial.at[axis.key] === 0 ? 0.04 : 0;
      const x = across(trial.at[axis.key] + width * ((trial.number * 0.618) % 1 - 0.5));
      tells(mark(frame.svg, x, y(trial.objectives[place]), trial), () => about(trial));
    }
    if (axis.condition) node("p", "note", chart, `Set in ${shown.length} of ${complete.length} complete trials.`);
  }
  return Boolean(best) || complete.length > 0;
}

// The smooth mean over two settings; where no trial is near, it is pale.
function surfaces(parent) {
  if (study.surfaces.every((one) => one === null)) return false;
  for (const [place, found] of study.surfaces.entries()) {
    if (!found) continue;
    const objective = study.objectives[place], chart = node("div", "", parent);
    const [ax, ay] = [found.x, found.y].map((key) => study.axes.find((axis) => axis.key === key));
    node("h3", "", chart, `${objective.metric}: ${ay.key} (up) over ${ax.key} (across)`);
    const frame = drawing(chart, 300, { left: 64, right: 14, top: 8, bottom: 26 }, "surface");
    const rows = found.means.length, columns = found.means[0].length;
    const sure = found.means.flatMap((row, i) => row.filter((_, j) => found.trust[i][j] > 0.3));
    const values = sure.length ? sure : found.means.flat(), good = merit(values, objective.mode);
    const [w, h] = [(frame.right - frame.left) / columns, (frame.bottom - frame.top) / rows];
    found.means.forEach((row, i) => row.forEach((mean, j) => {
      if (mean === null) return;
      shape("rect", { x: frame.left + j * w, y: frame.bottom - (i + 1) * h, width: w + 0.5, height: h + 0.5,
        style: `fill:${shade(Math.min(1, good(mean)))};fill-opacity:${found.trust[i][j]}` }, frame.svg);
    }));
    const across = settingAxis(frame, ax), up = (at) => frame.bottom - at * (frame.bottom - frame.top);
    for (const [at, text] of ay.ticks) {
      const words = text.length > 9 ? text.slice(0, 8) + "\u2026" : text;
      shape("text", { x: frame.left - 6, y: up(at) + 4, "text-anchor": "end" }, frame.svg, words);
    }
    for (const trial of complete) if (ax.key in trial.at && ay.key in trial.at)
      tells(mark(frame.svg, across(trial.at[ax.key]), up(trial.at[ay.key]), trial), () => about(trial));
    shades(chart, objective, values);
  }
  node("p", "note whole", parent, "A smooth mean of the trials around each point; pale where there are none. It says where to look, not what is there.");
  return true;
}

// A line a trial through all settings to what it reached; under an axis: not set in that trial.
function parallel(parent) {
  if (complete.length < 2 || !study.axes.length) return false;
  const objective = study.objectives[0], values = complete.map((trial) => trial.objectives[0]);
  const good = merit(values, objective.mode), count = study.axes.length, narrow = parent.clientWidth < 90 * (count + 1);
  const place = node("div", "wide", parent), inner = node("div", "", place);
  if (narrow) inner.style.width = `${90 * (count + 1)}px`;
  const frame = drawing(inner, 330, { left: 40, right: 50, top: 34, bottom: 30 }, "all settings");
  const x = (i) => frame.left + i / count * (frame.right - frame.left), y = (at) => frame.bottom - at * (frame.bottom - frame.top);
  const last = scale(values, frame.bottom, frame.top), missing = frame.bottom + 20;
  for (const trial of [...complete].sort((a, b) => isFirst(a) - isFirst(b) || good(a.objectives[0]) - good(b.objectives[0]))) {
    const stops = study.axes.map((axis, i) => [x(i), axis.key in trial.at ? y(trial.at[axis.key]) : missing]);
    const d = [...stops, [x(count), last(trial.objectives[0])]].map((stop, i) => `${i ? "L" : "M"}${stop}`).join("");
    const line = shape("path", { d, class: isFirst(trial) ? "line first" : "line", style: `stroke:${shade(good(trial.objectives[0]))}` }, frame.svg);
    points(frame.svg, line);
    tells(line, () => about(trial));
  }
  study.axes.forEach((axis, i) => {
    shape("line", { x1: x(i), x2: x(i), y1: frame.top, y2: frame.bottom, class: "axis" }, frame.svg);
    shape("text", { x: x(i), y: frame.top - (i % 2 ? 22 : 10), "text-anchor": "middle", class: "strong" }, frame.svg, axis.name);
    for (const [at, text] of axis.ticks)
      shape("text", { x: x(i) + 4, y: y(at) + 4 }, frame.svg, text.length > 10 ? text.slice(0, 9) + "\u2026" : text);
    if (axis.condition) shape("text", { x: x(i), y: missing + 4, "text-anchor": "middle" }, frame.svg, "not set");
  });
  shape("line", { x1: x(count), x2: x(count), y1: frame.top, y2: frame.bottom, class: "axis" }, frame.svg);
  shape("text", { x: frame.right + 48, y: frame.top - (count % 2 ? 22 : 10), "text-anchor": "end", class: "strong" }, frame.svg, objective.metric);
  for (const tick of round(last.low, last.high, 5)) shape("text", { x: x(count) + 4, y: last(tick) + 4 }, frame.svg, short(tick));
  shades(parent, objective, values);
  return true;
}
