// The ports that listen in the sandboxes. A click counts only if the list has not changed for a moment: the sandbox
// decides what is in it.

import { Refused, post } from "./api.js";
import { SETTLE_MS, button, element, find, foreign, say } from "./dom.js";

let shown = "";
let changed = 0;

export function update(stacks, several) {
  const items = stacks.flatMap(({ name: stack, ports }) => ports.map((one) => ({ ...one, stack, where: several ? `${stack}: ` : "" })));
  const more = stacks.reduce((sum, { more_ports }) => sum + more_ports, 0);
  const now = JSON.stringify([items, more]);
  if (now === shown) return; // a replaced button would lose the focus
  shown = now;
  changed = performance.now();
  find("ports").hidden = items.length === 0;
  find("port-list").replaceChildren(
    ...items.map(made),
    ...(more ? [element("li", {}, `and ${more} more: agent-sandbox ports`)] : []),
  );
}

function made(one) {
  const address = `http://127.0.0.1:${one.here}`;
  const link = one.here ? element("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, address) : "";
  const toggle = button(one.here ? "Close" : "Open", () => send(one), { "aria-label": `${one.here ? "Close" : "Open"} port ${one.port}` });
  return element("li", {}, `${one.where}${one.port} `, foreign(one.command), " ", link, link ? " " : "", toggle);
}

async function send({ stack, port, here }) {
  if (performance.now() - changed < SETTLE_MS) {
    say("not sent, because the ports have just changed: look again");
    return;
  }
  try {
    await post("/api/port", { stack, port, here });
  } catch (error) {
    say(error instanceof Refused ? error.message : "agent-sandbox ui does not answer");
  }
}
