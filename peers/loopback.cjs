// Preloaded into npm's reference server, which would listen on every interface: it listens on a free port of the
// loopback instead, says which one on stderr, and ends when its stdin does, that is, when the test has ended.
"use strict";

const { Server } = require("node:net");

const listen = Server.prototype.listen;

Server.prototype.listen = function (_port, ...rest) {
  const ready = rest.find((argument) => typeof argument === "function");
  return listen.call(this, { host: "127.0.0.1", port: 0 }, () => {
    process.stderr.write(`listening on port ${this.address().port}\n`);
    ready?.();
  });
};

process.stdin.on("end", () => process.exit(0)).resume();
