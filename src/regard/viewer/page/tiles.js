// Texts of thousands of tokens: an overview, and where the page is served, exact tiles over it.

const SIDE = 256,
  COARSEST = 16; // cells of a tile, each way; places of a cell, each way

// Which cells a tile has is told by its first row and column, and how many places a cell stands for.
async function fetchTile(m, head, r, c, h, w, f) {
  const answer = await fetch("tile?" + new URLSearchParams({ m, head, r, c, h, w, f }));
  if (!answer.ok) throw new Error(await answer.text());
  return new Float32Array(await answer.arrayBuffer());
}

// A tile that is there; one that is not is asked for once what is seen has stood still.
let wanted = [],
  waiting = 0;
function tileAt(p, f, r, c) {
  const key = `T${p.m}.${p.h}.${f}.${r}.${c}`,
    known = file.cache.get(key);
  if (known) return known.now;
  wanted.push([key, p, f, r, c]);
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    for (const one of wanted.splice(0)) bring(...one);
  }, 120);
}

function bring(key, p, f, r, c) {
  const [, R, C] = p.map.shape,
    high = min(SIDE, ceil((R - r) / f)),
    wide = min(SIDE, ceil((C - c) / f));
  const coming = file.once(key, high * wide, () => fetchTile(p.m, p.h, r, c, high, wide, f));
  coming
    .then(w => {
      coming.now = { w, high, wide, f };
      if (viewNow().id === "matrix") refresh(true);
    })
    .catch(error => {
      file.cache.delete(key);
      say(`no tile: ${error.message}`);
    });
}

// How many places a cell of a tile stands for where a place is so many pixels wide.
const finest = near => 2 ** max(0, floor(Math.log2(1.5 / near)));

function drawTiles(pen, p, g, o) {
  const near = g.cell / p.map.pool[0],
    f = finest(near),
    step = SIDE * f,
    [, R, C] = p.map.shape;
  wanted = [];
  if (f >= p.map.pool[0] || f > COARSEST) return;
  pen.save();
  pen.beginPath();
  pen.rect(g.left, g.above, o.wide - g.left, o.high - g.above);
  pen.clip();
  pen.imageSmoothingEnabled = near * f < 1;
  const from = v => floor(v / near / step) * step;
  for (let r = from(o.y); r < min(R, (o.y + o.high - g.above) / near); r += step)
    for (let c = from(o.x); c < min(C, (o.x + o.wide - g.left) / near); c += step) {
      const tile = tileAt(p, f, r, c);
      if (!tile) continue;
      const key = `${p.top} ${themeNow()}`;
      if (tile.key !== key)
        Object.assign(tile, { key, pixels: pixels(tile.w, tile.high, tile.wide, p.top) });
      pen.drawImage(
        tile.pixels,
        g.left + c * near - o.x,
        g.above + r * near - o.y,
        tile.wide * f * near,
        tile.high * f * near
      );
    }
  if (state.place) {
    const [r, c] = state.place.split(".").map(Number);
    pen.strokeStyle = ink().mark;
    pen.lineWidth = 1.5;
    pen.strokeRect(g.left + c * near - o.x, g.above + r * near - o.y, max(near, 3), max(near, 3));
  }
  pen.restore();
}

function tipOf(p, g, row, col, r, c) {
  const f = finest(g.cell / p.map.pool[0]),
    step = SIDE * f,
    name = (s, i) => axis(s, 0).labels[i] ?? i;
  const where = `${name(p.map.rows, r)} (${r}) → ${name(p.map.columns, c)} (${c})`;
  const tile = file.cache.get(
    `T${p.m}.${p.h}.${f}.${floor(r / step) * step}.${floor(c / step) * step}`
  )?.now;
  if (!tile) return `${where}  at most ${percent(p.w[row * p.C + col])}`;
  const v = tile.w[floor((r % step) / f) * tile.wide + floor((c % step) / f)];
  return `${where}  ${f > 1 ? "at most " : ""}${percent(v)}`;
}

// What the chosen place's row looks at, of all columns.
async function exactRow(map) {
  if (!LIVE || !map.pool) return [];
  const r = +state.place.split(".")[0],
    m = indexNow(),
    labels = axis(map.columns, 0).labels,
    C = map.shape[2];
  const row = await file.once(`R${m}.${state.head}.${r}`, C, () =>
    fetchTile(m, state.head, r, 0, 1, C, 1)
  );
  return [
    best(
      `“${axis(map.rows, 0).labels[r]}” (${r}), exactly`,
      labels.map((l, i) => `${l} (${i})`),
      row,
      row.reduce((a, b) => max(a, b), 0)
    )
  ];
}

// Larger or smaller, about the middle of what is seen.
async function nearer(by) {
  const stage = $("stage"),
    most = mapNow().pool ? 40 : 16,
    zoom = max(min(state.zoom + by, most), -8),
    s = 1.25 ** (zoom - state.zoom);
  const x = stage.scrollLeft + stage.clientWidth / 2,
    y = stage.scrollTop + stage.clientHeight / 2;
  await change({ zoom });
  stage.scrollTo(x * s - stage.clientWidth / 2, y * s - stage.clientHeight / 2);
}
