import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const SOCKET_NAME = '.s.PGSQL.5432';
const NOTIFICATION = 'A';

/** Stands between a client and servers of PostgreSQL, as a pooler or a balancer does that was set up wrongly. */
export class PostgresProxy {
  readonly #server: Server;
  readonly #directory: string;
  readonly #sockets = new Set<Socket>();
  #isSilent = false;

  /**
   * @param urls of `PostgresCluster`s or their schemas; connections go to one after the other
   * @param options.dropsNotifications no connection hears of another, as behind a pooler that shares them by transaction
   */
  static async start(
    urls: readonly string[],
    { dropsNotifications = false }: { dropsNotifications?: boolean } = {},
  ): Promise<PostgresProxy> {
    const directory = await mkdtemp(join(tmpdir(), 'trainyard-proxy-'));
    const server = createServer();
    const proxy = new PostgresProxy(server, directory);
    let numConnections = 0;
    server.on('connection', (client) => {
      const folder = new URL(urls[numConnections++ % urls.length] ?? '').searchParams.get('host') ?? '';
      const behind = connect(join(folder, SOCKET_NAME));
      for (const socket of [client, behind]) {
        proxy.#sockets.add(socket);
        socket.on('error', () => undefined).on('close', () => [client, behind].forEach((end) => end.destroy()));
      }
      client.on('data', (bytes) => proxy.#isSilent || behind.write(bytes));
      const answer = (bytes: Buffer) => proxy.#isSilent || client.write(bytes);
      behind.on('data', dropsNotifications ? withoutNotifications(answer) : answer);
    });
    server.listen(join(directory, SOCKET_NAME));
    await once(server, 'listening');
    return proxy;
  }

  private constructor(server: Server, directory: string) {
    this.#server = server;
    this.#directory = directory;
  }

  /** The same database, through here. */
  addressOf(url: string): string {
    const address = new URL(url);
    address.searchParams.set('host', this.#directory);
    return address.href;
  }

  /** From now on nothing comes through, and nobody is told. */
  fallSilent(): void {
    this.#isSilent = true;
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await rm(this.#directory, { recursive: true, force: true });
  }
}

/** Messages of a server are a letter, a length that counts itself, and what it says. */
function withoutNotifications(pass: (bytes: Buffer) => unknown): (bytes: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0);
  return (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    while (rest.length >= 5 && rest.length >= 1 + rest.readUInt32BE(1)) {
      const size = 1 + rest.readUInt32BE(1);
      if (String.fromCharCode(rest[0] ?? 0) !== NOTIFICATION) pass(rest.subarray(0, size));
      rest = rest.subarray(size);
    }
  };
}
