const ROWS = 500;

// A table of the trials that a click on a column's head sorts.
function table(parent) {
  const columns = [
    { name: "trial", of: (trial) => trial.number },
    { name: "state", of: (trial) => trial.state },
    ...study.objectives.map((one, i) => ({ name: one.metric, of: (trial) => trial.objectives ? trial.objectives[i] : null, down: one.mode === "max" })),
    ...study.axes.map((axis) => ({ name: axis.name, title: axis.key, of: (trial) => axis.key in trial.values ? trial.values[axis.key] : null })),
    { name: "best epoch", of: (trial) => trial.epoch },
    { name: "seconds", of: (trial) => trial.seconds === null ? null : Math.round(trial.seconds) },
    { name: "again", title: "the trial that it tries again", of: (trial) => trial.again },
    { name: "note", of: (trial) => trial.note || null },
  ].filter((column, i) => i < 2 || study.trials.some((trial) => column.of(trial) !== null));
  const whole = node("table", "", parent), head = node("tr", "", node("thead", "", whole)), body = node("tbody", "", whole);

  function fill(column, down) {
    for (const [i, th] of [...head.children].entries()) {
      if (columns[i] === column) th.setAttribute("aria-sort", down ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    }
    const order = [...study.trials].sort((p, q) => compare(column.of(p), column.of(q), down) || p.number - q.number);
    body.replaceChildren(...order.slice(0, ROWS).map(row));
  }

  function row(trial) {
    const tr = node("tr", `${trial.state}-row${isFirst(trial) ? " first" : ""}`);
    for (const column of columns) {
      const value = column.of(trial), number = typeof value === "number";
      node("td", column.name === "note" ? "note" : number ? "number" : "", tr, value === null ? "" : number ? short(value) : value);
    }
    return tr;
  }

  for (const column of columns) {
    const th = node("th", "", head), button = node("button", "", th, column.name);
    th.scope = "col";
    if (column.title) th.title = column.title;
    button.type = "button";
    button.addEventListener("click", () => {
      const sorted = th.getAttribute("aria-sort");
      fill(column, sorted ? sorted === "ascending" : Boolean(column.down));
    });
  }
  fill(columns[0], false);
  const left = document.getElementById("left-out"), shown = Math.min(ROWS, study.trials.length);
  left.textContent = shown < study.count ? `${shown} of ${study.count} trials; trials.parquet has all of them.` : "";
}

// Numbers before words, and what is not there behind both.
function compare(a, b, down) {
  if (a === null || b === null) return (a === null) - (b === null);
  const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
  return down ? -order : order;
}
