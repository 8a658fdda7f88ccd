import Type, { type Static } from 'typebox';

import { NAME_PATTERN, optionalNullable } from '../shape/schema.ts';

/** POST /v1/load_lora_adapter and /v1/unload_lora_adapter: an imported adapter under a name, as in vLLM. */

/** Project of these names. */
export const LORA_ADAPTERS_PROJECT = 'lora-adapters';

const LoraName = Type.String({
  minLength: 1,
  maxLength: 128,
  pattern: NAME_PATTERN,
  description: 'What `model` of a chat calls it.',
});

export const LoadLoraAdapterRequestSchema = Type.Object(
  {
    lora_name: LoraName,
    lora_path: Type.String({
      minLength: 1,
      description:
        'The name of an imported adapter, `adapter:ID`. No path: files come in through `/v1/preview/adapters`.',
    }),
    load_inplace: Type.Optional(
      Type.Boolean({
        description:
          'True lets a name that is taken stand for this adapter from now on; what is running keeps its own. Default false.',
      }),
    ),
  },
  { title: 'LoadLoraAdapterRequest' },
);
export type LoadLoraAdapterRequest = Static<typeof LoadLoraAdapterRequestSchema>;

export const UnloadLoraAdapterRequestSchema = Type.Object(
  {
    lora_name: LoraName,
    lora_int_id: optionalNullable(Type.Integer({ description: 'Has no effect: names are unique.' })),
  },
  { title: 'UnloadLoraAdapterRequest' },
);
export type UnloadLoraAdapterRequest = Static<typeof UnloadLoraAdapterRequestSchema>;
