"use strict";
// Articles as article.html writes them: rows of weights, maps of pairs, and a tip where the pointer is.
const tip = document.getElementById("tip");

function show(article, rows, choice) {
  const row = rows[choice], [legend, low, scale] = [".legend", ".low", ".scale"].map((name) => article.querySelector(":scope > .top " + name));
  const isSigned = row.low.startsWith("-");
  article.querySelectorAll(".text span").forEach((token, i) => {
    // No token is shaded where all weights are equal by construction.
    token.style.setProperty("--w", row.limit === null ? "0" : Math.min(1, Math.abs(row.weights[i]) / row.limit).toFixed(3));
    token.classList.toggle("against", row.weights[i] < 0);
    token.dataset.weight = row.weights[i];
  });
  article.querySelector(".top b").textContent = row.top;
  legend.hidden = row.limit === null;
  low.textContent = row.low;
  scale.textContent = row.scale;
  scale.classList.toggle("signed", isSigned);
}

function point(event) {
  const token = event.target.closest(".text span");
  tip.hidden = !token;
  const unknown = token && token.matches(".unknown") ? "  (not in the vocabulary)" : "";
  if (token) showTip(token.textContent + "  " + token.dataset.weight + unknown, token.getClientRects()[0]);
}

function showTip(text, box) {
  tip.hidden = false;
  tip.textContent = text;
  const left = Math.min(box.left, document.documentElement.clientWidth - tip.offsetWidth - 8);
  tip.style.left = Math.max(8, left) + "px";
  // Below, so that it never hides the line of weights above a text.
  const below = box.bottom + 5, fits = below + tip.offsetHeight < document.documentElement.clientHeight;
  tip.style.top = (fits ? below : box.top - tip.offsetHeight - 5) + "px";
}

function pairs(figure, tokens) {
  const heads = JSON.parse(figure.querySelector("script").textContent);
  const [map, canvas, mark] = [".map", "canvas", "i"].map((name) => figure.querySelector(name));
  const count = tokens.length;
  let weights, cell;

  function unpack(head) {
    const bytes = Uint8Array.from(atob(head.weights), (character) => character.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    return Float64Array.from({ length: count * count }, (_, i) => view.getUint16(2 * i, true) / 65535 * head.limit);
  }

  function paint(limit) {
    const hot = getComputedStyle(figure).getPropertyValue("--hot").trim().split(/\s+/).map(Number);
    const context = canvas.getContext("2d");
    canvas.width = canvas.height = count;
    const image = context.createImageData(count, count);
    weights.forEach((weight, i) => image.data.set([...hot, 255 * Math.pow(weight / limit, 2 / 3)], 4 * i));
    context.putImageData(image, 0, 0);
  }

  // Labels every token where they fit; otherwise those with the most attention, as far apart as letters are high.
  function labeled() {
    const attention = Array.from(tokens, (_, s) => tokens.reduce((sum, _, t) => sum + weights[t * count + s], 0));
    const order = [...attention.keys()].sort((a, b) => attention[b] - attention[a]);
    const apart = Math.ceil(10 / cell), taken = new Set();
    for (const i of order) {
      let free = true;
      for (let j = i - apart + 1; j < i + apart; j++) free = free && !taken.has(j);
      if (free) taken.add(i);
    }
    return [...taken];
  }

  function label(axis, property, labels) {
    figure.querySelector(axis).replaceChildren(...labels.map((i) => {
      const element = document.createElement("span"), word = tokens[i].textContent;
      element.textContent = word.length > 14 ? word.slice(0, 13) + "\u2026" : word;
      element.style[property] = i + 1;
      return element;
    }));
  }

  function show() {
    const checked = figure.querySelector("input:checked"), head = heads[checked ? Number(checked.value) : 0];
    weights = unpack(head);
    cell = Math.max(3, Math.min(34, Math.floor((figure.clientWidth - 90) / count)));
    map.style.setProperty("--count", count);
    map.style.setProperty("--cell", cell + "px");
    map.style.setProperty("--letters", Math.max(10, Math.min(14, cell - 2)) + "px");
    canvas.parentElement.classList.toggle("lined", cell >= 8);
    const labels = labeled();
    label(".queries", "gridRow", labels);
    label(".keys", "gridColumn", labels);
    paint(head.limit);
    figure.querySelector(".top b").textContent = head.top;
    figure.querySelector(".scale").textContent = Number(head.limit.toPrecision(3));
    canvas.setAttribute("aria-label", "token-to-token weights: " + head.top);
  }

  function over(event) {
    const box = canvas.getBoundingClientRect();
    const [s, t] = [event.clientX - box.left, event.clientY - box.top].map((at) => Math.floor(at / cell));
    leave();
    if (Math.min(s, t) < 0 || Math.max(s, t) >= count) return;
    Object.assign(mark.style, { display: "block", left: s * cell + "px", top: t * cell + "px" });
    for (const i of [t, s]) tokens[i].classList.add("pointed");
    const weight = Number(weights[t * count + s].toPrecision(3));
    showTip(tokens[t].textContent + " \u2192 " + tokens[s].textContent + "  " + weight, mark.getBoundingClientRect());
  }

  function leave() {
    tip.hidden = true;
    mark.style.display = "none";
    for (const token of tokens) token.classList.remove("pointed");
  }

  figure.addEventListener("change", (event) => { event.stopPropagation(); show(); });
  canvas.addEventListener("pointermove", over);
  canvas.addEventListener("pointerdown", over);
  canvas.addEventListener("pointerleave", leave);
  figure.addEventListener("repaint", show);
  show();
}

function activate(article) {
  const rows = JSON.parse(article.querySelector("script").textContent);
  article.addEventListener("change", (event) => show(article, rows, Number(event.target.value)));
  const checked = article.querySelector(":scope > fieldset input:checked");
  show(article, rows, checked ? Number(checked.value) : 0);
  const figure = article.querySelector("figure");
  if (figure) pairs(figure, [...article.querySelectorAll(".text span")]);
}

function repaint() {
  document.querySelectorAll("figure").forEach((figure) => figure.dispatchEvent(new Event("repaint")));
}

document.querySelectorAll("article").forEach(activate);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
addEventListener("resize", repaint);
document.addEventListener("pointerover", point);
document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
