// Bipartite lines, heads in colours, as in the Transformer paper's figures; arcs over one text.

function headsOn() {
  const map = mapNow(),
    all = [...Array(map.shape[0]).keys()];
  if (state.on) {
    const on = new Set(state.on.split(".").map(Number));
    return all.filter(h => on.has(h));
  }
  return state.head === "mean" ? all : [state.head];
}

async function pictures(heads) {
  const m = indexNow();
  return Promise.all(heads.map(h => picture(m, h)));
}

VIEWS.push({
  id: "lines",
  name: "Lines",
  fits: () => true,
  multi: true,
  async draw() {
    const heads = headsOn(),
      many = (this.many = await pictures(heads));
    if (!many.length) return board.page(make("p", {}, "No head is chosen: click one above."));
    const p = (this.p = many[0]),
      high = max(17, min(38, ($("stage").clientHeight - 40) / max(p.R, p.C, 1)));
    const probe = $("canvas").getContext("2d"),
      colours = ink();
    probe.font = font(13);
    const left = min(longest(probe, p.rows.labels) + 24, 260),
      right = min(longest(probe, p.cols.labels) + 24, 260);
    const stage = $("stage"),
      wide = min(max(stage.clientWidth - 24, left + right + 140), left + right + 520);
    const o = board.start(wide + 20, max(p.R, p.C) * high + 40),
      pen = o.pen;
    const a = left,
      b = wide - right,
      y = i => 24 + (i + 0.5) * high - o.y;
    this.g = { a, b, high, o };
    const looking = state.row >= 0 ? state.row : -1,
      looked = state.col >= 0 ? state.col : -1;
    pen.lineCap = "round";
    many.forEach((one, k) => {
      const colour = heads.length === 1 ? shade(0.7, 1) : headColour(heads[k]),
        top = one.top || 1;
      for (let r = 0; r < one.R; r++) {
        if (looking >= 0 && r !== looking) continue;
        if (min(y(r), y(0)) > o.high && max(y(r), y(one.C - 1)) > o.high && y(0) > o.high) continue;
        for (let c = 0; c < one.C; c++) {
          if (looked >= 0 && c !== looked) continue;
          const v = abs(one.w[r * one.C + c]) / top;
          if (v < 0.03) continue;
          pen.strokeStyle = colour;
          pen.globalAlpha = min(1, v * (looking >= 0 || looked >= 0 ? 1 : 0.8));
          pen.lineWidth = 0.6 + 3 * v;
          pen.beginPath();
          const shift = (k - (heads.length - 1) / 2) * min(1.2, high / heads.length / 1.5);
          pen.moveTo(a + 2, y(r) + shift);
          pen.lineTo(b - 2, y(c) + shift);
          pen.stroke();
        }
      }
    });
    pen.globalAlpha = 1;
    this.words(pen, p, a, b, y, high, looking, looked, many, heads);
  },
  words(pen, p, a, b, y, high, looking, looked, many, heads) {
    const colours = ink();
    pen.textBaseline = "middle";
    const bars = (x, direction, at, value) =>
      many.forEach((one, k) => {
        const width = 9 / max(1, heads.length / 2),
          v = min(1, value(one) / (one.top || 1));
        pen.fillStyle = heads.length === 1 ? shade(0.7, 1) : headColour(heads[k]);
        pen.globalAlpha = v;
        pen.fillRect(
          x + direction * k * width * 0.5 - (direction < 0 ? width : 0),
          y(at) - high * 0.42,
          width * 0.5,
          high * 0.84
        );
        pen.globalAlpha = 1;
      });
    for (const [labels, dim, x, align, mine] of [
      [p.rows.labels, p.rows.dim, a - 12, "right", looking],
      [p.cols.labels, p.cols.dim, b + 12, "left", looked]
    ]) {
      pen.textAlign = align;
      labels.forEach((label, i) => {
        if (y(i) < -20 || y(i) > this.g.o.high + 20) return;
        pen.font = font(13, i === mine);
        pen.fillStyle = i === mine ? colours.mark : dim[i] ? colours.soft : colours.text;
        pen.fillText(fit(pen, label, 236), x, y(i));
      });
    }
    if (looking >= 0)
      for (let c = 0; c < p.C; c++) bars(b + 1, 1, c, one => one.w[looking * one.C + c]);
    if (looked >= 0)
      for (let r = 0; r < p.R; r++) bars(a - 1, -1, r, one => one.w[r * one.C + looked]);
  },
  at(x, y) {
    if (!this.g) return null;
    const { a, b, high, o } = this.g,
      i = floor((y + o.y - 24) / high);
    if (x < a && i >= 0 && i < this.p.R) return { row: i, col: -1 };
    return x > b && i >= 0 && i < this.p.C ? { row: -1, col: i } : null;
  },
  tip({ row, col }) {
    return row >= 0
      ? `${this.p.rows.labels[row]}: what it attends to`
      : `${this.p.cols.labels[col]}: what attends to it`;
  },
  click({ row, col }) {
    row >= 0 ? choose(state.row === row ? -1 : row, -1) : choose(-1, state.col === col ? -1 : col);
  },
  hover({ row, col }) {
    choose(row, col, true);
  }
});

VIEWS.push({
  id: "arcs",
  name: "Arcs",
  multi: true,
  fits: map => map.rows === map.columns && map.shape[1] <= 400,
  async draw() {
    const heads = headsOn(),
      many = await pictures(heads);
    if (!many.length) return board.page(make("p", {}, "No head is chosen: click one above."));
    const p = (this.p = many[0]),
      probe = $("canvas").getContext("2d"),
      colours = ink();
    probe.font = font(13);
    const at = [];
    let x = 24;
    for (const label of p.cols.labels) {
      const w = min(probe.measureText(label).width, 160);
      at.push(x + w / 2);
      x += w + 14;
    }
    if (p.cols.rtl) at.forEach((v, i) => (at[i] = x - v));
    const high = $("stage").clientHeight - 4,
      base = high * 0.5;
    const o = board.start(x + 20, high),
      pen = o.pen;
    this.g = { at, base, o };
    const edges = new Set((p.rows.side.edges ?? []).map(([i, j]) => `${i}.${j}`));
    many.forEach((one, k) => {
      for (let r = 0; r < one.R; r++)
        for (let c = 0; c < one.C; c++) {
          const v = abs(one.w[r * one.C + c]) / (one.top || 1);
          if (
            v < 0.06 ||
            r === c ||
            (state.row >= 0 && r !== state.row) ||
            (state.col >= 0 && c !== state.col)
          )
            continue;
          const from = at[r] - o.x,
            to = at[c] - o.x,
            up = r < c ? -1 : 1,
            reach = min(abs(to - from) * 0.5, base - 26);
          pen.strokeStyle = edges.has(`${r}.${c}`)
            ? colours.mark
            : heads.length === 1
              ? shade(0.7, 1)
              : headColour(heads[k]);
          pen.globalAlpha = min(1, v * 0.9);
          pen.lineWidth = 0.6 + 3 * v;
          pen.beginPath();
          pen.ellipse(
            (from + to) / 2,
            base + up * 12,
            abs(to - from) / 2,
            reach,
            0,
            up < 0 ? Math.PI : 0,
            up < 0 ? 2 * Math.PI : Math.PI
          );
          pen.stroke();
        }
    });
    pen.globalAlpha = 1;
    pencil(pen, "center", "middle", 13, colours.text);
    p.cols.labels.forEach((label, i) => {
      const mine = i === state.row || i === state.col;
      pen.font = font(13, mine);
      pen.fillStyle = mine ? colours.mark : p.cols.dim[i] ? colours.soft : colours.text;
      pen.fillText(fit(pen, label, 160), at[i] - o.x, base);
    });
    pencil(pen, "left", "middle", 11, colours.soft);
    pen.fillText("above: attends to later words · below: to earlier ones", 12, high - 14);
  },
  at(x, y) {
    if (!this.g || abs(y - this.g.base) > 14) return null;
    const i = this.g.at.findIndex(v => abs(v - this.g.o.x - x) < 22);
    return i < 0 ? null : { row: i, col: -1 };
  },
  tip({ row }) {
    return `${this.p.rows.labels[row]}: what it attends to`;
  },
  click({ row }) {
    choose(state.row === row ? -1 : row, -1);
  }
});
