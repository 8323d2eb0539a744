// A graph: nodes in the colours of their classes, edges as wide as their weights.

// Places of nodes: on a circle, then pulled along the edges and pushed apart; always the same.
function nodePlaces(n, pairs) {
  const x = new Float32Array(n),
    y = new Float32Array(n);
  for (let i = 0; i < n; i++) {
    const a = i * 2.39996,
      r = Math.sqrt((i + 0.5) / n) * 0.5;
    x[i] = r * Math.cos(a);
    y[i] = r * Math.sin(a);
  }
  const k = 0.7 / Math.sqrt(n),
    rounds = n > 300 ? 20 : 90;
  for (let t = 0; t < rounds; t++) {
    const fx = new Float32Array(n),
      fy = new Float32Array(n),
      cool = 0.06 * (1 - t / rounds);
    for (let i = 0; i < n; i++)
      for (let j = 0; j < i; j++) {
        const dx = x[i] - x[j],
          dy = y[i] - y[j],
          d = dx * dx + dy * dy + 1e-5,
          f = (k * k) / d;
        fx[i] += dx * f;
        fy[i] += dy * f;
        fx[j] -= dx * f;
        fy[j] -= dy * f;
      }
    for (const [i, j] of pairs) {
      const dx = x[i] - x[j],
        dy = y[i] - y[j],
        f = Math.hypot(dx, dy) / k;
      fx[i] -= dx * f;
      fy[i] -= dy * f;
      fx[j] += dx * f;
      fy[j] += dy * f;
    }
    for (let i = 0; i < n; i++) {
      const d = Math.hypot(fx[i], fy[i]) || 1,
        s = min(d, cool) / d;
      x[i] += fx[i] * s;
      y[i] += fy[i] * s;
    }
  }
  const span = v => {
    const low = min(...v),
      high = max(...v);
    return v.map(u => (u - low) / (high - low || 1));
  };
  return [span(x), span(y)];
}

VIEWS.push({
  id: "graph",
  name: "Graph",
  own: true,
  fits: map =>
    map.rows === map.columns &&
    (file.sides[map.columns].kind === "nodes" || !!file.sides[map.columns].edges) &&
    map.shape[1] <= 1500,
  async draw() {
    const p = (this.p = await picture(indexNow(), state.head, 0)),
      side = p.cols.side,
      pairs = [];
    for (let r = 0; r < p.R; r++)
      for (let c = 0; c < p.C; c++)
        if (p.w[r * p.C + c] > 0.001) pairs.push([r, c, p.w[r * p.C + c]]);
    const [x, y] = await file.once(`g${p.map.columns}`, 0, () =>
      nodePlaces(p.R, side.edges ?? pairs.filter(([r, c]) => r !== c).slice(0, 6000))
    );
    const stage = $("stage"),
      wide = stage.clientWidth - 4,
      high = stage.clientHeight - 4,
      o = board.start(wide, high),
      c = o.pen,
      colours = ink();
    const at = (this.g = [...x].map((v, i) => [50 + v * (wide - 100), 40 + y[i] * (high - 80)]));
    for (const [r, k, v] of pairs.sort((a, b) => a[2] - b[2])) {
      if (r === k || (state.row >= 0 && r !== state.row)) continue;
      const [x0, y0] = at[r],
        [x1, y1] = at[k],
        bend = 0.12;
      c.strokeStyle = shade(0.25 + 0.75 * (v / p.top), 1);
      c.lineWidth = 0.5 + 5 * (v / p.top);
      c.globalAlpha = 0.8;
      c.beginPath();
      c.moveTo(x0, y0);
      c.quadraticCurveTo(
        (x0 + x1) / 2 + (y1 - y0) * bend,
        (y0 + y1) / 2 - (x1 - x0) * bend,
        x1,
        y1
      );
      c.stroke();
    }
    c.globalAlpha = 1;
    const names = [...new Set(side.classes ?? [])].filter(Boolean).sort(),
      size = p.R > 80 ? 5 : 13,
      centre = max(state.row, 0),
      weight = i => p.w[(state.row >= 0 ? state.row : i) * p.C + i];
    at.forEach(([nx, ny], i) => {
      const group = names.indexOf(side.classes?.[i]);
      c.fillStyle =
        group < 0 ? (names.length ? colours.line : shade(weight(i), p.top)) : headColour(group);
      c.strokeStyle = i === state.row ? colours.mark : colours.soft;
      c.lineWidth = i === state.row ? 2.5 : 1;
      c.beginPath();
      c.arc(nx, ny, size, 0, 7);
      c.fill();
      c.stroke();
    });
    // Labels, the nearest first: one that would lie over another is left out; a pointer shows it.
    const placed = names.map((name, k) => {
      c.fillStyle = headColour(k);
      c.fillRect(10, 10 + k * 18, 11, 11);
      pencil(c, "left", "middle", 12, colours.text);
      c.fillText(name, 27, 16 + k * 18);
      return [0, 7 + k * 18, 32 + c.measureText(name).width, 25 + k * 18];
    });
    pencil(c, "center", "middle", 12, colours.text);
    const order = at.map((_, i) => i),
      near = i => (i === centre ? 2 : p.w[centre * p.C + i]);
    this.labelled = [];
    for (const i of order.sort((a, b) => near(b) - near(a))) {
      const text = fit(c, p.cols.labels[i], 90),
        [nx, ny] = at[i],
        half = c.measureText(text).width / 2,
        inside = half < size - 1,
        y = inside ? ny : ny + size + 9,
        box = [nx - half - 2, y - 8, nx + half + 2, y + 8];
      const over = ([x, y], j) =>
        j !== i && x + size > box[0] && x - size < box[2] && y + size > box[1] && y - size < box[3];
      if (i !== centre && at.some(over)) continue;
      if (placed.some(b => b[0] < box[2] && box[0] < b[2] && b[1] < box[3] && box[1] < b[3]))
        continue;
      placed.push(box);
      this.labelled.push(box);
      const group = names.indexOf(side.classes?.[i]);
      c.fillStyle =
        !inside || (names.length && group < 0)
          ? colours.text
          : group < 0
            ? inkOn(weight(i), p.top)
            : onHead(group);
      c.fillText(text, nx, y);
    }
  },
  at(px, py) {
    const i = (this.g ?? []).findIndex(([x, y]) => Math.hypot(x - px, y - py) < 14);
    return i < 0 ? null : { row: i, col: -1 };
  },
  tip({ row }) {
    const group = this.p.cols.side.classes?.[row];
    return `${this.p.rows.labels[row]}${group ? `, ${group}` : ""}: what it attends to`;
  },
  click({ row }) {
    choose(state.row === row ? -1 : row, -1);
  }
});
