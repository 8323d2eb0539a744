// What is shown: one object, written into the address so that a link is a view.

const { max, min, floor, abs, round, ceil } = Math;
const rootElement = document.documentElement;
const listen = (target, events) =>
  Object.entries(events).forEach(one => target.addEventListener(...one));
/** @type {(id: string) => any} the page's own elements: a canvas, a button, a list … */
const $ = id => document.getElementById(id);
const { WHATS, MEASURES, KEYS, LIVE, OPEN } = JSON.parse($("texts").textContent);

function make(tag, attributes = {}, ...inside) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") listen(node, { [name]: value });
    else if (value !== undefined && value !== false)
      node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...inside);
  return node;
}

const option = (value, text, chosen) => make("option", { value, selected: chosen }, text);

const FRESH = {
  run: 0,
  at: 0,
  head: "mean",
  view: "",
  words: 1,
  values: 0,
  row: -1,
  col: -1,
  zoom: 0,
  sort: "layer",
  filter: "",
  on: "",
  pins: "",
  a: "",
  b: "",
  both: 0,
  theme: "",
  table: 0,
  place: "",
  ...OPEN
};
/** @type {Record<string, any>} */
const state = { ...FRESH };
/** @type {SeenFile} */
let file = null;

function readAddress() {
  Object.assign(state, FRESH);
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    if (!(name in FRESH)) continue;
    const number = Number(value);
    state[name] = typeof FRESH[name] === "number" && Number.isFinite(number) ? number : value;
  }
  if (state.head !== "mean") state.head = Number(state.head) || 0;
  const within = (value, count) => min(max(Math.trunc(value) || 0, 0), max(count - 1, 0));
  state.run = within(state.run, file.runs.length);
  state.at = within(state.at, file.runs[state.run].maps.length);
  if (state.head !== "mean") state.head = within(state.head, mapNow().shape[0]);
}

let fragment = "";
function writeAddress() {
  const said = new URLSearchParams();
  for (const [name, value] of Object.entries(state))
    if (String(value) !== String(FRESH[name])) said.set(name, value);
  fragment = said.toString();
  try {
    history.replaceState(null, "", "#" + fragment);
  } catch {
    /* a frame without an address */
  }
}

/** @type {() => Run} */
const runNow = () => file.runs[state.run];
const indexNow = () => runNow().maps[state.at] ?? 0;
/** @type {() => SeenMap} */
const mapNow = () => file.maps[indexNow()];
/** @type {(map: SeenMap, h: number | "mean") => string} */
const headName = (map, h) =>
  h === "mean" ? `mean of ${map.shape[0]} heads` : (map.heads?.[h] ?? `head ${h + 1}`);

/** @param {SeenMap} map */
function mapName(map) {
  const loops = Object.entries(map.scope ?? {})
    .map(([k, v]) => ` · ${k} ${v + 1}`)
    .join("");
  const same = runNow().maps.filter(m => file.maps[m].kind === map.kind).length > 1;
  return `${map.kind || map.name}${same && map.layer ? ` ${map.layer}` : ""}${loops}`;
}

// The labels of a side: its words, or its pieces; `groups` are null where they are the pieces.
const axis = (s, words) => (file.kept[`${s}.${+!!words}`] ??= newAxis(s, words));
function newAxis(s, words) {
  const side = file.sides[s],
    special = new Set(side.special ?? []);
  const joined = words && side.groups?.length;
  const groups = joined ? side.groups : null;
  const labels = joined ? side.texts : side.pieces;
  const dim = labels.map((_, i) =>
    groups ? groups[i].every(p => special.has(p)) : special.has(i)
  );
  const count = labels.join("").match(/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]/g)?.length ?? 0;
  const letters = labels.join("").match(/\p{L}/gu)?.length ?? 0;
  return { side, labels, groups, dim, rtl: count * 2 > letters, kind: side.kind ?? "text" };
}

// The same in the cells of an overview, each named by the first of its places.
function inCells(s, f) {
  const all = axis(s, 0);
  const labels = all.labels.filter((_, i) => i % f === 0).map(l => `${l} …`);
  return {
    ...all,
    labels,
    dim: labels.map(() => false),
    rtl: false,
    side: { ...all.side, sections: [] }
  };
}
const sideOf = (map, rows, words) =>
  map.pool
    ? inCells(rows ? map.rows : map.columns, map.pool[+!rows])
    : axis(rows ? map.rows : map.columns, words);

// Weights with words on both sides: a word gets the sum of what its pieces get, and looks where
// they look on average, so that rows add up to what they did.
function join(weights, R, C, rows, cols) {
  if (!rows.groups && !cols.groups) return { w: weights, R, C };
  const rg = rows.groups ?? [...Array(R).keys()].map(i => [i]);
  const place = new Int32Array(C);
  (cols.groups ?? [...Array(C).keys()].map(i => [i])).forEach((g, j) =>
    g.forEach(c => (place[c] = j))
  );
  const n = cols.labels.length,
    w = new Float32Array(rg.length * n);
  rg.forEach((group, i) => {
    for (const r of group)
      for (let c = 0; c < C; c++) w[i * n + place[c]] += weights[r * C + c] / group.length;
  });
  return { w, R: rg.length, C: n };
}

const picture = (m, h, words = state.words) =>
  file.once(
    `p${m}.${h}.${words}`,
    file.maps[m].pool ? 65536 : file.maps[m].shape[1] * file.maps[m].shape[2],
    () => joined(m, h, words)
  );
async function joined(m, h, words) {
  const map = file.maps[m];
  const rows = sideOf(map, 1, words),
    cols = sideOf(map, 0, words),
    [, R, C] = cellsOf(map);
  const found = join(await file.weights(m, h), R, C, rows, cols);
  let top = 0,
    low = 0;
  for (const value of found.w) {
    if (value > top) top = value;
    if (value < low) low = value;
  }
  return { ...found, rows, cols, map, m, h, most: top, low, top: roundTop(max(top, -low)) };
}

// The end of the colour scale: 1, or less in round steps where all weights are small.
const roundTop = most =>
  most > 1
    ? most
    : ([0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5].find(step => most <= step + 1e-6) ?? 1);
