// The paper: strokes by mouse, pen, finger or keyboard, in coordinates from 0 to 1.
import { colour, onColours } from "./colours.js";

const WIDTH = 0.068;
const STEP = 0.025;
const CLOSEST = 0.006;

/** Turns a canvas into paper. `changed(strokes, done, byHand)` is called while a stroke grows, and when done. */
export function paper(canvas, changed) {
  let strokes = [];
  let current = null;
  let cursor = null;
  const frame = canvas.parentElement;

  function draw() {
    const size = canvas.width;
    const pen = canvas.getContext("2d");
    pen.clearRect(0, 0, size, size);
    pen.strokeStyle = pen.fillStyle = colour("ink");
    pen.lineWidth = WIDTH * size;
    pen.lineCap = pen.lineJoin = "round";
    for (const stroke of strokes) {
      pen.beginPath();
      stroke.forEach(([x, y], k) => (k ? pen.lineTo(x * size, y * size) : pen.moveTo(x * size, y * size)));
      if (stroke.length === 1) pen.lineTo(stroke[0][0] * size, stroke[0][1] * size);
      pen.stroke();
    }
    if (cursor && document.activeElement === canvas) {
      pen.beginPath();
      pen.arc(cursor[0] * size, cursor[1] * size, (WIDTH / 2) * size, 0, 7);
      pen.lineWidth = 4;
      pen.strokeStyle = colour(current ? "warm" : "cold");
      pen.stroke();
    }
    frame.classList.toggle("used", strokes.length > 0 || cursor !== null);
  }

  const inside = (value) => Math.round(Math.max(0, Math.min(1, value)) * 1e4) / 1e4;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [inside((event.clientX - box.left) / box.width), inside((event.clientY - box.top) / box.height)];
  };
  function extend(point) {
    const [x, y] = current[current.length - 1];
    if (Math.hypot(point[0] - x, point[1] - y) >= CLOSEST) current.push(point);
  }
  function finish() {
    current = null;
    draw();
    changed(strokes, true, true);
  }

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    cursor = null;
    current = [place(event)];
    strokes.push(current);
    draw();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!current || cursor) return;
    for (const part of event.getCoalescedEvents?.() ?? [event]) extend(place(part));
    extend(place(event));
    draw();
    changed(strokes, false, true);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, () => current && !cursor && finish());
  }
  canvas.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (way) {
      cursor = (cursor ?? [0.5, 0.2]).map((at, k) => inside(at + way[k] * STEP));
      if (current) {
        current.push([...cursor]);
        changed(strokes, false, true);
      }
    } else if (event.key === " " || event.key === "Enter") {
      cursor ??= [0.5, 0.2];
      if (current) finish();
      else strokes.push((current = [[...cursor]]));
    } else if (event.key === "Escape") self.clear();
    else if (event.key === "Delete" || event.key === "Backspace") self.undo();
    else return;
    event.preventDefault();
    draw();
  });
  canvas.addEventListener("blur", draw);
  onColours(draw);

  const self = {
    clear() {
      strokes = [];
      current = null;
      draw();
      changed(strokes, true, true);
    },
    undo() {
      strokes.pop();
      current = null;
      draw();
      changed(strokes, true, true);
    },
    /** Shows strokes, one point after the other unless motion is reduced. */
    async show(given, slowly) {
      const mine = (strokes = []);
      draw();
      for (const stroke of given) {
        const growing = [];
        mine.push(growing);
        for (const point of stroke) {
          growing.push(point);
          if (slowly && growing.length % 2 === 0) {
            draw();
            await new Promise(requestAnimationFrame);
            if (strokes !== mine) return;
          }
        }
      }
      draw();
      changed(strokes, true, false);
    },
    /** Empties the paper without asking anything. */
    blank() {
      strokes = [];
      current = null;
      draw();
    },
  };
  return self;
}
