// The form: what a model's task wants to be given, examples, the decoder, and a link to all of it.

// Inputs of tasks whose example is not one text a column, divided by "|||".
const COLUMNS = {
  memory: { names: ["story", "question"], between: " " },
  reading: { names: ["document", "query", "candidates (optional, divided by |)"] },
  graphs: { names: ["node"] },
  relations: { names: ["document"] }
};
const OPTIONAL = { predicate: "predicate (optional: the number of its word, from 0)" };

// For each kind of search its settings: key, label, attributes of the input.
const SEARCHES = {
  beam: [
    ["beam_size", "Beam size", { min: 1, step: 1 }],
    ["length_penalty", "Length penalty", { min: 0, max: 5, step: 0.1 }]
  ],
  greedy: [],
  sample: [
    ["temperature", "Temperature", { min: 0.05, max: 5, step: 0.05 }],
    ["top_k", "From the k likeliest (0: all)", { min: 0, step: 1 }],
    ["seed", "Seed", { min: 0, step: 1 }]
  ]
};
const WISHES = {
  prefix: ["Must begin with", ""],
  force_words: ["Must have (divided by ;)", ""],
  bad_words: ["Must not have (divided by ;)", ""]
};

const shapeOf = model =>
  COLUMNS[model.task] ?? { names: model.inputs.length ? model.inputs : ["text"] };

function drawForm(values = []) {
  const model = modelNow();
  state.file = null;
  $("inputs").replaceChildren();
  if (!model) return;
  $("about").textContent =
    `${model.task} · ${model.architecture} · ${(model.parameters / 1e6).toFixed(1)} M parameters`;
  if (model.reads_files) $("inputs").append(dropArea(model));
  else {
    const names = shapeOf(model).names;
    names.forEach((name, i) => {
      const rows = i === 0 || (names.length === 2 && !OPTIONAL[name]) ? 3 : 1;
      const box = make("textarea", { id: `input${i}`, rows, dir: "auto", spellcheck: "false" });
      box.value = values[i] ?? "";
      $("inputs").append(
        make(
          "div",
          { class: "field" },
          make("label", { for: box.id }, OPTIONAL[name] ?? model.labels?.[i] ?? name),
          box
        )
      );
    });
  }
  const examples = model.examples ?? [];
  $("examples").replaceChildren(
    ...examples.map(given => {
      const cells = [given].flat();
      return make(
        "button",
        {
          type: "button",
          dir: "auto",
          title: cells.join(" · "),
          click: () => {
            boxes().forEach((box, i) => (box.value = cells[i] ?? ""));
            state.asking?.abort();
            ask();
          }
        },
        cells.join(" · ")
      );
    })
  );
  $("examples").hidden = !examples.length || model.reads_files;
  drawSettings(model);
}

const boxes = () => [...$("inputs").querySelectorAll("textarea")];

function dropArea(model) {
  const sound = model.task.startsWith("speech"),
    what = sound ? "sound" : "picture";
  const shown = make("div"),
    name = make("p", { class: "soft", "aria-live": "polite" });
  const pick = make("input", {
    id: "file",
    type: "file",
    accept: sound ? "audio/*" : "image/*",
    change: () => pick.files[0] && take(pick.files[0])
  });
  const take = file => {
    if (state.file) URL.revokeObjectURL(state.file.url);
    const url = URL.createObjectURL(file);
    state.file = { file, url };
    name.textContent = `${file.name || what}, ${file.size.toLocaleString("en")} bytes`;
    shown.replaceChildren(
      sound
        ? make("audio", { controls: true, src: url, "aria-label": "The sound" })
        : make("img", { src: url, alt: `The picture ${file.name}` })
    );
  };
  const area = make(
    "div",
    { id: "drop" },
    make("label", { for: "file" }, `A ${what}: drop it here, paste it, or choose a file`),
    pick,
    name,
    shown
  );
  for (const kind of ["dragenter", "dragover"])
    area.addEventListener(kind, e => {
      e.preventDefault();
      area.classList.add("over");
    });
  for (const kind of ["dragleave", "drop"])
    area.addEventListener(kind, () => area.classList.remove("over"));
  area.addEventListener("drop", e => {
    e.preventDefault();
    if (e.dataTransfer.files[0]) take(e.dataTransfer.files[0]);
  });
  area.take = take;
  return area;
}

function drawSettings(model) {
  $("options").hidden = !model.writes;
  const place = $("settings"),
    own = model.decode ?? {},
    name = own.name ?? "beam";
  place.replaceChildren();
  if (!model.writes) return;
  const field = (id, label, input, wide) =>
    place.append(
      make(
        "div",
        { class: wide ? "wide" : "", "data-of": input.dataset.of },
        make("label", { for: id }, label),
        input
      )
    );
  const search = make(
    "select",
    { id: "search", change: fit },
    Object.keys(SEARCHES).map(one =>
      make("option", { value: one }, one === name ? `${one} (default)` : one)
    )
  );
  search.value = name;
  field("search", "Search", search);
  for (const [kind, keys] of Object.entries(SEARCHES))
    for (const [key, label, limits] of keys)
      field(
        key,
        label,
        make("input", {
          id: key,
          type: "number",
          "data-of": kind,
          placeholder: kind === name ? own[key] : undefined,
          ...limits
        })
      );
  const most = name === "beam" ? Math.min(3, own.beam_size ?? 3) : 1;
  field(
    "n_best",
    "Hypotheses",
    make("input", {
      id: "n_best",
      type: "number",
      min: 1,
      step: 1,
      value: most,
      "data-of": "beam sample"
    })
  );
  for (const key of Object.keys(WISHES))
    if (model.options.includes(key))
      field(
        key,
        WISHES[key][0],
        make("input", { id: key, dir: "auto", spellcheck: "false" }),
        true
      );
  fit();
}

// Only settings that the chosen search has are there.
function fit() {
  for (const one of $("settings").children)
    if (one.dataset.of) one.hidden = !one.dataset.of.split(" ").includes($("search").value);
}

/**
 * The body of `POST /predict` (docs/howto/serve.md).
 * @typedef {Object} Asked
 * @property {string} model
 * @property {string} [input]
 * @property {string | string[]} [inputs]
 * @property {File} [file]
 * @property {Record<string, any>} [decode]
 * @property {number} [n_best]
 * @property {string} [prefix]
 * @property {string[]} [force_words]
 * @property {string[]} [bad_words]
 * @property {boolean} [stream]
 */

/**
 * The keys of a request for what the form says; null where nothing is given.
 * @returns {Asked | null}
 */
function request() {
  const model = modelNow(),
    /** @type {Asked} */
    made = { model: model.name };
  if (model.writes) {
    const own = model.decode?.name ?? "beam",
      kind = $("search").value,
      decode = {};
    if (kind !== own) decode.name = kind;
    for (const [key] of SEARCHES[kind]) if ($(key).value !== "") decode[key] = $(key).valueAsNumber;
    if (Object.keys(decode).length) made.decode = decode;
    if (kind !== "greedy" && $("n_best").valueAsNumber > 1) made.n_best = $("n_best").valueAsNumber;
    if ($("prefix")?.value) made.prefix = $("prefix").value;
    for (const key of ["force_words", "bad_words"]) {
      const words = ($(key)?.value ?? "")
        .split(";")
        .map(w => w.trim())
        .filter(Boolean);
      if (words.length) made[key] = words;
    }
  }
  if (model.reads_files) return state.file ? { ...made, file: state.file.file } : null;
  const cells = boxes().map(box =>
    boxes().length > 1 ? box.value.replaceAll("\t", " ").trim() : box.value
  );
  while (cells.length > 1 && !cells.at(-1)) cells.pop();
  return cells.some(cell => cell.trim())
    ? { ...made, input: cells.join(shapeOf(model).between ?? " ||| ") }
    : null;
}

// The state as what stands behind the # of an address: browsers keep that to themselves.
function fragment() {
  const kept = new URLSearchParams({ model: $("model").value });
  for (const box of boxes()) kept.append("input", box.value);
  for (const one of $("settings").querySelectorAll("input, select"))
    if (one.value !== "" && !one.closest("[hidden]") && one.value !== one.defaultValue)
      kept.set(one.id, one.value);
  if ($("search") && $("search").value === (modelNow()?.decode?.name ?? "beam"))
    kept.delete("search");
  return kept.toString();
}

function readFragment() {
  if (location.hash.length < 2 || !state.models) return false;
  const kept = new URLSearchParams(location.hash.slice(1)),
    name = kept.get("model");
  if (name !== null) {
    if (!state.models.some(m => m.name === name)) {
      wrong(`The link is for the model “${name}”, which is not served here.`);
      return false;
    }
    $("model").value = name;
  }
  drawForm(kept.getAll("input"));
  for (const [key, value] of kept) {
    const one =
      key === "model" || key === "input"
        ? null
        : $("settings").querySelector(`#${CSS.escape(key)}`);
    if (!one) continue;
    one.value = value;
    $("options").open = true;
  }
  if ($("search")) {
    if (!$("search").value) $("search").value = modelNow().decode?.name ?? "beam";
    fit();
  }
  return true;
}

function unshare() {
  // a link of what the form no longer says
  $("shared").hidden = true;
  $("share-status").textContent = "";
}

async function share() {
  history.replaceState(null, "", "#" + fragment());
  const told = text => {
    $("share-status").textContent = text;
  };
  $("link").value = location.href;
  $("shared").hidden = false;
  const more = [
    state.file ? "A file is not part of it." : "",
    location.href.length > 8000 ? "It is long; some programs cut such links." : ""
  ].filter(Boolean);
  try {
    await navigator.clipboard.writeText(location.href);
    told(["The link is copied.", ...more].join(" "));
  } catch {
    // no clipboard without https or leave
    $("link").focus();
    $("link").select();
    told(["Copy the link from its box.", ...more].join(" "));
  }
}
