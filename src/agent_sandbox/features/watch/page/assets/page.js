// The page: begins the session, and passes the news to the views.

import { Refused, begin, follow, post } from "./api.js";
import { button, counted, element, find, foreign, say, show } from "./dom.js";
import * as notifications from "./notifications.js";
import * as ports from "./ports.js";
import * as questions from "./questions.js";
import * as requests from "./requests.js";
import * as rules from "./rules.js";
import * as stacks from "./stacks.js";
import * as views from "./views.js";

const KEYS = [
  ["a", "allow the selected request once"],
  ["h", "allow the rule below it for an hour"],
  ["s", "allow the rule until the sandbox stops"],
  ["p", "write the rule into the project's policy; shows the change first"],
  ["u", "write it into your own policy, for all your projects; shows the change first"],
  ["d", "deny the request, or all of a group"],
  ["j, k", "select the next or the previous request"],
  ["/", "filter; Escape clears the filter"],
  ["space", "pause the table"],
];

function news(found) {
  if (found.missed) say(`${counted(found.missed, "decision")} came too fast; agent-sandbox proxy logs has them`);
  requests.add(found.records);
  if (found.stacks) {
    stacks.update(found.stacks);
    const fresh = questions.update(found.stacks, stacks.several());
    grants(found.stacks);
    ports.update(found.stacks, stacks.several());
    if (fresh.length) {
      find("alert").textContent = fresh.length === 1 ? `${fresh[0].request} waits for you` : `${fresh.length} requests wait for you`;
      notifications.about(fresh);
    }
  }
  if (found.notes.length) say(found.notes.at(-1));
}

function grants(shown) {
  const all = shown.flatMap(({ name, grants }) => grants.map((grant) => ({ ...grant, stack: name })));
  find("grants").hidden = all.length === 0;
  find("grant-list").replaceChildren(
    ...all.map((grant) => {
      const left = grant.seconds_left === null ? "until the sandbox stops" : `${counted(Math.floor(grant.seconds_left / 60) + 1, "minute")} left`;
      const where = stacks.several() ? `${grant.stack}: ` : "";
      return element("li", {}, where, foreign(grant.rule, "code"), ` ${left}, by `, foreign(grant.who), " ", button("End", () => end(grant)));
    }),
  );
}

async function end({ stack, id }) {
  try {
    await post("/api/end", { stack, id });
  } catch (error) {
    say(error.message);
  }
}

function broken(why) {
  find("asking").textContent = "not connected";
  questions.update([], false);
  grants([]);
  ports.update([], false);
  say(why);
}

function help() {
  show("Keys", [element("dl", {}, ...KEYS.flatMap(([key, does]) => [element("dt", {}, element("kbd", {}, key)), element("dd", {}, does)]))]);
}

async function main() {
  questions.start(rules.plan);
  requests.start(rules.plan, stacks.chosen);
  notifications.start();
  views.start(stacks.chosen);
  find("help").addEventListener("click", help);
  try {
    await begin();
    await follow(news, broken);
  } catch (error) {
    broken(error instanceof Refused ? error.message : String(error));
    find("asking").textContent = "no session";
  }
}

main();
