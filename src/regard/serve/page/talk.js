// Requests: with the key, again after a while where the server is busy, and aborted by Escape.

class Wrong extends Error {
  constructor(text, status = 0) {
    super(text);
    this.status = status;
  }
}

const TRIES = 6; // requests of one that is refused as too much

function wrong(text, again = false) {
  $("error").textContent = text;
  $("retry").hidden = !again;
  if (text) near($("error"));
}

function pause(seconds, signal) {
  return new Promise((done, failed) => {
    const stop = () => {
      clearTimeout(timer);
      failed(new DOMException("", "AbortError"));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      done();
    }, seconds * 1000);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

async function sentence(answer) {
  let text = "";
  try {
    text = (await answer.json()).error;
  } catch {
    /* not the server's own */
  }
  text = String(text || `the server said ${answer.status}`);
  return text[0].toUpperCase() + text.slice(1) + (/[.?!]$/.test(text) ? "" : ".");
}

/**
 * An answer that is no refusal; a body of JSON, or of a form where there is a file.
 * @param {string} path
 * @param {Record<string, any>} [body]
 * @param {AbortSignal} [signal]
 */
async function send(path, body, signal) {
  /** @type {Record<string, string>} */
  const headers = state.key ? { Authorization: `Bearer ${state.key}` } : {};
  /** @type {RequestInit & {body?: any}} */
  const options = { headers, signal, cache: "no-store" };
  if (body?.file) {
    options.body = new FormData();
    for (const [key, value] of Object.entries(body))
      for (const one of [value].flat())
        options.body.append(key, key === "decode" ? JSON.stringify(one) : one);
  } else if (body) {
    options.body = JSON.stringify(body);
    headers["Content-Type"] = "application/json";
  }
  if (body) options.method = "POST";
  for (let count = 1; ; count++) {
    let answer;
    try {
      answer = await fetch(path, options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      const offline = navigator.onLine ? "" : " This computer is offline.";
      const large = body?.file ? " It may also have refused the file as too large." : "";
      throw new Wrong(`The server at ${location.host} cannot be reached.${offline}${large}`);
    }
    if (answer.ok) return answer;
    const text = await sentence(answer);
    if ((answer.status === 429 || answer.status === 503) && count < TRIES) {
      const seconds = Math.min(Math.max(Number(answer.headers.get("Retry-After")) || 1, 0.2), 60);
      say(`${text} Asking again in ${seconds} s (Retry-After); Escape cancels.`);
      state.waits = true;
      try {
        await pause(seconds, signal);
      } finally {
        state.waits = false;
      }
      continue;
    }
    throw new Wrong(text, answer.status);
  }
}

// The events of a stream, each as [kind, value].
async function* events(answer) {
  const reader = answer.body.getReader(),
    decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      throw error.name === "AbortError"
        ? error
        : new Wrong("The connection broke; the answer is not whole.");
    }
    if (piece.done) return;
    rest += decoder.decode(piece.value, { stream: true });
    const parts = rest.split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const kind = /^event: (.*)$/m.exec(part)?.[1],
        data = /^data: (.*)$/m.exec(part)?.[1];
      if (kind && data) yield [kind, JSON.parse(data)];
    }
  }
}

// After a while without anything, say so.
function patience(signal) {
  const began = performance.now();
  const timer = setInterval(() => {
    const seconds = Math.round((performance.now() - began) / 1000);
    if (!state.waits)
      say(`No answer for ${seconds} s: the server is busy or the network slow. Escape cancels.`);
  }, 4000);
  const stop = () => clearInterval(timer);
  signal.addEventListener("abort", stop, { once: true });
  return stop;
}
