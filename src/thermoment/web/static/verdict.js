// The answer: the digit, the probabilities with their intervals, who spoke for it, and what it cost.
import { colour, ofDisplacement, onColours } from "./colours.js";

const $ = (id) => document.getElementById(id);
const ROOM = 4.141947e-21; // kT at 300 K, in joules

/** 0.9921 as "99.2 %"; small ones with more digits. */
export function percent(p) {
  if (p > 0.9995 && p < 1) return "> 99.9 %";
  if (p < 0.0005 && p > 0) return "< 0.1 %";
  return `${(100 * p).toFixed(1)} %`;
}
/** A number with a real minus sign. */
export const signed = (value, digits = 2) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}`;

let last = null;
onColours(() => last && showShares(last));

/** Makes a row for every class. */
export function makeBars(count) {
  $("bars").replaceChildren(
    ...Array.from({ length: count }, (_, c) => {
      const row = document.createElement("li");
      row.innerHTML = `<span>${c}</span><span class="track"><span class="fill"></span><span class="whisker" hidden></span></span><span class="value">–</span>`;
      return row;
    }),
  );
}

/** Nothing is drawn: everything is empty again. */
export function showNothing() {
  $("label").textContent = "?";
  $("sure").textContent = "Nothing is drawn yet.";
  $("how").textContent = $("spoken").textContent = "";
  $("note").hidden = true;
  $("work").textContent = "–";
  for (const row of $("bars").children) {
    row.className = "";
    row.querySelector(".fill").style.width = "0";
    row.querySelector(".whisker").hidden = true;
    row.querySelector(".value").textContent = "–";
  }
}

/** Shows an answer. `aloud`: whether screen readers are told. */
export function showAnswer(found, aloud) {
  const p = found.probabilities[found.label];
  $("label").textContent = found.label;
  $("sure").textContent = `${percent(p)} sure`;
  const repeat = found.repeatable === 1 ? "It would say so again." : `It would say so again in ${percent(found.repeatable)} of repeats.`;
  const replicas = `${found.n_replicas} replica${found.n_replicas === 1 ? "" : "s"}`;
  const sampled = found.engine === "meanfield" ? `${found.engine}, without sampling; intervals for ${replicas}` : `${found.engine}, ${replicas}`;
  $("how").textContent = `By ${sampled}, in ${Math.round(1000 * found.seconds)} ms. ${repeat}`;
  if (aloud) $("spoken").textContent = `It reads ${found.label}, ${percent(p)} sure.`;
  $("note").hidden = !found.note;
  $("note").textContent = found.note;
  [...$("bars").children].forEach((row, c) => {
    const [low, high] = [found.low[c], found.high[c]];
    row.className = c === found.label ? "best" : "";
    row.querySelector(".fill").style.width = `${100 * found.probabilities[c]}%`;
    const whisker = row.querySelector(".whisker");
    whisker.hidden = high < 0.004;
    whisker.style.left = `min(${100 * low}%, 100% - 2px)`;
    whisker.style.width = `${100 * (high - low)}%`;
    row.querySelector(".value").textContent = percent(found.probabilities[c]);
    row.setAttribute("aria-label", `${c}: ${percent(found.probabilities[c])}, interval from ${percent(low)} to ${percent(high)}`);
  });
  showShares((last = found));
  showCost(found);
}

function showShares(found) {
  const names = Object.keys(found.shares);
  const orders = Object.keys(found.shares[names[0]]);
  const value = (name, p) => found.shares[name][p][found.label];
  const largest = Math.max(1e-9, ...names.flatMap((name) => orders.map((p) => Math.abs(value(name, p)))));
  const meaning = { 1: "mean", 2: "square", 3: "cube", 4: "fourth" };
  const table = $("shares");
  const cell = (tag, text, scope) => {
    const made = document.createElement(tag);
    made.textContent = text;
    if (scope) made.scope = scope;
    return made;
  };
  const row = (...cells) => {
    const made = document.createElement("tr");
    made.append(...cells);
    return made;
  };
  const sum = (text) => Object.assign(cell("td", text), { className: "sum" });
  table.tHead.replaceChildren(
    row(cell("td", ""), ...orders.map((p) => cell("th", meaning[p] ?? `m${p}`, "col")), cell("th", "all", "col")),
  );
  table.tBodies[0].replaceChildren(
    ...names.map((name) => {
      const cells = orders.map((p) => {
        const made = cell("td", signed(value(name, p), 1));
        const strength = value(name, p) / largest;
        made.style.background = ofDisplacement(strength);
        made.style.color = colour(Math.abs(strength) > 0.45 ? "card" : "ink");
        return made;
      });
      const total = orders.reduce((all, p) => all + value(name, p), 0);
      return row(cell("th", name, "row"), ...cells, sum(signed(total, 1)));
    }),
    row(
      cell("th", "all", "row"),
      ...orders.map((p) => sum(signed(names.reduce((all, name) => all + value(name, p), 0), 1))),
      sum(signed(names.flatMap((name) => orders.map((p) => value(name, p))).reduce((a, b) => a + b, 0), 1)),
    ),
  );
}

function showCost(found) {
  const { work_kT, updates } = found.cost;
  $("work").textContent = work_kT === null ? "–" : Math.round(work_kT).toLocaleString("en").replaceAll(",", " ");
  const joules = work_kT === null ? "" : ` At room temperature that would be ${si(Math.abs(work_kT) * ROOM)}.`;
  $("cost-text").textContent =
    `The drive is switched on at x = 0 for nothing. To switch it off takes h x of every node, in ${found.n_replicas} ` +
    `replica${found.n_replicas === 1 ? "" : "s"}.${joules} Simulating it takes ${(updates / 1e6).toFixed(1)} million updates of a node.`;
}

function si(joules) {
  const units = [["nJ", 1e-9], ["pJ", 1e-12], ["fJ", 1e-15], ["aJ", 1e-18], ["zJ", 1e-21]];
  const [name, size] = units.find(([, s]) => joules >= s) ?? units[units.length - 1];
  const value = joules / size;
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${name}`;
}
