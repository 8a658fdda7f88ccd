import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, onTestFinished, test } from 'vitest';
import { FakePool } from './testing/fake-pool.ts';
import { hasOwnShapes, uniformAdapter } from './uniform-adapter.ts';

type Matrix = readonly (readonly number[])[];
type Tensors = Readonly<Record<string, Matrix>>;

const nameOf = (module: string, half: 'A' | 'B'): string => `base_model.model.model.${module}.lora_${half}.weight`;

function fileOf(tensors: Tensors, dtype = 'F32'): Buffer {
  const header: Record<string, object> = { __metadata__: { format: 'pt' } };
  let end = 0;
  for (const [name, rows] of Object.entries(tensors)) {
    const size = 4 * rows.length * rows[0]!.length;
    header[name] = { dtype, shape: [rows.length, rows[0]!.length], data_offsets: [end, (end += size)] };
  }
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  const values = Buffer.from(Float32Array.from(Object.values(tensors).flat(2)).buffer);
  return Buffer.concat([length, json, values]);
}

function tensorsOf(file: Buffer): Tensors {
  const start = 8 + Number(file.readBigUInt64LE());
  expect(start % 8).toBe(0);
  const header = JSON.parse(file.toString('utf8', 8, start)) as Record<
    string,
    { shape: [number, number]; data_offsets: [number, number] }
  >;
  return Object.fromEntries(
    Object.entries(header).flatMap(([name, { shape, data_offsets: at }]) =>
      name === '__metadata__'
        ? []
        : [
            [
              name,
              Array.from({ length: shape[0] }, (_, row) =>
                Array.from({ length: shape[1] }, (__, column) =>
                  file.readFloatLE(start + at[0] + 4 * (row * shape[1] + column)),
                ),
              ),
            ],
          ],
    ),
  );
}

/** scale · B · A */
const delta = (tensors: Tensors, module: string, scale: number): number[][] => {
  const [a, b] = [tensors[nameOf(module, 'A')]!, tensors[nameOf(module, 'B')]!];
  return b.map((row) => a[0]!.map((_, column) => scale * row.reduce((sum, one, r) => sum + one * a[r]![column]!, 0)));
};

const CONFIG = {
  peft_type: 'LORA',
  r: 2,
  lora_alpha: 6,
  target_modules: ['q_proj', 'down_proj'],
  use_rslora: true,
  rank_pattern: { 'layers.1.mlp.down_proj': 1, down_proj: 3 },
  alpha_pattern: { q_proj: -4 },
};
const MODULES = { 'layers.0.self_attn.q_proj': 2, 'layers.0.mlp.down_proj': 3, 'layers.1.mlp.down_proj': 1 };
const SCALES = [-4 / Math.sqrt(2), 6 / Math.sqrt(3), 6];

let seed = 1;
const next = (): number => Math.fround(Math.sin((seed += 1)));
const matrix = (rows: number, columns: number): Matrix =>
  Array.from({ length: rows }, () => Array.from({ length: columns }, next));
const TENSORS: Tensors = Object.fromEntries(
  Object.entries(MODULES).flatMap(([module, rank]) => [
    [nameOf(module, 'A'), matrix(rank, 5)],
    [nameOf(module, 'B'), matrix(4, rank)],
  ]),
);

test('an adapter with ranks and scales of its own computes the same with one rank and the scale 1', () => {
  const given = { config: Buffer.from(JSON.stringify(CONFIG)), weights: fileOf(TENSORS) };
  const { config, weights } = uniformAdapter(given);
  const uniform = JSON.parse(config.toString()) as typeof CONFIG;
  expect(uniform).toEqual({
    ...CONFIG,
    r: 3,
    lora_alpha: 3,
    use_rslora: false,
    rank_pattern: {},
    alpha_pattern: {},
  });
  expect([hasOwnShapes(CONFIG), hasOwnShapes(uniform)]).toEqual([true, false]);
  const written = tensorsOf(weights);
  for (const [index, module] of Object.keys(MODULES).entries()) {
    expect(written[nameOf(module, 'A')]).toHaveLength(3);
    const [wanted, found] = [delta(TENSORS, module, SCALES[index]!), delta(written, module, 1)];
    const difference = Math.max(...wanted.flatMap((row, i) => row.map((one, j) => Math.abs(one - found[i]![j]!))));
    console.log(`${module}: differs by at most ${difference}`);
    expect(difference).toBeLessThan(1e-6);
  }
});

test('such adapters reach the servers in that form, and others from their own folder', async () => {
  const [checkpoint, probeDirectory] = await Promise.all([1, 2].map(() => mkdtemp(join(tmpdir(), 'uniform-'))));
  onTestFinished(async () => {
    for (const folder of [checkpoint!, probeDirectory!]) await rm(folder, { recursive: true });
  });
  await writeFile(join(checkpoint!, 'adapter_config.json'), JSON.stringify(CONFIG));
  await writeFile(join(checkpoint!, 'adapter_model.safetensors'), fileOf(TENSORS));
  {
    await using pool = await FakePool.start({ backend: { probeDirectory: probeDirectory! } });
    const folder = join(probeDirectory!, 'vllm-adapters', 'one');
    await pool.backend.publish({ digest: 'one', directory: checkpoint! });
    expect([...pool.fake.adapters.values()]).toEqual([folder]);
    const config = JSON.parse(await readFile(join(folder, 'adapter_config.json'), 'utf8')) as object;
    expect(config).toMatchObject({ r: 3, lora_alpha: 3, use_rslora: false });
    await pool.backend.retire('one');
    expect(await readdir(join(probeDirectory!, 'vllm-adapters'))).toEqual([]);
  }
  await using pool = await FakePool.start();
  await expect(pool.backend.publish({ digest: 'one', directory: checkpoint! })).rejects.toThrow(
    /`rank_pattern` or `alpha_pattern`: set `--vllm-adapter-dir`/,
  );
  await writeFile(join(checkpoint!, 'adapter_model.safetensors'), fileOf(TENSORS, 'F16'));
  await using shared = await FakePool.start({ backend: { adapterDirectory: probeDirectory! } });
  await expect(shared.backend.publish({ digest: 'two', directory: checkpoint! })).rejects.toMatchObject({
    code: 'engine.adapter_unreadable',
  });
  await writeFile(join(checkpoint!, 'adapter_config.json'), JSON.stringify({ r: 2, lora_alpha: 6 }));
  await pool.backend.publish({ digest: 'three', directory: checkpoint! });
  expect([...pool.fake.adapters.values()]).toEqual([checkpoint]);
});
