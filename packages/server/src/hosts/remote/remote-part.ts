import type { BlobLocation } from '@trainyard/store';

import type { RemoteTrainerOptions } from '../process/messages.ts';

/** The environment variable of the examination host that has the key of a trainer elsewhere. */
export const EXAMINED_TRAINER_KEY = 'TRAINYARD_EXAMINED_TRAINER_KEY';

/** A part of the service on another machine, as the examination host is told of it. */
export type RemotePart =
  | { readonly kind: 'bucket'; readonly location: BlobLocation }
  | { readonly kind: 'vllm'; readonly url: string; readonly model: string | null }
  | { readonly kind: 'trainer'; readonly remote: Pick<RemoteTrainerOptions, 'url' | 'profile' | 'baseModel'> };
