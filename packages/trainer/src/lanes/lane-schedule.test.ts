import { expect, test } from 'vitest';
import { randomSource } from '@trainyard/transformer/testing';
import {
  backwardSchedule,
  forwardSchedule,
  type LaneStep,
  type PassLayers,
  type TokenOperation,
  withStreamedWeights,
} from './lane-schedule.ts';
import { LaneProgress } from './lane-progress.ts';

/** The buffer's name and the expected layer of its contents. */
interface Access {
  readonly reads: readonly [buffer: string, layer: number][];
  readonly writes: readonly [buffer: string, layer: number][];
}

const NUM_LANES = 3;
const inEveryLane = (count: number) => Array.from({ length: NUM_LANES }, () => count);
/** No layer has experts, all have them, or every second one. */
const EXPERTS: readonly ((layer: number) => boolean)[] = [() => false, () => true, (layer) => layer % 2 === 1];
/** No layer has states, all have them, or all but every third one. */
const STATES: readonly ((layer: number) => boolean)[] = [() => false, () => true, (layer) => layer % 3 !== 2];
const parity = (layer: number) => (layer % 2 === 0 ? 'even' : 'odd');

function accesses(step: LaneStep, lane: number, { isKept, numLayers, hasStates }: PassLayers): Access[] {
  const lastLayer = numLayers - 1;
  const keys = (layer: number, of: number) => `keys.${isKept(layer) ? layer : parity(layer)}.lane${of}`;
  const keyGradients = (layer: number, of: number) => `dk.${parity(layer)}.lane${of}`;
  const lanesUpTo = Array.from({ length: lane + 1 }, (_, of) => of);
  const lanesFrom = Array.from({ length: NUM_LANES - lane }, (_, i) => lane + i);
  if (step.parts === 'vocabulary' || step.parts === 'targets') {
    const all = Array.from({ length: NUM_LANES }, (_, of) => of);
    const read = step.parts === 'vocabulary' ? 'hidden' : 'partial';
    return [
      {
        reads: all.map((of) => [`${read}.lane${of}`, 0]),
        writes: step.parts === 'vocabulary' ? [[`partial.lane${lane}`, 0]] : [],
      },
    ];
  }
  const everyLane = Array.from({ length: NUM_LANES }, (_, of) => of);
  const ofAll = (buffer: string, layer: number) =>
    everyLane.map((of): [string, number] => [`${buffer}.lane${of}`, layer]);
  const routing = (layer: number) => `routing.${isKept(layer) ? layer : 'shared'}`;
  if (step.parts === 'experts') {
    const { operation, layer } = step;
    const reads =
      operation === 'expertBackward'
        ? [...ofAll(routing(layer), layer), ...(layer === lastLayer ? [] : ofAll('dy', layer))]
        : ofAll('h', layer);
    return [{ reads, writes: operation === 'recomputingExpert' ? [] : [[`outputs.lane${lane}`, layer]] }];
  }
  const products = (layer: number) => `products.${isKept(layer) ? layer : 'shared'}`;
  const outputs = (layer: number) => `outputs.${isKept(layer) ? layer : 'shared'}`;
  if ('operation' in step && hasStates(step.layer)) {
    // Some heads, of the tokens of all lanes.
    const { layer } = step;
    const ofHeads = (buffer: string) =>
      everyLane.map((of): [string, number] => [`${buffer}.lane${of}.heads${lane}`, layer]);
    return step.operation === 'attention'
      ? [{ reads: ofAll(products(layer), layer), writes: ofHeads(outputs(layer)) }]
      : [
          {
            reads: [...ofAll(products(layer), layer), ...ofAll('deltaOutputs', layer)],
            writes: ofHeads('deltaProducts'),
          },
        ];
  }
  if ('operation' in step) {
    const { layer } = step;
    const reads = lanesUpTo.map((of): [string, number] => [keys(layer, of), layer]);
    return [{ reads, writes: step.operation === 'attention' ? [] : [[keyGradients(layer, lane), layer]] }];
  }
  const { buffer, operations } = step as Extract<LaneStep, { operations: unknown }>;
  const weights = ({ kind, layer }: TokenOperation, of: number): [string, number] => [
    `weights.${buffer}.${kind.startsWith('attentionInput') ? 'input' : 'output'}.lane${of}`,
    layer,
  ];
  const readsWeights = ({ kind }: TokenOperation) => kind !== 'combined';
  if (step.parts === 'weights')
    return operations.filter(readsWeights).map((operation) => ({ reads: [], writes: [weights(operation, lane)] }));
  const { parts } = step;
  return operations.map((operation): Access => {
    const { kind, layer } = operation;
    const streamed =
      buffer === undefined || !readsWeights(operation) ? [] : everyLane.map((of) => weights(operation, of));
    const byHeads = (buffer: string) =>
      everyLane.map((of): [string, number] => [`${buffer}.lane${lane}.heads${of}`, layer]);
    if (kind === 'attentionInput') {
      const own = hasStates(layer) ? `${products(layer)}.lane${lane}` : keys(layer, lane);
      return { reads: streamed, writes: [[own, layer]] };
    }
    if (hasStates(layer) && kind === 'attentionInputBackward')
      return { reads: [...streamed, ...byHeads('deltaProducts')], writes: [[`dy.lane${lane}`, layer - 1]] };
    if (kind === 'attentionInputBackward')
      return {
        reads: [...streamed, ...lanesFrom.map((of): [string, number] => [keyGradients(layer, of), layer])],
        writes: [[`dy.lane${lane}`, layer - 1]],
      };
    const attended = hasStates(layer) ? byHeads(outputs(layer)) : [];
    if (kind === 'routed' || kind === 'recomputingRouted')
      return {
        reads: [...streamed, ...attended],
        writes: [
          [`h.lane${lane}`, layer],
          [`${routing(layer)}.lane${lane}`, layer],
        ],
      };
    const ofExperts = kind === 'combined' || kind === 'routedBackward' ? ofAll('outputs', layer) : [];
    const isBackward = kind === 'outputBackward' || kind === 'routedBackward';
    return {
      reads: [...streamed, ...ofExperts, ...(kind === 'combined' ? [] : attended)],
      writes: [
        ...(parts === 'sourceTokens' ? [[`hidden.lane${lane}`, 0] as [string, number]] : []),
        ...(isBackward && hasStates(layer) ? [[`deltaOutputs.lane${lane}`, layer] as [string, number]] : []),
      ],
    };
  });
}

/**
 * Runs a schedule in a random order that its waits allow. Start and end of a step are separate moments, as in
 * threads.
 */
function simulate(steps: readonly LaneStep[], layers: PassLayers, memory: Map<string, number>, seed: number) {
  const random = randomSource(seed);
  const progress = LaneProgress.create(NUM_LANES);
  progress.reset();
  const at = Array.from({ length: NUM_LANES }, () => 0);
  const open = Array.from({ length: NUM_LANES }, (): readonly Access[] | null => null);
  const wrong: string[] = [];
  const check = (lane: number, all: readonly Access[]) => {
    for (const { reads } of all)
      for (const [buffer, layer] of reads)
        if (memory.get(buffer) !== layer)
          wrong.push(`lane ${lane}, step ${at[lane]}: ${buffer} holds ${memory.get(buffer)}, not ${layer}`);
  };
  for (;;) {
    const able = [...at.keys()].filter(
      (lane) => open[lane] !== null || (at[lane]! < steps.length && progress.isReady(lane, steps[at[lane]!]!.waits)),
    );
    if (able.length === 0) break;
    const lane = able[Math.floor(((random() + 1) / 2) * able.length)]!;
    const begun = open[lane];
    if (begun === null || begun === undefined) {
      const all = accesses(steps[at[lane]!]!, lane, layers);
      check(lane, all);
      for (const { writes } of all) for (const [buffer, layer] of writes) memory.set(buffer, layer);
      open[lane] = all;
    } else {
      check(lane, begun);
      open[lane] = null;
      progress.endStep(lane);
      at[lane]!++;
    }
  }
  return { wrong, ended: at };
}

test.each([
  ['every layer', 0],
  ['the last three layers', 4],
  ['no layer', 7],
])('lanes in any order read the right values, keeping %s', (_, firstKept) => {
  const numLayers = 7;
  const isKept = (layer: number) => layer >= firstKept;
  for (let seed = 0; seed < 300; seed++) {
    const memory = new Map<string, number>();
    const layers = { numLayers, isKept, hasExperts: EXPERTS[seed % 3]!, hasStates: STATES[Math.floor(seed / 3) % 3]! };
    const forward = forwardSchedule(layers);
    expect(simulate(forward, layers, memory, seed)).toEqual({
      wrong: [],
      ended: inEveryLane(forward.length),
    });
    const backward = backwardSchedule(layers, { endsBehindAttention: seed % 2 === 0 });
    expect(simulate(backward, layers, memory, seed)).toEqual({
      wrong: [],
      ended: inEveryLane(backward.length),
    });
  }
});

test.each([1, 2, 3])('of %d layers, too', (numLayers) => {
  for (let firstKept = 0; firstKept <= numLayers; firstKept++) {
    const isKept = (layer: number) => layer >= firstKept;
    for (let seed = 0; seed < 50; seed++) {
      const memory = new Map<string, number>();
      const layers = {
        numLayers,
        isKept,
        hasExperts: EXPERTS[seed % 3]!,
        hasStates: STATES[Math.floor(seed / 3) % 3]!,
      };
      for (const steps of [forwardSchedule(layers), backwardSchedule(layers, { endsBehindAttention: seed % 2 === 0 })])
        expect(simulate(steps, layers, memory, seed)).toEqual({ wrong: [], ended: inEveryLane(steps.length) });
    }
  }
});

test.each([
  ['', (steps: LaneStep[]) => steps],
  [', with streamed weights', withStreamedWeights],
] as const)('without waits they would not%s', (_, scheduled) => {
  for (const [index, hasExperts] of EXPERTS.entries()) {
    const layers = { numLayers: 4, isKept: () => false, hasExperts, hasStates: STATES[(index + 1) % 3]! };
    const hasty = scheduled(forwardSchedule(layers)).map((step) => ({ ...step, waits: [] }));
    const faults = Array.from({ length: 20 }, (_, seed) => simulate(hasty, layers, new Map(), seed).wrong.length);
    expect(Math.min(...faults)).toBeGreaterThan(0);
  }
});

test.each([1, 2, 3, 7])('lanes in any order read the right streamed weights of %d layers', (numLayers) => {
  for (const firstKept of [0, 1, numLayers]) {
    const isKept = (layer: number) => layer >= firstKept;
    for (let seed = 0; seed < 100; seed++) {
      const memory = new Map<string, number>();
      const layers = {
        numLayers,
        isKept,
        hasExperts: EXPERTS[seed % 3]!,
        hasStates: STATES[Math.floor(seed / 3) % 3]!,
      };
      for (const steps of [
        forwardSchedule(layers),
        backwardSchedule(layers, { endsBehindAttention: seed % 2 === 0 }),
      ].map(withStreamedWeights))
        expect(simulate(steps, layers, memory, seed)).toEqual({ wrong: [], ended: inEveryLane(steps.length) });
    }
  }
});
