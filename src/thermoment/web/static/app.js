// The page: what is drawn and set becomes a question; answer, paths and node are shown as they come.
import { ask, get } from "./api.js";
import { clock } from "./clock.js";
import { onColours } from "./colours.js";
import { dials } from "./dials.js";
import { examples, unmark } from "./examples.js";
import { drawImage, drawWeights } from "./images.js";
import { nodeGrid } from "./nodes.js";
import { showResults } from "./results.js";
import { paper } from "./sheet.js";
import { makeBars, showAnswer, showNothing, signed } from "./verdict.js";
import { theme, views } from "./views.js";
import { nodePanel } from "./well.js";

const $ = (id) => document.getElementById(id);
const LIVE = 180; // milliseconds between questions while a stroke grows
const still = window.matchMedia("(prefers-reduced-motion: reduce)");

theme($("theme"));
views((name) => name === "results" && showResults());

const machine = await get("machine");
$("which").textContent = `reads ${machine.name} with ${machine.reservoirs.reduce((n, one) => n + one.n_nodes, 0)} trembling nodes`;
$("version").textContent = machine.version;
if (machine.side === null) document.querySelector(".paper").hidden = true;
else if (machine.side !== 28) $("sees-text").textContent = `The drawing, fitted into ${machine.side} × ${machine.side} pixels.`;
makeBars(machine.n_classes);

let image = null; // { strokes } or { pixels }
let noise = 0;
let votes = null;
let timer = 0;
let asked = 0;
let busy = false;
let waiting = false;
let pending = null; // what the timer waits to ask

const settings = dials(machine, () => later(true));
const panel = nodePanel($("well"));
const grid = nodeGrid($("nodes"), machine.reservoirs, (name, node, firmly) => showNode(name, node, firmly));
const time = clock({
  button: $("play"),
  slider: $("time"),
  readout: $("clock"),
  tick(share) {
    grid.at(share);
    panel.at(share);
  },
});
const sheet = paper($("sheet"), (strokes, done, byHand) => {
  if (byHand) unmark();
  image = strokes.length ? { strokes } : null;
  if (image) later(done);
  else forget();
});
drawImage($("sees"), null, machine.side ?? 28);

const question = () => ({ ...image, ...settings.settings, sample_id: noise });

/** Asks soon: at once where nothing was asked for a moment. `whole`: paths and node too. */
function later(whole) {
  if (!image) return;
  if (!whole && (busy || pending === "whole")) {
    waiting = true; // the next question is asked when this one is answered
    return;
  }
  clearTimeout(timer);
  const wait = whole ? 60 : Math.max(0, LIVE - (performance.now() - asked));
  pending = whole ? "whole" : "live";
  timer = setTimeout(() => now(whole), wait);
  if (!whole) return;
  waiting = false;
  document.documentElement.dataset.state = "asking";
}

async function now(whole) {
  pending = null;
  if (!image) return;
  asked = performance.now();
  const mine = image;
  try {
    busy = true;
    const found = await ask("predict", question());
    busy = found === null; // another question has taken its place
    if (waiting && !whole) {
      waiting = false;
      later(false);
    }
    if (!found || image !== mine) return;
    showAnswer(found, whole);
    drawImage($("sees"), found.image, machine.side ?? 28);
    votes = grid.setVotes(found.nodes);
    if (found.asked === "meanfield" && found.tables === "building") setTimeout(() => image === mine && later(false), 1500);
    if (!whole) return;
    const paths = await ask("paths", question());
    if (!paths || image !== mine) return;
    if (!grid.pinned && !grid.hovered) grid.select(telling(votes, paths.mean), false);
    $("many").textContent = paths.n_replicas;
    grid.setPaths(paths);
    await showNode(grid.selected.name, grid.selected.node, false);
    time.restart(paths.times[paths.times.length - 1]);
    document.documentElement.dataset.state = "shown";
  } catch (error) {
    trouble(error);
  }
}

/** The node with the largest vote among those that tremble visibly: a strong drive holds a node tight. */
function telling(sums, mean) {
  let best = { name: machine.reservoirs[0].name, node: 0, size: -1 };
  for (const [name, all] of Object.entries(sums)) {
    const last = mean[name][mean[name].length - 1];
    all.forEach((value, node) => {
      const size = Math.abs(value) / (1 + (last[node] / 0.5) ** 4);
      if (size > best.size) best = { name, node, size };
    });
  }
  return best;
}

async function showNode(name, number, firmly) {
  $("which-node").textContent = `${name}, node ${number}`;
  if (!image) return;
  try {
    const node = await ask("node", { ...question(), reservoir: name, node: number });
    if (!node) return;
    panel.set(node);
    drawWeights($("field"), node.weights);
    const last = node.field[node.field.length - 1];
    const vote = votes?.[name]?.[number];
    const facts = [
      ["drive h", signed(node.drive)],
      ["others push", signed(last)],
      ["⟨x⟩ at the end", signed(node.mean[node.mean.length - 1])],
      ["its vote", vote === undefined ? "–" : signed(vote)],
    ];
    $("node-facts").replaceChildren(
      ...facts.flatMap(([what, value]) => [
        Object.assign(document.createElement("dt"), { textContent: what }),
        Object.assign(document.createElement("dd"), { textContent: value }),
      ]),
    );
    if (firmly) $("node-spoken").textContent = `${name}, node ${number}: ${facts.map((one) => one.join(" ")).join(", ")}`;
    onceColoured = () => drawWeights($("field"), node.weights);
  } catch (error) {
    trouble(error);
  }
}
let onceColoured = () => {};
onColours(() => onceColoured());

function forget() {
  clearTimeout(timer);
  image = null;
  showNothing();
  time.pause();
  grid.setPaths(null);
  grid.at(0);
  panel.set(null);
  $("node-facts").replaceChildren();
  drawImage($("sees"), null, machine.side ?? 28);
  delete document.documentElement.dataset.state;
}

function trouble(error) {
  busy = false;
  $("note").hidden = false;
  $("note").textContent = error.message;
  document.documentElement.dataset.state = "trouble";
}

$("clear").addEventListener("click", () => {
  unmark();
  sheet.blank();
  forget();
});
$("undo").addEventListener("click", () => sheet.undo());
$("again").addEventListener("click", () => {
  noise = (noise + 1) % 2 ** 32;
  later(true);
});
const words = {
  one: ["x < 0", "x > 0", "Each dot is a node: it leans and glows with its displacement."],
  mean: ["⟨x⟩ < 0", "⟨x⟩ > 0", "The mean over the replicas: the noise averages out, the push of the image stays."],
  votes: ["against", "for", "What each node said about the answer, all its moments together."],
};
for (const button of document.querySelectorAll(".pick button")) {
  button.addEventListener("click", () => {
    for (const one of document.querySelectorAll(".pick button")) one.setAttribute("aria-pressed", String(one === button));
    grid.setShow(button.dataset.show);
    ["legend-cold", "legend-warm", "legend-text"].forEach((id, k) => ($(id).textContent = words[button.dataset.show][k]));
  });
}

// For tests and benchmarks: frames drawn since the last call.
window.thermoment = { frames: () => time.frames() };
document.documentElement.dataset.ready = "";
examples(
  machine,
  (strokes) => sheet.show(strokes, !still.matches),
  (pixels) => {
    sheet.blank();
    image = { pixels };
    later(true);
  },
).catch(trouble);
