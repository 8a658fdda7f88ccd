import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { GgufFile } from '@trainyard/native';
import { LEAST_LORA_ALPHA } from '@trainyard/protocol/fields';
import { type LinearName, linearNames, type LoraConfig, moduleShape, readWeights } from '@trainyard/transformer';
import { randomSource, TINY_ARCHITECTURES, writeTinyGguf } from '@trainyard/transformer/testing';
import { readAdapter, readCheckpoint, writeCheckpoint } from '../checkpoint/checkpoint.ts';
import { initialLoraParameters } from '../model/lora-parameters.ts';
import { randomizeAdapter } from '../testing/randomize-adapter.ts';
import { freshOptimizerState } from '../optimizer/adamw.ts';
import { readSafetensors, writeSafetensors, type NamedTensor } from '../checkpoint/safetensors.ts';
import { SafetensorsWriter } from '../checkpoint/safetensors-writer.ts';
import { parityRow } from '../export/parity.ts';
import { OrtPolicyModel } from '../lanes/ort-policy-model.ts';
import { trainableArchitecture } from '../model/trainable-architecture.ts';
import { importAdapter } from './import-adapter.ts';
import { importedShape } from './imported-shape.ts';
import { readPeftConfig } from './peft-config.ts';

const scratch = mkdtempSync(join(tmpdir(), 'trainyard-import-'));
afterAll(() => rmSync(scratch, { recursive: true }));
const modelPath = join(scratch, 'base.gguf');
writeTinyGguf(modelPath, TINY_ARCHITECTURES.llama);

const LORA = { rank: 2, alpha: 6, targets: ['q', 'down'], initSeed: 0 } as const;
const parameters = initialLoraParameters(TINY_ARCHITECTURES.llama, LORA);
randomizeAdapter(parameters, randomSource(5));
const trained = join(scratch, 'trained');
const digest = writeCheckpoint(trained, {
  lora: parameters,
  architecture: TINY_ARCHITECTURES.llama,
  optimizer: freshOptimizerState(parameters.tensors),
  metrics: {},
});
const weightsPath = join(trained, 'adapter_model.safetensors');
const config = readFileSync(join(trained, 'adapter_config.json'), 'utf8');
const tensors = [...readSafetensors(weightsPath).tensors.values()];

function importFrom(fields: { config?: string; weightsPath?: string }) {
  const outputDirectory = mkdtempSync(join(scratch, 'imported-'));
  return { outputDirectory, ...importAdapter({ modelPath, config, weightsPath, outputDirectory, ...fields }) };
}

function refusal(fields: { config?: string; weightsPath?: string }): string {
  try {
    importFrom(fields);
  } catch (error) {
    expect(error).toMatchObject({ code: 'trainer.adapter_invalid' });
    return (error as Error).message;
  }
  throw new Error('it was imported');
}

const withConfig = (changes: object) => ({ config: JSON.stringify({ ...(JSON.parse(config) as object), ...changes }) });

function withTensors(change: (tensors: NamedTensor[]) => NamedTensor[]) {
  const path = join(mkdtempSync(join(scratch, 'weights-')), 'file.safetensors');
  writeSafetensors(path, change([...tensors]), {});
  return { weightsPath: path };
}

/** Product of both halves and the scale, by full module name. */
function deltas(
  given: readonly NamedTensor[],
  scaleOf: (module: string, rank: number) => number,
): Map<string, number[]> {
  const found = new Map<string, number[]>();
  for (const a of given) {
    const module = /^base_model\.model\.(.*)\.lora_A\.weight$/.exec(a.name)?.[1];
    if (module === undefined) continue;
    const b = given.find(({ name }) => name === `base_model.model.${module}.lora_B.weight`)!;
    const [rank, numIn] = a.dims as [number, number];
    const delta = Array.from({ length: b.dims[0]! * numIn }, (_, at) => {
      const [row, column] = [Math.floor(at / numIn), at % numIn];
      let sum = 0;
      for (let k = 0; k < rank; k++) sum += b.data[row * rank + k]! * a.data[k * numIn + column]!;
      return sum * scaleOf(module, rank);
    });
    found.set(module, delta);
  }
  return found;
}

const DIMS = { 'self_attn.q_proj': [32, 32], 'mlp.down_proj': [64, 32] } as const;

/** @param rankOf null: no adapter */
function saved(rankOf: (module: string) => number | null): NamedTensor[] {
  const random = randomSource(3);
  const made: NamedTensor[] = [];
  for (const layer of [0, 1])
    for (const [linear, [numIn, numOut]] of Object.entries(DIMS)) {
      const rank = rankOf(`model.layers.${layer}.${linear}`);
      if (rank === null) continue;
      for (const [half, dims] of [
        ['A', [rank, numIn]],
        ['B', [numOut, rank]],
      ] as const) {
        const data = Float32Array.from({ length: dims[0] * dims[1] }, random);
        made.push({ name: `base_model.model.model.layers.${layer}.${linear}.lora_${half}.weight`, dims, data });
      }
    }
  return made;
}

/** Scales of written modules, by their full names. */
const scaleIn = (lora: LoraConfig) => (module: string) => {
  const [, layer, name] = /^model\.layers\.(\d+)\..*\.(\w+)_proj$/.exec(module) ?? [];
  return moduleShape(lora, Number(layer), name as LinearName).scale;
};

const every = () => 2;
const plain = (_module: string, rank: number) => 6 / rank;
const UNSLOTH =
  '(?:.*?(?:language|text).*?(?:self_attn|mlp).*?(?:q_proj|down_proj).*?)|(?:\\bmodel\\.layers\\.[\\d]{1,}\\.(?:self_attn|mlp)\\.(?:(?:q_proj|down_proj)))';

describe('an adapter with different modules', () => {
  test.each<[string, object, (module: string) => number | null, (module: string, rank: number) => number, object]>([
    ['rank-stabilised', { use_rslora: true }, every, (_, rank) => 6 / Math.sqrt(rank), { use_rslora: true }],
    ['targets as an expression', { target_modules: UNSLOTH }, every, plain, {}],
    [
      'targets as an expression with names of Python',
      { target_modules: '(?i)(?P<all>.*\\.(Q|down)_proj)\\Z' },
      every,
      plain,
      {},
    ],
    [
      'targets as paths',
      { target_modules: ['self_attn.q_proj', 'model.layers.1.mlp.down_proj'] },
      (m) => (m === 'model.layers.0.mlp.down_proj' ? null : 2),
      plain,
      {},
    ],
    ['a target that the model has not', { target_modules: ['q_proj', 'down_proj', 'gate_up_proj'] }, every, plain, {}],
    ['excluded modules that are no target', { exclude_modules: ['lm_head', 'vision'] }, every, plain, {}],
    [
      'an excluded module',
      { exclude_modules: ['layers.0.mlp.down_proj'] },
      (m) => (m === 'model.layers.0.mlp.down_proj' ? null : 2),
      plain,
      {},
    ],
    [
      'modules excluded by an expression',
      { exclude_modules: '.*layers\\.1\\..*' },
      (m) => (m.includes('.1.') ? null : 2),
      plain,
      {},
    ],
    ['all layers by their numbers', { layers_to_transform: [0, 1], layers_pattern: 'layers' }, every, plain, {}],
    ['one layer', { layers_to_transform: 1 }, (m) => (m.includes('.0.') ? null : 2), plain, {}],
    [
      'rank patterns equal to the rank',
      { rank_pattern: { q_proj: 2 }, alpha_pattern: { q_proj: 6 } },
      every,
      plain,
      {},
    ],
    [
      'a larger rank',
      { rank_pattern: { q_proj: 5 } },
      (m) => (m.endsWith('q_proj') ? 5 : 2),
      plain,
      { rank_pattern: { q_proj: 5 } },
    ],
    [
      'a smaller rank in one layer',
      { rank_pattern: { 'model.layers.0.mlp.down_proj': 1 } },
      (m) => (m === 'model.layers.0.mlp.down_proj' ? 1 : 2),
      plain,
      { rank_pattern: { 'layers.0.mlp.down_proj': 1 } },
    ],
    [
      'the first pattern that matches',
      { rank_pattern: { '.*down_proj': 3, down_proj: 1 } },
      (m) => (m.endsWith('q_proj') ? 2 : 3),
      plain,
      { rank_pattern: { down_proj: 3 } },
    ],
    ['a pattern from the start', { rank_pattern: { '^q_proj': 4 } }, every, plain, {}],
    [
      'another alpha',
      { alpha_pattern: { 'layers.1.self_attn.q_proj': 11 } },
      every,
      (m, rank) => (m === 'model.layers.1.self_attn.q_proj' ? 11 : 6) / rank,
      { alpha_pattern: { 'layers.1.self_attn.q_proj': 11 } },
    ],
    [
      'an alpha of 0 and a negative one',
      { alpha_pattern: { q_proj: 0, 'layers.0.mlp.down_proj': -3 } },
      every,
      (m, rank) => (m.endsWith('q_proj') ? 0 : m.includes('.0.') ? -3 : 6) / rank,
      { alpha_pattern: { 'layers.0.mlp.down_proj': -3, q_proj: 0 } },
    ],
    [
      'all of it, rank-stabilised',
      {
        use_rslora: true,
        rank_pattern: { q_proj: 4 },
        alpha_pattern: { 'layers.0.*': 3 },
        exclude_modules: ['layers.1.mlp.down_proj'],
      },
      (m) => (m === 'model.layers.1.mlp.down_proj' ? null : m.endsWith('q_proj') ? 4 : 2),
      (m, rank) => (m.includes('.0.') ? 3 : 6) / Math.sqrt(rank),
      {
        use_rslora: true,
        rank_pattern: { q_proj: 4 },
        alpha_pattern: { 'layers.0.self_attn.q_proj': 3, 'layers.0.mlp.down_proj': 3 },
      },
    ],
  ])(
    '(%s) keeps the ranks and scales of its modules, and computes the same',
    (_name, options, rankOf, scaleOf, kept) => {
      const sent = saved(rankOf);
      const text = JSON.stringify({ ...(JSON.parse(config) as object), ...options });
      const imported = importFrom({ config: `\uFEFF${text}`, ...withTensors(() => sent) });
      expect(imported.lora).toMatchObject({ rank: 2, alpha: 6, targets: ['q', 'down'] });
      const folder = imported.outputDirectory;
      const { use_rslora, rank_pattern, alpha_pattern } = JSON.parse(
        readFileSync(join(folder, 'adapter_config.json'), 'utf8'),
      ) as Record<string, unknown>;
      expect({ use_rslora, rank_pattern, alpha_pattern }).toEqual({
        use_rslora: undefined,
        rank_pattern: undefined,
        alpha_pattern: undefined,
        ...kept,
      });
      const written = readSafetensors(join(folder, 'adapter_model.safetensors'));
      const computed = deltas([...written.tensors.values()], scaleIn(imported.lora));
      const wanted = deltas(sent, scaleOf);
      expect(computed.size).toBe(4);
      for (const [module, delta] of computed) {
        const expected = wanted.get(module) ?? delta.map(() => 0);
        const error = Math.max(...delta.map((value, at) => Math.abs(value - expected[at]!)));
        expect(error, module).toBeLessThan(1e-6);
      }
      const again = importFrom({
        config: readFileSync(join(folder, 'adapter_config.json'), 'utf8'),
        weightsPath: join(folder, 'adapter_model.safetensors'),
      });
      expect(again).toMatchObject({ lora: imported.lora, digest: imported.digest });
    },
  );

  test('has no gradient for its missing modules when it is trained', async () => {
    const rankOf = (m: string) => (m === 'model.layers.0.mlp.down_proj' ? null : m.endsWith('q_proj') ? 4 : 2);
    const options = { rank_pattern: { q_proj: 4 }, exclude_modules: ['layers.0.mlp.down_proj'] };
    const imported = importFrom({ ...withConfig(options), ...withTensors(() => saved(rankOf)) });
    using file = GgufFile.open(modelPath);
    const architecture = trainableArchitecture(file);
    const policy = new OrtPolicyModel(architecture, readWeights(file, architecture), {
      lora: imported.lora,
      numThreads: 1,
    });
    readAdapter(imported.outputDirectory, policy.lora, imported.digest);
    const row = parityRow(Int32Array.from({ length: 12 }, (_, index) => index));
    await policy.forward(row, { keepForBackward: true });
    await policy.backward(new Float32Array(row.targets.length).fill(-1));
    let [numLacking, numTrained] = [0, 0];
    for (const { value, gradient } of policy.lora.tensors)
      for (const [index, one] of value.entries()) {
        if (one !== 0) numTrained += gradient[index] === 0 ? 0 : 1;
        else if (gradient[index] === 0) numLacking += 1;
      }
    policy.close();
    // All of down_proj in layer 0.
    expect(numLacking).toBe(2 * (64 + 32));
    expect(numTrained).toBeGreaterThan(100);
  });

  test('with another rank than its configuration is refused, naming the tensor', () => {
    const fields = { ...withConfig({ rank_pattern: { q_proj: 4 } }), ...withTensors(() => saved(every)) };
    expect(refusal(fields)).toMatch(
      /q_proj\.lora_A\.weight is \[2, 32\], expected \[4, 32\] for this base model and r 4/,
    );
  });
});

describe.each([
  ['experts in every block', []],
  ['experts in one block of two', [1]],
])('of a model with %s', (_, denseLayers) => {
  const experts = { ...TINY_ARCHITECTURES.qwen3moe.experts!, denseLayers };
  const architecture = { ...TINY_ARCHITECTURES.qwen3moe, experts };
  const directory = mkdtempSync(join(scratch, 'experts-'));
  const path = `${directory}.gguf`;
  writeTinyGguf(path, architecture);
  const lora = { rank: 2, alpha: 6, targets: linearNames(architecture), initSeed: 0 };

  test('an adapter has modules of experts neither in its files nor when it comes back', () => {
    const own = initialLoraParameters(architecture, lora);
    const names = [...new Set(own.tensors.map(({ layer, linear }) => `${layer} ${linear}`))];
    expect(names).toHaveLength(denseLayers.length === 0 ? 8 : 11);
    randomizeAdapter(own, randomSource(5));
    const optimizer = freshOptimizerState(own.tensors);
    const saved = writeCheckpoint(directory, { lora: own, architecture, optimizer, metrics: {} });
    const text = readFileSync(join(directory, 'adapter_config.json'), 'utf8');
    expect((JSON.parse(text) as { exclude_modules?: string }).exclude_modules).toBe(
      denseLayers.length === 0 ? undefined : String.raw`.*\.experts\..*`,
    );
    const outputDirectory = mkdtempSync(join(scratch, 'imported-'));
    const file = join(directory, 'adapter_model.safetensors');
    const imported = importAdapter({ modelPath: path, config: text, weightsPath: file, outputDirectory });
    expect(imported.digest).toBe(saved);
  });

  test('an adapter of experts is refused, naming the tensor', () => {
    const name = 'base_model.model.model.layers.0.mlp.experts.1.up_proj.lora_A.weight';
    const extra = { name, dims: [2, 32], data: new Float32Array(64) };
    const file = join(directory, 'experts.safetensors');
    const own = readSafetensors(join(directory, 'adapter_model.safetensors')).tensors.values();
    writeSafetensors(file, [...own, extra], {});
    const text = readFileSync(join(directory, 'adapter_config.json'), 'utf8');
    const outputDirectory = mkdtempSync(join(scratch, 'imported-'));
    expect(() => importAdapter({ modelPath: path, config: text, weightsPath: file, outputDirectory })).toThrow(
      /experts\.1\.up_proj\.lora_A\.weight.* is not part of a LoRA adapter of this base model/,
    );
  });
});

test('an adapter of dense feed-forwards leaves out experts', () => {
  const experts = { ...TINY_ARCHITECTURES.qwen3moe.experts!, denseLayers: [1] };
  const architecture = { ...TINY_ARCHITECTURES.qwen3moe, experts };
  const lora = initialLoraParameters(architecture, { rank: 2, alpha: 6, targets: ['gate', 'down'], initSeed: 0 });
  const directory = mkdtempSync(join(scratch, 'dense-'));
  writeCheckpoint(directory, { lora, architecture, optimizer: freshOptimizerState(lora.tensors), metrics: {} });
  const config = JSON.parse(readFileSync(join(directory, 'adapter_config.json'), 'utf8')) as object;
  expect(config).toMatchObject({ exclude_modules: String.raw`.*\.experts\..*` });
});

describe('an adapter of PEFT', () => {
  test('comes back as a checkpoint of the same digest, for both kinds of reader', () => {
    const imported = importFrom({});
    expect(imported).toMatchObject({ lora: LORA, digest });
    const same = ['adapter.gguf', 'adapter_config.json', 'adapter_model.safetensors', 'digest'];
    expect(readdirSync(imported.outputDirectory).toSorted()).toEqual(['SHA256SUMS', ...same, 'metrics.json']);
    for (const file of same) {
      expect(readFileSync(join(imported.outputDirectory, file))).toEqual(readFileSync(join(trained, file)));
    }
    const other = initialLoraParameters(TINY_ARCHITECTURES.llama, imported.lora);
    expect(readCheckpoint(imported.outputDirectory, other)).toEqual(freshOptimizerState(other.tensors));
    expect(other.tensors.map(({ value }) => value)).toEqual(parameters.tensors.map(({ value }) => value));
  });

  test('in halves is widened, and options that change nothing are accepted', () => {
    const path = join(scratch, 'halves.safetensors');
    const shapes = tensors.toReversed().map(({ name, dims }) => ({ name, dims, dtype: 'F16' }) as const);
    const writer = new SafetensorsWriter(path, shapes, { format: 'pt' });
    for (const { data } of tensors.toReversed()) writer.add(data);
    writer.finish();
    const options = {
      auto_mapping: null,
      use_dora: false,
      modules_to_save: null,
      rank_pattern: {},
      lora_dropout: 0.1,
      init_lora_weights: true,
      peft_version: '0.18.0',
      megatron_core: 'megatron.core',
      target_modules: ['down_proj', 'q_proj'],
    };
    const imported = importFrom({ weightsPath: path, ...withConfig(options) });
    expect(imported.lora).toEqual(LORA);
    const read = readSafetensors(join(imported.outputDirectory, 'adapter_model.safetensors'));
    expect([...read.tensors.values()]).toEqual(
      tensors.map((tensor) => ({ ...tensor, data: tensor.data.map(Math.f16round) })),
    );
  });

  test('of the least alpha has its scale in single precision, too', () => {
    const { outputDirectory, lora } = importFrom(withConfig({ lora_alpha: LEAST_LORA_ALPHA }));
    expect(lora.alpha).toBe(LEAST_LORA_ALPHA);
    const file = GgufFile.open(join(outputDirectory, 'adapter.gguf'));
    expect(Number(file.metadata.get('adapter.lora.alpha')) / LEAST_LORA_ALPHA).toBeCloseTo(1, 6);
    file.close();
  });

  test.each<[object, RegExp]>([
    [{ peft_type: 'IA3' }, /^peft_type must be "LORA", got "IA3"/],
    [{ task_type: 'SEQ_CLS' }, /^task_type must be "CAUSAL_LM", got "SEQ_CLS"/],
    [{ use_dora: true }, /^use_dora is not supported/],
    [{ use_rslora: 1 }, /^use_rslora must be true or false, got 1/],
    [{ bias: 'all' }, /^bias must be "none", got "all"/],
    [{ modules_to_save: ['lm_head'] }, /^modules_to_save is not supported.*got \["lm_head"\]/],
    [{ rank_pattern: { q_proj: 257 } }, /^rank_pattern must be a whole number from 1 to 256, got 257/],
    [{ rank_pattern: ['q_proj'] }, /^rank_pattern must be an object of modules and values/],
    [{ rank_pattern: { '(': 4 } }, /^rank_pattern has an invalid expression, /],
    [{ alpha_pattern: { q_proj: '4' } }, /^alpha_pattern must be a number from -1000000 to 1000000, got "4"/],
    [{ layers_to_transform: ['0'] }, /^layers_to_transform must be a whole number or a list of them, got \["0"\]/],
    [{ layers_to_transform: [0], layers_pattern: 1 }, /^layers_pattern must be a name or a list of names, got 1/],
    [
      { layers_to_transform: [7] },
      /^target_modules selects no module of this base model, which has model\.layers\.0\./,
    ],
    [{ exclude_modules: 1 }, /^exclude_modules must be a regular expression or a list/],
    [{ exclude_modules: '.*' }, /^target_modules selects no module/],
    [{ fan_in_fan_out: true }, /^fan_in_fan_out is not supported/],
    [{ an_option_of_tomorrow: 1 }, /^an_option_of_tomorrow is not supported/],
    [{ init_lora_weights: 'pissa' }, /^init_lora_weights "pissa" may change the base weights/],
    [{ r: 0 }, /^r must be a whole number from 1 to 256, got 0/],
    [{ r: 257 }, /^r must be a whole number from 1 to 256, got 257/],
    [{ r: '8' }, /^r must be a whole number from 1 to 256, got "8"/],
    [{ lora_alpha: 0 }, /^lora_alpha must be a number from 1e-30 to 1000000, got 0/],
    [{ lora_alpha: 1e-50 }, /^lora_alpha must be a number from 1e-30 to 1000000, got 1e-50/],
    [{ lora_alpha: null }, /^lora_alpha must be a number from 1e-30 to 1000000, got null/],
    [{ target_modules: [] }, /^target_modules must be "all-linear", a regular expression, or a list .* got \[\]/],
    [{ target_modules: ['lm_head'] }, /^target_modules selects no module/],
    [{ target_modules: '(?:q_proj' }, /^target_modules has an invalid expression, "\(\?:q_proj"/],
    [{ target_modules: '((\\w|\\.)+)+x' }, /^the expressions of target_modules take longer than 2 s to match/],
  ])('with %j is refused by name', (changes, reason) => {
    expect(refusal(withConfig(changes))).toMatch(reason);
  });

  test.each([
    ['an_option', /^an_option is not supported/],
    ['target_modules', /^target_modules must be/],
    ['peft_type', /^peft_type must be/],
  ])('with a value that is nested deeper than a stack goes is refused by name (%s)', (option, reason) => {
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
    const kept = Object.entries(JSON.parse(config) as object).filter(([name]) => name !== option);
    const text = `{${JSON.stringify(Object.fromEntries(kept)).slice(1, -1)}, "${option}": ${deep}}`;
    expect(refusal({ config: text })).toMatch(reason);
  });

  test.each(['', '[]', 'null', '{"r": ', '"LORA"'])('with the configuration %j is refused', (text) => {
    expect(refusal({ config: text })).toMatch(/^adapter_config\.json (is not JSON|must hold one object)/);
  });

  test('of another base model is refused, naming the tensor and both shapes', () => {
    const wider = withTensors(([first, ...rest]) => [
      { ...first!, dims: [2, 64], data: new Float32Array(128) },
      ...rest,
    ]);
    expect(refusal(wider)).toBe(
      'tensor base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight is [2, 64], expected [2, 32] for this base model and r 2',
    );
    const deeper = withTensors((all) => [...all, { ...all[0]!, name: all[0]!.name.replace('layers.0', 'layers.2') }]);
    expect(refusal(deeper)).toMatch(/^tensor "base_model\.model\.model\.layers\.2\..* is not part of a LoRA adapter/);
  });

  test.each<[string, () => { config?: string; weightsPath?: string }, RegExp]>([
    [
      'lacks a tensor',
      () => withTensors((all) => all.slice(1)),
      /layers\.0\.self_attn\.q_proj\.lora_A\.weight is missing; expected \[2, 32\]/,
    ],
    ['has another rank than its configuration', () => withConfig({ r: 4 }), /is \[2, 32\], expected \[4, 32\]/],
    [
      'has tensors of other layers than its configuration',
      () => withConfig({ target_modules: ['q_proj'] }),
      /down_proj.* is not part of .* on q;/,
    ],
    [
      'is not finite',
      () => withTensors(([first, ...rest]) => [{ ...first!, data: first!.data.map(() => Number.NaN) }, ...rest]),
      /lora_A\.weight has values that are not finite/,
    ],
    [
      'is not finite at its scale',
      () => ({
        ...withTensors(([a, b, ...rest]) => [a!, { ...b!, data: b!.data.map(() => 1e38) }, ...rest]),
        ...withConfig({ lora_alpha: 1e6 }),
      }),
      /lora_B\.weight has values that are not finite once they are multiplied by lora_alpha \/ r/,
    ],
    [
      'is a pickle',
      () => {
        const path = join(scratch, 'pickle.bin');
        writeFileSync(path, Buffer.concat([Buffer.from([0x80, 2]), Buffer.from('ctorch\n_rebuild\n'.repeat(9))]));
        return { weightsPath: path };
      },
      /^adapter_model\.safetensors: its header of \d+ bytes does not fit/,
    ],
  ])('that %s is refused', (_name, fields, reason) => {
    expect(refusal(fields())).toMatch(reason);
  });
});

test('a name of two linear layers stays one, with ranks of its own under paths', () => {
  const { lfm2 } = TINY_ARCHITECTURES;
  const shapeOf = (options: object) =>
    importedShape(lfm2, readPeftConfig(JSON.stringify({ peft_type: 'LORA', r: 2, lora_alpha: 4, ...options })));
  const both = shapeOf({ target_modules: ['out_proj'], rank_pattern: { 'conv.out_proj': 3 } });
  expect(both.lora).toMatchObject({
    targets: ['out', 'convOut'],
    rankPattern: { 'layers.2.self_attn.out_proj': 2, out_proj: 3 },
  });
  // The convolutions' are zero.
  const one = shapeOf({ target_modules: ['self_attn.out_proj'] });
  expect(one.lora.targets).toEqual(['out', 'convOut']);
  expect([one.has(2, 'out'), one.has(0, 'convOut')]).toEqual([true, false]);
});

test('modules that a model has not are refused with those that it has', () => {
  const convolution = { size: 3, layers: [] };
  const config = readPeftConfig(JSON.stringify({ peft_type: 'LORA', r: 2, lora_alpha: 4, target_modules: ['o_proj'] }));
  expect(() => importedShape({ ...TINY_ARCHITECTURES.lfm2, convolution }, config)).toThrow(
    'which has model.layers.0.self_attn.q_proj, model.layers.0.self_attn.k_proj, model.layers.0.self_attn.v_proj, model.layers.0.self_attn.out_proj, model.layers.0.feed_forward.w1,',
  );
});
