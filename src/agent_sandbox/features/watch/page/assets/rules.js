// Make a request a rule: show the change, then write it.

import { post } from "./api.js";
import { closeDialog, element, foreign, say, show } from "./dom.js";

const CLASSES = { "+": "added", "-": "removed" };

// `about` names a request that waits, or a decision.
export async function plan(about) {
  try {
    const change = await post("/api/rule", about);
    show("Make this a rule", shown(about.stack, change), [["Write it and load the policy", () => write(about.stack, change)]]);
  } catch (error) {
    closeDialog();
    say(error.message);
  }
}

function shown(stack, change) {
  const lines = change.diff.map((line) => {
    const made = foreign(line);
    const names = line.startsWith("--- ") || line.startsWith("+++ ");
    made.classList.add(names ? "same" : (CLASSES[line[0]] ?? "same"));
    return made;
  });
  return [
    element("p", {}, change.layer === "user" ? "Your own policy, for all your projects, will allow " : `The policy of ${stack} will allow `, foreign(change.rule, "code"), ":"),
    element("pre", { tabindex: "0", "aria-label": "the change of the policy file" }, ...lines),
    ...change.warnings.map((text) => element("p", { class: "warning" }, "careful: ", foreign(text))),
    ...(change.services.length ? [element("p", {}, "The service ", foreign(change.services.join(", or ")), " allows this, too, with everything else that it is for.")] : []),
  ];
}

async function write(stack, change) {
  try {
    const { printed } = await post("/api/write", { stack, change: change.id });
    say(printed.join("; "));
  } catch (error) {
    say(error.message);
  }
  closeDialog();
}
