// One node: its tilted well with the replicas in it, their histogram over the densities, and their paths, on one x.
import { colour, context, onColours } from "./colours.js";

const BINS = 30;
const MARGIN = { left: 8, right: 8, top: 6 };

/** The panel on a canvas. */
export function nodePanel(canvas) {
  let node = null;
  let share = 1;

  function draw() {
    if (canvas.clientWidth === 0) return;
    const { pen, width, height } = context(canvas);
    if (!node) return;
    const low = node.x[0];
    const high = node.x[node.x.length - 1];
    const toX = (x) => MARGIN.left + ((x - low) / (high - low)) * (width - MARGIN.left - MARGIN.right);
    const at = share * (node.times.length - 1);
    const k = Math.min(Math.floor(at), node.times.length - 2);
    const part = at - k;
    const between = (values) => values[k] + part * (values[k + 1] - values[k]);
    const replicas = node.paths.map(between);
    const bands = { well: [MARGIN.top, 0.33 * height], bars: [0.36 * height, 0.62 * height], paths: [0.66 * height, height - 18] };
    pen.font = "12px system-ui, sans-serif";
    well(pen, toX, bands.well, node.drive + between(node.field), replicas);
    bars(pen, toX, bands.bars, replicas, k, part, high - low);
    lines(pen, toX, bands.paths, share, width);
    axis(pen, toX, height, low, high);
  }

  function caption(pen, text, top) {
    pen.textAlign = "left";
    pen.fillStyle = colour("card");
    pen.globalAlpha = 0.8;
    pen.fillRect(MARGIN.left - 2, top - 2, pen.measureText(text).width + 6, 17);
    pen.globalAlpha = 1;
    pen.fillStyle = colour("muted");
    pen.fillText(text, MARGIN.left, top + 11);
  }
  function well(pen, toX, [top, bottom], h, replicas) {
    const { J2, J3, J4, kT } = node.well;
    const U = (x) => x * (x * (J2 + x * (J3 + J4 * x)) - h);
    const values = node.x.map(U);
    const floor = Math.min(...values);
    const ends = replicas.length ? Math.max(...replicas.map(U)) : floor;
    const ceiling = Math.max(floor + 8 * Math.max(kT, 0.02), Math.min(Math.max(...values), ends + 3 * kT));
    const toY = (u) => bottom - ((u - floor) / (ceiling - floor)) * (bottom - top - 14) - 8;
    pen.save();
    pen.beginPath();
    pen.rect(0, top, canvas.clientWidth, bottom - top);
    pen.clip();
    pen.strokeStyle = colour("cold");
    pen.lineWidth = 2.2;
    pen.beginPath();
    node.x.forEach((x, i) => pen.lineTo(toX(x), toY(values[i])));
    pen.stroke();
    pen.fillStyle = colour("warm");
    pen.globalAlpha = replicas.length > 20 ? 0.4 : 0.85;
    const radius = replicas.length > 20 ? 4 : 6;
    for (const x of replicas) {
      pen.beginPath();
      pen.arc(toX(x), toY(U(x)) - radius, radius, 0, 7);
      pen.fill();
    }
    pen.restore();
    caption(pen, "energy U(x), tilted by the drive", top);
  }
  function bars(pen, toX, [top, bottom], replicas, k, part, span) {
    const counts = new Array(BINS).fill(0);
    const bin = span / BINS;
    for (const x of replicas) {
      const b = Math.floor((x - node.x[0]) / bin);
      if (b >= 0 && b < BINS) counts[b] += 1;
    }
    const heights = counts.map((count) => count / (replicas.length * bin));
    const density = node.density && k > 0 ? node.density[k].map((d, i) => d + part * (node.density[k + 1][i] - d)) : node.density?.[1];
    const peak = Math.max(...(node.density?.[node.density.length - 1] ?? [1]), ...(node.boltzmann ?? [1])) * 1.35;
    const toY = (d) => bottom - (Math.min(d, peak * 1.08) / (peak * 1.08)) * (bottom - top - 6);
    pen.fillStyle = colour("warm");
    pen.globalAlpha = 0.45;
    heights.forEach((d, b) => {
      const left = toX(node.x[0] + b * bin);
      if (d) pen.fillRect(left + 0.5, toY(d), toX(node.x[0] + (b + 1) * bin) - left - 1, bottom - toY(d));
    });
    pen.globalAlpha = 1;
    curve(pen, toX, toY, node.boltzmann, "muted", [6, 4]);
    curve(pen, toX, toY, density, "ink", []);
    pen.strokeStyle = colour("rule");
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(toX(node.x[0]), bottom + 0.5);
    pen.lineTo(toX(node.x[node.x.length - 1]), bottom + 0.5);
    pen.stroke();
    caption(pen, "where the replicas are", top);
  }
  function curve(pen, toX, toY, values, name, dashes) {
    if (!values) return;
    pen.strokeStyle = colour(name);
    pen.lineWidth = 1.8;
    pen.setLineDash(dashes);
    pen.beginPath();
    node.x.forEach((x, i) => pen.lineTo(toX(x), toY(values[i])));
    pen.stroke();
    pen.setLineDash([]);
  }
  function lines(pen, toX, [top, bottom], passed, width) {
    const T = node.times.length - 1;
    const toY = (k) => top + 14 + (k / T) * (bottom - top - 14);
    const shown = node.paths.slice(0, 24);
    const until = passed * T;
    const trace = (path, name, thick, alpha, last) => {
      pen.strokeStyle = colour(name);
      pen.lineWidth = thick;
      pen.globalAlpha = alpha;
      pen.beginPath();
      for (let k = 0; k <= last; k++) pen.lineTo(toX(path[k]), toY(k));
      const rest = last - Math.floor(last);
      const k = Math.floor(last);
      if (rest && k < T) pen.lineTo(toX(path[k] + rest * (path[k + 1] - path[k])), toY(last));
      pen.stroke();
      pen.globalAlpha = 1;
    };
    for (const path of shown) trace(path, "muted", 0.7, 0.16, T);
    for (const path of shown) trace(path, "warm", 0.9, shown.length > 8 ? 0.4 : 0.8, until);
    if (node.paths.length > 1) trace(node.mean, "ink", 2, 1, until);
    pen.strokeStyle = colour("muted");
    pen.setLineDash([2, 4]);
    pen.beginPath();
    pen.moveTo(MARGIN.left, toY(until));
    pen.lineTo(width - MARGIN.right, toY(until));
    pen.stroke();
    pen.setLineDash([]);
    caption(pen, "their paths, time runs down", top);
  }
  function axis(pen, toX, height, low, high) {
    const step = high - low > 4 ? 1 : 0.5;
    pen.fillStyle = colour("muted");
    pen.textAlign = "center";
    for (let x = Math.ceil(low / step) * step; x <= high; x += step) {
      const text = Math.abs(x) < 1e-9 ? "x = 0" : x.toFixed(1).replace("-", "−");
      if (toX(x) > 16 && toX(x) < canvas.clientWidth - 16) pen.fillText(text, toX(x), height - 4);
    }
  }

  new ResizeObserver(draw).observe(canvas);
  onColours(draw);
  return {
    set(found) {
      node = found;
      draw();
    },
    at(value) {
      share = value;
      draw();
    },
    redraw: draw,
  };
}
