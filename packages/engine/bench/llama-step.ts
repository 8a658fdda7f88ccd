/**
 * Milliseconds of processor time per decode step of llama.cpp, by the place of its sequences' cells and by rows
 * per call: `node --conditions=@trainyard/source packages/engine/bench/llama-step.ts MODEL.gguf [rounds]`.
 *
 * One thread and processor time are the least affected by other processes. Cases of a group alternate; the
 * output is their minimum and median. Rows want no logits, because the head costs the same wherever cells are.
 */
import { parseArgs } from 'node:util';
import { LlamaContext, LlamaModel } from '@trainyard/native';

const NUM_GROUPS = 8;
const GROUP_SIZE = 8;
const PROMPT_TOKENS = 376;
const OWN_TOKENS = 32;
const LENGTH = PROMPT_TOKENS + OWN_TOKENS;
const NUM_CHATS = 32;
/** Finished sequences of {@link LENGTH} tokens: 4,080 cells. */
const NUM_STALE = 10;
const SEQUENCES = 128;
const SPARE = SEQUENCES - 1;

const { positionals } = parseArgs({ allowPositionals: true });
const [path, rounds = '5'] = positionals;
if (path === undefined) throw new Error('which model? Give its GGUF file');
using model = LlamaModel.load(path);

const tokenAt = (i: number): number => (1000 + i * 7919) % model.vocabSize;
const chatLength = (chat: number): number => 100 + Math.round((100 * chat) / (NUM_CHATS - 1));
const whole = computed();

class Case {
  readonly #context: LlamaContext;
  readonly #lengths = new Map<number, number>();

  constructor(contextTokens: number) {
    const options = { contextTokens, maxSequences: SEQUENCES, batchTokens: 128, numThreads: 1 };
    this.#context = new LlamaContext(model, options);
  }

  stale(): this {
    for (let i = 0; i < NUM_STALE; i++) this.#fill(100 + i, LENGTH);
    return this;
  }

  groups(count: number): this {
    for (let first = 0; first < count * GROUP_SIZE; first += GROUP_SIZE) {
      for (let sequence = first; sequence < first + GROUP_SIZE; sequence++) {
        this.#fill(sequence, LENGTH);
        if (sequence > first) this.#context.copySequence(first, sequence, PROMPT_TOKENS);
      }
    }
    return this;
  }

  chats(first: number, count: number): this {
    for (let i = 0; i < count; i++) this.#fill(i, chatLength(first + i));
    return this;
  }

  /** Computes one row of each of the first sequences, `rowsOfCall` per call, then restores the memory. */
  step(numRows: number, rowsOfCall: number): void {
    const { batch } = this.#context;
    for (let from = 0; from < numRows; from += rowsOfCall) {
      batch.clear();
      for (let sequence = from; sequence < Math.min(numRows, from + rowsOfCall); sequence++)
        batch.add(tokenAt(sequence), this.#lengths.get(sequence)!, sequence, false);
      this.#context.decode();
    }
    for (let sequence = 0; sequence < numRows; sequence++)
      this.#context.removeSequence(sequence, this.#lengths.get(sequence)!);
  }

  close(): void {
    this.#context.close();
  }

  #fill(sequence: number, length: number): void {
    this.#context.restoreSequence(SPARE, whole);
    this.#context.copySequence(SPARE, sequence, length);
    this.#context.removeSequence(SPARE, 0);
    this.#lengths.set(sequence, length);
  }
}

/** State of one computed sequence of {@link LENGTH} tokens. */
function computed(): Uint8Array {
  using context = new LlamaContext(model, { contextTokens: 512, maxSequences: 1, batchTokens: 512, numThreads: 1 });
  for (let i = 0; i < LENGTH; i++) context.batch.add(tokenAt(i), i, 0, false);
  context.decode();
  return context.saveSequence(0);
}

function cpuMs(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

function compare(title: string, cases: Readonly<Record<string, () => void>>): void {
  const times = Object.entries(cases).map(([name, work]) => ({ name, work, ms: [] as number[] }));
  for (const { work } of times) work();
  for (let round = 0; round < Number(rounds); round++) for (const { work, ms } of times) ms.push(cpuMs(work));
  console.log(title);
  for (const { name, ms } of times) {
    const sorted = ms.toSorted((a, b) => a - b);
    const [least, median] = [sorted[0]!, sorted[sorted.length >> 1]!].map((value) => value.toFixed(1).padStart(8));
    console.log(`  ${name.padEnd(52)}${least}${median}`);
  }
}

const numRows = NUM_GROUPS * GROUP_SIZE;
const one = new Case(16_384).groups(NUM_GROUPS);
const oneStale = new Case(16_384).stale().groups(NUM_GROUPS);
const each = Array.from({ length: NUM_GROUPS }, () => new Case(1_536).groups(1));
compare(`${NUM_GROUPS} groups × ${GROUP_SIZE} on ${PROMPT_TOKENS} shared tokens, ${OWN_TOKENS} own`, {
  'one context, one call': () => one.step(numRows, numRows),
  'one context, calls of 32 rows': () => one.step(numRows, 32),
  'one context, calls of 8 rows': () => one.step(numRows, 8),
  'and 4,080 stale cells, one call': () => oneStale.step(numRows, numRows),
  'and 4,080 stale cells, calls of 32 rows': () => oneStale.step(numRows, 32),
  'a context for each group': () => each.forEach((context) => context.step(GROUP_SIZE, GROUP_SIZE)),
});
for (const context of [one, oneStale, ...each]) context.close();

const chats = new Case(16_384).chats(0, NUM_CHATS);
const chatsStale = new Case(16_384).stale().chats(0, NUM_CHATS);
const eights = [0, 8, 16, 24].map((first) => new Case(2_048).chats(first, 8));
compare(`${NUM_CHATS} chats of 100 to 200 tokens`, {
  'one context': () => chats.step(NUM_CHATS, NUM_CHATS),
  'and 4,080 stale cells': () => chatsStale.step(NUM_CHATS, NUM_CHATS),
  'contexts of eight': () => eights.forEach((context) => context.step(8, 8)),
});

const lone = new Case(16_384).chats(NUM_CHATS - 1, 1);
compare('one stream of 200 tokens', {
  'alone in its context': () => lone.step(1, 1),
  'next to the cells of 31 chats': () => chats.step(1, 1),
  'and 4,080 stale cells': () => chatsStale.step(1, 1),
});
for (const context of [chats, chatsStale, ...eights, lone]) context.close();
