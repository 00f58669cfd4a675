// The requests that wait, and their answers. An answer counts only if the requests of its stack have not changed, and its
// own has not moved, for a moment, so that one that appears just then does not get a click or a key that was meant for
// something else. Those that come later are below, where they move nothing: a stack with many does not hold up the answers
// of another.

import { SETTLE_MS, button, counted, dialogIsOpen, element, find, foreign, look, movedAt, say } from "./dom.js";
import { Refused, post } from "./api.js";

const LAYERS = { p: "project", u: "user" };
const KEYS = { a: "once", h: "hour", s: "stop", d: "deny" };
const WORDS = { once: "allowed once", hour: "allowed for an hour", stop: "allowed until the sandbox stops", deny: "denied" };

let groups = [];
let selected = ""; // the key of the first question of a group
let closed = ""; // the key of what was answered here
let choice = 0; // when the selection last changed
let arrived = new Map(); // the number of each question, in the order in which they came
let last = 0;
let contents = new Map(); // of each stack, as text
const changed = new Map(); // when those last changed
let typed = 0; // when a key was last pressed, or the window came to the front
let until = new Map(); // when each question times out
let onRule = () => {};

export function start(writeRule) {
  onRule = writeRule;
  document.addEventListener("keydown", pressed, { capture: true });
  window.addEventListener("focus", () => (typed = performance.now()));
  setInterval(countDown, 1000);
}

// Questions have numbers of their own in each stack; with several stacks, each is shown with the name of its stack.
export function update(stacks, several) {
  const read = groups.find((group) => first(group) === selected);
  const before = arrived;
  const now = performance.now();
  groups = stacks.flatMap(({ name: stack, groups }) => {
    // After a restart of the proxy, a number means another request.
    const whole = (one) => ({ ...one, stack, key: `${stack} ${one.id} ${one.request}` });
    return groups.map((group) => ({ ...group, label: several ? `${stack}: ` : "", questions: group.questions.map(whole) }));
  });
  const all = groups.flatMap((group) => group.questions);
  arrived = new Map(all.map((one) => [one.key, before.get(one.key) ?? ++last]));
  const latest = new Map(stacks.map(({ name }) => [name, content(name)]));
  for (const [name, text] of latest) if (text !== contents.get(name)) changed.set(name, now);
  contents = latest;
  const came = (group) => Math.min(...group.questions.map((one) => arrived.get(one.key)));
  groups.sort((one, other) => came(one) - came(other));
  until = new Map(all.map((one) => [one.key, now + one.seconds_left * 1000]));
  if (read && selected !== closed && !read.questions.some(({ key }) => until.has(key))) {
    say(`gone: ${name_of(read)}: its client left, it was answered elsewhere, or it timed out`);
  }
  if (!groups.some((group) => first(group) === selected)) select(groups.length ? first(groups[0]) : "");
  draw();
  document.title = all.length ? `(${all.length}) agent-sandbox` : "agent-sandbox";
  return all.filter((one) => !before.has(one.key));
}

const about_one = ({ stack, id, request }) => ({ stack, id, request });
const about_rule = (one, layer) => ({ ...about_one(one), layer });
const content = (stack) =>
  JSON.stringify(groups.filter((group) => group.questions[0].stack === stack).map((group) => group.questions.map((one) => [one.key, one.notes])));
const first = (group) => group.questions[0].key;
const name_of = (group) => `${group.label}${group.name ? `requests under ${group.name}` : group.questions[0].request}`;

function select(key) {
  selected = key;
  choice = performance.now();
}

// Elements are kept where they can be: a replaced one would lose the focus.
function draw() {
  const list = find("question-list");
  const kept = new Map([...list.children].map((child) => [child.dataset.about, child]));
  const items = groups.map((group) => {
    const about = JSON.stringify([group.label, group.questions.map((one) => [one.key, one.request, one.details, one.rule])]);
    const item = kept.get(about) ?? made(group, about);
    item.classList.toggle("selected", first(group) === selected);
    if (!group.name) show_notes(item.querySelector(".notes"), group.questions[0].notes);
    return item;
  });
  const same = items.length === list.children.length && items.every((item, at) => list.children[at] === item);
  if (!same) {
    const focus = document.activeElement;
    list.replaceChildren(...items);
    if (focus?.isConnected) focus.focus();
  }
  find("questions").hidden = groups.length === 0;
  countDown();
  items.forEach(look);
}

function show_notes(list, notes) {
  const shown = [...list.children].map((child) => child.textContent);
  if (JSON.stringify(shown) !== JSON.stringify(notes)) list.replaceChildren(...notes.map((note) => element("p", {}, foreign(note))));
}

function made(group, about) {
  const item = element("li", { "data-about": about, "data-key": first(group) });
  const answers = element("p", { class: "buttons" });
  if (group.name) {
    const hosts = [...new Set(group.questions.map((one) => one.host))];
    item.append(
      element("h3", {}, `${group.label}${hosts.length} hosts under `, foreign(group.name)),
      element("p", { class: "hosts" }, foreign(hosts.slice(0, 20).join(", ")), hosts.length > 20 ? " ..." : ""),
    );
    answers.append(button("Deny all (d)", () => clicked(item, group, "deny")));
  } else {
    const [one] = group.questions;
    item.append(element("h3", {}, group.label, foreign(one.request)));
    if (one.details) item.append(element("p", {}, "with ", foreign(one.details)));
    item.append(element("p", {}, foreign(one.reason)));
    if (one.services.length) item.append(element("p", {}, "allowed by the service ", foreign(one.services.join(", or "))));
    item.append(element("div", { class: "notes" }));
    item.append(element("p", {}, one.rule ? "for longer than once: " : "no rule can express this: allow it once, or deny it", one.rule ? foreign(one.rule, "code") : ""));
    answers.append(button("Allow once (a)", () => clicked(item, group, "once")));
    if (one.rule) {
      answers.append(
        button("For an hour (h)", () => clicked(item, group, "hour")),
        button("Until it stops (s)", () => clicked(item, group, "stop")),
      );
    }
    if (one.rule && one.fits_policy) {
      for (const [key, name] of Object.entries(LAYERS)) {
        answers.append(button(`For ${name === "user" ? "you" : "the project"} (${key})`, () => settled(...times(item, group)) && allow(one, name)));
      }
    }
    answers.append(button("Deny (d)", () => clicked(item, group, "deny")));
  }
  answers.append(element("span", { class: "left" }));
  item.append(answers);
  item.addEventListener("focusin", () => {
    if (first(group) === selected) return;
    select(first(group));
    draw();
  });
  return item;
}

function countDown() {
  for (const item of find("question-list").children) {
    const left = Math.round(((until.get(item.dataset.key) ?? 0) - performance.now()) / 1000);
    item.querySelector(".left").textContent = `${counted(Math.max(0, left), "second")} left`;
  }
}

function settled(...times) {
  const quiet = performance.now() - Math.max(...times) >= SETTLE_MS;
  if (!quiet) say("not sent, because the questions have just changed or a key was just pressed: look again");
  return quiet;
}

// When something last changed that an answer to this group depends on.
const times = (item, group) => [movedAt(item), changed.get(group.questions[0].stack), choice];

function clicked(item, group, word) {
  if (settled(...times(item, group))) answer(group, word);
}

function allow(one, layer) {
  closed = one.key;
  onRule(about_rule(one, layer));
}

async function answer(group, word) {
  closed = first(group);
  const done = await Promise.allSettled(group.questions.map((one) => post("/api/answer", { ...about_one(one), word })));
  const failed = done.find((one) => one.status === "rejected");
  if (failed && !(failed.reason instanceof Refused)) say("agent-sandbox ui does not answer");
  else say(failed ? failed.reason.message : `${WORDS[word]}: ${group.label}${group.name || group.questions[0].request}`);
}

// Typing chooses an option of a select, as it changes the text of an input.
const inField = (target) => target instanceof HTMLSelectElement || (target instanceof HTMLInputElement && target.type !== "checkbox");

function pressed(event) {
  const before = typed;
  if (!event.repeat && ["Tab", "Shift"].includes(event.key)) return;
  typed = performance.now();
  if (event.repeat || event.ctrlKey || event.altKey || event.metaKey || dialogIsOpen()) return;
  if (event.key === "Escape" && event.target === find("filter")) {
    find("filter").value = "";
    find("filter").dispatchEvent(new Event("input"));
    find("filter").blur();
  }
  if (inField(event.target)) return;
  const group = groups.find((one) => first(one) === selected);
  const step = { j: 1, k: -1 }[event.key];
  if (event.key === "/") find("filter").focus();
  else if (event.key === " " && event.target === document.body) find("paused").click();
  else if (step && groups.length) step_to(groups.indexOf(group) + step);
  else if (!group || !(event.key in KEYS || event.key in LAYERS)) return;
  else if (group.name && event.key !== "d") say("a group can only be denied");
  else if (!settled(...times(find("question-list").querySelector(".selected"), group), before)) return;
  else if (event.key in LAYERS && group.questions[0].rule && group.questions[0].fits_policy) allow(group.questions[0], LAYERS[event.key]);
  else if (event.key in KEYS && (group.questions[0].rule || ["a", "d"].includes(event.key))) answer(group, KEYS[event.key]);
  event.preventDefault();
}

function step_to(at) {
  select(first(groups[Math.min(Math.max(at, 0), groups.length - 1)]));
  draw();
  find("question-list").querySelector(".selected button")?.focus();
}
