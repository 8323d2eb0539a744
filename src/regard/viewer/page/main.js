// Putting it together: choosers, keys, what is said about the choice, and the way out.

const runName = (run) => {
  const several = file.runs.some((other) => other.model !== run.model);
  const parts = [several && run.model, run.label, run.number && `${run.number}`, run.output || run.input].filter(Boolean);
  const text = parts.join(" · ") || "all";
  return text.length > 70 ? text.slice(0, 69) + "…" : text;
};

function change(more) {
  Object.assign(state, more);
  const maps = runNow().maps;
  state.at = Math.min(state.at, Math.max(maps.length - 1, 0));
  if (state.head !== "mean") state.head = Math.min(state.head, mapNow().shape[0] - 1);
  if ("at" in more || "run" in more) state.on = "";
  return refresh();
}

function choose(row, col, quietly = false) {
  if (row === state.row && col === state.col) return;
  state.row = row; state.col = col;
  return refresh(quietly);
}

const viewsNow = () => VIEWS.filter((view) => view.fits(mapNow()));
const viewNow = () => viewsNow().find((view) => view.id === state.view) ?? viewsNow().find((view) => view.own) ?? viewsNow().find((view) => view.long?.(mapNow())) ?? viewsNow()[0];

let turn = 0;
async function refresh(quietly = false) {
  const mine = ++turn;
  if (!quietly) { writeAddress(); drawControls(); }
  try {
    await viewNow().draw();
    if (mine === turn) await drawAside();
  } catch (error) { fail(error); }
  performance.mark("drawn");
  document.documentElement.dataset.drawn = String(mine);
}

function drawControls() {
  document.documentElement.dataset.theme = dark() ? "dark" : "light";
  const option = (value, text, chosen) => make("option", { value, selected: chosen }, text);
  $("run-label").hidden = file.runs.length < 2;
  $("run").replaceChildren(...file.runs.map((run, i) => option(i, runName(run), i === state.run)));
  $("map").replaceChildren(...runNow().maps.map((m, i) => option(i, mapName(file.maps[m]), i === state.at)));
  const map = mapNow(), multi = viewNow().multi, on = new Set(headsOn());
  const chip = (h, text) => make("button", {
    class: "chip", style: multi && h !== "mean" ? `--head:${headColour(h)}` : undefined, title: `${headName(map, h)}${multi ? " (shift: one more)" : ""}`,
    "aria-pressed": String(multi && h !== "mean" ? on.has(h) : state.head === h),
    on: { click: (e) => (multi && e.shiftKey && h !== "mean" ? toggleHead(h) : change({ head: h, on: "" })) },
  }, text);
  const count = map.shape[0];
  $("heads").replaceChildren(...(count > 1 ? [chip("mean", multi ? "all" : "mean")] : []), ...(count > 1 && count <= 32 ? [...Array(count).keys()].map((h) => chip(h, map.heads?.[h] ?? h + 1)) : []),
    ...(count > 32 ? [make("select", { "aria-label": "Head", on: { change: (e) => change({ head: e.target.value === "mean" ? "mean" : +e.target.value }) } },
      option("mean", "mean", state.head === "mean"), ...[...Array(count).keys()].map((h) => option(h, headName(map, h), h === state.head)))] : []));
  $("views").replaceChildren(...viewsNow().map((view) => make("button", {
    role: "tab", "aria-selected": String(view === viewNow()), tabindex: view === viewNow() ? 0 : -1, on: { click: () => change({ view: view.id }) },
  }, view.name)));
  $("words").setAttribute("aria-pressed", String(!!state.words));
  $("words").hidden = ![map.rows, map.columns].some((s) => file.sides[s].groups?.length);
  $("values").setAttribute("aria-pressed", String(!!state.values));
  $("table").setAttribute("aria-pressed", String(!!state.table));
}

function toggleHead(h) {
  const on = new Set(headsOn());
  on.has(h) ? on.delete(h) : on.add(h);
  return change({ on: [...on].sort((a, b) => a - b).join(".") || "none" });
}

async function drawAside() {
  const map = mapNow(), code = { u8: "to ¼ % of each row's largest", i8: "to ½ % of each row's largest", f16: "exact to half precision", top: map.k ? `the largest ${map.k} of each row` : "what is not zero" }[map.code];
  $("what").textContent = `Shown: ${WHATS[map.what]}. Kept: ${code}.`;
  drawBeam();
  const p = await picture(indexNow(), state.head);
  const rows = [];
  const list = (caption, labels, values) => {
    const best = values.map((v, i) => [v, i]).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0])).slice(0, 8).filter(([v]) => Math.abs(v) >= 0.0005);
    return make("table", {}, make("caption", {}, caption), make("tbody", {}, ...best.map(([v, i]) =>
      make("tr", {}, make("th", { scope: "row", dir: "auto" }, labels[i]), make("td", {}, percent(v)), make("td", { class: "meter" }, make("i", { style: `width:${Math.min(100, Math.abs(v / (p.top || 1)) * 100)}%` }))))));
  };
  if (state.row >= 0 && state.row < p.R) rows.push(list(`“${p.rows.labels[state.row]}” looks at`, p.cols.labels, [...p.w.subarray(state.row * p.C, (state.row + 1) * p.C)]));
  if (state.col >= 0 && state.col < p.C) rows.push(list(`“${p.cols.labels[state.col]}” is looked at by`, p.rows.labels, Array.from({ length: p.R }, (_, r) => p.w[r * p.C + state.col])));
  if (map.mass && state.row >= 0 && state.head !== "mean") {
    const side = axis(map.rows, state.words), r = side.groups ? side.groups[state.row]?.[0] : state.row;
    rows.push(make("p", { class: "soft" }, `kept: ${percent(((await file.mass(indexNow()))[state.head * map.shape[1] + r] ?? 0) / 255)} of this row`));
  }
  if (state.table) rows.push(wholeTable(p));
  $("row").replaceChildren(...rows);
  const facts = state.head === "mean" ? [] : Object.keys(MEASURES).filter((n) => map.measures?.[n]).map((n) =>
    make("div", { title: MEASURES[n][1] }, make("dt", {}, MEASURES[n][0]), make("dd", {}, measureText(n, map.measures[n][state.head]))));
  $("numbers").replaceChildren(...(facts.length ? [make("h2", {}, headName(map, state.head)), make("dl", {}, ...facts)] : []));
  const twin = state.head !== "mean" && map.twin?.[state.head], at = twin ? runNow().maps.indexOf(twin[0]) : -1;
  if (at >= 0) $("numbers").append(make("button", { on: { click: () => change({ view: "compare", a: pinText({ run: state.run, at: state.at, h: state.head }), b: pinText({ run: state.run, at, h: twin[1] }) }) } }, "compare with the most similar head"));
  await drawTray();
}

function wholeTable(p) {
  if (p.R * p.C > 10000) return make("p", { class: "soft" }, "Too large for a table: choose a row.");
  return make("div", { class: "whole" }, make("table", { id: "whole" }, make("caption", {}, `${mapName(mapNow())}, ${headName(mapNow(), state.head)}, in percent`),
    make("thead", {}, make("tr", {}, make("td"), ...p.cols.labels.map((l) => make("th", { scope: "col", dir: "auto" }, l)))),
    make("tbody", {}, ...p.rows.labels.map((l, r) => make("tr", {}, make("th", { scope: "row", dir: "auto" }, l), ...p.cols.labels.map((_, c) => make("td", {}, (p.w[r * p.C + c] * 100).toFixed(0))))))));
}

// The hypotheses of this input: what each shares with the ones before it is dimmed.
function drawBeam() {
  const mine = runNow(), beam = file.runs.map((run, i) => [run, i]).filter(([run]) => run.number && run.input === mine.input && run.model === mine.model);
  if (beam.length < 2) return $("beam").replaceChildren();
  const said = [];
  const items = beam.map(([run, i]) => {
    const words = run.output.split(" ");
    const shared = Math.max(0, ...said.map((other) => { let n = 0; while (n < words.length && words[n] === other[n]) n++; return n; }));
    said.push(words);
    return make("button", { "aria-pressed": String(i === state.run), title: `score ${run.score?.toFixed(3)}`, on: { click: () => change({ run: i }) } },
      make("b", {}, `${run.number} `), make("span", { dir: "auto" }, make("span", { class: "soft" }, words.slice(0, shared).join(" ") + " "), words.slice(shared).join(" ")),
      make("small", {}, ` ${run.score?.toFixed(2).replace("-", "−") ?? ""}`));
  });
  $("beam").replaceChildren(make("h2", {}, "Hypotheses"), ...items);
}

function tip(event, text) {
  $("tip").hidden = !text;
  if (!text) return;
  $("tip").textContent = text;
  const box = $("tip").getBoundingClientRect();
  $("tip").style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
  $("tip").style.top = `${Math.min(event.clientY + 16, innerHeight - box.height - 8)}px`;
}

let quiet = 0;
function say(text) {
  $("said").textContent = text;
  clearTimeout(quiet);
  quiet = setTimeout(() => ($("said").textContent = ""), 2500);
}

async function copy(text) {
  try { await navigator.clipboard.writeText(text); say("copied: " + text); }
  catch { const box = make("textarea", {}, text); document.body.append(box); box.select(); document.execCommand("copy"); box.remove(); say(text); }
  document.documentElement.dataset.copied = text;
}

const quote = (text) => (/^[\w.\/@%+=:,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
function command() {
  const run = runNow(), map = mapNow();
  if (!run.folder) return `python -c "import regard; print(regard.viewer.read('${file.head.source || "attention.seen"}')['${map.name}'])"`;
  const words = ["regard", "look", quote(run.folder), quote(run.input)];
  if (map.kind !== "cross") words.push("--kind", map.kind);
  words.push("--layer", map.layer, "--head", state.head === "mean" ? "mean" : state.head + 1);
  if (run.number > 1) words.push("--hypothesis", run.number);
  else if (!run.number && run.output) words.push("--target", quote(run.output));
  if (!state.words) words.push("--pieces");
  return words.join(" ");
}

function python() {
  const run = runNow(), map = mapNow(), head = state.head === "mean" ? "" : `, ${state.head + 1}`, text = JSON.stringify;
  if (!run.folder) return `regard.viewer.read(${text(file.head.source || "attention.seen")})[${text(map.name)}].weights${state.head === "mean" ? ".mean(0)" : `[${state.head}]`}`;
  const more = run.number ? `, hypothesis=${run.number}` : run.output ? `, target=${text(run.output)}` : "";
  return `regard.viewer.looking.look(regard.load(${text(run.folder)}), ${text(run.input)}${more}).picture(${map.layer}${head}, kind=${text(map.kind)}${state.words ? "" : ", words=False"})`;
}

async function whole(action) {
  saving.now = true;
  try { await viewNow().draw(); await action(); } finally { saving.now = false; await refresh(true); }
}

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const map = mapNow(), count = map.shape[0], heads = ["mean", ...Array(count).keys()], at = heads.indexOf(state.head);
  const turn = (list, i, by) => list[(i + by + list.length) % list.length];
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const acts = {
    "[": () => change({ head: turn(heads, at, -1), on: "" }), "]": () => change({ head: turn(heads, at, 1), on: "" }),
    "{": () => change({ at: (state.at - 1 + runNow().maps.length) % runNow().maps.length }), "}": () => change({ at: (state.at + 1) % runNow().maps.length }),
    m: () => change({ head: "mean", on: "" }), w: () => change({ words: +!state.words, row: -1, col: -1 }), v: () => change({ values: +!state.values }),
    p: pin, h: () => change({ run: (state.run + 1) % file.runs.length }), t: () => change({ table: +!state.table }),
    "+": () => change({ zoom: Math.min(state.zoom + 1, 16) }), "=": () => change({ zoom: Math.min(state.zoom + 1, 16) }), "-": () => change({ zoom: Math.max(state.zoom - 1, -8) }), 0: () => change({ zoom: 0 }),
    d: () => change({ theme: dark() ? "light" : "dark" }), "?": () => $("keys").showModal(), Escape: () => choose(-1, -1),
  };
  if (moves[event.key]) {
    if (document.activeElement?.closest("#views, .tiles, aside") ) return arrows(event);
    const rows = axis(map.rows, state.words).labels.length, cols = axis(map.columns, state.words);
    const [dr, dc] = moves[event.key], keep = (v, n) => Math.min(Math.max(v, 0), n - 1);
    const right = cols.rtl && viewNow().id === "matrix" ? -dc : dc;
    choose(dr || state.row >= 0 ? keep(state.row + dr, rows) : -1, dc || state.col >= 0 ? keep(state.col + right, cols.labels.length) : -1);
    viewNow().reveal?.();
  } else if (acts[event.key]) acts[event.key]();
  else if (/^[1-9]$/.test(event.key) && viewsNow()[event.key - 1]) change({ view: viewsNow()[event.key - 1].id });
  else return;
  event.preventDefault();
}

// Arrow keys go from button to button in the list of views and among the heads.
function arrows(event) {
  const group = [...(document.activeElement.closest("#views, .tiles")?.querySelectorAll("button") ?? [])];
  const at = group.indexOf(document.activeElement), by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (at < 0) return;
  event.preventDefault();
  const next = group[(at + by + group.length) % group.length];
  next.focus();
  if (next.role === "tab") { const n = group.indexOf(next); next.click(); $("views").children[n]?.focus(); }
}

function fail(error) {
  document.documentElement.dataset.failed = String(error?.message ?? error);
  board.page(make("p", { class: "failed" }, `This page could not be drawn: ${error?.message ?? error}`));
}

async function openFile(source) {
  file = await File.open(source);
  if (!file.runs.length || !file.runs.some((run) => run.maps.length)) throw new Error("There is no attention in this file.");
  $("title").textContent = document.title = file.head.title || "attention";
  readAddress();
  await refresh();
}

function start() {
  const stage = $("stage"), under = (e) => { const box = stage.getBoundingClientRect(); return viewNow()?.at?.(e.clientX - box.left - stage.clientLeft, e.clientY - box.top - stage.clientTop); };
  $("run").onchange = (e) => change({ run: +e.target.value });
  $("map").onchange = (e) => change({ at: +e.target.value });
  $("words").onclick = () => change({ words: +!state.words, row: -1, col: -1 });
  $("values").onclick = () => change({ values: +!state.values });
  $("theme").onclick = () => change({ theme: dark() ? "light" : "dark" });
  $("table").onclick = () => change({ table: +!state.table });
  $("pin").onclick = pin;
  $("copy-command").onclick = () => copy(command());
  $("copy-python").onclick = () => copy(python());
  $("copy-link").onclick = () => copy(location.href.split("#")[0] + "#" + fragment);
  $("print").onclick = async () => { printing.now = true; await whole(() => print()); printing.now = false; refresh(true); };
  $("save-png").onclick = () => whole(() => make("a", { download: `${file.head.title || "attention"}.png`, href: $("canvas").toDataURL() }).click());
  $("help").onclick = () => $("keys").showModal();
  $("keys").append(make("h2", {}, "Keys"), make("dl", {}, ...Object.entries(KEYS).map(([k, text]) => make("div", {}, make("dt", {}, k), make("dd", {}, text)))),
    make("p", {}, "Drop a .seen file on this page to open it here."), make("form", { method: "dialog" }, make("button", {}, "close")));
  stage.addEventListener("mousemove", (e) => { const place = under(e); tip(e, place ? viewNow().tip?.(place) : ""); stage.style.cursor = place ? "pointer" : ""; });
  stage.addEventListener("mouseleave", () => tip());
  stage.addEventListener("click", (e) => { if (e.target.closest("#leaf")) return; const place = under(e); if (place) viewNow().click?.(place); });
  stage.addEventListener("scroll", () => requestAnimationFrame(() => !$("canvas").hidden && viewNow().draw()));
  addEventListener("keydown", key);
  addEventListener("resize", () => refresh(true));
  addEventListener("hashchange", () => { if (location.hash.slice(1) !== fragment) { readAddress(); refresh(); } });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => refresh());
  addEventListener("dragover", (e) => e.preventDefault());
  addEventListener("drop", async (e) => {
    e.preventDefault();
    const bytes = new Uint8Array(await e.dataTransfer.files[0].arrayBuffer());
    openFile({ size: bytes.length, slice: (a, b) => bytes.slice(a, b) }).catch(fail);
  });
  openFile(textSource($("seen").textContent)).catch(fail);
}
start();
