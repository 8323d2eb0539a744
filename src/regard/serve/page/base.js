"use strict";
// What all parts use. Text reaches the page as text alone: no markup is ever made of it.

/** @type {(id: string) => any} the page's own elements: a button, a field, a list … */
const $ = id => document.getElementById(id);

/** @returns {any} an element */
function make(tag, attributes = {}, ...inside) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null)
      node.setAttribute(name, value);
  }
  node.append(...inside.flat().filter(one => one !== null && one !== undefined));
  return node;
}

const percent = p =>
  p >= 0.995 && p < 1 ? "> 99 %" : p > 0 && p < 0.005 ? "< 1 %" : `${Math.round(p * 100)} %`;
const near = node => node.scrollIntoView({ block: "nearest" });
const number = v => v.toFixed(2).replace("-", "−");
const say = text => {
  if ($("status").textContent !== text) $("status").textContent = text;
};

/** @type {Record<string, any>} */
const state = {
  models: null, // as /models says
  key: "", // in memory alone
  file: null, // a picture or a sound to ask about
  asking: null, // what can be aborted
  asked: null, // what the answer on the page is of
  looking: null,
  wording: null, // what fetches the weights of words
  kept: null, // an answer to compare the next ones with
  view: "", // the request, and "page" or "svg"
  waits: false // for a busy server
};

const modelNow = () => state.models?.find(m => m.name === $("model").value);

function theme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  $("theme").setAttribute("aria-pressed", String(dark));
}
