// Charts are as wide as their place, so another width draws them anew; a section without anything to show goes.
const CHARTS = { history, front: fronts, importances, slices, surfaces, parallel, curves };
const SECTIONS = { front: "front-of", importances: "importance-of", slices: "slices-of", surfaces: "surface-of", parallel: "parallel-of", curves: "curves-of" };

function draw() {
  tip.hidden = true;
  for (const [id, chart] of Object.entries(CHARTS)) {
    const place = document.getElementById(id), section = SECTIONS[id] && document.getElementById(SECTIONS[id]);
    if (section) section.hidden = false;
    place.replaceChildren();
    if (study.trials.length === 0 || chart(place) === false) {
      if (section) section.hidden = true;
      else node("p", "note", place, "Nothing yet.");
    }
  }
}

let width = document.documentElement.clientWidth, waiting;
addEventListener("resize", () => {
  if (document.documentElement.clientWidth === width) return;
  width = document.documentElement.clientWidth;
  clearTimeout(waiting);
  waiting = setTimeout(draw, 120);
});
document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
draw();
table(document.getElementById("table"));
