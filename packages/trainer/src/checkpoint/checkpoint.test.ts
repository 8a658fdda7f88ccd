import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GgufFile } from '@trainyard/native';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type CheckpointContent, checkpointDigest, readCheckpoint, writeCheckpoint } from './checkpoint.ts';
import { replaceDirectory } from './durable-directory.ts';
import { initialLoraParameters } from '../model/lora-parameters.ts';
import type { LoraParameters } from '../model/policy-model.ts';
import { freshOptimizerState, type OptimizerState } from '../optimizer/adamw.ts';
import { seededRandom } from '../packing/random.ts';
import { readSafetensors, writeSafetensors } from './safetensors.ts';
import { BIGRAM_ARCHITECTURE, BIGRAM_LORA } from '../testing/bigram-policy.ts';

let directory: string;
let checkpoint: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'checkpoint-'));
  checkpoint = join(directory, 'checkpoint');
});
afterEach(() => rm(directory, { recursive: true }));

function trained() {
  const random = seededRandom(1);
  const lora = initialLoraParameters(BIGRAM_ARCHITECTURE, BIGRAM_LORA);
  const optimizer = freshOptimizerState(lora.tensors);
  optimizer.numSteps = 12;
  for (const { value } of lora.tensors) value.forEach((_, i) => (value[i] = random() - 0.5));
  for (const { m, v } of optimizer.moments.values()) {
    m.forEach((_, i) => (m[i] = random() - 0.5));
    v.forEach((_, i) => (v[i] = random()));
  }
  return { lora, optimizer };
}

function contentOf(lora: LoraParameters, optimizer: OptimizerState, metrics: CheckpointContent['metrics'] = {}) {
  return { lora, architecture: BIGRAM_ARCHITECTURE, optimizer, metrics };
}

function write() {
  const { lora, optimizer } = trained();
  const digest = writeCheckpoint(checkpoint, contentOf(lora, optimizer, { policy_loss: -0.5 }));
  return { lora, optimizer, digest };
}

describe('a checkpoint', () => {
  it('comes back with weights, momentum and step count', () => {
    const { lora, optimizer, digest } = write();
    const other = initialLoraParameters(BIGRAM_ARCHITECTURE, BIGRAM_LORA);
    expect(readCheckpoint(checkpoint, other)).toEqual(optimizer);
    expect(other.tensors.map(({ value }) => value)).toEqual(lora.tensors.map(({ value }) => value));
    expect(checkpointDigest(checkpoint)).toBe(digest);
  });

  it('has the files of PEFT and llama.cpp', () => {
    const { lora } = write();
    expect(readdirSync(checkpoint).toSorted()).toEqual([
      'SHA256SUMS',
      'adapter.gguf',
      'adapter_config.json',
      'adapter_model.safetensors',
      'digest',
      'metrics.json',
      'optimizer.safetensors',
    ]);
    const config: unknown = JSON.parse(readFileSync(join(checkpoint, 'adapter_config.json'), 'utf8'));
    expect(config).toMatchObject({
      peft_type: 'LORA',
      r: 2,
      lora_alpha: 4,
      target_modules: ['q_proj'],
      task_type: 'CAUSAL_LM',
    });
    const { tensors, metadata } = readSafetensors(join(checkpoint, 'adapter_model.safetensors'));
    expect(metadata).toEqual({ format: 'pt', lora_alpha: '4' });
    expect(tensors.get('base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight')).toMatchObject({
      dims: [2, 8],
      data: lora.tensors[0]!.value,
    });
    expect(tensors.get('base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight')).toMatchObject({
      dims: [8, 2],
      data: lora.tensors[1]!.value,
    });

    const gguf = GgufFile.open(join(checkpoint, 'adapter.gguf'));
    expect(Object.fromEntries(gguf.metadata)).toMatchObject({
      'general.type': 'adapter',
      'general.architecture': 'llama',
      'adapter.type': 'lora',
      'adapter.lora.alpha': 4,
    });
    expect(gguf.tensors.get('blk.0.attn_q.weight.lora_a')!.dims).toEqual([8, 2]);
    expect(gguf.readF32('blk.0.attn_q.weight.lora_a')).toEqual(lora.tensors[0]!.value);
    // Heads of four rows, from halves to interleaved: 0 2 1 3.
    const b = lora.tensors[1]!.value;
    const rows = [0, 2, 1, 3, 4, 6, 5, 7].flatMap((row) => [...b.subarray(2 * row, 2 * row + 2)]);
    expect([...gguf.readF32('blk.0.attn_q.weight.lora_b')]).toEqual(rows);
    gguf.close();
  });

  it('of the same weights has another digest under another scale', () => {
    const { lora, optimizer } = trained();
    const digestOf = (alpha: number): string =>
      writeCheckpoint(checkpoint, contentOf({ ...lora, config: { ...BIGRAM_LORA, alpha } }, optimizer));
    expect(digestOf(0.04)).not.toBe(digestOf(4));
    expect(digestOf(4)).toBe(digestOf(4));
  });

  it('from before its digest covered the scale is read', () => {
    const { lora } = write();
    const path = join(checkpoint, 'adapter_model.safetensors');
    const { tensors } = readSafetensors(path);
    rmSync(path);
    rmSync(join(checkpoint, 'SHA256SUMS'));
    writeFileSync(join(checkpoint, 'digest'), `${writeSafetensors(path, [...tensors.values()], { format: 'pt' })}\n`);
    const other = initialLoraParameters(BIGRAM_ARCHITECTURE, BIGRAM_LORA);
    readCheckpoint(checkpoint, other);
    expect(other.tensors.map(({ value }) => value)).toEqual(lora.tensors.map(({ value }) => value));
  });

  it('restarts the optimizer if its state was deleted or belongs to another objective', () => {
    const { lora } = write();
    const path = join(checkpoint, 'optimizer.safetensors');
    const { tensors } = readSafetensors(path);
    rmSync(path);
    expect(readCheckpoint(checkpoint, lora)).toEqual(freshOptimizerState(lora.tensors));
    rmSync(join(checkpoint, 'SHA256SUMS'));
    writeSafetensors(path, [...tensors.values()], { objective: 'sft', num_steps: '5' });
    expect(readCheckpoint(checkpoint, lora)).toEqual(freshOptimizerState(lora.tensors));
  });

  const file = (name: string): string => join(checkpoint, name);
  const flipByte = (name: string, at: number): void => {
    const bytes = readFileSync(file(name));
    bytes[bytes.length + at]! ^= 1;
    writeFileSync(file(name), bytes);
  };
  /** Error of reading the damaged checkpoint, which changed nothing. */
  const refusalAfter = (damage: () => void): unknown => {
    damage();
    const lora = initialLoraParameters(BIGRAM_ARCHITECTURE, BIGRAM_LORA);
    const before = lora.tensors.map(({ value }) => value.slice());
    try {
      readCheckpoint(checkpoint, lora);
      return null;
    } catch (error) {
      expect(lora.tensors.map(({ value }) => value)).toEqual(before);
      return error;
    }
  };
  const refused = (code: string, reason: RegExp): object => ({
    code,
    message: expect.stringMatching(reason) as string,
  });
  const truncate = (name: string): void => writeFileSync(file(name), readFileSync(file(name)).subarray(0, -4));
  const replaceByOther = (name: string): void => {
    const other = join(directory, 'other');
    const { lora, optimizer } = trained();
    for (const tensor of lora.tensors) tensor.value.fill(1);
    optimizer.moments.forEach(({ m }) => m.fill(1));
    writeCheckpoint(other, contentOf(lora, optimizer, { policy_loss: 1 }));
    writeFileSync(file(name), readFileSync(join(other, name)));
  };
  const FILES = ['adapter_model.safetensors', 'adapter_config.json', 'optimizer.safetensors'];
  const damages: [string, (name: string) => void][] = [
    ['has a flipped bit', (name) => flipByte(name, -3)],
    ['is cut off', truncate],
    ['is empty', (name) => writeFileSync(file(name), '')],
    ['is overwritten', (name) => writeFileSync(file(name), Buffer.alloc(readFileSync(file(name)).length))],
  ];
  it.each(FILES.flatMap((name) => damages.map(([what, damage]) => [name, what, damage] as const)))(
    'with a %s that %s is refused with the name of that file, and changes nothing',
    (name, _what, damage) => {
      write();
      expect(refusalAfter(() => damage(name))).toMatchObject(
        refused('trainer.checkpoint_damaged', new RegExp(`^${name} is damaged: its SHA-256 is `)),
      );
    },
  );
  it.each(['adapter_model.safetensors', 'optimizer.safetensors', 'SHA256SUMS'])(
    'with a %s of another step is refused',
    (name) => {
      write();
      expect(refusalAfter(() => replaceByOther(name))).toMatchObject(
        refused('trainer.checkpoint_damaged', / is damaged: its SHA-256 is /),
      );
    },
  );
  it.each<[string, () => void]>([
    ['is cut off', () => truncate('SHA256SUMS')],
    ['is empty', () => writeFileSync(file('SHA256SUMS'), '')],
    ['is binary', () => writeFileSync(file('SHA256SUMS'), Buffer.alloc(100, 255))],
  ])('with SHA256SUMS that %s is refused', (_name, damage) => {
    write();
    expect(refusalAfter(damage)).toMatchObject(refused('trainer.checkpoint_damaged', /^SHA256SUMS is damaged: /));
  });

  it('has digests that sha256sum accepts', () => {
    write();
    const checked = spawnSync('sha256sum', ['-c', 'SHA256SUMS'], { cwd: checkpoint, encoding: 'utf8' });
    expect([checked.status, checked.stdout.match(/: OK/g)?.length]).toEqual([0, 6]);
  });

  // As written by earlier releases.
  const forgetSums = (): void => rmSync(file('SHA256SUMS'));
  it.each<[string, () => void, RegExp]>([
    ['is absent', () => rmSync(checkpoint, { recursive: true }), /digest/],
    ['lacks its weights', () => rmSync(file('adapter_model.safetensors')), /ENOENT/],
    ['has a broken configuration', () => (forgetSums(), writeFileSync(file('adapter_config.json'), '{')), /not JSON/],
    [
      'has another rank',
      () => (forgetSums(), writeFileSync(file('adapter_config.json'), '{"r": 16}')),
      /has r 16, the model's has 2/,
    ],
    ['has a broken optimizer', () => (forgetSums(), writeFileSync(file('optimizer.safetensors'), 'no')), /too few/],
  ])('that %s is refused, and changes nothing', (_name, damage, reason) => {
    write();
    expect(refusalAfter(damage)).toMatchObject(refused('trainer.checkpoint_unreadable', reason));
  });

  it('with values that are not finite is refused', () => {
    const { lora, optimizer } = trained();
    lora.tensors[0]!.value[3] = Infinity;
    writeCheckpoint(checkpoint, contentOf(lora, optimizer));
    expect(() => readCheckpoint(checkpoint, lora)).toThrow(/not finite/);
  });
});

describe('replaceDirectory', () => {
  it('a failed fill leaves nothing new, and keeps the old directory', () => {
    writeKept();
    expect(() =>
      replaceDirectory(checkpoint, (temporary) => {
        writeFileSync(join(temporary, 'half'), 'half');
        throw new Error('interrupted');
      }),
    ).toThrow('interrupted');
    expect(readdirSync(directory)).toEqual(['checkpoint']);
    expect(existsSync(join(checkpoint, 'kept'))).toBe(true);
  });

  it('replaces an existing directory, and the remains of a crash', () => {
    writeKept();
    mkdirSync(`${checkpoint}.partial`);
    writeFileSync(join(`${checkpoint}.partial`, 'leftover'), '');
    replaceDirectory(checkpoint, (temporary) => writeFileSync(join(temporary, 'new'), ''));
    expect(readdirSync(directory)).toEqual(['checkpoint']);
    expect(readdirSync(checkpoint)).toEqual(['new']);
  });

  // /dev/full answers every write with ENOSPC, like a full disk.
  it.skipIf(!existsSync('/dev/full'))('reports a full disk by its own code, with the temporary files removed', () => {
    const attempt = (): void => replaceDirectory(checkpoint, () => writeFileSync('/dev/full', 'x'));
    expect(attempt).toThrow(expect.objectContaining({ code: 'trainer.disk_full' }));
    expect(readdirSync(directory)).toEqual([]);
  });

  function writeKept(): void {
    mkdirSync(checkpoint);
    writeFileSync(join(checkpoint, 'kept'), '');
  }
});
