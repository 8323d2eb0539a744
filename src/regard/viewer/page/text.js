// Text shading: select a word and see what it attends to, and what attends to it.

// Numbers of words that no word attends to.
const NO_ATTENTION = ["pooled", "relevance"];

VIEWS.push({
  id: "text",
  name: "Text",
  long: map => map.shape[2] > 60 && map.shape[2] > 12 * map.shape[1],
  fits: map => ["text", "steps", "memory"].includes(file.sides[map.columns].kind ?? "text"),
  async draw() {
    const p = (this.p = await picture(indexNow(), state.head)),
      own = p.map.rows === p.map.columns;
    const looking = state.row >= 0 && state.row < p.R,
      looked = !looking && state.col >= 0 && state.col < p.C;
    const given = new Float32Array(p.C),
      sums = new Float32Array(p.C);
    for (let r = 0; r < p.R; r++) for (let c = 0; c < p.C; c++) sums[c] += p.w[r * p.C + c] / p.R;
    for (let c = 0; c < p.C; c++)
      given[c] = looking ? p.w[state.row * p.C + c] : looked ? NaN : sums[c];
    const takers = new Float32Array(p.R).map((_, r) => (looked ? p.w[r * p.C + state.col] : NaN));
    const block = (title, axis, values, mine, pick) => {
      const top = roundTop(max(...values.filter(v => !Number.isNaN(v)).map(abs), 0) || 1);
      const sections = new Set(axis.side.sections ?? []);
      const words = axis.labels.flatMap((label, i) => {
        const v = values[i],
          place = axis.groups ? axis.groups[i][0] : i;
        const word = make(
          "button",
          {
            class: `word${axis.dim[i] ? " dim" : ""}${i === mine ? " mine" : ""}`,
            "aria-pressed": String(i === mine),
            dir: "auto",
            style: Number.isNaN(v)
              ? undefined
              : `background:${shade(v, top)};color:${inkOn(v, top)}`,
            title: Number.isNaN(v) ? label : `${label}  ${percent(v)}`,
            click: () => pick(i)
          },
          label || "·"
        );
        if (!sections.has(place)) return [word, " "];
        return [...(i ? [make("br")] : []), sentenceBar(axis, values, place), word, " "];
      });
      return make(
        "div",
        { class: "block" },
        make("h2", {}, title),
        make("p", { dir: axis.rtl ? "rtl" : "ltr", class: "words" }, ...words)
      );
    };
    const rowPick = i => choose(state.row === i ? -1 : i, -1),
      colPick = i => choose(-1, state.col === i ? -1 : i);
    const none = new Float32Array(p.R).fill(NaN);
    const label = looking
      ? `“${p.rows.labels[state.row]}” attends to`
      : looked || NO_ATTENTION.includes(p.map.what)
        ? "select a word"
        : "average attention; select a word";
    if (own) {
      const values = looked ? takers : given;
      const title = looked ? `words that attend to “${p.cols.labels[state.col]}”` : label;
      const other = make(
        "label",
        { class: "soft" },
        make("input", {
          type: "checkbox",
          checked: looked,
          change: e =>
            e.target.checked ? choose(-1, max(state.row, 0)) : choose(max(state.col, 0), -1)
        }),
        " which words attend to it, instead of what it attends to"
      );
      board.page(
        other,
        block(title, p.cols, values, looked ? state.col : state.row, i =>
          looked ? colPick(i) : rowPick(i)
        )
      );
      return;
    }
    board.page(
      block(
        looked
          ? `attention to “${p.cols.labels[state.col]}”`
          : p.R > 1
            ? "query: select a word"
            : "query",
        p.rows,
        looked ? takers : none,
        looking ? state.row : -1,
        rowPick
      ),
      block(
        label,
        p.cols,
        looked ? new Float32Array(p.C).fill(NaN) : given,
        looked ? state.col : -1,
        colPick
      )
    );
  }
});

// In a document: how much the sentence that begins here gets in all.
function sentenceBar(axis, values, start) {
  const sections = [...axis.side.sections].sort((a, b) => a - b),
    end = sections.find(s => s > start) ?? axis.side.pieces.length;
  let sum = 0;
  axis.labels.forEach((_, i) => {
    const place = axis.groups ? axis.groups[i][0] : i;
    if (place >= start && place < end && values[i]) sum += values[i];
  });
  return make(
    "span",
    { class: "sentence", title: `this sentence: ${percent(sum)}` },
    make("i", { style: `width:${min(sum, 1) * 60}px;background:${shade(0.75, 1)}` })
  );
}

// Curves: how sure each row is, and how much each column has got.
VIEWS.push({
  id: "curves",
  name: "Curves",
  fits: () => true,
  async draw() {
    const p = (this.p = await picture(indexNow(), state.head)),
      stage = $("stage"),
      colours = ink();
    const entropy = [],
      most = [],
      coverage = new Float32Array(p.C);
    for (let r = 0; r < p.R; r++) {
      let total = 0,
        e = 0,
        m = 0;
      for (let c = 0; c < p.C; c++) total += abs(p.w[r * p.C + c]);
      for (let c = 0; c < p.C; c++) {
        const v = abs(p.w[r * p.C + c]) / (total || 1);
        if (v > 0) e -= v * Math.log2(v);
        m = max(m, p.w[r * p.C + c]);
        coverage[c] += p.w[r * p.C + c];
      }
      entropy.push(e);
      most.push(m);
    }
    const charts = [
      ["entropy of each row, in bits", entropy, p.rows, "line"],
      ["largest weight of each row", most, p.rows, "line"],
      ["coverage: what each column got in all", [...coverage], p.cols, "bar"],
      ...Object.entries(p.map.extra ?? {}).map(([name, values]) => [
        name,
        values,
        axis(p.map.rows, 0),
        "line"
      ])
    ];
    const wide = max(stage.clientWidth - 4, 300),
      high = 168,
      o = board.start(wide, charts.length * high + 10),
      pen = o.pen;
    this.g = { charts: charts.length, high, wide, o, p };
    charts.forEach(([title, values, labels, form], i) => {
      const y0 = i * high + 28 - o.y,
        y1 = y0 + high - 76,
        x0 = 48,
        step = (wide - x0 - 16) / max(values.length, 1);
      const top = max(...values, 1e-6);
      pencil(pen, "left", "bottom", 12, colours.text, true);
      pen.fillText(title, x0, y0 - 4);
      pen.strokeStyle = colours.line;
      pen.lineWidth = 1;
      for (const part of [0, 0.5, 1]) {
        const y = y1 - part * (y1 - y0);
        pen.beginPath();
        pen.moveTo(x0, y);
        pen.lineTo(wide - 16, y);
        pen.stroke();
        pencil(pen, "right", "middle", 10, colours.soft);
        pen.fillText(+(top * part).toPrecision(2), x0 - 6, y);
      }
      pen.strokeStyle = pen.fillStyle = shade(0.7, 1);
      pen.lineWidth = 1.8;
      pen.beginPath();
      values.forEach((v, k) => {
        const x = x0 + (k + 0.5) * step,
          y = y1 - (v / top) * (y1 - y0);
        if (form === "bar") pen.fillRect(x - step * 0.4, y, max(step * 0.8, 0.5), y1 - y);
        else k ? pen.lineTo(x, y) : pen.moveTo(x, y);
      });
      pen.stroke();
      pencil(pen, "right", "middle", 10, colours.text);
      const every = ceil(13 / step);
      labels.labels.forEach((label, k) => {
        if (k % every) return;
        pen.save();
        pen.translate(x0 + (k + 0.5) * step, y1 + 6);
        pen.fillStyle = labels.dim[k] ? colours.soft : colours.text;
        if (UPRIGHT.test(label))
          [...label].slice(0, 4).forEach((one, i) => pen.fillText(one, 5, 5 + i * 11));
        else {
          pen.rotate(-Math.PI / 4);
          pen.fillText(fit(pen, label, 52), 0, 0);
        }
        pen.restore();
      });
    });
  }
});
