/**
 * Machines of one network, each a network namespace: packets between two of them can be dropped silently,
 * which no process can simulate.
 */
import { type ChildProcess, execFileSync, spawn, type SpawnOptions } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';

import { networkNamespace } from './namespace-of.ts';

/** Addresses for benchmarks (RFC 2544), which are not routed. */
const PREFIX = '198.18.0';
/** This process's own address in the network. */
const HUB = `${PREFIX}.254`;
const BRIDGE = 'yard';

/** Drops packets from the set's addresses silently. */
const RULES = `table inet yard {
  set cut { type ipv4_addr; }
  chain input { type filter hook input priority 0; ip saddr @cut drop; }
}
`;

export class Machine {
  readonly name: string;
  readonly address: string;
  readonly #holder: ChildProcess;

  /** @param holder an idle process that keeps the namespace */
  constructor(name: string, address: string, holder: ChildProcess) {
    this.name = name;
    this.address = address;
    this.#holder = holder;
  }

  /** Prefix that runs a command on the machine. @param account null: that of this process */
  command(account: { uid: number; gid: number } | null = null): [string, ...string[]] {
    const { pid } = this.#holder;
    const as = account === null ? [] : ['--setgid', String(account.gid), '--setuid', String(account.uid)];
    return ['nsenter', '--target', String(pid), '--net', ...as, '--'];
  }

  spawn(words: readonly string[], options: SpawnOptions): ChildProcess {
    const [program, ...args] = this.command();
    return spawn(program, [...args, ...words], options);
  }

  /** Runs a command to its end. @throws if it fails */
  run(words: readonly string[], input = ''): void {
    const [program, ...args] = this.command();
    execFileSync(program, [...args, ...words], { input, stdio: ['pipe', 'pipe', 'inherit'] });
  }

  remove(): void {
    this.#holder.kill('SIGKILL');
  }
}

/** Requires its own namespace, as started by `npm run lab -- networks`. */
export class Network {
  readonly #machines: Machine[] = [];
  readonly #cuts = new Map<Machine, Set<string>>();

  constructor() {
    execFileSync('ip', ['link', 'add', BRIDGE, 'type', 'bridge']);
    execFileSync('ip', ['address', 'add', `${HUB}/24`, 'dev', BRIDGE]);
    execFileSync('ip', ['link', 'set', BRIDGE, 'up']);
  }

  async machine(name: string): Promise<Machine> {
    const number = this.#machines.length + 1;
    const holder = spawn('unshare', ['--net', 'setpriv', '--pdeathsig', 'KILL', 'sleep', 'infinity'], {
      stdio: 'ignore',
    });
    while (networkNamespace(holder.pid!) === networkNamespace(process.pid)) await sleep(5);
    const machine = new Machine(name, `${PREFIX}.${number}`, holder);
    const cable = cableOf(number);
    execFileSync('ip', ['link', 'add', cable, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(holder.pid)]);
    execFileSync('ip', ['link', 'set', cable, 'master', BRIDGE, 'up']);
    machine.run(['ip', 'link', 'set', 'lo', 'up']);
    machine.run(['ip', 'address', 'add', `${machine.address}/24`, 'dev', 'eth0']);
    machine.run(['ip', 'link', 'set', 'eth0', 'up']);
    machine.run(['nft', '--file', '-'], RULES);
    this.#machines.push(machine);
    return machine;
  }

  /** Drops packets between the two, in both directions: no connection is refused or closed. */
  cut(one: Machine, other: Machine): void {
    this.#swallow(one, other);
    this.#swallow(other, one);
  }

  /** Delivers all packets again. */
  heal(): void {
    for (const [machine, cut] of this.#cuts) {
      if (cut.size > 0) machine.run(['nft', 'flush', 'set', 'inet', 'yard', 'cut']);
      cut.clear();
    }
  }

  close(): void {
    for (const [index, machine] of this.#machines.entries()) {
      // Otherwise it would disappear with the last process there, some time later.
      execFileSync('ip', ['link', 'delete', cableOf(index + 1)]);
      machine.remove();
    }
    execFileSync('ip', ['link', 'delete', BRIDGE]);
  }

  #swallow(at: Machine, from: Machine): void {
    const cut = this.#cuts.get(at) ?? new Set();
    this.#cuts.set(at, cut.add(from.address));
    at.run(['nft', 'add', 'element', 'inet', 'yard', 'cut', `{ ${from.address} }`]);
  }
}

function cableOf(number: number): string {
  return `yard${number}`;
}
