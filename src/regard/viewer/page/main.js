// Putting it together: choosers, keys, what is said about the choice, and the way out.

const runName = run => {
  const several = file.runs.some(other => other.model !== run.model);
  const parts = [
    several && run.model,
    run.label,
    run.number && `${run.number}`,
    run.output || run.input
  ].filter(Boolean);
  const text = parts.join(" · ") || "all";
  return text.length > 70 ? text.slice(0, 69) + "…" : text;
};

function change(more) {
  Object.assign(state, more);
  const maps = runNow().maps;
  state.at = min(state.at, max(maps.length - 1, 0));
  if (state.head !== "mean") state.head = min(state.head, mapNow().shape[0] - 1);
  if ("at" in more || "run" in more) state.on = state.place = "";
  return refresh();
}

function choose(row, col, quietly = false) {
  if (row === state.row && col === state.col) return;
  state.row = row;
  state.col = col;
  return refresh(quietly);
}

const stagePanels = () =>
  [...$("panels").children].filter(one => one.dataset.run == state.run && "stage" in one.dataset);
VIEWS.unshift({
  id: "result",
  name: "Result",
  fits: () => stagePanels().length > 0,
  async draw() {
    board.page(...stagePanels().map(one => Object.assign(one.cloneNode(true), { hidden: false })));
  }
});

const LARGE = ["result", "matrix", "lines", "heads", "curves", "compare"];
const viewsNow = () =>
  VIEWS.filter(view => view.fits(mapNow()) && (!mapNow().pool || LARGE.includes(view.id)));
// What was chosen, else what the run comes with, else what fits its map best.
function viewNow() {
  const all = viewsNow(),
    one = good => all.find(good),
    called = id => one(view => view.id === id);
  return (
    called(state.view) ??
    called("result") ??
    called(runNow().view) ??
    one(view => view.own) ??
    one(view => view.long?.(mapNow())) ??
    all[0]
  );
}

let turn = 0;
async function refresh(quietly = false) {
  const mine = ++turn;
  if (!quietly) {
    writeAddress();
    drawControls();
  }
  try {
    await viewNow().draw();
    if (mine === turn) await drawAside();
  } catch (error) {
    fail(error);
  }
  performance.mark("drawn");
  rootElement.dataset.drawn = String(mine);
}

function drawControls() {
  rootElement.dataset.theme = dark() ? "dark" : "light";
  $("run-label").hidden = file.runs.length < 2;
  $("run").replaceChildren(...file.runs.map((run, i) => option(i, runName(run), i === state.run)));
  $("map").replaceChildren(
    ...runNow().maps.map((m, i) => option(i, mapName(file.maps[m]), i === state.at))
  );
  const map = mapNow(),
    multi = viewNow().multi,
    on = new Set(headsOn());
  const chip = (h, text) =>
    make(
      "button",
      {
        class: "chip",
        style: multi && h !== "mean" ? `--head:${headColour(h)};--on:${onHead(h)}` : undefined,
        title: `${headName(map, h)}${multi ? " (shift: one more)" : ""}`,
        "aria-pressed": String(multi && h !== "mean" ? on.has(h) : state.head === h),
        click: e =>
          multi && e.shiftKey && h !== "mean" ? toggleHead(h) : change({ head: h, on: "" })
      },
      text
    );
  const count = map.shape[0];
  $("heads").replaceChildren(
    ...(count > 1 ? [chip("mean", multi ? "all" : "mean")] : []),
    ...(count > 1 && count <= 32
      ? [...Array(count).keys()].map(h => chip(h, map.heads?.[h] ?? h + 1))
      : []),
    ...(count > 32
      ? [
          make(
            "select",
            {
              "aria-label": "Head",
              change: e => change({ head: e.target.value === "mean" ? "mean" : +e.target.value })
            },
            option("mean", "mean", state.head === "mean"),
            ...[...Array(count).keys()].map(h => option(h, headName(map, h), h === state.head))
          )
        ]
      : [])
  );
  $("views").replaceChildren(
    ...viewsNow().map(view =>
      make(
        "button",
        {
          role: "tab",
          "aria-selected": String(view === viewNow()),
          tabindex: view === viewNow() ? 0 : -1,
          click: () => change({ view: view.id })
        },
        view.name
      )
    )
  );
  const result = viewNow().id === "result";
  for (const one of $("panels").children)
    one.hidden = one.dataset.run != state.run || (result && "stage" in one.dataset);
  for (const one of $("headline").children)
    one.hidden = one.dataset.run != state.run || (result && "spans" in one.dataset);
  for (const name of ["words", "values", "table"])
    $(name).setAttribute("aria-pressed", String(!!state[name]));
  $("words").hidden = ![map.rows, map.columns].some(s => file.sides[s].groups?.length);
}

function toggleHead(h) {
  const on = new Set(headsOn());
  on.has(h) ? on.delete(h) : on.add(h);
  return change({ on: [...on].sort((a, b) => a - b).join(".") || "none" });
}

// The largest few of some weights.
function best(caption, labels, values, top) {
  const few = [...values]
    .map((v, i) => [v, i])
    .sort((a, b) => abs(b[0]) - abs(a[0]))
    .slice(0, 8)
    .filter(([v]) => abs(v) >= 0.0005);
  return make(
    "table",
    {},
    make("caption", {}, caption),
    make(
      "tbody",
      {},
      ...few.map(([v, i]) =>
        make(
          "tr",
          {},
          make("th", { scope: "row", dir: "auto" }, labels[i]),
          make("td", {}, percent(v)),
          make(
            "td",
            { class: "meter" },
            make("i", { style: `width:${min(100, abs(v / (top || 1)) * 100)}%` })
          )
        )
      )
    )
  );
}

async function drawAside() {
  const map = mapNow(),
    code = {
      u8: "to ¼ % of each row's largest",
      i8: "to ½ % of each row's largest",
      few: `in ${map.steps} steps of each row's largest, off by at most ${map.off}`,
      f16: "exact to half precision",
      top: map.k ? `the largest ${map.k} of each row` : "what is not zero"
    }[map.code];
  $("what").textContent =
    `Shown: ${WHATS[map.what]}. Kept: ${map.pool ? `an overview; each cell is the largest weight of ${map.pool.join(" × ")}${LIVE ? ", exact ones come as you zoom in" : ""}` : code}.`;
  drawBeam();
  const p = await picture(indexNow(), state.head);
  const rows = [];
  const list = (caption, labels, values) => best(caption, labels, values, p.top);
  if (state.row >= 0 && state.row < p.R)
    rows.push(
      list(`“${p.rows.labels[state.row]}” attends to`, p.cols.labels, [
        ...p.w.subarray(state.row * p.C, (state.row + 1) * p.C)
      ])
    );
  if (state.col >= 0 && state.col < p.C)
    rows.push(
      list(
        `attention to “${p.cols.labels[state.col]}”`,
        p.rows.labels,
        Array.from({ length: p.R }, (_, r) => p.w[r * p.C + state.col])
      )
    );
  if (map.mass && state.row >= 0 && state.head !== "mean") {
    const side = axis(map.rows, state.words),
      r = side.groups ? side.groups[state.row]?.[0] : state.row;
    rows.push(
      make(
        "p",
        { class: "soft" },
        `kept: ${percent(((await file.mass(indexNow()))[state.head * map.shape[1] + r] ?? 0) / 255)} of this row`
      )
    );
  }
  if (state.place) rows.push(...(await exactRow(map)));
  if (state.table) rows.push(wholeTable(p));
  $("row").replaceChildren(...rows);
  const facts =
    state.head === "mean"
      ? []
      : Object.keys(MEASURES)
          .filter(n => map.measures?.[n])
          .map(n =>
            make(
              "div",
              { title: MEASURES[n][1] },
              make("dt", {}, MEASURES[n][0]),
              make("dd", {}, measureText(n, map.measures[n][state.head]))
            )
          );
  $("numbers").replaceChildren(
    ...(facts.length ? [make("h2", {}, headName(map, state.head)), make("dl", {}, ...facts)] : [])
  );
  const twin = state.head !== "mean" && map.twin?.[state.head],
    at = twin ? runNow().maps.indexOf(twin[0]) : -1;
  if (at >= 0)
    $("numbers").append(
      make(
        "button",
        {
          click: () =>
            change({
              view: "compare",
              a: pinText({ run: state.run, at: state.at, h: state.head }),
              b: pinText({ run: state.run, at, h: twin[1] })
            })
        },
        "compare with the most similar head"
      )
    );
  await drawTray();
}

function wholeTable(p) {
  if (p.R * p.C > 10000)
    return make("p", { class: "soft" }, "Too large for a table: choose a row.");
  return make(
    "div",
    { class: "whole", tabindex: 0 },
    make(
      "table",
      { id: "whole" },
      make("caption", {}, `${mapName(mapNow())}, ${headName(mapNow(), state.head)}, in percent`),
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          make("td"),
          ...p.cols.labels.map(l => make("th", { scope: "col", dir: "auto" }, l))
        )
      ),
      make(
        "tbody",
        {},
        ...p.rows.labels.map((l, r) =>
          make(
            "tr",
            {},
            make("th", { scope: "row", dir: "auto" }, l),
            ...p.cols.labels.map((_, c) => make("td", {}, decimal(p.w[r * p.C + c] * 100, 0)))
          )
        )
      )
    )
  );
}

// The hypotheses of this input as a tree: what several begin with is written once.
function drawBeam() {
  const mine = runNow(),
    beam = file.runs
      .map((run, i) => ({ run, i, words: [] }))
      .filter(({ run }) => run.number && run.input === mine.input && run.model === mine.model);
  if (beam.length < 2) return $("beam").replaceChildren();
  for (const one of beam) {
    const map = file.maps[one.run.maps[0]],
      rows = axis(map.rows, 1).labels;
    one.words = map.kind === "encoder" ? one.run.output.split(" ") : rows;
  }
  const word = (one, k) =>
    make(
      "span",
      {
        class: `step${one.i === state.run && k === state.row && state.words ? " mine" : ""}`,
        dir: "auto",
        click: () => change({ run: one.i, row: k, col: -1, words: 1 })
      },
      one.words[k]
    );
  const span = (one, from, to) =>
    one.words.slice(from, to).flatMap((_, k) => [word(one, from + k), " "]);
  const leaf = (one, from) =>
    make(
      "li",
      { role: "treeitem" },
      make(
        "button",
        {
          "aria-pressed": String(one.i === state.run),
          title: `hypothesis ${one.run.number}, score ${decimal(+one.run.score, 3)}: ${one.run.output}`,
          click: e => e.target.className.startsWith("step") || change({ run: one.i })
        },
        make("b", {}, `${one.run.number} `),
        ...span(one, from),
        make("small", {}, one.run.score == null ? "" : decimal(one.run.score))
      )
    );
  const branch = (group, from) => {
    if (group.length === 1) return [leaf(group[0], from)];
    let to = from;
    while (group.every(({ words }) => to < words.length && words[to] === group[0].words[to])) to++;
    const parts = new Map(),
      mine = group.find(({ i }) => i === state.run) ?? group[0];
    for (const one of group) parts.set(one.words[to], [...(parts.get(one.words[to]) ?? []), one]);
    const inside = [...parts].flatMap(([next, part]) =>
      next === undefined ? part.map(one => leaf(one, to)) : branch(part, to)
    );
    return to > from
      ? [
          make(
            "li",
            { role: "treeitem" },
            ...span(mine, from, to),
            make("ul", { role: "group" }, ...inside)
          )
        ]
      : inside;
  };
  $("beam").replaceChildren(
    make("h2", {}, "Hypotheses"),
    make("ul", { role: "tree" }, ...branch(beam, 0))
  );
}

function tip(event, text) {
  $("tip").hidden = !text;
  if (!text) return;
  $("tip").textContent = text;
  const box = $("tip").getBoundingClientRect();
  $("tip").style.left = `${max(4, min(event.clientX + 14, innerWidth - box.width - 8))}px`;
  $("tip").style.top = `${min(event.clientY + 16, innerHeight - box.height - 8)}px`;
}

let quiet = 0;
function say(text) {
  $("said").textContent = text;
  clearTimeout(quiet);
  quiet = setTimeout(() => ($("said").textContent = ""), 2500);
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say("copied: " + text);
  } catch {
    const box = make("textarea", {}, text);
    document.body.append(box);
    box.select();
    document.execCommand("copy");
    box.remove();
    say(text);
  }
  rootElement.dataset.copied = text;
}

const quote = text =>
  /^[\w.\/@%+=:,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
function command() {
  const run = runNow(),
    map = mapNow();
  if (!run.folder)
    return `python -c "import regard; print(regard.viewer.read('${file.head.source || "attention.seen"}')['${map.name}'])"`;
  const words = ["regard", "look", quote(run.folder), quote(run.input)];
  if (map.kind !== "cross") words.push("--kind", quote(map.kind));
  words.push("--layer", map.layer, "--head", state.head === "mean" ? "mean" : state.head + 1);
  if (run.number > 1) words.push("--hypothesis", run.number);
  if (run.target) words.push("--target", quote(run.target));
  if (!state.words) words.push("--pieces");
  return words.join(" ");
}

function python() {
  const run = runNow(),
    map = mapNow(),
    head = state.head === "mean" ? "" : `, ${state.head + 1}`,
    text = JSON.stringify;
  const weights = `[${text(map.name)}].weights${state.head === "mean" ? ".mean(0)" : `[${state.head}]`}`;
  if (!run.folder)
    return `regard.viewer.read(${text(file.head.source || "attention.seen")})${weights}`;
  const asked = run.target ? `, target=${text(run.target)}` : "";
  const writes =
    (run.number || run.target) &&
    file.sides[map.columns].kind === "text" &&
    ["cross", "encoder", "decoder"].includes(map.kind);
  if (!writes)
    return `regard.tasks.loaded_model.view_of(regard.load(${text(run.folder)}), ${text(run.input)}${asked})${weights}`;
  const more = run.number ? `, hypothesis=${run.number}` : asked;
  return `regard.tasks.generation.look.look(regard.load(${text(run.folder)}), ${text(run.input)}${more}).picture(${map.layer}${head}, kind=${text(map.kind)}${state.words ? "" : ", words=False"})`;
}

async function whole(action, how = "png") {
  saving.now = how;
  try {
    await viewNow().draw();
    await action();
  } finally {
    saving.now = "";
    await refresh(true);
  }
}

// Printed as a drawing, so that lines and words of a PDF stay lines and words.
async function printAll() {
  printing.now = true;
  try {
    await viewNow().draw();
    if ($("leaf").hidden)
      board.page(
        await drawing().then(
          root => (root.setAttribute("style", "max-width:100%;height:auto"), root)
        )
      );
    print();
  } finally {
    printing.now = false;
    refresh(true);
  }
}

function key(event) {
  if (
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    document.querySelector(":modal") ||
    (event.key === "Escape" && $("share").matches(":popover-open")) ||
    /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)
  )
    return;
  const map = mapNow(),
    count = map.shape[0],
    heads = ["mean", ...Array(count).keys()],
    at = heads.indexOf(state.head);
  const turn = (list, i, by) => list[(i + by + list.length) % list.length];
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const acts = {
    "[": () => change({ head: turn(heads, at, -1), on: "" }),
    "]": () => change({ head: turn(heads, at, 1), on: "" }),
    "{": () => change({ at: (state.at - 1 + runNow().maps.length) % runNow().maps.length }),
    "}": () => change({ at: (state.at + 1) % runNow().maps.length }),
    m: () => change({ head: "mean", on: "" }),
    w: () => change({ words: +!state.words, row: -1, col: -1 }),
    v: () => change({ values: +!state.values }),
    p: pin,
    h: () => change({ run: (state.run + 1) % file.runs.length }),
    t: () => change({ table: +!state.table }),
    "+": () => nearer(1),
    "=": () => nearer(1),
    "-": () => nearer(-1),
    0: () => change({ zoom: 0 }),
    d: () => change({ theme: dark() ? "light" : "dark" }),
    "?": () => $("keys").showModal(),
    Escape: () => choose(-1, -1)
  };
  if (moves[event.key]) {
    if (document.activeElement?.closest("#views, .tiles, aside")) return arrows(event);
    const rows = sideOf(map, 1, state.words).labels.length,
      cols = sideOf(map, 0, state.words);
    const [dr, dc] = moves[event.key],
      keep = (v, n) => min(max(v, 0), n - 1);
    const right = cols.rtl && viewNow().id === "matrix" ? -dc : dc;
    choose(
      dr || state.row >= 0 ? keep(state.row + dr, rows) : -1,
      dc || state.col >= 0 ? keep(state.col + right, cols.labels.length) : -1
    );
    viewNow().reveal?.();
  } else if (acts[event.key]) acts[event.key]();
  else if (/^[1-9]$/.test(event.key) && viewsNow()[event.key - 1])
    change({ view: viewsNow()[event.key - 1].id });
  else return;
  event.preventDefault();
}

// Arrow keys go from button to button in the list of views and among the heads.
function arrows(event) {
  const here = document.activeElement;
  const group = [...(here.closest("#views, .tiles")?.querySelectorAll("button") ?? [])];
  const at = group.findIndex(one => one === here),
    by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (at < 0) return;
  event.preventDefault();
  const next = group[(at + by + group.length) % group.length];
  next.focus();
  if (next.role === "tab") {
    const n = group.indexOf(next);
    next.click();
    $("views").children[n]?.focus();
  }
}

function fail(error) {
  rootElement.dataset.failed = String(error?.message ?? error);
  board.page(
    make("p", { class: "failed" }, `This page could not be drawn: ${error?.message ?? error}`)
  );
}

async function openFile(source) {
  file = await SeenFile.open(source);
  if (!file.runs.length || !file.runs.some(run => run.maps.length))
    throw new Error("No attention is in this file.");
  const title = (file.head.title || "attention").replace(/\s*\|{3}\s*/g, " · ");
  $("title").textContent = document.title = title;
  readAddress();
  await refresh();
}

function start() {
  const stage = $("stage"),
    under = e => {
      const box = stage.getBoundingClientRect();
      return viewNow()?.at?.(
        e.clientX - box.left - stage.clientLeft,
        e.clientY - box.top - stage.clientTop
      );
    };
  $("run").onchange = e => change({ run: +e.target.value });
  $("map").onchange = e => change({ at: +e.target.value });
  $("words").onclick = () => change({ words: +!state.words, row: -1, col: -1 });
  $("theme").onclick = () => change({ theme: dark() ? "light" : "dark" });
  listen($("share"), {
    beforetoggle: () => {
      const { right, bottom } = $("tools").getBoundingClientRect();
      $("share").style.cssText = `top:${bottom + 4}px;right:${max(innerWidth - right, 4)}px`;
    },
    click: e => e.target.id && $("share").hidePopover()
  });
  for (const name of ["values", "table"]) $(name).onclick = () => change({ [name]: +!state[name] });
  $("pin").onclick = pin;
  $("copy-command").onclick = () => copy(command());
  $("copy-python").onclick = () => copy(python());
  $("copy-link").onclick = () => copy(location.href.split("#")[0] + "#" + fragment);
  $("print").onclick = printAll;
  $("save-svg").onclick = async () => download(asText(await drawing()), "svg");
  $("save-png").onclick = savePng;
  $("help").onclick = () => $("keys").showModal();
  $("keys").append(
    make("h2", {}, "Keys"),
    make(
      "dl",
      {},
      ...Object.entries(KEYS).map(([k, text]) =>
        make("div", {}, make("dt", {}, k), make("dd", {}, text))
      )
    ),
    make("p", {}, "Drop a .seen file on this page to open it here."),
    make("form", { method: "dialog" }, make("button", {}, "close"))
  );
  listen(stage, {
    mousemove: e => {
      const place = under(e);
      tip(e, place ? viewNow().tip?.(place) : "");
      stage.style.cursor = place ? "pointer" : "";
    },
    mouseleave: () => tip(),
    click: e => {
      if (e.target.closest("#leaf")) return;
      const place = under(e);
      if (place) viewNow().click?.(place);
    },
    scroll: () => requestAnimationFrame(() => !$("canvas").hidden && viewNow().draw())
  });
  listen(matchMedia("(prefers-color-scheme: dark)"), { change: () => refresh() });
  listen(globalThis, {
    keydown: key,
    resize: () => refresh(true),
    hashchange: () => {
      if (location.hash.slice(1) !== fragment) {
        readAddress();
        refresh();
      }
    },
    dragover: e => e.preventDefault(),
    drop: async e => {
      e.preventDefault();
      const bytes = new Uint8Array(await e.dataTransfer.files[0].arrayBuffer());
      openFile({ size: bytes.length, slice: (a, b) => bytes.slice(a, b) }).catch(fail);
    }
  });
  openFile(textSource($("seen").textContent)).catch(fail);
}
// For people at a console, and tests.
Object.assign(globalThis, {
  "state": state,
  "change": change,
  "refresh": refresh,
  "picture": picture,
  "viewNow": viewNow,
  "viewsNow": viewsNow,
  "mapNow": mapNow,
  "headsOn": headsOn
});
Object.defineProperties(globalThis, { file: { get: () => file } });
start();
