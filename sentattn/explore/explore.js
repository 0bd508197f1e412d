// The page keeps a list of steps: the text as typed and, for each word edited, the new one. The first step stays next to
// the last. The fragment of the address holds what is shown, so that it is a link: the last text, the models, the row of
// attention, and what is shown next to it. Without it the page begins with the first error.
const byId = (id) => document.getElementById(id);
const models = [...document.querySelectorAll(".model")], area = byId("text"), filters = byId("filters");
const toggles = [...document.querySelectorAll("#shown input")], EXTRAS = ["pairs", "gradients"];
let steps = [], asked = 0, listed = 0, first = 0, linkedRow = "";

async function ask(path, body) {
  let response;
  try {
    response = await fetch(path, body && {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  } catch {
    throw new Error("The server does not answer. Start it again and repeat; what you typed is kept.");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) {
    const error = new Error(answer.error || "The server refused this (" + response.status + ").");
    throw Object.assign(error, { isTextRefused: response.status === 422 });
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
    const answer = await ask("/api/predict", { text, pairs: byId("pairs").checked, gradients: byId("gradients").checked, ...more });
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
  enable("undo", false);
  save();
}

async function edit(model, token, replacement) {
  const step = steps.at(-1);
  const answer = await predict(step.text, { model, token, replacement });
  if (!answer) return;
  show([...steps, answer]);
  const tokens = models[model].querySelectorAll(".now .text span");
  if (tokens.length) focusOn(tokens[Math.min(token, tokens.length - 1)]);
}

function show(next) {
  steps = next;
  const edits = describe(steps.slice(1));
  byId("models").hidden = false;
  enable("undo", edits);
  const labels = models.map((model, i) => {
    const [before, now] = [model.querySelector(".before"), model.querySelector(".now")];
    const chosen = [...now.querySelectorAll("fieldset input:checked")];
    before.hidden = !edits;
    fill(before, edits && steps[0].articles[i], "as typed", chosen);
    fill(now, steps.at(-1).articles[i], edits || "as typed", chosen);
    now.querySelector(".text").role = "group";
    now.querySelector(".text").ariaLabel = "words";
    now.querySelectorAll(".text span").forEach((token, place) => {
      token.role = "button";
      token.tabIndex = place ? -1 : 0;
    });
    const [is, was] = [now, before].map((side) => side.querySelector(".label")?.textContent);
    return model.querySelector("h2").textContent + ": " + is + (was ? ", was " + was : "");
  });
  say("Predicted in " + Math.round(steps.at(-1).milliseconds) + " ms.", false, [edits, ...labels].filter(Boolean).join("; "));
  save();
}

// Says which words were removed, and which replaced.
function describe(edited) {
  const removed = edited.filter((step) => !step.replacement).map((step) => step.word);
  const replaced = edited.filter((step) => step.replacement).map((step) => step.word + " \u2192 " + step.replacement);
  return [removed.length ? "without " + removed.join(", ") : "", replaced.join(", ")].filter(Boolean).join("; ");
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
  const linked = rows(side).find((input) => nameOf(input) === linkedRow);
  if (linked) linked.checked = true;
  side.querySelectorAll("article").forEach(activate);
}

// The inputs that choose a row of attention, and the name of such a row.
function rows(side) {
  return [...side.querySelectorAll("input[name^=row-]")];
}

function nameOf(input) {
  return input.nextElementSibling.textContent;
}

// The inputs of a side that choose the same hop or head as another input; a name is `row-` or `head-` and a number.
function same(side, input) {
  const kind = input.name.split("-")[0];
  return side.querySelectorAll("input[name^=" + kind + "][value='" + input.value + "']");
}

function save() {
  const shown = models.filter((model) => !model.hidden);
  const chosen = shown.flatMap((model) => rows(model.querySelector(".now"))).find((input) => input.checked);
  const link = new URLSearchParams(steps.length ? { text: steps.at(-1).text, row: chosen ? nameOf(chosen) : "" } : {});
  if (steps.length) for (const model of shown) link.append("model", model.querySelector("h2").textContent);
  for (const extra of EXTRAS) if (byId(extra).checked) link.append("show", extra);
  try { history.replaceState(null, "", "#" + link); } catch { /* too often, or too long */ }
}

// Shows what the fragment of the address says; false where it says nothing.
async function follow() {
  const link = new URLSearchParams(location.hash.slice(1)), text = link.get("text"), wanted = link.getAll("model");
  if (!text) return false;
  const names = models.map((model) => model.querySelector("h2").textContent);
  const missing = wanted.filter((name) => !names.includes(name));
  const isShown = names.map((name) => wanted.includes(name) || !wanted.some((other) => names.includes(other)));
  toggles.forEach((toggle, i) => { toggle.checked = isShown[i]; });
  toggle();
  for (const extra of EXTRAS) byId(extra).checked = link.getAll("show").includes(extra);
  linkedRow = link.get("row");
  area.value = text;
  about("");
  await start(text);
  linkedRow = "";
  if (missing.length) say("The link names models that are not here: " + missing.join("; ") + ".", true);
  return true;
}

function toggle() {
  toggles.forEach((input, i) => { models[i].hidden = !input.checked; });
}

// Predicts all steps again.
async function repeat() {
  const answers = [];
  for (const step of steps) {
    const answer = await predict(step.text);
    if (!answer) return;
    answers.push({ ...answer, word: step.word, replacement: step.replacement });
  }
  if (answers.length) show(answers);
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
  if (at) edit(at.model, at.place, byId("replacement").value.trim());
});
byId("models").addEventListener("focusin", (event) => {
  const token = placed(event)?.token;
  if (token) token.ariaLabel = token.textContent + ", weight " + token.dataset.weight + ", remove or replace";
});
byId("models").addEventListener("change", (event) => {  // both sides of a model show the same hop
  if (event.target.type !== "radio") return;
  for (const other of same(event.target.closest(".sides"), event.target)) if (!other.checked) other.click();
  save();
}, true);
byId("shown")?.addEventListener("change", (event) => {
  if (!toggles.some((input) => input.checked)) event.target.checked = true;  // at least one model stays
  toggle();
  save();
});
byId("models").addEventListener("keydown", (event) => {
  const at = placed(event);
  if (!at) return;
  const moves = { ArrowRight: 1, ArrowLeft: -1, Home: -at.place, End: at.tokens.length - 1 - at.place };
  if (event.key in moves) {
    const next = at.tokens[at.place + moves[event.key]];
    if (next) focusOn(next);
  } else if (["Enter", " "].includes(event.key)) edit(at.model, at.place, byId("replacement").value.trim());
  else if (["Delete", "Backspace"].includes(event.key)) edit(at.model, at.place, "");
  else return;
  event.preventDefault();
});
document.addEventListener("click", (event) => {
  if (event.target.ariaDisabled === "true") event.stopImmediatePropagation();
}, true);
byId("typed").addEventListener("submit", (event) => { event.preventDefault(); start(area.value); });
area.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) start(area.value); });
area.addEventListener("input", () => about(""));
byId("undo").addEventListener("click", () => show(steps.slice(0, -1)));
for (const extra of EXTRAS) byId(extra).addEventListener("change", repeat);
addEventListener("hashchange", follow);

// What is known of the text in the field, where it is a row.
function about(text) {
  byId("picked").textContent = text;
  byId("picked").hidden = !text;
}

function facts(row) {
  return "labeled " + row.label + ", " + row.tokens + " tokens";
}

function item(row) {
  const entry = document.createElement("tr"), button = document.createElement("button");
  button.append(row.start);
  button.addEventListener("click", () => pick(row.row));
  const cells = row.predicted.map((one) => {
    const part = document.createElement(one.label === row.label ? "span" : "b");  // errors are bold
    part.textContent = one.label + " " + (100 * one.probability).toFixed(1) + "\u00a0%";
    return part;
  });
  for (const content of [button, row.label, row.tokens, ...cells]) entry.insertCell().append(content);
  return entry;
}

async function pick(row, isAsked = true) {
  try {
    const answer = await ask("/api/rows/" + row);
    area.value = answer.text;
    about("Row " + row + ": " + facts(answer) + ".");
  } catch (error) {
    say(error.message, true);
    return;
  }
  if (isAsked) {
    scrollTo({ top: 0 });
    byId("picked").focus();
  }
  await start(area.value);
}

async function list(from, isFirst = false) {
  const turn = ++listed;
  const values = new URLSearchParams(new FormData(filters));
  try {
    const answer = await ask("/api/rows?" + values + "&start=" + from);
    if (turn !== listed) return;
    first = from;
    byId("rows").replaceChildren(...answer.rows.map(item));
    if (isFirst && answer.rows.length && !steps.length && !area.value) pick(answer.rows[0].row, false);
    const last = from + answer.rows.length;
    byId("total").textContent = answer.total ? (from + 1) + " to " + last + " of " + answer.total.toLocaleString("en") : "no rows";
    enable("previous", from > 0);
    enable("next", last < answer.total);
  } catch (error) {
    if (turn === listed) byId("total").textContent = error.message;
  }
}

if (filters) {
  const page = Number(byId("rows").parentNode.dataset.page);
  byId("total").textContent = "Reading";
  filters.addEventListener("change", () => {
    if (filters.elements.model) filters.elements.model.parentNode.hidden = filters.elements.order.value !== "errors";
    list(0);
  });
  filters.addEventListener("submit", (event) => event.preventDefault());
  byId("previous").addEventListener("click", () => list(Math.max(0, first - page)));
  byId("next").addEventListener("click", () => list(first + page));
  list(0, !location.hash);
}
follow();
