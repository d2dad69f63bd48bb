// Images to click: ten digits as strokes of a pen, and test images that the server has found.
import { get } from "./api.js";
import { drawImage } from "./images.js";
import { PEN } from "./strokes.js";

const $ = (id) => document.getElementById(id);
const SIZE = 56;

function thumbnail(strokes) {
  const canvas = Object.assign(document.createElement("canvas"), { width: SIZE, height: SIZE });
  const pen = canvas.getContext("2d");
  pen.strokeStyle = "#fff";
  pen.lineWidth = 4.2;
  pen.lineCap = pen.lineJoin = "round";
  for (const stroke of strokes) {
    pen.beginPath();
    for (const [x, y] of stroke) pen.lineTo(x * SIZE, y * SIZE);
    pen.stroke();
  }
  return canvas;
}

function button(label, canvas, pick) {
  const made = document.createElement("button");
  made.append(canvas);
  made.setAttribute("aria-label", label);
  made.setAttribute("aria-pressed", "false");
  made.addEventListener("click", () => {
    unmark();
    made.setAttribute("aria-pressed", "true");
    pick();
  });
  return made;
}

/** No image is chosen any more. */
export function unmark() {
  for (const one of document.querySelectorAll('.strip [aria-pressed="true"]')) one.setAttribute("aria-pressed", "false");
}

/** Fills both strips. `draw(strokes)` and `show(pixels)` are called for what is clicked. */
export async function examples(machine, draw, show) {
  if (machine.side !== null) {
    $("by-pen").replaceChildren(
      ...PEN.map((strokes, digit) => button(`A ${digit}, drawn by pen`, thumbnail(strokes), () => draw(strokes))),
    );
  }
  const found = await get("examples");
  const side = machine.side ?? 0;
  $("by-others").replaceChildren(
    ...found.images.map(({ pixels, label, read }) => {
      const canvas = document.createElement("canvas");
      const values = pixels.map((grey) => grey / 255);
      if (side) drawImage(canvas, values, side);
      const missed = label !== read;
      const text = missed ? `A ${label} that the machine takes for ${read}` : `A ${label} that the machine reads right`;
      const made = button(text, canvas, () => show(values));
      made.title = text;
      if (missed) {
        made.classList.add("missed");
        made.dataset.read = read;
      }
      return made;
    }),
  );
  const wrong = found.images.some(({ label, read }) => label !== read);
  $("samples-text").textContent = found.images.length
    ? `Top: drawn by pen. Below: ${found.source}.${wrong ? " Framed: misread, with what the machine takes them for." : ""}`
    : "Top: drawn by pen. No test images of this machine are on this disk.";
}
