// All nodes of all reservoirs as dots, coloured by displacement or by what they said; one of them is chosen.
import { colour, context, ofDisplacement, onColours } from "./colours.js";

const BRIGHT = 1.1;
const LEAN = 0.16;

/** The grid on a canvas. `chosen(reservoir, node, firmly)` is called for the node under the pointer. */
export function nodeGrid(canvas, reservoirs, chosen) {
  const places = [];
  let paths = null;
  let votes = null;
  let show = "one";
  let share = 0;
  let selected = null;
  let pinned = false;
  let hovered = false;
  let size = { cell: 10, height: 100 };

  function layout() {
    places.length = 0;
    const width = canvas.clientWidth;
    const columns = reservoirs.map(({ n_nodes }) => Math.ceil(Math.sqrt(n_nodes)));
    const stacked = width < 420 && reservoirs.length > 1;
    const gap = 14;
    const beside = stacked ? 2 : reservoirs.length;
    const across = stacked ? columns[0] + columns[1] : columns.reduce((a, b) => a + b);
    const cell = (width - gap * (beside - 1)) / across;
    let height = 0;
    reservoirs.forEach(({ name, n_nodes }, r) => {
      const column = stacked ? r % beside : r;
      const left = columns.slice(r - column, r).reduce((sum, n) => sum + n * cell + gap, 0);
      const top = stacked && r >= beside ? height0(columns[0], cell) : 0;
      const rows = Math.ceil(n_nodes / columns[r]);
      places.push({ name, n_nodes, columns: columns[r], left, top: top + 18 });
      height = Math.max(height, top + 18 + rows * cell);
    });
    size = { cell, height: Math.ceil(height) + 2 };
    canvas.style.height = `${size.height}px`;
  }
  const height0 = (rows, cell) => 18 + rows * cell + 8;

  function draw() {
    if (!places.length || canvas.clientWidth === 0) return;
    const { pen } = context(canvas, size.height);
    const { cell } = size;
    const at = paths ? share * (paths.times.length - 1) : 0;
    const k = Math.min(Math.floor(at), paths ? paths.times.length - 2 : 0);
    const part = at - k;
    pen.textBaseline = "alphabetic";
    for (const { name, n_nodes, columns, left, top } of places) {
      pen.fillStyle = colour("muted");
      pen.font = "12px system-ui, sans-serif";
      pen.fillText(name, left + 1, top - 6);
      const before = paths?.[show === "mean" ? "mean" : "one"][name][k];
      const after = paths?.[show === "mean" ? "mean" : "one"][name][k + 1];
      const said = votes?.[name];
      for (let i = 0; i < n_nodes; i++) {
        const x = before ? before[i] + part * (after[i] - before[i]) : 0;
        const value = show === "votes" ? (said ? said[i] : 0) : x / BRIGHT;
        const lean = show === "votes" ? 0 : Math.max(-1.4, Math.min(1.4, x)) * LEAN * cell;
        pen.fillStyle = ofDisplacement(value);
        pen.beginPath();
        const radius = cell * (0.3 + 0.14 * Math.min(1, Math.abs(value)));
        pen.arc(left + ((i % columns) + 0.5) * cell + lean, top + (Math.floor(i / columns) + 0.5) * cell, radius, 0, 7);
        pen.fill();
      }
      if (selected?.name === name) {
        const row = Math.floor(selected.node / columns);
        pen.strokeStyle = colour("ink");
        pen.lineWidth = 2;
        pen.strokeRect(left + (selected.node % columns) * cell - 0.5, top + row * cell - 0.5, cell + 1, cell + 1);
      }
    }
  }

  function under(event) {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    for (const { name, n_nodes, columns, left, top } of places) {
      const column = Math.floor((x - left) / size.cell);
      const row = Math.floor((y - top) / size.cell);
      const node = row * columns + column;
      if (column >= 0 && column < columns && row >= 0 && node < n_nodes) return { name, node };
    }
    return null;
  }
  function select(found, firmly) {
    if (!found || (found.name === selected?.name && found.node === selected?.node && !firmly)) return;
    selected = found;
    draw();
    chosen(found.name, found.node, firmly);
  }
  canvas.addEventListener("pointermove", (event) => event.pointerType === "mouse" && !pinned && select(under(event), false));
  canvas.addEventListener("pointerenter", () => (hovered = true));
  canvas.addEventListener("pointerleave", () => (hovered = false));
  canvas.addEventListener("click", (event) => {
    const found = under(event);
    pinned = found !== null && !(pinned && found.name === selected?.name && found.node === selected?.node);
    select(found, true);
  });
  canvas.addEventListener("keydown", (event) => {
    const where = places.findIndex(({ name }) => name === selected?.name);
    if (where < 0) return;
    const { columns, n_nodes } = places[where];
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    if (event.key === "PageDown" || event.key === "PageUp") {
      const next = places[(where + (event.key === "PageDown" ? 1 : places.length - 1)) % places.length];
      select({ name: next.name, node: Math.min(selected.node, next.n_nodes - 1) }, true);
    } else if (step) select({ name: selected.name, node: (selected.node + step + n_nodes) % n_nodes }, true);
    else return;
    pinned = true;
    event.preventDefault();
  });
  new ResizeObserver(() => {
    layout();
    draw();
  }).observe(canvas.parentElement);
  onColours(draw);
  layout();
  draw();

  return {
    setPaths(found) {
      paths = found;
    },
    /** What each node said for the answer, all moments together. */
    setVotes(nodes) {
      const sums = {};
      let largest = 1e-9;
      for (const [name, orders] of Object.entries(nodes)) {
        const all = Object.values(orders);
        sums[name] = all[0].map((_, i) => all.reduce((sum, one) => sum + one[i], 0));
        for (const value of sums[name]) largest = Math.max(largest, Math.abs(value));
      }
      votes = Object.fromEntries(Object.entries(sums).map(([name, all]) => [name, all.map((v) => v / (0.6 * largest))]));
      return sums;
    },
    setShow(what) {
      show = what;
      draw();
    },
    at(value) {
      share = value;
      draw();
    },
    select,
    get pinned() {
      return pinned;
    },
    get hovered() {
      return hovered && selected !== null;
    },
    get selected() {
      return selected;
    },
  };
}
