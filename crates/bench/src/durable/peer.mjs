// The peer: Restate's server with the same counter, written with its SDK.
// Arguments: folder, keys, clients, seconds. Prints operations per second.

import { spawn } from "node:child_process";
import http from "node:http";
import { createRequire } from "node:module";
import net from "node:net";
import path from "node:path";

const [folder, keys, clients, seconds] = process.argv.slice(-4);
const require = createRequire(path.join(process.cwd(), "x.js"));
const restate = require("@restatedev/restate-sdk");
const platform = `@restatedev/restate-server-${process.platform}-${process.arch}`;
const binary = path.join(path.dirname(require.resolve(`${platform}/package.json`)), "bin/restate-server");

const counter = restate.object({
  name: "counter",
  handlers: {
    add: async (context, amount) => {
      const value = ((await context.get("value")) ?? 0) + amount;
      context.set("value", value);
      return value;
    },
  },
});

const free = () =>
  new Promise((resolve) => {
    const socket = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = socket.address();
      socket.close(() => resolve(port));
    });
  });

const agent = new http.Agent({ keepAlive: true, maxSockets: Number(clients) });
const post = (port, route, body) =>
  new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "content-length": body.length };
    const options = { host: "127.0.0.1", port, path: route, method: "POST", headers, agent };
    const request = http.request(options, (answer) => {
      answer.resume();
      answer.on("end", () => (answer.statusCode < 300 ? resolve() : reject(new Error(`${route}: ${answer.statusCode}`))));
    });
    request.on("error", reject);
    request.end(body);
  });

const until = async (work) => {
  const end = Date.now() + 60_000;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (Date.now() > end) throw error;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
};

async function main() {
  const [own, ingress, admin, node] = [await free(), await free(), await free(), await free()];
  await restate.serve({ services: [counter], port: own });
  const server = spawn(binary, ["--base-dir", folder], {
    stdio: "ignore",
    env: {
      ...process.env,
      RUST_LOG: "error",
      DO_NOT_TRACK: "1",
      RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
      RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
      RESTATE_BIND_ADDRESS: `127.0.0.1:${node}`,
      RESTATE_ADVERTISED_ADDRESS: `http://127.0.0.1:${node}`,
    },
  });
  process.on("exit", () => server.kill("SIGKILL"));
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));
  await until(() => post(admin, "/deployments", JSON.stringify({ uri: `http://127.0.0.1:${own}` })));
  await until(() => post(ingress, "/counter/0/add", "1"));
  const begin = process.hrtime.bigint();
  const end = Date.now() + Number(seconds) * 1000;
  let done = 0;
  const client = async () => {
    while (Date.now() < end) {
      await post(ingress, `/counter/${Math.floor(Math.random() * Number(keys))}/add`, "1");
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: Number(clients) }, client));
  console.log(done / (Number(process.hrtime.bigint() - begin) / 1e9));
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
