import Type, { type Static } from 'typebox';

import { NAME_PATTERN } from '../fields/name-pattern.ts';
import { optionalNullable } from '../shape/schema.ts';

/** POST /v1/load_lora_adapter and /v1/unload_lora_adapter: an imported adapter under a name, as in vLLM. */

/** Project of these names. */
export const LORA_ADAPTERS_PROJECT = 'lora-adapters';

const LoraName = Type.String({
  minLength: 1,
  maxLength: 128,
  pattern: NAME_PATTERN,
  description: 'Name to use as `model` of requests.',
});

export const LoadLoraAdapterRequestSchema = Type.Object(
  {
    lora_name: LoraName,
    lora_path: Type.String({
      minLength: 1,
      description:
        'Name of an imported adapter, `adapter:ID`. Paths are refused: upload files through `/v1/preview/adapters`.',
    }),
    load_inplace: Type.Optional(
      Type.Boolean({
        description:
          'True assigns a name that is already used to this adapter. Running requests keep the previous one. Default false.',
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
