// A server of plain ws: it echoes, and floods everybody. Prints its port.

const { WebSocketServer } = require("ws");

const text = process.argv[process.argv.length - 1];
const server = new WebSocketServer({ host: "127.0.0.1", port: 0 });

server.on("connection", (socket) => {
  socket.on("message", (data) => {
    const said = data.toString();
    if (!said.startsWith("flood ")) return socket.send(said);
    for (let sent = 0; sent < Number(said.slice(6)); sent += 1) {
      for (const client of server.clients) client.send(text);
    }
  });
});
server.on("listening", () => console.log(server.address().port));
