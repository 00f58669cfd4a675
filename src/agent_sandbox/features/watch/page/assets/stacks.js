// The stacks of the page, and the one that the views below the questions show.

import { element, find } from "./dom.js";

let stacks = [];

export const several = () => stacks.length > 1;

// The name of the chosen stack; empty for all.
export const chosen = () => (several() ? find("stack").value : (stacks[0]?.name ?? ""));

export function update(all) {
  stacks = all;
  find("choice").hidden = !several();
  document.body.classList.toggle("several", several());
  find("name").textContent = several() ? `${all.length} stacks` : (all[0]?.name ?? "agent-sandbox");
  find("asking").textContent = asking();
  const choice = find("stack");
  if (choice.options.length === all.length + 1) return;
  const before = choice.value;
  choice.replaceChildren(element("option", { value: "" }, "all"), ...all.map(({ name }) => element("option", { value: name }, name)));
  choice.value = before;
}

function asking() {
  const texts = stacks.map(asks);
  if (!texts.length) return "connecting";
  const same = texts.every((text) => text === texts[0]);
  return same ? texts[0] : stacks.map(({ name }, at) => `${name} ${texts[at]}`).join("; ");
}

function asks({ connected, ask }) {
  if (!connected) return "not connected to the proxy";
  return ask ? `asks about: ${ask}` : "asks only for rules with ask: true";
}
