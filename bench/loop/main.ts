/**
 * Seconds of a whole step of reinforcement learning, on this service and on loops of other parts:
 *
 *   npm run bench -- loop                                          all loops (about an hour on two cores)
 *   npm run bench -- loop --loop exact --loop bf16 --loop trl
 *   npm run bench -- loop --short                                  the smallest run of all parts; its times mean nothing
 *
 * A step is 8 prompts × 8 rollouts of about 376 + 64 tokens, four gradient steps on them (LoRA, r=8, all linear layers),
 * and the new weights in the sampler. Every loop has the same model, prompts and counts, which are checked. The loops
 * run one after the other, because together they need too much memory: in each pass every loop starts, makes a step that
 * does not count and `--steps` that do; the order rotates between passes.
 */
import { parseArgs } from 'node:util';

import { machineLine, otherCores, sampleCpu, waitUntilQuiet } from '../machine.ts';
import { markdownTable } from '../markdown-table.ts';
import { median } from '../percentile.ts';
import { spread, threeDigits } from '../three-digits.ts';
import { FULL, type LoopKind, type LoopStep, requireWork, SHORT } from './loop-work.ts';
import { trainyardLoop } from './trainyard-loop.ts';
import { trlLoop } from './trl-loop.ts';
import { vllmTorchLoop } from './vllm-torch-loop.ts';

const { values } = parseArgs({
  options: {
    loop: { type: 'string', multiple: true, default: [] },
    settings: { type: 'string', multiple: true, default: [] },
    passes: { type: 'string', default: '2' },
    steps: { type: 'string', default: '2' },
    short: { type: 'boolean', default: false },
    'max-wait': { type: 'string', default: '60' },
  },
});
const log = (line: string): void => console.error(line);
const kinds: Readonly<Record<string, LoopKind>> = {
  exact: trainyardLoop('exact', values.settings, log),
  bf16: trainyardLoop('bf16', values.settings, log),
  'vllm-merged': vllmTorchLoop('merged', log),
  'vllm-adapter': vllmTorchLoop('adapter', log),
  trl: trlLoop(log),
};
const names = values.loop.length === 0 ? Object.keys(kinds) : values.loop;
const unknown = names.find((name) => !Object.hasOwn(kinds, name));
if (unknown !== undefined) refuse(`unknown loop "${unknown}"; the loops are ${Object.keys(kinds).join(', ')}`);
const loops = names.map((name) => kinds[name]!);
const work = values.short ? SHORT : FULL;
const [numPasses, numSteps] = values.short ? [1, 1] : [Number(values.passes), Number(values.steps)];
const maxWaitMs = Number(values['max-wait']) * 1000;

/** A measured step, with the cores that other processes used meanwhile. */
interface Measured extends LoopStep {
  readonly others: number;
}

for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)
  process.once(signal, () => process.exit(code));
for (const loop of loops)
  await loop.install().catch((error: Error) => refuse(`${loop.name} cannot be installed: ${error.message}`));
console.log(
  `${machineLine()}; other processes use ${(await waitUntilQuiet(maxWaitMs))?.toFixed(2) ?? 'n/a'} cores at the start`,
);
const measured = new Map<LoopKind, Measured[]>(loops.map((loop) => [loop, []]));
for (let pass = 0; pass < numPasses; pass++)
  for (let turn = 0; turn < loops.length; turn++) await measureLoop(loops[(turn + pass) % loops.length]!, pass);
printTables();

async function measureLoop(kind: LoopKind, pass: number): Promise<void> {
  const loop = await kind.open(work);
  try {
    if (pass === 0) console.log(`${kind.name}: ${loop.settings}`);
    for (let index = 0; index <= numSteps; index++) {
      if (index > 0) await waitUntilQuiet(maxWaitMs);
      const before = sampleCpu();
      // TRL's prompts are counted from its start, so the others' are, too.
      const step = requireWork(work, await loop.step(index));
      const others = otherCores(before, sampleCpu()) ?? 0;
      const label = index === 0 ? 'warming up' : `step ${index}/${numSteps}`;
      log(`pass ${pass + 1}/${numPasses}  ${kind.name}, ${label}: ${line(step)}; others ${others.toFixed(2)} cores`);
      if (index > 0) measured.get(kind)!.push({ ...step, others });
    }
  } finally {
    await loop.close();
  }
}

function line(step: LoopStep): string {
  const gap = step.meanGap === null ? '' : `, sampler and trainer differ by ${step.meanGap.toExponential(1)} nats`;
  return `${threeDigits(step.total)} s (sampling ${threeDigits(step.sampling)}, training ${threeDigits(step.training)}, publishing ${threeDigits(step.publishing)}, waiting ${threeDigits(step.waiting)}), ${step.promptTokens} prompt tokens, ${step.sampledTokens} sampled${gap}`;
}

function printTables(): void {
  const head = ['loop', 'step, s', 'sampling', 'training', 'publishing', 'waiting', 'prompt tokens', 'others, cores'];
  const rows = [...measured].map(([{ name }, steps]) => {
    const part = (read: (step: LoopStep) => number): string => {
      const value = median(steps.map(read));
      return `${threeDigits(value)} (${((100 * value) / median(steps.map(({ total }) => total))).toFixed(0)} %)`;
    };
    return [
      name,
      spread(steps.map(({ total }) => total)),
      part(({ sampling }) => sampling),
      part(({ training }) => training),
      part(({ publishing }) => publishing),
      part(({ waiting }) => waiting),
      String(median(steps.map(({ promptTokens }) => promptTokens))),
      Math.max(...steps.map(({ others }) => others)).toFixed(2),
    ];
  });
  console.log(
    `\nA step of ${work.numPrompts} × ${work.groupSize} rollouts and ${work.gradientSteps} gradient steps, seconds: median (smallest–largest), shares of the step.\n`,
  );
  console.log(markdownTable(head, rows));
  const totals = (kind: LoopKind): number => median(measured.get(kind)!.map(({ total }) => total));
  const ours = loops.filter((loop) => loop === kinds['exact'] || loop === kinds['bf16']);
  for (const own of ours)
    for (const other of loops.filter((loop) => !ours.includes(loop)))
      console.log(`${own.name} is ${(totals(other) / totals(own)).toFixed(2)} times as fast as ${other.name}`);
}

function refuse(message: string): never {
  console.error(message);
  process.exit(2);
}
