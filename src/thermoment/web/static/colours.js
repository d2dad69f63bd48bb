// The colours of the canvases, taken from the style sheet, and the scale from cold over nothing to warm.

const STEPS = 64;
let scale = [];
let named = {};
const listeners = [];

/** A colour of the style sheet: ink, muted, rule, card, sunk, warm, cold. */
export const colour = (name) => named[name];

/** The colour of a displacement from -1 to 1. */
export const ofDisplacement = (value) =>
  scale[STEPS + Math.round(Math.max(-1, Math.min(1, value)) * STEPS)];

/** Calls `redraw` whenever the colours have changed. */
export const onColours = (redraw) => listeners.push(redraw);

/** Reads the style sheet again. */
export function readColours() {
  const probe = document.createElement("span");
  document.body.append(probe);
  const rgb = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
  };
  const parts = {};
  for (const name of ["ink", "muted", "rule", "card", "sunk", "paper", "warm", "cold"]) parts[name] = rgb(name);
  probe.remove();
  named = Object.fromEntries(Object.entries(parts).map(([name, [r, g, b]]) => [name, `rgb(${r} ${g} ${b})`]));
  scale = Array.from({ length: 2 * STEPS + 1 }, (_, k) => {
    const share = Math.abs(k - STEPS) / STEPS;
    const end = k < STEPS ? parts.cold : parts.warm;
    const mixed = parts.rule.map((from, c) => Math.round(from + (end[c] - from) * share ** 0.7));
    return `rgb(${mixed.join(" ")})`;
  });
  for (const redraw of listeners) redraw();
}

/** Sizes a canvas to its place on the screen, and gives its context in CSS pixels. */
export function context(canvas, height = canvas.clientHeight) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const width = canvas.clientWidth;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height };
}
