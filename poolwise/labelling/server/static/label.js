// The labelling page. Answers are kept in this browser until the server says that they are on its disk.
"use strict";

const main = document.getElementById("main");
const begin = JSON.parse(main.dataset.begin);
const by = (id) => document.getElementById(id);

const COMMANDS = { u: undo, s: () => say("skip"), d: () => say("unsure"), x: () => say("unlabelable"), z: zoom };
const LETTERS = "abcefghijklmnopqrtvwy"; // those that are no command
const AHEAD = 16; // items to have in advance
const LOW = 10; // fewer than this, and more are fetched
const MANY = 12; // classes, above which they can be searched
const SHORT = 90; // characters of a text that is shown in the middle, as it takes a line or two

const items = []; // what was shown and what comes next
let at = -1; // the one that is shown
const answered = []; // what was answered, in order, and what the answer was before: for undo
let classes = begin.status.classes;
let keys = [];
let ready = false; // whether the server has chosen a first batch
let exhausted = false; // whether the server had nothing more to give
let held = false; // whether others have what is left
const images = new Map(); // decoded in advance

// ---- Answers that the server has not confirmed yet -------------------------------------------------------------

// Each has a key of its own, so that two tabs cannot overwrite each other's.
const prefix = `poolwise:${begin.project}:answer:`;
let counter = Date.now();

const pending = {
  memory: new Map(), // where the browser keeps nothing
  add(answer) {
    counter = Math.max(counter + 1, Date.now());
    const entry = { ...answer, person: begin.person, order: counter };
    this.memory.set(answer.request, entry);
    try {
      localStorage.setItem(prefix + answer.request, JSON.stringify(entry));
    } catch {
      // it stays in memory, and is sent as long as the page is open
    }
  },
  remove(request) {
    this.memory.delete(request);
    try {
      localStorage.removeItem(prefix + request);
    } catch {
      // it was only in memory
    }
  },
  all() {
    return [...this.memory.values()].sort((a, b) => a.order - b.order);
  },
  restore() {
    const own = (entry) => main.dataset.links === "no" || entry.person === begin.person;
    try {
      for (let n = 0; n < localStorage.length; n += 1) {
        const key = localStorage.key(n);
        if (!key.startsWith(prefix)) continue;
        const entry = JSON.parse(localStorage.getItem(key));
        if (own(entry)) this.memory.set(entry.request, entry);
      }
    } catch {
      // nothing can be restored
    }
  },
};

let sending = false;
let failures = 0;
let retry = null;

async function send() {
  if (sending) return;
  clearTimeout(retry);
  const waiting = pending.all().slice(0, 100);
  if (!waiting.length) return showSaved("saved");
  sending = true;
  showSaved("saving");
  try {
    const answers = waiting.map(({ request, item, kind, label }) => ({ request, item, kind, label }));
    const result = await call("/api/answers", { answers });
    result.stored.forEach((request) => pending.remove(request));
    for (const [request, reason] of Object.entries(result.refused)) {
      pending.remove(request);
      tell(`Not saved: ${reason}.`);
    }
    failures = 0;
    showStatus(result.status);
    showModelSays(result.model);
  } catch (error) {
    failures += 1;
    showSaved(error instanceof Refused ? "refused" : "offline", error.message);
    retry = setTimeout(send, Math.min(10000, 500 * 2 ** failures));
    return;
  } finally {
    sending = false;
  }
  send();
}

function showSaved(state, reason = "") {
  const count = pending.all().length;
  const few = `${count} answer${count === 1 ? "" : "s"}`;
  const words = {
    saved: "Saved",
    saving: "Saving …",
    offline: `Offline, retrying · ${few} kept here`,
    refused: count ? `Not saved yet, retrying · ${few} kept here` : "Refused, retrying",
  };
  if (state !== "saving") by("alarm").hidden = state !== "refused"; // it stays while an answer is sent again
  if (state === "refused" && by("alarm").textContent !== reason) by("alarm").textContent = reason;
  const box = by("saved");
  if (box.dataset.state !== state || count) {
    box.dataset.state = state;
    box.textContent = words[state];
  }
}

// ---- Items -----------------------------------------------------------------------------------------------------

const isOpen = (item) => !item.answer;
let fetching = false;
let fetchFailures = 0;
let fetchTimer = null;

async function fetchMore(force = false) {
  clearTimeout(fetchTimer);
  const open = items.filter(isOpen).length;
  if (fetching || (!force && open >= LOW)) return;
  fetching = true;
  let pause = 0;
  try {
    const unsent = new Set(pending.all().map((answer) => answer.item));
    const result = await call("/api/work", { want: Math.min(50, AHEAD + unsent.size) });
    fetchFailures = 0;
    ready = result.ready;
    let fresh = 0;
    for (const item of result.items) {
      if (unsent.has(item.id)) continue;
      const known = items.findIndex((other) => other.id === item.id);
      if (known >= 0) {
        const before = items[known];
        const again = before.answer && before.answer.kind === "skip" && known !== at;
        if (!again) continue;
        items.splice(known, 1);
        if (known < at) at -= 1;
      }
      items.push({ ...item, answer: null });
      fresh += 1;
      prefetch(item);
    }
    exhausted = ready && !items.some(isOpen);
    held = result.held;
    showStatus(result.status);
    if (items.filter(isOpen).length < LOW) pause = fresh ? 1500 : ready ? 4000 : 700;
  } catch (error) {
    fetchFailures += 1;
    pause = Math.min(10000, 500 * 2 ** fetchFailures);
    if (error instanceof Refused && (error.status === 401 || error.status === 403)) showSaved("refused", error.message);
  } finally {
    fetching = false;
  }
  forget();
  if (at < 0 || waitingForMore) showNext();
  if (pause) fetchTimer = setTimeout(fetchMore, pause);
}

// What was answered before the page was loaded, to go back to.
async function remember() {
  const unsent = new Set(pending.all().map((answer) => answer.item));
  const earlier = await call("/api/recent").catch(() => ({ items: [] }));
  const fresh = earlier.items.filter((item) => !unsent.has(item.id) && !items.some((other) => other.id === item.id));
  items.unshift(...fresh);
  answered.unshift(...fresh.map((item) => ({ id: item.id, before: null })));
  if (at >= 0) at += fresh.length;
  by("back").disabled = at < 0 ? items.length === 0 : at <= 0;
}

function prefetch(item) {
  if (!item.image || images.has(item.id)) return;
  const picture = new Image();
  picture.alt = `Image ${item.id}`;
  picture.draggable = false;
  picture.src = item.image;
  if (picture.decode) picture.decode().catch(() => {});
  images.set(item.id, picture);
}

// Keep the last answers only: a day of labelling would fill the memory.
function forget() {
  const most = 300;
  while (items.length > most && at > 100 && items[0].answer) {
    images.delete(items[0].id);
    items.shift();
    at -= 1;
  }
}

let waitingForMore = false;

// Show the next item without an answer: after this one, or else any.
function showNext() {
  let next = items.findIndex((item, n) => n > at && isOpen(item));
  if (next < 0) next = items.findIndex(isOpen);
  waitingForMore = next < 0;
  if (next >= 0) {
    at = next;
    show();
  } else {
    at = items.length;
    showWaiting();
  }
}

function moveOn() {
  showNext();
  fetchMore();
}

function step(by) {
  const next = at + by;
  if (next < 0) return;
  if (next >= items.length) return moveOn();
  at = next;
  waitingForMore = false;
  show();
  fetchMore();
}

function say(kind, label = null) {
  const item = items[at];
  if (!item) return;
  const before = item.answer;
  if (before && before.kind === kind && before.label === label) return moveOn();
  item.answer = { kind, label };
  answered.push({ id: item.id, before });
  lastSaid = { id: item.id, kind, label };
  pending.add({ request: requestName(), item: item.id, kind, label });
  flash(label);
  showLast();
  moveOn();
  send();
}

function undo() {
  const { id, before } = answered.pop() || {};
  const place = items.findIndex((item) => item.id === id);
  if (place < 0) return tell("There is nothing to undo.");
  items[place].answer = before;
  const { kind, label } = before || { kind: "clear", label: null }; // an earlier answer comes back
  pending.add({ request: requestName(), item: id, kind, label });
  at = place;
  waitingForMore = false;
  show();
  lastSaid = null;
  by("last").textContent = "Undone.";
  announce("Undone.");
  send();
}

// ---- What is shown ---------------------------------------------------------------------------------------------

const WORDS = { skip: "skipped", unsure: "don’t know", unlabelable: "cannot be labelled" };
let lastSaid = null;

function show() {
  const item = items[at];
  const stage = by("stage");
  stage.replaceChildren();
  stage.scrollTop = 0;
  by("why-text").textContent = item.why || "–";
  if (item.image) {
    prefetch(item);
    const picture = images.get(item.id);
    const fit = () => picture.classList.toggle("tiny", picture.naturalWidth > 0 && picture.naturalWidth <= 512);
    if (picture.complete) fit();
    else picture.onload = fit;
    picture.onerror = () => {
      if (items[at] === item) stage.replaceChildren(make("p", { class: "quiet", text: "This image cannot be shown. Press x." }));
    };
    stage.append(picture);
    picture.onclick = zoom;
  }
  if (item.text !== undefined) {
    const short = item.text.length <= SHORT && !item.text.includes("\n");
    const text = make("div", { class: short ? "text short" : "text", dir: "auto", text: item.text });
    stage.append(text);
    if (item.more) stage.append(moreButton(item, text));
  }
  if (item.image && item.text === undefined) stage.append(make("p", { class: "id", text: item.id }));
  showAnswer(item);
  by("back").disabled = at <= 0;
  const seen = item.text === undefined ? item.id : item.text.slice(0, 300);
  announce(`${lastWords()} Next: ${seen}`);
  document.title = document.title.replace(/^.*? · /, "Label · ");
}

function moreButton(item, text) {
  const button = make("button", { type: "button", text: `Show ${item.more.toLocaleString("en")} more characters` });
  button.onclick = async () => {
    const all = await call(`/api/text/${item.place}`).catch(() => null);
    if (all === null) return tell("The rest of the text could not be loaded.");
    item.text = all.text;
    item.more = 0;
    text.textContent = all.text;
    button.remove();
  };
  return button;
}

function showWaiting() {
  const stage = by("stage");
  const none = classes.length ? "" : " Add the classes meanwhile.";
  let words = ["Choosing the first items …", `The data is being read. This takes a moment the first time.${none}`];
  if (ready) words = ["One moment …", "The next items are being fetched."];
  if (exhausted) words = ["Everything is labelled.", "There is nothing left to ask for."];
  if (exhausted && held) words = ["Others have the last items.", "You get them if they are not answered within five minutes. This page checks by itself."];
  const box = make("div", { class: "empty" }, make("p", { class: "big", text: words[0] }), make("p", { class: "quiet", text: words[1] }));
  const places = [["/progress", "Progress"], ["/review", "Review"], ["/labels.csv", "Download the labels"]];
  const links = places.map(([href, text]) => make("a", { class: "button", href, text }));
  if (exhausted && !held) box.append(make("p", { class: "row" }, ...links));
  stage.replaceChildren(box);
  by("why-text").textContent = "–";
  by("back").disabled = items.length === 0;
  showAnswer(null);
}

function showAnswer(item) {
  document.querySelector(".work").classList.toggle("nothing", !item); // there is nothing to answer now
  const answer = item && item.answer;
  for (const button of by("classes").children) {
    const chosen = Boolean(answer && answer.kind === "label" && answer.label === button.dataset.label);
    button.setAttribute("aria-pressed", String(chosen));
  }
  for (const button of document.querySelectorAll("[data-kind]")) {
    button.setAttribute("aria-pressed", String(Boolean(answer && answer.kind === button.dataset.kind)));
  }
}

function lastWords() {
  if (!lastSaid) return "";
  return lastSaid.kind === "label" ? `Labelled ${lastSaid.label}.` : `${WORDS[lastSaid.kind]}.`;
}

function showLast(model = null) {
  const line = by("last");
  line.replaceChildren();
  if (!lastSaid) return;
  line.append("Last: ", make("strong", { text: lastSaid.kind === "label" ? lastSaid.label : WORDS[lastSaid.kind] }));
  if (model && by("tell").checked && lastSaid.kind === "label") {
    const same = model.label === lastSaid.label;
    line.append(" · the model would have said ");
    line.append(make("strong", { class: same ? "same" : "other", text: model.label }), ` (${percent(model.share)})`);
  }
}

function showModelSays(said) {
  if (lastSaid && said && said[lastSaid.id]) showLast(said[lastSaid.id]);
}

function flash(label) {
  const button = [...by("classes").children].find((other) => other.dataset.label === label);
  if (!button) return;
  button.classList.remove("flash");
  void button.offsetWidth; // so that the animation begins again
  button.classList.add("flash");
}

let announcing = null;
function announce(words) {
  clearTimeout(announcing);
  announcing = setTimeout(() => (by("announce").textContent = words), 150);
}

function tell(words) {
  by("last").textContent = words;
}

// The key of each class. A class that is called by one digit or letter has that key; the others get the next free one.
function keysOf(names) {
  const own = names.map((name) => (/^[0-9]$/.test(name) || (name.length === 1 && LETTERS.includes(name)) ? name : ""));
  if (!own.some(Boolean)) return names.map((_, n) => ("123456789" + LETTERS)[n] || "");
  const free = [..."1234567890" + LETTERS].filter((key) => !own.includes(key));
  return own.map((key) => key || free.shift() || "");
}

// A name that may break after an underscore or a slash, as in card_payment_fee, and not inside a word.
function breakable(name) {
  return name.split(/(?<=[_/.])/).flatMap((part, n) => (n ? [make("wbr"), part] : [part]));
}

// Whether a name does not fit a narrow button: it is long, or a word in it is.
const isMedium = (name) => name.length > 16 || name.split(/[\s_/.-]/).some((word) => word.length > 9);
const isLong = (name) => name.length > 24 || name.split(/[\s_/.-]/).some((word) => word.length > 14);

function showClasses() {
  const box = by("classes");
  const same = box.children.length === classes.length && classes.every((name, n) => box.children[n].dataset.label === name);
  if (!same) {
    keys = keysOf(classes);
    const buttons = classes.map((name, n) => {
      const button = make("button", { type: "button", class: "class", "data-label": name, "aria-pressed": "false" });
      if (keys[n]) button.append(make("kbd", { text: keys[n], "aria-hidden": "true" }));
      if (keys[n]) button.setAttribute("aria-keyshortcuts", keys[n]);
      button.append(make("span", { class: "name" }, ...breakable(name)), make("span", { class: "count", text: "0" }));
      button.onclick = () => say("label", name);
      return button;
    });
    box.replaceChildren(...buttons);
    by("find-box").hidden = classes.length <= MANY;
    showAnswer(items[at] || null);
    filter();
  }
  by("classes").classList.toggle("many", classes.length > MANY);
  by("classes").classList.toggle("medium", classes.length <= MANY && classes.some(isMedium));
  for (const box of ["classes", "balance"]) by(box).classList.toggle("long", classes.some(isLong));
}

function filter() {
  const wanted = by("find").value.trim().toLowerCase();
  for (const button of by("classes").children) button.hidden = !button.dataset.label.toLowerCase().includes(wanted);
}

function showStatus(status) {
  classes = status.classes;
  showClasses();
  const most = Math.max(1, ...status.balance.map(([, count]) => count));
  status.balance.forEach(([, count], n) => {
    const badge = by("classes").children[n].querySelector(".count");
    badge.textContent = count.toLocaleString("en");
    badge.setAttribute("aria-label", `${count} labels`);
  });
  const list = by("balance");
  if (list.children.length !== status.balance.length) {
    list.replaceChildren(...status.balance.map(() => make("li", {}, make("span", { class: "name" }), make("progress", { max: "1" }), make("span", { class: "count" }))));
  }
  status.balance.forEach(([name, count], n) => {
    const [title, bar, number] = list.children[n].children;
    title.textContent = name;
    title.title = name;
    bar.value = count / most;
    bar.setAttribute("aria-label", `${name}: ${count}`);
    number.textContent = count.toLocaleString("en");
  });
  const batch = status.batch;
  by("batch-title").textContent = batch ? `Batch ${batch.number}` : "First batch";
  by("batch-bar").max = batch ? Math.max(1, batch.total) : 1;
  by("batch-bar").value = batch ? batch.done : 0;
  by("batch-text").textContent = batch ? `${batch.done} of ${batch.total} done` : "being chosen …";
  by("total").textContent = `${status.labels.toLocaleString("en")} of ${status.items.toLocaleString("en")} items labelled`;
  showModel(status.model, status.labels);
  showWorker(status.worker || begin.worker);
}

function showModel(model, labels) {
  if (!model) {
    by("accuracy").textContent = "–";
    by("model-text").textContent = labels < 10 ? "The first model comes after about ten labels." : "The first model is on its way.";
    return;
  }
  const known = model.accuracy !== null;
  const right = model.few ? `${model.correct} of ${model.checked}` : known ? percent(model.accuracy) : "–";
  const between = `${percent(model.low)} to ${percent(model.high)}`;
  const found = model.few ? `too few to say more than ${between}` : between;
  by("accuracy").textContent = known ? right : "–";
  by("model-text").textContent = known
    ? `right on held-out labels (${found}), after ${model.labels.toLocaleString("en")} labels`
    : `Trained on ${model.labels.toLocaleString("en")} labels. Not measured yet.`;
}

// What the background process does: "Training the networks: 3 of 5", once and as a sentence.
function workerWords(worker) {
  if (worker.error) return `Training has stopped: ${worker.error}`;
  if (worker.doing === "starting") return "Starting …";
  if (!worker.doing) return "";
  const stage = worker.stage || (worker.doing === "training" ? "training" : "checking labels");
  const count = worker.total > 1 ? `: ${worker.done.toLocaleString("en")} of ${worker.total.toLocaleString("en")}` : "";
  return `${stage[0].toUpperCase()}${stage.slice(1)}${count} …`;
}

function showWorker(worker) {
  const box = by("worker");
  const words = workerWords(worker);
  if (box.textContent !== words) box.textContent = words;
  box.dataset.state = worker.error ? "error" : worker.doing || "idle";
}

// ---- Zoom, classes, help ---------------------------------------------------------------------------------------

function zoom() {
  const item = items[at];
  const box = by("zoom-box");
  if (box.open) return box.close();
  if (!item) return;
  if (!item.image) return by("stage").classList.toggle("big-text");
  const small = images.get(item.id);
  const large = make("img", { alt: `Image ${item.id}, enlarged`, src: `${item.image}?size=large` });
  if (small && small.naturalWidth <= 512) large.classList.add("fill");
  if (small && small.naturalWidth <= 128) large.classList.add("tiny");
  large.onclick = () => large.classList.toggle("fill");
  by("zoom-stage").replaceChildren(large);
  box.showModal();
}

let several = false; // whether more classes are expected, as at the beginning

function addClass() {
  several = classes.length < 2;
  by("add-title").textContent = several ? "Name the classes" : "Add a class";
  by("add-error").textContent = "";
  by("add-said").textContent = several ? "At least two, one after the other or separated by commas. More can follow at any time." : "";
  by("add-name").value = "";
  by("add-cancel").textContent = "Cancel";
  by("add-box").showModal();
  by("add-name").focus();
}

by("add-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const typed = by("add-name").value;
  const names = (several ? typed.split(",") : [typed]).map((name) => name.trim()).filter(Boolean);
  if (!names.length) return;
  by("add-error").textContent = "";
  if (!several && classes.includes(names[0])) return (by("add-error").textContent = "There is such a class already.");
  try {
    for (const name of names) classes = (await call("/api/classes", { name })).classes;
    showClasses();
    by("add-name").value = "";
    by("add-said").textContent = `The classes: ${classes.join(", ")}.`;
    if (!several) by("add-box").close();
    else by("add-cancel").textContent = "Done";
    announce(`Added ${names.join(", ")}.`);
    call("/api/status").then(showStatus).catch(() => {});
  } catch (error) {
    by("add-error").textContent = error instanceof Refused ? error.message : "The server cannot be reached. Try again.";
  }
});

if (matchMedia("(pointer: coarse)").matches) by("find").placeholder = "Find a class"; // there are no keys
by("add-cancel").onclick = () => by("add-box").close();
by("zoom-close").onclick = () => by("zoom-box").close();
by("add").onclick = addClass;
by("help").onclick = () => by("help-box").showModal();
by("zoom").onclick = zoom;
by("undo").onclick = undo;
by("back").onclick = () => step(-1);
by("forward").onclick = () => step(1);
by("find").oninput = filter;
for (const button of document.querySelectorAll("[data-kind]")) button.onclick = () => say(button.dataset.kind);

by("find").addEventListener("keydown", (event) => {
  if (event.key === "Escape" || event.key === "Enter") {
    const first = [...by("classes").children].find((button) => !button.hidden);
    if (event.key === "Enter" && by("find").value.trim() && first) say("label", first.dataset.label);
    by("find").value = "";
    filter();
    by("find").blur();
    event.preventDefault();
  }
});

try {
  by("tell").checked = localStorage.getItem("poolwise:tell") !== "no";
} catch {
  // the browser keeps nothing
}
by("tell").onchange = () => {
  try {
    localStorage.setItem("poolwise:tell", by("tell").checked ? "yes" : "no");
  } catch {
    // it holds until the page is closed
  }
  showLast();
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const typing = event.target.matches("input:not([type=checkbox]), textarea, select");
  const box = document.querySelector("dialog[open]");
  if (typing || (box && !(box.id === "zoom-box" && event.key === "z"))) return;
  const pressing = event.target.matches("button, a, summary, input");
  if (event.key === " " && pressing) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  let action = null;
  if (key === "ArrowRight" || key === " ") action = () => step(1);
  else if (key === "ArrowLeft") action = () => step(-1);
  else if (key === "?") action = () => by("help-box").showModal();
  else if (key === "+") action = addClass;
  else if (key === "/" && !by("find-box").hidden) action = () => by("find").focus();
  else if (key in COMMANDS) action = COMMANDS[key];
  else {
    const n = keys.indexOf(key);
    if (n >= 0) action = () => say("label", classes[n]);
  }
  if (!action) return;
  event.preventDefault();
  if (event.repeat && !key.startsWith("Arrow")) return; // a key that is held down labels once
  action();
});

window.addEventListener("online", () => {
  failures = 0;
  send();
  fetchMore(true);
});
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") fetchMore(true);
});
// Items stay ours while the page is open and seen.
setInterval(() => document.visibilityState === "visible" && fetchMore(true), 90000);
setInterval(() => {
  if (document.visibilityState !== "visible") return;
  call("/api/status").then(showStatus).catch(() => {});
}, 4000);

showStatus({ ...begin.status, worker: begin.worker });
pending.restore();
showWaiting();
send();
remember();
fetchMore(true);
if (!classes.length) addClass();
