// What keys and buttons do.

function busy(on) {
  $("send").disabled = on;
  $("cancel").hidden = !on;
  $("output").setAttribute("aria-busy", String(on));
}

async function loadModels() {
  try {
    state.models = (await (await send("/models")).json()).models;
    say("");
  } catch (error) {
    failed(error, loadModels);
    return false;
  }
  drawModels();
  return true;
}

function drawModels() {
  $("model").replaceChildren(...state.models.map(m => make("option", { value: m.name }, m.name)));
  if (!readFragment()) drawForm();
}

// What is asked again by "Try again", or once a key is there.
let again = null;

function failed(error, retry) {
  if (error.name === "AbortError") {
    say("Cancelled.");
    return;
  }
  again = retry;
  if (error.status === 401) {
    const given = Boolean(state.key);
    state.key = "";
    say("");
    wrong(given ? "The server does not know this key." : "");
    $("key-form").hidden = false;
    $("key").focus();
    return;
  }
  say("");
  wrong(
    error instanceof Wrong ? error.message : `The answer cannot be read: ${error.message}`,
    !(error.status >= 400 && error.status < 429)
  );
}

function clear() {
  state.wording?.abort();
  for (const id of ["output", "words", "more"]) $(id).replaceChildren();
  $("keep").hidden = true;
}

async function ask() {
  if (!state.models) {
    await loadModels();
    return;
  }
  const model = modelNow(),
    body = request();
  if (state.asking) return;
  wrong("");
  if (!body) {
    wrong(model.reads_files ? "Choose a file first." : "Write something first.");
    ($("file") ?? boxes()[0]).focus();
    return;
  }
  const stop = (state.asking = new AbortController()),
    began = performance.now();
  busy(true);
  closeLook();
  $("look").hidden = true;
  clear();
  say("Asking …");
  const known = patience(stop.signal);
  let steps = 0,
    found = null;
  try {
    if (model.writes) {
      const line = make("p", { class: "out busy", dir: "auto" });
      for await (const [kind, value] of events(await send("/stream", body, stop.signal))) {
        known();
        if (kind === "error") throw new Wrong(value.error, 500);
        if (kind === "done") found = value.prediction;
        if (kind !== "step") continue;
        if (!steps++) {
          $("output").append(line);
          near(line);
          say("The answer grows; Escape cancels.");
        }
        line.textContent = value.output;
      }
      if (!found && steps) throw new Wrong("The connection broke; the answer is not whole.");
    }
    if (!found) {
      // a stream without a step has not said why
      const { input, ...rest } = body;
      const answer = await send(
        "/predict",
        body.file ? body : { ...rest, inputs: input },
        stop.signal
      );
      [found] = (await answer.json()).predictions;
    }
    draw(model, found, body.input ?? "");
    near($("output"));
    // With wishes the answer is another than the model's own: what is looked at is this one.
    const wishes = ["decode", "prefix", "force_words", "bad_words"].some(key => body[key]);
    state.asked = {
      model,
      body,
      found,
      target: model.writes && wishes && found.output ? found.output : null
    };
    if (!found.refused) {
      say(
        `Done in ${((performance.now() - began) / 1000).toFixed(2)} s${steps ? `, ${steps} steps` : ""}.`
      );
      $("look").hidden = false;
      $("keep").hidden = Boolean(body.file || state.kept);
      askWords(state.asked);
      await beside(body, found, stop.signal);
      if (state.view) look(state.view);
    } else say("");
  } catch (error) {
    failed(error, ask);
  } finally {
    known();
    $("output").querySelector(".busy")?.classList.remove("busy");
    state.asking = null;
    busy(false);
  }
}

function closeLook() {
  state.looking?.abort();
  state.looking = null;
  $("look-place").replaceChildren();
  $("look-status").textContent = "";
  $("look-save").hidden = true;
  if ($("look-save").href) URL.revokeObjectURL($("look-save").href);
  for (const kind of ["page", "svg"])
    $(`look-${kind}`).setAttribute("aria-pressed", String(state.view === kind));
}

// The viewer's page in a frame that may run its script and nothing else, or an SVG as an image.
async function look(kind) {
  state.view = kind;
  closeLook();
  const stop = (state.looking = new AbortController()),
    { model, body, target } = state.asked;
  $("look-status").textContent = "Looking …";
  try {
    const asked = {
      model: model.name,
      ...(body.file ? { file: body.file } : { input: body.input }),
      ...(target ? { target } : {}),
      format: kind === "page" ? "html" : "svg"
    };
    const text = await (await send("/look", asked, stop.signal)).text();
    if (stop.signal.aborted) return;
    const blob = new Blob([text], { type: kind === "page" ? "text/html" : "image/svg+xml" }),
      url = URL.createObjectURL(blob);
    if (kind === "page") {
      const frame = make("iframe", {
        title: "What the model looked at",
        sandbox: "allow-scripts",
        referrerpolicy: "no-referrer"
      });
      frame.addEventListener(
        "load",
        () =>
          frame.contentWindow.postMessage(
            text.replace("</style>", "#copy-link { display: none; }</style>"),
            "*"
          ),
        { once: true }
      );
      frame.src = `/?frame#theme=${document.documentElement.dataset.theme}`;
      $("look-place").replaceChildren(frame);
    } else
      $("look-place").replaceChildren(
        make("img", {
          src: url,
          alt: `Weights of ${model.name} for this input; the interactive view has them as a table`
        })
      );
    Object.assign($("look-save"), {
      href: url,
      download: `look-${model.name}.${kind === "page" ? "html" : "svg"}`,
      hidden: false
    });
    $("look-status").textContent = "";
  } catch (error) {
    if (error.name !== "AbortError") $("look-status").textContent = error.message;
  }
}

for (const kind of ["page", "svg"])
  $(`look-${kind}`).addEventListener("click", () => {
    if (state.view !== kind) {
      look(kind);
      return;
    }
    state.view = "";
    closeLook();
  });

$("ask").addEventListener("submit", event => {
  event.preventDefault();
  ask();
});
$("cancel").addEventListener("click", () => {
  state.asking?.abort();
  $("send").focus();
});
$("keep").addEventListener("click", () => {
  keep();
  $("keep").hidden = true;
});
$("share").addEventListener("click", share);
$("ask").addEventListener("input", unshare);
$("model").addEventListener("change", () => {
  state.asking?.abort();
  wrong("");
  say("");
  closeLook();
  $("look").hidden = true;
  unshare();
  clear();
  drawForm();
});
$("retry").addEventListener("click", () => {
  wrong("");
  again?.();
});
$("key-form").addEventListener("submit", event => {
  event.preventDefault();
  state.key = $("key").value.trim();
  $("key").value = "";
  $("key-form").hidden = true;
  wrong("");
  again?.();
});
$("theme").addEventListener("click", () => {
  theme(document.documentElement.dataset.theme !== "dark");
  if (state.view === "page" && state.asked && $("look-place").firstChild) look("page");
});
addEventListener("keydown", event => {
  if (event.key === "Escape" && state.asking) {
    state.asking.abort();
    event.preventDefault();
  }
  if (
    event.key === "Enter" &&
    (event.ctrlKey || event.metaKey) &&
    !(event.target instanceof Element && event.target.closest("#key-form"))
  ) {
    event.preventDefault();
    ask();
  }
});
addEventListener("paste", event => {
  const file = event.clipboardData?.files[0];
  if (file && $("drop")) $("drop").take(file);
});
addEventListener("hashchange", readFragment);
addEventListener("offline", () =>
  say("This computer is offline; a server on it can still be asked.")
);
addEventListener("online", () => say("The network is back."));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", event =>
  theme(event.matches)
);

theme(matchMedia("(prefers-color-scheme: dark)").matches);
state.models = JSON.parse($("known").textContent);
if (state.models) drawModels();
else loadModels();
document.documentElement.dataset.ready = "";
