// The second view: tables of the machine, what its nodes look for, and the report of its run.
import { get } from "./api.js";
import { onColours } from "./colours.js";
import { drawWeights } from "./images.js";

const $ = (id) => document.getElementById(id);
const element = (tag, text = "", more = {}) => Object.assign(document.createElement(tag), { textContent: text, ...more });

function table({ title, note, head, rows }) {
  const made = document.createElement("table");
  const caption = element("caption", title);
  if (note) caption.append(element("small", note));
  made.append(caption);
  if (head.some((text) => text)) {
    const line = document.createElement("tr");
    line.append(...head.map((text) => (text ? element("th", text, { scope: "col" }) : element("td"))));
    made.createTHead().append(line);
  }
  const body = made.createTBody();
  for (const [first, ...rest] of rows) {
    const line = document.createElement("tr");
    line.append(element("th", first, { scope: "row" }), ...rest.map((text) => element("td", text)));
    body.append(line);
  }
  const scroll = element("div", "", { className: "scroll" });
  scroll.append(made);
  return scroll;
}

function report() {
  const frame = element("iframe", "", { src: "/report", title: "The report of the run: tables and figures" });
  frame.addEventListener("load", () => {
    const inner = frame.contentDocument;
    if (inner) frame.style.height = `${inner.documentElement.scrollHeight + 24}px`;
  });
  return [element("h3", "The report of its run"), frame];
}

let shown = false;

/** Fills the view when it is first looked at. */
export async function showResults() {
  if (shown) return;
  shown = true;
  const found = await get("results");
  $("tables").replaceChildren(...found.tables.map(table));
  const draw = () =>
    $("fields").replaceChildren(
      ...found.fields.map(({ reservoir, node, weights }) => {
        const figure = document.createElement("figure");
        const canvas = document.createElement("canvas");
        canvas.setAttribute("role", "img");
        canvas.setAttribute("aria-label", `Input weights of node ${node} of ${reservoir}`);
        drawWeights(canvas, weights);
        figure.append(canvas, element("figcaption", `${reservoir} · ${node}`));
        return figure;
      }),
    );
  draw();
  onColours(draw);
  if (found.report) $("report").replaceChildren(...report());
}
