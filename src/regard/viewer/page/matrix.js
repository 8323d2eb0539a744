// The alignment matrix: a row looks, a column is looked at. Labels stay where they are on scrolling.

const VIEWS = [];
// Chinese, Japanese and Korean letters stand one below the other; other words are turned.
const UPRIGHT = /^[\p{sc=Han}、-ヿ가-힣！-？]+$/u;

function layout(p, width, height) {
  const probe = $("canvas").getContext("2d");
  const text = cell => max(8, min(14 + max(cell - 40, 0) / 16, cell * 0.72));
  const widest = size => {
    probe.font = font(size);
    return [longest(probe, p.rows.labels), longest(probe, p.cols.labels)];
  };
  let cell = 24,
    left = 0,
    above = 0;
  for (let i = 0; i < 3; i++) {
    const [l, a] = widest(text(cell));
    left = cell < 7 ? 46 : min(l + 14, width * 0.35, 220);
    above = cell < 7 ? 26 : min(a + 14, height * 0.4, 180);
    cell = min((width - left - 16) / p.C, (height - above - 44) / p.R, 120);
  }
  cell = max(cell, min(1, 700 / max(p.C, p.R)));
  if (p.C <= 160 && p.R <= 160) cell = max(cell, 11);
  cell *= 1.25 ** state.zoom;
  const [l, a] = widest(text(cell));
  if (cell >= 7) {
    left = min(l + 14, max(width * 0.35, 60), 220);
    above = min(a + 14, max(height * 0.4, 60), 180);
  }
  return { cell, left, above, size: text(cell), words: cell >= 7 };
}

function drawMatrix(pen, p, g, o) {
  const { cell, left, above } = g,
    colours = ink();
  const column = c => (p.cols.rtl ? p.C - 1 - c : c);
  const seenWide = o.wide - left,
    seenHigh = o.high - above;
  const key = `${p.top} ${themeNow()}`;
  if (p.key !== key) Object.assign(p, { key, pixels: pixels(p.w, p.R, p.C, p.top, p.cols.rtl) });
  pen.save();
  pen.beginPath();
  pen.rect(left, above, seenWide, seenHigh);
  pen.clip();
  pen.imageSmoothingEnabled = cell < 1;
  pen.drawImage(p.pixels, left - o.x, above - o.y, p.C * cell, p.R * cell);
  const firstRow = max(0, floor(o.y / cell)),
    lastRow = min(p.R, ceil((o.y + seenHigh) / cell));
  const firstCol = max(0, floor(o.x / cell)),
    lastCol = min(p.C, ceil((o.x + seenWide) / cell));
  if (cell >= 6) {
    pen.strokeStyle = colours.line;
    pen.lineWidth = 0.5;
    pen.beginPath();
    for (let r = firstRow; r <= lastRow; r++) {
      const y = above + r * cell - o.y;
      pen.moveTo(left - o.x, y);
      pen.lineTo(left - o.x + p.C * cell, y);
    }
    for (let c = firstCol; c <= lastCol; c++) {
      const x = left + c * cell - o.x;
      pen.moveTo(x, above - o.y);
      pen.lineTo(x, above - o.y + p.R * cell);
    }
    pen.stroke();
  }
  if (state.values && cell >= 20) {
    pen.font = font(min(cell * 0.4, 15));
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    for (let r = firstRow; r < lastRow; r++)
      for (let c = firstCol; c < lastCol; c++) {
        const v = p.w[r * p.C + column(c)];
        pen.fillStyle = inkOn(v, p.top);
        pen.fillText(inCell(v), left + (c + 0.5) * cell - o.x, above + (r + 0.5) * cell - o.y);
      }
  }
  pen.lineWidth = 1.5;
  pen.strokeStyle = colours.mark;
  if (state.row >= 0 && state.row < p.R)
    pen.strokeRect(left - o.x, above + state.row * cell - o.y, p.C * cell, max(cell, 2));
  if (state.col >= 0 && state.col < p.C)
    pen.strokeRect(left + column(state.col) * cell - o.x, above - o.y, max(cell, 2), p.R * cell);
  pen.restore();
  if (!p.map.pool) return labels(pen, p, g, o, { firstRow, lastRow, firstCol, lastCol, column });
  const [f, h] = p.map.pool,
    near = cell / f;
  if (LIVE) drawTiles(pen, p, g, o);
  const [, R, C] = p.map.shape,
    q = { ...p, rows: axis(p.map.rows, 0), cols: axis(p.map.columns, 0) };
  labels(
    pen,
    q,
    { ...g, cell: near, words: near >= 7 && LIVE, size: max(8, min(14, near * 0.72)) },
    o,
    {
      firstRow: floor(firstRow * f),
      lastRow: min(lastRow * f, R),
      firstCol: firstCol * h,
      lastCol: min(lastCol * h, C),
      column
    }
  );
}

function labels(pen, p, g, o, { firstRow, lastRow, firstCol, lastCol, column }) {
  const { cell, left, above, size } = g,
    colours = ink();
  pen.save();
  // Where words do not fit, every n-th place has its number.
  const mine = p.map.pool ? -1 : state.row,
    its = p.map.pool ? -1 : state.col;
  const step = g.words
    ? 1
    : ([2, 5, 10, 20, 25, 50, 100, 200, 500, 1000, 5000].find(n => n * cell >= 34) ?? 10000);
  const colour = (chosen, dim) => (chosen ? colours.mark : dim ? colours.soft : colours.text);
  pen.beginPath();
  pen.rect(0, above - 6, left, o.high);
  pen.clip();
  for (let r = firstRow; r < lastRow; r++) {
    if (r % step) continue;
    pencil(pen, "right", "middle", size, colour(r === mine, p.rows.dim[r]));
    pen.fillText(
      g.words ? fit(pen, p.rows.labels[r], left - 12) : r,
      left - 6,
      above + (r + 0.5) * cell - o.y
    );
  }
  pen.restore();
  pen.save();
  pen.beginPath();
  pen.rect(left - 8, 0, o.wide, above);
  pen.clip();
  for (let c = firstCol; c < lastCol; c++) {
    const at = column(c),
      word = p.cols.labels[at],
      turned = g.words && !UPRIGHT.test(word);
    if (at % step) continue;
    pen.save();
    pencil(
      pen,
      turned ? "left" : "center",
      turned ? "middle" : "bottom",
      size,
      colour(at === its, p.cols.dim[at])
    );
    pen.translate(left + (c + 0.5) * cell - o.x, above - 6);
    if (turned) pen.rotate(-Math.PI / 2);
    for (const one of turned
      ? [fit(pen, word, above - 12)]
      : g.words
        ? [...word].reverse()
        : [at]) {
      pen.fillText(one, 0, 0);
      pen.translate(0, -size);
    }
    pen.restore();
  }
  pen.restore();
}

VIEWS.push({
  id: "matrix",
  name: "Matrix",
  fits: () => true,
  async draw() {
    const p = (this.p = await picture(indexNow(), state.head));
    const stage = $("stage"),
      g = (this.g = layout(p, stage.clientWidth - 2, stage.clientHeight - 2));
    const o = (this.o = board.start(g.left + p.C * g.cell + 16, g.above + p.R * g.cell + 40));
    drawMatrix(o.pen, p, g, o);
    const bottom = g.above + p.R * g.cell - o.y + 12;
    if (bottom < o.high - 20)
      scaleBar(o.pen, g.left - o.x, bottom, min(120, max(p.C * g.cell, 60)), p.top, p.low < 0);
  },
  // Which row and column are under a point of the stage.
  at(x, y) {
    if (!this.p) return null;
    const { cell, left, above } = this.g,
      p = this.p;
    const c = floor((x - left + this.o.x) / cell),
      r = floor((y - above + this.o.y) / cell);
    const row = y >= above && r >= 0 && r < p.R ? r : -1;
    let col = x >= left && c >= 0 && c < p.C ? c : -1;
    if (col >= 0 && p.cols.rtl) col = p.C - 1 - col;
    if (p.map.pool && row >= 0 && col >= 0) {
      // which of the places in the cell
      const near = cell / p.map.pool[0];
      return {
        row,
        col,
        r: floor((y - above + this.o.y) / near),
        c: floor((x - left + this.o.x) / near)
      };
    }
    return (row < 0 && col < 0) || (row < 0 && y > above) || (col < 0 && x > left)
      ? null
      : { row, col };
  },
  tip({ row, col, r, c }) {
    const p = this.p;
    if (r !== undefined) return tipOf(p, this.g, row, col, r, c);
    if (row < 0 || col < 0) return (row < 0 ? p.cols.labels[col] : p.rows.labels[row]) ?? "";
    return `${p.rows.labels[row]} → ${p.cols.labels[col]}  ${percent(p.w[row * p.C + col])}`;
  },
  click({ row, col, r, c }) {
    state.place = LIVE && r !== undefined ? `${r}.${c}` : "";
    state.row = state.col = -2;
    choose(row, col);
  },
  reveal() {
    const { cell, left, above } = this.g ?? {},
      stage = $("stage");
    if (!cell) return;
    const shift = (at, from, room) =>
      at < from ? at : at + cell > from + room ? at + cell - room : from;
    if (state.row >= 0)
      stage.scrollTop = shift(state.row * cell, stage.scrollTop, stage.clientHeight - above);
    if (state.col >= 0)
      stage.scrollLeft = shift(
        (this.p.cols.rtl ? this.p.C - 1 - state.col : state.col) * cell,
        stage.scrollLeft,
        stage.clientWidth - left
      );
  }
});
