import { LoadLoraAdapterRequestSchema, UnloadLoraAdapterRequestSchema } from '../../service/lora-adapter.ts';
import { BODY, KEY, type Operation, WRITES } from './operation-parts.ts';

/** Adapters served under a name. */
export const LORA_ADAPTER_OPERATIONS: readonly Operation[] = [
  {
    id: 'loadLoraAdapter',
    method: 'post',
    paths: ['/v1/load_lora_adapter'],
    scope: 'training',
    tag: 'Inference',
    summary: 'Serve an imported adapter under a name',
    description:
      'Registers a model in the project `lora-adapters` with the adapter as step 0, like a registration with `lora.init_from`. Import the adapter first through `/v1/preview/adapters`. File paths and names of a model hub are refused.',
    body: LoadLoraAdapterRequestSchema,
    answer: { mediaType: 'text/plain' },
    faults: [...KEY, ...BODY, ...WRITES, 'request.not_found', 'request.conflict', 'request.unsupported'],
  },
  {
    id: 'unloadLoraAdapter',
    method: 'post',
    paths: ['/v1/unload_lora_adapter'],
    scope: 'training',
    tag: 'Inference',
    summary: 'Remove the name of an adapter',
    description:
      'Works only for names created by loading that were not trained since. The imported adapter is kept, and running requests finish with it.',
    body: UnloadLoraAdapterRequestSchema,
    answer: { mediaType: 'text/plain' },
    faults: [...KEY, ...BODY, ...WRITES, 'request.not_found', 'request.conflict', 'request.unsupported'],
  },
];
