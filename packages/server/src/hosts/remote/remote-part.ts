import type { BlobLocation } from '@trainyard/store';

import type { RemoteTrainerOptions } from '../process/messages.ts';

/** Environment variable of the examination host with the key of a remote trainer. */
export const EXAMINED_TRAINER_KEY = 'TRAINYARD_EXAMINED_TRAINER_KEY';

export type RemotePart =
  | { readonly kind: 'bucket'; readonly location: BlobLocation }
  | { readonly kind: 'vllm'; readonly url: string; readonly model: string | null }
  | { readonly kind: 'trainer'; readonly remote: Pick<RemoteTrainerOptions, 'url' | 'profile' | 'baseModel'> };
