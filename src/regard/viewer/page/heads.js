// Find the head: every head of the run as a small picture, sorted and filtered by what it does.

const measureText = (name, v) =>
  name === "entropy"
    ? `${decimal(v, 1)} bits`
    : name === "distance"
      ? decimal(v, 1)
      : name === "redundancy"
        ? decimal(v)
        : percent(v);

function allHeads() {
  const found = [];
  runNow().maps.forEach((m, at) => {
    const map = file.maps[m];
    for (let h = 0; h < map.shape[0]; h++) found.push({ m, at, h, map });
  });
  return found;
}
const measureOf = ({ map, h }, name) => map.measures?.[name]?.[h];

// "previous>0.5 kind:cross layer:2" keeps the heads for which all of it holds.
function passes(one, filter) {
  return filter
    .split(/\s+/)
    .filter(Boolean)
    .every(part => {
      const sum = part.match(/^(\w+)([<>]=?)([\d.]+)%?$/);
      if (sum) {
        const v = measureOf(one, sum[1]),
          limit = Number(sum[3]) / (part.endsWith("%") ? 100 : 1);
        return v !== undefined && (sum[2][0] === ">" ? v >= limit : v <= limit);
      }
      const [key, value] = part.includes(":") ? part.split(":") : ["name", part];
      if (key === "layer") return String(one.map.layer) === value;
      return `${one.map.kind} ${one.map.name} ${headName(one.map, one.h)}`
        .toLowerCase()
        .includes((value || "").toLowerCase());
    });
}

function sorted(heads) {
  const [name, down] = state.sort.startsWith("-")
    ? [state.sort.slice(1), true]
    : [state.sort, false];
  if (!MEASURES[name]) return heads;
  const value = one => measureOf(one, name);
  return heads
    .filter(one => value(one) !== undefined)
    .sort((a, b) => (down ? value(b) - value(a) : value(a) - value(b)));
}

async function thumbnail(one, size) {
  const { rows, columns, data } = await file.thumb(one.m, one.h);
  const canvas = make("canvas", { width: columns, height: rows, "aria-hidden": "true" });
  const wide = max(columns, rows * 0.4),
    high = max(rows, columns * 0.4),
    fitted = size / max(wide, high);
  canvas.style.width = `${wide * fitted}px`;
  canvas.style.height = `${high * fitted}px`;
  if (!rows || !columns) return canvas;
  const pen = canvas.getContext("2d"),
    image = pen.createImageData(columns, rows),
    t = table(STOPS[themeNow()]);
  const flip = axis(one.map.columns, 0).rtl;
  for (let i = 0; i < rows * columns; i++) {
    const v = data[i] * 3,
      o = (flip ? i - (i % columns) + columns - 1 - (i % columns) : i) * 4;
    image.data[o] = t[v];
    image.data[o + 1] = t[v + 1];
    image.data[o + 2] = t[v + 2];
    image.data[o + 3] = 255;
  }
  pen.putImageData(image, 0, 0);
  return canvas;
}

VIEWS.push({
  id: "heads",
  name: "Heads",
  fits: () => true,
  async draw() {
    const all = allHeads(),
      shown = sorted(all.filter(one => passes(one, state.filter)));
    const there = Object.keys(MEASURES).filter(name =>
      all.some(one => measureOf(one, name) !== undefined)
    );
    const order = (value, text) => option(value, text, state.sort === value);
    const sort = make(
      "select",
      { id: "sort", change: e => change({ sort: e.target.value }) },
      order("layer", "layer and head"),
      ...there.flatMap(name => [
        order("-" + name, `${MEASURES[name][0]}: most first`),
        order(name, `${MEASURES[name][0]}: least first`)
      ])
    );
    const filter = make("input", {
      id: "filter",
      type: "search",
      value: state.filter,
      placeholder: "previous>50%  kind  layer:2",
      "aria-label": "Filter",
      change: e => change({ filter: e.target.value })
    });
    const size = all.length > 60 ? 76 : all.length > 16 ? 104 : 150,
      key = state.sort.replace("-", "");
    const tiles = await Promise.all(
      shown.map(async one => {
        const mine = one.m === indexNow() && one.h === state.head,
          name = `${mapName(one.map)} · ${headName(one.map, one.h)}`;
        const value = MEASURES[key] ? measureOf(one, key) : measureOf(one, "entropy");
        const tile = make(
          "button",
          {
            class: "tile",
            "aria-pressed": String(mine),
            title: `${name}\n${describe(one)}`,
            style: `width:${size + 12}px`,
            click: () => change({ at: one.at, head: one.h, view: "matrix", row: -1, col: -1 })
          },
          await thumbnail(one, size),
          make("span", {}, `${shortName(one)}`),
          make(
            "small",
            {},
            value === undefined ? "" : measureText(MEASURES[key] ? key : "entropy", value)
          )
        );
        tile.head = one;
        return tile;
      })
    );
    board.page(
      make(
        "div",
        { class: "bar" },
        make("label", {}, "Sort by ", sort),
        make("label", {}, "Keep ", filter),
        make(
          "span",
          { class: "soft" },
          `${shown.length} of ${all.length} heads; each is coloured up to its own largest weight`
        )
      ),
      make("div", { class: "tiles", role: "group", "aria-label": "All heads" }, ...tiles)
    );
  }
});

const shortName = ({ map, h }) =>
  `${map.kind || map.name} ${map.layer || ""}·${map.heads?.[h] ?? h + 1}`;
const describe = one =>
  Object.keys(MEASURES)
    .map(name => [name, measureOf(one, name)])
    .filter(([, v]) => v !== undefined)
    .map(([name, v]) => `${MEASURES[name][0]} ${measureText(name, v)}`)
    .join(", ");

// The tray: heads kept to come back to, across layers, runs and hypotheses.
const pinsNow = () =>
  state.pins
    .split(",")
    .filter(Boolean)
    .map(text => text.split("."))
    .map(([run, at, h]) => ({ run: +run, at: +at, h: h === "mean" ? h : +h }))
    .filter(
      ({ run, at, h }) =>
        file.runs[run] &&
        file.maps[file.runs[run].maps[at]] &&
        (h === "mean" || h < file.maps[file.runs[run].maps[at]].shape[0])
    );
const pinText = ({ run, at, h }) => `${run}.${at}.${h}`;

function pin() {
  const here = pinText({ run: state.run, at: state.at, h: state.head }),
    pins = pinsNow().map(pinText);
  change({
    pins: (pins.includes(here) ? pins.filter(p => p !== here) : [...pins, here]).join(",")
  });
  say(pins.includes(here) ? "taken out of the tray" : "kept in the tray");
}

function placeName({ run, at, h }) {
  const map = file.maps[file.runs[run].maps[at]];
  const which = file.runs.length > 1 ? `${runName(file.runs[run])} · ` : "";
  return `${which}${map.kind || map.name} ${map.layer || ""} · ${headName(map, h)}`;
}

async function drawTray() {
  const pins = pinsNow();
  const rows = await Promise.all(
    pins.map(async place => {
      const m = file.runs[place.run].maps[place.at],
        h = place.h === "mean" ? 0 : place.h;
      return make(
        "li",
        {},
        make(
          "button",
          {
            class: "tile",
            title: "Show it",
            click: () => change({ run: place.run, at: place.at, head: place.h })
          },
          await thumbnail({ m, h, map: file.maps[m] }, 40),
          make("span", {}, placeName(place))
        ),
        make(
          "button",
          {
            title: "Compare what is shown with this one",
            click: () =>
              change({
                view: "compare",
                a: pinText({ run: state.run, at: state.at, h: state.head }),
                b: pinText(place)
              })
          },
          "compare"
        ),
        make(
          "button",
          {
            title: "Take it out",
            "aria-label": "Take it out",
            click: () =>
              change({
                pins: pins
                  .filter(p => p !== place)
                  .map(pinText)
                  .join(",")
              })
          },
          "×"
        )
      );
    })
  );
  $("tray").replaceChildren(
    ...(rows.length ? [make("h2", {}, "Tray"), make("ul", {}, ...rows)] : [])
  );
}
