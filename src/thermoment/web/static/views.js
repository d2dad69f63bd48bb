// The three views as tabs, and the choice of light or dark.
import { readColours } from "./colours.js";

const names = ["draw", "results", "how"];
const $ = (id) => document.getElementById(id);

/** Makes the tabs work; `seen(name)` is called when a view is shown. */
export function views(seen) {
  function show(name, focus) {
    for (const one of names) {
      const on = one === name;
      $(`view-${one}`).hidden = !on;
      $(`tab-${one}`).setAttribute("aria-selected", String(on));
      $(`tab-${one}`).tabIndex = on ? 0 : -1;
    }
    if (focus) $(`tab-${name}`).focus();
    if (location.hash !== `#${name}`) history.replaceState(null, "", name === "draw" ? location.pathname : `#${name}`);
    seen(name);
  }
  names.forEach((name, k) => {
    $(`tab-${name}`).addEventListener("click", () => show(name, false));
    $(`tab-${name}`).addEventListener("keydown", ({ key }) => {
      const step = { ArrowRight: 1, ArrowLeft: names.length - 1 }[key];
      if (step) show(names[(k + step) % names.length], true);
    });
  });
  window.addEventListener("hashchange", () => names.includes(location.hash.slice(1)) && show(location.hash.slice(1), false));
  show(names.includes(location.hash.slice(1)) ? location.hash.slice(1) : "draw", false);
}

/** The button for light and dark. The choice is kept by the browser; without one the system's is taken. */
export function theme(button) {
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const kept = localStorage.getItem("theme");
  if (kept) root.dataset.theme = kept;
  button.addEventListener("click", () => {
    const now = root.dataset.theme ?? (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
    readColours();
  });
  dark.addEventListener("change", readColours);
  readColours();
}
