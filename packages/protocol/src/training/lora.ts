import Type, { type Static } from 'typebox';
import { LEAST_LORA_ALPHA } from '../fields/lora-alpha.ts';
import { nullable, optionalNullable } from '../shape/schema.ts';

/** Linear layers of a block that can have adapters, with PEFT's names. */
export const LORA_TARGETS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] as const;
export type LoraTarget = (typeof LORA_TARGETS)[number];

/** Larger ranks cost more than they gain: the hidden size of the default model is 576. */
const MAX_RANK = 256;
const MAX_SEED = 2 ** 32 - 1;

/** `lora` of a model's registration. An extension of this service, so an unknown key is a mistake. */
export const LoraRequestSchema = Type.Object(
  {
    rank: optionalNullable(Type.Integer({ minimum: 1, maximum: MAX_RANK })),
    alpha: optionalNullable(Type.Number({ minimum: LEAST_LORA_ALPHA, maximum: 4096 })),
    targets: optionalNullable(Type.Array(Type.Enum([...LORA_TARGETS]), { minItems: 1, maxItems: LORA_TARGETS.length })),
    dropout: optionalNullable(Type.Number({ minimum: 0, maximum: 0 })),
    init_seed: optionalNullable(Type.Integer({ minimum: 0, maximum: MAX_SEED })),
    init_from: optionalNullable(Type.String({ minLength: 1 })),
  },
  { title: 'LoraRequest', additionalProperties: false },
);
export type LoraRequest = Static<typeof LoraRequestSchema>;

export const LoraObjectSchema = Type.Object(
  {
    rank: Type.Integer(),
    alpha: Type.Number({ description: 'The adapter is multiplied by alpha / rank.' }),
    targets: Type.Array(Type.String()),
    dropout: Type.Number({ description: 'Always 0: probability ratios need a deterministic policy.' }),
    init_seed: Type.Integer({ description: 'Seed of the random half of a new adapter; the other half is 0.' }),
    init_from: nullable(Type.String(), {
      description: 'Checkpoint or adapter that step 0 was initialised from; null means the unchanged base model.',
    }),
  },
  { title: 'LoraObject' },
);
export type LoraObject = Static<typeof LoraObjectSchema>;
