// A server of socket.io: it echoes, and floods everybody. Prints its port.

const { createServer } = require("node:http");
const { Server } = require("socket.io");

const text = process.argv[process.argv.length - 1];
const http = createServer();
const server = new Server(http, { transports: ["websocket"], serveClient: false });

server.on("connection", (socket) => {
  socket.on("echo", (said, answer) => answer(said));
  socket.on("flood", (count) => {
    for (let sent = 0; sent < count; sent += 1) server.emit("told", text);
  });
});
http.listen(0, "127.0.0.1", () => console.log(http.address().port));
