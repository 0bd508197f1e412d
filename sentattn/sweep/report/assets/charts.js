const complete = study.trials.filter((trial) => trial.state === "complete" && trial.objectives);
const several = study.objectives.length > 1;
const states = new Set(study.trials.map((trial) => trial.state));
// Trials of another space have no place in a chart, and interrupted ones are there again under another number.
const drawn = study.trials.filter((trial) => !["outside", "interrupted"].includes(trial.state));

// Each trial where it ended, and the best so far.
function history(parent) {
  const entries = [["complete", dot("complete")], [several ? "on the front" : "best", dot("complete", true)]];
  for (const state of ["pruned", "failed"]) if (states.has(state)) entries.push([state, dot(state)]);
  for (const [place, objective] of study.objectives.entries()) {
    node("h3", "", parent, objective.metric);
    const frame = drawing(parent, 240, { left: 58, right: 14, top: 10, bottom: 34 }, `${objective.metric} of each trial`);
    const last = (trial) => trial.objectives ? trial.objectives[place] : several ? null : (trial.steps.at(-1) || [])[1] ?? null;
    const values = drawn.map(last).filter((one) => one !== null);
    if (!values.length) { node("p", "note", parent, "No trial has reached anything yet."); continue; }
    const y = scale(values, frame.bottom, frame.top), most = study.trials.at(-1).number;
    const x = (number) => frame.left + 6 + (most ? number / most : 0.5) * (frame.right - frame.left - 12);
    valueAxis(frame, y);
    for (const tick of round(0, most, 8).filter(Number.isInteger))
      shape("text", { x: x(tick), y: frame.bottom + 16, "text-anchor": "middle" }, frame.svg, tick);
    shape("text", { x: frame.right, y: frame.bottom + 30, "text-anchor": "end" }, frame.svg, "trial");
    if (place === 0 && !several) {
      const points = complete.map((trial, i) => `${i ? `H${x(trial.number)}V` : `M${x(trial.number)},`}${y(trial.best)}`);
      if (points.length) shape("path", { d: points.join("") + `H${x(most)}`, class: "track" }, frame.svg);
    }
    for (const trial of drawn) {
      const value = last(trial);
      if (value === null && trial.state !== "failed") continue;
      const element = mark(frame.svg, x(trial.number), value === null || trial.state === "failed" ? frame.bottom : y(value), trial);
      tells(element, () => about(trial));
    }
    if (place === 0) legend(parent, several ? entries : [...entries, ["best so far", (svg) =>
      shape("line", { x1: 0, x2: 14, y1: 5, y2: 5, class: "track" }, svg)]]);
  }
}

// How each trial came on; what a line shows after an epoch is the best epoch up to there.
function curves(parent) {
  const shown = drawn.filter((trial) => trial.steps.length);
  if (shown.every((trial) => trial.steps.length < 2)) return false;
  const order = [...shown].sort((a, b) => isFirst(a) - isFirst(b));
  const frame = drawing(parent, 260, { left: 58, right: 14, top: 10, bottom: 34 }, "how trials came on");
  const steps = shown.flatMap((trial) => trial.steps.map((step) => step[0]));
  const low = Math.min(...steps), high = Math.max(...steps);
  const x = (step) => frame.left + 10 + (step - low) / Math.max(1, high - low) * (frame.right - frame.left - 20);
  const y = scale(shown.flatMap((trial) => trial.steps.map((step) => step[1])), frame.bottom, frame.top);
  valueAxis(frame, y);
  for (const tick of round(low, high, 8).filter(Number.isInteger))
    shape("text", { x: x(tick), y: frame.bottom + 16, "text-anchor": "middle" }, frame.svg, tick);
  const unit = study.repeats > 1 ? "repeat" : "epoch";
  shape("text", { x: frame.right, y: frame.bottom + 30, "text-anchor": "end" }, frame.svg, unit);
  for (const trial of order) {
    const kind = isFirst(trial) ? "course first" : trial.state === "complete" ? "course" : "course ended";
    const d = trial.steps.map(([step, value], i) => `${i ? "L" : "M"}${x(step)},${y(value)}`).join("");
    const line = shape("path", { d, class: kind }, frame.svg);
    points(frame.svg, line);
    tells(line, () => about(trial));
    const [step, value] = trial.steps.at(-1);
    if (trial.state !== "complete" || trial.steps.length === 1) tells(mark(frame.svg, x(step), y(value), trial), () => about(trial));
  }
  legend(parent, [["complete", (svg) => shape("line", { x1: 0, x2: 14, y1: 5, y2: 5, class: "course" }, svg)],
    ["best", (svg) => shape("line", { x1: 0, x2: 14, y1: 5, y2: 5, class: "course first" }, svg)],
    ...["pruned", "failed"].filter((state) => states.has(state)).map((state) => [`${state} there`, dot(state)])]);
  const told = study.repeats > 1 ? "The value of each repeat." : "After each epoch: the best epoch up to there, which is what trials are compared by.";
  node("p", "note", parent, several ? "" : told);
  return true;
}

function points(svg, line) {
  line.addEventListener("pointerenter", () => { svg.classList.add("faded"); line.classList.add("pointed"); });
  line.addEventListener("pointerleave", () => { svg.classList.remove("faded"); line.classList.remove("pointed"); });
}

// Objectives against one another, and the trials that no other one beats.
function fronts(parent) {
  if (!several || !complete.length) return false;
  for (let b = 1; b < study.objectives.length; b++) for (let a = 0; a < b; a++) {
    const [first, second] = [study.objectives[a], study.objectives[b]], place = node("div", "", parent);
    node("h3", "", place, `${first.metric} against ${second.metric}`);
    const frame = drawing(place, 270, { left: 58, right: 14, top: 10, bottom: 34 }, "front");
    const x = scale(complete.map((trial) => trial.objectives[b]), frame.left, frame.right);
    const y = scale(complete.map((trial) => trial.objectives[a]), frame.bottom, frame.top);
    valueAxis(frame, y);
    for (const tick of round(x.low, x.high, 4))
      shape("text", { x: x(tick), y: frame.bottom + 16, "text-anchor": "middle" }, frame.svg, short(tick));
    shape("text", { x: frame.right, y: frame.bottom + 30, "text-anchor": "end" }, frame.svg, `${second.metric} (${second.mode})`);
    for (const trial of [...complete].sort((p, q) => isFirst(p) - isFirst(q)))
      tells(mark(frame.svg, x(trial.objectives[b]), y(trial.objectives[a]), trial), () => about(trial));
  }
  legend(node("div", "whole", parent), [["complete", dot("complete")], ["no other one beats it in all", dot("complete", true)]]);
  return true;
}

// Two bars a setting, one a measure.
function importances(parent) {
  if (study.importances.every((one) => one === null)) return false;
  for (const [place, found] of study.importances.entries()) {
    if (!found) continue;
    const chart = node("div", several ? "" : "whole", parent), row = 34;
    if (several) node("h3", "", chart, study.objectives[place].metric);
    const longest = Math.max(...found.rows.map((one) => one.key.length)), room = Math.min(6.2 * longest + 10, chart.clientWidth * 0.5);
    const frame = drawing(chart, found.rows.length * row + 6, { left: room, right: 40, top: 4, bottom: 2 }, "importances");
    found.rows.forEach((one, i) => {
      const top = frame.top + i * row, axis = study.axes.find((a) => a.key === one.key);
      const name = one.key.length * 6.2 + 10 > room ? (axis ? axis.name : one.key) : one.key;
      shape("text", { x: room - 8, y: top + 16, "text-anchor": "end", class: "strong" }, frame.svg, name);
      for (const [j, [share, kind]] of [[one.ped, "bar-ped"], [one.fanova, "bar-fanova"]].entries()) {
        if (share === null) {
          if (found.both) shape("text", { x: room + 2, y: top + 26, }, frame.svg, "under a condition: none");
          continue;
        }
        const width = share * (frame.right - room), y = top + 3 + j * 13;
        shape("rect", { x: room, y, width: Math.max(1, width), height: 11, rx: 2, class: kind }, frame.svg);
        shape("text", { x: room + width + 5, y: y + 9.5 }, frame.svg, share.toFixed(2));
      }
    });
    if (found.caution) node("p", "", chart, found.caution);
  }
  const foot = node("div", "whole", parent), both = study.importances.some((one) => one && one.both);
  const entry = (kind) => (svg) => shape("rect", { x: 0, y: 0, width: 14, height: 10, class: kind }, svg);
  legend(foot, [["PED-ANOVA", entry("bar-ped")], ...(both ? [["fANOVA", entry("bar-fanova")]] : [])]);
  node("p", "note", foot, `Shares among the settings, of ${complete.length} complete trials drawn by sampler=${study.sampler}. `
    + "PED-ANOVA: where the good trials lie, compared with all. fANOVA: what a random forest's predictions vary with."
    + (both ? "" : " fANOVA needs scikit-learn: pip install \"sentattn[report]\"."));
  return true;
}
