/** PostgreSQL on a machine of its own: with a password, and over TLS where the address wants it. */
import { tmpdir } from 'node:os';

import { PostgresCluster, queryServer } from '@trainyard/store/testing';

import type { Machine } from './network.ts';
import { postgresPrograms } from './network-parts.ts';

/** The user has to give it over the network. */
export const PASSWORD = 'not-for-logs';
const PORT = 5432;

export class DatabaseMachine {
  readonly machine: Machine;
  readonly cluster: PostgresCluster;
  #numDatabases = 0;

  /** @param settings of the server, besides */
  static async start(machine: Machine, settings: Readonly<Record<string, string>> = {}): Promise<DatabaseMachine> {
    const cluster = await PostgresCluster.start(postgresPrograms(), tmpdir(), {
      command: (account) => machine.command(account),
      listen: '*',
      access: ['host all all all scram-sha-256'],
      settings: { port: String(PORT), ...settings },
    });
    await queryServer(cluster.url, `alter role trainyard password '${PASSWORD}'`);
    return new DatabaseMachine(machine, cluster);
  }

  private constructor(machine: Machine, cluster: PostgresCluster) {
    this.machine = machine;
    this.cluster = cluster;
  }

  /** A fresh empty database. @returns its address for other machines, without the password */
  async createDatabase(): Promise<string> {
    const name = `yard${this.#numDatabases++}`;
    await this.cluster.createDatabase(name);
    return `postgres://trainyard@${this.machine.address}:${PORT}/${name}`;
  }

  /** The same database, for this process: by its socket, whatever becomes of the network. */
  nearby(url: string): string {
    const near = new URL(this.cluster.url);
    near.pathname = new URL(url).pathname;
    return near.href;
  }

  async stop(): Promise<void> {
    await this.cluster.stop();
  }
}
