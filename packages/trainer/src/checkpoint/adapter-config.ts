/** adapter_config.json of a checkpoint, with PEFT's names. */
import {
  ALL_LINEAR_NAMES,
  type Architecture,
  type LoraConfig,
  type ModulePattern,
  parentModule,
  targetModule,
  targetModules,
} from '@trainyard/transformer';

/** Members that decide the adapter's results. */
interface PeftShape {
  readonly r: number;
  readonly lora_alpha: number;
  readonly target_modules: readonly string[];
  readonly use_rslora: boolean;
  readonly rank_pattern: ModulePattern;
  readonly alpha_pattern: ModulePattern;
}

/** Expression for paths of modules. */
const EXPERT_MODULES = String.raw`.*\.experts\..*`;

/** Meaning of absent members, and of null. */
const ABSENT = { use_rslora: false, rank_pattern: {}, alpha_pattern: {} };

function peftShape(lora: LoraConfig): PeftShape {
  const { rank, alpha, targets, isRankStabilised = false, rankPattern = {}, alphaPattern = {} } = lora;
  return {
    r: rank,
    lora_alpha: alpha,
    target_modules: targetModules(targets),
    use_rslora: isRankStabilised,
    rank_pattern: rankPattern,
    alpha_pattern: alphaPattern,
  };
}

/** Members that differ from those of `lora`, as JSON: `found` in the configuration, `expected` for the shape. */
export function shapeDifferences(
  config: Readonly<Record<string, unknown>>,
  lora: LoraConfig,
): { readonly key: string; readonly found: unknown; readonly expected: unknown }[] {
  const absent: Readonly<Record<string, unknown>> = ABSENT;
  return Object.entries(peftShape(lora)).flatMap(([key, expected]) => {
    const found = config[key] ?? absent[key];
    return JSON.stringify(found) === JSON.stringify(expected) ? [] : [{ key, found, expected }];
  });
}

/**
 * Neutral options are left out, as in files from before they were supported. For PEFT, matrices of experts have the
 * names of a dense feed-forward.
 */
export function peftConfig(lora: LoraConfig, { experts }: Pick<Architecture, 'experts'>): object {
  const { r, lora_alpha, target_modules, ...options } = peftShape(lora);
  const namesExperts = experts !== null && lora.targets.some((linear) => parentModule(linear) === 'mlp');
  return {
    peft_type: 'LORA',
    task_type: 'CAUSAL_LM',
    r,
    lora_alpha,
    lora_dropout: 0,
    target_modules,
    ...(namesExperts ? { exclude_modules: EXPERT_MODULES } : {}),
    bias: 'none',
    ...Object.fromEntries(Object.entries(options).filter(([, value]) => !isNeutral(value))),
    base_model_name_or_path: null,
    inference_mode: true,
  };
}

/** Everything that decides the modules' scales, as metadata of the weights. Ranks show in the tensors. */
export function scaleMetadata(lora: LoraConfig): Record<string, string> {
  const { lora_alpha, use_rslora, alpha_pattern } = peftShape(lora);
  const options = Object.entries({ use_rslora, alpha_pattern }).filter(([, value]) => !isNeutral(value));
  return {
    lora_alpha: String(lora_alpha),
    ...Object.fromEntries(options.map(([name, value]) => [name, JSON.stringify(value)])),
  };
}

/** @returns null if the configuration is not a checkpoint's */
export function loraOfCheckpoint(adapterConfig: string): Omit<LoraConfig, 'initSeed'> | null {
  let config: Partial<Record<keyof PeftShape, unknown>> | null;
  try {
    config = JSON.parse(adapterConfig) as typeof config;
  } catch {
    return null;
  }
  const { r: rank, lora_alpha: alpha, target_modules: modules, use_rslora, rank_pattern, alpha_pattern } = config ?? {};
  if (typeof rank !== 'number' || typeof alpha !== 'number' || !Array.isArray(modules)) return null;
  const targets = ALL_LINEAR_NAMES.filter((name) => modules.includes(targetModule(name)));
  if (targets.length === 0) return null;
  return {
    rank,
    alpha,
    targets,
    ...(use_rslora === true ? { isRankStabilised: true } : {}),
    ...(isPattern(rank_pattern) ? { rankPattern: rank_pattern } : {}),
    ...(isPattern(alpha_pattern) ? { alphaPattern: alpha_pattern } : {}),
  };
}

const isNeutral = (value: boolean | ModulePattern): boolean =>
  typeof value === 'boolean' ? !value : Object.keys(value).length === 0;

function isPattern(value: unknown): value is ModulePattern {
  return typeof value === 'object' && value !== null && Object.values(value).every((one) => typeof one === 'number');
}
