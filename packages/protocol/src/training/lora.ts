import Type, { type Static, type TSchema, type TSchemaOptions } from 'typebox';
import { LEAST_LORA_ALPHA } from '../fields/lora-alpha.ts';
import { nullable, optionalNullable } from '../shape/schema.ts';

/** Linear layers of a block that can have adapters, with PEFT's names; a base model has some of them. */
const LORA_TARGETS = [
  'q_proj',
  'k_proj',
  'v_proj',
  'qkv_proj',
  'in_proj',
  'in_proj_qkv',
  'in_proj_z',
  'in_proj_b',
  'in_proj_a',
  'o_proj',
  'out_proj',
  'gate_proj',
  'up_proj',
  'gate_up_proj',
  'down_proj',
  'w1',
  'w3',
  'w2',
] as const;

/** Larger ranks cost more than they gain: the hidden size of the default model is 576. */
const MAX_RANK = 256;
const MAX_ALPHA = 4096;
const MAX_SEED = 2 ** 32 - 1;
/** More than the linear layers of a model of 140 blocks. */
const MAX_PATTERN_KEYS = 1000;

/** All linear layers of the base model's blocks, without the output layer, as in PEFT. */
export const ALL_LINEAR = 'all-linear';

/** The declarations of the SDK write out each type, which they cannot for the library's records. */
const numbersByModule = (value: TSchema, options: TSchemaOptions) =>
  Type.Unsafe<Record<string, number>>(Type.Record(Type.String(), value, options));

/** `lora` of a model's registration. An extension of this service, so an unknown key is a mistake. */
export const LoraRequestSchema = Type.Object(
  {
    rank: optionalNullable(Type.Integer({ minimum: 1, maximum: MAX_RANK })),
    alpha: optionalNullable(Type.Number({ minimum: LEAST_LORA_ALPHA, maximum: MAX_ALPHA })),
    targets: optionalNullable(
      Type.Union([
        Type.Array(Type.Enum([...LORA_TARGETS]), { minItems: 1, maxItems: LORA_TARGETS.length }),
        Type.Enum([ALL_LINEAR, ...LORA_TARGETS]),
      ]),
    ),
    use_rslora: optionalNullable(Type.Boolean()),
    rank_pattern: optionalNullable(
      numbersByModule(Type.Integer({ minimum: 1, maximum: MAX_RANK }), { maxProperties: MAX_PATTERN_KEYS }),
    ),
    alpha_pattern: optionalNullable(
      numbersByModule(Type.Number({ minimum: LEAST_LORA_ALPHA, maximum: MAX_ALPHA }), {
        maxProperties: MAX_PATTERN_KEYS,
      }),
    ),
    modules_to_save: optionalNullable(Type.Array(Type.String())),
    experts: optionalNullable(Type.Boolean()),
    dropout: optionalNullable(Type.Number({ minimum: 0, maximum: 0 })),
    init_seed: optionalNullable(Type.Integer({ minimum: 0, maximum: MAX_SEED })),
    init_from: optionalNullable(Type.String({ minLength: 1 })),
  },
  { title: 'LoraRequest', additionalProperties: false },
);
export type LoraRequest = Static<typeof LoraRequestSchema>;

/** Ranks and scales by module; keys are names and paths of modules. */
export const LoraModuleFields = {
  use_rslora: Type.Boolean({ description: 'The scale is alpha / √rank.' }),
  rank_pattern: numbersByModule(Type.Integer(), {
    description: "Ranks by layer (`q_proj`) and by module (`layers.3.self_attn.q_proj`), as in PEFT's configuration.",
  }),
  alpha_pattern: numbersByModule(Type.Number(), { description: 'Alphas, likewise.' }),
};

export const LoraObjectSchema = Type.Object(
  {
    rank: Type.Integer(),
    alpha: Type.Number({
      description: 'The adapter is multiplied by alpha / rank; with `use_rslora` by alpha / √rank.',
    }),
    targets: Type.Array(Type.String()),
    ...LoraModuleFields,
    dropout: Type.Number({ description: 'Always 0: probability ratios need a deterministic policy.' }),
    init_seed: Type.Integer({ description: 'Seed of the random half of a new adapter; the other half is 0.' }),
    init_from: nullable(Type.String(), {
      description: 'Checkpoint or adapter that step 0 was initialised from; null means the unchanged base model.',
    }),
  },
  { title: 'LoraObject' },
);
export type LoraObject = Static<typeof LoraObjectSchema>;
