import { describe, expect, it } from 'vitest';

import { ComputeArbiter, type ComputeMember } from './compute-arbiter.ts';

/** A host in virtual time: wants more until it yields, with slices of a fixed length. */
function simulate(
  parties: { name: string; share: number; sliceMs: number; activeFromMs?: number; section?: number }[],
  untilMs: number,
): Record<string, number> {
  let nowMs = 0;
  const arbiter = new ComputeArbiter(() => nowMs);
  let holder: string | null = null;
  const members = new Map<string, ComputeMember>();
  const mustYield = new Set<string>();
  const sections = new Map<number, Pick<ComputeArbiter, 'join'>>();
  for (const { name, share, section } of parties) {
    if (section !== undefined && !sections.has(section)) sections.set(section, arbiter.section('section', section));
    members.set(
      name,
      (section === undefined ? arbiter : sections.get(section)!).join(name, share, {
        grant: () => {
          expect(holder, 'two hosts would compute at once').toBeNull();
          holder = name;
          mustYield.delete(name);
        },
        yield: () => mustYield.add(name),
      }),
    );
  }
  const waiting = new Set(parties.map(({ name }) => name));
  while (nowMs < untilMs) {
    for (const party of parties) {
      if (waiting.has(party.name) && nowMs >= (party.activeFromMs ?? 0)) {
        waiting.delete(party.name);
        members.get(party.name)!.request();
      }
    }
    const name: string | null = holder;
    if (name === null) {
      nowMs += 1;
      continue;
    }
    nowMs += parties.find((party) => party.name === name)!.sliceMs;
    if (mustYield.has(name)) {
      holder = null;
      members.get(name)!.release(true);
    }
  }
  return Object.fromEntries([...members].map(([name, member]) => [name, member.usedMs()]));
}

/** Maximum number of other turns between two of its own. */
function longestGap(turns: readonly string[], name: string): number {
  const at = turns.flatMap((turn, index) => (turn === name ? [index] : []));
  return Math.max(...at.slice(1).map((index, i) => index - at[i]! - 1));
}

/** An arbiter whose hosts record their turns and yields. */
function watched() {
  const turns: string[] = [];
  const told: string[] = [];
  const join = (at: Pick<ComputeArbiter, 'join'>, name: string, share: number) =>
    at.join(name, share, { grant: () => turns.push(name), yield: () => told.push(name) });
  const clock = { nowMs: 0 };
  return { arbiter: new ComputeArbiter(() => clock.nowMs), turns, told, join, clock };
}

describe('ComputeArbiter', () => {
  it('splits the time by shares, for slices of any length', () => {
    for (const [engineSlice, trainerSlice] of [
      [50, 30],
      [10, 100],
      [80, 10],
    ] as const) {
      const used = simulate(
        [
          { name: 'engine', share: 0.7, sliceMs: engineSlice },
          { name: 'trainer', share: 0.3, sliceMs: trainerSlice },
        ],
        60_000,
      );
      const part = used['engine']! / (used['engine']! + used['trainer']!);
      expect(part, `slices ${engineSlice}/${trainerSlice}`).toBeGreaterThan(0.68);
      expect(part, `slices ${engineSlice}/${trainerSlice}`).toBeLessThan(0.72);
    }
  });

  it('gives everything to the only one with work, and saves up nothing for the idle one', () => {
    const used = simulate(
      [
        { name: 'engine', share: 0.7, sliceMs: 50, activeFromMs: 30_000 },
        { name: 'trainer', share: 0.3, sliceMs: 30 },
      ],
      60_000,
    );
    // Alone for the first half, 30 % of the second: an engine with saved credit would have taken all of it.
    expect(used['trainer']!).toBeGreaterThan(30_000 + 0.28 * 30_000);
    expect(used['trainer']!).toBeLessThan(30_000 + 0.32 * 30_000);
  });

  it('lets the engine go first when both ask in the same moment', () => {
    const arbiter = new ComputeArbiter(() => 0);
    const grants: string[] = [];
    const port = (name: string) => ({ grant: () => grants.push(name), yield: () => undefined });
    const blocker = arbiter.join('blocker', 1, port('blocker'));
    const engine = arbiter.join('engine', 0.7, port('engine'));
    const trainer = arbiter.join('trainer', 0.3, port('trainer'));
    blocker.request();
    trainer.request();
    engine.request();
    blocker.release(false);
    expect(grants).toEqual(['blocker', 'engine']);
  });

  it('does not let a host that was idle for long shut out one that worked and rests for a moment', () => {
    let nowMs = 0;
    const arbiter = new ComputeArbiter(() => nowMs);
    const grants: string[] = [];
    const port = (name: string) => ({ grant: () => grants.push(name), yield: () => undefined });
    const engine = arbiter.join('engine', 0.7, port('engine'));
    const trainer = arbiter.join('trainer', 0.3, port('trainer'));
    engine.request();
    nowMs = 600_000;
    engine.release(false);
    trainer.request();
    nowMs += 5;
    engine.request();
    nowMs += 25;
    trainer.release(true);
    expect(grants).toEqual(['engine', 'trainer', 'engine']);
  });

  it('asks a holder to yield once, and only if another host waits', () => {
    const arbiter = new ComputeArbiter(() => 0);
    let numYields = 0;
    const first = arbiter.join('engine', 1, { grant: () => undefined, yield: () => (numYields += 1) });
    const second = arbiter.join('trainer', 1, { grant: () => undefined, yield: () => undefined });
    first.request();
    expect(numYields).toBe(0);
    second.request();
    second.request();
    expect(numYields).toBe(1);
  });

  it('frees the cores when the host that holds them dies', () => {
    const arbiter = new ComputeArbiter(() => 0);
    const grants: string[] = [];
    const port = (name: string) => ({ grant: () => grants.push(name), yield: () => undefined });
    const engine = arbiter.join('engine', 0.7, port('engine'));
    const trainer = arbiter.join('trainer', 0.3, port('trainer'));
    engine.request();
    trainer.request();
    engine.leave();
    expect(grants).toEqual(['engine', 'trainer']);
    const other = arbiter.join('other', 0.7, port('other'));
    engine.release(true); // a message in flight when the host ended
    other.request();
    expect(grants, 'the trainer holds them').toEqual(['engine', 'trainer']);
    trainer.release(false);
    expect(grants).toEqual(['engine', 'trainer', 'other']);
  });

  it('lets the hosts of a section divide its share, and takes nothing of it from others', () => {
    const used = simulate(
      [
        { name: 'trainer', share: 0.3, sliceMs: 30 },
        { name: 'first', share: 1, sliceMs: 50, section: 0.7 },
        { name: 'second', share: 1, sliceMs: 20, section: 0.7 },
        { name: 'third', share: 1, sliceMs: 10, section: 0.7, activeFromMs: 30_000 },
      ],
      60_000,
    );
    expect(used['trainer']! / 60_000).toBeCloseTo(0.3, 1);
    // Two of them half the time, three the other half.
    const parts = ['first', 'second', 'third'].map((name) => used[name]! / (0.7 * 30_000));
    expect(parts[0]).toBeCloseTo(1 / 2 + 1 / 3, 1);
    expect(parts[1]).toBeCloseTo(1 / 2 + 1 / 3, 1);
    expect(parts[2]).toBeCloseTo(1 / 3, 1);
  });

  it('gives the whole share of a section to the only one of its hosts with work', () => {
    const used = simulate(
      [
        { name: 'trainer', share: 0.3, sliceMs: 30 },
        { name: 'busy', share: 1, sliceMs: 50, section: 0.7 },
        { name: 'idle', share: 1, sliceMs: 50, section: 0.7, activeFromMs: Infinity },
      ],
      60_000,
    );
    expect(used['busy']! / 60_000).toBeCloseTo(0.7, 1);
    expect(used['idle']).toBe(0);
  });

  it('has no turn of a host wait longer than one slice of each other one', () => {
    let nowMs = 0;
    const arbiter = new ComputeArbiter(() => nowMs);
    const turns: string[] = [];
    const inference = arbiter.section('inference', 0.7);
    const join = (at: Pick<ComputeArbiter, 'join'>, name: string, share: number) =>
      at.join(name, share, { grant: () => turns.push(name), yield: () => undefined });
    const hosts = [join(inference, 'a', 1), join(inference, 'b', 1), join(arbiter, 'trainer', 0.3)];
    for (const host of hosts) host.request();
    while (turns.length < 60) {
      nowMs += 10;
      hosts[['a', 'b', 'trainer'].indexOf(turns.at(-1)!)]!.release(true);
    }
    for (const name of ['a', 'b']) expect(longestGap(turns, name), name).toBeLessThanOrEqual(3);
    expect(longestGap(turns, 'trainer')).toBeLessThanOrEqual(4);
    // A host that leaves passes its turn to the rest of its section.
    hosts[0]!.leave();
    expect(turns.length).toBeGreaterThanOrEqual(60);
    const after = turns.length;
    while (turns.length < after + 30) {
      nowMs += 10;
      hosts[['a', 'b', 'trainer'].indexOf(turns.at(-1)!)]!.release(true);
    }
    const numInference = turns.slice(after).filter((name) => name === 'b').length;
    expect(numInference).toBeGreaterThanOrEqual(20);
    expect(numInference).toBeLessThanOrEqual(22);
  });

  it('lets `beside` hosts of different sections hold the cores together, without a request to yield', () => {
    const { arbiter, turns, told, join, clock } = watched();
    const inference = arbiter.section('inference', 0.7);
    const [first, second] = [join(inference, 'first', 1), join(inference, 'second', 1)];
    const trainer = join(arbiter, 'trainer', 0.3);
    first.request('beside');
    trainer.request('beside');
    expect([turns, told]).toEqual([['first', 'trainer'], []]);
    second.request('beside');
    expect([turns, told], 'its section has one turn at a time').toEqual([['first', 'trainer'], ['first']]);
    clock.nowMs += 10;
    first.release(true);
    expect([turns, told]).toEqual([
      ['first', 'trainer', 'second'],
      ['first', 'second'],
    ]);
  });

  it('gives all cores to an `alone` host after their holders yield, and to no other host meanwhile', () => {
    const { arbiter, turns, told, join, clock } = watched();
    const [engine, trainer] = [join(arbiter, 'engine', 0.7), join(arbiter, 'trainer', 0.3)];
    const spinning = join(arbiter, 'spinning', 0.5);
    engine.request('beside');
    trainer.request('beside');
    spinning.request('alone');
    expect(told).toEqual(['engine', 'trainer']);
    clock.nowMs += 10;
    trainer.release(true);
    expect(turns, 'the engine still holds them, and the trainer must not put it off').toEqual(['engine', 'trainer']);
    engine.release(true);
    expect(turns.slice(2)).toEqual(['spinning']);
    expect(told.slice(2)).toEqual(['spinning']);
    spinning.release(false);
    expect(turns.slice(3).toSorted()).toEqual(['engine', 'trainer']);
  });

  it('books shared time by shares, so that no host has to make up for it later', () => {
    let nowMs = 0;
    const arbiter = new ComputeArbiter(() => nowMs);
    const turns: string[] = [];
    const holders = new Set<string>();
    const join = (name: string, share: number) =>
      arbiter.join(name, share, {
        grant: () => {
          turns.push(name);
          holders.add(name);
        },
        yield: () => undefined,
      });
    const hosts = { engine: join('engine', 0.7), trainer: join('trainer', 0.3), spinning: join('spinning', 0.7) };
    hosts.engine.request('beside');
    hosts.trainer.request('beside');
    nowMs = 1_000_000;
    hosts.spinning.request('alone');
    expect([hosts.engine.usedMs(), hosts.trainer.usedMs()].map(Math.round)).toEqual([700_000, 300_000]);
    for (let slice = 0; slice < 100; slice++) {
      nowMs += 10;
      const name = [...holders][0] as keyof typeof hosts;
      holders.delete(name);
      hosts[name].release(true);
    }
    for (const name of ['engine', 'trainer', 'spinning']) expect(longestGap(turns, name), name).toBeLessThanOrEqual(10);
  });

  it('refuses a share that is not above 0', () => {
    expect(() => new ComputeArbiter().join('engine', 0, { grant: () => undefined, yield: () => undefined })).toThrow(
      'must be above 0, got 0',
    );
  });
});
