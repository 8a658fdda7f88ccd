import type { ChartLine } from '../charts/chart-line.ts';

/** Points of one run. */
export interface RunPoints {
  readonly name: string;
  readonly tags: readonly string[];
  readonly x: readonly number[];
  readonly y: readonly number[];
}

const SEED = /[-_. ]?seed[-_. =]?\d+/i;

/** Name of a run without its seed: `rate-0.1-seed-3` → `rate-0.1`. */
export function withoutSeed(name: string): string {
  return name.replace(SEED, '') || name;
}

/** Colour and dash of a line, sixteen different ones. */
export function lineLook(index: number): Pick<ChartLine, 'color' | 'dash'> {
  const place = (number: number) => ((number % 4) + 1) as ChartLine['color'];
  return { color: place(index), dash: place(index + Math.floor(index / 4)) };
}

/** Names of the groups of a run; null: runs are lines of their own. */
type Groups = ((run: RunPoints) => readonly string[]) | null;

/** @param by `seed`: by name without the seed; `tag`: by tag, of these or, if empty, of all @returns null for others */
export function groupsBy(by: string, tags: readonly string[]): Groups {
  if (by === 'seed') return ({ name }) => [withoutSeed(name)];
  if (by !== 'tag') return null;
  return ({ name, tags: own }) => {
    const named = tags.length === 0 ? own : own.filter((tag) => tags.includes(tag));
    return named.length === 0 ? [name] : named;
  };
}

/** Runs as lines of their own, or by group: the mean of its runs, with the area from the lowest to the highest. */
export function comparedLines(runs: readonly RunPoints[], groupsOf: Groups): ChartLine[] {
  if (groupsOf === null) return runs.map(({ name, x, y }, index) => ({ ...lineLook(index), name, x, y }));
  const groups = new Map<string, RunPoints[]>();
  for (const run of runs) {
    for (const name of groupsOf(run)) {
      const members = groups.get(name);
      if (members === undefined) groups.set(name, [run]);
      else members.push(run);
    }
  }
  return Array.from(groups, ([name, members]) => ({ name, members })).map(({ name, members }, index) => {
    const at = new Map<number, number[]>();
    for (const { x, y } of members) x.forEach((place, point) => at.set(place, [...(at.get(place) ?? []), y[point]!]));
    const places = [...at.keys()].toSorted((first, second) => first - second);
    const of = (value: (values: readonly number[]) => number) => places.map((place) => value(at.get(place)!));
    return {
      ...lineLook(index),
      name: members.length === 1 ? members[0]!.name : `${name} (${members.length})`,
      x: places,
      y: of((values) => values.reduce((sum, one) => sum + one, 0) / values.length),
      ...(members.length === 1
        ? {}
        : { band: { low: of((values) => Math.min(...values)), high: of((values) => Math.max(...values)) } }),
    };
  });
}
