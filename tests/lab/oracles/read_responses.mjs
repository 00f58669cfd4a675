// Reads one HTTP/1.1 response per line of standard input (the request's method and base64), as Node's client does, and
// prints what it made of it: the status, the names of the header fields, and the body.
import http from "node:http";
import net from "node:net";
import { createInterface } from "node:readline";

let raw;
const server = net.createServer((stream) => {
  stream.on("error", () => {});
  stream.once("data", () => stream.end(raw));
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));

function read(method) {
  return new Promise((done) => {
    const { port } = server.address();
    const request = http.request({ method, host: "127.0.0.1", port, path: "/x", agent: false });
    const refused = () => done(null);
    request.on("error", refused);
    request.on("upgrade", (_, stream) => refused(stream.destroy()));
    request.on("close", refused);
    request.on("response", (response) => {
      const pieces = [];
      const names = response.rawHeaders.filter((_, at) => at % 2 === 0);
      response.on("data", (piece) => pieces.push(piece));
      response.on("error", refused);
      response.on("end", () =>
        done(response.complete ? [response.statusCode, names, Buffer.concat(pieces).toString("base64")] : null),
      );
    });
    request.end();
  });
}

for await (const line of createInterface({ input: process.stdin })) {
  const [method, encoded] = line.split(" ");
  raw = Buffer.from(encoded, "base64");
  console.log(JSON.stringify(await read(method)));
}
server.close();
