// The page keeps a list of steps: the text as typed and, for each word removed, the shortened one. The first step stays
// beside the last. The steps outlive a reload of the tab, and errors of the server.
const byId = (id) => document.getElementById(id);
const KEY = "sentattn.explore";
const models = [...document.querySelectorAll(".model")], area = byId("text"), filters = byId("filters");
const authorization = { Authorization: "Bearer " + (new URLSearchParams(location.search).get("token") || "") };
let steps = [], asked = 0, listed = 0, first = 0;

async function ask(path, body) {
  let response;
  try {
    response = await fetch(path, body ? {
      method: "POST", headers: { ...authorization, "Content-Type": "application/json" }, body: JSON.stringify(body) }
      : { headers: authorization });
  } catch {
    throw new Error("The server does not answer. Start it again and repeat; what you typed is kept.");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) {
    const error = new Error(answer.error || "The server refused this (" + response.status + ").");
    throw Object.assign(error, { isTextRefused: [413, 422].includes(response.status) });
  }
  return answer;
}

// `unseen` is for screen readers: what others see in the models.
function say(message, isError = false, unseen = "") {
  const hidden = document.createElement("span");
  hidden.className = "unseen";
  hidden.textContent = unseen;
  byId("status").replaceChildren(message + " ", hidden);
  byId("status").classList.toggle("error", isError);
}

function enable(id, isOn) {
  byId(id).setAttribute("aria-disabled", !isOn);  // not `disabled`, which would lose the focus
}

async function predict(text, more = {}) {
  const turn = ++asked;
  say("Predicting");
  try {
    const answer = await ask("/api/predict", { text, pairs: byId("pairs").checked, ...more });
    if (turn !== asked) return null;
    return answer;
  } catch (error) {
    if (turn !== asked) return null;
    say(error.message, true);
    if (error.isTextRefused && !("token" in more)) clear();  // what is shown belongs to another text
    return null;
  }
}

async function start(text) {
  if (!text.trim()) {
    asked++;  // no answer that is still under way belongs to it
    clear();
    return say("Type a text first.", true);
  }
  const answer = await predict(text);
  if (answer) show([answer]);
}

function clear() {
  steps = [];
  byId("models").hidden = true;
  for (const id of ["undo", "restore"]) enable(id, false);
  save();
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
  const without = removed.length ? "without " + removed.join(", ") : "";
  byId("models").hidden = false;
  enable("undo", without);
  enable("restore", without);
  const labels = models.map((model, i) => {
    const [before, now] = [model.querySelector(".before"), model.querySelector(".now")];
    const chosen = [...now.querySelectorAll("fieldset input:checked")];
    before.hidden = !without;
    fill(before, without && steps[0].articles[i], "all words", chosen);
    fill(now, steps.at(-1).articles[i], without || "all words", chosen);
    now.querySelector(".text").role = "group";
    now.querySelector(".text").ariaLabel = "words";
    now.querySelectorAll(".text span").forEach((token, place) => {
      token.role = "button";
      token.tabIndex = place ? -1 : 0;
    });
    const [is, was] = [now, before].map((side) => side.querySelector(".label")?.textContent);
    return model.querySelector("h2").textContent + ": " + is + (was ? ", was " + was : "");
  });
  say("Predicted in " + Math.round(steps.at(-1).milliseconds) + " ms.", false, [without, ...labels].filter(Boolean).join("; "));
  save();
}

// Shows an answer on one side of a model, with the hop and the head that are chosen.
function fill(side, html, title, chosen) {
  side.innerHTML = html;  // made by the server from a template that escapes every text; the page's policy runs no script in it
  if (title) {
    const heading = document.createElement("p");
    heading.className = "note";
    heading.textContent = title;
    side.prepend(heading);
  }
  chosen.forEach((one) => same(side, one).forEach((input) => { input.checked = true; }));
  side.querySelectorAll("article").forEach(activate);
}

// The inputs of a side that choose the same hop or head as another input; a name is `row-` or `head-` and a number.
function same(side, input) {
  const kind = input.name.split("-")[0];
  return side.querySelectorAll("input[name^=" + kind + "][value='" + input.value + "']");
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
    Object.assign(last, { articles: answer.articles, milliseconds: answer.milliseconds });
  }
  show(rest);
}

// One token of a text is reached by Tab, the others by the arrow keys.
function focusOn(token) {
  for (const other of token.parentNode.querySelectorAll("span")) other.tabIndex = other === token ? 0 : -1;
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
byId("models").addEventListener("focusin", (event) => {
  const token = placed(event)?.token;
  if (token) token.ariaLabel = token.textContent + ", weight " + token.dataset.weight + ", remove";
});
byId("models").addEventListener("change", (event) => {  // both sides of a model show the same hop
  for (const other of same(event.target.closest(".sides"), event.target)) if (!other.checked) other.click();
}, true);
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
document.addEventListener("click", (event) => {
  if (event.target.ariaDisabled === "true") event.stopImmediatePropagation();
}, true);
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
  return "labeled " + row.label + (row.stars === null ? "" : ", " + row.stars + (row.stars === 1 ? " star" : " stars")) + ", " + row.tokens + " tokens";
}

function item(row) {
  const entry = document.createElement("li"), button = document.createElement("button"), small = document.createElement("small");
  button.append(row.start, small);
  small.append(facts(row));
  for (const one of row.predicted) {
    const part = document.createElement(one.label === row.label ? "span" : "b");  // errors are bold
    part.textContent = byId("model-" + one.model).textContent + ": " + one.label + " " + (100 * one.probability).toFixed(1) + "\u00a0%";
    small.append("; ", part);
  }
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
  byId("picked").focus();
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
    enable("previous", from > 0);
    enable("next", last < answer.total);
  } catch (error) {
    if (turn === listed) byId("total").textContent = error.message;
  }
}

if (filters) {
  const page = Number(byId("rows").dataset.page);
  byId("total").textContent = "Reading";
  filters.addEventListener("change", () => {
    if (filters.elements.model) filters.elements.model.parentNode.hidden = filters.elements.order.value !== "errors";
    list(0);
  });
  filters.addEventListener("submit", (event) => event.preventDefault());
  byId("previous").addEventListener("click", () => list(Math.max(0, first - page)));
  byId("next").addEventListener("click", () => list(first + page));
  list(0);
}
restore();
