// Pictures for other kinds of data: memories, pointers, features, images.

const rowOr0 = p => min(max(state.row, 0), p.R - 1);
function scrubber(p) {
  const now = rowOr0(p);
  return make(
    "label",
    { class: "bar" },
    make("input", {
      class: "scrub",
      type: "range",
      min: 0,
      max: p.R - 1,
      value: now,
      "aria-label": "Row",
      input: e => choose(+e.target.value, -1)
    }),
    make("b", { dir: "auto" }, p.rows.labels[now] ?? ""),
    `${now + 1} of ${p.R}`
  );
}

// A table with a column for each hop, layer or feature, and a row for each thing looked at.
function strip(labels, dim, heads, values, top) {
  const cell = (v, title) =>
    make("td", { style: `background:${shade(v, top)};color:${inkOn(v, top)}`, title }, inCell(v));
  return make(
    "div",
    { class: "strip" },
    make(
      "table",
      {},
      make(
        "thead",
        {},
        make("tr", {}, make("td"), ...heads.map(h => make("th", { scope: "col" }, h)))
      ),
      make(
        "tbody",
        {},
        ...labels.map((label, i) =>
          make(
            "tr",
            { class: dim[i] ? "soft" : "" },
            make("th", { scope: "row", dir: "auto" }, label),
            ...values(i).map((v, k) => cell(v, `${label} · ${heads[k]}  ${percent(v)}`))
          )
        )
      )
    )
  );
}

VIEWS.push({
  id: "hops",
  name: "Hops",
  own: true,
  fits: map =>
    runNow().maps.some(m => file.maps[m].scope?.hop !== undefined) ||
    file.sides[map.columns].kind === "memory",
  async draw() {
    const map = mapNow(),
      maps = runNow().maps.filter(
        m => file.maps[m].columns === map.columns && file.maps[m].rows === map.rows
      );
    const many = await Promise.all(maps.map(m => picture(m, "mean"))),
      p = many[0],
      r = rowOr0(p),
      top = max(...many.map(q => q.top));
    const names = maps.map((m, i) =>
      file.maps[m].scope?.hop !== undefined ? `hop ${file.maps[m].scope.hop + 1}` : `${i + 1}`
    );
    board.page(
      ...(p.R > 1 ? [scrubber(p)] : []),
      strip(p.cols.labels, p.cols.dim, names, c => many.map(q => q.w[r * q.C + c]), top)
    );
  }
});

VIEWS.push({
  id: "features",
  name: "Features",
  own: true,
  fits: map => map.kind === "features",
  async draw() {
    const map = mapNow(),
      m = indexNow(),
      many = await Promise.all([...Array(map.shape[0]).keys()].map(h => picture(m, h)));
    const p = many[0],
      r = rowOr0(p),
      w = new Float32Array(many.length * p.C);
    many.forEach((q, h) => w.set(q.w.subarray(r * q.C, (r + 1) * q.C), h * p.C));
    const canvas = pixels(w, many.length, p.C, max(...many.map(q => q.top)), p.cols.rtl),
      names = make("div", { class: "names" });
    const labels = p.cols.rtl ? [...p.cols.labels].reverse() : p.cols.labels;
    names.append(...labels.map(l => make("span", {}, l)));
    const shown = make("canvas", {
      width: canvas.width,
      height: canvas.height,
      class: "pixels",
      role: "img",
      "aria-label": "features by places"
    });
    shown.getContext("2d").drawImage(canvas, 0, 0);
    shown.style.cssText = `width:${p.C * 52}px;height:${max(many.length * 3, 160)}px`;
    board.page(
      scrubber(p),
      make(
        "p",
        { class: "soft" },
        `${many.length} features from top to bottom, each with its own weights`
      ),
      names,
      shown
    );
  }
});

VIEWS.push({
  id: "pointer",
  name: "Pointer",
  own: true,
  fits: map => map.kind === "pointer" || "generate" in (map.extra ?? {}),
  async draw() {
    const p = await picture(indexNow(), state.head),
      generate = p.map.extra?.generate;
    const bars = p.rows.labels.map((label, r) => {
      const g = generate?.[r],
        best = [...p.w.subarray(r * p.C, (r + 1) * p.C)]
          .map((v, c) => [v, c])
          .sort((a, b) => b[0] - a[0])
          .slice(0, 3);
      return make(
        "tr",
        { class: r === state.row ? "mine" : "", click: () => choose(r, -1) },
        make("th", { scope: "row", dir: "auto" }, label),
        make(
          "td",
          {},
          make(
            "span",
            { class: "gate" },
            ...(g === undefined
              ? []
              : [
                  make(
                    "i",
                    { style: `width:${g * 100}%`, title: `generated: ${percent(g)}` },
                    g > 0.25 ? "generate" : ""
                  )
                ]),
            make(
              "u",
              {
                style: `width:${(1 - (g ?? 0)) * 100}%`,
                title: `copied: ${percent(1 - (g ?? 0))}`
              },
              (g ?? 0) < 0.75 ? "copy" : ""
            )
          )
        ),
        make(
          "td",
          { dir: "auto" },
          best
            .filter(([v]) => v > 0.01)
            .map(([v, c]) => `${p.cols.labels[c]} ${percent(v)}`)
            .join(" · ")
        )
      );
    });
    board.page(
      make(
        "table",
        { class: "pointer" },
        make(
          "thead",
          {},
          make(
            "tr",
            {},
            ...["output", generate ? "made or copied" : "copied", "points at"].map(t =>
              make("th", { scope: "col" }, t)
            )
          )
        ),
        make("tbody", {}, ...bars)
      )
    );
  }
});

const pictureOf = side =>
  side.image &&
  file.once(`i${side.image[0]}`, 0, () => createImageBitmap(new Blob([file.bytes(side.image)])));

VIEWS.push({
  id: "image",
  name: "Image",
  own: true,
  fits: map => !!file.sides[map.columns].grid,
  async draw() {
    const p = await picture(indexNow(), state.head, 0),
      side = p.cols.side,
      [high, wide] = side.grid,
      r = rowOr0(p);
    const photo = await pictureOf(side),
      colours = ink();
    const ratio = photo ? photo.width / photo.height : wide / high,
      room = min(640, ($("stage").clientWidth || 664) - 24),
      height = min(520, room / ratio),
      width = height * ratio;
    const heat = new OffscreenCanvas(wide, high),
      hc = heat.getContext("2d"),
      data = hc.createImageData(wide, high),
      row = p.w.subarray(r * p.C, (r + 1) * p.C);
    const most = max(...row, 1e-9);
    for (let i = 0; i < row.length; i++) {
      // light where it looks, veiled where it does not
      const v = row[i] / most,
        t = table(STOPS.dark),
        l = level(row[i], most) * 3;
      data.data.set(photo ? [96, 96, 96, 180 * (1 - v)] : [t[l], t[l + 1], t[l + 2], 255], i * 4);
    }
    hc.putImageData(data, 0, 0);
    const canvas = make("canvas", {
      width: width * 2,
      height: height * 2,
      role: "img",
      "aria-label": `what ${p.rows.labels[r]} attends to`
    });
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const c = canvas.getContext("2d");
    c.scale(2, 2);
    const fine = (c.imageSmoothingEnabled = !(photo?.width <= wide)); // else pixel by pixel
    if (photo) c.drawImage(photo, 0, 0, width, height);
    c.imageSmoothingEnabled = fine && !state.values;
    c.drawImage(heat, 0, 0, width, height);
    const { x, y } = p.map.extra ?? {};
    if (x && y) {
      // a glimpse's trail: places from 0 to 1
      c.strokeStyle = colours.mark;
      for (let i = 0; i <= r; i++) c.lineTo(x[i] * width, y[i] * height);
      c.stroke();
      pencil(c, "center", "middle", 12);
      const hidden = (i, a, b) =>
        x.some((u, j) => j > i && j <= r && Math.hypot(a - u * width, b - y[j] * height) < 15); // below a later one
      for (let i = 0; i <= r; i++) {
        const a = x[i] * width,
          b = y[i] * height;
        c.fillStyle = colours.mark;
        c.beginPath();
        c.arc(a, b, 9, 0, 7);
        c.fill();
        if (hidden(i, a, b)) continue;
        c.fillStyle = "#fff";
        c.fillText(i + 1, a, b);
      }
    }
    const words = p.rows.labels.map((l, i) =>
      make(
        "button",
        { class: "word", "aria-pressed": String(i === r), dir: "auto", click: () => choose(i, -1) },
        l
      )
    );
    board.page(scrubber(p), canvas, make("p", { class: "words" }, ...words.flatMap(w => [w, " "])));
  }
});
