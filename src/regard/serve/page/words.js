// The words of input and output: point at one, or focus it, and the words that it attends to, or
// that attend to it, light up. And two answers side by side.

const WORDS = 40000; // cells, at most

/** @param {{rows?: string[], columns?: string[], pictures?: {weights: number[][]}[]}} look */
function drawWords({ rows = [], columns = [], pictures = [] }) {
  const w = pictures[0]?.weights ?? [];
  if (!w.length || rows.length !== w.length || rows.length * columns.length > WORDS) return;
  const own = rows.length > 1 && rows.join("\n") === columns.join("\n");
  const mean = columns.map((_, c) => w.reduce((sum, row) => sum + row[c], 0) / w.length);
  const told = make("p", { class: "soft", role: "status" });
  const ground = (nodes, values) => {
    const top = Math.max(...values, 1e-9); // of what is shown: the strongest source is seen at once
    nodes.forEach((node, i) => {
      const part = Math.round((Math.max(values[i], 0) / top) * 100);
      node.style.background = part ? `color-mix(in srgb, var(--bar) ${part}%, transparent)` : "";
    });
  };
  const best = (labels, values) =>
    labels
      .map((label, i) => [label, values[i]])
      .sort((a, b) => b[1] - a[1])
      .slice(0, 3)
      .filter(one => one[1] >= 0.01)
      .map(([label, v]) => `${label} ${percent(v)}`)
      .join(", ");
  const show = (row, col) => {
    const to = row >= 0 ? w[row] : mean,
      from = w.map(one => one[col]);
    ground(inputs, col >= 0 ? to.map(() => 0) : to);
    ground(outputs, col >= 0 ? from : from.map(() => 0));
    [...inputs].forEach((node, c) => node.classList.toggle("mine", own ? c === row : c === col));
    [...outputs].forEach((node, r) => node.classList.toggle("mine", r === row));
    told.textContent =
      row >= 0
        ? `“${rows[row]}” attends to: ${best(columns, to)}`
        : col >= 0
          ? `attention to “${columns[col]}” from: ${best(rows, from)}`
          : rows.length > 1
            ? "Point at a word, or go to one with Tab and the arrow keys."
            : `attends to: ${best(columns, mean)}`;
  };
  const line = (labels, pick) =>
    labels.map((label, i) =>
      make(
        "button",
        {
          type: "button",
          tabindex: i ? -1 : 0,
          dir: "auto",
          mouseenter: () => pick(i),
          focus: () => pick(i),
          mouseleave: () => show(-1, -1),
          blur: () => show(-1, -1),
          keydown: e => {
            const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
            if (!by) return;
            const all = [...e.target.parentNode.children];
            all[(i + by + all.length) % all.length].focus();
            e.preventDefault();
          }
        },
        label
      )
    );
  const inputs = line(columns, i => (own ? show(i, -1) : rows.length > 1 && show(-1, i)));
  const outputs = own || rows.length < 2 ? [] : line(rows, i => show(i, -1));
  const part = (name, nodes) =>
    nodes.length
      ? make("div", { class: "attends", role: "group", "aria-label": name }, nodes)
      : null;
  $("words").replaceChildren(
    ...[
      make("h3", {}, "Attention"),
      part("Words of the output", outputs),
      part("Words of the input", inputs),
      told
    ].filter(Boolean)
  );
  show(-1, -1);
}

// Asked for after the answer is there; a model without attention, or a busy server, shows none.
async function askWords({ model, body, target }) {
  if (body.file) return;
  const stop = (state.wording = new AbortController());
  try {
    const asked = {
      model: model.name,
      input: body.input,
      ...(model.writes ? {} : { show: "matrix" }),
      ...(target ? { target } : {})
    };
    const answer = await fetch("/look", {
      method: "POST",
      body: JSON.stringify(asked),
      cache: "no-store",
      signal: stop.signal,
      headers: {
        "Content-Type": "application/json",
        ...(state.key ? { Authorization: `Bearer ${state.key}` } : {})
      }
    });
    if (!answer.ok) return;
    const { look } = await answer.json();
    if (!stop.signal.aborted) drawWords(look);
  } catch {
    /* aborted, or no attention: the answer stands for itself */
  }
}

const setting = ({ model, decode = {}, prefix, force_words, bad_words }) =>
  [
    model,
    ...Object.entries(decode).map(([key, value]) => (key === "name" ? value : `${key} ${value}`)),
    prefix && `begins with ${prefix}`,
    force_words && `has ${force_words.join("; ")}`,
    bad_words && `without ${bad_words.join("; ")}`
  ]
    .filter(Boolean)
    .join(" · ");

// Which words of two texts are in a longest common subsequence of both.
function common(a, b) {
  const size = a.map(() => new Array(b.length + 1).fill(0));
  size.push(new Array(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      size[i][j] =
        a[i] === b[j] ? size[i + 1][j + 1] + 1 : Math.max(size[i + 1][j], size[i][j + 1]);
  const same = [new Set(), new Set()];
  for (let i = 0, j = 0; i < a.length && j < b.length; )
    if (a[i] === b[j]) {
      same[0].add(i++);
      same[1].add(j++);
    } else if (size[i + 1][j] >= size[i][j + 1]) i++;
    else j++;
  return same;
}

function drawKept(body, found) {
  const { body: own, found: first } = state.kept;
  const texts = [first, found].map(one => (one.refused ?? one.output).split(/\s+/)),
    same = common(texts[0], texts[1]);
  const side = (title, one, words, alike) =>
    make(
      "figure",
      {},
      make("figcaption", { class: "soft" }, title),
      make(
        "p",
        { class: "out", dir: "auto" },
        words.flatMap((word, i) => [i ? " " : "", alike.has(i) ? word : make("mark", {}, word)]),
        Array.isArray(one.tokens) && !one.tokens.length && one.score < 1e-6 && one.score !== null
          ? make("small", { class: "soft" }, " ", percent(chance(one.score)))
          : null
      )
    );
  $("kept").replaceChildren(
    make("h3", {}, "Side by side"),
    make(
      "div",
      { class: "pair" },
      side(setting(own), first, texts[0], same[0]),
      side(setting(body), found, texts[1], same[1])
    ),
    make("button", { type: "button", click: drop }, "Stop comparing")
  );
}

function drop() {
  state.kept = null;
  $("kept").replaceChildren();
}

// The answer on the page stays; each next one, of another model or setting, stands beside it.
function keep() {
  const { body, found } = state.asked;
  state.kept = { body, found };
  $("kept").replaceChildren(
    make(
      "p",
      { class: "soft" },
      `Kept: ${setting(body)}. Choose another model or setting and send.`
    ),
    make("button", { type: "button", click: drop }, "Stop comparing")
  );
}

// What was kept is asked again where the input is another one.
async function beside(body, found, signal) {
  const kept = state.kept;
  if (!kept || body.file) return;
  const taskOf = name => state.models.find(one => one.name === name)?.task;
  if (taskOf(kept.body.model) !== taskOf(body.model)) return drop(); // nothing to compare
  if (kept.body.input !== body.input) {
    const { input, ...rest } = { ...kept.body, input: body.input };
    const answer = await send("/predict", { ...rest, inputs: input }, signal);
    [kept.found] = (await answer.json()).predictions;
    kept.body = { ...kept.body, input };
  }
  drawKept(body, found);
}
