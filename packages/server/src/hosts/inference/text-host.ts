/**
 * Main module of the text host: templates, regular expressions and the text of replies, over the back end
 * named in its options.
 */
import { hostOptions } from '../process/host-main.ts';
import type { EngineHostMessage } from '../process/messages.ts';
import { openGuest, type TextHostOptions } from './open-guest.ts';
import { serveText } from './serve-text.ts';
import { TOKEN_DRIVERS } from './token-drivers.ts';

const log = (line: string): void => void process.send?.({ kind: 'log', line } satisfies EngineHostMessage);
await serveText((turns) => openGuest(hostOptions<TextHostOptions>(), TOKEN_DRIVERS, { turns, log }));
