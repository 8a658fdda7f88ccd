import {
  type Architecture,
  type LinearName,
  linearNames,
  linearsIn,
  type LoraConfig,
  modulePath,
  modulePattern,
  type ModulePattern,
  type ModuleShape,
  type PatternEntry,
  targetModule,
} from '@trainyard/transformer';
import { TrainerError } from '../contract/errors.ts';
import { peftModuleName } from '../model/adapter-tensors.ts';
import type { PeftConfig } from './peft-config.ts';

export interface ImportedShape {
  readonly lora: LoraConfig;
  /** True if the file has the module's tensors; other modules of a target are zero in both halves. */
  readonly has: (layer: number, linear: LinearName) => boolean;
}

interface AdaptedModule {
  readonly layer: number;
  readonly linear: LinearName;
  readonly shape: ModuleShape;
}

/**
 * Shape of a PEFT adapter on this model. Expressions become names and paths of modules, with the same result.
 *
 * @throws {TrainerError} `trainer.adapter_invalid`
 */
export function importedShape(architecture: Architecture, config: PeftConfig): ImportedShape {
  const names = linearNames(architecture);
  const modules = Array.from({ length: architecture.numLayers }, (_, layer) =>
    linearsIn(architecture, layer).map((linear) => ({ layer, linear, name: peftModuleName(layer, linear) })),
  ).flat();
  const shapes = config.shapesOf(modules.map(({ name }) => name));
  const adapted = modules.flatMap((module, index): AdaptedModule[] => {
    const shape = shapes[index] ?? null;
    return shape === null ? [] : [{ ...module, shape }];
  });
  if (adapted.length === 0) {
    // A model with convolutions need not have all kinds of layers.
    const known = names.flatMap((one) => modules.find(({ linear }) => linear === one)?.name ?? []);
    throw new TrainerError(
      'trainer.adapter_invalid',
      `target_modules selects no module of this base model, which has ${known.join(', ')} and so on for each layer`,
    );
  }
  const { rank, alpha } = config.shape;
  const rankPattern = patternOf(adapted, 'rank', rank);
  const alphaPattern = patternOf(adapted, 'alpha', alpha);
  const targets = new Set(adapted.map(({ linear }) => targetModule(linear)));
  const paths = new Set(adapted.map(({ layer, linear }) => modulePath(layer, linear)));
  return {
    lora: {
      rank,
      alpha,
      targets: names.filter((name) => targets.has(targetModule(name))),
      initSeed: 0,
      ...(config.isRankStabilised ? { isRankStabilised: true } : {}),
      ...(rankPattern === null ? {} : { rankPattern }),
      ...(alphaPattern === null ? {} : { alphaPattern }),
    },
    has: (layer, linear) => paths.has(modulePath(layer, linear)),
  };
}

/**
 * The most frequent value of linear layers of one name under it (of equally frequent ones the default), others under
 * their paths. Null if all have the default.
 */
function patternOf(
  adapted: readonly AdaptedModule[],
  member: 'rank' | 'alpha',
  byDefault: number,
): ModulePattern | null {
  const entries: PatternEntry[] = [];
  for (const own of Map.groupBy(adapted, ({ linear }) => targetModule(linear)).values()) {
    const counts = Map.groupBy([byDefault, ...own.map(({ shape }) => shape[member])], (value) => value);
    // The default, which comes first, counts once more than its modules.
    const [usual] = [...counts].reduce((most, one) => (one[1].length > most[1].length ? one : most));
    if (usual !== byDefault) entries.push({ layer: null, linear: own[0]!.linear, value: usual });
    for (const { layer, linear, shape } of own)
      if (shape[member] !== usual) entries.push({ layer, linear, value: shape[member] });
  }
  return entries.length === 0 ? null : modulePattern(entries);
}
