// Two heads, hypotheses, inputs or models: side by side, and what the first has more of.

const parsePlace = text => {
  const [run, at, h] = text.split(".");
  const map = file.maps[file.runs[+run]?.maps[+at]];
  if (!map) return null;
  return { run: +run, at: +at, h: h === "mean" ? h : min(+h || 0, map.shape[0] - 1) };
};

function nextPlace({ run, at, h }) {
  const maps = file.runs[run].maps,
    heads = file.maps[maps[at]].shape[0];
  if (file.runs.length > 1) {
    const other = (run + 1) % file.runs.length;
    if (file.runs[other].maps[at] !== undefined) return { run: other, at, h };
  }
  if (h === "mean")
    return maps[at + 1] !== undefined ? { run, at: at + 1, h } : { run, at: max(at - 1, 0), h };
  return { run, at, h: (h + 1) % heads };
}

function chooser(key, place) {
  const maps = file.runs[place.run].maps,
    heads = file.maps[maps[place.at]].shape[0];
  const set = more => {
    const next = { ...place, ...more };
    next.at = min(next.at, file.runs[next.run].maps.length - 1);
    const count = file.maps[file.runs[next.run].maps[next.at]].shape[0];
    if (next.h !== "mean") next.h = min(next.h, count - 1);
    change({ [key]: pinText(next) });
  };
  const select = (label, name, options, read) =>
    make(
      "select",
      { "aria-label": `${key}: ${label}`, change: e => set({ [name]: read(e.target.value) }) },
      ...options
    );
  return make(
    "span",
    { class: "chooser" },
    make("b", {}, key.toUpperCase()),
    " ",
    ...(file.runs.length > 1
      ? [
          select(
            "run",
            "run",
            file.runs.map((r, i) => option(i, runName(r), i === place.run)),
            Number
          )
        ]
      : []),
    select(
      "attention",
      "at",
      maps.map((m, i) =>
        option(
          i,
          `${file.maps[m].kind || file.maps[m].name} ${file.maps[m].layer || ""}`,
          i === place.at
        )
      ),
      Number
    ),
    select(
      "head",
      "h",
      [
        option("mean", "mean", place.h === "mean"),
        ...Array.from({ length: heads }, (_, h) =>
          option(h, headName(file.maps[maps[place.at]], h), h === place.h)
        )
      ],
      v => (v === "mean" ? v : Number(v))
    )
  );
}

function small(p, title, width) {
  const g = layoutSmall(p, width),
    canvas = make("canvas", { role: "img", "aria-label": title, class: "small" });
  const ratio = devicePixelRatio || 1,
    wide = g.left + p.C * g.cell + 4,
    high = g.above + p.R * g.cell + 34;
  canvas.width = wide * ratio;
  canvas.height = high * ratio;
  canvas.style.width = `${wide}px`;
  canvas.style.height = `${high}px`;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.fillStyle = ink().back;
  pen.fillRect(0, 0, wide, high);
  const o = { x: 0, y: 0, wide, high };
  drawMatrix(pen, p, g, o);
  scaleBar(
    pen,
    g.left,
    g.above + p.R * g.cell + 8,
    min(110, max(p.C * g.cell - 4, 40)),
    p.top,
    p.low < 0
  );
  listen(canvas, {
    mouseleave: () => tip(),
    mousemove: e => {
      const c = floor((e.offsetX - g.left) / g.cell),
        r = floor((e.offsetY - g.above) / g.cell);
      const col = p.cols.rtl ? p.C - 1 - c : c;
      if (c < 0 || r < 0 || c >= p.C || r >= p.R) return tip();
      const v = p.w[r * p.C + col];
      tip(
        e,
        `${p.rows.labels[r]} → ${p.cols.labels[col]}  ${p.low < 0 && v > 0 ? "+" : ""}${percent(v)}`
      );
    }
  });
  return make(
    "figure",
    { style: `width:${max(wide, 200)}px` },
    make("figcaption", {}, title),
    canvas
  );
}

function layoutSmall(p, width) {
  const probe = $("canvas").getContext("2d");
  let cell = 16,
    left = 0,
    above = 0;
  for (let i = 0; i < 3; i++) {
    const size = max(8, min(12, cell * 0.72));
    probe.font = font(size);
    left = cell < 7 ? 34 : min(longest(probe, p.rows.labels) + 12, 130);
    above = cell < 7 ? 22 : min(longest(probe, p.cols.labels) + 12, 110);
    cell = max(
      min((width - left - 8) / p.C, 44, p.R > 10 ? max(420 / p.R, p.R > 60 ? 0 : 22) : 44),
      0.25
    );
  }
  return { cell, left, above, size: max(8, min(12, cell * 0.72)), words: cell >= 7 };
}

VIEWS.push({
  id: "compare",
  name: "Compare",
  fits: () => true,
  async draw() {
    const a = parsePlace(state.a || pinText({ run: state.run, at: state.at, h: state.head })) ?? {
      run: 0,
      at: 0,
      h: "mean"
    };
    const b = parsePlace(state.b || "") ?? nextPlace(a);
    const [p, q] = (
      await Promise.all([a, b].map(({ run, at, h }) => picture(file.runs[run].maps[at], h)))
    ).map(one => ({ ...one }));
    p.top = q.top = max(p.top, q.top);
    const same = p.R === q.R && p.C === q.C,
      figures = [],
      stage = $("stage");
    const width = max(200, (stage.clientWidth - 70) / (stage.clientWidth < 700 ? 1 : same ? 3 : 2));
    figures.push(small(p, `A  ${placeName(a)}`, width), small(q, `B  ${placeName(b)}`, width));
    let told;
    if (same) {
      const d = { ...p, key: "", w: p.w.map((v, i) => v - q.w[i]) };
      d.low = -1;
      let size = 0,
        apart = 0;
      for (const v of d.w) {
        size = max(size, abs(v));
        apart += abs(v) / 2;
      }
      d.top = roundTop(size);
      figures.push(small(d, "A − B: blue where A has more weight, orange where B has", width));
      const words =
        p.rows.labels.join(" ") === q.rows.labels.join(" ") &&
        p.cols.labels.join(" ") === q.cols.labels.join(" ");
      told = `On average ${percent(apart / max(p.R, 1))} of a row's weight lies elsewhere.${words ? "" : " Words differ: places are compared."}`;
    } else told = `No difference can be drawn: A is ${p.R} × ${p.C}, B is ${q.R} × ${q.C}.`;
    board.page(
      make(
        "div",
        { class: "bar" },
        chooser("a", a),
        chooser("b", b),
        make("button", { click: () => change({ a: pinText(b), b: pinText(a) }) }, "swap")
      ),
      make("p", { class: "soft" }, told),
      make("div", { class: "pair" }, ...figures)
    );
  }
});
