// The page keeps a list of steps: the text as typed and, for each word removed, the shortened one. The first step stays
// beside the last. The steps outlive a reload of the tab, and errors of the server.
const byId = (id) => document.getElementById(id);
const KEY = "sentattn.explore";
const models = [...document.querySelectorAll(".model")], area = byId("text"), filters = byId("filters");
let steps = [], asked = 0, listed = 0, first = 0;

async function ask(path, body) {
  let response;
  try {
    response = await fetch(path, body && {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  } catch {
    throw new Error("The server does not answer. Start it again and repeat; what you typed is kept.");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || "The server refused this (" + response.status + ").");
  return answer;
}

function say(message, isError = false) {
  byId("status").textContent = message;
  byId("status").classList.toggle("error", isError);
}

async function predict(text, more = {}) {
  const turn = ++asked;
  say("Predicting");
  try {
    const answer = await ask("/api/predict", { text, pairs: byId("pairs").checked, ...more });
    if (turn !== asked) return null;
    say("Predicted in " + Math.round(answer.milliseconds) + " ms.");
    return answer;
  } catch (error) {
    if (turn === asked) say(error.message, true);
    return null;
  }
}

async function start(text) {
  const answer = await predict(text);
  if (answer) show([answer]);
}

async function remove(model, token) {
  const step = steps.at(-1);
  const answer = await predict(step.text, { model, token });
  if (!answer) return;
  show([...steps, answer]);
  const tokens = models[model].querySelectorAll(".now .text span");
  if (tokens.length) focusOn(tokens[Math.min(token, tokens.length - 1)]);
}

function show(next) {
  steps = next;
  const removed = steps.slice(1).map((step) => step.removed);
  byId("models").hidden = !steps.length;
  byId("models").classList.toggle("compared", removed.length > 0);
  byId("undo").disabled = byId("restore").disabled = !removed.length;
  models.forEach((model, i) => {
    const [before, now] = [model.querySelector(".before"), model.querySelector(".now")];
    before.hidden = !removed.length;
    fill(before, removed.length ? steps[0].articles[i] : "", "all words");
    fill(now, steps.at(-1).articles[i], removed.length ? "without " + removed.join(", ") : "");
    now.querySelectorAll(".text span").forEach((token, place) => {
      token.role = "button";
      token.tabIndex = place ? -1 : 0;
    });
  });
  save();
}

function fill(side, html, title) {
  side.innerHTML = html;  // made by the server from a template that escapes every text; the page's policy runs no script in it
  if (title) {
    const heading = document.createElement("h3");
    heading.textContent = title;
    side.prepend(heading);
  }
  side.querySelectorAll("article").forEach(activate);
}

function save() {
  try {
    const kept = steps.map(({ text, removed }) => ({ text, removed }));
    sessionStorage.setItem(KEY, JSON.stringify({ typed: area.value, about: byId("picked").textContent, steps: kept }));
  } catch { /* a full or forbidden store: the page works without it */ }
}

async function restore() {
  let kept;
  try { kept = JSON.parse(sessionStorage.getItem(KEY)); } catch { kept = null; }
  if (!kept) return;
  area.value = kept.typed;
  about(kept.about);
  await repeat(kept.steps);
}

// Predicts steps again; those between the first and the last are predicted when they are shown.
async function repeat(kept) {
  const answers = [];
  for (const [i, step] of kept.entries()) {
    const isShown = i === 0 || i === kept.length - 1;
    const answer = isShown ? await predict(step.text) : { text: step.text };
    if (!answer) return;
    answers.push({ ...answer, removed: step.removed });
  }
  if (answers.length) show(answers);
}

async function undo() {
  const rest = steps.slice(0, -1), last = rest.at(-1);
  if (!last.articles) {
    const answer = await predict(last.text);
    if (!answer) return;
    last.articles = answer.articles;
  }
  show(rest);
}

// One token of a text is reached by Tab, the others by the arrow keys.
function focusOn(token) {
  for (const other of token.parentNode.querySelectorAll("span")) other.tabIndex = other === token ? 0 : -1;
  token.setAttribute("aria-label", token.textContent + ", weight " + token.dataset.weight + ", remove");
  token.focus();
}

function placed(event) {
  const token = event.target.closest(".now .text span");
  if (!token) return null;
  const model = models.indexOf(token.closest(".model")), tokens = [...token.parentNode.querySelectorAll("span")];
  return { token, model, tokens, place: tokens.indexOf(token) };
}

byId("models").addEventListener("click", (event) => {
  const at = placed(event);
  if (at) remove(at.model, at.place);
});
byId("models").addEventListener("keydown", (event) => {
  const at = placed(event);
  if (!at) return;
  const moves = { ArrowRight: 1, ArrowLeft: -1, Home: -at.place, End: at.tokens.length - 1 - at.place };
  if (event.key in moves) {
    const next = at.tokens[at.place + moves[event.key]];
    if (next) focusOn(next);
  } else if (["Enter", " ", "Delete", "Backspace"].includes(event.key)) remove(at.model, at.place);
  else return;
  event.preventDefault();
});
byId("typed").addEventListener("submit", (event) => { event.preventDefault(); start(area.value); });
area.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) start(area.value); });
area.addEventListener("input", () => { about(""); save(); });
byId("undo").addEventListener("click", undo);
byId("restore").addEventListener("click", () => show(steps.slice(0, 1)));
byId("pairs").addEventListener("change", () => repeat(steps));

// What is known of the text in the field, where it is a row.
function about(text) {
  byId("picked").textContent = text;
  byId("picked").hidden = !text;
}

function facts(row) {
  return row.label + (row.stars === null ? "" : ", " + row.stars + " stars") + ", " + row.tokens + " tokens";
}

function item(row) {
  const entry = document.createElement("li"), button = document.createElement("button"), small = document.createElement("small");
  button.append(row.start, small);
  const predicted = row.predicted.map((one) =>
    byId("model-" + one.model).textContent + ": " + one.label + " " + (100 * one.probability).toFixed(1) + " %");
  small.textContent = [facts(row), ...predicted].join("; ");
  button.addEventListener("click", () => pick(row.row));
  entry.append(button);
  return entry;
}

async function pick(row) {
  try {
    const answer = await ask("/api/rows/" + row);
    area.value = answer.text;
    about("Row " + row + ": " + facts(answer) + ".");
  } catch (error) {
    say(error.message, true);
    return;
  }
  scrollTo({ top: 0 });
  area.focus();
  await start(area.value);
}

function offerStars(stars) {
  const choice = filters.elements.stars;
  if (choice.options.length === 1) choice.append(...stars.map((star) => new Option(star)));
  choice.parentNode.hidden = !stars.length;
}

async function list(from) {
  const turn = ++listed;
  const values = new URLSearchParams([...new FormData(filters)].filter(([, value]) => value));
  try {
    const answer = await ask("/api/rows?" + values + "&start=" + from);
    if (turn !== listed) return;
    first = from;
    offerStars(answer.stars);
    byId("rows").replaceChildren(...answer.rows.map(item));
    const last = from + answer.rows.length;
    byId("total").textContent = answer.total ? (from + 1) + " to " + last + " of " + answer.total.toLocaleString("en") : "no rows";
    byId("previous").disabled = !from;
    byId("next").disabled = last >= answer.total;
  } catch (error) {
    if (turn === listed) byId("total").textContent = error.message;
  }
}

if (filters) {
  const page = Number(byId("rows").dataset.page);
  byId("total").textContent = "Reading";
  filters.addEventListener("change", () => list(0));
  filters.addEventListener("submit", (event) => event.preventDefault());
  byId("previous").addEventListener("click", () => list(Math.max(0, first - page)));
  byId("next").addEventListener("click", () => list(first + page));
  list(0);
}
restore();
