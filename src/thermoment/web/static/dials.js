// Sliders, check boxes and the engine: the settings that a question is asked with.

const $ = (id) => document.getElementById(id);

/** Makes the controls for a machine; `changed()` is called when one is moved. */
export function dials(machine, changed) {
  const own = { kT: machine.kT, t_final: machine.t_final, n_replicas: machine.n_replicas };
  const logarithmic = (name) => {
    const [low, high] = machine.limits[name];
    const start = Math.max(low, high / 1e4);
    return {
      value: (position) => {
        const raw = start * (high / start) ** (position / 100);
        const near = Number(raw.toPrecision(2));
        return position === place(own[name], start, high) ? own[name] : Math.min(high, Math.max(low, near));
      },
      position: (value) => place(value, start, high),
    };
  };
  const place = (value, low, high) => Math.round((100 * Math.log(value / low)) / Math.log(high / low));
  const most = Math.floor(Math.log2(machine.limits.n_replicas[1]));
  const scales = {
    kT: logarithmic("kT"),
    t_final: logarithmic("t_final"),
    n_replicas: {
      value: (position) => (position === nearest(own.n_replicas) ? own.n_replicas : 2 ** position),
      position: (value) => nearest(value),
    },
  };
  const nearest = (value) => Math.round(Math.log2(value));
  $("n_replicas").max = most;

  const values = { ...own };
  function show(name) {
    const text = Number(values[name].toPrecision(3)).toString();
    const output = $(`${name}-out`);
    output.textContent = text;
    output.classList.toggle("changed", values[name] !== own[name]);
    $(name).setAttribute("aria-valuetext", values[name] === own[name] ? `${text}, the machine's own` : text);
  }
  for (const name of Object.keys(scales)) {
    $(name).value = scales[name].position(own[name]);
    $(name).addEventListener("input", () => {
      values[name] = scales[name].value(Number($(name).value));
      show(name);
      changed();
    });
    show(name);
  }

  function checks(where, known, label) {
    $(where).replaceChildren(
      ...known.map((value) => {
        const made = document.createElement("label");
        const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: true, value });
        box.addEventListener("change", () => {
          const on = $(where).querySelectorAll(":checked");
          if (on.length === 0) box.checked = true; // something must be read
          else changed();
        });
        made.append(box, label(value));
        return made;
      }),
    );
  }
  const meaning = { 1: "mean", 2: "square", 4: "fourth power" };
  checks("reservoirs", machine.reservoirs.map(({ name }) => name), (name) => name);
  checks("orders", machine.orders, (p) => meaning[p] ?? `power ${p}`);

  const runs = machine.engines.filter(({ can_run }) => can_run);
  $("engine").replaceChildren(
    ...runs.map(({ name }) => Object.assign(document.createElement("option"), { value: name, textContent: name })),
  );
  $("engine").value = machine.engine;
  const say = () => {
    const { name, note } = runs.find((one) => one.name === $("engine").value);
    $("engine-note").textContent = name === "meanfield" ? "No sampling: the limit of infinitely many replicas." : `Samples every replica: ${note}.`;
  };
  $("engine").addEventListener("change", () => {
    say();
    changed();
  });
  say();
  $("reset").addEventListener("click", () => {
    Object.assign(values, own);
    for (const name of Object.keys(scales)) {
      $(name).value = scales[name].position(own[name]);
      show(name);
    }
    for (const box of document.querySelectorAll(".checks input")) box.checked = true;
    $("engine").value = machine.engine;
    say();
    changed();
  });

  const on = (where) => [...$(where).querySelectorAll(":checked")].map((box) => box.value);
  return {
    /** The settings as the fields of a question. */
    get settings() {
      const engine = $("engine").value;
      // xla compiles a program for every number of replicas, and takes powers of two.
      const n_replicas = engine === "xla" ? 2 ** Math.floor(Math.log2(values.n_replicas)) : values.n_replicas;
      return { ...values, n_replicas, engine, reservoirs: on("reservoirs"), orders: on("orders").map(Number) };
    },
  };
}
