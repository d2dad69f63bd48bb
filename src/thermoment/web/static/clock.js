// The time of the animation: it plays, rests, and can be set.

const SECONDS = 4.5;
const REST = 1.4;

/** A clock from 0 to 1. `tick(share)` is called with the share of t_final that has passed. */
export function clock({ button, slider, readout, tick }) {
  const still = window.matchMedia("(prefers-reduced-motion: reduce)");
  let share = 0;
  let playing = false;
  let last = 0;
  let rested = 0;
  let t_final = 1;
  const frames = { count: 0, since: performance.now() };

  function show() {
    slider.value = Math.round(1000 * share);
    const text = `t = ${(share * t_final).toFixed(t_final < 0.2 ? 3 : 2)}`;
    readout.textContent = text;
    slider.setAttribute("aria-valuetext", text);
    tick(share);
    frames.count += 1;
  }
  function step(now) {
    if (!playing) return;
    const passed = Math.min(0.1, (now - last) / 1000);
    last = now;
    if (share >= 1) {
      rested += passed;
      if (rested > REST) share = rested = 0;
    } else {
      share = Math.min(1, share + passed / SECONDS);
    }
    show();
    requestAnimationFrame(step);
  }
  const self = {
    /** Frames drawn and milliseconds passed since the last call. */
    frames() {
      const now = performance.now();
      const found = { count: frames.count, milliseconds: now - frames.since };
      frames.count = 0;
      frames.since = now;
      return found;
    },
    play() {
      if (playing) return;
      playing = true;
      last = performance.now();
      button.dataset.playing = "";
      button.setAttribute("aria-label", "Pause");
      requestAnimationFrame(step);
    },
    pause() {
      playing = false;
      delete button.dataset.playing;
      button.setAttribute("aria-label", "Play");
    },
    set(value) {
      share = value;
      rested = 0;
      show();
    },
    /** New paths have come: they are played from the start, or shown at their end where motion is reduced. */
    restart(length) {
      t_final = length;
      if (still.matches) self.set(1);
      else if (playing || share === 0 || share === 1) {
        self.set(0);
        self.play();
      } else show();
    },
    refresh: show,
    get share() {
      return share;
    },
  };
  button.addEventListener("click", () => (playing ? self.pause() : self.play()));
  slider.addEventListener("input", () => {
    self.pause();
    self.set(slider.value / 1000);
  });
  document.addEventListener("visibilitychange", () => document.hidden && self.pause());
  return self;
}
