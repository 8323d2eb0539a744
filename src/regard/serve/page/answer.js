// Answers: text whose pieces are shaded where the model was unsure, classes as bars, tags on words.

const chance = score =>
  score === null || score === undefined ? null : Math.min(Math.exp(score), 1);
const SHADES = [0.9, 0.7, 0.5, 0.3]; // of a probability: below the first it is shaded, more and more
const shade = p => {
  const n = SHADES.filter(least => p !== null && p < least).length;
  return n ? `u${n}` : "";
};
const END = /^<\/?\w+>$/;

const refine = tokens =>
  tokens.length && END.test(tokens.at(-1).token) ? tokens.slice(0, -1) : tokens;

// The output as pieces that together are its text, or null where they are cut in another way.
function piecesOf(output, tokens) {
  const kept = refine(tokens);
  for (const text of [t => t.replaceAll("▁", " "), (t, i) => (i ? " " + t : t), t => t]) {
    const parts = kept.map((one, i) => text(one.token, i));
    if (parts.length && parts.join("").trim() === output.trim()) {
      parts[0] = parts[0].trimStart();
      return parts.map((part, i) => [part, chance(kept[i].score)]);
    }
  }
  return null;
}

function shaded(output, tokens) {
  const pieces = piecesOf(output, tokens);
  if (!pieces) return [output];
  return pieces.flatMap(([text, p]) => {
    // blanks between words have no shade
    const word = text.trimStart();
    return p === null
      ? [text]
      : [
          text.slice(0, text.length - word.length),
          make("span", { class: shade(p), title: percent(p) }, word)
        ];
  });
}

function tokenTable(tokens, what = "Tokens") {
  if (!tokens.some(one => one.score !== null)) return null;
  const rows = tokens.map(one =>
    make(
      "tr",
      {},
      make("th", { scope: "row", dir: "auto" }, one.token),
      make("td", { class: "number" }, percent(chance(one.score) ?? 0))
    )
  );
  return make(
    "details",
    {},
    make("summary", {}, `${what} and their probabilities`),
    make(
      "table",
      {},
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          make("th", { scope: "col" }, "token"),
          make("th", { scope: "col" }, "probability")
        )
      ),
      make("tbody", {}, rows)
    )
  );
}

const legend = () =>
  make(
    "p",
    { class: "soft scale" },
    "Probability of a piece: ",
    ["90 %", "70 %", "50 %", "30 %"].map((text, i) =>
      make("span", { class: `u${i + 1}` }, `< ${text}`)
    )
  );

function drawText(found) {
  $("output").replaceChildren(
    make("p", { class: "out", dir: "auto" }, shaded(found.output, found.tokens))
  );
  const scores = [
    found.score === null ? "" : `score ${number(found.score)}`,
    found.log_prob === null ? "" : `log-probability ${number(found.log_prob)}`,
    found.truncated ? "cut off: out of time" : ""
  ].filter(Boolean);
  const more = [make("p", { class: "soft" }, scores.join(" · "))];
  if (piecesOf(found.output, found.tokens) && found.tokens.some(t => t.score !== null))
    more.push(legend());
  if (found.alternatives.length) {
    more.push(make("h3", { id: "others" }, "Other hypotheses"));
    more.push(
      make(
        "ol",
        { class: "others", start: 2, "aria-labelledby": "others" },
        found.alternatives.map(one =>
          make(
            "li",
            {},
            make("span", { dir: "auto" }, shaded(one.output, one.tokens)),
            make(
              "span",
              { class: "soft" },
              one.score === null ? "" : `  score ${number(one.score)}`
            )
          )
        )
      )
    );
  }
  more.push(tokenTable(found.tokens));
  $("more").replaceChildren(...more.filter(Boolean));
}

// Runs of words under one tag: [tag, first, behind the last]; tags that begin no run stand alone.
function spansOf(tags) {
  const cut = tags.map(tag => /^([BIESLU])(?:-(.+))?$/.exec(tag));
  if (!tags.every((tag, i) => tag === "O" || cut[i])) return tags.map((tag, i) => [tag, i, i + 1]);
  const found = [];
  tags.forEach((tag, i) => {
    if (tag === "O") {
      found.push(["", i, i + 1]);
      return;
    }
    const [, place, name = "span"] = cut[i],
      last = found.at(-1);
    const goes = "IEL".includes(place) && last?.[0] === name && last[2] === i;
    if (goes) last[2] = i + 1;
    else found.push([name, i, i + 1]);
  });
  return found;
}

const hues = new Map();
const hue = tag => {
  if (!hues.has(tag)) hues.set(tag, hues.size % 8);
  return `t${hues.get(tag)}`;
};

function tagged(words, tokens) {
  const spans = spansOf(tokens.map(one => one.token));
  return make(
    "p",
    { class: "words", dir: "auto" },
    spans.flatMap(([tag, from, to]) => {
      const text = words.slice(from, to).join(" "),
        p = Math.min(...tokens.slice(from, to).map(one => chance(one.score) ?? 1));
      if (!tag) return [make("span", { class: shade(p), title: percent(p) }, text), " "];
      return [
        make(
          "span",
          { class: `span ${hue(tag)}`, title: `${tag}, ${percent(p)}` },
          make("b", {}, tag, make("span", { class: "soft" }, ` ${percent(p)}`)),
          make("span", {}, text)
        ),
        " "
      ];
    })
  );
}

function drawTags(found, input) {
  const several = Array.isArray(found.predicates),
    each = several ? found.alternatives : [found];
  const words = found.words ?? input.split(" ||| ")[0].trim().split(/\s+/);
  const fits = each.length && each.every(one => one.tokens.length === words.length);
  if (!fits) {
    const none = several && !each.length ? "No predicate was found in this text." : found.output;
    $("output").replaceChildren(make("p", { class: "out", dir: "auto" }, none));
    $("more").replaceChildren(...[tokenTable(found.tokens, "Tags")].filter(Boolean));
    return;
  }
  $("output").replaceChildren(
    ...each.flatMap((one, i) =>
      [
        several ? make("h3", {}, `Predicate “${words[found.predicates[i]]}”`) : null,
        tagged(words, one.tokens)
      ].filter(Boolean)
    )
  );
  $("more").replaceChildren(
    legend(),
    ...each
      .map((one, i) =>
        tokenTable(one.tokens, several ? `Tags for “${words[found.predicates[i]]}”` : "Tags")
      )
      .filter(Boolean)
  );
}

function drawClasses(found) {
  const rows = [found, ...found.alternatives].filter(
    one => one.output !== "" && one.score !== null
  );
  const best = rows[0]?.output;
  $("output").replaceChildren(make("p", { class: "out", dir: "auto" }, found.output));
  if (!found.alternatives.length || rows.some(one => one.score > 1e-6)) {
    $("more").replaceChildren(
      ...(found.score === null
        ? []
        : [make("p", { class: "soft" }, `score ${number(found.score)}`)])
    );
    return;
  }
  const shown = rows.slice(0, 12),
    rest = rows.length - shown.length;
  $("more").replaceChildren(
    make(
      "table",
      { class: "bars" },
      make(
        "caption",
        {},
        "Probabilities" + (rest ? ` of the likeliest ${shown.length} of ${rows.length}` : "")
      ),
      make(
        "tbody",
        {},
        shown.map(one => {
          const bar = make("div", { class: "bar" });
          bar.style.width = `${chance(one.score) * 100}%`;
          return make(
            "tr",
            { class: one.output === best ? "best" : "" },
            make("th", { scope: "row", dir: "auto" }, one.output),
            make("td", { class: "wide", "aria-hidden": "true" }, bar),
            make("td", { class: "number" }, percent(chance(one.score)))
          );
        })
      )
    )
  );
}

function draw(model, found, input) {
  hues.clear();
  if (found.refused) {
    $("output").replaceChildren();
    $("more").replaceChildren();
    wrong(`No answer: ${found.refused}`);
  } else if (model.writes) drawText(found);
  else if ((found.tokens.length && !model.reads_files) || Array.isArray(found.predicates))
    drawTags(found, input);
  else if (found.tokens.length) drawText(found);
  else drawClasses(found);
}
