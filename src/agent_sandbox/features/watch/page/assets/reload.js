// Load the page again if a part of it could not be loaded. Chrome aborts all requests when a network interface appears,
// as it does when Docker starts a container.

const LATER_MS = 1000;

addEventListener("error", (event) => event.target !== window && setTimeout(() => location.reload(), LATER_MS), { capture: true });
