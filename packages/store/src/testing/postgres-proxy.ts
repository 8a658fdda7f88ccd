import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { kindOf, PostgresMessages } from './postgres-messages.ts';

const SOCKET_NAME = '.s.PGSQL.5432';
const NOTIFICATION = 'A';

/** Forwards the data of both ends of a connection, and ends it. */
export type Relay = (client: Socket, server: Socket) => void;

export interface PostgresProxyOptions {
  /** parent of its socket, with a short path; default: a new temporary folder */
  readonly directory?: string;
  /** default: forwards everything unchanged */
  readonly relay?: Relay;
}

/**
 * Proxy between a client and PostgreSQL servers: a wrongly configured pooler or balancer, or a bad network.
 */
export class PostgresProxy {
  readonly #server: Server;
  readonly #directory: string;
  readonly #sockets = new Set<Socket>();
  #isSilent = false;

  /** @param urls of `PostgresCluster`s or their schemas; connections use them in turn */
  static async start(urls: readonly string[], options: PostgresProxyOptions = {}): Promise<PostgresProxy> {
    const { directory = await mkdtemp(join(tmpdir(), 'trainyard-proxy-')), relay = passAll } = options;
    const server = createServer();
    const proxy = new PostgresProxy(server, directory);
    let numConnections = 0;
    server.on('connection', (client) => {
      const upstream = connectTo(urls[numConnections++ % urls.length] ?? '');
      for (const socket of [client, upstream]) {
        proxy.#sockets.add(socket);
        socket.on('error', () => undefined).on('close', () => proxy.#sockets.delete(socket));
      }
      if (!proxy.#isSilent) relay(client, upstream);
    });
    server.listen(join(directory, SOCKET_NAME));
    await once(server, 'listening');
    return proxy;
  }

  private constructor(server: Server, directory: string) {
    this.#server = server;
    this.#directory = directory;
  }

  /** Address of the same database through this proxy. */
  addressOf(url: string): string {
    const address = new URL(url);
    address.searchParams.set('host', this.#directory);
    return address.href;
  }

  /** Silently forwards nothing from now on. */
  fallSilent(): void {
    this.#isSilent = true;
    for (const socket of this.#sockets) socket.unpipe().pause();
  }

  async stop(): Promise<void> {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await rm(this.#directory, { recursive: true, force: true });
  }
}

/** Connects to the server directly. @param url of a `PostgresCluster` or a schema */
export function connectTo(url: string): Socket {
  return connect(join(new URL(url).searchParams.get('host') ?? '', SOCKET_NAME));
}

const passAll: Relay = (client, server) => {
  endTogether(client, server);
  client.pipe(server).pipe(client);
};

/** Drops notifications, as a pooler does that shares connections by transaction. */
export const withoutNotifications: Relay = (client, server) => {
  endTogether(client, server);
  client.pipe(server);
  const messages = new PostgresMessages();
  server.on('data', (bytes: Buffer) => {
    for (const message of messages.take(bytes)) if (kindOf(message) !== NOTIFICATION) client.write(message);
  });
};

/** Sends each notification twice. @param onDoubled called for each */
export function doublingNotifications(onDoubled: () => void): Relay {
  return (client, server) => {
    endTogether(client, server);
    client.pipe(server);
    const messages = new PostgresMessages();
    server.on('data', (bytes: Buffer) => {
      for (const message of messages.take(bytes)) {
        client.write(message);
        if (kindOf(message) !== NOTIFICATION) continue;
        onDoubled();
        client.write(message);
      }
    });
  };
}

function endTogether(...ends: readonly Socket[]): void {
  for (const end of ends) end.on('close', () => ends.forEach((other) => other.destroy()));
}
