// Steps of a training: a slider over them, and curves of what every head did.

const trained = () =>
  file.runs
    .map((run, i) => ({ run, i }))
    .filter(
      ({ run }) =>
        run.step !== undefined && run.input === runNow().input && run.model === runNow().model
    );
const sameMap = run =>
  run.maps.find(
    m =>
      ["name", "kind"].every(key => file.maps[m][key] === mapNow()[key]) &&
      JSON.stringify(file.maps[m].scope) === JSON.stringify(mapNow().scope)
  );

function atStep({ run, i }) {
  const at = max(run.maps.indexOf(sameMap(run)), 0),
    { row, col, on } = state;
  return change({ run: i, at, row, col, on });
}

VIEWS.push({
  id: "training",
  name: "Training",
  multi: true,
  fits: () => runNow().step !== undefined,
  async draw() {
    const all = trained(),
      maps = all.map(({ run }) => file.maps[sameMap(run)]),
      map = mapNow(),
      colours = ink();
    const names = ["entropy", "sparsity", "distance"].filter(name =>
      maps.every(m => m?.measures?.[name])
    );
    const chosen = state.head === "mean" && !state.on ? [...Array(map.shape[0]).keys()] : headsOn();
    const stage = $("stage"),
      wide = max(stage.clientWidth - 4, 300),
      high = 190,
      x0 = 52,
      o = board.start(wide, names.length * high + 30),
      pen = o.pen;
    const first = all[0].run.step,
      last = all.at(-1).run.step,
      place = step => x0 + ((step - first) / max(last - first, 1)) * (wide - x0 - 24);
    this.g = { all, place, wide };
    names.forEach((name, n) => {
      const y0 = n * high + 30 - o.y,
        y1 = y0 + high - 60,
        values = maps.map(m => m.measures[name]),
        top = max(...values.flat(), 1e-6);
      pencil(pen, "left", "bottom", 12, colours.text, true);
      pen.fillText(`${MEASURES[name][0]}: ${MEASURES[name][1]}`, x0, y0 - 8);
      pen.strokeStyle = colours.line;
      pen.lineWidth = 1;
      for (const part of [0, 0.5, 1]) {
        const y = y1 - part * (y1 - y0);
        pen.beginPath();
        pen.moveTo(x0, y);
        pen.lineTo(wide - 24, y);
        pen.stroke();
        pencil(pen, "right", "middle", 10, colours.soft);
        pen.fillText(+(top * part).toPrecision(2), x0 - 6, y);
      }
      pen.strokeStyle = colours.mark;
      pen.beginPath();
      pen.moveTo(place(runNow().step), y0);
      pen.lineTo(place(runNow().step), y1);
      pen.stroke();
      for (const h of chosen) {
        pen.strokeStyle = headColour(h);
        pen.lineWidth = 1.8;
        pen.beginPath();
        values.forEach((v, k) => {
          const x = place(all[k].run.step),
            y = y1 - (v[h] / top) * (y1 - y0);
          k ? pen.lineTo(x, y) : pen.moveTo(x, y);
        });
        pen.stroke();
      }
      pencil(pen, "center", "top", 10, colours.soft);
      const every = ceil((all.length * 48) / wide);
      all.forEach(({ run }, k) => k % every || pen.fillText(run.step, place(run.step), y1 + 6));
    });
  },
  at(x) {
    const near = this.g.all.reduce((a, b) =>
      abs(this.g.place(b.run.step) - x) < abs(this.g.place(a.run.step) - x) ? b : a
    );
    return { row: near.run.step, col: -1, near };
  },
  tip({ row }) {
    return `step ${row}`;
  },
  click({ near }) {
    atStep(near);
  }
});

new MutationObserver(() => {
  const all = trained(),
    at = all.findIndex(({ i }) => i === state.run);
  $("steps")?.remove();
  if (at < 0) return;
  const focused = document.activeElement?.id === "step";
  $("run-label").before(
    make(
      "label",
      { id: "steps", style: "display:flex;gap:6px" },
      "Step ",
      make("input", {
        id: "step",
        class: "scrub",
        style: "width:180px",
        type: "range",
        min: 0,
        max: all.length - 1,
        value: at,
        "aria-valuetext": `${all[at].run.step}`,
        input: e => atStep(all[+e.target.value])
      }),
      make("b", {}, all[at].run.step)
    )
  );
  if (focused) $("step").focus();
  [...$("run").options].forEach(
    (one, i) =>
      (one.hidden = file.runs[i].step !== undefined && file.runs[i].step !== all[at].run.step)
  );
}).observe(rootElement, { attributeFilter: ["data-drawn"] });
