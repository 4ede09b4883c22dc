/**
 * A proxy between a log and its server: counts round trips, loses answers, cuts and freezes connections.
 */
import { connect, createServer, type Server, type Socket } from "node:net";

/** What to do with the next thing that a client sends. */
export type Fault = "cut before" | "lose the answer";

/** The proxy. */
export class TcpProxy {
  /** How often a client has sent something and the server then answered. */
  trips = 0;
  /** What happens to the next request, once. */
  fault: Fault | undefined;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(target: URL) {
    this.#server = createServer((client) => this.#join(client, target));
  }

  /** Listens in front of the server of a URL. */
  static async before(url: string): Promise<{ readonly proxy: TcpProxy; readonly url: string }> {
    const target = new URL(url);
    const proxy = new TcpProxy(target);
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    const { port } = proxy.#server.address() as { port: number };
    const through = new URL(url);
    through.port = String(port);
    return { proxy, url: through.href };
  }

  #join(client: Socket, target: URL): void {
    const server = connect(Number(target.port), target.hostname);
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => {});
    }
    const end = () => {
      client.destroy();
      server.destroy();
      this.#sockets.delete(client);
      this.#sockets.delete(server);
    };
    client.on("close", end);
    server.on("close", end);
    let asked = false;
    let losing = false;
    client.on("data", (chunk) => {
      if (this.fault === "cut before") {
        this.fault = undefined;
        return end();
      }
      if (this.fault === "lose the answer") {
        this.fault = undefined;
        losing = true;
      }
      asked = true;
      server.write(chunk);
    });
    server.on("data", (chunk) => {
      if (losing) return end();
      if (asked) this.trips++;
      asked = false;
      client.write(chunk);
    });
  }

  /** Cuts every connection. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Lets nothing more pass on the connections that there are. */
  freeze(): void {
    for (const socket of this.#sockets) socket.removeAllListeners("data").on("data", () => {});
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
