import { HOSTED } from './hosted.ts';
import type { TinkerProfile } from './tinker-profile.ts';

/** radixark/miles (Megatron and SGLang): the hosted dialect with its own keys. Untested: from its documentation. */
export const MILES: TinkerProfile = { ...HOSTED, name: 'miles', wire: 'probe', keyPrefix: null };
